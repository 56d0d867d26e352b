"""The tree and the entries of a ledger as tlog-tiles: which files there are, and their bytes. Pure.

Leaves reading entries to the stores and writing files to the engine.

Rules:
- A tile holds 256 hashes of one level; the rightmost of a level may hold fewer and says so in its
  name. A hash of level L is the root of a full tile of level L-1.
- An entry bundle holds up to 256 entries, each behind its length in 16 bits.
- Leaves and entries are taken one after the other; no more than one tile a level is held.

Source:
    C2SP tlog-tiles (v0.1.0).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import NamedTuple

from .merkle import leaf_hash, root_of

__all__ = ("TILE_WIDTH", "Tile", "bundle_path", "tile_path", "tiles_of")

TILE_WIDTH = 256
_ENTRY_BYTES_MAX = 65_535


class Tile(NamedTuple):
    """A file of the export: its path below the prefix, and its bytes."""

    path: str
    data: bytes


def tile_path(level: int, index: int, width: int = TILE_WIDTH) -> str:
    """Returns the path of a tile of hashes.

    Args:
        level: 0 for leaf hashes.
        index: The tile's place in its level, from 0.
        width: How many hashes it holds; 256 is a full one.

    Raises:
        ValueError: There is no such tile.
    """
    if not 0 <= level <= 63:
        raise ValueError(f"no level {level}")
    return f"tile/{level}/{_numbered(index, width)}"


def bundle_path(index: int, width: int = TILE_WIDTH) -> str:
    """Returns the path of an entry bundle.

    Raises:
        ValueError: There is no such bundle.
    """
    return f"tile/entries/{_numbered(index, width)}"


def _numbered(index: int, width: int) -> str:
    if index < 0 or not 1 <= width <= TILE_WIDTH:
        raise ValueError(f"no tile {index} of width {width}")
    digits = str(index)
    digits = digits.zfill(-(-len(digits) // 3) * 3)
    parts = [digits[place : place + 3] for place in range(0, len(digits), 3)]
    name = "/".join([*(f"x{part}" for part in parts[:-1]), parts[-1]])
    return name if width == TILE_WIDTH else f"{name}.p/{width}"


class _Level:
    """The tile of one level that is being filled."""

    def __init__(self) -> None:
        self.index = 0
        self.hashes: list[bytes] = []


def tiles_of(entries: Iterable[bytes]) -> Iterator[Tile]:
    """Yields the bundles and tiles of a log, each as soon as it is full; the partial ones last.

    Raises:
        ValueError: An entry is too long for a bundle.
    """
    levels: list[_Level] = []
    bundle: list[bytes] = []
    count = 0
    for entry in entries:
        if len(entry) > _ENTRY_BYTES_MAX:
            raise ValueError(
                f"entry {count} has {len(entry)} bytes, at most {_ENTRY_BYTES_MAX} fit"
            )
        bundle.append(len(entry).to_bytes(2, "big") + entry)
        count += 1
        yield from _put(levels, 0, leaf_hash(entry))
        if len(bundle) == TILE_WIDTH:
            yield Tile(bundle_path(count // TILE_WIDTH - 1), b"".join(bundle))
            bundle = []
    if bundle:
        yield Tile(bundle_path(count // TILE_WIDTH, len(bundle)), b"".join(bundle))
    for number, level in enumerate(levels):
        if level.hashes:
            path = tile_path(number, level.index, len(level.hashes))
            yield Tile(path, b"".join(level.hashes))


def _put(levels: list[_Level], number: int, value: bytes) -> Iterator[Tile]:
    """Adds a hash to a level; yields the tile that it fills, and those above."""
    if number == len(levels):
        levels.append(_Level())
    level = levels[number]
    level.hashes.append(value)
    if len(level.hashes) < TILE_WIDTH:
        return
    full, level.hashes = level.hashes, []
    yield Tile(tile_path(number, level.index), b"".join(full))
    level.index += 1
    yield from _put(levels, number + 1, root_of(full))
