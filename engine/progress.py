"""How far a run has come, in counts. Pure.

Leaves showing it to the command line.

Rules:
- No score, rate or estimate of an outcome: who runs an experiment isn't told how it goes.
- The forecast of time is that of the slots settled in this session; none before the first.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Protocol

import msgspec

from fairtrial.ledger.state import Experiment, is_blinded, is_final, next_look_last, slots_of

from .budget import expected_nanousd

__all__ = ("Progress", "Sink", "Tally")


class Sink(Protocol):
    """Is told how a run goes on; must be quick and must not raise."""

    def note(self, text: str) -> None:
        """Takes one line for people."""
        ...

    def progress(self, progress: Progress) -> None:
        """Takes the present counts."""
        ...


class Progress(msgspec.Struct, frozen=True, kw_only=True):
    """Where a run stands: counts, money in usd, seconds.

    Attributes:
        experiment: Its name.
        settled: Slots with an outcome, over all sessions.
        planned: Slots of the plan.
        settled_here: Slots settled in this session.
        arms: Settled and planned slots of each arm; empty while arms are blinded.
        in_flight: Attempts under way.
        errors: Attempts of this session that ended in error.
        retries: Attempts of this session that weren't their slot's first.
        spent_usd: Spent over all sessions.
        reserved_usd: Reserved by attempts under way.
        ceiling_usd: The ceiling; None: none.
        expected_usd: Spend to expect when every slot is settled.
        looks_taken: Looks taken.
        looks_planned: Looks planned.
        waiting_for_look: Slots that the next look waits for.
        seconds: Time of this session.
        seconds_left: Forecast until every slot is settled; None: nothing to go by.
        stopping: Why the run is about to stop; None: it isn't.
    """

    experiment: str
    settled: int
    planned: int
    settled_here: int
    arms: dict[str, tuple[int, int]]
    in_flight: int
    errors: int
    retries: int
    spent_usd: float
    reserved_usd: float
    ceiling_usd: float | None
    expected_usd: float
    looks_taken: int
    looks_planned: int
    waiting_for_look: int
    seconds: float
    seconds_left: float | None
    stopping: str | None


class Tally:
    """Counts of one session, kept as it goes.

    Args:
        known: The experiment, folded; it changes as events are appended.
        names: What each arm is called in front of people.
    """

    def __init__(self, known: Experiment, names: Mapping[str, str]) -> None:
        self._known, self._shown = known, names
        slots = slots_of(known)
        self._settled, self._planned = [0] * len(known.arms), [0] * len(known.arms)
        for arm, status in zip(slots.arm[1:], slots.status[1:], strict=True):
            self._planned[arm] += 1
            self._settled[arm] += status > 0
        self._before = sum(self._settled)
        self.errors = self.retries = 0

    def settled(self, arm: int) -> None:
        """Counts one more outcome of an arm."""
        self._settled[arm] += 1

    def progress(self, seconds: float, *, stopping: str | None) -> Progress:
        """Returns the counts after so many seconds of this session."""
        known = self._known
        settled, planned = sum(self._settled), sum(self._planned)
        here = settled - self._before
        last = 0 if is_final(known) else next_look_last(known)
        ceiling = known.rules.usd_nanousd if known.rules is not None else None
        counts = zip(self._settled, self._planned, strict=True)
        arms = dict(zip((self._shown[arm.name] for arm in known.arms), counts, strict=True))
        return Progress(
            experiment=known.name,
            settled=settled,
            planned=planned,
            settled_here=here,
            arms={} if is_blinded(known) else arms,
            in_flight=known.open,
            errors=self.errors,
            retries=self.retries,
            spent_usd=sum(tally.spent_nanousd for tally in known.tallies) / 1e9,
            reserved_usd=sum(tally.reserved_nanousd for tally in known.tallies) / 1e9,
            ceiling_usd=None if ceiling is None else ceiling / 1e9,
            expected_usd=expected_nanousd(known, self._settled, self._planned) / 1e9,
            looks_taken=len(known.taken),
            looks_planned=len(known.looks),
            waiting_for_look=last - slots_of(known).settled(1, last) if last else 0,
            seconds=seconds,
            seconds_left=seconds / here * (planned - settled) if here else None,
            stopping=stopping,
        )
