"""Which slots may start now: queue order, whole pairs, ceilings. Pure but for its own books.

Leaves the doing to `executor.py`; the fold checks every start again.

Rules:
- Slots start in plan order; a slot that is tried again queues behind all others.
- Room is held for every unsettled arm of a unit and replicate before the first of them starts, so a
  ceiling leaves whole pairs.
- Without room nothing starts; when nothing is in flight either, the ceiling is reached.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable
from enum import Enum

from fairtrial.ledger.run_rules import room_for
from fairtrial.ledger.state import Experiment

from .plan import Plan

__all__ = ("Admission", "Refusal")


class Refusal(Enum):
    """Why no slot starts now."""

    EMPTY = "nothing is queued"
    NO_ROOM = "a ceiling leaves no room"


class Admission:
    """The queue of one stretch up to a look.

    Args:
        known: The experiment as folded.
        plan: Its run order.
        positions: The slots to do, in plan order.
    """

    def __init__(self, known: Experiment, plan: Plan, positions: Iterable[int]) -> None:
        self._known, self._plan = known, plan
        self._queue = deque(positions)
        self._retries: deque[int] = deque()
        self._members: dict[tuple[int, int], list[int]] = {}
        for position in self._queue:
            self._members.setdefault(self._pair(position), []).append(position)
        self._admitted: set[tuple[int, int]] = set()
        self._promised: dict[int, int] = {}

    def _pair(self, position: int) -> tuple[int, int]:
        return self._plan.unit_of[position - 1], self._plan.replicate_of[position - 1]

    def __len__(self) -> int:
        return len(self._queue) + len(self._retries)

    def retry(self, position: int) -> None:
        """Queues a slot behind all others."""
        self._retries.append(position)

    def take(self) -> int | Refusal:
        """Takes the next slot that may start and holds room for it."""
        if self._queue:
            if not self._admit(self._queue[0]):
                return Refusal.NO_ROOM
            return self._queue.popleft()
        if not self._retries:
            return Refusal.EMPTY
        arm = self._arm(self._retries[0])
        if room_for(self._known, [*self._promised.values(), arm]):
            return Refusal.NO_ROOM
        position = self._retries.popleft()
        self._promised[position] = arm
        return position

    def begun(self, position: int) -> None:
        """Gives up the room held for a slot: its attempt is on record, or won't be."""
        self._promised.pop(position, None)

    def _arm(self, position: int) -> int:
        assert self._known.slots is not None, "a run needs a freeze"
        return self._known.slots.arm[position]

    def _admit(self, position: int) -> bool:
        pair = self._pair(position)
        if pair in self._admitted:
            return True
        wanted = {member: self._arm(member) for member in self._members[pair]}
        if room_for(self._known, [*self._promised.values(), *wanted.values()]):
            return False
        self._admitted.add(pair)
        self._promised.update(wanted)
        return True
