"""What only the SQLite store has: schema, triggers, generated columns, views, journals."""

from __future__ import annotations

import re
import sqlite3
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing
from pathlib import Path

import pytest
import sqlite_utils

from fairtrial.ledger.canonical import blob_of, decode_event
from fairtrial.ledger.entry import parse_entry
from fairtrial.ledger.errors import BusyError, IntegrityError, NewerError, StoreError
from fairtrial.ledger.events import (
    Attempt,
    AttemptEnd,
    Head,
    Look,
    LookComparison,
    LookEndpoint,
    Reference,
    Result,
    ResultComparison,
    ResultEndpoint,
    Settle,
)
from fairtrial.ledger.merkle import leaf_hash
from fairtrial.ledger.port import Tail
from fairtrial.ledger.sqlite import SqliteStore
from fairtrial.ledger.sqlite_connection import LongReader, copy_to_undo
from fairtrial.ledger.sqlite_schema import APPLICATION_ID, SCHEMA

from .chains import append, append_decisions, decision, entry


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """Where the ledger is."""
    return tmp_path / "ledger.db"


@pytest.fixture
def filled(path: Path) -> Path:
    """A ledger of five outcomes, closed."""
    with closing(SqliteStore.create(path)) as store:
        append_decisions(store, 5)
    return path


Opener = Callable[[Path], SqliteStore]


@pytest.fixture
def opened() -> Iterator[Opener]:
    """Opens ledgers, created where there is none, and closes them at the end."""
    with ExitStack() as stack:
        yield lambda path: stack.enter_context(closing(SqliteStore.create(path)))


@pytest.fixture
def reading() -> Iterator[Opener]:
    """Opens ledgers for reading only and closes them at the end."""
    with ExitStack() as stack:
        yield lambda path: stack.enter_context(closing(SqliteStore(path, read_only=True)))


def _run(path: Path, *statements: str) -> None:
    with closing(sqlite3.connect(path, isolation_level=None)) as connection:
        for statement in statements:
            connection.execute(statement)


def _rows(path: Path, sql: str) -> list[tuple[object, ...]]:
    with closing(sqlite3.connect(path)) as connection:
        return connection.execute(sql).fetchall()


def _findings(path: Path) -> list[tuple[str, int | None, str]]:
    with closing(SqliteStore(path, read_only=True)) as store:
        found = list(store.check())
        for _ in store.blocks(report=found.append):
            pass
        return [(one.code, one.seq, one.where.removeprefix(str(path)).strip()) for one in found]


def test_file_says_what_it_is(filled: Path) -> None:
    """Application id, version, encoding and journal mode stand in the file."""
    pragmas = ("application_id", "user_version", "encoding", "journal_mode")
    found = [_rows(filled, f"PRAGMA {name}")[0][0] for name in pragmas]
    # TRUNCATE belongs to a connection; another program sees the default.
    assert [APPLICATION_ID, 1, "UTF-8", "delete"] == found
    assert APPLICATION_ID == int.from_bytes(filled.read_bytes()[68:72], "big")


def test_schema_is_that_of_the_format() -> None:
    """The table's text is that of the format's description, byte for byte."""
    expected = """\
CREATE TABLE entry (
 seq INTEGER PRIMARY KEY CHECK (seq>=0),
 leaf BLOB NOT NULL CHECK (typeof(leaf)='blob' AND length(leaf)=32),
 entry TEXT NOT NULL CHECK (typeof(entry)='text' AND length(CAST(entry AS BLOB))<=65535),
 experiment TEXT NOT NULL AS (json_extract(entry,'$.event.experiment')) VIRTUAL,
 position INTEGER NOT NULL AS (json_extract(entry,'$.event.position')) VIRTUAL,
 kind TEXT NOT NULL AS (substr(json_extract(entry,'$.event.kind'),1,instr(json_extract(entry,'$.event.kind'),'/')-1)) VIRTUAL,
 number INTEGER NOT NULL AS (json_extract(entry,'$.event.number')) VIRTUAL,
 UNIQUE (experiment,position,kind,number))"""  # noqa: E501 - as the format has it
    assert expected == SCHEMA[0]


