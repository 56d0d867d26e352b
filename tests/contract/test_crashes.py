"""What is left after kills, full disks and torn writes; what several processes do to one file."""

from __future__ import annotations

import hashlib
import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from fairtrial.ledger.entry import ENTRY_BYTES_MAX, FIRST_PREV, check_entry, parse_entry
from fairtrial.ledger.errors import IntegrityError, LedgerError, StoreError, TornError
from fairtrial.ledger.opening import open_store
from fairtrial.ledger.port import Tail, Torn

from .conftest import EMPTY, Medium, append, chain, decision, entry

PROGRAM = str(Path(__file__).with_name("append_program.py"))


def _start(disk: Medium, *words: object) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, PROGRAM, str(disk.path), *map(str, words)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def _create(disk: Medium) -> None:
    disk.open().close()


def _checked(disk: Medium) -> list[bytes]:
    """Returns all entries, each checked against the one before, as a fresh opening reads them."""
    store = open_store(disk.path, read_only=True)
    entries = list(store.read())
    prev, ledger = FIRST_PREV, None
    for seq, data in enumerate(entries):
        found = parse_entry(data)
        check_entry(found, ledger=ledger, seq=seq, prev=prev)
        prev, ledger = found.leaf(), found.ledger
    assert Tail(len(entries), prev) == store.tail()
    assert [] == list(store.check())
    store.close()
    return entries


@pytest.mark.slow
def test_processes_append_one_chain(disk: Medium) -> None:
    """Four processes, one entry a lock: no error, no gap, each entry where its ack says."""
    _create(disk)
    processes = [_start(disk, number, 100, 1, 0) for number in range(4)]
    acked: list[int] = []
    for process in processes:
        output, errors = process.communicate()
        assert ("", 0) == (errors, process.returncode)
        acked += [int(line.split()[0]) for line in output.splitlines()]
    assert list(range(400)) == sorted(acked)
    assert 400 == len(_checked(disk))


@pytest.mark.slow
def test_two_writers_of_large_entries_keep_lines_whole(disk: Medium) -> None:
    """500 entries each, up to the limit of size, by two processes at once: 1,000 whole lines."""
    _create(disk)
    processes = [_start(disk, number, 500, 7, 100, 3_000, 66_500) for number in range(2)]
    for process in processes:
        assert ("", 0) == (process.communicate()[1], process.returncode)
    entries = _checked(disk)
    assert 1_000 == len(entries)
    assert max(map(len, entries)) > 64_000
    if disk.kind == "jsonl":
        assert entries == disk.path.read_bytes().split(b"\n")[:-1]


def test_entry_above_the_limit_is_refused_clearly() -> None:
    """A payload of 300 KB is refused when its entry is built, with both sizes and the way out."""
    with pytest.raises(LedgerError) as caught:
        entry(decision(1, 300_000), EMPTY)
    assert f"{ENTRY_BYTES_MAX:,}" in caught.value.expected
    assert "artifact" in caught.value.todo


@pytest.mark.slow
@pytest.mark.parametrize("batch", [1, 50])
def test_kill_loses_nothing_that_was_acknowledged(disk: Medium, batch: int) -> None:
    """`kill -9` at random moments: acked entries stay where they were, others whole or not."""
    _create(disk)
    seed = random.randrange(2**32)
    moments = random.Random(seed)
    acked, known = 0, _checked(disk)
    for round_ in range(10):
        process = _start(disk, round_, 100_000, batch, 200, 2_000)
        assert process.stdout is not None
        lines = [process.stdout.readline()]
        time.sleep(moments.uniform(0, 0.03))
        process.send_signal(signal.SIGKILL)
        lines += process.stdout.read().splitlines()
        process.communicate()
        store = open_store(disk.path)
        store.recover(disk.path.with_name("quarantine"))
        store.close()
        entries = _checked(disk)
        last = [line for line in lines if line.strip()][-1]
        acked = sum(map(int, last.split()))
        assert len(entries) >= acked, f"seed {seed}"
        assert known == entries[: len(known)], f"seed {seed}"
        known = entries + append(disk.open(), 1)
    assert acked > 10


