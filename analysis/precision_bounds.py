"""One-sided bounds of the precision of flags, with clusters in mind.

Job: from right flags and flags of each cluster, the lower and the upper bound of the share that is
right; Holm over families; and the error that a bound really has where flags of a cluster agree.
Leaves which units are flagged to `block_rules`, verdicts to `rule_verdict`.

Rules:
    - `alpha` is the error of each side. A bound of no flag is `Undetermined`.
    - wilson and clopper_pearson take flags as independent, whatever their clusters.
    - learn_then_test: Clopper-Pearson where every flag is its own cluster; else Hoeffding-Bentkus
      with one loss a cluster, its share of wrong flags, so its estimand weighs clusters.
    - cluster_aware: Clopper-Pearson with an effective number of flags n*. Where wrong flags lie in
      too few clusters to tell how they clump, n* = n^2 / sum m^2, as if all flags of a cluster were
      right or wrong together. Else n* = p(1-p)/V (z/t)^2, at most n, with V the jackknife over
      clusters and t with k-1 df, k = (sum w)^2 / sum w^2 for the rarer kind of flag, w a cluster.
    - The lower bound adds to V what one more cluster as bad as the worst would: a sample that looks
      better than the truth also shows too little clumping. What error is left stands in
      docs/statistics.md.

Source:
    Korn and Graubard (1998) for n*; Wilson (1927); Clopper and Pearson (1934); Bates et al. (2021)
    and Angelopoulos et al. (2021) for Hoeffding-Bentkus; Holm (1979). The caution of the lower
    bound and the floor for few clusters are this project's own, tested by simulation.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Final, Literal, get_args

import numpy as np

from .distributions import beta_quantile, normal_upper_quantile, t_upper_quantile
from .grouping import IntArray, effective_clusters, exact_sum
from .randomness import STREAM_PRECISION, uniforms
from .rates import clopper_pearson_lower, clopper_pearson_upper, wilson_lower, wilson_upper
from .riskcontrol import hoeffding_bentkus
from .values import Estimand, Undetermined

__all__ = (
    "BOUNDS",
    "WRONG_CLUSTERS_MIN",
    "Bound",
    "PrecisionBound",
    "holm_bounds",
    "precision_bound",
    "simulated_error",
)

Bound = Literal["clopper_pearson", "learn_then_test", "cluster_aware", "wilson"]
BOUNDS: Final[tuple[Bound, ...]] = get_args(Bound)

# Fewer clusters with a wrong flag say too little of how wrong flags clump.
WRONG_CLUSTERS_MIN: Final = 8
_BY_CLUSTER: Final = ("cluster_aware", "learn_then_test")
_DRAWS: Final = 10_000_000
_STEPS: Final = 60


@dataclass(frozen=True, kw_only=True, slots=True)
class PrecisionBound:
    """Holds the precision of some flags between its one-sided bounds.

    Attributes:
        method: name of the bound.
        estimand: what is bounded: the share of flags, or the mean share of clusters.
        estimate: share of flags that are right.
        lower: with error `alpha`; `upper` likewise.
        flags: number of them, `right` of which are.
        clusters: that hold a flag; `wrong_clusters` a wrong one.
        effective_flags: independent flags that would tell as much, for the lower bound; None
            where the bound doesn't count them.
        df: of the t quantile behind n*; None without one.
    """

    method: Bound
    estimand: Estimand
    estimate: float
    lower: float
    upper: float
    alpha: float
    flags: int
    right: int
    clusters: int
    wrong_clusters: int
    effective_flags: float | None
    df: float | None


def precision_bound(
    right: IntArray,
    flags: IntArray,
    *,
    bound: Bound,
    alpha: float,
    min_wrong_clusters: int = WRONG_CLUSTERS_MIN,
) -> PrecisionBound | Undetermined:
    """Bounds the precision of flags from both sides.

    Args:
        right: right flags of each cluster, shape (G,).
        flags: flags of each cluster, shape (G,).
        bound: which bound.
        alpha: error of each side, in (0, 0.5).
        min_wrong_clusters: clusters with a wrong flag below which cluster_aware takes flags of a
            cluster as right or wrong together.
    """
    right, flags = _check_flags(right, flags, alpha)
    if not flags.size:
        return Undetermined("nothing was flagged")
    lower, upper = _LIMITS[bound](right, flags, alpha, min_wrong_clusters)
    n, s = int(flags.sum()), int(right.sum())
    by_cluster = bound == "learn_then_test" and n > flags.size
    estimate = exact_sum(right / flags) / flags.size if by_cluster else s / n
    return PrecisionBound(
        method=bound,
        estimand="cluster_weighted" if by_cluster else "unit_weighted",
        estimate=estimate,
        lower=min(lower.limit, estimate),
        upper=max(upper.limit, estimate),
        alpha=alpha,
        flags=n,
        right=s,
        clusters=int(flags.size),
        wrong_clusters=int((right < flags).sum()),
        effective_flags=lower.effective,
        df=lower.df,
    )


def holm_bounds(
    families: Mapping[str, tuple[IntArray, IntArray]],
    *,
    target: float,
    bound: Bound,
    alpha: float,
    min_wrong_clusters: int = WRONG_CLUSTERS_MIN,
) -> dict[str, PrecisionBound | Undetermined]:
    """Bounds each family so that all claims together have error `alpha` a side.

    A family's bound is the one at its step of Holm's walk: the strongest family at alpha / k, the
    next at alpha / (k - 1), until one fails; those after it stay at the level of the failure. Each
    side has its own walk.

    Args:
        families: right flags and flags of each cluster, by family.
        target: precision that each family is held against.
        bound: which bound.
        alpha: error of each side over all families.
        min_wrong_clusters: as in `precision_bound`.
    """

    def at(name: str, level: float) -> PrecisionBound | Undetermined:
        right, flags = families[name]
        return precision_bound(
            right, flags, bound=bound, alpha=level, min_wrong_clusters=min_wrong_clusters
        )

    low = _walk(families, at, alpha, lambda one: one.lower >= target, lambda one: -one.lower)
    high = _walk(families, at, alpha, lambda one: one.upper < target, lambda one: one.upper)
    return {name: _merged(low[name], high[name]) for name in families}


def simulated_error(
    flags: IntArray,
    *,
    target: float,
    bound: Bound,
    alpha: float,
    icc: float,
    seed: int,
    runs: int = 4000,
) -> float:
    """Returns how often the lower bound reaches a target that is exactly the true precision.

    Right flags of a cluster are beta-binomial with mean `target` and the correlation `icc`, drawn
    from Polya's urn: the next flag is right with chance (target c + right so far) / (c + flags so
    far), c = 1 / icc - 1.

    Args:
        flags: flags of each cluster, shape (G,), each at least 1.
        target: true precision, in (0, 1).
        bound: which bound.
        alpha: error that the bound states.
        icc: correlation of two flags of one cluster, in [0, 1].
        seed: of the draws.
        runs: simulated data sets; fewer where there are very many flags.
    """
    flags = np.asarray(flags, dtype=np.int64)
    if not (0.0 < target < 1.0 and 0.0 <= icc <= 1.0 and flags.size and int(flags.min()) >= 1):
        raise ValueError("simulated_error: expected flags >= 1, target in (0, 1), icc in [0, 1]")
    runs = max(200, min(runs, _DRAWS // int(flags.sum())))
    drawn = np.stack(
        [
            _urn(int(m), target, icc, runs=runs, seed=seed, start=start)
            for m, start in _starts(flags)
        ],
        axis=1,
    )
    known: dict[bytes, bool] = {}
    reached = 0
    for row in drawn:
        # Bounds that ignore clusters depend on the sum alone, so few different ones are computed.
        key = row.tobytes() if bound in _BY_CLUSTER else row.sum().tobytes()
        if key not in known:
            found = precision_bound(row, flags, bound=bound, alpha=alpha)
            known[key] = isinstance(found, PrecisionBound) and found.lower >= target
        reached += known[key]
    return reached / runs


@dataclass(frozen=True, slots=True)
class _Limit:
    limit: float
    effective: float | None = None
    df: float | None = None


_Limits = tuple[_Limit, _Limit]


def _wilson(right: IntArray, flags: IntArray, alpha: float, _: int) -> _Limits:
    s, n = int(right.sum()), int(flags.sum())
    return _Limit(wilson_lower(s, n, alpha=alpha)), _Limit(wilson_upper(s, n, alpha=alpha))


def _exact(right: IntArray, flags: IntArray, alpha: float, _: int) -> _Limits:
    s, n = int(right.sum()), int(flags.sum())
    lower, upper = (
        clopper_pearson_lower(s, n, alpha=alpha),
        clopper_pearson_upper(s, n, alpha=alpha),
    )
    return _Limit(lower), _Limit(upper)


def _learned(right: IntArray, flags: IntArray, alpha: float, least: int) -> _Limits:
    if int(flags.max()) == 1:
        return _exact(right, flags, alpha, least)
    shares = right / flags
    wrong = exact_sum(1.0 - shares) / flags.size
    return (
        _Limit(1.0 - _risk_above(wrong, int(flags.size), alpha)),
        _Limit(_risk_above(exact_sum(shares) / flags.size, int(flags.size), alpha)),
    )


def _risk_above(risk: float, n: int, alpha: float) -> float:
    """Returns the smallest risk that a mean loss refutes with error alpha, 1 if it refutes none."""
    low, high = min(max(risk, 0.0), 1.0), 1.0
    for _ in range(_STEPS):
        middle = (low + high) / 2.0
        if middle <= 0.0 or middle >= 1.0:
            break
        if hoeffding_bentkus(min(risk, 1.0), n, alpha=middle) <= alpha:
            high = middle
        else:
            low = middle
    return high


def _aware(right: IntArray, flags: IntArray, alpha: float, least: int) -> _Limits:
    p = int(right.sum()) / int(flags.sum())
    cautious = _effective(right, flags, alpha, least, cautious=True)
    plain = _effective(right, flags, alpha, least, cautious=False)
    lower = beta_quantile(alpha, p * cautious[0], cautious[0] * (1.0 - p) + 1.0) if p else 0.0
    upper = 1.0
    if p < 1.0:
        upper = beta_quantile(1.0 - alpha, p * plain[0] + 1.0, plain[0] * (1.0 - p))
    return _Limit(lower, *cautious), _Limit(upper, *plain)


def _effective(
    right: IntArray, flags: IntArray, alpha: float, least: int, *, cautious: bool
) -> tuple[float, float | None]:
    """Returns the effective number of flags, and the df behind it where there are any."""
    n, p = int(flags.sum()), int(right.sum()) / int(flags.sum())
    if n == flags.size:
        return float(n), None
    rare = flags - right if p >= 0.5 else right
    alike = effective_clusters(flags)
    if int((rare > 0).sum()) < least or flags.size < 2:
        return alike, None
    variance = _jackknife_variance(right, flags)
    if cautious:
        variance += (int(rare.max()) / n) ** 2
    df = max(1.0, min(effective_clusters(rare[rare > 0]), alike) - 1.0)
    ratio = normal_upper_quantile(alpha) / t_upper_quantile(alpha, df)
    return min(float(n), max(1.0, p * (1.0 - p) / variance * ratio * ratio)), df


def _jackknife_variance(right: IntArray, flags: IntArray) -> float:
    count = flags.size
    without = (right.sum() - right) / (flags.sum() - flags)
    mean = exact_sum(without) / count
    found = (count - 1) / count * exact_sum((without - mean) ** 2)
    # All clusters alike: no clumping at all is seen, and the binomial variance stands.
    p = int(right.sum()) / int(flags.sum())
    return max(found, p * (1.0 - p) / int(flags.sum()))


_LIMITS: Final[Mapping[Bound, Callable[[IntArray, IntArray, float, int], _Limits]]] = {
    "wilson": _wilson,
    "clopper_pearson": _exact,
    "learn_then_test": _learned,
    "cluster_aware": _aware,
}


def _walk(
    families: Mapping[str, tuple[IntArray, IntArray]],
    at: Callable[[str, float], PrecisionBound | Undetermined],
    alpha: float,
    passes: Callable[[PrecisionBound], bool],
    rank: Callable[[PrecisionBound], float],
) -> dict[str, PrecisionBound | Undetermined]:
    found: dict[str, PrecisionBound | Undetermined] = {}
    left = sorted(families)
    while left:
        bounds = {name: at(name, alpha / len(left)) for name in left}
        known = {name: one for name, one in bounds.items() if isinstance(one, PrecisionBound)}
        best = min(known, key=lambda name: (rank(known[name]), name), default=None)
        if best is None or not passes(known[best]):
            return found | bounds
        found[best] = known[best]
        left.remove(best)
    return found


def _merged(
    low: PrecisionBound | Undetermined, high: PrecisionBound | Undetermined
) -> PrecisionBound | Undetermined:
    if isinstance(low, Undetermined) or isinstance(high, Undetermined):
        return low
    return replace(low, upper=high.upper)


def _starts(flags: IntArray) -> list[tuple[int, int]]:
    """Returns each cluster's flags with the number of flags before it."""
    before = np.cumsum(flags) - flags
    return list(zip(flags.tolist(), before.tolist(), strict=True))


def _urn(flags: int, target: float, icc: float, *, runs: int, seed: int, start: int) -> IntArray:
    """Returns the right flags of one cluster in each run, shape (runs,)."""
    right = np.zeros(runs, dtype=np.int64)
    chance = np.full(runs, target)
    weight = math.inf if icc == 0.0 else 1.0 / icc - 1.0
    for drawn in range(flags):
        if drawn and math.isfinite(weight):
            chance = ((target * weight + right) / (weight + drawn)).astype(np.float64)
        right += uniforms(runs, seed=seed, stream=STREAM_PRECISION, run=start + drawn) < chance
    return right


def _check_flags(right: IntArray, flags: IntArray, alpha: float) -> tuple[IntArray, IntArray]:
    right, flags = np.asarray(right, dtype=np.int64), np.asarray(flags, dtype=np.int64)
    if right.ndim != 1 or right.shape != flags.shape or not 0.0 < alpha < 0.5:
        raise ValueError("right, flags: expected one length each; alpha: expected (0, 0.5)")
    if flags.size and not (int(right.min()) >= 0 and bool(np.all(right <= flags))):
        raise ValueError("right: expected 0 <= right <= flags in each cluster")
    kept = flags > 0
    return right[kept], flags[kept]
