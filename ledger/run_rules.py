"""Rules of a run: start, stop, attempt, attempt_end, decision, settle.

Part of the fold (`fold.py`). Leaves scheduling to the engine: this module says only what may stand.

Rules:
- A start fences every earlier session; attempts of a fenced session can only end as lost.
- Attempts that ended in error or timeout count against `attempts.max`; lost and interrupted ones
  don't,
  but three of them (one, if the arm isn't repeatable) use the slot up: else a kill is a free
  redraw.
- Five first tries of different slots in a row that end in error are a streak; only an outcome or a
  timeout clears it. The next start excuses the last attempt of each of its slots, three times a
  slot.
- A cost that isn't reported is the reservation.
"""

from __future__ import annotations

from datetime import datetime
from typing import cast

from .entry import Entry
from .errors import BudgetExceededError, TransitionError
from .events import Attempt, AttemptEnd, Decision, Event, Settle, Start, Stop
from .slots import ENDINGS, LOST_MAX, STATUSES, Slots
from .state import (
    STREAK_MAX,
    ArmTally,
    Experiment,
    LostAttempt,
    PlanColumns,
    PlanReader,
    State,
    experiment_of,
    is_ended,
    is_final,
    next_look_last,
    require,
)

__all__ = (
    "HANDLERS",
    "charge_nanousd",
    "error_is_due",
    "is_exhausted",
    "is_lost_up",
    "plan_of_experiment",
    "room_for",
)

EXCUSES_MAX = 3
_ERROR = ENDINGS.index("error") + 1
_TIMEOUT = ENDINGS.index("timeout") + 1


def _start(state: State, entry: Entry, event: Event, plan_of: PlanReader) -> None:
    event = cast("Start", event)
    known = experiment_of(state, event)
    require(
        known.freeze_seq is not None, "a run needs a freeze", where=known.name, todo="ledger freeze"
    )
    require(not is_ended(known), "the experiment has ended", where=known.name)
    require(event.nonce not in known.nonces, "the nonce of a session is used once")
    slots = _slots(known)
    for tally in known.tallies:
        if len(tally.streak) >= STREAK_MAX:
            _excuse(slots, tally.streak)
        tally.streak = []
    known.nonces.add(event.nonce)
    known.sessions, known.live = event.number, True
    known.start_time, known.last_stop = entry.time, None
    known.counters["start"] = event.number


def _excuse(slots: Slots, positions: list[int]) -> None:
    for position in positions:
        if slots.excused[position] < EXCUSES_MAX and slots.counted[position]:
            slots.excused[position] += 1
            slots.counted[position] -= 1


def _stop(state: State, entry: Entry, event: Event, plan_of: PlanReader) -> None:
    event = cast("Stop", event)
    known = experiment_of(state, event)
    require(known.live, "no session is live", where=known.name)
    require(known.open == 0, "a session stops when no attempt is open", where=known.name)
    true = {
        "complete": is_final(known) or known.settled == len(_slots(known)),
        "boundary": bool(known.taken) and not known.taken[-1].continues,
        "ceiling": is_at_ceiling(known),
        "wall_time": known.rules is not None and known.rules.wall_seconds is not None,
        "arm_failing": any(len(tally.streak) >= STREAK_MAX for tally in known.tallies),
    }.get(event.reason, True)
    require(true, f"the session didn't stop for the reason {event.reason}", where=known.name)
    known.live, known.last_stop, known.last_stop_time = False, event.reason, entry.time
    known.ran_seconds += max(0.0, seconds_between(known.start_time, entry.time))


