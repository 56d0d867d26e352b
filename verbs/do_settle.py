"""`ledger settle`: a person corrects the cost of a lost attempt."""

from __future__ import annotations

from pathlib import Path

import click

from .acts import print_act
from .options import reason_option, verb, writing_options
from .output import Output

__all__ = ("command",)

# What an event can hold, in whole usd.
_USD_MAX = 9_007_199


def _amount(ctx: click.Context, param: click.Parameter, value: str) -> str:
    from decimal import Decimal, InvalidOperation

    try:
        amount = Decimal(value)
    except InvalidOperation:
        amount = Decimal("NaN")
    if not (amount.is_finite() and 0 <= amount <= _USD_MAX) or amount != round(amount, 9):
        text = f"an amount of usd from 0 to {_USD_MAX:,}, at most nine decimals"
        raise click.BadParameter(text, ctx, param)
    return value


@verb(
    "settle",
    example="""
    ledger log --kind attempt_end
    ledger settle 412 --usd 0 --reason "invoice 2026-11: not charged"
    """,
)
@click.argument("seq", type=click.IntRange(min=0))
@click.option("--usd", required=True, callback=_amount, help="What was really spent.")
@click.option("--experiment", metavar="EXPERIMENT", help="When the ledger holds several.")
@reason_option
@writing_options
def command(
    out: Output,
    seq: int,
    usd: str,
    experiment: str | None,
    ledger: Path,
    actor: str,
    reason: str,
) -> None:
    """Corrects the cost of a lost or interrupted attempt, named by the entry of its end.

    An attempt that a crash cut off keeps its whole reservation until a person knows better.
    """
    from fairtrial.engine.session import settle_cost

    done = settle_cost(ledger, experiment, actor=actor, seq=seq, usd=usd, reason=reason)
    print_act(
        out,
        done,
        f"entry {seq:,}: {usd} usd, {reason}",
        ledger=ledger,
        next_command="ledger status",
    )
