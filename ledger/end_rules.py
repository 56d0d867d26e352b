"""Rules of looks and ends: look, result, withdraw, reanalysis, invalidate, unblind.

Part of the fold (`fold.py`). Leaves every number to the analysis: here a look is a place, a basis
and
whether the run continues.

Rules:
- A look is taken once, in order, when all slots up to it are settled and no attempt is open.
- A basis lies after the last change of the experiment, so nothing slipped in between.
- A look that isn't eligible can't cross; a due look comes before any end.
- After a crossing that stops there is only the result.
"""

from __future__ import annotations

from typing import cast

from .entry import Entry
from .events import Event, Head, Invalidate, Look, Reanalysis, Result, Unblind, Withdraw
from .state import (
    Experiment,
    LookTaken,
    PlanReader,
    ResultNote,
    State,
    due_look,
    experiment_of,
    is_ended,
    is_final,
    is_idle,
    require,
)

__all__ = ("HANDLERS",)


def _check_basis(known: Experiment, entry: Entry, basis: Head) -> None:
    require(
        known.last_change < basis.size <= entry.seq,
        "the basis doesn't lie between the last change and this entry",
        where=f"{known.name} basis {basis.size}",
        todo="compute it again from the present head",
    )


def _look(state: State, entry: Entry, event: Event, plan_of: PlanReader) -> None:
    event = cast("Look", event)
    known = experiment_of(state, event)
    require(
        due_look(known) == event.number,
        "this look isn't due",
        where=f"{known.name} look {event.number}",
        todo="a look is taken when all its slots are settled: ledger run",
    )
    require(known.open == 0, "an attempt is open", where=known.name)
    planned = known.looks[event.number - 1]
    require(
        event.last == planned.last, "the look ends at another slot than planned", where=known.name
    )
    crossed = False
    for comparison in event.comparisons:
        for endpoint in comparison.endpoints:
            require(
                endpoint.eligible or endpoint.crossed == "no",
                "a look that isn't eligible can't cross",
                where=endpoint.name,
            )
            crossed = crossed or endpoint.crossed != "no"
    final = event.number == len(known.looks)
    require(not (final and event.continues), "nothing comes after the last look", where=known.name)
    require(
        event.continues or final or crossed, "a look stops a run only by crossing", where=known.name
    )
    rules = known.rules
    assert rules is not None
    require(
        event.continues or final or rules.on_crossing == "stop",
        "the protocol goes on after a crossing",
        where=known.name,
    )
    _check_basis(known, entry, event.basis)
    known.taken.append(
        LookTaken(seq=entry.seq, last=event.last, continues=event.continues, crossed=crossed)
    )
    known.counters["look"] = event.number
    known.last_change = entry.seq


def _result(state: State, entry: Entry, event: Event, plan_of: PlanReader) -> None:
    event = cast("Result", event)
    known = experiment_of(state, event)
    require(
        known.freeze_seq is not None,
        "the experiment isn't frozen",
        where=known.name,
        todo="ledger freeze",
    )
    require(not is_ended(known), "the experiment has ended", where=known.name)
    require(
        is_idle(known),
        "a run is going on or an attempt is open",
        where=known.name,
        todo="ledger run, or stop it",
    )
    require(due_look(known) is None, "a look is due", where=known.name, todo="ledger look")
    require(
        known.unblind_seq is not None or all(a.commitment is None for a in known.arms),
        "the arms are still blinded",
        where=known.name,
        todo="ledger unblind",
    )
    require(event.look == len(known.taken), "the result states the looks taken", where=known.name)
    stopped = bool(known.taken) and not known.taken[-1].continues
    final = is_final(known)
    last = len(known.taken) == len(known.looks)
    true = {
        "last_look": final and last,
        "boundary": stopped and any(look.crossed for look in known.taken),
        "ceiling": not final and known.last_stop == "ceiling",
        "wall_time": not final and known.last_stop == "wall_time",
        "person": not final,
    }[event.stopped_by]
    require(
        true,
        f"the experiment wasn't ended by {event.stopped_by}",
        where=known.name,
        todo="ledger run, or ledger result --stop --reason TEXT",
    )
    crossed = any(look.crossed for look in known.taken)
    require(
        event.stopped_by != "person" or crossed or event.verdict == "inconclusive",
        "a stop by a person is inconclusive",
        where=known.name,
    )
    _check_basis(known, entry, event.basis)
    known.result = ResultNote(
        seq=entry.seq,
        verdict=event.verdict,
        reason_code=event.reason_code,
        stopped_by=event.stopped_by,
    )
    known.last_change = entry.seq


def _withdraw(state: State, entry: Entry, event: Event, plan_of: PlanReader) -> None:
    event = cast("Withdraw", event)
    known = experiment_of(state, event)
    require(not is_ended(known), "the experiment has ended", where=known.name)
    require(is_idle(known), "a run is going on or an attempt is open", where=known.name)
    require(due_look(known) is None, "a look is due", where=known.name, todo="ledger look")
    require(
        not any(look.crossed for look in known.taken),
        "a boundary was crossed: the experiment ends with its result",
        where=known.name,
        todo="ledger result",
    )
    known.withdrawn_seq = entry.seq


def _reanalysis(state: State, entry: Entry, event: Event, plan_of: PlanReader) -> None:
    event = cast("Reanalysis", event)
    known = experiment_of(state, event)
    require(known.result is not None, "a reanalysis comes after a result", where=known.name)
    require(0 < event.basis.size <= entry.seq, "the basis isn't a prefix of this ledger")
    known.counters["reanalysis"] = event.number


def _invalidate(state: State, entry: Entry, event: Event, plan_of: PlanReader) -> None:
    event = cast("Invalidate", event)
    known = experiment_of(state, event)
    require(
        not is_ended(known), "the experiment has ended", where=known.name, todo="ledger reanalysis"
    )
    slots, position = known.slots, event.position
    require(
        slots is not None and position <= len(slots) and slots.status[position] > 0,
        "only a settled outcome can be invalidated",
        where=f"{known.name} position {position}",
    )
    assert slots is not None
    require(
        event.subject.seq == slots.decision_seq[position],
        "the subject isn't the outcome of this slot",
        where=f"entry {event.subject.seq}",
    )
    require(due_look(known) is None, "a look is due", where=known.name, todo="ledger look")
    known.invalidated[position] = entry.seq
    known.last_change = entry.seq


def _unblind(state: State, entry: Entry, event: Event, plan_of: PlanReader) -> None:
    event = cast("Unblind", event)
    known = experiment_of(state, event)
    require(
        any(arm.commitment is not None for arm in known.arms),
        "the arms aren't blinded",
        where=known.name,
    )
    require(
        not is_ended(known) and is_idle(known),
        "a run is going on or the experiment has ended",
        where=known.name,
    )
    require(due_look(known) is None, "a look is due", where=known.name, todo="ledger look")
    known.unblind_seq, known.unblinded_early = entry.seq, not is_final(known)
    known.counters["unblind"] = event.number
    known.last_change = entry.seq


HANDLERS = {
    "look": _look,
    "result": _result,
    "withdraw": _withdraw,
    "reanalysis": _reanalysis,
    "invalidate": _invalidate,
    "unblind": _unblind,
}
