"""McNemar's tests for pairs that each are their own cluster.

Job: exact, mid-p and asymptotic p from the two discordant counts. Leaves clustered matched pairs
to `clustered_mcnemar`.

Rules:
    - Valid only where every unit is its own cluster; elsewhere it is shown, never deciding.
    - Symmetric in the two counts, never above 1, and 1 without any discordant pair.

Source:
    McNemar (1947); Fagerland, Lydersen and Laake (2013) for the mid-p form.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from .distributions import binomial_cdf, chi2_sf

__all__ = ("ChiSquare", "mcnemar_asymptotic", "mcnemar_exact", "mcnemar_midp")


@dataclass(frozen=True, kw_only=True, slots=True)
class ChiSquare:
    """Holds a chi-square statistic with one degree of freedom and its p."""

    statistic: float
    p_value: float


def mcnemar_exact(b: int, c: int) -> float:
    """Returns the exact two-sided p of `b` against `c` discordant pairs."""
    _check_counts(b, c)
    return min(1.0, 2.0 * binomial_cdf(min(b, c), b + c, 0.5))


def mcnemar_midp(b: int, c: int) -> float:
    """Returns the mid-p: the exact p less the probability of the observed split."""
    _check_counts(b, c)
    if b + c == 0:
        return 1.0
    point = _half_binomial_point(b, b + c)
    if b == c:
        return 1.0 - point / 2.0
    return 2.0 * binomial_cdf(min(b, c), b + c, 0.5) - point


def mcnemar_asymptotic(b: int, c: int, *, continuity_correction: bool = False) -> ChiSquare:
    """Returns the chi-square form; both 0 gives statistic 0 and p = 1."""
    _check_counts(b, c)
    if b + c == 0:
        return ChiSquare(statistic=0.0, p_value=1.0)
    gap = abs(b - c)
    shifted = max(0.0, gap - 1.0) if continuity_correction else float(gap)
    statistic = shifted * shifted / (b + c)
    return ChiSquare(statistic=statistic, p_value=chi2_sf(statistic, 1.0))


def _half_binomial_point(k: int, n: int) -> float:
    logs = math.lgamma(n + 1) - math.lgamma(k + 1) - math.lgamma(n - k + 1)
    return math.exp(logs - n * math.log(2.0))


def _check_counts(b: int, c: int) -> None:
    if b < 0 or c < 0:
        raise ValueError(f"b, c: expected counts of at least 0, found {b} and {c}")
