"""The paired difference: its mean, cluster-robust standard errors and tests.

Job: from one difference per unit (treatment minus control) and the unit's cluster, the estimate,
CR0 to CR3, the Satterthwaite degrees of freedom, the t test and the sign-flip test.
Leaves intervals for binary outcomes to `intervals`, paired counts to `mcnemar`, looks to
`sequential`, what a number means to `verdict`.

Rules:
    - Closed form, O(n + G), no random numbers in anything that decides.
    - Any permutation of the units and any relabelling of the clusters gives the same bits.
    - Zero variance between clusters is `degenerate`: no test and no interval follow from it.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import numpy as np

from .grouping import FloatArray, Groups, IntArray, compact_codes, exact_sum, group
from .mcnemar import mcnemar_asymptotic, mcnemar_exact, mcnemar_midp
from .signflip import SignFlip, sign_flip
from .student import t_around, t_p_value
from .values import Interval, Undetermined

__all__ = (
    "ClusteredMean",
    "PairCounts",
    "SignFlip",
    "clustered_mean",
    "count_clusters",
    "count_pairs",
    "counts_of_groups",
    "equal_weight_mean",
    "mcnemar_asymptotic",
    "mcnemar_exact",
    "mcnemar_midp",
    "mean_of_cluster_means",
    "mean_of_groups",
    "satterthwaite_df",
    "sign_flip",
    "t_interval",
    "t_test",
)

_ZERO = 1e-12
# A smaller square has lost digits, or is 0 where the values aren't.
_UNDERFLOW = 1e-290


@dataclass(frozen=True, kw_only=True, slots=True)
class ClusteredMean:
    """Holds a mean over clusters with its standard errors.

    Attributes:
        estimate: mean of the values (or of the cluster means).
        standard_error: the CR2 standard error; 0 when `degenerate`.
        df: Satterthwaite degrees of freedom of `standard_error`, from the cluster sizes alone.
        n: number of units.
        clusters: number of clusters, at least 2.
        variance_naive: squared standard error that ignores clusters, with divisor n squared.
        cr0: standard error without correction; `cr1`, `cr2`, `cr3` likewise.
        degenerate: the cluster residuals are all zero, up to rounding or by underflow.
    """

    estimate: float
    standard_error: float
    df: float
    n: int
    clusters: int
    variance_naive: float
    cr0: float
    cr1: float
    cr2: float
    cr3: float
    degenerate: bool


@dataclass(frozen=True, kw_only=True, slots=True)
class PairCounts:
    """Holds what can be counted in any set of pairs, even where no interval exists.

    Attributes:
        n: number of pairs.
        clusters: number of clusters.
        estimate: mean difference, or why there is none.
        discordant_clusters: clusters with at least one non-zero difference.
        only_control: pairs with a difference below zero.
        only_treatment: pairs with a difference above zero.
        largest_cluster: units of the largest cluster; 0 without pairs.
    """

    n: int
    clusters: int
    estimate: float | Undetermined
    discordant_clusters: int
    only_control: int
    only_treatment: int
    largest_cluster: int


def clustered_mean(values: FloatArray, clusters: IntArray) -> ClusteredMean | Undetermined:
    """Computes the pooled (unit-weighted) mean with CR0 to CR3 and the Satterthwaite df.

    With S_g the residual sum, n_g the size and h_g = 1 - n_g/n of cluster g: the squared
    standard errors are sum S_g^2 h_g^-j / n^2 for CR0 (j=0), CR2 (j=1) and CR3 (j=2), and
    CR1 = CR0 G/(G-1).

    Args:
        values: one number per unit, shape (n,), finite.
        clusters: integer code of each unit's cluster, shape (n,).

    Returns:
        The mean; `Undetermined` without units or with a single cluster.

    Source:
        Bell and McCaffrey (2002); Pustejovsky and Tipton (2018), eq. (6) and (11), with an
        identity working model, in the closed form of an intercept-only regression.
    """
    if len(values) == 0:
        return Undetermined("there is no complete pair")
    return mean_of_groups(group(values, clusters))


def equal_weight_mean(values: FloatArray, clusters: IntArray) -> ClusteredMean | Undetermined:
    """Computes the mean of the cluster means; its t has G - 1 degrees of freedom.

    Args:
        values: one number per unit, shape (n,), finite.
        clusters: integer code of each unit's cluster, shape (n,).

    Returns:
        The mean, in which every cluster counts once (`n` still counts units);
        `Undetermined` without units or with a single cluster.
    """
    if len(values) == 0:
        return Undetermined("there is no complete pair")
    return mean_of_cluster_means(group(values, clusters))


def mean_of_groups(groups: Groups) -> ClusteredMean | Undetermined:
    """Computes `clustered_mean` from values that are grouped already."""
    if groups.sums.size < 2:
        return Undetermined("all units are in one cluster, so nothing varies between clusters")
    return _clustered(groups)


def mean_of_cluster_means(groups: Groups) -> ClusteredMean | Undetermined:
    """Computes `equal_weight_mean` from values that are grouped already."""
    means = groups.sums / groups.sizes
    pooled = mean_of_groups(group(means, np.arange(means.size)))
    return pooled if isinstance(pooled, Undetermined) else replace(pooled, n=groups.n)


def satterthwaite_df(sizes: FloatArray | IntArray) -> float | Undetermined:
    """Returns the degrees of freedom of the CR2 standard error, from cluster sizes alone.

    Args:
        sizes: units per cluster, shape (G,), all above 0.

    Returns:
        tr(M)^2 / tr(M^2) with M = diag(n_g/h_g) - v v'/n, v_g = n_g / sqrt(h_g), which is
        between 1 and G - 1 and equals G - 1 for equal sizes; `Undetermined` for one cluster.
    """
    sizes = _check_sizes(sizes)
    if sizes.size < 2:
        return Undetermined("all units are in one cluster, so nothing varies between clusters")
    return _satterthwaite(sizes)


def t_test(mean: ClusteredMean, *, null: float = 0.0) -> float | Undetermined:
    """Returns the two-sided p of "the true mean is `null`" by CR2-t, or why there is none."""
    if mean.degenerate:
        return Undetermined("every cluster has the same mean, so there is no variance to test with")
    return t_p_value((mean.estimate - null) / mean.standard_error, mean.df)


def t_interval(mean: ClusteredMean, *, alpha: float = 0.05) -> Interval | Undetermined:
    """Returns the two-sided t interval at level 1 - `alpha`, never of zero width."""
    if mean.degenerate:
        return Undetermined(
            "every cluster has the same mean, so there is no variance for an interval"
        )
    return t_around(mean.estimate, mean.standard_error, mean.df, alpha=alpha, method="cr2_t")


def count_clusters(values: FloatArray, clusters: IntArray) -> tuple[int, int]:
    """Returns how many clusters there are, and how many hold a difference that isn't 0.

    Args:
        values: one difference per unit, shape (n,); may be empty.
        clusters: integer code of each unit's cluster, shape (n,).
    """
    if len(values) == 0:
        return 0, 0
    codes, count = compact_codes(clusters)
    return count, int(np.count_nonzero(np.bincount(codes[values != 0.0])))


def count_pairs(values: FloatArray, clusters: IntArray) -> PairCounts:
    """Counts pairs, clusters and disagreements.

    Args:
        values: one difference per unit, shape (n,), finite; may be empty.
        clusters: integer code of each unit's cluster, shape (n,).
    """
    if len(values) == 0:
        return PairCounts(
            n=0,
            clusters=0,
            estimate=Undetermined("there is no complete pair"),
            discordant_clusters=0,
            only_control=0,
            only_treatment=0,
            largest_cluster=0,
        )
    return counts_of_groups(np.asarray(values, dtype=np.float64), group(values, clusters))


def counts_of_groups(values: FloatArray, groups: Groups) -> PairCounts:
    """Computes `count_pairs` from at least one pair, grouped already."""
    return PairCounts(
        n=groups.n,
        clusters=int(groups.sums.size),
        estimate=groups.total / groups.n,
        discordant_clusters=int(np.count_nonzero(np.bincount(groups.codes[values != 0.0]))),
        only_control=int(np.count_nonzero(values < 0.0)),
        only_treatment=int(np.count_nonzero(values > 0.0)),
        largest_cluster=int(groups.sizes.max()),
    )


def _clustered(groups: Groups) -> ClusteredMean:
    n, count = float(groups.n), groups.sums.size
    mean = groups.total / n
    residuals = groups.sums - groups.sizes * mean
    squares = residuals * residuals
    h = (n - groups.sizes) / n
    cr0, cr2, cr3 = (exact_sum(squares / h**power) / (n * n) for power in (0, 1, 2))
    flat = bool(np.all(np.abs(residuals) <= _ZERO * groups.largest * groups.sizes))
    flat = flat or cr2 < _UNDERFLOW
    keep = 0.0 if flat else 1.0
    return ClusteredMean(
        estimate=mean,
        standard_error=keep * math.sqrt(cr2),
        df=_satterthwaite(groups.sizes),
        n=groups.n,
        clusters=count,
        variance_naive=groups.squares / (n * n),
        cr0=keep * math.sqrt(cr0),
        cr1=keep * math.sqrt(cr0 * count / (count - 1)),
        cr2=keep * math.sqrt(cr2),
        cr3=keep * math.sqrt(cr3),
        degenerate=flat,
    )


def _satterthwaite(sizes: FloatArray) -> float:
    if sizes.min() == sizes.max():
        return float(sizes.size - 1)
    n = exact_sum(sizes)
    scaled = sizes * n / (n - sizes)
    first = exact_sum(sizes * scaled)
    second = exact_sum(sizes * scaled * scaled)
    return n * n / (first - second / n + first * first / (n * n))


def _check_sizes(sizes: FloatArray | IntArray) -> FloatArray:
    sizes = np.asarray(sizes, dtype=np.float64)
    if sizes.ndim != 1 or sizes.size == 0 or not np.all(sizes > 0.0):
        raise ValueError(f"sizes: expected a list of numbers above 0, found {sizes.tolist()}")
    return sizes
