"""Writes that survive a power cut: sync a file, sync a folder, put a whole file in place.

Leaves it to the callers to say what is written (`jsonl.py`, `blobs.py`, `transfer.py`).

Rules:
- A file is synced before its name is, and the name's folder last.
- A reader sees the old file or the whole new one, never a part.
- What `fsync` promises is the system's: on macOS only F_FULLFSYNC reaches the disk itself.
"""

from __future__ import annotations

import os
import secrets
import sys
from pathlib import Path

__all__ = (
    "create_folder",
    "sync_file",
    "sync_folder",
    "temporary_name",
    "write_all",
    "write_file",
    "write_new",
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
    temporary = temporary_name(path)
    try:
        write_new(temporary, data, mode=mode)
        temporary.replace(path)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise
    sync_folder(path.parent)


def write_new(path: Path, data: bytes, *, mode: int = 0o600) -> None:
    """Writes and syncs a file that must not exist yet; leaves its name to be synced."""
    fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | getattr(os, "O_BINARY", 0), mode)
    try:
        write_all(fd, data)
        sync_file(fd)
    finally:
        os.close(fd)
