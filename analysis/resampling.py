"""Cluster bootstrap and jackknife, from sums per cluster.

Job: resample whole clusters of a mean or ratio and read percentile, BCa and studentised limits;
jackknife with t for a metric without a variance formula. Leaves the wild bootstrap to `wild`,
the deciding interval to `deciding`.

Rules:
    - Percentile and BCa limits describe; they are too narrow with few clusters and never decide.
    - Clusters are put in a canonical order before drawing, so the order of input and the names
      of clusters don't matter; draws come from a Philox stream of their own.
    - A resample without units or without variance is kept as an infinite value, never dropped:
      a limit that would fall on one is `Undetermined`.
    - The quantile is the (B + 1)p-th order statistic, linear between neighbours.

Source:
    Efron (1987) for BCa; Davison and Hinkley (1997), sections 2.4 and 5.2; Cameron, Gelbach and
    Miller (2008).
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Final

import numpy as np

from .distributions import normal_cdf, normal_quantile, t_sf, t_upper_quantile
from .grouping import FloatArray, check_cluster_lists, exact_sum
from .randomness import STREAM_BOOTSTRAP, indices
from .values import Interval, Undetermined

__all__ = (
    "BcaLevels",
    "Bootstrap",
    "Jackknife",
    "bca_levels",
    "cluster_bootstrap",
    "jackknife_t",
    "percentile_limits",
)

_CHUNK_CELLS: Final = 2_000_000


@dataclass(frozen=True, kw_only=True, slots=True)
class Bootstrap:
    """Holds the cluster bootstrap of a ratio sum / size.

    Attributes:
        estimate: the ratio in the data.
        standard_error: standard deviation over resamples.
        percentile: percentile limits, for description.
        bca: bias-corrected and accelerated limits, for description.
        studentised: studentised limits with the CR1 standard error.
        resamples: how many were drawn.
    """

    estimate: float
    standard_error: float | Undetermined
    percentile: Interval | Undetermined
    bca: Interval | Undetermined
    studentised: Interval | Undetermined
    resamples: int


@dataclass(frozen=True, kw_only=True, slots=True)
class BcaLevels:
    """Holds bias correction, acceleration and the adjusted levels of a BCa interval."""

    z0: float
    acceleration: float
    level_lower: float
    level_upper: float


@dataclass(frozen=True, kw_only=True, slots=True)
class Jackknife:
    """Holds a delete-one-cluster jackknife with t(G - 1).

    Attributes:
        standard_error: sqrt((G-1)/G sum (theta_g - mean)^2).
        df: clusters - 1.
        interval: t interval about the estimate.
        p_value: two-sided p of the null given.
    """

    standard_error: float
    df: int
    interval: Interval
    p_value: float


def cluster_bootstrap(
    cluster_sums: FloatArray,
    cluster_sizes: FloatArray,
    *,
    seed: int,
    resamples: int = 9999,
    alpha: float = 0.05,
) -> Bootstrap | Undetermined:
    """Resamples clusters with replacement and summarises sum / size.

    Args:
        cluster_sums: numerator of each cluster, shape (G,).
        cluster_sizes: denominator of each cluster, >= 0, not all 0, shape (G,).
        seed: the design's seed.
        resamples: draws, at least 999.
        alpha: two-sided error.
    """
    sums, sizes = _check_bootstrap(cluster_sums, cluster_sizes, resamples)
    if sums.size < 2:
        return Undetermined("one cluster cannot be resampled")
    estimate = exact_sum(sums) / exact_sum(sizes)
    error = _cr1(sums[None, :], sizes[None, :])[0]
    ratios, errors = _draw(sums, sizes, seed, resamples)
    with np.errstate(divide="ignore", invalid="ignore"):
        pivots = np.where(ratios == estimate, 0.0, (ratios - estimate) / errors)
    return Bootstrap(
        estimate=estimate,
        standard_error=_spread(ratios),
        percentile=_percentile(ratios, alpha),
        bca=_bca(estimate, ratios, _leave_one_out(sums, sizes), alpha),
        studentised=_studentised(estimate, float(error), pivots, alpha),
        resamples=resamples,
    )


def percentile_limits(
    replicates: FloatArray, lower_level: float, upper_level: float
) -> tuple[float, float] | Undetermined:
    """Returns two quantiles of replicates, shape (B,), by (B + 1)p order statistics."""
    ordered = np.sort(np.asarray(replicates, dtype=np.float64))
    if ordered.size == 0:
        return Undetermined("there is no replicate")
    limits = [_order_statistic(ordered, level) for level in (lower_level, upper_level)]
    if not all(math.isfinite(limit) for limit in limits):
        return Undetermined("too many resamples have no value")
    return limits[0], limits[1]


def bca_levels(
    estimate: float, replicates: FloatArray, jackknife: FloatArray, *, alpha: float = 0.05
) -> BcaLevels | Undetermined:
    """Computes the levels of a BCa interval.

    Args:
        estimate: value in the data.
        replicates: bootstrap values, shape (B,).
        jackknife: value without each cluster, shape (G,).
        alpha: two-sided error.
    """
    values = np.asarray(replicates, dtype=np.float64)
    below = np.count_nonzero(values < estimate) + 0.5 * np.count_nonzero(values == estimate)
    if not 0 < below < values.size:
        return Undetermined("all resamples lie on one side of the estimate")
    acceleration = _acceleration(np.asarray(jackknife, dtype=np.float64))
    if isinstance(acceleration, Undetermined):
        return acceleration
    z0 = normal_quantile(below / values.size)
    levels = []
    for level in (alpha / 2.0, 1.0 - alpha / 2.0):
        shifted = z0 + normal_quantile(level)
        levels.append(normal_cdf(z0 + shifted / (1.0 - acceleration * shifted)))
    return BcaLevels(z0=z0, acceleration=acceleration, level_lower=levels[0], level_upper=levels[1])


def jackknife_t(
    estimate: float, leave_one_out: FloatArray, *, alpha: float = 0.05, null: float = 0.0
) -> Jackknife | Undetermined:
    """Computes the jackknife over clusters with t(G - 1).

    Args:
        estimate: value in the data.
        leave_one_out: value without each cluster, shape (G,), finite.
        alpha: two-sided error.
        null: value at which the test is computed.
    """
    values = np.asarray(leave_one_out, dtype=np.float64)
    if not np.all(np.isfinite(values)):
        return Undetermined("without one of the clusters the number does not exist")
    if values.size < 2:
        return Undetermined("one cluster shows no spread between clusters")
    count = int(values.size)
    deviations = values - exact_sum(values) / count
    error = math.sqrt((count - 1) / count * exact_sum(deviations * deviations))
    if error <= 1e-12 * float(np.max(np.abs(values))):
        return Undetermined("leaving out any cluster gives the same number")
    half = t_upper_quantile(alpha / 2.0, count - 1) * error
    return Jackknife(
        standard_error=error,
        df=count - 1,
        interval=Interval(
            lower=estimate - half, upper=estimate + half, level=1.0 - alpha, method="jackknife_t"
        ),
        p_value=min(1.0, 2.0 * t_sf(abs(estimate - null) / error, count - 1)),
    )


def _draw(
    sums: FloatArray, sizes: FloatArray, seed: int, resamples: int
) -> tuple[FloatArray, FloatArray]:
    order = np.lexsort((sums, sizes))
    sums, sizes = sums[order], sizes[order]
    step = max(1, _CHUNK_CELLS // sums.size)
    ratios, errors = np.empty(resamples), np.empty(resamples)
    for first in range(0, resamples, step):
        rows = min(step, resamples - first)
        places = indices(
            rows, sums.size, sums.size, seed=seed, stream=STREAM_BOOTSTRAP, first_row=first
        )
        drawn, weights = sums[places], sizes[places]
        with np.errstate(divide="ignore", invalid="ignore"):
            ratio = drawn.sum(axis=1) / weights.sum(axis=1)
        ratios[first : first + rows] = np.where(np.isnan(ratio), np.inf, ratio)
        errors[first : first + rows] = _cr1(drawn, weights)
    return ratios, errors


def _cr1(sums: FloatArray, sizes: FloatArray) -> FloatArray:
    count, n = sums.shape[1], sizes.sum(axis=1)
    with np.errstate(divide="ignore", invalid="ignore"):
        residuals = sums - sizes * (sums.sum(axis=1) / n)[:, None]
        squares = np.sum(residuals * residuals, axis=1)
        return np.asarray(np.sqrt(squares * count / (count - 1)) / n, dtype=np.float64)


def _leave_one_out(sums: FloatArray, sizes: FloatArray) -> FloatArray:
    with np.errstate(divide="ignore", invalid="ignore"):
        return (exact_sum(sums) - sums) / (exact_sum(sizes) - sizes)


def _spread(ratios: FloatArray) -> float | Undetermined:
    if not np.all(np.isfinite(ratios)):
        return Undetermined("some resamples hold no unit")
    return float(np.std(ratios, ddof=1))


def _percentile(ratios: FloatArray, alpha: float) -> Interval | Undetermined:
    limits = percentile_limits(ratios, alpha / 2.0, 1.0 - alpha / 2.0)
    return _as_interval(limits, alpha, "cluster_percentile")


def _bca(
    estimate: float, ratios: FloatArray, jackknife: FloatArray, alpha: float
) -> Interval | Undetermined:
    if not np.all(np.isfinite(ratios)):
        return Undetermined("some resamples hold no unit")
    levels = bca_levels(estimate, ratios, jackknife, alpha=alpha)
    if isinstance(levels, Undetermined):
        return levels
    limits = percentile_limits(ratios, levels.level_lower, levels.level_upper)
    return _as_interval(limits, alpha, "cluster_bca")


def _studentised(
    estimate: float, error: float, pivots: FloatArray, alpha: float
) -> Interval | Undetermined:
    if error <= 1e-12 * abs(estimate) or not np.all(~np.isnan(pivots)):
        return Undetermined("every cluster has the same mean, so nothing varies")
    limits = percentile_limits(pivots, alpha / 2.0, 1.0 - alpha / 2.0)
    if isinstance(limits, Undetermined):
        return Undetermined("too many resamples have no variance")
    low, high = estimate - limits[1] * error, estimate - limits[0] * error
    return _as_interval((low, high), alpha, "cluster_studentised")


def _as_interval(
    limits: tuple[float, float] | Undetermined, alpha: float, method: str
) -> Interval | Undetermined:
    if isinstance(limits, Undetermined):
        return limits
    if limits[0] == limits[1]:
        return Undetermined("all resamples give the same number")
    return Interval(lower=limits[0], upper=limits[1], level=1.0 - alpha, method=method)


def _order_statistic(ordered: FloatArray, level: float) -> float:
    place = min(max((ordered.size + 1) * level, 1.0), float(ordered.size))
    below = min(math.floor(place + 1e-9), ordered.size)
    share = max(0.0, place - below)
    low = float(ordered[below - 1])
    if share <= 1e-9 or below == ordered.size:
        return low
    return low + share * (float(ordered[below]) - low)


def _acceleration(jackknife: FloatArray) -> float | Undetermined:
    if not np.all(np.isfinite(jackknife)) or jackknife.size < 2:
        return Undetermined("without one of the clusters the number does not exist")
    deviations = exact_sum(jackknife) / jackknife.size - jackknife
    squares = exact_sum(deviations**2)
    if squares <= 0.0:
        return Undetermined("leaving out any cluster gives the same number")
    return exact_sum(deviations**3) / (6.0 * squares * math.sqrt(squares))


def _check_bootstrap(
    cluster_sums: FloatArray, cluster_sizes: FloatArray, resamples: int
) -> tuple[FloatArray, FloatArray]:
    sums, sizes = check_cluster_lists(cluster_sums, cluster_sizes, resamples=resamples)
    if not np.all(sizes >= 0.0) or not np.any(sizes > 0.0):
        raise ValueError("cluster_sizes: expected numbers of at least 0, not all 0")
    return sums, sizes
