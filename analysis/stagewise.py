"""Inference after a sequential design has stopped, and the chance that it would.

Job: p, median-unbiased estimate and interval in the stage-wise ordering, and conditional power.
Leaves boundaries to `sequential`; these numbers are shown, the repeated interval decides.

Rules:
    - Everything is on the drift scale: divide by the square root of the maximum information to
      get the effect.
    - Only boundaries of looks before the stop matter, so unplanned later looks can't.
    - A stop on the lower side is the mirror image of one on the upper.

Source:
    Tsiatis, Rosner and Mehta (1984); Jennison and Turnbull (2000), sections 8.4 and 10.2.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from .crossing import advance, begin, check_boundary, tail_above
from .distributions import normal_sf

__all__ = ("Stagewise", "conditional_power", "final_within", "stagewise")

_BISECTIONS = 200


@dataclass(frozen=True, kw_only=True, slots=True)
class Stagewise:
    """Holds what follows from stopping.

    Attributes:
        p_one_sided: probability, without drift, of an outcome at least as far up.
        median_unbiased: drift under which that probability is one half.
        lower: drift at which it is half of 1 - confidence; `upper` at the other half.
    """

    p_one_sided: float
    median_unbiased: float
    lower: float
    upper: float


def stagewise(
    critical_values: Sequence[float],
    information: Sequence[float],
    *,
    look: int,
    z: float,
    sides: int = 2,
    alpha: float = 0.05,
) -> Stagewise:
    """Computes stage-wise inference after stopping at `look` with statistic `z`.

    Args:
        critical_values: boundary of the planned looks; only those before `look` are used.
        information: rising fractions in (0, 1], one per critical value.
        look: number of the look that ended the experiment, from 1.
        z: its statistic, on the upper side or inside the boundary of the last look.
        sides: 2 for a symmetric boundary, 1 for the upper side alone.
        alpha: two-sided error of the interval.
    """
    check_boundary(critical_values, information, sides)
    if not 1 <= look <= len(information):
        raise ValueError(f"look: expected 1..{len(information)}, found {look}")

    def above(drift: float) -> float:
        return _at_least(critical_values[: look - 1], information[:look], z, sides, drift)

    return Stagewise(
        p_one_sided=above(0.0),
        median_unbiased=_rising_root(above, 0.5),
        lower=_rising_root(above, alpha / 2.0),
        upper=_rising_root(above, 1.0 - alpha / 2.0),
    )


def conditional_power(
    z: float, information: float, critical_final: float, *, drift: float | None = None
) -> float:
    """Returns P(Z_1 >= critical_final given Z_t = z), with only the final look to come.

    Args:
        z: statistic so far.
        information: its fraction t, in (0, 1).
        critical_final: boundary at t = 1.
        drift: mean of Z_1; None for the current trend z / sqrt(t).
    """
    if not 0.0 < information < 1.0:
        raise ValueError(f"information: expected a fraction in (0, 1), found {information}")
    trend = z / math.sqrt(information) if drift is None else drift
    mean = z * math.sqrt(information) + trend * (1.0 - information)
    return normal_sf((critical_final - mean) / math.sqrt(1.0 - information))


def final_within(
    estimate: float, final_error: float, information: float, ranges: Sequence[tuple[float, float]]
) -> float:
    """Returns the chance that the last estimate lies in one of several ranges.

    The trend goes on: the last estimate is normal about the present one, with the variance that
    the rest of the information leaves, final_error^2 (1 - information).

    Args:
        estimate: so far.
        final_error: standard error that is expected at the end, above 0.
        information: fraction so far, in (0, 1).
        ranges: (low, high) without overlap; infinite ends are allowed.
    """
    if not (0.0 < information < 1.0 and final_error > 0.0):
        raise ValueError(
            f"information, final_error: expected (0, 1) and above 0: {information}, {final_error}"
        )
    spread = final_error * math.sqrt(1.0 - information)
    return math.fsum(
        normal_sf((low - estimate) / spread) - normal_sf((high - estimate) / spread)
        for low, high in ranges
    )


def _at_least(
    earlier: Sequence[float], information: Sequence[float], z: float, sides: int, drift: float
) -> float:
    paths, crossed = begin(drift), []
    for k, c in enumerate(earlier):
        crossed.append(tail_above(paths, information[k], c))
        floor = -c if sides == 2 else -math.inf
        paths = advance(paths, information[k], floor, c, next_information=information[k + 1])
    return math.fsum(crossed) + tail_above(paths, information[-1], z)


def _rising_root(function: Callable[[float], float], target: float) -> float:
    low, high = -1.0, 1.0
    while function(low) > target:
        low *= 2.0
    while function(high) < target:
        high *= 2.0
    for _ in range(_BISECTIONS):
        middle = 0.5 * (low + high)
        if high - low < 1e-10:
            break
        low, high = (middle, high) if function(middle) < target else (low, middle)
    return 0.5 * (low + high)
