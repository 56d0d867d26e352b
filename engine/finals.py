"""The final numbers of every endpoint, those that decide and those shown beside. Pure.

Leaves verdicts to `endings.py`, and tests shown beside to `result_detail.py`.

Rules:
- A test's numbers are those of the look that its comparison ended with, at that look's boundary.
- A secondary endpoint is computed from the same data at the comparison's alpha; it never decides.
- Bounds: the interval with every lost value against the treatment, and with every one for it,
  whatever the missing rules say. Where a type has no extreme value and something was lost, there
  are none.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

from fairtrial.ledger.protocol import Endpoint

from .arrays import pair_up
from .boundaries import share_of
from .endings import Ending
from .estimates import Numbers, control_mean, estimate, scales_of
from .frames import Frame, Pairs
from .readings import Reading, claim_on
from .slot_values import extremes

__all__ = ("Bounds", "Final", "finals")


@dataclass(frozen=True, kw_only=True, slots=True)
class Bounds:
    """The interval under both extreme completions.

    Attributes:
        lower: the lower of both limits, None where there are none; `upper` likewise.
        holds: the claim of a test would be the same under either; None for an endpoint that isn't
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
        bounds: limits under both extreme completions, on the first scale.
        reading: the reading of a test; None for an endpoint that doesn't decide.
    """

    endpoint: Endpoint
    pairs: Pairs
    scales: tuple[Numbers, ...]
    nominal_p: float
    bounds: Bounds
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


def finals(frame: Frame, ending: Ending) -> tuple[Final, ...]:
    """Returns the final numbers of all endpoints of a comparison, in the order of the file."""
    readings = {reading.test.endpoint.name: reading for reading in ending.readings}
    return tuple(
        _final(frame, ending, endpoint, readings.get(endpoint.name))
        for endpoint in frame.protocol.endpoints
    )


def _final(frame: Frame, ending: Ending, endpoint: Endpoint, reading: Reading | None) -> Final:
    if reading is not None:
        pairs, scales, nominal_p = reading.pairs, reading.scales, reading.boundary.p
    else:
        pairs = pair_up(frame, ending.comparison, endpoint, last=ending.last)
        share = share_of(frame.protocol, ending.comparison)
        nominal_p = frame.protocol.analysis.alpha * share
        scales = tuple(
            estimate(pairs, frame.protocol, endpoint, scale, nominal_p=nominal_p)
            for scale in scales_of(endpoint)
        )
    final = Final(
        endpoint=endpoint,
        pairs=pairs,
        scales=scales,
        nominal_p=nominal_p,
        bounds=Bounds(lower=None, upper=None, holds=None),
        reading=reading,
    )
    return replace(final, bounds=_bounds(frame, ending, final))


def _bounds(frame: Frame, ending: Ending, final: Final) -> Bounds:
    first, pairs = final.scales[0], final.pairs
    if any(pairs.lost.values()):
        if math.isnan(extremes(final.endpoint)[0]):
            return final.bounds
        pairs = pair_up(frame, ending.comparison, final.endpoint, last=ending.last, extreme=True)
        first = estimate(
            pairs, frame.protocol, final.endpoint, first.scale, nominal_p=final.nominal_p
        )
    return Bounds(lower=first.lower, upper=first.upper, holds=_holds(frame, final, pairs, first))


def _holds(frame: Frame, final: Final, pairs: Pairs, bounds: Numbers) -> bool | None:
    reading = final.reading
    if reading is None or not reading.eligible or bounds.lower is None or len(final.scales) > 1:
        return None
    claim = claim_on(frame.protocol, reading.test, bounds, control_mean(pairs, frame.protocol))
    return claim.verdict == reading.verdict.verdict
