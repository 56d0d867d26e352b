"""Planned looks: how much alpha each may spend and which critical value that gives.

Job: information fractions of a frozen plan, the boundary that a spending function implies, what
an explicit boundary spends, and the t value that matches a boundary's nominal p. Leaves the
functions to `spending`, the integration to `crossing`, boundaries that are not spent to
`classical`, and inference after stopping to `stagewise`.

Rules:
    - A look is placed by its information fraction, fixed before any outcome and never estimated
      again.
    - A look that is not eligible is left out by the caller: it spends nothing, and what it would
      have spent is spent by the looks after it.
    - Alpha is two-sided with `sides=2` (half on each side) and that of the upper side with
      `sides=1`.
    - What is left of a look's share because its boundary underflowed is carried forward.

Source:
    Lan and DeMets (1983); Jennison and Turnbull (2000).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Final

import numpy as np

from .crossing import (
    Paths,
    advance,
    begin,
    check_boundary,
    check_information,
    density_at,
    exit_probability,
    tail_above,
)
from .distributions import normal_sf, normal_upper_quantile, t_upper_quantile
from .grouping import FloatArray, IntArray
from .spending import Spending, spent
from .values import Estimand

__all__ = (
    "Boundary",
    "BoundaryCheck",
    "Spending",
    "TCritical",
    "check_explicit_boundary",
    "exit_probability",
    "information_fractions",
    "repeated_interval",
    "spending_boundary",
    "spent",
    "t_critical",
)

_UNDERFLOW: Final = 1e-14
_NEWTON_STEPS: Final = 60


@dataclass(frozen=True, kw_only=True, slots=True)
class Boundary:
    """Holds a boundary, one value per look.

    Attributes:
        critical_values: z per look; infinite where a look cannot stop.
        nominal_p: two-sided p of each critical value.
        cumulative_alpha: error spent up to and including each look, both sides together.
    """

    critical_values: tuple[float, ...]
    nominal_p: tuple[float, ...]
    cumulative_alpha: tuple[float, ...]


@dataclass(frozen=True, kw_only=True, slots=True)
class BoundaryCheck:
    """Says what an explicit boundary spends.

    Attributes:
        cumulative_alpha: error spent up to and including each look.
        spends: all of it.
        acceptable: `spends` is at most alpha, up to 1e-6.
    """

    cumulative_alpha: tuple[float, ...]
    spends: float
    acceptable: bool


@dataclass(frozen=True, kw_only=True, slots=True)
class TCritical:
    """Holds a boundary's nominal two-sided p and the t value with that tail."""

    nominal_p_two_sided: float
    t_critical: float


def information_fractions(
    sizes: FloatArray | IntArray, cuts: Sequence[int], *, icc: float, estimand: Estimand
) -> tuple[float, ...]:
    """Computes each look's share of the planned information.

    Args:
        sizes: planned units of each cluster in run order, shape (G,), all above 0.
        cuts: number of clusters before each look's end, rising, each in 1..G.
        icc: design intra-cluster correlation in [0, 1].
        estimand: `unit_weighted` weighs a cluster by m(1+(m-1) icc), `cluster_weighted` by
            (1+(m-1) icc)/m.

    Returns:
        Fractions that rise strictly; exactly 1 where a look takes all clusters.
    """
    sizes = _check_fractions(sizes, cuts, icc)
    inflated = 1.0 + (sizes - 1.0) * icc
    weights = (sizes * inflated if estimand == "unit_weighted" else inflated / sizes).tolist()
    whole = math.fsum(weights)
    return tuple(math.fsum(weights[:cut]) / whole for cut in cuts)


def spending_boundary(
    information: Sequence[float],
    *,
    alpha: float,
    sides: int = 2,
    spending: Spending = "lan_demets_obrien_fleming",
    parameter: float | None = None,
    spend_all_at_last: bool = False,
) -> Boundary:
    """Computes the boundary of a spending function.

    Args:
        information: fractions of the eligible looks so far, rising in (0, 1].
        alpha: total error, in (0, 0.5].
        sides: 2 spends alpha/2 on each side, 1 alpha on the upper side.
        spending: spending function, evaluated at the fractions given.
        parameter: see `spent`.
        spend_all_at_last: the last look given is the final one although its fraction is below
            1, so it spends everything that is left.
    """
    _check_boundary_arguments(information, alpha, sides)
    side_alpha = alpha / sides
    targets = [
        spent(t, alpha=side_alpha, spending=spending, parameter=parameter) for t in information
    ]
    if spend_all_at_last:
        targets[-1] = side_alpha
    critical = solve_targets(information, targets, sides=sides)
    return Boundary(
        critical_values=critical,
        nominal_p=tuple(2.0 * normal_sf(c) for c in critical),
        cumulative_alpha=tuple(sides * target for target in targets),
    )


