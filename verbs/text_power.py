"""What a plan can find, as people read it. Pure.

Leaves every number to the engine.

Rules:
- A share is printed with the limits that its number of runs leaves, the exact ones of a binomial.
- What each line rests on stands below it; what was left out, above what follows.
"""

from __future__ import annotations

from collections.abc import Iterator

import msgspec

from fairtrial.engine.assumed_savings import AssumedSaving
from fairtrial.engine.assuming import Assumed
from fairtrial.engine.assumptions import AssumedComparison
from fairtrial.engine.powering import BoundaryAnswer, PowerAnswer
from fairtrial.engine.simulation_report import Simulation, SimulationCase
from fairtrial.verdicts.power_terms import PowerTerms
from fairtrial.verdicts.saving_error import saving_warning

from .output import label
from .text_formula import assumed_text, formula_text
from .text_numbers import clip, count, difference, measured, plain, quantity
from .text_rule import capacity_text

__all__ = ("boundary_text", "power_text")

_NAMES = {"at_effect": "at effect", "at_border": "at border", "at_saving_border": "at saving"}


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
        lines += _simulation_lines(answer.simulation, answer.terms)
    if formula.saving_error is not msgspec.UNSET:
        lines.append(label("warning", saving_warning(formula.saving_error)))
    lines += [label("warning", one.text) for one in answer.warnings]
    lines += [
        label("refused", f"{name}: {sentence}     (register would refuse)")
        for name, sentence in formula.refused.items()
    ]
    return "\n".join(lines)


def _simulation_lines(found: Simulation, terms: PowerTerms | None) -> Iterator[str]:
    yield label("simulated", f"{count(found.runs)} runs a case, seed {found.seed}")
    several = len(found.assumptions) > 1
    if not several:
        yield label("", f"assumed: {_assumed_text(found.assumed)}")
    for each in found.assumptions:
        yield from _comparison_lines(each, terms, several=several)
    if found.stated is not None:
        yield label("", f"the file says: {clip(found.stated, 120)}")
    if found.not_simulated:
        yield label("left out", "; ".join(found.not_simulated))
    for case in found.cases:
        yield from _case_lines(case, found.runs, terms)
    same = f"{count(found.agreed)} of {count(found.checked)}"
    yield label("checked", f"computed again from events: {same} runs came out alike")


def _comparison_lines(
    found: AssumedComparison, terms: PowerTerms | None, *, several: bool
) -> Iterator[str]:
    """Yields what one of several comparisons assumes, and what its saving does."""
    own = f"assumed of {found.comparison}: " if several else "assumed: "
    if several and found.pairs is None:
        yield label("", f"{own}nothing, it follows from the others")
    elif several and found.pairs is not None:
        truth = _truth(found.effect, terms)
        effect = "" if found.effect is None else f"true difference {truth}, "
        yield label("", f"{own}{effect}{_assumed_text(found.pairs)}")
    if found.saving is not None:
        yield label("", f"{own}{_saving_text(found.saving)}")


def _saving_text(saving: AssumedSaving) -> str:
    scale = "log scale" if saving.scale == "log" else "raw scale"
    parts = [
        f"saving on {saving.endpoint}: ratio {plain(saving.ratio)}",
        f"sd {plain(saving.sd)} on the {scale}",
        f"icc {plain(saving.icc)}",
    ]
    if saving.mean is not None:
        parts.append(f"control's mean {plain(saving.mean)}")
    if saving.level_sd is not None:
        parts.append(f"level sd {plain(saving.level_sd)}, icc {plain(saving.level_icc or 0.0)}")
    return f"{', '.join(parts)} ({_where(saving.source, saving.units)})"


def _assumed_text(assumed: Assumed) -> str:
    text = assumed_text(
        discordance=assumed.discordance, sd=assumed.sd, icc=assumed.icc, missing=assumed.missing
    )
    return f"{text} ({_where(assumed.source, assumed.units)})"


def _where(source: str, units: int | None) -> str:
    if source == "pilot":
        return f"of a pilot of {units} units"
    return "of the protocol" if source == "protocol" else "of the file of assumptions"


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
    return f"{100 * case.intended:.1f} % ({range_}: 95 % limits, {quantity(runs, 'run')})"


def _truth(effect: float | None, terms: PowerTerms | None) -> str:
    """Returns a true difference in what the first primary endpoint is measured in."""
    if terms is None or effect is None:
        return difference(effect, points=False)
    return measured(difference(effect, points=terms.points), terms.measured_in)


def _case_lines(case: SimulationCase, runs: int, terms: PowerTerms | None) -> Iterator[str]:
    name, word = _NAMES[case.name], "power" if case.name == "at_effect" else "type-I error"
    verdicts = ", ".join(f"{word} {100 * part:.1f} %" for word, part in case.verdicts.items())
    truth = f"true difference {_truth(case.effect, terms)}"
    if case.name == "at_saving_border":
        truth += " and no more saved than the least"
    yield label(name, f"{truth}: {word} {_share(case, runs)}")
    if case.all_intended is not None and case.any_intended is not None:
        each = ", ".join(f"{own} {100 * part:.1f} %" for own, part in case.comparisons.items())
        both = f"all {100 * case.all_intended:.1f} %, any {100 * case.any_intended:.1f} %"
        yield label("", f"by comparison: {each}; {both}")
    yield label("", f"verdicts: {verdicts}")
    if case.reasons:
        reasons = ", ".join(
            f"{code.replace('_', ' ')} {100 * part:.1f} %" for code, part in case.reasons.items()
        )
        yield label("", f"inconclusive for: {reasons}")
    stops = ", ".join(
        f"look {number} in {100 * part:.1f} % of runs"
        for number, part in enumerate(case.stops, start=1)
        if part
    )
    size = f"{case.expected_units:.0f} units, {case.expected_slots:.0f} slots"
    yield label("", f"ends at {stops}; uses {size} on average")


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
