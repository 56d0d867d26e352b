"""The facade's acts of witnessing: cosign for another ledger, or have one's own cosigned.

Leaves every decision to `witnessing.py`.

Rules:
- What a witness cosigned is remembered in a folder of its own, beside the heads that were signed.
"""

from __future__ import annotations

import os
import time
from collections.abc import Sequence
from pathlib import Path

from fairtrial.ledger.checkpoint import parse_checkpoint
from fairtrial.ledger.durable import write_file
from fairtrial.ledger.errors import RefusedError
from fairtrial.ledger.given import read_given
from fairtrial.ledger.note import parse_lines, parse_note, parse_vkey
from fairtrial.ledger.policy import parse_policy
from fairtrial.ledger.proofs import ConsistencyProof, format_consistency, parse_consistency

from .anchor_acts import Checkpointed
from .anchor_setup import anchor_setup
from .anchoring import cosigners, witness_note, write_checkpoint
from .keys import load_key
from .places import state_folder
from .trial import open_trial
from .witnessing import Answer, Witness, with_lines

__all__ = ("ask_witnesses", "cosign_note", "open_witness", "write_note")


def open_witness(key: str, *, vkeys: Sequence[str] = (), policy: Path | None = None) -> Witness:
    """Returns a witness that knows the given logs.

    Args:
        key: The name of its key.
        vkeys: Verifier keys of logs.
        policy: A policy whose `log` lines name further ones.

    Raises:
        RefusedError: The key isn't a witness's, or no log is named.
    """
    own = load_key(key, "witness", environment=os.environ)
    logs = [
        *(parse_vkey(vkey, where="--log") for vkey in vkeys),
        *(() if policy is None else parse_policy(read_given(policy)).logs),
    ]
    if not logs:
        raise RefusedError(
            "a witness has to know the ledgers that it cosigns",
            expected="the verifier key of each",
            found="none",
            todo="--log VKEY, as `ledger key show` prints it on the other side",
        )
    return Witness(own, logs, state_folder(os.environ) / "witness" / own.name)


def cosign_note(witness: Witness, note: Path, proof: Path | None) -> bytes:
    """Returns a note with a witness's line, or refuses as the protocol does.

    Args:
        witness: The witness.
        note: The signed head; or a proof of growth, which holds one.
        proof: A proof of growth from the head that the witness cosigned last; None: it has cosigned
            none of this ledger yet.

    Raises:
        RefusedError: The witness doesn't cosign; says why.
    """
    data = read_given(note)
    if proof is not None:
        grown = parse_consistency(read_given(proof))
        body = format_consistency(ConsistencyProof(grown.old, grown.hashes, data))
    elif data.startswith(b"old "):
        body, data = data, parse_consistency(data).note
    else:
        body = format_consistency(ConsistencyProof(0, (), data))
    answer = witness.add_checkpoint(body, time=int(time.time()))
    if answer.status == 200:
        return with_lines(data, parse_lines(answer.body.decode()))
    raise _not_cosigned(answer, note, parse_checkpoint(parse_note(data).text).size)


def _not_cosigned(answer: Answer, note: Path, size: int) -> RefusedError:
    """Returns the refusal that a witness's answer means for a head of a size."""
    what, text = "the witness doesn't cosign", answer.body.decode().strip()
    if answer.status != 409:
        return RefusedError(
            what,
            where=str(note),
            expected="a signed head of a ledger that it knows, grown from the last one",
            found=text,
            todo="name the ledger's key (--log VKEY or --policy FILE), and give a newer head",
        )
    if int(text) > size:
        return RefusedError(
            "the witness doesn't cosign a head older than the one that it cosigned last",
            where=str(note),
            expected=f"a head of at least {text} entries",
            found=f"{size} entries",
            todo="no proof helps: hand it a newer head (ledger checkpoint), with a proof from"
            f" {text} (ledger prove --consistency {text})",
        )
    return RefusedError(
        what,
        where=str(note),
        expected=f"a proof of growth from {text} entries",
        found=f"no proof, or one from another size; it has cosigned {text} entries last",
        todo=f"on the ledger's side: ledger prove --consistency {text}; here: --proof FILE",
    )


def ask_witnesses(
    ledger: Path, *, actor: str, key: str | None = None, policy: Path | None = None
) -> Checkpointed:
    """Has the present head cosigned by the witnesses that a policy gives an address for.

    Args:
        ledger: The ledger's file.
        actor: Who acts, as claimed.
        key: The name of the ledger's key; None: the one in FAIRTRIAL_KEY.
        policy: The policy; None: the one in FAIRTRIAL_POLICY.

    Raises:
        RefusedError: No quorum cosigned.
    """
    setup = anchor_setup(key, os.environ, policy=policy)
    with open_trial(ledger, actor=actor) as trial:
        sealed = witness_note(trial, setup, write_checkpoint(trial, setup))
        cosigned = cosigners(sealed.path.read_bytes(), setup.policy)
        return Checkpointed(*sealed, trial.keep_receipt("checkpoint"), cosigned)


def write_note(path: Path, note: bytes) -> None:
    """Writes a note to a file, whole."""
    write_file(path.absolute(), note, mode=0o644)
