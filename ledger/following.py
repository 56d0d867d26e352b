"""Recognises quickly what nearly every entry is: the next of its ledger, whole and canonical.

The slow way (`entry.py`, `canonical.py`) takes an entry apart, checks each part and says what is
wrong. In a sound ledger all but a few bytes of a header are known before it is read: building them
and comparing costs a third of it. Leaves to the slow way whatever isn't recognised at once, so
that it alone decides what is refused, and why.

Rules:
- What is recognised is what the slow way accepts, to the last byte; None means "ask the slow way".
- Ledger and actor are learned only from an entry that the slow way has accepted.
- An event that was read to be folded may be of a twin class: same fields, same bytes, equal to no
  event of the wire class. It is for the fold, and goes no further.
"""

from __future__ import annotations

import re
from binascii import hexlify
from collections.abc import Iterable, Iterator
from functools import lru_cache, reduce
from itertools import chain, islice
from operator import attrgetter, or_
from typing import NamedTuple, TypeAlias

import msgspec

from .canonical import EVENT_ENCODER, UPCASTS, decode_event, event_digits, event_id, needs_walk
from .entry import ENTRY_BYTES_MAX, Entry, is_second
from .errors import LedgerError
from .events import (
    ARM_PATTERN,
    EVENT_KINDS,
    EXPERIMENT_PATTERN,
    Attempt,
    AttemptEnd,
    Decision,
    Event,
)
from .port import Block

__all__ = ("Followed", "Follower", "Piece", "decode_to_fold", "pieces")

_SECOND = re.compile(rb"[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9]{2}:[0-9]{2}:[0-9]{2}\.")
_SECOND_BYTES, _TIME_BYTES, _ID_BYTES, _HASH_DIGITS = 20, 27, 67, 64
_EVENT = b'","event":'
(_NEWLINE,) = b"\n"


class Followed(NamedTuple):
    """Entries that were recognised together, with their events and times."""

    seq: int
    block: Block
    events: list[Event]
    times: list[bytes]

    def part(self, start: int, stop: int) -> Followed:
        """Returns the entries between two of their indices."""
        entries, leaves = self.block.entries[start:stop], self.block.leaves[start:stop]
        block = Block(entries, leaves)
        return Followed(self.seq + start, block, self.events[start:stop], self.times[start:stop])


# One entry, or several of a run that were recognised together.
Piece: TypeAlias = bytes | Followed


