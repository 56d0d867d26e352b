"""`ledger verify-proof`: checks a proof without the ledger."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from .options import output_options, pin_options, verb
from .output import Ending, Output, label

if TYPE_CHECKING:
    from fairtrial.custody.proof_check import ProofReport

__all__ = ("command",)

_ENDINGS: dict[str, Ending] = {
    "holds": "done",
    "unvouched": "not_as_required",
    "corrupt": "corrupt",
    "forked": "forked",
}
_WORDS = {
    "holds": "HOLDS",
    "unvouched": "UNVOUCHED",
    "corrupt": "DOESN'T HOLD",
    "forked": "AT ODDS WITH WHAT WAS GIVEN",
}


@verb(
    "verify-proof",
    example="""
    ledger verify-proof entry-5.tlog-proof --vkey example.org/x+00000000+AQ==
    ledger verify-proof growth.proof --policy policy.txt --against receipt.txt
    """,
)
@click.argument("proof", type=click.Path(path_type=Path))
@click.option(
    "--against",
    multiple=True,
    metavar="LINE|FILE",
    help="A receipt or checkpoint from elsewhere; a proof of growth needs the old one.",
)
@click.option(
    "--entry",
    type=click.Path(path_type=Path),
    metavar="FILE",
    help="The entry's line, when the proof doesn't carry it.",
)
@click.option(
    "--rotation",
    "rotations",
    type=click.Path(path_type=Path),
    multiple=True,
    metavar="FILE",
    help="A proof of a rotation, which leads on from the pinned key; may be repeated.",
)
@pin_options
@output_options
def command(
    out: Output,
    proof: Path,
    against: tuple[str, ...],
    entry: Path | None,
    rotations: tuple[Path, ...],
    vkeys: tuple[str, ...],
    origin: str | None,
    policy: Path | None,
) -> Ending:
    """Checks a proof, without the ledger that it is about.

    What vouches for it has to come from elsewhere: the ledger's verifier key, a policy with its
    witnesses, or a receipt. From a key that was replaced since, the proofs of the rotations lead on
    (ledger prove --rotations). Exit code 10: it agrees with itself and nothing vouches for it.
    12: it doesn't hold. 13: what was given is of another ledger, or of a key that didn't sign it.
    """
    from fairtrial.custody.anchor_acts import verify_proof
    from fairtrial.custody.vouching import read_pins
    from fairtrial.ledger.errors import visible

    pins = read_pins(vkeys=vkeys, origin=origin, policy=policy)
    report = verify_proof(proof, pins=pins, against=against, entry=entry, rotations=rotations)
    out.text(_text(report))
    reason = f" ({visible(report.reason)})" * bool(report.reason)
    out.essential(f"PROOF: {_WORDS[report.record]}{reason}")
    out.end(report)
    return _ENDINGS[report.record]


def _text(report: ProofReport) -> str:
    from fairtrial.ledger.errors import visible

    from .text_log import entry_page, read_entry

    lines = [label("ledger", f"{visible(report.origin)}   {report.size:,} entries")]
    if report.old is not None:
        lines.append(label("growth", f"the first {report.old:,} entries are unchanged in it"))
    if report.seq is not None and report.entry is None:
        lines.append(label("entry", f"{report.seq:,}   not of this format"))
    if report.record in ("corrupt", "forked"):
        # What doesn't hold isn't shown as if it did.
        lines = lines[:1]
    elif report.entry is not None:
        lines += ["", entry_page(read_entry(report.entry.encode()), report.leaf or ""), ""]
    lines.append(label("vouched", "; ".join(report.vouched_by) or "by nothing from elsewhere"))
    return "\n".join(lines)
