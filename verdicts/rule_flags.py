"""What each arm's rule flags, and what those flags are worth in every population. Pure.

Leaves thresholds to `analysis/block_rules.py`, bounds to `analysis/precision_bounds.py`, the
verdict to `rule_verdict.py`.

Rules:
- All rules see the same scores; a rule learns from the population that its `select_on` names.
- A family passes its floor when its flags in the primary population are as sure as `family_floor`
  flags without a wrong one: their exact lower bound is at least that high. Only then would the
  gate block in it; no threshold moves. Where units have no family, there is no floor.
- A rate of nothing is null, never 0.
- The capacity table ranks the units by what the rule compares with its threshold; equal values are
  flagged together. It describes, and decides nothing.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Final

import msgspec
import numpy as np

from fairtrial.analysis.block_rules import BlockRule, Flagging, apply_rule
from fairtrial.analysis.grouping import IntArray
from fairtrial.analysis.precision_bounds import PrecisionBound, precision_bound
from fairtrial.analysis.rates import clopper_pearson_lower
from fairtrial.analysis.values import Undetermined
from fairtrial.ledger.protocol import Arm, FlagBound, Population, Protocol, primaries

from .boundaries import guards_of
from .frames import BoolArray
from .rule_scores import RuleScores, in_family, members_of

__all__ = (
    "CapacityPoint",
    "FlagSummary",
    "Floor",
    "after_floor",
    "bound_flags",
    "capacity_points",
    "cluster_counts",
    "flaggings",
    "floors_of",
    "inside",
    "is_above_floor",
    "side_alpha",
    "summary",
    "target_of",
)

_COUNTS: Final = (10, 20, 30, 50, 75, 100, 150, 200, 300, 500, 1000, 2000, 5000, 10000)


class FlagSummary(msgspec.Struct, frozen=True, kw_only=True):
    """Flags of one arm in one population, or in one family of it; null: there is no number.

    Attributes:
        units: scored units; `clusters` that hold them, `positives` of them with label 1.
        flagged: units flagged, in `flagged_clusters` clusters; `right` of them have label 1.
        precision: share of flags that are right; `lower`, `upper` its one-sided bounds.
        effective_flags: independent flags that would tell as much.
        coverage: share of positives flagged; `flag_rate` of all, `false_flag_rate` of label 0.
        quiet_recall: share of positives flagged or advised, where the rule advises.
    """

    units: int
    clusters: int
    positives: int
    flagged: int
    flagged_clusters: int
    right: int
    precision: float | None
    lower: float | None
    upper: float | None
    effective_flags: float | None
    coverage: float | None
    flag_rate: float | None
    false_flag_rate: float | None
    quiet_recall: float | None


class Floor(msgspec.Struct, frozen=True, kw_only=True):
    """Whether a family may block: its flags are as sure as `floor` flags without a wrong one."""

    flagged: int
    wrong: int
    floor: int
    may_block: bool


class CapacityPoint(msgspec.Struct, frozen=True, kw_only=True):
    """What the highest-ranked units are worth: how many, how many right, and the bounds."""

    flags: int
    right: int
    value: float
    precision: float
    lower: float
    upper: float


def target_of(protocol: Protocol) -> float:
    """Returns the precision that the flags are held against."""
    target = primaries(protocol)[0].target
    assert target is not None, "a decision rule without a target passed the protocol file"
    return target


def side_alpha(protocol: Protocol) -> float:
    """Returns the error of each one-sided bound."""
    return protocol.analysis.alpha / 2.0


def flaggings(scores: RuleScores) -> dict[str, Flagging]:
    """Returns what each arm flags, arms in the order of the file."""
    return {name: _applied(scores, arm) for name, arm in scores.protocol.arms.items()}


def _applied(scores: RuleScores, arm: Arm) -> Flagging:
    if len(set(scores.scored.folds)) < 2:
        # A run that ended early may hold a single fold, and then nothing can be learnt.
        none = np.zeros(scores.places.size, dtype=np.bool_)
        values = np.zeros(scores.places.size)
        return Flagging(flagged=none, advised=none, values=values, has_value=none)
    assert arm.rule is not None, "an arm without a rule passed the protocol file"
    eligible = scores.twins if arm.rule.select_on == "twins" else scores.scored.eligible
    return apply_rule(replace(scores.scored, eligible=eligible), _rule(scores.protocol, arm))


def _rule(protocol: Protocol, arm: Arm) -> BlockRule:
    given = arm.rule
    assert given is not None
    assert given.precision is not None, "defaults fill in the precision of a rule"
    return BlockRule(
        name=given.name,
        precision=given.precision,
        recall=1.0 if given.recall is None else given.recall,
        bound=given.bound or "clopper_pearson",
        min_flagged=given.min_flagged or 1,
        normalise=given.normalise or "platt",
        alpha=side_alpha(protocol),
    )


def inside(scores: RuleScores, which: Population) -> BoolArray:
    """Returns which scored units the primary endpoint counts in a population, shape (n,)."""
    endpoint = primaries(scores.protocol)[0]
    return members_of(scores.plan, scores.units, endpoint, which)[scores.places]


def cluster_counts(scores: RuleScores, flagged: BoolArray) -> tuple[IntArray, IntArray]:
    """Returns right flags and flags of each cluster that holds a flag."""
    codes = scores.scored.clusters[flagged]
    if not codes.size:
        return np.zeros(0, dtype=np.int64), np.zeros(0, dtype=np.int64)
    right = np.bincount(codes[scores.scored.labels[flagged] == 1], minlength=int(codes.max()) + 1)
    flags = np.bincount(codes)
    return right[flags > 0].astype(np.int64), flags[flags > 0].astype(np.int64)


def bound_flags(scores: RuleScores, flagged: BoolArray) -> PrecisionBound | Undetermined:
    """Returns the registered bound of some flags."""
    protocol = scores.protocol
    right, flags = cluster_counts(scores, flagged)
    bound: FlagBound = protocol.decision.bound or "cluster_aware"
    return precision_bound(
        right,
        flags,
        bound=bound,
        alpha=side_alpha(protocol),
        min_wrong_clusters=guards_of(protocol).min_discordant_clusters,
    )


def summary(scores: RuleScores, flagging: Flagging, members: BoolArray) -> FlagSummary:
    """Returns what a rule's flags among some units are worth."""
    labels, flagged = scores.scored.labels, flagging.flagged & members
    positives = members & (labels == 1)
    negatives = members & (labels == 0)
    found = bound_flags(scores, flagged)
    bound = None if isinstance(found, Undetermined) else found
    advises = any(one.quiet is not None for one in flagging.thresholds)
    seen = flagged | flagging.advised
    return FlagSummary(
        units=int(members.sum()),
        clusters=len(set(scores.scored.clusters[members].tolist())),
        positives=int(positives.sum()),
        flagged=int(flagged.sum()),
        flagged_clusters=len(set(scores.scored.clusters[flagged].tolist())),
        right=int((flagged & positives).sum()),
        precision=None if bound is None else bound.estimate,
        lower=None if bound is None else bound.lower,
        upper=None if bound is None else bound.upper,
        effective_flags=None if bound is None else bound.effective_flags,
        coverage=_share(flagged, positives),
        flag_rate=_share(flagged, members),
        false_flag_rate=_share(flagged, negatives),
        quiet_recall=_share(seen, positives) if advises else None,
    )


