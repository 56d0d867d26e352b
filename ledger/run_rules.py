"""Rules of a run: start, stop, attempt, attempt_end, decision, settle.

Part of the fold (`fold.py`). Leaves scheduling to the engine: this module says only what may stand.
Money and time are counted in `ceilings.py`; tries, losses and streaks in `tries.py`.

Rules:
- A start fences every earlier session; an open attempt of a fenced session can only end as lost.
- An attempt or outcome stands in the live session and before the next look, and its slot is free.
- An outcome comes from where the freeze said; a live one closes the open attempt of its session, or
  gives a slot up whose attempts have ended on their own.
- A lost attempt costs its reservation until a person settles it.
- While arms are blinded costs and what else could tell them apart are sealed, never readable.
"""

from __future__ import annotations

from typing import cast

from .blinding import tells_arms_apart
from .ceilings import (
    charge_nanousd,
    is_at_ceiling,
    is_out_of_time,
    room_for,
    seconds_run,
)
from .entry import Entry
from .errors import BudgetExceededError, FailingArmError, PlanMissingError, TransitionError
from .events import Attempt, AttemptEnd, Decision, Event, Settle, Start, Stop, StopReason
from .slots import ENDINGS, STATUSES, Slots
from .state import (
    Experiment,
    LostAttempt,
    PlanColumns,
    PlanReader,
    State,
    experiment_of,
    is_blinded,
    is_crossed_for_good,
    is_ended,
    is_final,
    next_look_last,
    require,
    slots_of,
)
from .tries import (
    begin_attempt,
    clear_streaks,
    close_attempt,
    count_ending,
    count_outcome,
    ended_in,
    error_is_due,
    is_exhausted,
    is_failing,
    is_lost_up,
)

__all__ = (
    "HANDLERS",
    "charge_nanousd",
    "check_permission",
    "error_is_due",
    "is_exhausted",
    "is_lost_up",
    "is_signed_by",
    "plan_of_experiment",
    "room_for",
)


def _start(state: State, entry: Entry, event: Event, plan_of: PlanReader) -> None:
    event = cast("Start", event)
    known = experiment_of(state, event)
    require(
        known.freeze_seq is not None, "a run needs a freeze", where=known.name, todo="ledger freeze"
    )
    require(not is_ended(known), "the experiment has ended", where=known.name)
    require(event.nonce not in known.nonces, "the nonce of a session is used once")
    # A session that never stopped ran until its last event.
    ran = seconds_run(known, known.seen_time)
    clear_streaks(known)
    known.nonces.add(event.nonce)
    known.sessions, known.live, known.ran_seconds = event.number, True, ran
    known.start_time = known.seen_time = entry.time
    known.last_stop = None
    known.counters["start"] = event.number


def _stop(state: State, entry: Entry, event: Event, plan_of: PlanReader) -> None:
    event = cast("Stop", event)
    known = experiment_of(state, event)
    require(known.live, "no session is live", where=known.name)
    require(known.open == 0, "a session stops when no attempt is open", where=known.name)
    require(
        _is_true(known, event.reason, entry.time),
        f"the session didn't stop for the reason {event.reason}",
        where=known.name,
    )
    known.ran_seconds = seconds_run(known, entry.time)
    known.live, known.last_stop, known.last_stop_time = False, event.reason, entry.time


def _is_true(known: Experiment, reason: StopReason, time: str) -> bool:
    match reason:
        case "complete":
            return is_final(known) or known.settled == len(slots_of(known))
        case "boundary":
            return is_crossed_for_good(known)
        case "ceiling":
            return is_at_ceiling(known)
        case "wall_time":
            return is_out_of_time(known, time)
        case "arm_failing":
            return any(is_failing(tally) for tally in known.tallies)
        case "interrupted" | "terminated" | "crashed":
            return True


def _attempt(state: State, entry: Entry, event: Event, plan_of: PlanReader) -> None:
    event = cast("Attempt", event)
    known = experiment_of(state, event)
    slots, position = _check_place(known, event)
    arm = slots.arm[position]
    tally, frozen = known.tallies[arm], known.arms[arm]
    if frozen.name != event.arm:
        raise _refusal(known, position, "the plan gives this slot to another arm")
    if frozen.origin != "live":
        raise _refusal(known, position, "outcomes of this arm are not asked for")
    if slots.is_open[position]:
        raise _refusal(known, position, "an attempt of this slot is open")
    if is_exhausted(known, position):
        raise _refusal(known, position, "the attempts of this slot are used up")
    if is_failing(tally):
        raise _failing(known, position, f"arm {event.arm} is failing")
    if event.reserved_nanousd != frozen.reserve_nanousd:
        raise _refusal(known, position, "the reservation isn't the frozen one")
    check_permission(state, known)
    short = room_for(known, [arm])
    if short:
        raise BudgetExceededError(
            "the ceiling leaves no room for an attempt",
            where=f"{known.name} position {position}",
            found=short,
            todo="ledger amend budget, or ledger result --stop",
        )
    begin_attempt(known, event)
    known.seen_time = entry.time


