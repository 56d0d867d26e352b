"""Locks between processes: `flock` on side files in `<ledger>.d/`, with a time limit.

Leaves it to the callers what a lock protects: the stores take `append.lock` for a batch, the engine
`run-<experiment>.lock` for a session.

Rules:
- The lock is the kernel's and ends with its holder, however that ends; no lock file is ever stale.
- The content of the file (pid, host, since, what) is only for the message to those who wait. Who
  takes a lock again finds its own words there and leaves them: to write and erase them at every
  commit would cost as much as the commit's own bytes.
- A lock file may be deleted when it is idle; a lock is only had on the file that has the name now.
- Looking at a lock creates nothing, and nobody is refused a lock because somebody looks at it.
"""

from __future__ import annotations

import os
import random
import socket
import stat
import time
from collections.abc import Generator, Iterator
from contextlib import contextmanager
from glob import escape
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from .clock import utc_now
from .durable import create_folder, write_all
from .errors import BusyError, StoreError
from .port import StoreFinding

if TYPE_CHECKING:
    from types import ModuleType

__all__ = (
    "LockHolder",
    "append_lock_path",
    "file_lock",
    "link_findings",
    "lock_holder",
    "run_lock_path",
    "side_folder",
)

_WAIT_MIN_SECONDS = 0.0005
_WAIT_MAX_SECONDS = 0.02
# A look at a lock stands in the way of who takes it, for a moment.
_LOOK_SECONDS = 1.0


class LockHolder(msgspec.Struct, frozen=True, kw_only=True):
    """Who holds a lock, in its own words; `since` is when it first did, with nobody between."""

    pid: int
    host: str
    since: str
    what: str

    def text(self) -> str:
        """Returns the holder as one phrase."""
        return f"{self.what} (pid {self.pid} on {self.host}, at work since {self.since})"


def side_folder(ledger: Path) -> Path:
    """Returns the folder beside a ledger that holds its blobs, locks and caches."""
    return ledger.with_name(ledger.name + ".d")


def append_lock_path(ledger: Path) -> Path:
    """Returns the file whose lock is the right to append."""
    return side_folder(ledger) / "append.lock"


def run_lock_path(ledger: Path, experiment: str) -> Path:
    """Returns the file whose lock is the right to run an experiment."""
    return side_folder(ledger) / f"run-{experiment}.lock"


def check_one_name(ledger: Path, status: os.stat_result) -> None:
    """Refuses to write where another name may lead to the same bytes past the lock.

    Raises:
        StoreError: The path is a symbolic link, or no regular file, or one with several names.
    """
    found = why_not_written(ledger, status)
    if found:
        raise StoreError(
            "the ledger is not written: its lock stands beside one name",
            where=str(ledger),
            expected="a regular file with one name",
            found=found,
            todo="give the path of the file itself, or remove its other names",
        )


def why_not_written(ledger: Path, status: os.stat_result) -> str:
    """Returns what stands against writing to a file, or ""."""
    if stat.S_ISLNK(status.st_mode):
        return "a symbolic link"
    if not stat.S_ISREG(status.st_mode):
        return "not a regular file"
    if status.st_nlink == 1:
        return ""
    # A copy that was killed just after it got its name leaves the name that nobody opens it by.
    left = ledger.parent.glob(f".{escape(ledger.name)}.*.tmp/{escape(ledger.name)}")
    names = status.st_nlink - sum(_is_name_of(status, one) for one in left)
    return "" if names == 1 else f"a file with {names} names"


def _is_name_of(status: os.stat_result, path: Path) -> bool:
    """Returns whether a path names this file; a copy that still goes on may take it away."""
    try:
        return os.path.samestat(status, path.lstat())
    except FileNotFoundError:
        return False


def link_findings(ledger: Path) -> Iterator[StoreFinding]:
    """Yields that a ledger has more than one name: it can be right, and isn't written."""
    found = why_not_written(ledger, ledger.lstat())
    if found:
        yield StoreFinding("links", None, str(ledger), "a file with one name", found)