def seconds_between(earlier: str, later: str) -> float:
    """Returns the seconds between two entry times."""
    return (datetime.fromisoformat(later) - datetime.fromisoformat(earlier)).total_seconds()


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
    if len(tally.streak) >= STREAK_MAX:
        raise _refusal(known, position, f"arm {event.arm} is failing", "fix the cause: ledger run")
    if event.reserved_nanousd != frozen.reserve_nanousd:
        raise _refusal(known, position, "the reservation isn't the frozen one")
    _check_permission(state, known)
    short = room_for(known, [arm])
    if short:
        raise BudgetExceededError(
            "the ceiling leaves no room for an attempt",
            where=f"{known.name} position {position}",
            found=short,
            todo="ledger amend budget, or ledger result --stop",
        )
    slots.is_first[position] = slots.session[position] != event.session
    slots.session[position] = event.session
    slots.attempts[position] = event.number
    slots.is_open[position] = 1
    known.open += 1
    tally.open += 1
    tally.calls += 1
    tally.reserved_nanousd += event.reserved_nanousd


def _refusal(known: Experiment, position: int, what: str, todo: str = "") -> TransitionError:
    """Returns the error that names a slot; made only when it is raised, as these checks are hot."""
    return TransitionError(what, where=f"{known.name} position {position}", todo=todo)


def _check_place(known: Experiment, event: Attempt | Decision) -> tuple[Slots, int]:
    """Checks session, look barrier and that the slot is free; returns columns and position."""
    position = event.position
    slots = _slots(known)
    if is_ended(known):
        raise _refusal(known, position, "the experiment has ended")
    if not known.live or event.session != known.sessions:
        raise _refusal(
            known,
            position,
            f"session {event.session} isn't the live one: a later start fenced it, or it stopped",
            "ledger run",
        )
    if position > len(slots):
        raise _refusal(known, position, "the plan has no such position")
    if is_final(known):
        raise _refusal(known, position, "the experiment takes no further outcome")
    if position > next_look_last(known):
        raise _refusal(known, position, "a look comes before this slot", "ledger look")
    if slots.status[position]:
        raise _refusal(known, position, "the slot is settled")
    return slots, position


def _check_permission(state: State, known: Experiment) -> None:
    """Checks anchor and signatures that the protocol wants before outcomes."""
    rules = known.rules
    assert rules is not None
    assert known.freeze_seq is not None
    newest = max(known.freeze_seq, known.plan_seq)
    if rules.anchor != "none":
        require(
            state.anchored.get(rules.anchor, 0) > newest,
            f"the protocol wants a {rules.anchor} over the freeze first",
            where=known.name,
        )
    for rule in rules.signatures:
        signed = {
            one.meaning
            for one in state.signatures
            if one.role == rule.role and one.subject >= newest
        }
        require(
            rule.before != "run" or rule.meaning in signed,
            f"the protocol wants `{rule.meaning}` by {rule.role} first",
            where=known.name,
        )


def room_for(known: Experiment, arms: list[int]) -> str:
    """Returns which ceiling leaves no room for one attempt in each of `arms`; "" when all fit."""
    rules = known.rules
    assert rules is not None
    sums = [0, 0, 0]
    for index, tally in enumerate(known.tallies):
        wanted = arms.count(index)
        used = (
            tally.spent_nanousd
            + tally.reserved_nanousd
            + wanted * known.arms[index].reserve_nanousd,
            tally.calls + wanted,
            tally.tokens,
        )
        sums = [a + b for a, b in zip(sums, used, strict=True)]
        own = rules.arms.get(known.arms[index].name)
        if wanted and own is not None:
            short = _over(used, (own.usd_nanousd, own.calls, own.tokens))
            if short:
                return f"arm {known.arms[index].name}: {short}"
    return _over((sums[0], sums[1], sums[2]), (rules.usd_nanousd, rules.calls, rules.tokens))


def _over(used: tuple[int, int, int], limits: tuple[int | None, int | None, int | None]) -> str:
    usd, calls, tokens = limits
    if usd is not None and used[0] > usd:
        return f"usd {used[0] / 1e9:.2f} of {usd / 1e9:.2f}"
    if calls is not None and used[1] > calls:
        return f"calls {used[1]} of {calls}"
    if tokens is not None and used[2] >= tokens:
        return f"tokens {used[2]} of {tokens}"
    return ""


