"""`ledger status`: what is settled, what it has cost, what comes next."""

from __future__ import annotations

from pathlib import Path

from .options import experiment_argument, ledger_option, verb
from .output import Output

__all__ = ("command",)


@verb(
    "status",
    example="""
    ledger status
    ledger status router-ab --json
    """,
)
@experiment_argument
@ledger_option
def command(out: Output, experiment: str | None, ledger: Path) -> None:
    """Shows what is settled, what it has cost and what comes next; writes nothing.

    Verifies nothing either: older entries that were read here before aren't read again. `ledger
    replay` reads them all.

    States: registered, frozen, running, interrupted, look_due, unfinished, complete, closed,
    withdrawn. Without EXPERIMENT all experiments of the ledger are shown; with several, JSON has
    them under `experiments`.
    """
    from fairtrial.engine.inspecting import status

    from .text_status import status_text

    found = status(ledger, experiment)
    out.text("\n\n".join(status_text(one) for one in found) or "no experiment is registered yet")
    if len(found) == 1:
        out.end(found[0], next_command=found[0].next)
    else:
        goes_on = [one.next for one in found if one.state not in ("closed", "withdrawn")]
        goes_on += [one.next for one in found if one.state == "withdrawn" and one.next]
        following = next(iter(goes_on), None)
        out.end(
            {"v": 1, "experiments": found},
            next_command=following or "ledger register PROTOCOL",
        )
