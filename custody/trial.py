"""An open ledger with what lies beside it: log, blobs, folder, and the values that its blobs hold.

Leaves every act to the modules that carry one out (`registering.py`, `running.py`,
`concluding.py`).

Rules:
- Opening for reading writes nothing and never creates a ledger.
- Registered values come from the blobs that the ledger names, never from the files beside it.
- A tool whose schemas aren't those of the newest writer says so before its first act.
- An act that writes first asks what this machine remembers of the ledger (`remembering.py`): what
  it refuses, torn bytes included, stays as it was.
- Every act that writes ends with a receipt: ledger, size and root in one line, to be kept
  elsewhere.
"""

from __future__ import annotations

import os
import secrets
from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import contextmanager
from difflib import get_close_matches
from pathlib import Path
from typing import NamedTuple

import msgspec

from fairtrial.ledger.blobs import BlobStore
from fairtrial.ledger.decoding import decode_once
from fairtrial.ledger.durable import create_folder, write_file
from fairtrial.ledger.entry import Entry
from fairtrial.ledger.errors import ConflictError, IntegrityError, RefusedError, TransitionError
from fairtrial.ledger.event_schemas import schemas_digest
from fairtrial.ledger.events import Adopt, Blob, Event, Look, Open
from fairtrial.ledger.log import (
    Appended,
    Log,
    LogStore,
    Request,
    find_event,
    read_events,
    utc_now,
)
from fairtrial.ledger.opening import blob_store, open_store, side_folder
from fairtrial.ledger.plan_rules import FORMAT
from fairtrial.ledger.protocol import Protocol, decode_resolved
from fairtrial.ledger.state import Experiment, PlanColumns, is_ended, next_number
from fairtrial.protocols.plan import Plan, parse_plan
from fairtrial.protocols.units import Units, parse_units

from .cache_key import cache_key
from .receipts import Receipt, parse_receipt, receipt_line
from .recovering import check_before_recovery, check_begun, record_torn, set_torn_aside
from .remembering import check_remembered

__all__ = (
    "FORMAT",
    "NAME_IT",
    "Reader",
    "Receipt",
    "Trial",
    "check_begun",
    "open_trial",
    "parse_receipt",
    "receipt_line",
    "tool_name",
)


NAME_IT = "name the experiment, as in: ledger VERB"


def tool_name() -> str:
    """Returns this tool and its version."""
    # Only acts that write say it; the import takes as long as reading a short ledger.
    from importlib.metadata import version

    return f"fairtrial {version('fairtrial')}"


class _Columns(NamedTuple):
    """A plan as the fold reads it."""

    units: Sequence[str]
    arms: Sequence[str]
    replicates: Sequence[int]


