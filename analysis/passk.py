"""pass@k and pass^k from repeated tries of one task.

Job: the unbiased forms, the plug-in and all-pass forms under their own names, and the mean over
tasks. Leaves the paired comparison over tasks to `paired`.

Rules:
    - k above n is never a number: n tries say nothing about k of them.
    - `plugin` is biased upward for pass^k, and `all_pass` estimates pass^n, whatever k is.
    - Tasks with fewer than k tries are left out of a mean, and counted.

Source:
    Chen et al. (2021), eq. (1); Yao et al. (2024) for pass^k.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from .values import Undetermined

__all__ = ("Estimator", "MacroPass", "macro_pass", "pass_at_k", "pass_hat_k")

Estimator = Literal["unbiased", "plugin", "all_pass"]


@dataclass(frozen=True, kw_only=True, slots=True)
class MacroPass:
    """Holds means over tasks with their task-level standard errors.

    Attributes:
        eligible: tasks with at least k tries; `total` all tasks.
        pass_at_k: mean over eligible tasks; `pass_hat_k` likewise.
        se_pass_at_k: sd over tasks / sqrt(eligible), or why there is none; `se_pass_hat_k`.
    """

    eligible: int
    total: int
    pass_at_k: float | Undetermined
    pass_hat_k: float | Undetermined
    se_pass_at_k: float | Undetermined
    se_pass_hat_k: float | Undetermined


def pass_at_k(n: int, c: int, k: int) -> float | Undetermined:
    """Returns the unbiased chance that at least one of k tries passes, c of n having passed."""
    _check_pass(n, c, k)
    if k > n:
        return Undetermined(f"{n} tries do not show what {k} would do")
    return 1.0 - math.comb(n - c, k) / math.comb(n, k)


def pass_hat_k(
    n: int, c: int, k: int, *, estimator: Estimator = "unbiased"
) -> float | Undetermined:
    """Returns the chance that all of k tries pass, c of n having passed."""
    _check_pass(n, c, k)
    if k > n:
        return Undetermined(f"{n} tries do not show what {k} would do")
    if estimator == "unbiased":
        return math.comb(c, k) / math.comb(n, k)
    if estimator == "plugin":
        return float((c / n) ** k)
    return 1.0 if c == n else 0.0


def macro_pass(tasks: Sequence[tuple[int, int]], k: int) -> MacroPass:
    """Computes the mean over tasks.

    Args:
        tasks: (n tries, c passed) of each task.
        k: tries asked for, at least 1.
    """
    at_k = [pass_at_k(n, c, k) for n, c in tasks]
    hat_k = [pass_hat_k(n, c, k) for n, c in tasks]
    at = [value for value in at_k if not isinstance(value, Undetermined)]
    hat = [value for value in hat_k if not isinstance(value, Undetermined)]
    mean_at, error_at = _mean_error(at)
    mean_hat, error_hat = _mean_error(hat)
    return MacroPass(
        eligible=len(at),
        total=len(tasks),
        pass_at_k=mean_at,
        pass_hat_k=mean_hat,
        se_pass_at_k=error_at,
        se_pass_hat_k=error_hat,
    )


def _mean_error(values: Sequence[float]) -> tuple[float | Undetermined, float | Undetermined]:
    count = len(values)
    if count == 0:
        none = Undetermined("no task has enough tries")
        return none, none
    mean = math.fsum(values) / count
    if count == 1:
        return mean, Undetermined("one task shows no spread between tasks")
    squares = math.fsum((value - mean) ** 2 for value in values)
    return mean, math.sqrt(squares / (count - 1) / count)


def _check_pass(n: int, c: int, k: int) -> None:
    if not (0 <= c <= n and k >= 1):
        raise ValueError(f"n, c, k: expected 0 <= c <= n and k >= 1, found {n}, {c}, {k}")
