"""JSON that lies beside a ledger is read in one way or not at all."""

from __future__ import annotations

import pytest

from fairtrial.ledger.decoding import decode_once
from fairtrial.ledger.errors import IntegrityError


def test_each_member_stands_once() -> None:
    """The same name in two objects is no repetition; in one it is, however deep."""
    value = decode_once(b'{"a":[{"b":1},{"b":2.5}],"b":{}}', what="no JSON")
    assert {"a": [{"b": 1}, {"b": 2.5}], "b": {}} == value
    for data in (b'{"a":1,"a":1}', b'[{"a":{"b":1,"c":2,"\\u0062":3}}]'):
        with pytest.raises(IntegrityError, match="stands twice"):
            decode_once(data, what="no JSON")


@pytest.mark.parametrize("data", [b"", b"{", b"[" * 5000 + b"]" * 5000, b'"\xff"', b"NaN"])
def test_what_is_no_json_is_one_error(data: bytes) -> None:
    """Whatever is wrong with the bytes, they aren't JSON."""
    with pytest.raises(IntegrityError, match="no JSON"):
        decode_once(data, what="no JSON")
