"""Tests of equal rates for clustered matched pairs.

Job: the Durkalski, Obuchowski and Yang statistics and plain McNemar beside them. Leaves the
deciding test to `deciding`: these are options that are shown.

Rules:
    - One table per cluster: a both passed, b only control, c only treatment, d neither.
    - Each statistic is referred to chi-square with one degree of freedom, which is liberal with
      few clusters.

Source:
    Durkalski et al. (2003); Obuchowski (1998); Yang, Sun and Hardin (2010), eq. (8).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from .distributions import chi2_sf
from .grouping import FloatArray, IntArray, exact_sum
from .mcnemar import ChiSquare, mcnemar_asymptotic
from .values import Undetermined

__all__ = ("McnemarFamily", "clustered_mcnemar")


@dataclass(frozen=True, kw_only=True, slots=True)
class McnemarFamily:
    """Holds the four statistics; one without discordant variation is `Undetermined`."""

    mcnemar: ChiSquare
    durkalski: ChiSquare | Undetermined
    obuchowski: ChiSquare | Undetermined
    yang: ChiSquare | Undetermined


def clustered_mcnemar(a: IntArray, b: IntArray, c: IntArray, d: IntArray) -> McnemarFamily:
    """Computes the family from one 2x2 table per cluster.

    Args:
        a: pairs where both passed, per cluster, shape (K,), K >= 2.
        b: pairs where only control passed.
        c: pairs where only treatment passed.
        d: pairs where neither passed.
    """
    sizes, gaps = _check_clustered_mcnemar(a, b, c, d)
    count, total = gaps.size, exact_sum(gaps)
    shares = gaps / sizes
    centred = gaps - sizes * (total / exact_sum(sizes))
    squares = exact_sum(gaps * gaps)
    shrink = (count - 1) / count
    return McnemarFamily(
        mcnemar=mcnemar_asymptotic(int(np.sum(b)), int(np.sum(c))),
        durkalski=_ratio(exact_sum(shares) ** 2, exact_sum(shares * shares)),
        obuchowski=_ratio(shrink * total * total, squares),
        yang=_ratio(shrink * total * total, 0.5 * (exact_sum(centred * centred) + squares)),
    )


def _ratio(square: float, variance: float) -> ChiSquare | Undetermined:
    if variance <= 0.0:
        return Undetermined("the arms differ in no cluster")
    return ChiSquare(statistic=square / variance, p_value=chi2_sf(square / variance, 1.0))


def _check_clustered_mcnemar(
    a: IntArray, b: IntArray, c: IntArray, d: IntArray
) -> tuple[FloatArray, FloatArray]:
    table = np.array([a, b, c, d], dtype=np.float64)
    if table.ndim != 2 or table.shape[1] < 2 or np.any(table < 0.0):
        raise ValueError("a, b, c, d: expected counts of at least 0 for two clusters or more")
    sizes = table.sum(axis=0)
    if np.any(sizes == 0.0):
        raise ValueError("a, b, c, d: expected no empty cluster")
    return sizes, table[2] - table[1]
