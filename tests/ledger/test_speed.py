"""How long replay and append take, as ratios of CPU time in one process, with generous bounds.

`benchmarks/` measures; this only notices when a hot path has become another one. Measured when it
was written: replay 1.05 times json.loads, append 2.2 times; each bound is less than twice that.
"""

from __future__ import annotations

import json
import runpy
import time
import tracemalloc
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from fairtrial.ledger.opening import open_store
from fairtrial.ledger.replay import replay
from fairtrial.ledger.walk import Walk, walk_entries

ROOT = Path(__file__).parents[2]
BUILDING: dict[str, Any] = runpy.run_path(str(ROOT / "benchmarks/building.py"))
ENTRIES = 6_000


@pytest.fixture(scope="module")
def ledger(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Returns a ledger of many outcomes."""
    path = tmp_path_factory.mktemp("speed") / "ledger.jsonl"
    BUILDING["build"](path, ENTRIES)
    return path


def cpu_seconds(*works: Callable[[], object]) -> list[float]:
    """Returns the least CPU time of each work in three turns."""
    seconds: list[list[float]] = [[] for _ in works]
    for _ in range(3):
        for taken, work in zip(seconds, works, strict=True):
            begun = time.process_time()
            work()
            taken.append(time.process_time() - begun)
    return [min(taken) for taken in seconds]


def read_plainly(path: Path) -> None:
    """Reads all entries with json.loads."""
    for data in open_store(path, read_only=True).read():
        json.loads(data)


def replay_all(path: Path) -> None:
    """Replays a ledger that has to be intact."""
    plan = BUILDING["ThinPlan"](ENTRIES)
    report = replay(open_store(path, read_only=True), plan_of=lambda _: plan)
    assert ("intact", ENTRIES + 4) == (report.record, report.size)


@pytest.mark.slow
def test_replay_takes_little_more_than_reading(ledger: Path) -> None:
    """All checks of bytes and rules together cost at most twice json.loads of the entries."""
    plain, checked = cpu_seconds(lambda: read_plainly(ledger), lambda: replay_all(ledger))
    assert checked / plain < 2


@pytest.mark.slow
def test_append_takes_a_few_times_as_long_as_reading(ledger: Path, tmp_path: Path) -> None:
    """Encoding, rules, hashes and the store together cost at most 4 times json.loads an event."""
    logs = iter(range(100))

    def append() -> None:
        log = BUILDING["begin"](tmp_path / f"{next(logs)}.jsonl", BUILDING["ThinPlan"](ENTRIES))
        for start in range(1, ENTRIES, 1000):
            requests = [BUILDING["outcome"](place) for place in range(start, start + 1000)]
            log.append_many(requests, actor="bench")
        assert log.state.size == ENTRIES + 4
        log.close()

    plain, appended = cpu_seconds(lambda: read_plainly(ledger), append)
    assert appended / plain < 4


@pytest.mark.slow
def test_memory_of_replay_does_not_grow_with_the_entries(ledger: Path, tmp_path: Path) -> None:
    """Without slots to fold the peak is flat; with them each takes at most 40 bytes."""
    small, fewer = tmp_path / "small.jsonl", ENTRIES // 3
    BUILDING["build"](small, fewer)
    assert traced(ledger, slots=0).peak < 1.2 * traced(small, slots=0).peak
    grown = traced(ledger, slots=ENTRIES).held - traced(small, slots=fewer).held
    assert 20 < grown / (ENTRIES - fewer) < 40


class Memory(NamedTuple):
    """Bytes that one pass held at its end and at its worst."""

    held: int
    peak: int


def traced(path: Path, *, slots: int) -> Memory:
    """Returns what one pass over a ledger takes, with its rules where there are slots."""
    plan = BUILDING["ThinPlan"](slots) if slots else None
    walk_entries(Walk(lambda _: plan, ()), open_store(path, read_only=True))
    tracemalloc.start()
    walk = Walk(lambda _: plan, ())
    walk_entries(walk, open_store(path, read_only=True))
    memory = Memory(*tracemalloc.get_traced_memory())
    tracemalloc.stop()
    assert (len(walk.findings), walk.rules_stopped) == (0, slots == 0)
    return memory
