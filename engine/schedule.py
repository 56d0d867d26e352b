"""What a run does next, up to the next look. Pure: it is told what happened and says what to do.

Leaves doing it to `executor.py`, what is allowed to the fold.

Rules:
- Slots are started in the order of the plan; retries queue behind slots that weren't tried yet.
- A pair is started only when its whole reservation fits (`budget.py`); while attempts are in flight
  a short ceiling is waited out, since they may cost less than they reserved.
- A failing arm stops all starts; it ends the run only when nothing is in flight, because an answer
  still under way can clear the streak.
- A slot whose attempts are used up is given up when the fold says that it is due.
- The order in which attempts end changes no number: it only decides who starts next.
"""

from __future__ import annotations

from collections import deque
from typing import Literal, NamedTuple, TypeAlias

from fairtrial.ledger.events import Origin
from fairtrial.ledger.state import Experiment, slots_of
from fairtrial.ledger.tries import error_is_due, is_exhausted, is_failing
from fairtrial.protocols.plan import Plan

from .budget import Claims, Pair, claim, release, shortage, use

__all__ = ("Schedule", "Step", "StepKind", "pending_of")

StepKind: TypeAlias = Literal["attempt", "give_up", "wait", "done", "ceiling", "failing"]


class Step(NamedTuple):
    """One thing to do; `why` names the ceiling or the failing arm."""

    kind: StepKind
    position: int = 0
    why: str = ""


_WAIT = Step("wait")
_DONE = Step("done")


def pending_of(known: Experiment, origin: Origin, last: int) -> list[int]:
    """Returns the pending slots up to a position whose arms' outcomes come from there."""
    slots = slots_of(known)
    return [
        position
        for position in slots.pending(1, last)
        if known.arms[slots.arm[position]].origin == origin
    ]


class Schedule:
    """The pending live slots up to a look.

    Args:
        known: The experiment, folded; it changes as events are appended.
        plan: The frozen run order.
        last: The last position before the next look.
    """

    def __init__(self, known: Experiment, plan: Plan, last: int) -> None:
        self._known, self._plan = known, plan
        live = pending_of(known, "live", last)
        self._given_up = [position for position in live if is_exhausted(known, position)]
        exhausted = set(self._given_up)
        self._fresh = deque(position for position in live if position not in exhausted)
        self._retries: deque[int] = deque()
        self._claims = Claims()
        self.in_flight = 0

    def next(self) -> Step:
        """Returns what to do now; an attempt or a giving up counts as in flight from here on."""
        failing = self._failing_arm()
        if failing:
            return _WAIT if self.in_flight else Step("failing", why=failing)
        for position in self._given_up:
            if error_is_due(self._known, position):
                self._given_up.remove(position)
                return self._start("give_up", position)
        short = self._shortage()
        if short is None:
            return self._start("attempt", self._take())
        if self.in_flight:
            return _WAIT
        if short:
            return Step("ceiling", why=short)
        assert not self._given_up, "with nothing else to do every used-up slot is due"
        return _DONE

    def next_beside_outcome(self) -> int:
        """Returns the slot to begin together with an outcome that isn't on record yet; 0: none.

        An outcome ends a streak, settles its slot and frees its reservation. So a slot that wasn't
        tried and has room while all that is reserved comes next after it too, unless something
        waits to be given up.
        """
        if self._given_up or self._failing_arm() or not self._fresh or self._shortage() is not None:
            return 0
        if self._pair(self._fresh[0]) not in self._claims.held:
            return 0
        return self._start("attempt", self._take()).position

    def began(self, position: int) -> None:
        """Is told that an attempt is on record, with its reservation."""
        self._claims = use(self._claims, self._pair(position), self._arm(position))

    def refused(self, position: int) -> None:
        """Is told that an attempt found no room after all; the slot waits in its place."""
        self.in_flight -= 1
        self._claims = release(self._claims, self._pair(position))
        self._fresh.appendleft(position)

    def ended(self, position: int) -> None:
        """Is told that an attempt, or a giving up, is over and on record."""
        self.in_flight -= 1
        if slots_of(self._known).status[position]:
            return
        if is_exhausted(self._known, position):
            self._given_up.append(position)
        else:
            self._retries.append(position)

    def _start(self, kind: StepKind, position: int) -> Step:
        self.in_flight += 1
        return Step(kind, position)

    def _failing_arm(self) -> str:
        arms = zip(self._known.arms, self._known.tallies, strict=True)
        return next((arm.name for arm, tally in arms if is_failing(tally)), "")

    def _shortage(self) -> str | None:
        """Returns why no attempt can start: a ceiling, or "" for none left; None: one can."""
        short = ""
        if self._fresh:
            pair = self._pair(self._fresh[0])
            wanted = [] if pair in self._claims.held else self._arms_of(pair)
            short = shortage(self._known, self._claims, wanted) if wanted else ""
            if not short:
                self._claims = claim(self._claims, pair, wanted) if wanted else self._claims
                return None
        if self._retries:
            retry = shortage(self._known, self._claims, [self._arm(self._retries[0])])
            return (short or retry) if retry else None
        return short

    def _take(self) -> int:
        """Returns the slot that `_shortage` found room for."""
        if self._fresh and self._pair(self._fresh[0]) in self._claims.held:
            return self._fresh.popleft()
        return self._retries.popleft()

    def _pair(self, position: int) -> Pair:
        return self._plan.unit_of[position - 1], self._plan.replicate_of[position - 1]

    def _arm(self, position: int) -> int:
        return slots_of(self._known).arm[position]

    def _arms_of(self, pair: Pair) -> list[int]:
        """Returns the arms of a pair that wait to be tried; the plan keeps a pair together."""
        arms: list[int] = []
        for position in self._fresh:
            if self._pair(position) != pair:
                break
            arms.append(self._arm(position))
        return arms
