"""The result: how the experiment ended becomes the body of the result event. Pure.

Leaves verdicts to `endings.py`, the reason to `reasoning.py`, what needs no number to
`result_body.py`, the long form to `result_detail.py`; basis, costs and blobs to the session.

Rules:
- The verdict and its reason are those of the gate comparison.
- The numbers of a comparison are those of the look that it ended with.
- The digest covers every settled slot, so that outcomes after a comparison's last look are covered.
"""

from __future__ import annotations

from collections.abc import Sequence

from fairtrial.ledger.deviations import amended_sections, existed_before, is_as_registered
from fairtrial.ledger.events import ResultComparison, ResultEndpoint

from .endings import Ending
from .evaluate import AnalysisContext, digest_of, method_of
from .finals import Final, ended
from .reasoning import reason_text
from .result_body import (
    ResultBody,
    evidence_of,
    missing_counts,
)
from .result_detail import detail

__all__ = ("ResultBody", "conclude", "detail")


def conclude(context: AnalysisContext) -> ResultBody:
    """Computes a result.

    Args:
        context: all outcomes and looks, and what ended the experiment.
    """
    assert context.stopped_by is not None, "a result states what ended the experiment"
    found, name = ended(context), context.protocol.decision.gate
    gate = next(each for each in found.endings if each.comparison.name == name)
    return ResultBody(
        data=digest_of(context, context.plan.slot_count),
        method=method_of(context.protocol),
        verdict=gate.claim.verdict.verdict,
        reason=reason_text(found.frame, gate),
        reason_code=gate.claim.verdict.reason_code,
        stopped_by=context.stopped_by,
        look=len(context.taken),
        as_registered=is_as_registered(
            context.origins, context.amends, unblinded_early=context.unblinded_early
        ),
        evidence=evidence_of(context),
        existed_before=existed_before(context.origins),
        amended=amended_sections(context.amends),
        missing=missing_counts(context),
        comparisons=tuple(
            _comparison(ending, numbers)
            for ending, numbers in zip(found.endings, found.finals, strict=True)
        ),
    )


def _comparison(ending: Ending, numbers: Sequence[Final]) -> ResultComparison:
    return ResultComparison(
        name=ending.comparison.name,
        verdict=ending.claim.verdict.verdict,
        endpoints=tuple(_endpoint(final) for final in numbers),
    )


def _endpoint(final: Final) -> ResultEndpoint:
    first = final.scales[0]
    return ResultEndpoint(
        name=final.endpoint.name,
        difference=first.estimate,
        lower=first.lower,
        upper=first.upper,
        p_value=final.p_value,
        bound_lower=final.bounds.lower,
        bound_upper=final.bounds.upper,
        undetermined=final.undetermined,
    )
