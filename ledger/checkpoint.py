"""Checkpoints: a head of the tree as a signed note; Ed25519 keys that sign and verify.

Leaves the form of notes to `note.py`, key files and what may be signed to the engine
(`custody/keys.py`, `custody/anchoring.py`).

Rules:
- A checkpoint's text is origin, size, root, each a line; further lines are kept and not read.
- A line by a known key that doesn't verify makes the whole note invalid; unknown lines are passed
  over; a note that no known key signed is refused.
- The log's key has the origin as its name: a checkpoint of another log is refused however it is
  signed.
- The empty tree has one root, SHA-256("").

Source:
    C2SP tlog-checkpoint (v1.0.0), signed-note (v1.0.0), tlog-cosignature (v1.1); RFC 8032.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from typing import NamedTuple

from .cosignature import cosigned_message, signature_with_time, signed_message
from .errors import RefusedError
from .merkle import EMPTY_ROOT
from .note import (
    COSIGNATURE,
    ED25519,
    Note,
    SignatureLine,
    VerifierKey,
    decode_base64,
    encode_base64,
    format_note,
    parse_note,
)

__all__ = (
    "SEED_BYTES",
    "Checkpoint",
    "Opened",
    "Signature",
    "SigningKey",
    "checkpoint_text",
    "is_signed",
    "open_checkpoint",
    "parse_checkpoint",
    "sign_checkpoint",
    "verify_note",
)

SEED_BYTES = 32
SIZE_MAX = 2**63 - 1
_SIZE = re.compile(r"0|[1-9][0-9]{0,18}", re.ASCII)


class Checkpoint(NamedTuple):
    """A head of one log: its origin, how many leaves, their root."""

    origin: str
    size: int
    root: bytes
    extensions: tuple[str, ...] = ()


class Signature(NamedTuple):
    """A line that verified: by which key, and when it says it was made."""

    key: VerifierKey
    time: int | None


class Opened(NamedTuple):
    """A checkpoint whose log signature holds, with every known signature that does."""

    checkpoint: Checkpoint
    note: Note
    signatures: tuple[Signature, ...]


class SigningKey:
    """An Ed25519 private key.

    Args:
        seed: Its 32 secret bytes.
    """

    def __init__(self, seed: bytes) -> None:
        if len(seed) != SEED_BYTES:
            raise ValueError(f"a seed has {SEED_BYTES} bytes")
        # Imported where a key is used: most commands use none, and it takes longer than they do.
        from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

        self._key = Ed25519PrivateKey.from_private_bytes(seed)

    def public(self) -> bytes:
        """Returns the 32 public bytes."""
        from cryptography.hazmat.primitives import serialization

        form = serialization.Encoding.Raw, serialization.PublicFormat.Raw
        return self._key.public_key().public_bytes(*form)

    def verifier(self, name: str, *, cosigner: bool = False) -> VerifierKey:
        """Returns the public key under a name, for a log's signatures or for cosignatures."""
        return VerifierKey(name, COSIGNATURE if cosigner else ED25519, self.public())

    def sign(self, message: bytes) -> bytes:
        """Returns the bare signature over a message; the same each time."""
        return self._key.sign(message)

    def sign_note(self, text: str, name: str) -> SignatureLine:
        """Returns the line that signs a note's text under a name."""
        return SignatureLine(name, self.verifier(name).key_id(), self.sign(text.encode()))

    def cosign(self, text: str, name: str, *, time: int) -> SignatureLine:
        """Returns the line that cosigns a checkpoint's text at a time, seconds since 1970."""
        signature = self.sign(cosigned_message(text, time))
        key_id = self.verifier(name, cosigner=True).key_id()
        return SignatureLine(name, key_id, signature_with_time(signature, time))


def is_signed(message: bytes, signature: bytes, public: bytes) -> bool:
    """Returns whether a bare signature over a message is that of a public key."""
    from cryptography.exceptions import InvalidSignature
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey

    try:
        Ed25519PublicKey.from_public_bytes(public).verify(signature, message)
    except (InvalidSignature, ValueError):
        return False
    return True


