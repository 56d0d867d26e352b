"""Digests of a ledger's entries by segments: whether its bytes are those that were folded before.

Leaves roots and proofs to `merkle.py`: a digest of a segment is quick to make again and proves
nothing to anybody else. They stand in the sealed projection and nowhere else.

Rules:
- A segment is a fixed number of entries, each with a newline; the last one may be shorter.
"""

from __future__ import annotations

from collections.abc import Sequence

from blake3 import blake3

__all__ = ("SEGMENT_ENTRIES", "Segments")

SEGMENT_ENTRIES = 16_384


class Segments:
    """The digests of the first `size` entries, as they come.

    Args:
        whole: Digests of whole segments that are taken over.
    """

    def __init__(self, whole: Sequence[bytes] = ()) -> None:
        self.size = len(whole) * SEGMENT_ENTRIES
        self._whole, self._hasher = list(whole), blake3()

    def add(self, entries: Sequence[bytes]) -> None:
        """Adds the next entries."""
        place = 0
        while place < len(entries):
            room = SEGMENT_ENTRIES - self.size % SEGMENT_ENTRIES
            part = entries[place : place + room]
            self._hasher.update(b"\n".join((*part, b"")))
            place, self.size = place + len(part), self.size + len(part)
            if len(part) == room:
                self._whole.append(self._hasher.digest())
                self._hasher.reset()

    def digests(self) -> tuple[bytes, ...]:
        """Returns the digest of each segment, 32 bytes each."""
        rest = (self._hasher.digest(),) if self.size % SEGMENT_ENTRIES else ()
        return (*self._whole, *rest)
