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
from functools import lru_cache, reduce
from operator import or_

import msgspec

from .canonical import EVENT_ENCODER, UPCASTS, decode_event, event_id, needs_walk
from .entry import ENTRY_BYTES_MAX, Entry, is_second
from .events import (
    ARM_PATTERN,
    EVENT_KINDS,
    EXPERIMENT_PATTERN,
    Attempt,
    AttemptEnd,
    Decision,
    Event,
)

__all__ = ("Follower", "decode_to_fold")

_SECOND = re.compile(rb"[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9]{2}:[0-9]{2}:[0-9]{2}\.")
_SECOND_BYTES, _TIME_BYTES, _ID_BYTES = 20, 27, 67
_ID = re.compile(rb"b3:[0-9a-f]{64}")
_EVENT = b'","event":'
(_NEWLINE,) = b"\n"


class Follower:
    """Compares entries with the header that the next one has to have."""

    __slots__ = ("_actor", "_begin", "_event_at", "_id_at", "_ledger", "_middle", "_second")

    def __init__(self) -> None:
        self._ledger = self._actor = ""
        self._begin = self._middle = self._second = b""
        self._id_at = self._event_at = 0

    def learn(self, entry: Entry) -> None:
        """Takes over ledger and actor of an entry that was checked in full."""
        self._ledger, self._actor = entry.ledger, entry.actor
        self._begin = b'{"v":1,"ledger":"%b","seq":' % entry.ledger.encode()
        self._middle = b'Z","actor":"%b","id":"' % entry.actor.encode()
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

    def event_of(self, data: bytes, *, seq: int, prev: bytes) -> bytes | None:
        """Returns the event of an entry that stands at its place, its id unchecked."""
        time_at = self._time_at(data, seq, prev)
        if time_at < 0 or not _ID.match(data, time_at + self._id_at):
            return None
        return data[time_at + self._event_at : -1]

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
