"""`ledger close`: a ledger ends; only anchors and recoveries may follow."""

from __future__ import annotations

import re
from pathlib import Path

import click

from .acts import print_act
from .options import reason_option, verb, writing_options
from .output import Output

__all__ = ("command",)


def _ledger_id(ctx: click.Context, param: click.Parameter, value: str | None) -> str | None:
    if value is not None and not re.fullmatch("[0-9a-f]{32}", value):
        raise click.BadParameter("a ledger's id is 32 hex digits", ctx, param)
    return value


@verb(
    "close",
    example="""
    ledger close --reason "programme ended, archived"
    ledger export --bundle evidence.zip
    """,
)
@click.option(
    "--successor", callback=_ledger_id, metavar="ID", help="The ledger that continues this one."
)
@reason_option
@writing_options
def command(out: Output, ledger: Path, actor: str, reason: str, successor: str | None) -> None:
    """Closes a ledger whose experiments have all ended.

    The event names the count and root of everything before it. Nothing can be registered after it.
    """
    from fairtrial.custody.closing import close_ledger

    done = close_ledger(ledger, actor=actor, reason=reason, successor=successor)
    text = f"{done.event.basis.size:,} entries before it: {reason}"
    print_act(out, done, text, ledger=ledger, next_command="ledger export --bundle evidence.zip")
