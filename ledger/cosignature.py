"""What a signature line of each known type signs, and when it says that it was made. Pure.

Leaves the Ed25519 arithmetic to `checkpoint.py` and the form of a line to `note.py`.

Rules:
- A log's signature (type 1) signs the text of the note as it stands.
- A cosignature (type 4) signs a header, its time and then the text: neither can be shown as the
  other.
- The time is in whole seconds since 1970, below 2^63.

Source:
    C2SP signed-note (v1.0.0), Ed25519 signatures; C2SP tlog-cosignature (v1.1), section Ed25519
    signed message.
"""

from __future__ import annotations

from typing import NamedTuple

from .errors import RefusedError
from .note import COSIGNATURE, SignatureLine, VerifierKey

__all__ = ("SignedMessage", "cosigned_message", "signature_with_time", "signed_message")

TIME_MAX = 2**63 - 1
_TIME_BYTES = 8
_SIGNATURE_BYTES = 64


class SignedMessage(NamedTuple):
    """The bytes that were signed, the bare signature, and its time where it has one."""

    message: bytes
    signature: bytes
    time: int | None


def cosigned_message(text: str, time: int) -> bytes:
    """Returns what a cosigner signs of a checkpoint's text at a time.

    Raises:
        RefusedError: The time can't be written.
    """
    if not 0 <= time <= TIME_MAX:
        raise RefusedError("a cosignature can't carry this time", found=str(time))
    return f"cosignature/v1\ntime {time}\n{text}".encode()


def signature_with_time(signature: bytes, time: int) -> bytes:
    """Returns a bare signature in the form of a cosignature line."""
    return time.to_bytes(_TIME_BYTES, "big") + signature


def signed_message(line: SignatureLine, key: VerifierKey, text: str) -> SignedMessage:
    """Returns what a line by a known key claims to have signed.

    Args:
        line: The signature line.
        key: The key that it names.
        text: The note's text.

    Raises:
        RefusedError: The signature has a wrong length or time for its type.
    """
    if key.type != COSIGNATURE:
        return SignedMessage(text.encode(), _sized(line.signature, _SIGNATURE_BYTES), None)
    data = _sized(line.signature, _TIME_BYTES + _SIGNATURE_BYTES)
    time = int.from_bytes(data[:_TIME_BYTES], "big")
    return SignedMessage(cosigned_message(text, time), data[_TIME_BYTES:], time)


def _sized(data: bytes, size: int) -> bytes:
    if len(data) != size:
        raise RefusedError(
            "a signature of a known key has a wrong length",
            expected=f"{size} bytes",
            found=f"{len(data)} bytes",
        )
    return data
