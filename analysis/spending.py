"""Spending functions: how much of a side's error may be used by an information fraction.

Job: the four functions that a protocol may name. Leaves the boundary to `sequential`.

Rules:
    - Each function is 0 at t = 0, rises, and is alpha from t = 1 on.
    - The names say which set is meant: "obrien_fleming" alone would be ambiguous between a
      classical boundary and a spending function, so no function has that name.

Source:
    Lan and DeMets (1983); Hwang, Shih and DeCani (1990); Kim and DeMets (1987) for the power
    family.
"""

from __future__ import annotations

import math
from typing import Literal

from .distributions import normal_sf, normal_upper_quantile

__all__ = ("Spending", "spent")

Spending = Literal["lan_demets_obrien_fleming", "lan_demets_pocock", "hwang_shih_decani", "power"]


def spent(t: float, *, alpha: float, spending: Spending, parameter: float | None = None) -> float:
    """Returns the error of one side that a spending function has used at fraction `t`.

    Args:
        t: information fraction, t >= 0; from 1 on everything is spent.
        alpha: error of the side, in (0, 0.5].
        spending: name of the function.
        parameter: gamma of `hwang_shih_decani`, rho > 0 of `power`; None for the others.
    """
    _check_spending(t, alpha, spending, parameter)
    if t <= 0.0:
        return 0.0
    if t >= 1.0:
        return alpha
    if spending == "lan_demets_obrien_fleming":
        return 2.0 * normal_sf(normal_upper_quantile(alpha / 2.0) / math.sqrt(t))
    if spending == "lan_demets_pocock":
        return alpha * math.log1p((math.e - 1.0) * t)
    assert parameter is not None
    if spending == "power":
        return float(alpha * t**parameter)
    return alpha * _hwang_shih_decani(t, parameter)


def _hwang_shih_decani(t: float, gamma: float) -> float:
    return t if gamma == 0.0 else math.expm1(-gamma * t) / math.expm1(-gamma)


def _check_spending(t: float, alpha: float, spending: Spending, parameter: float | None) -> None:
    if math.isnan(t) or not 0.0 < alpha <= 0.5:
        raise ValueError(f"t, alpha: expected a fraction and alpha in (0, 0.5], found {t}, {alpha}")
    needs = spending in ("hwang_shih_decani", "power")
    if needs != (parameter is not None):
        raise ValueError(f"parameter: {spending} {'needs one' if needs else 'takes none'}")
    if spending == "power" and not (parameter is not None and parameter > 0.0):
        raise ValueError(f"parameter: power needs rho > 0, found {parameter}")