@pytest.mark.slow
def test_killed_commit_is_read_without_repair(disk: Medium, tmp_path: Path) -> None:
    """After a kill a read-only opening reads every whole entry and changes nothing."""
    _create(disk)
    for round_ in range(5):
        process = _start(disk, round_, 100_000, 200, 3_000)
        assert process.stdout is not None
        process.stdout.readline()
        process.kill()
        process.communicate()
        before = [(path, path.stat().st_size) for path in sorted(tmp_path.iterdir())]
        assert len(_checked(disk)) >= 200
        assert before == [(path, path.stat().st_size) for path in sorted(tmp_path.iterdir())]
        disk.open().recover(tmp_path / "quarantine")


@pytest.mark.slow
@pytest.mark.parametrize("room", [0, 100, 5_000, 40_000])
def test_full_disk_keeps_what_was_acknowledged(disk: Medium, room: int) -> None:
    """A write that finds no room is an error that says so; nothing of its batch is kept."""
    append(disk.open(), 20)
    before = _checked(disk)
    disk.close()
    limit = disk.path.stat().st_size + room
    process = _start(disk, 1, 1_000, 10, 500, "--limit", limit)
    output, errors = process.communicate()
    assert 1 == process.returncode
    assert "fairtrial.ledger.errors.StoreError" in errors
    acked = sum(int(line.split()[1]) for line in output.splitlines())
    entries = _checked(disk)
    assert (before, len(before) + acked) == (entries[: len(before)], len(entries))
    append(disk.open(), 1)
    assert len(entries) + 1 == len(_checked(disk))


def _can_trace() -> bool:
    """Returns whether system calls of a child can be made to fail here."""
    try:
        done = subprocess.run(["strace", "-qq", "true"], capture_output=True, check=False)
    except FileNotFoundError:
        return False
    return done.returncode == 0


@pytest.mark.slow
@pytest.mark.skipif(not _can_trace(), reason="needs strace, and the right to use it")
@pytest.mark.parametrize("failure", ["error=EIO", "signal=KILL"])
@pytest.mark.parametrize("call", ["fdatasync", "pwrite64", "write", "ftruncate"])
def test_failing_call_keeps_what_was_acknowledged(
    disk: Medium, tmp_path: Path, call: str, failure: str
) -> None:
    """A call of an append fails, or is its last: acks hold, batches are whole or absent."""
    known = append(disk.open(), 5)
    for number, when in enumerate((1, 3, 6), 1):
        disk.close()
        words = ["strace", "-f", "-qq", "-o", str(tmp_path / "trace")]
        words += ["-e", f"trace={call}", "-e", f"inject={call}:{failure}:when={when}"]
        words += [sys.executable, PROGRAM, str(disk.path), str(number), "6", "3", "400"]
        done = subprocess.run(words, capture_output=True, text=True, check=False)
        if "Traceback" in done.stderr and call != "write":
            assert "fairtrial.ledger.errors." in done.stderr
        acked = 3 * done.stdout.count("\n")
        disk.open().recover(tmp_path / "quarantine")
        entries = _checked(disk)
        assert known == entries[: len(known)]
        fresh = len(entries) - len(known)
        assert acked <= fresh <= acked + 3
        assert disk.kind == "jsonl" or fresh % 3 == 0
        known = entries + append(disk.open(), 1)


@pytest.fixture
def jsonl(tmp_path: Path) -> Medium:
    """A JSON Lines ledger."""
    return Medium("jsonl", tmp_path)


