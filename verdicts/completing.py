"""Lost values filled in both ways: all against an arm, and all for it. Pure.

Leaves which values are lost, and by what rule, to `arrays.py`, and one number a unit to
`slot_values.py`.

Rules:
- A type with a range has its ends, turned by what is better.
- For an AUC only ranks count: at worst a lost score of a true unit lies below all others and that
  of a false one above them; at best the other way round.
- For a precision a lost flag is at worst missing from a true unit and put on a false one.
- For an agreement lost replicates are at best like the majority, at worst as divided as can be.
- These are the extremes of the number itself: no other completion lies outside.
"""

from __future__ import annotations

import math
from typing import Final, TypeAlias

import numpy as np
import numpy.typing as npt

from fairtrial.analysis.grouping import FloatArray, IntArray
from fairtrial.ledger.protocol import SCORE_MAX, Endpoint

from .slot_values import extremes

__all__ = ("completed", "has_extremes")

BoolArray: TypeAlias = npt.NDArray[np.bool_]

# Beyond every score, and so first or last in every order, also after a mean over replicates.
_OUTERMOST: Final = 1e10 * SCORE_MAX


def has_extremes(endpoint: Endpoint) -> bool:
    """Returns whether a lost outcome of the endpoint has a worst and a best end."""
    by_others = endpoint.type in ("auc", "within_twin_auc", "precision", "agreement")
    return by_others or not math.isnan(extremes(endpoint)[0])


def completed(
    values: FloatArray, filled: BoolArray, endpoint: Endpoint, labels: IntArray | None
) -> tuple[FloatArray, FloatArray]:
    """Returns the values with lost ones filled in at their worst and at their best.

    Args:
        values: one row a unit, one column a replicate, NaN where it has no value.
        filled: where a value is filled in, the same shape.
        endpoint: its type says what is worst.
        labels: truth of each unit, for types that need it, shape (rows,).
    """
    if endpoint.type == "agreement":
        low, high = _divided(values, filled), _alike(values, filled)
        return (low, high) if endpoint.better == "higher" else (high, low)
    low_end, high_end = extremes(endpoint)
    if labels is None:
        return np.where(filled, low_end, values), np.where(filled, high_end, values)
    true = (labels == 1)[:, None]
    bottom, top = (0.0, 1.0) if endpoint.type == "precision" else (-_OUTERMOST, _OUTERMOST)
    low = np.where(filled, np.where(true, bottom, top), values)
    high = np.where(filled, np.where(true, top, bottom), values)
    return (low, high) if endpoint.better == "higher" else (high, low)


def _alike(values: FloatArray, filled: BoolArray) -> FloatArray:
    ones, zeros = _counts(values)
    return np.where(filled, (ones >= zeros).astype(np.float64)[:, None], values)


def _divided(values: FloatArray, filled: BoolArray) -> FloatArray:
    ones, zeros = _counts(values)
    lost = np.count_nonzero(filled, axis=1)
    # As many ones as bring both counts nearest to each other.
    wanted = np.clip((zeros + lost - ones + 1) // 2, 0, lost)
    place = np.cumsum(filled, axis=1)
    return np.where(filled, (place <= wanted[:, None]).astype(np.float64), values)


def _counts(values: FloatArray) -> tuple[IntArray, IntArray]:
    ones, zeros = (np.count_nonzero(values == number, axis=1) for number in (1.0, 0.0))
    return np.asarray(ones, dtype=np.int64), np.asarray(zeros, dtype=np.int64)