class Follower:
    """Compares entries with the header that the next one has to have."""

    __slots__ = (
        "_actor", "_begin", "_entry", "_event_at", "_id_at", "_ledger", "_middle", "_second",
    )  # fmt: skip

    def __init__(self) -> None:
        self._ledger = self._actor = ""
        self._begin = self._middle = self._second = self._entry = b""
        self._id_at = self._event_at = 0

    def learn(self, entry: Entry) -> None:
        """Takes over ledger and actor of an entry that was checked in full."""
        self._ledger, self._actor = entry.ledger, entry.actor
        self._begin = b'{"v":1,"ledger":"%b","seq":' % entry.ledger.encode()
        self._middle = b'Z","actor":"%b","id":"' % entry.actor.encode()
        # Of seq, prev, time, the digits of the id, and the event.
        actor = entry.actor.encode().replace(b"%", b"%%")
        middle = b'%%d,"prev":"%%b","time":"%%b","actor":"%b","id":"b3:%%b","event":%%b}'
        self._entry = self._begin + middle % actor
        # Both counted from the start of the time.
        self._id_at = _TIME_BYTES - 1 + len(self._middle)
        self._event_at = self._id_at + _ID_BYTES + len(_EVENT)

    def follow(self, data: bytes, *, seq: int, prev: bytes) -> Entry | None:
        """Returns the parts of an entry that stands at its place with its id, None when unsure.

        Args:
            data: The entry.
            seq: Where it stands.
            prev: The leaf of the entry before.
        """
        time_at = self._time_at(data, seq, prev)
        if time_at < 0:
            return None
        event = data[time_at + self._event_at : -1]
        id_ = event_id(event)
        if not data.startswith(id_.encode(), time_at + self._id_at):
            return None
        time = data[time_at : time_at + _TIME_BYTES].decode()
        return Entry(self._ledger, seq, prev, time, self._actor, id_, event, data)

    def follow_block(self, block: Block, *, seq: int, prev: bytes) -> Followed | None:
        """Returns the parts of entries that stand at their places with their ids, None when unsure.

        Args:
            block: The entries; at least one.
            seq: Where the first of them stands.
            prev: The leaf of the entry before it.
        """
        entries, last = block.entries, seq + len(block.entries) - 1
        if not self._begin or len(str(seq)) != len(str(last)):
            return None
        time_at = len(self._begin) + len(f'{seq},"prev":"","time":"') + _HASH_DIGITS
        event_at = time_at + self._event_at
        datas = [data[event_at:-1] for data in entries]
        times = [data[time_at : time_at + _TIME_BYTES] for data in entries]
        events = _events_to_fold(datas)
        if events is None or not _are_times(times) or max(map(len, entries)) > ENTRY_BYTES_MAX:
            return None
        # What these events at these times are as entries of this place.
        prevs = map(hexlify, chain((prev,), block.leaves))
        parts = zip(range(seq, last + 1), prevs, times, event_digits(datas), datas, strict=False)
        if [self._entry % part for part in parts] != entries:
            return None
        return Followed(seq, block, events, times)

    def fitting(self, entries: Iterable[bytes], *, seq: int) -> int:
        """Returns how many entries from the first on may be recognised together.

        They have the header of their ledger and actor, and as many digits in their seq.
        """
        if not self._begin:
            return 0
        digits, begin = len(str(seq)), self._begin
        middle_at = len(begin) + len(f'{seq},"prev":"","time":"') + _HASH_DIGITS + _TIME_BYTES - 1
        count = 0
        for data in entries:
            if not (data.startswith(begin) and data.startswith(self._middle, middle_at)):
                break
            count += 1
        return min(count, int(10**digits) - seq)

    def _time_at(self, data: bytes, seq: int, prev: bytes) -> int:
        """Returns where the time stands, -1 unless all but the id is as it has to be."""
        if not self._begin or data[-1:] != b"}" or len(data) > ENTRY_BYTES_MAX or _NEWLINE in data:
            return -1
        begin = b'%b%d,"prev":"%b","time":"' % (self._begin, seq, hexlify(prev))
        time_at = len(begin)
        digits_at = time_at + _SECOND_BYTES
        second = data[time_at:digits_at]
        if second != self._second and not (_SECOND.fullmatch(second) and is_second(second[:-1])):
            return -1
        self._second = second
        is_sound = (
            data.startswith(begin)
            and data[digits_at : digits_at + 6].isdigit()
            and data.startswith(self._middle, digits_at + 6)
            and data.startswith(_EVENT, time_at + self._event_at - len(_EVENT))
        )
        return time_at if is_sound else -1


def pieces(follower: Follower, block: Block, *, seq: int, prev: bytes) -> Iterator[Piece]:
    """Yields a block piece by piece: what is recognised together, all else entry by entry.

    The next piece is looked for only once the caller has taken in the one before, so that the
    follower may have learned from it.

    Args:
        follower: Recognises.
        block: The entries.
        seq: Where the first of them stands.
        prev: The leaf of the entry before it.
    """
    # In a sound ledger nearly every block is recognised at once; others are looked at more closely.
    whole = follower.follow_block(block, seq=seq, prev=prev)
    if whole is not None:
        yield from _runs(whole)
        return
    place, stop = 0, len(block.entries)
    while place < stop:
        count = follower.fitting(islice(block.entries, place, None), seq=seq + place)
        end = place + max(count, 1)
        rest = Block(block.entries[place:end], block.leaves[place:end])
        followed = None
        if count > 1:
            followed = follower.follow_block(rest, seq=seq + place, prev=prev)
        if followed is not None:
            yield from _runs(followed)
        else:
            yield from rest.entries
        place, prev = end, rest.leaves[-1]


