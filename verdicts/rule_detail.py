"""The long form of a threshold-rule result: the bytes of `ledger result --json`. Pure.

Leaves the verdict to `rule_verdict.py`, what needs no number to `result_detail.py`.

Rules:
- The shape is that of a comparison's result, with `rule` beside it: flags, thresholds and bounds of
  every arm in every population. `difference` and its interval are shown and decide nothing.
- Every number that doesn't exist is null; nothing here is rounded.
- The same outcomes, looks, basis and costs give the same bytes.
"""

from __future__ import annotations

from typing import Unpack

import msgspec

from fairtrial.analysis.block_rules import Flagging, Threshold
from fairtrial.analysis.precision_bounds import PrecisionBound
from fairtrial.analysis.values import Undetermined
from fairtrial.analysis.verdict import Verdict
from fairtrial.ledger.protocol import Population, Protocol

from .beside import Json
from .boundaries import gate_of
from .evaluate import AnalysisContext
from .result_body import ResultBody
from .result_detail import Told, frame_shape, look_rows
from .rule_design import simulated_bounds
from .rule_differences import Difference, differences
from .rule_flags import (
    after_floor,
    capacity_points,
    cluster_counts,
    floors_of,
    inside,
    side_alpha,
    summary,
    target_of,
)
from .rule_look import ended_judgement
from .rule_scores import families_of, in_family
from .rule_verdict import Judgement, primary_population

__all__ = ("rule_detail",)


def rule_detail(context: AnalysisContext, body: ResultBody, **told: Unpack[Told]) -> bytes:
    """Returns the bytes of `ledger result --json`.

    Args:
        context: what `conclude_rule` was given.
        body: what it returned.
        told: of the experiment as a whole; nothing is spent, as the budget is 0.
    """
    found = ended_judgement(context)
    shape = frame_shape(
        context,
        body,
        told,
        paired=int(found.scores.places.size),
        clusters=len(set(found.scores.scored.clusters.tolist())),
        comparisons=[_comparison(context, found)],
    )
    shape["rule"] = _rule(context.protocol, found)
    return msgspec.json.encode(shape)


def _comparison(context: AnalysisContext, found: Judgement) -> Json:
    gate = gate_of(context.protocol)
    looks = [
        row
        for number, look in enumerate(context.taken, start=1)
        for row in look_rows(context, look, number, gate.name)
    ]
    shape: Json = {
        "name": gate.name,
        "treatment": gate.treatment,
        "control": gate.control,
        "verdict": found.verdict.verdict,
        "reason": found.reason,
        "reason_code": found.verdict.reason_code,
        "look": len(context.taken) or None,
        "diagnostics": [],
        "endpoints": [_endpoint(context.protocol, found, one) for one in differences(found)],
        "looks": looks,
    }
    if found.second is not None and found.recorded is not None:
        shape["without_invalidated"] = _second(context.protocol, found.recorded, found.second)
    return shape


def _second(protocol: Protocol, recorded: Verdict, second: Judgement) -> Json:
    """Returns the second analysis: its verdict, its bounds, and every endpoint's numbers."""
    return {
        "recorded_verdict": recorded.verdict,
        "recorded_reason_code": recorded.reason_code,
        "verdict": second.verdict.verdict,
        "reason_code": second.verdict.reason_code,
        "judged": _bound(second.bound),
        "endpoints": [_endpoint(protocol, second, one) for one in differences(second)],
    }


def _endpoint(protocol: Protocol, found: Judgement, one: Difference) -> Json:
    endpoint, interval = one.endpoint, None
    if one.lower is not None and one.upper is not None:
        interval = {
            "lower": one.lower,
            "upper": one.upper,
            "level": 1.0 - protocol.analysis.alpha,
            "method": "+".join(part.method for part in one.parts),
            "parts": {
                part.method: {"lower": part.lower, "upper": part.upper} for part in one.parts
            },
        }
    decides = endpoint.role == "primary"
    return {
        "name": endpoint.name,
        "role": endpoint.role,
        "type": endpoint.type,
        "in_points": True,
        "scale": "raw",
        "arms": dict(one.arms),
        "difference": one.difference,
        "standard_error": one.standard_error,
        "df": one.df,
        "interval": interval,
        "discordant_clusters": None,
        "tests": {},
        "discordant": _discordant(one),
        "bounds": {"lower": None, "upper": None, "claim_holds": None},
        "after_stopping": None,
        "tipping": None,
        "units": _endpoint_units(found, one),
        "target": endpoint.target,
        "eligible": not found.why_not if decides else None,
        "why_not": list(found.why_not) if decides else [],
        "undetermined": one.undetermined,
        "warnings": [],
    }


