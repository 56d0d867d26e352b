"""A look (planned interim analysis) as people read it. Pure.

Leaves the numbers to the event.

Rules:
- Where the protocol says `continue_or_stop`, only whether the run goes on is shown.
- A look that can't decide says why.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from fairtrial.engine.look_view import LookView
from fairtrial.ledger.events import Look, LookComparison, LookEndpoint
from fairtrial.verdicts.interim import FutilityNote

from .output import label
from .text_numbers import count, difference, interval, named, p_value, quantity
from .text_rule import precision_text
from .text_tests import against_text
from .text_why import why_text

__all__ = ("look_text", "look_value")


def look_text(
    look: Look,
    view: LookView,
) -> str:
    """Returns a look in lines.

    Args:
        look: The event.
        view: What of it is shown, and where it stands in the plan.
    """
    planned = view.planned
    lines = [
        label(
            "look",
            f"{look.experiment}   look {look.number} of {planned} ({_kind(look, planned)}),"
            f" {_size_text(look)}, {view.fraction:.2f} of the information",
        )
    ]
    if not view.hidden:
        for comparison in look.comparisons:
            if view.target is None:
                lines += _comparison_lines(comparison, view)
            else:
                lines += _rule_lines(comparison, view.target)
        lines += [label("note", _note_text(note)) for note in view.notes]
    else:
        why = (
            "the arms are blinded: sealed until ledger unblind"
            if view.blinded
            else "the protocol shows only whether the run goes on, until the result"
        )
        lines.append(label("numbers", f"none, {why}"))
    lines.append(label("goes on", _goes_on(look, view)))
    return "\n".join(lines)


def _size_text(look: Look) -> str:
    units = quantity(look.units, "unit")
    if look.clusters == look.units:
        return units
    return f"{units} in {quantity(look.clusters, 'cluster')}"


def _note_text(note: FutilityNote) -> str:
    chance = f"{note.endpoint}: if the trend goes on, the last look crosses with chance"
    text = f"{chance} {100 * note.conditional_power:.1f} %"
    return f"{text}; registered as futile, and binds nobody" if note.is_futile else text


def _kind(look: Look, planned: int) -> str:
    return "planned final analysis" if look.number == planned else "planned interim analysis"


def _goes_on(look: Look, view: LookView) -> str:
    if look.number == view.planned:
        return "no: this was the last look"
    if not look.continues:
        return "no: a boundary was crossed"
    return "it did; the experiment has ended since" if view.ended else "yes"


def _comparison_lines(comparison: LookComparison, view: LookView) -> Iterator[str]:
    yield f"{comparison.treatment} minus {comparison.control}"
    for endpoint in comparison.endpoints:
        name = named(endpoint.name, view.measured_in.get(endpoint.name))
        points = endpoint.name in view.in_points
        yield label(name, _endpoint_text(endpoint, points, view))
    saving = view.savings.get(comparison.name)
    if saving is not None:
        yield label("found" if saving.positive else "checked", saving.text)


def _rule_lines(comparison: LookComparison, target: float) -> Iterator[str]:
    for one in comparison.endpoints:
        if one.estimate is None:
            text = one.undetermined or "no estimate"
        else:
            text = precision_text(
                one.estimate, one.lower, one.upper, flags=one.n, clusters=one.clusters
            )
        if not one.eligible:
            end = f"cannot decide ({why_text(one.why_not)})"
        else:
            end = {
                "no": "neither shown to reach it nor to miss it",
                "favourable": "REACHED",
                "against": "MISSED",
            }[one.crossed]
        yield label(one.name, f"{comparison.treatment}: {text}   target {100 * target:g} %: {end}")


def _endpoint_text(endpoint: LookEndpoint, points: bool, view: LookView) -> str:
    if endpoint.estimate is None:
        return endpoint.undetermined or "no estimate"
    text = f"{difference(endpoint.estimate, points=points)}   {count(endpoint.n)} {view.noun}"
    if not endpoint.eligible:
        why = why_text(endpoint.why_not)
        return f"{text}   cannot decide ({why}); this look spends nothing"
    limits = interval(endpoint.lower, endpoint.upper, points=points)
    crossed = {
        "no": "boundary not crossed",
        "favourable": "boundary CROSSED",
        "against": "boundary CROSSED, against the treatment",
    }[endpoint.crossed]
    if endpoint.p_value is None:
        return f"{text}   interval {limits}   {crossed}"
    against, log = view.against.get(endpoint.name), endpoint.name in view.logarithms
    null = None if against is None else {"difference": against.difference, "saving": against.saving}
    held = against_text(null, points=points, ratio=log)
    return (
        f"{text}   interval {limits}   p {p_value(endpoint.p_value)}{held},"
        f" needed {p_value(endpoint.nominal_p)}   {crossed}"
    )


def look_value(look: Look, view: LookView) -> Mapping[str, Any]:
    """Returns a look for JSON; with hidden looks no number of an arm is in it."""
    import msgspec

    if not view.hidden:
        shown = {"v": 1, "look": look.number, **msgspec.to_builtins(look)}
        shown["futility"] = [msgspec.to_builtins(note) for note in view.notes]
        savings = {name: msgspec.to_builtins(one) for name, one in view.savings.items()}
        return {**shown, "savings": savings} if savings else shown
    return {
        "v": 1,
        "experiment": look.experiment,
        "look": look.number,
        "units": look.units,
        "clusters": look.clusters,
        "information_fraction": view.fraction,
        "eligible": view.eligible,
        "continues": look.continues,
    }
