"""`ledger redact`: a blob is erased on record; the ledger keeps its digest and the reason."""

from __future__ import annotations

from pathlib import Path

import click

from .acts import print_act
from .options import reason_option, verb, writing_options
from .output import Output

__all__ = ("command",)


@verb(
    "redact",
    example="""
    ledger show 412
    ledger redact 412:stdout --reason "held a patient's name"
    """,
)
@click.argument("what", metavar="BLOB|SEQ:NAME")
@reason_option
@writing_options
def command(out: Output, what: str, ledger: Path, actor: str, reason: str) -> None:
    """Erases a blob, such as an artifact of an outcome; every entry stays, and so does the root.

    BLOB is its BLAKE3 or SHA-256; SEQ:NAME an entry and the member that names it. What
    register, freeze, amend, look and anchor name (protocol, units, plan, lists of files) can't be
    erased: without it nobody could check the record. Copies elsewhere, answers in the cache and
    what the disk keeps of a removed file are not in reach of this command.
    """
    from fairtrial.custody.redacting import redact_blob

    done = redact_blob(ledger, what, actor=actor, reason=reason)
    size = f"{done.event.blob.size:,} bytes"
    bytes_ = f"{size} erased" if done.was_here else f"{size} were not here any more"
    text = f"{bytes_}: {done.event.reason}" + ("" if done.fresh else " (on record already)")
    print_act(out, done, text, ledger=ledger, next_command="ledger replay")