def test_columns_are_those_of_the_events(path: Path, opened: Opener) -> None:
    """Every generated column equals the member of the decoded event; the leaf is of the bytes."""
    store = opened(path)
    append(
        store,
        decision(1),
        Attempt(experiment="exp-1", position=7, number=3, session=1, arm="a", reserved_nanousd=0),
    )
    append_decisions(store, 3)
    rows = _rows(path, "SELECT seq,leaf,entry,experiment,position,kind,number FROM entry")
    assert 5 == len(rows)
    for seq, (row, data) in enumerate(zip(rows, store.read(), strict=True)):
        event = decode_event(parse_entry(data).event)
        kind = str(event.__struct_config__.tag).partition("/")[0]
        slot = (event.experiment, event.position, kind, event.number)
        assert (seq, leaf_hash(data), data.decode(), *slot) == row


@pytest.mark.parametrize(
    "statement",
    [
        "UPDATE entry SET entry=replace(entry,'0.25','0.75') WHERE seq=2",
        "UPDATE entry SET leaf=zeroblob(32)",
        "UPDATE OR REPLACE entry SET seq=9 WHERE seq=4",
        "DELETE FROM entry WHERE seq=4",
        "DELETE FROM entry",
        "INSERT OR REPLACE INTO entry (seq,leaf,entry)"
        " SELECT seq,leaf,entry FROM entry WHERE seq=4",
        "INSERT OR REPLACE INTO entry (seq,leaf,entry) SELECT 5,leaf,entry FROM entry WHERE seq=4",
        "REPLACE INTO entry (seq,leaf,entry) SELECT seq,zeroblob(32),entry FROM entry WHERE seq=0",
        "INSERT OR IGNORE INTO entry (seq,leaf,entry) SELECT 7,leaf,entry FROM entry WHERE seq=4",
        "INSERT INTO entry (leaf,entry) SELECT leaf,entry FROM entry WHERE seq=4",
        "INSERT INTO entry (seq,leaf,entry) VALUES (5,zeroblob(32),'{}')",
        "INSERT INTO entry (seq,leaf,entry) SELECT seq,leaf,entry FROM entry WHERE seq=4"
        " ON CONFLICT DO UPDATE SET leaf=zeroblob(32)",
    ],
)  # fmt: skip
def test_accidents_are_refused_by_triggers(filled: Path, statement: str) -> None:
    """No plain SQL changes, deletes, replaces or misplaces an entry."""
    before = _rows(filled, "SELECT * FROM entry")
    with pytest.raises(sqlite3.IntegrityError):
        _run(filled, statement)
    assert before == _rows(filled, "SELECT * FROM entry")


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda data, tail: data, None),
        (lambda data, tail: data.replace(tail.leaf.hex().encode(), b"0" * 64), "does not follow"),
        (lambda data, tail: data.replace(b'"seq":5', b'"seq":6'), "does not follow"),
        (lambda data, tail: data.replace(b"0123456789abcdef", b"0" * 16), "does not follow"),
        (lambda data, tail: data.replace(b'"v":1', b'"v":2'), "does not follow"),
        (lambda data, tail: data.replace(b'"position":6', b'"position":5'), "slot is taken"),
        (lambda data, tail: data.replace(b'"position":6', b'"pos":6'), "NOT NULL"),
        (lambda data, tail: data.replace(b"decision/1", b"decision"), None),
    ],
)
@pytest.mark.parametrize("verb", ["INSERT", "INSERT OR REPLACE"])
def test_row_of_another_program_must_follow(
    filled: Path,
    change: Callable[[bytes, Tail], bytes],
    message: str | None,
    verb: str,
    opened: Opener,
) -> None:
    """A row that another program inserts must stand on the chain and in a free slot."""
    store = opened(filled)
    tail = store.tail()
    data = change(entry(decision(6), tail), tail)
    row = (tail.size, leaf_hash(data), data.decode())
    with closing(sqlite3.connect(filled, isolation_level=None)) as connection:
        insert = f"{verb} INTO entry (seq,leaf,entry) VALUES (?,?,?)"
        if message is None:
            connection.execute(insert, row)
        else:
            with pytest.raises(sqlite3.IntegrityError, match=message):
                connection.execute(insert, row)
    assert (5 if message else 6) == store.tail().size


