"""The very protocol on simulated outcomes: power, error, sample size and verdicts. Pure.

Leaves the drawn outcomes to `simulated_outcomes.py`, what is assumed to `assumptions.py`, the
counting of runs to `simulation_report.py`, and every look, guard and verdict to the modules that a
real run uses.

Rules:
- A run goes through the looks as a real one: guards, spending, crossing, missing rules.
- Cases: the true difference is the registered effect, or it lies where the rule must not conclude
  (superiority: at the margin; non-inferiority: margin worse; equivalence: margin worse); where a
  saving is asked for, also the effect with a saving that is exactly the least one.
- Every comparison is simulated: they share alpha, step down together, and the run goes on until all
  of them are decided.
- Looks are computed from columns; a sample of the runs is computed again from events, as `ledger
  result` would, and `agreed` says in how many verdicts, reason and look were the same.
- Harm endpoints are drawn without a harm, as variable as what is assumed of the primary;
  diagnostics look at outcomes without drift or effect of order.
- Models that are not the requested ones are not simulated; the report says so.
- The same seed gives the same report.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from hashlib import sha256
from typing import TypeAlias

from fairtrial.ledger.events import Head, Look
from fairtrial.ledger.protocol import Protocol, encode_resolved, primaries
from fairtrial.protocols.plan import Plan, plan_lines
from fairtrial.protocols.units import Units
from fairtrial.verdicts.conclude import conclude
from fairtrial.verdicts.endings import claim_of
from fairtrial.verdicts.evaluate import (
    AnalysisContext,
    evaluate_look,
    look_numbers,
    method_of,
)
from fairtrial.verdicts.frames import Frame
from fairtrial.verdicts.look_table import look_table
from fairtrial.verdicts.outcomes import collect_decisions
from fairtrial.verdicts.readings import Reading

from .assumed_savings import saving_endpoint
from .assumptions import AssumedComparison
from .simulated_comparisons import CaseName, Drawn, drawn_of, true_difference
from .simulated_outcomes import decisions_of, draw, simulated_frame, simulated_protocol
from .simulation_report import Ended, Run, Simulation, SimulationCase, case_of

__all__ = ("is_about", "simulate")

_HEAD = Head(size=1, root="0" * 64)
# What a result says of a run: verdict by comparison, reason of the gate, last look.
_Recorded: TypeAlias = tuple[dict[str, str], str, int]


@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class _Design:
    """A protocol reduced to what is simulated, with its frame and an empty context."""

    protocol: Protocol
    frame: Frame
    context: AnalysisContext


def simulate(
    protocol: Protocol,
    plan: Plan,
    units: Units,
    assumed: Sequence[AssumedComparison],
    *,
    effect: float | None,
    runs: int,
    seed: int,
    checked: int = 20,
    stated: str | None = None,
) -> Simulation:
    """Simulates a protocol.

    Args:
        protocol: the registered plan.
        plan: its run order.
        units: its units.
        assumed: of every comparison, in their order.
        effect: true difference as it is registered, for comparisons without one of their own; None
            leaves the cases out that need one.
        runs: per case, at least 1.
        seed: of the draws.
        checked: runs of each case that are computed again from events.
        stated: what a file of assumptions says of itself.

    Raises:
        RefusedError: An assumption is impossible, by itself or beside another.
    """
    design = _design(protocol, plan, units)
    gate = next(each for each in assumed if each.comparison == protocol.decision.gate)
    assert gate.pairs is not None, "the gate is drawn first"
    cases: list[SimulationCase] = []
    again = agreed = 0
    # All of them before the first run: what is impossible is refused at once.
    names = _cases(protocol, assumed, effect)
    models = [drawn_of(design.protocol, assumed, name, effect) for name in names]
    for place, (name, drawn) in enumerate(zip(names, models, strict=True)):
        numbers = range(runs * place, runs * (place + 1))
        found = [_run(design, drawn, seed, number) for number in numbers]
        for number, run in zip(numbers[:checked], found, strict=False):
            again += 1
            agreed += _run_from_events(design, drawn, seed, number) == _as_recorded(design, run)
        difference = true_difference(protocol, primaries(protocol)[0], gate, name, effect)
        cases.append(case_of(design.protocol, design.context.looks, name, difference, found))
    return Simulation(
        experiment=protocol.id,
        protocol=sha256(encode_resolved(protocol)).hexdigest(),
        plan=sha256(plan_lines(plan)).hexdigest(),
        assumed=gate.pairs,
        runs=runs,
        seed=seed,
        method=method_of(design.protocol),
        cases=tuple(cases),
        checked=again,
        agreed=agreed,
        not_simulated=tuple(_left_out(protocol)),
        assumptions=tuple(assumed),
        stated=stated,
    )


def is_about(simulation: Simulation, protocol: Protocol, plan: Plan) -> bool:
    """Returns whether a report is about this protocol and run order, by this version's numbers."""
    return (
        simulation.protocol == sha256(encode_resolved(protocol)).hexdigest()
        and simulation.plan == sha256(plan_lines(plan)).hexdigest()
        and simulation.method == method_of(protocol)
    )


