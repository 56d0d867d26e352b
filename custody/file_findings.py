"""Replay's level `files`: registered files and blobs against their digests.

Leaves the levels before it to `ledger.replay`.

Rules:
- Every blob that an event names must be there, whole, unless it was redacted; sealed ones too, with
  the artifacts that they name. One that several entries name is found once, at the first of them.
- Files of a withdrawn experiment aren't compared: the next plan is often the same file, mended.
- A list of files holds what the protocol names, no more and no less: one that is empty would leave
  nothing to compare.
- Until the arms are open no finding says which arm a file belongs to.
- A registered file that is there must be equal, or be what a later entry registered at its place:
  replaced on record, which is said and no finding. One that isn't there is no finding, since an
  auditor may hold the ledger alone.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import msgspec

from fairtrial.ledger.canonical import decode_event
from fairtrial.ledger.entry import may_be_entry, parse_entry
from fairtrial.ledger.errors import LedgerError, StoreError
from fairtrial.ledger.events import (
    Amend,
    AttemptEnd,
    Blob,
    Decision,
    Event,
    Freeze,
    Redact,
    Register,
)
from fairtrial.ledger.findings import Finding
from fairtrial.ledger.protocol import decode_resolved
from fairtrial.ledger.state import Experiment, State, is_blinded

from .files import FileEntry, digest_now, parse_file_list, unlisted
from .registered_places import Places, Planned, places_of, protocol_folder
from .sealing import Seals
from .trial import Reader

# What is found in the place of a blob that isn't there.
MISSING = "nothing"

__all__ = ("MISSING", "NamedBlobs", "blobs_of", "count_blobs", "file_findings", "readable_events")


class NamedBlobs(NamedTuple):
    """How many blobs the entries of a ledger name, and how many of them aren't beside it."""

    named: int
    missing: int


def file_findings(reader: Reader, state: State) -> Iterator[Finding]:
    """Yields what is missing or differs among blobs and registered files."""
    newest: dict[str, tuple[int, Register | Freeze]] = {}
    planned: list[Planned] = []
    seals, seen = Seals(reader), set[str]()
    for seq, event in readable_events(reader):
        yield from _seal_findings(reader, seals, state, seq, event, seen=seen)
        for blob in blobs_of(event):
            yield from _blob_finding(reader, state, seq, blob, seen)
        if isinstance(event, (Register, Freeze, Amend)):
            planned.append((seq, event))
        if isinstance(event, (Register, Freeze)):
            newest[event.experiment] = (seq, event)
    places = places_of(reader, planned)
    for name, (seq, event) in newest.items():
        known = state.experiments.get(name)
        if known is None or known.withdrawn_seq is not None:
            continue
        yield from _list_findings(reader, known, places, seq, event)


def _seal_findings(
    reader: Reader, seals: Seals, state: State, seq: int, event: Event, *, seen: set[str]
) -> Iterator[Finding]:
    """Yields what is wrong with the sealed part of an ending and with its artifacts."""
    if not isinstance(event, (Decision, AttemptEnd)) or event.sealed is None:
        return
    if not seals.has(event.sealed):
        where, expected = f"entry {seq} sealed", f"SHA-256 {event.sealed}"
        yield _finding("seal", seq, where, expected, "no blob with this digest")
    for blob in seals.blobs(event):
        yield from _blob_finding(reader, state, seq, blob, seen)


def readable_events(reader: Reader) -> Iterator[tuple[int, Event]]:
    """Yields the events that can be read; the others are findings of the level `bytes`."""
    try:
        for seq, data in enumerate(reader.store.read()):
            if not may_be_entry(data):
                continue
            try:
                event = decode_event(parse_entry(data).event)
            except LedgerError:
                continue
            yield seq, event
    except StoreError:
        return


def blobs_of(event: Event) -> Iterator[Blob]:
    """Yields every blob that an event names."""
    stack: list[object] = [event]
    while stack:
        value = stack.pop()
        if isinstance(value, Blob):
            yield value
        elif isinstance(value, msgspec.Struct):
            stack.extend(getattr(value, name) for name in value.__struct_fields__)
        elif isinstance(value, dict):
            stack.extend(value.values())
        elif isinstance(value, tuple):
            stack.extend(value)


