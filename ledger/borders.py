"""Where entries end in the JSON Lines form of a ledger, whichever store holds it.

Leaves it to `walk.py` to find a wrong place in a ledger, and to whoever writes to keep it out.

Rules:
- An entry's line is its bytes and one LF, so the ends follow from the lengths; a copy in another
  store has the same ones.
- Nothing is kept but the places that are looked for.
"""

from __future__ import annotations

from collections.abc import Iterable
from itertools import accumulate

__all__ = ("not_borders",)


def not_borders(entries: Iterable[bytes], offsets: Iterable[int]) -> set[int]:
    """Returns those of some places at which no entry ends; none ends before the first at 0.

    Args:
        entries: The entries from the first; read as far as the places lie.
        offsets: Places in bytes.
    """
    left = set(offsets) - {0}
    last = max(left, default=0)
    if not left:
        return left
    for end in accumulate(len(data) + 1 for data in entries):
        left.discard(end)
        if end >= last or not left:
            break
    return left
