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
from datetime import UTC, datetime
from pathlib import Path
from typing import NamedTuple, TypeAlias

from .canonical import decode_event, encode_event, event_id
from .entry import Entry, build_entry, check_actor, check_entry, parse_entry
from .errors import ConflictError, IntegrityError, LedgerError, StoreError
from .events import (
    Amend,
    Anchor,
    Close,
    Event,
    Head,
    Invalidate,
    Look,
    Open,
    Reanalysis,
    Reference,
    Result,
    Settle,
    Sign,
    event_kind,
)
from .fold import apply
from .merkle import CompactRange, leaf_hash, root_of
from .port import LogStore, StoreFinding, StoreWriter, Tail, Torn
from .projection import load_projection, save_projection
from .state import PlanReader, State, is_taken, slot_text

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


class Appended(NamedTuple):
    """Where an event stands; `fresh` is false when it stood there before."""

    seq: int
    leaf: bytes
    fresh: bool
    event: Event


# An event, or a function that makes it from the state as it is under the append lock.
Request: TypeAlias = Event | Callable[[State], Event]


def utc_now() -> str:
    """Returns the wall clock in the form of an entry's time."""
    return datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")


def basis_of(event: Event) -> Head | None:
    """Returns the earlier head that an event names, if any."""
    if isinstance(event, (Look, Result, Reanalysis, Anchor, Close)):
        return event.basis
    return None


def reference_of(event: Event) -> Reference | None:
    """Returns the earlier entry that an event names, if any."""
    if isinstance(event, (Amend, Invalidate, Settle, Sign)):
        return event.subject
    return None


def read_events(
    store: LogStore, start: int = 0, stop: int | None = None
) -> Iterator[tuple[Entry, Event]]:
    """Yields entries with their events, each checked by its id.

    Raises:
        IntegrityError: An id isn't that of its event's bytes.
    """
    for data in store.read(start, stop):
        entry = parse_entry(data)
        if event_id(entry.event) != entry.id:
            raise IntegrityError(
                "the id isn't that of the event's bytes",
                where=f"entry {entry.seq}",
                expected=event_id(entry.event),
                found=entry.id,
                todo="ledger replay",
            )
        yield entry, decode_event(entry.event)


def find_event(
    store: LogStore, experiment: str, kind: str, *, position: int = 0, number: int = 0
) -> Event | None:
    """Returns the event that fills a slot, or None."""
    data = store.find(experiment, position, kind, number)
    return None if data is None else decode_event(parse_entry(data).event)


