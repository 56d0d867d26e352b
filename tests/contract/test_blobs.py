"""The contract of `Blobs`, held by the folder and by its twin in memory."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from msgspec.structs import replace

from fairtrial.ledger.blobs import PACKED_BYTES_MAX, Blobs, BlobStore, MemoryBlobs
from fairtrial.ledger.canonical import blob_of
from fairtrial.ledger.errors import IntegrityError, StoreError

CONTENTS = (b"", b"a", b"b" * 100, b"\0\n\xff", b"c" * (PACKED_BYTES_MAX + 1), b"d" * 200_000)


@pytest.fixture(params=["folder", "memory"])
def blobs(request: pytest.FixtureRequest, tmp_path: Path) -> Blobs:
    """Each of the two places for blobs."""
    return BlobStore(tmp_path / "blobs") if request.param == "folder" else MemoryBlobs()


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A folder for blobs that does not exist yet."""
    return tmp_path / "deep" / "blobs"


def test_put_returns_what_get_needs(blobs: Blobs) -> None:
    """A reference names size and both digests, and leads back to the bytes."""
    for data in CONTENTS:
        blob = blobs.put(data)
        assert blob_of(data) == blob
        assert (data, True) == (blobs.get(blob), blobs.has(blob))


def test_put_many_keeps_the_order(blobs: Blobs) -> None:
    """References come in the order of the contents, repeated contents included."""
    batch = [*CONTENTS, CONTENTS[1], CONTENTS[4]]
    references = blobs.put_many(batch)
    assert [blob_of(data) for data in batch] == references
    assert batch == [blobs.get(blob) for blob in references]
    assert [] == blobs.put_many([])


def test_put_twice_keeps_once(blobs: Blobs) -> None:
    """The same bytes again, alone or in a batch, add nothing."""
    first = blobs.put_many([b"one", b"two"])
    assert first == [blobs.put(b"one"), blobs.put(b"two")] == blobs.put_many([b"one", b"two"])
    assert [b"one", b"two"] == sorted(blobs.contents())


def test_missing_names_what_is_not_there(blobs: Blobs) -> None:
    """What was never put is missing; reading it says so."""
    here, gone = blobs.put(b"here"), blob_of(b"gone")
    assert [gone] == blobs.missing([here, gone])
    assert (False, None) == (blobs.has(gone), blobs.path_of(gone))
    with pytest.raises(StoreError, match="missing"):
        blobs.get(gone)


@pytest.mark.parametrize(
    ("change", "what"),
    [({"size": 3}, "size"), ({"sha256": "0" * 64}, "SHA-256")],
)
def test_get_checks_the_whole_reference(blobs: Blobs, change: dict[str, int], what: str) -> None:
    """A reference with another size or SHA-256 than the bytes have is refused, and says which."""
    blob = replace(blobs.put(b"bytes"), **change)
    with pytest.raises(IntegrityError, match=what):
        blobs.get(blob)
    assert blobs.has(blob) is ("size" not in change)


def test_contents_yields_all(blobs: Blobs) -> None:
    """Every content comes out once, wherever it is kept."""
    blobs.put_many(CONTENTS[:3])
    for data in CONTENTS[3:]:
        blobs.put(data)
    assert sorted(CONTENTS) == sorted(blobs.contents())


def test_reading_creates_nothing(folder: Path) -> None:
    """Looking for blobs where none were put leaves no folder behind."""
    store = BlobStore(folder)
    blob = blob_of(b"x")
    assert ([blob], [], False) == (store.missing([blob]), list(store.contents()), store.has(blob))
    assert not folder.parent.exists()


def test_one_blob_is_a_file_named_by_b3sum(folder: Path) -> None:
    """A blob alone stands at xx/<blake3>, readable by its owner only, holding just its bytes."""
    blob = BlobStore(folder).put(b"alone")
    path = folder / blob.blake3[:2] / blob.blake3
    assert [path] == [path for path in folder.rglob("*") if path.is_file()]
    assert (b"alone", 0o600) == (path.read_bytes(), path.stat().st_mode & 0o777)
    assert path == BlobStore(folder).path_of(blob)


