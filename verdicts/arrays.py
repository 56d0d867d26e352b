"""Outcomes become arrays: one number a unit and arm, paired, under the registered missing rules.

Leaves the values themselves to `frames.py`, what needs the truth of units to `truth.py`, what the
arrays show to `estimates.py`, and which look may decide to `boundaries.py`.

Rules:
- An outcome with status ok and no valid value (none, not finite, outside the type's range) counts
  as `ungraded` for that endpoint.
- `failure` is the worst value of the type, a number is that value, `value` the measured field; a
  status with rule `value` and no valid measured value leaves its pair.
- `exclude_pair` takes the unit out in both arms. `worst_case` gives two completions, all lost
  values against the treatment and all for it. `refuse` takes the unit out and voids every verdict.
- Several rules in one unit: the strictest of refuse, exclude_pair, worst_case; the rest are values.
- `missing.replicates` n: a unit with n values in an arm is reduced over what it has. Reducer
  `first` reads replicate 1 alone.
- Units whose slots are not all settled are `not_run`: in no array, in no count of missing ones.
- Nothing here depends on the order in which outcomes came.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Final, TypeAlias

import numpy as np
import numpy.typing as npt

from fairtrial.analysis.assigned import ArmCounts
from fairtrial.analysis.diagnostics import flip_rate
from fairtrial.analysis.grouping import FloatArray, IntArray
from fairtrial.analysis.values import Undetermined
from fairtrial.ledger.protocol import (
    MISSING_STATUSES,
    Comparison,
    Endpoint,
    MissingStatus,
    missing_rule,
)
from fairtrial.ledger.slots import STATUSES
from fairtrial.protocols.assigning import is_assigned
from fairtrial.protocols.defaults import ALL_REPLICATES
from fairtrial.protocols.plan import Plan
from fairtrial.protocols.units import Units, population

from .completing import completed
from .filling import Filled, Lost, lost_of, of_type, spread
from .frames import BoolArray, Completion, Frame, Pairs, cluster_codes
from .slot_values import extremes, reduced, slot_values
from .truth import LABELLED

__all__ = (
    "cluster_sizes_in_order",
    "clusters_of_population",
    "complete_counts",
    "complete_sizes",
    "counts_in_order",
    "flips",
    "logged",
    "lost_outcomes",
    "pair_up",
)

ByteArray: TypeAlias = npt.NDArray[np.uint8]

# What a slot contributes; of several in one unit the largest counts.
_VALUE, _WORST, _EXCLUDE, _REFUSE = 0, 1, 2, 3
_INVALIDATED: Final = len(STATUSES) + 1
_CODES: Final[Mapping[str, int]] = {
    **{word: index + 1 for index, word in enumerate(STATUSES)},
    "invalidated": _INVALIDATED,
}


@dataclass(frozen=True, kw_only=True, eq=False)
class _Side:
    """One arm: values per unit and completion, and what each unit contributes."""

    worst: FloatArray
    best: FloatArray
    filled: Filled
    state: IntArray
    statuses: Mapping[str, int]
    own: BoolArray


def cluster_sizes_in_order(
    plan: Plan, units: Units, endpoint: Endpoint, comparison: Comparison
) -> IntArray:
    """Returns the planned units of each cluster in an endpoint's population, in run order."""
    kept = _members(plan, units, endpoint) & np.logical_or(*_arms_met(plan, comparison))
    return _by_cluster(cluster_codes(plan), kept)


def counts_in_order(
    plan: Plan, units: Units, endpoint: Endpoint, comparison: Comparison
) -> ArmCounts:
    """Returns `cluster_sizes_in_order` by arm, for units that are in one arm each."""
    return _by_arm(plan, _members(plan, units, endpoint), comparison)


def clusters_of_population(
    plan: Plan, units: Units, endpoint: Endpoint, comparison: Comparison
) -> tuple[str, ...]:
    """Returns the cluster of each planned unit in an endpoint's population."""
    inside = _members(plan, units, endpoint) & np.logical_or(*_arms_met(plan, comparison))
    return tuple(name for name, kept in zip(plan.clusters, inside.tolist(), strict=True) if kept)


