"""The state of every slot of one experiment as compact columns, under 40 bytes a slot.

Leaves the rules to `run_rules.py`; this module only keeps and counts.

Rules:
- Column index = position in the frozen plan, counted from 1; index 0 is unused.
- A column never grows after the freeze, so memory depends on the plan and not on the log's length.
"""

from __future__ import annotations

from array import array
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, TypeAlias, get_args

import msgspec

from .events import AttemptStatus, Status

__all__ = ("ENDINGS", "LOST_MAX", "STATUSES", "Slots", "new_slots")

if TYPE_CHECKING:
    IntArray: TypeAlias = array[int]
else:
    # At run time array takes no parameter before Python 3.12.
    IntArray = array

STATUSES: tuple[str, ...] = get_args(Status)
ENDINGS: tuple[str, ...] = get_args(AttemptStatus)
LOST_MAX = 3


class Slots(msgspec.Struct, kw_only=True):
    """Columns over positions; `status` and `ended` hold index + 1 of STATUSES and ENDINGS.

    Attributes:
        arm: Index of the slot's arm in the freeze.
        status: How the slot was settled; 0 while pending.
        attempts: Attempts begun.
        counted: Ended attempts that count against `attempts.max`.
        lost: Attempts that were lost or interrupted.
        excused: How often a failing streak was excused.
        no_retry: Whether the newest ended attempt said that another one is of no use.
        ended: How the newest ended attempt ended; 0 for none and for one that is excused.
        is_open: Whether the newest attempt is open.
        is_first: Whether the newest attempt was the slot's first of its session.
        session: The session of the newest attempt.
        end_seq: The seq of the newest attempt_end.
        decision_seq: The seq of the decision.
    """

    arm: bytearray
    status: bytearray
    attempts: IntArray
    counted: bytearray
    lost: bytearray
    excused: bytearray
    no_retry: bytearray
    ended: bytearray
    is_open: bytearray
    is_first: bytearray
    session: IntArray
    end_seq: IntArray
    decision_seq: IntArray

    def __len__(self) -> int:
        return len(self.status) - 1

    def pending(self, start: int, stop: int) -> Iterator[int]:
        """Yields the unsettled positions from `start` to `stop`, both included."""
        position = self.status.find(0, start, stop + 1)
        while position != -1:
            yield position
            position = self.status.find(0, position + 1, stop + 1)

    def settled(self, start: int, stop: int) -> int:
        """Returns how many positions from `start` to `stop`, both included, are settled."""
        return stop - start + 1 - self.status.count(0, start, stop + 1)

    def status_counts(self, arm: int) -> dict[str, int]:
        """Returns how many slots of an arm have each status, `pending` among them."""
        # Columns as numbers: what other arms own is masked out without a loop over slots.
        mask = bytes(0xFF if owner == arm else 0 for owner in range(256))
        owned = int.from_bytes(self.arm[1:].translate(mask), "big")
        statuses = (int.from_bytes(self.status[1:], "big") & owned).to_bytes(len(self), "big")
        counts = [statuses.count(status) for status in range(1, len(STATUSES) + 1)]
        pending = self.arm.count(arm, 1) - sum(counts)
        words = ("pending", *STATUSES)
        return {word: n for word, n in zip(words, (pending, *counts), strict=True) if n}

    def highest_touched(self) -> int:
        """Returns the highest position that was ever attempted or settled, 0 for none."""
        for position in range(len(self), 0, -1):
            if self.status[position] or self.attempts[position]:
                return position
        return 0


def new_slots(arms: Sequence[int]) -> Slots:
    """Returns fresh columns for a plan whose slot i+1 belongs to arm index `arms[i]`.

    An index fits into a byte, since the entry of a freeze has no room for 256 arms.
    """
    size = len(arms) + 1
    return Slots(
        arm=bytearray(b"\x00" + bytes(arms)),
        status=bytearray(size),
        attempts=array("H", [0]) * size,
        counted=bytearray(size),
        lost=bytearray(size),
        excused=bytearray(size),
        no_retry=bytearray(size),
        ended=bytearray(size),
        is_open=bytearray(size),
        is_first=bytearray(size),
        session=array("I", [0]) * size,
        end_seq=array("Q", [0]) * size,
        decision_seq=array("Q", [0]) * size,
    )
