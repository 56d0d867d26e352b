"""Copies between stores keep every byte, leaf and root, and are whole or not there."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import ExitStack, closing
from pathlib import Path

import pytest

from fairtrial.ledger.blobs import MemoryBlobs
from fairtrial.ledger.canonical import blake3_hex
from fairtrial.ledger.errors import IntegrityError, StoreError
from fairtrial.ledger.locks import link_findings
from fairtrial.ledger.memory import MemoryStore
from fairtrial.ledger.merkle import root_of
from fairtrial.ledger.opening import blob_store, open_store
from fairtrial.ledger.port import LogStore
from fairtrial.ledger.transfer import copy_blobs, copy_entries, copy_ledger

from .chains import EMPTY, append_decisions

NAMES = ("ledger.db", "ledger.jsonl")


@pytest.fixture
def stack() -> Iterator[ExitStack]:
    """Closes stores at the end."""
    with ExitStack() as stack:
        yield stack


def _store(stack: ExitStack, path: Path, count: int = 0) -> LogStore:
    store = stack.enter_context(closing(open_store(path, create=True)))
    if count:
        append_decisions(store, count)
    return store


@pytest.mark.parametrize("source", NAMES)
@pytest.mark.parametrize("target", NAMES)
@pytest.mark.parametrize("count", [0, 1, 2_100])
def test_copy_keeps_entries_and_root(
    stack: ExitStack, tmp_path: Path, source: str, target: str, count: int
) -> None:
    """There and back, between any two stores: the same bytes, leaves and root."""
    first = _store(stack, tmp_path / source, count)
    there, back = tmp_path / "there" / target, tmp_path / "back" / source
    assert first.tail() == copy_ledger(first, there)
    copied = _store(stack, there)
    assert first.tail() == copy_ledger(copied, back)
    again = _store(stack, back)
    assert list(first.read()) == list(copied.read()) == list(again.read())
    assert root_of(first.leaves()) == root_of(again.leaves())
    if source.endswith(".jsonl"):
        assert (tmp_path / source).read_bytes() == back.read_bytes()


@pytest.mark.parametrize("target", NAMES)
def test_copy_leaves_nothing_but_the_copy(stack: ExitStack, tmp_path: Path, target: str) -> None:
    """Beside the new ledger there is its blobs' folder and nothing of the copying."""
    store = _store(stack, tmp_path / "source.db", 3)
    blobs = MemoryBlobs()
    blob = blobs.put(b"data")
    path = tmp_path / "out" / target
    copy_ledger(store, path, blobs=blobs)
    assert [path.name, f"{path.name}.d"] == sorted(os.listdir(path.parent))
    assert b"data" == blob_store(path).get(blob)
    append_decisions(_store(stack, path), 1)


@pytest.mark.parametrize("target", NAMES)
def test_taken_name_is_refused(stack: ExitStack, tmp_path: Path, target: str) -> None:
    """A copy never replaces a file, nor adds to a ledger that holds entries."""
    store = _store(stack, tmp_path / "source.db", 3)
    path = tmp_path / "out" / target
    other = _store(stack, path, 2)
    before = path.read_bytes()
    with pytest.raises(StoreError, match="there already"):
        copy_ledger(store, path)
    with pytest.raises(StoreError, match="holds entries"):
        copy_entries(store, other)
    assert before == path.read_bytes()


