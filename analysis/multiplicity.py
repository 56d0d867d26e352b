"""Several p at once: adjusted p and gatekeeping.

Job: Bonferroni, Holm, Hochberg, Benjamini-Hochberg, fixed sequence and fallback. Leaves which
family an endpoint belongs to, and shares of alpha, to the protocol.

Rules:
    - Results come in the order of the input; ties get equal adjusted p.
    - Holm is the default. Hochberg needs positive dependence; Benjamini-Hochberg controls a rate
      of false discoveries and is never used for a verdict.

Source:
    Holm (1979); Hochberg (1988); Benjamini and Hochberg (1995); Wiens (2003).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final, Literal

__all__ = ("Adjustment", "Gatekeeping", "adjust_p", "fallback", "fixed_sequence")

Adjustment = Literal["bonferroni", "holm", "hochberg", "benjamini_hochberg"]


@dataclass(frozen=True, kw_only=True, slots=True)
class Gatekeeping:
    """Holds an ordered testing procedure.

    Attributes:
        rejected: whether each hypothesis is rejected, in the registered order.
        levels: alpha at which each was tested.
        adjusted: adjusted p of the fixed sequence; empty for the fallback.
    """

    rejected: tuple[bool, ...]
    levels: tuple[float, ...]
    adjusted: tuple[float, ...] = ()


def adjust_p(p_values: Sequence[float], method: Adjustment = "holm") -> tuple[float, ...]:
    """Returns adjusted p in input order, each in [0, 1]."""
    _check_p(p_values)
    order = sorted(range(len(p_values)), key=lambda i: p_values[i])
    adjusted = _METHODS[method]([p_values[i] for i in order])
    result = [0.0] * len(p_values)
    for place, value in zip(order, adjusted, strict=True):
        result[place] = min(1.0, value)
    return tuple(result)


def fixed_sequence(p_values: Sequence[float], *, alpha: float) -> Gatekeeping:
    """Tests in the given order at full alpha each, ending at the first that isn't rejected."""
    _check_p(p_values)
    adjusted = tuple(_running_max(p_values))
    return Gatekeeping(
        rejected=tuple(p <= alpha for p in adjusted),
        levels=tuple(
            alpha if k == 0 or adjusted[k - 1] <= alpha else 0.0 for k in range(len(adjusted))
        ),
        adjusted=adjusted,
    )


def fallback(p_values: Sequence[float], weights: Sequence[float], *, alpha: float) -> Gatekeeping:
    """Tests in order at weighted alpha, passing on the level of each rejected hypothesis.

    Args:
        p_values: p in the registered order.
        weights: shares of alpha, at least 0, summing to at most 1.
        alpha: family-wise error.
    """
    _check_p(p_values)
    if len(weights) != len(p_values) or min(weights) < 0.0 or math.fsum(weights) > 1.0 + 1e-9:
        raise ValueError(f"weights: expected one share per p, together at most 1: {weights}")
    carried, levels, rejected = 0.0, [], []
    for p, weight in zip(p_values, weights, strict=True):
        level = alpha * weight + carried
        levels.append(level)
        rejected.append(p <= level)
        carried = level if p <= level else 0.0
    return Gatekeeping(rejected=tuple(rejected), levels=tuple(levels))


def _bonferroni(p: Sequence[float]) -> list[float]:
    return [len(p) * each for each in p]


def _holm(p: Sequence[float]) -> list[float]:
    return _running_max([(len(p) - k) * each for k, each in enumerate(p)])


def _hochberg(p: Sequence[float]) -> list[float]:
    return _running_min_from_end([(len(p) - k) * each for k, each in enumerate(p)])


def _benjamini_hochberg(p: Sequence[float]) -> list[float]:
    return _running_min_from_end([len(p) * each / (k + 1) for k, each in enumerate(p)])


_METHODS: Final[dict[Adjustment, Callable[[Sequence[float]], list[float]]]] = {
    "bonferroni": _bonferroni,
    "holm": _holm,
    "hochberg": _hochberg,
    "benjamini_hochberg": _benjamini_hochberg,
}


def _running_max(values: Sequence[float]) -> list[float]:
    return [max(values[: k + 1]) for k in range(len(values))]


def _running_min_from_end(values: Sequence[float]) -> list[float]:
    return [min(values[k:]) for k in range(len(values))]


def _check_p(p_values: Sequence[float]) -> None:
    if not p_values or not all(0.0 <= p <= 1.0 for p in p_values):
        raise ValueError(f"p_values: expected at least one number, each in [0, 1]: {p_values}")
