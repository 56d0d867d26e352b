"""The golden files read, encode and hash to the same for ever, here and in another language."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgspec
import pytest

from fairtrial.ledger.canonical import decode_event, encode_event, event_id
from fairtrial.ledger.entry import FIRST_PREV, build_entry, check_entry, parse_entry
from fairtrial.ledger.events import EVENT_KINDS, Blob
from fairtrial.ledger.log import Log
from fairtrial.ledger.merkle import leaf_hash, root_of
from fairtrial.ledger.opening import blob_store, open_store
from fairtrial.ledger.port import LogStore
from fairtrial.ledger.transfer import copy_entries

HERE = Path(__file__).parent
V1 = HERE / "v1"
CORPUS = json.loads((V1 / "events.json").read_text(encoding="utf-8"))
ROWS: list[dict[str, str]] = CORPUS["events"]
EXPECTED = json.loads((V1 / "expected.json").read_text(encoding="utf-8"))
LEDGERS = ("ledger.jsonl", "ledger.db")


def test_corpus_holds_every_kind() -> None:
    """Each kind and version of event that this version knows is golden."""
    assert set(EVENT_KINDS) == {row["kind"] for row in ROWS}


@pytest.mark.parametrize("kind", sorted(EVENT_KINDS))
def test_corpus_holds_every_nullable_member_both_ways(kind: str) -> None:
    """What may be null is golden as null and as a value, members of members included."""
    info = msgspec.inspect.type_info(EVENT_KINDS[kind])
    nullable = set(_nullable(info, kind))
    events = [json.loads(row["event"]) for row in ROWS if row["kind"] == kind]
    seen = {one for event in events for one in _seen(info, event, kind)}
    assert set() == {(path, is_null) for path in nullable for is_null in (True, False)} - seen


def _nullable(info: msgspec.inspect.Type, path: str) -> Iterator[str]:
    """Yields the path of every member that may be null."""
    for place, inner in _members(info, path):
        if isinstance(inner, msgspec.inspect.UnionType) and inner.includes_none:
            yield place
        yield from _nullable(inner, place)


def _members(info: msgspec.inspect.Type, path: str) -> Iterator[tuple[str, msgspec.inspect.Type]]:
    match info:
        case msgspec.inspect.StructType():
            for field in info.fields:
                yield f"{path}.{field.encode_name}", field.type
        case msgspec.inspect.VarTupleType():
            yield f"{path}[]", info.item_type
        case msgspec.inspect.DictType():
            yield f"{path}{{}}", info.value_type
        case msgspec.inspect.UnionType():
            for one in info.types:
                yield from _members(one, path)
        case _:
            return


def _seen(info: msgspec.inspect.Type, value: Any, path: str) -> Iterator[tuple[str, bool]]:
    """Yields, for every member of a value, its path and whether it is null."""
    yield path, value is None
    for place, inner in _members(info, path):
        if isinstance(value, list):
            items = value
        elif isinstance(value, dict):
            name = place.rpartition(".")[2]
            items = list(value.values()) if place.endswith("{}") else [value[name]]
        else:
            return
        for item in items:
            yield from _seen(inner, item, place)


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row["kind"])
def test_golden_event_encodes_and_hashes_to_the_same(row: dict[str, str]) -> None:
    """Bytes, id, entry and leaf of each golden event are what today's code makes of it."""
    event = row["event"].encode()
    assert event == encode_event(decode_event(event))
    assert (row["id"], row["kind"]) == (
        event_id(event),
        str(decode_event(event).__struct_config__.tag),
    )
    found = parse_entry(row["entry"].encode())
    assert (event, row["id"], row["leaf"]) == (found.event, found.id, found.leaf().hex())
    again = build_entry(
        event,
        ledger=found.ledger,
        seq=found.seq,
        prev=found.prev,
        time=found.time,
        actor=found.actor,
        id=found.id,
    )
    assert row["entry"].encode() == again


def test_golden_events_are_one_chain() -> None:
    """Each golden entry names the leaf of the one before, and the root covers all."""
    prev, ledger = FIRST_PREV, None
    for seq, row in enumerate(ROWS):
        found = parse_entry(row["entry"].encode())
        check_entry(found, ledger=ledger, seq=seq, prev=prev)
        prev, ledger = found.leaf(), found.ledger
    assert CORPUS["root"] == root_of(bytes.fromhex(row["leaf"]) for row in ROWS).hex()


