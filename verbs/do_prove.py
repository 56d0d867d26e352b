"""`ledger prove`: a proof that an entry is in the ledger, or that the ledger grew from a head."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from .options import ledger_option, verb
from .output import Output, label, shell_word

if TYPE_CHECKING:
    from fairtrial.custody.anchor_acts import Proved

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
@click.option(
    "--rotations",
    is_flag=True,
    help="Also write a proof of each rotation of the key before that head.",
)
@ledger_option
def command(
    out: Output,
    entry: str | None,
    old: str | None,
    checkpoint: Path | None,
    target: Path | None,
    rotations: bool,
    ledger: Path,
) -> None:
    """Writes a proof about ENTRY (its number, or the id b3:… of its event), with the entry in it.

    Whoever gets the file can check it without the ledger: ledger verify-proof. With --consistency
    the proof shows that a ledger only grew since an earlier head. Whoever pinned a key that was
    replaced since also needs the files of --rotations, NAME.rotation-ENTRY.tlog-proof.
    """
    from fairtrial.custody.anchor_acts import prove_entry, prove_from

    if (entry is None) == (old is None):
        raise click.UsageError("give an entry to prove, or --consistency OLD")
    if entry is not None:
        done = prove_entry(ledger, entry, checkpoint=checkpoint, target=target, rotations=rotations)
    else:
        assert old is not None
        done = prove_from(ledger, old, checkpoint=checkpoint, target=target, rotations=rotations)
    out.essential(label("proof", f"{done.path}   {done.about}, in a ledger of {done.size:,}"))
    for path in done.rotations:
        out.essential(label("rotation", f"{path}"))
    if rotations and not done.rotations:
        out.text(label("rotation", "none: the key is the ledger's first one"))
    if old is not None and old.isdecimal():
        out.text(label("check", f"with a receipt or checkpoint of exactly {int(old):,} entries"))
    out.text(label("signed by", f"{done.vkey}   (give it by another way than the proof)"))
    out.end(
        {
            "v": 1,
            "proof": str(done.path),
            "about": done.about,
            "size": done.size,
            "vkey": done.vkey,
            "rotations": [str(path) for path in done.rotations],
        },
        next_command=_check_command(done, old),
    )


def _check_command(done: Proved, old: str | None) -> str:
    """Returns how a proof is checked, with rotations by who pinned the ledger's first key.

    Of an earlier head that was named by its size alone a receipt is to be found first.
    """
    words = ["ledger verify-proof", shell_word(done.path)]
    words += ["--vkey", done.first_vkey if done.rotations else done.vkey]
    words += [f"--rotation {shell_word(path)}" for path in done.rotations]
    if old is not None:
        words.append(f"--against {'RECEIPT' if old.isdecimal() else shell_word(Path(old))}")
    return " ".join(words)
