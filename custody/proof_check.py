"""Checks a proof about a ledger without the ledger.

Leaves making one to `proving.py`, hashing and files to `ledger.proofs`, and what its head is worth
to `head_check.py`.

Rules:
- The leaf of an entry is hashed from the entry's own bytes; nothing else in the proof is believed.
- A check says what it was given from elsewhere. A proof that only agrees with itself is its
  author's word and no more, and is called unvouched.
- Proofs of rotations, which lead on from a pinned key, are under the very head of the proof.
- What was given and contradicts the proof is a fork; a proof that doesn't hold is corrupt.
"""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from fairtrial.ledger.canonical import event_id
from fairtrial.ledger.checkpoint import Checkpoint, parse_checkpoint
from fairtrial.ledger.entry import Entry, parse_entry
from fairtrial.ledger.errors import LedgerError, RefusedError
from fairtrial.ledger.merkle import leaf_hash
from fairtrial.ledger.note import parse_note
from fairtrial.ledger.proofs import (
    ConsistencyProof,
    InclusionProof,
    is_consistent,
    is_included,
    parse_consistency,
    parse_inclusion,
)

from .head_check import Judged, Word, judge_head
from .proving import OWN_ORIGIN, OldHead
from .rotations import Rotation, rotation_of
from .vouching import Pins

__all__ = ("ProofReport", "check_proof")


class ProofReport(msgspec.Struct, frozen=True, kw_only=True):
    """What a proof shows, and by whose word.

    `seq` is that of the entry, None for a proof of growth; `old` the size that it grew from;
    `entry` the stored line, where the proof holds and it is one of this format.
    """

    v: int
    record: Word
    reason: str
    origin: str
    size: int
    root: str
    seq: int | None
    old: int | None
    ledger: str | None
    id: str | None
    time: str | None
    actor: str | None
    leaf: str | None
    entry: str | None
    vouched_by: tuple[str, ...]


def check_proof(
    data: bytes,
    *,
    pins: Pins,
    against: Sequence[OldHead] = (),
    entry: bytes | None = None,
    rotations: Sequence[bytes] = (),
) -> ProofReport:
    """Returns what a proof shows, without the ledger.

    Args:
        data: A `.tlog-proof`, or a proof of growth.
        pins: Keys, origin and policy from elsewhere.
        against: Heads from elsewhere; a proof of growth needs the old one.
        entry: The entry, when the proof doesn't carry it.
        rotations: Proofs of rotations before the head, which lead on from a pinned key.

    Raises:
        RefusedError: The bytes aren't a proof, or something is missing to check it.
    """
    is_growth = data.startswith(b"old ")
    proof = parse_consistency(data) if is_growth else parse_inclusion(data)
    head = parse_checkpoint(parse_note(proof.note).text)
    handed_on, broken = _rotations(rotations, head, pins)
    judged = Judged("corrupt", broken)
    if not broken:
        judged = judge_head(proof.note, head, pins, against, rotations=handed_on)
    if isinstance(proof, ConsistencyProof):
        return _growth_report(proof, head, against, judged)
    return _entry_report(proof, head, entry, judged)


def _rotations(files: Sequence[bytes], head: Checkpoint, pins: Pins) -> tuple[list[Rotation], str]:
    """Returns the rotations in proofs under a head, and why one of them doesn't hold.

    Raises:
        RefusedError: One is a proof of something else, or no key is pinned that it could lead from.
    """
    if files and not pins.is_pinned():
        raise RefusedError(
            "a rotation leads on from a pinned key, and none was given",
            expected="the verifier key that you hold",
            found="none",
            todo="--vkey VKEY",
        )
    found: list[Rotation] = []
    for data in files:
        proof = parse_inclusion(data)
        own = parse_checkpoint(parse_note(proof.note).text)
        if own != head:
            raise RefusedError(
                "the proof of a rotation is of another head than the proof that it goes with",
                where=f"entry {proof.seq}",
                expected=f"{head.origin}, {head.size} entries, root {head.root.hex()}",
                found=f"{own.origin}, {own.size} entries, root {own.root.hex()}",
                todo="ledger prove ENTRY --rotations writes both",
            )
        entry, broken = _entry_in(proof, head, None)
        if broken:
            return [], f"the rotation at entry {proof.seq}: {broken}"
        found.append(rotation_of(entry, proof.seq))
    return found, ""


def _growth_report(
    proof: ConsistencyProof,
    head: Checkpoint,
    against: Sequence[OldHead],
    judged: Judged,
) -> ProofReport:
    olds = [one for one in against if one.size == proof.old and one.root is not None]
    if not olds:
        raise RefusedError(
            "a proof of growth is checked against the head that it grew from",
            expected=f"a receipt or checkpoint of {proof.old} entries",
            found=", ".join(one.source for one in against) or "none",
            todo="--against RECEIPT",
        )
    for one in olds:
        assert one.root is not None
        if not is_consistent(proof, one.root, size=head.size, root=head.root):
            judged = Judged("corrupt", f"it doesn't lead from {one.source} to this head")
    return _report(head, judged, old=proof.old)


def _entry_report(
    proof: InclusionProof, head: Checkpoint, given: bytes | None, judged: Judged
) -> ProofReport:
    entry, broken = _entry_in(proof, head, given)
    if broken:
        return _report(head, Judged("corrupt", broken), seq=proof.seq)
    return _report(head, judged, seq=proof.seq, entry=entry)


def _entry_in(
    proof: InclusionProof, head: Checkpoint, given: bytes | None
) -> tuple[Entry | None, str]:
    """Returns the entry of a proof, None for one of another tool, and why the proof doesn't hold.

    Raises:
        RefusedError: The entry isn't there.
    """
    data = given if given is not None else proof.extra
    if data is None:
        raise RefusedError(
            "the proof doesn't carry its entry",
            where=f"entry {proof.seq}",
            expected="the entry's bytes, beside the proof",
            todo="--entry FILE, its line without the newline",
        )
    entry: Entry | None
    try:
        entry = parse_entry(data)
    except LedgerError:
        # An entry of another tool is bytes to us; the tree is the same.
        entry = None
    broken = "" if entry is None else _misplaced(entry, proof.seq, head.origin)
    if not is_included(proof, leaf_hash(data), size=head.size, root=head.root):
        broken = "the entry isn't in the tree of this checkpoint"
    return entry, broken


def _misplaced(entry: Entry, seq: int, origin: str) -> str:
    """Returns how an entry contradicts its place, "" when it doesn't."""
    if entry.seq != seq:
        return f"the entry says that it is entry {entry.seq}"
    if origin.startswith(OWN_ORIGIN) and origin != OWN_ORIGIN + entry.ledger:
        return f"the entry says that it is of ledger {entry.ledger}"
    return "" if event_id(entry.event) == entry.id else "the id isn't that of the event's bytes"


def _report(
    head: Checkpoint,
    judged: Judged,
    *,
    seq: int | None = None,
    old: int | None = None,
    entry: Entry | None = None,
) -> ProofReport:
    return ProofReport(
        v=1,
        record=judged.word,
        reason=judged.reason,
        origin=head.origin,
        size=head.size,
        root=head.root.hex(),
        seq=seq,
        old=old,
        ledger=None if entry is None else entry.ledger,
        id=None if entry is None else entry.id,
        time=None if entry is None else entry.time,
        actor=None if entry is None else entry.actor,
        leaf=None if entry is None else entry.leaf().hex(),
        entry=None if entry is None else entry.data.decode("utf-8", "replace"),
        vouched_by=judged.vouched_by,
    )
