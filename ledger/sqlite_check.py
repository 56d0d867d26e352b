"""What is wrong with a SQLite ledger as a database, and with its rows; not chains, ids and roots.

Leaves those to `replay.py`.

Rules:
- The schema is compared as text with the one this format has; one object more is a finding too.
- A row before the first is looked for: no walk comes across it, and a view may count it.
- SQLite's own check sees structure and indexes, not values: a changed digit in a cell passes it.
- A database that can't be read any further is a finding, not an exception.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from .errors import BusyError, StoreError
from .merkle import leaf_hashes
from .port import Block, StoreFinding
from .sqlite_schema import APPLICATION_ID, SCHEMA, USER_VERSION

__all__ = ("check_database", "check_rows", "sound_block")

Query = Callable[[str, Sequence[str | int]], list[tuple[Any, ...]]]

_OBJECTS = "SELECT name,type,coalesce(sql,'') FROM sqlite_master ORDER BY rowid"
_BEFORE = "SELECT seq FROM entry WHERE seq<0 ORDER BY seq DESC LIMIT 20"
# Made by SQLite itself; the second by ANALYZE.
_BY_SQLITE = ("sqlite_autoindex_entry_1", "sqlite_stat1", "sqlite_stat4")
_HINT = "; for a copy made while a run was going, take `ledger export` instead"


def check_database(query: Query, where: str, *, start: int = 0) -> Iterator[StoreFinding]:
    """Yields all findings.

    Args:
        query: Runs one statement and returns all its rows.
        where: The file, for findings that mean no entry.
        start: The first row that is read; after row 0 the structure of the whole file is left out,
            since it can't be checked in parts.

    Raises:
        BusyError: Another program keeps the database.
    """
    first, said = (_header, _schema, _before), set[str]()
    for part in first if start else (*first, _structure):
        try:
            yield from part(query, where)
        except BusyError:
            raise
        except StoreError as error:
            # What no part can read is one thing that is wrong, not one for each part.
            if str(error) not in said:
                said.add(str(error))
                found = str(error) + _HINT
                yield StoreFinding("structure", None, where, "a readable database", found)


def _header(query: Query, where: str) -> Iterator[StoreFinding]:
    for pragma, expected in (
        ("application_id", str(APPLICATION_ID)),
        ("user_version", str(USER_VERSION)),
        ("encoding", "UTF-8"),
    ):
        found = str(query(f"PRAGMA {pragma}", ())[0][0])
        if found != expected:
            yield StoreFinding("header", None, f"{where} {pragma}", expected, found)


def _schema(query: Query, where: str) -> Iterator[StoreFinding]:
    fresh = sqlite3.connect(":memory:")
    for statement in SCHEMA:
        fresh.execute(statement)
    expected = {name: (kind, sql) for name, kind, sql in fresh.execute(_OBJECTS)}
    fresh.close()
    found = {str(name): (kind, sql) for name, kind, sql in query(_OBJECTS, ())}
    for name in (*expected, *(name for name in found if name not in expected)):
        if name in _BY_SQLITE and name not in expected:
            continue
        want, got = expected.get(name, ("", "")), found.get(name, ("", ""))
        if want != got:
            place = f"{where} {(got[0] or want[0])} {name}"
            yield StoreFinding("schema", None, place, want[1] or "nothing", got[1] or "nothing")


def _structure(query: Query, where: str) -> Iterator[StoreFinding]:
    for (message,) in query("PRAGMA integrity_check", ()):
        if message != "ok":
            yield StoreFinding("structure", None, where, "ok", str(message) + _HINT)


def _before(query: Query, where: str) -> Iterator[StoreFinding]:
    """Yields rows that no walk from the first entry on comes across."""
    for (seq,) in query(_BEFORE, ()):
        yield StoreFinding("extra_row", None, where, "rows from entry 0 on", f"a row {seq}")


def sound_block(rows: Sequence[tuple[Any, ...]], start: int) -> Block | None:
    """Returns rows of place, entry and leaf as a block, None unless `check_rows` finds nothing.

    Args:
        rows: The rows, in order; one whose entry is no text has no place.
        start: The place that the first row should have.
    """
    if [row[0] for row in rows] != [*range(start, start + len(rows))]:
        return None
    entries = [row[1] for row in rows]
    leaves = leaf_hashes(entries)
    return Block(entries, leaves) if [row[2] for row in rows] == leaves else None


def check_rows(
    rows: Sequence[tuple[Any, ...]], leaves: Sequence[bytes], start: int, where: str
) -> Iterator[StoreFinding]:
    """Yields what is wrong with rows of place, entry, leaf and the entry's type.

    Args:
        rows: The rows, in order.
        leaves: The leaf hash of each entry, computed from its bytes.
        start: The place that the first row should have.
        where: The file.
    """
    expected = start
    for (seq, _, leaf, kind), computed in zip(rows, leaves, strict=True):
        if seq != expected:
            yield StoreFinding("gap", expected, where, f"entry {expected}", f"entry {seq}")
            if not isinstance(seq, int):
                return
            expected = seq
        expected += 1
        if leaf != computed:
            found = leaf.hex() if isinstance(leaf, bytes) else repr(leaf)
            yield StoreFinding("leaf_column", seq, where, computed.hex(), found)
        if kind != "text":
            yield StoreFinding("entry_column", seq, where, "an entry of type text", str(kind))
