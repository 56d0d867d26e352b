"""With how few lost outcomes a claim would be another one, whichever they are. Pure.

Leaves what a completion shows to the caller, and the table in run order to `tipping.py`.

Rules:
- Against: from all lost outcomes for the treatment, the fewest that have to go against it. For:
  from all against it, the fewest that have to go for it.
- A claim of adopt can only fall and one of reject only rise. Another one falls where it becomes
  reject, or is not kept with a smaller estimate than the registered one; and rises likewise.
- First the outcomes that move the deciding limit most are turned together, until the claim changes:
  that many are enough. Of more lost outcomes than completions the order is that of the run. Then
  all smaller sets are tried, by rising size, as far as the number of completions allows. Where each
  was tried the count is exact, else fewer might do.
- The number of completions follows from the number of units alone, so a replay tries the same.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import Final, Literal, TypeAlias

import numpy as np

from fairtrial.ledger.events import Verdict

from .frames import BoolArray

__all__ = ("TRIED_MAX", "Fewest", "Show", "Step", "Way", "fewest_of", "shown_once")

TRIED_MAX: Final = 1024
_TRIED_MIN: Final = 64
_UNITS_TRIED: Final = 200_000

Way: TypeAlias = Literal["against", "for"]


@dataclass(frozen=True, kw_only=True, slots=True)
class Step:
    """One way in which the lost outcomes could have come out.

    Attributes:
        against: how many of them count against the treatment.
        treatment_worst: how many of those are treatment's own; the rest are control's, at best.
        estimate: treatment minus control.
        lower: limit of the deciding interval; `upper` likewise; None where there is none.
        verdict: what would be shown, guards included.
    """

    against: int
    treatment_worst: int
    estimate: float | None
    lower: float | None
    upper: float | None
    verdict: Verdict


Show: TypeAlias = Callable[[BoolArray], Step]


@dataclass(frozen=True, kw_only=True, slots=True)
class Fewest:
    """The fewest lost outcomes that change the claim in one way.

    Attributes:
        way: which way they have to go; all others go the other way.
        count: how many.
        exact: no smaller number does it; False: fewer were not all tried.
        step: what they show.
    """

    way: Way
    count: int
    exact: bool
    step: Step


def fewest_of(
    show: Show,
    lost: int,
    *,
    claim: Verdict,
    estimate: float | None,
    turn: float,
    size: int,
) -> tuple[Fewest, ...]:
    """Returns the fewest outcomes that change the claim, for each way in which any do.

    Args:
        show: what a completion shows, given which lost outcomes go against the treatment.
        lost: how many were lost.
        claim: the claim as registered.
        estimate: the estimate as registered.
        turn: 1 where higher is better, else -1.
        size: units of one completion, which sets how many are tried.
    """
    tried = max(_TRIED_MIN, min(TRIED_MAX, _UNITS_TRIED // max(size, 1)))
    ways: tuple[tuple[Way, Verdict], ...] = (("against", "adopt"), ("for", "reject"))
    found: list[Fewest] = []
    for way, only in ways:
        if claim in ("adopt", "reject") and claim != only:
            continue
        search = _Search(show=show, lost=lost, way=way, claim=claim, estimate=estimate, turn=turn)
        least = search.least(tried)
        if least is not None:
            found.append(least)
    return tuple(found)


def shown_once(show: Show) -> Show:
    """Returns what shows the same, and computes each completion once however often it is asked."""
    known: dict[bytes, Step] = {}

    def again(against: BoolArray) -> Step:
        key = against.tobytes()
        if key not in known:
            known[key] = show(against)
        return known[key]

    return again


@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class _Search:
    """One way in which outcomes are turned; the fields are those of `fewest_of`."""

    show: Show
    lost: int
    way: Way
    claim: Verdict
    estimate: float | None
    turn: float

    def least(self, tried: int) -> Fewest | None:
        """Returns the fewest found with at most about so many completions."""
        enough = self._enough(tried)
        below = self.lost + 1 if enough is None else enough.count
        for count in range(below):
            tried -= math.comb(self.lost, count)
            if tried < 0:
                return enough
            step = next(self._changed(count), None)
            if step is not None:
                return Fewest(way=self.way, count=count, exact=True, step=step)
        if enough is None:
            return None
        return Fewest(way=self.way, count=enough.count, exact=True, step=enough.step)

    def _enough(self, tried: int) -> Fewest | None:
        """Returns a number that is enough: the outcomes that move most, all together."""
        order = self._by_effect() if self.lost <= tried else list(range(self.lost))
        low, high, step = 0, self.lost, self._turned(order)
        if not self._changes(step):
            return None
        while low < high:
            middle = (low + high) // 2
            one = self._turned(order[:middle])
            if self._changes(one):
                high, step = middle, one
            else:
                low = middle + 1
        return Fewest(way=self.way, count=high, exact=False, step=step)

    def _by_effect(self) -> list[int]:
        limits = [self._limit(self._turned([place])) for place in range(self.lost)]
        sign = 1.0 if self.way == "against" else -1.0
        return sorted(range(self.lost), key=lambda place: (sign * limits[place], place))

    def _limit(self, step: Step) -> float:
        """Returns the limit on which the claim hangs, higher for what is better."""
        held = self.claim != "inconclusive"
        lowest = held == (self.way == "against")
        limit = step.lower if lowest == (self.turn > 0.0) else step.upper
        return math.inf if limit is None else self.turn * limit

    def _changed(self, count: int) -> Iterator[Step]:
        for places in combinations(range(self.lost), count):
            step = self._turned(places)
            if self._changes(step):
                yield step

    def _turned(self, places: Sequence[int]) -> Step:
        """Returns what is shown when these go the way, and all others the other way."""
        chosen = np.zeros(self.lost, dtype=np.bool_)
        chosen[list(places)] = True
        return self.show(chosen if self.way == "against" else ~chosen)

    def _changes(self, step: Step) -> bool:
        if step.verdict == self.claim:
            return False
        if self.claim in ("adopt", "reject"):
            return True
        if step.verdict in ("adopt", "reject"):
            return (step.verdict == "adopt") == (self.way == "for")
        if step.estimate is None or self.estimate is None:
            return True
        smaller = self.turn * step.estimate < self.turn * self.estimate
        return smaller == (self.way == "against")
