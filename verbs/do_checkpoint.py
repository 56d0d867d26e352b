"""`ledger checkpoint`: the present head, signed."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from .options import key_option, verb, writing_options
from .output import Output, label

if TYPE_CHECKING:
    from fairtrial.custody.anchor_acts import Checkpointed

__all__ = ("command",)


@verb(
    "checkpoint",
    example="""
    ledger checkpoint --key lab
    ledger checkpoint --embed --key lab
    ledger checkpoint --note cosigned.note --policy policy.txt
    ledger checkpoint --request stamp.tsq
    ledger checkpoint --note 000004.note --token stamp.tsr --authority roots.pem
    """,
)
@click.option("--embed", is_flag=True, help="Put the signed head on record too, as an anchor.")
@click.option(
    "--note",
    type=click.Path(path_type=Path),
    metavar="FILE",
    help="Put this signed head on record, with the cosignatures that it has.",
)
@click.option(
    "--token",
    type=click.Path(path_type=Path),
    metavar="FILE",
    help="With --note: a time stamp over it (RFC 3161, .tsr).",
)
@click.option(
    "--request",
    type=click.Path(path_type=Path),
    metavar="FILE",
    help="Write a request for a time stamp (.tsq) over --note, or over the newest head.",
)
@click.option(
    "--policy",
    type=click.Path(path_type=Path),
    metavar="FILE",
    envvar="FAIRTRIAL_POLICY",
    show_envvar=True,
    help="Witnesses and their quorum: a note that they cosigned goes on record as witness.",
)
@click.option(
    "--authority",
    type=click.Path(path_type=Path),
    metavar="FILE",
    envvar="FAIRTRIAL_TSA_ROOTS",
    show_envvar=True,
    help="Certificates (PEM) of the time stamp authorities that you trust; --token needs them.",
)
@key_option
@writing_options
def command(
    out: Output,
    embed: bool,
    note: Path | None,
    token: Path | None,
    request: Path | None,
    policy: Path | None,
    authority: Path | None,
    key: str | None,
    ledger: Path,
    actor: str,
) -> None:
    """Signs the present head and writes it beside the ledger as a checkpoint.

    The bytes are read again first, and a ledger that isn't a continuation of what this machine
    signed before gets no signature. A checkpoint vouches for the ledger where it is kept by someone
    else, cosigned by witnesses, or stamped; beside the ledger it is the ledger's own word.

    Time stamps need the extra: pip install 'fairtrial[timestamp]'. Where a protocol requires one,
    register, freeze, look, run and result ask for it at FAIRTRIAL_TSA (an address) and judge it by
    FAIRTRIAL_TSA_ROOTS; where it requires witnesses, they are those of FAIRTRIAL_POLICY. What was
    signed last is remembered in FAIRTRIAL_STATE (~/.local/state/fairtrial). docs/anchoring.md
    shows the whole way.
    """
    from fairtrial.custody.anchor_acts import checkpoint_ledger, request_stamp

    if token is not None and note is None:
        raise click.UsageError("--token goes with the note that it is over: --note FILE")
    if request is not None:
        over = request_stamp(ledger, note, request)
        out.text(label("request", f"{request}   over {over}"))
        out.end({"v": 1, "request": str(request), "note": str(over)})
        return
    done = checkpoint_ledger(
        ledger,
        actor=actor,
        key=key,
        embed=embed,
        note=note,
        token=token,
        policy=policy,
        authority=authority,
    )
    print_checkpoint(out, done)


def print_checkpoint(out: Output, done: Checkpointed) -> None:
    """Prints where a signed head lies and what became of it, in either form."""
    out.text(label("note", f"{done.path}   {done.size:,} entries, signed"))
    if done.cosigned:
        out.text(label("cosigned", f"{', '.join(done.cosigned)}: the quorum of the policy holds"))
    if done.event is not None:
        out.text(label("anchor", f"on record as {done.event.level}"))
    if done.problem:
        out.note(done.problem)
    out.end(
        {
            "v": 1,
            "note": str(done.path),
            "size": done.size,
            "event": done.event,
            "cosigned": list(done.cosigned),
            "problem": done.problem,
        },
        receipt=done.receipt,
    )
