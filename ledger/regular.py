"""Reads of regular files: never waits at a pipe, never takes in more than a limit.

Leaves to the callers what the bytes mean and what a failure means to them.

Rules:
- What is opened is what is checked: a name can change between a look and the opening.
- A pipe, a device, a socket or a folder is refused at once; opening waits for nobody.
- A size is checked before memory is taken for it.
"""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Generator
from contextlib import contextmanager
from io import BufferedReader
from pathlib import Path

__all__ = ("is_regular", "open_regular", "read_regular")

_FLAGS = os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_BINARY", 0)


@contextmanager
def open_regular(path: Path) -> Generator[BufferedReader]:
    """Opens a regular file for reading.

    Raises:
        OSError: It can't be opened, or is no regular file.
    """
    try:
        fd = os.open(path, _FLAGS)
    except ValueError as error:
        # A name with a zero byte names no file.
        raise OSError(errno.ENOENT, str(error), str(path)) from error
    if not stat.S_ISREG(os.fstat(fd).st_mode):
        os.close(fd)
        raise OSError(errno.EINVAL, "not a regular file", str(path))
    with os.fdopen(fd, "rb") as file:
        yield file


def read_regular(path: Path, *, bytes_max: int) -> bytes:
    """Returns the whole content of a regular file of at most so many bytes.

    Raises:
        OSError: It can't be read, is no regular file, or is larger.
    """
    with open_regular(path) as file:
        size = os.fstat(file.fileno()).st_size
        if size <= bytes_max:
            # As much as is there: a read of the limit would first take that much memory.
            data = file.read(size + 1)
            if len(data) > size:
                data += file.read(bytes_max + 1 - len(data))
            if len(data) <= bytes_max:
                return data
    raise OSError(errno.EFBIG, f"larger than {bytes_max:,} bytes", str(path))


def is_regular(path: Path) -> bool:
    """Returns whether a path names a regular file; False for what can't be one."""
    try:
        return stat.S_ISREG(path.stat().st_mode)
    except (OSError, ValueError):
        return False
