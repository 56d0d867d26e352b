"""The verdict of a threshold-rule experiment: bounds against the target, guards and floors. Pure.

Leaves flags to `rule_flags.py`, events to `rule_look.py`, the long form to `rule_detail.py`.

Rules:
- Reject when the upper bound lies below the target, adopt when the lower bound reaches it and the
  floors hold, else inconclusive. A point estimate decides nothing.
- First come: an outcome that the protocol refuses to count, too many without a score, no flag, too
  few clusters with a flag, too few degrees of freedom.
- The floors hold when a family passes its own; if none does, nothing would be blocked: `no_flags`.
- strata `each`: every family of the frozen primary population has its bounds by Holm. Reject when a
  family is shown below; adopt when one reaches the target, with enough clusters and its floor.
- Where no family has enough to go by, code and figures are those of the one that lacks least.
- With `sides: 1` nothing is rejected.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from fairtrial.analysis.block_rules import Flagging
from fairtrial.analysis.precision_bounds import PrecisionBound, holm_bounds
from fairtrial.analysis.values import Undetermined
from fairtrial.analysis.verdict import ReasonCode, Verdict, guard_findings
from fairtrial.ledger.protocol import Population, Protocol, primaries

from .boundaries import gate_of, guards_of
from .frames import BoolArray
from .rule_flags import (
    Floor,
    bound_flags,
    cluster_counts,
    flaggings,
    floors_of,
    inside,
    side_alpha,
    target_of,
)
from .rule_scores import RuleScores, families_of, in_family, members_of
from .wording import cluster_noun, plural, unit_noun

__all__ = ("Judgement", "judge", "planned_members", "primary_population")


@dataclass(frozen=True, kw_only=True, eq=False)
class Judgement:
    """What the scores say of the arm that is judged.

    Attributes:
        scores: behind everything.
        flags: of every arm.
        bound: of the judged arm's flags in the primary population.
        families: bounds of each family by Holm; empty when pooled.
        floors: of the judged arm's families; None where its rule has none.
        planned: frozen units of the primary population; `lost` of them have no score.
        why_not: what keeps the flags from deciding.
        verdict: with its code; `reason` in words.
        recorded: the verdict with the old scores of units that were declared invalid.
        second: the judgement without them; both None where none was declared invalid.
    """

    scores: RuleScores
    flags: Mapping[str, Flagging]
    bound: PrecisionBound | Undetermined
    families: Mapping[str, PrecisionBound | Undetermined]
    floors: Mapping[str, Floor] | None
    planned: int
    lost: int
    why_not: tuple[ReasonCode, ...]
    verdict: Verdict
    reason: str
    recorded: Verdict | None = None
    second: Judgement | None = None


def primary_population(protocol: Protocol) -> Population:
    """Returns the population that decides."""
    assert protocol.populations is not None, "defaults fill in the populations"
    return protocol.populations.primary


def planned_members(scores: RuleScores) -> BoolArray:
    """Returns which plan units the primary endpoint counts in the primary population."""
    protocol = scores.protocol
    return members_of(
        scores.plan, scores.units, primaries(protocol)[0], primary_population(protocol)
    )


def judge(scores: RuleScores) -> Judgement:
    """Returns what the scores say, with the verdict that the registered rule gives."""
    protocol = scores.protocol
    arm = gate_of(protocol).treatment
    flags = flaggings(scores)
    members = planned_members(scores)
    names = sorted({families_of(scores.units)[i] for i in range(len(scores.units.ids))})
    flagged = flags[arm].flagged & inside(scores, primary_population(protocol))
    found = _Found(
        bound=bound_flags(scores, flagged),
        families=_families(scores, flagged) if protocol.decision.strata == "each" else {},
        floors=floors_of(scores, protocol.arms[arm], flags[arm], names),
    )
    lost, refused = int(members[scores.excluded].sum()), int(members[scores.refused].sum())
    why_not = _why_not(protocol, found, int(members.sum()), lost, refused)
    verdict, reason = _verdict(
        protocol,
        arm,
        found,
        why_not=why_not,
        lost=lost,
        refused=refused,
        planned=int(members.sum()),
    )
    return Judgement(
        scores=scores,
        flags=flags,
        bound=found.bound,
        families=found.families,
        floors=found.floors,
        planned=int(members.sum()),
        lost=lost,
        why_not=why_not,
        verdict=verdict,
        reason=reason,
    )


@dataclass(frozen=True, kw_only=True, slots=True)
class _Found:
    bound: PrecisionBound | Undetermined
    families: Mapping[str, PrecisionBound | Undetermined]
    floors: Mapping[str, Floor] | None


def _families(scores: RuleScores, flagged: BoolArray) -> dict[str, PrecisionBound | Undetermined]:
    """Returns Holm's bounds over the families that the frozen primary population holds."""
    protocol, members = scores.protocol, planned_members(scores)
    family_of = dict(zip(scores.units.ids, families_of(scores.units), strict=True))
    inside_of = zip(scores.plan.units, members.tolist(), strict=True)
    names = sorted({family_of[unit] for unit, kept in inside_of if kept})
    return holm_bounds(
        {name: cluster_counts(scores, flagged & in_family(scores, name)) for name in names},
        target=target_of(protocol),
        bound=protocol.decision.bound or "cluster_aware",
        alpha=side_alpha(protocol),
        min_wrong_clusters=guards_of(protocol).min_discordant_clusters,
    )