def solve_targets(
    information: Sequence[float], targets: Sequence[float], *, sides: int
) -> tuple[float, ...]:
    """Returns the critical values whose cumulative one-side crossing probabilities are `targets`.

    Args:
        information: rising fractions in (0, 1].
        targets: cumulative error of the upper side per look, never falling.
        sides: 2 for a symmetric boundary, 1 for the upper side alone.
    """
    paths, used, critical = begin(), 0.0, []
    for k, (t, target) in enumerate(zip(information, targets, strict=True)):
        c = _solve_tail(paths, t, target - used)
        used += tail_above(paths, t, c)
        critical.append(c)
        if k + 1 < len(information):
            floor = -c if sides == 2 else -math.inf
            paths = advance(paths, t, floor, c, next_information=information[k + 1])
    return tuple(critical)


def check_explicit_boundary(
    critical_values: Sequence[float],
    information: Sequence[float],
    *,
    alpha: float,
    sides: int = 2,
) -> BoundaryCheck:
    """Computes what a given boundary spends and whether that is at most `alpha`."""
    check_boundary(critical_values, information, sides)
    exits = exit_probability(critical_values, information, sides=sides)
    both = [u + v for u, v in zip(exits.upper, exits.lower, strict=True)]
    cumulative = tuple(math.fsum(both[: k + 1]) for k in range(len(both)))
    return BoundaryCheck(
        cumulative_alpha=cumulative,
        spends=cumulative[-1],
        acceptable=cumulative[-1] <= alpha + 1e-6,
    )


def t_critical(critical_value: float, df: float) -> TCritical:
    """Translates a boundary z into the t value with the same nominal p (significance level)."""
    if not critical_value > 0.0 or math.isinf(critical_value):
        raise ValueError(f"critical_value: expected a finite z above 0, found {critical_value}")
    tail = normal_sf(critical_value)
    return TCritical(nominal_p_two_sided=2.0 * tail, t_critical=t_upper_quantile(tail, df))


def repeated_interval(
    estimate: float, standard_error: float, critical_value: float
) -> tuple[float, float]:
    """Returns estimate -/+ critical_value x standard_error, valid at every look together.

    Source:
        Jennison and Turnbull (1989).
    """
    half = critical_value * standard_error
    return estimate - half, estimate + half


def _solve_tail(paths: Paths, t: float, target: float) -> float:
    """Returns c with P(not stopped before, Z_t >= c) = target."""
    if (target <= _UNDERFLOW and paths.nodes is not None) or target <= 0.0:
        return math.inf
    if paths.nodes is None:
        return normal_upper_quantile(target)
    low, high = -10.0, 40.0
    c = normal_upper_quantile(min(target, 0.5))
    for _ in range(_NEWTON_STEPS):
        value = tail_above(paths, t, c)
        low, high = (c, high) if value > target else (low, c)
        slope = density_at(paths, t, c)
        # Newton on the logarithm, which is nearly straight; bisection when it leaves the bracket.
        step = math.log(value / target) * value / slope if value > 0.0 and slope > 0.0 else math.inf
        following = c + step if low < c + step < high else 0.5 * (low + high)
        if abs(following - c) < 1e-12:
            return following
        c = following
    return c


def _check_fractions(sizes: FloatArray | IntArray, cuts: Sequence[int], icc: float) -> FloatArray:
    sizes = np.asarray(sizes, dtype=np.float64)
    if sizes.ndim != 1 or sizes.size == 0 or not np.all(sizes >= 1.0):
        raise ValueError("sizes: expected one number of at least 1 per cluster")
    if not 0.0 <= icc <= 1.0:
        raise ValueError(f"icc: expected a number in [0, 1], found {icc}")
    rising = all(a < b for a, b in pairwise(cuts))
    if not cuts or not rising or cuts[0] < 1 or cuts[-1] > sizes.size:
        raise ValueError(f"cuts: expected rising numbers in 1..{sizes.size}, found {list(cuts)}")
    return sizes


def _check_boundary_arguments(information: Sequence[float], alpha: float, sides: int) -> None:
    check_information(information)
    if not 0.0 < alpha <= 0.5:
        raise ValueError(f"alpha: expected a number in (0, 0.5], found {alpha}")
    if sides not in (1, 2):
        raise ValueError(f"sides: expected 1 or 2, found {sides}")
