"""A ledger in memory as one process sees it, with short words for what is done to it."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from fairtrial.ledger.events import Event
from fairtrial.ledger.log import Appended, Log
from fairtrial.ledger.memory import MemoryMedium, MemoryStore
from fairtrial.ledger.merkle import CompactRange
from fairtrial.ledger.projection import encode_projection
from fairtrial.ledger.state import PlanColumns

from .fold_drafts import LEDGER, Design, Drafter, comparisons, digest, make_design

CACHE_KEY = bytes(range(32))


class Clock:
    """A clock that goes on by a millisecond each time it is read."""

    def __init__(self) -> None:
        self.now = datetime(2026, 1, 1, tzinfo=UTC)

    def __call__(self) -> str:
        """Returns the time of an entry."""
        self.now += timedelta(milliseconds=1)
        return self.now.strftime("%Y-%m-%dT%H:%M:%S.%fZ")

    def wait(self, seconds: float) -> None:
        """Lets time pass."""
        self.now += timedelta(seconds=seconds)


class Bench(Drafter):
    """A ledger in memory as one process sees it.

    Args:
        other: Another process on the same ledger.
        cache: Where the projection is cached.
        rehash: Whether a cached projection is checked against the whole prefix.
    """

    def __init__(
        self, other: Bench | None = None, *, cache: Path | None = None, rehash: bool = True
    ) -> None:
        self.medium: MemoryMedium = other.medium if other else MemoryMedium()
        self.clock: Clock = other.clock if other else Clock()
        plans: dict[str, PlanColumns] = other.plans if other else {}
        log = Log(
            MemoryStore(self.medium),
            plan_of=lambda blob: plans.get(blob.sha256),
            cache=cache,
            cache_key=CACHE_KEY,
            clock=self.clock,
            rehash=rehash,
        )
        super().__init__(log, other.designs if other else {}, plans)

    def snapshot(self) -> bytes:
        """Returns bytes that differ when anything of the fold differs."""
        head = self.log.head()
        return encode_projection(
            self.log.state, CompactRange(), bytes.fromhex(head.root), key=CACHE_KEY
        )

    def append(self, *events: Event) -> Bench:
        """Appends events; each must be taken."""
        for event in events:
            self.log.append(event, actor="tester", ledger=LEDGER)
        return self

    def do(
        self, kind: str, experiment: str | None = None, position: int = 0, **fields: Any
    ) -> Bench:
        """Appends a draft."""
        return self.append(self.draft(kind, experiment, position, **fields))

    def again(self, event: Event) -> Appended:
        """Appends an event and returns its place."""
        return self.log.append(event, actor="tester", ledger=LEDGER)

    def opened(self) -> Bench:
        """Opens the ledger."""
        return self.do("open")

    def registered(self, name: str = "e") -> Bench:
        """Opens the ledger and registers an experiment."""
        if not self.log.state.size:
            self.opened()
        return self.do("register", name)

    def frozen(self, design: Design | None = None, name: str = "e") -> Bench:
        """Registers and freezes an experiment."""
        self.designs[name] = design or make_design()
        return self.registered(name).do("freeze", name)

    def running(self, design: Design | None = None, name: str = "e") -> Bench:
        """Freezes an experiment and starts a session."""
        return self.frozen(design, name).do("start", name)

    def tried(self, position: int, status: str, name: str = "e", **fields: Any) -> Bench:
        """Tries a slot once; the attempt ends by itself."""
        self.do("attempt", name, position)
        return self.do("attempt_end", name, position, status=status, **fields)

    def settled(self, *positions: int, name: str = "e", **fields: Any) -> Bench:
        """Settles slots, by an attempt each where their arm is live."""
        for position in positions:
            known = self.known(name)
            assert known.slots is not None
            if known.arms[known.slots.arm[position]].origin == "live":
                self.do("attempt", name, position)
            self.do("decision", name, position, **fields)
        return self

    def looked(self, *, name: str = "e", crossed: str = "no", **fields: Any) -> Bench:
        """Settles all slots of the next look and takes it."""
        known = self.known(name)
        last = known.looks[len(known.taken)].last
        assert known.slots is not None
        self.settled(*known.slots.pending(1, last), name=name)
        return self.do("look", name, comparisons=comparisons(crossed), **fields)

    def idle(self, name: str = "e", reason: str = "interrupted") -> Bench:
        """Stops the session."""
        return self.do("stop", name, reason=reason)

    def complete(self, *, crossed: str = "no", name: str = "e") -> Bench:
        """Runs an experiment to its last look and stops the session."""
        self.running(name=name).looked(name=name, crossed=crossed)
        return self.idle(name, "complete")

    def amendment(self, section: str, class_: str, **fields: Any) -> Event:
        """Returns an amendment of one section."""
        changed = {**self.known().sections, section: digest(f"{self.log.state.size} {section}")}
        return self.draft("amend", sections=changed, class_=class_, **fields)