@pytest.mark.slow
def test_every_cut_of_the_last_entry_is_repaired(jsonl: Medium, tmp_path: Path) -> None:
    """Torn at any byte: reported, set aside, never glued to; a missing newline is completed."""
    store = jsonl.open()
    entries = append(store, 60)
    whole = jsonl.path.read_bytes()
    start = len(whole) - len(entries[-1]) - 1
    for cut in range(start, len(whole) + 1):
        jsonl.path.write_bytes(whole[:cut])
        quarantine = tmp_path / f"quarantine-{cut}"
        store = jsonl.open()
        left = whole[start:cut]
        is_whole = cut == len(whole) - 1
        expected = Torn(start, len(left), hashlib.sha256(left).hexdigest(), is_whole)
        if cut in (start, len(whole)):
            assert store.torn() is None
        else:
            assert expected == store.torn()
            with pytest.raises(TornError, match="a crash left them"), store.writer():
                pytest.fail("a writer on torn bytes")
            assert whole[:cut] == jsonl.path.read_bytes()
            assert expected == store.recover(quarantine)
        kept = 60 if cut >= len(whole) - 1 else 59
        assert entries[:kept] == list(store.read())
        fresh = append(store, 1)
        assert entries[:kept] + fresh == _checked(jsonl) == list(store.read())
        assert whole[:start] == jsonl.path.read_bytes()[:start]
        if kept == 59 and left:
            (file,) = quarantine.iterdir()
            assert left == file.read_bytes()
        else:
            assert not quarantine.exists()


@pytest.mark.parametrize(
    ("left", "is_whole"),
    [
        pytest.param(b"\0" * 5_000, False, id="zeros"),
        pytest.param(b"}", False, id="one byte"),
        pytest.param(b"x" * 3_000_000, False, id="longer than an entry"),
        pytest.param(b'{"v":1}', False, id="JSON, no entry"),
    ],
)
def test_other_bytes_after_the_end_are_set_aside(
    jsonl: Medium, tmp_path: Path, left: bytes, is_whole: bool
) -> None:
    """Whatever follows the last newline is torn, of any length and form."""
    store = jsonl.open()
    entries = append(store, 3)
    with jsonl.path.open("ab") as file:
        file.write(left)
    store = jsonl.open()
    torn = store.torn()
    assert torn is not None
    assert (len(left), is_whole) == (torn.length, torn.whole)
    assert (entries, 3) == (list(store.read()), store.tail().size)
    assert torn == store.recover(tmp_path / "quarantine")
    assert store.torn() is None
    assert [left] == [file.read_bytes() for file in (tmp_path / "quarantine").iterdir()]
    assert entries + append(store, 1) == _checked(jsonl)


def test_entry_of_another_place_is_not_completed(jsonl: Medium, tmp_path: Path) -> None:
    """Bytes without newline that are an entry but don't follow the last one are set aside."""
    store = jsonl.open()
    entries = append(store, 3)
    stranger = entry(decision(9), Tail(3, FIRST_PREV))
    with jsonl.path.open("ab") as file:
        file.write(stranger)
    torn = store.recover(tmp_path / "quarantine")
    assert torn is not None
    assert not torn.whole
    assert entries == list(store.read())


def test_torn_first_entry_leaves_an_empty_ledger(jsonl: Medium, tmp_path: Path) -> None:
    """A ledger whose first entry is torn opens, is repaired and begins again."""
    _create(jsonl)
    jsonl.path.write_bytes(chain(1)[0][0][:50])
    store = jsonl.open()
    assert (EMPTY, True) == (store.tail(), store.torn() is not None)
    assert store.recover(tmp_path / "quarantine") is not None
    assert append(store, 1) == _checked(jsonl)


def test_damaged_whole_line_is_never_torn(jsonl: Medium, tmp_path: Path) -> None:
    """A line that ends in a newline counts as an entry whatever is in it: corruption, no repair."""
    store = jsonl.open()
    append(store, 3)
    with jsonl.path.open("ab") as file:
        file.write(b'{"v":1,"half\n')
    store = jsonl.open()
    assert (4, None) == (store.tail().size, store.torn())
    assert store.recover(tmp_path / "quarantine") is None
    with pytest.raises(IntegrityError, match="not an entry"), store.writer():
        pytest.fail("a writer on a damaged ledger")


def test_bytes_of_a_writer_at_work_are_not_torn(jsonl: Medium) -> None:
    """While the append lock is held, bytes after the last newline belong to its holder."""
    store, other = jsonl.open(), jsonl.open()
    append(store, 1)
    with store.writer():
        with jsonl.path.open("ab") as file:
            file.write(b"half of an entry")
        assert other.torn() is None
        assert 1 == other.tail().size
    assert other.torn() is not None


