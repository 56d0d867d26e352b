"""One attempt on a pilot unit, outside every experiment: nothing of it is recorded.

Leaves the attempt to the drivers and the printing to the command line.

Rules:
- Only units of the declared pilot file are asked: no unit of the plan is seen before it is
  registered.
- The job is the one that a run would send, with replicate and attempt 1.
- No ledger is opened, no cache written; files that the driver leaves are removed.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import NamedTuple

import anyio

from fairtrial.drivers.answer import Answer
from fairtrial.drivers.port import Job, driver_seed, job_line, limits_of, open_driver
from fairtrial.ledger.errors import RefusedError
from fairtrial.ledger.given import TABLE_BYTES_MAX
from fairtrial.ledger.protocol import Endpoint, Protocol, asked_arms, driver_path, score_name
from fairtrial.ledger.regular import read_regular
from fairtrial.ledger.sections import RecordedDriver
from fairtrial.protocols.units import Units, parse_pilot

from .freezing import read_units
from .registering import load_protocol

__all__ = ("Tried", "try_unit")


class Tried(NamedTuple):
    """What one attempt was asked and gave.

    Attributes:
        arm: Who was asked.
        unit: About which pilot unit.
        stdin: The job's line.
        answer: What came of it.
        unanswered: Endpoints whose field the answer doesn't have.
    """

    arm: str
    unit: str
    stdin: str
    answer: Answer
    unanswered: tuple[str, ...]


def try_unit(path: Path, *, arm: str | None = None, unit: str | None = None) -> list[Tried]:
    """Makes one attempt with each arm, or with the one that is named.

    Args:
        path: The protocol file.
        arm: The arm to ask; None: all.
        unit: A pilot unit; None: the first.

    Raises:
        ProtocolError: The protocol or the pilot file isn't acceptable.
        RefusedError: There is no such arm or pilot unit, or a driver can't begin.
    """
    loaded = load_protocol(path)
    protocol, folder = loaded.protocol, loaded.path.parent
    pilot = _pilot(protocol, folder)
    index = _unit_index(pilot, unit)
    names = _arms(protocol, arm)
    return [_attempt(protocol, folder, name, pilot, index) for name in names]


def _pilot(protocol: Protocol, folder: Path) -> Units:
    name = protocol.units.pilot
    if name is None:
        raise RefusedError(
            "the protocol declares no pilot units",
            where="units.pilot",
            expected="a file of units that the experiment doesn't use",
            todo="write one and name it under units.pilot",
        )
    planned: tuple[str, ...] = ()
    if (folder / protocol.units.file).is_file():
        planned = read_units(protocol, folder).ids
    try:
        data = read_regular(folder / name, bytes_max=TABLE_BYTES_MAX)
    except OSError as error:
        raise RefusedError(
            "the pilot file can't be read",
            where="units.pilot",
            expected=str(folder / name),
            found=error.strerror or str(error),
            todo="write it, or correct units.pilot",
        ) from error
    return parse_pilot(data, protocol.units, name=name, planned=planned)


def _unit_index(pilot: Units, unit: str | None) -> int:
    if unit is None:
        return 0
    if unit not in pilot.ids:
        raise RefusedError(
            "there is no such pilot unit",
            where="--unit",
            expected="one of: " + ", ".join(pilot.ids[:10]),
            found=unit,
            todo=f"--unit {pilot.ids[0]}; units of the plan aren't tried",
        )
    return pilot.ids.index(unit)


def _arms(protocol: Protocol, arm: str | None) -> list[str]:
    live = [
        name
        for name, each in asked_arms(protocol).items()
        if each.driver is not None and not isinstance(each.driver, RecordedDriver)
    ]
    if arm is None and live:
        return live
    if arm is not None and arm in live:
        return [arm]
    raise RefusedError(
        "only an arm that is asked during the run can be tried",
        where="--arm",
        expected="one of: " + ", ".join(live) if live else "an arm that isn't recorded",
        found=arm or "recorded arms only",
        todo="ledger check shows what a recorded arm holds",
    )


def _attempt(protocol: Protocol, folder: Path, name: str, pilot: Units, index: int) -> Tried:
    arm = asked_arms(protocol)[name]
    assert arm.driver is not None, "the arm was chosen for its driver"
    driver = open_driver(arm.driver, folder=folder, environment=os.environ, units=pilot.ids)
    problems = driver.problems()
    if problems:
        raise RefusedError(
            "the driver can't begin: " + "; ".join(problems),
            where=driver_path(protocol, name),
            todo="mend it and try again",
        )
    job = Job(
        experiment=protocol.id,
        arm=name,
        unit=pilot.ids[index],
        replicate=1,
        attempt=1,
        seed=driver_seed(protocol.design.seed, pilot.ids[index], 1),
        input=pilot.inputs[index] if pilot.inputs is not None else {},
        config=getattr(arm.driver, "config", {}),
        limits=limits_of(arm.limits),
    )

    async def ask() -> Answer:
        try:
            return await driver.run(job)
        finally:
            await driver.aclose()

    answer = anyio.run(ask)
    return Tried(name, job.unit, job_line(job).decode().rstrip("\n"), answer,
                 _unanswered(protocol, answer))  # fmt: skip


def _unanswered(protocol: Protocol, answer: Answer) -> tuple[str, ...]:
    """Returns the endpoints that an ok answer leaves without a value."""
    if answer.status != "ok":
        return ()
    return tuple(one.name for one in protocol.endpoints if not _has_value(one, answer))


def _has_value(endpoint: Endpoint, answer: Answer) -> bool:
    value = endpoint.value
    if value in ("usd", "usd_incurred"):
        return answer.cost_nanousd is not None
    if value == "answer":
        return answer.answer is not None
    if value == "tokens":
        return bool(answer.tokens)
    if value == "duration_seconds":
        return answer.duration_ms is not None
    return (score_name(value) or value) in answer.scores
