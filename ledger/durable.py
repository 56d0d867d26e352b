"""Writes that survive a power cut: sync a file, sync a folder, put a whole file in place.

Leaves it to the callers to say what is written (`jsonl.py`, `blobs.py`, `transfer.py`).

Rules:
- A file is synced before its name is, and the name's folder last.
- A reader sees the old file or the whole new one, never a part.
- A name that must not be taken is given by a link, which never replaces: a write that fails leaves
  neither a part of the file nor its name.
- What `fsync` promises is the system's: on macOS only F_FULLFSYNC reaches the disk itself.
"""

from __future__ import annotations

import errno
import os
import secrets
import sys
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path

__all__ = (
    "create_folder",
    "publish_new",
    "sync_file",
    "sync_folder",
    "temporary_name",
    "unfinished",
    "write_all",
    "write_file",
    "write_new",
    "write_unfinished",
)


def sync_file(fd: int) -> None:
    """Makes what was written to a file durable, its length included."""
    if sys.platform == "darwin":
        import fcntl

        fcntl.fcntl(fd, fcntl.F_FULLFSYNC)
    elif hasattr(os, "fdatasync"):
        os.fdatasync(fd)
    else:
        os.fsync(fd)


def sync_folder(folder: Path) -> None:
    """Makes the names in a folder durable; nothing to do where folders can't be opened."""
    if os.name == "nt":
        return
    fd = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(fd)
    finally:
        os.close(fd)


def create_folder(folder: Path) -> None:
    """Creates a folder and its parents, each durable in the one above."""
    if folder.is_dir():
        return
    create_folder(folder.parent)
    folder.mkdir(exist_ok=True)
    sync_folder(folder.parent)


def write_all(fd: int, data: bytes) -> None:
    """Writes all of the bytes, however many calls that takes."""
    view = memoryview(data)
    while view:
        view = view[os.write(fd, view) :]


def temporary_name(path: Path) -> Path:
    """Returns a fresh name beside `path`, hidden and recognisable as unfinished."""
    return path.with_name(f".{path.name}.{secrets.token_hex(6)}.tmp")


def write_file(path: Path, data: bytes, *, mode: int = 0o600) -> None:
    """Puts a whole file in place, replacing what had the name; durable when it returns."""
    with unfinished(path) as temporary:
        write_unfinished(temporary, data, mode=mode)
        temporary.replace(path)
    sync_folder(path.parent)


def write_new(path: Path, data: bytes, *, mode: int = 0o600) -> None:
    """Puts a whole file in place under a name that isn't taken; durable when it returns.

    Raises:
        FileExistsError: The name is taken; nothing was written.
    """
    if os.path.lexists(path):
        raise _taken(path)
    with unfinished(path) as temporary:
        write_unfinished(temporary, data, mode=mode)
        publish_new(temporary, path)


def publish_new(temporary: Path, path: Path) -> None:
    """Gives a whole, synced file its name, never that of another file; durable when it returns.

    Raises:
        FileExistsError: The name is taken; the unfinished file is left to the caller.
    """
    try:
        os.link(temporary, path)
    except FileExistsError:
        raise _taken(path) from None
    except OSError:
        # A file system without second names: the look and the move are two steps there.
        if os.path.lexists(path):
            raise _taken(path) from None
        temporary.replace(path)
    else:
        temporary.unlink()
    sync_folder(path.parent)


def write_unfinished(path: Path, data: bytes, *, mode: int = 0o600) -> None:
    """Writes and syncs a file under its temporary name; naming or removing it is the caller's."""
    fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | getattr(os, "O_BINARY", 0), mode)
    try:
        write_all(fd, data)
        sync_file(fd)
    finally:
        os.close(fd)


@contextmanager
def unfinished(path: Path) -> Generator[Path]:
    """Yields a temporary name beside a file, and leaves nothing under it when writing fails."""
    temporary = temporary_name(path)
    try:
        yield temporary
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise


def _taken(path: Path) -> FileExistsError:
    return FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST), str(path))
