"""What leads from a pinned key to the one that signed a head, for who hasn't the ledger.

Leaves proofs to `proving.py` and `proof_check.py`, and what both keys sign to `key_events.py`.

Rules:
- A rotation is shown by an inclusion proof of its `key` entry under the head that is to be
  believed: no format of its own is needed.
- Trust goes on only to a key that the one before it signed a rotation to, never back.
- A key that handed on signs for no head that holds the rotation.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import NamedTuple

from fairtrial.ledger.canonical import decode_event
from fairtrial.ledger.checkpoint import parse_checkpoint
from fairtrial.ledger.entry import Entry
from fairtrial.ledger.errors import LedgerError, RefusedError
from fairtrial.ledger.events import Key
from fairtrial.ledger.note import VerifierKey, parse_note, parse_vkey

from .key_events import is_key_signed
from .own_keys import own_keys
from .proving import find_entry, prove_under
from .trial import Reader

__all__ = ("HandedOn", "Rotation", "follow_rotations", "prove_rotations", "rotation_of")


class Rotation(NamedTuple):
    """A `key` event that replaced a key, at its place in a ledger."""

    seq: int
    ledger: str
    event: Key


class HandedOn(NamedTuple):
    """The keys that may sign now and those that were replaced, each with the seq that did it.

    A key that was pinned itself came by no entry that is known: None.
    """

    now: dict[VerifierKey, int | None]
    replaced: dict[VerifierKey, int]


def prove_rotations(reader: Reader, note: bytes) -> Iterator[tuple[int, bytes]]:
    """Yields seq and `.tlog-proof` of each rotation before a signed head, under that head."""
    size = parse_checkpoint(parse_note(note).text).size
    for key in own_keys(reader)[1:]:
        if key.least <= size:
            yield key.least - 1, prove_under(reader, find_entry(reader, f"{key.least - 1}"), note)


def rotation_of(entry: Entry | None, seq: int) -> Rotation:
    """Returns the rotation that an entry is.

    Raises:
        RefusedError: It is something else.
    """
    try:
        event = None if entry is None else decode_event(entry.event)
    except LedgerError:
        event = None
    if entry is None or not isinstance(event, Key) or event.previous is None:
        raise RefusedError(
            "the proof isn't of an entry that replaced a key",
            where=f"entry {seq}",
            expected="a `key` event that names the key before it",
            found="another entry",
            todo="ledger prove ENTRY --rotations writes them",
        )
    return Rotation(seq, entry.ledger, event)


def follow_rotations(
    pinned: Iterable[VerifierKey], rotations: Iterable[Rotation], origin: str
) -> HandedOn:
    """Returns where rotations lead from pinned keys of an origin.

    Raises:
        RefusedError: A rotation isn't signed by both keys, or leads to a key of another origin.
    """
    now: dict[VerifierKey, int | None] = dict.fromkeys(pinned)
    replaced: dict[VerifierKey, int] = {}
    for seq, ledger, event in sorted(rotations, key=lambda one: one.seq):
        before, after = parse_vkey(event.previous or ""), parse_vkey(event.vkey)
        if not is_key_signed(event, ledger) or after.name != origin:
            raise RefusedError(
                f"the rotation at entry {seq} isn't one of this origin, signed by both keys",
                expected=f"a key of {origin}, signed by itself and by the one before it",
                found=f"a key of {after.name}",
                todo="get it again from whoever keeps the ledger: ledger prove --rotations",
            )
        if before in now:
            del now[before]
            replaced[before], now[after] = seq, seq
            replaced.pop(after, None)
    return HandedOn(now, replaced)