def complete_sizes(frame: Frame, comparison: Comparison, endpoint: Endpoint) -> IntArray:
    """Returns the units of each cluster, in run order, whose slots are all settled."""
    return _by_cluster(frame.cluster_of, _complete(frame, comparison, endpoint))


def complete_counts(frame: Frame, comparison: Comparison, endpoint: Endpoint) -> ArmCounts:
    """Returns `complete_sizes` by arm, for units that are in one arm each."""
    return _by_arm(frame.plan, _complete(frame, comparison, endpoint), comparison)


def _complete(frame: Frame, comparison: Comparison, endpoint: Endpoint) -> BoolArray:
    inside = _settled_units(frame, comparison, frame.plan.slot_count)
    return inside & _members(frame.plan, frame.units, endpoint)


def _by_cluster(codes: IntArray, kept: BoolArray) -> IntArray:
    return np.bincount(codes[kept], minlength=int(codes.max()) + 1).astype(np.int64)


def _by_arm(plan: Plan, kept: BoolArray, comparison: Comparison) -> ArmCounts:
    codes = cluster_codes(plan)
    control, treatment = (
        _by_cluster(codes, kept & met).astype(np.float64) for met in _arms_met(plan, comparison)
    )
    return ArmCounts(control=control, treatment=treatment)


def _arms_met(plan: Plan, comparison: Comparison) -> tuple[BoolArray, BoolArray]:
    """Returns, for control and for treatment, which plan units have a slot in the arm."""
    unit_of = np.frombuffer(plan.unit_of, dtype=np.uintc)
    arm_of = np.frombuffer(plan.arm_of, dtype=np.ushort)
    found: list[BoolArray] = []
    for arm in (comparison.control, comparison.treatment):
        met = np.zeros(len(plan.units), dtype=np.bool_)
        met[unit_of[arm_of == plan.arms.index(arm)]] = True
        found.append(met)
    return found[0], found[1]


def pair_up(
    frame: Frame,
    comparison: Comparison,
    endpoint: Endpoint,
    *,
    last: int,
    invalidated: bool = False,
    extreme: bool = False,
) -> Pairs:
    """Returns the pairs of one endpoint.

    Args:
        frame: plan and outcomes.
        comparison: its arms.
        endpoint: the endpoint.
        last: last position that counts.
        invalidated: outcomes declared invalid count as such; else with their old value.
        extreme: every lost value is filled in both ways, whatever its rule, for the bounds.
    """
    pairs, _ = _paired(
        frame, comparison, endpoint, last=last, invalidated=invalidated, extreme=extreme
    )
    return of_type(frame, endpoint, pairs)


def lost_outcomes(frame: Frame, comparison: Comparison, endpoint: Endpoint, *, last: int) -> Lost:
    """Returns every lost outcome up to a position, to be filled in one by one, whatever its rule.

    Args:
        frame: plan and outcomes.
        comparison: its arms.
        endpoint: the endpoint; its type has extreme values.
        last: last position that counts.
    """
    pairs, sides = _paired(frame, comparison, endpoint, last=last, invalidated=False, extreme=True)
    control, treatment = sides
    return lost_of(frame, endpoint, pairs, control.filled, treatment.filled)


