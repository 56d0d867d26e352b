"""For tests of runs, ours and users': a scripted driver, a virtual clock, crash points.

Leaves the rules they are used to test to the modules that have them.

Rules:
- Nothing here sleeps or looks at a real clock: a held attempt waits for `release`.
- A scripted driver passes the same contract tests as the real ones.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import NamedTuple

import anyio

from fairtrial.drivers.answer import Answer
from fairtrial.drivers.port import Job
from fairtrial.ledger.errors import LedgerError, StoreError
from fairtrial.ledger.log import Appended, Log, Request

__all__ = ("CrashError", "ScriptedDriver", "Started", "VirtualClock", "crash_at")


class Started(NamedTuple):
    """A start marker: which attempt at which slot began."""

    arm: str
    unit: str
    replicate: int
    attempt: int


class ScriptedDriver:
    """Answers as its script says.

    Args:
        script: Returns the answer to a job.
        held: Units whose attempts wait until they are released.
        markers: A file that gets one line a start, for starts that outlive their process.

    Attributes:
        started: Every start, in order.
        cancelled: Every start that was cancelled.
        in_flight_max: The most attempts that were under way at once.
        closed: How often it was closed.
    """

    name = "scripted"

    def __init__(
        self,
        script: Callable[[Job], Answer],
        *,
        held: Iterable[str] = (),
        markers: Path | None = None,
    ) -> None:
        self._script, self._held, self._markers = script, set(held), markers
        self._released: dict[str, anyio.Event] = {}
        self._in_flight = 0
        self.started: list[Started] = []
        self.cancelled: list[Started] = []
        self.in_flight_max = 0
        self.closed = 0

    def identity(self) -> dict[str, object]:
        """Returns a description that is the same for every script."""
        return {"kind": self.name}

    def problems(self) -> tuple[str, ...]:
        """Returns nothing: a script can always begin."""
        return ()

    async def run(self, job: Job) -> Answer:
        """Marks the start, waits while the unit is held, and answers."""
        start = Started(job.arm, job.unit, job.replicate, job.attempt)
        self._mark(start)
        self._in_flight += 1
        self.in_flight_max = max(self.in_flight_max, self._in_flight)
        try:
            if job.unit in self._held:
                await self._event(job.unit).wait()
            # Every real driver gives others a turn; one that doesn't would hide races.
            await anyio.lowlevel.checkpoint()
            return self._script(job)
        except anyio.get_cancelled_exc_class():
            self.cancelled.append(start)
            raise
        finally:
            self._in_flight -= 1

    async def aclose(self) -> None:
        """Counts the call."""
        self.closed += 1

    def release(self, unit: str) -> None:
        """Lets the attempts at a unit go on, those to come too."""
        self._held.discard(unit)
        self._event(unit).set()

    def starts(self) -> Counter[tuple[str, str, int]]:
        """Returns how often each slot was started."""
        return Counter((start.arm, start.unit, start.replicate) for start in self.started)

    def _event(self, unit: str) -> anyio.Event:
        return self._released.setdefault(unit, anyio.Event())

    def _mark(self, start: Started) -> None:
        self.started.append(start)
        if self._markers is not None:
            with self._markers.open("a", encoding="utf-8") as file:
                file.write(" ".join(map(str, start)) + "\n")


class VirtualClock:
    """Gives entries their times; goes on by `step_seconds` with each one."""

    def __init__(self, *, step_seconds: float = 0.001) -> None:
        self._now = datetime(2026, 11, 29, tzinfo=UTC)
        self._step = timedelta(seconds=step_seconds)

    def __call__(self) -> str:
        """Returns the time in the form of an entry's."""
        self._now += self._step
        return self._now.strftime("%Y-%m-%dT%H:%M:%S.%fZ")

    def advance(self, seconds: float) -> None:
        """Lets time pass."""
        self._now += timedelta(seconds=seconds)


class CrashError(StoreError):
    """The process would have died here."""


def crash_at(log: Log, commit: int, *, is_stored: bool) -> None:
    """Makes a log fail at one of its next commits, and for good from then on.

    Args:
        log: The log.
        commit: Which one, counted from 1.
        is_stored: Whether that commit reaches the medium before the failure.
    """
    append, left = log.append_many, commit

    def append_many(
        requests: Sequence[Request], *, actor: str, ledger: str | None = None
    ) -> list[Appended | LedgerError]:
        nonlocal left
        left -= 1
        if left > 0:
            return append(requests, actor=actor, ledger=ledger)
        if left == 0 and is_stored:
            append(requests, actor=actor, ledger=ledger)
        raise CrashError("a crash point was reached", where=f"commit {commit}")

    log.append_many = append_many  # type: ignore[method-assign]  # this is what a crash point is
