"""The present state of an experiment in counts, as `ledger status` shows it.

Leaves forecasts of time to the run's own display; writes nothing.

Rules:
- planned = settled + pending + not_run; in_flight and failing are parts of pending.
- `running` is said only while another process holds the run lock.
- It comes from the folded ledger alone and says from how many entries it was read on; the spend of
  arms that were unblinded comes from what was sealed (`spending.py`).
- While arms are blinded there is no number of an arm, and spend is what was reserved.
- What of the spend is a reservation, for want of a price, is told apart: of attempts that reported
  none, which stays so, and of lost ones, which a person can settle.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence

import msgspec

from fairtrial.custody.blinding import shown_names
from fairtrial.custody.trial import Reader, Trial
from fairtrial.custody.waiting import waiting_for
from fairtrial.ledger.ceilings import ceiling_reached, is_out_of_time
from fairtrial.ledger.deviations import (
    amended_sections,
    existed_before,
    is_as_registered,
    origins_of,
)
from fairtrial.ledger.events import Origin, Rules, Start, Stop
from fairtrial.ledger.locks import lock_holder, run_lock_path
from fairtrial.ledger.state import (
    STREAK_MAX,
    Experiment,
    due_look,
    is_blinded,
    is_ended,
    is_final,
)
from fairtrial.protocols.terms import terms_of

from .spending import KeptReservations, spend_of

__all__ = (
    "ArmStatus",
    "LookCount",
    "Status",
    "arm_origins",
    "next_command",
    "state_word",
    "status_of",
)


class LookCount(msgspec.Struct, frozen=True, kw_only=True):
    """How many looks are taken of how many planned."""

    taken: int
    planned: int


class HeadStatus(msgspec.Struct, frozen=True, kw_only=True):
    """The head that this status was read at."""

    size: int
    root: str


class ArmStatus(msgspec.Struct, frozen=True, kw_only=True):
    """Counts and money of one arm."""

    settled: int
    planned: int
    statuses: dict[str, int]
    attempts: int
    spent_usd: float
    reserved_usd: float


class SessionNote(msgspec.Struct, frozen=True, kw_only=True):
    """Where the newest session runs or ran, and what it said when it stopped."""

    number: int
    host: str
    stopped: str | None
    note: str | None


class Status(msgspec.Struct, frozen=True, kw_only=True):
    """The JSON of `ledger status`, version 1."""

    v: int
    experiment: str
    state: str
    planned: int
    settled: int
    pending: int
    failing: int
    in_flight: int
    not_run: int
    spent_usd: float
    reserved_usd: float
    unpriced: KeptReservations | None
    unsettled: KeptReservations | None
    expected_usd: float | None
    ceiling_usd: float | None
    looks: LookCount
    look_fractions: tuple[float, ...]
    look_clusters: tuple[int, ...]
    next_look_last: int | None
    waiting_for_look: int
    blinded: bool
    unblinded_early: bool
    statuses: dict[str, int]
    arms: dict[str, ArmStatus]
    sessions: int
    last_stop: str | None
    session: SessionNote | None
    running: str | None
    as_registered: bool | None
    existed_before: tuple[str, ...]
    amended: tuple[str, ...]
    amendments: tuple[str, ...]
    verdict: str | None
    refusals: int
    head: HeadStatus
    ledger_closed: bool
    receipt: str
    receipt_kept: int | None
    folded_from: int
    waiting: tuple[str, ...]
    ceiling: str
    next: str


def state_word(known: Experiment, *, running: bool) -> str:
    """Returns the state of an experiment, one of the closed list of DESIGN.md, section 9."""
    if known.result is not None:
        return "closed"
    if known.withdrawn_seq is not None:
        return "withdrawn"
    if known.freeze_seq is None:
        return "registered"
    if running:
        return "running"
    if is_final(known):
        return "complete"
    if due_look(known) is not None:
        return "look_due"
    if known.sessions == 0:
        return "frozen"
    if known.live or known.last_stop in ("interrupted", "terminated", "crashed"):
        return "interrupted"
    return "unfinished"


def next_command(known: Experiment, word: str, several: str) -> str:
    """Returns the command that goes on from a state, "" where there is none.

    Args:
        known: The experiment.
        word: Its state.
        several: The name to give, or "".
    """
    field = _ceiling_field(known) if word == "unfinished" else ""
    name = f" {several}" if several else ""
    if field:
        value = {"usd": "AMOUNT", "wall_seconds": "SECONDS"}.get(field.rpartition(".")[2], "NUMBER")
        return f"ledger amend{name} --set {field}={value} --reason TEXT"
    verb = {
        "registered": "ledger freeze",
        "frozen": "ledger run",
        "running": "ledger status",
        "interrupted": "ledger run",
        "look_due": "ledger run",
        "unfinished": "ledger run",
        "complete": "ledger unblind --reason TEXT" if is_blinded(known) else "ledger result",
        "closed": "ledger result",
        "withdrawn": _successor(known),
    }[word]
    if verb.startswith("ledger unblind"):
        return f"ledger unblind{name} --reason TEXT"
    return verb if word == "withdrawn" else f"{verb}{name}"


def arm_origins(reader: Reader, known: Experiment) -> Mapping[str, Origin]:
    """Returns where each arm's outcomes come from: as frozen, before that as registered."""
    if known.freeze_seq is not None:
        return origins_of(known)
    return {name: one.origin for name, one in terms_of(reader.protocol(known)).items()}