def _runs(followed: Followed) -> Iterator[Piece]:
    """Yields the events of a run that follow one another together, each other one as its entry."""
    start, stop = 0, len(followed.events)
    if _RUN.issuperset(map(type, followed.events)):
        yield followed
        return
    for place, event in enumerate(followed.events):
        if type(event) not in _RUN:
            if place > start:
                yield followed.part(start, place)
            yield followed.block.entries[place]
            start = place + 1
    if stop > start:
        yield followed.part(start, stop)


# A pattern costs msgspec a call each time; here the names of experiments and arms, which are few,
# are matched once each.
class _Attempt(Attempt, frozen=True, kw_only=True, tag="attempt/1", gc=False):
    experiment: str = ""
    arm: str


class _AttemptEnd(AttemptEnd, frozen=True, kw_only=True, tag="attempt_end/1", gc=False):
    experiment: str = ""


class _Decision(Decision, frozen=True, kw_only=True, tag="decision/1", gc=False):
    experiment: str = ""
    arm: str


# Asked of by class: whether it is an instance takes three times as long to answer.
_WITH_ARM = frozenset((_Attempt, _Decision))
_RUN = _WITH_ARM | {_AttemptEnd}
_arm_of = attrgetter("arm")
_TWINS: dict[type[Event], type[Event]] = {
    Attempt: _Attempt,
    AttemptEnd: _AttemptEnd,
    Decision: _Decision,
}
# What is upcast becomes a wire class: only of the newest version is there a twin to fold.
_TYPES = (kind if UPCASTS.is_old(kind) else _TWINS.get(kind, kind) for kind in EVENT_KINDS.values())
_DECODER: msgspec.json.Decoder[Event] = msgspec.json.Decoder(reduce(or_, _TYPES))


def decode_to_fold(data: bytes) -> Event:
    """Returns the event whose canonical bytes these are, to be folded and not to be kept.

    Raises:
        IntegrityError: As `decode_event` says.
    """
    if needs_walk(data):
        return decode_event(data)
    try:
        event = _DECODER.decode(data)
        if EVENT_ENCODER.encode(event) == data and _is_named(event):
            return UPCASTS.newest(event)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        return decode_event(data)
    return decode_event(data)


def _events_to_fold(datas: list[bytes]) -> list[Event] | None:
    """Returns what `decode_to_fold` returns of each, None when unsure."""
    joined = b"\n".join(datas) + b"\n"
    try:
        events = _DECODER.decode_lines(joined)
        # The same bytes, with as many line ends as there are events: each line is its event's.
        if len(events) != len(datas) or EVENT_ENCODER.encode_lines(events) != joined:
            return None
        if needs_walk(joined):
            for data in filter(needs_walk, datas):
                decode_event(data)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError, LedgerError):
        return None
    experiments = {event.experiment for event in events if type(event) in _RUN}
    arms = {_arm_of(event) for event in events if type(event) in _WITH_ARM}
    is_named = all(map(_is_experiment, experiments)) and all(map(_is_arm, arms))
    return UPCASTS.all_newest(events) if is_named else None


def _are_times(times: list[bytes]) -> bool:
    """Returns whether all these bytes, of at most the length of a time, are times of an entry."""
    joined = b"".join(times)
    # The same byte of all of them at once: six columns of digits, and one of Z.
    columns = [joined[place::_TIME_BYTES] for place in range(_SECOND_BYTES, _TIME_BYTES)]
    return (
        len(joined) == _TIME_BYTES * len(times)
        and columns.pop() == b"Z" * len(times)
        and all(map(bytes.isdigit, columns))
        and all(
            _SECOND.fullmatch(second) and is_second(second[:-1])
            for second in {time[:_SECOND_BYTES] for time in times}
        )
    )


def _is_named(event: Event) -> bool:
    """Returns whether what a twin class doesn't check holds: the names of experiment and arm."""
    if isinstance(event, (_Decision, _Attempt)):
        return _is_experiment(event.experiment) and _is_arm(event.arm)
    return not isinstance(event, _AttemptEnd) or _is_experiment(event.experiment)


@lru_cache(maxsize=128)
def _is_experiment(name: str) -> bool:
    return re.search(EXPERIMENT_PATTERN, name) is not None


@lru_cache(maxsize=128)
def _is_arm(name: str) -> bool:
    return re.search(ARM_PATTERN, name) is not None