def count_blobs(reader: Reader) -> NamedBlobs:
    """Returns how many blobs that weren't erased are named, and how many aren't there."""
    seals, named, sealed, erased = Seals(reader), dict[str, Blob](), set[str](), set[str]()
    for _, event in readable_events(reader):
        if isinstance(event, Redact):
            erased.add(event.blob.sha256)
        elif isinstance(event, (Decision, AttemptEnd)) and event.sealed is not None:
            sealed |= set() if seals.has(event.sealed) else {event.sealed}
            named |= {blob.sha256: blob for blob in seals.blobs(event)}
        named |= {blob.sha256: blob for blob in blobs_of(event)}
    kept = [blob for digest, blob in named.items() if digest not in erased]
    missing = sum(_is_missing(reader, blob) for blob in kept)
    return NamedBlobs(len(kept) + len(sealed), missing + len(sealed))


def _blob_finding(
    reader: Reader, state: State, seq: int, blob: Blob, seen: set[str]
) -> Iterator[Finding]:
    """Yields what is wrong with a blob, once however many entries name it."""
    # By all three: an entry that names one of them wrongly is a finding of its own.
    name = f"{blob.size} {blob.blake3} {blob.sha256}"
    if blob.sha256 in state.erased or name in seen:
        return
    seen.add(name)
    try:
        reader.blobs.get(blob)
    except LedgerError as error:
        found = MISSING if _is_missing(reader, blob) else str(error)
        yield _finding("blob", seq, error.where or "blobs", f"SHA-256 {blob.sha256}", found)


def _is_missing(reader: Reader, blob: Blob) -> bool:
    try:
        return reader.blobs.path_of(blob) is None
    except LedgerError:
        # What should say where the blob is can't be read: that is damage, not absence.
        return False


def _list_findings(
    reader: Reader, known: Experiment, places: Places, seq: int, event: Register | Freeze
) -> Iterator[Finding]:
    name = known.name
    try:
        data = reader.blobs.get(event.files)
    except LedgerError:
        # The list itself is a blob: its own finding says what is wrong with it.
        return
    try:
        entries = parse_file_list(data)
    except LedgerError as error:
        yield _finding("list", seq, f"{name}: list of files", "a list of files", error.found)
        return
    for fault in _unlisted(reader, known, event, entries):
        yield _finding("list", seq, f"{name}: list of files", "what the protocol names", fault)
    folder = protocol_folder(reader, entries)
    for entry in entries:
        path = (reader.folder if entry.role == "protocol" else folder) / entry.path
        expected, since = entry.sha256, seq
        if entry.role == "protocol":
            expected, since = known.protocol.sha256, max(seq, known.plan_seq)
        found = digest_now(path)
        if found in (None, expected):
            continue
        if places.replaced_by(path, after=since, found=found) is None:
            where = f"{name}: {_shown_field(known, entry.field)} {entry.path}"
            yield _finding("file", seq, where, f"SHA-256 {expected}", f"SHA-256 {found}")


def _unlisted(
    reader: Reader, known: Experiment, event: Register | Freeze, entries: list[FileEntry]
) -> list[str]:
    """Returns how a list differs from its protocol, which the freeze has fixed as to files."""
    is_first = isinstance(event, Register)
    resolved = event.resolved if isinstance(event, Register) else known.resolved
    try:
        protocol = decode_resolved(reader.blobs.get(resolved))
    except LedgerError:
        # The protocol is a blob: its own finding says what is wrong with it.
        return []
    faults = unlisted(entries, protocol, optional="units" if is_first else None)
    if not is_blinded(known):
        return faults
    # A fault quotes the field of a file, which would say whose it is.
    return [f"{len(faults)} entries that the protocol has otherwise"] if faults else []


def _shown_field(known: Experiment, field: str) -> str:
    """Returns the field that names a file; of blinded arms none in particular."""
    return "arms" if is_blinded(known) and field.startswith("arms.") else field


def _finding(code: str, seq: int, where: str, expected: str, found: str) -> Finding:
    return Finding(
        level="files",
        code=f"{code}_differs",
        seq=seq,
        where=where,
        expected=expected,
        found=found,
    )
