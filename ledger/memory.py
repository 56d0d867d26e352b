"""A store in memory, for tests and for what is never kept.

Leaves the contract to `port.py`; it passes the same suite as the stores on disk.

Rules:
- The medium is one object; two stores on it behave like two processes on one file.
- Durable means in memory: it ends with the process.
"""

from __future__ import annotations

import threading
from collections.abc import Generator, Iterator, Sequence
from contextlib import contextmanager
from itertools import count, islice
from pathlib import Path

from .entry import FIRST_PREV, parse_entry
from .errors import BusyError, StoreError
from .merkle import leaf_hash, leaf_hashes
from .port import Block, Report, StoreFinding, Tail, Torn
from .slot_index import Slot, check_batch, key_of

__all__ = ("MemoryMedium", "MemoryStore")


_BLOCK_ENTRIES = 1000


class MemoryMedium:
    """What would be the file: the entries, their slots and the append lock."""

    def __init__(self) -> None:
        self.entries: list[bytes] = []
        self.slots: dict[bytes, int] = {}
        self.lock = threading.Lock()


class MemoryStore:
    """A store of entries in memory.

    Args:
        medium: The medium of another store, to stand for a second process; default: a fresh one.
    """

    def __init__(self, medium: MemoryMedium | None = None) -> None:
        self.medium = MemoryMedium() if medium is None else medium
        self._closed = False

    @property
    def path(self) -> Path | None:
        """Always None: a store in memory lives nowhere."""
        return None

    def tail(self) -> Tail:
        """Returns the end of the store."""
        entries = self._entries()
        return Tail(len(entries), leaf_hash(entries[-1])) if entries else Tail(0, FIRST_PREV)

    def read(self, start: int = 0, stop: int | None = None) -> Iterator[bytes]:
        """Yields the entries from `start` up to `stop` (default: the tail when it begins)."""
        return iter(self._entries()[start:stop])

    def leaves(self, start: int = 0, stop: int | None = None) -> Iterator[bytes]:
        """Yields the leaf hash of each entry, computed from the entry's bytes."""
        return map(leaf_hash, self.read(start, stop))

    def blocks(
        self, start: int = 0, stop: int | None = None, *, report: Report | None = None
    ) -> Iterator[Block]:
        """Yields the entries with their leaf hashes in blocks; there is nothing else to report."""
        del report
        rest = self.read(start, stop)
        while entries := list(islice(rest, _BLOCK_ENTRIES)):
            yield Block(entries, leaf_hashes(entries))

    def offset_after(self, size: int) -> int:
        """Returns 0: an entry is found by its seq."""
        del size
        return 0

    def take_offset(self, size: int, offset: int) -> None:
        """Does nothing: an entry is found by its seq."""

    def find(self, experiment: str, position: int, kind: str, number: int) -> bytes | None:
        """Returns the entry that fills a slot, or None."""
        entries = self._entries()
        seq = self.medium.slots.get(key_of(Slot(experiment, position, kind, number)))
        return None if seq is None else entries[seq]

    @contextmanager
    def writer(self, *, timeout_seconds: float = 30.0) -> Generator[MemoryWriter]:
        """Takes the append lock for as long as the block runs.

        Raises:
            BusyError: The lock was not obtained in time.
        """
        self._entries()
        if not self.medium.lock.acquire(timeout=timeout_seconds):
            raise BusyError(
                f"the append lock is held by another writer, waited {timeout_seconds:g} s",
                todo="wait until it has ended",
            )
        writer = MemoryWriter(self.medium, self.tail())
        try:
            yield writer
        finally:
            writer.close()
            self.medium.lock.release()

    def torn(self) -> Torn | None:
        """Returns None: memory has no half-written end."""
        return None

    def recover(self, quarantine: Path) -> Torn | None:
        """Returns None: there is nothing to set aside."""
        del quarantine
        return None

    def check(self, start: int = 0) -> Iterator[StoreFinding]:
        """Yields nothing: the medium has no structure that could be wrong."""
        del start
        return iter(())

    def close(self) -> None:
        """Ends the use of this store; the medium stays."""
        self._closed = True

    def _entries(self) -> list[bytes]:
        if self._closed:
            raise StoreError("the store is closed", todo="open it again")
        return self.medium.entries


class MemoryWriter:
    """The right to append to a medium in memory."""

    def __init__(self, medium: MemoryMedium, tail: Tail) -> None:
        self._medium = medium
        self._is_open = True
        self.tail = tail

    def write(self, entries: Sequence[bytes], leaves: Sequence[bytes]) -> None:
        """Appends entries in one batch, or none of them.

        Raises:
            ConflictError: A slot is taken.
            IntegrityError: The entries don't follow the tail.
            StoreError: The lock was given back.
        """
        if not self._is_open:
            raise StoreError("the append lock was given back", todo="take a writer again")
        medium = self._medium
        ledger = parse_entry(medium.entries[0]).ledger if medium.entries else None
        taken = medium.slots.__contains__
        keys = check_batch(entries, leaves, tail=self.tail, ledger=ledger, is_taken=taken)
        medium.entries += entries
        medium.slots.update(zip(keys, count(self.tail.size), strict=False))
        if entries:
            self.tail = Tail(self.tail.size + len(entries), leaves[-1])

    def close(self) -> None:
        """Ends the right to append."""
        self._is_open = False