def _paired(
    frame: Frame,
    comparison: Comparison,
    endpoint: Endpoint,
    *,
    last: int,
    invalidated: bool,
    extreme: bool,
) -> tuple[Pairs, tuple[_Side, _Side]]:
    """Returns pairs of values, and the arms behind them."""
    inside = _settled_units(frame, comparison, last)
    inside &= _members(frame.plan, frame.units, endpoint)
    members = np.flatnonzero(inside)
    values, valid = slot_values(frame.outcomes, endpoint)
    status = _effective(frame, valid, invalidated)
    read = _Reading(frame, endpoint, values, valid, status, members, extreme)
    control, treatment = read.side(comparison.control), read.side(comparison.treatment)
    state = np.maximum(control.state, treatment.state)
    kept = state <= _WORST
    completions = [Completion(control=control.best[kept], treatment=treatment.worst[kept])]
    if bool(np.any(state[kept] == _WORST)):
        favour = Completion(control=control.worst[kept], treatment=treatment.best[kept])
        completions.append(favour)
    labels = frame.labels[members[kept]] if endpoint.type in LABELLED else None
    assigned = is_assigned(frame.protocol)
    gone = {comparison.control: control.state > 0, comparison.treatment: treatment.state > 0}
    pairs = Pairs(
        units=members[kept],
        clusters=frame.cluster_of[members[kept]],
        completions=tuple(completions),
        planned=int(members.size),
        excluded=members[~kept],
        refused=int(np.count_nonzero(state == _REFUSE)),
        lost={arm: int(np.count_nonzero(each)) for arm, each in gone.items()},
        statuses={comparison.control: control.statuses, comparison.treatment: treatment.statuses},
        lost_difference=gone[comparison.treatment].astype(np.float64)
        - gone[comparison.control].astype(np.float64),
        planned_clusters=frame.cluster_of[members],
        labels=labels,
        planned_of={
            comparison.control: int(np.count_nonzero(control.own)),
            comparison.treatment: int(np.count_nonzero(treatment.own)),
        },
        treated=treatment.own[kept] if assigned else None,
        planned_treated=treatment.own if assigned else None,
    )
    return pairs, (control, treatment)


def flips(frame: Frame, endpoint: Endpoint, arm: str, *, last: int) -> float | Undetermined:
    """Returns the share of an arm's units whose valid replicates are not all equal."""
    values, valid = slot_values(frame.outcomes, endpoint)
    count = frame.protocol.arms[arm].repeats
    table = np.full((len(frame.plan.units), count), np.nan)
    own = np.flatnonzero(frame.arm_of[:last] == frame.plan.arms.index(arm))
    usable = own[valid[own] & (frame.status[own] == _CODES["ok"])]
    table[frame.unit_of[usable], frame.replicate_of[usable] - 1] = values[usable]
    return flip_rate(table)


def logged(pairs: Pairs) -> Pairs | Undetermined:
    """Returns the pairs on the natural-log scale, or why there is no such scale."""
    if any(np.any(c.control <= 0.0) or np.any(c.treatment <= 0.0) for c in pairs.completions):
        return Undetermined("a value is 0 or negative, so ratios of geometric means don't exist")
    return replace(
        pairs,
        completions=tuple(
            Completion(control=_log(c.control), treatment=_log(c.treatment))
            for c in pairs.completions
        ),
    )


def _log(values: FloatArray) -> FloatArray:
    # math.log rather than numpy's, whose vector code differs between processors.
    return np.array([math.log(value) for value in values.tolist()], dtype=np.float64)


def _members(plan: Plan, units: Units, endpoint: Endpoint) -> BoolArray:
    """Returns which plan units are in an endpoint's population."""
    if not endpoint.where:
        return np.ones(len(plan.units), dtype=np.bool_)
    kept = {units.ids[index] for index in population(units, endpoint.where)}
    return np.array([unit in kept for unit in plan.units], dtype=np.bool_)


def _settled_units(frame: Frame, comparison: Comparison, last: int) -> BoolArray:
    """Returns which plan units have all their slots of both arms settled, up to a position.

    A unit that is assigned to another arm has none, and isn't one of them.
    """
    arms = [frame.plan.arms.index(arm) for arm in (comparison.control, comparison.treatment)]
    wanted = np.isin(frame.arm_of, arms)
    lost = wanted & (frame.status == 0)
    lost[last:] = wanted[last:]
    count = len(frame.plan.units)
    open_slots = np.bincount(frame.unit_of[lost], minlength=count)
    slots = np.bincount(frame.unit_of[wanted], minlength=count)
    return np.asarray((open_slots == 0) & (slots > 0))


