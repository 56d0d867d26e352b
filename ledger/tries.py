"""How often a slot may be tried, and when it is given up: attempts, losses, failing streaks.

Part of the fold. Leaves what an event may be to `run_rules.py`; this module counts and answers.

Rules:
- Attempts that ended in error or timeout count against `attempts.max`; one that said `retry: false`
  uses the tries up. Lost and interrupted ones don't count, but three of them (one, if the arm isn't
  repeatable) use the slot up: else a kill is a free redraw.
- Errors in a row in one arm, each the first try of another slot in this session, are a streak. An
  outcome or a timeout clears it; lost and interrupted attempts do neither.
- Five are a failing streak: nothing of the arm starts or is given up. The next start excuses the
  last attempt of each of its slots, three times a slot.
- An exhausted slot is given up once a later attempt of its arm ended otherwise than in error, or
  nothing else of the arm is left before the look.
"""

from __future__ import annotations

from .events import Attempt, AttemptEnd
from .slots import ENDINGS, LOST_MAX
from .state import STREAK_MAX, ArmTally, Experiment, next_look_last, slots_of

__all__ = (
    "ATTEMPTS_MAX",
    "EXCUSES_MAX",
    "Unpriced",
    "begin_attempt",
    "clear_streaks",
    "close_attempt",
    "count_ending",
    "count_outcome",
    "ended_in",
    "error_is_due",
    "is_exhausted",
    "is_failing",
    "is_lost_up",
)

ATTEMPTS_MAX = 20
EXCUSES_MAX = 3
_TIMEOUT = ENDINGS.index("timeout") + 1


def is_failing(tally: ArmTally) -> bool:
    """Returns whether an arm has a failing streak."""
    return len(tally.streak) >= STREAK_MAX


def is_lost_up(known: Experiment, position: int) -> bool:
    """Returns whether so many attempts of a slot were lost that it isn't tried again."""
    slots = slots_of(known)
    repeatable = known.arms[slots.arm[position]].repeatable
    return slots.lost[position] >= (LOST_MAX if repeatable else 1)


def is_exhausted(known: Experiment, position: int) -> bool:
    """Returns whether no further attempt of a pending slot is allowed."""
    slots, rules = slots_of(known), known.rules
    assert rules is not None
    counted, ended = slots.counted[position], slots.ended[position]
    if 0 < ended <= _TIMEOUT and ENDINGS[ended - 1] not in rules.retry_on:
        return True
    used_up = counted >= rules.attempts_max or bool(slots.no_retry[position])
    return used_up or is_lost_up(known, position)


def ended_in(known: Experiment, position: int) -> str:
    """Returns how the newest ended attempt of a slot ended; "" for none, or one that is excused."""
    ended = slots_of(known).ended[position]
    return ENDINGS[ended - 1] if ended else ""


def error_is_due(known: Experiment, position: int) -> bool:
    """Returns whether a slot that can't be tried again may be given up now."""
    slots = slots_of(known)
    arm = slots.arm[position]
    tally = known.tallies[arm]
    if not is_exhausted(known, position):
        return False
    if is_lost_up(known, position) or slots.ended[position] == _TIMEOUT:
        return True
    if is_failing(tally):
        return False
    if tally.good_seq > slots.end_seq[position]:
        return True
    return not any(
        slots.arm[other] == arm and not is_exhausted(known, other)
        for other in slots.pending(1, next_look_last(known))
    )


class Unpriced(int):
    """What an attempt that reported no price is charged: its reservation.

    A kind of number, so that whoever sums charges needs no word of it and who counts them has it.
    """

    __slots__ = ()


def begin_attempt(known: Experiment, event: Attempt) -> None:
    """Opens an attempt of a slot and counts it."""
    slots, position = slots_of(known), event.position
    slots.is_first[position] = slots.session[position] != event.session
    slots.session[position] = event.session
    slots.attempts[position] = event.number
    slots.is_open[position] = 1
    known.open += 1
    tally = known.tallies[slots.arm[position]]
    tally.open += 1
    tally.calls += 1
    tally.reserved_nanousd += event.reserved_nanousd


def close_attempt(known: Experiment, position: int, charged: int, tokens: int) -> None:
    """Ends the open attempt of a slot and counts what it cost."""
    slots = slots_of(known)
    arm = slots.arm[position]
    tally = known.tallies[arm]
    slots.is_open[position] = 0
    known.open -= 1
    tally.open -= 1
    tally.reserved_nanousd -= known.arms[arm].reserve_nanousd
    tally.spent_nanousd += charged
    tally.unpriced += isinstance(charged, Unpriced)
    tally.tokens += tokens


def count_ending(known: Experiment, event: AttemptEnd, seq: int) -> None:
    """Counts an attempt that ended in error or timeout."""
    slots, position = slots_of(known), event.position
    tally = known.tallies[slots.arm[position]]
    slots.counted[position] += 1
    slots.no_retry[position] = not event.retry
    if event.status == "timeout":
        tally.streak, tally.good_seq = [], seq
    elif slots.is_first[position]:
        tally.streak.append(position)


def count_outcome(tally: ArmTally, seq: int) -> None:
    """Counts an outcome that isn't an error: the arm goes on."""
    tally.good_seq = seq
    if tally.streak:
        tally.streak = []


def clear_streaks(known: Experiment) -> None:
    """Excuses the slots of failing streaks and clears all streaks, as a start does."""
    for tally in known.tallies:
        if is_failing(tally):
            for position in tally.streak:
                _excuse(known, position)
        tally.streak = []


def _excuse(known: Experiment, position: int) -> None:
    slots = slots_of(known)
    if slots.excused[position] < EXCUSES_MAX:
        slots.excused[position] += 1
        slots.counted[position] -= 1
        slots.no_retry[position] = slots.ended[position] = 0
