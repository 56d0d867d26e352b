"""The port that the three stores carry out, and what they say of themselves; declarations only.

Leaves the media to `sqlite.py`, `jsonl.py` and `memory.py`, and all meaning of entries to `log.py`.

Rules:
- A store keeps bytes in order and durably; it neither folds nor decides.
- One contract suite runs on every store.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager
from pathlib import Path
from typing import NamedTuple, Protocol, TypeAlias

__all__ = ("Block", "LogStore", "Report", "StoreFinding", "StoreWriter", "Tail", "Torn")


class Tail(NamedTuple):
    """Where a store ends: its size and the leaf of its last entry (32 zero bytes when empty)."""

    size: int
    leaf: bytes


class Torn(NamedTuple):
    """Bytes after the last whole entry of a store.

    `whole` is true when they are a whole entry that only lacks its newline.
    """

    offset: int
    length: int
    sha256: str
    whole: bool


class StoreFinding(NamedTuple):
    """Something that a store's own check has to say; seq is None when no entry is meant."""

    code: str
    seq: int | None
    where: str
    expected: str
    found: str


Report: TypeAlias = Callable[[StoreFinding], None]


class Block(NamedTuple):
    """Some entries that follow one another, at least one, and their leaf hashes."""

    entries: list[bytes]
    leaves: list[bytes]


class StoreWriter(Protocol):
    """The right to append, held under the store's lock."""

    @property
    def tail(self) -> Tail:
        """The end of the store as found under the lock."""
        ...

    def write(self, entries: Sequence[bytes], leaves: Sequence[bytes]) -> None:
        """Appends entries in one batch; they are durable when it returns.

        The caller has built them on `tail`: each `prev` is the leaf before it. May be called again
        under the same lock; the second batch stands on the first.

        Raises:
            StoreError: The medium failed. Nothing is known of the batch: close the store, open it
                again and look the slots up.
        """
        ...


class LogStore(Protocol):
    """A medium for entries. Native to its medium; all stores pass one contract suite.

    Rules:
    - Entries form a contiguous prefix 0..size-1 whatever happens; a batch is whole or absent, but
      for bytes after the last whole entry, which `torn` reports and `recover` sets aside.
    - A reading method writes nothing, creates nothing and never waits for a writer longer than
      the medium's own short lock.
    - Entries are returned as the bytes that were given.
    """

    @property
    def path(self) -> Path | None:
        """Where the store lives; None in memory."""
        ...

    def tail(self) -> Tail:
        """Returns the end of the store, fresh from the medium."""
        ...

    def read(self, start: int = 0, stop: int | None = None) -> Iterator[bytes]:
        """Yields the entries from `start` up to `stop` (default: the tail when it begins)."""
        ...

    def leaves(self, start: int = 0, stop: int | None = None) -> Iterator[bytes]:
        """Yields the leaf hash of each entry, computed from the entry's bytes."""
        ...

    def blocks(
        self, start: int = 0, stop: int | None = None, *, report: Report | None = None
    ) -> Iterator[Block]:
        """Yields what `read` yields in blocks, with the leaf hash of each entry.

        Args:
            start: The first entry.
            stop: Where to end; default: the tail when it begins.
            report: Is told what else is wrong with the rows or lines that are read.
        """
        ...

    def offset_after(self, size: int) -> int:
        """Returns where the first `size` entries end, as a hint for `take_offset`; 0 for none."""
        ...

    def take_offset(self, size: int, offset: int) -> None:
        """Reads on from a hint, so that what stands before it need not be counted.

        A hint is nothing but that: it is dropped unless entry `size - 1` ends there.
        """
        ...

    def find(self, experiment: str, position: int, kind: str, number: int) -> bytes | None:
        """Returns the entry that fills a slot, or None."""
        ...

    def writer(self, *, timeout_seconds: float = 30.0) -> AbstractContextManager[StoreWriter]:
        """Takes the append lock; what was not written when the block ends is given up.

        Raises:
            BusyError: The lock was not obtained in time.
            TornError: Bytes follow the last whole entry.
        """
        ...

    def torn(self) -> Torn | None:
        """Returns what follows the last whole entry, if anything."""
        ...

    def recover(self, quarantine: Path) -> Torn | None:
        """Sets torn bytes aside under the append lock, or completes a missing newline.

        Returns what was found; the torn bytes are in a file of their own in `quarantine`, synced
        before they leave the store. None when nothing was torn.
        """
        ...

    def check(self, start: int = 0) -> Iterator[StoreFinding]:
        """Yields what is wrong with the medium itself (schema, structure, index).

        What is wrong with a single row or line is said by `blocks`.

        From a later entry on, only what can be told without reading what stands before it.
        """
        ...

    def close(self) -> None:
        """Gives up all handles; a second call does nothing."""
        ...