def test_replace_that_would_delete_a_row_is_refused(filled: Path, opened: Opener) -> None:
    """A row at the right place with a taken slot can't push the older one out."""
    store = opened(filled)
    tail = store.tail()
    data = entry(decision(2, unit="another"), tail)
    with (
        closing(sqlite3.connect(filled, isolation_level=None)) as connection,
        pytest.raises(sqlite3.IntegrityError, match="slot is taken"),
    ):
        connection.execute(
            "INSERT OR REPLACE INTO entry (seq,leaf,entry) VALUES (?,?,?)",
            (tail.size, leaf_hash(data), data.decode()),
        )
    assert 5 == len(list(store.read()))


def test_healthy_database_has_no_findings(filled: Path) -> None:
    """Nothing is found in a fresh ledger, nor in one that was analysed or vacuumed."""
    assert [] == _findings(filled)
    _run(filled, "ANALYZE", "VACUUM")
    assert [] == _findings(filled)


@pytest.mark.parametrize(
    ("statement", "finding"),
    [
        ("DROP TRIGGER entry_chain", ("schema", None, "trigger entry_chain")),
        ("DROP VIEW spend", ("schema", None, "view spend")),
        ("CREATE TABLE other (a)", ("schema", None, "table other")),
        ("CREATE VIEW entries AS SELECT 1", ("schema", None, "view entries")),
        ("CREATE INDEX by_kind ON entry (kind)", ("schema", None, "index by_kind")),
        (
            "CREATE TRIGGER later AFTER INSERT ON entry BEGIN SELECT 1; END",
            ("schema", None, "trigger later"),
        ),
        ("PRAGMA user_version=0", ("header", None, "user_version")),
    ],
)
def test_changed_schema_is_found(
    filled: Path, statement: str, finding: tuple[str, int | None, str]
) -> None:
    """An object more, less or changed is a finding by its name."""
    _run(filled, statement)
    assert [finding] == _findings(filled)


def test_changed_schema_text_is_found(filled: Path) -> None:
    """A table that only looks like the ledger's is found by its text."""
    _run(
        filled,
        "PRAGMA writable_schema=ON",
        "UPDATE sqlite_master SET sql=replace(sql,'.kind','.kind ') WHERE name='entry'",
    )
    assert ("schema", None, "table entry") in _findings(filled)


def _without_guards(path: Path, *statements: str) -> None:
    """Runs statements as a forger would: guards dropped and put back."""
    guards = [sql for sql in SCHEMA if sql.startswith("CREATE TRIGGER")]
    names = [sql.split()[2] for sql in guards]
    _run(path, *(f"DROP TRIGGER {name}" for name in names), *statements, *guards)


def test_changed_value_is_found_by_its_leaf(filled: Path) -> None:
    """A changed digit inside a row passes SQLite's own check and not the comparison of its leaf."""
    _without_guards(filled, "UPDATE entry SET entry=replace(entry,'0.25','0.75') WHERE seq=2")
    assert [("ok",)] == _rows(filled, "PRAGMA integrity_check")
    assert [("leaf_column", 2, "")] == _findings(filled)


def test_changed_last_value_stops_writing(filled: Path, opened: Opener) -> None:
    """Nothing is appended to a last entry that contradicts its leaf."""
    _without_guards(filled, "UPDATE entry SET entry=replace(entry,'0.25','0.75') WHERE seq=4")
    with pytest.raises(IntegrityError, match="contradicts its leaf"):
        append_decisions(opened(filled), 1)


def test_deleted_row_is_found_as_a_gap(filled: Path, opened: Opener) -> None:
    """A missing entry in the middle is a gap at its seq; reading goes on behind it."""
    _without_guards(filled, "DELETE FROM entry WHERE seq=2")
    assert [("gap", 2, "")] == _findings(filled)
    assert [0, 1, 3, 4] == [parse_entry(data).seq for data in opened(filled).read()]


