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
import threading
from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import contextmanager
from functools import cached_property, partial
from itertools import islice
from operator import itemgetter
from pathlib import Path
from typing import BinaryIO

from .durable import create_folder, sync_file, sync_folder, write_all, write_file
from .entry import ENTRY_BYTES_MAX
from .errors import StoreError, TornError
from .jsonl_lines import (
    BUFFER_BYTES,
    End,
    SlotOffsets,
    advance,
    after_lines,
    lines,
    search,
    torn_after,
)
from .locks import append_lock_path, check_one_name, file_lock, link_findings, lock_holder
from .merkle import leaf_hash
from .port import StoreFinding, Tail, Torn
from .slot_index import Slot, check_batch

__all__ = ("JsonlStore", "JsonlWriter")


_CONTENT = itemgetter(1)


class _Handles:
    """The file opened to append, and, where it is asked for, once more to read.

    A buffered reader would lose its place by writes beside it.
    """

    def __init__(self, path: Path, fd: int, size: int) -> None:
        self._path, self.fd, self.size = path, fd, size

    @cached_property
    def file(self) -> BinaryIO:
        """The file opened to read."""
        return _opened_to_read(self._path)

    def is_at(self, end: End) -> bool:
        """Returns whether the file ends where it was last seen to end, with the same line."""
        if self.size != end.offset or not end.size:
            return self.size == end.offset
        line = os.pread(self.fd, end.offset - end.line, end.line)
        return line[-1:] == b"\n" and leaf_hash(line[:-1]) == end.leaf

    def close(self) -> None:
        """Closes both."""
        os.close(self.fd)
        if "file" in self.__dict__:
            self.file.close()


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
        # A line that was read from, and where it begins.
        self._reached = (0, 0)
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
        return self._lines(start, end.size if stop is None else min(stop, end.size), end.offset)

    def leaves(self, start: int = 0, stop: int | None = None) -> Iterator[bytes]:
        """Yields the leaf hash of each entry, computed from the entry's bytes."""
        return map(leaf_hash, self.read(start, stop))

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
                _set_aside(handles.file, torn, quarantine, self._path.name)
                os.ftruncate(handles.fd, torn.offset)
            sync_file(handles.fd)
            return torn

    def check(self, start: int = 0) -> Iterator[StoreFinding]:
        """Yields what is wrong with the file itself: kind, names, length of lines."""
        yield from link_findings(self._path)
        with self._opened(BUFFER_BYTES) as file:
            end = self._advance(file)
            begin = self._offset_of(file, start)
            for seq, (offset, line) in enumerate(lines(file, begin, end.offset), start):
                if len(line) > ENTRY_BYTES_MAX:
                    expected = f"at most {ENTRY_BYTES_MAX:,} bytes"
                    yield StoreFinding(
                        "long_line", seq, f"byte {offset}", expected, "a longer line"
                    )

    def close(self) -> None:
        """Ends the use of this store."""
        self._closed = True

    def _lines(self, start: int, stop: int, offset: int) -> Iterator[bytes]:
        if start >= stop:
            return
        with self._opened(BUFFER_BYTES) as file:
            begin = self._offset_of(file, start)
            yield from map(_CONTENT, islice(lines(file, begin, offset), stop - start))

    def _offset_of(self, file: BinaryIO, seq: int) -> int:
        """Returns where a line begins; remembers it, so that the next reading starts there."""
        near, offset = max(self._slots.nearest(seq), self._reached)
        if near > seq:
            near, offset = self._slots.nearest(seq)
        self._reached = seq, after_lines(file, offset, seq - near)
        return self._reached[1]

    @contextmanager
    def _opened(self, buffer_bytes: int = -1) -> Generator[BinaryIO]:
        self._check_open()
        with _opened_to_read(self._path, buffer_bytes) as file:
            yield file

    def _check_open(self) -> None:
        if self._closed:
            raise StoreError("the store is closed", where=str(self._path), todo="open it again")

    @contextmanager
    def _locked(self, timeout_seconds: float) -> Generator[_Handles]:
        """Holds the append lock and yields the opened file, its end known."""
        if self._read_only or self._failed:
            why = "an earlier write failed" if self._failed else "it was opened for reading only"
            raise _not_written(self._path, why)
        self._check_open()
        _check_name(self._path)
        with file_lock(self._lock_path, timeout_seconds=timeout_seconds, what="append"):
            handles = _opened_to_append(self._path)
            try:
                if not handles.is_at(self._end):
                    self._advance(handles.file)
                yield handles
            finally:
                handles.close()

    def _torn_now(self, handles: _Handles) -> Torn | None:
        """Returns what follows the last whole entry; the end is known."""
        return None if handles.size == self._end.offset else torn_after(handles.file, self._end)

    def _advance(self, file: BinaryIO) -> End:
        with self._state:
            self._end = advance(file, self._end)
            return self._end

    def _look_for_torn(self) -> Torn | None:
        with self._opened() as file:
            return torn_after(file, self._advance(file))

    def _append(self, handles: _Handles, entries: Sequence[bytes], leaves: Sequence[bytes]) -> Tail:
        """Checks and appends a batch; the lock is held and the end is known."""
        with self._state:
            slots, end, keys = self._slots, self._end, list[int]()

            def is_taken(slot: Slot) -> bool:
                keys.append(slots.key_of(slot))
                return slots.is_known(keys[-1]) and slots.find(handles.file, slot) is not None

            check_batch(entries, leaves, tail=end.tail, ledger=slots.ledger, is_taken=is_taken)
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
            left = _cut_back(fd, self._end.offset)
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


def _opened_to_read(path: Path, buffer_bytes: int = -1) -> BinaryIO:
    try:
        return path.open("rb", buffering=buffer_bytes)
    except OSError as error:
        raise StoreError("the ledger can't be read", where=str(path), found=str(error)) from error


def _check_name(path: Path) -> None:
    """Checks that there is a file to write, before a lock is made beside it."""
    try:
        check_one_name(path, path.lstat())
    except OSError as error:
        raise StoreError("the ledger can't be read", where=str(path), found=str(error)) from error


def _opened_to_append(path: Path) -> _Handles:
    try:
        fd = os.open(path, os.O_RDWR | os.O_APPEND | os.O_NOFOLLOW)
    except OSError as error:
        raise _not_written(path, str(error)) from error
    try:
        status = os.fstat(fd)
        check_one_name(path, status)
    except BaseException:
        os.close(fd)
        raise
    return _Handles(path, fd, status.st_size)


def _not_written(path: Path, found: str) -> StoreError:
    return StoreError(
        "the ledger is not written", where=str(path), found=found, todo="open it for writing"
    )


def _cut_back(fd: int, offset: int) -> str:
    """Removes what a failed batch left; returns what to add to the message."""
    try:
        os.ftruncate(fd, offset)
        sync_file(fd)
    except OSError as error:
        return f", and what it left could not be removed ({error})"
    return ", and nothing of it was kept"


def _set_aside(file: BinaryIO, torn: Torn, quarantine: Path, name: str) -> None:
    file.seek(torn.offset)
    create_folder(quarantine)
    data = file.read(torn.length)
    write_file(quarantine / f"{name}-{torn.offset}-{torn.sha256[:16]}.torn", data)


def _torn_error(path: Path, torn: Torn) -> TornError:
    kind = "a whole entry without its newline" if torn.whole else "a part of an entry"
    return TornError(
        "bytes follow the last whole entry: a crash left them",
        where=f"{path}, byte {torn.offset}",
        expected="the end of the file",
        found=f"{torn.length:,} bytes, {kind}",
        todo="the next run sets them aside and says so",
    )
