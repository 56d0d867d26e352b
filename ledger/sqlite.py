"""The record as a SQLite database: one row an entry.

Leaves the contract to `port.py`, the schema to `sqlite_schema.py`, connections and the meaning of
errors to `sqlite_connection.py`.

Rules:
- Entries are written under our own append lock, since SQLite's waiting is unfair, and in one
  IMMEDIATE transaction a batch; triggers refuse what doesn't follow.
- Reading goes by pages of seq in short transactions: a reader that stays in one blocks commits.
- Reading and writing have a connection each, so that no reader sees a batch before it is durable.
- After a failed commit the store writes no more: nobody knows what reached the disk.
"""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import closing, contextmanager
from functools import partial
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Any

from .durable import create_folder, sync_folder
from .entry import FIRST_PREV
from .errors import IntegrityError, StoreError
from .locks import append_lock_path, check_one_name, file_lock, link_findings
from .merkle import leaf_hash, leaf_hashes
from .port import Block, Report, StoreFinding, Tail, Torn
from .sqlite_check import check_database, check_rows, sound_block
from .sqlite_connection import (
    IN_PROCESS,
    LongReader,
    check_header,
    connect,
    copy_to_undo,
    is_half_committed,
    store_error,
)
from .sqlite_schema import APPLICATION_ID, SCHEMA, USER_VERSION

if TYPE_CHECKING:
    from tempfile import TemporaryDirectory

__all__ = ("SqliteStore", "SqliteWriter")

# A page is walked while it is still near the processor; larger ones were slower by a fifteenth.
_PAGE_ENTRIES = 300
_LAST = "SELECT seq,leaf,CAST(entry AS BLOB) FROM entry ORDER BY seq DESC LIMIT 1"
# Both ends are places that a row can have: one after the last of those is none to SQLite.
_WHERE = f" FROM entry WHERE seq BETWEEN ? AND ? ORDER BY seq LIMIT {_PAGE_ENTRIES}"
_PAGE = f"SELECT seq,coalesce(CAST(entry AS BLOB),x''){_WHERE}"
_PAGE_CHECKED = f"SELECT seq,coalesce(CAST(entry AS BLOB),x''),leaf,typeof(entry){_WHERE}"
# What is no text has no place here, so that no column more need be fetched for its type.
_PAGE_SOUND = f"SELECT CASE WHEN typeof(entry)='text' THEN seq END,CAST(entry AS BLOB),leaf{_WHERE}"
_FIND = (
    "SELECT CAST(entry AS BLOB) FROM entry"
    " WHERE experiment=? AND position=? AND kind=? AND number=?"
)
_INSERT = "INSERT INTO entry (seq,leaf,entry) VALUES (?,?,?)"
# Rows of one statement share its start and end, which cost a tenth of them.
_ROWS_AT_ONCE = 25
_INSERT_ROWS = _INSERT + ",(?,?,?)" * (_ROWS_AT_ONCE - 1)


