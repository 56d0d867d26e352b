"""The very protocol on simulated outcomes: power, error, sample size and verdicts. Pure.

Leaves the drawn outcomes to `simulated_outcomes.py`, what is assumed to `assuming.py`, and every
look, guard and verdict to the modules that a real run uses.

Rules:
- A run goes through the looks as a real one: guards, spending, crossing, missing rules.
- Two cases: the true difference is the registered effect, or it lies where the rule must not
  conclude (superiority: at the margin; non-inferiority: margin worse; equivalence: margin worse).
- Looks are computed from columns; a sample of the runs is computed again from events, as `ledger
  result` would, and `agreed` says in how many verdict, reason and look were the same.
- Harm endpoints are drawn without a harm, as variable as what is assumed of the primary;
  diagnostics look at outcomes without drift or effect of order.
- A reject for harm is no error of the primary, and no success.
- A saving (nothing states one), models that are not the requested ones, and other comparisons are
  not simulated; the report says so.
- The same seed gives the same report.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from hashlib import sha256
from typing import Literal, NamedTuple

import msgspec

from fairtrial.analysis.rates import clopper_pearson
from fairtrial.analysis.simulation import PairModel
from fairtrial.ledger.events import Head, Look
from fairtrial.ledger.protocol import Protocol, encode_resolved
from fairtrial.protocols.plan import Plan, plan_lines
from fairtrial.protocols.units import Units
from fairtrial.verdicts.boundaries import gate_of
from fairtrial.verdicts.conclude import conclude
from fairtrial.verdicts.endings import claim_of
from fairtrial.verdicts.evaluate import METHOD, AnalysisContext, evaluate_look, look_numbers
from fairtrial.verdicts.frames import Frame
from fairtrial.verdicts.look_table import look_table
from fairtrial.verdicts.outcomes import collect_decisions
from fairtrial.verdicts.power_values import decision_rules
from fairtrial.verdicts.readings import Reading
from fairtrial.verdicts.slot_values import direction

from .assuming import Assumed, model_of
from .simulated_outcomes import decisions_of, draw, simulated_frame, simulated_protocol

__all__ = ("Simulation", "SimulationCase", "is_about", "simulate")

_HEAD = Head(size=1, root="0" * 64)


class SimulationCase(msgspec.Struct, frozen=True, kw_only=True):
    """What many runs at one true difference came to.

    Attributes:
        name: the difference is the registered effect, or the border at which a claim is an error.
        effect: true difference of the first primary, treatment minus control.
        verdicts: share of runs by verdict; `reasons` likewise of those that are inconclusive or
            rejected for harm.
        intended: share of runs with a verdict that counts: power, or type-I error.
        standard_error: of `intended`; `lower` and `upper`: its exact 95 % limits.
        stops: share of runs that ended with each look.
        expected_units: mean number of units used; `expected_slots` likewise.
    """

    name: Literal["at_effect", "at_border"]
    effect: float
    verdicts: dict[str, float]
    reasons: dict[str, float]
    intended: float
    standard_error: float
    lower: float
    upper: float
    stops: tuple[float, ...]
    expected_units: float
    expected_slots: float


class Simulation(msgspec.Struct, frozen=True, kw_only=True):
    """A simulated protocol.

    Attributes:
        protocol: SHA-256 of the resolved protocol; `plan` of the run order.
        assumed: what the outcomes were drawn from.
        runs: per case; `seed` of all draws; `method` of the numbers.
        cases: see `SimulationCase`; without an effect only the border.
        checked: runs computed again from events; `agreed` those that came out alike.
        not_simulated: conditions of the protocol that were left out.
    """

    v: Literal[1] = 1
    experiment: str
    protocol: str
    plan: str
    assumed: Assumed
    runs: int
    seed: int
    method: str
    cases: tuple[SimulationCase, ...]
    checked: int
    agreed: int
    not_simulated: tuple[str, ...]


class _Run(NamedTuple):
    verdict: str
    reason: str
    look: int


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
    assumed: Assumed,
    *,
    effect: float | None,
    runs: int,
    seed: int,
    checked: int = 20,
) -> Simulation:
    """Simulates a protocol.

    Args:
        protocol: the registered plan.
        plan: its run order.
        units: its units.
        assumed: spread, correlation and loss.
        effect: true difference, treatment minus control; None leaves that case out.
        runs: per case, at least 1.
        seed: of the draws.
        checked: runs of each case that are computed again from events.
    """
    design = _design(protocol, plan, units)
    border = _border(protocol)
    asked: list[tuple[Literal["at_effect", "at_border"], float]] = [("at_border", border)]
    if effect is not None:
        asked.insert(0, ("at_effect", effect))
    cases: list[SimulationCase] = []
    again = agreed = 0
    for place, (name, difference) in enumerate(asked):
        models = {
            endpoint.name: model_of(
                design.protocol,
                endpoint,
                assumed,
                difference if endpoint.role == "primary" else 0.0,
            )
            for endpoint in design.protocol.endpoints
        }
        found = [_run(design, models, seed, runs * place + number) for number in range(runs)]
        for number in range(min(checked, runs)):
            again += 1
            agreed += _run_from_events(design, models, seed, runs * place + number) == found[number]
        cases.append(_case(design, name, difference, found))
    return Simulation(
        experiment=protocol.id,
        protocol=sha256(encode_resolved(protocol)).hexdigest(),
        plan=sha256(plan_lines(plan)).hexdigest(),
        assumed=assumed,
        runs=runs,
        seed=seed,
        method=METHOD,
        cases=tuple(cases),
        checked=again,
        agreed=agreed,
        not_simulated=tuple(_left_out(protocol)),
    )


def is_about(simulation: Simulation, protocol: Protocol, plan: Plan) -> bool:
    """Returns whether a report is about this protocol and run order, by this version's numbers."""
    return (
        simulation.protocol == sha256(encode_resolved(protocol)).hexdigest()
        and simulation.plan == sha256(plan_lines(plan)).hexdigest()
        and simulation.method == METHOD
    )


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


