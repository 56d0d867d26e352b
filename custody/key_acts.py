"""The facade's acts with keys: make one, show them, give a ledger a new one.

Leaves key files to `keys.py` and key events to `key_events.py`.

Rules:
- No secret leaves the key's file.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import NamedTuple

from fairtrial.ledger.errors import RefusedError
from fairtrial.ledger.events import Key as KeyEvent
from fairtrial.ledger.note import format_vkey

from .key_events import origin_of, rotate_key
from .keys import Key, KeyUse, create_key, list_keys, load_key
from .trial import open_trial

__all__ = ("KeyShown", "Rotated", "ledger_vkey", "new_key", "rotate_ledger_key", "show_keys")


class Rotated(NamedTuple):
    """A new key on record, and the receipt."""

    event: KeyEvent
    receipt: str


class KeyShown(NamedTuple):
    """A key without its secret; `vkey` is None for a ledger's key, whose name is the origin's."""

    name: str
    use: KeyUse
    signs_as: str
    vkey: str | None


def new_key(name: str, use: KeyUse, *, signs_as: str | None = None) -> KeyShown:
    """Makes a key.

    Raises:
        RefusedError: A key of this name exists, or the folder is open to others.
    """
    if use == "ledger" and signs_as is not None:
        raise RefusedError(
            "a ledger's key signs as the origin of the ledger",
            where="--signs-as",
            expected="--use person or --use witness, whose keys sign under a name",
            found=f"--use ledger, and {signs_as}",
            todo="leave --signs-as out",
        )
    return _shown(create_key(name, use, environment=os.environ, signs_as=signs_as))


def show_keys(name: str | None = None) -> list[KeyShown]:
    """Returns one key, or all of them, without their secrets.

    Raises:
        RefusedError: There is no such key.
    """
    keys = list_keys(os.environ)
    if name is not None:
        keys = [key for key in keys if key.name == name]
        if not keys:
            # The refusal names what is there, or says what is wrong with the file.
            keys = [load_key(name, "ledger", environment=os.environ)]
    return [_shown(key) for key in keys]


def _shown(key: Key) -> KeyShown:
    vkey = None if key.use == "ledger" else format_vkey(key.verifier())
    return KeyShown(key.name, key.use, key.signs_as, vkey)


def ledger_vkey(ledger: Path) -> tuple[str, str | None]:
    """Returns the origin of a ledger and the verifier key that it has now, if any."""
    with open_trial(ledger, read_only=True, rehash=False) as trial:
        return origin_of(trial), trial.log.state.vkey


def rotate_ledger_key(ledger: Path, *, actor: str, old: str, new: str) -> Rotated:
    """Gives a ledger a new key, signed by both.

    Raises:
        RefusedError: The old key isn't the ledger's, or a key isn't there.
    """
    keys = [load_key(name, "ledger", environment=os.environ) for name in (old, new)]
    with open_trial(ledger, actor=actor) as trial:
        return Rotated(rotate_key(trial, *keys), trial.keep_receipt("key"))