class SqliteStore:
    """A store of entries in a SQLite database.

    Args:
        path: The file; it must be a ledger (`create` makes an empty one).
        read_only: Refuse every writing method and open the file for reading only.

    Raises:
        StoreError: The file is missing or not a ledger.
        NewerError: The ledger's format is newer.
    """

    def __init__(self, path: Path, *, read_only: bool = False) -> None:
        check_header(path)
        self._path = path
        self._read_only = read_only
        self._lock_path = append_lock_path(path)
        self._identity = path.stat()
        self._reading: sqlite3.Connection | None = None
        self._writing: sqlite3.Connection | None = None
        self._copy: TemporaryDirectory[str] | None = None
        self._closed = False
        self._failed = False

    @classmethod
    def create(cls, path: Path) -> SqliteStore:
        """Creates an empty ledger, durable with its name; keeps one that is there."""
        create_folder(path.parent)
        with file_lock(append_lock_path(path), timeout_seconds=30.0, what="creation"):
            if not path.exists() or path.stat().st_size == 0:
                _create_schema(path)
                sync_folder(path.parent)
        return cls(path)

    @property
    def path(self) -> Path | None:
        """The file."""
        return self._path

    def tail(self) -> Tail:
        """Returns the end of the store, fresh from the file."""
        rows = self._query(_LAST)
        if not rows:
            return Tail(0, FIRST_PREV)
        return Tail(self._place(rows[0][0]) + 1, leaf_hash(rows[0][2] or b""))

    def read(self, start: int = 0, stop: int | None = None) -> Iterator[bytes]:
        """Yields the entries from `start` up to `stop` (default: the tail now)."""
        return chain.from_iterable(self._entries(start, stop))

    def leaves(self, start: int = 0, stop: int | None = None) -> Iterator[bytes]:
        """Yields the leaf hash of each entry, computed from the entry's bytes."""
        return chain.from_iterable(map(leaf_hashes, self._entries(start, stop)))

    def blocks(
        self, start: int = 0, stop: int | None = None, *, report: Report | None = None
    ) -> Iterator[Block]:
        """Yields the entries with their leaf hashes in blocks; reports gaps and wrong columns."""
        size = self.tail().size
        return self._blocks(start, size if stop is None else min(stop, size), report)

    def offset_after(self, size: int) -> int:
        """Returns 0: an entry is found by its seq."""
        del size
        return 0

    def take_offset(self, size: int, offset: int) -> None:
        """Does nothing: an entry is found by its seq."""

    def find(self, experiment: str, position: int, kind: str, number: int) -> bytes | None:
        """Returns the entry that fills a slot, or None."""
        rows = self._query(_FIND, (experiment, position, kind, number))
        return rows[0][0] if rows else None

    @contextmanager
    def writer(self, *, timeout_seconds: float = 30.0) -> Generator[SqliteWriter]:
        """Takes the append lock for as long as the block runs.

        Raises:
            BusyError: The lock was not obtained in time.
            IntegrityError: The last entry contradicts its stored leaf.
            StoreError: The file can't be written, or an earlier write failed.
        """
        self._check_usable()
        if self._read_only or self._failed:
            why = "an earlier write failed" if self._failed else "it was opened for reading only"
            raise StoreError("the ledger is not written", where=str(self._path), found=why)
        check_one_name(self._path, os.lstat(self._path))
        with file_lock(self._lock_path, timeout_seconds=timeout_seconds, what="append"):
            connection = self._connection_to_write()
            writer = SqliteWriter(partial(self._append, connection), self._checked_tail(connection))
            try:
                yield writer
            finally:
                writer.close()

    def torn(self) -> Torn | None:
        """Returns None: SQLite undoes by itself a commit that was killed half-way."""
        return None

    def recover(self, quarantine: Path) -> Torn | None:
        """Returns None: there is nothing to set aside."""
        del quarantine
        return None

    def check(self, start: int = 0) -> Iterator[StoreFinding]:
        """Yields what is wrong: names of the file, header, schema, structure, rows before 0."""
        yield from link_findings(self._path)
        with closing(LongReader(self._path)) as apart:
            yield from check_database(apart.query, str(self._path), start=start)

    def close(self) -> None:
        """Closes both connections."""
        with IN_PROCESS:
            self._closed = True
            for connection in (self._reading, self._writing):
                if connection is not None:
                    connection.close()
            self._reading = self._writing = None
            if self._copy is not None:
                self._copy.cleanup()

    def _entries(self, start: int, stop: int | None) -> Iterator[list[bytes]]:
        size = self.tail().size
        pages = self._pages(start, size if stop is None else min(stop, size))
        return ([row[1] for row in rows] for rows in pages)

    def _blocks(self, start: int, stop: int, report: Report | None) -> Iterator[Block]:
        # What was read of a page has to be given back before its entries are walked: hence apart.
        while start < stop and (page := self._page(start, stop, report)):
            block, start = page
            yield block

    def _page(self, start: int, stop: int, report: Report | None) -> tuple[Block, int] | None:
        """Returns some entries and the place after them, None where there is no further one."""
        rows = self._query(_PAGE_SOUND, (start, stop - 1))
        block = sound_block(rows, start)
        if block is None:
            rows = self._query(_PAGE_CHECKED, (start, stop - 1))
            entries = [row[1] for row in rows]
            block = Block(entries, leaf_hashes(entries))
            for found in check_rows(rows, block.leaves, start, str(self._path)):
                if report is not None:
                    report(found)
        return (block, self._place(rows[-1][0]) + 1) if rows else None

    def _pages(self, start: int, stop: int) -> Iterator[list[tuple[Any, ...]]]:
        while start < stop and (rows := self._query(_PAGE, (start, stop - 1))):
            yield rows
            start = self._place(rows[-1][0]) + 1

    def _place(self, seq: object) -> int:
        """Returns the place of a row; a damaged schema can make it anything.

        Raises:
            IntegrityError: It is no place.
        """
        if isinstance(seq, int):
            return seq
        raise IntegrityError("a row has no place", where=str(self._path), found=repr(seq)[:80])

    def _query(self, sql: str, parameters: Sequence[str | int] = ()) -> list[tuple[Any, ...]]:
        """Returns all rows of a statement, read in one short transaction."""
        try:
            try:
                return self._fetch(sql, parameters)
            except sqlite3.Error as error:
                if not is_half_committed(error):
                    raise
            path, copy = copy_to_undo(self._path)
            with IN_PROCESS:
                self._connection_to_read().close()
                self._reading, self._copy = connect(path, "rw"), copy
            return self._fetch(sql, parameters)
        except (sqlite3.Error, UnicodeDecodeError) as error:
            raise store_error(error, self._path) from error

    def _fetch(self, sql: str, parameters: Sequence[str | int]) -> list[tuple[Any, ...]]:
        with IN_PROCESS:
            self._check_usable()
            return self._connection_to_read().execute(sql, parameters).fetchall()

    def _check_usable(self) -> None:
        if self._closed:
            raise StoreError("the store is closed", where=str(self._path), todo="open it again")
        try:
            same = os.path.samestat(self._identity, os.stat(self._path))
        except FileNotFoundError:
            same = False
        if not same:
            raise StoreError(
                "the ledger was removed or replaced while it was open",
                where=str(self._path),
                todo="open it again",
            )

    def _connection_to_read(self) -> sqlite3.Connection:
        if self._reading is None:
            self._reading = connect(self._path, "ro" if self._read_only else "rw")
            self._reading.execute("PRAGMA query_only=ON")
        return self._reading

    def _connection_to_write(self) -> sqlite3.Connection:
        with IN_PROCESS:
            self._check_usable()
            try:
                self._writing = self._writing or connect(self._path, "rw")
            except sqlite3.Error as error:
                raise store_error(error, self._path) from error
            return self._writing

    def _checked_tail(self, connection: sqlite3.Connection) -> Tail:
        with IN_PROCESS:
            try:
                row = connection.execute(_LAST).fetchone()
            except sqlite3.Error as error:
                raise store_error(error, self._path) from error
        if row is None:
            return Tail(0, FIRST_PREV)
        seq, leaf, data = row
        if leaf != leaf_hash(data):
            raise IntegrityError(
                "the last entry contradicts its leaf",
                where=f"entry {seq}",
                expected=leaf_hash(data).hex(),
                found=bytes(leaf).hex(),
                todo="ledger replay shows what differs",
            )
        return Tail(seq + 1, leaf)

    def _append(
        self,
        connection: sqlite3.Connection,
        tail: Tail,
        entries: Sequence[bytes],
        leaves: Sequence[bytes],
    ) -> None:
        rows = _rows(tail, entries, leaves)
        with IN_PROCESS:
            try:
                connection.execute("BEGIN IMMEDIATE")
                _insert(connection, rows)
                connection.execute("COMMIT")
            except BaseException as error:
                self._failed = not _is_undone(connection, error)
                if isinstance(error, sqlite3.Error):
                    raise store_error(error, self._path) from error
                raise