@pytest.mark.parametrize("target", NAMES)
@pytest.mark.parametrize(
    ("place", "right", "wrong"),
    [
        (1, b'"unit"', b'"twin"'),
        (1, b'"seq":1,', b'"seq":2,'),
        (1, b"tester", b"forger"),
        (1, b"}}", b"}"),
        # The last entry has no successor that names its leaf: only its id can tell.
        (2, b'"passed":1.0', b'"passed":0.0'),
    ],
)
def test_damaged_source_gives_no_copy(
    stack: ExitStack, tmp_path: Path, target: str, place: int, right: bytes, wrong: bytes
) -> None:
    """A source that contradicts itself anywhere is refused, and no target is left."""
    source = tmp_path / "source.jsonl"
    append_decisions(_store(stack, source), 3)
    lines = source.read_bytes().splitlines(keepends=True)
    assert right in lines[place]
    lines[place] = lines[place].replace(right, wrong)
    source.write_bytes(b"".join(lines))
    damaged = _store(stack, source)
    path = tmp_path / "out" / target
    with pytest.raises(IntegrityError):
        copy_ledger(damaged, path, blobs=MemoryBlobs())
    assert [] == os.listdir(path.parent)


@pytest.mark.parametrize("target", NAMES)
def test_damaged_blob_gives_no_copy(stack: ExitStack, tmp_path: Path, target: str) -> None:
    """When a blob is damaged no ledger, no blob and no folder of the target is left."""
    store = _store(stack, tmp_path / "source.db", 2)
    blobs = blob_store(tmp_path / "source.db")
    # More than one batch of whole blobs is copied before the damaged one, whose name sorts last.
    for number in range(4):
        blobs.put(bytes([number]) * 2_000_000)
    last = next(data for n in range(9_999) if blake3_hex(data := b"%d" % n).startswith("ff"))
    path = blobs.path_of(blobs.put(last))
    assert path is not None
    path.write_bytes(b"other")
    with pytest.raises(IntegrityError):
        copy_ledger(store, tmp_path / "out" / target, blobs=blobs)
    assert [] == os.listdir(tmp_path / "out")


def test_copy_of_blobs_checks_each(tmp_path: Path) -> None:
    """All blobs are copied, packed or alone; a damaged one ends the copy."""
    source, target = blob_store(tmp_path / "a.db"), blob_store(tmp_path / "b.db")
    contents = [b"one", b"two", b"x" * 100_000, b"", b"alone"]
    blobs = source.put_many(contents[:4])
    blobs.append(source.put(contents[4]))
    assert 5 == copy_blobs(source, target)
    assert contents == [target.get(blob) for blob in blobs]
    path = source.path_of(blobs[4])
    assert path is not None
    path.write_bytes(b"other")
    with pytest.raises(IntegrityError):
        copy_blobs(source, MemoryBlobs())


def test_many_large_blobs_are_copied_in_parts(tmp_path: Path) -> None:
    """More than fits into one batch is copied too."""
    source = MemoryBlobs()
    contents = [bytes([number]) * 1_500_000 for number in range(8)]
    source.put_many(contents)
    target = blob_store(tmp_path / "b.db")
    assert 8 == copy_blobs(source, target)
    assert contents == sorted(target.contents())


@pytest.mark.parametrize("name", NAMES)
def test_copies_during_a_run_hold_what_was_acknowledged(
    stack: ExitStack, tmp_path: Path, name: str
) -> None:
    """Each of ten copies taken while another thread appends verifies and holds all earlier acks."""
    path = tmp_path / name
    store = _store(stack, path)
    acked, stop = [0], threading.Event()

    def run() -> None:
        while not stop.is_set() and acked[0] < 3_000:
            append_decisions(store, 3)
            acked[0] += 3

    thread = threading.Thread(target=run)
    thread.start()
    try:
        for number in range(10):
            least = acked[0]
            target = tmp_path / f"copy-{number}{path.suffix}"
            with closing(open_store(path, read_only=True)) as reader:
                end = copy_ledger(reader, target)
            assert end.size >= least
            with closing(open_store(target, read_only=True)) as copy:
                assert (end, []) == (copy.tail(), list(copy.check()))
                assert end == copy_entries(copy, MemoryStore())
    finally:
        stop.set()
        thread.join()