def test_damaged_pages_are_findings(filled: Path, opened: Opener, reading: Opener) -> None:
    """Zeroed or cut pages are reported, and reading them is an IntegrityError."""
    whole = filled.read_bytes()
    page = 4096
    for damaged in (
        whole[:page] + bytes(page) + whole[2 * page :],
        whole[: len(whole) - page],
        whole[: 3 * page],
    ):
        filled.write_bytes(damaged)
        store = reading(filled)
        assert any(one.code == "structure" for one in store.check())
        store.close()
    filled.write_bytes(whole[:page] + bytes(page) + whole[2 * page :])
    with pytest.raises(IntegrityError):
        list(opened(filled).read())


@pytest.mark.parametrize(("old", "new"), [(b"decision", b"decisioo"), (b"exp-1", b"exp-0")])
def test_index_that_contradicts_its_rows_is_found(filled: Path, old: bytes, new: bytes) -> None:
    """A whole index with another slot than its row has is found; `quick_check` wouldn't see it."""
    ((page,),) = _rows(filled, "SELECT rootpage FROM sqlite_master WHERE name LIKE '%autoindex%'")
    data, size = bytearray(filled.read_bytes()), 4096
    at = data.index(old, (int(str(page)) - 1) * size, int(str(page)) * size)
    data[at : at + len(old)] = new
    filled.write_bytes(data)
    assert [("ok",)] == _rows(filled, "PRAGMA quick_check")
    assert ("structure", None, "") in _findings(filled)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", "empty file"),
        (b"not a database, only a text of more than a hundred bytes " * 3, "not a ledger"),
        (b"SQLite format 3\0", "not a ledger"),
    ],
)
def test_other_files_are_no_ledger(path: Path, content: bytes, message: str) -> None:
    """Another file is refused with what it is, and stays as it was."""
    path.write_bytes(content)
    with pytest.raises(StoreError, match=message):
        SqliteStore(path)
    assert content == path.read_bytes()


def test_other_database_is_no_ledger(path: Path) -> None:
    """A database of another program is refused."""
    _run(path, "CREATE TABLE entry (seq)")
    with pytest.raises(StoreError, match="another SQLite database"):
        SqliteStore(path)


def test_newer_format_is_said(filled: Path) -> None:
    """A ledger with a newer version number needs a newer tool."""
    _run(filled, "PRAGMA user_version=2")
    with pytest.raises(NewerError, match="newer"):
        SqliteStore(filled)


def test_write_ahead_mode_is_refused_without_a_trace(
    filled: Path, tmp_path: Path, opened: Opener
) -> None:
    """A ledger that another program put into write-ahead mode, or a copy of it, is not opened."""
    _run(filled, "PRAGMA journal_mode=WAL")
    listing = sorted(tmp_path.iterdir())
    with pytest.raises(StoreError, match="ledger export") as caught:
        SqliteStore(filled, read_only=True)
    assert "ledger.db-wal missing" in caught.value.found
    assert listing == sorted(tmp_path.iterdir())
    _run(filled, "PRAGMA journal_mode=TRUNCATE")
    assert 5 == opened(filled).tail().size


def test_create_keeps_a_ledger_and_completes_an_empty_file(path: Path, opened: Opener) -> None:
    """Creating where a ledger is keeps it; an empty file, left by a kill, becomes one."""
    path.write_bytes(b"")
    store = opened(path)
    entries = append_decisions(store, 1)
    assert entries == list(opened(path).read())


def test_writer_waits_for_a_reader_and_says_so(
    filled: Path, monkeypatch: pytest.MonkeyPatch, opened: Opener
) -> None:
    """A program that keeps reading blocks the commit: busy, nothing written, the store goes on."""
    monkeypatch.setattr("fairtrial.ledger.sqlite_connection._BUSY_SECONDS", 0.05)
    store = opened(filled)
    with closing(sqlite3.connect(filled, isolation_level=None)) as reader:
        reader.execute("BEGIN")
        reader.execute("SELECT count(*) FROM entry").fetchall()
        with pytest.raises(BusyError, match="another program"):
            append_decisions(store, 1)
        reader.execute("COMMIT")
    assert 5 == store.tail().size
    append_decisions(store, 1)
    assert 6 == store.tail().size


