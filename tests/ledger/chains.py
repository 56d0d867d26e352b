"""Chains of entries for the tests of single stores."""

from __future__ import annotations

from fairtrial.ledger.canonical import encode_event, event_id
from fairtrial.ledger.entry import FIRST_PREV, build_entry
from fairtrial.ledger.events import Decision, Event
from fairtrial.ledger.merkle import leaf_hash
from fairtrial.ledger.port import LogStore, Tail

LEDGER = "0123456789abcdef0123456789abcdef"
EMPTY = Tail(0, FIRST_PREV)


def decision(position: int, unit: str = "unit") -> Decision:
    """Returns the outcome of one slot."""
    return Decision(
        experiment="exp-1",
        position=position,
        session=1,
        attempt=1,
        arm="control",
        unit=unit,
        replicate=1,
        status="ok",
        scores={"passed": 1.0, "score": 0.25},
        cost_nanousd=1_500_000,
        origin="live",
    )


def entry(event: Event, tail: Tail) -> bytes:
    """Returns the entry that puts an event after a tail."""
    data = encode_event(event)
    return build_entry(
        data,
        ledger=LEDGER,
        seq=tail.size,
        prev=tail.leaf,
        time=f"2026-12-01T08:00:00.{tail.size:06d}Z",
        actor="tester",
        id=event_id(data),
    )


def append(store: LogStore, *events: Event) -> list[bytes]:
    """Appends events in one batch and returns their entries."""
    entries: list[bytes] = []
    leaves: list[bytes] = []
    with store.writer() as writer:
        tail = writer.tail
        for event in events:
            entries.append(entry(event, tail))
            leaves.append(leaf_hash(entries[-1]))
            tail = Tail(tail.size + 1, leaves[-1])
        writer.write(entries, leaves)
    return entries


def append_decisions(store: LogStore, count: int) -> list[bytes]:
    """Appends outcomes of slots that are still free and returns their entries."""
    start = store.tail().size + 1
    return append(store, *(decision(position) for position in range(start, start + count)))
