"""Rows of a SQLite ledger that were changed behind its back: what a quick look finds is all."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from fairtrial.ledger.merkle import leaf_hash, leaf_hashes
from fairtrial.ledger.port import StoreFinding
from fairtrial.ledger.sqlite import SqliteStore
from fairtrial.ledger.sqlite_check import check_rows, sound_block
from fairtrial.ledger.sqlite_schema import APPLICATION_ID, USER_VERSION

# Several pages, the last of them not full.
ROWS = 700
TEXTS = [f"entry {seq} é" for seq in range(ROWS)]

Value = bytes | str | float | None
Damage = tuple[int, str, Value]


@pytest.fixture(scope="module")
def sound(tmp_path_factory: pytest.TempPathFactory) -> bytes:
    """A database of sound rows, with a table that takes any value."""
    path = tmp_path_factory.mktemp("rows") / "ledger.db"
    with closing(sqlite3.connect(path, isolation_level=None)) as connection:
        connection.execute(f"PRAGMA application_id={APPLICATION_ID}")
        connection.execute(f"PRAGMA user_version={USER_VERSION}")
        connection.execute("CREATE TABLE entry (seq INTEGER PRIMARY KEY, leaf, entry)")
        connection.execute("BEGIN")
        rows = ((seq, leaf_hash(text.encode()), text) for seq, text in enumerate(TEXTS))
        connection.executemany("INSERT INTO entry VALUES (?,?,?)", rows)
        connection.execute("COMMIT")
    return path.read_bytes()


# Near the ends of pages as often as anywhere.
places = st.sampled_from((0, 1, 298, 299, 300, 301, 599, 600, ROWS - 1)) | st.integers(0, ROWS - 1)
values: st.SearchStrategy[Value] = st.one_of(
    st.none(), st.floats(allow_nan=False), st.binary(max_size=33), st.text(max_size=9),
    st.sampled_from((leaf_hash(b""), leaf_hash(TEXTS[0].encode()))),
)  # fmt: skip
damages: st.SearchStrategy[list[Damage]] = st.lists(
    st.tuples(places, st.sampled_from(("entry", "leaf", "both")), values)
    | st.tuples(places, st.sampled_from(("blob", "hex", "before", "delete")), st.none()),
    max_size=4,
)

DAMAGES: dict[str, Callable[[int, Value], tuple[str, tuple[Any, ...]]]] = {
    "entry": lambda seq, value: ("UPDATE entry SET entry=? WHERE seq=?", (value, seq)),
    "leaf": lambda seq, value: ("UPDATE entry SET leaf=? WHERE seq=?", (value, seq)),
    # A leaf that fits what is no entry.
    "both": lambda seq, value: (
        "UPDATE entry SET entry=?, leaf=? WHERE seq=?", (value, leaf_hash(as_blob(value)), seq)
    ),
    "blob": lambda seq, _: ("UPDATE entry SET entry=CAST(entry AS BLOB) WHERE seq=?", (seq,)),
    "hex": lambda seq, _: ("UPDATE entry SET leaf=hex(leaf) WHERE seq=?", (seq,)),
    "before": lambda seq, _: ("UPDATE entry SET seq=-1-seq WHERE seq=?", (seq,)),
    "delete": lambda seq, _: ("DELETE FROM entry WHERE seq=?", (seq,)),
}  # fmt: skip


def as_blob(value: Value) -> bytes:
    """Returns the bytes that SQLite makes of a value."""
    with closing(sqlite3.connect(":memory:")) as connection:
        (row,) = connection.execute("SELECT coalesce(CAST(? AS BLOB),x'')", (value,))
    data: bytes = row[0]
    return data


def read_slowly(path: Path) -> tuple[list[bytes], list[StoreFinding]]:
    """Returns entries and findings of all rows, each looked at by itself."""
    sql = "SELECT seq,coalesce(CAST(entry AS BLOB),x''),leaf,typeof(entry) FROM entry"
    with closing(sqlite3.connect(path)) as connection:
        rows = connection.execute(f"{sql} WHERE seq>=0 ORDER BY seq").fetchall()
    entries = [row[1] for row in rows]
    return entries, list(check_rows(rows, leaf_hashes(entries), 0, str(path)))


def read_in_blocks(path: Path) -> tuple[list[bytes], list[StoreFinding]]:
    """Returns entries and findings as a walk gets them; the leaves are those of the entries."""
    found: list[StoreFinding] = []
    entries: list[bytes] = []
    with closing(SqliteStore(path, read_only=True)) as store:
        for block in store.blocks(report=found.append):
            assert leaf_hashes(block.entries) == block.leaves
            entries += block.entries
        plain = [entry for block in store.blocks() for entry in block.entries]
    assert entries == plain
    return entries, found


@pytest.mark.slow
@given(damage=damages)
@settings(max_examples=100, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_blocks_report_what_each_row_by_itself_shows(
    sound: bytes, tmp_path: Path, damage: list[Damage]
) -> None:
    """Whatever stands in the cells, blocks have the entries and findings of a look at each row."""
    path = tmp_path / "ledger.db"
    path.write_bytes(sound)
    with closing(sqlite3.connect(path, isolation_level=None)) as connection:
        connection.execute("PRAGMA synchronous=OFF")
        for seq, what, value in damage:
            connection.execute(*DAMAGES[what](seq, value))
    assert read_slowly(path) == read_in_blocks(path)


@pytest.mark.parametrize(
    ("row", "is_sound"),
    [
        ((7, b"one", leaf_hash(b"one"), "text"), True),
        ((None, b"one", leaf_hash(b"one"), "blob"), False),
        ((None, None, leaf_hash(b""), "null"), False),
        ((8, b"one", leaf_hash(b"one"), "text"), False),
        (("7", b"one", leaf_hash(b"one"), "text"), False),
        ((7, b"one", leaf_hash(b"two"), "text"), False),
        ((7, b"one", leaf_hash(b"one").hex(), "text"), False),
        ((7, b"one", None, "text"), False),
    ],
)
def test_quick_look_is_sure_of_sound_rows_only(row: tuple[Any, ...], *, is_sound: bool) -> None:
    """A page is recognised where each row is in place, of type text and with its leaf."""
    seq, data, leaf, kind = row
    block = sound_block([row[:3]], 7)
    assert is_sound == (block is not None)
    slow = (7 if seq is None else seq, data or b"", leaf, kind)
    assert is_sound == (not list(check_rows([slow], [leaf_hash(slow[1])], 7, "file")))
