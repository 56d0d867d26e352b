"""Decodes JSON that lies beside a ledger, where anyone could have put anything.

Leaves events to `canonical.py` and files that callers name to the engine.

Rules:
- Bytes that aren't JSON of the type, aren't UTF-8 or are nested too deeply are one error.
- Of JSON that people and other programs read, each member stands once: of two with one name some
  readers take the first and some the last.
"""

from __future__ import annotations

from typing import TypeVar

import msgspec

from .errors import IntegrityError

__all__ = ("decode_json", "decode_once")

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


def decode_once(data: bytes, *, what: str, where: str = "") -> object:
    """Returns the value of JSON bytes in which no object has two members of one name.

    Args:
        data: The bytes.
        what: What is wrong where they aren't JSON, one sentence.
        where: What holds them.

    Raises:
        IntegrityError: They aren't JSON, or a name stands twice.
    """
    # Few acts read such a value, and each would wait for the import.
    import json

    value = decode_json(data, object, what=what, where=where)
    twice: list[str] = []

    def noted(pairs: list[tuple[str, object]]) -> None:
        names = [name for name, _ in pairs]
        if len(set(names)) < len(names):
            twice.append(next(name for name in names if names.count(name) > 1))

    try:
        # Only the names matter; a number may have more digits than Python reads.
        json.loads(data, object_pairs_hook=noted, parse_int=len, parse_float=len)
    except (ValueError, RecursionError) as error:
        raise IntegrityError(what, where=where, found=str(error)[:300]) from error
    if twice:
        raise IntegrityError(
            "a member stands twice in one object",
            where=where,
            expected="each name once",
            found=f"{twice[0]!r} twice"[:300],
            todo="take neither for what it says: no version of this tool writes that",
        )
    return value
