"""Closed-form intervals for a paired binary difference of independent pairs.

Job: Newcombe's hybrid score interval and the Bonett-Price interval. Leaves Tango's interval, which
decides, to `tango`.

Rules:
    - n10 counts pairs where only control passed, n01 where only treatment did.
    - Both stay inside [-1, 1]; clusters are ignored.
"""

from __future__ import annotations

import math

from .distributions import normal_upper_quantile
from .rates import wilson
from .values import Interval, Undetermined

__all__ = ("bonett_price", "newcombe_paired")


def newcombe_paired(
    n11: int, n10: int, n01: int, n00: int, *, alpha: float = 0.05, phi_correction: bool = False
) -> Interval | Undetermined:
    """Computes Newcombe's hybrid score interval of a paired difference, treatment minus control.

    Without discordance and without the phi correction the interval may have no width;
    `Undetermined` is returned then.

    Args:
        n11: pairs where both passed.
        n10: pairs where only control passed.
        n01: pairs where only treatment passed.
        n00: pairs where neither passed.
        alpha: two-sided error, in (0, 1).
        phi_correction: replaces ad - bc by max(ad - bc - n/2, 0) when positive.

    Source:
        Newcombe (1998b), method 10.
    """
    n = _check_table(n11, n10, n01, n00)
    control, treatment = (n11 + n10) / n, (n11 + n01) / n
    first = wilson(n11 + n10, n, alpha=alpha)
    second = wilson(n11 + n01, n, alpha=alpha)
    phi = _phi(n11, n10, n01, n00, phi_correction)
    below = _root(treatment - second.lower, first.upper - control, phi)
    above = _root(second.upper - treatment, control - first.lower, phi)
    gap = treatment - control
    if below + above <= 0.0:
        return Undetermined("the arms never differ, which leaves this interval without a width")
    return Interval(
        lower=max(-1.0, gap - below),
        upper=min(1.0, gap + above),
        level=1.0 - alpha,
        method="newcombe_paired",
    )


def bonett_price(n10: int, n01: int, n: int, *, alpha: float = 0.05) -> Interval:
    """Computes the Laplace-adjusted Wald interval of a paired difference, clipped to [-1, 1].

    Source:
        Bonett and Price (2012).
    """
    _check_table(0, n10, n01, n - n10 - n01)
    control, treatment = (n10 + 1.0) / (n + 2.0), (n01 + 1.0) / (n + 2.0)
    gap = treatment - control
    error = math.sqrt((control + treatment - gap * gap) / (n + 2.0))
    half = normal_upper_quantile(alpha / 2.0) * error
    return Interval(
        lower=max(-1.0, gap - half),
        upper=min(1.0, gap + half),
        level=1.0 - alpha,
        method="bonett_price",
    )


def _phi(n11: int, n10: int, n01: int, n00: int, corrected: bool) -> float:
    margins = (n11 + n10) * (n01 + n00) * (n11 + n01) * (n10 + n00)
    if margins == 0:
        return 0.0
    cross = float(n11 * n00 - n10 * n01)
    if corrected and cross > 0.0:
        cross = max(cross - (n11 + n10 + n01 + n00) / 2.0, 0.0)
    return cross / math.sqrt(margins)


def _root(first: float, second: float, phi: float) -> float:
    return math.sqrt(max(0.0, first * first - 2.0 * phi * first * second + second * second))


def _check_table(n11: int, n10: int, n01: int, n00: int) -> int:
    if min(n11, n10, n01, n00) < 0 or n11 + n10 + n01 + n00 == 0:
        raise ValueError(f"counts: expected >= 0, not all 0, found {(n11, n10, n01, n00)}")
    return n11 + n10 + n01 + n00
