"""Textbook power and sample sizes.

Job: exact McNemar power, Connor's sample size and its inverse, paired and equal-cluster t power,
and Miller's sample size with repeats. Leaves a registered plan with its actual clusters to
`power`.

Rules:
    - Power is two-sided and counts both tails.
    - Whole numbers are rounded up from an exact value that is returned beside them.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Final

from .distributions import (
    binomial_cdf,
    noncentral_t_cdf,
    normal_quantile,
    normal_upper_quantile,
    t_upper_quantile,
)
from .mcnemar import mcnemar_exact
from .values import Undetermined

__all__ = (
    "SampleSize",
    "mde_cluster_t",
    "mde_paired_binary",
    "power_cluster_t",
    "power_mcnemar_exact",
    "power_paired_t",
    "samplesize_miller",
    "samplesize_paired_binary",
)

_BISECTIONS: Final = 100


@dataclass(frozen=True, kw_only=True, slots=True)
class SampleSize:
    """Holds a sample size: the exact solution and the next whole number."""

    n_exact: float
    n: int


def power_mcnemar_exact(p10: float, p01: float, n: int, *, alpha: float = 0.05) -> float:
    """Returns the unconditional power of the exact McNemar test on n independent pairs.

    Args:
        p10: chance that only control passes.
        p01: chance that only treatment passes; p10 + p01 <= 1.
        n: pairs, at least 1.
        alpha: two-sided error.

    Source:
        Enumeration over the binomial number of discordant pairs, both tails.
    """
    _check_shares(p10, p01)
    discordant = p10 + p01
    if discordant == 0.0:
        return 0.0
    share = p01 / discordant
    terms = []
    for m in range(n + 1):
        weight = binomial_cdf(m, n, discordant) - binomial_cdf(m - 1, n, discordant)
        edge = _rejects_to(m, alpha)
        if edge >= 0 and weight > 0.0:
            lower = binomial_cdf(edge, m, share)
            upper = binomial_cdf(edge, m, 1.0 - share)
            terms.append(weight * (lower + upper))
    return math.fsum(terms)


def samplesize_paired_binary(
    p10: float, p01: float, *, alpha: float = 0.05, power: float = 0.8
) -> SampleSize | Undetermined:
    """Computes pairs needed by McNemar's test (Connor 1987)."""
    _check_shares(p10, p01)
    gap, discordant = abs(p01 - p10), p10 + p01
    if gap == 0.0:
        return Undetermined("without a difference no number of pairs is enough")
    return _rounded((_connor(gap, discordant, alpha, power) / gap) ** 2)


def mde_paired_binary(
    n: float, discordant: float, *, alpha: float = 0.05, power: float = 0.8, deff: float = 1.0
) -> float | Undetermined:
    """Computes the smallest paired difference found with n pairs, worth n / deff (Connor 1987).

    Args:
        n: pairs.
        discordant: share of pairs in which the arms differ, in (0, 1].
        alpha: two-sided error.
        power: power wanted.
        deff: design effect, at least 1.
    """
    _check_shares(discordant, 0.0)
    effective = n / deff

    def short(gap: float) -> bool:
        return gap * math.sqrt(effective) < _connor(gap, discordant, alpha, power)

    if short(discordant):
        return Undetermined("even if every disagreement favoured one arm it would be missed")
    low, high = 0.0, discordant
    for _ in range(_BISECTIONS):
        middle = 0.5 * (low + high)
        low, high = (middle, high) if short(middle) else (low, middle)
    return high


def power_paired_t(delta: float, sd: float, n: int, *, alpha: float = 0.05) -> float:
    """Returns the power of the paired t test on n >= 2 independent differences."""
    return _t_power(delta / (sd / math.sqrt(n)), n - 1, alpha)


def power_cluster_t(
    delta: float, sd: float, icc: float, clusters: int, size: int, *, alpha: float = 0.05
) -> float:
    """Returns the power of t(G - 1) on `clusters` equal clusters of `size` units."""
    return _t_power(delta / _cluster_error(sd, icc, clusters, size), clusters - 1, alpha)


def mde_cluster_t(
    sd: float, icc: float, clusters: int, size: int, *, alpha: float = 0.05, power: float = 0.8
) -> float:
    """Returns the difference at which `power_cluster_t` equals `power`."""
    low, high = 0.0, 1.0
    while _t_power(high, clusters - 1, alpha) < power:
        low, high = high, 2.0 * high
    for _ in range(_BISECTIONS):
        middle = 0.5 * (low + high)
        below = _t_power(middle, clusters - 1, alpha) < power
        low, high = (middle, high) if below else (low, middle)
    return high * _cluster_error(sd, icc, clusters, size)


def samplesize_miller(
    delta: float,
    *,
    omega2: float,
    sigma2_a: float,
    k_a: int,
    sigma2_b: float,
    k_b: int,
    alpha: float = 0.05,
    power: float = 0.8,
) -> SampleSize:
    """Computes questions needed with repeated answers.

    Args:
        delta: difference to find, not 0.
        omega2: variance between questions of the true difference.
        sigma2_a: variance of one answer of arm A; `k_a` answers are averaged.
        k_a: answers a question of arm A.
        sigma2_b: variance of one answer of arm B.
        k_b: answers a question of arm B.
        alpha: two-sided error.
        power: power wanted.

    Source:
        Miller (2024), eq. (9).
    """
    if delta == 0.0:
        raise ValueError("delta: expected a difference other than 0")
    z = normal_upper_quantile(alpha / 2.0) + normal_quantile(power)
    return _rounded(z * z * (omega2 + sigma2_a / k_a + sigma2_b / k_b) / (delta * delta))


def _rejects_to(m: int, alpha: float) -> int:
    # The largest count that the exact test still rejects; -1 when it rejects none.
    low, high = -1, m // 2
    while low < high:
        middle = (low + high + 1) // 2
        low, high = (
            (middle, high) if mcnemar_exact(middle, m - middle) <= alpha else (low, middle - 1)
        )
    return low


def _connor(gap: float, discordant: float, alpha: float, power: float) -> float:
    spread = math.sqrt(max(0.0, discordant - gap * gap))
    return (
        normal_upper_quantile(alpha / 2.0) * math.sqrt(discordant) + normal_quantile(power) * spread
    )


def _t_power(noncentrality: float, df: float, alpha: float) -> float:
    critical = t_upper_quantile(alpha / 2.0, df)
    upper = noncentral_t_cdf(-critical, df, -noncentrality)
    return upper + noncentral_t_cdf(-critical, df, noncentrality)


def _cluster_error(sd: float, icc: float, clusters: int, size: int) -> float:
    return sd * math.sqrt((1.0 + (size - 1) * icc) / (clusters * size))


def _rounded(exact: float) -> SampleSize:
    return SampleSize(n_exact=exact, n=math.ceil(exact - 1e-9))


def _check_shares(p10: float, p01: float) -> None:
    if not (p10 >= 0.0 and p01 >= 0.0 and p10 + p01 <= 1.0 + 1e-12):
        raise ValueError(f"p10, p01: expected shares that sum to at most 1, found {p10}, {p01}")
