"""What a plan can find, as people read it. Pure.

Leaves every number to the engine.

Rules:
- A share is printed with the error that its number of runs leaves.
- What was assumed and what was left out stand above what follows from it.
"""

from __future__ import annotations

from collections.abc import Iterator

import msgspec

from fairtrial.engine.powering import BoundaryAnswer, PowerAnswer
from fairtrial.engine.simulating import Simulation, SimulationCase

from .output import label
from .text_numbers import count, plain, signed
from .text_rule import capacity_text

__all__ = ("boundary_text", "power_text")


def power_text(answer: PowerAnswer) -> str:
    """Returns what `ledger power` has to say."""
    formula = answer.formula
    parts = []
    if formula.power is not None and formula.effect is not None:
        parts.append(f"power {formula.power:.2f} for a difference of {plain(formula.effect)}")
    if formula.smallest_difference is not None:
        least = plain(formula.smallest_difference)
        parts.append(f"smallest difference found with {100 * formula.target:.0f} %: {least}")
    lines = [
        label("power", answer.experiment),
        label("formula", "; ".join(parts) or "not known: nothing is assumed of the spread"),
    ]
    if formula.capacity is not msgspec.UNSET:
        lines[1] = label("capacity", capacity_text(formula.capacity))
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
    yield label("assumed", _assumed_text(found))
    if found.not_simulated:
        yield label("left out", "; ".join(found.not_simulated))
    yield label("simulated", f"{count(found.runs)} runs a case, seed {found.seed}")
    for case in found.cases:
        yield from _case_lines(case)
    same = f"{count(found.agreed)} of {count(found.checked)}"
    yield label("checked", f"computed again from events: {same} runs came out alike")


def _assumed_text(found: Simulation) -> str:
    assumed = found.assumed
    spread = (
        f"discordance {plain(assumed.discordance)}"
        if assumed.discordance is not None
        else f"sd {plain(assumed.sd)}"
    )
    where = "of the protocol" if assumed.units is None else f"of a pilot of {assumed.units} units"
    return f"{spread}, icc {plain(assumed.icc)}, lost {100 * assumed.missing:.1f} % ({where})"


def _case_lines(case: SimulationCase) -> Iterator[str]:
    name = "at effect" if case.name == "at_effect" else "at border"
    word = "power" if case.name == "at_effect" else "type-I error"
    share = f"{100 * case.intended:.1f} % (+- {196 * case.standard_error:.1f})"
    verdicts = ", ".join(f"{word} {100 * part:.1f} %" for word, part in case.verdicts.items())
    yield label(name, f"true difference {signed(case.effect)}: {word} {share}")
    yield label("", f"verdicts: {verdicts}")
    if case.reasons:
        reasons = ", ".join(
            f"{code.replace('_', ' ')} {100 * part:.1f} %" for code, part in case.reasons.items()
        )
        yield label("", f"inconclusive for: {reasons}")
    stops = ", ".join(
        f"look {number} {100 * part:.1f} %" for number, part in enumerate(case.stops, start=1)
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
