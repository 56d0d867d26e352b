"""A result as an in-toto Statement in a DSSE envelope: what other tools can file beside artifacts.

Leaves the verdict to the result event, which is in the statement as it stands.

Rules:
- The subjects are the result's entry and the registered protocol, each by SHA-256 of its bytes.
- The ledger's own key signs, and only a result that counts: one that still wants a person's
  signature is refused.
- The signed bytes name the type of their content, so they are no checkpoint and no act of a person.
- Nothing is written to the ledger.

Source:
    DSSE 1.0 (secure-systems-lab/dsse, protocol.md); in-toto Attestation Framework, Statement v1.
"""

from __future__ import annotations

import os
from base64 import b64encode
from pathlib import Path
from typing import NamedTuple

import msgspec

from fairtrial.ledger.canonical import sha256_hex
from fairtrial.ledger.durable import create_folder, write_file
from fairtrial.ledger.entry import Entry, parse_entry
from fairtrial.ledger.errors import RefusedError, TransitionError
from fairtrial.ledger.note import format_vkey
from fairtrial.ledger.state import Experiment

from .anchor_setup import anchor_setup
from .key_events import origin_of
from .keys import Key
from .trial import Trial, open_trial
from .waiting import waiting_for

__all__ = ("PAYLOAD_TYPE", "PREDICATE_TYPE", "Stated", "export_statement", "signed_bytes")

PAYLOAD_TYPE = "application/vnd.in-toto+json"
STATEMENT_TYPE = "https://in-toto.io/Statement/v1"
PREDICATE_TYPE = "https://fairtrial.invalid/result/v1"


class Stated(NamedTuple):
    """A statement in a file: about which entry, with which verdict, signed by which key."""

    path: Path
    experiment: str
    seq: int
    verdict: str
    vkey: str


def signed_bytes(payload_type: str, payload: bytes) -> bytes:
    """Returns what a DSSE signature is over (its pre-authentication encoding, PAE)."""
    kind = payload_type.encode()
    return b"DSSEv1 %d %b %d %b" % (len(kind), kind, len(payload), payload)


def export_statement(ledger: Path, target: Path, *, name: str | None, key: str | None) -> Stated:
    """Writes the signed statement of a result.

    Args:
        ledger: The ledger's file.
        target: Where it goes; a file that is there is refused.
        name: The experiment; None where the ledger holds one.
        key: The name of the ledger's key; None: the one in FAIRTRIAL_KEY.

    Raises:
        RefusedError: There is no result that counts, the key is another one, or the name is taken.
    """
    if target.exists():
        raise RefusedError(
            "the file is there already", where=str(target), todo="give a name that isn't taken"
        )
    own = anchor_setup(key, os.environ).key
    with open_trial(ledger, read_only=True) as trial:
        known = trial.experiment(name)
        entry = _result_entry(trial, known)
        vkey = _checked_key(trial, own)
        assert own is not None, "a key was checked"
        payload = msgspec.json.encode(_statement(trial, known, entry))
    signature = own.signer.sign(signed_bytes(PAYLOAD_TYPE, payload))
    envelope = {
        "payloadType": PAYLOAD_TYPE,
        "payload": b64encode(payload).decode(),
        "signatures": [{"keyid": vkey, "sig": b64encode(signature).decode()}],
    }
    create_folder(target.absolute().parent)
    write_file(target.absolute(), msgspec.json.encode(envelope) + b"\n", mode=0o644)
    assert known.result is not None, "it has a result"
    return Stated(target, known.name, entry.seq, known.result.verdict, vkey)


def _result_entry(trial: Trial, known: Experiment) -> Entry:
    waiting = waiting_for(trial.log.state, known) if known.result is not None else []
    data = trial.store.find(known.name, 0, "result", 0)
    if data is None or waiting:
        raise TransitionError(
            "there is no result that counts yet",
            where=known.name,
            expected=waiting[0].what if waiting else "a result",
            found="none",
            todo=waiting[0].todo if waiting else f"ledger result {known.name}",
        )
    return parse_entry(data)


def _checked_key(trial: Trial, key: Key | None) -> str:
    """Returns the ledger's key, checked to be the one at hand."""
    vkey = trial.log.state.vkey
    found = None if key is None else format_vkey(key.signer.verifier(origin_of(trial)))
    if vkey is None or found != vkey:
        raise RefusedError(
            "a statement is signed by the ledger's own key",
            expected=vkey or "a ledger that has a key: ledger checkpoint --key NAME",
            found=found or "no key",
            todo="--key NAME, or FAIRTRIAL_KEY=NAME",
        )
    return vkey


def _statement(trial: Trial, known: Experiment, entry: Entry) -> dict[str, object]:
    ledger = trial.log.ledger
    return {
        "_type": STATEMENT_TYPE,
        "subject": [
            {
                "name": f"fairtrial:{ledger}/entry/{entry.seq}",
                "digest": {"sha256": sha256_hex(entry.data)},
            },
            {
                "name": f"fairtrial:{ledger}/{known.name}/protocol",
                "digest": {"sha256": known.protocol.sha256},
            },
        ],
        "predicateType": PREDICATE_TYPE,
        "predicate": {
            "ledger": ledger,
            "origin": origin_of(trial),
            "receipt": trial.receipt(),
            "seq": entry.seq,
            "leaf": entry.leaf().hex(),
            "id": entry.id,
            "time": entry.time,
            "event": msgspec.Raw(entry.event),
        },
    }
