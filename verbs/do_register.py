"""`ledger register`: a protocol goes on record, and its units are frozen when they are there."""

from __future__ import annotations

from pathlib import Path

import click

from .options import key_option, power_report_option, protocol_argument, verb, writing_options
from .output import Output
from .registered import print_registered

__all__ = ("command",)


@verb(
    "register",
    example="""
    ledger register protocol.yaml
    ledger register protocol.yaml --override "demonstration, not committed"
    """,
)
@protocol_argument
@click.option("--no-freeze", is_flag=True, help="Register only; `ledger freeze` follows.")
@click.option(
    "--override",
    metavar="REASON",
    help="Register files that aren't committed, although the protocol asks for it; kept for ever.",
)
@click.option(
    "--supersedes", metavar="EXPERIMENT", help="The withdrawn experiment that this one replaces."
)
@power_report_option
@key_option
@writing_options
def command(
    out: Output,
    protocol: Path,
    ledger: Path,
    actor: str,
    no_freeze: bool,
    override: str | None,
    supersedes: str | None,
    power_report: Path | None,
    key: str | None,
) -> None:
    """Puts a protocol on record and freezes its units, run order and looks.

    Opens the ledger when there is none. The same protocol again changes nothing; another one under
    the same id is refused.
    """
    from fairtrial.engine.session import register_protocol
    from fairtrial.ledger.given import read_optional

    done = register_protocol(
        ledger,
        protocol,
        actor=actor,
        with_freeze=not no_freeze,
        override=override,
        supersedes=supersedes,
        power_report=read_optional(power_report, what="the power report"),
        key=key,
    )
    print_registered(out, done, ledger)
