"""Blobs: bytes beside the ledger, named by their content; references name no place.

Leaves what refers to a blob to the events, and the record of an erased one to `redact`.

Rules:
- A big blob is a file `xx/<blake3>`; small ones of one batch share a pack `packs/<blake3>.pack`:
  one line of JSON with names and sizes, then the bytes one after the other.
- What `put` returns is durable: content synced, then its name, before an entry may refer to it.
- Reading checks size, BLAKE3 and SHA-256; security rests on the SHA-256.
- The same bytes are kept once; bytes that are there and differ from their name are refused.
- Reading creates nothing, waits at no pipe, and takes no memory for a size that isn't there.
- A pack that can't be read is an error for the blobs that are nowhere else, and for a copy of all.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Annotated, Literal, NamedTuple, Protocol

import msgspec

from .canonical import blake3_hex, blob_of, sha256_hex
from .decoding import decode_json
from .durable import create_folder, sync_folder, temporary_name, write_unfinished
from .errors import IntegrityError, StoreError
from .events import Blob
from .regular import open_regular

__all__ = ("PACKED_BYTES_MAX", "BlobStore", "Blobs", "MemoryBlobs")

PACKED_BYTES_MAX = 1 << 16
# The first line of a pack names a batch of blobs, each in less than a hundred bytes.
_INDEX_BYTES_MAX = 1 << 26


class Blobs(Protocol):
    """A place for blobs."""

    def put(self, data: bytes) -> Blob:
        """Keeps bytes and returns their reference; durable when it returns."""
        ...

    def put_many(self, contents: Sequence[bytes]) -> list[Blob]:
        """Keeps several contents at once, in fewer steps; references in the same order."""
        ...

    def get(self, blob: Blob) -> bytes:
        """Returns the bytes of a reference, checked against all of it.

        Raises:
            IntegrityError: The bytes differ from the reference.
            StoreError: The blob is missing.
        """
        ...

    def has(self, blob: Blob) -> bool:
        """Returns whether a blob of this name and size is there; reads no content."""
        ...

    def path_of(self, blob: Blob) -> Path | None:
        """Returns the file that holds a blob, alone or with others; None: no file does."""
        ...

    def missing(self, blobs: Iterable[Blob]) -> list[Blob]:
        """Returns those that are not there."""
        ...

    def contents(self) -> Iterator[bytes]:
        """Yields the content of every blob, checked against its name."""
        ...


class _Packed(NamedTuple):
    """Where a blob stands in a pack."""

    pack: Path
    offset: int
    size: int


_Name = Annotated[str, msgspec.Meta(pattern="^[0-9a-f]{64}$")]
_Size = Annotated[int, msgspec.Meta(ge=0, le=PACKED_BYTES_MAX)]


class _PackIndex(msgspec.Struct, frozen=True, kw_only=True):
    """The first line of a pack."""

    v: Literal[1]
    blobs: list[tuple[_Name, _Size]]


class BlobStore:
    """Blobs in a folder.

    Args:
        folder: The folder; created by the first `put`.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._packed: dict[str, _Packed] = {}
        self._packs: set[str] = set()
        self._damaged: dict[str, StoreError] = {}
        self._guard = threading.RLock()

    def put(self, data: bytes) -> Blob:
        """Keeps bytes in a file of their own; durable when it returns."""
        blob = blob_of(data)
        if not self._holds(blob, data):
            self._write({self._own_path(blob.blake3): data})
        return blob

    def put_many(self, contents: Sequence[bytes]) -> list[Blob]:
        """Keeps several contents: small ones in one pack, big ones in a file each."""
        blobs = [blob_of(data) for data in contents]
        fresh = {
            blob.blake3: data
            for blob, data in zip(blobs, contents, strict=True)
            if not self._holds(blob, data)
        }
        small = {name: data for name, data in fresh.items() if len(data) <= PACKED_BYTES_MAX}
        if len(small) < 2:
            small = {}
        files = {self._own_path(name): data for name, data in fresh.items() if name not in small}
        self._write(files | self._pack_file(small))
        return blobs

    def get(self, blob: Blob) -> bytes:
        """Returns the bytes of a reference, checked against all of it."""
        found = self._find(blob.blake3)
        if found is None:
            raise StoreError(
                "a blob is missing",
                where=str(self._own_path(blob.blake3)),
                expected=f"{blob.size:,} bytes",
                todo="bring the ledger's .d folder along with the ledger",
            )
        if found.size != blob.size:
            # Before memory is taken for it.
            raise _differs("size", found.pack, str(blob.size), str(found.size))
        data = _read(found)
        _check_content(blob, data, found.pack)
        return data

    def has(self, blob: Blob) -> bool:
        """Returns whether a blob of this name and size is there; reads no content."""
        found = self._find(blob.blake3)
        return found is not None and found.size == blob.size

    def path_of(self, blob: Blob) -> Path | None:
        """Returns the file that holds a blob, alone or with others; None: no file does."""
        found = self._find(blob.blake3)
        return None if found is None else found.pack

    def missing(self, blobs: Iterable[Blob]) -> list[Blob]:
        """Returns those that are not there."""
        return [blob for blob in blobs if not self.has(blob)]

    def erase(self, blob: Blob) -> bool:
        """Removes the bytes of a blob, durably; returns whether they were here.

        A pack that holds them is written anew without them first. What the medium itself keeps of
        a removed file is beyond any program.
        """
        own = self._own_path(blob.blake3)
        gone = [own] if own.exists() else []
        for pack in sorted((self._folder / "packs").glob("*.pack")):
            places = _pack_places(pack)
            if places.pop(blob.blake3, None) is not None:
                rest = {name: _read(place) for name, place in places.items()}
                self._write(self._pack_file(rest))
                gone.append(pack)
        for path in gone:
            path.unlink()
            sync_folder(path.parent)
        with self._guard:
            self._packed, self._packs, self._damaged = {}, set(), {}
        return bool(gone)

    def by_sha256(self, *, multiple_of: int) -> dict[str, Blob]:
        """Returns small blobs by their SHA-256, those of one of the given sizes.

        Args:
            multiple_of: Their size is a multiple of this; it spares reading most others.
        """
        found: dict[str, Blob] = {}
        for name, place in self._all_places():
            if place.size % multiple_of == 0 and 0 < place.size <= PACKED_BYTES_MAX:
                try:
                    blob = blob_of(_read(place))
                except StoreError:
                    # What can't be read is missing under its digest.
                    continue
                if blob.blake3 == name:
                    found[blob.sha256] = blob
        return found

    def contents(self) -> Iterator[bytes]:
        """Yields the content of every blob, checked against its name."""
        places = self._all_places()
        self._check_packs()
        for name, place in places:
            data = _read(place)
            if blake3_hex(data) != name:
                raise _differs("BLAKE3", place.pack, name, blake3_hex(data))
            yield data

    def _all_places(self) -> list[tuple[str, _Packed]]:
        self._read_new_packs()
        own = sorted(self._folder.glob("[0-9a-f][0-9a-f]/*")) if self._folder.is_dir() else []
        own = [path for path in own if path.exists() and not path.name.startswith(".")]
        alone = [(path.name, _alone(path)) for path in own]
        return [*alone, *self._packed.items()]

    def _pack_file(self, contents: dict[str, bytes]) -> dict[Path, bytes]:
        """Returns the file that holds these contents together; no file for none."""
        if not contents:
            return {}
        pack = _pack(contents)
        return {self._folder / "packs" / f"{blake3_hex(pack)}.pack": pack}

    def _own_path(self, name: str) -> Path:
        return self._folder / name[:2] / name

    def _find(self, name: str) -> _Packed | None:
        path = self._own_path(name)
        if path.exists():
            return _alone(path)
        if name not in self._packed:
            self._read_new_packs()
        if name not in self._packed:
            # A pack that can't be read may be the one that holds it.
            self._check_packs()
        return self._packed.get(name)

    def _check_packs(self) -> None:
        """Raises what is wrong with a pack, where one can't be read."""
        for error in self._damaged.values():
            raise error

    def _holds(self, blob: Blob, data: bytes) -> bool:
        """Returns whether a blob is kept already, and refuses when it is kept wrongly."""
        found = self._find(blob.blake3)
        if found is not None and _read(found) != data:
            raise _differs("content", found.pack, "the bytes of its name", "other bytes")
        return found is not None

    def _read_new_packs(self) -> None:
        """Takes in the packs that other processes have made since."""
        folder = self._folder / "packs"
        with self._guard:
            if not folder.is_dir():
                return
            for path in folder.iterdir():
                if path.suffix == ".pack" and path.name not in self._packs:
                    self._packs.add(path.name)
                    try:
                        self._packed |= _pack_places(path)
                    except StoreError as error:
                        self._damaged[path.name] = error

    def _write(self, files: dict[Path, bytes]) -> None:
        """Puts whole files in place: all contents synced first, then all names."""
        temporary: dict[Path, Path] = {}
        try:
            for path, data in files.items():
                create_folder(path.parent)
                temporary[path] = temporary_name(path)
                write_unfinished(temporary[path], data)
            for path, unfinished in temporary.items():
                unfinished.replace(path)
        except BaseException as error:
            for unfinished in temporary.values():
                unfinished.unlink(missing_ok=True)
            if isinstance(error, OSError):
                raise StoreError(
                    "a blob can't be written", where=str(self._folder), found=str(error)
                ) from error
            raise
        for folder in {path.parent for path in files}:
            sync_folder(folder)


