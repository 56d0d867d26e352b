"""The fields of a result that come from numbers and record, and those that need no number. Pure.

Leaves the verdict to `conclude.py`, and what is as registered to `ledger/deviations.py`.

Rules:
- Evidence is the weakest of the arms': imported, recorded, live; an answer from the cache is live.
- `missing` counts settled slots of the whole experiment that didn't end as ok, by arm and status.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import Literal, TypeAlias

from fairtrial.ledger.events import ResultComparison, Verdict
from fairtrial.ledger.slots import STATUSES

from .evaluate import AnalysisContext, StoppedBy

__all__ = (
    "Evidence",
    "ResultBody",
    "evidence_of",
    "missing_counts",
)

Evidence: TypeAlias = Literal["live", "recorded", "imported"]


@dataclass(frozen=True, kw_only=True, slots=True)
class ResultBody:
    """The fields of a result event that this side of the record decides."""

    data: str
    method: str
    verdict: Verdict
    reason: str
    reason_code: str
    stopped_by: StoppedBy
    look: int
    as_registered: bool | None
    evidence: Evidence
    existed_before: tuple[str, ...]
    amended: tuple[str, ...]
    missing: dict[str, dict[str, int]]
    comparisons: tuple[ResultComparison, ...]


def evidence_of(context: AnalysisContext) -> Evidence:
    """Returns the weakest evidence among the arms."""
    found = set(context.origins.values())
    if "imported" in found:
        return "imported"
    return "recorded" if "recorded" in found else "live"


def missing_counts(context: AnalysisContext) -> dict[str, dict[str, int]]:
    """Returns how many settled slots of each arm ended otherwise than ok, by status."""
    counts = Counter(zip(context.plan.arm_of, context.outcomes.status, strict=True))
    found: dict[str, dict[str, int]] = {arm: {} for arm in context.plan.arms}
    for (arm, status), count in sorted(counts.items()):
        if status and STATUSES[status - 1] != "ok":
            found[context.plan.arms[arm]][STATUSES[status - 1]] = count
    return found