@pytest.mark.slow
@pytest.mark.parametrize("target", NAMES)
def test_killed_copy_leaves_no_ledger(stack: ExitStack, tmp_path: Path, target: str) -> None:
    """A copy killed at any moment leaves the whole target or none, and can be made again."""
    source = tmp_path / "source.jsonl"
    store = _store(stack, source)
    for _ in range(5):
        append_decisions(store, 400)
    program = (
        "import sys, os, threading, time\n"
        "from pathlib import Path\n"
        "from fairtrial.ledger.opening import open_store\n"
        "from fairtrial.ledger.transfer import copy_ledger\n"
        "store = open_store(Path(sys.argv[1]), read_only=True)\n"
        "threading.Thread(target=lambda: (time.sleep(float(sys.argv[3])), os._exit(9))).start()\n"
        "copy_ledger(store, Path(sys.argv[2]))\n"
    )
    path = tmp_path / "out" / target
    for milliseconds in (1, 5, 20, 40, 60):
        seconds = str(milliseconds / 1000)
        subprocess.run(
            [sys.executable, "-c", program, str(source), str(path), seconds], check=False
        )
        if path.exists():
            with closing(open_store(path, read_only=True)) as copy:
                assert (store.tail(), []) == (copy.tail(), list(copy.check()))
            path.unlink()
    assert store.tail() == copy_ledger(store, path)


@pytest.mark.parametrize("target", NAMES)
def test_copy_killed_between_its_two_names_is_whole_and_can_be_written(
    stack: ExitStack, tmp_path: Path, target: str
) -> None:
    """The name that a killed copy leaves is none that anybody opens; another second name is."""
    source, path = tmp_path / "source.jsonl", tmp_path / "out" / target
    store = _store(stack, source)
    append_decisions(store, 3)
    program = (
        "import os, sys\n"
        "from pathlib import Path\n"
        "from fairtrial.ledger.opening import open_store\n"
        "from fairtrial.ledger.transfer import copy_ledger\n"
        "Path.unlink = lambda self: os._exit(9)\n"
        "copy_ledger(open_store(Path(sys.argv[1]), read_only=True), Path(sys.argv[2]))\n"
    )
    done = subprocess.run([sys.executable, "-c", program, str(source), str(path)], check=False)
    assert (9, 2) == (done.returncode, path.stat().st_nlink)
    with closing(open_store(path)) as copy:
        assert (store.tail(), []) == (copy.tail(), list(copy.check()))
        append_decisions(copy, 1)
        os.link(path, tmp_path / "other")
        assert ["a file with 2 names"] == [one.found for one in copy.check()]
        with pytest.raises(StoreError), copy.writer():
            pass


def test_copy_that_ends_while_its_names_are_counted_is_no_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A name that goes between the look for it and the look at it is one that isn't there."""
    path, beside = tmp_path / "copy.jsonl", tmp_path / ".copy.jsonl.a.tmp"
    beside.mkdir()
    path.touch()
    os.link(path, beside / path.name)
    look = Path.glob

    def glob_and_end(folder: Path, pattern: str) -> Iterator[Path]:
        for found in look(folder, pattern):
            found.unlink()
            yield found

    monkeypatch.setattr(Path, "glob", glob_and_end)
    assert ["a file with 2 names"] == [one.found for one in link_findings(path)]
    assert [] == list(link_findings(path))


class _Forgetful(MemoryStore):
    """A medium that gives back less than was written to it."""

    def read(self, start: int = 0, stop: int | None = None) -> Iterator[bytes]:
        return iter(list(super().read(start, stop))[:-1])


def test_copy_is_read_back() -> None:
    """A copy counts only when the target gives back what it was given."""
    source = MemoryStore()
    append_decisions(source, 3)
    with pytest.raises(IntegrityError, match="doesn't hold what was written"):
        copy_entries(source, _Forgetful())


def test_empty_store_is_copied() -> None:
    """A ledger without entries has a copy without entries."""
    assert EMPTY == copy_entries(MemoryStore(), MemoryStore())
