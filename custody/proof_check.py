"""Checks a proof about a ledger without the ledger.

Leaves making one to `proving.py`, hashing and files to `ledger.proofs`.

Rules:
- The leaf of an entry is hashed from the entry's own bytes; nothing else in the proof is believed.
- A check says what it was given from elsewhere. A proof that only agrees with itself is its
  author's word and no more, and is called unvouched.
- What was given and contradicts the proof is a fork; a proof that doesn't hold is corrupt.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Literal, NamedTuple, TypeAlias

import msgspec

from fairtrial.ledger.canonical import event_id
from fairtrial.ledger.checkpoint import Checkpoint, parse_checkpoint, verify_note
from fairtrial.ledger.entry import Entry, parse_entry
from fairtrial.ledger.errors import LedgerError, RefusedError, TransitionError
from fairtrial.ledger.merkle import leaf_hash
from fairtrial.ledger.note import VerifierKey, parse_note
from fairtrial.ledger.proofs import (
    ConsistencyProof,
    InclusionProof,
    is_consistent,
    is_included,
    parse_consistency,
    parse_inclusion,
)

from .proving import OWN_ORIGIN, OldHead
from .vouching import Pins

__all__ = ("ProofReport", "check_proof")

Word: TypeAlias = Literal["holds", "unvouched", "corrupt", "forked"]


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
) -> ProofReport:
    """Returns what a proof shows, without the ledger.

    Args:
        data: A `.tlog-proof`, or a proof of growth.
        pins: Keys, origin and policy from elsewhere.
        against: Heads from elsewhere; a proof of growth needs the old one.
        entry: The entry, when the proof doesn't carry it.

    Raises:
        RefusedError: The bytes aren't a proof, or something is missing to check it.
    """
    is_growth = data.startswith(b"old ")
    proof = parse_consistency(data) if is_growth else parse_inclusion(data)
    head = parse_checkpoint(parse_note(proof.note).text)
    judged = _judge(proof.note, head, pins, against)
    if isinstance(proof, ConsistencyProof):
        return _growth_report(proof, head, against, judged)
    return _entry_report(proof, head, entry, judged)


class _Judged(NamedTuple):
    """What a head's signatures and other heads say of it."""

    word: Word
    reason: str
    vouched_by: tuple[str, ...] = ()


def _judge(note: bytes, head: Checkpoint, pins: Pins, against: Sequence[OldHead]) -> _Judged:
    if pins.origin is not None and pins.origin != head.origin:
        return _Judged("forked", f"another origin: {head.origin}")
    by: list[str] = []
    policy = pins.policy
    try:
        if pins.is_pinned():
            by += [f"signed by {one.name}" for one in _signers(note, pins.trusted(head.origin))]
        if policy is not None and policy.has_quorum():
            found = _signers(note, policy.witnesses.values())
            if not policy.is_met(found):
                return _Judged("forked", "the witnesses that cosigned aren't a quorum")
            by.append("cosigned by " + ", ".join(sorted(key.name for key in found)))
    except RefusedError as error:
        # A known key that didn't sign is another thing than one whose signature is broken.
        word: Word = "forked" if isinstance(error, TransitionError) else "corrupt"
        return _Judged(word, error.what)
    for one in against:
        if one.size == head.size and one.root is not None:
            if one.root != head.root:
                return _Judged("forked", f"{one.source} has another root")
            by.append(one.source)
    if not by:
        return _Judged("unvouched", "nothing from elsewhere vouches for its checkpoint")
    return _Judged("holds", "", tuple(by))


def _signers(note: bytes, keys: Iterable[VerifierKey]) -> set[VerifierKey]:
    """Returns those of the keys that signed a note, at least one.

    Raises:
        TransitionError: None of them did.
        RefusedError: The signature of one of them doesn't verify.
    """
    parsed, known = parse_note(note), list(keys)
    lines = {(line.name, line.key_id) for line in parsed.lines}
    if not any((key.name, key.key_id()) in lines for key in known):
        signed = ", ".join(f"{line.name}+{line.key_id.hex()}" for line in parsed.lines)
        raise TransitionError(
            f"no key that was given has signed its checkpoint; {signed} has: a ledger whose key was"
            " rotated has a new verifier key, to be had from whoever keeps it"
        )
    return {one.key for one in verify_note(parsed, known)}


def _growth_report(
    proof: ConsistencyProof,
    head: Checkpoint,
    against: Sequence[OldHead],
    judged: _Judged,
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
            judged = _Judged("corrupt", f"it doesn't lead from {one.source} to this head")
    return _report(head, judged, old=proof.old)


def _entry_report(
    proof: InclusionProof, head: Checkpoint, given: bytes | None, judged: _Judged
) -> ProofReport:
    data = given if given is not None else proof.extra
    if data is None:
        raise RefusedError(
            "the proof doesn't carry its entry", todo="--entry FILE, its line without the newline"
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
    if broken:
        return _report(head, _Judged("corrupt", broken), seq=proof.seq)
    return _report(head, judged, seq=proof.seq, entry=entry)


def _misplaced(entry: Entry, seq: int, origin: str) -> str:
    """Returns how an entry contradicts its place, "" when it doesn't."""
    if entry.seq != seq:
        return f"the entry says that it is entry {entry.seq}"
    if origin.startswith(OWN_ORIGIN) and origin != OWN_ORIGIN + entry.ledger:
        return f"the entry says that it is of ledger {entry.ledger}"
    return "" if event_id(entry.event) == entry.id else "the id isn't that of the event's bytes"


def _report(
    head: Checkpoint,
    judged: _Judged,
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
