"""What a dishonest owner of a ledger can do, for demonstrations and tests: change one score.

No verb of the working day calls this. It shows what `replay` finds alone, and what only a receipt
that was kept elsewhere finds.

Rules:
- The source is never touched: both functions work on copies.
- `change_score` edits stored text and no hash, as someone with an editor would.
- `rewrite` does all that the owner can: an outcome is changed, every id, leaf, root and basis after
  it is made again, looks and result are computed from the changed data.
"""

from __future__ import annotations

import shutil
import sqlite3
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NamedTuple

import msgspec

from fairtrial.custody.trial import Trial
from fairtrial.ledger.entry import Entry, parse_entry
from fairtrial.ledger.events import (
    Amend,
    Decision,
    Event,
    Invalidate,
    Look,
    Reference,
    Result,
    Settle,
    Sign,
)
from fairtrial.ledger.log import read_events
from fairtrial.ledger.opening import blob_store, is_jsonl, open_store, side_folder
from fairtrial.ledger.transfer import copy_blobs

from .concluding import result, take_look

__all__ = ("Outcome", "change_score", "first_success", "rewrite")

_BATCH = 500
_REFERRING = (Amend, Invalidate, Settle, Sign)


class Outcome(NamedTuple):
    """An outcome at its place."""

    seq: int
    event: Decision


def first_success(ledger: Path, experiment: str, arm: str, *, score: str = "passed") -> Outcome:
    """Returns the first outcome of an arm whose score is 1.

    Raises:
        LookupError: There is none.
    """
    store = open_store(ledger.absolute(), read_only=True)
    try:
        for entry, event in read_events(store):
            if (
                isinstance(event, Decision)
                and (event.experiment, event.arm) == (experiment, arm)
                and event.scores.get(score) == 1.0
            ):
                return Outcome(entry.seq, event)
    finally:
        store.close()
    raise LookupError(f"no outcome of {arm} in {experiment} has {score} 1")


def change_score(source: Path, target: Path, *, seq: int, score: str, value: float) -> None:
    """Copies a ledger and changes the text of one score in the copy, and nothing else.

    Args:
        source: The ledger.
        target: Where the copy goes; same suffix.
        seq: The outcome's entry.
        score: Name of the score, such as `passed`.
        value: What it says afterwards.
    """
    target.parent.mkdir(parents=True, exist_ok=True)
    shutil.copyfile(source, target)
    if side_folder(source).is_dir():
        shutil.copytree(side_folder(source) / "blobs", side_folder(target) / "blobs")
    old = _entry_bytes(source, seq)
    new = _with_score(old, score, value)
    if is_jsonl(target):
        target.write_bytes(target.read_bytes().replace(old + b"\n", new + b"\n"))
    else:
        _update_row(target, seq, new)


def _entry_bytes(ledger: Path, seq: int) -> bytes:
    store = open_store(ledger.absolute(), read_only=True)
    try:
        return next(iter(store.read(seq, seq + 1)))
    finally:
        store.close()


def _with_score(entry: bytes, score: str, value: float) -> bytes:
    event = parse_entry(entry).event
    old = msgspec.json.decode(event)["scores"][score]
    before = msgspec.json.encode({score: old})[1:-1]
    after = msgspec.json.encode({score: value})[1:-1]
    assert event.count(before) == 1, "the score stands once in the event"
    return entry.replace(before, after)


def _update_row(ledger: Path, seq: int, data: bytes) -> None:
    """Changes a row past the triggers, which are put back as they were."""
    with sqlite3.connect(ledger) as database:
        name = "entry_no_update"
        (trigger,) = database.execute(
            "SELECT sql FROM sqlite_master WHERE name=?", (name,)
        ).fetchone()
        database.execute(f"DROP TRIGGER {name}")
        database.execute("UPDATE entry SET entry=? WHERE seq=?", (data.decode(), seq))
        database.execute(trigger)
    database.close()


def rewrite(
    source: Path, target: Path, *, seq: int, change: Callable[[Decision], Decision]
) -> None:
    """Makes a ledger that is consistent in itself, with one outcome changed.

    Args:
        source: The ledger.
        target: The forged one; the files that the protocols name have to lie beside it.
        seq: The outcome's entry.
        change: Returns the outcome that stands there afterwards.
    """
    reading = open_store(source.absolute(), read_only=True)
    writing = open_store(target.absolute(), create=True)
    try:
        copy_blobs(blob_store(source.absolute()), blob_store(target.absolute()))
        entries = list(read_events(reading))
        times = iter([entry.time for entry, _ in entries])
        trial = Trial(
            target.absolute(),
            writing,
            read_only=False,
            rehash=False,
            actor=entries[0][0].actor,
            clock=lambda: next(times),
        )
        for batch in _batches(entries):
            _append(trial, batch, seq, change)
    finally:
        reading.close()
        writing.close()


def _batches(entries: list[tuple[Entry, Event]]) -> Iterator[list[tuple[Entry, Event]]]:
    """Yields runs of entries of one actor; looks, results and referring events alone."""
    batch: list[tuple[Entry, Event]] = []
    for entry, event in entries:
        alone = isinstance(event, (Look, Result, *_REFERRING))
        if batch and (alone or len(batch) == _BATCH or batch[-1][0].actor != entry.actor):
            yield batch
            batch = []
        batch.append((entry, event))
        if alone:
            yield batch
            batch = []
    if batch:
        yield batch


def _append(
    trial: Trial,
    batch: list[tuple[Entry, Event]],
    seq: int,
    change: Callable[[Decision], Decision],
) -> None:
    first, event = batch[0]
    trial.actor = first.actor
    if isinstance(event, Look):
        take_look(trial, trial.experiment(event.experiment))
    elif isinstance(event, Result):
        _conclude(trial, event)
    else:
        events = [_changed(trial, one, at.seq == seq, change) for at, one in batch]
        for outcome in trial.log.append_many(events, actor=first.actor, ledger=first.ledger):
            if isinstance(outcome, Exception):
                raise outcome


def _conclude(trial: Trial, event: Result) -> None:
    note = trial.get_json(event.detail)
    reason = note.get("stop_note") if isinstance(note, dict) else None
    result(
        trial,
        trial.experiment(event.experiment),
        stop=event.stopped_by in ("person", "ceiling", "wall_time"),
        reason=str(reason) if reason else None,
    )


def _changed(
    trial: Trial, event: Event, is_target: bool, change: Callable[[Decision], Decision]
) -> Event:
    if is_target:
        assert isinstance(event, Decision), "an outcome is changed"
        return change(event)
    if isinstance(event, _REFERRING):
        leaf = trial.log.leaf_at(event.subject.seq)
        assert leaf is not None, "what is referred to stands before"
        subject = Reference(seq=event.subject.seq, leaf=leaf.hex())
        return msgspec.structs.replace(event, subject=subject)
    return event
