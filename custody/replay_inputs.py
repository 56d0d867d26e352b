"""A replay's report as a file, and what is in it of what the replay was given.

Leaves the replay to `inspecting.py` and the text to the command line.

Rules:
- A file is named with its SHA-256, so that whoever files a report can show which file it was.
- A report is written whole, and never over a file that is there.
"""

from __future__ import annotations

import sqlite3
import sys
from collections.abc import Sequence
from hashlib import file_digest
from pathlib import Path
from typing import NamedTuple

from fairtrial.ledger.durable import write_new
from fairtrial.ledger.errors import RefusedError, StoreError
from fairtrial.ledger.given import is_stream
from fairtrial.ledger.log import utc_now
from fairtrial.ledger.regular import is_regular, open_regular

from .trial import tool_name

__all__ = ("ReplayInputs", "check_place", "describe_inputs", "write_report")


class ReplayInputs(NamedTuple):
    """The time and tool of a replay, the ledger's file, and what was brought, as lines of text.

    `given` are pairs of what it is and which.
    """

    time: str
    tool: str
    ledger: str
    ledger_bytes: int
    ledger_sha256: str
    given: tuple[tuple[str, str], ...]


def describe_inputs(
    ledger: Path,
    *,
    texts: Sequence[tuple[str, str]],
    files: Sequence[tuple[str, Path | None]],
) -> ReplayInputs:
    """Returns what a replay is given.

    Args:
        ledger: The ledger's file.
        texts: What was brought as text, or as the name of a file.
        files: What was brought as files; None where it wasn't.

    Raises:
        StoreError: The ledger can't be read.
    """
    given = [(what, _named(Path(text), text)) for what, text in texts]
    given += [(what, _named(path, str(path))) for what, path in files if path is not None]
    python = ".".join(map(str, sys.version_info[:3]))
    return ReplayInputs(
        time=utc_now(),
        tool=f"{tool_name()}, Python {python}, SQLite {sqlite3.sqlite_version}",
        ledger=str(ledger),
        ledger_bytes=_size(ledger),
        ledger_sha256=_sha256(ledger),
        given=tuple(given),
    )


def _size(path: Path) -> int:
    try:
        return path.stat().st_size
    except OSError as error:
        raise StoreError(
            "there is no ledger that can be read",
            where=str(path),
            expected="a file",
            found=error.strerror or str(error),
            todo="correct the path, or give the rights to read it",
        ) from error


def _named(path: Path, text: str) -> str:
    """Returns a text as it is, and a file by name and digest."""
    if is_stream(path):
        return f"{text} (a stream: read once, without a digest)"
    return f"{text} (SHA-256 {_sha256(path)})" if is_regular(path) else text


def _sha256(path: Path) -> str:
    with open_regular(path) as file:
        return file_digest(file, "sha256").hexdigest()


def check_place(path: Path) -> None:
    """Refuses a name for a report that is taken, or in no folder.

    Raises:
        RefusedError: A report can't be written there.
    """
    if path.exists() or path.is_symlink():
        raise RefusedError(
            "the file is there already, and a report is never written over one",
            where=str(path),
            todo="give a name that isn't taken",
        )
    if not path.absolute().parent.is_dir():
        raise RefusedError(
            "there is no such folder",
            where=str(path.absolute().parent),
            expected="a folder for the report",
            todo="make it, or give another place",
        )


def write_report(path: Path, text: str) -> None:
    """Writes a report, whole or not at all.

    Raises:
        RefusedError: The name was taken in the meantime.
    """
    check_place(path)
    try:
        write_new(path.absolute(), text.encode(), mode=0o644)
    except FileExistsError:
        check_place(path)
