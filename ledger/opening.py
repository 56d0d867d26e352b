"""Opening a ledger by its path: which store it is, and what stands there instead.

Leaves reading and writing to the stores.

Rules:
- The suffix `.jsonl` picks the JSON Lines store, any other the SQLite store.
- Only `create` creates anything; a missing ledger is an error that says where it was looked for.
"""

from __future__ import annotations

from difflib import get_close_matches
from pathlib import Path

from .blobs import BlobStore
from .errors import NewerError, StoreError
from .jsonl import JsonlStore
from .locks import side_folder
from .port import LogStore
from .sqlite import SqliteStore

__all__ = ("blob_store", "is_jsonl", "nearest_ledger", "open_store", "side_folder")

_FIRST_BYTES = b'{"v":1,"ledger":"'


def open_store(path: Path, *, create: bool = False, read_only: bool = False) -> LogStore:
    """Opens the ledger at a path.

    Args:
        path: The ledger file.
        create: Make an empty ledger where there is none.
        read_only: Refuse every writing method of the store.

    Raises:
        StoreError: There is no ledger, or what is there is none.
        NewerError: The ledger's format is newer than this tool knows.
    """
    _check_path(path, create=create)
    if is_jsonl(path):
        if create and not path.exists():
            return JsonlStore.create(path)
        _check_lines(path)
        return JsonlStore(path, read_only=read_only)
    if create and (not path.exists() or path.stat().st_size == 0):
        return SqliteStore.create(path)
    return SqliteStore(path, read_only=read_only)


def blob_store(ledger: Path) -> BlobStore:
    """Returns the blobs beside a ledger; creates nothing until something is put."""
    return BlobStore(side_folder(ledger) / "blobs")


def is_jsonl(path: Path) -> bool:
    """Returns whether a path picks the JSON Lines store."""
    return path.suffix == ".jsonl"


def nearest_ledger(path: Path) -> str:
    """Returns a question for a ledger of nearly this name; "" where there is none."""
    folder = path.parent
    names = [one.name for one in folder.glob("*") if one.suffix in (".db", ".jsonl")]
    near = get_close_matches(path.name, names, n=1)
    return f"did you mean {folder / near[0]}?" if near else ""


def _which(path: Path) -> str:
    """Returns what to do about a ledger that isn't there."""
    return nearest_ledger(path) or (
        "give another path (argument, --ledger or FAIRTRIAL_LEDGER); ledger register begins one"
    )


def _check_path(path: Path, *, create: bool) -> None:
    if path.is_dir():
        raise StoreError(
            "the ledger is a file and this is a folder",
            where=str(path.absolute()),
            todo=f"give the file in it, such as {path / 'ledger.db'}",
        )
    if path.exists() and not path.is_file():
        # Opening a pipe would wait for its other end for ever.
        raise StoreError(
            "the ledger is a file and this is none",
            where=str(path.absolute()),
            expected="a regular file",
            found="a pipe, a device or a socket",
            todo="give the path of a ledger",
        )
    if create and path.is_symlink() and not path.exists():
        # Nothing is written through a link, so nothing is begun at the end of one either.
        raise StoreError(
            "the ledger's path is a link that leads nowhere",
            where=str(path.absolute()),
            expected="a regular file, or nothing",
            todo="give the path that it should lead to",
        )
    if not create and not path.exists():
        raise StoreError(
            "there is no ledger",
            where=str(path.absolute()),
            expected="a file",
            todo=_which(path),
        )


def _check_lines(path: Path) -> None:
    """Refuses a file that doesn't begin as a ledger does, torn or damaged ones excepted."""
    try:
        with path.open("rb") as file:
            head = file.read(64)
    except OSError as error:
        raise StoreError("the ledger can't be read", where=str(path), found=str(error)) from error
    if head.startswith(b'{"v":') and not head.startswith(_FIRST_BYTES[:7][: len(head)]):
        raise NewerError(
            "the ledger has a newer format than this tool knows",
            where=str(path),
            expected="format 1",
            found=repr(head[:20]),
            todo="use a newer version of fairtrial",
        )
    is_begun = _FIRST_BYTES.startswith(head[: len(_FIRST_BYTES)]) or not head.strip(b"\0")
    if not (is_begun or b'"ledger":"' in head):
        raise StoreError(
            "the file is not a ledger",
            where=str(path),
            expected=f"lines that begin with {_FIRST_BYTES.decode()}",
            found=repr(head[:32]),
            todo="give the path of a ledger",
        )
