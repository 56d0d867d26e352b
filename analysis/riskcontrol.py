"""Thresholds with a guarantee: how good must flags be before they may block?

Job: fewest flags for a bound, p-values of "the risk is too high", the Learn-then-Test walk and
conformal risk control. Leaves the one-sided bounds themselves to `rates`, scores to
`calibration`.

Rules:
    - Units must be exchangeable; with clusters, one loss per cluster is one unit here.
    - Learn-then-Test walks from the strictest threshold and stops at the first failure, so that
      trying many costs nothing.
    - Conformal risk control bounds an expectation only, and needs losses that fall with lambda.

Source:
    Angelopoulos et al. (2021), proposition 4 and section 3; Bates et al. (2021);
    Angelopoulos et al. (2022), eq. (4).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Literal

from .distributions import binomial_cdf
from .rates import clopper_pearson_lower, wilson_lower
from .values import Undetermined

__all__ = (
    "ConformalRisk",
    "LearnThenTest",
    "conformal_risk_control",
    "hoeffding_bentkus",
    "learn_then_test",
    "min_flagged",
)


@dataclass(frozen=True, kw_only=True, slots=True)
class LearnThenTest:
    """Holds the walk: one p per threshold, and the last threshold passed, if any."""

    p_values: tuple[float, ...]
    selected: float | None


@dataclass(frozen=True, kw_only=True, slots=True)
class ConformalRisk:
    """Holds the adjusted risk of each lambda, and the smallest lambda that is safe, if any."""

    adjusted_risk: tuple[float, ...]
    selected: float | None


def min_flagged(
    target: float,
    *,
    bound: Literal["wilson", "clopper_pearson"],
    alpha: float,
    errors: int = 0,
) -> int:
    """Returns the fewest flags with `errors` wrong whose lower bound reaches `target`.

    Args:
        target: precision wanted, in (0, 1).
        bound: which one-sided lower bound.
        alpha: its one-sided error.
        errors: wrong flags among them, at least 0.
    """
    if not 0.0 < target < 1.0 or errors < 0:
        raise ValueError(f"target, errors: expected (0, 1) and >= 0, found {target}, {errors}")

    def reaches(n: int) -> bool:
        if bound == "wilson":
            return wilson_lower(n - errors, n, alpha=alpha) >= target
        return clopper_pearson_lower(n - errors, n, alpha=alpha) >= target

    high = max(1, errors)
    while not reaches(high):
        high *= 2
    low = high // 2
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (
            (low, middle) if middle >= max(1, errors) and reaches(middle) else (middle, high)
        )
    return high


def hoeffding_bentkus(risk: float, n: int, *, alpha: float) -> float:
    """Returns the p of "the true risk is above `alpha`" from a mean loss in [0, 1].

    Args:
        risk: mean loss of n exchangeable units, in [0, 1].
        n: units, at least 1.
        alpha: risk that is allowed, in (0, 1).
    """
    if not (0.0 <= risk <= 1.0 and n >= 1 and 0.0 < alpha < 1.0):
        raise ValueError(f"risk, n, alpha: expected [0, 1], >= 1, (0, 1): {risk}, {n}, {alpha}")
    hoeffding = math.exp(-n * _divergence(min(risk, alpha), alpha))
    # A mean of whole losses times n may land a rounding error above the whole number.
    bentkus = math.e * binomial_cdf(math.ceil(n * risk - 1e-9), n, alpha)
    return min(1.0, hoeffding, bentkus)


def learn_then_test(
    thresholds: Sequence[float],
    flagged: Sequence[int],
    errors: Sequence[int],
    *,
    max_error: float,
    delta: float,
) -> LearnThenTest:
    """Walks thresholds in the given order while the error rate is shown to be low enough.

    Args:
        thresholds: strictest first.
        flagged: units flagged at each.
        errors: wrong flags among them.
        max_error: largest error rate allowed, in (0, 1).
        delta: chance that the selected threshold is not good enough.

    Returns:
        The binomial p of "the error rate is above max_error" of each, and the last threshold
        before the first p above delta.
    """
    if not len(thresholds) == len(flagged) == len(errors):
        raise ValueError("thresholds, flagged, errors: expected lists of one equal length")
    p_values = tuple(
        binomial_cdf(wrong, n, max_error) if n > 0 else 1.0
        for n, wrong in zip(flagged, errors, strict=True)
    )
    passed = 0
    while passed < len(p_values) and p_values[passed] <= delta:
        passed += 1
    return LearnThenTest(p_values=p_values, selected=thresholds[passed - 1] if passed else None)


def conformal_risk_control(
    lambdas: Sequence[float],
    mean_losses: Sequence[float],
    n: int,
    *,
    alpha: float,
    max_loss: float = 1.0,
) -> ConformalRisk | Undetermined:
    """Finds the smallest lambda with n/(n+1) risk + max_loss/(n+1) <= alpha.

    Args:
        lambdas: rising; larger is more cautious.
        mean_losses: mean loss at each, which must not rise.
        n: exchangeable units, at least 1.
        alpha: expected loss allowed.
        max_loss: largest possible loss of a unit.
    """
    if len(lambdas) != len(mean_losses) or n < 1:
        raise ValueError("lambdas, mean_losses, n: expected one loss per lambda and n >= 1")
    if any(b > a + 1e-12 for a, b in pairwise(mean_losses)):
        return Undetermined("the losses do not fall as lambda grows")
    adjusted = tuple((n * loss + max_loss) / (n + 1) for loss in mean_losses)
    safe = [value for value, risk in zip(lambdas, adjusted, strict=True) if risk <= alpha]
    return ConformalRisk(adjusted_risk=adjusted, selected=min(safe) if safe else None)


def _divergence(p: float, q: float) -> float:
    first = p * math.log(p / q) if p > 0.0 else 0.0
    second = (1.0 - p) * math.log((1.0 - p) / (1.0 - q)) if p < 1.0 else 0.0
    return first + second
