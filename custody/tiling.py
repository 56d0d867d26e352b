"""A ledger as files that any static host can serve: signed head, tiles of hashes, entry bundles.

Leaves the bytes of tiles to `ledger.tiles`, and which notes are signed to `proving.py`.

Rules:
- Only what a signed head covers is exported, and the head is written last: whoever serves the
  folder serves a whole tree at any moment.
- A folder that holds something else than a beginning of this ledger is refused before anything is
  written to it. What is there is compared, never rewritten; what is missing is added.
- Partial tiles of earlier heads stay: whoever has such a head can still check it.

Source:
    C2SP tlog-tiles (v0.1.0).
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from itertools import islice
from pathlib import Path
from typing import NamedTuple

from fairtrial.ledger.checkpoint import Checkpoint, parse_checkpoint
from fairtrial.ledger.durable import create_folder, write_file
from fairtrial.ledger.errors import ConflictError, LedgerError, RefusedError
from fairtrial.ledger.note import parse_note
from fairtrial.ledger.opening import open_store
from fairtrial.ledger.tiles import Tile, tiles_of

from .heads import roots_at
from .own_keys import own_keys, signer_of
from .proving import note_over
from .trial import Reader
from .vouching import NoteFile
from .witnessing import with_lines

__all__ = ("CHECKPOINT", "Tiled", "export_tiles")

CHECKPOINT = "checkpoint"
_MODE = 0o644


class Tiled(NamedTuple):
    """What a folder of tiles holds now: the head's size and root, its note, and how many files.

    `newer` counts the entries that no signed head covers.
    """

    size: int
    root: str
    note: str
    written: int
    files: int
    newer: int


def export_tiles(ledger: Path, target: Path, *, checkpoint: Path | None = None) -> Tiled:
    """Writes a ledger as far as a signed head covers it, or adds what is new since the last time.

    Args:
        ledger: The ledger's file.
        target: The folder to serve.
        checkpoint: The signed head to write; None: the newest beside the ledger.

    Raises:
        RefusedError: No signed head is there.
        ConflictError: The folder holds something else.
    """
    ledger, target = ledger.absolute(), target.absolute()
    with closing(open_store(ledger, read_only=True)) as store:
        reader = Reader(ledger, store)
        note = note_over(reader, 1, checkpoint)
        _check_head(reader, target / CHECKPOINT, note.head)
        missing = _missing(target, _tiles(reader, note.head.size))
        written = _write(target, _tiles(reader, note.head.size), missing)
        written += _write_head(target / CHECKPOINT, note)
        newer = store.tail().size - note.head.size
    return Tiled(
        note.head.size, note.head.root.hex(), note.source, written, len(missing) + 1, newer
    )


def _tiles(reader: Reader, size: int) -> Iterator[Tile]:
    return tiles_of(islice(reader.store.read(), size))


def _check_head(reader: Reader, path: Path, head: Checkpoint) -> None:
    """Refuses a folder whose head isn't one that this head grew from."""
    if not path.exists():
        return
    try:
        note = parse_note(path.read_bytes())
        old = parse_checkpoint(note.text)
        signer_of(note, own_keys(reader))
    except RefusedError as error:
        raise _conflict(path, "a head of this ledger, signed by its key", error.what) from error
    if old.size > head.size:
        todo = "ledger checkpoint --key NAME signs the present head"
        raise _conflict(path, f"at most {head.size} entries", f"{old.size} entries", todo)
    root = roots_at(reader.store, {old.size}).get(old.size)
    if (old.origin, old.root) != (head.origin, root):
        todo = f"ledger replay --checkpoint {path}"
        expected = f"{head.origin}, {old.size} entries, root {root.hex() if root else 'none'}"
        raise _conflict(path, expected, f"{old.origin}, root {old.root.hex()}", todo)


def _missing(target: Path, tiles: Iterator[Tile]) -> dict[str, bool]:
    """Returns for each tile whether it has to be written.

    Raises:
        ConflictError: One is there with other bytes.
    """
    missing: dict[str, bool] = {}
    for tile in tiles:
        path = target / tile.path
        missing[tile.path] = not path.exists()
        if not missing[tile.path] and path.read_bytes() != tile.data:
            raise _conflict(path, "the bytes of this ledger", "other bytes")
    return missing


def _write(target: Path, tiles: Iterator[Tile], missing: dict[str, bool]) -> int:
    if not any(missing.values()):
        return 0
    for tile in tiles:
        if missing[tile.path]:
            path = target / tile.path
            create_folder(path.parent)
            write_file(path, tile.data, mode=_MODE)
    return sum(missing.values())


def _write_head(path: Path, note: NoteFile) -> int:
    """Puts the head in place, with the lines that others added to the one that is there."""
    before = path.read_bytes() if path.exists() else b""
    parsed, data = parse_note(note.data), note.data
    if before and parse_note(before).text == parsed.text:
        if set(parsed.lines) <= set(parse_note(before).lines):
            return 0
        data = with_lines(before, parsed.lines)
    create_folder(path.parent)
    write_file(path, data, mode=_MODE)
    return 1


def _conflict(path: Path, expected: str, found: str, todo: str = "") -> LedgerError:
    return ConflictError(
        "the folder holds something else than a beginning of this ledger: nothing is written",
        where=str(path),
        expected=expected,
        found=found,
        todo=todo or "give an empty folder, or the one of the last export",
    )
