"""The port to what is compared: a job goes in, an answer comes out; and the table of drivers.

Leaves the drivers to `command.py`, `python.py` and `recorded.py`, the meaning
of an answer to `answer.py`, and events to `executor.py`.

Rules:
- A failing system is an Answer, never an exception. A cancellation ends what was started, waits for
  that, and passes on.
- What a driver receives is the same in all arms but for arm, attempt, config, limits and out.
- The job's line is ASCII: no locale and no other idea of a line end can break it.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from hashlib import sha256
from pathlib import Path
from typing import Protocol, assert_never

from fairtrial.ledger import sections
from fairtrial.ledger.errors import DriverError
from fairtrial.ledger.given import TABLE_BYTES_MAX
from fairtrial.ledger.protocol import nano_usd
from fairtrial.ledger.regular import read_regular
from fairtrial.protocols.plan import keyed_digest

from .answer import Answer

__all__ = (
    "Driver",
    "Job",
    "Limits",
    "driver_seed",
    "file_identity",
    "job_line",
    "job_mapping",
    "limits_of",
    "open_driver",
)


@dataclass(frozen=True, kw_only=True, slots=True)
class Limits:
    """Limits of one attempt; None: none."""

    seconds: float | None = None
    usd_nano: int | None = None
    tokens: int | None = None
    turns: int | None = None
    output_bytes: int | None = None


@dataclass(frozen=True, kw_only=True, slots=True)
class Job:
    """One attempt at one slot.

    Attributes:
        experiment: Name of the experiment.
        arm: Who is asked.
        unit: What about.
        replicate: Planned repetition, from 1.
        attempt: Try, from 1.
        seed: The same for all arms and attempts (`driver_seed`).
        input: The unit's columns that a driver may see.
        config: The arm's settings, as the protocol has them.
        limits: What one attempt may use.
        out: A folder for files to keep; None: the driver makes one and removes it.
    """

    experiment: str
    arm: str
    unit: str
    replicate: int
    attempt: int
    seed: str
    input: Mapping[str, object] = field(default_factory=dict)
    config: Mapping[str, object] = field(default_factory=dict)
    limits: Limits = field(default_factory=Limits)
    out: Path | None = None


class Driver(Protocol):
    """How the outcomes of one arm come about."""

    @property
    def name(self) -> str:
        """The kind of driver: command, python or recorded."""
        ...

    def identity(self) -> dict[str, object]:
        """Returns what the arm is made of, without this machine's paths, for the freeze.

        Raises:
            DriverError: A part isn't there.
        """
        ...

    def problems(self) -> tuple[str, ...]:
        """Returns why a run can't begin, such as a variable that isn't set; empty: it can."""
        ...

    async def run(self, job: Job) -> Answer:
        """Makes one attempt."""
        ...

    async def aclose(self) -> None:
        """Gives up what the driver holds; a second call does nothing."""
        ...


def driver_seed(design_seed: int, unit: str, replicate: int) -> str:
    """Returns the seed that every arm and attempt of a unit and replicate gets, 53 bits."""
    digest = keyed_digest("driver", str(design_seed), unit, str(replicate))
    return str(int.from_bytes(digest[:8], "big") >> 11)


def job_mapping(job: Job) -> dict[str, object]:
    """Returns a job as drivers see it."""
    return {
        "v": 1,
        "experiment": job.experiment,
        "arm": job.arm,
        "unit": job.unit,
        "replicate": job.replicate,
        "attempt": job.attempt,
        "seed": job.seed,
        "input": dict(job.input),
        "config": dict(job.config),
        "limits": _limits_mapping(job.limits),
        "out": "" if job.out is None else str(job.out),
    }


def job_line(job: Job) -> bytes:
    """Returns the one line that a program finds in its stdin."""
    text = json.dumps(job_mapping(job), separators=(",", ":"), allow_nan=False)
    return text.encode("ascii") + b"\n"


def _limits_mapping(limits: Limits) -> dict[str, object]:
    seconds, usd = limits.seconds, limits.usd_nano
    given = {
        "seconds": int(seconds) if seconds is not None and seconds == int(seconds) else seconds,
        "usd": None if usd is None else usd / 1e9,
        "tokens": limits.tokens,
        "turns": limits.turns,
        "output_bytes": limits.output_bytes,
    }
    return {name: value for name, value in given.items() if value is not None}


def limits_of(limits: sections.Limits) -> Limits:
    """Returns the limits of an attempt as the protocol has them."""
    return Limits(
        seconds=limits.seconds,
        usd_nano=None if limits.usd is None else nano_usd(limits.usd),
        tokens=limits.tokens,
        turns=limits.turns,
        output_bytes=limits.output_bytes,
    )


def file_identity(folder: Path, paths: Iterable[str]) -> dict[str, object]:
    """Returns size and SHA-256 of files, by their path relative to the protocol's folder.

    Raises:
        DriverError: A file isn't there or can't be read.
    """
    found: dict[str, object] = {}
    for path in sorted(paths):
        try:
            data = read_regular(folder / path, bytes_max=TABLE_BYTES_MAX)
        except OSError as error:
            raise DriverError(
                "a file of the driver can't be read",
                where=path,
                found=error.strerror or type(error).__name__,
                todo="put the file there, or take it out of the protocol",
            ) from error
        found[path] = {"size": len(data), "sha256": sha256(data).hexdigest()}
    return found


def open_driver(
    spec: sections.Driver,
    *,
    folder: Path,
    environment: Mapping[str, str],
    units: Iterable[str],
    repeats: int | None = None,
) -> Driver:
    """Returns the driver that a protocol names.

    Args:
        spec: The section `arms.<arm>.driver`.
        folder: The protocol's folder.
        environment: The variables of this process; a driver takes the declared ones.
        units: The units of the plan, which a table of outcomes is checked against.
        repeats: The arm's planned replicates, for the same check; None: not checked.

    Raises:
        ProtocolError: A table of outcomes isn't acceptable.
        DriverError: A file can't be read.
    """
    # Each of these modules builds on this one; the table is the place where they meet.
    from .command import CommandDriver
    from .python import PythonDriver
    from .recorded import open_recorded

    match spec:
        case sections.CommandDriver():
            return CommandDriver(spec, folder=folder, environment=environment)
        case sections.PythonDriver():
            return PythonDriver(spec, folder=folder, environment=environment)
        case sections.RecordedDriver():
            return open_recorded(spec, folder=folder, units=units, repeats=repeats)
        case _:
            assert_never(spec)
