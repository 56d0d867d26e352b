"""Experiments of two arms that are a function in this process, for the benchmarks.

What this machine remembers of a ledger lies beside it, so that a copy is a ledger of its own.
"""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Sequence
from functools import cache
from itertools import count
from pathlib import Path

from fairtrial.engine import session
from fairtrial.protocols.plan import unit_order

CLUSTERS, SEED = 100, 1
PROTOCOL = """
protocol: 1
id: bench
about: {hypothesis: B solves more than A.}
units: {file: units.csv, id: unit, cluster: cluster, input: [seconds]}
design: {pairing: paired, seed: 1}
arms:
  A:
    driver: {kind: python, call: "arm:ask", reserve_usd: 0.001, config: {model: a}}
    limits: {seconds: 60}
  B:
    driver: {kind: python, call: "arm:ask", reserve_usd: 0.001, config: {model: b}}
    limits: {seconds: 60}
control: A
attempts: {max: 3, retry_on: [error]}
endpoints: [{name: solved, role: primary, type: binary, value: passed, better: higher}]
missing:
  rules: {failed: failure, timeout: failure, limit: failure, error: exclude_pair,
          ungraded: exclude_pair, replay_miss: exclude_pair, invalidated: exclude_pair}
  limit: 0.1
analysis: {estimand: unit_weighted}
decision: {rule: superiority}
power:
  effect: none
  accept: {not_assessed: a benchmark, no_verdict_possible: a benchmark}
budget: {usd: 1000000}
require: {commit: false}
"""
AT_ONCE = """
import os, signal

async def ask(job):
    if job["arm"] + job["unit"] == os.environ.get("CUT_OFF"):
        os.kill(os.getpid(), signal.SIGINT)
    return {"passed": True, "usd": 0.0001}
"""
SLEEPING = """
import asyncio

async def ask(job):
    await asyncio.sleep(float(job["input"]["seconds"]))
    return {"passed": True, "usd": 0.0001}
"""
NUMBERS = count()


@cache
def root() -> tempfile.TemporaryDirectory[str]:
    """Returns where every work gets its folder."""
    return tempfile.TemporaryDirectory()


def new() -> Path:
    """Returns a folder that is free."""
    folder = Path(root().name, str(next(NUMBERS)))
    folder.mkdir()
    return folder


def units_of(slots: int) -> list[str]:
    """Returns the units of so many slots, two arms each."""
    return [f"u{number:06d}" for number in range(slots // 2)]


def clusters_of(units: Sequence[str]) -> list[str]:
    """Returns the cluster of each unit."""
    return [f"c{number % CLUSTERS}" for number in range(len(units))]


def in_order(slots: int) -> list[int]:
    """Returns the units' places in the order in which a run comes to them."""
    units = units_of(slots)
    return unit_order(units, clusters_of(units), seed=SEED)


def freeze(folder: Path, suffix: str, body: str, seconds: Sequence[float]) -> Path:
    """Registers and freezes an experiment of one unit for each of these times; returns a ledger."""
    units = units_of(2 * len(seconds))
    rows = zip(units, clusters_of(units), map(str, seconds), strict=True)
    lines = ["unit,cluster,seconds", *map(",".join, rows), ""]
    (folder / "protocol.yaml").write_text(PROTOCOL)
    (folder / "arm.py").write_text(body)
    (folder / "units.csv").write_text("\n".join(lines))
    ledger = folder / f"ledger{suffix}"
    remember_in(folder)
    session.register_protocol(ledger, folder / "protocol.yaml", actor="bench", override="benchmark")
    return ledger


def remember_in(folder: Path) -> None:
    """Keeps what this machine remembers of a ledger beside it, so that a copy is one of its own."""
    os.environ["FAIRTRIAL_STATE"] = str(folder / "state")


def run(ledger: Path, cap: int) -> None:
    """Runs an experiment, with its look, to the end or to where it is cut off."""
    report = session.run(ledger, None, actor="bench", concurrency=cap)
    assert report.reason in ("complete", "boundary", "interrupted"), report


def copied(folder: Path) -> Path:
    """Returns a copy of a ledger's folder, with what is remembered of it."""
    copy = new()
    shutil.copytree(folder, copy, dirs_exist_ok=True)
    remember_in(copy)
    return copy
