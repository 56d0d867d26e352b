"""The record as a file of lines: one entry a line, its bytes and one LF.

Leaves the contract to `port.py`, scanning lines to `jsonl_lines.py`, and what else could stand at a
path to `opening.py`.

Rules:
- Lines end at LF and nowhere else; only bytes after the last LF can be torn.
- A batch is one write under the append lock, synced before it counts, cut back when it fails.
- Nothing is written through a symbolic link or to a file with a second name: the lock stands beside
  one name.
- What others appended is read once; a file that lost what was seen of it is an IntegrityError.
- After a failed write the store writes no more: nobody knows what reached the disk.
"""

from __future__ import annotations

import os
import sys
import threading
from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from itertools import chain
from operator import attrgetter
from pathlib import Path
from typing import BinaryIO

from .durable import create_folder, sync_file, sync_folder, write_all
from .entry import ENTRY_BYTES_MAX
from .errors import StoreError, TornError
from .jsonl_file import (
    Handles,
    check_name,
    cut_back,
    not_written,
    opened_to_append,
    opened_to_read,
    set_aside,
)
from .jsonl_lines import (
    BUFFER_BYTES,
    End,
    SlotOffsets,
    advance,
    after_lines,
    before_lines,
    end_at,
    end_of_lines,
    line_blocks,
    search,
    torn_after,
)
from .locks import append_lock_path, file_lock, link_findings, lock_holder
from .merkle import leaf_hashes
from .port import Block, Report, StoreFinding, Tail, Torn
from .slot_index import Slot, check_batch, slot_of

__all__ = ("JsonlStore", "JsonlWriter")


_LEAVES = attrgetter("leaves")


