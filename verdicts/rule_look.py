"""The look and the result of a threshold-rule experiment, as bodies of their events. Pure.

Leaves the verdict to `rule_verdict.py`, the long form to `rule_detail.py`.

Rules:
- There is one look, at the end. Its one endpoint is the primary: `estimate`, `lower` and `upper`
  are the precision of the judged arm's flags and its one-sided bounds, each with error alpha / 2.
- In a result, `difference` with its limits is treatment minus control, shown beside;
  `bound_lower` and `bound_upper` are the bounds that decide.
- Outcomes declared invalid: the verdict stands only where it is the same without their scores.
- An experiment that ended before its look is inconclusive.
"""

from __future__ import annotations

from dataclasses import replace
from functools import lru_cache
from typing import Final

from fairtrial.analysis.precision_bounds import PrecisionBound
from fairtrial.analysis.verdict import ReasonCode, Verdict
from fairtrial.ledger.deviations import amended_sections, existed_before, is_as_registered
from fairtrial.ledger.events import (
    LookComparison,
    LookEndpoint,
    ResultComparison,
    ResultEndpoint,
)
from fairtrial.ledger.protocol import SCORE_ARM, primaries

from .boundaries import gate_of
from .evaluate import AnalysisContext, LookBody, digest_of
from .result_body import ResultBody, evidence_of
from .rule_differences import Difference, differences
from .rule_scores import rule_scores
from .rule_verdict import Judgement, judge

__all__ = ("RULE_METHOD", "conclude_rule", "ended_judgement", "evaluate_rule_look")

RULE_METHOD: Final = "fairtrial-rules/1"


def evaluate_rule_look(context: AnalysisContext, number: int) -> LookBody:
    """Computes the look of a threshold-rule experiment.

    Args:
        context: all outcomes.
        number: of the look, from 1.
    """
    planned, found = context.looks[number - 1], judge(rule_scores(context))
    gate = gate_of(context.protocol)
    return LookBody(
        data=digest_of(context, planned.last),
        last=planned.last,
        continues=number < len(context.looks),
        method=RULE_METHOD,
        units=planned.units,
        clusters=planned.clusters,
        comparisons=(
            LookComparison(
                name=gate.name,
                treatment=gate.treatment,
                control=gate.control,
                endpoints=(_look_endpoint(context, found, number),),
            ),
        ),
    )


def _look_endpoint(context: AnalysisContext, found: Judgement, number: int) -> LookEndpoint:
    test = context.looks[number - 1].tests[0]
    bound = found.bound if isinstance(found.bound, PrecisionBound) else None
    why_not = (*(() if test.eligible else ("few_clusters",)), *found.why_not)
    crossed = {"adopt": "favourable", "reject": "against"}.get(found.verdict.verdict, "no")
    return LookEndpoint(
        name=primaries(context.protocol)[0].name,
        information_fraction=test.fraction,
        eligible=not why_not,
        why_not=tuple(dict.fromkeys(why_not)),
        n=0 if bound is None else bound.flags,
        clusters=0 if bound is None else bound.clusters,
        discordant_clusters=None,
        estimate=None if bound is None else bound.estimate,
        standard_error=None,
        df=None if bound is None else bound.df,
        tests={},
        p_value=None,
        nominal_p=context.protocol.analysis.alpha,
        t_critical=None,
        z=None,
        lower=None if bound is None else bound.lower,
        upper=None if bound is None else bound.upper,
        crossed="no" if why_not else crossed,  # type: ignore[arg-type]  # the words of Crossed
        undetermined="nothing was flagged" if bound is None else None,
    )


# The event and its long form ask for the same judgement, one after the other.
@lru_cache(maxsize=1)
def ended_judgement(context: AnalysisContext) -> Judgement:
    """Returns the judgement that the result states, after what ended the experiment."""
    found = _ended(context, judge(rule_scores(context)))
    if not context.outcomes.invalidated:
        return found
    second = _ended(context, judge(rule_scores(context, invalidated=True)))
    word, recorded = second.verdict.verdict, found.verdict
    found = replace(found, recorded=recorded, second=second)
    if word == recorded.verdict:
        return found
    text = (
        f"without the outcomes that were declared invalid the verdict is {word},"
        f" with them {recorded.verdict}"
    )
    return replace(found, verdict=Verdict("inconclusive", "invalidated"), reason=text)


def _ended(context: AnalysisContext, found: Judgement) -> Judgement:
    """Returns what a judgement is worth after what ended the experiment."""
    if context.stopped_by not in ("last_look", "boundary"):
        person = context.stopped_by == "person"
        code: ReasonCode = "stopped_by_person" if person else "under_run"
        who = "a person stopped the run" if person else "the run ended"
        return replace(
            found,
            verdict=Verdict("inconclusive", code),
            reason=f"{who} before every unit had a score, so no bound decides",
        )
    if context.taken and not context.taken[-1].comparisons[0].endpoints[0].eligible:
        return _not_eligible(found)
    return found


def _not_eligible(found: Judgement) -> Judgement:
    """Returns a judgement that the design itself keeps from deciding."""
    if found.verdict.verdict == "inconclusive":
        return found
    text = "the primary population lies in too few clusters for a verdict"
    return replace(found, verdict=Verdict("inconclusive", "few_clusters"), reason=text)


def conclude_rule(context: AnalysisContext) -> ResultBody:
    """Computes the result of a threshold-rule experiment.

    Args:
        context: all outcomes and looks, and what ended the experiment.
    """
    assert context.stopped_by is not None, "a result states what ended the experiment"
    found, gate = ended_judgement(context), gate_of(context.protocol)
    return ResultBody(
        data=digest_of(context, context.plan.slot_count),
        method=RULE_METHOD,
        verdict=found.verdict.verdict,
        reason=found.reason,
        reason_code=found.verdict.reason_code,
        stopped_by=context.stopped_by,
        look=len(context.taken),
        as_registered=is_as_registered(
            context.origins, context.amends, unblinded_early=context.unblinded_early
        ),
        evidence=evidence_of(context),
        existed_before=existed_before(context.origins),
        amended=amended_sections(context.amends),
        missing={SCORE_ARM: dict(found.scores.statuses)},
        comparisons=(
            ResultComparison(
                name=gate.name,
                verdict=found.verdict.verdict,
                endpoints=tuple(_endpoint(found, one) for one in differences(found)),
            ),
        ),
    )


def _endpoint(found: Judgement, one: Difference) -> ResultEndpoint:
    decides = one.endpoint.role == "primary"
    bound = found.bound if decides and isinstance(found.bound, PrecisionBound) else None
    return ResultEndpoint(
        name=one.endpoint.name,
        difference=one.difference,
        lower=one.lower,
        upper=one.upper,
        p_value=None,
        bound_lower=None if bound is None else bound.lower,
        bound_upper=None if bound is None else bound.upper,
        undetermined=one.undetermined,
    )
