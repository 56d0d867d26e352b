"""The difference between two arms when each unit is in one of them.

Job: from one number a unit, its arm and its cluster, the difference of means (treatment minus
control), CR0 to CR3, the Satterthwaite degrees of freedom of the arm contrast, and what the frozen
assignment alone tells of information and of the least p. Leaves what decides to
`assigned_deciding`, the assignment itself to the engine, and pairs to `paired`.

Rules:
    - One regression, y on arm, with clusters: it holds where a cluster lies in one arm, where it
      has units in both, and for any mixture of the two.
    - Closed form, O(n + G), no random numbers; any order of the units gives the same bits.
    - The cluster-weighted difference exists where every cluster lies in one arm (a difference of
      means of cluster means) or every cluster has both (the mean of differences inside clusters);
      for a mixture it doesn't, and says so.
    - Yes or no is a mean like any other here: there is no pair, so no discordance and no Tango.
    - An arm whose units are all in one cluster has no variance between clusters: no interval.

Source:
    Bell and McCaffrey (2002); Pustejovsky and Tipton (2018), eq. (6) and (11), with an identity
    working model, in the closed form of a regression on two arms, whose blocks I - H have the
    eigenvalues 1 - m/n of each arm. With single units it is HC2 with their degrees of freedom.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Final

import numpy as np
import numpy.typing as npt

from .grouping import FloatArray, IntArray, exact_sum, group
from .paired import ClusteredMean, mean_of_groups
from .values import Estimand, Undetermined

__all__ = (
    "ArmCounts",
    "arm_counts",
    "assigned_df",
    "assigned_difference",
    "assigned_fractions",
    "assigned_weights",
    "least_p",
)

_BoolArray = npt.NDArray[np.bool_]

_ZERO: Final = 1e-12
_UNDERFLOW: Final = 1e-290
_BITS: Final = 1100
_NO_ARM = Undetermined("an arm has no unit with a usable outcome")
_ONE_CLUSTER = Undetermined(
    "all units of an arm are in one cluster, so nothing varies between clusters in it"
)
_MIXED = Undetermined(
    "some clusters have units in one arm only and some in both, so no mean over clusters compares "
    "the arms"
)


@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class ArmCounts:
    """Units of each cluster in each arm, shape (G,); every cluster has at least one."""

    control: FloatArray
    treatment: FloatArray

    @property
    def sizes(self) -> FloatArray:
        """Units of each cluster in both arms together."""
        return np.asarray(self.control + self.treatment)

    def first(self, clusters: int) -> ArmCounts:
        """Returns the counts of the first clusters alone."""
        return ArmCounts(control=self.control[:clusters], treatment=self.treatment[:clusters])

    def present(self) -> ArmCounts:
        """Returns the counts of the clusters that have a unit."""
        kept = self.sizes > 0.0
        return ArmCounts(control=self.control[kept], treatment=self.treatment[kept])

    @property
    def is_mixed(self) -> bool:
        """Whether some clusters have both arms and some only one."""
        both = (self.control > 0.0) & (self.treatment > 0.0)
        return bool(np.any(both) and not np.all(both))

    @property
    def by_cluster(self) -> bool:
        """Whether every cluster lies in one arm."""
        return not bool(np.any((self.control > 0.0) & (self.treatment > 0.0)))


def arm_counts(treated: _BoolArray, clusters: IntArray) -> ArmCounts:
    """Counts the units of each cluster by arm.

    Args:
        treated: whether each unit is in the treatment arm, shape (n,).
        clusters: integer code of each unit's cluster, shape (n,).
    """
    _, codes = np.unique(clusters, return_inverse=True)
    count = int(codes.max()) + 1 if codes.size else 0
    return ArmCounts(
        control=np.bincount(codes[~treated], minlength=count).astype(np.float64),
        treatment=np.bincount(codes[treated], minlength=count).astype(np.float64),
    )


def assigned_difference(
    values: FloatArray, treated: _BoolArray, clusters: IntArray, *, estimand: Estimand
) -> ClusteredMean | Undetermined:
    """Computes mean of treatment minus mean of control, with CR0 to CR3 and the Satterthwaite df.

    With S_ag the residual sum and m_ag the units of cluster g in arm a, n_a all units of the arm
    and h_ag = 1 - m_ag/n_a, the squared standard errors are
    sum over g of (S_Tg h_Tg^-j / n_T - S_Cg h_Cg^-j / n_C)^2 for CR0 (j=0), CR2 (j=1/2) and
    CR3 (j=1), and CR1 = CR0 G/(G-1).

    Args:
        values: one number a unit, shape (n,), finite.
        treated: whether the unit is in the treatment arm, shape (n,).
        clusters: integer code of each unit's cluster, shape (n,).
        estimand: weight of a unit or of a cluster.

    Returns:
        The difference (`variance_naive` ignores clusters); `Undetermined` where an arm has no
        unit, where all of an arm's units are in one cluster, or for cluster weights where clusters
        with one arm and with both are mixed.
    """
    values, treated, clusters = _check_assigned(values, treated, clusters)
    if not treated.any() or treated.all():
        return _NO_ARM
    if estimand == "unit_weighted":
        return _contrast(values, treated, clusters)
    return _by_cluster_means(values, treated, clusters)


def assigned_df(counts: ArmCounts, *, estimand: Estimand) -> float | Undetermined:
    """Returns the degrees of freedom of the CR2 standard error, from the assignment alone.

    Args:
        counts: units of each cluster by arm.
        estimand: weight of a unit or of a cluster.
    """
    control, treatment = counts.control, counts.treatment
    if estimand == "cluster_weighted":
        if counts.is_mixed:
            return _MIXED
        if not counts.by_cluster:
            clusters = len(control)
            return float(clusters - 1) if clusters > 1 else _ONE_CLUSTER
        control, treatment = (np.minimum(side, 1.0) for side in (control, treatment))
    whole = [exact_sum(side) for side in (control, treatment)]
    if min(whole) == 0.0:
        return _NO_ARM
    if control.max() == whole[0] or treatment.max() == whole[1]:
        return _ONE_CLUSTER
    return _satterthwaite(control, treatment)


def assigned_weights(counts: ArmCounts, *, icc: float, estimand: Estimand) -> FloatArray:
    """Returns each cluster's part in the variance of the difference, shape (G,).

    Of units with variance 1 that correlate by `icc` inside a cluster. Shares of the running sum
    are the information fractions of looks: at a look where the arms stand in the proportion of the
    whole plan, its squared correlation with the end.

    Args:
        counts: planned units of each cluster by arm; every arm has one, every cluster too.
        icc: design intra-cluster correlation in [0, 1].
        estimand: weight of a unit or of a cluster; no mixture of clusters for the latter.
    """
    weigh = _by_unit if estimand == "unit_weighted" else _by_cluster
    weights = weigh(counts, icc)
    # With units that are all alike inside a cluster, nothing but their number is left to compare.
    return weights if exact_sum(weights) > 0.0 else weigh(counts, 0.0)


def assigned_fractions(
    counts: ArmCounts, cuts: Sequence[int], *, icc: float, estimand: Estimand
) -> tuple[float, ...]:
    """Computes each look's share of the planned information, as `assigned_weights` says.

    Args:
        counts: planned units of each cluster by arm, clusters in run order.
        cuts: number of clusters before each look's end, rising, each in 1..G.
        icc: design intra-cluster correlation in [0, 1].
        estimand: weight of a unit or of a cluster.

    Returns:
        Fractions that rise strictly; exactly 1 where a look takes all clusters.
    """
    weights = assigned_weights(counts, icc=icc, estimand=estimand).tolist()
    whole = math.fsum(weights)
    return tuple(math.fsum(weights[:cut]) / whole for cut in cuts)


def least_p(counts: ArmCounts) -> float:
    """Returns the least two-sided p that chance alone could give this assignment's clusters.

    Whole clusters in one arm: 2 over the number of ways to choose the arm's clusters. Otherwise
    2^(1-G), as where signs of clusters are flipped.
    """
    clusters = len(counts.control)
    if not counts.by_cluster:
        return 2.0 ** (1 - clusters)
    treated = int(np.count_nonzero(counts.treatment))
    fewer = min(treated, clusters - treated)
    # At least 2^fewer ways: above 2^_BITS no float holds the p. Integers divide without overflow.
    return 0.0 if fewer > _BITS else min(1.0, 2 / math.comb(clusters, fewer))


@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class _Side:
    """One arm: residual sum and units of each cluster, all clusters in one order."""

    mean: float
    residuals: FloatArray
    sizes: FloatArray
    n: float
    squares: float
    flat: bool

    def score(self, power: float) -> FloatArray:
        """Returns each cluster's part in the arm's mean, corrected by (1 - m/n)^-power."""
        return np.asarray(self.residuals / ((self.n - self.sizes) / self.n) ** power / self.n)


def _contrast(
    values: FloatArray, treated: _BoolArray, clusters: IntArray
) -> ClusteredMean | Undetermined:
    names, codes = np.unique(clusters, return_inverse=True)
    count = names.size
    control, treatment = (
        _side(values[inside], codes[inside].astype(np.int64), count)
        for inside in (~treated, treated)
    )
    if control.sizes.max() == control.n or treatment.sizes.max() == treatment.n:
        return _ONE_CLUSTER
    variances = [_variance(control, treatment, power) for power in (0.0, 0.5, 1.0)]
    flat = (control.flat and treatment.flat) or variances[1] < _UNDERFLOW
    keep = 0.0 if flat else 1.0
    cr0, cr2, cr3 = (keep * math.sqrt(each) for each in variances)
    return ClusteredMean(
        estimate=treatment.mean - control.mean,
        standard_error=cr2,
        df=_satterthwaite(control.sizes, treatment.sizes),
        n=len(values),
        clusters=count,
        variance_naive=control.squares / control.n**2 + treatment.squares / treatment.n**2,
        cr0=cr0,
        cr1=cr0 * math.sqrt(count / (count - 1)),
        cr2=cr2,
        cr3=cr3,
        degenerate=flat,
    )


def _side(values: FloatArray, codes: IntArray, count: int) -> _Side:
    groups = group(values, codes)
    present = np.unique(codes)
    sums, sizes = np.zeros(count), np.zeros(count)
    sums[present], sizes[present] = groups.sums, groups.sizes
    mean = groups.total / groups.n
    residuals = sums - sizes * mean
    return _Side(
        mean=mean,
        residuals=residuals,
        sizes=sizes,
        n=float(groups.n),
        squares=groups.squares,
        flat=bool(np.all(np.abs(residuals) <= _ZERO * groups.largest * sizes)),
    )


def _variance(control: _Side, treatment: _Side, power: float) -> float:
    scores = treatment.score(power) - control.score(power)
    return exact_sum(scores * scores)


def _satterthwaite(control: FloatArray, treatment: FloatArray) -> float:
    """Returns tr(P)^2 / tr(P^2), P the covariance of clusters' scores under equal units."""
    diagonal, parts = np.zeros(len(control)), []
    for sizes in (control, treatment):
        n = exact_sum(sizes)
        scaled = sizes / (n * np.sqrt((n - sizes) / n))
        parts.append(scaled / math.sqrt(n))
        diagonal += sizes / (n * n)
    u, v = parts
    squares = exact_sum(diagonal * diagonal)
    squares += exact_sum(u * u) ** 2 + exact_sum(v * v) ** 2 + 2.0 * exact_sum(u * v) ** 2
    squares -= exact_sum((u * u + v * v) ** 2)
    return exact_sum(diagonal) ** 2 / squares