class MemoryBlobs:
    """Blobs in memory, for tests and for what is never kept."""

    def __init__(self) -> None:
        self._contents: dict[str, bytes] = {}

    def put(self, data: bytes) -> Blob:
        """Keeps bytes and returns their reference."""
        blob = blob_of(data)
        self._contents[blob.blake3] = data
        return blob

    def put_many(self, contents: Sequence[bytes]) -> list[Blob]:
        """Keeps several contents; references in the same order."""
        return [self.put(data) for data in contents]

    def get(self, blob: Blob) -> bytes:
        """Returns the bytes of a reference, checked against all of it."""
        data = self._contents.get(blob.blake3)
        if data is None:
            raise StoreError("a blob is missing", where=blob.blake3)
        _check_content(blob, data, Path(blob.blake3))
        return data

    def has(self, blob: Blob) -> bool:
        """Returns whether a blob of this name and size is there."""
        data = self._contents.get(blob.blake3)
        return data is not None and len(data) == blob.size

    def path_of(self, blob: Blob) -> Path | None:
        """Returns None: no file holds a blob in memory."""
        del blob
        return None

    def missing(self, blobs: Iterable[Blob]) -> list[Blob]:
        """Returns those that are not there."""
        return [blob for blob in blobs if not self.has(blob)]

    def contents(self) -> Iterator[bytes]:
        """Yields the content of every blob."""
        return iter(list(self._contents.values()))


