"""Which event fills which slot, and whether a batch may follow: read from bytes, nothing decoded.

Leaves the meaning of slots to `state.py`, their columns to `slots.py` and the medium to the stores.

Rules:
- A slot is (experiment, position, kind, number); the kind is taken without its version.
- The four are members of every event of every version: a store indexes what it can't decode.
- A batch is checked whole before its first byte reaches a medium.
"""

from __future__ import annotations

import re
from binascii import hexlify
from collections.abc import Callable, Sequence
from typing import NamedTuple

import msgspec

from .entry import ENTRY_BYTES_MAX, Entry, is_second, parse_entry
from .errors import ConflictError, IntegrityError, StoreError
from .port import Tail

__all__ = (
    "Slot",
    "check_batch",
    "key_in",
    "key_of",
    "keys_at_once",
    "keys_one_by_one",
    "parse_slot",
    "slot_conflict",
    "slot_of",
)

# What every canonical event begins with; other forms are taken apart as JSON.
_IN_LINE = re.compile(
    rb'","event":\{"kind":"([a-z_]+)/[0-9]+","experiment":"([a-z0-9._-]*)",'
    rb'"position":([0-9]+),"number":([0-9]+)[,}]'
)
_HEADER_BYTES_MIN = 200
# A header from its time on.
_FROM_TIME = re.compile(
    rb'([0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9]{2}:[0-9]{2}:[0-9]{2})\.[0-9]{6}Z",'
    rb'"actor":"[!#-&(-\[\]-~]{1,64}","id":"b3:[0-9a-f]{64}","event":'
)


class Slot(NamedTuple):
    """What an event fills at most once."""

    experiment: str
    position: int
    kind: str
    number: int


class _SlotMembers(msgspec.Struct, frozen=True, kw_only=True):
    kind: str
    experiment: str
    position: int
    number: int


_DECODER = msgspec.json.Decoder(_SlotMembers)


def parse_slot(event: bytes) -> Slot:
    """Returns the slot of an event from its bytes.

    Raises:
        IntegrityError: The bytes are not JSON or lack one of the four members.
    """
    try:
        members = _DECODER.decode(event)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
        raise IntegrityError("the event has no slot", found=f"{error}: {event[:80]!r}") from error
    kind = members.kind.partition("/")[0]
    return Slot(members.experiment, members.position, kind, members.number)


def key_of(slot: Slot) -> bytes:
    """Returns what a slot is indexed by."""
    return f"{slot.kind}/{slot.experiment}/{slot.position}/{slot.number}".encode()


def slot_of(key: bytes) -> Slot:
    """Returns the slot that is indexed by a key."""
    kind, _, rest = key.decode().partition("/")
    experiment, position, number = rest.rsplit("/", 2)
    return Slot(experiment, int(position), kind, int(number))


def key_in(entry: bytes) -> bytes:
    """Returns the key of the slot that an entry fills.

    Raises:
        IntegrityError: The bytes are not an entry, or its event has no slot.
    """
    match = _IN_LINE.search(entry, _HEADER_BYTES_MIN)
    return b"/".join(match.groups()) if match else key_of(parse_slot(parse_entry(entry).event))


def check_batch(
    entries: Sequence[bytes],
    leaves: Sequence[bytes],
    *,
    tail: Tail,
    ledger: str | None,
    is_taken: Callable[[bytes], bool],
) -> list[bytes]:
    """Returns the keys of the slots that a batch fills, one for each entry.

    Args:
        entries: The batch.
        leaves: The leaf of each entry, which the one after it must name.
        tail: Where the batch is to stand.
        ledger: The ledger's id; None while the store is empty.
        is_taken: Whether the slot of a key is filled before the batch.

    Raises:
        ConflictError: A slot is taken.
        IntegrityError: The bytes are not entries that follow the tail.
        StoreError: There is not one leaf for each entry.
    """
    if len(entries) != len(leaves):
        raise StoreError(
            "a batch has one leaf for each entry",
            expected=f"{len(entries)} leaves",
            found=f"{len(leaves)} leaves",
        )
    keys = keys_at_once(entries, leaves, tail, ledger) if ledger and entries else None
    if keys is None:
        keys = keys_one_by_one(entries, leaves, tail, ledger)
    filled = set[bytes]()
    for seq, key in enumerate(keys, tail.size):
        if key in filled or is_taken(key):
            raise slot_conflict(seq, str(tuple(slot_of(key))))
        filled.add(key)
    return keys