def test_ledger_that_became_shorter_is_refused(jsonl: Medium) -> None:
    """Acknowledged entries that are gone are an error for who saw them, in reading and writing."""
    store = jsonl.open()
    entries = append(store, 5)
    os.truncate(jsonl.path, sum(len(data) + 1 for data in entries[:3]))
    for use in (store.tail, lambda: append(store, 1)):
        with pytest.raises(IntegrityError, match="shorter"):
            use()


def test_ledger_whose_last_entry_changed_is_refused(jsonl: Medium) -> None:
    """The last entry that was seen must still be there, whatever was appended after it."""
    store = jsonl.open()
    append(store, 3)
    jsonl.path.write_bytes(jsonl.path.read_bytes().replace(b"unit 3", b"unit 4"))
    with pytest.raises(IntegrityError, match="changed"):
        append(store, 1)


@pytest.mark.slow
def test_failed_store_writes_no_more(jsonl: Medium) -> None:
    """After an error of the medium only a new opening appends again."""
    limited = (
        "import resource, sys\n"
        "from pathlib import Path\n"
        "from fairtrial.ledger.errors import StoreError\n"
        "from fairtrial.ledger.opening import open_store\n"
        "from append_program import batch\n"
        "store = open_store(Path(sys.argv[1]))\n"
        "resource.setrlimit(resource.RLIMIT_FSIZE, (100, resource.RLIM_INFINITY))\n"
        "def go():\n"
        "    with store.writer() as writer:\n"
        "        writer.write(*batch(writer, range(1, 2), [0]))\n"
        "for _ in range(2):\n"
        "    try:\n"
        "        go()\n"
        "    except StoreError as error:\n"
        "        print(error.what, '|', error.found)\n"
        "    infinite = resource.RLIM_INFINITY\n"
        "    resource.setrlimit(resource.RLIMIT_FSIZE, (infinite, infinite))\n"
        "store = open_store(Path(sys.argv[1]))\n"
        "go()\n"
    )
    _create(jsonl)
    done = subprocess.run(
        [sys.executable, "-c", limited, str(jsonl.path)],
        capture_output=True,
        text=True,
        cwd=Path(PROGRAM).parent,
        check=False,
    )
    assert ("", 0) == (done.stderr, done.returncode)
    first, second = done.stdout.splitlines()
    assert first.startswith("the batch could not be written, and nothing of it was kept")
    assert second.endswith("an earlier write failed")
    assert 1 == len(_checked(jsonl))


def test_leftover_of_a_repair_is_repaired_again(jsonl: Medium, tmp_path: Path) -> None:
    """A repair that was killed between its copy and its cut is done again, with the same file."""
    store = jsonl.open()
    append(store, 2)
    with jsonl.path.open("ab") as file:
        file.write(b"half")
    torn_state = jsonl.path.read_bytes()
    quarantine = tmp_path / "quarantine"
    store.recover(quarantine)
    jsonl.path.write_bytes(torn_state)
    assert jsonl.open().recover(quarantine) is not None
    assert [b"half"] == [file.read_bytes() for file in quarantine.iterdir()]


@pytest.mark.slow
def test_reads_survive_a_process_that_appends(disk: Medium) -> None:
    """While another process appends, every reading is a whole prefix that grows."""
    _create(disk)
    process = _start(disk, 1, 300, 3, 0, 1_000)
    store = disk.open(read_only=True)
    sizes: list[int] = []
    while process.poll() is None:
        entries = list(store.read())
        assert all(parse_entry(data).seq == seq for seq, data in enumerate(entries))
        sizes.append(len(entries))
    assert ("", 0) == (process.communicate()[1], process.returncode)
    assert sizes == sorted(sizes)
    assert 300 == len(_checked(disk))


def test_store_error_is_no_crash_of_ours(disk: Medium) -> None:
    """A folder that can't be written gives a StoreError that names the ledger or its lock."""
    append(disk.open(), 1)
    side = disk.path.with_name(disk.path.name + ".d")
    (side / "append.lock").unlink()
    side.rmdir()
    side.write_bytes(b"")
    with pytest.raises(StoreError) as caught:
        append(disk.open(), 1)
    assert disk.path.name in caught.value.where
