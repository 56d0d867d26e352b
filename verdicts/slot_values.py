"""One number a slot, and the replicates of a unit to one number. Pure.

Leaves statuses and missing rules to `arrays.py`.

Rules:
- Money comes from integers of nano-USD, durations from milliseconds.
- An answer that was too long for its event is not among the registered positive ones.
- Replicates are added in their order, so a mean has the same bits on every machine.
- A win rate compares the values of both arms: the number that is analysed is better when higher,
  whichever way the values are. Its failure is a value that loses to every other and ties with
  another failure.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Final, TypeAlias

import numpy as np
import numpy.typing as npt

from fairtrial.analysis.grouping import FloatArray, IntArray
from fairtrial.analysis.values import Better
from fairtrial.ledger.protocol import SCORE_MAX, Endpoint, Reducer, score_name
from fairtrial.protocols.defaults import ALL_REPLICATES

from .outcomes import Outcomes

__all__ = ("ONE_OR_NONE", "YES_OR_NO", "direction", "extremes", "reduced", "slot_values")

# Types whose outcomes are 0 or 1.
YES_OR_NO: Final = ("binary", "precision", *ALL_REPLICATES)
# Types whose number of a unit is 0 or 1 in either arm, so that a difference is -1, 0 or 1.
ONE_OR_NONE: Final = ("binary", "all_pass")

# Beyond every number that an outcome may have, and still small enough to add up.
_BEYOND: Final = 1e3 * SCORE_MAX

BoolArray: TypeAlias = npt.NDArray[np.bool_]


def slot_values(outcomes: Outcomes, endpoint: Endpoint) -> tuple[FloatArray, BoolArray]:
    """Returns the endpoint's field of every slot, NaN without a valid value, and which are valid.

    Valid is a number that can be computed with, within the type's range, whatever the status of the
    slot. One that is larger than `SCORE_MAX` is on record only from before such were refused.
    """
    values = _field(outcomes, endpoint)
    valid = np.abs(values) <= SCORE_MAX
    if endpoint.type in YES_OR_NO:
        valid &= (values == 0.0) | (values == 1.0)
    if endpoint.bounds is not None:
        low, high = endpoint.bounds
        valid &= (values >= low) & (values <= high)
    return np.where(valid, values, np.nan), valid


def direction(endpoint: Endpoint) -> Better:
    """Returns in which direction the number that is analysed improves."""
    return "higher" if endpoint.type == "win_rate" else endpoint.better


def extremes(endpoint: Endpoint) -> tuple[float, float]:
    """Returns the worst and the best value that an endpoint can take; NaN where it has none."""
    low, high = endpoint.bounds or (math.nan, math.nan)
    if endpoint.type in YES_OR_NO:
        low, high = 0.0, 1.0
    if endpoint.type == "win_rate" and endpoint.bounds is None:
        low, high = -_BEYOND, _BEYOND
    # What is best for these depends on labels or on the other replicates: see `completing.py`.
    if endpoint.type in ("auc", "within_twin_auc", "precision", "agreement"):
        low = high = math.nan
    return (low, high) if endpoint.better == "higher" else (high, low)


def reduced(values: FloatArray, endpoint: Endpoint) -> FloatArray:
    """Returns one number a unit.

    Args:
        values: one row a unit, one column a replicate, NaN where it has no value.
        endpoint: names the reducer; without one the first replicate stands for the unit.
    """
    if endpoint.type in ALL_REPLICATES:
        return _OF_ALL[endpoint.type](_count(values), _total(values), endpoint.k or 0)
    return _REDUCERS[endpoint.reducer or "first"](values, endpoint.k or 0)


def _field(outcomes: Outcomes, endpoint: Endpoint) -> FloatArray:
    name = endpoint.value
    if name == "answer":
        return _answers(outcomes, endpoint)
    if name == "tokens":
        columns = [np.array(column, dtype=np.int64) for column in outcomes.tokens.values()]
        return _token_sums(columns, outcomes.slot_count)
    if name in ("usd", "usd_incurred"):
        column = outcomes.cost_nanousd if name == "usd" else outcomes.incurred_nanousd
        return _scaled(np.array(column, dtype=np.int64), 1e9)
    if name == "duration_seconds":
        return _scaled(np.array(outcomes.duration_ms, dtype=np.int64), 1e3)
    score = outcomes.scores.get(score_name(name) or name)
    if score is None:
        return np.full(outcomes.slot_count, np.nan)
    given = np.frombuffer(bytes(score.given), dtype=np.uint8)
    return np.where(given == 2, np.array(score.values, dtype=np.float64), np.nan)


def _scaled(column: IntArray, divisor: float) -> FloatArray:
    return np.where(column < 0, np.nan, column / divisor)


def _token_sums(columns: list[IntArray], slots: int) -> FloatArray:
    total, known = np.zeros(slots, dtype=np.int64), np.zeros(slots, dtype=np.bool_)
    for column in columns:
        total += np.maximum(column, 0)
        known |= column >= 0
    return np.where(known, total.astype(np.float64), np.nan)


def _answers(outcomes: Outcomes, endpoint: Endpoint) -> FloatArray:
    positive = frozenset(endpoint.positive or ())
    values = [math.nan if text is None else float(text in positive) for text in outcomes.answers]
    for position in outcomes.long_answers:
        values[position - 1] = 0.0
    return np.array(values, dtype=np.float64)


def _count(values: FloatArray) -> IntArray:
    return np.asarray(np.count_nonzero(np.isfinite(values), axis=1), dtype=np.int64)


def _total(values: FloatArray) -> FloatArray:
    # Column by column: the order of additions is that of the replicates on every machine.
    total = np.zeros(values.shape[0])
    for column in range(values.shape[1]):
        total = total + np.where(np.isfinite(values[:, column]), values[:, column], 0.0)
    return total


def _mean(values: FloatArray, k: int) -> FloatArray:
    return _total(values) / np.maximum(_count(values), 1)


def _median(values: FloatArray, k: int) -> FloatArray:
    ordered, count = np.sort(values, axis=1), np.maximum(_count(values), 1)
    rows = np.arange(values.shape[0])
    middle = ordered[rows, (count - 1) // 2] + ordered[rows, count // 2]
    return np.asarray(middle / 2.0, dtype=np.float64)


def _choose(n: FloatArray, k: int) -> FloatArray:
    """Returns n over k, exact for any number of replicates that is planned."""
    product = np.ones_like(n)
    for factor in range(k):
        product = product * (n - factor) / (factor + 1)
    return np.maximum(product, 0.0)


def _pass_hat(count: IntArray, passed: FloatArray, k: int) -> FloatArray:
    return _choose(passed, k) / np.maximum(_choose(count.astype(np.float64), k), 1.0)


def _power(share: FloatArray, k: int) -> FloatArray:
    """Returns share to the power of k by multiplication, the same on every machine."""
    product = np.ones_like(share)
    for _ in range(k):
        product = product * share
    return product


def _agreement(count: IntArray, passed: FloatArray, k: int) -> FloatArray:
    both = _choose(passed, 2) + _choose(count - passed, 2)
    return both / np.maximum(_choose(count.astype(np.float64), 2), 1.0)


_OfAll: TypeAlias = Callable[[IntArray, FloatArray, int], FloatArray]

# From replicates that count and those that passed to one number a unit; unbiased but for the two
# that say otherwise by their names.
_OF_ALL: Final[Mapping[str, _OfAll]] = {
    "pass_hat_k": _pass_hat,
    "pass_hat_k_plugin": lambda count, passed, k: _power(passed / np.maximum(count, 1), k),
    "all_pass": lambda count, passed, k: (passed >= count).astype(np.float64),
    "pass_at_k": lambda count, passed, k: 1.0 - _pass_hat(count, count - passed, k),
    "agreement": _agreement,
}

_Reduce: TypeAlias = Callable[[FloatArray, int], FloatArray]

_REDUCERS: Final[Mapping[Reducer, _Reduce]] = {
    "first": lambda values, k: values[:, 0],
    "mean": _mean,
    "median": _median,
    "majority": lambda values, k: (2.0 * _total(values) > _count(values)).astype(np.float64),
    "any": lambda values, k: (_total(values) > 0.0).astype(np.float64),
    "all": lambda values, k: (_total(values) >= _count(values)).astype(np.float64),
    "at_least": lambda values, k: (_total(values) >= k).astype(np.float64),
}
