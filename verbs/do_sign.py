"""`ledger sign`: a person signs an entry."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, cast

import click

from .options import verb, writing_options
from .output import Output, label

if TYPE_CHECKING:
    from fairtrial.custody.approving import Meaning

__all__ = ("command",)


@verb(
    "sign",
    example="""
    ledger key new ada --use person
    ledger sign 2 --meaning approved --role statistician --name "Ada Example" --key ada
    """,
)
@click.argument("entry")
@click.option("--meaning", type=click.Choice(["reviewed", "approved", "rejected"]), required=True)
@click.option("--role", required=True, metavar="ROLE", help="In which role, as in the protocol.")
@click.option("--name", required=True, metavar="NAME", help="The person's name, as it is shown.")
@click.option("--key", required=True, metavar="KEY", help="The person's key (--use person).")
@writing_options
def command(
    out: Output,
    entry: str,
    meaning: str,
    role: str,
    name: str,
    key: str,
    ledger: Path,
    actor: str,
) -> None:
    """Signs ENTRY (its number, or the id b3:… of its event) with a meaning, on record.

    The signature is bound to the entry, the name, the role, the meaning and the time, and replay
    checks it. Whose the key is, no ledger shows: keep a list of verifier keys elsewhere.
    """
    from fairtrial.custody.anchor_acts import sign_event

    said = cast("Meaning", meaning)
    done = sign_event(ledger, entry, actor=actor, meaning=said, role=role, signer=name, key=key)
    subject = done.event.subject.seq
    kind = type(done.subject).__name__.lower()
    out.text(label("sign", f"entry {subject:,} ({kind}) {meaning} by {name}, {role}"))
    out.end({"v": 1, "event": done.event}, receipt=done.receipt, next_command="ledger status")
