"""Two one-sided tests: is the difference inside a margin?

Job: TOST for a paired binary difference (Tango), a paired mean (t), and an estimate with a given
standard error. Leaves the deciding rule, which reads limits of an interval, to `verdict`.

Rules:
    - The p is the larger of the two one-sided p, so both must hold.
    - No discordance and no variance are not evidence by themselves: the score test has a width
      then, and the t test is `Undetermined`.

Source:
    Schuirmann (1987); Tango (1998) for the binary form.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from .distributions import t_sf
from .grouping import FloatArray
from .intervals import t_mean
from .tango import tango_score
from .values import Interval, Undetermined

__all__ = ("Tost", "tost_estimate", "tost_paired_binary", "tost_paired_mean")


@dataclass(frozen=True, kw_only=True, slots=True)
class Tost:
    """Holds two one-sided tests.

    Attributes:
        p_lower: p of "the difference is at most the lower end of the range".
        p_upper: p of "the difference is at least the upper end of the range".
        p_value: the larger of both.
        interval: the 1 - 2 alpha interval of a mean; None for the other forms.
    """

    p_lower: float
    p_upper: float
    p_value: float
    interval: Interval | None = None


def tost_paired_binary(n10: int, n01: int, n: int, *, margin: float) -> Tost:
    """Tests that a paired binary difference lies within -/+ `margin`, in (0, 1)."""
    if not 0.0 < margin < 1.0:
        raise ValueError(f"margin: expected a number in (0, 1), found {margin}")
    below = tango_score(n10, n01, n, null=-margin).p_greater
    above = tango_score(n10, n01, n, null=margin).p_less
    return Tost(p_lower=below, p_upper=above, p_value=max(below, above))


def tost_estimate(estimate: float, error: float, df: float, *, low: float, high: float) -> Tost:
    """Tests that an estimate with standard error `error` > 0 and `df` lies in (low, high)."""
    _check_range(low, high)
    if not (error > 0.0 and math.isfinite(error)):
        raise ValueError(f"error: expected a finite standard error above 0, found {error}")
    below, above = t_sf((estimate - low) / error, df), t_sf((high - estimate) / error, df)
    return Tost(p_lower=below, p_upper=above, p_value=max(below, above))


def tost_paired_mean(
    differences: FloatArray, *, low: float, high: float, alpha: float = 0.05
) -> Tost | Undetermined:
    """Tests that the mean of independent differences lies in (low, high).

    Args:
        differences: shape (n,).
        low: lower end of the range.
        high: upper end of the range.
        alpha: error of each test; the interval is at 1 - 2 alpha.
    """
    _check_range(low, high)
    mean = t_mean(differences, alpha=2.0 * alpha)
    if isinstance(mean, Undetermined):
        return mean
    tests = tost_estimate(mean.mean, mean.standard_error, mean.df, low=low, high=high)
    return Tost(
        p_lower=tests.p_lower,
        p_upper=tests.p_upper,
        p_value=tests.p_value,
        interval=mean.interval,
    )


def _check_range(low: float, high: float) -> None:
    if not low < high:
        raise ValueError(f"low, high: expected low < high, found {low}, {high}")