_KILLED = """
import os, sqlite3, sys
connection = sqlite3.connect(sys.argv[1], isolation_level=None)
connection.execute("PRAGMA journal_mode=TRUNCATE")
connection.execute("PRAGMA cache_size=1")
connection.execute("BEGIN IMMEDIATE")
for name in ("next", "chain", "slot", "no_update"):
    connection.execute(f"DROP TRIGGER entry_{name}")
connection.execute("UPDATE entry SET entry=replace(entry,'0.25','0.75')")
connection.executemany(
    "INSERT INTO entry (seq,leaf,entry) SELECT max(seq)+1, zeroblob(32), json_set(entry,"
    "'$.event.position',max(seq)+2) FROM entry", [()] * 300)
os.kill(os.getpid(), 9)
"""


def _kill_in_commit(path: Path) -> None:
    """Leaves a journal that must be undone, as a kill in the middle of a commit does."""
    subprocess.run([sys.executable, "-c", _KILLED, str(path)], check=False)
    assert path.with_name("ledger.db-journal").stat().st_size > 0


def test_half_commit_is_read_in_a_copy(filled: Path, opened: Opener, reading: Opener) -> None:
    """A killed commit is undone for a reader in a copy, and by the next writer in place."""
    expected = list(opened(filled).read())
    _kill_in_commit(filled)
    before = filled.read_bytes()
    store = reading(filled)
    assert (expected, 5, []) == (list(store.read()), store.tail().size, _findings(filled))
    store.close()
    assert before == filled.read_bytes()
    writer = opened(filled)
    assert expected + append_decisions(writer, 1) == list(writer.read())
    assert 0 == filled.with_name("ledger.db-journal").stat().st_size


def test_half_commit_that_comes_while_open_is_read_in_a_copy(
    filled: Path, opened: Opener, reading: Opener
) -> None:
    """A reader that was open before the kill goes on reading what was committed."""
    store = reading(filled)
    expected = list(store.read())
    _kill_in_commit(filled)
    assert expected == list(store.read())


def test_copy_of_the_file_alone_is_whole_or_found(
    filled: Path, tmp_path: Path, opened: Opener
) -> None:
    """A bare copy made while a commit writes its pages has findings, or all entries of a commit."""
    store = opened(filled)
    append_decisions(store, 40)
    before, entries_before = filled.read_bytes(), list(store.read())
    append_decisions(store, 10)
    after, entries_after = filled.read_bytes(), list(store.read())
    changed = [n for n in range(0, len(after), 4096) if after[n : n + 4096] != before[n : n + 4096]]
    copy = tmp_path / "copy.db"
    found = 0
    for count in range(len(changed) + 1):
        mixed = bytearray(before.ljust(len(after), b"\0") if count else before)
        for start in changed[:count]:
            mixed[start : start + 4096] = after[start : start + 4096]
        copy.write_bytes(mixed)
        with closing(SqliteStore(copy, read_only=True)) as bare:
            findings = list(bare.check())
            found += bool(findings)
            assert findings or list(bare.read()) in (entries_before, entries_after)
            hints = [one.found for one in findings if one.code == "structure"]
            assert all("ledger export" in hint for hint in hints)
    assert found >= len(changed) - 2 > 1


def test_views_show_outcomes_looks_results_and_spend(path: Path, opened: Opener) -> None:
    """One row an outcome, an endpoint of a look, of a result, an arm; read by sqlite-utils."""
    store = opened(path)
    basis = Head(size=1, root="0" * 64)
    attempt = Attempt(
        experiment="exp-1", position=9, number=1, session=1, arm="control", reserved_nanousd=5
    )
    entries = append(
        store,
        decision(1, unit="u1"),
        decision(2, unit="u2"),
        attempt,
        AttemptEnd(
            experiment="exp-1",
            position=9,
            number=1,
            session=1,
            status="lost",
            cost_nanousd=9_000_000_000,
        ),
    )
    lost = Reference(seq=3, leaf=leaf_hash(entries[3]).hex())
    append(
        store,
        Settle(
            experiment="exp-1",
            position=9,
            number=1,
            subject=lost,
            cost_nanousd=1_000_000,
            reason="invoice",
        ),
        _look(basis),
        _result(basis),
    )
    views = sqlite_utils.Database(path)
    outcomes = list(views["outcomes"].rows)
    assert [("u1", "control", 1.0, 0.25, 0.0015), ("u2", "control", 1.0, 0.25, 0.0015)] == [
        (row["unit"], row["arm"], row["passed"], row["score"], row["cost_usd"]) for row in outcomes
    ]
    (look,) = views["looks"].rows
    assert (1, "c", "passed", 0.75, 0.01, "favourable") == tuple(
        look[name]
        for name in ("look", "comparison", "endpoint", "information_fraction", "p_value", "crossed")
    )
    (result,) = views["results"].rows
    assert ("adopt", "last_look", "c", "passed", 0.1) == tuple(
        result[name] for name in ("verdict", "stopped_by", "comparison", "endpoint", "difference")
    )
    (spend,) = views["spend"].rows
    assert {
        "experiment": "exp-1",
        "arm": "control",
        "outcomes": 2,
        "ended_attempts": 1,
        "cost_usd": 0.004,
        "incurred_usd": 0.001,
    } == spend
    views.close()


