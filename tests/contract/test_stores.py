"""The contract of `LogStore`, held by every store."""

from __future__ import annotations

import threading
from collections.abc import Callable
from pathlib import Path

import pytest

from fairtrial.ledger.entry import ENTRY_BYTES_MAX, FIRST_PREV, check_entry, parse_entry
from fairtrial.ledger.errors import BusyError, ConflictError, IntegrityError, StoreError
from fairtrial.ledger.events import Blob
from fairtrial.ledger.merkle import leaf_hash
from fairtrial.ledger.port import LogStore, Tail
from fairtrial.ledger.replay import replay

from .conftest import LEDGER, Medium, append, chain, decision, entry, write


def no_plan(blob: Blob) -> None:
    """Reads no plan: these ledgers freeze nothing."""


def _check_chain(store: LogStore) -> int:
    """Checks every entry of a store against the one before; returns how many there are."""
    prev, ledger, size = FIRST_PREV, None, 0
    for size, data in enumerate(store.read(), 1):
        found = parse_entry(data)
        check_entry(found, ledger=ledger, seq=size - 1, prev=prev)
        prev, ledger = found.leaf(), found.ledger
    assert Tail(size, prev) == store.tail()
    return size


def test_empty_store_has_nothing(medium: Medium) -> None:
    """A fresh store has size 0, the zero leaf and nothing to read, find or report."""
    store = medium.open()
    assert Tail(0, FIRST_PREV) == store.tail()
    assert ([], [], []) == (list(store.read()), list(store.leaves()), list(store.check()))
    assert (None, None) == (store.torn(), store.find("exp-1", 1, "decision", 0))


def test_read_returns_the_bytes_that_were_given(medium: Medium) -> None:
    """Entries and leaves come back as they were appended, in order."""
    entries, leaves = chain(25, sizes=(0, 5_000, 30_000))
    store = medium.open()
    with store.writer() as writer:
        writer.write(entries, leaves)
    assert entries == list(store.read())
    assert leaves == list(store.leaves())
    assert Tail(25, leaves[-1]) == store.tail()


@pytest.mark.parametrize(
    ("start", "stop"), [(0, None), (3, None), (0, 4), (3, 7), (9, 10), (7, 7), (8, 99), (10, None)]
)
def test_read_takes_a_range(medium: Medium, start: int, stop: int | None) -> None:
    """`start` is the first and `stop` the first not read; both may lie beyond the end."""
    store = medium.open()
    entries = append(store, 10)
    assert entries[start:stop] == list(store.read(start, stop))
    assert entries[start:stop] == list(medium.open().read(start, stop))
    assert [leaf_hash(data) for data in entries[start:stop]] == list(store.leaves(start, stop))


def test_reading_beyond_the_end_moves_no_place(medium: Medium) -> None:
    """Where nothing stands nothing is read, and later readings find what came to stand there."""
    store = medium.open()
    entries = append(store, 3)
    assert ([], []) == (list(store.blocks(7)), list(store.leaves(5, 9)))
    entries += append(medium.open(), 6)
    assert [entries[6:], entries[8:], entries[4:6]] == [
        list(store.read(6)), list(store.read(8)), list(store.read(4, 6))
    ]  # fmt: skip


def test_read_crosses_pages(medium: Medium) -> None:
    """What a store reads in pages comes out whole."""
    store = medium.open()
    entries = append(store, 2_345)
    assert entries == list(store.read())
    assert entries[998:2_003] == list(medium.open().read(998, 2_003))


def test_read_ends_where_the_store_ended_when_it_began(medium: Medium) -> None:
    """Entries appended during a reading belong to the next one."""
    store = medium.open()
    first = append(store, 3)
    reading = store.read()
    assert first[0] == next(reading)
    second = append(medium.open(), 3)
    assert first[1:] == list(reading)
    assert first + second == list(store.read())


def test_batches_stand_on_each_other(medium: Medium) -> None:
    """A second batch under the same lock follows the first, and the writer's tail moves on."""
    store = medium.open()
    with store.writer() as writer:
        first = write(writer, 2)
        assert store.tail() == writer.tail
        second = write(writer, 3)
        assert 5 == writer.tail.size
    assert first + second == list(store.read())


def test_empty_batch_changes_nothing(medium: Medium) -> None:
    """A batch of no entries is written without effect."""
    store = medium.open()
    entries = append(store, 1)
    with store.writer() as writer:
        writer.write([], [])
    assert entries == list(store.read())