@contextmanager
def file_lock(path: Path, *, timeout_seconds: float, what: str) -> Generator[None]:
    """Holds the lock on a side file for as long as the block runs.

    Args:
        path: The side file; created, with its folder, when absent.
        timeout_seconds: How long to wait for another holder; 0 tries once.
        what: What the holder does, in words for those who wait ("append", "run of exp-1").

    Raises:
        BusyError: Another holder kept the lock; `found` names it.
        StoreError: No lock can be taken here.
    """
    fcntl = _fcntl(path)
    fd = _acquire(fcntl, path, time.monotonic() + timeout_seconds, timeout_seconds)
    try:
        _announce(fd, path, what)
        yield
    finally:
        os.close(fd)


def lock_holder(path: Path) -> LockHolder | None:
    """Returns who holds a lock now, or None when nobody does; changes nothing."""
    if os.name == "nt" or not path.exists():
        return None
    fcntl = _fcntl(path)
    try:
        fd = os.open(path, os.O_RDONLY | os.O_NONBLOCK)
    except FileNotFoundError:
        return None
    try:
        fcntl.flock(fd, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return _read_holder(fd)
    else:
        return None
    finally:
        os.close(fd)


def _acquire(fcntl: ModuleType, path: Path, deadline: float, timeout_seconds: float) -> int:
    wait = _WAIT_MIN_SECONDS
    while True:
        fd = _open(path)
        try:
            fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
            if _is_current(fd, path):
                return fd
            os.close(fd)
            continue
        except BlockingIOError:
            left = deadline - time.monotonic()
            holder = _read_holder(fd)
            is_held = left < -_LOOK_SECONDS or (left <= 0 and _is_held(fcntl, fd))
            os.close(fd)
        except OSError as error:
            os.close(fd)
            raise _no_lock(path, error) from error
        if is_held:
            raise _busy(path, holder, timeout_seconds)
        # A random part keeps waiters out of step; flock itself knows no queue.
        pause = wait * random.uniform(0.5, 1.0)
        time.sleep(min(pause, left) if left > 0 else pause)
        wait = min(wait * 1.5, _WAIT_MAX_SECONDS)


def _is_held(fcntl: ModuleType, fd: int) -> bool:
    """Returns whether somebody has the lock, not only looks at it."""
    try:
        fcntl.flock(fd, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    return False


def _open(path: Path) -> int:
    flags = os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW
    try:
        try:
            return os.open(path, flags, 0o666)
        except FileNotFoundError:
            create_folder(path.parent)
            return os.open(path, flags, 0o666)
    except OSError as error:
        raise _no_lock(path, error) from error


def _is_current(fd: int, path: Path) -> bool:
    """Returns whether the locked file still has the name, or was deleted before the lock came."""
    try:
        return os.path.samestat(os.fstat(fd), os.stat(path))
    except FileNotFoundError:
        return False


def _announce(fd: int, path: Path, what: str) -> None:
    holder = LockHolder(
        pid=os.getpid(),
        host=socket.gethostname(),
        since=f"{utc_now()[:19]}Z",
        what=what,
    )
    try:
        if msgspec.structs.replace(_read_holder(fd), since=holder.since) == holder:
            return
        os.ftruncate(fd, 0)
        write_all(fd, msgspec.json.encode(holder))
    except OSError as error:
        raise _no_lock(path, error) from error


def _read_holder(fd: int) -> LockHolder:
    try:
        return msgspec.json.decode(os.pread(fd, 4096, 0), type=LockHolder)
    except (msgspec.MsgspecError, UnicodeError, RecursionError):
        # Anyone may write there, and between taking the lock and writing there is nothing yet.
        return LockHolder(pid=0, host="an unknown host", since="just now", what="another process")


def _busy(path: Path, holder: LockHolder, timeout_seconds: float) -> BusyError:
    return BusyError(
        f"the lock is held by another process, waited {timeout_seconds:g} s",
        where=str(path),
        expected="a free lock",
        found=holder.text(),
        todo="wait until it has ended; the lock ends with its holder",
    )


def _no_lock(path: Path, error: OSError) -> StoreError:
    return StoreError(
        "no lock can be taken here, so nothing is written",
        where=str(path),
        found=str(error),
        todo="use a folder that you may write to, on a file system that has locks",
    )


def _fcntl(path: Path) -> ModuleType:
    try:
        import fcntl
    except ImportError as error:
        raise StoreError(
            "this system has no flock: it reads and replays ledgers, it doesn't write them",
            where=str(path),
        ) from error
    return fcntl