def _why_not(
    protocol: Protocol, found: _Found, planned: int, lost: int, refused: int
) -> tuple[ReasonCode, ...]:
    reasons: list[ReasonCode] = []
    if refused:
        reasons.append("missing_refused")
    if planned and lost > protocol.missing.limit * planned:
        reasons.append("missing_over_limit")
    if isinstance(found.bound, Undetermined):
        return (*reasons, "no_flags")
    if not found.families:
        return (*reasons, *_guards(protocol, found.bound))
    # One family with enough to go by can decide; what the others lack is theirs.
    _, nearest = _nearest(protocol, found.families)
    return (*reasons, *_guards(protocol, nearest))


def _nearest(
    protocol: Protocol, families: Mapping[str, PrecisionBound | Undetermined]
) -> tuple[str, PrecisionBound]:
    """Returns the family that lacks least for a verdict; of several alike, the one with most."""
    known = {name: one for name, one in families.items() if isinstance(one, PrecisionBound)}
    lacks = {name: _guards(protocol, one) for name, one in known.items()}
    least = min(lacks.values(), key=len)
    alike = [name for name, codes in lacks.items() if codes == least]
    name = max(alike, key=lambda name: (known[name].clusters, known[name].df or 0.0))
    return name, known[name]


def _guards(protocol: Protocol, bound: PrecisionBound) -> tuple[ReasonCode, ...]:
    return guard_findings(
        clusters=bound.clusters,
        df=bound.df,
        discordant_clusters=None,
        nominal_p=protocol.analysis.alpha,
        guards=guards_of(protocol),
    )


def _verdict(
    protocol: Protocol,
    arm: str,
    found: _Found,
    *,
    why_not: tuple[ReasonCode, ...],
    lost: int,
    refused: int,
    planned: int,
) -> tuple[Verdict, str]:
    if why_not:
        code = why_not[0]
        reason = _open_reason(
            protocol, arm, code, found, lost=lost, refused=refused, planned=planned
        )
        return Verdict("inconclusive", code), reason
    assert isinstance(found.bound, PrecisionBound), "no flag is a reason of its own"
    if found.families:
        return _each(protocol, arm, found)
    return _pooled(protocol, arm, found.bound, found.floors)