class JsonlStore:
    """A store of entries in a JSON Lines file.

    Args:
        path: The file; it must exist (`create` makes an empty one).
        read_only: Refuse every writing method.
    """

    def __init__(self, path: Path, *, read_only: bool = False) -> None:
        self._path = path
        self._read_only = read_only
        self._state = threading.RLock()
        self._end = End()
        self._slots = SlotOffsets()
        self._lock_path = append_lock_path(path)
        # Lines whose place is known, and where they begin: one that was read from, and of a hint.
        self._reached, self._marks = (0, 0), ((0, 0), (0, 0))
        self._closed = False
        self._failed = False

    @classmethod
    def create(cls, path: Path) -> JsonlStore:
        """Creates an empty ledger file, durable with its name; keeps one that is there."""
        create_folder(path.parent)
        try:
            os.close(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o666))
        except FileExistsError:
            return cls(path)
        sync_folder(path.parent)
        return cls(path)

    @property
    def path(self) -> Path | None:
        """The file."""
        return self._path

    def tail(self) -> Tail:
        """Returns the end of the store, fresh from the file."""
        with self._opened() as file:
            return self._advance(file).tail

    def read(self, start: int = 0, stop: int | None = None) -> Iterator[bytes]:
        """Yields the entries from `start` up to `stop` (default: the tail now).

        A line longer than an entry can be comes shortened to one byte more than that.
        """
        with self._opened() as file:
            end = self._advance(file)
        size = end.size if stop is None else min(stop, end.size)
        return chain.from_iterable(self._lines(start, size, end.offset))

    def leaves(self, start: int = 0, stop: int | None = None) -> Iterator[bytes]:
        """Yields the leaf hash of each entry, computed from the entry's bytes."""
        return chain.from_iterable(map(_LEAVES, self.blocks(start, stop)))

    def blocks(
        self, start: int = 0, stop: int | None = None, *, report: Report | None = None
    ) -> Iterator[Block]:
        """Yields the entries with their leaf hashes in blocks; reports lines that are too long."""
        with self._opened() as file, self._state:
            offset = end_of_lines(file, self._end)
        return self._blocks(start, sys.maxsize if stop is None else stop, offset, report)

    def offset_after(self, size: int) -> int:
        """Returns where the first `size` entries end, if that is the end that was seen last."""
        with self._state:
            return self._end.offset if self._end.size == size else 0

    def take_offset(self, size: int, offset: int) -> None:
        """Reads on from an offset, where the bytes before it are those of entry `size - 1`."""
        with self._opened() as file, self._state:
            end = end_at(file, size, offset)
            if end is not None and end.size > self._end.size:
                self._end = end
                self._marks = ((size - 1, end.line), (size, offset))

    def find(self, experiment: str, position: int, kind: str, number: int) -> bytes | None:
        """Returns the entry that fills a slot, or None; before the first write by a search."""
        slot = Slot(experiment, position, kind, number)
        with self._state, self._opened() as file:
            end = self._advance(file)
            if self._slots.is_empty():
                return search(file, end.offset, slot)
            self._slots.advance(file, end)
            return self._slots.find(file, slot)

    @contextmanager
    def writer(self, *, timeout_seconds: float = 30.0) -> Generator[JsonlWriter]:
        """Takes the append lock for as long as the block runs.

        Raises:
            BusyError: The lock was not obtained in time.
            TornError: Bytes follow the last whole entry.
            IntegrityError: The file lost or changed what was seen of it.
            StoreError: The file can't be written, or an earlier write failed.
        """
        with self._locked(timeout_seconds) as handles:
            torn = self._torn_now(handles)
            if torn is not None:
                raise _torn_error(self._path, torn)
            with self._state:
                if not self._slots.is_at(self._end):
                    self._slots.advance(handles.file, self._end)
            writer = JsonlWriter(partial(self._append, handles), self._end.tail)
            try:
                yield writer
            finally:
                writer.close()

    def torn(self) -> Torn | None:
        """Returns what follows the last whole entry; None while a writer is at work there."""
        found = self._look_for_torn()
        if found is None or lock_holder(append_lock_path(self._path)):
            return None
        # The writer may have ended between the two looks: only what stays is torn.
        return found if self._look_for_torn() == found else None

    def recover(self, quarantine: Path) -> Torn | None:
        """Moves torn bytes into a file of their own in `quarantine`, or adds a missing newline."""
        with self._locked(30.0) as handles:
            torn = self._torn_now(handles)
            if torn is None:
                return None
            if torn.whole:
                write_all(handles.fd, b"\n")
            else:
                set_aside(handles.file, torn, quarantine, self._path.name)
                os.ftruncate(handles.fd, torn.offset)
            sync_file(handles.fd)
            return torn

    def check(self, start: int = 0) -> Iterator[StoreFinding]:
        """Yields what is wrong with the file itself: kind and names."""
        yield from link_findings(self._path)
        del start

    def close(self) -> None:
        """Ends the use of this store."""
        self._closed = True

    def _lines(self, start: int, stop: int, offset: int) -> Iterator[list[bytes]]:
        """Yields so many lines in lists; `offset` is where whole lines end."""
        left = stop - start
        if left <= 0:
            return
        with self._opened(BUFFER_BYTES) as file:
            begin = self._offset_of(file, start)
            for found in line_blocks(file, begin, offset) if begin is not None else ():
                yield found[:left]
                left -= len(found)
                if left <= 0:
                    return

    def _blocks(self, start: int, stop: int, offset: int, report: Report | None) -> Iterator[Block]:
        for entries in self._lines(start, stop, offset):
            if report is not None and max(map(len, entries), default=0) > ENTRY_BYTES_MAX:
                _report_long(entries, start, report)
            start += len(entries)
            yield Block(entries, leaf_hashes(entries))

    def _offset_of(self, file: BinaryIO, seq: int) -> int | None:
        """Returns where a line begins; remembers it, so that the next reading starts there.

        None where the file has fewer lines.
        """
        # A writer moves places and their seqs one after the other.
        with self._state:
            end = self._end.size, self._end.offset
            places = (self._slots.nearest(seq), self._reached, end, *self._marks)
        near, known = min(places, key=lambda place: abs(place[0] - seq))
        if near <= seq:
            offset = after_lines(file, known, seq - near)
        else:
            offset = before_lines(file, known, near - seq)
        if offset is not None:
            self._reached = seq, offset
        return offset

    @contextmanager
    def _opened(self, buffer_bytes: int = -1) -> Generator[BinaryIO]:
        self._check_open()
        with opened_to_read(self._path, buffer_bytes) as file:
            yield file

    def _check_open(self) -> None:
        if self._closed:
            raise StoreError("the store is closed", where=str(self._path), todo="open it again")

    @contextmanager
    def _locked(self, timeout_seconds: float) -> Generator[Handles]:
        """Holds the append lock and yields the opened file, its end known."""
        if self._read_only or self._failed:
            why = "an earlier write failed" if self._failed else "it was opened for reading only"
            raise not_written(self._path, why)
        self._check_open()
        check_name(self._path)
        with file_lock(self._lock_path, timeout_seconds=timeout_seconds, what="append"):
            handles = opened_to_append(self._path)
            try:
                if not handles.is_at(self._end):
                    self._advance(handles.file)
                yield handles
            finally:
                handles.close()

    def _torn_now(self, handles: Handles) -> Torn | None:
        """Returns what follows the last whole entry; the end is known."""
        return None if handles.size == self._end.offset else torn_after(handles.file, self._end)

    def _advance(self, file: BinaryIO) -> End:
        with self._state:
            self._end = advance(file, self._end)
            return self._end

    def _look_for_torn(self) -> Torn | None:
        with self._opened() as file:
            with self._state:
                if end_of_lines(file, self._end) == file.seek(0, 2):
                    return None
            return torn_after(file, self._advance(file))

    def _append(self, handles: Handles, entries: Sequence[bytes], leaves: Sequence[bytes]) -> Tail:
        """Checks and appends a batch; the lock is held and the end is known."""
        with self._state:
            slots, end = self._slots, self._end

            def is_taken(key: bytes) -> bool:
                return slots.is_known(key) and slots.find(handles.file, slot_of(key)) is not None

            keys = check_batch(
                entries, leaves, tail=end.tail, ledger=slots.ledger, is_taken=is_taken
            )
            if not entries:
                return end.tail
            self._write(handles.fd, b"\n".join((*entries, b"")))
            slots.add(keys, entries)
            length = sum(map(len, entries)) + len(entries)
            last = end.offset + length - len(entries[-1]) - 1
            self._end = End(end.offset + length, end.size + len(entries), last, leaves[-1])
            return self._end.tail

    def _write(self, fd: int, data: bytes) -> None:
        try:
            write_all(fd, data)
            sync_file(fd)
        except BaseException as error:
            self._failed = True
            left = cut_back(fd, self._end.offset)
            if not isinstance(error, OSError):
                raise
            raise StoreError(
                "the batch could not be written" + left,
                where=str(self._path),
                found=str(error),
                todo="see to the disk, then run the same command again",
            ) from error


