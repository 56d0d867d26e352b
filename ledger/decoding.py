"""Decodes JSON that lies beside a ledger, where anyone could have put anything.

Leaves events to `canonical.py` and files that callers name to the engine.

Rules:
- Bytes that aren't JSON of the type, aren't UTF-8 or are nested too deeply are one error.
"""

from __future__ import annotations

from typing import TypeVar

import msgspec

from .errors import IntegrityError

__all__ = ("decode_json",)

T = TypeVar("T")


def decode_json(data: bytes, kind: type[T], *, what: str, where: str = "") -> T:
    """Returns the value of JSON bytes.

    Args:
        data: The bytes.
        kind: The type that they must have.
        what: What is wrong where they haven't, one sentence.
        where: What holds them.

    Raises:
        IntegrityError: They aren't JSON of this type.
    """
    try:
        return msgspec.json.decode(data, type=kind)
    except (msgspec.MsgspecError, UnicodeError, RecursionError) as error:
        raise IntegrityError(what, where=where, found=str(error)[:300]) from error
