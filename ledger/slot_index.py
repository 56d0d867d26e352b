"""Which event fills which slot, and whether a batch may follow: read from bytes, nothing decoded.

Leaves the meaning of slots to `state.py`, their columns to `slots.py` and the medium to the stores.

Rules:
- A slot is (experiment, position, kind, number); the kind is taken without its version.
- The four are members of every event of every version: a store indexes what it can't decode.
- A batch is checked whole before its first byte reaches a medium.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

import msgspec

from .entry import Entry, parse_entry
from .errors import ConflictError, IntegrityError, StoreError
from .following import Follower
from .port import Tail

__all__ = ("Slot", "check_batch", "parse_slot", "slot_conflict")


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


def check_batch(
    entries: Sequence[bytes],
    leaves: Sequence[bytes],
    *,
    tail: Tail,
    ledger: str | None,
    is_taken: Callable[[Slot], bool],
) -> dict[Slot, int]:
    """Returns the slots that a batch fills, each with its seq.

    Args:
        entries: The batch.
        leaves: The leaf of each entry, which the one after it must name.
        tail: Where the batch is to stand.
        ledger: The ledger's id; None while the store is empty.
        is_taken: Whether a slot is filled before the batch.

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
    filled: dict[Slot, int] = {}
    prev, follower = tail.leaf, Follower()
    for seq, (data, leaf) in enumerate(zip(entries, leaves, strict=True), tail.size):
        event = follower.event_of(data, seq=seq, prev=prev)
        if event is None:
            entry = _parsed(data, seq, prev, ledger)
            follower.learn(entry)
            ledger, event = entry.ledger, entry.event
        slot = parse_slot(_checked_text(event, seq))
        if slot in filled or is_taken(slot):
            raise slot_conflict(seq, str(tuple(slot)))
        filled[slot] = seq
        prev = leaf
    return filled


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
