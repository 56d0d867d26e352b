"""Reads what a caller names: a file, or a stream that the shell handed over.

Leaves opening regular files to `ledger.regular`, and what the bytes mean to who asked for them.

Rules:
- A named pipe, a device, a socket or a folder is refused at once: nobody may ever write to it. The
  shell's own streams (`-`, /dev/stdin, /dev/fd/N) are read, since whoever typed them feeds them.
- What is larger than any file of its kind is refused before it is held in memory.
- Text is UTF-8; a refusal says where it isn't.
"""

from __future__ import annotations

import errno
import os
import re
import sys
from pathlib import Path

from .errors import RefusedError
from .regular import read_regular

__all__ = (
    "GIVEN_BYTES_MAX",
    "TABLE_BYTES_MAX",
    "given_path",
    "is_stream",
    "read_given",
    "read_optional",
    "read_text",
)

# Signed heads, policies, proofs, certificates, reports of power.
GIVEN_BYTES_MAX = 1 << 26
# Tables, units, protocols: what an evaluation is made of.
TABLE_BYTES_MAX = 1 << 31
_STREAM = re.compile(r"-|/dev/stdin|(?:/dev|/proc/self)/fd/[0-9]{1,6}", re.ASCII)
_NAME_BYTES_MAX = 4096


def is_stream(path: Path) -> bool:
    """Returns whether a path is one of the shell's own streams."""
    return _STREAM.fullmatch(str(path)) is not None


def given_path(text: str) -> Path | None:
    """Returns the path that a text names, None where there is nothing of that name."""
    path = Path(text)
    if is_stream(path):
        return path
    try:
        is_there = len(os.fsencode(text)) < _NAME_BYTES_MAX and os.path.lexists(path)
    except ValueError:
        # A zero byte, or a character that no name can have.
        return None
    return path if text and is_there else None


def read_given(
    path: Path, *, what: str = "the file", todo: str = "", bytes_max: int = GIVEN_BYTES_MAX
) -> bytes:
    """Returns the content of a file or stream that the caller named.

    Args:
        path: The file, or a stream of the shell.
        what: What it is, for a refusal.
        todo: What to do about one that can't be read.
        bytes_max: The largest content that is taken.

    Raises:
        RefusedError: It can't be read, is neither a regular file nor a stream, or is too large.
    """
    try:
        if is_stream(path):
            return _read_stream(path, bytes_max)
        return read_regular(path, bytes_max=bytes_max)
    except OSError as error:
        raise RefusedError(
            f"{what} can't be read",
            where=str(path),
            expected=_expected(error, bytes_max),
            found=error.strerror or str(error),
            todo=todo or "correct the path",
        ) from error


def _expected(error: OSError, bytes_max: int) -> str:
    absent = isinstance(error, FileNotFoundError)
    return "a file" if absent else f"a regular file of at most {bytes_max:,} bytes"


def read_optional(path: Path | None, *, what: str) -> bytes | None:
    """Returns the content of a file or stream, None where none was named."""
    return None if path is None else read_given(path, what=what)


def read_text(path: Path, *, what: str = "the file") -> str:
    """Returns the text of a file or stream that the caller named.

    Raises:
        RefusedError: It can't be read, or isn't UTF-8.
    """
    data = read_given(path, what=what)
    try:
        return data.decode()
    except UnicodeDecodeError as error:
        raise RefusedError(
            f"{what} isn't text",
            where=f"{path}, byte {error.start:,}",
            expected="UTF-8",
            found=f"0x{data[error.start]:02x}",
            todo="give the file that was meant",
        ) from error


def _read_stream(path: Path, bytes_max: int) -> bytes:
    if str(path) == "-":
        data = sys.stdin.buffer.read(bytes_max + 1)
    else:
        with path.open("rb") as file:
            data = file.read(bytes_max + 1)
    if len(data) > bytes_max:
        raise OSError(errno.EFBIG, f"larger than {bytes_max:,} bytes", str(path))
    return data