def _refusal(known: Experiment, position: int, what: str, todo: str = "") -> TransitionError:
    """Returns the error that names a slot; made only when it is raised, as these checks are hot."""
    return TransitionError(what, where=f"{known.name} position {position}", todo=todo)


def _failing(known: Experiment, position: int, what: str) -> FailingArmError:
    """Returns the error for what has to wait until its arm fails no more."""
    where = f"{known.name} position {position}"
    return FailingArmError(what, where=where, todo="fix the cause: ledger run")


def _check_place(known: Experiment, event: Attempt | Decision) -> tuple[Slots, int]:
    """Checks session, look barrier and that the slot is free; returns columns and position."""
    slots, position = slots_of(known), event.position
    if is_ended(known):
        raise _refusal(known, position, "the experiment has ended")
    if not known.live or event.session != known.sessions:
        raise _refusal(
            known,
            position,
            f"session {event.session} isn't the live one: a later start fenced it, or it stopped",
            "ledger run",
        )
    # The first entry of a column is unused; `len(slots)` would cost a call of ours.
    if position >= len(slots.status):
        raise _refusal(known, position, "the plan has no such position")
    last = next_look_last(known)
    if not last:
        raise _refusal(known, position, "the experiment takes no further outcome")
    if position > last:
        raise _refusal(known, position, "a look comes before this slot", "ledger look")
    if slots.status[position]:
        raise _refusal(known, position, "the slot is settled")
    return slots, position


def check_permission(state: State, known: Experiment) -> None:
    """Checks anchor and signatures that the protocol wants before outcomes.

    Raises:
        TransitionError: One is missing.
    """
    rules = known.rules
    assert rules is not None
    if rules.anchor == "none" and not rules.signatures:
        return
    assert known.freeze_seq is not None
    newest = max(known.freeze_seq, known.plan_seq)
    if rules.anchor != "none" and state.anchored.get(rules.anchor, 0) <= newest:
        raise TransitionError(
            f"the protocol wants a {rules.anchor} over the newest freeze or amendment first",
            where=known.name,
        )
    for rule in rules.signatures:
        if rule.before == "run" and not is_signed_by(state, newest, rule.role, rule.meaning):
            raise TransitionError(
                f"the protocol wants `{rule.meaning}` by {rule.role} first", where=known.name
            )


def is_signed_by(state: State, subject: int, role: str, meaning: str) -> bool:
    """Returns whether a role signed an entry so and hasn't rejected it since."""
    signed: set[str] = set()
    for one in state.signatures:
        if (one.subject, one.role) == (subject, role):
            if one.meaning == "rejected":
                signed.clear()
            signed.discard("rejected")
            signed.add(one.meaning)
    return meaning in signed


def _attempt_end(state: State, entry: Entry, event: Event, plan_of: PlanReader) -> None:
    event = cast("AttemptEnd", event)
    known = experiment_of(state, event)
    slots, position = slots_of(known), event.position
    if not known.live or event.session != known.sessions:
        raise _refusal(known, position, "the session isn't the live one", "ledger run")
    if position > len(slots) or not slots.is_open[position]:
        raise _refusal(known, position, "the attempt isn't open")
    if slots.session[position] != event.session and event.status != "lost":
        raise _refusal(known, position, "an attempt of an earlier session can only end as lost")
    rules = known.rules
    assert rules is not None
    if event.status == "timeout" and "timeout" not in rules.retry_on:
        raise _refusal(known, position, "a timeout that isn't tried again is an outcome")
    _check_hidden(known, event)
    arm = slots.arm[position]
    reserve = known.arms[arm].reserve_nanousd
    charged = charge_nanousd(event.cost_nanousd, reserve)
    if event.status == "lost" and charged != reserve:
        raise _refusal(known, position, "a lost attempt costs its reservation", "ledger settle")
    is_lost = event.status in ("lost", "interrupted")
    # What a lost attempt is charged waits for `settle`; of others it is the last word.
    charged = int(charged) if is_lost else charged
    close_attempt(known, position, charged, sum(event.tokens.values()))
    slots.ended[position] = ENDINGS.index(event.status) + 1
    slots.end_seq[position] = entry.seq
    if is_lost:
        slots.lost[position] += 1
        known.lost.setdefault(position, []).append(
            LostAttempt(seq=entry.seq, number=event.number, arm=arm, charged=charged)
        )
    else:
        count_ending(known, event, entry.seq)
    known.last_change, known.seen_time = entry.seq, entry.time


def _decision(state: State, entry: Entry, event: Event, plan_of: PlanReader) -> None:
    event = cast("Decision", event)
    known = experiment_of(state, event)
    slots, position = _check_place(known, event)
    arm = slots.arm[position]
    frozen, tally = known.arms[arm], known.tallies[arm]
    _check_plan(known, event, plan_of)
    _check_hidden(known, event)
    if frozen.origin == "live":
        _check_live(known, event)
    else:
        _check_found(state, known, event, frozen.origin)
    if slots.is_open[position]:
        charged = charge_nanousd(event.cost_nanousd, frozen.reserve_nanousd)
        close_attempt(known, position, charged, sum(event.tokens.values()))
    elif frozen.origin != "live":
        tally.spent_nanousd += event.incurred_nanousd or 0
    slots.status[position] = STATUSES.index(event.status) + 1
    slots.decision_seq[position] = entry.seq
    known.settled += 1
    known.last_change, known.seen_time = entry.seq, entry.time
    if event.status != "error":
        count_outcome(tally, entry.seq)


