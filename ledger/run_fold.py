"""Folds quickly what nearly every event of a run is: the first attempt of a free slot, its outcome.

The rules are those of `run_rules.py`. Most of what they ask, only other kinds of events can change:
here it is asked once for all events of a run that follow one another. Leaves to the fold
(`fold.py`) whatever isn't plainly the next, so that it alone decides what is refused, and why.

Rules:
- What is taken here leaves the state that `apply` leaves; what isn't leaves it as it was.
- The quick way may be unsure, never generous.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import islice

import msgspec

from .ceilings import charge_nanousd, room_for
from .errors import LedgerError
from .events import Attempt, AttemptEnd, Decision, Event, FrozenArm
from .run_rules import check_permission, plan_of_experiment
from .slots import STATUSES, Slots
from .state import Experiment, PlanReader, State, is_blinded, is_ended, next_look_last
from .tries import begin_attempt, close_attempt, count_outcome

__all__ = ("RUN", "fold_run")

RUN = (Attempt, AttemptEnd, Decision)

_STATUS = {status: place + 1 for place, status in enumerate(STATUSES)}
_ASKED = ("live", "cached")
# A status after which an attempt has to end on its own, always or where the protocol tries again.
_ENDS_FIRST = ("error", "timeout")


class _Context(msgspec.Struct, frozen=True, gc=False):
    """What holds for every event of a run until one of another kind comes."""

    known: Experiment
    slots: Slots
    session: int
    last: int
    unasked: frozenset[str]  # origins of outcomes that nobody was asked for
    units: Sequence[str]
    names: Sequence[str]
    replicates: Sequence[int]
    arms: tuple[FrozenArm, ...]
    has_ceiling: bool


def fold_run(
    state: State,
    events: Sequence[Event],
    times: Sequence[bytes],
    *,
    start: int,
    plan_of: PlanReader,
) -> int:
    """Advances the state by events for as long as they are plainly the next; returns how many.

    Args:
        state: The fold of all entries before the first of these events; changed in place.
        events: Events of a run.
        times: The time of each one's entry.
        start: The index of the first of them that isn't folded yet.
        plan_of: Reads a plan blob.
    """
    context = _context_of(state, events[start].experiment, plan_of)
    if context is None:
        return 0
    known, name, changed = context.known, context.known.name, -1
    taken = settled = 0
    for seq, event in enumerate(islice(events, start, None), state.size):
        if event.experiment != name:
            break
        if isinstance(event, Decision):
            if not _take_outcome(context, event, seq):
                break
            settled, changed = settled + 1, seq
        elif not (isinstance(event, Attempt) and _take_attempt(context, event)):
            break
        taken += 1
    if taken:
        known.settled += settled
        known.last_change = max(known.last_change, changed)
        known.seen_time = times[start + taken - 1].decode()
        state.size += taken
    return taken


def _context_of(state: State, name: str, plan_of: PlanReader) -> _Context | None:
    """Returns what holds for a run, None where something has to be asked for each event."""
    known = state.experiments.get(name)
    if known is None or known.slots is None or known.rules is None or state.closed:
        return None
    last = next_look_last(known)
    if not (last and known.live and known.rules.attempts_max) or is_ended(known):
        return None
    if is_blinded(known):
        return None
    try:
        check_permission(state, known)
        plan = plan_of_experiment(known, plan_of)
    except LedgerError:
        return None
    rules = known.rules
    imported = known.freeze_seq is not None and state.imported_seq >= known.freeze_seq
    found = ("recorded", "imported") if imported else ("recorded",)
    ceilings = (rules.usd_nanousd, rules.calls, rules.tokens)
    return _Context(
        known, known.slots, known.sessions, last, frozenset(found), plan.units, plan.arms,
        plan.replicates, known.arms,
        bool(rules.arms) or any(ceiling is not None for ceiling in ceilings),
    )  # fmt: skip


def _take_attempt(run: _Context, event: Attempt) -> bool:
    """Begins the first attempt of a slot; returns whether it plainly may stand."""
    slots, position = run.slots, event.position
    is_first = event.number == 1 and event.session == run.session and 0 < position <= run.last
    if not is_first or slots.status[position] or slots.attempts[position]:
        return False
    arm = slots.arm[position]
    tally, frozen = run.known.tallies[arm], run.arms[arm]
    is_asked = frozen.name == event.arm and frozen.origin == "live" and not tally.streak
    if not is_asked or event.reserved_nanousd != frozen.reserve_nanousd:
        return False
    if run.has_ceiling and room_for(run.known, [arm]):
        return False
    begin_attempt(run.known, event)
    return True


def _take_outcome(run: _Context, event: Decision, seq: int) -> bool:
    """Settles a slot; returns whether its outcome plainly may stand."""
    slots, position = run.slots, event.position
    if event.number or event.session != run.session or not 0 < position <= run.last:
        return False
    place = position - 1
    if (
        slots.status[position]
        or run.units[place] != event.unit
        or run.names[place] != event.arm
        or run.replicates[place] != event.replicate
    ):
        return False
    arm = slots.arm[position]
    tally, origin = run.known.tallies[arm], run.arms[arm].origin
    if origin in run.unasked:
        if event.attempt or event.origin != origin or slots.is_open[position]:
            return False
        tally.spent_nanousd += event.incurred_nanousd or 0
    elif origin == "live":
        if not _closes_its_attempt(slots, event):
            return False
        charged = charge_nanousd(event.cost_nanousd, run.arms[arm].reserve_nanousd)
        close_attempt(run.known, position, charged, sum(event.tokens.values()))
    else:
        return False
    slots.status[position] = _STATUS[event.status]
    slots.decision_seq[position] = seq
    if event.status != "error":
        count_outcome(tally, seq)
    return True


def _closes_its_attempt(slots: Slots, event: Decision) -> bool:
    position = event.position
    return (
        slots.is_open[position] == 1
        and event.attempt == slots.attempts[position]
        and event.session == slots.session[position]
        and event.origin in _ASKED
        and event.status not in _ENDS_FIRST
    )
