"""Signatures by people over entries: made and checked.

Leaves key files to `keys.py`, what a protocol waits for to `waiting.py`, and what an approval
allows to the fold.

Rules:
- A signature is bound to the ledger, the entry's place and leaf, the meaning, name, role and time.
- The newest signature of a role over an entry counts; a rejection takes its earlier ones back.
- Whose the key is, no ledger shows: a verifier key has to be known from elsewhere.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Literal, TypeAlias

import msgspec

from fairtrial.ledger.checkpoint import is_signed
from fairtrial.ledger.errors import LedgerError, RefusedError
from fairtrial.ledger.events import Reference, Sign
from fairtrial.ledger.note import decode_base64, encode_base64, format_vkey, parse_vkey
from fairtrial.ledger.state import State, next_number

from .keys import Key
from .trial import Trial

__all__ = ("Meaning", "is_sign_signed", "sign_entry", "sign_message")

Meaning: TypeAlias = Literal["reviewed", "approved", "rejected"]


def sign_message(ledger: str, event: Sign) -> bytes:
    """Returns what a person signs."""
    subject = event.subject
    place = ("fairtrial/sign/v1", ledger, str(subject.seq), subject.leaf)
    lines = (*place, event.meaning, event.signer, event.role, event.time)
    return "".join(f"{line}\n" for line in lines).encode()


def sign_entry(
    trial: Trial,
    subject: Reference,
    *,
    meaning: Meaning,
    signer: str,
    role: str,
    key: Key,
    clock: Callable[[], str],
) -> Sign:
    """Puts a person's signature over an entry on record.

    Args:
        trial: The ledger, opened for writing.
        subject: The entry.
        meaning: What the signature says.
        signer: The person's name.
        role: In which role.
        key: The person's key.
        clock: Returns the time in the form of an entry's.

    Raises:
        RefusedError: The key is the ledger's own, or the entry isn't there.
    """
    vkey = format_vkey(key.verifier())
    own = trial.log.state.vkey
    if own is not None and parse_vkey(own).key == key.signer.public():
        raise RefusedError(
            "the ledger's own key can't sign for a person",
            where=f"key {key.name}",
            todo="ledger key new NAME --use person",
        )
    time = clock()

    def sign(state: State) -> Sign:
        number = next_number(state, "sign", "")
        draft = Sign(
            number=number,
            subject=subject,
            signer=signer,
            role=role,
            meaning=meaning,
            time=time,
            vkey=vkey,
            signature="",
        )
        signature = key.signer.sign(sign_message(state.ledger, draft))
        return msgspec.structs.replace(draft, signature=encode_base64(signature))

    event = trial.append(sign).event
    assert isinstance(event, Sign)
    return event


def is_sign_signed(event: Sign, ledger: str) -> bool:
    """Returns whether the signature of a `sign` event is that of its key."""
    try:
        signature = decode_base64(event.signature, "a signature")
        return is_signed(sign_message(ledger, event), signature, parse_vkey(event.vkey).key)
    except LedgerError:
        return False