def test_openings_see_each_other(medium: Medium) -> None:
    """What one opening appends, another one reads, finds and builds on."""
    one, other = medium.open(), medium.open()
    entries: list[bytes] = []
    for round_ in range(6):
        entries += append((one, other)[round_ % 2], 2)
        for store in (one, other):
            assert (entries, len(entries)) == (list(store.read()), store.tail().size)
            position = len(entries)
            assert entries[-1] == store.find("exp-1", position, "decision", 0)
            assert entries[-1:] == list(store.read(position - 1))


def test_find_looks_up_the_four_members_of_a_slot(medium: Medium) -> None:
    """An entry is found by experiment, position, kind and number, before and after a write."""
    entries = append(medium.open(), 12)
    store = medium.open()
    for _ in range(2):
        for position, data in enumerate(entries, 1):
            assert data == store.find("exp-1", position, "decision", 0)
        for slot in [
            ("exp-2", 1, "decision", 0),
            ("exp-1", 99, "decision", 0),
            ("exp-1", 1, "attempt", 0),
            ("exp-1", 1, "decision", 1),
            ("", 1, "decision", 0),
        ]:
            assert store.find(*slot) is None
        entries += append(store, 1)


def test_writer_gives_up_what_was_not_written(medium: Medium) -> None:
    """An exception inside the block frees the lock and leaves what was written before it."""
    store = medium.open()
    entries: list[bytes] = []
    with pytest.raises(ZeroDivisionError), store.writer() as writer:  # noqa: PT012 - the block is the point
        entries += write(writer, 2)
        raise ZeroDivisionError
    entries += append(store, 1)
    assert entries == list(store.read())


def test_writer_is_refused_while_another_writes(medium: Medium) -> None:
    """A second writer waits as long as it was told, then ends with BusyError; readers go on."""
    store, other = medium.open(), medium.open()
    with store.writer() as writer:
        entries = write(writer, 1)
        with pytest.raises(BusyError), other.writer(timeout_seconds=0.02):
            pytest.fail("two writers at once")
        assert entries == list(other.read())
    with other.writer(timeout_seconds=0.02) as writer:
        entries += write(writer, 1)
    assert entries == list(store.read())


def test_writer_ends_with_its_lock(medium: Medium) -> None:
    """A writer kept beyond its block writes nothing."""
    store = medium.open()
    with store.writer() as writer:
        write(writer, 1)
    with pytest.raises(StoreError, match="given back"):
        write(writer, 1)
    assert 1 == store.tail().size


def test_batch_off_the_chain_is_refused_whole(medium: Medium) -> None:
    """A wrong seq, a wrong prev or another ledger's id: nothing of the batch is kept."""
    store = medium.open()
    entries = append(store, 3)
    end = store.tail()
    good = entry(decision(50), end)
    for bad in (
        entry(decision(51), Tail(9, leaf_hash(good))),
        entry(decision(51), Tail(end.size + 1, FIRST_PREV)),
        entry(decision(51), Tail(end.size + 1, leaf_hash(good)), ledger="f" * 32),
    ):
        with pytest.raises(IntegrityError), store.writer() as writer:
            writer.write([good, bad], [leaf_hash(good), leaf_hash(bad)])
        assert (entries, end) == (list(store.read()), store.tail())
    assert entries + append(store, 1) == list(store.read())


def test_taken_slot_is_refused_whole(medium: Medium) -> None:
    """Two events for one slot are a conflict, in one batch and across batches and openings."""
    store = medium.open()
    entries = append(store, 3)
    # SQLite gets many rows in one statement, so that a long batch fails in the middle of one.
    for positions in ((2,), (50, 1), (50, 50), (*range(10, 70), 1), (*range(10, 40), 20)):
        tail = store.tail()
        batch: list[bytes] = []
        for position in positions:
            batch.append(entry(decision(position), tail))
            tail = Tail(tail.size + 1, leaf_hash(batch[-1]))
        with pytest.raises(ConflictError), medium.open().writer() as writer:
            writer.write(batch, [leaf_hash(data) for data in batch])
        assert entries == list(store.read())
    assert entries + append(store, 1) == list(store.read())


