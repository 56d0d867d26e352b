"""Student's t around an estimate: the one place that turns an error into limits and a p.

Job: limits and two-sided p of an estimate with a standard error and its degrees of freedom. Leaves
the error and whether there is one to the method that computes it.

Rules:
    - The error is above 0: what has none has no interval, and its method says why.
    - A p is at most 1; limits stay inside the range of the estimand where one is given.
"""

from __future__ import annotations

import math

from .distributions import t_sf, t_upper_quantile
from .values import Interval

__all__ = ("t_around", "t_p_value")


def t_p_value(distance: float, df: float) -> float:
    """Returns the two-sided p of a distance from the null, in standard errors."""
    return min(1.0, 2.0 * t_sf(abs(distance), df))


def t_around(
    estimate: float,
    error: float,
    df: float,
    *,
    alpha: float,
    method: str,
    bounds: tuple[float, float] = (-math.inf, math.inf),
) -> Interval:
    """Returns the two-sided t interval of an estimate.

    Args:
        estimate: its middle.
        error: standard error, above 0.
        df: degrees of freedom of the error.
        alpha: two-sided error, the level is 1 - alpha.
        method: name of the method.
        bounds: range of the estimand.
    """
    half = t_upper_quantile(alpha / 2.0, df) * error
    return Interval(
        lower=max(bounds[0], estimate - half),
        upper=min(bounds[1], estimate + half),
        level=1.0 - alpha,
        method=method,
    )