def _successor(known: Experiment) -> str:
    """Returns the command that puts a plan in the place of a withdrawn one; "" where one is."""
    return "" if known.superseded_by else f"ledger register PROTOCOL --supersedes {known.name}"


def _ceiling_usd(known: Experiment) -> float | None:
    ceiling = known.rules.usd_nanousd if known.rules is not None else None
    return None if ceiling is None else ceiling / 1e9


def _ceiling_field(known: Experiment) -> str:
    """Returns the field of a ceiling that a run would stop at again; "" when it would go on."""
    if known.last_stop == "wall_time":
        assert known.rules is not None
        return _time_field(known.rules) if is_out_of_time(known, "") else ""
    return ceiling_reached(known) if known.last_stop == "ceiling" else ""


def _time_field(rules: Rules) -> str:
    """Returns the field of the shortest ceiling of time."""
    limits = {"budget.wall_seconds": rules.wall_seconds}
    limits |= {f"budget.arms.{n}.wall_seconds": own.wall_seconds for n, own in rules.arms.items()}
    given = {field: limit for field, limit in limits.items() if limit is not None}
    return min(given, key=given.__getitem__)


def status_of(trial: Trial, known: Experiment) -> Status:
    """Returns the counts of an experiment."""
    holder = lock_holder(run_lock_path(trial.path, known.name))
    word = state_word(known, running=holder is not None)
    planned = len(known.slots) if known.slots is not None else 0
    over = is_ended(known) or is_final(known)
    not_run = planned - known.settled if over else 0
    blinded, names = is_blinded(known), shown_names(trial, known)
    origins, early = arm_origins(trial, known), known.unblinded_early
    spent, unpriced, unsettled = spend_of(trial, known)
    arms = _arms(known, names, spent)
    head = trial.log.head()
    waiting = waiting_for(trial.log.state, known)
    several = known.name if len(trial.log.state.experiments) > 1 else ""
    last = known.looks[len(known.taken)].last if not over and known.looks else None
    return Status(
        v=1,
        experiment=known.name,
        state=word,
        planned=planned,
        settled=known.settled,
        pending=planned - known.settled - not_run,
        failing=sum(len(t.streak) for t in known.tallies if len(t.streak) >= STREAK_MAX),
        in_flight=known.open,
        not_run=not_run,
        spent_usd=sum(spent) / 1e9,
        reserved_usd=sum(tally.reserved_nanousd for tally in known.tallies) / 1e9,
        unpriced=None if blinded else unpriced,
        unsettled=None if blinded else unsettled,
        expected_usd=_expected_usd(known, arms.values(), spent),
        ceiling_usd=_ceiling_usd(known),
        looks=LookCount(taken=len(known.taken), planned=len(known.looks)),
        look_fractions=tuple(look.tests[0].fraction for look in known.looks),
        look_clusters=tuple(look.clusters for look in known.looks),
        next_look_last=last,
        waiting_for_look=_waiting(known, last),
        blinded=blinded,
        unblinded_early=early,
        statuses=_statuses(arms.values()),
        arms={} if blinded else arms,
        sessions=known.sessions,
        last_stop=known.last_stop,
        session=_session_note(trial, known),
        running=holder.text() if holder is not None else None,
        as_registered=is_as_registered(origins, known.amends, unblinded_early=early),
        existed_before=tuple(sorted(names.get(arm, arm) for arm in existed_before(origins))),
        amended=amended_sections(known.amends),
        amendments=tuple(sorted({name for one in known.amends for name in one.sections})),
        verdict=known.result.verdict if known.result is not None else None,
        refusals=len(known.refusals),
        head=HeadStatus(size=head.size, root=head.root),
        ledger_closed=trial.log.state.closed,
        receipt=trial.receipt(),
        receipt_kept=_receipt_kept(trial),
        folded_from=trial.log.folded_from,
        waiting=tuple(one.what for one in waiting),
        ceiling=_ceiling_field(known) if word == "unfinished" else "",
        next=waiting[0].todo if waiting else next_command(known, word, several),
    )