class Reader:
    """A ledger's entries and blobs, for reading alone.

    Args:
        path: The ledger's file.
        store: Its open store.
    """

    def __init__(self, path: Path, store: LogStore) -> None:
        self.path, self.store = path, store
        self.blobs: BlobStore = blob_store(path)
        self._plans: dict[str, Plan] = {}
        self._columns: dict[str, PlanColumns] = {}

    @property
    def folder(self) -> Path:
        """The folder that holds the ledger."""
        return self.path.parent

    @property
    def side(self) -> Path:
        """The folder beside the ledger."""
        return side_folder(self.path)

    def read_columns(self, blob: Blob) -> PlanColumns | None:
        """Returns a plan as the fold reads it, or None when its bytes aren't at hand."""
        if blob.sha256 not in self._columns:
            if not self.blobs.has(blob):
                return None
            plan = self.plan_at(blob)
            self._columns[blob.sha256] = _Columns(
                [plan.units[i] for i in plan.unit_of],
                [plan.arms[i] for i in plan.arm_of],
                plan.replicate_of,
            )
        return self._columns[blob.sha256]

    def plan_at(self, blob: Blob) -> Plan:
        """Returns the plan whose bytes a blob names."""
        if blob.sha256 not in self._plans:
            data = self.blobs.get(blob)
            try:
                self._plans[blob.sha256] = parse_plan(data)
            except ValueError as error:
                raise IntegrityError(
                    "the blob of the frozen plan is no plan",
                    where=f"blob {blob.blake3}",
                    expected="the plan that the freeze wrote",
                    found=str(error)[:300],
                    todo="bring the .d folder of a copy; ledger replay names what differs",
                ) from error
        return self._plans[blob.sha256]

    def plan(self, known: Experiment) -> Plan:
        """Returns the frozen run order of an experiment.

        Raises:
            TransitionError: It isn't frozen.
        """
        return self.plan_at(_frozen(known, known.plan_blob))

    def protocol(self, known: Experiment) -> Protocol:
        """Returns the protocol in force."""
        return decode_resolved(self.blobs.get(known.resolved))

    def units(self, known: Experiment) -> Units:
        """Returns the frozen units.

        Raises:
            TransitionError: The experiment isn't frozen.
        """
        protocol = self.protocol(known)
        return parse_units(
            self.blobs.get(_frozen(known, known.units_blob)),
            protocol.units,
            name=protocol.units.file,
            seed=protocol.design.seed,
        )

    def looks(self, known: Experiment) -> tuple[Look, ...]:
        """Returns the looks taken, in order."""
        found = (
            find_event(self.store, known.name, "look", number=number)
            for number in range(1, len(known.taken) + 1)
        )
        return tuple(look for look in found if isinstance(look, Look))

    def read(self, start: int = 0, stop: int | None = None) -> Iterator[tuple[Entry, Event]]:
        """Yields entries with their events, each checked by its id."""
        return read_events(self.store, start, stop)

    def get_json(self, blob: Blob) -> object:
        """Returns the value of a JSON blob.

        Raises:
            IntegrityError: The bytes aren't JSON, or name a member twice.
        """
        where = f"blob {blob.blake3}"
        return decode_once(self.blobs.get(blob), what="a blob isn't JSON", where=where)


def _frozen(known: Experiment, blob: Blob | None) -> Blob:
    if blob is None:
        raise TransitionError("the experiment isn't frozen", where=known.name, todo="ledger freeze")
    return blob


class Trial(Reader):
    """One ledger, folded and opened for one act.

    Args:
        path: The ledger's file.
        store: Its open store.
        read_only: Whether this act may write.
        rehash: Whether a cached projection is checked against every entry first.
        actor: Who acts, as claimed.
        clock: Returns the time of an entry.
    """

    def __init__(
        self,
        path: Path,
        store: LogStore,
        *,
        read_only: bool,
        rehash: bool,
        actor: str,
        clock: Callable[[], str] = utc_now,
    ) -> None:
        super().__init__(path, store)
        self.actor, self.read_only = actor, read_only
        # Anchors a look as soon as it is on record; set by the act that has a key.
        self.after_look: Callable[[Experiment], None] | None = None
        self.log = Log(
            store,
            plan_of=self.read_columns,
            cache=self.side / "cache" / "projection",
            cache_key=cache_key(os.environ, create=not read_only),
            clock=clock,
            rehash=rehash,
        )

    def experiment(self, name: str | None) -> Experiment:
        """Returns an experiment by name; the name may be left out when there is only one.

        Raises:
            RefusedError: No such experiment, or several and no name given.
        """
        known = self.log.state.experiments
        if name is None and len(known) == 1:
            return next(iter(known.values()))
        if name in known:
            return known[name]
        names = ", ".join(known) or "none"
        what = "no such experiment"
        if name is None:
            several = "the ledger holds several experiments"
            what = several if known else "the ledger holds no experiment yet"
        raise RefusedError(
            what,
            where=str(self.path),
            expected=f"one of: {names}" if known else "a registered protocol",
            found=name or "no name",
            todo=_which(name, list(known)),
        )

    def open_experiment(self, name: str | None) -> Experiment:
        """Returns the experiment that an act goes on with: a name left out means the one open.

        Where all have ended it means the one that wasn't withdrawn, so that the act which ended
        it can be typed again.

        Raises:
            RefusedError: No such experiment, or no name given and not one alone is open.
        """
        known = self.log.state.experiments.values()
        unended = [one for one in known if not is_ended(one)]
        meant = unended or [one for one in known if one.withdrawn_seq is None]
        if name is None and len(meant) == 1:
            return meant[0]
        return self.experiment(name)

    def read_blob(self, blob: Blob) -> bytes:
        """Returns the bytes of a blob that may have been erased.

        Raises:
            RefusedError: It was, on record.
            StoreError: It isn't there.
        """
        seq = self.log.state.erased.get(blob.sha256)
        if seq is not None:
            raise RefusedError(
                "the bytes were erased on record",
                where=f"entry {seq}",
                expected=f"SHA-256 {blob.sha256}",
                found="an erasure, which can't be undone",
                todo=f"ledger show {seq} says why; their digest stays",
            )
        return self.blobs.get(blob)

    def append(self, request: Request) -> Appended:
        """Appends one event as this trial's actor."""
        return self.log.append(request, actor=self.actor)

    def receipt(self) -> str:
        """Returns the receipt of the present head."""
        return receipt_line(self.log.ledger, self.log.head())

    def keep_receipt(self, what: str) -> str:
        """Writes a copy of the receipt beside the ledger, whole or not at all, and returns it."""
        line = self.receipt()
        folder = self.side / "receipts"
        create_folder(folder)
        name = f"{self.log.state.size:04d}-{what}.txt"
        write_file(folder / name, f"{line}\n".encode(), mode=0o644)
        return line

    def put_json(self, value: object) -> Blob:
        """Stores a value as a blob of compact JSON with sorted keys."""
        return self.blobs.put(msgspec.json.encode(value, order="deterministic"))


