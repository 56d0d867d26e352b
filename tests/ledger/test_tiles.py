"""Tiles and bundles: their names as the specification has them, and their bytes from a stream."""

from __future__ import annotations

import tracemalloc
from collections.abc import Iterator

import pytest

from fairtrial.ledger.merkle import leaf_hash, root_of
from fairtrial.ledger.tiles import TILE_WIDTH, bundle_path, tile_path, tiles_of


def entries(count: int) -> Iterator[bytes]:
    """Yields entries that all differ."""
    return (b"entry %d" % number for number in range(count))


@pytest.mark.parametrize(
    ("index", "width", "name"),
    [
        (0, 256, "000"),
        (7, 1, "007.p/1"),
        (999, 256, "999"),
        (1000, 255, "x001/000.p/255"),
        (1234067, 256, "x001/x234/067"),
        (10**9, 256, "x001/x000/x000/000"),
    ],
)
def test_names_are_those_of_the_specification(index: int, width: int, name: str) -> None:
    """Numbers have three digits a part; all parts but the last begin with x."""
    assert f"tile/0/{name}" == tile_path(0, index, width)
    assert f"tile/63/{name}" == tile_path(63, index, width)
    assert f"tile/entries/{name}" == bundle_path(index, width)


@pytest.mark.parametrize(
    ("level", "index", "width"), [(-1, 0, 1), (64, 0, 1), (0, -1, 1), (0, 0, 0), (0, 0, 257)]
)
def test_what_is_no_tile_has_no_name(level: int, index: int, width: int) -> None:
    """Levels end at 63, widths at 256."""
    with pytest.raises(ValueError, match="no "):
        tile_path(level, index, width)


@pytest.mark.slow
def test_seventy_thousand_entries_make_the_tiles_of_the_specification() -> None:
    """273 full tiles and one of 112; above them one full, one of 17, and one of 1."""
    paths = [tile.path for tile in tiles_of(entries(70_000))]
    assert len(paths) == len(set(paths))
    levels = [[path for path in paths if path.startswith(f"tile/{n}/")] for n in range(4)]
    assert [274, 2, 1, 0] == [len(level) for level in levels]
    assert "tile/0/273.p/112" == levels[0][-1]
    assert ["tile/1/000", "tile/1/001.p/17"] == levels[1]
    assert ["tile/2/000.p/1"] == levels[2]
    assert 274 == sum(path.startswith("tile/entries/") for path in paths)


@pytest.mark.parametrize("count", [0, 1, 2, 255, 256, 257, 512, 1000])
def test_tiles_hold_the_tree_and_bundles_the_entries(count: int) -> None:
    """Level 0 holds all leaf hashes, level 1 the roots of its full tiles, bundles every entry."""
    tiles = dict(tiles_of(entries(count)))
    leaves = [leaf_hash(entry) for entry in entries(count)]
    found = b"".join(data for path, data in sorted(tiles.items()) if path.startswith("tile/0/"))
    assert b"".join(leaves) == found
    full = [leaves[n * TILE_WIDTH : (n + 1) * TILE_WIDTH] for n in range(count // TILE_WIDTH)]
    found = b"".join(data for path, data in sorted(tiles.items()) if path.startswith("tile/1/"))
    assert b"".join(root_of(part) for part in full) == found
    bundles = [data for path, data in sorted(tiles.items()) if path.startswith("tile/entries/")]
    assert list(entries(count)) == [entry for data in bundles for entry in unbundled(data)]


def unbundled(data: bytes) -> Iterator[bytes]:
    """Yields the entries of a bundle."""
    while data:
        size = int.from_bytes(data[:2], "big")
        yield data[2 : 2 + size]
        data = data[2 + size :]


def test_longest_entry_fits_and_a_longer_one_is_refused() -> None:
    """A length has 16 bits."""
    (bundle, _) = tiles_of([bytes(65_535)])
    assert b"\xff\xff" == bundle.data[:2]
    with pytest.raises(ValueError, match="65536 bytes"):
        list(tiles_of([bytes(65_536)]))


@pytest.mark.slow
def test_memory_is_flat_in_the_number_of_entries() -> None:
    """Tiles of 100,000 entries are made with no more than a tile a level in memory."""
    tracemalloc.start()
    for _ in tiles_of(entries(100_000)):
        continue
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < 300_000
