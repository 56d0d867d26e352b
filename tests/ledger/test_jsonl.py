"""What only the JSON Lines store has: lines, offsets, and a search before the first write."""

from __future__ import annotations

import tracemalloc
from itertools import accumulate
from pathlib import Path

import pytest

import fairtrial.ledger.jsonl_lines as jsonl_lines
from fairtrial.ledger.entry import ENTRY_BYTES_MAX
from fairtrial.ledger.errors import IntegrityError, StoreError
from fairtrial.ledger.events import Open
from fairtrial.ledger.jsonl import JsonlStore
from fairtrial.ledger.port import StoreFinding
from fairtrial.ledger.slot_index import Slot, parse_slot

from .chains import append, append_decisions, decision


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """Where the ledger is."""
    return tmp_path / "ledger.jsonl"


def test_file_is_the_entries_and_a_newline_each(path: Path) -> None:
    """A line is an entry's bytes and one LF; nothing else is in the file."""
    entries = append_decisions(JsonlStore.create(path), 3)
    assert b"".join(data + b"\n" for data in entries) == path.read_bytes()


def test_only_lf_ends_a_line(path: Path) -> None:
    """U+2028, U+0085's neighbours and escaped newlines in a value don't split an entry."""
    store = JsonlStore.create(path)
    entries = append(store, *(decision(n, unit=f"a\u2028b\u2029c {n}") for n in range(1, 4)))
    assert entries == list(JsonlStore(path).read())
    assert 3 == store.tail().size


def test_create_keeps_what_is_there(path: Path) -> None:
    """Creating where a ledger is opens it."""
    entries = append_decisions(JsonlStore.create(path), 2)
    assert entries == list(JsonlStore.create(path).read())


@pytest.mark.parametrize("spoil", [b"\n", b"text\n", b"\r\n", b"{}\n"])
def test_line_that_is_no_entry_counts_and_stops_writing(path: Path, spoil: bytes) -> None:
    """A blank or foreign line has its place, is handed out as it is, and ends all writing."""
    store = JsonlStore.create(path)
    entries = append_decisions(store, 2)
    with path.open("ab") as file:
        file.write(spoil)
    store = JsonlStore(path)
    assert [*entries, spoil[:-1]] == list(store.read())
    with pytest.raises(IntegrityError) as caught, store.writer():
        pytest.fail("a writer behind a line that is no entry")
    assert "entry 2" == caught.value.where
    assert [] == list(store.check())


@pytest.mark.parametrize("keep_size", [True, False])
def test_writer_sees_that_the_last_line_has_changed(path: Path, *, keep_size: bool) -> None:
    """A store that saw the end before looks at it again under the lock, length and bytes."""
    store = JsonlStore.create(path)
    append_decisions(store, 2)
    lines = path.read_bytes().splitlines(keepends=True)
    changed = lines[1].replace(b"unit", b"tinu" if keep_size else b"longer unit")
    path.write_bytes(lines[0] + changed)
    with pytest.raises(IntegrityError, match="has changed"), store.writer():
        pytest.fail("a writer behind a changed entry")
    path.write_bytes(lines[0] + lines[1][:-1] + b" ")
    with pytest.raises(IntegrityError, match="has changed"), store.writer():
        pytest.fail("a writer behind a line without its end")


def test_line_without_end_is_shortened_and_found(path: Path) -> None:
    """A line longer than an entry can be is a finding, takes no memory and can't be an entry."""
    store = JsonlStore.create(path)
    append_decisions(store, 2)
    with path.open("ab") as file:
        for _ in range(40):
            file.write(b"x" * 1_000_000)
        file.write(b"\n")
    store = JsonlStore(path)
    tracemalloc.start()
    found: list[StoreFinding] = []
    lengths = [len(data) for block in store.blocks(report=found.append) for data in block.entries]
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert ENTRY_BYTES_MAX + 1 == lengths[2]
    assert [len(data) for data in store.read()] == lengths
    assert [("long_line", 2)] == [(one.code, one.seq) for one in found]
    assert peak < 12_000_000


@pytest.mark.slow
def test_reading_is_flat_in_memory(path: Path) -> None:
    """Reading 5,000 entries keeps no more than a few buffers."""
    store = JsonlStore.create(path)
    append_decisions(store, 5_000)
    reader = JsonlStore(path)
    tracemalloc.start()
    assert 5_000 == sum(1 for _ in reader.read())
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 3_000_000 < path.stat().st_size


