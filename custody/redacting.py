"""Erases a blob on record: the event first, the bytes after it.

Leaves which blobs the rules need to the fold, and the removal of bytes to `ledger.blobs`.

Rules:
- The event is durable before a byte is removed; after a crash between the two, the same command
  finishes the removal and appends nothing.
- A blob is named by its BLAKE3 or SHA-256, or by an entry and the member that refers to it.
- Every other reference to the same bytes loses them too: they are one blob.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import msgspec

from fairtrial.ledger.errors import RefusedError
from fairtrial.ledger.events import Blob, Redact
from fairtrial.ledger.state import next_number

from .file_findings import blobs_of, readable_events
from .sealing import Seals
from .trial import Trial, open_trial

__all__ = ("Redacted", "redact_blob")

_DIGEST = re.compile(r"[0-9a-f]{64}")
_PLACE = re.compile(r"([0-9]{1,15}):(.+)", re.DOTALL)


class Redacted(NamedTuple):
    """What was put on record, whether this call appended it, and whether bytes were there."""

    event: Redact
    fresh: bool
    was_here: bool
    receipt: str


def redact_blob(ledger: Path, what: str, *, actor: str, reason: str) -> Redacted:
    """Puts on record that a blob is erased, then erases it.

    Args:
        ledger: The ledger's file.
        what: Its BLAKE3 or SHA-256, or `SEQ:NAME`.
        actor: Who erases, as claimed.
        reason: Why.

    Raises:
        RefusedError: No event names such a blob, or the rules need it.
    """
    if not reason.strip():
        raise RefusedError("this act needs a reason", todo="--reason TEXT")
    with open_trial(ledger, actor=actor) as trial:
        blob = _find(trial, what)
        event, fresh = _on_record(trial, blob, reason)
        # Under the append lock nobody puts a blob beside a pack that is written anew.
        with trial.store.writer():
            was_here = trial.blobs.erase(blob)
        return Redacted(event, fresh, was_here, trial.keep_receipt("redact"))


def _on_record(trial: Trial, blob: Blob, reason: str) -> tuple[Redact, bool]:
    """Returns the event that says so, and whether it was appended now."""
    if blob.sha256 in trial.log.state.erased:
        for _, event in readable_events(trial):
            if isinstance(event, Redact) and event.blob.sha256 == blob.sha256:
                return event, False
    number = next_number(trial.log.state, "redact", "")
    event = Redact(number=number, blob=blob, reason=reason)
    trial.append(event)
    return event, True


def _find(trial: Trial, what: str) -> Blob:
    place = _PLACE.fullmatch(what)
    if _DIGEST.fullmatch(what):
        seals, state = Seals(trial), trial.log.state
        for seq, event in readable_events(trial):
            for blob in (*blobs_of(event), *blobs_of(seals.shown(state, seq, event))):
                if what in (blob.blake3, blob.sha256):
                    return blob
        raise RefusedError("no event names such a blob", found=what, todo="ledger log --json")
    if place is None:
        raise RefusedError(
            "this names no blob",
            expected="64 hex digits of its BLAKE3 or SHA-256, or SEQ:NAME",
            found=what,
            todo="ledger show SEQ",
        )
    return _member(trial, int(place[1]), place[2])


def _member(trial: Trial, seq: int, name: str) -> Blob:
    for at, event in readable_events(trial):
        if at == seq:
            shown = Seals(trial).shown(trial.log.state, seq, event)
            named = dict(_named_blobs(event)) | dict(_named_blobs(shown))
            if name in named:
                return named[name]
            raise RefusedError(
                "the entry names no such blob",
                where=f"entry {seq}",
                expected=", ".join(named) or "an entry that names blobs",
                found=name,
                todo=f"ledger show {seq}",
            )
    raise RefusedError("the ledger has no such entry", found=str(seq), todo="ledger log")


def _named_blobs(value: object) -> Iterator[tuple[str, Blob]]:
    """Yields each blob of an event under the name of the member that holds it."""
    if isinstance(value, msgspec.Struct):
        for name in value.__struct_fields__:
            yield from _named(name, getattr(value, name))


def _named(name: str, value: object) -> Iterator[tuple[str, Blob]]:
    if isinstance(value, Blob):
        yield name, value
    elif isinstance(value, dict):
        for key, item in value.items():
            yield from _named(str(key), item)
    elif isinstance(value, tuple):
        for item in value:
            label = str(getattr(item, "name", name))
            yield from ((f"{label}.{key}", blob) for key, blob in _named_blobs(item))
