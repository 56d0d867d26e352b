"""What may be wrong with a run although every number is right: order, drift, flips.

Job: test whether the arm that went first did better, whether the difference drifts over the run,
and how often replicates of one unit contradict each other. Leaves what follows to the caller.

Rules:
    - Which arm goes first is drawn for each unit, whatever its cluster: so the test flips the signs
      of units, and clusters don't matter to it.
    - The order of clusters is drawn too, so a drift is looked for over the means of clusters.
    - Fewer than 8 units (order) or clusters (drift) show nothing, and no variance neither.

Source:
    Fisher (1935), section 21, for flipped signs; Pitman (1937) for the correlation with an order
    drawn at random, whose t approximation is used.
"""

from __future__ import annotations

import math

import numpy as np
import numpy.typing as npt

from .distributions import normal_sf
from .grouping import FloatArray, IntArray, exact_sum, group
from .signflip import sign_flip
from .student import t_p_value
from .values import Undetermined

__all__ = ("LEAST", "flip_rate", "order_effect", "time_drift")

LEAST = 8
_EXACT = 16
_ROUNDING = 1e-12


def order_effect(
    differences: FloatArray, treatment_first: npt.NDArray[np.bool_]
) -> tuple[float, float] | Undetermined:
    """Computes how much better an arm does for going first, and its two-sided p.

    Args:
        differences: treatment minus control, one number a unit, shape (n,).
        treatment_first: which arm went first in each unit, shape (n,).

    Returns:
        Half the mean difference where treatment went first minus where control did, and p: exact
        up to 16 units, else by the normal distribution with the exact variance of the flips.
    """
    n = len(differences)
    first = np.asarray(treatment_first, dtype=np.bool_)
    if n < LEAST or not first.any() or first.all():
        return Undetermined("too few units went in both orders")
    values = np.asarray(differences, dtype=np.float64)
    effect = exact_sum(values[first]) / int(first.sum())
    effect -= exact_sum(values[~first]) / int((~first).sum())
    centred = (values - exact_sum(values) / n) * np.where(first, 1.0, -1.0)
    if exact_sum(np.abs(centred)) <= _ROUNDING * n:
        return Undetermined("the differences don't vary")
    if n <= _EXACT:
        return effect / 2.0, sign_flip(centred, seed=0).p_value
    z = exact_sum(centred) / math.sqrt(exact_sum(centred * centred))
    return effect / 2.0, min(1.0, 2.0 * normal_sf(abs(z)))


def time_drift(differences: FloatArray, clusters: IntArray) -> tuple[float, float] | Undetermined:
    """Computes the correlation of clusters' mean differences with their place, and its p.

    Args:
        differences: one number a unit, shape (n,).
        clusters: code of each unit's cluster in the order in which clusters ran, shape (n,).
    """
    groups = group(differences, clusters)
    means = groups.sums / groups.sizes
    count = means.size
    if count < LEAST:
        return Undetermined("too few clusters to see a drift")
    places = np.arange(count) - (count - 1) / 2.0
    centred = means - exact_sum(means) / count
    spread = exact_sum(centred * centred)
    if spread <= _ROUNDING:
        return Undetermined("the differences don't vary")
    r = exact_sum(places * centred) / math.sqrt(exact_sum(places * places) * spread)
    r = max(-1.0, min(1.0, r))
    if 1.0 - r * r <= _ROUNDING:
        return r, 0.0
    t = r * math.sqrt((count - 2) / (1.0 - r * r))
    return r, t_p_value(t, count - 2)


def flip_rate(values: FloatArray) -> float | Undetermined:
    """Computes the share of units whose replicates are not all equal.

    Args:
        values: one row a unit, one column a replicate, NaN where there is none.
    """
    counted = np.count_nonzero(np.isfinite(values), axis=1) >= 2
    if not counted.any():
        return Undetermined("no unit has two replicates")
    rows = values[counted]
    low = np.where(np.isfinite(rows), rows, np.inf).min(axis=1)
    high = np.where(np.isfinite(rows), rows, -np.inf).max(axis=1)
    return float(np.count_nonzero(low < high)) / len(rows)