def _arms(
    known: Experiment, names: Mapping[str, str], spent: Sequence[int]
) -> dict[str, ArmStatus]:
    """Returns the counts of each arm under the name that may be shown."""
    return {
        names[arm.name]: _arm_status(known, index, spent[index])
        for index, arm in enumerate(known.arms)
    }


def _session_note(trial: Trial, known: Experiment) -> SessionNote | None:
    number = known.sessions
    start = trial.log.find(known.name, "start", number=number) if number else None
    if not isinstance(start, Start):
        return None
    stop = None if known.live else trial.log.find(known.name, "stop", number=number)
    return SessionNote(
        number=number,
        host=start.host,
        stopped=known.last_stop_time if isinstance(stop, Stop) else None,
        note=stop.note if isinstance(stop, Stop) else None,
    )


def _receipt_kept(trial: Trial) -> int | None:
    """Returns the size that the newest receipt beside the ledger vouches for."""
    names = (path.name.partition("-")[0] for path in (trial.side / "receipts").glob("*.txt"))
    return max((int(size) for size in names if size.isdecimal()), default=None)


def _statuses(arms: Iterable[ArmStatus]) -> dict[str, int]:
    """Returns outcomes by status, of all arms together."""
    counts: Counter[str] = Counter()
    for arm in arms:
        counts.update(arm.statuses)
    return dict(counts)


def _arm_status(known: Experiment, index: int, spent: int) -> ArmStatus:
    slots, tally = known.slots, known.tallies[index]
    assert slots is not None
    counts = slots.status_counts(index)
    planned = sum(counts.values())
    return ArmStatus(
        settled=planned - counts.get("pending", 0),
        planned=planned,
        statuses={name: count for name, count in counts.items() if name != "pending"},
        attempts=tally.calls,
        spent_usd=spent / 1e9,
        reserved_usd=tally.reserved_nanousd / 1e9,
    )


def _waiting(known: Experiment, last: int | None) -> int:
    """Returns how many slots are unsettled before the next look."""
    if last is None or known.slots is None:
        return 0
    return last - known.slots.settled(1, last)


def _expected_usd(
    known: Experiment, arms: Iterable[ArmStatus], spent: Sequence[int]
) -> float | None:
    """Returns the spend to expect at the end from the cost per settled slot of each arm so far."""
    if known.slots is None:
        return None
    total = 0.0
    for frozen, arm, nano in zip(known.arms, arms, spent, strict=True):
        if arm.settled:
            total += nano * arm.planned / arm.settled
        elif frozen.reserve_nanousd:
            return None
    return total / 1e9
