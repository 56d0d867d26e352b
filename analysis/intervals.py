"""Intervals for one mean, and one place to import every interval from.

Job: Hoeffding, empirical Bernstein and one-sample t. Leaves cluster-robust means to `paired`,
single rates to `rates`, paired binary differences to `tango` and `proportions`.

Rules:
    - `alpha` is the two-sided error; in a function named `..._lower` or `..._upper` one-sided.
    - Limits stay inside the range of the estimand, and their width is never zero.
    - Bounds of an outcome come from the question, never from the data.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from .grouping import FloatArray, exact_sum
from .proportions import bonett_price, newcombe_paired
from .rates import (
    clopper_pearson,
    clopper_pearson_lower,
    clopper_pearson_upper,
    jeffreys,
    wilson,
    wilson_lower,
    wilson_upper,
)
from .student import t_around, t_p_value
from .tango import (
    ScoreTest,
    TangoAdjusted,
    tango,
    tango_cluster_adjusted,
    tango_cluster_adjusted_p,
    tango_score,
)
from .values import Interval, Undetermined

__all__ = (
    "MeanTest",
    "ScoreTest",
    "TangoAdjusted",
    "bernstein_half_width",
    "bonett_price",
    "clopper_pearson",
    "clopper_pearson_lower",
    "clopper_pearson_upper",
    "empirical_bernstein",
    "hoeffding",
    "hoeffding_half_width",
    "jeffreys",
    "newcombe_paired",
    "t_mean",
    "tango",
    "tango_cluster_adjusted",
    "tango_cluster_adjusted_p",
    "tango_score",
    "wilson",
    "wilson_lower",
    "wilson_upper",
)


@dataclass(frozen=True, kw_only=True, slots=True)
class MeanTest:
    """Holds a one-sample mean with its t interval and the two-sided p of "the mean is 0"."""

    mean: float
    standard_error: float
    df: int
    interval: Interval
    p_value: float


def hoeffding(mean: float, n: int, *, low: float, high: float, alpha: float = 0.05) -> Interval:
    """Computes the Hoeffding interval of a mean of n independent values in [low, high]."""
    _check_bounded(np.array([mean]), low, high)
    half = hoeffding_half_width(n, low=low, high=high, alpha=alpha)
    return _clipped(mean, half, low=low, high=high, alpha=alpha, method="hoeffding")


def hoeffding_half_width(n: int, *, low: float, high: float, alpha: float = 0.05) -> float:
    """Returns half the width of `hoeffding` before it is clipped to [low, high]."""
    if n < 1:
        raise ValueError(f"n: expected at least 1, found {n}")
    return (high - low) * math.sqrt(math.log(2.0 / alpha) / (2.0 * n))


def empirical_bernstein(
    values: FloatArray, *, low: float, high: float, alpha: float = 0.05
) -> Interval | Undetermined:
    """Computes the empirical Bernstein interval of independent values in [low, high].

    Args:
        values: shape (n,), n >= 2, each in [low, high].
        low: smallest possible value.
        high: largest possible value.
        alpha: two-sided error, half on each side.

    Source:
        Maurer and Pontil (2009), theorem 4.
    """
    values = _check_bounded(values, low, high)
    n = values.size
    if n < 2:
        return Undetermined("fewer than two values show no variance")
    mean, variance = _mean_variance(values)
    half = bernstein_half_width(variance, n, low=low, high=high, alpha=alpha)
    return _clipped(mean, half, low=low, high=high, alpha=alpha, method="empirical_bernstein")


def bernstein_half_width(
    variance: float, n: int, *, low: float, high: float, alpha: float = 0.05
) -> float:
    """Returns half the width of `empirical_bernstein` before clipping, n >= 2."""
    log = math.log(4.0 / alpha)
    return math.sqrt(2.0 * variance * log / n) + 7.0 * (high - low) * log / (3.0 * (n - 1))


def t_mean(values: FloatArray, *, alpha: float = 0.05) -> MeanTest | Undetermined:
    """Computes the one-sample t interval and test; `Undetermined` when nothing varies."""
    values = np.asarray(values, dtype=np.float64)
    if values.size < 2:
        return Undetermined("fewer than two values show no variance")
    mean, variance = _mean_variance(values)
    if variance <= (1e-12 * float(np.max(np.abs(values)))) ** 2:
        return Undetermined("all values are equal, so there is no variance")
    error, df = math.sqrt(variance / values.size), int(values.size) - 1
    return MeanTest(
        mean=mean,
        standard_error=error,
        df=df,
        interval=t_around(mean, error, df, alpha=alpha, method="t"),
        p_value=t_p_value(mean / error, df),
    )


def _mean_variance(values: FloatArray) -> tuple[float, float]:
    mean = exact_sum(values) / values.size
    deviations = values - mean
    return mean, exact_sum(deviations * deviations) / (values.size - 1)


def _clipped(
    middle: float, half: float, *, low: float, high: float, alpha: float, method: str
) -> Interval:
    return Interval(
        lower=float(max(low, middle - half)),
        upper=float(min(high, middle + half)),
        level=1.0 - alpha,
        method=method,
    )


def _check_bounded(values: FloatArray, low: float, high: float) -> FloatArray:
    values = np.asarray(values, dtype=np.float64)
    if not low < high:
        raise ValueError(f"low, high: expected low < high, found {low}, {high}")
    if not np.all((values >= low) & (values <= high)):
        raise ValueError(f"values: expected all in [{low}, {high}]")
    return values
