"""Rules of the plan: open, adopt, register, freeze, amend.

Part of the fold (`fold.py`). Leaves the protocol's meaning to the engine: here a section is a
name and
a digest.

Rules:
- Sections `identity`, `units`, `design`, `arms.*` and `scoring` never change after the freeze.
- An amendment's class follows from the sections it touches: any of the rest makes it `analysis`,
  else
  `budget` makes it `operational`, else it is `text`.
- Looks already taken never change; those to come end at or after the highest touched slot.
"""

from __future__ import annotations

from typing import cast

from .entry import Entry
from .errors import TransitionError
from .events import Adopt, Amend, Event, Freeze, LookPlan, Open, Register
from .slots import new_slots
from .state import (
    AmendNote,
    ArmTally,
    Experiment,
    PlanReader,
    State,
    due_look,
    experiment_of,
    is_ended,
    is_final,
    is_idle,
    newest_protocol,
    require,
)

__all__ = ("HANDLERS", "amend_class", "changed_sections", "is_fixed")


def _open(state: State, entry: Entry, event: Event, plan_of: PlanReader) -> None:
    event = cast("Open", event)
    state.ledger = entry.ledger
    state.tool, state.schemas, state.vkey = event.tool, event.schemas, event.vkey


def _adopt(state: State, entry: Entry, event: Event, plan_of: PlanReader) -> None:
    event = cast("Adopt", event)
    require(not state.closed, "the ledger is closed")
    require(
        event.schemas != state.schemas or event.tool != state.tool, "this tool already writes here"
    )
    state.tool, state.schemas = event.tool, event.schemas
    state.counters["adopt"] = event.number


def _register(state: State, entry: Entry, event: Event, plan_of: PlanReader) -> None:
    event = cast("Register", event)
    require(not state.closed, "the ledger is closed")
    if event.supersedes is not None:
        old = state.experiments.get(event.supersedes)
        require(
            old is not None and old.withdrawn_seq is not None and old.superseded_by is None,
            "what is superseded must be withdrawn and not yet superseded",
            where=event.supersedes,
            todo="ledger withdraw first",
        )
        assert old is not None
        old.superseded_by = event.experiment
    state.experiments[event.experiment] = Experiment(
        name=event.experiment,
        register_seq=entry.seq,
        protocol=event.protocol,
        resolved=event.resolved,
        sections=dict(event.sections),
        plan_seq=entry.seq,
        media=event.media,
        supersedes=event.supersedes,
    )


def _freeze(state: State, entry: Entry, event: Event, plan_of: PlanReader) -> None:
    event = cast("Freeze", event)
    known = experiment_of(state, event)
    require(not is_ended(known), "the experiment has ended", where=known.name)
    plan = plan_of(event.plan)
    if plan is None:
        raise TransitionError(
            "the plan isn't at hand",
            where=known.name,
            todo="put the blobs folder back beside the ledger",
        )
    names = [arm.name for arm in event.arms]
    require(len(set(names)) == len(names) > 0, "arms have names of their own", where=known.name)
    require(
        len(plan.arms) == event.slot_count > 0,
        "the plan has as many lines as slots",
        where=known.name,
    )
    require(set(plan.arms) <= set(names), "the plan holds only the frozen arms", where=known.name)
    _check_looks(known, event.looks, event.slot_count)
    index = {name: number for number, name in enumerate(names)}
    known.freeze_seq = entry.seq
    known.plan_blob, known.units_blob, known.files_blob = event.plan, event.units, event.files
    known.unit_count, known.cluster_count = event.unit_count, event.cluster_count
    known.arms, known.rules, known.looks = event.arms, event.rules, event.looks
    known.slots = new_slots([index[name] for name in plan.arms])
    known.tallies = [ArmTally() for _ in names]