def _discordant(one: Difference) -> Json | None:
    if one.endpoint.type != "binary":
        return None
    return {"only_control": one.only_control, "only_treatment": one.only_treatment}


def _endpoint_units(found: Judgement, one: Difference) -> Json:
    return {
        "planned": one.planned,
        "paired": one.counted,
        "clusters": one.clusters,
        "excluded_count": 0,
        "excluded": [],
        "lost": {},
        "missing": {"score": dict(found.scores.statuses)},
    }


def _rule(protocol: Protocol, found: Judgement) -> Json:
    scores, gate = found.scores, gate_of(protocol)
    populations = protocol.populations
    assert populations is not None, "defaults fill in the populations"
    flagged = found.flags[gate.treatment].flagged & inside(scores, populations.primary)
    sizes = cluster_counts(scores, flagged)[1]
    return {
        "arm": gate.treatment,
        "target": target_of(protocol),
        "bound": protocol.decision.bound,
        "alpha": side_alpha(protocol),
        "strata": protocol.decision.strata,
        "population": populations.primary,
        "planned": found.planned,
        "lost": found.lost,
        "judged": _bound(found.bound),
        "families": {name: _bound(one) for name, one in found.families.items()},
        "simulated_error": [msgspec.to_builtins(one) for one in simulated_bounds(protocol, sizes)],
        "capacity": [
            msgspec.to_builtins(one)
            for one in capacity_points(
                scores, found.flags[gate.treatment], inside(scores, populations.primary)
            )
        ],
        "arms": {name: _arm(protocol, found, name) for name in protocol.arms},
    }


def _bound(found: PrecisionBound | Undetermined) -> Json | None:
    if isinstance(found, Undetermined):
        return None
    return {name: getattr(found, name) for name in PrecisionBound.__dataclass_fields__}


def _arm(protocol: Protocol, found: Judgement, name: str) -> Json:
    scores, flagging, arm = found.scores, found.flags[name], protocol.arms[name]
    families = sorted(set(families_of(scores.units)))
    floors = floors_of(scores, arm, flagging, families)
    assert arm.rule is not None
    parameters = msgspec.to_builtins(arm.rule)
    return {
        "rule": {key: value for key, value in parameters.items() if value is not None},
        "populations": _populations(protocol, found, flagging, families),
        "floors": None
        if floors is None
        else {family: msgspec.to_builtins(one) for family, one in floors.items()},
        "after_floor": None
        if floors is None
        else {
            which: msgspec.to_builtins(
                summary(scores, after_floor(scores, flagging, floors), inside(scores, which))
            )
            for which in _which(protocol)
        },
        "thresholds": [_threshold(one) for one in flagging.thresholds],
    }


def _which(protocol: Protocol) -> tuple[Population, ...]:
    assert protocol.populations is not None
    return (primary_population(protocol), *protocol.populations.secondary)


def _populations(
    protocol: Protocol, found: Judgement, flagging: Flagging, families: list[str]
) -> Json:
    scores = found.scores
    shape: Json = {}
    for which in _which(protocol):
        members = inside(scores, which)
        shape[which] = {
            "total": msgspec.to_builtins(summary(scores, flagging, members)),
            "families": {}
            if scores.units.strata is None
            else {
                family: msgspec.to_builtins(
                    summary(scores, flagging, members & in_family(scores, family))
                )
                for family in families
            },
        }
    return shape


def _threshold(one: Threshold) -> Json:
    return {name: getattr(one, name) for name in Threshold.__dataclass_fields__}