def test_broken_chain_within_a_long_batch_is_refused_whole(medium: Medium) -> None:
    """Wherever in a batch of 70 an entry doesn't follow, none of them is kept."""
    store = medium.open()
    entries, leaves = chain(70)
    for place in (1, 24, 25, 49, 69):
        bad = [*entries[:place], *entries[place + 1 :]]
        if place == 69:
            bad = [*entries[:-1], entry(decision(70), Tail(69, FIRST_PREV))]
        with pytest.raises(IntegrityError), store.writer() as writer:
            writer.write(bad, list(map(leaf_hash, bad)))
        assert 0 == store.tail().size
    with store.writer() as writer:
        writer.write(entries, leaves)
    assert entries == list(store.read())


@pytest.mark.parametrize(
    "spoil",
    [
        pytest.param(lambda data: data + b"\n", id="newline at the end"),
        pytest.param(lambda data: data.replace(b'"unit 1', b'"unit\n1'), id="newline inside"),
        pytest.param(lambda data: data.replace("ü".encode(), b"\xff"), id="not UTF-8"),
        pytest.param(lambda data: data[:-1], id="cut"),
        pytest.param(lambda data: b" " + data, id="blank before"),
        pytest.param(lambda data: b"", id="empty"),
    ],
)
def test_bytes_that_are_no_entry_are_refused(
    medium: Medium, spoil: Callable[[bytes], bytes]
) -> None:
    """What would not be one line of JSON with an entry's header never reaches the medium."""
    store = medium.open()
    data = spoil(entry(decision(1), Tail(0, FIRST_PREV)))
    with pytest.raises(IntegrityError), store.writer() as writer:
        writer.write([data], [leaf_hash(data)])
    assert (0, 1) == (store.tail().size, len(append(store, 1)))


def test_batch_needs_one_leaf_for_each_entry(medium: Medium) -> None:
    """Leaves that are too few or too many are refused."""
    store = medium.open()
    entries, leaves = chain(2)
    for wrong in (leaves[:1], [*leaves, leaves[0]]):
        with pytest.raises(StoreError), store.writer() as writer:
            writer.write(entries, wrong)
    assert 0 == store.tail().size


def test_largest_entry_fits_and_one_byte_more_does_not(medium: Medium) -> None:
    """An entry has 65,535 bytes at most."""
    store = medium.open()
    short = entry(decision(1), Tail(0, FIRST_PREV))
    largest = short.replace(b"unit 1", b"unit 1" + b"x" * (ENTRY_BYTES_MAX - len(short)))
    assert ENTRY_BYTES_MAX == len(largest)
    more = largest.replace(b"unit 1", b"unit 1x")
    with pytest.raises(IntegrityError), store.writer() as writer:
        writer.write([more], [leaf_hash(more)])
    with store.writer() as writer:
        writer.write([largest], [leaf_hash(largest)])
    assert [largest] == list(store.read())
    assert largest == store.find("exp-1", 1, "decision", 0)


def test_closed_store_refuses(medium: Medium) -> None:
    """After `close` nothing is read or written; a second `close` does nothing."""
    store = medium.open()
    append(store, 1)
    store.close()
    store.close()
    for use in (
        store.tail,
        lambda: list(store.read()),
        lambda: store.find("exp-1", 1, "decision", 0),
        lambda: append(store, 1),
    ):
        with pytest.raises(StoreError, match="closed"):
            use()
    assert 1 == medium.open().tail().size


def test_healthy_store_has_no_findings(medium: Medium, tmp_path: Path) -> None:
    """A store's own check is silent and `recover` does nothing while all is well."""
    store = medium.open()
    append(store, 30)
    assert [] == list(store.check())
    assert store.recover(tmp_path / "quarantine") is None
    assert not (tmp_path / "quarantine").exists()


def test_threads_take_turns(medium: Medium) -> None:
    """Threads on one opening and on several append one unbroken chain and read whole prefixes."""
    shared = medium.open()
    stores = [shared, shared, medium.open(), medium.open()]
    sizes: list[int] = []

    def work(store: LogStore) -> None:
        for _ in range(15):
            append(store, 2)
            sizes.append(len(list(store.read())))

    threads = [threading.Thread(target=work, args=(store,)) for store in stores]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert 120 == _check_chain(shared) == max(sizes)
    assert 60 == len(sizes)


def test_store_says_where_it_lives(medium: Medium) -> None:
    """`path` is the ledger's file, and None in memory."""
    store = medium.open()
    assert (medium.path if medium.is_on_disk else None) == store.path


