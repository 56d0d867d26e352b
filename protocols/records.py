"""Lists and mappings of the protocol file, made of the shapes of single values.

Leaves which field has which shape to `fields.py`, rules between fields to
`rules.py`.

Rules:
- An unknown key is refused with the nearest known one.
- A field that the author left out is left out of the result too: `ledger/sections.py` alone holds
  version 1's defaults. A derived one is provisional until `defaults.py` knows it.
- A missing required field is reported and its blank is put in its place.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from .nodes import Node, Reading, describe, nearest
from .shapes import Choice, Integer, Number, Shape, Text, one_of, wrong

__all__ = (
    "Either",
    "Field",
    "Free",
    "ListOf",
    "MapOf",
    "OneOrMany",
    "Record",
    "Tagged",
    "derived",
    "expected_of",
    "optional",
    "required",
)


class Field(NamedTuple):
    """A shape, whether the author has to write the field, and a provisional value."""

    shape: Shape
    is_required: bool = False
    provisional: tuple[object, ...] = ()


def required(shape: Shape) -> Field:
    """Returns a field that the author has to write."""
    return Field(shape, is_required=True)


def optional(shape: Shape) -> Field:
    """Returns a field whose default stands in `ledger/sections.py`."""
    return Field(shape)


def derived(shape: Shape, provisional: object) -> Field:
    """Returns a field whose default follows from other fields."""
    return Field(shape, provisional=(provisional,))


@dataclass(frozen=True, kw_only=True)
class ListOf:
    """A list of one shape, at least `least` long, nothing twice; `key` names items by a field."""

    item: Shape
    least: int = 0
    most: int = 2**31
    key: str = ""
    distinct: bool = True

    @property
    def blank(self) -> object:
        """The shortest list."""
        return (self.item.blank,) * self.least

    def read(self, node: Node, path: str, reading: Reading) -> object:
        """Returns the items as a tuple."""
        if not isinstance(node.value, tuple):
            return wrong(self, node, path, reading, "a list", todo="write it in square brackets")
        if not self.least <= len(node.value) <= self.most:
            length = f"at least {self.least}" if len(node.value) < self.least else f"{self.most}"
            what = f"{length} item{'' if length.endswith(' 1') else 's'}"
            return wrong(self, node, path, reading, what, found=f"{len(node.value)} items")
        items = []
        for index, item in enumerate(node.value):
            inner = self._path(item, index, path)
            reading.note(inner, item.line, item)
            items.append(self.item.read(item, inner, reading))
        if self.distinct and not self.key:
            self._check_distinct(items, path, reading)
        return tuple(items)

    def _path(self, item: Node, index: int, path: str) -> str:
        name = item.value.get(self.key) if self.key and isinstance(item.value, dict) else None
        named = name is not None and isinstance(name.value, str)
        return f"{path}.{name.value}" if name and named else f"{path}[{index}]"

    def _check_distinct(self, items: list[object], path: str, reading: Reading) -> None:
        for index, item in enumerate(items):
            if item in items[:index]:
                reading.refuse(
                    f"{path}[{index}]", "the item stands twice", found=str(item), todo="keep one"
                )


@dataclass(frozen=True, kw_only=True)
class OneOrMany:
    """One value of a shape, or a list of them; a tuple either way."""

    item: Shape

    @property
    def blank(self) -> object:
        """One blank."""
        return (self.item.blank,)

    def read(self, node: Node, path: str, reading: Reading) -> object:
        """Returns the values as a tuple."""
        if isinstance(node.value, tuple):
            return ListOf(item=self.item, least=1).read(node, path, reading)
        return (self.item.read(node, path, reading),)


_ANY_KEY = Text()


@dataclass(frozen=True, kw_only=True)
class MapOf:
    """A mapping whose keys the author chooses.

    Attributes:
        value: What each key holds.
        key: What a key may be.
        known: Closes the list of keys, but for those that begin with `prefix`.
        prefix: Beginning of further keys.
        example: What stands on which side, for whoever writes an unknown key.
    """

    value: Shape
    key: Text = _ANY_KEY
    known: tuple[str, ...] = ()
    prefix: str = "\n"
    example: str = ""

    @property
    def blank(self) -> object:
        """The empty mapping."""
        return {}

    def read(self, node: Node, path: str, reading: Reading) -> object:
        """Returns the mapping, its keys sorted by code point."""
        if not isinstance(node.value, dict):
            return wrong(self, node, path, reading, "a mapping")
        values = {}
        for name, item in sorted(node.value.items()):
            inner = f"{path}.{name}"
            reading.note(inner, item.line, item)
            if self.known and name not in self.known and not name.startswith(self.prefix):
                _unknown_key(name, path, self.known, reading, self._why(name, item))
                continue
            self.key.read(Node(value=name, line=item.line), inner, reading)
            values[name] = self.value.read(item, inner, reading)
        return values

    def _why(self, name: str, item: Node) -> str:
        """Returns what could stand in the place of a key that isn't near any known one."""
        if not self.example or nearest(name, self.known) or not isinstance(item.value, str):
            return ""
        if item.value in self.known:
            return f"{self.example}: `{item.value}: {name}` or `{item.value}: {item.value}`"
        own = f"`{self.prefix}{name}: {item.value}`"
        return f"{self.example}: `score: {item.value}`, or {own} for a number of your own"


