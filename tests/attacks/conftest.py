"""A finished trial in both stores, what its owner can do to it, and the two verifiers.

A small ledger with a look, a result and blobs is made once; each test forges a copy of it.
"""

from __future__ import annotations

import importlib.util
import re
import shutil
import sqlite3
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING

import pytest

from fairtrial.engine.inspecting import export_ledger, read_log, replay_ledger
from fairtrial.engine.session import register_protocol, result_of, run
from fairtrial.ledger.canonical import event_id
from fairtrial.ledger.entry import FIRST_PREV, build_entry, parse_entry
from fairtrial.ledger.errors import NewerError, StoreError
from fairtrial.ledger.findings import ReplayReport
from fairtrial.ledger.merkle import EMPTY_ROOT, CompactRange, leaf_hash

if TYPE_CHECKING:
    from .signed_trial import SignedTrial

ROOT = Path(__file__).resolve().parents[2]
VERIFIER = ROOT / "docs" / "verify_ledger.py"
EXIT_WORDS = {
    0: "intact",
    8: "unreadable",
    11: "torn",
    12: "corrupt",
    13: "forked",
    14: "rolled_back",
    16: "files_differ",
    17: "newer",
}
PROTOCOL = """protocol: 1
id: trial
about: {hypothesis: B is better than A.}
units: {file: units.csv, id: unit, cluster: cluster}
design: {pairing: paired, seed: 7}
arms:
  A: {driver: {kind: recorded, file: outcomes.csv, where: {arm: a}, columns: COLUMNS}}
  B: {driver: {kind: recorded, file: outcomes.csv, where: {arm: b}, columns: COLUMNS}}
control: A
endpoints: [{name: passed, role: primary, type: binary, value: passed, better: higher}]
missing: {rules: {failed: failure, timeout: failure, limit: failure, error: exclude_pair,
  ungraded: exclude_pair, replay_miss: exclude_pair, invalidated: exclude_pair}, limit: 0.1}
analysis: {estimand: unit_weighted}
looks: {at: [0.5, 1.0], icc: 0.1}
decision: {rule: superiority}
power: {effect: none, accept: {not_assessed: t, underpowered: t, impossible: t,
  no_verdict_possible: t}}
budget: {usd: 0}
require: {commit: false}
""".replace("COLUMNS", "{unit: unit, passed: passed}")


def write_trial(folder: Path, *, units: int = 16) -> Path:
    """Writes a protocol with recorded outcomes; returns the protocol's file."""
    rows = [f"u{i},c{i % (units // 2)}" for i in range(units)]
    (folder / "units.csv").write_text("\n".join(["unit,cluster", *rows]) + "\n")
    outcomes = [
        f"u{i},{arm},{int((i * 7) % 5 < passes)}"
        for i in range(units)
        for arm, passes in (("a", 2), ("b", 3))
    ]
    (folder / "outcomes.csv").write_text("\n".join(["unit,arm,passed", *outcomes]) + "\n")
    path = folder / "protocol.yaml"
    path.write_text(PROTOCOL)
    return path


@dataclass(frozen=True)
class Case:
    """One copy of the trial: its ledger and the receipt that somebody else keeps."""

    ledger: Path
    receipt: str

    @property
    def is_jsonl(self) -> bool:
        """Whether the ledger is a file of lines."""
        return self.ledger.suffix == ".jsonl"

    def entries(self) -> list[bytes]:
        """Returns the stored entries."""
        return list(read_log(self.ledger))

    def replay(self, *against: str) -> ReplayReport:
        """Returns what `ledger replay` finds without recomputing numbers."""
        return replay_ledger(self.ledger, against=against, with_numbers=False)

    def word(self, *against: str) -> str:
        """Returns the record's word from `ledger replay`, errors included."""
        try:
            return self.replay(*against).record
        except NewerError:
            return "newer"
        except StoreError:
            return "unreadable"

    def put(self, entries: Sequence[bytes]) -> None:
        """Puts other entries into the ledger, past every guard, each with the leaf it has now."""
        if self.is_jsonl:
            self.ledger.write_bytes(b"".join(data + b"\n" for data in entries))
            return
        with unguarded(self.ledger) as database:
            database.execute("DELETE FROM entry")
            rows = [(seq, leaf_hash(data), data.decode()) for seq, data in enumerate(entries)]
            database.executemany("INSERT INTO entry (seq, leaf, entry) VALUES (?, ?, ?)", rows)


class unguarded:  # noqa: N801 - reads as a function, like contextlib.closing
    """A connection whose triggers are gone while the block runs and back as they were after."""

    def __init__(self, ledger: Path) -> None:
        self.database = sqlite3.connect(ledger, isolation_level=None)

    def __enter__(self) -> sqlite3.Connection:
        query = "SELECT name, sql FROM sqlite_master WHERE type='trigger' ORDER BY rowid"
        self.triggers: list[tuple[str, str]] = self.database.execute(query).fetchall()
        self.database.execute("BEGIN IMMEDIATE")
        for name, _ in self.triggers:
            self.database.execute(f"DROP TRIGGER {name}")
        return self.database

    def __exit__(self, kind: object, *error: object) -> None:
        if kind is not None:
            self.database.close()
            return
        for _, statement in self.triggers:
            self.database.execute(statement)
        self.database.execute("COMMIT")
        self.database.close()


