"""What an event names that came before it: a prefix of the ledger, or one earlier entry.

Leaves it to `log.py` and `replay.py` to know the tree, and to the fold to say which basis or
subject is right: here they only have to exist as they are named.

Rules:
- A basis names a prefix of this ledger, at most the whole of it, by size and root.
- A reference names an earlier entry by seq and leaf.
"""

from __future__ import annotations

from collections.abc import Callable

from .errors import ConflictError
from .events import (
    Amend,
    Anchor,
    Attempt,
    AttemptEnd,
    Close,
    Decision,
    Event,
    Head,
    Invalidate,
    Look,
    Reanalysis,
    Reference,
    Result,
    Settle,
    Sign,
)

__all__ = ("basis_of", "check_pointers", "reference_of")


def basis_of(event: Event) -> Head | None:
    """Returns the earlier head that an event names, if any."""
    if isinstance(event, (Look, Result, Reanalysis, Anchor, Close)):
        return event.basis
    return None


def reference_of(event: Event) -> Reference | None:
    """Returns the earlier entry that an event names, if any."""
    if isinstance(event, Decision):
        return event.source
    return event.subject if isinstance(event, (Amend, Invalidate, Settle, Sign)) else None


def check_pointers(
    event: Event,
    size: int,
    *,
    root_at: Callable[[int], bytes],
    leaf_at: Callable[[int], bytes | None],
) -> None:
    """Checks that what an event names lies in its ledger as it says.

    Args:
        event: The event.
        size: How many entries stand before it.
        root_at: Returns the root of the first entries, for at most `size` of them.
        leaf_at: Returns the leaf of an entry, None when there is no such entry.

    Raises:
        ConflictError: The prefix or the entry is another one, or isn't there.
    """
    if isinstance(event, (Attempt, AttemptEnd)):
        return
    if isinstance(event, Decision) and event.source is None:
        return
    basis, subject = basis_of(event), reference_of(event)
    if basis is not None:
        covered = min(basis.size, size)
        root = root_at(covered).hex()
        if not covered or (covered, root) != (basis.size, basis.root):
            raise ConflictError(
                "the basis isn't a prefix of this ledger",
                where=f"basis of {basis.size} entries",
                expected=f"{covered} entries, root {root}",
                found=f"{basis.size} entries, root {basis.root}",
                todo="compute it again from the present head",
            )
    if subject is not None:
        found = leaf_at(subject.seq)
        if found is None or found.hex() != subject.leaf:
            raise ConflictError(
                "the entry that is meant isn't in this ledger",
                where=f"entry {subject.seq}",
                expected=found.hex() if found else "no such entry",
                found=subject.leaf,
                todo="ledger log shows what stands there",
            )