def _by_cluster_means(
    values: FloatArray, treated: _BoolArray, clusters: IntArray
) -> ClusteredMean | Undetermined:
    counts = arm_counts(treated, clusters)
    if counts.is_mixed:
        return _MIXED
    names, codes = np.unique(clusters, return_inverse=True)
    sides = [
        _side(values[inside], codes[inside].astype(np.int64), names.size)
        for inside in (~treated, treated)
    ]
    means = [side.residuals / np.maximum(side.sizes, 1.0) + side.mean for side in sides]
    every = np.arange(names.size, dtype=np.int64)
    if counts.by_cluster:
        whole = counts.treatment > 0.0
        found = _contrast(np.where(whole, means[1], means[0]), whole, every)
    else:
        found = mean_of_groups(group(means[1] - means[0], every))
    return found if isinstance(found, Undetermined) else replace(found, n=len(values))


def _by_unit(counts: ArmCounts, icc: float) -> FloatArray:
    whole = exact_sum(counts.control), exact_sum(counts.treatment)
    a, b = counts.control / whole[0], counts.treatment / whole[1]
    return np.asarray((1.0 - icc) * (a / whole[0] + b / whole[1]) + icc * (b - a) ** 2)


def _by_cluster(counts: ArmCounts, icc: float) -> FloatArray:
    clusters, treated = len(counts.control), counts.treatment > 0.0
    if not counts.by_cluster:
        alone = 1.0 / counts.control + 1.0 / counts.treatment
        return np.asarray((1.0 - icc) * alone / clusters**2)
    of_arm = np.where(treated, np.count_nonzero(treated), np.count_nonzero(~treated))
    return np.asarray((1.0 + (counts.sizes - 1.0) * icc) / counts.sizes / of_arm**2)


def _check_assigned(
    values: FloatArray, treated: _BoolArray, clusters: IntArray
) -> tuple[FloatArray, _BoolArray, IntArray]:
    values, treated = np.asarray(values, dtype=np.float64), np.asarray(treated)
    clusters = np.asarray(clusters)
    if treated.dtype.kind != "b":
        raise TypeError(f"treated: expected true or false for each unit, found {treated.dtype}")
    if values.ndim != 1 or not values.shape == treated.shape == clusters.shape:
        raise ValueError(
            "values, treated, clusters: expected three arrays of one equal length, found shapes "
            f"{values.shape}, {treated.shape} and {clusters.shape}"
        )
    if not np.all(np.isfinite(values)):
        raise ValueError("values: expected finite numbers, found NaN or infinity")
    return values, treated, clusters.astype(np.int64)
