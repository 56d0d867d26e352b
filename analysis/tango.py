"""Tango's score interval for a paired binary difference, and its cluster-adjusted form.

Job: the score statistic at a null difference, the interval by inverting it, and both with counts
divided by a design effect and t in place of z. Leaves the hull with CR2-t to `deciding`.

Rules:
    - n01 counts pairs where only treatment passed, n10 where only control did; the difference is
      treatment minus control.
    - Swapping n10 and n01 negates everything to the last bit.
    - Defined everywhere n > 0: without discordance, at limits of -1 and 1, for fractional counts.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from .distributions import normal_sf, normal_upper_quantile, t_upper_quantile
from .grouping import FloatArray, IntArray, cluster_sizes, exact_sum
from .paired import ClusteredMean, clustered_mean
from .student import t_p_value
from .values import Interval, Undetermined

__all__ = (
    "ClusteredPairs",
    "ScoreTest",
    "TangoAdjusted",
    "adjusted_limits",
    "adjusted_p",
    "tango",
    "tango_cluster_adjusted",
    "tango_cluster_adjusted_p",
    "tango_limits",
    "tango_score",
    "tango_statistic",
)


@dataclass(frozen=True, kw_only=True, slots=True)
class ScoreTest:
    """Holds a score statistic with the p of each direction.

    Attributes:
        z: the statistic, positive when the estimate lies above the null.
        p_greater: p against the alternative "above the null".
        p_less: p against the alternative "below the null".
    """

    z: float
    p_greater: float
    p_less: float


@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class ClusteredPairs:
    """Holds what the cluster-adjusted interval needs of binary pairs.

    Attributes:
        mean: mean difference with CR2 and its df.
        sizes: units per cluster, shape (G,).
        n10: pairs where only control passed; `n01` only treatment.
    """

    mean: ClusteredMean
    sizes: FloatArray
    n10: int
    n01: int

    @property
    def deff(self) -> float:
        """max(1, V_CR2 / V_naive); that of fully correlated clusters where nothing varies."""
        if self.mean.variance_naive == 0.0:
            return exact_sum(self.sizes * self.sizes) / self.mean.n
        return max(1.0, self.mean.standard_error**2 / self.mean.variance_naive)


@dataclass(frozen=True, kw_only=True, slots=True)
class TangoAdjusted:
    """Holds the cluster-adjusted Tango interval.

    Attributes:
        estimate: mean difference, in [-1, 1].
        lower: lower limit; `upper` likewise.
        deff: design effect that the counts were divided by, at least 1.
        df: Satterthwaite degrees of freedom of the t quantile.
        n_effective: n / deff.
        t_critical: the t quantile used.
        level: confidence level.
    """

    estimate: float
    lower: float
    upper: float
    deff: float
    df: float
    n_effective: float
    t_critical: float
    level: float


def tango(n10: float, n01: float, n: float, *, alpha: float = 0.05) -> Interval:
    """Computes Tango's score interval for independent pairs.

    Args:
        n10: pairs where only control passed, >= 0.
        n01: pairs where only treatment passed, >= 0.
        n: all pairs, > 0 and at least n10 + n01.
        alpha: two-sided error, in (0, 1).

    Source:
        Tango (1998), with the closed form of the restricted estimate.
    """
    lower, upper = tango_limits(n10, n01, n, normal_upper_quantile(alpha / 2.0))
    return Interval(lower=lower, upper=upper, level=1.0 - alpha, method="tango")


def tango_score(n10: float, n01: float, n: float, *, null: float) -> ScoreTest:
    """Tests "the difference is `null`", -1 < null < 1, for independent pairs (Tango 1998)."""
    z = tango_statistic(n10, n01, n, null)
    return ScoreTest(z=z, p_greater=normal_sf(z), p_less=normal_sf(-z))


def tango_cluster_adjusted(
    differences: FloatArray, clusters: IntArray, *, alpha: float = 0.05
) -> TangoAdjusted | Undetermined:
    """Computes the Tango interval with Rao-Scott counts and a Satterthwaite t quantile.

    Args:
        differences: treatment minus control per unit, each -1, 0 or 1, shape (n,).
        clusters: integer code of each unit's cluster, shape (n,).
        alpha: two-sided error, in (0, 1).

    Returns:
        The interval; `Undetermined` without units or with a single cluster.

    Source:
        Own composition of Rao and Scott (1992) and Tango (1998): counts and n are divided by
        max(1, V_CR2 / V_naive); the t quantile has the df of CR2. Without any variation between
        units the design effect is that of fully correlated clusters, sum n_g^2 / n.
    """
    found = _check_differences(differences, clusters)
    return found if isinstance(found, Undetermined) else adjusted_limits(found, alpha=alpha)


def tango_cluster_adjusted_p(
    differences: FloatArray, clusters: IntArray, *, null: float = 0.0
) -> float | Undetermined:
    """Returns the two-sided p that belongs to `tango_cluster_adjusted` at -1 < `null` < 1."""
    found = _check_differences(differences, clusters)
    return found if isinstance(found, Undetermined) else adjusted_p(found, null=null)


def adjusted_limits(pairs: ClusteredPairs, *, alpha: float) -> TangoAdjusted:
    """Computes `tango_cluster_adjusted` from pairs that are summed up already."""
    mean, deff = pairs.mean, pairs.deff
    t_critical = t_upper_quantile(alpha / 2.0, mean.df)
    lower, upper = tango_limits(pairs.n10 / deff, pairs.n01 / deff, mean.n / deff, t_critical)
    return TangoAdjusted(
        estimate=mean.estimate,
        lower=min(lower, mean.estimate),
        upper=max(upper, mean.estimate),
        deff=deff,
        df=mean.df,
        n_effective=mean.n / deff,
        t_critical=t_critical,
        level=1.0 - alpha,
    )


def adjusted_p(pairs: ClusteredPairs, *, null: float) -> float:
    """Computes `tango_cluster_adjusted_p` from pairs that are summed up already."""
    mean, deff = pairs.mean, pairs.deff
    z = tango_statistic(pairs.n10 / deff, pairs.n01 / deff, mean.n / deff, null)
    return t_p_value(z, mean.df)


def tango_limits(n10: float, n01: float, n: float, critical: float) -> tuple[float, float]:
    """Returns the two differences at which the score statistic equals -/+ `critical` > 0."""
    _check_tango(n10, n01, n)
    return -_upper_limit(n01, n10, n, critical) + 0.0, _upper_limit(n10, n01, n, critical)


def tango_statistic(n10: float, n01: float, n: float, null: float) -> float:
    """Returns the score statistic at -1 < `null` < 1; 0 where gap and variance are both 0."""
    _check_tango(n10, n01, n)
    if not -1.0 < null < 1.0:
        raise ValueError(f"null: expected a difference in (-1, 1), found {null}")
    if null < 0.0:
        return -_statistic(n01, n10, n, -null) + 0.0
    return _statistic(n10, n01, n, null)


def _statistic(n10: float, n01: float, n: float, null: float) -> float:
    b = (2.0 * n - n01 + n10) * null - n10 - n01
    root = math.sqrt(max(0.0, b * b + 8.0 * n * n10 * null * (1.0 - null)))
    # Whichever root is the restricted share of "only control": written without cancellation.
    share = 2.0 * n10 * null * (1.0 - null) / (b + root) if b > 0.0 else (root - b) / (4.0 * n)
    variance = n * (2.0 * share + null * (1.0 - null))
    gap = n01 - n10 - n * null
    if variance <= 0.0:
        return math.copysign(math.inf, gap) if abs(gap) > 1e-12 * n else 0.0
    return gap / math.sqrt(variance)


def _upper_limit(n10: float, n01: float, n: float, critical: float) -> float:
    estimate = (n01 - n10) / n
    if estimate >= 1.0:
        return 1.0

    def above(null: float) -> bool:
        z = -_statistic(n01, n10, n, -null) if null < 0.0 else _statistic(n10, n01, n, null)
        return z < -critical

    return _first_above(above, estimate, 1.0)


def _first_above(above: Callable[[float], bool], low: float, high: float) -> float:
    # Bisection to the last bit: the same on every machine, and no derivative to go wrong.
    while True:
        middle = 0.5 * (low + high)
        if middle in (low, high):
            return high
        low, high = (low, middle) if above(middle) else (middle, high)


def _check_tango(n10: float, n01: float, n: float) -> None:
    if not (n10 >= 0.0 and n01 >= 0.0 and n > 0.0 and n10 + n01 <= n * (1.0 + 1e-12)):
        raise ValueError(
            "n10, n01, n: expected counts of at least 0 with n10 + n01 <= n, "
            f"found {n10}, {n01}, {n}"
        )


def _check_differences(
    differences: FloatArray, clusters: IntArray
) -> ClusteredPairs | Undetermined:
    values = np.asarray(differences, dtype=np.float64)
    if not np.all((values == 0.0) | (np.abs(values) == 1.0)):
        raise ValueError("differences: expected each to be -1, 0 or 1")
    mean = clustered_mean(values, clusters)
    if isinstance(mean, Undetermined):
        return mean
    return ClusteredPairs(
        mean=mean,
        sizes=cluster_sizes(clusters),
        n10=int(np.count_nonzero(values < 0.0)),
        n01=int(np.count_nonzero(values > 0.0)),
    )
