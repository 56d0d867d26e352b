"""Boundaries that are not spent: O'Brien-Fleming, Pocock, Wang-Tsiatis, Haybittle-Peto.

Job: solve the constant of a classical shape so that the whole boundary spends alpha, and what a
boundary costs in sample size. Leaves spending functions to `sequential`.

Rules:
    - The shape is applied to the information fractions given; looks need not be equally spaced.
    - Roots are found by bisection on a monotone total, down to 1e-12.

Source:
    O'Brien and Fleming (1979); Pocock (1977); Wang and Tsiatis (1987); Haybittle (1971);
    Jennison and Turnbull (2000), chapter 2.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final, Literal

from .crossing import check_information, exit_probability
from .distributions import normal_quantile, normal_upper_quantile

__all__ = ("Classical", "Family", "Inflation", "classical_boundary", "haybittle_peto", "inflation")

Family = Literal["obrien_fleming", "pocock", "wang_tsiatis"]

_TOLERANCE: Final = 1e-12


@dataclass(frozen=True, kw_only=True, slots=True)
class Classical:
    """Holds a classical boundary and the constant that scales its shape."""

    constant: float
    critical_values: tuple[float, ...]


@dataclass(frozen=True, kw_only=True, slots=True)
class Inflation:
    """Holds the drift at which a boundary has the wanted power.

    Attributes:
        drift: mean of Z at t = 1.
        inflation_factor: squared ratio to the drift of one fixed analysis.
    """

    drift: float
    inflation_factor: float


def classical_boundary(
    family: Family,
    information: Sequence[float],
    *,
    alpha: float,
    sides: int = 2,
    delta: float | None = None,
) -> Classical:
    """Computes c t_k^(delta - 1/2): delta is 0 for O'Brien-Fleming, 1/2 for Pocock.

    Args:
        family: shape of the boundary.
        information: rising fractions in (0, 1].
        alpha: total error, both sides together with `sides=2`.
        sides: 2 for a symmetric boundary, 1 for the upper side alone.
        delta: exponent of `wang_tsiatis`; None for the others.
    """
    power = _check_classical(family, information, alpha, delta) - 0.5
    shape = [t**power for t in information]

    def spends(constant: float) -> float:
        return exit_probability([constant * s for s in shape], information, sides=sides).total

    constant = _falling_root(spends, alpha, 0.0, 50.0)
    return Classical(constant=constant, critical_values=tuple(constant * s for s in shape))


def haybittle_peto(
    interim: float, information: Sequence[float], *, alpha: float, sides: int = 2
) -> tuple[float, ...]:
    """Returns `interim` at every look but the last, which spends what is left of `alpha`."""
    check_information(information)
    before = [interim] * (len(information) - 1)

    def spends(last: float) -> float:
        return exit_probability([*before, last], information, sides=sides).total

    if before and exit_probability(before, information[:-1], sides=sides).total >= alpha:
        raise ValueError(f"interim: {interim} spends all of alpha before the last look")
    return (*before, _falling_root(spends, alpha, 0.0, 50.0))


def inflation(
    critical_values: Sequence[float],
    information: Sequence[float],
    *,
    alpha: float,
    power: float,
    sides: int = 2,
) -> Inflation:
    """Computes the drift for `power`, crossing on either side, and its cost in sample size."""
    if not alpha < power < 1.0:
        raise ValueError(f"power: expected a number in (alpha, 1), found {power}")

    def misses(drift: float) -> float:
        return 1.0 - exit_probability(critical_values, information, sides=sides, drift=drift).total

    drift = _falling_root(misses, 1.0 - power, 0.0, 20.0)
    fixed = normal_upper_quantile(alpha / sides) + normal_quantile(power)
    return Inflation(drift=drift, inflation_factor=(drift / fixed) ** 2)


def _falling_root(
    function: Callable[[float], float], target: float, low: float, high: float
) -> float:
    # Secant steps inside a bracket that is halved whenever they stall: each call is an integral.
    at_low, at_high = function(low) - target, function(high) - target
    while high - low > _TOLERANCE * max(1.0, high):
        before = high - low
        guess = low + before * at_low / (at_low - at_high)
        for point in (guess, 0.5 * (low + high)):
            inside = min(max(point, low), high)
            value = function(inside) - target
            if value > 0.0:
                low, at_low = inside, value
            else:
                high, at_high = inside, value
            if value == 0.0:
                return inside
            if high - low < 0.25 * before:
                break
    return 0.5 * (low + high)


def _check_classical(
    family: Family, information: Sequence[float], alpha: float, delta: float | None
) -> float:
    check_information(information)
    if not 0.0 < alpha <= 0.5:
        raise ValueError(f"alpha: expected a number in (0, 0.5], found {alpha}")
    if (family == "wang_tsiatis") != (delta is not None):
        raise ValueError("delta: wang_tsiatis needs one, the other families take none")
    if delta is not None:
        return delta
    return 0.0 if family == "obrien_fleming" else 0.5
