"""Gathers what nearly every batch is made of: events of a run that are encoded and built together.

Leaves the right to stand to `run_fold.py`, the bytes to `canonical.py` and `entry.py`, and all that
isn't plainly sound to the slow way of `log.py`, so that it alone decides what is refused, and why.

Rules:
- Only events that name no earlier entry are gathered: nothing has to be looked up for them.
- Events that are gathered can be stored as they are; each fits into an entry.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import groupby
from typing import NamedTuple, TypeVar

from .canonical import encode_events
from .entry import fits
from .events import Attempt, AttemptEnd, Decision, Event

__all__ = ("Drafts", "gathered")

T = TypeVar("T")
_KINDS = frozenset((Attempt, AttemptEnd, Decision))


class Drafts(NamedTuple):
    """Events of a run that follow one another, at least two, and the bytes of each."""

    events: list[Event]
    datas: list[bytes]


def gathered(requests: Sequence[Event | T]) -> Iterator[Drafts | Event | T]:
    """Yields requests in order: events of a run together, all else one by one."""
    for is_of_run, group in groupby(requests, _is_of_run):
        members = list(group)
        drafts = _drafts(members) if is_of_run and len(members) > 1 else None
        if drafts is None:
            yield from members
        else:
            yield drafts


def _is_of_run(request: object) -> bool:
    if type(request) not in _KINDS:
        return False
    return not isinstance(request, Decision) or request.source is None


def _drafts(members: Sequence[object]) -> Drafts | None:
    events = [event for event in members if isinstance(event, (Attempt, AttemptEnd, Decision))]
    datas = encode_events(events)
    if datas is None or not all(map(fits, datas)):
        return None
    return Drafts([*events], datas)
