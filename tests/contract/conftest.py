"""The media under contract, and chains of entries to put into them."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from fairtrial.ledger.canonical import encode_event, event_id
from fairtrial.ledger.entry import ENTRY_BYTES_MAX, FIRST_PREV, build_entry
from fairtrial.ledger.events import Decision
from fairtrial.ledger.memory import MemoryMedium, MemoryStore
from fairtrial.ledger.merkle import leaf_hash
from fairtrial.ledger.opening import open_store
from fairtrial.ledger.port import LogStore, StoreWriter, Tail

LEDGER = "0123456789abcdef0123456789abcdef"
EMPTY = Tail(0, FIRST_PREV)
TIME = "2026-12-01T08:00:00.000000Z"
# What a decision without padding needs at most; padding goes into free keys of up to 200 bytes.
_BASE_BYTES = 1200
_PADDING_BYTES = 180


def decision(position: int, size: int = 0) -> bytes:
    """Returns the bytes of a decision, of about `size` bytes where that is more than it needs."""
    count = max(0, size - _BASE_BYTES) // (_PADDING_BYTES + 8)
    event = Decision(
        experiment="exp-1",
        position=position,
        session=1,
        attempt=1,
        arm="control",
        unit=f"unit {position} ü",
        replicate=1,
        status="ok",
        scores={f"{n:08d}".ljust(_PADDING_BYTES, "x"): 1.0 for n in range(count)},
        origin="live",
    )
    return encode_event(event)


def entry(event: bytes, tail: Tail, *, ledger: str = LEDGER) -> bytes:
    """Returns the entry that puts an event after a tail."""
    return build_entry(
        event,
        ledger=ledger,
        seq=tail.size,
        prev=tail.leaf,
        time=TIME,
        actor="tester",
        id=event_id(event),
    )


def chain(
    count: int, *, after: Tail = EMPTY, sizes: tuple[int, ...] = (0,)
) -> tuple[list[bytes], list[bytes]]:
    """Returns entries that follow a tail, and their leaves; positions are seq + 1."""
    entries: list[bytes] = []
    leaves: list[bytes] = []
    tail = after
    for n in range(count):
        data = entry(decision(tail.size + 1, sizes[n % len(sizes)]), tail)
        assert len(data) <= ENTRY_BYTES_MAX
        tail = Tail(tail.size + 1, leaf_hash(data))
        entries.append(data)
        leaves.append(tail.leaf)
    return entries, leaves


def append(store: LogStore, count: int = 1, *, sizes: tuple[int, ...] = (0,)) -> list[bytes]:
    """Appends fresh entries to a store in one batch and returns them."""
    with store.writer() as writer:
        return write(writer, count, sizes=sizes)


def write(writer: StoreWriter, count: int = 1, *, sizes: tuple[int, ...] = (0,)) -> list[bytes]:
    """Writes fresh entries through a writer and returns them."""
    entries, leaves = chain(count, after=writer.tail, sizes=sizes)
    writer.write(entries, leaves)
    return entries


class Medium:
    """One place for a ledger that can be opened several times, as by several processes."""

    def __init__(self, kind: str, folder: Path) -> None:
        self.kind = kind
        self.path = folder / {"sqlite": "ledger.db", "jsonl": "ledger.jsonl"}.get(kind, "none")
        self._memory = MemoryMedium()
        self._opened: list[LogStore] = []

    @property
    def is_on_disk(self) -> bool:
        """Whether there is a file."""
        return self.kind != "memory"

    def open(self, *, read_only: bool = False) -> LogStore:
        """Returns a new store on the same entries; the first call creates the ledger."""
        if self.is_on_disk:
            create = not read_only and not self.path.exists()
            store = open_store(self.path, create=create, read_only=read_only)
        else:
            store = MemoryStore(self._memory)
        self._opened.append(store)
        return store

    def close(self) -> None:
        """Closes every store."""
        for store in self._opened:
            store.close()


@pytest.fixture(params=["memory", "jsonl", "sqlite"])
def medium(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Medium]:
    """Each of the three media in turn."""
    medium = Medium(request.param, tmp_path)
    yield medium
    medium.close()


@pytest.fixture(params=["jsonl", "sqlite"])
def disk(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Medium]:
    """Each of the media that outlive a process."""
    medium = Medium(request.param, tmp_path)
    yield medium
    medium.close()
