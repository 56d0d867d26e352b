"""The bytes of an event: one form for each value, refusals by field path, ids that never move."""

from __future__ import annotations

import json
import math
import os
import subprocess
import sys
import unicodedata
from collections.abc import Mapping
from contextlib import closing, suppress
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import pytest
from blake3 import blake3
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from fairtrial.ledger.canonical import (
    EVENT_CONTEXT,
    NAME_BYTES_MAX,
    TEXT_BYTES_MAX,
    blake3_hex,
    blob_of,
    check_name,
    check_text,
    decode_event,
    encode_event,
    event_id,
    sha256_hex,
)
from fairtrial.ledger.entry import parse_entry
from fairtrial.ledger.errors import IntegrityError, LedgerError, NewerError
from fairtrial.ledger.event_schemas import schemas_digest
from fairtrial.ledger.events import Decision, Stop
from fairtrial.ledger.opening import open_store

from .canonical_cases import CASES, build
from .chains import append

DATA = Path(__file__).parent / "data"
VECTORS: dict[str, Any] = json.loads((DATA / "canonical.json").read_text(encoding="utf-8"))
TRAPS: dict[str, Any] = json.loads((DATA / "json_traps.json").read_text(encoding="utf-8"))
BLAKE3: dict[str, Any] = json.loads((DATA / "blake3.json").read_text(encoding="utf-8"))
PLAIN = build({})


@pytest.mark.parametrize("name", CASES)
def test_bytes_are_the_published_ones(name: str) -> None:
    """Each case has the bytes and the id of the published vectors, also after a round trip."""
    vector = next(one for one in VECTORS["accepted"] if one["case"] == name)
    data = encode_event(build(CASES[name]))
    assert (vector["event"], vector["id"]) == (data.decode(), event_id(data))
    assert data == encode_event(decode_event(data))


def test_every_published_vector_has_its_case() -> None:
    """No published vector is left unchecked."""
    assert list(CASES) == [one["case"] for one in VECTORS["accepted"]]


@pytest.mark.slow
def test_ids_are_the_same_in_every_process() -> None:
    """Fresh processes with other hash seeds, so other orders of keys, give the published ids."""
    expected = "".join(f"{one['id']} {one['id']} {one['case']}\n" for one in VECTORS["accepted"])
    program = str(Path(__file__).with_name("canonical_cases.py"))
    for seed in ("1", "2", "3"):
        done = subprocess.run(
            [sys.executable, program],
            env=os.environ | {"PYTHONHASHSEED": seed, "PYTHONIOENCODING": "utf-8"},
            capture_output=True,
            encoding="utf-8",
            check=True,
        )
        assert expected == done.stdout


@pytest.mark.parametrize("file", ["ledger.db", "ledger.jsonl"])
def test_ids_are_the_same_in_every_store(tmp_path: Path, file: str) -> None:
    """Both stores give back the very bytes, so the same ids."""
    events = [replace(build(values), position=n) for n, values in enumerate(CASES.values(), 1)]
    expected = [event_id(encode_event(event)) for event in events]
    with closing(open_store(tmp_path / file, create=True)) as store:
        append(store, *events)
    with closing(open_store(tmp_path / file, read_only=True)) as store:
        found = [parse_entry(data) for data in store.read()]
    assert expected == [entry.id for entry in found]
    assert expected == [event_id(entry.event) for entry in found]


@pytest.mark.parametrize("vector", VECTORS["refused_on_read"], ids=lambda vector: vector["case"])
def test_other_bytes_for_a_value_are_refused_on_read(vector: Mapping[str, str]) -> None:
    """What isn't the one form of an event is refused, never silently changed."""
    is_newer = vector["case"] == "kind of another version"
    with pytest.raises(NewerError if is_newer else IntegrityError):
        decode_event(vector["event"].encode())


@pytest.mark.parametrize("data", [b"", b"{}", b"null", b'{"kind":2}', b"[" * 100_000])
def test_bytes_of_no_event_are_refused(data: bytes) -> None:
    """Other JSON and nesting without end are refused."""
    with pytest.raises(IntegrityError):
        decode_event(data)