@pytest.fixture(scope="session")
def made(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, str]:
    """The honest trial: its folder with both stores, and the receipt of its end."""
    folder = tmp_path_factory.mktemp("honest")
    ledger = folder / "ledger.db"
    register_protocol(ledger, write_trial(folder), actor="ada")
    run(ledger, None, actor="ada")
    _, receipt = result_of(ledger, None, actor="ada")
    assert receipt == export_ledger(ledger, folder / "ledger.jsonl").receipt
    return folder, receipt


def copy_of(made: tuple[Path, str], folder: Path, store: str) -> Case:
    """Returns a copy of the honest trial with one of its stores."""
    source, receipt = made
    shutil.copytree(source, folder / "copy", ignore=shutil.ignore_patterns("cache", "*.lock"))
    return Case(folder / "copy" / f"ledger.{store}", receipt)


@pytest.fixture(params=["db", "jsonl"])
def case(request: pytest.FixtureRequest, made: tuple[Path, str], tmp_path: Path) -> Case:
    """A copy of the honest trial in each store."""
    return copy_of(made, tmp_path, request.param)


@pytest.fixture
def database(made: tuple[Path, str], tmp_path: Path) -> Case:
    """A copy in SQLite."""
    return copy_of(made, tmp_path, "db")


@pytest.fixture
def lines(made: tuple[Path, str], tmp_path: Path) -> Case:
    """A copy in JSON Lines."""
    return copy_of(made, tmp_path, "jsonl")


@pytest.fixture(scope="session")
def signed_source(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of the honest trial that has a key."""
    from .signed_trial import make_signed

    folder = tmp_path_factory.mktemp("signed")
    make_signed(folder)
    return folder


@pytest.fixture(params=["db", "jsonl"])
def signed(
    request: pytest.FixtureRequest,
    signed_source: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> SignedTrial:
    """A copy of the trial that has a key, in each store; acts find that key."""
    from .signed_trial import signed_copy

    made = signed_copy(signed_source, tmp_path / "copy", request.param)
    for name, value in made.home.items():
        monkeypatch.setenv(name, value)
    return made


Verify = Callable[..., tuple[str, str]]


@pytest.fixture(scope="session")
def verifier() -> ModuleType:
    """The one-file verifier as a module."""
    spec = importlib.util.spec_from_file_location("verify_ledger", VERIFIER)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules["verify_ledger"] = module
    spec.loader.exec_module(module)
    return module


@pytest.fixture
def verify(verifier: ModuleType, capsys: pytest.CaptureFixture[str]) -> Verify:
    """Runs the one-file verifier; returns the record's word, from its exit code, and its text."""

    def call(case: Case, *against: str) -> tuple[str, str]:
        words = [str(case.ledger), *(word for one in against for word in ("--against", one))]
        try:
            code: int = verifier.main(words)
        except SystemExit as error:
            code = int(error.code or 0)
        said = capsys.readouterr()
        return EXIT_WORDS[code], said.out + said.err

    return call


@pytest.fixture
def agreed(verify: Verify) -> Callable[..., str]:
    """Returns the word that both verifiers give, and fails where they differ."""

    def call(case: Case, *against: str) -> str:
        word, said = verify(case, *against)
        assert case.word(*against) == word, said
        return word

    return call


def rows_of(ledger: Path) -> Iterator[tuple[int, bytes]]:
    """Yields the rows of a database as any program can read them."""
    with closing(sqlite3.connect(f"{ledger.as_uri()}?mode=ro", uri=True)) as database:
        yield from database.execute("SELECT seq, CAST(entry AS BLOB) FROM entry ORDER BY seq")


_BASIS = re.compile(rb'"basis":\{"size":([0-9]+),"root":"[0-9a-f]{64}"\}')


def rechained(
    entries: Sequence[bytes],
    change: Callable[[int, bytes], bytes] = lambda seq, event: event,
    *,
    time_of: Callable[[int, str], str] = lambda seq, time: time,
    inserted_at: int | None = None,
) -> list[bytes]:
    """Returns entries of which every id, leaf and basis was made again after a change.

    Args:
        entries: The entries in their new order.
        change: Returns the bytes of an event as they shall be.
        time_of: Returns the time of an entry as it shall be.
        inserted_at: Where an entry was put in: later bases cover one entry more.
    """
    tree, roots, made, prev = CompactRange(), [EMPTY_ROOT.hex()], [], FIRST_PREV

    def basis(match: re.Match[bytes]) -> bytes:
        moved = inserted_at is not None and int(match[1]) > inserted_at
        size = min(int(match[1]) + moved, len(roots) - 1)
        return b'"basis":{"size":%d,"root":"%b"}' % (size, roots[size].encode())

    for seq, data in enumerate(entries):
        old = parse_entry(data)
        event = _BASIS.sub(basis, change(seq, old.event))
        entry = build_entry(
            event,
            ledger=old.ledger,
            seq=seq,
            prev=prev,
            time=time_of(seq, old.time),
            actor=old.actor,
            id=event_id(event),
        )
        made.append(entry)
        prev = leaf_hash(entry)
        tree.append(prev)
        roots.append(tree.root().hex())
    return made


def place_of(entries: Sequence[bytes], kind: str, *, after: int = -1) -> int:
    """Returns the seq of the first event of a kind after a place."""
    mark = f'"event":{{"kind":"{kind}/1",'.encode()
    return next(seq for seq, data in enumerate(entries) if seq > after and mark in data)


def successful(entries: Sequence[bytes]) -> int:
    """Returns the seq of an outcome of B that passed, with entries after it."""
    return next(
        seq for seq, data in enumerate(entries) if b'"arm":"B"' in data and b'"passed":1.0' in data
    )
