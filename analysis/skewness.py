"""How far a difference grows with what units cost: a warning of t where few dear units carry it.

Job: one number for a contrast of two costs. High where the contrast rises with the costs and the
costs spread widely, as where every unit saves the same amount and not the same share. Leaves what
is high, and what follows, to the caller.

Rules:
    - Ranks and octiles alone. A skewness of the values themselves is low in just those runs in
      which a saving is shown that isn't there: no dear unit was drawn, so nothing looks skewed.
    - Of each arm the rank correlation of contrast and costs, times how widely its costs spread;
      the growth is the mean of both arms. Arms that pull apart cancel, as they do in the error.
    - Costs spread as far as the lognormal with their octiles; only an upper side that is longer
      than the lower one counts.
    - Fewer than 16 units show nothing. Costs or contrasts that are all equal have no part in it.

Source:
    Spearman (1904), ties at their mean rank; Hinkley (1975) for a transformation by a pair of
    quantiles: of a lognormal, moved or not, log((high - middle) / (middle - low)) is sigma z.
"""

from __future__ import annotations

import math
from typing import Final

import numpy as np

from .grouping import FloatArray, exact_sum
from .values import Undetermined

__all__ = ("LEAST_UNITS", "SIGMA_MAX", "Z_OCTILE", "cost_growth")

LEAST_UNITS: Final = 16
# Seven eighths of a standard normal lie below.
Z_OCTILE: Final = 1.1503493803760079
# Beyond, a share of costs are equal and the others not: any wider is as wide.
SIGMA_MAX: Final = 2.0


def cost_growth(
    contrast: FloatArray, control: FloatArray, treatment: FloatArray
) -> float | Undetermined:
    """Computes how far a contrast grows with the costs that it is made of.

    Args:
        contrast: one number a unit, shape (n,), finite; a saving is shown where its mean is low.
        control: cost of each unit, shape (n,), finite; `treatment` likewise.
        treatment: of the same units.
    """
    if not len(contrast) == len(control) == len(treatment):
        raise ValueError(
            f"control, treatment: expected {len(contrast)} numbers each, "
            f"found {len(control)} and {len(treatment)}"
        )
    if len(contrast) < LEAST_UNITS:
        return Undetermined(f"fewer than {LEAST_UNITS} units tell nothing of how costs spread")
    own = _centred_ranks(contrast)
    parts = [_correlation(own, _centred_ranks(arm)) * _spread(arm) for arm in (control, treatment)]
    return sum(parts) / 2.0


def _spread(costs: FloatArray) -> float:
    """Returns the coefficient of variation of the lognormal with the same octiles."""
    ordered, n = np.sort(np.asarray(costs, dtype=np.float64)), len(costs)
    eighth = n // 8
    middle = float(ordered[(n - 1) // 2] / 2.0 + ordered[n // 2] / 2.0)
    below, above = middle - float(ordered[eighth]), float(ordered[n - 1 - eighth]) - middle
    if not above > below:
        return 0.0
    sigma = SIGMA_MAX if below <= 0.0 else math.log(above / below) / Z_OCTILE
    return math.sqrt(math.expm1(min(sigma, SIGMA_MAX) ** 2))


def _centred_ranks(values: FloatArray) -> FloatArray:
    """Returns ranks around 0, equal values at their mean rank: halves, so every sum is exact."""
    _, codes, counts = np.unique(values, return_inverse=True, return_counts=True)
    last = np.cumsum(counts)
    ranks = last - (counts - 1) / 2.0
    return np.asarray(ranks[codes] - (len(values) + 1) / 2.0)


def _correlation(one: FloatArray, other: FloatArray) -> float:
    spread = exact_sum(one * one) * exact_sum(other * other)
    return exact_sum(one * other) / math.sqrt(spread) if spread > 0.0 else 0.0
