"""The last line of defence behind an analysis: what can't be computed says so.

Job: turn arithmetic that fails on finite values into `Undetermined`. Leaves every formula to the
other modules, which answer `Undetermined` themselves wherever they foresee it.

Rules:
    - Outcomes on record may be any finite numbers, and an experiment has to be able to end whatever
      they are: a number that overflows or divides by nothing is undetermined, never an exception.
    - A result that holds an infinity or NaN where a number belongs is undetermined as well.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from typing import Final, TypeVar

import numpy as np

from .values import Undetermined

__all__ = ("NOT_COMPUTABLE", "all_finite", "computed")

T = TypeVar("T")

NOT_COMPUTABLE: Final = Undetermined(
    "the values are too large, too small or too far apart to compute with"
)


def computed(compute: Callable[[], T]) -> T | Undetermined:
    """Returns what a computation gives, `NOT_COMPUTABLE` where arithmetic fails on its values."""
    try:
        with np.errstate(all="ignore"):
            return compute()
    except (ArithmeticError, ValueError):
        return NOT_COMPUTABLE


def all_finite(numbers: Iterable[float | None]) -> bool:
    """Returns whether every number that exists is finite."""
    return all(number is None or math.isfinite(number) for number in numbers)