def _cases(
    protocol: Protocol, assumed: Sequence[AssumedComparison], effect: float | None
) -> tuple[CaseName, ...]:
    drawn = [each for each in assumed if each.pairs is not None]
    if effect is None and any(each.effect is None for each in drawn):
        return ("at_border",)
    if saving_endpoint(protocol) is None:
        return ("at_effect", "at_border")
    return ("at_effect", "at_border", "at_saving_border")


def _design(protocol: Protocol, plan: Plan, units: Units) -> _Design:
    reduced = simulated_protocol(protocol)
    frame = simulated_frame(reduced, plan, units)
    context = AnalysisContext(
        protocol=reduced,
        plan=plan,
        units=units,
        looks=look_table(reduced, plan, units),
        taken=(),
        outcomes=frame.outcomes,
        origins=dict.fromkeys(reduced.arms, "live"),
    )
    return _Design(protocol=reduced, frame=frame, context=context)


def _run(design: _Design, drawn: Sequence[Drawn], seed: int, run: int) -> Run:
    frame = draw(design.frame, drawn, seed=seed, run=run)
    context = replace(design.context, outcomes=frame.outcomes)
    readings: list[tuple[Reading, ...]] = []
    for number in range(1, len(context.looks) + 1):
        numbers = look_numbers(context, frame, number)
        look = Look(
            experiment=design.protocol.id,
            number=number,
            basis=_HEAD,
            data="",
            last=context.looks[number - 1].last,
            continues=numbers.continues,
            method=method_of(design.protocol),
            units=context.looks[number - 1].units,
            clusters=context.looks[number - 1].clusters,
            comparisons=numbers.comparisons,
        )
        context = replace(context, taken=(*context.taken, look))
        readings.append(numbers.readings)
        if not numbers.continues:
            break
    ended: dict[str, Ended] = {}
    for comparison in design.protocol.analysis.comparisons:
        verdict = claim_of(context, frame, comparison, readings).verdict
        ended[comparison.name] = Ended(verdict.verdict, verdict.reason_code)
    return Run(ended, len(context.taken))


def _as_recorded(design: _Design, run: Run) -> _Recorded:
    verdicts = {name: each.verdict for name, each in run.comparisons.items()}
    return verdicts, run.comparisons[design.protocol.decision.gate].reason, run.look


def _run_from_events(design: _Design, drawn: Sequence[Drawn], seed: int, run: int) -> _Recorded:
    """Does what `_run` does by way of events, looks and a result as a ledger holds them."""
    filled = draw(design.frame, drawn, seed=seed, run=run)
    outcomes = collect_decisions(decisions_of(filled), design.context.plan.slot_count)
    context = replace(design.context, outcomes=outcomes)
    for number in range(1, len(context.looks) + 1):
        body = evaluate_look(context, number)
        look = body.event(design.protocol.id, number, _HEAD)
        context = replace(context, taken=(*context.taken, look))
        if not look.continues:
            break
    last = len(context.taken) == len(context.looks)
    result = conclude(replace(context, stopped_by="last_look" if last else "boundary"))
    verdicts: dict[str, str] = {each.name: each.verdict for each in result.comparisons}
    return verdicts, result.reason_code, result.look


def _left_out(protocol: Protocol) -> Iterator[str]:
    if protocol.decision.harm is not None:
        simulated = simulated_protocol(protocol).decision.harm is not None
        yield "harm itself: its endpoints are drawn without one" if simulated else "harm endpoints"
    if protocol.diagnostics.served_model == "inconclusive":
        yield "models that were not asked for"
    if len(primaries(protocol)) + (saving_endpoint(protocol) is not None) > 1:
        yield "correlation between endpoints: they are drawn independently"
