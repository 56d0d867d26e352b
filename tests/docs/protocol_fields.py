"""The fields of the protocol file as the code knows them: path, need, default, words."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple, get_args, get_type_hints

import msgspec

from fairtrial.ledger.protocol import Protocol
from fairtrial.protocols.fields import PROTOCOL
from fairtrial.protocols.records import (
    Either,
    Field,
    ListOf,
    MapOf,
    OneOrMany,
    Record,
    Tagged,
    expected_of,
)
from fairtrial.protocols.shapes import Choice, Shape

__all__ = ("Known", "known_fields")

# One row stands for all statuses; a scoring pass has an arm's driver.
_ONE_ROW = ("missing.rules", "endpoints[].missing")
_ELSEWHERE = ("scoring.driver",)


class Known(NamedTuple):
    """A field: `default` is None where it is required, "" where it follows from other fields."""

    path: str
    default: str | None
    words: tuple[str, ...]
    expected: str


def known_fields() -> list[Known]:
    """Returns every field that a protocol file may have, by path."""
    found: dict[str, Known] = {}
    for one in _of(PROTOCOL, "", Protocol):
        found.setdefault(one.path, one)
    return sorted(found.values())


def _of(record: Record, path: str, owner: object) -> Iterator[Known]:
    for name, entry in record.fields.items():
        if path in _ONE_ROW:
            name = "<status>"
        inner = f"{path}.{name}" if path else name
        if not _is_section(entry.shape):
            yield Known(
                inner, _default(entry, owner, name), _words(entry.shape), expected_of(entry.shape)
            )
        yield from _inside(entry.shape, inner, _types(owner, name))


def _is_section(shape: Shape) -> bool:
    return isinstance(shape, (Record, Tagged))


def _inside(shape: Shape, path: str, owners: tuple[object, ...]) -> Iterator[Known]:
    if isinstance(shape, Record):
        yield from _of(shape, path, _owner(owners, tuple(shape.fields)))
    elif isinstance(shape, Tagged) and path not in _ELSEWHERE:
        for word, record in shape.records.items():
            owner = next(o for o in owners if _tag(o) == word)
            yield from _of(record, path, owner)
    elif isinstance(shape, ListOf):
        yield from _inside(shape.item, f"{path}[]", owners)
    elif isinstance(shape, MapOf):
        yield from _inside(shape.value, f"{path}.<arm>", owners)


def _tag(owner: object) -> object:
    assert isinstance(owner, type)
    assert issubclass(owner, msgspec.Struct)
    return owner.__struct_config__.tag


def _owner(owners: tuple[object, ...], names: tuple[str, ...]) -> object:
    """Returns the struct that has these fields; None where they are keys of a mapping."""
    fitting = [o for o in owners if set(names) <= set(getattr(o, "__struct_fields__", ()))]
    return fitting[0] if fitting else None


def _types(owner: object, name: str) -> tuple[object, ...]:
    """Returns the structs that a field's type is made of."""
    hints = get_type_hints(owner) if isinstance(owner, type) else {}
    return tuple(_structs(hints.get(name)))


def _structs(kind: object) -> Iterator[object]:
    if isinstance(kind, type) and issubclass(kind, msgspec.Struct):
        yield kind
    for part in get_args(kind):
        yield from _structs(part)


def _default(entry: Field, owner: object, name: str) -> str | None:
    if entry.is_required:
        return None
    if entry.provisional or owner is None:
        return "" if entry.provisional else "none"
    assert isinstance(owner, type)
    assert issubclass(owner, msgspec.Struct)
    one = next(each for each in msgspec.structs.fields(owner) if each.name == name)
    if one.default is msgspec.NODEFAULT:
        assert callable(one.default_factory), f"{name} has a default"
        return _written(one.default_factory())
    return _written(one.default)


def _written(value: object) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if value is None:
        return "none"
    if isinstance(value, tuple):
        return f"[{', '.join(_written(item) for item in value)}]"
    if isinstance(value, float):
        return f"{value:g}"
    return str(value) or '""'


def _words(shape: Shape) -> tuple[str, ...]:
    if isinstance(shape, Choice):
        return shape.words
    if isinstance(shape, Either):
        return (*(word for word in shape.words), *_words(shape.other))
    if isinstance(shape, (ListOf, OneOrMany)):
        return _words(shape.item)
    return shape.known if isinstance(shape, MapOf) else ()