class JsonlWriter:
    """The right to append to a JSON Lines file."""

    def __init__(self, append: Callable[[Sequence[bytes], Sequence[bytes]], Tail], tail: Tail):
        self._append = append
        self._is_open = True
        self.tail = tail

    def write(self, entries: Sequence[bytes], leaves: Sequence[bytes]) -> None:
        """Appends entries in one batch, durable when it returns, or none of them.

        Raises:
            ConflictError: A slot is taken.
            IntegrityError: The entries don't follow the tail.
            StoreError: The medium failed, or the lock was given back.
        """
        if not self._is_open:
            raise StoreError("the append lock was given back", todo="take a writer again")
        self.tail = self._append(entries, leaves)

    def close(self) -> None:
        """Ends the right to append."""
        self._is_open = False


def _report_long(entries: list[bytes], start: int, report: Report) -> None:
    expected = f"at most {ENTRY_BYTES_MAX:,} bytes"
    for seq, line in enumerate(entries, start):
        if len(line) > ENTRY_BYTES_MAX:
            report(StoreFinding("long_line", seq, f"entry {seq}", expected, "a longer line"))


def _torn_error(path: Path, torn: Torn) -> TornError:
    kind = "a whole entry without its newline" if torn.whole else "a part of an entry"
    return TornError(
        "bytes follow the last whole entry: a crash left them",
        where=f"{path}, byte {torn.offset}",
        expected="the end of the file",
        found=f"{torn.length:,} bytes, {kind}",
        todo="the next run sets them aside and says so",
    )
