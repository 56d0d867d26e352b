"""A ledger's key on record: the first one, and its rotation, signed by both.

Leaves key files to `keys.py`; the fold checks that a new key names the one before it.

Rules:
- The first key comes with `open` or a `key` event; another one only by rotation.
- Both keys sign the lines `fairtrial/key/v1`, ledger, number, previous verifier key or `-`, new
  verifier key, each with its newline; a signature is base64.
"""

from __future__ import annotations

from fairtrial.ledger.checkpoint import is_signed
from fairtrial.ledger.errors import LedgerError, RefusedError
from fairtrial.ledger.events import Key, Open
from fairtrial.ledger.note import decode_base64, encode_base64, format_vkey, parse_vkey
from fairtrial.ledger.state import State, next_number

from .keys import Key as KeyOfFile
from .trial import Trial

__all__ = ("is_key_signed", "key_message", "origin_of", "rotate_key", "take_key")


def origin_of(trial: Trial) -> str:
    """Returns the origin of a ledger."""
    event = trial.log.find("", "open")
    assert isinstance(event, Open), "a ledger begins with open"
    return event.origin


def take_key(trial: Trial, key: KeyOfFile, origin: str) -> None:
    """Makes a key the ledger's first one, or checks that it is the ledger's.

    Raises:
        RefusedError: The ledger has another key.
    """
    vkey = format_vkey(key.signer.verifier(origin))
    if trial.log.state.vkey is None:

        def first(state: State) -> Key:
            number = next_number(state, "key", "")
            message = key_message(state.ledger, number, None, vkey)
            return Key(
                number=number,
                vkey=vkey,
                previous=None,
                signature=encode_base64(key.signer.sign(message)),
                previous_signature=None,
            )

        trial.append(first)
    if trial.log.state.vkey != vkey:
        raise RefusedError(
            "the ledger has another key",
            where=f"key {key.name}",
            expected=str(trial.log.state.vkey),
            found=vkey,
            todo="name the ledger's key; or ledger key rotate --key OLD --to NEW",
        )


def key_message(ledger: str, number: int, previous: str | None, vkey: str) -> bytes:
    """Returns what both keys sign of a `key` event."""
    lines = ("fairtrial/key/v1", ledger, str(number), previous or "-", vkey)
    return "".join(f"{line}\n" for line in lines).encode()


def rotate_key(trial: Trial, old: KeyOfFile, new: KeyOfFile) -> Key:
    """Gives a ledger a new key, signed by the old and the new one.

    Raises:
        RefusedError: The old key isn't the ledger's, or the new one is the old one.
    """
    origin = origin_of(trial)
    take_key(trial, old, origin)
    previous, vkey = trial.log.state.vkey, format_vkey(new.signer.verifier(origin))
    if previous == vkey:
        raise RefusedError(
            "the new key is the old one",
            where=f"key {new.name}",
            expected="another key",
            found=vkey,
            todo="ledger key new NAME, then: ledger key rotate --key OLD --to NAME",
        )

    def rotation(state: State) -> Key:
        number = next_number(state, "key", "")
        message = key_message(state.ledger, number, previous, vkey)
        return Key(
            number=number,
            vkey=vkey,
            previous=previous,
            signature=encode_base64(new.signer.sign(message)),
            previous_signature=encode_base64(old.signer.sign(message)),
        )

    event = trial.append(rotation).event
    assert isinstance(event, Key)
    return event


def is_key_signed(event: Key, ledger: str) -> bool:
    """Returns whether a `key` event is signed by its key and by the one before it, if any."""
    message = key_message(ledger, event.number, event.previous, event.vkey)
    pairs = [(event.vkey, event.signature)]
    if event.previous is not None:
        pairs.append((event.previous, event.previous_signature or ""))
    try:
        return all(
            is_signed(message, decode_base64(signature, "a signature"), parse_vkey(vkey).key)
            for vkey, signature in pairs
        )
    except LedgerError:
        return False
