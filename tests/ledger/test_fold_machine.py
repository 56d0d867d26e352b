"""Random histories of a ledger: two processes, crashes, fencing, retries, looks, amendments, ends.

After every step the fold agrees with a model that was written apart from it, a refused event has
left no trace, and in the end every experiment can be brought to an end by legal events alone.
"""

from __future__ import annotations

import sys
from typing import Any

import hypothesis.strategies as st
import pytest
from hypothesis import HealthCheck, settings
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
    run_state_machine_as_test,
)
from msgspec import structs

from fairtrial.ledger.canonical import encode_event
from fairtrial.ledger.entry import parse_entry
from fairtrial.ledger.errors import ConflictError, LedgerError, RefusedError
from fairtrial.ledger.events import Event, event_kind
from fairtrial.ledger.log import Appended
from fairtrial.ledger.projection import parse_projection
from fairtrial.ledger.run_fold import RUN
from fairtrial.ledger.state import Experiment, is_ended

from .fold_bench import CACHE_KEY, Bench
from .fold_drafts import (
    LEDGER,
    RESERVE,
    Design,
    comparisons,
    digest,
    make_looks,
)
from .fold_histories import designs, drive_to_end
from .fold_model import Model
from .fold_quick import is_taken_quickly

NAMES = ("e", "f", "g")
EXAMPLES, STEPS = 200, 50
# Who acts: mostly the process whose session is live, else one of the two.
processes = st.integers(0, 5)
names = st.sampled_from(("e", "f", "e", "f", "g"))
places = st.integers(0, 15)
costs = st.sampled_from([None, 0, 1, RESERVE, 3 * RESERVE])
endings = st.sampled_from(["ok", "ok", "ok", "failed", "error", "interrupted", "timeout"])
ENDINGS = ("error", "timeout", "interrupted", "lost")
STATUSES = ("ok", "failed", "timeout", "limit", "error", "ungraded", "replay_miss")
REASONS = ("complete", "boundary", "ceiling", "wall_time", "arm_failing", "interrupted", "crashed")
PLACED = ("attempt", "attempt_end", "decision", "invalidate", "settle")
KINDS = (*PLACED, "start", "stop", "look", "amend", "result", "withdraw", "freeze", "register")
BOOK = ("refuse", "anchor", "sign", "import", "key", "redact", "adopt", "recover")