class Log:
    """One ledger, open: its fold, its tree, and the right to append.

    Args:
        store: Where the entries live.
        plan_of: Reads a plan blob for the fold.
        cache: The projection's file; None for no cache.
        clock: Returns the time of an entry.
        rehash: Whether the whole prefix under a cached projection is hashed again first.

    Raises:
        IntegrityError: Bytes contradict their hashes, or the fold refuses an entry.
    """

    def __init__(
        self,
        store: LogStore,
        *,
        plan_of: PlanReader,
        cache: Path | None = None,
        clock: Callable[[], str] = utc_now,
        rehash: bool = True,
    ) -> None:
        self.store, self.clock = store, clock
        self.state, self._tree, self._leaf = State(), CompactRange(), bytes(32)
        self._plan_of, self._cache = plan_of, cache
        self._broken = False
        self._roots: dict[int, bytes] = {}
        self.folded_from = self._load(rehash) if cache is not None else 0
        self._saved = self.state.size
        self.refresh()

    def _load(self, rehash: bool) -> int:
        """Takes over a cached projection if the ledger still holds its prefix; returns its size."""
        assert self._cache is not None
        projection = load_projection(self._cache)
        size = projection.state.size if projection else 0
        if projection is None or not size or self.store.tail().size < size:
            return 0
        last = next(iter(self.store.read(size - 1, size)), b"")
        if leaf_hash(last) != projection.leaf:
            return 0
        if rehash and root_of(self.store.leaves(0, size)) != projection.root:
            raise IntegrityError(
                "an entry has changed since this ledger was last read here",
                where=f"entries 0 to {size - 1}",
                expected=f"root {projection.root.hex()}",
                todo="ledger replay names the entry",
            )
        self.state, self._tree, self._leaf = projection.state, projection.tree(), projection.leaf
        return size

    @property
    def ledger(self) -> str:
        """The ledger's id, "" before `open`."""
        return self.state.ledger

    def head(self) -> Head:
        """Returns the size and root of what is folded."""
        root = self._tree.root()
        self._roots[self._tree.size] = root
        return Head(size=self._tree.size, root=root.hex())

    def refresh(self) -> int:
        """Folds what others appended; returns how many entries that was."""
        return self._catch_up(self.store.tail())

    def _catch_up(self, tail: Tail) -> int:
        before = self.state.size
        if tail.size < before or (tail.size == before and tail.leaf != self._leaf):
            raise IntegrityError(
                "the ledger lost or changed entries while it was open",
                expected=f"{before} entries",
                found=f"{tail.size} entries",
                todo="ledger replay",
            )
        for data in self.store.read(before, tail.size):
            self._take(parse_entry(data))
        return self.state.size - before

    def _take(self, entry: Entry) -> None:
        check_entry(entry, ledger=self.state.ledger or None, seq=self.state.size, prev=self._leaf)
        try:
            self._advance(entry, decode_event(entry.event))
        except IntegrityError:
            raise
        except LedgerError as error:
            raise IntegrityError(
                f"the entry breaks a rule: {error.what}",
                where=f"entry {entry.seq}",
                expected=error.expected,
                found=error.found,
                todo="ledger replay",
            ) from error

    def _advance(self, entry: Entry, event: Event) -> bytes:
        """Folds a checked entry; returns its leaf."""
        self.state = apply(self.state, entry, event, plan_of=self._plan_of)
        self._leaf = entry.leaf()
        self._tree.append(self._leaf)
        return self._leaf

    def append(self, request: Request, *, actor: str, ledger: str | None = None) -> Appended:
        """Appends one event; see `append_many`.

        Raises:
            LedgerError: The event was refused, or the medium failed.
        """
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
        if self._broken:
            raise StoreError("this log met an error of its medium", todo="open the ledger again")
        check_actor(actor)
        entries: list[bytes] = []
        leaves: list[bytes] = []
        with self.store.writer() as writer:
            self._catch_up(writer.tail)
            self._broken = True
            outcomes = [
                self._append_one(request, actor, ledger, entries, leaves) for request in requests
            ]
            if entries:
                writer.write(entries, leaves)
            self._broken = False
        return outcomes

    def _append_one(
        self,
        request: Request,
        actor: str,
        ledger: str | None,
        entries: list[bytes],
        leaves: list[bytes],
    ) -> Appended | LedgerError:
        try:
            event = request(self.state) if callable(request) else request
            data = encode_event(event)
            if is_taken(self.state, event):
                return self._old_place(event, data, entries)
            self._check_pointers(event, leaves)
            name = ledger if isinstance(event, Open) and ledger else self.state.ledger
            bytes_ = build_entry(
                data,
                ledger=name,
                seq=self.state.size,
                prev=self._leaf,
                time=self.clock(),
                actor=actor,
                id=event_id(data),
            )
            leaf = self._advance(parse_entry(bytes_), event)
        except StoreError as error:
            if not isinstance(error, (ConflictError, IntegrityError)):
                raise
            return error
        except LedgerError as error:
            return error
        entries.append(bytes_)
        leaves.append(leaf)
        return Appended(self.state.size - 1, leaf, True, event)

    def _old_place(self, event: Event, data: bytes, entries: Sequence[bytes]) -> Appended:
        """Returns where the same event stands.

        Raises:
            ConflictError: The slot holds another one.
        """
        slot = (event.experiment, event.position, event_kind(event), event.number)
        stored = self.store.find(*slot)
        for entry in (parse_entry(one) for one in ([stored] if stored else entries)):
            if entry.event == data:
                return Appended(entry.seq, entry.leaf(), False, event)
        raise ConflictError(
            "the slot holds another event",
            where=slot_text(event),
            expected=parse_entry(stored).id if stored else "the event of this batch",
            found=event_id(data),
            todo="ledger log shows what stands there; one slot holds one event",
        )

    def _check_pointers(self, event: Event, leaves: Sequence[bytes]) -> None:
        """Checks that what an event names lies in this ledger as it says."""
        basis, subject = basis_of(event), reference_of(event)
        if basis is not None and (
            not 0 < basis.size <= self._tree.size or self.root_at(basis.size).hex() != basis.root
        ):
            raise ConflictError(
                "the basis isn't a prefix of this ledger",
                where=slot_text(event),
                expected=self.root_at(min(basis.size, self._tree.size)).hex(),
                found=basis.root,
                todo="compute it again from the present head",
            )
        if subject is not None:
            found = self.leaf_at(subject.seq, leaves)
            if found is None or found.hex() != subject.leaf:
                raise ConflictError(
                    "the entry that is meant isn't in this ledger",
                    where=f"entry {subject.seq}",
                    expected=found.hex() if found else "no such entry",
                    found=subject.leaf,
                )

    def leaf_at(self, seq: int, pending: Sequence[bytes] = ()) -> bytes | None:
        """Returns the leaf of an entry, or None when there is none."""
        stored = self.state.size - len(pending)
        if stored <= seq < self.state.size:
            return pending[seq - stored]
        data = next(iter(self.store.read(seq, seq + 1)), None) if seq < stored else None
        return None if data is None else leaf_hash(data)

    def root_at(self, size: int) -> bytes:
        """Returns the root of the first `size` entries."""
        if size == self._tree.size:
            return self._tree.root()
        if size not in self._roots:
            self._roots[size] = root_of(self.store.leaves(0, size))
        return self._roots[size]

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
            save_projection(self._cache, self.state, self._tree, self._leaf)
            self._saved = self.state.size

    def close(self) -> None:
        """Gives up the store."""
        self.store.close()
