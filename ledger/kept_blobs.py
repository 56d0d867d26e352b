"""Which blobs the record needs to be checked: they are never erased, before or after.

Leaves which events need them to the rule modules, and the removal of bytes to `blobs.py`.

Rules:
- What a register, freeze, amend, look or anchor names is kept: rules, numbers and registered files
  are checked by it, and without it a false record would pass for one that can't be checked.
- What was erased isn't named by one of these again, nor as the long form of a result.
"""

from __future__ import annotations

from collections.abc import Sequence

from .events import Blob
from .state import State, require

__all__ = ("check_unerased", "keep_blobs")


def check_unerased(state: State, *blobs: Blob | None) -> None:
    """Raises a TransitionError when one of these blobs was erased before."""
    for sha256 in _named(blobs):
        require(
            sha256 not in state.erased,
            "a blob that this names was erased on record",
            where=f"SHA-256 {sha256}, erased by entry {state.erased.get(sha256)}",
            todo="what is registered must be there for whoever checks it: change the file, or open"
            " another ledger",
        )


def keep_blobs(state: State, *blobs: Blob | None) -> None:
    """Keeps blobs from being erased from now on."""
    state.kept.update(_named(blobs))


def _named(blobs: Sequence[Blob | None]) -> list[str]:
    return [blob.sha256 for blob in blobs if blob is not None]
