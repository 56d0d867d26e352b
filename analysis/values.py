"""Small values that every module of the analysis shares.

Job: name what can come out of a computation besides a plain number: an interval, a count of
pairs, or the statement that there is no number. Leaves every formula to the other modules.

Rules:
    - A number that does not exist is `Undetermined`, never NaN, 0, 1 or an empty interval.
    - Values are frozen; an interval always has lower <= upper and says how it was made.
    - No numpy here, so that a reader of results needs no numerical library.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

__all__ = ("Better", "Estimand", "Family", "Interval", "Undetermined")

Better = Literal["higher", "lower"]
Estimand = Literal["unit_weighted", "cluster_weighted"]
Family = Literal["binary", "mean"]


@dataclass(frozen=True, slots=True)
class Undetermined:
    """Says that a number cannot be computed, and why, in words of the data.

    Attributes:
        reason: a clause without a full stop, such as "only one cluster".
    """

    reason: str


@dataclass(frozen=True, kw_only=True, slots=True)
class Interval:
    """Holds a two-sided interval, or one side of it where a limit is infinite.

    Attributes:
        lower: lower limit, at most `upper`.
        upper: upper limit.
        level: confidence level in (0, 1).
        method: name of the method, as in `docs/statistics.md`.
    """

    lower: float
    upper: float
    level: float
    method: str