def _check_looks(known: Experiment, looks: tuple[LookPlan, ...], slot_count: int) -> None:
    lasts = [look.last for look in looks]
    require(
        bool(lasts) and lasts == sorted(set(lasts)) and lasts[0] > 0 and lasts[-1] == slot_count,
        "looks rise and the last one ends at the last slot",
        where=known.name,
    )


def changed_sections(known: Experiment, sections: dict[str, str]) -> tuple[str, ...]:
    """Returns the names of the sections whose digests differ from those in force, sorted."""
    names = known.sections.keys() | sections.keys()
    return tuple(sorted(n for n in names if known.sections.get(n) != sections.get(n)))


def is_fixed(section: str) -> bool:
    """Returns whether a section can't change after the freeze."""
    return section in ("identity", "units", "design", "scoring") or section.startswith("arms.")


def amend_class(sections: tuple[str, ...]) -> str:
    """Returns the class of an amendment that touches these sections."""
    rest = [s for s in sections if s not in ("about", "budget")]
    return "analysis" if rest else "operational" if "budget" in sections else "text"


def _amend(state: State, entry: Entry, event: Event, plan_of: PlanReader) -> None:
    event = cast("Amend", event)
    known = experiment_of(state, event)
    require(not is_ended(known), "the experiment has ended", where=known.name)
    require(
        event.subject.seq == known.plan_seq,
        "an amendment amends the newest protocol",
        where=known.name,
    )
    changed = changed_sections(known, event.sections)
    class_ = amend_class(changed)
    frozen = known.freeze_seq is not None
    fixed = [s for s in changed if is_fixed(s)]
    require(
        not (frozen and fixed),
        f"fixed after the freeze: {', '.join(fixed)}",
        where=known.name,
        todo="withdraw, and register a new experiment that supersedes it",
    )
    require(
        event.class_ == class_,
        f"the sections make this an amendment of class {class_}",
        where=known.name,
    )
    require(
        event.outcomes == known.settled and event.looks_taken == len(known.taken),
        "an amendment states how many outcomes and looks there were",
        where=known.name,
    )
    if class_ == "analysis":
        require(is_idle(known), "a run is going on", where=known.name, todo="stop it first")
        require(
            due_look(known) is None and not is_final(known),
            "a look is due or the data are complete",
            where=known.name,
            todo="ledger look",
        )
    require(
        (event.rules is None and event.looks is None) or frozen,
        "rules and looks change only after the freeze",
        where=known.name,
    )
    _check_amended(known, event)
    newest_protocol(known, event, entry.seq)
    if event.rules is not None:
        known.rules = event.rules
    if event.looks is not None:
        known.looks = event.looks
    if class_ == "analysis":
        known.last_change = entry.seq
    known.counters["amend"] = event.number
    known.amends.append(
        AmendNote(
            seq=entry.seq,
            class_=class_,
            sections=changed,
            fields=event.fields,
            outcomes=event.outcomes,
            looks_taken=event.looks_taken,
            reason=event.reason,
        )
    )


def _check_amended(known: Experiment, event: Amend) -> None:
    """Checks that looks taken stay and that a crossing's effect isn't changed after it."""
    if (
        event.rules is not None
        and known.rules is not None
        and any(look.crossed for look in known.taken)
    ):
        require(
            event.rules.on_crossing == known.rules.on_crossing,
            "what a crossing does can't change after one",
            where=known.name,
        )
    if event.looks is None or known.slots is None:
        return
    _check_looks(known, event.looks, len(known.slots))
    taken = len(known.taken)
    require(
        event.looks[:taken] == known.looks[:taken],
        "looks already taken don't change",
        where=known.name,
    )
    touched = known.slots.highest_touched()
    require(
        all(look.last >= touched for look in event.looks[taken:]),
        "a look to come ends at or after the highest attempted slot",
        where=known.name,
    )


HANDLERS = {
    "open": _open,
    "adopt": _adopt,
    "register": _register,
    "freeze": _freeze,
    "amend": _amend,
}