class Histories(RuleBasedStateMachine):
    """Two processes on one ledger that do whatever comes to their minds."""

    def __init__(self) -> None:
        super().__init__()
        self.root = Bench()
        self.processes = [Bench(self.root), Bench(self.root)]
        self.sessions: dict[tuple[int, str], int] = {}
        self.model = Model(self.root.plans)
        self.kept: list[Event] = []
        self.steps = 0

    @initialize(first=designs(), second=designs())
    def open(self, first: Design, second: Design) -> None:
        """A ledger begins, with two experiments that run."""
        assert self.send(0, self.draft(0, "open"))
        self.plan(0, "e", first, True)
        self.plan(1, "f", second, True)

    def actor(self, process: int, name: str) -> tuple[int, str]:
        """Returns who acts on which experiment: mostly the live session on one that is there."""
        name = name if self.known(name) else "e"
        known = self.known(name)
        live = (known.sessions if known else 0, name)
        owners = [who for (who, of), number in self.sessions.items() if (number, of) == live]
        return process if process < 2 else owners[0] if owners else process % 2, name

    def draft(
        self, process: int, kind: str, name: str | None = None, at: int = 0, **fields: Any
    ) -> Event:
        """Drafts what a process would append; its session is the one that it started itself."""
        bench = self.processes[process]
        bench.log.refresh()
        if kind in ("attempt", "attempt_end", "decision"):
            fields = {"session": self.sessions.get((process, name or ""), 1), **fields}
        return bench.draft(kind, name, at, **fields)

    def send(self, process: int, event: Event) -> bool:
        """Appends an event; when it is refused, checks that nothing has changed."""
        bench = self.processes[process]
        bench.log.refresh()
        before, size = bench.snapshot(), len(bench.medium.entries)
        (place,) = bench.log.append_many([event], actor="tester", ledger=LEDGER)
        if isinstance(event, RUN) and self.encodes(event):
            is_taken_quickly(bench, before, event)
        if isinstance(place, Appended) and place.fresh:
            if event_kind(event) == "start":
                self.sessions[process, event.experiment] = event.number
            return True
        assert before == bench.snapshot()
        assert size == len(bench.medium.entries)
        if isinstance(place, Appended):
            stored = parse_entry(bench.medium.entries[place.seq]).event
            assert encode_event(event) == stored
        else:
            assert isinstance(place, (RefusedError, ConflictError)) or not self.encodes(event)
        return False

    @staticmethod
    def encodes(event: Event) -> bool:
        """Returns whether an event has a form that can be stored at all."""
        try:
            encode_event(event)
        except LedgerError:
            return False
        return True

    def known(self, name: str) -> Experiment | None:
        """Returns an experiment as it is now."""
        self.root.log.refresh()
        return self.root.log.state.experiments.get(name)

    def pending(self, name: str) -> list[int]:
        """Returns the unsettled positions of an experiment up to its look, or one behind it."""
        known = self.known(name)
        if known is None or known.slots is None:
            return [1]
        return list(known.slots.pending(1, len(known.slots))) or [1]

    def opened(self, name: str) -> list[int]:
        """Returns where attempts are open."""
        known = self.known(name)
        slots = known.slots if known else None
        return [at for at, one in enumerate(slots.is_open) if one] if slots is not None else []

    @rule(process=processes, name=names, design=designs(), frozen=st.booleans())
    def plan(self, process: int, name: str, design: Design, frozen: bool) -> None:
        """Registers an experiment, and mostly freezes it."""
        process %= 2
        old = next((n for n in self.model.trials if n != name), None)
        if not self.send(process, self.draft(process, "register", name)) and old:
            self.send(process, self.draft(process, "register", name, supersedes=old))
        known = self.known(name)
        if known is not None and known.freeze_seq is None and frozen:
            self.root.designs[name] = design
            if self.send(process, self.draft(process, "freeze", name)):
                if design.rules.anchor != "none":
                    self.send(process, self.draft(process, "anchor"))
                self.send(process, self.draft(process, "start", name))

    @rule(process=processes, name=names)
    def resume(self, process: int, name: str) -> None:
        """A session starts and closes what earlier ones left open."""
        process %= 2
        self.send(process, self.draft(process, "start", name))
        for at in self.opened(name):
            self.send(process, self.draft(process, "attempt_end", name, at, status="lost"))

    def go_on(self, process: int, name: str, count: int, ending: str, cost: int | None) -> None:
        """The run goes on: resumed if need be, slots tried, a look taken when it is due."""
        process, name = self.actor(process, name)
        known = self.known(name)
        if known is not None:
            failing = any(len(tally.streak) >= 5 for tally in known.tallies)
            if failing or not known.live:
                self.send(process, self.draft(process, "start", name))
        for at in self.opened(name):
            self.send(process, self.draft(process, "decision", name, at, cost_nanousd=cost))
        kind = "attempt_end" if ending in ENDINGS else "decision"
        for at in self.pending(name)[:count]:
            self.send(process, self.draft(process, "attempt", name, at))
            fields = {"status": ending, "cost_nanousd": cost}
            self.send(process, self.draft(process, kind, name, at, **fields))
        for at in self.pending(name)[:count] if kind == "attempt_end" else ():
            for code in (None, "lost"):
                event = self.draft(process, "decision", name, at, status="error", code=code)
                self.send(process, event)
        self.send(process, self.draft(process, "look", name))

    # Three times the same rule: most of what happens is that the run goes on.
    go_on_often = rule(
        process=processes, name=names, count=st.integers(1, 12), cost=costs, ending=endings
    )(go_on)
    go_on_more = rule(
        process=processes, name=names, count=st.integers(1, 4), cost=costs, ending=endings
    )(go_on)
    go_on_failing = rule(
        process=processes, name=names, count=st.integers(4, 9), cost=costs,
        ending=st.sampled_from(["error", "error", "interrupted", "ok"]),
    )(go_on)  # fmt: skip

    @rule(process=processes, name=names, reason=st.sampled_from(REASONS), tidy=st.booleans())
    def stop(self, process: int, name: str, reason: str, tidy: bool) -> None:
        """A session stops, at once or when its attempts are ended."""
        process, name = self.actor(process, name)
        if tidy:
            self.interrupt(process, name)
        number = self.sessions.get((process, name), 0)
        self.send(process, self.draft(process, "stop", name, number=number, reason=reason))

    def interrupt(self, process: int, name: str) -> None:
        """Ends what is open and stops the session."""
        for at in self.opened(name):
            for status in ("interrupted", "lost"):
                self.send(process, self.draft(process, "attempt_end", name, at, status=status))
        for reason in ("ceiling", "interrupted"):
            self.send(process, self.draft(process, "stop", name, reason=reason))

    @rule(process=processes, name=names, place=places)
    def begin(self, process: int, name: str, place: int) -> None:
        """An attempt begins, perhaps behind the look."""
        process, name = self.actor(process, name)
        pending = self.pending(name)
        at = pending[place % len(pending)] if place < 14 else place
        self.send(process, self.draft(process, "attempt", name, at))

    @rule(
        process=processes, name=names, place=places, status=st.sampled_from(ENDINGS),
        cost=costs, retry=st.booleans(),
    )  # fmt: skip
    def end(
        self, process: int, name: str, place: int, status: str, cost: int | None, retry: bool
    ) -> None:
        """An attempt ends by itself."""
        process, name = self.actor(process, name)
        open_ = self.opened(name) or [1]
        at = open_[place % len(open_)]
        fields = {"status": status, "cost_nanousd": cost, "retry": retry}
        self.send(process, self.draft(process, "attempt_end", name, at, **fields))

    @rule(
        process=processes, name=names, place=places, status=st.sampled_from(STATUSES),
        cost=costs, code=st.sampled_from([None, "lost"]),
    )  # fmt: skip
    def decide(
        self, process: int, name: str, place: int, status: str, cost: int | None, code: str | None
    ) -> None:
        """An outcome comes, of an open attempt or of any slot."""
        process, name = self.actor(process, name)
        at_hand = self.opened(name) + self.pending(name)
        at = at_hand[place % len(at_hand)]
        fields = {"status": status, "cost_nanousd": cost, "code": code}
        self.send(process, self.draft(process, "decision", name, at, **fields))

    @rule(
        process=processes, name=names, stops=st.booleans(),
        crossed=st.sampled_from(["no", "no", "favourable", "against"]), eligible=st.booleans(),
    )  # fmt: skip
    def look(self, process: int, name: str, stops: bool, crossed: str, eligible: bool) -> None:
        """A look is taken, if it is due."""
        process, name = self.actor(process, name)
        said = comparisons(crossed, eligible=eligible)
        event = self.draft(process, "look", name, comparisons=said)
        if not self.send(process, event) and stops:
            event = self.draft(process, "look", name, comparisons=said, continues=False)
            self.send(process, event)

    @rule(
        process=processes, name=names, design=designs(), place=places, idle=st.booleans(),
        section=st.sampled_from(["about", "budget", "looks", "units"]),
    )  # fmt: skip
    def amend(
        self, process: int, name: str, section: str, design: Design, place: int, idle: bool
    ) -> None:
        """The protocol is amended, in one of its classes or in a part that is fixed."""
        process, name = self.actor(process, name)
        if idle:
            self.interrupt(process, name)
        known = self.known(name)
        assert known is not None
        class_ = {"about": "text", "budget": "operational"}.get(section, "analysis")
        sections = {**known.sections, section: digest(f"{known.plan_seq} {section} {place}")}
        fields: dict[str, Any] = {"sections": sections, "class_": class_}
        if known.rules is not None and class_ != "text":
            new = design.rules
            ceilings = {"usd_nanousd": new.usd_nanousd, "calls": new.calls, "arms": new.arms}
            budget = structs.replace(known.rules, **ceilings)
            fields["rules"] = budget if class_ == "operational" else new
        if known.slots is not None and section == "looks" and place % 2:
            taken = [look.last for look in known.taken]
            lasts = sorted({*taken, 1 + place % len(known.slots), len(known.slots)})
            fields["looks"] = known.looks[: len(taken)] + make_looks(lasts[len(taken) :])
        self.send(process, self.draft(process, "amend", name, **fields))
        self.send(process, self.draft(process, "anchor"))

    @rule(process=processes, name=names, place=places, cost=st.integers(0, 500))
    def correct(self, process: int, name: str, place: int, cost: int) -> None:
        """An outcome is declared invalid, or the cost of a lost attempt is settled."""
        process, name = self.actor(process, name)
        at = 1 + place
        self.send(process, self.draft(process, "invalidate", name, at))
        self.send(process, self.draft(process, "settle", name, at, cost_nanousd=cost))

    @precondition(lambda self: self.steps > 15)
    @rule(
        process=processes, name=names, withdraws=st.booleans(),
        stopped_by=st.sampled_from([None, "last_look", "boundary", "ceiling", "person"]),
        verdict=st.sampled_from(["inconclusive", "adopt"]),
    )  # fmt: skip
    def finish(
        self, process: int, name: str, withdraws: bool, stopped_by: str | None, verdict: str
    ) -> None:
        """An experiment ends, if it may."""
        process, name = self.actor(process, name)
        self.interrupt(process, name)
        fields: dict[str, Any] = {"stopped_by": stopped_by} if stopped_by else {}
        self.send(process, self.draft(process, "result", name, verdict=verdict, **fields))
        if withdraws:
            self.send(process, self.draft(process, "withdraw", name))
        self.send(process, self.draft(process, "reanalysis", name))

    @rule(process=processes, name=names, kind=st.sampled_from(BOOK))
    def keep_book(self, process: int, name: str, kind: str) -> None:
        """Something is written about the ledger itself."""
        process, name = self.actor(process, name)
        of = name if kind == "refuse" else None
        self.send(process, self.draft(process, kind, of))

    @rule(process=processes)
    def crash(self, process: int) -> None:
        """A process dies and another takes its place: its sessions are gone."""
        process %= 2
        self.processes[process] = Bench(self.root)
        for name in NAMES:
            self.sessions.pop((process, name), None)

    @rule(process=processes, name=names, kind=st.sampled_from(KINDS), place=places)
    def keep(self, process: int, name: str, kind: str, place: int) -> None:
        """A process prepares an event and is slow to append it."""
        process, name = self.actor(process, name)
        self.kept.append(self.draft(process, kind, name, 1 + place if kind in PLACED else 0))

    @precondition(lambda self: self.kept)
    @rule(process=processes, place=places)
    def send_kept(self, process: int, place: int) -> None:
        """An event that was prepared long ago is appended."""
        process %= 2
        self.send(process, self.kept.pop(place % len(self.kept)))

    @rule(process=processes, place=places)
    def repeat(self, process: int, place: int) -> None:
        """An event that stands in the ledger is appended again: it stands where it stood."""
        process %= 2
        bench = self.processes[process]
        bench.log.refresh()
        seq = (place * 7919) % bench.log.state.size
        ((_, event),) = list(bench.log.read(seq, seq + 1))
        assert not self.send(process, event)
        assert (seq, False) == (bench.again(event).seq, bench.again(event).fresh)

    @rule(
        process=processes, name=st.sampled_from([*NAMES, "", "unknown"]),
        kind=st.sampled_from((*KINDS, *BOOK)), at=st.integers(-1, 20),
        junk=st.dictionaries(
            st.sampled_from(["number", "session", "attempt", "cost_nanousd", "last", "experiment"]),
            st.one_of(st.integers(-1, 30), names), min_size=1, max_size=3,
        ),
    )  # fmt: skip
    def scribble(self, process: int, name: str, kind: str, at: int, junk: dict[str, Any]) -> None:
        """An event with random parts is appended; whatever it is, the rules hold after it."""
        process, name = self.actor(process, name)
        event = self.draft(process, kind, name, at)
        self.send(process, type(event)(**{**_fields(event), **_fitting(event, junk)}))

    @rule(process=processes, name=names, place=places)
    def batch(self, process: int, name: str, place: int) -> None:
        """Events of one batch stand or fall each by itself."""
        process, name = self.actor(process, name)
        bench = self.processes[process]
        pending = self.pending(name)
        at = pending[place % len(pending)]
        drafts = [
            self.draft(process, "attempt", name, at),
            self.draft(process, "attempt", name, at, number=40),
            self.draft(process, "refuse", name),
            self.draft(process, "attempt", name, at),
            self.draft(process, "decision", name, at, attempt=1),
        ]
        size = len(bench.medium.entries)
        places_ = bench.log.append_many(drafts, actor="tester")
        fresh = [one.seq for one in places_ if isinstance(one, Appended) and one.fresh]
        assert list(range(size, len(bench.medium.entries))) == fresh

    @invariant()
    def agrees(self) -> None:
        """The state is what the model, which reads only the events, says it is."""
        log = self.root.log
        log.refresh()
        for entry, event in log.read(self.model.size):
            self.model.take(entry.seq, event)
        self.model.check(log.state)
        self.steps += 1
        if self.steps % 8 == 0:
            self.check_whole()

    def check_whole(self) -> None:
        """The fold of all entries from zero, and what a projection keeps, equal the kept state."""
        log = self.root.log
        fresh = Bench(self.root).log
        assert (log.state, log.head()) == (fresh.state, fresh.head())
        projection = parse_projection(self.root.snapshot(), key=CACHE_KEY)
        assert projection is not None
        assert log.state == projection.state

    def teardown(self) -> None:
        """Every experiment has an end that legal events lead to."""
        if sys.exc_info()[0] is not None:
            return  # The failure that is being reported comes first.
        self.check_whole()
        for withdrawing in (True, False):
            bench = Bench()
            bench.medium.entries += self.root.medium.entries
            bench.medium.slots |= self.root.medium.slots
            bench.designs.update(self.root.designs)
            bench.plans.update(self.root.plans)
            bench.log.refresh()
            drive_to_end(bench, withdrawing=withdrawing)
            assert all(is_ended(known) for known in bench.log.state.experiments.values())
            assert bench.log.state.closed


def _fields(event: Event) -> dict[str, Any]:
    return {name: getattr(event, name) for name in event.__struct_fields__}


def _fitting(event: Event, junk: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in junk.items() if name in event.__struct_fields__}


@pytest.mark.slow
def test_random_histories_keep_every_rule() -> None:
    """Whatever two processes do to a ledger, the rules hold and an end can be reached."""
    run_state_machine_as_test(
        Histories,
        settings=settings(
            max_examples=EXAMPLES,
            stateful_step_count=STEPS,
            deadline=None,
            print_blob=True,
            suppress_health_check=[HealthCheck.too_slow, HealthCheck.filter_too_much],
        ),
    )