def keys_at_once(
    entries: Sequence[bytes], leaves: Sequence[bytes], tail: Tail, ledger: str
) -> list[bytes] | None:
    """Returns the keys of at least one entry that plainly follow the tail, None when unsure."""
    events, seconds, prev = list[bytes](), set[bytes](), tail.leaf
    begin = b'{"v":1,"ledger":"%b","seq":' % ledger.encode()
    for seq, (data, leaf) in enumerate(zip(entries, leaves, strict=True), tail.size):
        header = b'%b%d,"prev":"%b","time":"' % (begin, seq, hexlify(prev))
        match = _FROM_TIME.match(data, len(header)) if data.startswith(header) else None
        if match is None or data[-1:] != b"}":
            return None
        seconds.add(match[1])
        events.append(data[match.end() : -1])
        prev = leaf
    is_sound = all(map(is_second, seconds)) and max(map(len, entries)) <= ENTRY_BYTES_MAX
    return _keys_of(events) if is_sound else None


def _keys_of(events: Sequence[bytes]) -> list[bytes] | None:
    """Returns the key of each event's slot, None when unsure."""
    text = b"".join(events)
    if not text.isascii() or b"\n" in text:
        return None
    try:
        # One by one: in a text of lines a value may span two of them, and another line hold two.
        slots = list(map(_DECODER.decode, events))
    except (msgspec.MsgspecError, RecursionError):
        return None
    return [
        f"{one.kind.partition('/')[0]}/{one.experiment}/{one.position}/{one.number}".encode()
        for one in slots
    ]


def keys_one_by_one(
    entries: Sequence[bytes], leaves: Sequence[bytes], tail: Tail, ledger: str | None
) -> list[bytes]:
    """Returns the keys of entries that follow the tail, each taken apart by itself.

    Raises:
        IntegrityError: One of them doesn't.
    """
    keys, prev = list[bytes](), tail.leaf
    for seq, (data, leaf) in enumerate(zip(entries, leaves, strict=True), tail.size):
        entry = _parsed(data, seq, prev, ledger)
        ledger, prev = entry.ledger, leaf
        keys.append(key_of(parse_slot(_checked_text(entry.event, seq))))
    return keys


def _parsed(data: bytes, seq: int, prev: bytes, ledger: str | None) -> Entry:
    entry = parse_entry(data)
    ledger = ledger or entry.ledger
    if (entry.seq, entry.prev, entry.ledger) != (seq, prev, ledger):
        raise IntegrityError(
            "the entry doesn't follow the end of the ledger",
            where=f"entry {seq}",
            expected=f"seq {seq} after {prev.hex()} in {ledger}",
            found=f"seq {entry.seq} after {entry.prev.hex()} in {entry.ledger}",
        )
    return entry


def _checked_text(event: bytes, seq: int) -> bytes:
    if event.isascii():
        return event
    try:
        event.decode()
    except UnicodeDecodeError as error:
        raise IntegrityError(
            "an entry is not UTF-8", where=f"entry {seq}", found=str(error)
        ) from error
    return event


def slot_conflict(seq: int, slot: str) -> ConflictError:
    """Returns the error for an event whose slot is filled."""
    return ConflictError(
        "the slot is taken",
        where=f"entry {seq}",
        expected="a free slot",
        found=slot,
        todo="one slot holds one event; ledger log shows it",
    )
