"""What a plan can find, as people read it. Pure.

Leaves every number to the engine.

Rules:
- A share is printed with the limits that its number of runs leaves, the exact ones of a binomial.
- What each line rests on stands below it; what was left out, above what follows.
"""

from __future__ import annotations

from collections.abc import Iterator

import msgspec

from fairtrial.engine.powering import BoundaryAnswer, PowerAnswer
from fairtrial.engine.simulating import Simulation, SimulationCase
from fairtrial.verdicts.power_terms import PowerTerms

from .output import label
from .text_formula import assumed_text, formula_text
from .text_numbers import count, quantity, signed
from .text_rule import capacity_text

__all__ = ("boundary_text", "power_text")


def power_text(answer: PowerAnswer) -> str:
    """Returns what `ledger power` has to say."""
    formula = answer.formula
    lines = [label("power", answer.experiment)]
    if answer.terms is not None:
        lines.append(label("formula", formula_text(formula, answer.terms)))
        if formula.power is not None or formula.smallest_difference is not None:
            lines.append(label("", f"assumed: {_of_protocol(answer.terms)} (of the protocol)"))
    if formula.capacity is not msgspec.UNSET:
        lines.append(label("capacity", capacity_text(formula.capacity)))
    if answer.simulation is None:
        lines.append(label("simulated", f"no: {answer.why_not}"))
    else:
        lines += _simulation_lines(answer.simulation)
    lines += [
        label("refused", f"{name}: {sentence}     (register would refuse)")
        for name, sentence in formula.refused.items()
    ]
    return "\n".join(lines)


def _simulation_lines(found: Simulation) -> Iterator[str]:
    yield label("simulated", f"{count(found.runs)} runs a case, seed {found.seed}")
    yield label("", f"assumed: {_assumed_text(found)}")
    if found.not_simulated:
        yield label("left out", "; ".join(found.not_simulated))
    for case in found.cases:
        yield from _case_lines(case, found.runs)
    same = f"{count(found.agreed)} of {count(found.checked)}"
    yield label("checked", f"computed again from events: {same} runs came out alike")


def _assumed_text(found: Simulation) -> str:
    assumed = found.assumed
    where = "of the protocol" if assumed.units is None else f"of a pilot of {assumed.units} units"
    text = assumed_text(
        discordance=assumed.discordance, sd=assumed.sd, icc=assumed.icc, missing=assumed.missing
    )
    return f"{text} ({where})"


def _of_protocol(terms: PowerTerms) -> str:
    return assumed_text(
        discordance=terms.discordance, sd=terms.sd, icc=terms.icc, missing=terms.missing
    )


def _share(case: SimulationCase, runs: int) -> str:
    """Returns the share of runs with what so many runs leave open of it."""
    low, high = 100 * case.lower, 100 * case.upper
    if case.intended == 1.0:
        range_ = f"at least {low:.1f} %"
    elif case.intended == 0.0:
        range_ = f"at most {high:.1f} %"
    else:
        range_ = f"{low:.1f} to {high:.1f} %"
    return f"{100 * case.intended:.1f} % ({range_}, {quantity(runs, 'run')})"


def _case_lines(case: SimulationCase, runs: int) -> Iterator[str]:
    name = "at effect" if case.name == "at_effect" else "at border"
    word = "power" if case.name == "at_effect" else "type-I error"
    verdicts = ", ".join(f"{word} {100 * part:.1f} %" for word, part in case.verdicts.items())
    yield label(name, f"true difference {signed(case.effect)}: {word} {_share(case, runs)}")
    yield label("", f"verdicts: {verdicts}")
    if case.reasons:
        reasons = ", ".join(
            f"{code.replace('_', ' ')} {100 * part:.1f} %" for code, part in case.reasons.items()
        )
        yield label("", f"inconclusive for: {reasons}")
    stops = ", ".join(
        f"look {number} {100 * part:.1f} %"
        for number, part in enumerate(case.stops, start=1)
        if part
    )
    size = f"{case.expected_units:.0f} units, {case.expected_slots:.0f} slots"
    yield label("", f"ends with {stops}; uses {size} on average")


def boundary_text(found: BoundaryAnswer) -> str:
    """Returns a classical boundary, ready for the protocol file."""
    values = ", ".join(f"{z:.6f}" for z in found.boundary)
    fractions = ", ".join(f"{share:.4f}" for share in found.fractions)
    delta = "" if found.delta is None else f" with delta {found.delta:g}"
    return "\n".join(
        [
            label("boundary", f"{found.family}{delta} for {found.experiment}"),
            label("looks", f"at {fractions} of the information"),
            label("alpha", f"{found.alpha:g}, {'two' if found.sides == 2 else 'one'}-sided"),
            label("use", f"looks: {{boundary: [{values}]}}"),
        ]
    )
