"""Whole sessions in a process of their own, with real programs, real signals and real kills."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import pytest

from fairtrial.custody.trial import open_trial
from fairtrial.engine.freezing import freeze
from fairtrial.engine.registering import load_protocol, register
from fairtrial.ledger.events import AttemptEnd, Decision, Event, Stop

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(sys.platform == "win32", reason="runs are for Linux and macOS"),
]
PROTOCOL = """
protocol: 1
id: e
about: {{hypothesis: B is better than A.}}
units: {{file: units.csv, id: unit, cluster: cluster, input: [unit]}}
design: {{pairing: paired, seed: 1}}
arms:
  A:
    driver: {{kind: command, argv: [./driver.sh, a], files: [driver.sh], reserve_usd: 0.12}}
    limits: {{seconds: {seconds}}}
  B:
    driver: {{kind: command, argv: [./driver.sh, b], files: [driver.sh], reserve_usd: 0.12}}
    limits: {{seconds: {seconds}}}
control: A
endpoints:
  - {{name: solved, role: primary, type: binary, value: passed, better: higher}}
missing:
  rules: {{failed: failure, timeout: failure, limit: failure, error: exclude_pair,
          ungraded: exclude_pair, replay_miss: exclude_pair, invalidated: exclude_pair}}
  limit: 0.1
analysis: {{estimand: unit_weighted}}
looks: {{at: [0.5, 1.0], icc: 0.05}}
decision: {{rule: superiority}}
power: {{effect: none, accept: {{not_assessed: a test, no_verdict_possible: a test}}}}
budget: {{usd: {usd}}}
require: {{commit: false}}
"""
RUNNER = """
import sys
from pathlib import Path
from fairtrial.engine.running import run_experiment
from fairtrial.custody.trial import open_trial
class Sink:
    def note(self, text): print(text, flush=True)
    def progress(self, progress): pass
with open_trial(Path(sys.argv[1]), actor="tester") as trial:
    report = run_experiment(trial, trial.experiment("e"), concurrency=4, sink=Sink(), settings={})
