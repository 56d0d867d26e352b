"""What a signed head is worth to who hasn't the ledger: by keys, witnesses and other heads.

Leaves proofs under that head to `proof_check.py`, and a head of a ledger that is there to
`vouching.py`.

Rules:
- Only what the caller holds from elsewhere vouches for a head.
- A known key whose signature is broken makes the head corrupt; where no known key signed, or
  another head of its size is known, it is a fork.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Literal, NamedTuple, TypeAlias

from fairtrial.ledger.checkpoint import Checkpoint, verify_note
from fairtrial.ledger.errors import RefusedError, TransitionError
from fairtrial.ledger.note import VerifierKey, parse_note

from .proving import OldHead
from .rotations import HandedOn, Rotation, follow_rotations
from .vouching import Pins

__all__ = ("Judged", "Word", "judge_head")

Word: TypeAlias = Literal["holds", "unvouched", "corrupt", "forked"]


class Judged(NamedTuple):
    """What a head's signatures and other heads say of it."""

    word: Word
    reason: str
    vouched_by: tuple[str, ...] = ()


def judge_head(
    note: bytes,
    head: Checkpoint,
    pins: Pins,
    against: Sequence[OldHead],
    *,
    rotations: Sequence[Rotation] = (),
) -> Judged:
    """Returns what keys, witnesses and other heads that a caller holds say of a signed head.

    Args:
        note: The signed head.
        head: What it says.
        pins: Keys, origin and policy from elsewhere.
        against: Heads from elsewhere.
        rotations: What leads on from the pinned keys.
    """
    if pins.origin is not None and pins.origin != head.origin:
        return Judged("forked", f"another origin: {head.origin}")
    by: list[str] = []
    policy = pins.policy
    try:
        if pins.is_pinned():
            keys = follow_rotations(pins.trusted(head.origin), rotations, head.origin)
            by += [_signed_by(key, keys.now[key]) for key in _signers(note, keys.now, keys)]
        if policy is not None and policy.has_quorum():
            found = _signers(note, policy.witnesses.values())
            if not policy.is_met(found):
                return Judged("forked", "the witnesses that cosigned aren't a quorum")
            by.append("cosigned by " + ", ".join(sorted(key.name for key in found)))
    except RefusedError as error:
        # A known key that didn't sign is another thing than one whose signature is broken.
        word: Word = "forked" if isinstance(error, TransitionError) else "corrupt"
        return Judged(word, error.what)
    for one in against:
        if one.size == head.size and one.root is not None:
            if one.root != head.root:
                return Judged("forked", f"{one.source} has another root")
            by.append(one.source)
    if not by:
        return Judged("unvouched", "nothing from elsewhere vouches for its checkpoint")
    return Judged("holds", "", tuple(by))


def _signed_by(key: VerifierKey, since: int | None) -> str:
    if since is None:
        return f"signed by {key.name}"
    return f"signed by {key.name} (the key since entry {since}, handed on by the pinned one)"


def _signers(
    note: bytes, keys: Iterable[VerifierKey], handed_on: HandedOn | None = None
) -> set[VerifierKey]:
    """Returns those of the keys that signed a note, at least one.

    Raises:
        TransitionError: None of them did.
        RefusedError: The signature of one of them doesn't verify.
    """
    parsed, known = parse_note(note), list(keys)
    lines = {(line.name, line.key_id) for line in parsed.lines}
    if not any((key.name, key.key_id()) in lines for key in known):
        for key, seq in handed_on.replaced.items() if handed_on is not None else ():
            if (key.name, key.key_id()) in lines:
                raise TransitionError(
                    f"the key that signed its checkpoint was replaced at entry {seq}",
                    expected="a signature of the key that came after it",
                    found=f"one of {key.name}+{key.key_id().hex()}",
                    todo="ask whoever keeps the ledger for a proof under a newer checkpoint",
                )
        signed = ", ".join(f"{line.name}+{line.key_id.hex()}" for line in parsed.lines)
        raise TransitionError(
            f"no key that was given has signed its checkpoint; {signed} has: a ledger whose key was"
            " rotated has a new verifier key, to be had from whoever keeps it; from one before it"
            " leads --rotation, with what `ledger prove --rotations` writes",
            expected=" or ".join(f"{key.name}+{key.key_id().hex()}" for key in known) or "a key",
            found=signed or "no signature",
            todo="--vkey VKEY, the new one; or --rotation FILE",
        )
    return {one.key for one in verify_note(parsed, known)}
