"""Cluster bootstrap and jackknife, from sums per cluster.

Job: resample whole clusters of a mean or ratio and read percentile, BCa and studentised limits;
jackknife with t for a metric without a variance formula. Leaves the draws to `draws`, the area
under the curve to `auc_bootstrap`, the wild bootstrap to `wild`, what decides to `deciding`.

Rules:
    - Percentile and BCa limits describe; they are too narrow with few clusters and never decide.
    - Clusters are put in a canonical order before drawing, so the order of input and the names
      of clusters don't matter.
    - A resample is its exact totals of a few columns; a variance within it comes from totals of
      squares about the estimate, and below 1e-12 of them there is none.
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

from .distributions import normal_cdf, normal_quantile
from .draws import drawn_totals
from .grouping import FloatArray, check_cluster_lists, exact_sum, on_grid
from .student import t_around, t_p_value
from .values import Interval, Undetermined

__all__ = (
    "BcaLevels",
    "Bootstrap",
    "Jackknife",
    "bca_levels",
    "cluster_bootstrap",
    "cluster_percentiles",
    "jackknife_t",
    "percentile_limits",
    "summarised",
)

# A variance below this share of the squares that it is the difference of is rounding.
_ZERO: Final = 1e-12


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
    order = np.lexsort((sums, sizes))
    sums, sizes = on_grid(sums[order], sums.size), on_grid(sizes[order], sizes.size)
    estimate = exact_sum(sums) / exact_sum(sizes)
    squares, scale = _square_columns(sums, sizes, estimate)
    columns = np.column_stack([sums, sizes, squares])
    totals = drawn_totals(columns, seed=seed, resamples=resamples)
    ratios = _ratios(totals[:, 0], totals[:, 1])
    gaps = np.where(ratios == estimate, 0.0, (ratios - estimate) / scale)
    with np.errstate(divide="ignore", invalid="ignore"):
        pivots = gaps / _cr1(totals[:, 1:], sums.size)
    error = float(_cr1(columns.sum(axis=0)[None, 1:], sums.size)[0]) * scale
    return summarised(
        estimate,
        error,
        ratios,
        np.where(gaps == 0.0, 0.0, pivots),
        _leave_one_out(sums, sizes),
        alpha=alpha,
    )


def cluster_percentiles(
    cluster_sums: FloatArray,
    cluster_sizes: FloatArray,
    *,
    seed: int,
    resamples: int = 9999,
    alpha: float = 0.05,
) -> tuple[Interval | Undetermined, ...]:
    """Computes percentile limits of several ratios sum / size from one set of draws.

    Args:
        cluster_sums: numerators, one row a metric, shape (M, G), in one order of clusters.
        cluster_sizes: denominators likewise, >= 0, no row all 0.
        seed: the design's seed.
        resamples: draws, at least 999.
        alpha: two-sided error.

    Returns:
        One interval a metric, for description: too narrow with few clusters.
    """
    rows = [
        _check_bootstrap(sums, sizes, resamples)
        for sums, sizes in zip(cluster_sums, cluster_sizes, strict=True)
    ]
    count = rows[0][0].size
    if count < 2:
        return (Undetermined("one cluster cannot be resampled"),) * len(rows)
    columns = np.column_stack([on_grid(column, count) for row in rows for column in row])
    columns = columns[np.lexsort(columns.T)]
    totals = drawn_totals(columns, seed=seed, resamples=resamples).T
    ratios = _ratios(totals[0::2], totals[1::2])
    # Only the order statistics that a limit is read from have to be in their place.
    needed = {
        min(max(math.floor((resamples + 1) * level + 1e-9) + step, 0), resamples - 1)
        for level in (alpha / 2.0, 1.0 - alpha / 2.0)
        for step in (-1, 0)
    }
    ordered = np.partition(ratios, sorted(needed), axis=1)
    return tuple(_percentile(row, alpha) for row in ordered)


def summarised(
    estimate: float,
    error: float,
    replicates: FloatArray,
    pivots: FloatArray,
    jackknife: FloatArray,
    *,
    alpha: float,
) -> Bootstrap:
    """Reads all limits of an estimate from what its resamples gave.

    Args:
        estimate: value in the data.
        error: its standard error, as the pivots have it; 0 or less where nothing varies.
        replicates: value of each resample, infinite where there is none, shape (B,).
        pivots: (value - estimate) / its own standard error, shape (B,).
        jackknife: value without each cluster, shape (G,).
        alpha: two-sided error.
    """
    ordered = np.sort(replicates)
    return Bootstrap(
        estimate=estimate,
        standard_error=_spread(ordered),
        percentile=_percentile(ordered, alpha),
        bca=_bca(estimate, ordered, jackknife, alpha),
        studentised=_studentised(estimate, error, np.sort(pivots), alpha),
        resamples=int(replicates.size),
    )


def percentile_limits(
    replicates: FloatArray, lower_level: float, upper_level: float
) -> tuple[float, float] | Undetermined:
    """Returns two quantiles of replicates, shape (B,), by (B + 1)p order statistics."""
    return _limits(np.sort(np.asarray(replicates, dtype=np.float64)), lower_level, upper_level)


def _limits(
    ordered: FloatArray, lower_level: float, upper_level: float
) -> tuple[float, float] | Undetermined:
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
    return Jackknife(
        standard_error=error,
        df=count - 1,
        interval=t_around(estimate, error, count - 1, alpha=alpha, method="jackknife_t"),
        p_value=t_p_value((estimate - null) / error, count - 1),
    )


def _ratios(sums: FloatArray, sizes: FloatArray) -> FloatArray:
    with np.errstate(divide="ignore", invalid="ignore"):
        ratios = sums / sizes
    return np.where(np.isnan(ratios), np.inf, ratios)


def _square_columns(
    sums: FloatArray, sizes: FloatArray, estimate: float
) -> tuple[FloatArray, float]:
    """Returns each cluster's residual, and its square, product and square with the size.

    Residuals are divided by a power of two near the largest, so that squares can't overflow.
    """
    residuals = sums - sizes * estimate
    scale = 2.0 ** math.frexp(float(np.max(np.abs(residuals))))[1]
    residuals = residuals / scale
    columns = (residuals, residuals * residuals, residuals * sizes, sizes * sizes)
    return np.column_stack([on_grid(column, sums.size) for column in columns]), scale


def _cr1(totals: FloatArray, count: int) -> FloatArray:
    """Returns the CR1 error of each resample from totals of sizes and of `_square_columns`."""
    sizes, residuals, squares, products, squared_sizes = totals.T
    with np.errstate(divide="ignore", invalid="ignore"):
        mean = residuals / sizes
        about = squares - 2.0 * mean * products + mean * mean * squared_sizes
        flat = about <= _ZERO * (squares + mean * mean * squared_sizes)
        about = np.where(flat, 0.0, about)
        return np.asarray(np.sqrt(about * count / (count - 1)) / sizes, dtype=np.float64)


def _leave_one_out(sums: FloatArray, sizes: FloatArray) -> FloatArray:
    with np.errstate(divide="ignore", invalid="ignore"):
        return (exact_sum(sums) - sums) / (exact_sum(sizes) - sizes)


def _spread(ratios: FloatArray) -> float | Undetermined:
    if not np.all(np.isfinite(ratios)):
        return Undetermined("some resamples hold no unit")
    deviations = ratios - exact_sum(ratios) / ratios.size
    return math.sqrt(exact_sum(deviations * deviations) / (ratios.size - 1))


def _percentile(ordered: FloatArray, alpha: float) -> Interval | Undetermined:
    limits = _limits(ordered, alpha / 2.0, 1.0 - alpha / 2.0)
    return _as_interval(limits, alpha, "cluster_percentile")


def _bca(
    estimate: float, ordered: FloatArray, jackknife: FloatArray, alpha: float
) -> Interval | Undetermined:
    if not np.all(np.isfinite(ordered)):
        return Undetermined("some resamples hold no unit")
    levels = bca_levels(estimate, ordered, jackknife, alpha=alpha)
    if isinstance(levels, Undetermined):
        return levels
    limits = _limits(ordered, levels.level_lower, levels.level_upper)
    return _as_interval(limits, alpha, "cluster_bca")


def _studentised(
    estimate: float, error: float, ordered: FloatArray, alpha: float
) -> Interval | Undetermined:
    # NaN, which a resample without units gives, is sorted to the end.
    if error <= 1e-12 * abs(estimate) or math.isnan(ordered[-1]):
        return Undetermined("every cluster has the same mean, so nothing varies")
    limits = _limits(ordered, alpha / 2.0, 1.0 - alpha / 2.0)
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
