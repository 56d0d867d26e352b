"""Intervals and one-sided bounds for a single rate.

Job: Wilson, Clopper-Pearson and Jeffreys. Leaves differences to `tango` and `proportions`, gates
built on a bound to `riskcontrol`.

Rules:
    - `alpha` is the two-sided error; in a function named `..._lower` or `..._upper` one-sided.
    - Limits stay inside [0, 1]; trials are independent, clusters are ignored.
"""

from __future__ import annotations

import math

from .distributions import beta_quantile, normal_upper_quantile
from .values import Interval

__all__ = (
    "clopper_pearson",
    "clopper_pearson_lower",
    "clopper_pearson_upper",
    "jeffreys",
    "wilson",
    "wilson_lower",
    "wilson_upper",
)


def wilson(
    successes: float, n: float, *, alpha: float = 0.05, continuity_correction: bool = False
) -> Interval:
    """Computes the score interval of a rate.

    Args:
        successes: 0 <= successes <= n.
        n: trials, > 0.
        alpha: two-sided error, in (0, 1).
        continuity_correction: as in Newcombe (1998a), method 4.

    Source:
        Wilson (1927); Newcombe (1998a).
    """
    _check_rate(successes, n)
    z = normal_upper_quantile(alpha / 2.0)
    upper = _wilson_upper(successes, n, z, continuity_correction)
    lower = 1.0 - _wilson_upper(n - successes, n, z, continuity_correction)
    return Interval(lower=lower, upper=upper, level=1.0 - alpha, method="wilson")


def wilson_lower(successes: float, n: float, *, alpha: float) -> float:
    """Returns the one-sided lower score bound of a rate at level 1 - `alpha`."""
    return 1.0 - wilson_upper(n - successes, n, alpha=alpha)


def wilson_upper(successes: float, n: float, *, alpha: float) -> float:
    """Returns the one-sided upper score bound of a rate at level 1 - `alpha`."""
    _check_rate(successes, n)
    return _wilson_upper(successes, n, normal_upper_quantile(alpha), False)


def clopper_pearson(successes: int, n: int, *, alpha: float = 0.05) -> Interval:
    """Computes the exact interval of a rate (Clopper and Pearson 1934)."""
    return Interval(
        lower=clopper_pearson_lower(successes, n, alpha=alpha / 2.0),
        upper=clopper_pearson_upper(successes, n, alpha=alpha / 2.0),
        level=1.0 - alpha,
        method="clopper_pearson",
    )


def clopper_pearson_lower(successes: int, n: int, *, alpha: float) -> float:
    """Returns the exact one-sided lower bound of a rate; 0 without successes."""
    _check_rate(successes, n)
    return 0.0 if successes == 0 else beta_quantile(alpha, successes, n - successes + 1)


def clopper_pearson_upper(successes: int, n: int, *, alpha: float) -> float:
    """Returns the exact one-sided upper bound of a rate; 1 without failures."""
    _check_rate(successes, n)
    return 1.0 if successes == n else beta_quantile(1.0 - alpha, successes + 1, n - successes)


def jeffreys(successes: int, n: int, *, alpha: float = 0.05) -> Interval:
    """Computes the equal-tailed Jeffreys interval; 0 at no success, 1 at no failure."""
    _check_rate(successes, n)
    a, b = successes + 0.5, n - successes + 0.5
    return Interval(
        lower=0.0 if successes == 0 else beta_quantile(alpha / 2.0, a, b),
        upper=1.0 if successes == n else beta_quantile(1.0 - alpha / 2.0, a, b),
        level=1.0 - alpha,
        method="jeffreys",
    )


def _wilson_upper(successes: float, n: float, z: float, corrected: bool) -> float:
    if successes == n:
        return 1.0
    p, z2 = successes / n, z * z
    middle, inside = 2.0 * n * p + z2, z2 + 4.0 * n * p * (1.0 - p)
    if corrected:
        middle, inside = middle + 1.0, inside + 2.0 - 1.0 / n - 4.0 * p
    return min(1.0, (middle + z * math.sqrt(inside)) / (2.0 * (n + z2)))


def _check_rate(successes: float, n: float) -> None:
    if not (n > 0 and 0 <= successes <= n):
        raise ValueError(f"successes, n: expected 0 <= successes <= n, found {successes}, {n}")
