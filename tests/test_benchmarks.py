"""Each program of `benchmarks/` runs, with sizes that measure nothing: a broken one is noticed."""

from __future__ import annotations

import runpy
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
SIZED = {
    "analysis": "--units 600 --rounds 1",
    "append": "--events 100 --entries 120 --rounds 1",
    "assigned_errors": "1",
    "assigned_precision": "5",
    "bootstrap": "--units 600 --resamples 999 --rounds 1",
    "coverage": "2",
    "default_path": "2 10",
    "engine": "--slots 40 --rounds 1 --sleep-ms 1",
    "flag_errors": "--quick",
    "peers": "--entries 100 --rounds 1",
    "replay": "--entries 200 --rounds 1",
    "saving_errors": "2 20 --warned",
    "start": "--entries 100 --rounds 1",
    "whole_clusters": "2 10",
}
# A simulation of eighty frozen plans, tens of seconds with one run each: only loaded here.
LOADED = ("win_rate_errors",)
# Not programs, and programs that `tests/contract/test_torture.py` and `make torture` run.
OTHERS = ("building", "experiments", "measuring", "checkpoint_faults", "torture")


def test_every_program_is_tried() -> None:
    """A new program has to say here with which sizes it runs."""
    found = sorted(path.stem for path in (ROOT / "benchmarks").glob("*.py"))
    assert sorted([*SIZED, *LOADED, *OTHERS]) == found


@pytest.mark.slow
@pytest.mark.parametrize("name", SIZED)
def test_program_prints_its_figures(name: str) -> None:
    """It ends well and prints a line for what it measured, or says that it didn't."""
    command = [sys.executable, "-m", f"benchmarks.{name}", *SIZED[name].split()]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert (0, "") == (done.returncode, done.stderr)
    words = ("goal", "not measured", "|")
    assert any(word in done.stdout for word in words), done.stdout


@pytest.mark.slow
@pytest.mark.parametrize("name", LOADED)
def test_simulation_loads(name: str) -> None:
    """What it imports is there, and its table is what it is called for."""
    assert callable(runpy.run_path(str(ROOT / "benchmarks" / f"{name}.py"))["table"])
