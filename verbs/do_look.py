"""`ledger look`: a planned interim analysis, taken when it is due."""

from __future__ import annotations

from pathlib import Path

import click

from .options import experiment_argument, key_option, verb, writing_options
from .output import Output

__all__ = ("command",)


@verb(
    "look",
    example="""
    ledger look
    ledger look --number 1 --json
    """,
)
@experiment_argument
@click.option(
    "--number", type=click.IntRange(min=1), help="Which look; default: the due or newest one."
)
@key_option
@writing_options
def command(
    out: Output,
    experiment: str | None,
    ledger: Path,
    actor: str,
    number: int | None,
    key: str | None,
) -> None:
    """Shows a look (planned interim analysis); takes it when it is due.

    A look that was taken is shown again and spends nothing. One that isn't planned or isn't due is
    refused, and the refusal is on record: alpha is spent by the plan alone.
    """
    from fairtrial.engine.look_view import read_look_view
    from fairtrial.engine.session import look_at

    from .text_look import look_text, look_value

    look, receipt = look_at(ledger, experiment, actor=actor, number=number, key=key)
    view = read_look_view(ledger, look)
    out.of(look.experiment, ledger)
    out.text(look_text(look, view))
    out.end(look_value(look, view), receipt=receipt, next_command=view.next)
