"""The look table and the power findings of a plan: what is known before any outcome. Pure.

Leaves the boundary of a single test to `boundaries.py`, and the events to `session.py`.

Rules:
- A look ends with whole clusters; where that is in units and information stands in the table.
- A finding of the power check refuses the freeze unless the protocol accepts it with a reason;
  `not_assessed` alone refuses nothing. A reason without its finding is a warning.
- No verdict is possible where the last look isn't eligible by design: of a primary, or of a harm
  endpoint, whose guards leave every claim open.
- Nothing is assumed silently: without assumptions there is a table instead of a number.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Final, get_args

import msgspec

from fairtrial.analysis.sequential import check_explicit_boundary
from fairtrial.analysis.verdict import Finding as Guard
from fairtrial.ledger.errors import Problem, ProtocolError
from fairtrial.ledger.events import LookPlan, LookTest
from fairtrial.ledger.protocol import Protocol
from fairtrial.protocols.plan import LookCut, Plan, cluster_cuts, look_cuts
from fairtrial.protocols.units import Units

from .arrays import clusters_of_population
from .boundaries import first_clusters, is_anytime, look_tests, tests_of
from .look_needs import look_need
from .power_values import (
    EndpointPower,
    Finding,
    LookFacts,
    PowerCell,
    PowerReport,
    SimulatedPower,
    assess,
)
from .rule_design import rule_looks, rule_power
from .saving_error import saving_error, saving_warning
from .wording import cluster_noun, plan_facts, plural, sentence, unit_noun

__all__ = (
    "EndpointPower",
    "LookFacts",
    "PowerCell",
    "PowerReport",
    "look_table",
    "power_blob",
    "power_findings",
)

# The findings that refuse a freeze; `not_assessed` is printed and stored, no more.
_REFUSING: Final = ("no_verdict_possible", "impossible", "underpowered")


def look_table(protocol: Protocol, plan: Plan, units: Units) -> tuple[LookPlan, ...]:
    """Returns where each look ends and the boundary of each test there.

    Raises:
        ProtocolError: Two looks end with the same cluster, or the explicit boundary spends more
            than alpha.
    """
    if protocol.kind == "decision_rule":
        return rule_looks(protocol, plan, units)
    cuts = _cuts(protocol, plan)
    tables = [look_tests(protocol, plan, units, test, cuts) for test in tests_of(protocol)]
    _check_boundary(protocol, tables)
    return tuple(
        LookPlan(
            last=cut.last,
            clusters=cut.clusters,
            units=cut.units,
            tests=tuple(table[index] for table in tables),
        )
        for index, cut in enumerate(cuts)
    )


def _cuts(protocol: Protocol, plan: Plan) -> list[LookCut]:
    """Returns where looks end: as planned, or after each cluster where anyone may look."""
    if is_anytime(protocol):
        return cluster_cuts(plan, first_clusters(protocol))
    return look_cuts(plan, protocol.looks.at, file=protocol.id)


def power_findings(
    protocol: Protocol, plan: Plan, units: Units, *, simulated: SimulatedPower | None = None
) -> PowerReport:
    """Returns the findings of a plan, the smallest difference it can find, and where looks fall.

    Args:
        protocol: the plan.
        plan: its run order.
        units: its units.
        simulated: what a simulation of the protocol found; it leads over the formula.
    """
    looks = look_table(protocol, plan, units)
    if protocol.kind == "decision_rule":
        return rule_power(protocol, plan, units, looks[0])
    tests = tests_of(protocol)
    last = looks[-1].tests
    found = [
        assess(protocol, plan, units, test, boundary)
        for test, boundary in zip(tests, last, strict=True)
        if test.role == "primary"
    ]
    sentences = _sentences(protocol, plan, units, found, looks[-1])
    if simulated is not None:
        _lead(sentences, simulated, protocol.power.target)
    findings = tuple(name for name in get_args(Finding) if name in sentences)
    reasons = {
        name: reason
        for name in get_args(Finding)
        if (reason := getattr(protocol.power.accept, name)) is not None
    }
    first = next(each for each in found if each.comparison == protocol.decision.gate)
    return PowerReport(
        findings=findings,
        refused={
            name: sentences[name] for name in findings if name in _REFUSING and name not in reasons
        },
        accepted={name: reasons[name] for name in findings if name in reasons},
        warnings=tuple(_warnings(protocol, plan, looks, findings, reasons)),
        effect=protocol.power.effect,
        target=protocol.power.target,
        power=first.power,
        smallest_difference=first.smallest_difference,
        looks=_look_facts(protocol, looks),
        endpoints=tuple(found),
        simulated=simulated,
        saving_error=saving_error(protocol) or msgspec.UNSET,
    )


def _lead(sentences: dict[str, str], simulated: SimulatedPower, target: float) -> None:
    """Puts what the simulation says of power in the place of what the formula says."""
    sentences.pop("underpowered", None)
    sentences.pop("not_assessed", None)
    if simulated.power < target:
        power = f"{100 * simulated.power:.1f} % in {simulated.runs} simulated runs"
        sentences["underpowered"] = f"power is {power}, below the target {100 * target:g} %"


def power_blob(report: PowerReport) -> bytes:
    """Returns the JSON that the freeze keeps."""
    return msgspec.json.encode(report, order="deterministic")


def _check_boundary(protocol: Protocol, tables: list[tuple[LookTest, ...]]) -> None:
    boundary, sides = protocol.looks.boundary, protocol.analysis.sides
    if boundary is None:
        return
    for test, table in zip(tests_of(protocol), tables, strict=True):
        fractions = [each.fraction for each in table]
        if len(set(fractions)) < len(fractions):
            continue
        alpha = test.alpha * sides / 2.0
        check = check_explicit_boundary(boundary, fractions, alpha=alpha, sides=sides)
        if not check.acceptable:
            problem = Problem(
                what="the boundary spends more than its share of alpha",
                where="looks.boundary",
                expected=f"at most {alpha:g}",
                found=f"{check.spends:.6g} for {test.endpoint.name}",
                todo="raise the values of z, or name a spending function",
            )
            raise ProtocolError((problem,), file=protocol.id)


def _sentences(
    protocol: Protocol,
    plan: Plan,
    units: Units,
    found: list[EndpointPower],
    last: LookPlan,
) -> dict[str, str]:
    """Returns each finding of the plan with its sentence."""
    sentences: dict[str, str] = {}
    for name in get_args(Finding):
        for comparison in protocol.analysis.comparisons:
            own = [each for each in found if each.comparison == comparison.name]
            hits = [each for each in own if name in each.findings]
            # With `any` one primary that can win is enough.
            enough = len(own) if protocol.decision.primaries == "any" else 1
            if len(hits) >= enough:
                sentences.setdefault(name, _sentence(protocol, plan, units, name, hits[0]))
    harm = [test for test in last.tests if not test.eligible and _is_harm(protocol, test)]
    if harm:
        text = f"the last look can't say anything of harm endpoint {harm[0].endpoint}"
        sentences.setdefault("no_verdict_possible", text)
    return sentences


def _is_harm(protocol: Protocol, test: LookTest) -> bool:
    return any(each.name == test.endpoint and each.role == "harm" for each in protocol.endpoints)


def _sentence(protocol: Protocol, plan: Plan, units: Units, name: str, found: EndpointPower) -> str:
    target = f"below the target {100 * protocol.power.target:g} %"
    if name == "impossible":
        best = f"{100 * (found.best_power or 0.0):.1f} %"
        return f"even under the most favourable assumption power is {best}, {target}"
    if name == "underpowered":
        return f"power is {100 * (found.power or 0.0):.1f} % under the assumption, {target}"
    if name == "not_assessed":
        return "no effect, or no assumption about its spread, was registered"
    return f"no verdict is possible: {_guard_sentence(protocol, plan, units, found)}"


def _guard_sentence(protocol: Protocol, plan: Plan, units: Units, found: EndpointPower) -> str:
    comparison = next(c for c in protocol.analysis.comparisons if c.name == found.comparison)
    endpoint = next(e for e in protocol.endpoints if e.name == found.endpoint)
    kept = clusters_of_population(plan, units, endpoint, comparison)
    if not found.guards and is_anytime(protocol):
        nouns = plural(cluster_noun(protocol))
        first = first_clusters(protocol)
        return f"the first look is after {first} {nouns}, there are {len(set(kept))}"
    if not found.guards:
        return "the last look has no share of alpha that a test could reach"
    code: Guard = found.guards[0]
    if code == "few_discordant_clusters":
        least = protocol.decision.guards.min_discordant_clusters
        nouns = plural(cluster_noun(protocol))
        return f"the arms have to differ in at least {least} {nouns}, there are {len(set(kept))}"
    return sentence(protocol, code, plan_facts(protocol, comparison, endpoint, kept))


def _warnings(
    protocol: Protocol,
    plan: Plan,
    looks: Sequence[LookPlan],
    findings: Sequence[str],
    reasons: Mapping[str, str],
) -> Iterator[str]:
    for name in reasons:
        if name not in findings:
            yield f"power.accept.{name} has a reason and nothing to accept"
    skewed = saving_error(protocol)
    if skewed is not None:
        yield saving_warning(skewed)
    tests = tests_of(protocol)
    for number, look in enumerate(looks, start=1):
        for test, boundary in zip(tests, look.tests, strict=True):
            if not boundary.eligible and (number < len(looks) or test.role == "saving"):
                need = look_need(protocol, test, look, boundary)
                yield (
                    f"look {number} can't decide on {boundary.endpoint}: it has {look.units} "
                    f"{plural(unit_noun(protocol))} in {look.clusters} "
                    f"{plural(cluster_noun(protocol))}, {boundary.fraction:.2f} of the "
                    f"information; it would need {need}"
                )


def _shares(protocol: Protocol, looks: Sequence[LookPlan]) -> tuple[float, ...]:
    if is_anytime(protocol):
        return tuple(look.clusters / looks[-1].clusters for look in looks)
    return protocol.looks.at


def _look_facts(protocol: Protocol, looks: Sequence[LookPlan]) -> tuple[LookFacts, ...]:
    return tuple(
        LookFacts(
            number=number,
            planned=planned,
            last=look.last,
            clusters=look.clusters,
            units=look.units,
            fraction=look.tests[0].fraction,
            eligible=all(test.eligible for test in look.tests),
        )
        for number, (planned, look) in enumerate(
            zip(_shares(protocol, looks), looks, strict=True), start=1
        )
    )