@pytest.mark.parametrize("kind", ["decision/2", "nothing/1"])
def test_event_of_a_newer_tool_is_called_newer(kind: str) -> None:
    """A kind or version that this tool doesn't know isn't damage, and is named."""
    with pytest.raises(NewerError) as caught:
        decode_event(b'{"kind":"%b"}' % kind.encode())
    assert kind == caught.value.found


def test_bytes_that_are_not_utf_8_are_refused() -> None:
    """A byte outside UTF-8 is refused, wherever it stands."""
    data = encode_event(build({"unit": "unit-x", "answer": "y"}))
    for old, new in ((b"unit-x", b"unit-\xff"), (b'"y"', b'"\xc3"'), (b'"y"', b'"\xed\xa0\x80"')):
        with pytest.raises(IntegrityError):
            decode_event(data.replace(old, new))


@pytest.mark.parametrize(
    ("values", "path"),
    [
        ({"scores": {"s": math.nan}}, "scores.s"),
        ({"scores": {"s": math.inf}}, "scores.s"),
        ({"scores": {"s": -math.inf}}, "scores.s"),
        ({"answer": "\ud800"}, "answer"),
        ({"unit": "\udfff"}, "unit"),
        ({"scores": {"\ud800": 1.0}}, "scores"),
        ({"unit": "a\0b"}, "unit"),
        ({"answer": "a\0b"}, "answer"),
        ({"answer": "a\rb"}, "answer"),
        ({"answer": "a\x7fb"}, "answer"),
        ({"answer": "a\x85b"}, "answer"),
        ({"unit": "a\nb"}, "unit"),
        ({"unit": "e\u0301"}, "unit"),
        ({"answer": "e\u0301"}, "answer"),
        ({"unit": " u"}, "unit"),
        ({"unit": "u\u00a0"}, "unit"),
        ({"unit": "a\u202eb"}, "unit"),
        ({"unit": "é" * 101}, "unit"),
        ({"tokens": {" a": 1}}, "tokens"),
        ({"tokens": {1: 1}}, "tokens"),
        ({"answer": b"bytes"}, "answer"),
        ({"requested_model": "m\t"}, "requested_model"),
        ({"experiment": "exp\n"}, "experiment"),
        ({"sealed": "0" * 64 + "\n"}, "sealed"),
    ],
)
def test_value_outside_the_grammar_is_refused_by_its_path(
    values: Mapping[str, object], path: str
) -> None:
    """What can't be stored is refused with the field's path, never turned into null."""
    with pytest.raises(LedgerError) as caught:
        encode_event(build(values))
    assert caught.value.where.startswith(path)


@pytest.mark.parametrize(
    ("values", "path"),
    [
        ({"cost_nanousd": 2**53}, "cost_nanousd"),
        ({"cost_nanousd": 2**53 + 1}, "cost_nanousd"),
        ({"cost_nanousd": 2**63}, "cost_nanousd"),
        ({"cost_nanousd": -1}, "cost_nanousd"),
        ({"position": True}, "position"),
        ({"position": 1.0}, "position"),
        ({"flag": 1}, "flag"),
        ({"scores": {"s": True}}, "scores"),
        ({"scores": {"s": "1"}}, "scores"),
        ({"unit": ""}, "unit"),
        ({"unit": None}, "unit"),
        ({"arm": "a b"}, "arm"),
        ({"arm": "a" * 33}, "arm"),
        ({"status": "fine"}, "status"),
        ({"sealed": "A" * 64}, "sealed"),
        ({"tokens": [1]}, "tokens"),
        ({"answer": "x" * 201}, "answer"),
        ({"scores": {"s": np.float64(0.5)}}, "s"),
        ({"cost_nanousd": np.int64(1)}, ""),
    ],
)
def test_value_of_another_type_is_refused(values: Mapping[str, object], path: str) -> None:
    """A wrong type or range is refused, and the message has the field."""
    with pytest.raises(LedgerError) as caught:
        encode_event(build(values))
    assert path in str(caught.value)


def test_integer_in_a_float_field_is_refused() -> None:
    """1 and 1.0 have one form: the float; an integer is refused in writing and in reading."""
    with pytest.raises(LedgerError, match="changes when it is read back"):
        encode_event(build({"scores": {"s": 1}}))
    one = encode_event(build({"scores": {"s": 1.0}}))
    with pytest.raises(IntegrityError):
        decode_event(one.replace(b'"s":1.0', b'"s":1'))


