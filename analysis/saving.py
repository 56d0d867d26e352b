"""The share of control's mean that a treatment saves, with limits by Fieller's theorem.

Job: 1 - mean of treatment / mean of control, with the limits of all shares that a t test of
"treatment - (1 - share) x control" would not reject. Leaves that test at the registered share to
the deciding intervals, and what it means to the verdict.

Rules:
    - Control's mean is never taken as known: of treatment - r x control the standard error is CR2
      over clusters, with the degrees of freedom of the difference, which no r moves.
    - Where control's mean isn't told from 0 at the level, shares without end fit the data: there
      are no limits, and the reason says so. Where it isn't above 0 there is no share at all.
    - Values of both arms in another unit give the same bits as far as their scale is a power of 2.

Source:
    Fieller (1954). The set is solved around the ratio itself, where nothing cancels: with
    d = treatment - ratio x control, V its squared error, W that of control's mean m, K the
    covariance of both and q the squared critical value, (m^2 - q W) x^2 + 2 q K x - q V <= 0.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
import numpy.typing as npt

from .assigned_deciding import difference_with_df
from .distributions import t_upper_quantile
from .grouping import FloatArray, IntArray
from .paired import ClusteredMean, clustered_mean, equal_weight_mean
from .student import t_p_value
from .values import Estimand, Undetermined

__all__ = ("ShareSaved", "share_saved", "share_saved_between_arms")

# Of weights for treatment and control: the mean of the weighted sum, with its error.
_Weighted: TypeAlias = Callable[[float, float], ClusteredMean | Undetermined]

_NO_LEVEL = "control's mean is not above 0, so there is no share of it to save"
_NO_LIMITS = (
    "control's mean is not told from 0 at this level, so the share saved has no limits: shares "
    "without end fit these values"
)
_FLAT = "the saving is the same share in every cluster, so there is no variance for its limits"


@dataclass(frozen=True, kw_only=True, slots=True)
class ShareSaved:
    """Holds a share saved with its limits.

    Attributes:
        share: 1 - mean of treatment / mean of control; None where control's mean isn't above 0.
        lower: limit of the share at level 1 - alpha; `upper` likewise; None where there is none.
        why_not: why share or limits don't exist.
        level_p: two-sided p of "control's mean is 0"; 1 where the mean isn't above 0.
    """

    share: float | None
    lower: float | None = None
    upper: float | None = None
    why_not: str | None = None
    level_p: float


def share_saved(
    control: FloatArray,
    treatment: FloatArray,
    clusters: IntArray,
    *,
    estimand: Estimand,
    alpha: float,
) -> ShareSaved | Undetermined:
    """Computes the share saved from pairs.

    Args:
        control: one number a unit, shape (n,), finite; `treatment` likewise.
        treatment: of the same units.
        clusters: integer code of each unit's cluster, shape (n,).
        estimand: weight of a unit or of a cluster.
        alpha: two-sided error of the limits, in (0, 1).
    """
    mean = clustered_mean if estimand == "unit_weighted" else equal_weight_mean
    return _saved(lambda a, b: mean(a * treatment + b * control, clusters), alpha)


def share_saved_between_arms(
    values: FloatArray,
    treated: npt.NDArray[np.bool_],
    clusters: IntArray,
    *,
    estimand: Estimand,
    alpha: float,
) -> ShareSaved | Undetermined:
    """Computes the share saved from units that are in one arm each.

    Args:
        values: one number a unit, shape (n,), finite.
        treated: whether the unit is in the treatment arm, shape (n,).
        clusters: integer code of each unit's cluster, shape (n,).
        estimand: weight of a unit or of a cluster.
        alpha: two-sided error of the limits, in (0, 1).
    """
    return _saved(
        lambda a, b: difference_with_df(
            np.where(treated, a * values, -b * values), treated, clusters, estimand=estimand
        ),
        alpha,
    )


def _saved(weighted: _Weighted, alpha: float) -> ShareSaved | Undetermined:
    if not 0.0 < alpha < 1.0:
        raise ValueError(f"alpha: expected a number in (0, 1), found {alpha}")
    level, treatment = weighted(0.0, 1.0), weighted(1.0, 0.0)
    if isinstance(level, Undetermined):
        return level
    if isinstance(treatment, Undetermined):
        return treatment
    if not level.estimate > 0.0:
        return ShareSaved(share=None, why_not=_NO_LEVEL, level_p=1.0)
    error = level.standard_error
    level_p = t_p_value(level.estimate / error, level.df) if error > 0.0 else 0.0
    ratio = treatment.estimate / level.estimate
    reach = _limits(weighted, level, ratio, t_upper_quantile(alpha / 2.0, level.df))
    if isinstance(reach, str):
        return ShareSaved(share=1.0 - ratio, why_not=reach, level_p=level_p)
    below, above = reach
    return ShareSaved(
        share=1.0 - ratio,
        lower=1.0 - (ratio + above),
        upper=1.0 - (ratio + below),
        level_p=level_p,
    )


def _limits(
    weighted: _Weighted, level: ClusteredMean, ratio: float, critical: float
) -> tuple[float, float] | str:
    """Returns how far the limits of the ratio lie from it, or why there are none."""
    rest = weighted(1.0, -ratio)
    assert not isinstance(rest, Undetermined), "both arms have a mean"
    m, error, scale = level.estimate, critical * level.standard_error, critical
    if not m > error:
        return _NO_LIMITS
    if rest.degenerate:
        return _FLAT
    spread = scale * rest.standard_error
    crossed = scale * scale * _covariance(weighted, rest, level, ratio)
    a = (m - error) * (m + error)
    # The root that adds what has one sign, and the other from the product of both.
    root = math.hypot(crossed, math.sqrt(a) * spread)
    far = (-crossed - math.copysign(root, crossed)) / a
    near = -spread * spread / (a * far)
    return min(far, near), max(far, near)


def _covariance(
    weighted: _Weighted, rest: ClusteredMean, level: ClusteredMean, ratio: float
) -> float:
    """Returns the covariance of the rest's mean with control's, from sums of equal spread."""
    if level.degenerate:
        return 0.0
    turn = rest.standard_error / level.standard_error
    plus, minus = weighted(1.0, turn - ratio), weighted(1.0, -turn - ratio)
    assert not isinstance(plus, Undetermined), "both arms have a mean"
    assert not isinstance(minus, Undetermined), "both arms have a mean"
    apart = plus.standard_error - minus.standard_error
    return apart * (plus.standard_error + minus.standard_error) / (4.0 * turn)
