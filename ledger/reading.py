"""Reads entries and events from a store without folding them.

Leaves the rules to the fold: what it would refuse can still be read and shown.

Rules:
- An event is handed out only when its bytes are those that its id names.
"""

from __future__ import annotations

from collections.abc import Iterator

from .canonical import decode_event, event_id
from .entry import Entry, parse_entry
from .errors import IntegrityError
from .events import Event
from .port import LogStore

__all__ = ("find_event", "read_events")


def read_events(
    store: LogStore, start: int = 0, stop: int | None = None
) -> Iterator[tuple[Entry, Event]]:
    """Yields entries with their events, each checked by its id.

    Raises:
        IntegrityError: An id isn't that of its event's bytes.
    """
    for data in store.read(start, stop):
        entry = parse_entry(data)
        if event_id(entry.event) != entry.id:
            raise IntegrityError(
                "the id isn't that of the event's bytes",
                where=f"entry {entry.seq}",
                expected=event_id(entry.event),
                found=entry.id,
                todo="ledger replay",
            )
        yield entry, decode_event(entry.event)


def find_event(
    store: LogStore, experiment: str, kind: str, *, position: int = 0, number: int = 0
) -> Event | None:
    """Returns the event that fills a slot, or None."""
    data = store.find(experiment, position, kind, number)
    return None if data is None else decode_event(parse_entry(data).event)