def _check_hidden(known: Experiment, event: Decision | AttemptEnd) -> None:
    if known.arms[0].commitment and known.unblind_seq is None and tells_arms_apart(event):
        what = "cost, tokens, duration, models and artifacts are sealed while arms are blinded"
        raise _refusal(known, event.position, what)


def _check_plan(known: Experiment, event: Decision, plan_of: PlanReader) -> None:
    plan = plan_of_experiment(known, plan_of)
    index = event.position - 1
    expected = (plan.units[index], plan.arms[index], plan.replicates[index])
    found = (event.unit, event.arm, event.replicate)
    if expected != found:
        raise TransitionError(
            "the plan gives this position to another slot",
            where=f"{known.name} position {event.position}",
            expected=str(expected),
            found=str(found),
        )


def plan_of_experiment(known: Experiment, plan_of: PlanReader) -> PlanColumns:
    """Returns the frozen plan.

    Raises:
        PlanMissingError: Its blob isn't there.
    """
    assert known.plan_blob is not None, "only a frozen experiment is run"
    plan = plan_of(known.plan_blob)
    if plan is None:
        raise PlanMissingError(known.plan_blob.blake3)
    return plan


def _check_found(state: State, known: Experiment, event: Decision, origin: str) -> None:
    """Checks an outcome that nobody was asked for: recorded, imported, or from the cache alone."""
    position = event.position
    if event.origin != origin:
        raise _refusal(known, position, f"outcomes of arm {event.arm} are {origin}")
    if event.attempt:
        raise _refusal(known, position, "an outcome nobody was asked for has attempt 0")
    assert known.freeze_seq is not None
    if origin == "imported" and state.imported_seq < known.freeze_seq:
        raise _refusal(known, position, "an imported outcome needs an import after the freeze")
    check_permission(state, known)


def _check_live(known: Experiment, event: Decision) -> None:
    """Checks that an outcome closes its own open attempt, or gives up a slot that has none."""
    slots, position = slots_of(known), event.position
    if not event.attempt or event.attempt != slots.attempts[position]:
        raise _refusal(known, position, "an outcome closes the newest attempt of its slot")
    if not slots.is_open[position]:
        _check_given_up(known, event)
        return
    rules = known.rules
    assert rules is not None
    if slots.session[position] != event.session:
        raise _refusal(known, position, "an attempt of an earlier session can only end as lost")
    if event.origin not in ("live", "cached"):
        raise _refusal(known, position, f"outcomes of arm {event.arm} are live")
    if event.status == "error" or (event.status == "timeout" and "timeout" in rules.retry_on):
        raise _refusal(known, position, "the attempt has to end on its own first")


def _check_given_up(known: Experiment, event: Decision) -> None:
    """Checks an outcome that gives a slot up after its attempts have ended on their own."""
    position = event.position
    if event.status not in ("error", "timeout"):
        raise _refusal(known, position, "the attempt of this outcome isn't open")
    if event.origin != "live":
        raise _refusal(known, position, f"outcomes of arm {event.arm} are live")
    if event.cost_nanousd:
        raise _refusal(known, position, "the attempt has ended with its own cost")
    if not error_is_due(known, position):
        what = "a slot is given up only when its attempts are used up and its arm goes on"
        if is_failing(known.tallies[slots_of(known).arm[position]]):
            raise _failing(known, position, what)
        raise _refusal(known, position, what)
    if (event.code == "lost") != is_lost_up(known, position):
        raise _refusal(known, position, "the code `lost` is for slots whose attempts were lost")
    if (event.status == "timeout") != (ended_in(known, position) == "timeout"):
        raise _refusal(known, position, "the status isn't how the last attempt ended")


def _settle(state: State, entry: Entry, event: Event, plan_of: PlanReader) -> None:
    event = cast("Settle", event)
    known = experiment_of(state, event)
    todo = "settle it after ledger unblind"
    require(not is_blinded(known), "a cost would tell arms apart", where=known.name, todo=todo)
    for lost in known.lost.get(event.position, ()):
        if lost.seq == event.subject.seq:
            require(not lost.settled, "the cost of this attempt was settled before")
            tally = known.tallies[lost.arm]
            tally.spent_nanousd += event.cost_nanousd - lost.charged
            lost.charged, lost.settled = event.cost_nanousd, True
            if not is_ended(known):
                known.last_change = entry.seq
            return
    raise TransitionError(
        "only the cost of a lost or interrupted attempt can be settled",
        where=f"{known.name} position {event.position}",
        expected="the end of an attempt that says lost or interrupted",
        found=f"entry {event.subject.seq}, which says something else",
        todo="ledger log --kind attempt_end",
    )


HANDLERS = {
    "start": _start,
    "stop": _stop,
    "attempt": _attempt,
    "attempt_end": _attempt_end,
    "decision": _decision,
    "settle": _settle,
}
