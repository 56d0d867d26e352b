"""The shipped JSON Schemas are those of the event types, and fit the golden events."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest

from fairtrial.ledger.event_schemas import schema_file, schema_text
from fairtrial.ledger.events import EVENT_KINDS
from fairtrial.schemas import kinds, read_schema

FOLDER = Path(__file__).resolve().parents[2] / "schemas"
GOLDEN = Path(__file__).resolve().parents[1] / "golden" / "v1" / "events.json"


@pytest.mark.parametrize("kind", sorted(EVENT_KINDS))
def test_shipped_schema_is_that_of_the_type(kind: str) -> None:
    """A kind's file equals, byte for byte, what its type gives; to add one, write `schema_text`."""
    assert schema_text(kind).encode() == (FOLDER / schema_file(kind)).read_bytes()


def test_every_schema_belongs_to_a_kind() -> None:
    """The files are the kinds, none more; all are read through the package."""
    assert sorted(EVENT_KINDS) == list(kinds())
    assert {schema_file(kind) for kind in EVENT_KINDS} == {p.name for p in FOLDER.glob("*.json")}
    for kind in kinds():
        assert schema_text(kind) == read_schema(kind)


def test_unknown_kind_has_no_schema() -> None:
    """A kind that isn't shipped is a KeyError, whatever path its name spells."""
    for kind in ("decision/99", "decision", "../ledger/x", ""):
        with pytest.raises(KeyError):
            read_schema(kind)
        with pytest.raises(KeyError):
            schema_text(kind)


def _golden() -> list[dict[str, Any]]:
    events = json.loads(GOLDEN.read_text(encoding="utf-8"))["events"]
    return [json.loads(one["event"]) for one in events]


def _errors(value: object, schema: dict[str, Any], root: dict[str, Any], path: str) -> list[str]:
    """Returns where a value breaks a schema, for the words that our schemas use."""
    if "$ref" in schema:
        name = schema["$ref"].removeprefix("#/$defs/")
        return _errors(value, root["$defs"][name], root, path)
    if "anyOf" in schema:
        found = [_errors(value, one, root, path) for one in schema["anyOf"]]
        return [] if [] in found else found[0]
    known = {
        "$defs", "$schema", "additionalProperties", "enum", "items", "maxLength", "maximum",
        "minLength", "minimum", "pattern", "properties", "propertyNames", "required", "title",
        "type",
    }  # fmt: skip
    assert set(schema) <= known, f"a word this check doesn't know: {set(schema) - known}"
    errors: list[str] = []
    types = {
        "object": dict, "array": list, "string": str, "boolean": bool, "null": type(None),
        "integer": int, "number": float,
    }  # fmt: skip
    if "type" in schema and type(value) is not types[schema["type"]]:
        return [f"{path}: {value!r} is no {schema['type']}"]
    if "enum" in schema and value not in schema["enum"]:
        errors.append(f"{path}: {value!r} is none of {schema['enum']}")
    if isinstance(value, str):
        if not re.search(schema.get("pattern", ""), value):
            errors.append(f"{path}: {value!r} isn't {schema['pattern']}")
        if not schema.get("minLength", 0) <= len(value) <= schema.get("maxLength", 10**6):
            errors.append(f"{path}: length {len(value)}")
    if isinstance(value, int) and not (
        schema.get("minimum", -(2**53)) <= value <= schema.get("maximum", 2**53)
    ):
        errors.append(f"{path}: {value} is out of range")
    if isinstance(value, list):
        for index, item in enumerate(value):
            errors += _errors(item, schema.get("items", {}), root, f"{path}[{index}]")
    if isinstance(value, dict):
        errors += _object_errors(value, schema, root, path)
    return errors


def _object_errors(
    value: dict[str, Any], schema: dict[str, Any], root: dict[str, Any], path: str
) -> list[str]:
    members = schema.get("properties", {})
    errors = [f"{path}.{name}: missing" for name in schema.get("required", ()) if name not in value]
    for name, item in value.items():
        rest = schema.get("additionalProperties", {})
        if name not in members and rest is False:
            errors.append(f"{path}.{name}: unknown")
            continue
        errors += _errors(item, members.get(name, rest), root, f"{path}.{name}")
        if "propertyNames" in schema and name not in members:
            errors += _errors(name, {"type": "string", **schema["propertyNames"]}, root, path)
    return errors


@pytest.mark.parametrize("event", _golden(), ids=lambda event: event["kind"])
def test_golden_events_fit_their_schema(event: dict[str, Any]) -> None:
    """Every golden event is valid under its schema, and not with a member less or more."""
    schema = json.loads(read_schema(event["kind"]))
    assert [] == _errors(event, schema, schema, "event")
    for name in event:
        less = {key: value for key, value in event.items() if key != name}
        assert [f"event.{name}: missing"] == _errors(less, schema, schema, "event")
    assert ["event.more: unknown"] == _errors({**event, "more": 1}, schema, schema, "event")
