"""The files that a protocol names: listed with their digests, compared with those registered.

Leaves reading the protocol to `protocols/file.py` and the refusal's event to `registering.py`.

Rules:
- A digest is over the file's raw bytes: `b3sum` and `sha256sum` show the same.
- Paths are relative to the protocol's folder and don't leave it for another work tree.
- A difference in line endings or a byte order mark alone is told apart in the message, and still a
  difference.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Literal, TypeAlias

import msgspec

from fairtrial.ledger.canonical import blob_of, sha256_hex
from fairtrial.ledger.decoding import decode_json
from fairtrial.ledger.errors import Problem, ProtocolError
from fairtrial.ledger.given import TABLE_BYTES_MAX
from fairtrial.ledger.protocol import Protocol, asked_arms, driver_path
from fairtrial.ledger.regular import is_regular, read_regular
from fairtrial.ledger.sections import RecordedDriver

from .git import git_tree

__all__ = (
    "FileEntry",
    "FileRole",
    "digest_now",
    "list_files",
    "named_files",
    "only_endings_differ",
    "parse_file_list",
    "unlisted",
)

FileRole: TypeAlias = Literal["protocol", "units", "pilot", "outcomes", "driver"]


class FileEntry(msgspec.Struct, frozen=True, kw_only=True):
    """One file as it was: its path from the protocol's folder, what names it, its digests.

    The protocol's own path is from the ledger's folder.
    """

    path: str
    role: FileRole
    field: str
    size: int
    blake3: str
    sha256: str


def named_files(protocol: Protocol) -> Iterator[tuple[str, FileRole, str]]:
    """Yields (path, role, field path) of every file that a protocol names, each path once."""
    yield protocol.units.file, "units", "units.file"
    if protocol.units.pilot is not None:
        yield protocol.units.pilot, "pilot", "units.pilot"
    seen: set[str] = set()
    for name, arm in asked_arms(protocol).items():
        driver = arm.driver
        if driver is None:
            continue
        own = [driver.file] if isinstance(driver, RecordedDriver) else []
        for path in own:
            if path not in seen:
                seen.add(path)
                yield path, "outcomes", f"{driver_path(protocol, name)}.file"
        for path in driver.files:
            if path not in seen:
                seen.add(path)
                yield path, "driver", f"{driver_path(protocol, name)}.files"


def list_files(
    protocol: Protocol, folder: Path, *, file: str, optional: tuple[FileRole, ...] = ()
) -> list[FileEntry]:
    """Returns the named files with their digests.

    Args:
        protocol: What names the files.
        folder: The protocol's folder.
        file: The protocol's name, for messages.
        optional: Roles whose files may be missing still.

    Raises:
        ProtocolError: A file is missing, is no regular file, or lies outside the work tree.
    """
    entries, problems = [], []
    for path, role, field in named_files(protocol):
        found = folder / path
        if not _is_inside(found, folder):
            problems.append(_outside(path, field, found))
            continue
        if not found.is_file():
            if role not in optional or found.exists():
                problems.append(_missing(path, field, found))
            continue
        blob = blob_of(read_regular(found, bytes_max=TABLE_BYTES_MAX))
        entries.append(
            FileEntry(
                path=path,
                role=role,
                field=field,
                size=blob.size,
                blake3=blob.blake3,
                sha256=blob.sha256,
            )
        )
    if problems:
        raise ProtocolError(tuple(problems), file=file)
    return entries


def _is_inside(found: Path, folder: Path) -> bool:
    """Returns whether a file, symbolic links followed, is in the protocol's folder or work tree."""
    real = _real(found)
    if real.is_relative_to(_real(folder)):
        return True
    tree = git_tree(folder)
    return tree is not None and real.is_relative_to(tree)


def _real(path: Path) -> Path:
    # Not `resolve`, which fails at links that lead to themselves.
    return Path(os.path.realpath(path))


def _outside(path: str, field: str, found: Path) -> Problem:
    return Problem(
        what="the file lies outside the protocol's work tree",
        where=field,
        expected="a file in the protocol's git work tree; outside git, in the protocol's folder",
        found=str(_real(found)),
        todo=f"copy {path} beside the protocol, and name the copy",
    )


def _missing(path: str, field: str, found: Path) -> Problem:
    return Problem(
        what="the file isn't there" if not found.exists() else "this is not a regular file",
        where=field,
        expected=f"a file at {path}, relative to the protocol",
        found="nothing" if not found.exists() else "something else",
        todo="put the file there, or correct the path",
    )


def parse_file_list(data: bytes) -> list[FileEntry]:
    """Returns the entries of a file-list blob.

    Raises:
        IntegrityError: The bytes are no list of files.
    """
    return decode_json(data, list[FileEntry], what="the blob is no list of files")


def digest_now(path: Path) -> str | None:
    """Returns the SHA-256 of a registered file as it is now, None where no regular file is.

    What is far larger than anything that can be registered isn't read: its size is the answer.
    """
    if not is_regular(path):
        return None
    try:
        return sha256_hex(read_regular(path, bytes_max=TABLE_BYTES_MAX))
    except OSError as error:
        return f"unreadable: {error.strerror or error}"


def unlisted(
    entries: Sequence[FileEntry], protocol: Protocol, *, optional: FileRole | None = None
) -> list[str]:
    """Returns what a list of files says otherwise than the protocol that it is of.

    Args:
        entries: The list.
        protocol: What names the files.
        optional: A role that may be absent from the list still.
    """
    listed = [(one.path, one.role, one.field) for one in entries if one.role != "protocol"]
    named = list(named_files(protocol))
    own = sum(one.role == "protocol" for one in entries)
    faults = [] if own == 1 else [f"the protocol's own file, {own} times"]
    faults += [f"not in it: {f[2]} {f[0]}" for f in named if f not in listed and f[1] != optional]
    faults += [f"not of the protocol: {f[2]} {f[0]}" for f in listed if f not in named]
    return faults


def only_endings_differ(registered: bytes, found: bytes) -> bool:
    """Returns whether two texts differ only in line endings or a byte order mark."""

    def plain(data: bytes) -> bytes:
        return data.removeprefix(b"\xef\xbb\xbf").replace(b"\r\n", b"\n").replace(b"\r", b"\n")

    return plain(registered) == plain(found)
