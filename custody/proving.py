"""Proofs about a ledger: that an entry is in it, and that it grew from an earlier head.

Leaves hashing and files to `ledger.proofs`, and checking a proof without the ledger to
`proof_check.py`.

Rules:
- A proof ends in a head that the ledger's key signed, the one in force at that size, whether or not
  it was replaced since; the bytes are read again, and a head that they don't have is refused.
- A proof of an entry carries the entry, so it needs no ledger to be checked.
"""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

from fairtrial.ledger.checkpoint import parse_checkpoint
from fairtrial.ledger.entry import Entry, parse_entry
from fairtrial.ledger.errors import LedgerError, RefusedError, visible
from fairtrial.ledger.given import given_path, read_given
from fairtrial.ledger.note import parse_note
from fairtrial.ledger.proofs import (
    ConsistencyProof,
    InclusionProof,
    consistency_spans,
    format_consistency,
    format_inclusion,
    inclusion_spans,
    is_included,
    span_roots,
)
from fairtrial.ledger.regular import is_regular

from .heads import roots_at
from .own_keys import own_keys, signer_of
from .trial import Reader, parse_receipt
from .vouching import NoteFile, notes_beside, read_note

__all__ = (
    "OWN_ORIGIN",
    "OldHead",
    "find_entry",
    "note_over",
    "parse_old",
    "prove",
    "prove_growth",
    "prove_under",
)

# How the origin of a ledger begins that was given no other one; its id follows.
OWN_ORIGIN = "fairtrial.invalid/"


class OldHead(NamedTuple):
    """An earlier head; ledger and root are None where only a size was given."""

    size: int
    root: bytes | None
    ledger: str | None
    source: str
    is_note: bool = False


def find_entry(reader: Reader, name: str) -> Entry:
    """Returns an entry by its seq or by the id of its event.

    Raises:
        RefusedError: There is no such entry.
    """
    if name.isdecimal() and len(name) < 16:
        for data in reader.store.read(int(name), int(name) + 1):
            return parse_entry(data)
    elif name.startswith("b3:"):
        for data in reader.store.read():
            entry = parse_entry(data)
            if entry.id == name:
                return entry
    raise RefusedError(
        "the ledger has no such entry",
        where=str(reader.path),
        expected="a number of `ledger log`, or an id b3:…",
        found=name[:100],
        todo="ledger log",
    )


def parse_old(text: str) -> OldHead:
    """Returns the earlier head in a receipt, in a file that holds one or a checkpoint, or a size.

    Raises:
        RefusedError: The text is none of these.
    """
    path = given_path(text)
    if path is not None and (is_regular(path) or not text.isdecimal()):
        data, name = read_given(path), visible(path.name)
        try:
            head = parse_checkpoint(parse_note(data).text)
        except RefusedError:
            receipt = parse_receipt(data.decode("utf-8", "replace"), file=path)
            return OldHead(receipt.size, receipt.root, receipt.ledger, f"receipt in {name}")
        ledger = head.origin.removeprefix(OWN_ORIGIN)
        owner = ledger if head.origin != ledger else None
        return OldHead(head.size, head.root, owner, f"checkpoint in {name}", is_note=True)
    if text.isdecimal() and len(text) < 16:
        return OldHead(int(text), None, None, f"size {text}")
    receipt = parse_receipt(text)
    return OldHead(receipt.size, receipt.root, receipt.ledger, "receipt given by you")


def prove(reader: Reader, entry: Entry, checkpoint: Path | None) -> bytes:
    """Returns the bytes of a `.tlog-proof` for an entry.

    Args:
        reader: The ledger.
        entry: The entry.
        checkpoint: The signed head to prove it for; None: the newest beside the ledger.

    Raises:
        RefusedError: No signed head covers the entry, or it isn't one of this ledger.
    """
    return prove_under(reader, entry, note_over(reader, entry.seq + 1, checkpoint).data)


def prove_under(reader: Reader, entry: Entry, note: bytes) -> bytes:
    """Returns the bytes of a `.tlog-proof` for an entry under a head that `note_over` returned."""
    head = parse_checkpoint(parse_note(note).text)
    hashes = span_roots(reader.store.leaves(0, head.size), inclusion_spans(entry.seq, head.size))
    proof = InclusionProof(entry.seq, hashes, note, entry.data)
    assert is_included(proof, entry.leaf(), size=head.size, root=head.root), "roots were compared"
    return format_inclusion(proof)


def prove_growth(reader: Reader, old: OldHead, checkpoint: Path | None) -> tuple[int, bytes]:
    """Returns the size of the newer head, and the bytes of a proof that it grew from the old one.

    Raises:
        RefusedError: The old head isn't one of this ledger, or no signed head is as new.
    """
    note = note_over(reader, old.size, checkpoint)
    size = note.head.size
    if not 0 < old.size <= size:
        raise RefusedError("there is no such beginning", expected=f"1 to {size}", found=old.source)
    root = roots_at(reader.store, {old.size})[old.size]
    opened = _opened(reader)
    if (old.root is not None and old.root != root) or (old.ledger not in (None, opened)):
        raise RefusedError(
            "the ledger didn't grow from that head: one of them is another ledger or was rewritten",
            where=old.source,
            expected=f"ledger {old.ledger}, root {old.root.hex() if old.root else 'any'}",
            found=f"ledger {opened}, root {root.hex()}",
            todo="ledger replay --against it",
        )
    hashes = span_roots(reader.store.leaves(0, size), consistency_spans(old.size, size))
    return size, format_consistency(ConsistencyProof(old.size, hashes, note.data))


def _opened(reader: Reader) -> str:
    """Returns the ledger's id."""
    for data in reader.store.read(0, 1):
        return parse_entry(data).ledger
    return ""


def note_over(reader: Reader, least: int, checkpoint: Path | None) -> NoteFile:
    """Returns a signed head of this ledger that covers so many entries.

    Raises:
        RefusedError: There is none, or the one that was named isn't.
    """
    keys = own_keys(reader)
    named = [read_note(checkpoint, reader.side)] if checkpoint is not None else []
    for note in named or sorted(notes_beside(reader.side), key=lambda note: -note.head.size):
        try:
            signer = signer_of(parse_note(note.data), keys)
        except LedgerError:
            if named:
                raise
            continue
        if note.head.size < least or note.head.origin != signer.name:
            continue
        if roots_at(reader.store, {note.head.size}).get(note.head.size) == note.head.root:
            return note
    raise RefusedError(
        "no signed head of this ledger covers that",
        where=str(checkpoint or reader.side / "checkpoints"),
        expected=f"a checkpoint over at least {least} entries",
        found="none",
        todo="ledger checkpoint --key NAME",
    )