@dataclass(frozen=True, kw_only=True)
class Record:
    """A mapping with known fields; `others` explains keys that belong elsewhere."""

    fields: Mapping[str, Field]
    others: Mapping[str, str] = field(default_factory=dict)

    @property
    def blank(self) -> object:
        """The required fields blank, the derived ones provisional."""
        return {
            name: entry.shape.blank if entry.is_required else entry.provisional[0]
            for name, entry in self.fields.items()
            if entry.is_required or entry.provisional
        }

    def read(self, node: Node, path: str, reading: Reading) -> object:
        """Returns the fields as written, the required ones blank where they are missing or bad."""
        if not isinstance(node.value, dict):
            return wrong(self, node, path, reading, f"a mapping of {_some(self.fields)}")
        for name, item in node.value.items():
            reading.note(_join(path, name), item.line, item)
            if name not in self.fields:
                _unknown_key(name, path, tuple(self.fields), reading, self.others.get(name, ""))
        values = {}
        for name, entry in self.fields.items():
            inner = _join(path, name)
            if name in node.value:
                values[name] = entry.shape.read(node.value[name], inner, reading)
            elif entry.is_required:
                reading.bad(inner, "the field is missing", expected=expected_of(entry.shape))
                values[name] = entry.shape.blank
            elif entry.provisional:
                values[name] = entry.provisional[0]
        return values


@dataclass(frozen=True, kw_only=True)
class Tagged:
    """A record chosen by the word in its field `tag`."""

    tag: str
    records: Mapping[str, Record]
    later: tuple[str, ...] = ()

    @property
    def blank(self) -> object:
        """The first record, blank."""
        return next(iter(self.records.values())).blank

    def read(self, node: Node, path: str, reading: Reading) -> object:
        """Returns the fields of the record that the tag names."""
        if not isinstance(node.value, dict):
            return wrong(self, node, path, reading, f"a mapping with `{self.tag}`")
        tag = node.value.get(self.tag)
        word = tag.value if tag else None
        if isinstance(word, str) and word in self.records:
            return self.records[word].read(node, path, reading)
        expected = f"one of {', '.join(self.records)}"
        where = f"{path}.{self.tag}"
        if tag is None:
            reading.bad(path, f"the field {self.tag} is missing", expected=expected)
        else:
            reading.note(where, tag.line)
            todo = f"{word} comes with a later version" if word in self.later else ""
            reading.bad(
                path, f"{self.tag} is unknown", expected=expected, found=describe(tag), todo=todo
            )
        return self.blank


@dataclass(frozen=True, kw_only=True)
class Either:
    """One of some words, each with its value, or another shape."""

    words: Mapping[str, object]
    other: Shape
    expected: str

    @property
    def blank(self) -> object:
        """The blank of the other shape."""
        return self.other.blank

    def read(self, node: Node, path: str, reading: Reading) -> object:
        """Returns the value of a word, or what the other shape reads."""
        if isinstance(node.value, str) and node.value in self.words:
            return self.words[node.value]
        if isinstance(node.value, str) and isinstance(self.other, (Integer, Number)):
            near = nearest(node.value, self.words)
            todo = f"did you mean {near}?" if near else ""
            return wrong(self, node, path, reading, self.expected, todo=todo)
        return self.other.read(node, path, reading)


@dataclass(frozen=True, kw_only=True)
class Free:
    """Any mapping, passed on as it stands."""

    @property
    def blank(self) -> object:
        """The empty mapping."""
        return {}

    def read(self, node: Node, path: str, reading: Reading) -> object:
        """Returns the mapping as plain values."""
        if not isinstance(node.value, dict):
            return wrong(self, node, path, reading, "a mapping")
        return {name: _plain(item) for name, item in node.value.items()}


def _plain(node: Node) -> object:
    if isinstance(node.value, dict):
        return {name: _plain(item) for name, item in node.value.items()}
    if isinstance(node.value, tuple):
        return [_plain(item) for item in node.value]
    return node.value


def expected_of(shape: Shape) -> str:
    """Returns in words what a shape takes, for `expected` and for the reference of fields."""
    match shape:
        case Record():
            least = [name for name, entry in shape.fields.items() if entry.is_required]
            return f"a mapping with {', '.join(least)}" if least else _any_of(shape)
        case Tagged():
            return f"a mapping with `{shape.tag}`, one of {', '.join(shape.records)}"
        case MapOf():
            key = re.split(r"[:(]", expected_of(shape.key))[0].strip()
            return f"a mapping from {key} to {expected_of(shape.value)}"
        case ListOf():
            length = f", at least {shape.least}" if shape.least else ""
            return f"a list{length}; each item {expected_of(shape.item)}"
        case OneOrMany():
            return f"{expected_of(shape.item)}, or a list of them"
        case Free():
            return "a mapping"
        case Choice():
            return one_of(shape.words)
        case _:
            return str(getattr(shape, "expected", "a value"))


def _any_of(shape: Record) -> str:
    return f"a mapping of any of {_some(shape.fields)}"


def _join(path: str, name: str) -> str:
    return f"{path}.{name}" if path else name


def _some(names: Mapping[str, object]) -> str:
    return ", ".join(list(names)[:6]) + (", ..." if len(names) > 6 else "")


def _unknown_key(
    name: str, path: str, known: tuple[str, ...], reading: Reading, why: str = ""
) -> None:
    near = nearest(name, known)
    todo = why or (f"did you mean {near}?" if near else "leave it out")
    where = _join(path, name)
    what = f"the key {name!r} is unknown"
    reading.bad(where, what, expected=one_of(known), found=f"the key {name!r}", todo=todo)
