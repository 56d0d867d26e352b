"""Replays what a ledger added to a head that the caller kept.

Leaves the checks to `ledger.replay_since`, and a whole replay to `inspecting.py`.

Rules:
- The head is a receipt or a checkpoint from elsewhere. With a pinned key a checkpoint has to be
  signed by it; a receipt is the caller's own word.
- Signatures inside the ledger, and notes beside it, aren't looked at: a whole replay judges them.
- Nothing is written.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import closing
from pathlib import Path

from fairtrial.ledger.canonical import decode_event
from fairtrial.ledger.checkpoint import verify_note
from fairtrial.ledger.claims import BESIDE, SELF_SIGNED
from fairtrial.ledger.entry import parse_entry
from fairtrial.ledger.errors import RefusedError
from fairtrial.ledger.events import Open
from fairtrial.ledger.findings import Claim, Finding, ReplayReport
from fairtrial.ledger.frontier import FRONTIERS, load_frontier
from fairtrial.ledger.note import parse_note
from fairtrial.ledger.opening import open_store
from fairtrial.ledger.replay_since import replay_since

from .own_keys import handed_on, own_keys
from .proving import parse_old
from .trial import Reader
from .vouching import NoteFile, Pins, is_named_beside, read_note

__all__ = ("replay_from",)


def replay_from(
    ledger: Path,
    since: str,
    *,
    against: Sequence[str] = (),
    checkpoints: Sequence[Path] = (),
    pins: Pins | None = None,
) -> ReplayReport:
    """Verifies the entries after a head; reads none before it where its frontier was kept.

    Args:
        ledger: The ledger's file.
        since: A receipt, or a file that holds one or a checkpoint.
        against: Further receipts, none of a smaller size.
        checkpoints: Further signed heads, none of a smaller size.
        pins: Keys and origin from elsewhere.

    Raises:
        StoreError: The ledger can't be read at all.
        RefusedError: A head isn't one, isn't signed by the pinned key, or lies before the first.
    """
    pins, path = pins or Pins(), ledger.absolute()
    with closing(open_store(path, read_only=True)) as store:
        reader = Reader(path, store)
        opened = _opened(reader)
        head = _head(since, reader, opened, pins)
        claims = [_head(one, reader, opened, pins) for one in (*against, *map(str, checkpoints))]
        for claim in claims:
            if claim.size < head.size:
                raise RefusedError(
                    "a head from before the one to start at can't be compared",
                    where=claim.source,
                    expected=f"at least {head.size} entries",
                    found=f"{claim.size} entries",
                    todo="ledger replay without --since reads everything",
                )
        frontier = load_frontier(reader.side / "cache" / FRONTIERS, head.size, head.root)
        findings = list(_other_ledger(opened, pins))
        return replay_since(store, head, frontier=frontier, claims=claims, findings=findings)


def _opened(reader: Reader) -> tuple[str, Open | None]:
    """Returns the ledger's id and first event, as they stand there."""
    for data in reader.store.read(0, 1):
        entry = parse_entry(data)
        event = decode_event(entry.event)
        return entry.ledger, event if isinstance(event, Open) else None
    return "", None


def _head(text: str, reader: Reader, opened: tuple[str, Open | None], pins: Pins) -> Claim:
    """Returns a head that the caller brings; a checkpoint names its ledger by the origin."""
    old = parse_old(text)
    if old.root is None:
        raise RefusedError(
            "a size alone is no head",
            expected="a receipt, or a file with a receipt or a checkpoint",
            found=text,
            todo="the line or the note that you kept",
        )
    if not old.is_note:
        assert old.ledger is not None, "a receipt names its ledger"
        level = BESIDE if is_named_beside(text, reader.path) else "receipt"
        return Claim(old.ledger, old.size, old.root, old.source, level)
    note = read_note(Path(text), reader.side)
    ledger, event = opened
    is_own = event is not None and event.origin == note.head.origin
    source = note.source + _signed_by(note, pins, reader)
    name = ledger if is_own else note.head.origin
    level = "checkpoint" if note.brought or pins.is_pinned() else SELF_SIGNED
    return Claim(name, note.head.size, note.head.root, source, level)


def _signed_by(note: NoteFile, pins: Pins, reader: Reader) -> str:
    """Checks a note's signature where a key is pinned; says where it wasn't checked.

    Raises:
        RefusedError: Neither a pinned key signed it, nor one that it handed the ledger on to.
    """
    if not pins.is_pinned():
        return " (its signature NOT checked: no --vkey)"
    pinned = pins.trusted(note.head.origin)
    signed = verify_note(parse_note(note.data), handed_on(own_keys(reader), pinned))
    if {one.key for one in signed} & pinned:
        return ", signed by the pinned key"
    return ", signed by a key that the pinned one was rotated to"


def _other_ledger(opened: tuple[str, Open | None], pins: Pins) -> Iterator[Finding]:
    """Yields a finding where the first entry names another origin than the one that is pinned."""
    _, event = opened
    found = event.origin if event is not None else "no origin"
    if pins.origin is not None and pins.origin != found:
        yield Finding(
            level="anchors",
            code="other_origin",
            seq=0,
            where="entry 0",
            expected=pins.origin,
            found=found,
        )
