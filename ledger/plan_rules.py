"""Rules of the plan: open, adopt, register, freeze, amend.

Part of the fold (`fold.py`). Leaves the protocol's meaning to the engine: here a section is a name
and a digest.

Rules:
- Sections `identity`, `units`, `design`, `arms.*` and `scoring` never change after the freeze.
- An amendment's class follows from the sections it touches: any of the rest makes it `analysis`,
  else `budget` makes it `operational`, else it is `text`.
- What an amendment changes belongs to its class: only `analysis` touches looks and rules other than
  ceilings, and `text` touches neither.
- Looks already taken never change; those to come end at or after the highest touched slot.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal, TypeAlias, cast

from .entry import Entry
from .errors import NewerError, PlanMissingError
from .events import Adopt, Amend, Event, Freeze, LookPlan, Open, Register, Rules
from .kept_blobs import check_unerased, keep_blobs
from .slots import Slots, new_slots
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
from .tries import ATTEMPTS_MAX

__all__ = ("FORMAT", "HANDLERS", "AmendClass", "amend_class", "changed_sections", "is_fixed")

FORMAT = "fairtrial/1"

AmendClass: TypeAlias = Literal["operational", "text", "analysis"]

# What of the rules belongs to the section `budget`.
_CEILINGS = ("usd_nanousd", "calls", "tokens", "wall_seconds", "arms")


def _open(state: State, entry: Entry, event: Event, plan_of: PlanReader) -> None:
    event = cast("Open", event)
    if event.format != FORMAT:
        raise NewerError(
            "the ledger has a format that this tool doesn't know",
            where="entry 0",
            expected=FORMAT,
            found=event.format,
            todo="use the newer tool",
        )
    state.ledger = entry.ledger
    state.tool, state.schemas, state.vkey = event.tool, event.schemas, event.vkey


def _adopt(state: State, entry: Entry, event: Event, plan_of: PlanReader) -> None:
    event = cast("Adopt", event)
    require(
        event.schemas != state.schemas or event.tool != state.tool, "this tool already writes here"
    )
    state.tool, state.schemas = event.tool, event.schemas
    state.counters["adopt"] = event.number


def _register(state: State, entry: Entry, event: Event, plan_of: PlanReader) -> None:
    event = cast("Register", event)
    if event.supersedes is not None:
        old = state.experiments.get(event.supersedes)
        require(
            old is not None and old.withdrawn_seq is not None and old.superseded_by is None,
            "what is superseded must be withdrawn and not yet superseded",
            where=event.supersedes,
            todo="ledger withdraw first",
        )
    blobs = (event.protocol, event.resolved, event.files)
    check_unerased(state, *blobs)
    keep_blobs(state, *blobs)
    if event.supersedes is not None:
        state.experiments[event.supersedes].superseded_by = event.experiment
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
    blobs = (event.plan, event.units, event.files, event.power, *(a.identity for a in event.arms))
    check_unerased(state, *blobs)
    plan = plan_of(event.plan)
    if plan is None:
        raise PlanMissingError(event.plan.blake3)
    names = [arm.name for arm in event.arms]
    require(len(set(names)) == len(names), "arms have names of their own", where=known.name)
    require(
        len(plan.arms) == event.slot_count,
        "the plan has as many lines as slots",
        where=known.name,
    )
    require(set(plan.arms) <= set(names), "the plan holds only the frozen arms", where=known.name)
    _check_looks(known, event.looks, event.slot_count)
    _check_rules(known, event.rules)
    _check_blinding(known, event)
    keep_blobs(state, *blobs)
    # What an arm is made of stands in these blobs with the salts: without them nothing is opened.
    known.seals |= {arm.identity.sha256 for arm in event.arms if arm.commitment is not None}
    index = {name: number for number, name in enumerate(names)}
    known.freeze_seq = entry.seq
    known.plan_blob, known.units_blob, known.files_blob = event.plan, event.units, event.files
    known.unit_count, known.cluster_count = event.unit_count, event.cluster_count
    known.arms, known.rules, known.looks = event.arms, event.rules, event.looks
    known.slots = new_slots(bytes(index[name] for name in plan.arms))
    known.tallies = [ArmTally() for _ in names]
    known.last_change = entry.seq


def _check_rules(known: Experiment, rules: Rules) -> None:
    require(
        1 <= rules.attempts_max <= ATTEMPTS_MAX,
        f"a slot is tried 1 to {ATTEMPTS_MAX} times",
        where=known.name,
    )


def _check_blinding(known: Experiment, event: Freeze) -> None:
    """Checks that no arm of a blinded experiment can be told by what it reserves."""
    blinded = [arm for arm in event.arms if arm.commitment is not None]
    require(
        not blinded
        or (
            len(blinded) == len(event.arms)
            and len({arm.reserve_nanousd for arm in event.arms}) == 1
        ),
        "blinded arms all have a commitment and the same reservation",
        where=known.name,
    )


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


def amend_class(sections: Sequence[str]) -> AmendClass:
    """Returns the class of an amendment that touches these sections; the gravest wins."""
    rest = [s for s in sections if s not in ("about", "budget")]
    return "analysis" if rest else "operational" if "budget" in sections else "text"


def _amend(state: State, entry: Entry, event: Event, plan_of: PlanReader) -> None:
    event = cast("Amend", event)
    known = experiment_of(state, event)
    changed = changed_sections(known, event.sections)
    _check_amend(known, event, changed)
    _check_amended(known, event)
    check_unerased(state, event.protocol, event.resolved)
    keep_blobs(state, event.protocol, event.resolved)
    if "budget" in changed and any(tally.calls for tally in known.tallies):
        known.budget_moved = True
    newest_protocol(known, event, entry.seq)
    known.rules = known.rules if event.rules is None else event.rules
    known.looks = known.looks if event.looks is None else event.looks
    known.last_change = entry.seq
    known.counters["amend"] = event.number
    known.amends.append(
        AmendNote(
            seq=entry.seq,
            class_=event.class_,
            sections=changed,
            fields=event.fields,
            outcomes=event.outcomes,
            looks_taken=event.looks_taken,
            reason=event.reason,
        )
    )


def _check_amend(known: Experiment, event: Amend, changed: tuple[str, ...]) -> None:
    """Checks that this amendment may stand now and says what it is."""
    require(not is_ended(known), "the experiment has ended", where=known.name)
    require(
        event.subject.seq == known.plan_seq,
        "an amendment amends the newest protocol",
        where=known.name,
    )
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
    require(
        (event.rules is None and event.looks is None) or frozen,
        "rules and looks change only after the freeze",
        where=known.name,
    )
    if class_ == "analysis":
        require(is_idle(known), "a run is going on", where=known.name, todo="stop it first")
        require(due_look(known) is None, "a look is due", where=known.name, todo="ledger look")
        require(
            not is_final(known),
            "the data are complete, and what bears on numbers changes before that or never",
            where=known.name,
            todo="ledger result",
        )


def _check_amended(known: Experiment, event: Amend) -> None:
    """Checks that rules and looks change only as far as the class of the amendment goes."""
    if event.rules is not None and known.rules is not None:
        _check_amended_rules(known, known.rules, event.rules, event.class_)
    if event.looks is not None and known.slots is not None:
        require(
            event.class_ == "analysis" or event.looks == known.looks,
            f"an amendment of class {event.class_} leaves the looks alone",
            where=known.name,
        )
        _check_amended_looks(known, event.looks, known.slots)


def _check_amended_rules(known: Experiment, old: Rules, new: Rules, class_: str) -> None:
    _check_rules(known, new)
    changed = {n for n in Rules.__struct_fields__ if getattr(old, n) != getattr(new, n)}
    beyond = {
        "text": changed,
        "operational": changed - set(_CEILINGS),
        "analysis": changed & {"on_crossing"} if any(x.crossed for x in known.taken) else set(),
    }[class_]
    require(
        not beyond,
        f"an amendment of class {class_} can't change {', '.join(sorted(beyond))} now",
        where=known.name,
        todo="what a crossing does stays as it was at the crossing" if class_ == "analysis" else "",
    )


def _check_amended_looks(known: Experiment, looks: tuple[LookPlan, ...], slots: Slots) -> None:
    _check_looks(known, looks, len(slots))
    taken = len(known.taken)
    require(
        looks[:taken] == known.looks[:taken],
        "looks already taken don't change",
        where=known.name,
    )
    touched = slots.highest_touched()
    require(
        all(look.last >= touched for look in looks[taken:]),
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
