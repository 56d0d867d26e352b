"""The frozen plan: units, arms, replicates and a seed become slots in run order. Pure.

Leaves units files to `units.py`, what is settled or pending to the fold (`ledger/state.py`), and
what happens at a look to the analysis.

Rules:
- Clusters are ranked by a keyed SHA-256 of the seed, units by one inside their cluster, and inside
  a replicate of a unit the arms by a third; replicate 1 of all arms comes before replicate 2.
- No random-number library is involved: the order is the same on any machine, for ever.
- Positions count from 1; the slot at position p is column entry p - 1.
- A look ends with the last slot of the first ceil(f G) clusters, f taken as the decimal number that
  was written.
- Columns, not objects: 200,000 slots cost a few bytes each.
"""

from __future__ import annotations

import io
import math
from array import array
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from hashlib import sha256
from itertools import groupby
from typing import NamedTuple

import msgspec

from fairtrial.ledger.errors import Problem, ProtocolError

__all__ = (
    "LookCut",
    "Plan",
    "Slot",
    "build_plan",
    "cluster_cuts",
    "keyed_digest",
    "look_cuts",
    "parse_plan",
    "plan_lines",
    "renamed_plan",
    "unit_order",
)


class Slot(NamedTuple):
    """One planned outcome at its position in the run order."""

    position: int
    unit: str
    cluster: str
    arm: str
    replicate: int


class LookCut(NamedTuple):
    """Where a look ends: its last position, and how many clusters and units lie up to there."""

    last: int
    clusters: int
    units: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """All slots in run order, as columns.

    Attributes:
        units: Unit ids in run order.
        clusters: The cluster of each unit, the unit's own id where each unit is its own cluster.
        arms: Arm names, sorted.
        unit_of: Index into `units`, one per slot.
        arm_of: Index into `arms`, one per slot.
        replicate_of: Replicate from 1, one per slot.
    """

    units: tuple[str, ...]
    clusters: tuple[str, ...]
    arms: tuple[str, ...]
    unit_of: array[int]
    arm_of: array[int]
    replicate_of: array[int]

    @property
    def slot_count(self) -> int:
        """How many slots the plan has."""
        return len(self.unit_of)

    @property
    def cluster_count(self) -> int:
        """How many clusters the plan has."""
        return len(set(self.clusters))

    def slot(self, position: int) -> Slot:
        """Returns the slot at a position from 1.

        Raises:
            IndexError: The plan has no such position.
        """
        if not 1 <= position <= self.slot_count:
            raise IndexError(f"position {position} is not within 1 to {self.slot_count}")
        unit = self.unit_of[position - 1]
        arm, replicate = self.arms[self.arm_of[position - 1]], self.replicate_of[position - 1]
        return Slot(position, self.units[unit], self.clusters[unit], arm, replicate)

    def slots(self) -> Iterator[Slot]:
        """Yields all slots in run order."""
        columns = zip(self.unit_of, self.arm_of, self.replicate_of, strict=True)
        for position, (unit, arm, replicate) in enumerate(columns, start=1):
            yield Slot(position, self.units[unit], self.clusters[unit], self.arms[arm], replicate)


def build_plan(
    ids: Sequence[str],
    clusters: Sequence[str],
    repeats: Mapping[str, int],
    *,
    seed: int,
    only: Mapping[str, str] | None = None,
) -> Plan:
    """Returns the plan in which each unit meets each arm `repeats[arm]` times.

    Args:
        ids: Unit ids, each once.
        clusters: The cluster of each unit; the id itself where each unit is its own cluster.
        repeats: Planned replicates of each arm, at least 1.
        seed: The registered seed.
        only: The one arm that a unit meets, by id, where each is in one arm; every arm has a unit.
    """
    order = unit_order(ids, clusters, seed=seed)
    arms = tuple(sorted(repeats))
    unit_of, arm_of, replicate_of = array("I"), array("H"), array("I")
    for place, index in enumerate(order):
        for replicate in range(1, max(repeats.values()) + 1):
            ranked = _arm_order(arms, repeats, ids[index], replicate, seed)
            if only is not None:
                ranked = [arm for arm in ranked if arms[arm] == only[ids[index]]]
            unit_of.extend([place] * len(ranked))
            arm_of.extend(ranked)
            replicate_of.extend([replicate] * len(ranked))
    return Plan(
        units=tuple(ids[index] for index in order),
        clusters=tuple(clusters[index] for index in order),
        arms=arms,
        unit_of=unit_of,
        arm_of=arm_of,
        replicate_of=replicate_of,
    )


def unit_order(ids: Sequence[str], clusters: Sequence[str], *, seed: int) -> list[int]:
    """Returns the indices of units in run order: clusters by key, units by key inside them."""
    cluster_key = {name: keyed_digest("cluster", str(seed), name) for name in set(clusters)}
    keys = [
        (cluster_key[cluster], keyed_digest("unit", str(seed), cluster, unit))
        for unit, cluster in zip(ids, clusters, strict=True)
    ]
    return sorted(range(len(keys)), key=keys.__getitem__)


def look_cuts(plan: Plan, at: Sequence[float], *, file: str = "protocol") -> list[LookCut]:
    """Returns where each look ends.

    Args:
        plan: The plan.
        at: Rising shares of the clusters, the last of them 1.
        file: Name of the protocol file, for the message.

    Raises:
        ProtocolError: Two looks end with the same cluster.
    """
    ends = _cluster_ends(plan)
    cuts = []
    for share in at:
        count = math.ceil(Fraction(repr(share)) * len(ends))
        slots, units = ends[count - 1]
        cuts.append(LookCut(slots, count, units))
    _check_distinct(cuts, at, file)
    return cuts


