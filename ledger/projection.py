"""The cached fold beside a ledger: saves and loads a State with its tree, as a cache only.

Leaves the decision to trust it to `log.py`; `replay` never reads it.

Rules:
- One file, sealed by a keyed hash; anything odd about it means that there is no cache. The key is
  the caller's, kept outside the ledger, so whoever can write beside a ledger can't write a fold.
- It names the ledger, the size, the last leaf, the root and the code that folded: another version
  of the fold never reads it, nor a machine of another byte order.
- It is written to a temporary name and renamed; losing it costs time and nothing else.
"""

from __future__ import annotations

import os
import sys
from array import array
from contextlib import suppress
from functools import cache
from hmac import compare_digest
from pathlib import Path
from typing import Any, Literal

import msgspec
from blake3 import blake3

from .frontier import FRONTIERS, save_frontier
from .merkle import CompactRange
from .regular import open_regular
from .state import State

__all__ = (
    "Projection",
    "encode_projection",
    "load_projection",
    "parse_projection",
    "save_projection",
)


_TYPECODES: tuple[Literal["H"], Literal["I"], Literal["Q"]] = ("H", "I", "Q")


class Projection(msgspec.Struct, kw_only=True):
    """A State, the frontier of the tree at its size and the last leaf."""

    code: str
    leaf: bytes
    root: bytes
    hashes: tuple[bytes, ...]
    segments: tuple[bytes, ...] = ()  # digests of its entries
    offset: int = 0  # where they end in the store, if that is of use
    state: State

    def tree(self) -> CompactRange:
        """Returns the tree at this size."""
        return CompactRange(self.state.size, self.hashes)


def _to_bytes(value: Any) -> Any:
    # Any: msgspec's hook is called with whatever it can't encode.
    if isinstance(value, array):
        return value.typecode.encode() + value.tobytes()
    raise TypeError(f"{type(value).__name__} isn't part of a projection")


def _from_bytes(kind: type, value: Any) -> Any:
    # Any: msgspec's hook returns a value of the declared type.
    if kind is array:
        for typecode in _TYPECODES:
            if typecode.encode() == value[:1]:
                column = array(typecode)
                # Views, as columns are large and each copy is as slow as the reading.
                column.frombytes(memoryview(value)[1:])
                return column
    raise TypeError(f"{kind} isn't part of a projection")


@cache
def _code() -> str:
    """Returns a digest over the modules that make the fold what it is."""
    hasher = blake3(sys.byteorder.encode())
    for path in sorted(Path(__file__).parent.glob("*.py")):
        hasher.update(path.name.encode() + b"\0" + path.read_bytes())
    return hasher.hexdigest()


def encode_projection(
    state: State,
    tree: CompactRange,
    leaf: bytes,
    *,
    key: bytes,
    segments: tuple[bytes, ...] = (),
    offset: int = 0,
) -> bytes:
    """Returns the bytes of a projection behind their checksum."""
    projection = Projection(
        code=_code(), leaf=leaf, root=tree.root(), hashes=tree.hashes, segments=segments,
        offset=offset, state=state,
    )  # fmt: skip
    data = msgspec.msgpack.encode(projection, enc_hook=_to_bytes)
    return blake3(data, key=key).digest() + data


def parse_projection(data: bytes, *, key: bytes) -> Projection | None:
    """Returns the projection in these bytes, None when they are damaged, of other code or key."""
    body = memoryview(data)[32:]
    if len(data) < 32 or not compare_digest(blake3(body, key=key).digest(), data[:32]):
        return None
    try:
        projection = msgspec.msgpack.decode(body, type=Projection, dec_hook=_from_bytes)
    except msgspec.MsgspecError:
        return None
    return projection if projection.code == _code() else None


def save_projection(
    path: Path,
    state: State,
    tree: CompactRange,
    leaf: bytes,
    *,
    key: bytes,
    segments: tuple[bytes, ...] = (),
    offset: int = 0,
) -> None:
    """Writes the cache, and the tree's frontier; a failure to write is no failure of the act.

    Args:
        path: The cache's file.
        state: The fold.
        tree: The tree of the entries that are folded.
        leaf: The leaf of the last of them.
        key: 32 bytes that seal the cache.
        segments: The digests of the segments of these entries.
        offset: Where they end in the store, if that is of use.
    """
    save_frontier(path.with_name(FRONTIERS), tree)
    temporary = path.with_name(f"{path.name}.{os.getpid()}.tmp")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        data = encode_projection(state, tree, leaf, key=key, segments=segments, offset=offset)
        temporary.write_bytes(data)
        temporary.replace(path)
    except (OSError, OverflowError):
        # A cache that can't be written is a cache that isn't there.
        with suppress(OSError):
            temporary.unlink()


def load_projection(path: Path, *, key: bytes) -> Projection | None:
    """Returns the cache, or None when it is missing, damaged, or of other code or key."""
    try:
        with open_regular(path) as file:
            data = file.read()
    except OSError:
        return None
    return parse_projection(data, key=key)