def test_first_entry_names_the_ledger(medium: Medium) -> None:
    """The id in the first entry is the ledger's from then on."""
    store = medium.open()
    (data,) = append(store, 1)
    assert LEDGER == parse_entry(data).ledger
    other = entry(decision(2), store.tail(), ledger="e" * 32)
    with pytest.raises(IntegrityError), store.writer() as writer:
        writer.write([other], [leaf_hash(other)])


def _listing(folder: Path) -> dict[str, tuple[int, int]]:
    return {
        str(path.relative_to(folder)): (path.stat().st_mtime_ns, path.stat().st_size)
        for path in sorted(folder.rglob("*"))
    }


def test_reading_creates_and_changes_nothing(disk: Medium, tmp_path: Path) -> None:
    """Every reading method of a read-only opening leaves the folder as it was."""
    store = disk.open()
    append(store, 5)
    store.close()
    for path in tmp_path.rglob("*.lock"):
        path.unlink()
    disk.path.with_name(disk.path.name + ".d").rmdir()
    before = _listing(tmp_path)
    reader = disk.open(read_only=True)
    assert 5 == _check_chain(reader)
    assert [] == list(reader.check())
    assert reader.find("exp-1", 3, "decision", 0) is not None
    assert (None, 5) == (reader.torn(), len(list(reader.leaves())))
    reader.close()
    assert before == _listing(tmp_path)


def test_read_only_store_refuses_to_write(disk: Medium, tmp_path: Path) -> None:
    """Neither a writer nor a repair is given out by a read-only opening."""
    append(disk.open(), 1)
    store = disk.open(read_only=True)
    with pytest.raises(StoreError), store.writer():
        pytest.fail("a writer of a read-only store")
    assert 1 == store.tail().size
    del tmp_path


def test_write_needs_one_name(disk: Medium, tmp_path: Path) -> None:
    """A symbolic link or a file with two names is read and not written: a lock has one name."""
    append(disk.open(), 2)
    link = tmp_path / f"link{disk.path.suffix}"
    link.symlink_to(disk.path)
    through = type(disk.open())(link)  # type: ignore[call-arg]  # both stores take a path
    assert 2 == through.tail().size
    with pytest.raises(StoreError, match="one name"), through.writer():
        pytest.fail("a writer through a link")
    through.close()
    link.unlink()
    link.hardlink_to(disk.path)
    with pytest.raises(StoreError, match="2 names"):
        append(disk.open(), 1)
    link.unlink()
    assert 3 == disk.open().tail().size + len(append(disk.open(), 1))


@pytest.mark.parametrize("kind", ["hard", "symbolic"])
def test_a_second_name_is_a_note_and_no_fault(disk: Medium, tmp_path: Path, kind: str) -> None:
    """Both stores say it in their check; replay reports it, and its word stays as it is."""
    append(disk.open(), 1)
    before = replay(disk.open(), plan_of=no_plan)
    path = tmp_path / f"other{disk.path.suffix}"
    if kind == "hard":
        path.hardlink_to(disk.path)
    else:
        path.symlink_to(disk.path)
    store = type(disk.open())(path, read_only=True)  # type: ignore[call-arg]  # as above
    found = "a file with 2 names" if kind == "hard" else "a symbolic link"
    assert [("links", None, found)] == [(f.code, f.seq, f.found) for f in store.check()]
    after = replay(store, plan_of=no_plan)
    assert ["links"] == [f.code for f in after.findings if f not in before.findings]
    assert (before.record, before.levels, before.skipped) == (
        after.record, after.levels, after.skipped
    )  # fmt: skip
    store.close()


def test_removed_ledger_is_noticed(disk: Medium) -> None:
    """A ledger that is gone while open is an error, never written or read from memory."""
    store = disk.open()
    append(store, 1)
    disk.path.unlink()
    for use in (store.tail, lambda: append(store, 1)):
        with pytest.raises(StoreError):
            use()
    assert not disk.path.exists()


def test_replaced_ledger_is_noticed(disk: Medium, tmp_path: Path) -> None:
    """Another file under the ledger's name is an error for who had it open."""
    store = disk.open()
    append(store, 3)
    other = Medium(disk.kind, tmp_path / "other")
    append(other.open(), 2, sizes=(3_000,))
    other.close()
    other.path.replace(disk.path)
    for use in (store.tail, lambda: append(store, 1)):
        with pytest.raises(StoreError):
            use()
