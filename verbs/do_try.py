"""`ledger try`: one attempt on a declared pilot unit; nothing is recorded."""

from __future__ import annotations

from pathlib import Path

import click

from .options import output_options, protocol_argument, verb
from .output import Ending, Output, shell_word

__all__ = ("command",)


@verb(
    "try",
    example="""
    ledger try protocol.yaml
    ledger try protocol.yaml --arm candidate --unit pilot-1
    """,
)
@protocol_argument
@click.option("--arm", metavar="ARM", help="The arm to ask; default: each of them.")
@click.option("--unit", metavar="UNIT", help="The pilot unit; default: the first.")
@click.option("--show-score", is_flag=True, help="Show the score too.")
@output_options
def command(
    out: Output, protocol: Path, arm: str | None, unit: str | None, show_score: bool
) -> Ending:
    """Makes one attempt on a pilot unit (units.pilot of PROTOCOL); nothing is recorded.

    Units of the plan can't be tried. Exit code 4: an attempt ended without an answer.
    """
    from fairtrial.engine.try_unit import try_unit

    from .text_try import tried_text, try_value

    found = try_unit(protocol, arm=arm, unit=unit)
    for tried in found:
        out.text(tried_text(tried, show_score=show_score))
    out.text("nothing was recorded")
    answered = all(tried.answer.status in ("ok", "failed") for tried in found)
    # What was tried is tried again, and a plan is registered whole.
    again = [f"--arm {arm}"] if arm else []
    again += [f"--unit {shell_word(Path(unit))}"] if unit else []
    words = (
        ["register", shell_word(protocol)] if answered else ["try", shell_word(protocol), *again]
    )
    out.end(
        {"v": 1, "recorded": False, "tried": [try_value(t, show_score=show_score) for t in found]},
        next_command=" ".join(["ledger", *words]),
    )
    return "done" if answered else "unfinished"