print("ended", report.reason, report.settled, flush=True)
"""
# Leaves a start marker, keeps a child in the background, answers after a while; how long may be
# said in a file that is no part of the driver.
DRIVER = """#!/bin/sh
echo "$1 $FAIRTRIAL_UNIT" >> started
sleep 600 >/dev/null 2>&1 &
echo $! >> children
sleep "$(cat pace 2>/dev/null || echo {seconds})"
echo '{{"v":1,"passed":true,"usd":0.1}}'
"""


class Bench:
    """A frozen experiment with a shell driver, and sessions of it in other processes."""

    def __init__(
        self,
        folder: Path,
        *,
        store: str = "db",
        units: int = 15,
        seconds: float = 0.05,
        limit: float = 60,
        usd: float = 100,
    ) -> None:
        self.folder, self.ledger = folder, folder / f"ledger.{store}"
        (folder / "protocol.yaml").write_text(PROTOCOL.format(seconds=limit, usd=usd))
        rows = "".join(f"u{n:02d},c{n % 5}\n" for n in range(units))
        (folder / "units.csv").write_text("unit,cluster\n" + rows)
        (folder / "driver.sh").write_text(DRIVER.format(seconds=seconds))
        (folder / "driver.sh").chmod(0o755)
        (folder / "runner.py").write_text(RUNNER)
        with open_trial(self.ledger, actor="tester", create=True) as trial:
            register(trial, load_protocol(folder / "protocol.yaml"))
            freeze(trial, trial.experiment("e"))

    def start(self) -> subprocess.Popen[str]:
        """Starts a session."""
        return subprocess.Popen(
            [sys.executable, "runner.py", str(self.ledger)],
            cwd=self.folder,
            stdout=subprocess.PIPE,
            text=True,
        )

    def finish(self, process: subprocess.Popen[str], timeout: float = 60) -> str:
        """Waits for the end of a session; returns its last line."""
        output, _ = process.communicate(timeout=timeout)
        assert 0 == process.returncode
        return output.splitlines()[-1]

    def started(self) -> list[str]:
        """Returns the start markers."""
        path = self.folder / "started"
        return path.read_text().splitlines() if path.exists() else []

    def children(self) -> list[int]:
        """Returns the living background children of all attempts."""
        path = self.folder / "children"
        pids = [int(line) for line in path.read_text().split()] if path.exists() else []
        return [pid for pid in pids if _is_alive(pid)]

    def events(self) -> list[Event]:
        """Returns all events on record."""
        with open_trial(self.ledger, read_only=True) as trial:
            return [event for _, event in trial.log.read()]

    def outcomes(self) -> dict[int, Decision]:
        """Returns the outcomes by position, each once."""
        found = [event for event in self.events() if isinstance(event, Decision)]
        assert len(found) == len({outcome.position for outcome in found})
        return {outcome.position: outcome for outcome in found}


def _is_alive(pid: int) -> bool:
    listed = subprocess.run(
        ["ps", "-o", "stat=", "-p", str(pid)], capture_output=True, text=True, check=False
    )
    return listed.stdout.strip()[:1] not in ("", "Z")


def _until(is_done: Callable[[], bool]) -> None:
    """Waits for another process; bounded."""
    end = time.monotonic() + 30
    while not is_done():
        assert time.monotonic() < end, "waited in vain"
        time.sleep(0.01)


def test_run_settles_every_slot_and_leaves_no_process(tmp_path: Path) -> None:
    """A whole run with both looks; what its programs left in the background is gone."""
    bench = Bench(tmp_path)
    assert "ended complete 30" == bench.finish(bench.start())
    assert {"ok": 30} == Counter(outcome.status for outcome in bench.outcomes().values())
    assert dict.fromkeys((f"{a} u{n:02d}" for a in "ab" for n in range(15)), 1) == Counter(
        bench.started()
    )
    assert [] == bench.children()


def test_deadline_of_a_unit_leaves_no_process(tmp_path: Path) -> None:
    """A program that overruns its limit is a timeout, and its child ends too (FR-16 a)."""
    bench = Bench(tmp_path, units=5, seconds=600, limit=0.3)
    assert "ended complete 10" == bench.finish(bench.start())
    assert {"timeout": 10} == Counter(outcome.status for outcome in bench.outcomes().values())
    assert [] == bench.children()


def test_ceiling_leaves_no_process(tmp_path: Path) -> None:
    """A stop for money ends like any other (FR-16 d, FR-21)."""
    bench = Bench(tmp_path, usd=1)
    assert "ended ceiling 8" == bench.finish(bench.start())
    assert {2} == set(Counter(outcome.unit for outcome in bench.outcomes().values()).values())
    assert [] == bench.children()


@pytest.mark.parametrize("store", ["db", "jsonl"])
def test_interrupt_once_lets_attempts_finish(tmp_path: Path, store: str) -> None:
    """SIGINT: nothing new starts, what is under way counts, the rest is run later (FR-18)."""
    bench = Bench(tmp_path, store=store, seconds=0.5)
    process = bench.start()
    _until(lambda: len(bench.started()) >= 8)
    process.send_signal(signal.SIGINT)
    assert bench.finish(process).startswith("ended interrupted")
    first = bench.outcomes()
    assert len(first) == len(bench.started()) < 30
    assert [] == bench.children()
    assert "ended complete 30" == bench.finish(bench.start())
    assert first == {position: bench.outcomes()[position] for position in first}
    assert {1} == set(Counter(bench.started()).values())


@pytest.mark.parametrize("signals", [[signal.SIGINT, signal.SIGINT], [signal.SIGTERM]])
def test_second_interrupt_or_sigterm_ends_attempts(
    tmp_path: Path, signals: list[signal.Signals]
) -> None:
    """In-flight attempts end as interrupted at once, outcomes stay, no process is left (FR-18)."""
    bench = Bench(tmp_path, units=15, seconds=0.1)
    process = bench.start()
    _until(lambda: len(bench.started()) >= 6)
    (tmp_path / "pace").write_text("600")
    # Those that are quick end, and four that take their time are in flight.
    _until(lambda: len(bench.started()) == len(bench.outcomes()) + 4)
    time.sleep(0.5)
    _until(lambda: len(bench.started()) == len(bench.outcomes()) + 4)
    begun = time.monotonic()
    for number in signals:
        process.send_signal(number)
        time.sleep(0.2)
    reason = "terminated" if signals == [signal.SIGTERM] else "interrupted"
    assert bench.finish(process).startswith(f"ended {reason}")
    assert time.monotonic() - begun < 6
    ends = [event for event in bench.events() if isinstance(event, AttemptEnd)]
    assert {"interrupted"} == {end.status for end in ends}
    assert len(bench.started()) == len(bench.outcomes()) + len(ends)
    assert [] == bench.children()
    (tmp_path / "pace").unlink()
    assert "ended complete 30" == bench.finish(bench.start())


@pytest.mark.parametrize("store", ["db", "jsonl"])
def test_kill_loses_no_outcome_and_repeats_none(tmp_path: Path, store: str) -> None:
    """SIGKILL at random moments: outcomes keep their content, only in-flight slots run again."""
    seed = int(os.environ.get("FAIRTRIAL_TEST_SEED", "20261129"))
    chance = random.Random(seed)
    bench = Bench(tmp_path, store=store, seconds=0.02)
    kept: dict[int, Decision] = {}
    for _ in range(5):
        process = bench.start()
        aim = len(bench.started()) + chance.randrange(1, 6)
        _until(lambda aim=aim, process=process: len(bench.started()) >= aim  # type: ignore[misc]  # bound now
               or process.poll() is not None)  # fmt: skip
        process.kill()
        process.communicate()
        found = bench.outcomes()
        assert kept == {position: found[position] for position in kept}, f"seed {seed}"
        kept = found
    assert "ended complete 30" == bench.finish(bench.start())
    events = bench.events()
    lost = [event for event in events if isinstance(event, AttemptEnd)]
    assert {"lost"} >= {end.status for end in lost}
    # Every start is an outcome, or an attempt that is on record as lost.
    assert len(bench.started()) <= 30 + len(lost)
    assert kept == {position: bench.outcomes()[position] for position in kept}
    assert ["complete"] == [event.reason for event in events if isinstance(event, Stop)]
    for pid in bench.children():
        os.kill(pid, signal.SIGKILL)
