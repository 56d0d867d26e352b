"""Connections to a SQLite ledger: what is at the path, how it is opened, what its errors mean.

Leaves the entries to `sqlite.py` and the schema to `sqlite_schema.py`.

Rules:
- A file is looked at before SQLite opens it: opening a database in write-ahead mode creates files,
  even when only for reading.
- What stands beside a file and SQLite would read before it is looked at too: a `-wal` is taken for
  the newest entries whatever the file's header says, and a pipe for a journal that is waited for.
- Closing a file drops every lock that this process has on it, those of SQLite included (POSIX):
  each transaction of ours and each plain look at a file is done under `IN_PROCESS`. A check that
  takes long has `_LONG_READ` instead, which plain looks take too: it keeps nobody else waiting.
- Who needs both locks takes `_LONG_READ` first, so that whoever waits for it holds up nobody.
- Reading never writes to the ledger: a commit that was killed half-way is undone in a private copy.
"""

from __future__ import annotations

import os
import sqlite3
import stat
import threading
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from .errors import BusyError, ConflictError, IntegrityError, NewerError, StoreError
from .sqlite_schema import APPLICATION_ID, SLOT_MESSAGE, USER_VERSION

if TYPE_CHECKING:
    from tempfile import TemporaryDirectory

__all__ = (
    "IN_PROCESS",
    "LongReader",
    "check_header",
    "connect",
    "copy_to_undo",
    "is_half_committed",
    "store_error",
)

IN_PROCESS, _LONG_READ = threading.RLock(), threading.RLock()

_BUSY_SECONDS = 30.0
_OLDEST = (3, 31)
# trusted_schema=OFF isn't among them: with it, SQLite 3.40 refuses json_extract in our own columns.
# We register no function that a hostile schema could call, and `check` compares the schema as text.
_PRAGMAS: dict[str, tuple[str, ...]] = {
    "ro": ("cell_size_check=ON", "query_only=ON"),
    "rw": (
        "cell_size_check=ON",
        "recursive_triggers=ON",
        # TRUNCATE syncs after the commit's last step, which DELETE leaves to chance.
        "journal_mode=TRUNCATE",
        "synchronous=FULL",
        "fullfsync=ON",
    ),
}
_PRAGMAS["rwc"] = ("encoding='UTF-8'", *_PRAGMAS["rw"])


def connect(path: Path, mode: str) -> sqlite3.Connection:
    """Opens a database file.

    Args:
        path: The file.
        mode: "ro", "rw", or "rwc" to create it.

    Raises:
        StoreError: SQLite would read something else beside it.
    """
    _check_beside(path)
    connection = sqlite3.connect(
        f"{path.absolute().as_uri()}?mode={mode}",
        uri=True,
        timeout=_BUSY_SECONDS,
        isolation_level=None,
        check_same_thread=False,
    )
    try:
        for pragma in _PRAGMAS[mode]:
            connection.execute(f"PRAGMA {pragma}").fetchall()
    except BaseException:
        connection.close()
        raise
    return connection


def check_header(path: Path) -> None:
    """Checks by the first bytes of a file that it is a ledger of this format.

    Raises:
        StoreError: It is something else, or can't be read.
        NewerError: Its format is newer.
    """
    if sqlite3.sqlite_version_info < _OLDEST:
        raise StoreError(
            "the SQLite of this Python is too old for a ledger",
            expected=".".join(map(str, _OLDEST)) + " or newer",
            found=sqlite3.sqlite_version,
            todo="use a newer Python, or a .jsonl ledger",
        )
    header = _header(path)
    if not header:
        raise _not_a_ledger(path, "an empty file", "ledger register begins the ledger here")
    application, version = header[68:72], int.from_bytes(header[60:64], "big")
    if header[:16] != b"SQLite format 3\0" or len(header) < 100:
        raise _not_a_ledger(path, f"bytes that begin with {header[:16]!r}")
    if int.from_bytes(application, "big") != APPLICATION_ID:
        raise _not_a_ledger(path, "another SQLite database")
    if version > USER_VERSION:
        raise NewerError(
            "the ledger has a newer format than this tool knows",
            where=str(path),
            expected=f"format {USER_VERSION}",
            found=f"format {version}",
            todo="use a newer version of fairtrial",
        )
    if 2 in header[18:20]:
        raise _write_ahead(path)
    _check_beside(path)


def _header(path: Path) -> bytes:
    try:
        with _LONG_READ, IN_PROCESS, path.open("rb") as file:
            return file.read(100)
    except OSError as error:
        raise StoreError("the ledger can't be read", where=str(path), found=str(error)) from error


def _not_a_ledger(path: Path, found: str, todo: str = "give the path of a ledger") -> StoreError:
    return StoreError(
        "the file is not a ledger",
        where=str(path),
        expected="a SQLite database made by fairtrial",
        found=found,
        todo=todo,
    )


def _write_ahead(path: Path) -> StoreError:
    beside = path.with_name(path.name + "-wal")
    found = f"write-ahead mode, {beside.name} " + ("beside it" if beside.exists() else "missing")
    return StoreError(
        "the ledger was put into write-ahead mode by another program: its newest entries may stand "
        "in a second file",
        where=str(path),
        expected="a rollback journal",
        found=found,
        todo=f"where {beside.name} is: sqlite3 {path.name} 'PRAGMA journal_mode=TRUNCATE'; "
        "for a copy, take `ledger export` of the original",
    )