class SqliteWriter:
    """The right to append to a SQLite ledger."""

    def __init__(
        self, append: Callable[[Tail, Sequence[bytes], Sequence[bytes]], None], tail: Tail
    ) -> None:
        self._append = append
        self._is_open = True
        self.tail = tail

    def write(self, entries: Sequence[bytes], leaves: Sequence[bytes]) -> None:
        """Appends entries in one transaction, durable when it returns, or none of them.

        Raises:
            ConflictError: A slot is taken.
            IntegrityError: The entries don't follow the tail.
            BusyError: Another program kept the database; nothing was written.
            StoreError: The medium failed, or the lock was given back.
        """
        if not self._is_open:
            raise StoreError("the append lock was given back", todo="take a writer again")
        self._append(self.tail, entries, leaves)
        if entries:
            self.tail = Tail(self.tail.size + len(entries), leaves[-1])

    def close(self) -> None:
        """Ends the right to append."""
        self._is_open = False


def _create_schema(path: Path) -> None:
    try:
        with IN_PROCESS, closing(connect(path, "rwc")) as connection:
            connection.execute("BEGIN IMMEDIATE")
            connection.execute(f"PRAGMA application_id={APPLICATION_ID}")
            connection.execute(f"PRAGMA user_version={USER_VERSION}")
            for statement in SCHEMA:
                connection.execute(statement)
            connection.execute("COMMIT")
    except sqlite3.Error as error:
        raise store_error(error, path) from error


def _rows(
    tail: Tail, entries: Sequence[bytes], leaves: Sequence[bytes]
) -> list[tuple[int, bytes, str]]:
    """Returns the rows of a batch; the triggers check the rest."""
    rows: list[tuple[int, bytes, str]] = []
    try:
        for seq, (data, leaf) in enumerate(zip(entries, leaves, strict=True), tail.size):
            if b"\n" in data:
                raise IntegrityError("an entry is one line", where=f"entry {seq}")
            rows.append((seq, leaf, data.decode()))
    except ValueError as error:
        raise IntegrityError(
            "a batch is one leaf for each entry, and entries are UTF-8", found=str(error)
        ) from error
    return rows


def _insert(connection: sqlite3.Connection, rows: Sequence[tuple[int, bytes, str]]) -> None:
    whole = len(rows) - len(rows) % _ROWS_AT_ONCE
    for start in range(0, whole, _ROWS_AT_ONCE):
        connection.execute(_INSERT_ROWS, [*chain(*rows[start : start + _ROWS_AT_ONCE])])
    connection.executemany(_INSERT, rows[whole:])


def _is_undone(connection: sqlite3.Connection, error: BaseException) -> bool:
    """Undoes a batch; returns whether it is certain that nothing of it was kept."""
    if not isinstance(error, sqlite3.Error):
        return False
    kind = getattr(error, "sqlite_errorcode", 0) & 0xFF
    try:
        if connection.in_transaction:
            connection.execute("ROLLBACK")
    except sqlite3.Error:
        return False
    return kind in (sqlite3.SQLITE_CONSTRAINT, sqlite3.SQLITE_BUSY, sqlite3.SQLITE_ERROR)
