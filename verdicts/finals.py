"""The final numbers of every endpoint, those that decide and those shown beside. Pure.

Leaves verdicts to `endings.py`, and tests shown beside to `result_detail.py`.

Rules:
- A test's numbers are those of the look that its comparison ended with, at that look's boundary.
- A secondary endpoint is computed from the same data at the comparison's alpha; it never decides.
- Bounds: the hull of the registered interval, of those with every lost value against the treatment
  and with every one for it, whatever the missing rules say, and of what `tipping.py` tries between.
  Where a type has no extreme value and something was lost, there are none.
- The second analysis, where outcomes were declared invalid, has no bounds of its own.
- A claim holds whatever was lost only where everything tried makes the same claim.
- The event and its long form ask for the same numbers, one after the other: they are computed once
  for a context and forgotten with it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Final as Constant
from weakref import WeakKeyDictionary

from fairtrial.ledger.protocol import Endpoint

from .arrays import lost_outcomes, pair_up
from .boundaries import share_of
from .completing import has_extremes
from .endings import Ending, Second, endings
from .estimates import Numbers, estimate, scales_of
from .evaluate import AnalysisContext, frame_of
from .frames import Frame, Pairs
from .readings import Reading
from .tipping import Tipping, tipping_point

__all__ = ("Bounds", "Ended", "Final", "ended", "second_finals")


@dataclass(frozen=True, kw_only=True, slots=True)
class Bounds:
    """The limits within which the interval lies, whatever was lost.

    Attributes:
        lower: the lower of both limits, None where there are none; `upper` likewise.
        holds: every completion walked makes the claim of the test; None for an endpoint that isn't
            eligible or doesn't decide, for more than one scale, and without limits.
    """

    lower: float | None
    upper: float | None
    holds: bool | None


@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class Final:
    """One endpoint of one comparison at its end.

    Attributes:
        endpoint: which.
        pairs: behind the numbers.
        scales: numbers, one for each scale.
        nominal_p: two-sided p of the interval.
        bounds: limits whatever was lost, on the first scale.
        tipping: how many lost outcomes change the claim; None where nothing can say.
        reading: the reading of a test; None for an endpoint that doesn't decide.
    """

    endpoint: Endpoint
    pairs: Pairs
    scales: tuple[Numbers, ...]
    nominal_p: float
    bounds: Bounds
    tipping: Tipping | None
    reading: Reading | None

    @property
    def p_value(self) -> float | None:
        """The largest p of the deciding tests on all scales; None where one doesn't exist."""
        known = [each.p_value for each in self.scales if each.p_value is not None]
        return max(known) if len(known) == len(self.scales) else None

    @property
    def undetermined(self) -> str | None:
        """Why some number doesn't exist."""
        return next((each.undetermined for each in self.scales if each.undetermined), None)


@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class Ended:
    """An experiment at its end.

    Attributes:
        frame: plan and outcomes.
        endings: of the comparisons, in the registered order.
        finals: of each ending the numbers of all endpoints, in the order of the file.
    """

    frame: Frame
    endings: tuple[Ending, ...]
    finals: tuple[tuple[Final, ...], ...]


_ENDED: Constant[WeakKeyDictionary[AnalysisContext, Ended]] = WeakKeyDictionary()


def ended(context: AnalysisContext) -> Ended:
    """Returns how an experiment ended, the same one while its context is in use.

    Args:
        context: all outcomes and looks, and what ended the experiment.
    """
    found = _ENDED.get(context)
    if found is None:
        frame = frame_of(context)
        own = endings(context, frame)
        numbers = tuple(_finals(frame, ending) for ending in own)
        found = _ENDED[context] = Ended(frame=frame, endings=own, finals=numbers)
    return found


def _finals(frame: Frame, ending: Ending) -> tuple[Final, ...]:
    readings = _by_endpoint(ending.readings)
    return tuple(
        _with_bounds(frame, ending, _final(frame, ending, endpoint, readings.get(endpoint.name)))
        for endpoint in frame.protocol.endpoints
    )


def second_finals(frame: Frame, ending: Ending, second: Second) -> tuple[Final, ...]:
    """Returns the numbers of the second analysis, without bounds, in the order of the file."""
    readings = _by_endpoint(second.readings)
    return tuple(
        _final(frame, ending, endpoint, readings.get(endpoint.name), invalidated=True)
        for endpoint in frame.protocol.endpoints
    )


def _by_endpoint(readings: Sequence[Reading]) -> dict[str, Reading]:
    return {reading.test.endpoint.name: reading for reading in readings}


def _final(
    frame: Frame,
    ending: Ending,
    endpoint: Endpoint,
    reading: Reading | None,
    *,
    invalidated: bool = False,
) -> Final:
    if reading is not None:
        pairs, scales, nominal_p = reading.pairs, reading.scales, reading.boundary.p
    else:
        pairs = pair_up(
            frame, ending.comparison, endpoint, last=ending.last, invalidated=invalidated
        )
        share = share_of(frame.protocol, ending.comparison)
        nominal_p = frame.protocol.analysis.alpha * share
        scales = tuple(
            estimate(pairs, frame.protocol, endpoint, scale, nominal_p=nominal_p)
            for scale in scales_of(endpoint)
        )
    return Final(
        endpoint=endpoint,
        pairs=pairs,
        scales=scales,
        nominal_p=nominal_p,
        bounds=Bounds(lower=None, upper=None, holds=None),
        tipping=None,
        reading=reading,
    )


def _with_bounds(frame: Frame, ending: Ending, final: Final) -> Final:
    first, pairs, reading = final.scales[0], final.pairs, final.reading
    limits = [(first.lower, first.upper)]
    tipping = None
    if any(pairs.lost.values()):
        if not has_extremes(final.endpoint):
            return final
        pairs = pair_up(frame, ending.comparison, final.endpoint, last=ending.last, extreme=True)
        if reading is not None:
            lost = lost_outcomes(frame, ending.comparison, final.endpoint, last=ending.last)
            tipping = tipping_point(frame, reading, lost)
        ends = estimate(
            pairs, frame.protocol, final.endpoint, first.scale, nominal_p=final.nominal_p
        )
        # What has no interval as registered can still have bounds.
        limits = [each for each in limits if each[0] is not None]
        limits.append((ends.lower, ends.upper))
        tried = (*tipping.steps, *(each.step for each in tipping.fewest)) if tipping else ()
        limits.extend((step.lower, step.upper) for step in tried)
    lower, upper = _hull(limits)
    holds = _holds(final, tipping) if lower is not None else None
    return replace(final, bounds=Bounds(lower=lower, upper=upper, holds=holds), tipping=tipping)


def _hull(limits: Sequence[tuple[float | None, float | None]]) -> tuple[float | None, float | None]:
    """Returns the lowest and the highest limit; none where one of the intervals doesn't exist."""
    lowers = [lower for lower, _ in limits if lower is not None]
    uppers = [upper for _, upper in limits if upper is not None]
    if len(lowers) < len(limits) or len(uppers) < len(limits):
        return None, None
    return min(lowers), max(uppers)


def _holds(final: Final, tipping: Tipping | None) -> bool | None:
    reading = final.reading
    if reading is None or not reading.eligible or len(final.scales) > 1:
        return None
    return tipping is None or tipping.is_firm
