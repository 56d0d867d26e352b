"""`ledger prove`: a proof that an entry is in the ledger, or that the ledger grew from a head."""

from __future__ import annotations

from pathlib import Path

import click

from .options import ledger_option, verb
from .output import Output, label, shell_word

__all__ = ("command",)


@verb(
    "prove",
    example="""
    ledger checkpoint --key lab
    ledger prove 5
    ledger prove --consistency receipt.txt --output growth.proof
    """,
)
@click.argument("entry", required=False, metavar="[ENTRY]")
@click.option(
    "--consistency",
    "old",
    metavar="OLD",
    help="Prove growth from a receipt, a file with a receipt or checkpoint, or a size.",
)
@click.option(
    "--checkpoint",
    type=click.Path(path_type=Path),
    metavar="FILE",
    help="The signed head to prove it for; default: the newest beside the ledger.",
)
@click.option(
    "--output",
    "target",
    type=click.Path(path_type=Path),
    metavar="FILE",
    help="Where the proof goes; default: a name in this folder that says what it is.",
)
@ledger_option
def command(
    out: Output,
    entry: str | None,
    old: str | None,
    checkpoint: Path | None,
    target: Path | None,
    ledger: Path,
) -> None:
    """Writes a proof about ENTRY (its number, or the id b3:… of its event), with the entry in it.

    Whoever gets the file can check it without the ledger: ledger verify-proof. With --consistency
    the proof shows that a ledger only grew since an earlier head.
    """
    from fairtrial.custody.anchor_acts import prove_entry, prove_from

    if (entry is None) == (old is None):
        raise click.UsageError("give an entry to prove, or --consistency OLD")
    if entry is not None:
        done = prove_entry(ledger, entry, checkpoint=checkpoint, target=target)
    else:
        assert old is not None
        done = prove_from(ledger, old, checkpoint=checkpoint, target=target)
    out.essential(label("proof", f"{done.path}   {done.about}, in a ledger of {done.size:,}"))
    out.text(label("signed by", f"{done.vkey}   (give it by another way than the proof)"))
    how = f"--vkey {done.vkey}" + ("" if old is None else " --against OLD")
    out.end(
        {
            "v": 1,
            "proof": str(done.path),
            "about": done.about,
            "size": done.size,
            "vkey": done.vkey,
        },
        next_command=f"ledger verify-proof {shell_word(done.path)} {how}",
    )