def is_at_ceiling(known: Experiment) -> bool:
    """Returns whether some pending slot before the next look can't be attempted for its ceiling."""
    slots = _slots(known)
    pending = {slots.arm[p] for p in slots.pending(1, next_look_last(known))}
    together = [arm for arm in pending if known.arms[arm].origin == "live"]
    return bool(together) and bool(
        any(room_for(known, [arm]) for arm in together) or room_for(known, together)
    )


def is_lost_up(known: Experiment, position: int) -> bool:
    """Returns whether so many attempts of a slot were lost that it isn't tried again."""
    slots = _slots(known)
    repeatable = known.arms[slots.arm[position]].repeatable
    return slots.lost[position] >= (LOST_MAX if repeatable else 1)


def is_exhausted(known: Experiment, position: int) -> bool:
    """Returns whether no further attempt of a pending slot is allowed."""
    slots, rules = _slots(known), known.rules
    assert rules is not None
    ended = slots.ended[position]
    kept = ended == 0 or ended > _TIMEOUT or ENDINGS[ended - 1] in rules.retry_on
    counted = slots.counted[position]
    used_up = counted >= rules.attempts_max or (counted > 0 and not kept)
    return used_up or is_lost_up(known, position)


def _attempt_end(state: State, entry: Entry, event: Event, plan_of: PlanReader) -> None:
    event = cast("AttemptEnd", event)
    known = experiment_of(state, event)
    slots, position = _slots(known), event.position
    where = f"{known.name} position {position} attempt {event.number}"
    require(
        known.live and event.session == known.sessions,
        "the session isn't the live one",
        where=where,
    )
    require(
        position <= len(slots) and bool(slots.is_open[position]),
        "the attempt isn't open",
        where=where,
    )
    own = slots.session[position] == event.session
    require(
        own != (event.status == "lost"),
        "an attempt of an earlier session ends as lost, and only such a one",
        where=where,
    )
    rules = known.rules
    assert rules is not None
    require(
        event.status != "timeout" or "timeout" in rules.retry_on,
        "a timeout that isn't tried again is an outcome",
        where=where,
    )
    arm = slots.arm[position]
    charged = charge_nanousd(event.cost_nanousd, known.arms[arm].reserve_nanousd)
    _close_attempt(known, position, charged, sum(event.tokens.values()))
    slots.ended[position] = ENDINGS.index(event.status) + 1
    slots.end_seq[position] = entry.seq
    tally = known.tallies[arm]
    if event.status in ("lost", "interrupted"):
        slots.lost[position] += 1
        known.lost.setdefault(position, []).append(
            LostAttempt(seq=entry.seq, number=event.number, arm=arm, charged=charged)
        )
    else:
        _count_try(slots, position, tally, event, rules.attempts_max, entry.seq)
    known.last_change = entry.seq


def _count_try(
    slots: Slots, position: int, tally: ArmTally, event: AttemptEnd, attempts_max: int, seq: int
) -> None:
    slots.counted[position] = slots.counted[position] + 1 if event.retry else attempts_max
    if event.status == "timeout":
        tally.streak, tally.good_seq = [], seq
    elif slots.is_first[position] and position not in tally.streak:
        tally.streak.append(position)


def _close_attempt(known: Experiment, position: int, charged: int, tokens: int) -> None:
    slots = _slots(known)
    arm = slots.arm[position]
    tally = known.tallies[arm]
    slots.is_open[position] = 0
    known.open -= 1
    tally.open -= 1
    tally.reserved_nanousd -= known.arms[arm].reserve_nanousd
    tally.spent_nanousd += charged
    tally.tokens += tokens


def charge_nanousd(cost: int | None, reserve: int) -> int:
    """Returns what an ended attempt costs: what was reported, else what was reserved."""
    return reserve if cost is None else cost


