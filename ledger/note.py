"""Signed notes as text: parse, format, key names, key ids and verifier keys; checks no signature.

Leaves signatures to `checkpoint.py`, what a cosignature signs to `cosignature.py`, and the meaning
of a note's text to whoever reads it.

Rules:
- A note is a text that ends in a newline, an empty line, and signature lines, each with its
  newline. The last empty line divides them.
- Only the one form of each part is taken: strict UTF-8, no control character but newline, base64
  as it would be written here.
- Signature lines of unknown keys are kept as they stand.

Source:
    C2SP signed-note (v1.0.0): format, key ids, verifier keys.
"""

from __future__ import annotations

import base64
import binascii
from hashlib import sha256
from typing import NamedTuple

from .errors import RefusedError

__all__ = (
    "COSIGNATURE",
    "ED25519",
    "NOTE_BYTES_MAX",
    "SIGNATURES_MAX",
    "Note",
    "SignatureLine",
    "VerifierKey",
    "check_key_name",
    "decode_base64",
    "encode_base64",
    "format_lines",
    "format_note",
    "format_vkey",
    "parse_lines",
    "parse_note",
    "parse_vkey",
)

# A note with 64 signatures of the largest kind known (ML-DSA, below 5 kB each) fits.
NOTE_BYTES_MAX = 1 << 19
SIGNATURES_MAX = 64
# Signature types, the byte before the key in a key id.
ED25519 = 0x01
COSIGNATURE = 0x04

_KEY_BYTES = {ED25519: 32, COSIGNATURE: 32}
_DASH = "\u2014 "


class SignatureLine(NamedTuple):
    """One signature line: the key's name, its 4-byte id, and what it signed with."""

    name: str
    key_id: bytes
    signature: bytes


class Note(NamedTuple):
    """A text with the newline at its end, and its signature lines in their order."""

    text: str
    lines: tuple[SignatureLine, ...]


class VerifierKey(NamedTuple):
    """A public key under a name, for one type of signature."""

    name: str
    type: int
    key: bytes

    def key_id(self) -> bytes:
        """Returns the 4 bytes that name this key beside its name.

        Source:
            C2SP signed-note, section Signatures.
        """
        return sha256(self.name.encode() + b"\n" + bytes([self.type]) + self.key).digest()[:4]


def encode_base64(data: bytes) -> str:
    """Returns standard base64 with padding."""
    return base64.b64encode(data).decode("ascii")


def decode_base64(text: str, what: str) -> bytes:
    """Returns the bytes of standard base64, taken only in the one form that encodes them.

    Args:
        text: The base64.
        what: What it holds, for the message.

    Raises:
        RefusedError: It isn't base64 in its one form.
    """
    try:
        data = base64.b64decode(text.encode("ascii"), validate=True)
    except (binascii.Error, ValueError) as error:
        raise _refusal(f"{what} isn't base64", text) from error
    if encode_base64(data) != text:
        raise _refusal(f"{what} isn't base64 in its one form", text)
    return data


def _refusal(what: str, found: str, expected: str = "") -> RefusedError:
    return RefusedError(what, expected=expected, found=repr(found[:120]))


def check_key_name(name: str) -> None:
    """Refuses what can't name a key: empty, or with a blank, a plus or a control character.

    Raises:
        RefusedError: The name has another form.
    """
    if not name or "+" in name or any(c.isspace() or ord(c) < 0x20 for c in name):
        raise _refusal(
            "this can't be the name of a key", name, "text without blank, plus or control character"
        )


def parse_vkey(text: str, *, where: str = "a verifier key") -> VerifierKey:
    """Returns the key in a verifier key `NAME+ID+BASE64`.

    Args:
        text: The verifier key.
        where: What holds it, for the message: an option, a line of a file.

    Raises:
        RefusedError: It has another form, its id isn't that of its key, or its type is unknown.
    """
    try:
        return _read_vkey(text)
    except RefusedError as error:
        raise RefusedError(
            error.what,
            where=where,
            expected=error.expected or "NAME+ID+BASE64, as `ledger key show` prints it",
            found=repr(text[:120]),
            todo="copy it whole from whoever keeps the key, and put it in quotation marks",
        ) from error


def _read_vkey(text: str) -> VerifierKey:
    name, _, rest = text.strip().partition("+")
    key_id, _, encoded = rest.partition("+")
    check_key_name(name)
    data = decode_base64(encoded, "the key of a verifier key")
    key = VerifierKey(name, data[0] if data else 0, data[1:])
    if _KEY_BYTES.get(key.type) != len(key.key):
        raise _refusal(
            "a verifier key of this kind isn't known", text, "Ed25519: type 1 (log), 4 (cosigner)"
        )
    if key.key_id().hex() != key_id:
        raise _refusal("the id of a verifier key isn't that of its key", key_id, key.key_id().hex())
    return key


def format_vkey(key: VerifierKey) -> str:
    """Returns a key as `NAME+ID+BASE64`, to be pinned or handed on."""
    return f"{key.name}+{key.key_id().hex()}+{encode_base64(bytes([key.type]) + key.key)}"


def parse_note(data: bytes) -> Note:
    """Returns the parts of a signed note; checks no signature.

    Raises:
        RefusedError: The bytes aren't a note, or are too many.
    """
    if len(data) > NOTE_BYTES_MAX:
        raise RefusedError(
            "the note is too large",
            expected=f"at most {NOTE_BYTES_MAX:,} bytes",
            found=f"{len(data):,} bytes",
        )
    text, gap, lines = _decode(data).rpartition("\n\n")
    if not gap or not text:
        raise _refusal("the note has no empty line before its signatures", text[-120:])
    return Note(text + "\n", parse_lines(lines))


def _decode(data: bytes) -> str:
    try:
        text = data.decode("utf-8")
    except UnicodeDecodeError as error:
        raise _refusal("the note isn't UTF-8", repr(data[:60])) from error
    if any(ord(character) < 0x20 and character != "\n" for character in text):
        raise _refusal("the note holds a control character", text)
    return text


def parse_lines(text: str) -> tuple[SignatureLine, ...]:
    """Returns the signature lines in a text that holds nothing else.

    Raises:
        RefusedError: A line has another form, the last has no newline, or there are none or too
            many.
    """
    if not text.endswith("\n"):
        raise _refusal("the last signature line has no newline, or there is none", text[-120:])
    lines = text[:-1].split("\n")
    if len(lines) > SIGNATURES_MAX:
        raise RefusedError(
            "the note has too many signatures",
            expected=f"at most {SIGNATURES_MAX}",
            found=str(len(lines)),
        )
    return tuple(_parse_line(line) for line in lines)


def _parse_line(line: str) -> SignatureLine:
    name, _, encoded = line.removeprefix(_DASH).partition(" ")
    if not line.startswith(_DASH):
        raise _refusal("a signature line has another form", line, "U+2014, blank, name, base64")
    check_key_name(name)
    data = decode_base64(encoded, "a signature")
    if len(data) < 5:
        raise _refusal("a signature has no more than a key id", line)
    return SignatureLine(name, data[:4], data[4:])


def format_lines(lines: tuple[SignatureLine, ...]) -> str:
    """Returns signature lines as text, each with its newline."""
    return "".join(
        f"{_DASH}{one.name} {encode_base64(one.key_id + one.signature)}\n" for one in lines
    )


def format_note(note: Note) -> bytes:
    """Returns the bytes of a signed note."""
    return f"{note.text}\n{format_lines(note.lines)}".encode()