def cluster_cuts(plan: Plan, first: int) -> list[LookCut]:
    """Returns a cut after each cluster from number `first` on; the last cluster always has one."""
    ends = _cluster_ends(plan)
    begin = min(max(first, 1), len(ends))
    return [LookCut(*_cut(ends, count)) for count in range(begin, len(ends) + 1)]


def _cut(ends: list[tuple[int, int]], count: int) -> tuple[int, int, int]:
    slots, units = ends[count - 1]
    return slots, count, units


class _Line(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    unit: str
    cluster: str
    arm: str
    replicate: int


def plan_lines(plan: Plan) -> bytes:
    """Returns the plan blob: one JSON line {"unit","cluster","arm","replicate"} a slot."""
    lines = (
        _Line(unit=slot.unit, cluster=slot.cluster, arm=slot.arm, replicate=slot.replicate)
        for slot in plan.slots()
    )
    return msgspec.json.Encoder().encode_lines(lines)


def parse_plan(data: bytes) -> Plan:
    """Returns the plan whose blob these bytes are.

    Raises:
        ValueError: The bytes are not a plan blob.
    """
    units, clusters, arms = _Names(), array("I"), _Names()
    cluster_names = _Names()
    unit_of, arm_of, replicate_of = array("I"), array("H"), array("I")
    for number, line in enumerate(_lines(data), start=1):
        unit, cluster = units.index(line.unit), cluster_names.index(line.cluster)
        if clusters and cluster < clusters[-1]:
            raise ValueError(f"line {number} of the plan: cluster {line.cluster!r} comes twice")
        if unit == len(clusters):
            clusters.append(cluster)
        if unit < len(clusters) - 1 or clusters[unit] != cluster:
            raise ValueError(f"line {number} of the plan: unit {line.unit!r} comes twice")
        unit_of.append(unit)
        arm_of.append(arms.index(line.arm))
        replicate_of.append(line.replicate)
    if not units.names:
        raise ValueError("the plan has no slot")
    names = tuple(sorted(arms.names))
    rank = [names.index(name) for name in arms.names]
    return Plan(
        units=tuple(units.names),
        clusters=tuple(cluster_names.names[index] for index in clusters),
        arms=names,
        unit_of=unit_of,
        arm_of=array("H", (rank[arm] for arm in arm_of)),
        replicate_of=replicate_of,
    )


def renamed_plan(plan: Plan, names: Mapping[str, str]) -> Plan:
    """Returns a plan whose arms are called by other names."""
    if all(names[arm] == arm for arm in plan.arms):
        return plan
    arms = tuple(sorted(names[arm] for arm in plan.arms))
    rank = [arms.index(names[arm]) for arm in plan.arms]
    return replace(plan, arms=arms, arm_of=array("H", (rank[arm] for arm in plan.arm_of)))


def keyed_digest(what: str, *parts: str) -> bytes:
    """Returns the SHA-256 of the parts under a name of their use, which orders and seeds follow."""
    return sha256("\0".join((f"fairtrial/1/{what}", *parts)).encode()).digest()


def _arm_order(
    arms: tuple[str, ...], repeats: Mapping[str, int], unit: str, replicate: int, seed: int
) -> list[int]:
    planned = [index for index, arm in enumerate(arms) if repeats[arm] >= replicate]
    stem = f"fairtrial/1/arm\0{seed}\0{unit}\0{replicate}\0"
    keys = {index: sha256((stem + arms[index]).encode()).digest() for index in planned}
    return sorted(planned, key=keys.__getitem__)


def _cluster_ends(plan: Plan) -> list[tuple[int, int]]:
    """Returns (last position, units so far) at the end of each cluster in run order."""
    slots_of_unit = [0] * len(plan.units)
    for unit in plan.unit_of:
        slots_of_unit[unit] += 1
    ends, slots, units = [], 0, 0
    for _, members in groupby(range(len(plan.units)), key=plan.clusters.__getitem__):
        for unit in members:
            slots, units = slots + slots_of_unit[unit], units + 1
        ends.append((slots, units))
    return ends


def _check_distinct(cuts: list[LookCut], at: Sequence[float], file: str) -> None:
    problems = tuple(
        Problem(
            what=f"looks {index + 1} and {index + 2} end with the same cluster",
            where="looks.at",
            expected="shares that are at least one cluster apart",
            found=f"{at[index]} and {at[index + 1]}, both at cluster {cuts[index].clusters}",
            todo="move a look or leave one out",
        )
        for index in range(len(cuts) - 1)
        if cuts[index].clusters == cuts[index + 1].clusters
    )
    if problems:
        raise ProtocolError(problems, file=file)


class _Names:
    """Names in order of first appearance, each held once."""

    def __init__(self) -> None:
        self.names: list[str] = []
        self._indices: dict[str, int] = {}

    def index(self, name: str) -> int:
        found = self._indices.setdefault(name, len(self.names))
        if found == len(self.names):
            self.names.append(name)
        return found


def _lines(data: bytes) -> Iterator[_Line]:
    decoder = msgspec.json.Decoder(_Line)
    for number, line in enumerate(io.BytesIO(data), start=1):
        try:
            yield decoder.decode(line)
        except (msgspec.MsgspecError, UnicodeError, RecursionError) as error:
            raise ValueError(f"line {number} of the plan is not a slot: {error}") from error
