"""A JSON Lines ledger as a file: opened to read or to append, cut back, its torn end set aside.

Leaves entries and locks to `jsonl.py`, and scanning lines to `jsonl_lines.py`.

Rules:
- A symbolic link or a file with a second name is not written to.
"""

from __future__ import annotations

import os
from functools import cached_property
from pathlib import Path
from typing import BinaryIO

from .durable import create_folder, sync_file, write_file
from .errors import StoreError
from .jsonl_lines import End
from .locks import check_one_name
from .merkle import leaf_hash
from .port import Torn

__all__ = (
    "Handles",
    "check_name",
    "cut_back",
    "not_written",
    "opened_to_append",
    "opened_to_read",
    "set_aside",
)


class Handles:
    """The file opened to append, and, where it is asked for, once more to read.

    A buffered reader would lose its place by writes beside it.
    """

    def __init__(self, path: Path, fd: int, size: int) -> None:
        self._path, self.fd, self.size = path, fd, size

    @cached_property
    def file(self) -> BinaryIO:
        """The file opened to read."""
        return opened_to_read(self._path)

    def is_at(self, end: End) -> bool:
        """Returns whether the file ends where it was last seen to end, with the same line."""
        if self.size != end.offset or not end.size:
            return self.size == end.offset
        line = os.pread(self.fd, end.offset - end.line, end.line)
        return line[-1:] == b"\n" and leaf_hash(line[:-1]) == end.leaf

    def close(self) -> None:
        """Closes both."""
        os.close(self.fd)
        if "file" in self.__dict__:
            self.file.close()


def opened_to_read(path: Path, buffer_bytes: int = -1) -> BinaryIO:
    """Returns the file opened to read.

    Raises:
        StoreError: It can't be read.
    """
    try:
        return path.open("rb", buffering=buffer_bytes)
    except OSError as error:
        raise StoreError("the ledger can't be read", where=str(path), found=str(error)) from error


def check_name(path: Path) -> None:
    """Checks that there is a file to write, before a lock is made beside it."""
    try:
        check_one_name(path, path.lstat())
    except OSError as error:
        raise StoreError("the ledger can't be read", where=str(path), found=str(error)) from error


def opened_to_append(path: Path) -> Handles:
    """Returns the file opened to append.

    Raises:
        StoreError: It isn't to be written.
    """
    try:
        fd = os.open(path, os.O_RDWR | os.O_APPEND | os.O_NOFOLLOW)
    except OSError as error:
        raise not_written(path, str(error)) from error
    try:
        status = os.fstat(fd)
        check_one_name(path, status)
    except BaseException:
        os.close(fd)
        raise
    return Handles(path, fd, status.st_size)


def not_written(path: Path, found: str) -> StoreError:
    """Returns the error that a ledger isn't written to, and why."""
    return StoreError(
        "the ledger is not written", where=str(path), found=found, todo="open it for writing"
    )


def cut_back(fd: int, offset: int) -> str:
    """Removes what a failed batch left; returns what to add to the message."""
    try:
        os.ftruncate(fd, offset)
        sync_file(fd)
    except OSError as error:
        return f", and what it left could not be removed ({error})"
    return ", and nothing of it was kept"


def set_aside(file: BinaryIO, torn: Torn, quarantine: Path, name: str) -> None:
    """Copies torn bytes into a file of their own, synced; leaves them where they are."""
    file.seek(torn.offset)
    create_folder(quarantine)
    data = file.read(torn.length)
    write_file(quarantine / f"{name}-{torn.offset}-{torn.sha256[:16]}.torn", data)