def _pooled(
    protocol: Protocol, arm: str, bound: PrecisionBound, floors: Mapping[str, Floor] | None
) -> tuple[Verdict, str]:
    target = target_of(protocol)
    shown = f"{bound.right} of {bound.flags} flags of {arm} are right"
    if bound.upper < target and protocol.analysis.sides == 2:
        text = f"{shown}, and the upper bound {bound.upper:.3f} is below the target {target:g}"
        return Verdict("reject", "bound_below"), text
    if bound.lower < target:
        return Verdict("inconclusive", "interval_spans"), _spans(shown, bound, target)
    text = f"{shown}, and the lower bound {bound.lower:.3f} reaches the target {target:g}"
    if floors is None:
        return Verdict("adopt", "bound_reached"), text
    passing = [name for name, one in floors.items() if one.may_block]
    if passing:
        return Verdict("adopt", "bound_reached"), f"{text}; {_may(passing, floors)}"
    least = next(iter(floors.values())).floor
    text += f", but no family is as sure as {least} right flags, so nothing would be blocked"
    return Verdict("inconclusive", "no_flags"), text


def _spans(shown: str, bound: PrecisionBound, target: float) -> str:
    return (
        f"{shown}; what their precision may be, {bound.lower:.3f} to {bound.upper:.3f}, spans"
        f" the target {target:g}"
    )


def _may(passing: list[str], floors: Mapping[str, Floor]) -> str:
    verb = "passes its floor and blocks" if len(passing) == 1 else "pass their floors and block"
    rest = "" if len(passing) == len(floors) else ", the others stay advisory"
    return f"{', '.join(passing)} {verb}{rest}"


def _each(protocol: Protocol, arm: str, found: _Found) -> tuple[Verdict, str]:
    target, floors = target_of(protocol), found.floors
    able = {
        name: one
        for name, one in found.families.items()
        if isinstance(one, PrecisionBound) and not _guards(protocol, one)
    }
    below = [name for name, one in able.items() if one.upper < target]
    if below and protocol.analysis.sides == 2:
        text = f"the upper bound of {arm}'s flags is below the target {target:g} in"
        return Verdict("reject", "bound_below"), f"{text} {', '.join(below)}"
    reached = [name for name, one in able.items() if one.lower >= target]
    if not reached:
        text = f"no family's flags of {arm} are shown to reach or to miss the target {target:g}"
        return Verdict("inconclusive", "interval_spans"), text
    text = f"the lower bound of {arm}'s flags reaches the target {target:g} in"
    passing = [name for name in reached if floors is None or floors[name].may_block]
    if passing:
        rest = "" if len(passing) == len(found.families) else "; the other families stay advisory"
        return Verdict("adopt", "bound_reached"), f"{text} {', '.join(passing)}{rest}"
    text += f" {', '.join(reached)}, but none of them passes its floor, so nothing would be blocked"
    return Verdict("inconclusive", "no_flags"), text


def _open_reason(
    protocol: Protocol,
    arm: str,
    code: ReasonCode,
    found: _Found,
    *,
    lost: int,
    refused: int,
    planned: int,
) -> str:
    """Returns why flags can't decide, in words of the data."""
    units = plural(unit_noun(protocol))
    if code == "missing_refused":
        return f"{refused} {units} have a score that the protocol refuses to be without"
    if code == "missing_over_limit":
        limit = f"{100 * protocol.missing.limit:g} %"
        return f"{lost} of {planned} {units} have no score, more than the registered {limit}"
    if isinstance(found.bound, Undetermined):
        return f"{arm} flagged nothing, so its precision is unknown"
    if not found.families:
        return _lacking(protocol, code, f"flags of {arm}", found.bound)
    name, nearest = _nearest(protocol, found.families)
    lacking = _lacking(protocol, code, f"flags of {arm} in family {name}", nearest)
    return f"no family has enough to go by, {name} lacks least: {lacking}"


def _lacking(protocol: Protocol, code: ReasonCode, flags: str, bound: PrecisionBound) -> str:
    """Returns what a guard misses, with the figures of the flags that it looked at."""
    guards, nouns = guards_of(protocol), plural(cluster_noun(protocol))
    if code == "low_df":
        return (
            f"the wrong {flags} lie in too few {nouns} to tell how they clump:"
            f" {bound.df or 0.0:.1f} degrees of freedom, {guards.min_df:g} are needed"
        )
    noun = cluster_noun(protocol) if bound.clusters == 1 else nouns
    least = guards.min_clusters
    return f"the {flags} lie in {bound.clusters} {noun}; a verdict needs at least {least}"
