"""The log: append, read, head.

Leaves the bytes to `entry.py`, the rules to `fold.py`, what a store is to `port.py`.

Rules:
- An event is checked by the fold under the append lock, together with every event that another
  process appended in the meantime; it is durable when append returns.
- The same event again is a no-op that returns its old place; another one for a taken slot is a
  conflict. What stands in a slot is asked of the store, once the fold has refused an event.
- A cached projection is taken over only while the ledger still begins with what it saw.
- After an error of the medium the log is of no more use: open it again and look the slots up.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from itertools import chain, count, repeat
from pathlib import Path
from typing import NamedTuple, TypeAlias

from .canonical import encode_event, event_digits, event_id
from .clock import utc_now
from .entry import Entry, check_actor, header_of, is_time, parse_entry
from .errors import (
    ConflictError,
    IntegrityError,
    LedgerError,
    PlanMissingError,
    RefusedError,
    StoreError,
    TransitionError,
)
from .events import Event, Head, Open, event_kind
from .folded import Folded
from .merkle import leaf_hash, root_of
from .pointers import basis_of, check_pointers, reference_of
from .port import LogStore, StoreFinding, StoreWriter, Tail, Torn
from .prefix import check_prefix
from .projection import load_projection, save_projection
from .reading import find_event, read_events
from .run_append import Drafts, gathered
from .state import PlanReader, State, slot_text

__all__ = (
    "Appended",
    "Log",
    "LogStore",
    "Request",
    "StoreFinding",
    "StoreWriter",
    "Tail",
    "Torn",
    "basis_of",
    "find_event",
    "read_events",
    "reference_of",
    "utc_now",
)

ROOTS_KEPT = 64


class Appended(NamedTuple):
    """Where an event stands; `fresh` is false when it stood there before."""

    seq: int
    leaf: bytes
    fresh: bool
    event: Event


# An event, or a function that makes it from the state as it is under the append lock.
Request: TypeAlias = Event | Callable[[State], Event]


class _Batch(NamedTuple):
    """What one call appends, as it grows; `fresh` are the events that stand in `entries`."""

    actor: str
    ledger: str | None
    entries: list[bytes]
    fresh: list[Appended]


def _slot(event: Event) -> tuple[str, int, str, int]:
    return event.experiment, event.position, event_kind(event), event.number


class Log:
    """One ledger, open: its fold, its tree, and the right to append.

    Args:
        store: Where the entries live.
        plan_of: Reads a plan blob for the fold.
        cache: The projection's file; None for no cache.
        cache_key: 32 bytes that seal it, kept outside the ledger; None for no cache.
        clock: Returns the time of an entry.
        rehash: Whether the whole prefix under a cached projection is hashed again first.

    Raises:
        IntegrityError: Bytes contradict their hashes, or the fold refuses an entry.
        NewerError: An entry is of a kind or version that this tool doesn't know.
    """

    def __init__(
        self,
        store: LogStore,
        *,
        plan_of: PlanReader,
        cache: Path | None = None,
        cache_key: bytes | None = None,
        clock: Callable[[], str] = utc_now,
        rehash: bool = True,
    ) -> None:
        self.store, self.clock = store, clock
        self._folded = Folded(plan_of)
        self._cache_key = cache_key or b""
        self._cache = cache if cache_key is not None else None
        self._broken = False
        # Leaves that are folded and not in the store yet: those of the batch that grows.
        self._pending: list[bytes] = []
        self._roots: dict[int, bytes] = {}
        self.folded_from = self._load(rehash) if self._cache is not None else 0
        self._saved = self.state.size
        self.refresh()

    def _load(self, rehash: bool) -> int:
        """Takes over a cached projection of this ledger; returns its size, 0 for none.

        Raises:
            IntegrityError: The ledger no longer begins with what the projection saw.
        """
        assert self._cache is not None
        projection = load_projection(self._cache, key=self._cache_key)
        if projection is not None:
            self.store.take_offset(projection.state.size, projection.offset)
        first = next(iter(self.store.read(0, 1)), None)
        if projection is None or first is None:
            return 0
        state = projection.state
        if parse_entry(first).ledger != state.ledger:
            return 0
        segments = check_prefix(self.store, projection, cache=self._cache, rehash=rehash)
        self._folded.go_on_from(projection, segments)
        return state.size

    @property
    def state(self) -> State:
        """What follows from all entries so far."""
        return self._folded.state

    @property
    def ledger(self) -> str:
        """The ledger's id, "" before `open`."""
        return self.state.ledger

    def head(self) -> Head:
        """Returns the size and root of what is folded."""
        root = self._folded.tree.root()
        self._keep_root(self._folded.tree.size, root)
        return Head(size=self._folded.tree.size, root=root.hex())

    def refresh(self) -> int:
        """Folds what others appended; returns how many entries that was.

        Raises:
            IntegrityError: The ledger lost or changed entries, or what was appended breaks a rule.
            PlanMissingError: The blob of a frozen plan isn't there.
            StoreError: This log met an error of its medium before.
        """
        self._require_usable()
        return self._catch_up(self.store.tail())

    def _require_usable(self) -> None:
        if self._broken:
            raise StoreError("this log met an error of its medium", todo="open the ledger again")

    def _catch_up(self, tail: Tail) -> int:
        before = self.state.size
        if tail.size < before or (tail.size == before and tail.leaf != self._folded.leaf):
            raise IntegrityError(
                "the ledger lost or changed entries while it was open",
                expected=f"{before} entries",
                found=f"{tail.size} entries",
                todo="ledger replay",
            )
        for block in self.store.blocks(before, tail.size) if tail.size > before else ():
            self._folded.take_block(block)
        return self.state.size - before

    def append(self, request: Request, *, actor: str, ledger: str | None = None) -> Appended:
        """Appends one event; raises what `append_many` would return in its place."""
        (outcome,) = self.append_many([request], actor=actor, ledger=ledger)
        if isinstance(outcome, LedgerError):
            raise outcome
        return outcome

    def append_many(
        self, requests: Sequence[Request], *, actor: str, ledger: str | None = None
    ) -> list[Appended | LedgerError]:
        """Appends events in order in one durable batch.

        Args:
            requests: Events, or functions of the state under the lock.
            actor: Who does it, as claimed.
            ledger: The new ledger's id; only with `open`.

        Returns:
            For each request its place, or why it alone was refused.

        Raises:
            StoreError: The medium failed; nothing is known of the batch.
        """
        self._require_usable()
        check_actor(actor)
        batch = _Batch(actor, ledger, [], [])
        with self.store.writer() as writer:
            self._catch_up(writer.tail)
            self._broken = True
            outcomes = list[Appended | LedgerError]()
            for part in gathered(requests):
                if isinstance(part, Drafts):
                    outcomes += self._append_run(part, batch)
                else:
                    outcomes.append(self._append_one(part, batch))
            if batch.entries:
                writer.write(batch.entries, self._pending)
            self._pending, self._broken = [], False
        return outcomes

    def _append_run(self, drafts: Drafts, batch: _Batch) -> list[Appended | LedgerError]:
        """Appends events of a run: what plainly is the next together, all else one by one."""
        places = list[Appended | LedgerError]()
        while (start := len(places)) < len(drafts.events):
            places += self._append_next(drafts, start, batch)
            if len(places) == start:
                places.append(self._append_one(drafts.events[start], batch, drafts.datas[start]))
        return places

    def _append_next(self, drafts: Drafts, start: int, batch: _Batch) -> list[Appended]:
        """Appends events from an index on for as long as they plainly are the next."""
        state, time = self.state, self.clock()
        if not (state.ledger and is_time(time)):
            return []
        seq, times = state.size, [time.encode()] * len(drafts.events)
        taken = self._folded.fold(drafts.events, times, start)
        if not taken:
            return []
        stop, header = start + taken, header_of(state.ledger, batch.actor)
        datas = drafts.datas[start:stop]
        block = header.build_all(
            datas, event_digits(datas), seq=seq, prev=self._folded.leaf, time=time
        )
        self._folded.take_in(block)
        fresh, events = repeat(True), drafts.events[start:stop]
        places = list(map(Appended, count(seq), block.leaves, fresh, events))
        batch.entries.extend(block.entries)
        self._pending += block.leaves
        batch.fresh.extend(places)
        return places

    def _append_one(
        self, request: Request, batch: _Batch, data: bytes | None = None
    ) -> Appended | LedgerError:
        """Appends one event; `data` are its bytes, where they were made already."""
        try:
            event = request(self.state) if callable(request) else request
            data = data or encode_event(event)
            try:
                return self._append_new(event, data, batch)
            except (RefusedError, ConflictError):
                # Only now is the medium asked: what the fold takes can't stand there already.
                old = self._old_place(event, data, batch)
                if old is None:
                    raise
                return old
        except StoreError as error:
            if not isinstance(error, (ConflictError, PlanMissingError)):
                raise
            return error
        except LedgerError as error:
            return error

    def _append_new(self, event: Event, data: bytes, batch: _Batch) -> Appended:
        check_pointers(event, self._folded.tree.size, root_at=self.root_at, leaf_at=self.leaf_at)
        name = batch.ledger if isinstance(event, Open) else self.state.ledger
        if not name:
            raise TransitionError(
                "a ledger begins with `open`, which brings its id", todo="ledger register PROTOCOL"
            )
        seq, prev, time, id_ = self.state.size, self._folded.leaf, self.clock(), event_id(data)
        entry = header_of(name, batch.actor).build(data, seq=seq, prev=prev, time=time, id=id_)
        # What was just built needs no parsing to be known.
        built = Entry(name, seq, prev, time, batch.actor, id_, data, entry)
        leaf = self._folded.advance(built, event)
        place = Appended(self.state.size - 1, leaf, True, event)
        batch.entries.append(entry)
        self._pending.append(leaf)
        batch.fresh.append(place)
        return place

    def _old_place(self, event: Event, data: bytes, batch: _Batch) -> Appended | None:
        """Returns where the same event stands, None when its slot is free.

        Raises:
            ConflictError: The slot holds another one.
        """
        slot = _slot(event)
        stored = self.store.find(*slot)
        if stored is not None:
            entry = parse_entry(stored)
            old, found = Appended(entry.seq, entry.leaf(), False, event), entry.event
        else:
            same = [one for one in batch.fresh if _slot(one.event) == slot]
            if not same:
                return None
            old, found = same[0]._replace(fresh=False), encode_event(same[0].event)
        if found != data:
            raise ConflictError(
                "the slot holds another event",
                where=slot_text(event),
                expected=event_id(found),
                found=event_id(data),
                todo="ledger log shows what stands there; one slot holds one event",
            )
        return old

    def leaf_at(self, seq: int) -> bytes | None:
        """Returns the leaf of an entry, or None when there is none."""
        stored = self._folded.tree.size - len(self._pending)
        if stored <= seq < self._folded.tree.size:
            return self._pending[seq - stored]
        data = next(iter(self.store.read(seq, seq + 1)), None) if seq < stored else None
        return None if data is None else leaf_hash(data)

    def root_at(self, size: int) -> bytes:
        """Returns the root of the first `size` entries.

        Raises:
            ValueError: There are fewer.
        """
        if not 0 <= size <= self._folded.tree.size:
            raise ValueError(f"no prefix of {size} in a ledger of {self._folded.tree.size} entries")
        if size == self._folded.tree.size:
            return self._folded.tree.root()
        if size not in self._roots:
            stored = self._folded.tree.size - len(self._pending)
            rest = self._pending[: max(0, size - stored)]
            leaves = chain(self.store.leaves(0, min(size, stored)), rest)
            self._keep_root(size, root_of(leaves))
        return self._roots[size]

    def _keep_root(self, size: int, root: bytes) -> None:
        self._roots[size] = root
        while len(self._roots) > ROOTS_KEPT:
            del self._roots[next(iter(self._roots))]

    def read(self, start: int = 0, stop: int | None = None) -> Iterator[tuple[Entry, Event]]:
        """Yields entries with their events, each checked by its id."""
        return read_events(self.store, start, self.state.size if stop is None else stop)

    def find(
        self, experiment: str, kind: str, *, position: int = 0, number: int = 0
    ) -> Event | None:
        """Returns the event that fills a slot, or None."""
        return find_event(self.store, experiment, kind, position=position, number=number)

    def save(self) -> None:
        """Writes the projection when it is behind."""
        if self._cache is not None and not self._broken and self._saved != self.state.size:
            save_projection(
                self._cache, self.state, self._folded.tree, self._folded.leaf, key=self._cache_key,
                segments=self._folded.segments.digests(),
                offset=self.store.offset_after(self.state.size),
            )  # fmt: skip
            self._saved = self.state.size

    def close(self) -> None:
        """Gives up the store."""
        self.store.close()
