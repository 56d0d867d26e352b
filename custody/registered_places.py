"""What a ledger registered at which place, so that a file that a later plan took over is known.

Leaves comparing and packing to `file_findings.py`, `bundling.py` and `engine/story.py`. Pure but
for reading the lists of files.

Rules:
- A place is where a file lies; a register, a freeze and an amendment each say what lay there.
- A file that holds what a later entry registered at its place was replaced on record: what the
  earlier plan said of it stands, and its bytes are in the blobs where they were kept there.
"""

from __future__ import annotations

import os
from collections.abc import Iterable
from pathlib import Path
from typing import NamedTuple, TypeAlias

from fairtrial.ledger.errors import LedgerError
from fairtrial.ledger.events import Amend, Event, Freeze, Register

from .files import FileEntry, parse_file_list
from .trial import Reader

__all__ = ("Places", "Planned", "places_of", "protocol_folder")

Planned: TypeAlias = tuple[int, Register | Freeze | Amend]


class Places(NamedTuple):
    """By place: which entry registered which digest there, in the order of the ledger."""

    digests: dict[str, list[tuple[int, str]]]

    def replaced_by(self, path: Path, *, after: int, found: str | None) -> int | None:
        """Returns the entry after `after` that registered what is found now, if one did."""
        later = self.digests.get(_key(path), ())
        return next((seq for seq, digest in later if seq > after and digest == found), None)


def places_of(reader: Reader, events: Iterable[tuple[int, Event]]) -> Places:
    """Returns what each register, freeze and amendment said of the files at their places."""
    digests: dict[str, list[tuple[int, str]]] = {}
    own: dict[str, str] = {}
    for seq, event in events:
        if isinstance(event, Amend) and event.experiment in own:
            digests[own[event.experiment]].append((seq, event.protocol.sha256))
        if not isinstance(event, (Register, Freeze)):
            continue
        entries = _listed(reader, event)
        folder = protocol_folder(reader, entries)
        for entry in entries:
            is_own = entry.role == "protocol"
            place = _key((reader.folder if is_own else folder) / entry.path)
            digests.setdefault(place, []).append((seq, entry.sha256))
            if is_own:
                own[event.experiment] = place
    return Places(digests)


def protocol_folder(reader: Reader, entries: list[FileEntry]) -> Path:
    """Returns the folder that the listed paths are relative to."""
    for entry in entries:
        if entry.role == "protocol":
            return (reader.folder / entry.path).parent
    return reader.folder


def _key(path: Path) -> str:
    return os.path.normpath(path)


def _listed(reader: Reader, event: Register | Freeze) -> list[FileEntry]:
    try:
        return parse_file_list(reader.blobs.get(event.files))
    except LedgerError:
        # The list is a blob of its own, whose finding says what is wrong with it.
        return []