def _effective(frame: Frame, valid: BoolArray, invalidated: bool) -> ByteArray:
    status = frame.status.copy()
    status[(status == _CODES["ok"]) & ~valid] = _CODES["ungraded"]
    if invalidated:
        for position in frame.outcomes.invalidated:
            status[position - 1] = _INVALIDATED
    return status


@dataclass(frozen=True, slots=True, eq=False)
class _Reading:
    """Reads one arm after the other of an endpoint."""

    frame: Frame
    endpoint: Endpoint
    values: FloatArray
    valid: BoolArray
    status: ByteArray
    members: IntArray
    extreme: bool

    def side(self, arm: str) -> _Side:
        """Returns the values of one arm, one number a unit, NaN for a unit in another arm."""
        table = self._slots(arm)
        own = table[:, 0] >= 0
        slots = table[own]
        status, values = self.status[slots], self.values[slots]
        state = np.where(self.valid[slots] & (status == _CODES["ok"]), _VALUE, _EXCLUDE)
        for word in MISSING_STATUSES:
            self._apply(word, status == _CODES[word], values, state)
        if self.extreme:
            state[state > _VALUE] = _WORST
        values[state > _VALUE] = np.nan
        unit_state = _unit_states(state, self._needed(slots.shape[1]))
        filled = (state > _VALUE) & (unit_state == _WORST)[:, None]
        labels = self.frame.labels[self.members][own] if self._by_truth else None
        low, high = completed(values, filled, self.endpoint, labels)
        return _Side(
            worst=spread(reduced(low, self.endpoint), own),
            best=spread(reduced(high, self.endpoint), own),
            filled=Filled(own=own, worst=low, best=high),
            state=np.where(own, spread(unit_state, own), _VALUE).astype(np.int64),
            statuses=self._counts(status),
            own=own,
        )

    @property
    def _by_truth(self) -> bool:
        return self.endpoint.type in LABELLED

    def _slots(self, arm: str) -> IntArray:
        """Returns the slot of each (unit, replicate) that the reducer reads; -1: there is none."""
        frame, number = self.frame, self.frame.plan.arms.index(arm)
        by_all = self.endpoint.type in ALL_REPLICATES
        first = self.endpoint.reducer in (None, "first") and not by_all
        count = 1 if first else frame.protocol.arms[arm].repeats
        own = np.flatnonzero((frame.arm_of == number) & (frame.replicate_of <= count))
        table = np.full((len(frame.plan.units), count), -1, dtype=np.int64)
        table[frame.unit_of[own], frame.replicate_of[own] - 1] = own
        return table[self.members]

    def _apply(
        self, word: MissingStatus, mask: BoolArray, values: FloatArray, state: IntArray
    ) -> None:
        rule = missing_rule(self.frame.protocol, self.endpoint, word)
        if isinstance(rule, (int, float)):
            values[mask], state[mask] = rule, _VALUE
        elif rule == "failure":
            values[mask], state[mask] = extremes(self.endpoint)[0], _VALUE
        elif rule == "value":
            state[mask & np.isfinite(values)] = _VALUE
        else:
            strict = {"worst_case": _WORST, "exclude_pair": _EXCLUDE, "refuse": _REFUSE}
            state[mask] = strict[rule]

    def _needed(self, count: int) -> int:
        wanted = self.frame.protocol.missing.replicates
        return count if wanted == "all" else min(wanted, count)

    def _counts(self, status: ByteArray) -> dict[str, int]:
        counts = np.bincount(status.ravel(), minlength=_INVALIDATED + 1).tolist()
        words = sorted(_CODES.items())
        return {word: counts[code] for word, code in words if word != "ok" and counts[code]}


def _unit_states(state: IntArray, needed: int) -> IntArray:
    """Returns what each unit contributes: the strictest rule of its lost replicates."""
    values = np.count_nonzero(state == _VALUE, axis=1)
    strictest = state.max(axis=1)
    enough = (values >= needed) & (strictest < _REFUSE)
    return np.where(enough, _VALUE, strictest)
