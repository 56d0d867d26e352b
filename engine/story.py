"""What happened in a ledger, counted from its entries alone: the story that `ledger replay` tells.

Leaves every check to `ledger.replay`, and the numbers to the look and result events.

Rules:
- Entries are taken as they stand; what can't be read is skipped, since replay names it.
- Order is by position, never by clock.
- A registered file is equal, different, replaced by what a later entry registered at its place, or
  not here; the last two say nothing against the ledger.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import msgspec
from msgspec.structs import replace

from fairtrial.custody.file_findings import readable_events
from fairtrial.custody.files import FileEntry, digest_now, parse_file_list
from fairtrial.custody.registered_places import Places, Planned, places_of, protocol_folder
from fairtrial.custody.trial import Reader
from fairtrial.ledger.deviations import is_early
from fairtrial.ledger.errors import LedgerError
from fairtrial.ledger.events import (
    Amend,
    Attempt,
    AttemptEnd,
    Blob,
    Decision,
    Event,
    Freeze,
    Invalidate,
    Look,
    Refuse,
    Register,
    Result,
    Unblind,
    Withdraw,
    event_kind,
)
from fairtrial.ledger.opening import open_store
from fairtrial.ledger.protocol import Protocol, decode_resolved, primaries
from fairtrial.verdicts.wording import in_points

__all__ = (
    "Change",
    "FileState",
    "Story",
    "read_stories",
    "stories_of",
    "targets_of",
)


class Change(msgspec.Struct, frozen=True, kw_only=True):
    """An amendment, a refusal or an invalidated outcome, with its place."""

    seq: int
    text: str
    after_looks: int


class FileState(msgspec.Struct, frozen=True, kw_only=True):
    """A registered file beside the ledger: `equal`, `different`, `replaced` or `absent`.

    `by` is the entry that registered what replaced it.
    """

    path: str
    role: str
    state: str
    by: int | None = None


@dataclass(kw_only=True)
class Story:
    """One experiment, in counts and places.

    Attributes:
        first: Place of the first event of a kind.
        ends: How attempts ended that settled no slot, by status.
        statuses: Outcomes by status.
        slots: Planned slots; 0 before the freeze.
        open: Positions of slots whose newest attempt has no end.
        blinded: Nobody may know the arms yet.
        unblinded_early: The arms were opened before the data were complete.
        in_points: Endpoints whose differences are differences of shares; None: the plan is lost.
        targets: Of a threshold-rule experiment, what its precision is held against.
    """

    name: str
    first: dict[str, int] = field(default_factory=dict)
    slots: int = 0
    attempts: int = 0
    ends: Counter[str] = field(default_factory=Counter)
    statuses: Counter[str] = field(default_factory=Counter)
    open: set[int] = field(default_factory=set)
    sessions: int = 0
    looks: int = 0
    amendments: list[Change] = field(default_factory=list)
    refusals: list[Change] = field(default_factory=list)
    invalidated: list[Change] = field(default_factory=list)
    withdrawn: str | None = None
    blinded: bool = False
    unblinded_early: bool = False
    result: Result | None = None
    last_look: Look | None = None
    files: list[FileState] = field(default_factory=list)
    in_points: frozenset[str] | None = None
    targets: dict[str, float] = field(default_factory=dict)

    @property
    def outcomes(self) -> int:
        """Slots that have an outcome."""
        return self.statuses.total()

    @property
    def open_attempts(self) -> int:
        """Attempts without an end."""
        return len(self.open)

    @property
    def is_complete(self) -> bool:
        """Whether nothing is pending: a look ended the run, or the experiment has ended."""
        ended = self.result is not None or self.withdrawn is not None
        return ended or (self.last_look is not None and not self.last_look.continues)


def read_stories(ledger: Path) -> list[Story]:
    """Returns the stories of a ledger; writes nothing.

    Raises:
        StoreError: The ledger can't be read.
    """
    store = open_store(ledger.absolute(), read_only=True)
    try:
        return stories_of(Reader(ledger.absolute(), store))
    finally:
        store.close()


def stories_of(reader: Reader) -> list[Story]:
    """Returns the story of each experiment, in the order of registration."""
    stories: dict[str, Story] = {}
    lists: dict[str, tuple[int, Blob]] = {}
    protocols: dict[str, tuple[int, Register | Amend]] = {}
    planned: list[Planned] = []
    for seq, event in readable_events(reader):
        if not event.experiment:
            continue
        story = stories.setdefault(event.experiment, Story(name=event.experiment))
        story.first.setdefault(event_kind(event), seq)
        _count(story, seq, event)
        if isinstance(event, (Register, Freeze, Amend)):
            planned.append((seq, event))
        if isinstance(event, (Register, Freeze)):
            lists[event.experiment] = seq, event.files
        if isinstance(event, (Register, Amend)):
            protocols[event.experiment] = seq, event
    places = places_of(reader, planned)
    for name, (seq, newest) in protocols.items():
        protocol = _protocol(reader, newest.resolved)
        if protocol is not None:
            stories[name].in_points = frozenset(e.name for e in protocol.endpoints if in_points(e))
            stories[name].targets = targets_of(protocol)
        if name in lists and stories[name].withdrawn is None:
            at, files = lists[name]
            stories[name].files = [
                _compared(place, entry, places, after=max(seq, at) if own else at)
                for entry, place, own in _listed(reader, files, newest.protocol)
            ]
    return list(stories.values())


def _protocol(reader: Reader, resolved: Blob) -> Protocol | None:
    try:
        return decode_resolved(reader.blobs.get(resolved))
    except LedgerError:
        return None


def targets_of(protocol: Protocol) -> dict[str, float]:
    """Returns what a threshold-rule experiment holds its precision against, by endpoint."""
    if protocol.kind != "decision_rule":
        return {}
    return {one.name: one.target for one in primaries(protocol) if one.target is not None}


def _count(story: Story, seq: int, event: Event) -> None:
    match event:
        case Decision():
            story.statuses[event.status] += 1
            story.open.discard(event.position)
        case Attempt():
            story.attempts += 1
            story.open.add(event.position)
        case AttemptEnd():
            story.ends[event.status] += 1
            story.open.discard(event.position)
        case Freeze():
            story.slots = event.slot_count
            story.blinded = any(arm.commitment is not None for arm in event.arms)
        case Unblind():
            story.blinded = False
            continues = story.last_look.continues if story.last_look is not None else None
            story.unblinded_early = is_early(continues, withdrawn=story.withdrawn is not None)
        case Look():
            story.looks, story.last_look = story.looks + 1, event
        case Result():
            story.result = event
        case Withdraw():
            story.withdrawn = event.reason
        case _:
            _note(story, seq, event)


def _note(story: Story, seq: int, event: Event) -> None:
    if isinstance(event, Amend):
        text = f"{event.class_}: {', '.join(event.fields)}"
        story.amendments.append(Change(seq=seq, text=text, after_looks=story.looks))
    elif isinstance(event, Refuse):
        text = f"{event.act}: {event.field} differed"
        if event.act == "look":
            text = f"asked for look {event.field.removeprefix('looks.')} when it wasn't due"
        story.refusals.append(Change(seq=seq, text=text, after_looks=story.looks))
    elif isinstance(event, Invalidate):
        text = f"outcome of entry {event.subject.seq}: {event.reason}"
        story.invalidated.append(Change(seq=seq, text=text, after_looks=story.looks))
    elif event_kind(event) == "start":
        story.sessions += 1


def _listed(reader: Reader, blob: Blob, protocol: Blob) -> Iterator[tuple[FileEntry, Path, bool]]:
    """Yields each listed file with the digest in force, its place, and whether it is the plan."""
    try:
        entries = parse_file_list(reader.blobs.get(blob))
    except LedgerError:
        return
    folder = protocol_folder(reader, entries)
    for entry in entries:
        if entry.role == "protocol":
            yield replace(entry, sha256=protocol.sha256), reader.folder / entry.path, True
        else:
            yield entry, folder / entry.path, False


def _compared(place: Path, entry: FileEntry, places: Places, *, after: int) -> FileState:
    found, by = digest_now(place), None
    if found is not None and found != entry.sha256:
        by = places.replaced_by(place, after=after, found=found)
    state = "absent" if found is None else "equal" if found == entry.sha256 else "different"
    state = state if by is None else "replaced"
    return FileState(path=entry.path, role=entry.role, state=state, by=by)
