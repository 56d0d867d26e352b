"""The reason of a comparison's verdict, in words of its data. Pure.

Leaves the sentences to `analysis/reasons.py` and the nouns to `wording.py`.

Rules:
- The facts are those of the test that the verdict follows from.
- Where no interval exists, the reason is why it doesn't.
- A test that isn't the comparison's only primary is named, and that it is one of harm.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Final as Constant

from fairtrial.analysis.reasons import Facts
from fairtrial.analysis.verdict import decide
from fairtrial.ledger.protocol import Protocol, primaries

from .boundaries import margin_on
from .endings import Ending
from .estimates import Numbers
from .frames import Frame
from .power_values import decision_rules
from .readings import NOT_SHOWN, Reading
from .slot_values import direction
from .wording import plan_facts, sentence

__all__ = ("reason_text",)

# Reasons that name their endpoint, or that no single test gives.
_OF_NO_TEST: Constant = (
    "harm",
    "no_saving",
    "diagnostic",
    "invalidated",
    "under_run",
    "stopped_by_person",
)

_METHODS: Constant = {
    "cr2_t": "the t interval",
    "cr2_t_whole_clusters": "the t interval",
    "cluster_means_t": "the t interval",
    "obuchowski_t": "the t interval",
    "jackknife_t": "the t interval",
    "tango_cluster_adjusted": "the score interval",
    "tango": "the score interval",
}


def reason_text(frame: Frame, ending: Ending) -> str:
    """Returns the reason of a comparison's verdict, a clause without a full stop."""
    name = ending.claim.test.endpoint.name
    reading = next(each for each in ending.readings if each.test.endpoint.name == name)
    return f"{_whose(frame.protocol, ending)}{_clause(frame, ending, reading)}"


def _clause(frame: Frame, ending: Ending, reading: Reading) -> str:
    code = ending.claim.verdict.reason_code
    if code == "interval_spans" and reading.undetermined is not None:
        return reading.undetermined
    if code == "interval_spans" and "little_information" in reading.why_not:
        return "the data so far hold too little of the planned information for a verdict"
    return sentence(frame.protocol, code, _facts(frame, ending, reading))


def _whose(protocol: Protocol, ending: Ending) -> str:
    """Returns which test the reason is about, where the comparison has several that could be."""
    test = ending.claim.test
    if ending.claim.verdict.reason_code in _OF_NO_TEST:
        return ""
    if test.role == "harm":
        return f"harm endpoint {test.endpoint.name}: "
    return f"endpoint {test.endpoint.name}: " if len(primaries(protocol)) > 1 else ""


def _facts(frame: Frame, ending: Ending, reading: Reading) -> Facts:
    protocol, numbers, pairs = frame.protocol, reading.scales[0], reading.pairs
    clusters = [frame.plan.clusters[unit] for unit in pairs.units.tolist()]
    endpoint = reading.test.endpoint
    facts = plan_facts(protocol, reading.test.comparison, endpoint, clusters)
    refused = ending.claim.verdict.reason_code == "missing_refused"
    saving = protocol.decision.saving
    return replace(
        facts,
        discordant_clusters=numbers.discordant_clusters,
        estimate=numbers.estimate,
        lower=numbers.lower,
        upper=numbers.upper,
        margin=_margin(protocol, reading),
        missing=pairs.refused if refused else max(pairs.lost.values()),
        planned=pairs.planned,
        missing_limit=protocol.missing.limit,
        at_least=saving.at_least if saving is not None else 0.0,
        held=_held(protocol, reading),
        detail=_detail(ending),
    )


def _margin(protocol: Protocol, reading: Reading) -> float:
    harm = protocol.decision.harm
    if reading.test.role == "harm" and harm is not None:
        return margin_on(reading.test.endpoint, harm.margin)
    return margin_on(reading.test.endpoint, protocol.decision.margin or 0.0)


def _detail(ending: Ending) -> str:
    if ending.voided_by is not None:
        return ending.voided_by.text
    if ending.second is None or ending.recorded is None:
        return ""
    return (
        "without the outcomes that were declared invalid the verdict is"
        f" {ending.second.verdict.verdict}, with them {ending.recorded.verdict}"
    )


def _held(protocol: Protocol, reading: Reading) -> str:
    """Returns what alone would make the claim, where methods or scales disagree."""
    for numbers in reading.scales:
        for name, (lower, upper) in numbers.parts.items():
            claim = decide(
                decision_rules(protocol),
                margin_on(reading.test.endpoint, protocol.decision.margin or 0.0),
                lower,
                upper,
                direction(reading.test.endpoint),
                worse_inside_margin=protocol.decision.worse_inside_margin,
                sides=protocol.analysis.sides,
            )
            if claim != NOT_SHOWN:
                return _scale(numbers) if len(reading.scales) > 1 else _METHODS.get(name, name)
    return ""


def _scale(numbers: Numbers) -> str:
    return "the mean difference" if numbers.scale == "raw" else "the ratio of geometric means"