def verify_note(note: Note, keys: Iterable[VerifierKey]) -> tuple[Signature, ...]:
    """Returns the signatures of known keys, each verified, each key once.

    Raises:
        RefusedError: A known key's line doesn't verify, or no known key signed.
    """
    known = {(key.name, key.key_id()): key for key in keys}
    found: dict[VerifierKey, Signature] = {}
    for line in note.lines:
        key = known.get((line.name, line.key_id))
        if key is not None:
            found.setdefault(key, _verify_line(line, key, note.text))
    if not found:
        raise RefusedError(
            "no known key has signed the note",
            expected=" or ".join(key.name for key in known.values()) or "a known key",
            found=", ".join(f"{one.name} ({one.key_id.hex()})" for one in note.lines)[:200],
        )
    return tuple(found.values())


def _verify_line(line: SignatureLine, key: VerifierKey, text: str) -> Signature:
    signed = signed_message(line, key, text)
    if not is_signed(signed.message, signed.signature, key.key):
        raise RefusedError(
            "a signature of a known key doesn't fit the note",
            where=key.name,
            expected="a signature over this text",
            found="another one: the text or the signature was changed",
        )
    return Signature(key, signed.time)


def checkpoint_text(checkpoint: Checkpoint) -> str:
    """Returns the text that is signed."""
    lines = (checkpoint.origin, str(checkpoint.size), encode_base64(checkpoint.root))
    return "".join(f"{line}\n" for line in (*lines, *checkpoint.extensions))


def parse_checkpoint(text: str) -> Checkpoint:
    """Returns the head that a note's text names; the signatures are another matter.

    Raises:
        RefusedError: The text isn't a checkpoint's.
    """
    lines = text.split("\n")
    if len(lines) < 4 or lines.pop() or not all(lines):
        raise _refusal("the note isn't a checkpoint", "origin, size and root, each a line", text)
    origin, size, root, *extensions = lines
    if not _SIZE.fullmatch(size) or int(size) > SIZE_MAX:
        raise _refusal("a checkpoint has no such size", "a decimal without leading zero", size)
    digest = decode_base64(root, "the root of a checkpoint")
    if len(digest) != 32:
        raise _refusal("a root has another length", "32 bytes", f"{len(digest)} bytes")
    if size == "0" and digest != EMPTY_ROOT:
        raise _refusal("the empty tree has another root", encode_base64(EMPTY_ROOT), root)
    return Checkpoint(origin, int(size), digest, tuple(extensions))


def open_checkpoint(
    data: bytes, *, log: VerifierKey, cosigners: Sequence[VerifierKey] = ()
) -> Opened:
    """Returns a checkpoint that a known log signed.

    Args:
        data: The signed note.
        log: The log's key, named by its origin.
        cosigners: Keys whose cosignatures are verified where they stand.

    Raises:
        RefusedError: It isn't a checkpoint of this log, or a known signature doesn't verify.
    """
    note = parse_note(data)
    signatures = verify_note(note, (log, *cosigners))
    if all(one.key != log for one in signatures):
        raise _refusal("the log hasn't signed the checkpoint", log.name, "cosignatures alone")
    checkpoint = parse_checkpoint(note.text)
    if checkpoint.origin != log.name:
        raise _refusal("the checkpoint is another log's", log.name, checkpoint.origin)
    return Opened(checkpoint, note, signatures)


def sign_checkpoint(checkpoint: Checkpoint, key: SigningKey) -> bytes:
    """Returns the signed note of a head, by the key of its origin."""
    text = checkpoint_text(checkpoint)
    return format_note(Note(text, (key.sign_note(text, checkpoint.origin),)))


def _refusal(what: str, expected: str, found: str) -> RefusedError:
    return RefusedError(what, expected=expected, found=repr(found[:120]))
