"""Rules of looks and ends: look, result, withdraw, reanalysis, invalidate, unblind.

Part of the fold (`fold.py`). Leaves every number to the analysis: here a look is a place, a basis
and whether the run continues.

Rules:
- A look is taken once, in order, when all slots up to it are settled and no attempt is open.
- A basis lies after the last change of the experiment, so nothing slipped in between.
- A look that isn't eligible, by design or on its data, can't cross.
- A due look comes before any end.
- After a crossing that stops there is only the result; after any crossing no withdrawal.
- Cut short, an experiment is inconclusive: by a person always, by a ceiling unless the protocol
  has it analysed and the ceiling is the registered one; a verdict that was reached before stands.
- Unblinding opens every commitment with the arm and the salt that it was made of; it is early
  unless the data are complete. A withdrawn experiment may be opened, for the record alone.
- What is as registered is said in `deviations.py`.
"""

from __future__ import annotations

from typing import cast

from .blinding import commitment
from .ceilings import may_analyse
from .deviations import is_as_registered, is_early, origins_of
from .entry import Entry
from .events import (
    Event,
    Head,
    Invalidate,
    Look,
    LookPlan,
    Reanalysis,
    Result,
    Unblind,
    Withdraw,
)
from .kept_blobs import check_unerased, keep_blobs
from .state import (
    Experiment,
    LookTaken,
    PlanReader,
    ResultNote,
    State,
    due_look,
    experiment_of,
    is_blinded,
    is_crossed_for_good,
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
    crossed = _check_crossings(planned, event)
    final = event.number == len(known.looks)
    # While blinded the numbers are sealed; that a look stopped still says that something crossed.
    sealed = event.sealed is not None and is_blinded(known)
    crossed = crossed or (sealed and not event.continues and not final)
    _check_continues(known, event, crossed=crossed, final=final)
    _check_basis(known, entry, event.basis)
    check_unerased(state, event.sealed)
    keep_blobs(state, event.sealed)
    if event.sealed is not None:
        known.seals.add(event.sealed.sha256)
    known.taken.append(
        LookTaken(
            seq=entry.seq,
            last=event.last,
            continues=event.continues,
            crossed=crossed,
            sealed=event.sealed is not None,
        )
    )
    known.counters["look"] = event.number
    known.last_change = entry.seq


def _check_crossings(planned: LookPlan, event: Look) -> bool:
    """Checks that only what is eligible crosses; returns whether anything did."""
    barred = {(test.comparison, test.endpoint) for test in planned.tests if not test.eligible}
    crossed = False
    for comparison in event.comparisons:
        for endpoint in comparison.endpoints:
            if endpoint.crossed == "no":
                continue
            require(
                endpoint.eligible and (comparison.name, endpoint.name) not in barred,
                "a look that isn't eligible can't cross",
                where=f"{comparison.name} {endpoint.name}",
            )
            crossed = True
    return crossed


def _check_continues(known: Experiment, event: Look, *, crossed: bool, final: bool) -> None:
    """Checks that the run goes on unless this is the last look or a crossing that stops."""
    rules = known.rules
    assert rules is not None
    if final:
        require(not event.continues, "nothing comes after the last look", where=known.name)
    elif not event.continues:
        require(crossed, "a look stops a run only by crossing", where=known.name)
        require(
            rules.on_crossing == "stop", "the protocol goes on after a crossing", where=known.name
        )


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
        not is_blinded(known), "the arms are still blinded", where=known.name, todo="ledger unblind"
    )
    check_unerased(state, event.detail)
    require(event.look == len(known.taken), "the result states the looks taken", where=known.name)
    require(
        _is_end(known, event),
        f"the experiment wasn't ended by {event.stopped_by}",
        where=known.name,
        todo="ledger run, or ledger result --stop --reason TEXT",
    )
    require(
        event.verdict == "inconclusive" or _may_conclude(known, event),
        f"an experiment that {event.stopped_by} cut short is inconclusive",
        where=known.name,
    )
    registered = is_as_registered(
        origins_of(known), known.amends, unblinded_early=known.unblinded_early
    )
    require(
        event.as_registered is not True or registered is True,
        "the result isn't as registered: outcomes existed before, the protocol was amended, or the"
        " arms were unblinded early",
        where=known.name,
    )
    _check_basis(known, entry, event.basis)
    known.result = ResultNote(
        seq=entry.seq,
        verdict=event.verdict,
        reason_code=event.reason_code,
        stopped_by=event.stopped_by,
    )


def _is_end(known: Experiment, event: Result) -> bool:
    """Returns whether what the result says ended the experiment is true."""
    match event.stopped_by:
        case "last_look":
            return len(known.taken) == len(known.looks)
        case "boundary":
            return is_crossed_for_good(known)
        case "ceiling" | "wall_time":
            return not is_final(known) and known.last_stop == event.stopped_by
        case "person":
            return not is_final(known)


def _may_conclude(known: Experiment, event: Result) -> bool:
    """Returns whether a verdict other than inconclusive may stand."""
    # What a sealed look crossed before a run went on only its numbers say, which replay computes.
    if is_final(known) or any(look.crossed or look.sealed for look in known.taken):
        return True
    return event.stopped_by != "person" and may_analyse(known)


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
        not is_ended(known),
        "the experiment has ended, and nothing that it rests on changes any more",
        where=known.name,
        todo="say beside the result which outcome is in doubt, and why; what counts is then a new"
        " experiment: ledger register PROTOCOL",
    )
    slots, position = known.slots, event.position
    require(
        slots is not None and position <= len(slots) and slots.status[position] > 0,
        "only a settled outcome can be invalidated",
        where=f"{known.name} position {position}",
    )
    assert slots is not None
    require(
        position not in known.invalidated,
        "this outcome was declared invalid before",
        where=f"{known.name} position {position}",
    )
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
    require(is_blinded(known), "the arms aren't blinded", where=known.name)
    names = [arm.name for arm in event.arms]
    require(
        sorted(names) == sorted(arm.name for arm in known.arms)
        and len({arm.arm for arm in event.arms}) == len(names),
        "unblinding opens every commitment, each to an arm of its own",
        where=known.name,
    )
    require(
        is_idle(known),
        "a run is going on or an attempt is open",
        where=known.name,
    )
    require(due_look(known) is None, "a look is due", where=known.name, todo="ledger look")
    _check_opened(known, event)
    known.unblind_seq = entry.seq
    known.unblinded_early = is_early(
        known.taken[-1].continues if known.taken else None,
        withdrawn=known.withdrawn_seq is not None,
    )
    known.counters["unblind"] = event.number
    known.last_change = entry.seq


def _check_opened(known: Experiment, event: Unblind) -> None:
    """Checks each opened arm against the commitment that the freeze made for its label."""
    made = {arm.name: arm.commitment for arm in known.arms}
    for arm in event.arms:
        require(
            made[arm.name] == commitment(known.name, arm.name, arm.arm, arm.salt),
            f"what is opened isn't what was committed to: arm {arm.name}",
            where=f"{known.name} arm {arm.name}",
            todo="open it with the name and the salt that the freeze kept",
        )


HANDLERS = {
    "look": _look,
    "result": _result,
    "withdraw": _withdraw,
    "reanalysis": _reanalysis,
    "invalidate": _invalidate,
    "unblind": _unblind,
}
