"""An event at its place in the log: `{v, ledger, seq, prev, time, actor, id, event}`, one line.

Leaves the bytes of the event to `canonical.py`, the tree to `merkle.py` and storage to the stores.

Rules:
- The event stands verbatim and last; the header before it is one ASCII form, read by one pattern.
- Its time is one that there is: no thirteenth month.
- An entry has at most 65,535 bytes without its newline.
- `prev` is the leaf of the entry before, 64 zeros for seq 0.
- The actor is claimed, not authenticated.
"""

from __future__ import annotations

import re
from binascii import hexlify
from collections.abc import Sequence
from datetime import datetime
from functools import lru_cache
from typing import NamedTuple

from .canonical import event_id
from .errors import IntegrityError, LedgerError
from .merkle import leaf_hash
from .port import Block

__all__ = (
    "ENTRY_BYTES_MAX",
    "FIRST_PREV",
    "Entry",
    "Header",
    "build_entry",
    "check_actor",
    "check_entry",
    "fits",
    "header_of",
    "is_second",
    "is_time",
    "may_be_entry",
    "parse_entry",
)

ENTRY_BYTES_MAX = 65_535
# 16 digits of seq, 64 characters of actor, and the rest, which doesn't vary.
_HEADER_BYTES_MAX = 400
FIRST_PREV = bytes(32)

_HEADER = re.compile(
    rb'\{"v":1,"ledger":"([0-9a-f]{32})","seq":(0|[1-9][0-9]{0,15}),"prev":"([0-9a-f]{64})",'
    rb'"time":"([0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9]{2}:[0-9]{2}:[0-9]{2}\.[0-9]{6}Z)",'
    rb'"actor":"([!#-&(-\[\]-~]{1,64})","id":"(b3:[0-9a-f]{64})","event":'
)
_ACTOR = re.compile(r"[!#-&(-\[\]-~]{1,64}")
_TIME = re.compile(r"\d{4}-\d{2}-\d{2}T\d{2}:\d{2}:\d{2}\.\d{6}Z", re.ASCII)


class Entry(NamedTuple):
    """One entry, taken apart; `data` are its bytes as stored, without the newline."""

    ledger: str
    seq: int
    prev: bytes
    time: str
    actor: str
    id: str
    event: bytes
    data: bytes

    def leaf(self) -> bytes:
        """Returns the 32-byte leaf hash of the stored bytes."""
        return leaf_hash(self.data)


class Header:
    """What the headers of one ledger's entries by one actor have in common, made once.

    Args:
        ledger: The ledger's id, 32 hex digits.
        actor: Who appends, as claimed.

    Raises:
        LedgerError: The actor has another form.
    """

    __slots__ = ("_begin", "_middle")

    def __init__(self, ledger: str, actor: str) -> None:
        check_actor(actor)
        self._begin = b'{"v":1,"ledger":"%b","seq":' % ledger.encode("ascii")
        self._middle = b'","actor":"%b","id":"' % actor.encode("ascii")

    def build(self, event: bytes, *, seq: int, prev: bytes, time: str, id: str) -> bytes:
        """Returns the bytes of an entry around verbatim event bytes.

        Args:
            event: Canonical event bytes.
            seq: Its place, from 0.
            prev: 32-byte leaf of the entry before.
            time: UTC, `YYYY-MM-DDThh:mm:ss.ffffffZ`.
            id: The id of `event`.

        Raises:
            LedgerError: The entry would be too large, or the time has another form.
        """
        if not is_time(time):
            raise LedgerError("the time of an entry has 6 decimals and a Z", found=time)
        data = b'%b%d,"prev":"%b","time":"%b%b%b","event":%b}' % (
            self._begin, seq, hexlify(prev), time.encode(), self._middle, id.encode(), event
        )  # fmt: skip
        if len(data) > ENTRY_BYTES_MAX:
            raise LedgerError(
                "an entry is too large",
                expected=f"at most {ENTRY_BYTES_MAX:,} bytes",
                found=f"{len(data):,} bytes",
                todo="put the large value into an artifact",
            )
        return data

    def build_all(
        self, events: Sequence[bytes], digits: Sequence[bytes], *, seq: int, prev: bytes, time: str
    ) -> Block:
        """Returns the entries of events that follow one another, as `build` builds each.

        Args:
            events: Canonical event bytes, each small enough for `fits`.
            digits: The hex digits of each event's id.
            seq: The place of the first, from 0.
            prev: 32-byte leaf of the entry before it.
            time: The time of all, for which `is_time` holds.
        """
        between = b'","time":"%b%bb3:' % (time.encode(), self._middle)
        block, before = Block([], []), hexlify(prev)
        for place, (event, id_) in enumerate(zip(events, digits, strict=True), seq):
            data = b'%b%d,"prev":"%b%b%b","event":%b}' % (
                self._begin, place, before, between, id_, event
            )  # fmt: skip
            leaf = leaf_hash(data)
            before = hexlify(leaf)
            block.entries.append(data)
            block.leaves.append(leaf)
        return block


