"""Plan and outcomes, indexed once, and the pairs that are made of them. Pure.

Leaves the making of pairs, under the missing rules, to `arrays.py`.

Rules:
- Plan units stand in run order; everything here is indexed by their place in it.
- Of a pair there are two completions where worst-case values were filled in, else one.
- Where each unit is in one arm, a "pair" is that unit: the other arm's number is NaN, and `treated`
  says which arm it is in.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import TypeAlias

import numpy as np
import numpy.typing as npt

from fairtrial.analysis.grouping import FloatArray, IntArray
from fairtrial.ledger.protocol import Comparison, Protocol
from fairtrial.protocols.plan import Plan
from fairtrial.protocols.units import Units

from .outcomes import Outcomes

__all__ = (
    "BoolArray",
    "Completion",
    "Frame",
    "Pairs",
    "build_frame",
    "cluster_codes",
    "treatment_first",
)

BoolArray: TypeAlias = npt.NDArray[np.bool_]
ByteArray: TypeAlias = npt.NDArray[np.uint8]


@dataclass(frozen=True, kw_only=True, eq=False)
class Frame:
    """A plan with its outcomes, indexed once for any number of endpoints and looks.

    Attributes:
        unit_of: plan index of each slot's unit; `arm_of`, `replicate_of` likewise.
        status: `Outcomes.status` as an array.
        cluster_of: code of each unit's cluster, in order of first appearance.
    """

    protocol: Protocol
    plan: Plan
    units: Units
    outcomes: Outcomes
    unit_of: IntArray
    arm_of: IntArray
    replicate_of: IntArray
    status: ByteArray
    cluster_of: IntArray

    @cached_property
    def labels(self) -> IntArray:
        """The truth of each plan unit, 0 or 1; the units file was checked for that."""
        assert self.units.labels is not None, "an endpoint that needs labels passed the protocol"
        known = dict(zip(self.units.ids, self.units.labels, strict=True))
        return np.array([int(known[unit] == "1") for unit in self.plan.units], dtype=np.int64)


@dataclass(frozen=True, kw_only=True, eq=False)
class Completion:
    """One number a pair and arm, shape (n,); NaN in the arm that an assigned unit isn't in."""

    control: FloatArray
    treatment: FloatArray

    @property
    def differences(self) -> FloatArray:
        """Treatment minus control."""
        return self.treatment - self.control


@dataclass(frozen=True, kw_only=True, eq=False)
class Pairs:
    """One endpoint of one comparison over the units up to a position.

    Attributes:
        units: plan index of each pair, rising, shape (n,).
        clusters: cluster code of each pair, shape (n,).
        completions: one, or two where worst-case values were filled in: all against the
            treatment, then all for it.
        planned: units of the endpoint's population that count, missing ones included.
        excluded: plan index of each unit that left, rising.
        refused: how many of them the protocol refuses to count.
        lost: units, by arm, that are excluded or filled in because of that arm.
        statuses: slots that didn't end as ok with a valid value, by arm and status.
        lost_difference: treatment's lost units minus control's, one number a planned unit;
            `planned_clusters` are their clusters.
        labels: truth of each pair, 0 or 1, for types that need it.
        planned_of: planned units by arm: all of them in either, unless units are assigned.
        treated: whether each unit is in the treatment arm, shape (n,); None where each is in both.
        planned_treated: the same for every planned unit.
    """

    units: IntArray
    clusters: IntArray
    completions: tuple[Completion, ...]
    planned: int
    excluded: IntArray
    refused: int
    lost: Mapping[str, int]
    statuses: Mapping[str, Mapping[str, int]]
    lost_difference: FloatArray
    planned_clusters: IntArray
    labels: IntArray | None = None
    planned_of: Mapping[str, int]
    treated: BoolArray | None = None
    planned_treated: BoolArray | None = None

    @property
    def differences(self) -> FloatArray:
        """One difference a pair, the middle of its completions."""
        return (self.completions[0].differences + self.completions[-1].differences) / 2.0


def build_frame(protocol: Protocol, plan: Plan, units: Units, outcomes: Outcomes) -> Frame:
    """Indexes a plan and its outcomes."""
    return Frame(
        protocol=protocol,
        plan=plan,
        units=units,
        outcomes=outcomes,
        unit_of=np.frombuffer(plan.unit_of, dtype=np.uintc).astype(np.int64),
        arm_of=np.frombuffer(plan.arm_of, dtype=np.ushort).astype(np.int64),
        replicate_of=np.frombuffer(plan.replicate_of, dtype=np.uintc).astype(np.int64),
        status=np.frombuffer(bytes(outcomes.status), dtype=np.uint8),
        cluster_of=cluster_codes(plan),
    )


def cluster_codes(plan: Plan) -> IntArray:
    """Returns the code of each plan unit's cluster, in order of first appearance."""
    codes: dict[str, int] = {}
    return np.array([codes.setdefault(name, len(codes)) for name in plan.clusters], dtype=np.int64)


def treatment_first(frame: Frame, comparison: Comparison) -> BoolArray:
    """Returns, for each plan unit, whether the treatment's first replicate comes before control's.

    Slots stand in run order, so what comes later overwrites.
    """
    places: list[IntArray] = []
    for arm in (comparison.control, comparison.treatment):
        own = np.flatnonzero(
            (frame.arm_of == frame.plan.arms.index(arm)) & (frame.replicate_of == 1)
        )
        place = np.zeros(len(frame.plan.units), dtype=np.int64)
        place[frame.unit_of[own]] = own
        places.append(place)
    return np.asarray(places[1] < places[0])
