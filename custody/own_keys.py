"""Which keys a ledger had, and at which sizes each of them spoke for it. Pure but for reading.

Leaves making and rotating a key to `key_events.py`, and judging a whole record to `vouching.py`.

Rules:
- The first key comes with `open` or a `key` event; each later one only by a `key` event that it and
  the key before it signed. The chain ends at the first event that doesn't fit.
- A key signs for the ledger from the entry that brought it until the entry that replaced it: a head
  of another size is not its to sign.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import pairwise
from typing import NamedTuple

from fairtrial.ledger.canonical import decode_event
from fairtrial.ledger.checkpoint import parse_checkpoint, verify_note
from fairtrial.ledger.entry import parse_entry
from fairtrial.ledger.events import Key, Open
from fairtrial.ledger.note import Note, VerifierKey, format_vkey, parse_vkey

from .key_events import is_key_signed
from .trial import Reader

__all__ = ("OwnKey", "handed_on", "own_keys", "signer_of")


class OwnKey(NamedTuple):
    """A key of a ledger, with the least and the largest head that it spoke for."""

    key: VerifierKey
    least: int
    largest: int | None


def own_keys(reader: Reader) -> tuple[OwnKey, ...]:
    """Returns the keys that a ledger had, in their order."""
    keys: list[OwnKey] = []
    for first in reader.store.read(0, 1):
        opened = decode_event(parse_entry(first).event)
        if isinstance(opened, Open) and opened.vkey is not None:
            keys.append(OwnKey(parse_vkey(opened.vkey), 1, None))
    number = 1
    while (data := reader.store.find("", 0, "key", number)) is not None:
        entry = parse_entry(data)
        event = decode_event(entry.event)
        before = format_vkey(keys[-1].key) if keys else None
        if not isinstance(event, Key) or not _follows(event, before, entry.ledger):
            break
        if keys:
            keys[-1] = keys[-1]._replace(largest=entry.seq)
        keys.append(OwnKey(parse_vkey(event.vkey), entry.seq + 1, None))
        number += 1
    return tuple(keys)


def _follows(event: Key, before: str | None, ledger: str) -> bool:
    return event.previous == before and is_key_signed(event, ledger)


def signer_of(note: Note, keys: Sequence[OwnKey]) -> VerifierKey:
    """Returns the key in force that signed a head of the ledger.

    Raises:
        RefusedError: None did.
    """
    size = parse_checkpoint(note.text).size
    ours = [
        one.key
        for one in keys
        if one.least <= size and (one.largest is None or size <= one.largest)
    ]
    return verify_note(note, ours)[0].key


def handed_on(keys: Sequence[OwnKey], pinned: Iterable[VerifierKey]) -> set[VerifierKey]:
    """Returns pinned keys with those that they handed a ledger on to, never one before them."""
    trusted = set(pinned)
    for before, after in pairwise(keys):
        if before.key in trusted:
            trusted.add(after.key)
    return trusted