def _float_text(value: float) -> str:
    """Returns a finite float by the rule: shortest digits; plain from 1e-5 to below 1e16."""
    sign = "-" if math.copysign(1.0, value) < 0 else ""
    mantissa, _, exponent = f"{abs(value)!r}".partition("e")
    whole, _, part = mantissa.partition(".")
    digits = (whole + part).lstrip("0").rstrip("0")
    if not digits:
        return f"{sign}0.0"
    leading = len(whole + part) - len((whole + part).lstrip("0"))
    power = int(exponent or 0) + len(whole) - 1 - leading
    if not -5 <= power < 16:
        rest = f".{digits[1:]}" if digits[1:] else ""
        return f"{sign}{digits[0]}{rest}e{power}"
    if power < 0:
        return f"{sign}0.{'0' * (-power - 1)}{digits}"
    digits = digits.ljust(power + 1, "0")
    return f"{sign}{digits[: power + 1]}.{digits[power + 1 :] or '0'}"


@given(st.floats(allow_nan=False, allow_infinity=False))
def test_float_has_the_form_of_the_rule(value: float) -> None:
    """The written rule gives, for every finite float, the bytes that are stored."""
    data = encode_event(build({"scores": {"s": value}}))
    assert f'"scores":{{"s":{_float_text(value)}}}'.encode() in data


@pytest.mark.parametrize("trap", TRAPS["floats"], ids=lambda trap: trap["value"])
def test_float_traps_are_known(trap: Mapping[str, str]) -> None:
    """The floats whose form differs from RFC 8785 have the form that was measured."""
    value = float(trap["value"])
    assert trap["msgspec_0_23_0"] == _float_text(value)
    data = encode_event(build({"scores": {"s": value}}))
    assert f'{{"s":{trap["msgspec_0_23_0"]}}}'.encode() in data


def test_key_order_trap_is_known() -> None:
    """Keys beyond the basic plane come after those below, unlike in RFC 8785."""
    trap = TRAPS["key_order"]
    data = msgspec.json.encode(dict.fromkeys(trap["rfc8785"], 1), order="deterministic")
    assert trap["msgspec_deterministic"] == list(json.loads(data)) == sorted(trap["keys"])
    keys = ["\uffff", "\U0001f600"]
    assert keys == list(
        json.loads(encode_event(build({"tokens": dict.fromkeys(keys, 1)})))["tokens"]
    )


_NAMES = (
    st.text(st.characters(exclude_categories=("Cs", "Cc")), min_size=1, max_size=40)
    .map(lambda text: unicodedata.normalize("NFC", text).strip())
    .filter(lambda text: 0 < len(text.encode()) <= NAME_BYTES_MAX and not _has_bidi(text))
)


def _has_bidi(text: str) -> bool:
    marks = "\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069\u200e\u200f\u061c"
    return any(mark in text for mark in marks)


@given(
    unit=_NAMES,
    scores=st.dictionaries(
        _NAMES, st.none() | st.floats(allow_nan=False, allow_infinity=False), max_size=5
    ),
    tokens=st.dictionaries(_NAMES, st.integers(0, 2**53 - 1), max_size=5),
    flag=st.none() | st.booleans(),
)
def test_encoding_is_a_fixpoint(
    unit: str, scores: dict[str, float | None], tokens: dict[str, int], flag: bool | None
) -> None:
    """Any event that is accepted decodes to itself and encodes to the same bytes, on one line."""
    values = {"unit": unit, "scores": scores, "tokens": tokens, "flag": flag}
    event = build(values)
    data = encode_event(event)
    assert (event, data) == (decode_event(data), encode_event(decode_event(data)))
    assert b"\n" not in data
    assert json.loads(data)["scores"] == scores
    assert list(json.loads(data)["tokens"]) == sorted(tokens)