def _look(basis: Head) -> Look:
    endpoint = LookEndpoint(
        name="passed", information_fraction=0.75, eligible=True, why_not=(), n=2, clusters=2,
        discordant_clusters=None, estimate=0.1, standard_error=0.02, df=None, tests={},
        p_value=0.01, nominal_p=0.02, t_critical=None, z=None, lower=0.0, upper=0.2,
        crossed="favourable",
    )  # fmt: skip
    comparison = LookComparison(name="c", treatment="t", control="control", endpoints=(endpoint,))
    return Look(
        experiment="exp-1", number=1, basis=basis, data="1" * 64, last=2, continues=False,
        method="m", units=2, clusters=2, comparisons=(comparison,),
    )  # fmt: skip


def _result(basis: Head) -> Result:
    endpoint = ResultEndpoint(
        name="passed", difference=0.1, lower=0.0, upper=0.2, p_value=0.01, bound_lower=None,
        bound_upper=None,
    )  # fmt: skip
    return Result(
        experiment="exp-1", basis=basis, data="1" * 64, method="m", verdict="adopt", reason="r",
        reason_code="better", stopped_by="last_look", look=1, as_registered=True, evidence="live",
        existed_before=(), amended=(), missing={}, cost_nanousd={}, detail=blob_of(b"{}"),
        comparisons=(ResultComparison(name="c", verdict="adopt", endpoints=(endpoint,)),),
    )  # fmt: skip


def test_messages_of_the_triggers_are_those_of_the_code() -> None:
    """The texts that errors are told apart by stand in the triggers."""
    from fairtrial.ledger.sqlite_schema import CHAIN_MESSAGE, SLOT_MESSAGE

    raised = set(re.findall(r"RAISE\(ABORT,'([^']+)'\)", " ".join(SCHEMA)))
    assert {CHAIN_MESSAGE, SLOT_MESSAGE} <= raised
    assert Tail(0, bytes(32)).size == 0


@pytest.mark.slow
def test_opening_waits_for_a_long_check_and_holds_up_nobody(filled: Path) -> None:
    """While a long statement runs, a store that is being opened keeps no other from reading."""
    numbers = "WITH RECURSIVE n(x) AS (SELECT 1 UNION ALL SELECT x+1 FROM n WHERE x<?)"
    count = f"{numbers} SELECT sum(x) FROM n"
    with closing(LongReader(filled)) as reader, closing(SqliteStore(filled)) as store:
        reader.query(count, (1,))
        checking = threading.Thread(target=reader.query, args=(count, (10_000_000,)))
        opening = threading.Thread(target=SqliteStore, args=(filled,))
        checking.start()
        time.sleep(0.1)
        opening.start()
        opening.join(0.1)
        assert opening.is_alive()
        assert list(store.read())
        assert checking.is_alive()
        checking.join(60)
        opening.join(60)
        assert not opening.is_alive()


def test_commit_killed_half_way_without_room_for_a_copy_is_an_error_of_ours(
    filled: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Where no copy can be made, the message says why one is needed and what to do."""
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "nowhere"))
    with pytest.raises(StoreError, match="no copy can be made") as caught:
        copy_to_undo(filled)
    assert "TMPDIR" in caught.value.todo
