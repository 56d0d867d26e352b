"""The wire types: one tag a kind, the slot first, frozen, no field that isn't declared."""

from __future__ import annotations

import json
import re
from typing import Any, get_args

import msgspec
import pytest

import fairtrial.ledger.events as module
from fairtrial.ledger.events import EVENT_KINDS, Event, event_kind

from .chains import decision

WHOLE_LEDGER = {"open", "adopt", "import", "anchor", "key", "recover", "redact", "sign", "close"}
KINDS = {
    *WHOLE_LEDGER,
    *("register", "freeze", "start", "stop", "attempt", "attempt_end", "decision", "look"),
    *("result", "amend", "invalidate", "settle", "withdraw", "reanalysis", "refuse", "unblind"),
}


def test_kinds_are_those_of_the_format() -> None:
    """There is one type for each kind of the format, tagged with kind and version."""
    assert {f"{kind}/1" for kind in KINDS} == set(EVENT_KINDS)
    assert set(get_args(Event)) == set(EVENT_KINDS.values())


@pytest.mark.parametrize("kind", sorted(EVENT_KINDS))
def test_event_begins_with_kind_and_slot(kind: str) -> None:
    """The first members are kind, experiment, position and number: what a store indexes."""
    cls = EVENT_KINDS[kind]
    assert ("experiment", "position", "number") == cls.__struct_encode_fields__[:3]
    assert ("kind", kind) == (cls.__struct_config__.tag_field, cls.__struct_config__.tag)


def _structs() -> list[type[msgspec.Struct]]:
    return [
        value
        for value in vars(module).values()
        if isinstance(value, type) and issubclass(value, msgspec.Struct)
    ]


@pytest.mark.parametrize("cls", _structs(), ids=lambda cls: cls.__name__)
def test_types_are_frozen_and_closed(cls: type[msgspec.Struct]) -> None:
    """Every wire type is frozen, refuses unknown members and leaves no member out."""
    config = cls.__struct_config__
    assert (True, True, False) == (
        config.frozen,
        config.forbid_unknown_fields,
        config.omit_defaults,
    )
    with pytest.raises(TypeError):
        cls(1)


@pytest.mark.parametrize("cls", _structs(), ids=lambda cls: cls.__name__)
def test_numbers_have_bounds_and_no_type_is_open(cls: type[msgspec.Struct]) -> None:
    """Integers lie within 2^53-1 either way, and no member takes any value."""

    def check(info: msgspec.inspect.Type, path: str) -> None:
        assert not isinstance(info, (msgspec.inspect.AnyType, msgspec.inspect.RawType)), path
        if isinstance(info, msgspec.inspect.IntType):
            assert info.le == 2**53 - 1, path
            assert info.ge in (0, 1 - 2**53), path
        for name in ("item_type", "key_type", "value_type"):
            if hasattr(info, name):
                check(getattr(info, name), f"{path} {name}")
        for one in (*getattr(info, "types", ()), *getattr(info, "item_types", ())):
            check(one, path)

    info = msgspec.inspect.type_info(cls)
    assert isinstance(info, msgspec.inspect.StructType)
    for field in info.fields:
        check(field.type, f"{cls.__name__}.{field.encode_name}")


def test_kind_is_taken_without_its_version() -> None:
    """A slot's kind is the tag before the slash."""
    assert "decision" == event_kind(decision(1))


def test_defaults_are_empty_and_shared_by_no_event() -> None:
    """A default is null, an empty object or the whole ledger's slot; objects are fresh."""
    one, other = decision(1), decision(2)
    assert {} == one.tokens == other.tokens
    assert one.tokens is not other.tokens
    assert (None, None) == (one.source, one.sealed)


def test_statuses_are_the_closed_list() -> None:
    """How a slot can end is a closed list, told from the schema as well."""
    schema: dict[str, Any] = msgspec.json.schema(EVENT_KINDS["decision/1"])
    found = schema["$defs"]["Decision"]["properties"]["status"]["enum"]
    expected = ["ok", "failed", "timeout", "limit", "error", "ungraded", "replay_miss"]
    assert sorted(expected) == sorted(found)


def test_names_of_members_are_plain() -> None:
    """Members on the wire are lower-case words; `class` is written so in spite of Python."""
    names = {name for cls in _structs() for name in cls.__struct_encode_fields__}
    assert [] == [name for name in names if not re.fullmatch(r"[a-z][a-z0-9_]*", name)]
    assert {"class", "sha256"} <= names
    assert "class_" not in names
    assert json.loads(msgspec.json.encode(decision(1)))["kind"] == "decision/1"


def test_all_is_complete() -> None:
    """`__all__` names what is there."""
    assert [] == [name for name in module.__all__ if not hasattr(module, name)]
