"""A log of 200,000 decisions: status answers in seconds, and in bounded memory."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from fairtrial.custody.trial import Trial, open_trial
from fairtrial.ledger.canonical import blob_of
from fairtrial.ledger.events import (
    Decision,
    Event,
    Freeze,
    FrozenArm,
    LookPlan,
    LookTest,
    Register,
    Rules,
    Start,
    Stop,
)
from fairtrial.ledger.opening import side_folder
from fairtrial.protocols.plan import build_plan, plan_lines

DECISIONS = 200_000
ANY = blob_of(b"not read by status")


def _events(trial: Trial) -> list[Event]:
    """Returns the events of a finished run of two recorded arms, without its look."""
    names = [f"unit-{number:06d}" for number in range(DECISIONS // 2)]
    clusters = [f"c{number % 100}" for number in range(len(names))]
    plan = build_plan(names, clusters, {"A": 1, "B": 1}, seed=7)
    arms = tuple(
        FrozenArm(
            name=name,
            origin="recorded",
            identity=ANY,
            metered=False,
            reserve_nanousd=0,
            repeatable=True,
        )
        for name in "AB"
    )
    rules = Rules(
        arms={},
        attempts_max=1,
        retry_on=(),
        on_crossing="stop",
        on_under_run="inconclusive",
        anchor="none",
        signatures=(),
        primaries=("p",),
    )
    test = LookTest(
        comparison="b-a",
        endpoint="p",
        fraction=1.0,
        df=99.0,
        nominal_p=0.05,
        z=1.96,
        eligible=True,
    )
    freeze = Freeze(
        experiment="large",
        units=ANY,
        plan=trial.blobs.put(plan_lines(plan)),
        files=ANY,
        unit_count=len(names),
        cluster_count=100,
        slot_count=DECISIONS,
        arms=arms,
        rules=rules,
        looks=(LookPlan(last=DECISIONS, clusters=100, units=len(names), tests=(test,)),),
    )
    register = Register(
        experiment="large", protocol=ANY, resolved=ANY, media="yaml", sections={}, files=ANY
    )
    start = Start(
        experiment="large",
        number=1,
        nonce="n",
        tool="t",
        host="h",
        environment=ANY,
        settings={},
    )
    decisions = [
        Decision(
            experiment="large",
            position=slot.position,
            session=1,
            attempt=0,
            arm=slot.arm,
            unit=slot.unit,
            replicate=1,
            status="ok",
            scores={"passed": float(slot.position % 3 == 0)},
            origin="recorded",
        )
        for slot in plan.slots()
    ]
    stop = Stop(experiment="large", number=1, reason="complete")
    return [register, freeze, start, *decisions, stop]


# `ru_maxrss` of a child begins with what its parent held; the peak in /proc begins at its exec.
_STATUS = """
import re, runpy, sys
from pathlib import Path

peak, sys.argv = Path(sys.argv[1]), ["ledger", "status", "--json"]
try:
    runpy.run_module("fairtrial.cli", run_name="__main__")
finally:
    found = re.search(r"VmHWM:\\s+([0-9]+) kB", Path("/proc/self/status").read_text())
    peak.write_text(found[1])
"""


def _status(ledger: Path) -> tuple[float, float]:
    """Returns CPU seconds and MB of `ledger status`; the machine may be shared, so no wall time."""
    with (ledger.parent / "status.json").open("wb") as file:
        process = subprocess.Popen(
            [sys.executable, "-c", _STATUS, str(ledger.parent / "peak")],
            env={**os.environ, "FAIRTRIAL_LEDGER": str(ledger)},
            stdout=file,
            stderr=subprocess.DEVNULL,
        )
        _, code, usage = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(code)
    assert 0 == process.returncode
    found = json.loads((ledger.parent / "status.json").read_bytes())
    assert (DECISIONS, "look_due") == (found["settled"], found["state"])
    peak_kb = int((ledger.parent / "peak").read_text())
    return usage.ru_utime + usage.ru_stime, peak_kb / 1024


@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux", reason="/proc is where Linux tells the peak")
def test_status_of_200000_decisions_is_quick(tmp_path: Path) -> None:
    """Under 2 s with the cached projection, 10 s without, and under 500 MB either way."""
    ledger = tmp_path / "ledger.db"
    with open_trial(ledger, actor="tester", create=True) as trial:
        events = _events(trial)
        for start in range(0, len(events), 5000):
            for done in trial.log.append_many(events[start : start + 5000], actor="tester"):
                assert not isinstance(done, Exception), done
    warm, warm_mb = _status(ledger)
    shutil.rmtree(side_folder(ledger) / "cache")
    cold, cold_mb = _status(ledger)
    assert (warm < 2, cold < 10) == (True, True), f"{warm:.2f} s warm, {cold:.2f} s cold"
    assert max(warm_mb, cold_mb) < 500, f"{warm_mb:.0f} MB warm, {cold_mb:.0f} MB cold"
