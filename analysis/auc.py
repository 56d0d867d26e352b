"""Area under the ROC curve: one, two on the same units, and with clusters.

Job: the Mann-Whitney estimate with DeLong's variance and Obuchowski's for clusters, for one score
and for the difference of two. Leaves thresholds to `riskcontrol`.

Rules:
    - Ties count one half; a difference is treatment minus control.
    - Every variance is built from one component per unit, found from ranks in O(n log n).
    - An area of 0 or 1 has no variance and so no interval.
    - With every unit its own cluster the clustered form is DeLong's.

Source:
    DeLong, DeLong and Clarke-Pearson (1988); Obuchowski (1997), with the product form of the
    covariance between positives and negatives of one cluster.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Final

import numpy as np
import numpy.typing as npt

from .distributions import normal_sf, normal_upper_quantile
from .grouping import FloatArray, IntArray, compact_codes, exact_sum, sums_by_code
from .student import t_around, t_p_value
from .values import Interval, Undetermined

__all__ = (
    "AucDifference",
    "AucEstimate",
    "ClusteredAuc",
    "RankedArms",
    "auc",
    "auc_clustered",
    "auc_clustered_difference",
    "auc_delong",
    "auc_delong_paired",
    "check_clustered",
    "ranked_arms",
    "ranked_clustered_difference",
)

_ZERO: Final = 1e-24
_SEPARATED: Final = Undetermined("the scores separate the labels without any variation")
_FLAT: Final = Undetermined("nothing varies between clusters")


@dataclass(frozen=True, kw_only=True, slots=True)
class AucEstimate:
    """Holds an area with its variance and a normal interval clipped to [0, 1]."""

    auc: float
    variance: float
    interval: Interval | Undetermined


@dataclass(frozen=True, kw_only=True, slots=True)
class AucDifference:
    """Holds the difference of two areas on the same units, treatment minus control."""

    auc_a: float
    auc_b: float
    difference: float
    variance: float
    z: float | Undetermined
    p_value: float | Undetermined


@dataclass(frozen=True, kw_only=True, slots=True)
class ClusteredAuc:
    """Holds an area, or a difference of areas, with its variance over clusters.

    Attributes:
        estimate: area, or treatment's minus control's.
        variance: Obuchowski's variance.
        df: clusters - 1.
        clusters: number of clusters.
        interval: t interval at the wanted level, or why there is none.
        p_value: two-sided p of the null given, or why there is none.
    """

    estimate: float
    variance: float
    df: int
    clusters: int
    interval: Interval | Undetermined
    p_value: float | Undetermined


@dataclass(frozen=True, eq=False, slots=True)
class _Components:
    positives: FloatArray
    negatives: FloatArray
    area: float


@dataclass(frozen=True, kw_only=True, eq=False, slots=True)
class RankedArms:
    """Holds two arms' scores of the same labelled units, ranked for all that is computed of them.

    Attributes:
        positive: whether a unit's label is 1, shape (n,).
        control: components of control's area, or why there is none; `treatment` likewise.
    """

    positive: npt.NDArray[np.bool_]
    control: _Components | Undetermined
    treatment: _Components | Undetermined

    @property
    def areas(self) -> tuple[float | Undetermined, float | Undetermined]:
        """Control's area and treatment's, or why there is none."""
        return _area(self.control), _area(self.treatment)


def ranked_arms(control: FloatArray, treatment: FloatArray, labels: IntArray) -> RankedArms:
    """Ranks both arms' scores.

    Args:
        control: control's score per unit, shape (n,).
        treatment: treatment's score per unit, shape (n,).
        labels: 0 or 1 per unit, shape (n,).
    """
    positive = check_clustered(control, labels, labels)
    check_clustered(treatment, labels, labels)
    return RankedArms(
        positive=positive,
        control=_components(control[positive], control[~positive]),
        treatment=_components(treatment[positive], treatment[~positive]),
    )


def _area(parts: _Components | Undetermined) -> float | Undetermined:
    return parts if isinstance(parts, Undetermined) else parts.area


def auc(positives: FloatArray, negatives: FloatArray) -> float | Undetermined:
    """Returns the chance that a positive scores above a negative, ties one half.

    Args:
        positives: scores of units with label 1, shape (m,).
        negatives: scores of units with label 0, shape (n,).
    """
    return _area(_components(positives, negatives))


def auc_delong(
    positives: FloatArray, negatives: FloatArray, *, alpha: float = 0.05
) -> AucEstimate | Undetermined:
    """Computes the area with DeLong's variance for independent units.

    Args:
        positives: scores of units with label 1, shape (m,), m >= 2.
        negatives: scores of units with label 0, shape (n,), n >= 2.
        alpha: two-sided error.
    """
    parts = _components(positives, negatives)
    if isinstance(parts, Undetermined):
        return parts
    variance = _delong_variance(parts)
    if isinstance(variance, Undetermined):
        return variance
    half = normal_upper_quantile(alpha / 2.0) * math.sqrt(variance)
    interval = Interval(
        lower=max(0.0, parts.area - half),
        upper=min(1.0, parts.area + half),
        level=1.0 - alpha,
        method="delong",
    )
    return AucEstimate(
        auc=parts.area,
        variance=variance,
        interval=interval if variance > _ZERO else _SEPARATED,
    )


def auc_delong_paired(
    positives_a: FloatArray,
    negatives_a: FloatArray,
    positives_b: FloatArray,
    negatives_b: FloatArray,
) -> AucDifference | Undetermined:
    """Compares two scores on the same independent units, b minus a.

    Args:
        positives_a: control's scores of units with label 1, shape (m,).
        negatives_a: control's scores of units with label 0, shape (n,).
        positives_b: treatment's scores, in the order of `positives_a`.
        negatives_b: treatment's scores, in the order of `negatives_a`.
    """
    first = _components(positives_a, negatives_a)
    second = _components(positives_b, negatives_b)
    if isinstance(first, Undetermined):
        return first
    if isinstance(second, Undetermined):
        return second
    gap = _minus(second, first)
    variance = _delong_variance(gap)
    if isinstance(variance, Undetermined):
        return variance
    flat = Undetermined("the two scores order all units alike")
    z = gap.area / math.sqrt(variance) if variance > 0.0 else flat
    return AucDifference(
        auc_a=first.area,
        auc_b=second.area,
        difference=gap.area,
        variance=variance,
        z=z,
        p_value=z if isinstance(z, Undetermined) else min(1.0, 2.0 * normal_sf(abs(z))),
    )


def auc_clustered(
    scores: FloatArray,
    labels: IntArray,
    clusters: IntArray,
    *,
    alpha: float = 0.05,
    null: float = 0.5,
) -> ClusteredAuc | Undetermined:
    """Computes the area with Obuchowski's variance over clusters and t(G - 1).

    Args:
        scores: one score per unit, shape (n,).
        labels: 0 or 1 per unit, shape (n,).
        clusters: integer code of each unit's cluster, shape (n,).
        alpha: two-sided error.
        null: area at which the test is computed.
    """
    positive = check_clustered(scores, labels, clusters)
    parts = _components(scores[positive], scores[~positive])
    if isinstance(parts, Undetermined):
        return parts
    return _clustered(parts, positive, clusters, alpha=alpha, null=null, bounds=(0.0, 1.0))


def auc_clustered_difference(
    control: FloatArray,
    treatment: FloatArray,
    labels: IntArray,
    clusters: IntArray,
    *,
    alpha: float = 0.05,
    null: float = 0.0,
) -> ClusteredAuc | Undetermined:
    """Compares two scores on the same units over clusters, treatment minus control.

    Args:
        control: control's score per unit, shape (n,).
        treatment: treatment's score per unit, shape (n,).
        labels: 0 or 1 per unit, shape (n,).
        clusters: integer code of each unit's cluster, shape (n,).
        alpha: two-sided error.
        null: difference at which the test is computed.
    """
    check_clustered(control, labels, clusters)
    ranked = ranked_arms(control, treatment, labels)
    return ranked_clustered_difference(ranked, clusters, alpha=alpha, null=null)


def ranked_clustered_difference(
    ranked: RankedArms, clusters: IntArray, *, alpha: float = 0.05, null: float = 0.0
) -> ClusteredAuc | Undetermined:
    """Computes `auc_clustered_difference` of arms that are ranked already.

    Args:
        ranked: both arms' scores.
        clusters: integer code of each unit's cluster, shape (n,).
        alpha: two-sided error.
        null: difference at which the test is computed.
    """
    first, second = ranked.control, ranked.treatment
    if isinstance(first, Undetermined):
        return first
    if isinstance(second, Undetermined):
        return second
    gap = _minus(second, first)
    return _clustered(gap, ranked.positive, clusters, alpha=alpha, null=null, bounds=(-1.0, 1.0))


def _components(positives: FloatArray, negatives: FloatArray) -> _Components | Undetermined:
    x = np.asarray(positives, dtype=np.float64)
    y = np.asarray(negatives, dtype=np.float64)
    if x.size == 0 or y.size == 0:
        return Undetermined("positives and negatives are both needed")
    if not (np.all(np.isfinite(x)) and np.all(np.isfinite(y))):
        raise ValueError("scores: expected finite numbers, found NaN or an infinity")
    # Looking up values in their order keeps what is looked at near: half the time of any order.
    rising_x, rising_y = np.argsort(x), np.argsort(y)
    above, below = np.empty(x.size), np.empty(y.size)
    above[rising_x] = _share_below(x[rising_x], y[rising_y])
    below[rising_y] = 1.0 - _share_below(y[rising_y], x[rising_x])
    return _Components(above, below, exact_sum(above) / x.size)


def _share_below(values: FloatArray, others: FloatArray) -> FloatArray:
    """Returns which share of the others each value is above, both rising, ties one half."""
    left = np.searchsorted(others, values, side="left")
    right = np.searchsorted(others, values, side="right")
    return np.asarray((left + right) / (2.0 * others.size), dtype=np.float64)


def _minus(second: _Components, first: _Components) -> _Components:
    if (
        second.positives.shape != first.positives.shape
        or second.negatives.shape != first.negatives.shape
    ):
        raise ValueError("scores: expected both arms on the same units")
    return _Components(
        second.positives - first.positives,
        second.negatives - first.negatives,
        second.area - first.area,
    )


def _delong_variance(parts: _Components) -> float | Undetermined:
    m, n = parts.positives.size, parts.negatives.size
    if m < 2 or n < 2:
        return Undetermined("fewer than two positives or negatives show no variance")
    first = exact_sum((parts.positives - parts.area) ** 2) / (m - 1)
    second = exact_sum((parts.negatives - parts.area) ** 2) / (n - 1)
    return first / m + second / n


def _clustered(
    parts: _Components,
    positive: npt.NDArray[np.bool_],
    clusters: IntArray,
    *,
    alpha: float,
    null: float,
    bounds: tuple[float, float],
) -> ClusteredAuc | Undetermined:
    codes, count = compact_codes(clusters)
    s10, filled10 = _residuals(parts.positives, parts.area, codes[positive], count)
    s01, filled01 = _residuals(parts.negatives, parts.area, codes[~positive], count)
    if min(count, filled10, filled01) < 2:
        return Undetermined("positives and negatives of at least two clusters are needed")
    m, n = parts.positives.size, parts.negatives.size
    variance = math.fsum(
        (
            filled10 / (filled10 - 1.0) * exact_sum(s10 * s10) / m**2,
            filled01 / (filled01 - 1.0) * exact_sum(s01 * s01) / n**2,
            2.0 * count / (count - 1.0) * exact_sum(s10 * s01) / (m * n),
        )
    )
    estimated, df, error = variance > _ZERO, count - 1, math.sqrt(max(variance, 0.0))
    return ClusteredAuc(
        estimate=parts.area,
        variance=variance,
        df=df,
        clusters=count,
        interval=t_around(parts.area, error, df, alpha=alpha, method="obuchowski_t", bounds=bounds)
        if estimated
        else _SEPARATED,
        p_value=t_p_value((parts.area - null) / error, df) if estimated else _FLAT,
    )


def _residuals(
    components: FloatArray, area: float, codes: IntArray, count: int
) -> tuple[FloatArray, int]:
    sizes = np.bincount(codes, minlength=count).astype(np.float64)
    sums = sums_by_code(components, codes, sizes)
    return sums - sizes * area, int(np.count_nonzero(sizes))


def check_clustered(
    scores: FloatArray, labels: IntArray, clusters: IntArray
) -> npt.NDArray[np.bool_]:
    """Returns which units are positive.

    Args:
        scores: one score per unit, shape (n,).
        labels: 0 or 1 per unit, shape (n,).
        clusters: integer code of each unit's cluster, shape (n,).

    Raises:
        ValueError: They aren't lists of one length, or a label is neither 0 nor 1.
    """
    if not scores.shape == labels.shape == clusters.shape or scores.ndim != 1:
        raise ValueError("scores, labels, clusters: expected three arrays of one equal length")
    if not np.all((labels == 0) | (labels == 1)):
        raise ValueError("labels: expected each to be 0 or 1")
    return np.asarray(labels == 1)