def _border(protocol: Protocol) -> float:
    """Returns the true difference at which a favourable claim of the first rule is an error."""
    endpoint = next(each for each in protocol.endpoints if each.role == "primary")
    margin = protocol.decision.margin or 0.0
    if endpoint.scale == "log":
        margin = math.log1p(margin)
    turn = 1.0 if direction(endpoint) == "higher" else -1.0
    return turn * margin if decision_rules(protocol)[0] == "superiority" else -turn * margin


def _run(design: _Design, models: Mapping[str, PairModel], seed: int, run: int) -> _Run:
    frame = draw(design.frame, models, seed=seed, run=run)
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
            method=METHOD,
            units=context.looks[number - 1].units,
            clusters=context.looks[number - 1].clusters,
            comparisons=numbers.comparisons,
        )
        context = replace(context, taken=(*context.taken, look))
        readings.append(numbers.readings)
        if not numbers.continues:
            break
    claim = claim_of(context, frame, design.protocol.analysis.comparisons[0], readings)
    return _Run(claim.verdict.verdict, claim.verdict.reason_code, len(context.taken))


def _run_from_events(design: _Design, models: Mapping[str, PairModel], seed: int, run: int) -> _Run:
    """Does what `_run` does by way of events, looks and a result as a ledger holds them."""
    drawn = draw(design.frame, models, seed=seed, run=run)
    outcomes = collect_decisions(decisions_of(drawn), design.context.plan.slot_count)
    context = replace(design.context, outcomes=outcomes)
    for number in range(1, len(context.looks) + 1):
        body = evaluate_look(context, number)
        look = body.event(design.protocol.id, number, _HEAD)
        context = replace(context, taken=(*context.taken, look))
        if not look.continues:
            break
    last = len(context.taken) == len(context.looks)
    result = conclude(replace(context, stopped_by="last_look" if last else "boundary"))
    return _Run(result.verdict, result.reason_code, result.look)


def _case(
    design: _Design,
    name: Literal["at_effect", "at_border"],
    effect: float,
    found: Sequence[_Run],
) -> SimulationCase:
    runs, looks = len(found), design.context.looks
    verdicts = Counter(run.verdict for run in found)
    reasons = Counter(
        run.reason for run in found if run.verdict == "inconclusive" or run.reason == "harm"
    )
    counted = _errors(design.protocol) if name == "at_border" else _wanted(design.protocol)
    hits = sum(run.verdict in counted and run.reason != "harm" for run in found)
    intended, limits = hits / runs, clopper_pearson(hits, runs)
    ends = [looks[run.look - 1] for run in found]
    return SimulationCase(
        name=name,
        effect=effect,
        verdicts={word: verdicts[word] / runs for word in sorted(verdicts)},
        reasons={code: reasons[code] / runs for code in sorted(reasons)},
        intended=intended,
        standard_error=math.sqrt(intended * (1.0 - intended) / runs),
        lower=limits.lower,
        upper=limits.upper,
        stops=tuple(
            sum(run.look == number for run in found) / runs for number in range(1, len(looks) + 1)
        ),
        expected_units=sum(end.units for end in ends) / runs,
        expected_slots=sum(end.last for end in ends) / runs,
    )


def _wanted(protocol: Protocol) -> tuple[str, ...]:
    """Returns the verdicts that a run at the registered effect is meant to reach."""
    return ("adopt", "equivalent") if "equivalence" in decision_rules(protocol) else ("adopt",)


def _errors(protocol: Protocol) -> tuple[str, ...]:
    """Returns the verdicts that are errors at the border of the first rule."""
    if _either_way(protocol):
        return ("adopt", "reject")
    return ("adopt", "equivalent")


def _either_way(protocol: Protocol) -> bool:
    """Returns whether no difference at all lies at the border, so that either claim is an error."""
    return decision_rules(protocol) == ("superiority",) and not protocol.decision.margin


def _left_out(protocol: Protocol) -> Iterator[str]:
    if protocol.decision.harm is not None:
        simulated = simulated_protocol(protocol).decision.harm is not None
        yield "harm itself: its endpoints are drawn without one" if simulated else "harm endpoints"
    if protocol.decision.saving is not None:
        yield "the saving"
    if protocol.diagnostics.served_model == "inconclusive":
        yield "models that were not asked for"
    others = len(protocol.analysis.comparisons) - 1
    if others:
        yield f"{others} other comparisons; {gate_of(protocol).name} keeps its share of alpha"
    if len([each for each in protocol.endpoints if each.role == "primary"]) > 1:
        yield "correlation between primaries: they are drawn independently"
