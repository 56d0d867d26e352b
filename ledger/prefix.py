"""Whether a ledger still begins with what a cached projection has seen of it.

Leaves the cache itself to `projection.py`, and what is appended since to `log.py`.

Rules:
- Fewer entries, another last leaf or another root is an IntegrityError: never a reason to fold anew
  in silence.
"""

from __future__ import annotations

from pathlib import Path

from .errors import IntegrityError, TornError
from .merkle import leaf_hash, root_of
from .port import LogStore
from .projection import Projection

__all__ = ("check_prefix",)


def check_prefix(store: LogStore, projection: Projection, *, cache: Path, rehash: bool) -> None:
    """Checks that a ledger begins with the prefix that was folded before.

    Args:
        store: The ledger.
        projection: What was folded.
        cache: The projection's file.
        rehash: Whether all entries of the prefix are hashed again, and not the last one alone.

    Raises:
        IntegrityError: The ledger has lost or changed entries.
        TornError: The last entry is whole, but its line isn't ended.
    """
    size, found = projection.state.size, store.tail().size
    if found < size:
        _check_newline(store, size - found)
        raise IntegrityError(
            "the ledger has lost entries since it was last read here",
            expected=f"at least {size} entries",
            found=f"{found} entries",
            todo=f"ledger replay; where an older copy was put back, delete {cache}",
        )
    last = leaf_hash(next(iter(store.read(size - 1, size)), b""))
    is_same = last == projection.leaf
    if not is_same or (rehash and root_of(store.leaves(0, size)) != projection.root):
        raise IntegrityError(
            "an entry has changed since this ledger was last read here",
            where=f"entries 0 to {size - 1}",
            expected="the root seen then" if is_same else f"leaf {projection.leaf.hex()}",
            found="another root" if is_same else f"leaf {last.hex()}",
            todo="ledger replay names the entry",
        )


def _check_newline(store: LogStore, lost: int) -> None:
    """Tells an entry that lacks no more than its newline from one that is lost."""
    torn = store.torn()
    if lost == 1 and torn is not None and torn.whole:
        raise TornError(
            "the last entry is whole and lacks its newline",
            where=f"byte {torn.offset}",
            expected="a line that ends",
            found=f"{torn.length:,} bytes without an end",
            todo="ledger run adds the newline and puts that on record; nothing is lost",
        )
