"""The one scoring pass of a threshold-rule experiment becomes scored units and populations. Pure.

Leaves rules to `analysis/block_rules.py`, what flags are worth to `rule_flags.py`.

Rules:
- The plan has one slot a unit, so a unit's place in the plan is its slot's.
- A unit counts when its outcome is ok and its score is a finite number. An ok without one is
  ungraded; that and every other status follow `missing.rules`: exclude_pair or refuse.
- A unit without a score teaches no rule and is in no population.
- Units in run order; what comes of them doesn't depend on it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from fairtrial.analysis.block_rules import Scored
from fairtrial.analysis.grouping import IntArray
from fairtrial.ledger.protocol import Endpoint, Population, Protocol
from fairtrial.ledger.slots import STATUSES
from fairtrial.protocols.plan import Plan
from fairtrial.protocols.units import Units, population

from .evaluate import AnalysisContext
from .frames import BoolArray, cluster_codes

__all__ = (
    "FAMILY",
    "RuleScores",
    "column_of",
    "families_of",
    "in_family",
    "members_of",
    "rule_scores",
    "sizes_of",
)

# The family of units that have none.
FAMILY = "all"
_NUMBER = 2


@dataclass(frozen=True, kw_only=True, eq=False)
class RuleScores:
    """The scored units of a plan, shapes (n,), and those that have no score.

    Attributes:
        protocol: the plan in force; `plan`, `units` likewise.
        places: plan index of each scored unit, rising.
        scored: what rules see of them, every unit eligible.
        twins: whether a unit is one side of a candidate.
        excluded: plan index of each settled unit without a score.
        refused: plan index of each of them that the protocol refuses to count.
        statuses: settled slots that didn't end as ok with a score, by status.
        not_run: slots that never settled.
    """

    protocol: Protocol
    plan: Plan
    units: Units
    places: IntArray
    scored: Scored
    twins: BoolArray
    excluded: IntArray
    refused: IntArray
    statuses: Mapping[str, int]
    not_run: int


def rule_scores(context: AnalysisContext, *, invalidated: bool = False) -> RuleScores:
    """Returns the scores of an experiment.

    Args:
        context: plan, units and outcomes.
        invalidated: outcomes declared invalid count as such; else with their old value.
    """
    plan, units, protocol = context.plan, context.units, context.protocol
    outcomes = context.outcomes
    column = outcomes.scores.get("score")
    place_in_file = {unit: index for index, unit in enumerate(units.ids)}
    kept: list[int] = []
    lost: dict[int, str] = {}
    for place, code in enumerate(outcomes.status):
        if not code:
            continue
        status = STATUSES[code - 1]
        if invalidated and place + 1 in outcomes.invalidated:
            status = "invalidated"
        elif status == "ok" and (column is None or column.given[place] != _NUMBER):
            status = "ungraded"
        if status == "ok":
            kept.append(place)
        else:
            lost[place] = status
    rules = {str(status): rule for status, rule in protocol.missing.rules.items()}
    files = [place_in_file[plan.units[place]] for place in kept]
    values = [0.0 if column is None else column.values[place] for place in kept]
    places = np.array(kept, dtype=np.int64)
    return RuleScores(
        protocol=protocol,
        plan=plan,
        units=units,
        places=places,
        scored=Scored(
            scores=np.array(values, dtype=np.float64),
            labels=np.array([_label(units, index) for index in files], dtype=np.int64),
            clusters=cluster_codes(plan)[places],
            families=[families_of(units)[index] for index in files],
            folds=[] if units.folds is None else [units.folds[index] for index in files],
            eligible=np.ones(len(kept), dtype=np.bool_),
        ),
        twins=np.array([_is_twin(units, index) for index in files], dtype=np.bool_),
        excluded=np.array(sorted(lost), dtype=np.int64),
        refused=np.array(
            [place for place in sorted(lost) if rules[lost[place]] == "refuse"], dtype=np.int64
        ),
        statuses=dict(sorted(Counter(lost.values()).items())),
        not_run=outcomes.status.count(0),
    )


def families_of(units: Units) -> tuple[str, ...]:
    """Returns the family of each unit, in the order of the file."""
    return (FAMILY,) * len(units.ids) if units.strata is None else units.strata


def members_of(plan: Plan, units: Units, endpoint: Endpoint, which: Population) -> BoolArray:
    """Returns which plan units an endpoint counts in a population, shape (plan units,)."""
    inside = {units.ids[index] for index in population(units, endpoint.where)}
    if which == "twins":
        inside &= {unit for index, unit in enumerate(units.ids) if _is_twin(units, index)}
    return np.array([unit in inside for unit in plan.units], dtype=np.bool_)


def in_family(scores: RuleScores, family: str) -> BoolArray:
    """Returns which scored units belong to a family, shape (n,)."""
    return np.array([one == family for one in scores.scored.families], dtype=np.bool_)


def column_of(plan: Plan, units: Units, values: Sequence[str], wanted: str) -> BoolArray:
    """Returns which plan units hold a text in a column of the units file."""
    held = {unit for unit, text in zip(units.ids, values, strict=True) if text == wanted}
    return np.array([unit in held for unit in plan.units], dtype=np.bool_)


def sizes_of(plan: Plan, members: BoolArray) -> IntArray:
    """Returns how many of some plan units each cluster holds, empty clusters left out."""
    counts = np.bincount(cluster_codes(plan)[members])
    return counts[counts > 0].astype(np.int64)


def _label(units: Units, index: int) -> int:
    return int(units.labels is not None and units.labels[index] == "1")


def _is_twin(units: Units, index: int) -> bool:
    return units.twins is not None and units.twins[index] != ""
