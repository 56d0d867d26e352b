"""Intervals and p-values that stay valid however often one looks.

Job: confidence sequences for a bounded mean (Hoeffding, empirical Bernstein, hedged betting), an
asymptotic one, one of a share, a mixture boundary, and a beta e-process for discordant pairs.
Leaves planned looks to `sequential`.

Rules:
    - The unit of a sequence is the cluster, in run order; a sequence depends on that order.
    - Values lie in bounds that come from the question; the functions here take them in [0, 1].
    - Limits are running intersections, so an interval never widens and never empties: where
      intersections would cross, the last non-empty one stays.

Source:
    Waudby-Smith and Ramdas (2024); Howard et al. (2021); Waudby-Smith et al. (2021) for the
    asymptotic form; Robbins (1970) for the mixture of a share.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
import numpy.typing as npt

from .distributions import log_beta_array, normal_log_cdf
from .grouping import FloatArray, IntArray
from .values import Interval

__all__ = (
    "DIFFERING_MIN",
    "EProcess",
    "Limits",
    "asymptotic",
    "asymptotic_begun",
    "asymptotic_rho",
    "asymptotic_sequence",
    "beta_sequence",
    "betting_hedged",
    "bounded_mean",
    "empirical_bernstein_predmix",
    "hoeffding_predmix",
    "mcnemar_eprocess",
    "normal_mixture_bound",
)

_GRID: Final = 4000
_BISECTIONS: Final = 200
_SHARE_BISECTIONS: Final = 60
_ROUNDING: Final = 1e-9
_ASYMPTOTIC_MIN: Final = 100
# Fewer values beside 0 say too little of the spread for a normal limit. By simulation 25 err on a
# side in at most 1.9 % where differences are rare or come in clumps, 15 in 2.4 %, 6 in 3.5 %.
DIFFERING_MIN: Final = 25


@dataclass(frozen=True, kw_only=True, eq=False)
class Limits:
    """Holds a confidence sequence: limits after each observation, shape (n,)."""

    lower: FloatArray
    upper: FloatArray


@dataclass(frozen=True, kw_only=True, slots=True)
class EProcess:
    """Holds the logarithm of an e-value and the p that it implies, valid at any stop."""

    log_e: float
    p_value: float


def hoeffding_predmix(values: FloatArray, *, alpha: float = 0.05) -> Limits:
    """Computes the predictable-mixture Hoeffding sequence.

    Args:
        values: in [0, 1], in run order, shape (n,).
        alpha: two-sided error over all times.
    """
    x = _check_sequence(values, alpha)
    t = np.arange(1, x.size + 1)
    bets = np.minimum(1.0, np.sqrt(8.0 * math.log(2.0 / alpha) / (t * np.log1p(t))))
    total = np.cumsum(bets)
    centre = np.cumsum(bets * x) / total
    half = (math.log(2.0 / alpha) + np.cumsum(bets * bets) / 8.0) / total
    return _running(centre - half, centre + half)


def empirical_bernstein_predmix(values: FloatArray, *, alpha: float = 0.05) -> Limits:
    """Computes the predictable-mixture empirical Bernstein sequence.

    The upper limit is the mirror image of the lower one of 1 - x, so that swapping the ends of
    the range swaps the limits.

    Args:
        values: in [0, 1], in run order, shape (n,).
        alpha: two-sided error over all times.
    """
    x = _check_sequence(values, alpha)
    bets = np.minimum(0.5, _bets(x, alpha))
    return _running(_bernstein_lower(x, bets, alpha), 1.0 - _bernstein_lower(1.0 - x, bets, alpha))


def betting_hedged(values: FloatArray, *, alpha: float = 0.05) -> Limits:
    """Computes the hedged betting sequence on a grid of means.

    A mean is rejected once the larger of two half-weighted capitals reaches 1/alpha. Limits lie
    on rejected grid points, so the grid (1/4000) only ever widens them.

    Args:
        values: in [0, 1], in run order, shape (n,).
        alpha: two-sided error over all times.
    """
    x = _check_sequence(values, alpha)
    grid = np.linspace(0.0, 1.0, _GRID + 1)
    with np.errstate(divide="ignore"):
        caps_up, caps_down = 1.0 / (2.0 * grid), 1.0 / (2.0 * (1.0 - grid))
    up, down = np.zeros_like(grid), np.zeros_like(grid)
    kept = np.ones(grid.size, dtype=bool)
    lower, upper = np.zeros(x.size), np.ones(x.size)
    threshold = math.log(2.0 / alpha)
    for i, (value, bet) in enumerate(zip(x.tolist(), _bets(x, alpha).tolist(), strict=True)):
        up += np.log1p(np.minimum(bet, caps_up) * (value - grid))
        down += np.log1p(-np.minimum(bet, caps_down) * (value - grid))
        kept &= np.maximum(up, down) < threshold
        places = np.flatnonzero(kept)
        if places.size == 0:
            lower[i:], upper[i:] = lower[i - 1], upper[i - 1]
            break
        lower[i] = grid[max(places[0] - 1, 0)]
        upper[i] = grid[min(places[-1] + 1, _GRID)]
    return Limits(lower=lower, upper=upper)


def bounded_mean(values: FloatArray, *, low: float, high: float, alpha: float = 0.05) -> Interval:
    """Returns the betting interval of a mean of values in [low, high] after all of them.

    Args:
        values: in run order, shape (n,), n >= 1; cluster means when units are clustered.
        low: smallest possible value.
        high: largest possible value.
        alpha: two-sided error.
    """
    if not low < high:
        raise ValueError(f"low, high: expected low < high, found {low}, {high}")
    scaled = (np.asarray(values, dtype=np.float64) - low) / (high - low)
    limits = betting_hedged(scaled, alpha=alpha)
    return Interval(
        lower=low + (high - low) * float(limits.lower[-1]),
        upper=low + (high - low) * float(limits.upper[-1]),
        level=1.0 - alpha,
        method="betting",
    )


def asymptotic(mean: float, sd: float, n: int, *, rho: float, alpha: float = 0.05) -> Interval:
    """Returns the asymptotic confidence sequence at n >= 1 observations.

    Args:
        mean: running mean.
        sd: running standard deviation.
        n: observations so far; fewer than 100 clusters are too few.
        rho: tuning of `asymptotic_rho`, > 0.
        alpha: two-sided error over all times.
    """
    if n < 1 or not rho > 0.0 or not sd >= 0.0:
        raise ValueError(f"n, rho, sd: expected >= 1, > 0, >= 0, found {n}, {rho}, {sd}")
    spread = n * rho * rho
    half = sd * math.sqrt(
        2.0 * (spread + 1.0) * math.log(math.sqrt(spread + 1.0) / alpha) / (n * rho) ** 2
    )
    return Interval(lower=mean - half, upper=mean + half, level=1.0 - alpha, method="asymptotic")


def asymptotic_rho(n_opt: float, *, alpha: float = 0.05) -> float:
    """Returns the rho that makes `asymptotic` narrowest near n_opt > 0 observations."""
    if not (n_opt > 0.0 and 0.0 < alpha < 1.0):
        raise ValueError(f"n_opt, alpha: expected > 0 and (0, 1), found {n_opt}, {alpha}")
    log = -2.0 * math.log(alpha)
    return math.sqrt((log + math.log(1.0 + log)) / n_opt)


def asymptotic_sequence(
    values: FloatArray, *, first: int, low: float, high: float, alpha: float = 0.05
) -> Limits:
    """Computes the asymptotic sequence of a mean, from a registered number of observations on.

    The sequence is tuned to be narrowest at `first`; until `asymptotic_begun` the limits are the
    ends of the range.

    Args:
        values: in [low, high], in run order, shape (n,); 0 is no difference.
        first: observations before the first look, at least 100.
        low: smallest possible value.
        high: largest possible value.
        alpha: two-sided error over all times from `first` on, asymptotically.
    """
    low, high = float(low), float(high)
    x = low + (high - low) * _check_sequence((np.asarray(values) - low) / (high - low), alpha)
    rho = asymptotic_rho(first, alpha=alpha)
    t = np.arange(1, x.size + 1)
    # About a value of the data itself, so that squares don't lose what varies.
    shifted = x - x[0]
    means = np.cumsum(shifted) / t
    spread = np.sqrt(np.maximum(np.cumsum(shifted * shifted) / t - means * means, 0.0))
    lower, upper = np.full(x.size, low), np.full(x.size, high)
    begun = asymptotic_begun(np.asarray(values), first=first) & (spread > 0.0)
    for k in np.flatnonzero(begun).tolist():
        found = asymptotic(float(means[k]), float(spread[k]), k + 1, rho=rho, alpha=alpha)
        lower[k], upper[k] = max(low, x[0] + found.lower), min(high, x[0] + found.upper)
    return _running(lower, upper, low, high)


def asymptotic_begun(values: FloatArray | IntArray, *, first: int) -> npt.NDArray[np.bool_]:
    """Returns after which observations an asymptotic sequence of differences may be read.

    From `first` on, where the values weigh like `DIFFERING_MIN` equal ones beside 0 or more:
    (sum of squares)^2 / (sum of fourth powers), which for yes or no is the number of differences.

    Args:
        values: differences, in run order, shape (n,).
        first: observations before the first look, at least 100.
    """
    if first < _ASYMPTOTIC_MIN:
        raise ValueError(f"first: expected at least {_ASYMPTOTIC_MIN}, found {first}")
    x = np.asarray(values, dtype=np.float64)
    squares = (x / max(float(np.max(np.abs(x))), np.finfo(np.float64).tiny)) ** 2
    second, fourth = np.cumsum(squares), np.cumsum(squares * squares)
    enough = (fourth > 0.0) & (second * second >= (DIFFERING_MIN - _ROUNDING) * fourth)
    return np.asarray(enough & (np.arange(1, x.size + 1) >= first))


def beta_sequence(
    counts: FloatArray | IntArray, trials: FloatArray | IntArray, *, alpha: float = 0.05
) -> Limits:
    """Computes the beta-binomial mixture sequence of a share, with Jeffreys' mixture.

    A share p is rejected once B(1/2 + s, 1/2 + n - s) / B(1/2, 1/2) p^-s (1 - p)^(s - n) reaches
    1/alpha: at p = 1/2 that is `mcnemar_eprocess`.

    Args:
        counts: successes so far, s, after each observation, shape (m,).
        trials: trials so far, n, likewise; may stay 0 for a while.
        alpha: two-sided error over all times.
    """
    s, n = np.asarray(counts, dtype=np.float64), np.asarray(trials, dtype=np.float64)
    if not (np.all(s >= 0.0) and np.all(s <= n) and 0.0 < alpha < 1.0):
        raise ValueError("counts, trials, alpha: expected 0 <= counts <= trials and (0, 1)")
    mixed = log_beta_array(0.5 + s, 0.5 + n - s) - math.log(math.pi) + math.log(alpha)

    def is_kept(p: FloatArray) -> npt.NDArray[np.bool_]:
        with np.errstate(divide="ignore", invalid="ignore"):
            yes = np.where(s > 0.0, s * np.log(p), 0.0)
            no = np.where(n > s, (n - s) * np.log1p(-p), 0.0)
        return np.asarray(mixed - yes - no < 0.0)

    middle = np.where(n > 0.0, s / np.maximum(n, 1.0), 0.5)
    return _running(_last_kept(is_kept, middle, 0.0), _last_kept(is_kept, middle, 1.0))


def normal_mixture_bound(v: float, *, alpha: float, v_opt: float) -> float:
    """Returns the one-sided normal-mixture boundary at intrinsic time v >= 0.

    Args:
        v: intrinsic time, the accumulated variance.
        alpha: one-sided error over all times, in (0, 1/2).
        v_opt: time at which the boundary is tightest, > 0.
    """
    if not (v >= 0.0 and 0.0 < alpha < 0.5 and v_opt > 0.0):
        raise ValueError(f"v, alpha, v_opt: expected >= 0, (0, 1/2), > 0: {v}, {alpha}, {v_opt}")
    tail = 2.0 * math.log(1.0 / (2.0 * alpha))
    r = v_opt / (tail + math.log1p(tail))

    def log_capital(s: float) -> float:
        gain = s * s / (2.0 * (v + r))
        return 0.5 * math.log(4.0 * r / (v + r)) + gain + normal_log_cdf(s / math.sqrt(v + r))

    low, high, target = 0.0, 1.0, math.log(1.0 / alpha)
    while log_capital(high) < target:
        high *= 2.0
    for _ in range(_BISECTIONS):
        middle = 0.5 * (low + high)
        low, high = (middle, high) if log_capital(middle) < target else (low, middle)
    return high


def mcnemar_eprocess(b: int, c: int, *, prior_a: float = 0.5, prior_b: float = 0.5) -> EProcess:
    """Computes the beta-mixture e-value of "a discordant pair favours either arm equally".

    Args:
        b: pairs that only control passed; every unit is its own cluster.
        c: pairs that only treatment passed.
        prior_a: first parameter of the beta mixture, > 0.
        prior_b: second parameter of the beta mixture, > 0.
    """
    if b < 0 or c < 0 or not (prior_a > 0.0 and prior_b > 0.0):
        raise ValueError(f"b, c, priors: expected >= 0 and > 0: {b}, {c}, {prior_a}, {prior_b}")
    log_e = (b + c) * math.log(2.0) + _log_beta(prior_a + c, prior_b + b)
    log_e -= _log_beta(prior_a, prior_b)
    return EProcess(log_e=log_e, p_value=min(1.0, math.exp(min(0.0, -log_e))))


def _bernstein_lower(x: FloatArray, bets: FloatArray, alpha: float) -> FloatArray:
    earlier = np.concatenate([[0.0], np.cumsum(x)[:-1] / np.arange(1, x.size)])
    proxy = (x - earlier) ** 2 * (-np.log1p(-bets) - bets)
    total = np.cumsum(bets)
    margin = (math.log(2.0 / alpha) + np.cumsum(proxy)) / total
    return np.asarray(np.cumsum(bets * x) / total - margin, dtype=np.float64)


def _bets(x: FloatArray, alpha: float) -> FloatArray:
    # The variance used for a bet is that of the values before it, started at 1/4.
    t = np.arange(1, x.size + 1)
    means = (0.5 + np.cumsum(x)) / (t + 1.0)
    variances = (0.25 + np.cumsum((x - means) ** 2)) / (t + 1.0)
    before = np.concatenate([[0.25], variances[:-1]])
    scale = 2.0 * math.log(2.0 / alpha) / (t * np.log1p(t) * before)
    return np.asarray(np.sqrt(scale), dtype=np.float64)


def _last_kept(
    is_kept: Callable[[FloatArray], npt.NDArray[np.bool_]], middle: FloatArray, end: float
) -> FloatArray:
    """Returns a value at or beyond the last kept one between `middle`, which is kept, and `end`."""
    inside, outside = middle.copy(), np.full(middle.size, end)
    for _ in range(_SHARE_BISECTIONS):
        between = 0.5 * (inside + outside)
        kept = is_kept(between)
        inside, outside = np.where(kept, between, inside), np.where(kept, outside, between)
    return outside


def _running(lower: FloatArray, upper: FloatArray, least: float = 0.0, most: float = 1.0) -> Limits:
    low = np.maximum.accumulate(np.maximum(lower, least))
    high = np.minimum.accumulate(np.minimum(upper, most))
    crossed = np.flatnonzero(low > high)
    if crossed.size:
        last = max(int(crossed[0]) - 1, 0)
        low[crossed[0] :], high[crossed[0] :] = low[last], high[last]
    return Limits(lower=low, upper=high)


def _log_beta(a: float, b: float) -> float:
    return math.lgamma(a) + math.lgamma(b) - math.lgamma(a + b)


def _check_sequence(values: FloatArray | Sequence[float], alpha: float) -> FloatArray:
    x = np.asarray(values, dtype=np.float64)
    if x.ndim != 1 or x.size == 0 or not np.all((x >= 0.0) & (x <= 1.0)):
        raise ValueError("values: expected at least one number, each in [0, 1]")
    if not 0.0 < alpha < 1.0:
        raise ValueError(f"alpha: expected a number in (0, 1), found {alpha}")
    return x
