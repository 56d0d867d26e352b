"""The record as a file of lines: one entry a line, its bytes and one LF.

Leaves the contract to `log.py`, the scanning of lines to `jsonl_lines.py`, opening and its messages to
`opening.py`.

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
import stat
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from .durable import create_folder, sync_file, sync_folder, write_all, write_file
from .entry import ENTRY_BYTES_MAX
from .errors import IntegrityError, LedgerError, StoreError, TornError
from .jsonl_lines import End, SlotOffsets, advance, lines, torn_after
from .locks import append_lock_path, file_lock, lock_holder
from .log import StoreFinding, Tail, Torn
from .merkle import leaf_hash
from .slot_index import Slot, check_batch

__all__ = ("JsonlStore",)


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
        self._unusable = ""
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
        with self._opened() as fd:
            return self._advance(fd).tail

    def read(self, start: int = 0, stop: int | None = None) -> Iterator[bytes]:
        """Yields the entries from `start` up to `stop` (default: the tail when it begins).

        A line longer than an entry can be comes shortened to one byte more than that.
        """
        with self._opened() as fd:
            end = self._advance(fd)
            stop = end.size if stop is None else min(stop, end.size)
            for seq, (_, line) in enumerate(lines(fd, 0, end.offset)):
                if seq >= stop:
                    return
                if seq >= start:
                    yield line

    def leaves(self, start: int = 0, stop: int | None = None) -> Iterator[bytes]:
        """Yields the leaf hash of each entry, computed from the entry's bytes."""
        return map(leaf_hash, self.read(start, stop))

    def find(self, experiment: str, position: int, kind: str, number: int) -> bytes | None:
        """Returns the entry that fills a slot, or None; the first call reads the whole file."""
        with self._state, self._opened() as fd:
            self._slots.advance(fd, self._advance(fd))
            return self._slots.find(fd, Slot(experiment, position, kind, number))

    @contextmanager
    def writer(self, *, timeout_seconds: float = 30.0) -> Iterator[JsonlWriter]:
        """Takes the append lock for as long as the block runs.

        Raises:
            BusyError: The lock was not obtained in time.
            TornError: Bytes follow the last whole entry.
            IntegrityError: The file lost or changed what was seen of it.
            StoreError: The file can't be written, or an earlier write failed.
        """
        with self._locked(timeout_seconds) as fd:
            torn = torn_after(fd, self._end)
            if torn is not None:
                raise _torn_error(self._path, torn)
            self._slots.advance(fd, self._end)
            writer = JsonlWriter(self, fd)
            try:
                yield writer
            finally:
                writer.close()

    def torn(self) -> Torn | None:
        """Returns what follows the last whole entry; None while a writer is at work there."""
        found = self._look_for_torn()
        if found is None or (os.name != "nt" and lock_holder(append_lock_path(self._path))):
            return None
        # The writer may have ended between the two looks: only what stays is torn.
        return found if self._look_for_torn() == found else None

    def recover(self, quarantine: Path) -> Torn | None:
        """Moves torn bytes into a file of their own in `quarantine`, or adds a missing newline."""
        with self._locked(30.0) as fd:
            torn = torn_after(fd, self._end)
            if torn is None:
                return None
            if torn.whole:
                write_all(fd, b"\n")
            else:
                self._set_aside(fd, torn, quarantine)
                os.ftruncate(fd, torn.offset)
            sync_file(fd)
            self._advance(fd)
            return torn

    def check(self) -> Iterator[StoreFinding]:
        """Yields what is wrong with the file itself: its kind, its names, lines of no entry's length."""
        found = _why_not_written(self._path.lstat())
        if found:
            yield StoreFinding("links", None, str(self._path), "a file with one name", found)
        with self._opened() as fd:
            end = self._advance(fd)
            for seq, (offset, line) in enumerate(lines(fd, 0, end.offset)):
                if len(line) > ENTRY_BYTES_MAX:
                    expected = f"at most {ENTRY_BYTES_MAX:,} bytes"
                    yield StoreFinding(
                        "long_line", seq, f"byte {offset}", expected, "a longer line"
                    )

    def close(self) -> None:
        """Ends the use of this store."""
        self._unusable = "the store is closed"

    @contextmanager
    def _opened(self) -> Iterator[int]:
        if self._unusable:
            raise StoreError(self._unusable, where=str(self._path), todo="open it again")
        try:
            fd = os.open(self._path, os.O_RDONLY | getattr(os, "O_BINARY", 0))
        except OSError as error:
            raise StoreError(
                "the ledger can't be read", where=str(self._path), found=str(error)
            ) from error
        try:
            yield fd
        finally:
            os.close(fd)

    @contextmanager
    def _locked(self, timeout_seconds: float) -> Iterator[int]:
        """Holds the append lock and yields the file, opened for appending, its end known."""
        if self._read_only:
            raise StoreError("the ledger was opened for reading only", where=str(self._path))
        with self._opened():
            pass
        lock = append_lock_path(self._path)
        with file_lock(lock, timeout_seconds=timeout_seconds, what="append"):
            fd = self._open_for_append()
            try:
                self._advance(fd)
                yield fd
            finally:
                os.close(fd)

    def _open_for_append(self) -> int:
        try:
            fd = os.open(self._path, os.O_RDWR | os.O_APPEND | os.O_NOFOLLOW)
        except OSError as error:
            raise _not_written(self._path, str(error)) from error
        found = _why_not_written(os.fstat(fd))
        if found:
            os.close(fd)
            raise _not_written(self._path, found)
        return fd

    def _advance(self, fd: int) -> End:
        with self._state:
            try:
                self._end = advance(fd, self._end)
            except IntegrityError as error:
                error.where = str(self._path)
                raise
            return self._end

    def _look_for_torn(self) -> Torn | None:
        with self._opened() as fd:
            return torn_after(fd, self._advance(fd))

    def _set_aside(self, fd: int, torn: Torn, quarantine: Path) -> None:
        data = os.pread(fd, torn.length, torn.offset)
        create_folder(quarantine)
        name = f"{self._path.name}-{torn.offset}-{torn.sha256[:16]}.torn"
        write_file(quarantine / name, data)