def _check_beside(path: Path) -> None:
    """Refuses files beside a ledger that would be read in its place, or waited for.

    Raises:
        StoreError: There is one.
    """
    # Where the file itself lies: a link to it has nothing beside it that counts.
    file = path.resolve()
    ahead, journal = (file.with_name(file.name + end) for end in ("-wal", "-journal"))
    if os.path.lexists(ahead):
        raise StoreError(
            "a file beside the ledger would be read in its place: the ledger itself isn't in "
            "write-ahead mode",
            where=str(path),
            expected="no such file, since the ledger keeps a rollback journal",
            found=str(ahead),
            todo="find out what put it there, keep it elsewhere, and try again",
        )
    if os.path.lexists(journal) and not _is_plain(journal):
        raise StoreError(
            "what stands beside the ledger is no journal",
            where=str(path),
            expected="a regular file, or nothing",
            found=str(journal),
            todo="take it away and try again",
        )


def _is_plain(path: Path) -> bool:
    """Returns whether a regular file has this name, or, by now, nothing."""
    try:
        return stat.S_ISREG(path.lstat().st_mode)
    except FileNotFoundError:
        return True


def is_half_committed(error: sqlite3.Error) -> bool:
    """Returns whether a reader found a commit that was killed half-way, which it can't undo."""
    # Errors of the module itself, such as text that isn't UTF-8, have no code.
    return getattr(error, "sqlite_errorcode", None) == sqlite3.SQLITE_READONLY_ROLLBACK


def copy_to_undo(path: Path) -> tuple[Path, TemporaryDirectory[str]]:
    """Copies a ledger and its journal aside, where SQLite may undo the killed commit.

    Returns:
        The copy and the folder that holds it, to be cleaned up by the caller.

    Raises:
        StoreError: There is no room or no right for a copy.
    """
    # Hardly ever needed, and as slow to import as the rest of the store.
    import shutil
    from tempfile import TemporaryDirectory

    try:
        folder = TemporaryDirectory(prefix="fairtrial-")
        with _LONG_READ, IN_PROCESS:
            for name in (path.name, path.name + "-journal"):
                shutil.copyfile(path.with_name(name), Path(folder.name) / name)
    except OSError as error:
        raise StoreError(
            "a commit was killed half-way, and no copy can be made in which it is undone",
            where=str(path),
            found=str(error),
            todo="make room for a copy, or name another folder for it in TMPDIR",
        ) from error
    return Path(folder.name) / path.name, folder


class LongReader:
    """A connection of its own for statements that take long, so that nobody else waits for them.

    Args:
        path: The ledger.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._connection: sqlite3.Connection | None = None
        self._copy: TemporaryDirectory[str] | None = None

    def query(self, sql: str, parameters: Sequence[str | int]) -> list[tuple[Any, ...]]:
        """Returns all rows of a statement.

        Raises:
            StoreError: As `store_error` says.
        """
        try:
            return self._fetch(sql, parameters)
        except (sqlite3.Error, UnicodeDecodeError) as error:
            raise store_error(error, self._path) from error

    def _fetch(self, sql: str, parameters: Sequence[str | int]) -> list[tuple[Any, ...]]:
        self._connection = self._connection or connect(self._path, "ro")
        try:
            with _LONG_READ:
                return self._connection.execute(sql, parameters).fetchall()
        except sqlite3.Error as error:
            if not is_half_committed(error):
                raise
        self._connection.close()
        path, self._copy = copy_to_undo(self._path)
        self._connection = connect(path, "rw")
        return self._connection.execute(sql, parameters).fetchall()

    def close(self) -> None:
        """Closes the connection."""
        if self._connection is not None:
            self._connection.close()
        if self._copy is not None:
            self._copy.cleanup()


def store_error(error: sqlite3.Error | UnicodeDecodeError, path: Path) -> StoreError:
    """Returns what an error of SQLite means for a ledger.

    Python raises UnicodeDecodeError where a message of SQLite quotes a damaged schema.
    """
    where, found = str(path), str(error)
    code = getattr(error, "sqlite_errorcode", sqlite3.SQLITE_ERROR) & 0xFF
    if code in (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED):
        return BusyError(
            "the database is in use by another program",
            where=where,
            found=found,
            todo="close what has it open (a viewer, a copy job) and try again",
        )
    if code == sqlite3.SQLITE_CONSTRAINT and SLOT_MESSAGE in found:
        return ConflictError(SLOT_MESSAGE, where=where, todo="ledger log shows what fills it")
    if code in (sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB, sqlite3.SQLITE_CONSTRAINT):
        return IntegrityError("the database refuses", where=where, found=found)
    if code == sqlite3.SQLITE_ERROR:
        return IntegrityError(
            "the database is not built as a ledger is", where=where, found=found,
            todo="ledger replay shows what differs",
        )  # fmt: skip
    return StoreError(
        "the medium failed",
        where=where,
        found=f"{found} ({getattr(error, 'sqlite_errorname', 'no code')})",
        todo="see to the disk, then run the same command again",
    )