def _which(name: str | None, known: list[str]) -> str:
    """Returns what to do about an experiment that isn't known."""
    if name is not None and Path(name).is_file():
        return f"{name} is a file: name a ledger with --ledger {name}"
    near = get_close_matches(name or "", known, n=1)
    if near:
        return f"did you mean {near[0]!r}?"
    if not known:
        return "ledger register PROTOCOL"
    return f"{NAME_IT} {known[0]}"


@contextmanager
def open_trial(
    path: Path,
    *,
    actor: str = "reader",
    create: bool = False,
    read_only: bool = False,
    rehash: bool = True,
    clock: Callable[[], str] = utc_now,
    vkey_of: Callable[[str], str | None] | None = None,
) -> Generator[Trial, None, None]:
    """Opens a ledger for one act and closes it after.

    Args:
        path: The ledger's file; `.jsonl` picks the JSONL store.
        actor: Who acts, as claimed.
        create: Whether a missing ledger is created and opened with its first entry.
        read_only: Whether nothing may be written, caches included.
        rehash: Whether a cached projection is checked against every entry first.
        clock: Returns the time of an entry.
        vkey_of: Returns the verifier key that a new ledger of an origin begins with, if any.

    Raises:
        StoreError: The ledger is missing or unreadable.
        IntegrityError: Its bytes contradict their hashes.
    """
    path = path.absolute()
    store = open_store(path, create=create, read_only=read_only)
    try:
        if not read_only:
            check_before_recovery(Reader(path, store), os.environ, begins=create)
            set_torn_aside(store, path)
        trial = Trial(path, store, read_only=read_only, rehash=rehash, actor=actor, clock=clock)
        if create and trial.log.state.size == 0:
            _open_ledger(trial, vkey_of)
        check_begun(trial.log.state.size, path)
        if not read_only and trial.log.state.size:
            check_remembered(trial.log, trial.side, os.environ)
            record_torn(trial)
            _adopt(trial)
        yield trial
        if not read_only:
            trial.log.save()
    finally:
        store.close()


def _adopt(trial: Trial) -> None:
    """Puts on record that a tool of other schemas writes from here on."""
    state, schemas = trial.log.state, schemas_digest()
    if state.schemas != schemas and not state.closed:
        number = next_number(state, "adopt", "")
        trial.append(Adopt(number=number, tool=tool_name(), schemas=schemas))


def _open_ledger(trial: Trial, vkey_of: Callable[[str], str | None] | None) -> None:
    """Appends the first entry with a ledger id of 16 random bytes."""
    ledger = secrets.token_hex(16)
    origin = f"fairtrial.invalid/{ledger}"
    event = Open(
        format=FORMAT,
        tool=tool_name(),
        schemas=schemas_digest(),
        origin=origin,
        vkey=vkey_of(origin) if vkey_of is not None else None,
    )
    try:
        trial.log.append(event, actor=trial.actor, ledger=ledger)
    except ConflictError:
        # Another process opened it first, and the log has read that: there is one ledger.
        if trial.log.state.size == 0:
            raise
