"""Locks between processes and threads, by a file beside the ledger."""

from __future__ import annotations

import fcntl
import os
import signal
import socket
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from fairtrial.ledger.errors import BusyError, StoreError
from fairtrial.ledger.locks import (
    append_lock_path,
    file_lock,
    lock_holder,
    run_lock_path,
    side_folder,
)

HOLD = """
import sys
from pathlib import Path
from fairtrial.ledger.locks import file_lock
with file_lock(Path(sys.argv[1]), timeout_seconds=5, what="run of exp-1"):
    print("held", flush=True)
    sys.stdin.read()
"""


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """A lock file that does not exist yet, in a folder that does not."""
    return append_lock_path(tmp_path / "ledger.db")


def _hold(path: Path) -> subprocess.Popen[str]:
    process = subprocess.Popen(
        [sys.executable, "-c", HOLD, str(path)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    assert process.stdout is not None
    assert "held\n" == process.stdout.readline()
    return process


def test_names_stand_beside_the_ledger() -> None:
    """Locks are in the ledger's side folder, one for appending and one an experiment."""
    ledger = Path("a/ledger.db")
    assert Path("a/ledger.db.d") == side_folder(ledger)
    assert Path("a/ledger.db.d/append.lock") == append_lock_path(ledger)
    assert Path("a/ledger.db.d/run-exp.1.lock") == run_lock_path(ledger, "exp.1")


@pytest.mark.parametrize(
    "words", [b'{"a":' + b"[" * 4000, b'{"pid":1,"host":"\xff"}', b"\x00" * 99]
)
def test_lock_is_had_whatever_its_file_holds(path: Path, words: bytes) -> None:
    """The words of a lock file are for people: none of them keeps anybody from the lock."""
    path.parent.mkdir()
    path.write_bytes(words)
    with file_lock(path, timeout_seconds=0, what="append"):
        assert lock_holder(path)
    path.write_bytes(words)
    with file_lock(path, timeout_seconds=0, what="append"):
        path.write_bytes(words)
        with (
            pytest.raises(BusyError, match="another process"),
            file_lock(path, timeout_seconds=0, what="append"),
        ):
            raise AssertionError("two hold the lock")


def test_look_at_a_lock_keeps_nobody_from_it(path: Path) -> None:
    """Who tries once meets a shared lock of someone who looks, and has the lock when that ends."""
    with file_lock(path, timeout_seconds=0, what="append"):
        pass
    fd = os.open(path, os.O_RDONLY)
    fcntl.flock(fd, fcntl.LOCK_SH)
    end = threading.Timer(0.05, os.close, (fd,))
    end.start()
    with file_lock(path, timeout_seconds=0, what="append"):
        end.join()
    assert lock_holder(path) is None


def test_busy_names_pid_host_and_since(path: Path) -> None:
    """Who has to wait is told who holds the lock, what for and since when."""
    process = _hold(path)
    with pytest.raises(BusyError) as caught, file_lock(path, timeout_seconds=0.01, what="append"):
        pytest.fail("two holders at once")
    holder = lock_holder(path)
    assert holder is not None
    assert (process.pid, socket.gethostname(), "run of exp-1") == (
        holder.pid,
        holder.host,
        holder.what,
    )
    for word in ("run of exp-1", str(process.pid), socket.gethostname(), holder.since):
        assert word in caught.value.found
    assert str(path) == caught.value.where
    process.communicate("")


def test_lock_ends_with_its_holder(path: Path) -> None:
    """A killed holder leaves no lock, whatever its file still says."""
    process = _hold(path)
    process.send_signal(signal.SIGKILL)
    process.communicate()
    assert path.read_bytes()
    assert lock_holder(path) is None
    with file_lock(path, timeout_seconds=0, what="append"):
        pass


def test_waiter_gets_the_lock_when_it_is_free(path: Path) -> None:
    """A waiter within its limit gets the lock; threads of one process exclude each other too."""
    inside: list[int] = []
    most: list[int] = []

    def work() -> None:
        for _ in range(20):
            with file_lock(path, timeout_seconds=20, what="append"):
                inside.append(1)
                most.append(len(inside))
                inside.pop()

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert (80, 1) == (len(most), max(most))


def test_exception_frees_the_lock(path: Path) -> None:
    """The lock ends with its block, however the block ends."""
    with pytest.raises(ZeroDivisionError), file_lock(path, timeout_seconds=0, what="append"):
        raise ZeroDivisionError
    assert lock_holder(path) is None
    with file_lock(path, timeout_seconds=0, what="append"):
        holder = lock_holder(path)
    assert holder is not None
    assert os.getpid() == holder.pid


@pytest.mark.parametrize(
    "left", [b"", b"{", b'{"pid":1,"host":"h","since":"s","what":"append"}', b"x" * 5000], ids=len
)
def test_holder_is_the_one_that_has_the_lock_now(path: Path, left: bytes) -> None:
    """What another left in the file is replaced; who comes again leaves its own words there."""
    path.parent.mkdir()
    path.write_bytes(left)
    written = []
    for what in ("append", "append", "creation", "append"):
        # The clock of a file may stand still between two writes: a time of nobody tells them apart.
        os.utime(path, ns=(0, 0))
        with file_lock(path, timeout_seconds=0, what=what):
            holder = lock_holder(path)
            assert holder is not None
            assert (os.getpid(), what) == (holder.pid, holder.what)
            written.append(path.stat().st_mtime_ns != 0)
        assert lock_holder(path) is None
    assert [True, False, True, True] == written


def test_looking_creates_nothing(path: Path) -> None:
    """Asking for the holder of a lock that never was leaves no file and no folder."""
    assert lock_holder(path) is None
    assert not path.parent.exists()


def test_deleted_lock_file_is_made_again(path: Path) -> None:
    """A lock file may be deleted when it is idle: the next holder makes a fresh one."""
    for _ in range(2):
        with file_lock(path, timeout_seconds=0, what="append"):
            assert lock_holder(path) is not None
        path.unlink()


def test_link_is_no_lock(path: Path, tmp_path: Path) -> None:
    """A symbolic link in place of the lock file is refused, its target untouched."""
    other = tmp_path / "other"
    other.write_bytes(b"content")
    path.parent.mkdir()
    path.symlink_to(other)
    with pytest.raises(StoreError), file_lock(path, timeout_seconds=0, what="append"):
        pytest.fail("a lock through a link")
    assert b"content" == other.read_bytes()


def test_child_process_does_not_keep_the_lock(path: Path) -> None:
    """A program started while the lock is held does not inherit it."""
    with file_lock(path, timeout_seconds=0, what="append"):
        child = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE)
    assert lock_holder(path) is None
    child.communicate(b"\n")