@given(st.integers(0, 400), st.integers(0, 7))
def test_flipped_bit_is_another_event_or_none(place: int, bit: int) -> None:
    """No flipped bit gives the same id; what still decodes is another event."""
    data = bytearray(encode_event(PLAIN))
    place %= len(data)
    data[place] ^= 1 << bit
    assert event_id(bytes(data)) != event_id(encode_event(PLAIN))
    with suppress(IntegrityError, NewerError):
        assert decode_event(bytes(data)) != PLAIN


@pytest.mark.parametrize("case", BLAKE3["cases"], ids=lambda case: str(case["len"]))
def test_blake3_gives_the_vectors(case: Mapping[str, Any]) -> None:
    """The names of blobs and the mode of ids are BLAKE3 as specified."""
    data = bytes(n % 251 for n in range(case["len"]))
    derived = blake3(data, derive_key_context=BLAKE3["context"]).hexdigest()
    assert (case["hash"], case["derive_key"]) == (blake3_hex(data), derived)


def test_id_is_derived_under_one_context() -> None:
    """An id is BLAKE3 in derive_key mode, under one context for all kinds."""
    data = encode_event(PLAIN)
    assert "fairtrial 2026-12-01 event id v1" == EVENT_CONTEXT
    assert "b3:" + blake3(data, derive_key_context=EVENT_CONTEXT).hexdigest() == event_id(data)
    assert "b3:" + blake3_hex(data) != event_id(data)


def test_blob_is_named_by_size_and_two_digests() -> None:
    """A reference holds the size, the plain BLAKE3 and the SHA-256 of the bytes."""
    blob = blob_of(b"abc")
    assert (3, blake3_hex(b"abc"), sha256_hex(b"abc")) == (blob.size, blob.blake3, blob.sha256)
    assert "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad" == blob.sha256


@pytest.mark.parametrize("text", ["", " a", "a ", "\ta", "a\n", "a\0", "e\u0301", "x" * 201])
def test_name_outside_the_rule_is_refused(text: str) -> None:
    """A name is NFC, 1 to 200 bytes, without control characters and blanks at its ends."""
    with pytest.raises(LedgerError) as caught:
        check_name(text, "arms.control")
    assert "arms.control" == caught.value.where


@pytest.mark.parametrize("text", ["a\r", "\0", "\x1b[31m", "a\u202eb", "e\u0301", "x" * 2001])
def test_text_outside_the_rule_is_refused(text: str) -> None:
    """Free text is NFC, at most 2,000 bytes, with LF and TAB as its only control characters."""
    with pytest.raises(LedgerError):
        check_text(text, "reason")


def test_name_and_text_within_the_rule_pass() -> None:
    """The longest name and text pass, and free text may hold lines."""
    check_name("ü" * (NAME_BYTES_MAX // 2), "x")
    check_text("x" * TEXT_BYTES_MAX, "x")
    check_text("", "x")
    stop = Stop(experiment="exp-1", number=1, reason="crashed", note="two\n\tlines")
    assert stop == decode_event(encode_event(stop))


def test_constructor_checks_nothing_so_encoding_must() -> None:
    """A Struct takes any type and JSON would write it: only the round trip refuses."""
    wrong = replace(PLAIN, replicate="1")
    assert b'"replicate":"1"' in msgspec.json.encode(wrong)
    with pytest.raises(LedgerError, match="replicate"):
        encode_event(wrong)
    assert isinstance(wrong, Decision)


def test_digest_of_the_schemas_is_stable() -> None:
    """The digest of all schemas is hex and the same in each call."""
    digest = schemas_digest()
    assert (64, digest) == (len(bytes.fromhex(digest)) * 2, schemas_digest())


@pytest.mark.parametrize(
    ("field", "value", "where"),
    [
        ("replicate", "1", "replicate"),
        ("replicate", 2**53, "replicate"),
        ("scores", {"passed": 1}, "scores.passed"),
        ("scores", {"passed": float("nan")}, "scores.passed"),
        ("answer", "\u00e9" * 101, "answer"),
    ],
)
def test_refusal_names_the_field(field: str, value: object, where: str) -> None:
    """Whatever can't be stored is refused by its path: type, range, kind of number, size."""
    with pytest.raises(LedgerError) as refused:
        encode_event(replace(PLAIN, **{field: value}))
    assert where == refused.value.where
