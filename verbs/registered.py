"""Prints what `register` and `freeze` did, in either form."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from .output import Output, label

if TYPE_CHECKING:
    from fairtrial.engine.freezing import Design
    from fairtrial.engine.session import Registered
    from fairtrial.verdicts.power_values import PowerReport

__all__ = ("print_registered",)


def print_registered(out: Output, done: Registered, ledger: Path) -> None:
    """Prints text or JSON, the receipt, and what to type next."""
    from .text_plan import registered_text

    frozen = done.freeze is not None
    out.of(done.register.experiment, ledger)
    out.text(registered_text(done, ledger=str(ledger)))
    if done.sealed is not None:
        event = done.sealed.event
        level = f", on record as {event.level}" if event is not None else ""
        out.text(label("signed", f"{done.sealed.path.name}   {done.sealed.size:,} entries{level}"))
        if done.sealed.problem:
            out.note(done.sealed.problem)
    for one in done.waiting:
        out.text(label("waits", f"the run waits for {one.what}: {one.todo}"))
    out.end(
        {
            "v": 1,
            "experiment": done.register.experiment,
            "ledger": done.ledger,
            "opened": done.opened,
            "frozen": frozen,
            "register": done.register,
            "freeze": done.freeze,
            "without_row": sum(done.without_row.values()),
            "warnings": done.warnings,
            "freeze_would_refuse": done.refusals,
            "waiting": [one.what for one in done.waiting],
            "power": _power(done.design) if done.design is not None else None,
        },
        receipt=done.receipt,
        next_command=_next(done),
    )


def _next(done: Registered) -> str:
    if done.freeze is None:
        return "ledger amend --reason TEXT" if done.refusals else "ledger freeze"
    return done.waiting[0].todo if done.waiting else done.next


def _power(design: Design) -> PowerReport:
    """Returns what was found of the plan; of blinded arms no comparison is named."""
    from msgspec.structs import replace

    from fairtrial.protocols.terms import comparison_codes

    codes = comparison_codes(design.protocol)
    endpoints = (
        replace(each, comparison=codes.get(each.comparison, each.comparison))
        for each in design.power.endpoints
    )
    return replace(design.power, endpoints=tuple(endpoints))
