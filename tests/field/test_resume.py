"""FR-01, FR-03, FR-04: a run that is killed, a resume with replicates, two runs at once."""

from __future__ import annotations

import random
import signal
import subprocess
import time
from bisect import bisect_right
from collections import Counter
from math import comb
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from .conftest import Lab

SLOW = "sleep 0.02\n"
KILLS, UNITS = 100, 700


# A unit passes in some of its replicates.
REPLICATES = """sleep 0.02
n=${FAIRTRIAL_UNIT#u}
case $FAIRTRIAL_ARM in A) m=2;; *) m=3;; esac
if [ $(((n + FAIRTRIAL_REPLICATE) % 5)) -lt $m ]; then p=true; else p=false; fi
printf '{"v":1,"passed":%s,"usd":0.001}\\n' "$p"
"""


def _body() -> str:
    from textwrap import dedent

    return SLOW + dedent(
        """\
        n=${FAIRTRIAL_UNIT#u}
        case $FAIRTRIAL_ARM in A) m=2;; *) m=3;; esac
        if [ $((n * 7 % 5)) -lt $m ]; then p=true; else p=false; fi
        printf '{"v":1,"passed":%s,"usd":0.001}\\n' "$p"
        """
    )


def _check_finished(lab: Lab, planned: int) -> None:
    """Asserts one outcome a slot, and that only what was in flight ran again."""
    decisions = lab.events("decision")
    assert planned == len(decisions) == len({d["position"] for d in decisions})
    attempts, starts = Counter[str](), lab.starts()
    slots = {d["position"]: f"{d['arm']} {d['unit']} {d['replicate']}" for d in decisions}
    for attempt in lab.events("attempt"):
        attempts[slots[attempt["position"]]] += 1
    again = {slots[end["position"]] for end in lab.events("attempt_end")}
    assert set() == {slot for slot, count in attempts.items() if count > 1} - again
    # An attempt is on record before its driver starts: never more starts than attempts.
    assert set() == {slot for slot, count in starts.items() if count > attempts[slot]}
    assert set(attempts) == set(starts)


@pytest.mark.slow
def test_killed_run_resumes_with_every_durable_outcome(lab: Lab) -> None:
    """100 kills amid attempts, in each store: nothing durable is lost, changed or doubled."""
    moments = random.Random(20261129)
    lab.write(units=UNITS, clusters=30, body=_body())
    lab.register()
    before, sizes = lab.stored(), list[int]()
    for _ in range(KILLS):
        durable = _kill_amid_attempts(lab, moments.uniform(0.0, 0.15))
        after = lab.stored()
        assert before == durable[: len(before)]
        assert durable == after[: len(durable)]
        before = after
        sizes.append(len(after))
    assert "interrupted" == lab.json("status")["state"]
    lab.call("run", "--concurrency", "16")
    assert before == lab.stored()[: len(before)]
    assert _kills_that_lost(lab, sizes) > KILLS / 2
    _check_finished(lab, 2 * UNITS)
    assert lab.json("replay")["record"] == "intact"


def _kill_amid_attempts(lab: Lab, delay: float) -> list[bytes]:
    """Kills a run some time after its first attempt; returns what was durable just before."""
    starts = lab.folder / "starts.txt"
    size = starts.stat().st_size if starts.exists() else 0
    process = lab.start(
        "run", "--concurrency", "4", stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    )
    deadline = time.monotonic() + 60
    while not starts.exists() or starts.stat().st_size == size:
        assert process.poll() is None, "the run ended before its first attempt"
        assert time.monotonic() < deadline, "a minute passed without an attempt"
        time.sleep(0.002)
    time.sleep(delay)
    durable = lab.stored()
    assert process.poll() is None, "the run was over before the kill: plan more units"
    process.kill()
    process.wait(timeout=60)
    return durable


