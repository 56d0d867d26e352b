"""What an experiment has cost, and how much of that is reservations that no price came for.

Leaves what an attempt is charged to the fold; writes nothing.

Rules:
- Of blinded arms the spend is the reservations that ceilings count; of unblinded ones it comes
  from what was sealed, and each arm's reservation is its own and not the common one.
- An attempt that reported no price keeps its reservation as its cost for ever. A lost or
  interrupted one keeps it until a person settles it, so that the two are told apart.
- Where nothing is reserved, a price that isn't reported adds nothing to the spend.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import NamedTuple

import msgspec

from fairtrial.custody.sealing import opened_events
from fairtrial.custody.trial import Trial
from fairtrial.ledger.deviations import origins_of
from fairtrial.ledger.entry import Entry
from fairtrial.ledger.events import Attempt, AttemptEnd, Decision, Event, Freeze, Settle
from fairtrial.ledger.state import Experiment
from fairtrial.verdicts.outcomes import read_outcomes, spent_by_arm

__all__ = ("KeptReservations", "Spend", "spend_of", "unsettled")


class KeptReservations(msgspec.Struct, frozen=True, kw_only=True):
    """How much of the spend is reservations of attempts that have ended, and of how many."""

    attempts: int
    usd: float


class Spend(NamedTuple):
    """What an experiment has cost.

    Attributes:
        by_arm: The spend of each arm in nano-USD, in the order of the frozen arms.
        unpriced: What of it is there for want of a price, and stays.
        unsettled: What of it a person can correct.
    """

    by_arm: list[int]
    unpriced: KeptReservations
    unsettled: KeptReservations


def spend_of(trial: Trial, known: Experiment) -> Spend:
    """Returns the spend of an experiment, and what of it is reservations of ended attempts."""
    if known.unblind_seq is None or known.slots is None:
        pairs = tuple(zip(known.arms, known.tallies, strict=True))
        kept = _kept((arm.reserve_nanousd, own.unpriced) for arm, own in pairs)
        return Spend([own.spent_nanousd for _, own in pairs], kept, unsettled(known))
    noted = _Noted()
    events = noted.passing(opened_events(trial, known, trial.log.state.size), known.name)
    outcomes = read_outcomes(events, known.name, len(known.slots))
    spent = spent_by_arm(outcomes, trial.plan(known), origins_of(known))
    return Spend(
        [spent[arm.name] for arm in known.arms],
        _kept((noted.reserves[arm], number) for arm, number in noted.unpriced.items()),
        _kept((noted.reserves[arm], 1) for arm in noted.lost.values()),
    )


def unsettled(known: Experiment) -> KeptReservations:
    """Returns what the fold charges lost and interrupted attempts until somebody settles them."""
    charges = [
        one.charged
        for attempts in known.lost.values()
        for one in attempts
        if not one.settled and one.charged == known.arms[one.arm].reserve_nanousd
    ]
    return _kept((charge, 1) for charge in charges)


def _kept(charges: Iterable[tuple[int, int]]) -> KeptReservations:
    above = [(charge, number) for charge, number in charges if charge]
    return KeptReservations(
        attempts=sum(number for _, number in above),
        usd=sum(charge * number for charge, number in above) / 1e9,
    )


class _Noted:
    """Reservations and attempts that ended without a price, by arm; filled while read.

    `lost` holds those that nobody has settled, by the entry that says so.
    """

    def __init__(self) -> None:
        self.reserves: dict[str, int] = {}
        self.unpriced: dict[str, int] = {}
        self.lost: dict[int, str] = {}
        self._open: dict[int, str] = {}

    def passing(
        self, pairs: Iterable[tuple[Entry, Event]], name: str
    ) -> Iterator[tuple[Entry, Event]]:
        """Passes every entry on, having noted those of the experiment."""
        for entry, event in pairs:
            if event.experiment == name:
                self._note(entry.seq, event)
            yield entry, event

    def _note(self, seq: int, event: Event) -> None:
        if isinstance(event, Freeze):
            self.reserves = {arm.name: arm.reserve_nanousd for arm in event.arms}
        elif isinstance(event, Attempt):
            self._open[event.position] = event.arm
        elif isinstance(event, (AttemptEnd, Decision)):
            arm = self._open.pop(event.position, None)
            if arm is None or event.cost_nanousd is not None:
                return
            if isinstance(event, AttemptEnd) and event.status in ("lost", "interrupted"):
                self.lost[seq] = arm
            else:
                self.unpriced[arm] = self.unpriced.get(arm, 0) + 1
        elif isinstance(event, Settle):
            self.lost.pop(event.subject.seq, None)
