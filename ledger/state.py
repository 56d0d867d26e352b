"""The state that the fold keeps, and the questions that its rules ask of it.

Leaves what may follow to `fold.py` and the rule modules; how a slot fares to `slots.py`.

Rules:
- A state is a value for whoever reads it; only the fold advances it.
- Final = a crossing that stops, or the last look taken. Ended = result or withdrawn.
  Live = newest session, not stopped. Idle = newest session stopped (or none), no attempt open.
- A slot is (experiment, position, kind, number) and holds one event.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Protocol

import msgspec

from .errors import TransitionError
from .events import (
    Amend,
    Blob,
    Event,
    FrozenArm,
    LookPlan,
    Register,
    Rules,
    event_kind,
)
from .slots import Slots

__all__ = (
    "LEDGER_WIDE",
    "ONCE",
    "PLACED",
    "STREAK_MAX",
    "AmendNote",
    "ArmTally",
    "Experiment",
    "LookTaken",
    "LostAttempt",
    "PlanColumns",
    "PlanReader",
    "ResultNote",
    "Signature",
    "State",
    "due_look",
    "experiment_of",
    "is_blinded",
    "is_crossed_for_good",
    "is_ended",
    "is_final",
    "is_idle",
    "is_taken",
    "newest_protocol",
    "next_look_last",
    "next_number",
    "require",
    "slot_text",
    "slots_of",
)

STREAK_MAX = 5
# Kinds that fill their slot once, with number 0.
ONCE = frozenset({"open", "register", "freeze", "decision", "result", "withdraw", "close"})
# Kinds whose slot has a position.
PLACED = frozenset({"attempt", "attempt_end", "decision", "settle", "invalidate"})
# Kinds that belong to the whole ledger.
LEDGER_WIDE = frozenset(
    {"open", "adopt", "import", "anchor", "key", "recover", "redact", "sign", "close"}
)


class PlanColumns(Protocol):
    """The frozen run order as columns; entry i belongs to position i+1."""

    @property
    def units(self) -> Sequence[str]:
        """Unit ids."""
        ...

    @property
    def arms(self) -> Sequence[str]:
        """Arm names."""
        ...

    @property
    def replicates(self) -> Sequence[int]:
        """Replicates, from 1."""
        ...


# Reads the plan blob of a freeze; None when its bytes aren't at hand.
PlanReader = Callable[[Blob], PlanColumns | None]


class AmendNote(msgspec.Struct, frozen=True, kw_only=True):
    """One amendment, as later reports list it."""

    seq: int
    class_: str
    sections: tuple[str, ...]
    fields: tuple[str, ...]
    outcomes: int
    looks_taken: int
    reason: str


class LookTaken(msgspec.Struct, frozen=True, kw_only=True):
    """One look taken: where, and whether the run goes on."""

    seq: int
    last: int
    continues: bool
    crossed: bool
    sealed: bool = False  # what it crossed isn't said


class LostAttempt(msgspec.Struct, kw_only=True):
    """An attempt that ended without its own word on cost; `settled` once a person corrected it."""

    seq: int
    number: int
    arm: int
    charged: int
    settled: bool = False


class ArmTally(msgspec.Struct, kw_only=True):
    """Running sums of one arm.

    `unpriced` counts attempts that were charged their reservation for want of a price and that
    nobody can settle; `streak` holds the positions of the failing streak.
    """

    spent_nanousd: int = 0
    unpriced: int = 0
    reserved_nanousd: int = 0
    calls: int = 0
    tokens: int = 0
    open: int = 0
    good_seq: int = -1
    streak: list[int] = []


class ResultNote(msgspec.Struct, frozen=True, kw_only=True):
    """The verdict on record."""

    seq: int
    verdict: str
    reason_code: str
    stopped_by: str


class Experiment(msgspec.Struct, kw_only=True):
    """Everything the rules need to know of one experiment."""

    name: str
    register_seq: int
    protocol: Blob
    resolved: Blob
    sections: dict[str, str]
    plan_seq: int  # newest register or amend
    media: str
    supersedes: str | None = None
    superseded_by: str | None = None
    freeze_seq: int | None = None
    plan_blob: Blob | None = None
    units_blob: Blob | None = None
    files_blob: Blob | None = None
    unit_count: int = 0
    cluster_count: int = 0
    arms: tuple[FrozenArm, ...] = ()
    rules: Rules | None = None
    looks: tuple[LookPlan, ...] = ()
    slots: Slots | None = None
    tallies: list[ArmTally] = []
    sessions: int = 0
    live: bool = False
    nonces: set[str] = set()
    last_stop: str | None = None
    last_stop_time: str = ""
    start_time: str = ""
    seen_time: str = ""  # newest event of the newest session
    ran_seconds: float = 0.0  # of sessions before the live one
    settled: int = 0
    open: int = 0
    last_change: int = -1  # newest entry that a basis has to cover
    budget_moved: bool = False  # amended after the first attempt
    taken: list[LookTaken] = []
    amends: list[AmendNote] = []
    lost: dict[int, list[LostAttempt]] = {}
    invalidated: dict[int, int] = {}
    unblind_seq: int | None = None
    unblinded_early: bool = False
    seals: set[str] = set()  # SHA-256 of the sealed blobs of looks
    result: ResultNote | None = None
    withdrawn_seq: int | None = None
    refusals: set[str] = set()
    counters: dict[str, int] = {}


class Signature(msgspec.Struct, frozen=True, kw_only=True):
    """One person's signature over an entry."""

    seq: int
    subject: int
    role: str
    meaning: str


