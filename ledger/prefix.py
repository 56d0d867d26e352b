"""Whether a ledger still begins with what a cached projection has seen of it.

Leaves the cache itself to `projection.py`, and what is appended since to `log.py`.

Rules:
- Fewer entries, another last leaf or another segment is an IntegrityError: never a reason to fold
  anew in silence.
"""

from __future__ import annotations

from itertools import islice, zip_longest
from pathlib import Path

from .errors import IntegrityError, TornError
from .merkle import leaf_hash
from .port import LogStore
from .projection import Projection
from .segments import SEGMENT_ENTRIES, Segments

__all__ = ("check_prefix",)

_BLOCK_ENTRIES = 4096


def check_prefix(store: LogStore, projection: Projection, *, cache: Path, rehash: bool) -> Segments:
    """Returns the segments of the prefix that was folded before, with which a ledger has to begin.

    Args:
        store: The ledger.
        projection: What was folded.
        cache: The projection's file.
        rehash: Whether all entries of the prefix are hashed again, and not those of the last
            segment alone.

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
            todo=f"ledger replay {store.path}; where an older copy was put back, delete {cache}",
        )
    last = leaf_hash(next(iter(store.read(size - 1, size)), b""))
    if last != projection.leaf:
        raise _changed(size - 1, size - 1, f"leaf {projection.leaf.hex()}", f"leaf {last.hex()}")
    kept = projection.segments
    segments = Segments(() if rehash else kept[: size // SEGMENT_ENTRIES])
    rest = store.read(segments.size, size)
    while block := list(islice(rest, _BLOCK_ENTRIES)):
        segments.add(block)
    for place, (old, new) in enumerate(zip_longest(kept, segments.digests(), fillvalue=b"")):
        if old != new:
            start = place * SEGMENT_ENTRIES
            end = min(start + SEGMENT_ENTRIES, size) - 1
            raise _changed(start, end, f"digest {old.hex()}", f"digest {new.hex()}")
    return segments


def _changed(first: int, last: int, expected: str, found: str) -> IntegrityError:
    return IntegrityError(
        "an entry has changed since this ledger was last read here",
        where=f"entries {first} to {last}",
        expected=expected,
        found=found,
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
