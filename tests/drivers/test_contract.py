"""One suite for every driver, the scripted one included: what a run may rely on."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import anyio
import pytest

from fairtrial.drivers.answer import Answer
from fairtrial.drivers.port import Driver, Job, Limits, open_driver
from fairtrial.engine.testing import ScriptedDriver
from fairtrial.ledger import sections

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="runs are for Linux and macOS")
JOB = Job(
    experiment="e", arm="a", unit="good", replicate=1, attempt=1, seed="1",
    limits=Limits(seconds=20.0),
)  # fmt: skip
SHELL = """#!/bin/sh
case "$FAIRTRIAL_UNIT" in
good) echo '{"v":1,"passed":true,"usd":0.25}';;
bad) echo '{"v":1,"passed":false}';;
failed) echo '{"v":1,"status":"failed","error":{"kind":"refused"}}';;
down) exit 9;;
slow) sleep 600;;
esac
"""
PYTHON = """
import anyio, threading
ANSWERS = {
    "good": {"passed": True, "usd": 0.25},
    "bad": {"passed": False},
    "failed": {"status": "failed", "error": {"kind": "refused"}},
}
def ask(job):
    if job["unit"] == "slow":
        threading.Event().wait(600)
    return ANSWERS[job["unit"]]
async def ask_later(job):
    if job["unit"] == "slow":
        await anyio.sleep(600)
    return ANSWERS[job["unit"]]
"""
TABLE = "unit,status,passed,usd\ngood,ok,1,0.25\nbad,ok,0,\nfailed,failed,,\ndown,error,,\n"
UNITS = ("good", "bad", "failed", "down", "slow")


def _open(spec: sections.Driver, folder: Path) -> Driver:
    return open_driver(spec, folder=folder, environment=os.environ, units=UNITS)


def _command(folder: Path) -> Driver:
    (folder / "driver.sh").write_text(SHELL)
    (folder / "driver.sh").chmod(0o755)
    return _open(sections.CommandDriver(argv=("./driver.sh",)), folder)


def _python(folder: Path) -> Driver:
    (folder / "contract_arm.py").write_text(PYTHON)
    return _open(sections.PythonDriver(call="contract_arm:ask"), folder)


def _coroutine(folder: Path) -> Driver:
    (folder / "contract_arm.py").write_text(PYTHON)
    return _open(sections.PythonDriver(call="contract_arm:ask_later"), folder)


def _recorded(folder: Path) -> Driver:
    (folder / "o.csv").write_text(TABLE)
    columns = {"unit": "unit", "status": "status", "passed": "passed", "usd": "usd"}
    return _open(sections.RecordedDriver(file="o.csv", columns=columns), folder)


def _scripted(folder: Path) -> Driver:
    answers = {
        "good": Answer(status="ok", scores={"passed": 1.0}, cost_nanousd=250_000_000),
        "bad": Answer(status="ok", scores={"passed": 0.0}),
        "failed": Answer(status="failed", code="refused"),
        "down": Answer(status="error", code="down"),
    }
    return ScriptedDriver(lambda job: answers[job.unit], held=["slow"])


DRIVERS: dict[str, Callable[[Path], Driver]] = {
    "command": _command,
    "python": _python,
    "coroutine": _coroutine,
    "recorded": _recorded,
    "scripted": _scripted,
}
every_driver = pytest.mark.parametrize("name", DRIVERS)


@every_driver
def test_answers_are_outcomes(tmp_path: Path, name: str) -> None:
    """A right and a wrong answer, and one that can't count, have the same form everywhere."""
    driver = DRIVERS[name](tmp_path)
    found = {u: anyio.run(driver.run, replace(JOB, unit=u)) for u in ("good", "bad", "failed")}
    assert ["ok", "ok", "failed"] == [answer.status for answer in found.values()]
    assert {"passed": 1.0} == found["good"].scores
    assert {"passed": 0.0} == found["bad"].scores
    assert 250_000_000 == found["good"].cost_nanousd


@every_driver
def test_failing_system_is_an_answer(tmp_path: Path, name: str) -> None:
    """Nothing that an arm does comes out of a driver as an exception."""
    answer = anyio.run(DRIVERS[name](tmp_path).run, replace(JOB, unit="down"))
    assert ("error", {}) == (answer.status, answer.scores)


@every_driver
def test_same_job_has_the_same_answer(tmp_path: Path, name: str) -> None:
    """A driver keeps nothing from one attempt that changes the next."""
    driver = DRIVERS[name](tmp_path)
    first, second = (anyio.run(driver.run, JOB) for _ in range(2))
    assert replace(first, duration_ms=None) == replace(second, duration_ms=None)


@pytest.mark.parametrize("name", [name for name in DRIVERS if name != "recorded"])
def test_cancellation_passes_on(tmp_path: Path, name: str) -> None:
    """A cancelled attempt ends, and the cancellation isn't taken for an answer."""
    driver = DRIVERS[name](tmp_path)

    async def main() -> bool:
        with anyio.move_on_after(0.05) as scope:
            await driver.run(replace(JOB, unit="slow"))
        return scope.cancelled_caught

    assert anyio.run(main)


@every_driver
def test_identity_is_json_and_stays_the_same(tmp_path: Path, name: str) -> None:
    """What is frozen can be written down, and doesn't change by looking or asking."""
    driver = DRIVERS[name](tmp_path)
    first = json.dumps(driver.identity(), allow_nan=False)
    anyio.run(driver.run, JOB)
    assert first == json.dumps(driver.identity())
    assert str(tmp_path) not in first


@every_driver
def test_a_driver_that_can_begin_has_no_problem_and_can_be_closed_twice(
    tmp_path: Path, name: str
) -> None:
    """Closing is safe at any time."""
    driver = DRIVERS[name](tmp_path)
    assert () == driver.problems()
    assert driver.name

    async def main() -> None:
        await driver.aclose()
        await driver.aclose()

    anyio.run(main)