def _share(chosen: BoolArray, among: BoolArray) -> float | None:
    total = int(among.sum())
    return int((chosen & among).sum()) / total if total else None


def floors_of(
    scores: RuleScores, arm: Arm, flagging: Flagging, families: Sequence[str]
) -> dict[str, Floor] | None:
    """Returns the floor of each family, None for a rule without floors."""
    if arm.rule is None or arm.rule.family_floor is None or scores.units.strata is None:
        return None
    populations = scores.protocol.populations
    assert populations is not None, "defaults fill in the populations"
    members = flagging.flagged & inside(scores, populations.primary)
    floor = arm.rule.family_floor
    found: dict[str, Floor] = {}
    for family in families:
        own = members & in_family(scores, family)
        wrong = int((own & (scores.scored.labels == 0)).sum())
        count = int(own.sum())
        found[family] = Floor(
            flagged=count,
            wrong=wrong,
            floor=floor,
            may_block=is_above_floor(
                count - wrong, count, floor, alpha=side_alpha(scores.protocol)
            ),
        )
    return found


def is_above_floor(right: int, flags: int, floor: int, *, alpha: float) -> bool:
    """Returns whether flags are as sure as `floor` flags without a wrong one."""
    if not flags:
        return False
    needed = clopper_pearson_lower(floor, floor, alpha=alpha)
    return clopper_pearson_lower(right, flags, alpha=alpha) >= needed


def after_floor(scores: RuleScores, flagging: Flagging, floors: Mapping[str, Floor]) -> Flagging:
    """Returns the flags that are left when only families that pass their floor block."""
    may = np.array([floors[one].may_block for one in scores.scored.families], dtype=np.bool_)
    return replace(flagging, flagged=flagging.flagged & may)


def capacity_points(
    scores: RuleScores, flagging: Flagging, members: BoolArray
) -> tuple[CapacityPoint, ...]:
    """Returns what the rule's ranking is worth at several numbers of flags."""
    ranked = members & flagging.has_value
    values = np.sort(flagging.values[ranked])[::-1]
    # Where values tie, the count moves on to the last of the tie.
    if not values.size:
        return ()
    ends = np.flatnonzero(np.append(values[1:] != values[:-1], [True])).tolist()
    counts = [int(end) + 1 for end in ends]
    wanted = {int((flagging.flagged & members).sum()), *_COUNTS, int(values.size)}
    chosen = {next((c for c in counts if c >= want), None) for want in wanted if want}
    points: list[CapacityPoint] = []
    for count in sorted(c for c in chosen if c is not None):
        value = float(values[count - 1])
        flags = ranked & (flagging.values >= value)
        found = bound_flags(scores, flags)
        if isinstance(found, PrecisionBound):
            points.append(
                CapacityPoint(
                    flags=found.flags,
                    right=found.right,
                    value=value,
                    precision=found.estimate,
                    lower=found.lower,
                    upper=found.upper,
                )
            )
    return tuple(points)
