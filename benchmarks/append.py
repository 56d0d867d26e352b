"""Append, durable: group commit against one transaction an event, and batches against peers."""

from __future__ import annotations

import os
import sqlite3
import tempfile
from pathlib import Path

import sqlite_utils

from benchmarks.measuring import is_quick, rounds, say
from fairtrial.ledger.canonical import blob_of
from fairtrial.ledger.event_schemas import schemas_digest
from fairtrial.ledger.events import (
    Decision,
    Event,
    Freeze,
    FrozenArm,
    LookPlan,
    Open,
    Register,
    Rules,
    Start,
)
from fairtrial.ledger.log import Log
from fairtrial.ledger.opening import open_store

EVENTS = 2_000 if is_quick() else 20_000
ONE_BY_ONE = 100 if is_quick() else 500


class Plan:
    """A plan of many slots of one arm."""

    def __init__(self, size: int) -> None:
        self.units = [f"unit-{i:07d}" for i in range(size)]
        self.arms = ["A"] * size
        self.replicates = [1] * size


def ready_log(path: Path, slots: int) -> Log:
    """Returns a log with a live session and `slots` recorded slots to settle."""
    blob, plan = blob_of(b"benchmark"), Plan(slots)
    log = Log(open_store(path, create=True), plan_of=lambda _: plan)
    first = Open(format="fairtrial/1", tool="bench", schemas=schemas_digest(), origin="bench")
    log.append(first, actor="bench", ledger="0" * 32)
    rules = Rules(
        arms={}, attempts_max=1, retry_on=("error",), on_crossing="stop",
        on_under_run="inconclusive", anchor="none", signatures=(), primaries=("p",),
    )  # fmt: skip
    arm = FrozenArm(
        name="A", origin="recorded", identity=blob, metered=False, reserve_nanousd=0,
        repeatable=True,
    )  # fmt: skip
    begin: list[Event] = [
        Register(
            experiment="x", protocol=blob, resolved=blob, media="yaml", sections={}, files=blob
        ),
        Freeze(
            experiment="x", units=blob, plan=blob, files=blob, unit_count=slots, cluster_count=1,
            slot_count=slots, arms=(arm,), rules=rules,
            looks=(LookPlan(last=slots, clusters=1, units=slots, tests=()),),
        ),
        Start(
            experiment="x", number=1, nonce="n", tool="bench", host="h", environment=blob,
            settings={},
        ),
    ]  # fmt: skip
    for event in begin:
        log.append(event, actor="bench")
    return log


def outcome(position: int) -> Decision:
    """Returns the outcome of a slot, about 400 bytes."""
    return Decision(
        experiment="x", position=position, session=1, attempt=0, arm="A",
        unit=f"unit-{position - 1:07d}", replicate=1, status="ok", scores={"passed": 1.0},
        origin="recorded",
    )  # fmt: skip


def append_all(path: Path, *, events: int, batch: int) -> None:
    """Appends outcomes through the whole log: rules, hashes, chain, sync."""
    log = ready_log(path, events)
    for start in range(1, events + 1, batch):
        requests = [outcome(p) for p in range(start, min(start + batch, events + 1))]
        for done in log.append_many(requests, actor="bench"):
            assert not isinstance(done, Exception), done
    log.close()


def sqlite_utils_all(path: Path, *, events: int, batch: int) -> None:
    """Inserts rows of the same size with sqlite-utils, synced, no hash and no rule."""
    database = sqlite_utils.Database(path)
    database.execute("PRAGMA synchronous=FULL")
    body = "x" * 730
    for start in range(0, events, batch):
        rows = [{"seq": start + i, "leaf": "0" * 64, "entry": body} for i in range(batch)]
        database["entry"].insert_all(rows, pk="seq", batch_size=batch)
    database.close()


def raw_all(path: Path, *, events: int, batch: int) -> None:
    """Writes the same bytes to a file and syncs each batch: the limit of the medium."""
    with path.open("ab", buffering=0) as file:
        for _ in range(0, events, batch):
            file.write(b"x" * 730 * batch)
            os.fdatasync(file.fileno()) if hasattr(os, "fdatasync") else os.fsync(file.fileno())


def main() -> None:
    """Prints the ratios."""
    count = 3 if is_quick() else 5
    with tempfile.TemporaryDirectory() as folder:
        numbers = iter(range(10_000))

        def new(suffix: str) -> Path:
            return Path(folder) / f"{next(numbers)}{suffix}"

        for suffix, name in ((".db", "SQLite"), (".jsonl", "JSONL")):
            ours, utils, raw = rounds(
                lambda s=suffix: append_all(new(s), events=EVENTS, batch=100),
                lambda: sqlite_utils_all(new(".other"), events=EVENTS, batch=100),
                lambda: raw_all(new(".raw"), events=EVENTS, batch=100),
                count=count,
            )
            say(f"{name}, 100 a batch, against sqlite-utils insert_all", ours, utils, goal="2")
            say(f"{name}, 100 a batch, against raw write + fdatasync", ours, raw, goal="limit: 1")
            grouped, alone = rounds(
                lambda s=suffix: append_all(new(s), events=ONE_BY_ONE, batch=20),
                lambda s=suffix: append_all(new(s), events=ONE_BY_ONE, batch=1),
                count=count,
            )
            say(f"{name}, 20 a commit, against a commit an event", grouped, alone, goal="8")
    print_versions()


def print_versions() -> None:
    """Prints what the figures belong to."""
    import platform
    import sys

    sys.stdout.write(f"Python {platform.python_version()}, SQLite {sqlite3.sqlite_version}\n")


if __name__ == "__main__":
    main()