def _pack(contents: dict[str, bytes]) -> bytes:
    index = _PackIndex(v=1, blobs=[(name, len(data)) for name, data in contents.items()])
    return msgspec.json.encode(index) + b"\n" + b"".join(contents.values())


def _pack_places(pack: Path) -> dict[str, _Packed]:
    try:
        with open_regular(pack) as file:
            line = file.readline(_INDEX_BYTES_MAX)
            rest = os.fstat(file.fileno()).st_size - len(line)
    except OSError as error:
        raise StoreError(
            "a pack of blobs can't be read", where=str(pack), found=error.strerror or str(error)
        ) from error
    what = "the first line of a pack of blobs is damaged"
    index = decode_json(line, _PackIndex, what=what, where=str(pack))
    total = sum(size for _, size in index.blobs)
    if total != rest:
        raise IntegrityError(
            "a pack of blobs is shorter or longer than its first line says",
            where=str(pack),
            expected=f"{total:,} bytes after it",
            found=f"{rest:,} bytes",
        )
    places: dict[str, _Packed] = {}
    offset = len(line)
    for name, size in index.blobs:
        places[name] = _Packed(pack, offset, size)
        offset += size
    return places


def _alone(path: Path) -> _Packed:
    return _Packed(path, 0, path.stat().st_size)


def _read(place: _Packed) -> bytes:
    try:
        with open_regular(place.pack) as file:
            file.seek(place.offset, os.SEEK_SET)
            return file.read(place.size)
    except (OSError, MemoryError) as error:
        found = "larger than memory" if isinstance(error, MemoryError) else str(error)
        raise StoreError("a blob can't be read", where=str(place.pack), found=found) from error


def _check_content(blob: Blob, data: bytes, path: Path) -> None:
    for what, expected, found in (
        ("size", str(blob.size), str(len(data))),
        ("BLAKE3", blob.blake3, blake3_hex(data)),
        ("SHA-256", blob.sha256, sha256_hex(data)),
    ):
        if expected != found:
            raise _differs(what, path, expected, found)


def _differs(what: str, path: Path, expected: str, found: str) -> IntegrityError:
    return IntegrityError(
        f"a blob differs from its reference: {what}",
        where=str(path),
        expected=expected,
        found=found,
        todo="restore the file from a copy; ledger replay shows what refers to it",
    )