def test_search_tells_slots_apart_that_look_alike(path: Path) -> None:
    """A slot is found by all four members, across chunks of the file, before any index is made."""
    store = JsonlStore.create(path)
    opened = Open(format="f", tool="t", schemas="0" * 64, origin="o")
    entries = append(store, opened, *(decision(n) for n in range(1, 2_500)))
    ends = list(accumulate(len(data) + 1 for data in entries))
    across = next(n for n, end in enumerate(ends) if end > 1 << 20)
    for position in (1, 11, 111, 1_111, across - 1, across, across + 1, 2_499):
        found = JsonlStore(path).find("exp-1", position, "decision", 0)
        assert entries[position] == found
    assert entries[0] == JsonlStore(path).find("", 0, "open", 0)
    for slot in (("exp-1", 2_500, "decision", 0), ("exp-1", 1, "attempt", 0), ("", 0, "close", 0)):
        assert JsonlStore(path).find(*slot) is None
    quoted = decision(3_000, unit='"experiment":"exp-1","position":2500,"number":0')
    append(store, quoted)
    assert JsonlStore(path).find("exp-1", 2_500, "decision", 0) is None


def test_slots_of_one_hash_are_told_apart(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where two slots share a hash, reading decides: no false conflict and no false hit."""
    monkeypatch.setattr(jsonl_lines, "_hash", lambda key: 1)
    store = JsonlStore.create(path)
    entries = append_decisions(store, 4)
    for position in range(1, 5):
        assert entries[position - 1] == store.find("exp-1", position, "decision", 0)
    assert store.find("exp-1", 9, "decision", 0) is None
    assert 5 == len(entries + append_decisions(store, 1))


def test_slot_is_read_from_other_forms_too() -> None:
    """A slot is taken from any JSON with the four members; without one there is none."""
    data = b'{"number":2,"more":[1],"kind":"look/7","experiment":"e","position":0}'
    assert Slot("e", 0, "look", 2) == parse_slot(data)
    for bad in (b"", b"[]", b'{"kind":"look/1","experiment":"e","position":0}', b'{"kind":1}'):
        with pytest.raises(IntegrityError, match="no slot"):
            parse_slot(bad)


def test_unreadable_file_is_a_store_error(path: Path) -> None:
    """A file that can't be opened is named."""
    with pytest.raises(StoreError) as caught:
        JsonlStore(path).tail()
    assert str(path) == caught.value.where


@pytest.mark.parametrize("chunk", [1, 7, 100, 1 << 20])
def test_line_is_found_from_either_side(
    path: Path, monkeypatch: pytest.MonkeyPatch, chunk: int
) -> None:
    """Counting forwards from the start and backwards from any line gives the same place."""
    monkeypatch.setattr(jsonl_lines, "_CHUNK_BYTES", chunk)
    contents = [b"x" * length for length in (3, 0, 5, 1, 0, 0, 9, 2)]
    path.write_bytes(b"".join(line + b"\n" for line in contents))
    starts = [0, *accumulate(len(line) + 1 for line in contents)]
    with path.open("rb") as file:
        for last, stop in enumerate(starts):
            for seq, start in enumerate(starts[: last + 1]):
                assert start == jsonl_lines.before_lines(file, stop, last - seq)
                assert stop == jsonl_lines.after_lines(file, start, last - seq)


def test_offset_is_taken_only_where_the_entry_before_it_says_so(path: Path) -> None:
    """A hint that lies is dropped: the lines are counted as ever."""
    entries = append_decisions(JsonlStore.create(path), 6)
    ends = [0, *accumulate(len(data) + 1 for data in entries)]
    for size in range(-1, 8):
        for offset in {-5, 0, *ends, ends[3] + 1, ends[6] + 9}:
            store = JsonlStore(path)
            store.take_offset(size, offset)
            is_so = 0 < size < 7 and ends[size] == offset
            assert (offset if is_so else 0) == store.offset_after(size)
            assert [entries, entries[4:], entries[2:5]] == [
                list(store.read()), list(store.read(4)), list(store.read(2, 5))
            ]  # fmt: skip
            assert 6 == store.tail().size
