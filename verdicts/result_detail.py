"""The long form of a result: the bytes of `ledger result --json`. Pure.

Leaves numbers that decide to `finals.py`, and tests shown beside them to `beside.py`.

Rules:
- The shape is that of the design: fields may be added, a change of one is a new version.
- Every number that doesn't exist is null; nothing here is rounded.
- Where outcomes were declared invalid, a comparison has both analyses; else it has no word of them.
- The same outcomes, looks, basis and costs give the same bytes.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final as Constant
from typing import NotRequired, TypedDict, Unpack

import msgspec

from fairtrial.ledger.events import Head, Look
from fairtrial.ledger.protocol import NANO_USD_MAX

from .beside import Json, tests_beside, warnings_of
from .diagnosing import Diagnosis
from .endings import Ending
from .evaluate import AnalysisContext
from .fewest import Step
from .finals import Final, ended, second_finals
from .frames import Frame
from .interim import AfterStopping, after_stopping, futility_notes
from .reasoning import reason_text
from .result_body import ResultBody
from .result_numbers import (
    discordant_member,
    identity_members,
    number_members,
    saving_member,
    second_endpoint,
    standing_members,
    units_members,
    win_rate_member,
)
from .tipping import Change, Tipping
from .wording import cluster_noun, plural, unit_noun

__all__ = ("Told", "detail", "frame_shape", "look_rows")

_EXCLUDED_MAX: Constant = 1000
_NANO: Constant = 1e9


class Told(TypedDict):
    """What the long form of a result says that neither numbers nor body hold.

    Attributes:
        experiment: Name of the experiment.
        basis: The head that the numbers were computed from.
        spend_nanousd: Spend of each arm, retries and crashed attempts counted.
        stop_note: The reason that a person gave for ending early.
    """

    experiment: str
    basis: Head
    spend_nanousd: Mapping[str, int]
    stop_note: NotRequired[str | None]


def detail(context: AnalysisContext, body: ResultBody, **told: Unpack[Told]) -> bytes:
    """Returns the bytes of `ledger result --json`.

    Args:
        context: what `conclude` was given.
        body: what it returned.
        told: of the experiment as a whole.
    """
    found, name = ended(context), context.protocol.decision.gate
    gate = next(each for each in found.endings if each.comparison.name == name)
    pairs = next(each for each in gate.readings if each.test.role == "primary").pairs
    shape = frame_shape(
        context,
        body,
        told,
        paired=int(pairs.units.size),
        clusters=len(set(pairs.clusters.tolist())),
        comparisons=[
            _comparison(context, found.frame, ending, numbers)
            for ending, numbers in zip(found.endings, found.finals, strict=True)
        ],
    )
    return msgspec.json.encode(shape)


def frame_shape(
    context: AnalysisContext,
    body: ResultBody,
    told: Told,
    *,
    paired: int,
    clusters: int,
    comparisons: list[Json],
) -> Json:
    """Returns the shape that results of every kind share.

    Args:
        context: what the result was computed from.
        body: of the event.
        told: of the experiment as a whole.
        paired: units that count, in `clusters`.
        clusters: of them.
        comparisons: in their registered order.
    """
    basis, spend_nanousd = told["basis"], told["spend_nanousd"]
    shape: Json = {
        "v": 1,
        "experiment": told["experiment"],
        "verdict": body.verdict,
        "reason": body.reason,
        "reason_code": body.reason_code,
        "evidence": body.evidence,
        "existed_before": list(body.existed_before),
        "as_registered": body.as_registered,
        "amended": list(body.amended),
        "basis": {"size": basis.size, "root": basis.root},
        "data": body.data,
        "method": body.method,
        "labels": {name: arm.label for name, arm in context.protocol.arms.items()},
        "stopped_by": body.stopped_by,
        "stop_note": told.get("stop_note"),
        "units": _units(context, body, paired, clusters),
        "comparisons": comparisons,
        "deviations": _deviations(context),
        "invalidated": len(context.outcomes.invalidated),
        "warnings": [*_warnings(context), *_spend_warnings(spend_nanousd)],
        "spend_usd": {arm: nano / _NANO for arm, nano in sorted(spend_nanousd.items())},
    }
    if context.unblinded_early:
        shape["unblinded_early"] = True
    return shape


def _units(context: AnalysisContext, body: ResultBody, paired: int, clusters: int) -> Json:
    unsettled = context.outcomes.status.count(0)
    return {
        "planned": len(context.plan.units),
        "paired": paired,
        "clusters": clusters,
        "missing": body.missing,
        "not_run_slots": unsettled,
        "noun": plural(unit_noun(context.protocol)),
        "cluster_noun": plural(cluster_noun(context.protocol)),
    }


def _comparison(
    context: AnalysisContext, frame: Frame, ending: Ending, numbers: Sequence[Final]
) -> Json:
    comparison = ending.comparison
    shape: Json = {
        "name": comparison.name,
        "treatment": comparison.treatment,
        "control": comparison.control,
        "assigned": _assigned(frame, ending),
        "verdict": ending.claim.verdict.verdict,
        "reason": reason_text(frame, ending),
        "reason_code": ending.claim.verdict.reason_code,
        "look": ending.look,
        "diagnostics": [
            {name: getattr(each, name) for name in Diagnosis.__dataclass_fields__}
            for each in ending.diagnoses
        ],
        "endpoints": [_endpoint(context, frame, ending, final) for final in numbers],
        "looks": [
            row
            for number, look in enumerate(context.taken, start=1)
            for row in look_rows(context, look, number, comparison.name)
        ],
    }
    if ending.second is not None and ending.recorded is not None:
        shape["without_invalidated"] = {
            "recorded_verdict": ending.recorded.verdict,
            "recorded_reason_code": ending.recorded.reason_code,
            "verdict": ending.second.verdict.verdict,
            "reason_code": ending.second.verdict.reason_code,
            "endpoints": [
                second_endpoint(comparison, final)
                for final in second_finals(frame, ending, ending.second)
            ],
        }
    return shape


def _assigned(frame: Frame, ending: Ending) -> Json | None:
    """Returns how many units each arm was assigned up to the end; None where each is in both."""
    assign = frame.protocol.design.assign
    if assign is None:
        return None
    pairs = next(each for each in ending.readings if each.test.role == "primary").pairs
    return {
        "by": assign.by,
        "within": assign.within,
        "units": dict(pairs.planned_of),
        "noun": plural(unit_noun(frame.protocol)),
    }


def _endpoint(context: AnalysisContext, frame: Frame, ending: Ending, final: Final) -> Json:
    first, pairs = final.scales[0], final.pairs
    comparison, plan = ending.comparison, frame.plan
    excluded = [plan.units[index] for index in pairs.excluded[:_EXCLUDED_MAX].tolist()]
    shape: Json = {
        **identity_members(final),
        **number_members(final, first, comparison.control, comparison.treatment),
        "tests": tests_beside(frame, final),
        "discordant": discordant_member(final, first),
        "win_rate": win_rate_member(final, first),
        "bounds": {
            "lower": final.bounds.lower,
            "upper": final.bounds.upper,
            "claim_holds": final.bounds.holds,
        },
        "after_stopping": _after_stopping(context, ending, final),
        "tipping": _tipping(final.tipping),
        "units": units_members(final, excluded),
        **standing_members(final),
        "warnings": warnings_of(frame, ending, final),
    }
    saving = saving_member(final)
    if saving is not None:
        shape["saving"] = saving
    if len(final.scales) > 1:
        shape["log"] = number_members(
            final, final.scales[1], comparison.control, comparison.treatment
        )
    return shape


def _after_stopping(context: AnalysisContext, ending: Ending, final: Final) -> Json | None:
    if final.reading is None or ending.look is None:
        return None
    found = after_stopping(context.protocol, final.reading.test, context.taken[: ending.look])
    if found is None:
        return None
    return {name: getattr(found, name) for name in AfterStopping.__dataclass_fields__}


def _tipping(found: Tipping | None) -> Json | None:
    if found is None:
        return None
    return {
        "lost": found.lost,
        "claim": found.claim,
        "fewest": [
            {
                "way": each.way,
                "count": each.count,
                "exact": each.exact,
                "verdict": each.step.verdict,
                "treatment_worst": each.step.treatment_worst,
            }
            for each in found.fewest
        ],
        "changes": [
            {name: getattr(change, name) for name in Change.__dataclass_fields__}
            for change in found.changes
        ],
        "steps": [
            {name: getattr(step, name) for name in Step.__dataclass_fields__}
            for step in found.steps
        ],
    }


def look_rows(context: AnalysisContext, look: Look, number: int, name: str) -> list[Json]:
    """Returns what one look says of each endpoint of a comparison."""
    notes = {
        note.endpoint: note.conditional_power
        for note in futility_notes(context.protocol, context.taken[:number])
        if note.comparison == name
    }
    return [
        {
            "look": number,
            "endpoint": found.name,
            "information_fraction": found.information_fraction,
            "eligible": found.eligible,
            "why_not": list(found.why_not),
            "n": found.n,
            "clusters": found.clusters,
            "estimate": found.estimate,
            "nominal_p": found.nominal_p,
            "t_critical": found.t_critical,
            "p_value": found.p_value,
            "lower": found.lower,
            "upper": found.upper,
            "crossed": found.crossed,
            "conditional_power": notes.get(found.name),
        }
        for comparison in look.comparisons
        if comparison.name == name
        for found in comparison.endpoints
    ]


def _deviations(context: AnalysisContext) -> list[Json]:
    return [
        {
            "seq": note.seq,
            "class": note.class_,
            "sections": list(note.sections),
            "fields": list(note.fields),
            "outcomes": note.outcomes,
            "looks_taken": note.looks_taken,
            "reason": note.reason,
        }
        for note in context.amends
    ]


def _warnings(context: AnalysisContext) -> list[str]:
    """Returns what a reader has to know of the whole result."""
    found: list[str] = []
    invalid = len(context.outcomes.invalidated)
    if invalid:
        found.append(
            f"outcomes declared invalid: {invalid}; the first analysis has their old values, the"
            " second what the protocol says of invalidated outcomes"
        )
    for name, reason in _accepted(context).items():
        found.append(f"accepted in the protocol, {name.replace('_', ' ')}: {reason}")
    return found


def _spend_warnings(spend_nanousd: Mapping[str, int]) -> list[str]:
    """Returns which arm spent more than the result's event can hold."""
    return [
        f"arm {arm} spent more than {NANO_USD_MAX / _NANO:,.0f} usd, where the event's sum ends"
        for arm, nano in sorted(spend_nanousd.items())
        if nano > NANO_USD_MAX
    ]


def _accepted(context: AnalysisContext) -> dict[str, str]:
    accept = context.protocol.power.accept
    reasons = {name: getattr(accept, name) for name in accept.__struct_fields__}
    return {name: reason for name, reason in reasons.items() if reason is not None}