def is_time(text: str) -> bool:
    """Returns whether a time has the form that an entry holds."""
    return _TIME.fullmatch(text) is not None


def fits(event: bytes) -> bool:
    """Returns whether an event's bytes are few enough for an entry, whatever its header."""
    return len(event) <= ENTRY_BYTES_MAX - _HEADER_BYTES_MAX


@lru_cache(maxsize=8)
def header_of(ledger: str, actor: str) -> Header:
    """Returns the header of a ledger's entries by an actor, the same one again and again."""
    return Header(ledger, actor)


def build_entry(
    event: bytes, *, ledger: str, seq: int, prev: bytes, time: str, actor: str, id: str
) -> bytes:
    """Returns the bytes of an entry; arguments and errors are those of `Header` and its `build`."""
    return header_of(ledger, actor).build(event, seq=seq, prev=prev, time=time, id=id)


def may_be_entry(data: bytes) -> bool:
    """Returns whether bytes begin as an entry does, which costs less than to say why they don't."""
    return data.startswith(b'{"v":1,"ledger":"')


def parse_entry(data: bytes) -> Entry:
    """Returns the parts of an entry; checks its form only, no hash.

    Raises:
        IntegrityError: The bytes have another form.
    """
    match = _HEADER.match(data)
    is_whole = data[-1:] == b"}" and len(data) <= ENTRY_BYTES_MAX and b"\n" not in data
    if match is None or not is_whole or not is_second(match[4][:19]):
        raise IntegrityError(
            "the bytes are not an entry",
            expected='{"v":1,"ledger":…,"seq":…,"prev":…,"time":…,"actor":…,"id":…,"event":…}',
            found=repr(data[:120]),
        )
    ledger, seq, prev, time, actor, id_ = match.groups()
    return Entry(
        ledger.decode(),
        int(seq),
        bytes.fromhex(prev.decode()),
        time.decode(),
        actor.decode(),
        id_.decode(),
        data[match.end() : -1],
        data,
    )


@lru_cache(maxsize=4)
def is_second(text: bytes) -> bool:
    """Returns whether `YYYY-MM-DDThh:mm:ss` is a day and time that there is."""
    try:
        datetime.fromisoformat(text.decode("ascii"))
    except ValueError:
        return False
    return True


def check_entry(entry: Entry, *, ledger: str | None, seq: int, prev: bytes) -> None:
    """Checks that an entry stands where it says, after the entry before, and that its id holds.

    Args:
        entry: The entry as parsed.
        ledger: The ledger's id; None at seq 0.
        seq: The place where the entry was found.
        prev: The leaf of the entry before.

    Raises:
        IntegrityError: One of them differs; `where` is the seq.
    """
    place = f"entry {seq}"
    for what, expected, found in (
        ("the entry stands at another place than it says", str(seq), str(entry.seq)),
        ("the entry belongs to another ledger", ledger or entry.ledger, entry.ledger),
        ("the entry doesn't follow the one before it", prev.hex(), entry.prev.hex()),
        ("the id isn't that of the event's bytes", event_id(entry.event), entry.id),
    ):
        if expected != found:
            raise IntegrityError(
                what, where=place, expected=expected, found=found, todo="ledger replay shows more"
            )


def check_actor(actor: str) -> None:
    """Refuses an actor outside the grammar: 1 to 64 printable ASCII, no blank, quote, backslash.

    Raises:
        LedgerError: The actor has another form.
    """
    if not _ACTOR.fullmatch(actor):
        raise LedgerError(
            "the actor can't be recorded",
            expected="1 to 64 printable ASCII characters without blank, quote or backslash",
            found=actor,
            todo="give --actor NAME or set FAIRTRIAL_ACTOR",
        )
