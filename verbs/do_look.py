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
    from fairtrial.engine.assigning import is_assigned
    from fairtrial.engine.interim import read_notes
    from fairtrial.engine.session import look_at
    from fairtrial.engine.story import read_protocol
    from fairtrial.engine.wording import in_points

    from .text_look import look_text, look_value

    look, receipt = look_at(ledger, experiment, actor=actor, number=number, key=key)
    protocol = read_protocol(ledger, look.experiment)
    hidden = protocol.blinding.looks == "continue_or_stop"
    # Where anyone may look at any time, nobody planned how often.
    planned = len(protocol.looks.at) or look.number + int(look.continues)
    points = frozenset(one.name for one in protocol.endpoints if in_points(one))
    asked = protocol.looks.futility is not None and not hidden
    notes = read_notes(ledger, look.experiment, look.number) if asked else []
    out.text(
        look_text(
            look,
            planned=planned,
            in_points=points,
            hidden=hidden,
            notes=notes,
            noun="units" if is_assigned(protocol) else "pairs",
        )
    )
    ended = look.number == planned or not look.continues
    out.end(
        look_value(look, hidden=hidden, notes=notes),
        receipt=receipt,
        next_command="ledger result" if ended else "ledger run",
    )
