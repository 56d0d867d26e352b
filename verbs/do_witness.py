"""`ledger witness`: cosign the heads of other ledgers, or have one's own cosigned."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from .do_checkpoint import print_checkpoint
from .options import verb, writing_options
from .output import Output, shell_word

if TYPE_CHECKING:
    from fairtrial.custody.witnessing import Witness

__all__ = ("command",)


@verb(
    "witness",
    example="""
    ledger witness cosign 000004.note --key w1 --log VKEY --output cosigned.note
    ledger witness cosign 000112.note --proof growth.proof --key w1 --log VKEY
    ledger witness serve --key w1 --policy logs.txt --port 8088
    ledger witness ask --key lab --policy policy.txt
    """,
)
@click.argument("action", type=click.Choice(["cosign", "serve", "ask"]))
@click.argument("note", type=click.Path(path_type=Path), required=False)
@click.option(
    "--proof",
    type=click.Path(path_type=Path),
    metavar="FILE",
    help="cosign: that the ledger grew from the head that was cosigned last.",
)
@click.option(
    "--key", metavar="NAME", envvar="FAIRTRIAL_KEY", show_envvar=True, help="The key that signs."
)
@click.option("--log", "vkeys", multiple=True, metavar="VKEY", help="A ledger to cosign.")
@click.option(
    "--policy",
    type=click.Path(path_type=Path),
    metavar="FILE",
    help="Ledgers to cosign (lines log), or witnesses to ask (lines witness with an address);"
    " ask: default FAIRTRIAL_POLICY.",
)
@click.option(
    "--output", type=click.Path(path_type=Path), metavar="FILE", help="cosign: where the note goes."
)
@click.option("--host", default="127.0.0.1", show_default=True, help="serve: address.")
@click.option("--port", type=click.IntRange(0, 65535), default=8088, show_default=True)
@writing_options
def command(
    out: Output,
    action: str,
    note: Path | None,
    proof: Path | None,
    key: str | None,
    vkeys: tuple[str, ...],
    policy: Path | None,
    output: Path | None,
    host: str,
    port: int,
    ledger: Path,
    actor: str,
) -> None:
    """Cosigns a head in a file (cosign NOTE), serves that over HTTP (serve), or asks others (ask).

    A witness cosigns a head only if it knows the ledger's verifier key and the head grew from the
    one that it cosigned last. Two departments that witness each other make it impossible for either
    to show two histories unseen. The protocol is C2SP tlog-witness; docs/anchoring.md shows both
    sides. What a witness has cosigned is kept in FAIRTRIAL_STATE (~/.local/state/fairtrial); one
    that lost it needs a new key.
    """
    from fairtrial.custody.witness_acts import ask_witnesses, open_witness

    if action == "ask":
        print_checkpoint(out, ask_witnesses(ledger, actor=actor, key=key, policy=policy))
        return
    if key is None:
        raise click.UsageError("name the witness's key: --key NAME")
    witness = open_witness(key, vkeys=vkeys, policy=policy)
    if action == "serve":
        _serve(out, witness, host, port)
    elif note is None:
        raise click.UsageError("name the head to cosign: ledger witness cosign NOTE")
    else:
        _cosign(out, witness, note, proof, output)


def _cosign(
    out: Output, witness: Witness, note: Path, proof: Path | None, output: Path | None
) -> None:
    from fairtrial.custody.witness_acts import cosign_note, write_note

    data = cosign_note(witness, note, proof)
    if output is not None:
        write_note(output, data)
        out.text(f"{output}: cosigned as {witness.key.signs_as}")
    elif not out.as_json:
        out.raw(data)
    # On the ledger's side; without the policy there nobody's cosignature counts.
    following = f"ledger checkpoint --note {shell_word(output)} --policy FILE" if output else None
    value = {"v": 1, "note": data.decode(), "witness": witness.key.signs_as}
    out.end(value, next_command=following)


def _serve(out: Output, witness: Witness, host: str, port: int) -> None:
    import time

    from fairtrial.custody.witness_server import WitnessServer

    with WitnessServer(witness, host=host, port=port, clock=time.time) as server:
        out.note(f"{witness.key.signs_as} listens at {server.url}/add-checkpoint; Ctrl-C ends it")
        server.serve_forever()