def test_small_blobs_of_a_batch_share_a_file(folder: Path) -> None:
    """Small contents of one batch are one pack, big ones a file each; any opening finds both."""
    before = BlobStore(folder)
    assert [] == list(before.contents())
    references = BlobStore(folder).put_many(CONTENTS)
    assert 3 == sum(path.is_file() for path in folder.rglob("*"))
    (pack,) = (folder / "packs").iterdir()
    assert 0o600 == pack.stat().st_mode & 0o777
    for store in (before, BlobStore(folder)):
        assert list(CONTENTS) == [store.get(blob) for blob in references]
        assert pack == store.path_of(references[0])


def _damage_last_byte(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:-1] + b"!")


def _cut(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:-1])


@pytest.mark.parametrize("damage", [_damage_last_byte, _cut])
@pytest.mark.parametrize("batch", [[b"first"], [b"second", b"first"]])
def test_damaged_blob_is_refused_by_its_path(
    folder: Path, damage: Callable[[Path], None], batch: list[bytes]
) -> None:
    """Changed bytes on disk are found by reading, by putting again, and by listing contents."""
    blob = BlobStore(folder).put_many(batch)[-1]
    store = BlobStore(folder)
    path = store.path_of(blob)
    assert path is not None
    damage(path)
    with pytest.raises(IntegrityError) as caught:
        store.get(blob)
    assert str(path) == caught.value.where
    with pytest.raises(IntegrityError):
        store.put(b"first")
    with pytest.raises(IntegrityError):
        list(store.contents())


def test_damaged_pack_index_is_refused_by_its_path(folder: Path) -> None:
    """A pack whose first line can't be read is named."""
    blob = BlobStore(folder).put_many([b"one", b"two"])[0]
    (pack,) = (folder / "packs").iterdir()
    pack.write_bytes(b"?" + pack.read_bytes()[1:])
    with pytest.raises(IntegrityError, match="pack") as caught:
        BlobStore(folder).get(blob)
    assert str(pack) == caught.value.where


def test_unfinished_file_is_no_blob(folder: Path) -> None:
    """What a killed writer left under a temporary name is neither found nor in the way."""
    store = BlobStore(folder)
    blob = blob_of(b"data")
    place = folder / blob.blake3[:2]
    place.mkdir(parents=True)
    (place / f".{blob.blake3}.0123.tmp").write_bytes(b"da")
    (folder / "packs").mkdir()
    (folder / "packs" / f".{blob.blake3}.pack.0123.tmp").write_bytes(b"da")
    assert ([], [blob]) == (list(store.contents()), store.missing([blob]))
    assert b"data" == store.get(store.put(b"data"))


def test_full_disk_leaves_no_half_blob(folder: Path) -> None:
    """A blob that finds no room is a StoreError and leaves nothing under any name."""
    program = (
        "import resource, sys\n"
        "from pathlib import Path\n"
        "from fairtrial.ledger.blobs import BlobStore\n"
        "from fairtrial.ledger.errors import StoreError\n"
        "resource.setrlimit(resource.RLIMIT_FSIZE, (1000, 1000))\n"
        "store = BlobStore(Path(sys.argv[1]))\n"
        "for batch in ([b'x' * 5000], [b'y' * 900, b'z' * 901], [b'fits']):\n"
        "    try:\n"
        "        store.put_many(batch)\n"
        "    except StoreError as error:\n"
        "        print(error.what)\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", program, str(folder)], capture_output=True, text=True, check=False
    )
    assert ("", "a blob can't be written\n" * 2) == (done.stderr, done.stdout)
    (file,) = (path for path in folder.rglob("*") if path.is_file())
    assert b"fits" == file.read_bytes()


def test_process_finds_what_another_puts(folder: Path) -> None:
    """A store that is open finds blobs and packs that other processes put later."""
    store = BlobStore(folder)
    program = (
        "import sys\n"
        "from pathlib import Path\n"
        "from fairtrial.ledger.blobs import BlobStore\n"
        "store = BlobStore(Path(sys.argv[1]))\n"
        "store.put_many([b'one', b'two'])\n"
        "store.put(b'three')\n"
    )
    store.put_many([b"own", b"pack"])
    for data in (b"one", b"two", b"three"):
        assert not store.has(blob_of(data))
    subprocess.run([sys.executable, "-c", program, str(folder)], check=True)
    for data in (b"one", b"two", b"three"):
        assert data == store.get(blob_of(data))