def _kills_that_lost(lab: Lab, sizes: list[int]) -> int:
    """Returns after how many kills the next session closed attempts as lost."""
    lost = [
        entry["seq"]
        for entry in lab.entries()
        if entry["event"]["kind"] == "attempt_end/1" and entry["event"]["status"] == "lost"
    ]
    return len({bisect_right(sizes, seq) for seq in lost})


@pytest.mark.slow
def test_resume_with_replicates_runs_only_missing_ones(lab: Lab) -> None:
    """FR-03: exactly the missing (unit, arm, replicate) slots run; pass@2 counts all four."""
    lab.write(units=25, repeats=4, body=REPLICATES, reducer=", k: 2")
    path = lab.folder / "protocol.yaml"
    path.write_text(path.read_text().replace("type: binary", "type: pass_at_k"))
    lab.register()
    process = lab.start("run", "--concurrency", "4")
    lab.wait_for(90, process)
    process.send_signal(signal.SIGINT)
    process.communicate(timeout=60)
    assert 130 == process.returncode
    assert "interrupted" == lab.json("status")["state"]
    lab.call("run", "--concurrency", "4")
    decisions = lab.events("decision")
    replicates = Counter((d["unit"], d["arm"]) for d in decisions)
    assert {4} == set(replicates.values())
    assert 200 == len({(d["unit"], d["arm"], d["replicate"]) for d in decisions})
    assert {1} == set(lab.starts().values())
    endpoint = lab.json("result")["comparisons"][0]["endpoints"][0]
    assert endpoint["arms"] == pytest.approx({"A": _pass_at_2(2), "B": _pass_at_2(3)})


def _pass_at_2(most: int) -> float:
    """Returns pass@2 over the 25 units from 4 replicates, by the definition and by counting."""
    solved = [sum((n + r) % 5 < most for r in range(1, 5)) for n in range(25)]
    return sum(1 - comb(4 - count, 2) / comb(4, 2) for count in solved) / len(solved)


@pytest.mark.slow
def test_two_runs_at_once_never_share_a_slot(lab: Lab) -> None:
    """FR-04: the second run says who runs and stops with a status of its own; 10 repeats."""
    go = lab.folder / "go"
    # However late the second one starts, the first is still at its first attempts.
    lab.write(units=20, body=f"while [ ! -e '{go}' ]; do sleep 0.01; done\n{_body()}")
    text = (lab.folder / "protocol.yaml").read_text()
    for number in range(10):
        name = f"protocol{number}.yaml"
        (lab.folder / name).write_text(text.replace("id: lab", f"id: lab{number}"))
        for left in (lab.folder / "starts.txt", go):
            left.unlink(missing_ok=True)
        lab.call("register", name)
        runs = [lab.start("run", f"lab{number}", "--concurrency", "4") for _ in range(2)]
        _wait_for_one(runs)
        go.touch()
        ends = [run.communicate(timeout=60) for run in runs]
        codes = sorted(run.returncode for run in runs)
        assert [0, 7] == codes, ends
        busy = next(
            end[1].decode() for end, run in zip(ends, runs, strict=True) if run.returncode == 7
        )
        assert "pid" in busy
        assert "since" in busy
        assert {1} == set(lab.starts().values())
        assert 40 == sum(lab.starts().values())
    assert "intact" == lab.json("replay")["record"]


def _wait_for_one(runs: list[subprocess.Popen[bytes]]) -> None:
    deadline = time.monotonic() + 60
    while all(run.poll() is None for run in runs):
        assert time.monotonic() < deadline, "a minute passed and both run"
        time.sleep(0.005)


@pytest.mark.slow
def test_status_tells_an_interrupted_run_from_a_running_one(lab: Lab) -> None:
    """A killed run is interrupted, not running and not complete, before it is resumed."""
    lab.write(units=40, body=_body())
    lab.register()
    process = lab.start("run", "--concurrency", "2")
    lab.wait_for(5, process)
    assert "running" == lab.json("status")["state"]
    process.kill()
    process.communicate(timeout=60)
    status = lab.json("status")
    assert "interrupted" == status["state"]
    assert status["planned"] == status["settled"] + status["pending"] + status["not_run"]
