"""Bytes that two readers could understand differently, with every hash made again."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable

import pytest

from .conftest import Case, rechained, successful

Agreed = Callable[..., str]
FORMS: dict[str, tuple[bytes, bytes]] = {
    "duplicate member": (b'"status":"ok"', b'"status":"ok","status":"ok"'),
    "duplicate free name": (b'{"passed":1.0', b'{"passed":0.0,"passed":1.0'),
    "blank": (b'"status":"ok"', b'"status": "ok"'),
    "tab": (b'"status":"ok"', b'"status":\t"ok"'),
    "zero too many": (b'"passed":1.0', b'"passed":1.00'),
    "exponent": (b'"passed":1.0', b'"passed":1e0'),
    "escape": (b'"status":"ok"', b'"status":"\\u006fk"'),
    "NaN": (b'"passed":1.0', b'"passed":NaN'),
    "control character": (b'"arm":"B"', b'"arm":"B\x7f"'),
    "minus zero": (b'"number":0', b'"number":-0'),
}


@pytest.mark.parametrize("form", FORMS)
def test_ambiguous_bytes_are_corrupt(case: Case, agreed: Agreed, form: str) -> None:
    """Chain and ids agree; the form that isn't the one form is found at its entry."""
    entries = case.entries()
    seq = successful(entries)
    forged = rechained(entries, lambda at, e: e.replace(*FORMS[form]) if at == seq else e)
    if form == "NaN" and not case.is_jsonl:
        with pytest.raises(sqlite3.OperationalError, match="JSON"):
            case.put(forged)
        return
    case.put(forged)
    assert "corrupt" == agreed(case)
    assert seq in {one.seq for one in case.replay().findings if one.code == "noncanonical"}
