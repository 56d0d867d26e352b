"""The deciding interval where anyone may look at any time: confidence sequences over clusters.

Job: turn paired differences, in run order, into limits that hold at every look at once. Leaves the
sequences themselves to `confidence_sequences`, and looks at planned times to `deciding`.

Rules:
    - One observation is the mean difference of one cluster; each cluster counts once.
    - Bounds come from the question. Limits are running intersections over all clusters so far.
    - There is no standard error and no p: the limits are all there is.
    - `beta` is for yes or no on single units. The difference is discordance times (2 share - 1),
      with the treatment's share of discordant pairs: the share's sequence takes nine tenths of
      alpha, the discordance's the rest. So "above 0" is McNemar's e-process at 0.9 alpha.
    - `asymptotic` holds its level only in the limit: from 100 clusters on, once differences weigh
      like those of 25 clusters; undetermined before.

Source:
    Waudby-Smith and Ramdas (2024): hedged betting and empirical Bernstein; Waudby-Smith et al.
    (2021): asymptotic; Robbins (1970): mixtures for shares. The product for `beta` is ours.
"""

from __future__ import annotations

from types import MappingProxyType
from typing import Final, Literal

import numpy as np

from .confidence_sequences import (
    DIFFERING_MIN,
    asymptotic_begun,
    asymptotic_sequence,
    beta_sequence,
    betting_hedged,
    empirical_bernstein_predmix,
)
from .deciding import Deciding
from .grouping import FloatArray, IntArray, exact_sum, group
from .paired import count_pairs
from .values import Interval, Undetermined

__all__ = ("SequenceMethod", "deciding_sequence")

SequenceMethod = Literal["betting", "empirical_bernstein", "beta", "asymptotic"]

_OF_SHARE: Final = 0.9
_NOT_BEGUN: Final = Undetermined(
    "differences between the arms are too rare so far for asymptotic limits, which begin once they "
    f"weigh like those of {DIFFERING_MIN} clusters; betting or beta limits need no such number"
)


def deciding_sequence(
    differences: FloatArray,
    clusters: IntArray,
    *,
    method: SequenceMethod,
    bounds: tuple[float, float],
    alpha: float,
    first: int = 1,
) -> Deciding | Undetermined:
    """Computes the limits of the mean of cluster means after all clusters so far.

    Args:
        differences: treatment minus control, one number a pair, shape (n,).
        clusters: code of each pair's cluster, rising in run order, shape (n,).
        method: which sequence.
        bounds: smallest and largest value of an outcome; a difference lies in twice their range.
        alpha: two-sided error over all looks.
        first: clusters before the first look; with `asymptotic` at least 100.

    Returns:
        The limits; `Undetermined` without pairs, for `beta` of what isn't yes or no on single
        units, and for `asymptotic` while too few clusters differ.
    """
    low, high = bounds
    if not low < high:
        raise ValueError(f"bounds: expected low < high, found {low}, {high}")
    if not len(differences):
        return Undetermined("no complete pair")
    groups = group(differences, clusters)
    means = groups.sums / groups.sizes
    if method == "beta" and not _is_single_yes_or_no(differences, means):
        return Undetermined("discordant pairs are of yes or no, one unit a cluster")
    if method == "asymptotic" and not bool(np.any(asymptotic_begun(means, first=first))):
        return _NOT_BEGUN
    lower, upper = _limits(means, method, high - low, alpha, first)
    interval = Interval(lower=lower, upper=upper, level=1.0 - alpha, method=method)
    counts = count_pairs(differences, clusters)
    return Deciding(
        estimate=exact_sum(means) / means.size,
        standard_error=0.0,
        df=float(means.size - 1),
        lower=interval.lower,
        upper=interval.upper,
        t_critical=0.0,
        tests=MappingProxyType({}),
        p_value=1.0,
        method=method,
        parts=(interval,),
        degenerate=False,
        n=counts.n,
        clusters=counts.clusters,
        discordant_clusters=counts.discordant_clusters,
        only_control=counts.only_control,
        only_treatment=counts.only_treatment,
    )


def _limits(
    means: FloatArray, method: SequenceMethod, width: float, alpha: float, first: int
) -> tuple[float, float]:
    """Returns the limits of the mean of differences in [-width, width] after all clusters."""
    if method == "beta":
        return _by_discordance(means, alpha)
    if method == "asymptotic":
        found = asymptotic_sequence(means, first=first, low=-width, high=width, alpha=alpha)
        return float(found.lower[-1]), float(found.upper[-1])
    bounded = betting_hedged if method == "betting" else empirical_bernstein_predmix
    limits = bounded((means + width) / (2.0 * width), alpha=alpha)
    return (
        2.0 * width * float(limits.lower[-1]) - width,
        2.0 * width * float(limits.upper[-1]) - width,
    )


def _is_single_yes_or_no(differences: FloatArray, means: FloatArray) -> bool:
    return len(differences) == means.size and bool(np.all(np.isin(means, (-1.0, 0.0, 1.0))))


def _by_discordance(differences: FloatArray, alpha: float) -> tuple[float, float]:
    """Returns the limits of discordance times (2 share - 1) after all pairs."""
    differing, favourable = (
        np.cumsum(chosen.astype(np.int64)) for chosen in (differences != 0.0, differences > 0.0)
    )
    share = beta_sequence(favourable, differing, alpha=_OF_SHARE * alpha)
    pairs = np.arange(1, differing.size + 1)
    discordance = beta_sequence(differing, pairs, alpha=(1.0 - _OF_SHARE) * alpha)
    least, most = float(discordance.lower[-1]), float(discordance.upper[-1])
    lower, upper = 2.0 * float(share.lower[-1]) - 1.0, 2.0 * float(share.upper[-1]) - 1.0
    return (
        lower * (least if lower > 0.0 else most),
        upper * (most if upper > 0.0 else least),
    )