@pytest.fixture(params=LEDGERS)
def ledger(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[LogStore]:
    """Each golden ledger, copied to where it could be written, opened for reading."""
    for name in LEDGERS:
        shutil.copy(V1 / name, tmp_path)
        shutil.copytree(V1 / "ledger.jsonl.d", tmp_path / f"{name}.d")
    with closing(open_store(tmp_path / request.param, read_only=True)) as store:
        yield store


def test_golden_ledger_is_read_as_it_was_written(ledger: LogStore) -> None:
    """Both stores give the same entries, ids, leaves and root, and have nothing to complain of."""
    entries = list(ledger.read())
    assert (V1 / "ledger.jsonl").read_bytes() == b"".join(data + b"\n" for data in entries)
    assert EXPECTED["ids"] == [parse_entry(data).id for data in entries]
    assert EXPECTED["leaves"] == [leaf_hash(data).hex() for data in entries]
    assert EXPECTED["root"] == root_of(ledger.leaves()).hex()
    assert ([], None) == (list(ledger.check()), ledger.torn())


def test_golden_ledger_is_copied_into_the_other_store(ledger: LogStore, tmp_path: Path) -> None:
    """A golden ledger goes through today's stores without a changed byte."""
    for name in ("copy.jsonl", "copy.db"):
        with closing(open_store(tmp_path / name, create=True)) as target:
            copy_entries(ledger, target)
            assert list(ledger.read()) == list(target.read())
    assert (V1 / "ledger.jsonl").read_bytes() == (tmp_path / "copy.jsonl").read_bytes()


@dataclass(frozen=True)
class Columns:
    """A plan as the fold reads it."""

    units: list[str]
    arms: list[str]
    replicates: list[int]


def test_golden_ledger_folds_to_its_verdict(ledger: LogStore) -> None:
    """The rules of every later version still accept the golden ledger and read its verdict."""
    assert ledger.path is not None
    blobs = blob_store(ledger.path)

    def plan_of(blob: Blob) -> Columns:
        lines = [json.loads(line) for line in blobs.get(blob).splitlines()]
        names = ("unit", "arm", "replicate")
        return Columns(*([line[name] for line in lines] for name in names))

    log = Log(ledger, plan_of=plan_of)
    known = log.state.experiments["golden"]
    assert known.result is not None
    assert (EXPECTED["verdict"], 8, 2) == (known.result.verdict, known.settled, len(known.taken))
    assert EXPECTED["root"] == log.head().root


def _node(*words: object) -> Any:
    node = shutil.which("node")
    if node is None:
        pytest.skip("needs node, which runs the independent check")
    done = subprocess.run(
        [node, str(HERE / "verify.mjs"), *map(str, words)],
        capture_output=True,
        text=True,
        check=False,
        encoding="utf-8",
    )
    assert ("", 0) == (done.stderr, done.returncode)
    return json.loads(done.stdout)


def test_another_program_agrees_on_the_events() -> None:
    """A program that shares no code with this one computes the same ids, leaves and root."""
    found = _node("events", V1 / "events.json")
    assert found == {
        "ids": [row["id"] for row in ROWS],
        "leaves": [row["leaf"] for row in ROWS],
        "root": CORPUS["root"],
    }


def test_another_program_agrees_on_the_ledger() -> None:
    """The same for the golden ledger, from its lines alone."""
    found = _node("ledger", V1 / "ledger.jsonl")
    assert found == {name: EXPECTED[name] for name in ("ids", "leaves", "root")}


def test_another_program_agrees_on_published_ids() -> None:
    """The same for the published vectors of canonical form."""
    path = HERE.parent / "ledger" / "data" / "canonical.json"
    accepted = json.loads(path.read_text(encoding="utf-8"))["accepted"]
    assert [one["id"] for one in accepted] == _node("ids", path)


def test_the_other_program_knows_blake3() -> None:
    """Its BLAKE3 gives the vectors of the specification, in all three modes."""
    path = HERE.parent / "ledger" / "data" / "blake3.json"
    assert json.loads(path.read_text(encoding="utf-8"))["cases"] == _node("vectors", path)


def test_maker_refuses_to_overwrite() -> None:
    """Golden files are made once."""
    done = subprocess.run(
        [sys.executable, str(HERE / "make.py"), str(V1)],
        capture_output=True,
        text=True,
        check=False,
    )
    assert (1, True) == (done.returncode, "never edited" in done.stderr)
