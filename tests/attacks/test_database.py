"""What can be done to a SQLite ledger beside its entries: pages, columns, schema, journal, rows."""

from __future__ import annotations

import os
import random
import sqlite3
import struct
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import pytest

from fairtrial.ledger.errors import StoreError
from fairtrial.ledger.opening import open_store
from fairtrial.ledger.sqlite_schema import SCHEMA

from .conftest import Case, successful, unguarded

Agreed = Callable[..., str]


def test_flipped_score_passes_sqlites_own_check(database: Case, agreed: Agreed) -> None:
    """`integrity_check` sees structure; the hashes see the value."""
    seq = successful(database.entries())
    with unguarded(database.ledger) as connection:
        sql = (
            "UPDATE entry SET entry=replace(entry, '\"passed\":1.0', '\"passed\":0.0') WHERE seq=?"
        )
        connection.execute(sql, (seq,))
        assert [("ok",)] == connection.execute("PRAGMA integrity_check").fetchall()
    assert "corrupt" == agreed(database) == agreed(database, database.receipt)


@pytest.mark.parametrize("damage", ["zeroed", "swapped", "cut"])
def test_damaged_pages_are_a_finding(database: Case, agreed: Agreed, damage: str) -> None:
    """Pages zeroed, exchanged or gone: corrupt, whatever SQLite raises on the way."""
    data = database.ledger.read_bytes()
    pages = [data[n : n + 4096] for n in range(0, len(data), 4096)]
    draw = random.Random(5)
    first, second = draw.sample(range(1, len(pages)), 2)
    if damage == "zeroed":
        pages[first] = bytes(4096)
    elif damage == "swapped":
        pages[first], pages[second] = pages[second], pages[first]
    else:
        pages = pages[: len(pages) // 2]
    database.ledger.write_bytes(b"".join(pages))
    assert "corrupt" == agreed(database)


def test_changed_leaf_column_is_a_finding(database: Case, agreed: Agreed) -> None:
    """The stored leaf is derived again from the entry and compared."""
    with unguarded(database.ledger) as connection:
        connection.execute("UPDATE entry SET leaf=zeroblob(32) WHERE seq=4")
    assert "corrupt" == agreed(database)
    assert (4, "leaf_column") in {(one.seq, one.code) for one in database.replay().findings}


HOSTILE = {
    "view in place of the table": (
        "ALTER TABLE entry RENAME TO hidden",
        "CREATE VIEW entry AS SELECT seq, leaf, entry FROM hidden WHERE seq <> 7",
    ),
    "trigger": ("CREATE TRIGGER extra AFTER INSERT ON entry BEGIN SELECT 1; END",),
    "table": ("CREATE TABLE other (value)",),
    "index": ("CREATE INDEX other ON entry (leaf)",),
    "guard removed": ("DROP TRIGGER entry_no_update",),
    "view that lies": (
        "DROP VIEW results",
        "CREATE VIEW results AS SELECT 0 AS seq, 'adopt' AS verdict",
    ),
    "user_version": ("PRAGMA user_version=0",),
}


@pytest.mark.parametrize("what", HOSTILE)
def test_hostile_schema_is_a_finding(database: Case, agreed: Agreed, what: str) -> None:
    """Any object more, less or other than the format has: corrupt before a row is believed."""
    with closing(sqlite3.connect(database.ledger, isolation_level=None)) as connection:
        for statement in HOSTILE[what]:
            connection.execute(statement)
    assert "corrupt" == agreed(database) == agreed(database, database.receipt)


def test_generated_column_of_another_text_is_a_finding(database: Case, agreed: Agreed) -> None:
    """A schema text changed in place, past ALTER TABLE: the slots would be read from elsewhere."""
    with closing(sqlite3.connect(database.ledger, isolation_level=None)) as connection:
        connection.execute("PRAGMA writable_schema=ON")
        connection.execute(
            "UPDATE sqlite_master SET sql=replace(sql, '$.event.number', '$.event.Number')"
            " WHERE name='entry'"
        )
        connection.execute("PRAGMA writable_schema=OFF")
    assert "corrupt" == agreed(database)


def test_write_ahead_mode_is_never_read_as_whole(database: Case, agreed: Agreed) -> None:
    """Entries in a second file can be lost unseen: the mode is refused, with what to do."""
    with closing(sqlite3.connect(database.ledger)) as connection:
        connection.execute("PRAGMA journal_mode=WAL")
    assert "unreadable" == agreed(database)


@pytest.mark.parametrize("header", ["write-ahead", "rollback"])
def test_pages_in_a_second_file_are_never_read(database: Case, agreed: Agreed, header: str) -> None:
    """A `-wal` beside a database is read in its place, whatever its header says: refused, kept."""
    honest = database.ledger.read_bytes()
    with unguarded(database.ledger) as connection:
        connection.execute("UPDATE entry SET leaf=zeroblob(32) WHERE seq=4")
    forged = put_ahead(database.ledger, instead_of=honest)
    if header == "rollback":
        database.ledger.write_bytes(honest)
    listing = sorted(database.ledger.parent.iterdir())
    assert "unreadable" == agreed(database)
    with pytest.raises(StoreError, match="write-ahead"):
        open_store(database.ledger)
    assert forged == database.ledger.with_name(f"{database.ledger.name}-wal").read_bytes()
    assert listing == sorted(database.ledger.parent.iterdir())


def put_ahead(ledger: Path, *, instead_of: bytes) -> bytes:
    """Puts a database's pages into a `-wal` beside another content; returns it."""
    pages = ledger.read_bytes()
    size = int.from_bytes(pages[16:18], "big")
    count, salt = len(pages) // size, b"12345678"
    head = struct.pack(">IIII", 0x377F0682, 3007000, size, 0) + salt
    sums = checksum(head, (0, 0))
    wal = head + struct.pack(">II", *sums)
    for number in range(1, count + 1):
        page = pages[size * (number - 1) : size * number]
        frame = struct.pack(">II", number, count if number == count else 0)
        sums = checksum(page, checksum(frame, sums))
        wal += frame + salt + struct.pack(">II", *sums) + page
    ledger.with_name(f"{ledger.name}-wal").write_bytes(wal)
    ledger.write_bytes(instead_of[:18] + b"\2\2" + instead_of[20:])
    return wal


def checksum(data: bytes, sums: tuple[int, int]) -> tuple[int, int]:
    """Returns the two sums of a write-ahead file, carried on over further bytes."""
    first, second = sums
    for one, other in struct.iter_unpack("<II", data):
        first = (first + one + second) & 0xFFFFFFFF
        second = (second + other + first) & 0xFFFFFFFF
    return first, second


def test_pipe_beside_a_database_keeps_nobody_waiting(database: Case) -> None:
    """SQLite would wait at a pipe that is named as a journal: refused at once."""
    journal = database.ledger.with_name(f"{database.ledger.name}-journal")
    journal.unlink(missing_ok=True)
    os.mkfifo(journal)
    with pytest.raises(StoreError, match="no journal"):
        database.replay()


@pytest.mark.parametrize(
    "statement",
    [
        "UPDATE entry SET entry=entry WHERE seq=1",
        "DELETE FROM entry WHERE seq=1",
        "INSERT INTO entry (seq, leaf, entry) SELECT seq+1, leaf, entry FROM entry WHERE seq=39",
        "INSERT INTO entry (seq, leaf, entry) SELECT 99, leaf, entry FROM entry WHERE seq=1",
        "INSERT OR REPLACE INTO entry (seq, leaf, entry)"
        " SELECT seq, leaf, entry FROM entry WHERE seq=1",
    ],
)
def test_accidents_of_other_programs_are_refused(database: Case, statement: str) -> None:
    """Triggers stop what a person types by mistake, `INSERT OR REPLACE` included."""
    before = database.entries()
    with (
        closing(sqlite3.connect(database.ledger)) as connection,
        pytest.raises(sqlite3.IntegrityError),
    ):
        connection.execute(statement)
    assert before == database.entries()


def test_schema_digest_of_the_verifier_is_the_schemas(verifier: object) -> None:
    """The one-file verifier knows this format's schema by digest."""
    import hashlib
    import json

    with closing(sqlite3.connect(":memory:")) as connection:
        for statement in SCHEMA:
            connection.execute(statement)
        query = "SELECT name, type, coalesce(sql, '') FROM sqlite_master ORDER BY name"
        every = connection.execute(query).fetchall()
    digest = hashlib.sha256(json.dumps(every).encode()).hexdigest()
    assert digest == getattr(verifier, "SCHEMA", None)


@pytest.mark.parametrize("seq", [-1, -(2**62)])
def test_row_before_the_first_is_a_finding(database: Case, agreed: Agreed, seq: int) -> None:
    """A row that no walk from entry 0 on meets is counted by every view: corrupt."""
    with unguarded(database.ledger) as connection:
        connection.execute("PRAGMA ignore_check_constraints=ON")
        text = "replace(entry, '\"position\":', '\"position\":9')"
        connection.execute(
            f"INSERT INTO entry (seq, leaf, entry) SELECT ?, leaf, {text} FROM entry WHERE seq=?",
            (seq, successful(database.entries())),
        )
    assert "corrupt" == agreed(database, database.receipt)
    assert "extra_row" in {one.code for one in database.replay().findings}


@pytest.mark.parametrize("seq", [1000, 2**53, 2**63 - 1])
def test_last_row_at_a_far_place_is_a_finding(database: Case, agreed: Agreed, seq: int) -> None:
    """A row can stand at any place that SQLite has, to the last one: the gap is a finding."""
    with unguarded(database.ledger) as connection:
        connection.execute("UPDATE entry SET seq=? WHERE seq=(SELECT max(seq) FROM entry)", (seq,))
    assert "corrupt" == agreed(database)
    assert "gap" in {one.code for one in database.replay().findings}


def test_entry_of_another_type_is_a_finding(database: Case, agreed: Agreed) -> None:
    """The same bytes as a BLOB have the same leaf and are no text for a view: corrupt."""
    with unguarded(database.ledger) as connection:
        connection.execute("PRAGMA ignore_check_constraints=ON")
        connection.execute("UPDATE entry SET entry=CAST(entry AS BLOB) WHERE seq=5")
    assert "corrupt" == agreed(database, database.receipt)
    assert (5, "entry_column") in {(one.seq, one.code) for one in database.replay().findings}