class State(msgspec.Struct, kw_only=True):
    """The fold of a whole ledger up to `size` entries."""

    size: int = 0
    ledger: str = ""
    tool: str = ""
    schemas: str = ""
    closed: bool = False
    vkey: str | None = None
    anchored: dict[str, int] = {}  # level -> largest size covered
    signatures: list[Signature] = []
    erased: dict[str, int] = {}  # SHA-256 of erased blobs -> the entry that says so
    kept: set[str] = set()  # SHA-256 of blobs that the record needs
    imported_seq: int = -1  # newest import
    experiments: dict[str, Experiment] = {}
    counters: dict[str, int] = {}


def require(condition: bool, what: str, *, where: str = "", todo: str = "") -> None:
    """Raises a TransitionError unless the condition holds."""
    if not condition:
        raise TransitionError(what, where=where, todo=todo)


def slot_text(event: Event) -> str:
    """Returns a slot in words."""
    parts = [event.experiment or "ledger", event_kind(event)]
    if event.position:
        parts.append(f"position {event.position}")
    if event.number:
        parts.append(f"number {event.number}")
    return " ".join(parts)


def next_number(state: State, kind: str, experiment: str, position: int = 0) -> int:
    """Returns the number that the next event of this kind and place has to carry."""
    if kind in ONCE:
        return 0
    if experiment == "":
        return state.counters.get(kind, 0) + 1
    known = state.experiments.get(experiment)
    if known is None:
        return 1
    if kind == "stop":
        return known.sessions
    slots = known.slots
    if kind in PLACED and (slots is None or not 0 < position <= len(slots)):
        return 1
    if kind == "attempt":
        assert slots is not None
        return slots.attempts[position] + 1
    if kind == "attempt_end":
        assert slots is not None
        return slots.attempts[position]
    if kind == "settle":
        return sum(one.settled for one in known.lost.get(position, ())) + 1
    if kind == "invalidate":
        return (position in known.invalidated) + 1
    return known.counters.get(kind, 0) + 1


def is_taken(state: State, kind: str, event: Event, expected: int) -> bool:
    """Returns whether the slot of an event holds one for certain.

    A `stop` of a fenced session and an `attempt_end` of a settled slot may be on record or not;
    what the state keeps doesn't tell, and both are refused either way.

    Args:
        state: The fold so far.
        kind: The event's kind.
        event: The event.
        expected: The number that the next event of this kind and place carries.
    """
    known = state.experiments.get(event.experiment)
    if kind in ONCE:
        return _is_taken_once(state, kind, known, event.position)
    if kind == "stop":
        return known is not None and 0 < event.number == expected and not known.live
    if kind == "attempt_end" and 0 < event.number == expected:
        slots, position = known.slots if known is not None else None, event.position
        if slots is None or not 0 < position <= len(slots):
            return False
        return not slots.is_open[position] and not slots.status[position]
    return 0 < event.number < expected


def _is_taken_once(state: State, kind: str, known: Experiment | None, position: int) -> bool:
    match kind:
        case "decision":
            slots = known.slots if known is not None else None
            return slots is not None and position <= len(slots) and slots.status[position] > 0
        case "open":
            return state.size > 0
        case "close":
            return state.closed
        case "register":
            return known is not None
        case "freeze":
            return known is not None and known.freeze_seq is not None
        case "result":
            return known is not None and known.result is not None
        case _:
            return known is not None and known.withdrawn_seq is not None


def experiment_of(state: State, event: Event) -> Experiment:
    """Returns the experiment of an event.

    Raises:
        TransitionError: It isn't registered.
    """
    known = state.experiments.get(event.experiment)
    if known is None:
        raise TransitionError(
            "the experiment isn't registered",
            where=event.experiment,
            todo="ledger register PROTOCOL",
        )
    return known


def is_final(known: Experiment) -> bool:
    """Returns whether no further outcome may come: a stopping crossing, or the last look taken."""
    taken = known.taken
    return bool(taken) and (not taken[-1].continues or len(taken) == len(known.looks))


def is_ended(known: Experiment) -> bool:
    """Returns whether the experiment has a result or was withdrawn."""
    return known.result is not None or known.withdrawn_seq is not None


def is_crossed_for_good(known: Experiment) -> bool:
    """Returns whether the newest look crossed a boundary and stopped the experiment."""
    return bool(known.taken) and known.taken[-1].crossed and not known.taken[-1].continues


def is_blinded(known: Experiment) -> bool:
    """Returns whether arms stand under commitments that aren't opened."""
    return known.unblind_seq is None and any(arm.commitment is not None for arm in known.arms)


def is_idle(known: Experiment) -> bool:
    """Returns whether no session is live and no attempt open."""
    return not known.live and known.open == 0


def next_look_last(known: Experiment) -> int:
    """Returns the last position before the next untaken look; 0 when no outcome may come."""
    taken, looks = known.taken, known.looks
    if len(taken) == len(looks) or (taken and not taken[-1].continues):
        return 0
    return looks[len(taken)].last


def due_look(known: Experiment) -> int | None:
    """Returns the number of the look whose slots are all settled and which isn't taken."""
    last = next_look_last(known)
    if not last or known.slots is None or is_ended(known):
        return None
    start = known.taken[-1].last + 1 if known.taken else 1
    if known.slots.status.find(0, start, last + 1) != -1:
        return None
    return len(known.taken) + 1


def slots_of(known: Experiment) -> Slots:
    """Returns the slots of an experiment.

    Raises:
        TransitionError: It isn't frozen, so there are none.
    """
    if known.slots is None:
        raise TransitionError("the experiment isn't frozen", where=known.name, todo="ledger freeze")
    return known.slots


def newest_protocol(known: Experiment, event: Register | Amend, seq: int) -> None:
    """Makes the protocol of a register or amend the one in force."""
    known.protocol, known.resolved = event.protocol, event.resolved
    known.sections = dict(event.sections)
    known.plan_seq = seq
