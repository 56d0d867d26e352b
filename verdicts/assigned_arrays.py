"""Arrays of units that are in one arm each: their numbers, what is lost, how an arm spreads. Pure.

Leaves the making of the arrays to `arrays.py`, the formulas to `analysis/`.

Rules:
- A unit has one number; the arm that it isn't in holds NaN for it, and no one adds that up.
- Which units are lost is compared with which were assigned: the sample ratio.
"""

from __future__ import annotations

import math

import numpy as np

from fairtrial.analysis.assigned import ArmCounts, arm_counts
from fairtrial.analysis.assigned_deciding import (
    deciding_assigned,
    deciding_assigned_precision,
    difference_with_df,
)
from fairtrial.analysis.deciding import Deciding
from fairtrial.analysis.grouping import FloatArray, group
from fairtrial.analysis.paired import ClusteredMean
from fairtrial.analysis.sampleratio import by_cluster_ratio, by_unit_ratio
from fairtrial.analysis.values import Estimand, Undetermined
from fairtrial.ledger.protocol import Endpoint, Protocol

from .frames import BoolArray, Completion, Pairs

__all__ = (
    "arm_difference",
    "clusters_with_flags",
    "counted_arms",
    "decide_assigned",
    "finite",
    "in_arm",
    "is_flat",
    "middle_of_arms",
    "residuals_of_arms",
    "sample_ratio",
)


def finite(values: FloatArray) -> BoolArray:
    """Returns which numbers exist: those of units that are in the arm."""
    return np.asarray(np.isfinite(values))


def in_arm(completion: Completion, pairs: Pairs) -> FloatArray:
    """Returns the one number of each unit in a completion."""
    assert pairs.treated is not None
    return np.where(pairs.treated, completion.treatment, completion.control)


def arm_difference(pairs: Pairs, estimand: Estimand) -> ClusteredMean | Undetermined:
    """Returns the difference between the arms, of the middle of the completions."""
    assert pairs.treated is not None
    sides = [in_arm(each, pairs) for each in (pairs.completions[0], pairs.completions[-1])]
    middle = np.asarray((sides[0] + sides[1]) / 2.0)
    return difference_with_df(middle, pairs.treated, pairs.clusters, estimand=estimand)


def counted_arms(pairs: Pairs, endpoint: Endpoint) -> ArmCounts:
    """Counts by cluster and arm the units of which the number is made, in the first completion."""
    assert pairs.treated is not None
    kept = np.ones(pairs.units.size, dtype=np.bool_)
    if endpoint.type == "precision":
        kept = in_arm(pairs.completions[0], pairs) == 1.0
    return arm_counts(pairs.treated[kept], pairs.clusters[kept])


def clusters_with_flags(completion: Completion, pairs: Pairs) -> int:
    """Returns how many clusters have a flag, which are those that a precision is made of."""
    return len(set(pairs.clusters[in_arm(completion, pairs) == 1.0].tolist()))


def decide_assigned(
    pairs: Pairs,
    completion: Completion,
    protocol: Protocol,
    endpoint: Endpoint,
    *,
    nominal_p: float,
    null: float,
) -> Deciding | Undetermined:
    """Returns the deciding interval of one completion."""
    assert pairs.treated is not None
    values = in_arm(completion, pairs)
    if endpoint.type == "precision":
        assert pairs.labels is not None
        return deciding_assigned_precision(
            values, pairs.treated, pairs.labels, pairs.clusters, nominal_p=nominal_p, null=null
        )
    return deciding_assigned(
        values,
        pairs.treated,
        pairs.clusters,
        estimand=protocol.analysis.estimand,
        nominal_p=nominal_p,
        null=null,
    )


def is_flat(pairs: Pairs, estimand: Estimand) -> bool:
    """Returns whether neither arm varies between clusters, in some completion."""
    assert pairs.treated is not None
    for each in pairs.completions:
        found = difference_with_df(
            in_arm(each, pairs), pairs.treated, pairs.clusters, estimand=estimand
        )
        if isinstance(found, ClusteredMean) and found.degenerate:
            return True
    return False


def residuals_of_arms(pairs: Pairs) -> FloatArray:
    """Returns each unit's deviation from the mean of its arm, in the first completion."""
    assert pairs.treated is not None
    values = in_arm(pairs.completions[0], pairs)
    control, treatment = (_mean(values[own]) for own in (~pairs.treated, pairs.treated))
    return np.asarray(values - np.where(pairs.treated, treatment, control))


def middle_of_arms(pairs: Pairs) -> float:
    """Returns the middle of both arms' means, in the first completion."""
    assert pairs.treated is not None
    values = in_arm(pairs.completions[0], pairs)
    return (_mean(values[~pairs.treated]) + _mean(values[pairs.treated])) / 2.0


def sample_ratio(protocol: Protocol, pairs: Pairs) -> float:
    """Returns the p of as uneven a loss between the arms, of all units assigned to them."""
    assert pairs.planned_treated is not None
    treated, lost = pairs.planned_treated, np.abs(pairs.lost_difference)
    assign = protocol.design.assign
    if assign is not None and assign.by == "cluster":
        gone = group(lost, pairs.planned_clusters)
        arms = group(treated.astype(np.float64), pairs.planned_clusters)
        p, _ = by_cluster_ratio(
            gone.sums,
            gone.sizes,
            arms.sums > 0.0,
            seed=protocol.design.seed,
            resamples=protocol.analysis.resamples,
        )
        return p
    sides = (~treated, treated)
    units = [int(np.count_nonzero(own)) for own in sides]
    missing = [int(np.count_nonzero(lost[own])) for own in sides]
    return by_unit_ratio(*units, *missing)


def _mean(values: FloatArray) -> float:
    return math.fsum(values.tolist()) / max(len(values), 1)
