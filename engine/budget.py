"""What starting a pair would reserve, and what the whole run will cost. Pure.

Leaves what was spent, what is reserved and where the ceilings are to the fold
(`ledger/ceilings.py`); this module adds what a run has decided to start and hasn't started yet.

Rules:
- Money is whole nano-USD.
- A pair, one unit and replicate in all arms that are still to be asked, is claimed as a whole
  before its first attempt: a ceiling doesn't cut a pair in two.
- A claim is used up arm by arm as attempts begin, because the fold holds their reservations then.
- A retry claims its own reservation beside all claims of others.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TypeAlias

from fairtrial.ledger.ceilings import room_for
from fairtrial.ledger.state import Experiment

__all__ = ("Claims", "Pair", "claim", "expected_nanousd", "release", "shortage", "use")

Pair: TypeAlias = tuple[int, int]


@dataclass(frozen=True, slots=True)
class Claims:
    """Arms (by index) that each claimed pair has still to ask."""

    held: Mapping[Pair, tuple[int, ...]] = field(default_factory=dict)

    def arms(self) -> list[int]:
        """Returns every claimed arm, as often as it is claimed."""
        return [arm for arms in self.held.values() for arm in arms]


def shortage(known: Experiment, claims: Claims, arms: Sequence[int]) -> str:
    """Returns which ceiling leaves no room for these arms beside all claims; "" when they fit."""
    return room_for(known, [*claims.arms(), *arms])


def claim(claims: Claims, pair: Pair, arms: Sequence[int]) -> Claims:
    """Returns the claims with a pair's arms among them."""
    return Claims({**claims.held, pair: tuple(arms)}) if arms else release(claims, pair)


def use(claims: Claims, pair: Pair, arm: int) -> Claims:
    """Returns the claims after an attempt of a pair has begun; unchanged when it wasn't claimed."""
    left = list(claims.held.get(pair, ()))
    if arm not in left:
        return claims
    left.remove(arm)
    return claim(claims, pair, left)


def release(claims: Claims, pair: Pair) -> Claims:
    """Returns the claims without a pair."""
    return Claims({other: arms for other, arms in claims.held.items() if other != pair})


def expected_nanousd(known: Experiment, settled: Sequence[int], planned: Sequence[int]) -> int:
    """Returns the spend to expect when every slot is settled.

    A pending slot of an arm costs what its settled ones cost on average, retries included; an arm
    without a settled slot is expected to cost its reservations.

    Args:
        known: The experiment.
        settled: Settled slots of each arm, by index.
        planned: Planned slots of each arm.
    """
    total = 0
    for index, tally in enumerate(known.tallies):
        pending = planned[index] - settled[index]
        if settled[index]:
            each = -(-tally.spent_nanousd // settled[index])
        else:
            each = known.arms[index].reserve_nanousd
        total += tally.spent_nanousd + pending * each
    return total
