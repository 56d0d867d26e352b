"""The deciding interval where anyone may look at any time: confidence sequences over clusters.

Job: turn paired differences, in run order, into limits that hold at every look at once. Leaves the
sequences themselves to `confidence_sequences`, and looks at planned times to `deciding`.

Rules:
    - One observation is the mean difference of one cluster; each cluster counts once.
    - Bounds come from the question. Limits are running intersections over all clusters so far.
    - There is no standard error and no p: the limits are all there is.

Source:
    Waudby-Smith and Ramdas (2024): hedged betting and empirical Bernstein.
"""

from __future__ import annotations

from types import MappingProxyType
from typing import Literal

from .confidence_sequences import betting_hedged, empirical_bernstein_predmix
from .deciding import Deciding
from .grouping import FloatArray, IntArray, exact_sum, group
from .paired import count_pairs
from .values import Interval, Undetermined

__all__ = ("SequenceMethod", "deciding_sequence")

SequenceMethod = Literal["betting", "empirical_bernstein"]


def deciding_sequence(
    differences: FloatArray,
    clusters: IntArray,
    *,
    method: SequenceMethod,
    bounds: tuple[float, float],
    alpha: float,
) -> Deciding | Undetermined:
    """Computes the limits of the mean of cluster means after all clusters so far.

    Args:
        differences: treatment minus control, one number a pair, shape (n,).
        clusters: code of each pair's cluster, rising in run order, shape (n,).
        method: which sequence.
        bounds: smallest and largest value of an outcome; a difference lies in twice their range.
        alpha: two-sided error over all looks.
    """
    low, high = bounds
    if not low < high:
        raise ValueError(f"bounds: expected low < high, found {low}, {high}")
    if not len(differences):
        return Undetermined("no complete pair")
    groups = group(differences, clusters)
    means, width = groups.sums / groups.sizes, 2.0 * (high - low)
    scaled = (means + (high - low)) / width
    sequence = betting_hedged if method == "betting" else empirical_bernstein_predmix
    limits = sequence(scaled, alpha=alpha)
    interval = Interval(
        lower=width * float(limits.lower[-1]) - (high - low),
        upper=width * float(limits.upper[-1]) - (high - low),
        level=1.0 - alpha,
        method=method,
    )
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