def _decision(state: State, entry: Entry, event: Event, plan_of: PlanReader) -> None:
    event = cast("Decision", event)
    known = experiment_of(state, event)
    slots, position = _check_place(known, event)
    arm = slots.arm[position]
    frozen = known.arms[arm]
    _check_plan(known, event, plan_of)
    _check_origin(known, event)
    if frozen.origin != "live":
        _check_permission(state, known)
    tally = known.tallies[arm]
    if slots.is_open[position]:
        charged = charge_nanousd(event.cost_nanousd, frozen.reserve_nanousd)
        _close_attempt(known, position, charged, sum(event.tokens.values()))
    elif frozen.origin != "live":
        tally.spent_nanousd += event.incurred_nanousd or 0
    slots.status[position] = STATUSES.index(event.status) + 1
    slots.decision_seq[position] = entry.seq
    known.settled += 1
    known.last_change = entry.seq
    if event.status != "error":
        tally.streak, tally.good_seq = [], entry.seq


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
        TransitionError: Its blob isn't at hand.
    """
    plan = plan_of(known.plan_blob) if known.plan_blob is not None else None
    if plan is None:
        raise TransitionError(
            "the frozen plan isn't at hand",
            where=known.name,
            todo="put the blobs folder back beside the ledger",
        )
    return plan


def _check_origin(known: Experiment, event: Decision) -> None:
    """Checks that an outcome comes from where the freeze said and closes what it may close."""
    slots, position = _slots(known), event.position
    frozen = known.arms[slots.arm[position]]
    if event.origin != frozen.origin:
        raise _refusal(known, position, f"outcomes of arm {event.arm} are {frozen.origin}")
    if frozen.origin != "live":
        if event.attempt or slots.attempts[position]:
            raise _refusal(known, position, "an outcome nobody was asked for has attempt 0")
        return
    if not event.attempt or event.attempt != slots.attempts[position]:
        raise _refusal(known, position, "an outcome closes the newest attempt of its slot")
    rules = known.rules
    assert rules is not None
    if event.status == "error" or (event.status == "timeout" and "timeout" in rules.retry_on):
        _check_given_up(known, event)
    elif not slots.is_open[position]:
        raise _refusal(known, position, "the attempt of this outcome isn't open")


def _check_given_up(known: Experiment, event: Decision) -> None:
    """Checks an outcome that gives a slot up after its attempts have ended on their own."""
    position = event.position
    if _slots(known).is_open[position]:
        raise _refusal(known, position, "the attempt has to end on its own first")
    if event.cost_nanousd:
        raise _refusal(known, position, "the attempt has ended with its own cost")
    if not error_is_due(known, position):
        raise _refusal(
            known,
            position,
            "a slot is given up only when its attempts are used up and its arm goes on",
        )
    if (event.code == "lost") != is_lost_up(known, position):
        raise _refusal(known, position, "the code `lost` is for slots whose attempts were lost")


def error_is_due(known: Experiment, position: int) -> bool:
    """Returns whether a slot that can't be tried again may be given up now.

    It may once a later attempt of its arm ended otherwise than in error, or nothing else of the
    arm is
    left before the look; a failing streak holds it back.
    """
    slots = _slots(known)
    arm = slots.arm[position]
    tally = known.tallies[arm]
    if slots.is_open[position] or not is_exhausted(known, position):
        return False
    if is_lost_up(known, position) or slots.ended[position] == _TIMEOUT:
        return True
    if len(tally.streak) >= STREAK_MAX:
        return False
    if tally.good_seq > slots.end_seq[position]:
        return True
    return not any(
        slots.arm[other] == arm and not is_exhausted(known, other)
        for other in slots.pending(1, next_look_last(known))
    )


def _settle(state: State, entry: Entry, event: Event, plan_of: PlanReader) -> None:
    event = cast("Settle", event)
    known = experiment_of(state, event)
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
    )


def _slots(known: Experiment) -> Slots:
    require(
        known.slots is not None,
        "the experiment isn't frozen",
        where=known.name,
        todo="ledger freeze",
    )
    assert known.slots is not None
    return known.slots


HANDLERS = {
    "start": _start,
    "stop": _stop,
    "attempt": _attempt,
    "attempt_end": _attempt_end,
    "decision": _decision,
    "settle": _settle,
}
