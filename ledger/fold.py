"""The pure fold: `apply(state, entry, event) -> state`, used by append, resume and replay alike.

What each kind needs, forbids and does, and the module that checks it:

    open       empty ledger                                                  plan_rules
    adopt      a newer tool; not closed                                      plan_rules
    register   new id; what it supersedes is withdrawn                       plan_rules
    freeze     registered, once; looks rise to the last slot                 plan_rules
    amend      subject is the newest register or amend; fixed parts equal    plan_rules
    start      frozen, fresh nonce, not ended: fences older sessions         run_rules
    stop       the live session, nothing open, the reason true               run_rules
    attempt    live, before the next look, tries left, within the ceilings   run_rules
    attempt_end  the newest attempt of the slot, open                        run_rules
    decision   live, before the next look, origin as frozen: settles         run_rules
    settle     a lost or interrupted attempt, once: corrects its cost        run_rules
    look       the next one, all its slots settled, basis after last change  end_rules
    result     idle; final, true ceiling stop, or a person                   end_rules
    withdraw   idle, nothing crossed, no look due                            end_rules
    reanalysis after a result                                                end_rules
    invalidate a settled slot, once, before the result                       end_rules
    unblind    blinded and idle                                              end_rules
    refuse sign import anchor key redact recover close                       book_rules

Leaves what the state holds to `state.py`; bytes, hashes and roots to `log.py` and `replay.py`.

Rules:
- A transition checks everything first and changes the state only then: a refused event leaves it as
  it was. The state is handed over: use the one returned, not the one given.
- One slot holds one event: a taken slot is a ConflictError, a gap in numbers a TransitionError.
- After `close` only anchor and recover may follow.
"""

from __future__ import annotations

from .book_rules import HANDLERS as _BOOK
from .end_rules import HANDLERS as _END
from .entry import Entry
from .errors import ConflictError, TransitionError
from .events import Event, event_kind
from .plan_rules import HANDLERS as _PLAN
from .run_rules import HANDLERS as _RUN
from .state import LEDGER_WIDE, PLACED, PlanReader, State, is_taken, next_number, slot_text

__all__ = ("apply",)

_AFTER_CLOSE = frozenset({"anchor", "recover"})
_HANDLERS = {**_PLAN, **_RUN, **_END, **_BOOK}


def apply(state: State, entry: Entry, event: Event, *, plan_of: PlanReader) -> State:
    """Returns the state after an entry; the given state must not be used again.

    Args:
        state: The fold of all earlier entries; unchanged when an error is raised.
        entry: The entry, checked by its hashes already.
        event: Its decoded event.
        plan_of: Reads a plan blob.

    Raises:
        ConflictError: The event's slot is taken.
        TransitionError: The event may not stand here.
        BudgetExceededError: The ceiling leaves no room for the attempt.
    """
    kind = event_kind(event)
    if not _is_next(state, kind, event):
        _check_slot(state, kind, event)
    _HANDLERS[kind](state, entry, event, plan_of)
    state.size = entry.seq + 1
    return state


def _is_next(state: State, kind: str, event: Event) -> bool:
    """Returns whether an event of a run is plainly the next of its slot, so that no check is due.

    Nearly every entry is; False means that `_check_slot` has to look, not that it will refuse.
    """
    known, position = state.experiments.get(event.experiment), event.position
    slots = known.slots if known is not None else None
    if slots is None or state.closed or not 0 < position < len(slots.status):
        return False
    if kind == "decision":
        return event.number == 0 and not slots.status[position]
    if kind == "attempt":
        return event.number == slots.attempts[position] + 1
    is_newest = event.number == slots.attempts[position]
    return kind == "attempt_end" and is_newest and slots.is_open[position] == 1


def _check_slot(state: State, kind: str, event: Event) -> None:
    if (state.size == 0) != (kind == "open"):
        raise TransitionError("a ledger begins with `open`, which comes only once")
    if (kind in LEDGER_WIDE) != (event.experiment == ""):
        has = "has no" if kind in LEDGER_WIDE else "needs an"
        raise TransitionError(f"an event of kind {kind} {has} experiment")
    if (kind in PLACED) != (event.position > 0):
        has = "needs a" if kind in PLACED else "has no"
        raise TransitionError(f"an event of kind {kind} {has} position")
    expected = next_number(state, kind, event.experiment, event.position)
    if is_taken(state, kind, event, expected):
        raise ConflictError(
            "the slot is taken",
            where=slot_text(event),
            todo="one slot holds one event; ledger log shows it",
        )
    if state.closed and kind not in _AFTER_CLOSE:
        raise TransitionError("the ledger is closed", todo="open another one that continues it")
    if event.number != expected:
        raise TransitionError(
            "numbers of a slot follow without gap",
            where=slot_text(event),
            expected=str(expected),
            found=str(event.number),
        )
