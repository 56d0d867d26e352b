"""The frontier of the tree at earlier heads, kept beside a ledger: enough to check what grew since.

Leaves checking what grew to `replay_since.py`.

Rules:
- A frontier is never trusted: it is one only if its hashes make the root that the caller brings.
- Anybody may have written it: it says nothing of where entries stand in the store.
- Losing one costs time and nothing else, and so does not being able to write one.
"""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path
from typing import Literal

import msgspec

from .durable import temporary_name
from .merkle import CompactRange
from .regular import read_regular

__all__ = ("FRONTIERS", "load_frontier", "save_frontier")

FRONTIERS = "frontiers"
# 64 hashes in hex have a tenth of it.
_BYTES_MAX = 1 << 16


class _Frontier(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The hashes of a tree of one size, largest subtree first, in hex."""

    v: Literal[1]
    size: int
    hashes: tuple[str, ...]


def save_frontier(folder: Path, tree: CompactRange) -> None:
    """Keeps the frontier of a tree; a failure to write is no failure of the caller's act."""
    path = folder / f"{tree.size}.json"
    hashes = tuple(one.hex() for one in tree.hashes)
    value = _Frontier(v=1, size=tree.size, hashes=hashes)
    temporary = temporary_name(path)
    try:
        folder.mkdir(parents=True, exist_ok=True)
        temporary.write_bytes(msgspec.json.encode(value) + b"\n")
        temporary.replace(path)
    except OSError:
        # A frontier that can't be kept is one that isn't there.
        with suppress(OSError):
            os.unlink(temporary)


def load_frontier(folder: Path, size: int, root: bytes) -> CompactRange | None:
    """Returns the tree of a head, None where no frontier is kept that makes its root.

    Args:
        folder: Where frontiers are kept.
        size: The head's size.
        root: The head's root, as the caller knows it.
    """
    try:
        data = read_regular(folder / f"{size}.json", bytes_max=_BYTES_MAX)
        found = msgspec.json.decode(data, type=_Frontier)
        tree = CompactRange(found.size, [bytes.fromhex(one) for one in found.hashes])
    except (OSError, ValueError, msgspec.MsgspecError):
        return None
    return tree if (tree.size, tree.root()) == (size, root) else None
