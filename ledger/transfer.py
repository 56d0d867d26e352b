"""Copying a ledger into another store or file: every leaf and the root stay the same.

Leaves which files to name to the command line.

Rules:
- What is copied is the source as it ended when the copy began; each entry's place, chain and id are
  checked on the way, and the root is computed again from what the target holds.
- A file comes into being under a temporary name and gets its own when it is whole; a name that is
  taken is refused, never overwritten.
- Blobs go before the entries that refer to them.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from itertools import islice
from pathlib import Path
from tempfile import mkdtemp

from .blobs import PACKED_BYTES_MAX, Blobs
from .durable import create_folder, sync_folder
from .entry import FIRST_PREV, check_entry, parse_entry
from .errors import IntegrityError, StoreError
from .merkle import CompactRange, root_of
from .opening import blob_store, open_store, side_folder
from .port import LogStore, Tail

__all__ = ("copy_blobs", "copy_entries", "copy_ledger")

_BATCH_ENTRIES = 1000


def copy_entries(source: LogStore, target: LogStore) -> Tail:
    """Copies all entries of a store into an empty one.

    Returns:
        The end of both.

    Raises:
        IntegrityError: An entry of the source contradicts its place, chain or id, or the target
            doesn't give back what it was given.
        StoreError: The target isn't empty.
    """
    end = source.tail()
    tree = CompactRange()
    with target.writer() as writer:
        if writer.tail.size:
            raise StoreError(
                "the target of a copy holds entries already",
                where=str(target.path or "memory"),
                expected="an empty ledger",
                found=f"{writer.tail.size} entries",
                todo="give a path where there is none",
            )
        checked = _checked_entries(source, end)
        while batch := list(islice(checked, _BATCH_ENTRIES)):
            for _, leaf in batch:
                tree.append(leaf)
            writer.write([data for data, _ in batch], [leaf for _, leaf in batch])
    _check_copy(target, end, tree.root())
    return end


def copy_blobs(source: Blobs, target: Blobs) -> int:
    """Copies all blobs, each checked against its name; returns how many."""
    count = 0
    contents = source.contents()
    while batch := list(_batch_of(contents)):
        target.put_many(batch)
        count += len(batch)
    return count


def copy_ledger(source: LogStore, target: Path, *, blobs: Blobs | None = None) -> Tail:
    """Copies a ledger into a new file, whole or not at all.

    Args:
        source: The ledger, whose entries are taken up to its end now.
        target: The new file; its suffix picks the store.
        blobs: The source's blobs, copied along; None: entries only.

    Raises:
        IntegrityError: The source contradicts itself.
        StoreError: The name is taken, or the medium failed.
    """
    if target.exists():
        raise _taken(target)
    create_folder(target.parent)
    had_side = side_folder(target).exists()
    folder = Path(mkdtemp(prefix=f".{target.name}.", suffix=".tmp", dir=target.parent))
    try:
        unfinished = folder / target.name
        end = _copy_into(source, unfinished)
        if blobs is not None:
            copy_blobs(blobs, blob_store(target))
        _give_name(unfinished, target)
    except BaseException:
        if not had_side:
            shutil.rmtree(side_folder(target), ignore_errors=True)
        raise
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    sync_folder(target.parent)
    return end


def _checked_entries(source: LogStore, end: Tail) -> Iterator[tuple[bytes, bytes]]:
    """Yields each entry with its leaf, checked against the one before and, at last, the end."""
    ledger: str | None = None
    prev, size = FIRST_PREV, 0
    for size, data in enumerate(source.read(0, end.size), 1):
        entry = parse_entry(data)
        check_entry(entry, ledger=ledger, seq=size - 1, prev=prev)
        ledger, prev = entry.ledger, entry.leaf()
        yield data, prev
    if Tail(size, prev) != end:
        raise IntegrityError(
            "the source ends elsewhere than it said",
            expected=f"{end.size} entries, last leaf {end.leaf.hex()}",
            found=f"{size} entries, last leaf {prev.hex()}",
            todo="ledger replay",
        )


def _check_copy(target: LogStore, end: Tail, root: bytes) -> None:
    found = root_of(target.leaves())
    if target.tail() != end or found != root:
        raise IntegrityError(
            "the copy doesn't hold what was written to it",
            where=str(target.path or "memory"),
            expected=f"root {root.hex()}",
            found=f"root {found.hex()}",
            todo="see to the disk",
        )


def _batch_of(contents: Iterator[bytes]) -> Iterator[bytes]:
    """Yields contents up to a pack's worth, so that memory stays flat."""
    size = 0
    for data in contents:
        yield data
        size += len(data)
        if size > 64 * PACKED_BYTES_MAX:
            return


def _copy_into(source: LogStore, path: Path) -> Tail:
    target = open_store(path, create=True)
    try:
        return copy_entries(source, target)
    finally:
        target.close()


def _give_name(unfinished: Path, target: Path) -> None:
    """Renames without ever replacing: a link fails where the name is taken, a rename wouldn't."""
    try:
        os.link(unfinished, target)
    except FileExistsError as error:
        raise _taken(target) from error
    except OSError:
        # A file system without hard links.
        if target.exists():
            raise _taken(target) from None
        unfinished.rename(target)
    else:
        unfinished.unlink()


def _taken(target: Path) -> StoreError:
    return StoreError(
        "the target of a copy is there already",
        where=str(target),
        todo="give a path where there is none",
    )
