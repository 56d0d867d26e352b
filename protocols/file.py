"""The protocol file: bytes of YAML 1.2 or TOML become a `Protocol`, or all that is wrong with them.

Leaves the fields to `fields.py`, derived defaults to `defaults.py`, rules between
fields to `rules.py`, TOML to `toml.py`, the units file to `units.py`. What needs
the disk, git or a clock (is a file there, does a call import, is a variable set) is the session's.

Rules:
- YAML is read from its events, so that nothing is resolved behind our back: tags, anchors, aliases
  and merge keys are refused, equal keys are refused with both lines, more than one document too.
- YAML 1.2 core schema: `no`, `on` and dates are text; numbers are decimal; NaN and infinities are
  refused.
- `${...}` is text like any other: nothing is interpolated.
- Every problem has a field path and a line; all are reported at once.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, Literal

import msgspec

from fairtrial.ledger.protocol import Protocol

from .defaults import with_defaults
from .fields import PROTOCOL
from .nodes import Node, Reading, Value, describe, nearest
from .records import Record
from .rules import check_rules
from .support import check_supported

if TYPE_CHECKING:
    from ruamel.yaml.events import Event, ScalarEvent

__all__ = ("check_supported", "nearest", "parse_protocol", "parse_record", "parse_supported")

DEPTH_MAX = 50


def parse_protocol(data: bytes, *, name: str, media: Literal["yaml", "toml"]) -> Protocol:
    """Returns the protocol that a file describes, with every default of version 1 filled in.

    Args:
        data: The bytes of the file.
        name: The file's name, for messages.
        media: The file's syntax.

    Raises:
        ProtocolError: The file isn't acceptable; holds every problem with path and line.
    """
    return _read(data, Reading(name), media)


def parse_supported(data: bytes, *, name: str, media: Literal["yaml", "toml"]) -> Protocol:
    """Returns the protocol that a file describes, where this version can carry it out.

    Args:
        data: The bytes of the file.
        name: The file's name, for messages.
        media: The file's syntax.

    Raises:
        ProtocolError: The file isn't acceptable, or not supported by this version; holds every
            problem with path and line.
    """
    reading = Reading(name)
    protocol = _read(data, reading, media)
    check_supported(protocol, name=name, line=reading.line)
    return protocol


def parse_record(
    data: bytes, record: Record, reading: Reading, media: Literal["yaml", "toml"]
) -> object:
    """Returns the fields of another file than the protocol, by the same rules of syntax.

    Args:
        data: The bytes of the file.
        record: What the file may hold.
        reading: Collects what isn't acceptable; it raises when it is asked to.
        media: The file's syntax.
    """
    return record.read(_root(data, media, reading, begins="a mapping of known keys"), "", reading)


def _read(data: bytes, reading: Reading, media: Literal["yaml", "toml"]) -> Protocol:
    root = _root(data, media, reading)
    values = PROTOCOL.read(root, "", reading)
    protocol = with_defaults(msgspec.convert(values, Protocol), reading)
    check_rules(protocol, reading)
    reading.raise_problems()
    return protocol


def _root(
    data: bytes,
    media: Literal["yaml", "toml"],
    reading: Reading,
    *,
    begins: str = "`protocol: 1` and further keys",
) -> Node:
    text = _text(data, reading)
    if media == "toml":
        from .toml import compose_toml

        root = compose_toml(text, reading)
    else:
        root = _compose_yaml(text, reading)
    if not isinstance(root.value, dict):
        reading.bad("", "the file is not a mapping", expected=begins, found=describe(root))
    # Without a tree there is nothing that a field could say beside it.
    if reading.problems and not isinstance(root.value, dict):
        reading.raise_problems()
    return root


def _text(data: bytes, reading: Reading) -> str:
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        reading.note("file", line)
        found = f"byte 0x{data[error.start]:02X} in line {line}"
        what, todo = "the file is not UTF-8 text", "save the file as UTF-8"
        reading.bad("file", what, expected="UTF-8", found=found, todo=todo)
        reading.raise_problems()
        raise AssertionError("a problem was recorded") from error


def _compose_yaml(text: str, reading: Reading) -> Node:
    # Imported here: a start of the command line that reads no protocol shouldn't pay for it.
    from ruamel.yaml import YAML
    from ruamel.yaml.error import MarkedYAMLError, YAMLError

    try:
        return _YamlComposer(YAML(typ="safe", pure=True).parse(text), reading).root()
    except MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        _raise_syntax(reading, "YAML", mark.line + 1 if mark else 1, str(error.problem))
    except YAMLError as error:
        _raise_syntax(reading, "YAML", 1, str(error).splitlines()[0])
    raise AssertionError("a problem was recorded")


def _raise_syntax(reading: Reading, media: str, line: int, what: str) -> None:
    reading.note("file", line)
    reading.bad("file", f"the file is not {media}: {what}", todo=f"correct line {line}")
    reading.raise_problems()


_NULL = frozenset(("", "~", "null", "Null", "NULL"))
_BOOLEANS = {
    "true": True, "True": True, "TRUE": True, "false": False, "False": False, "FALSE": False,
}  # fmt: skip
_INTEGER = re.compile(r"[-+]?[0-9]{1,400}")
_NUMBER = re.compile(r"[-+]?(\.[0-9]+|[0-9]+(\.[0-9]*)?)([eE][-+]?[0-9]+)?")
_NOT_FINITE = re.compile(r"[-+]?\.(inf|Inf|INF)|\.(nan|NaN|NAN)")
_NOT_DECIMAL = re.compile(r"0o[0-7]+|0x[0-9a-fA-F]+")


class _YamlComposer:
    """Builds nodes from parser events, refusing what could mean something else than it says."""

    def __init__(self, events: Iterator[Event], reading: Reading) -> None:
        self._events = events
        self._reading = reading

    def root(self) -> Node:
        self._next()  # the stream begins
        start = self._next()
        if type(start).__name__ == "StreamEndEvent":
            return Node(value=None, line=1)
        if start.tags or start.version not in (None, (1, 2)):
            self._refuse("", start, "a directive is not allowed", "leave the line out")
        root = self._node(self._next(), "", 1, 0)
        self._next()  # the document ends
        after = self._next()
        if type(after).__name__ != "StreamEndEvent":
            self._refuse("", after, "the file holds more than one document", "keep one")
        return root

    def _next(self) -> Any:
        return next(self._events)

    def _node(self, event: Any, path: str, line: int, depth: int) -> Node:
        kind = type(event).__name__
        if kind == "AliasEvent":
            self._refuse(path, event, f"the alias *{event.anchor} is not allowed", "write it out")
            return Node(value="", line=line)
        if event.anchor:
            self._refuse(path, event, f"the anchor &{event.anchor} is not allowed", "leave it out")
        if event.tag:
            self._refuse(path, event, f"the tag {event.tag} is not allowed", "leave it out")
        if kind == "ScalarEvent":
            return self._scalar(event, path, line)
        if depth >= DEPTH_MAX:
            self._refuse(path, event, f"nested deeper than {DEPTH_MAX}", "flatten it")
            self._reading.raise_problems()
        if kind == "MappingStartEvent":
            return Node(value=self._mapping(path, depth), line=line)
        return Node(value=self._sequence(path, depth), line=line)

    def _sequence(self, path: str, depth: int) -> tuple[Node, ...]:
        items: list[Node] = []
        while type(event := self._next()).__name__ != "SequenceEndEvent":
            inner = f"{path}[{len(items)}]"
            items.append(self._node(event, inner, event.start_mark.line + 1, depth + 1))
        return tuple(items)

    def _mapping(self, path: str, depth: int) -> dict[str, Node]:
        nodes: dict[str, Node] = {}
        while type(event := self._next()).__name__ != "MappingEndEvent":
            line = event.start_mark.line + 1
            key = self._key(event, path, depth)
            inner = f"{path}.{key}" if path else key
            node = self._node(self._next(), inner, line, depth + 1)
            if key in nodes:
                self._repeated(inner, key, nodes[key].line, line)
            nodes.setdefault(key, node)
        return nodes

    def _key(self, event: Any, path: str, depth: int) -> str:
        node = self._node(event, path, event.start_mark.line + 1, depth + 1)
        if type(event).__name__ != "ScalarEvent":
            self._refuse(path, event, "a key is not text", "write a word before the colon")
            return "?"
        if event.value == "<<" and not event.style:
            self._refuse(path, event, "the merge key << is not allowed", "write the keys out")
        # A key such as 1 or true is text here: it is the name that the author gave.
        return node.source or str(node.value)

    def _repeated(self, path: str, key: str, first: int, second: int) -> None:
        self._reading.note(path, second)
        self._reading.refuse(
            path,
            f"the key {key!r} stands twice: lines {first} and {second}",
            expected="each key once",
            found=f"lines {first} and {second}",
            todo="keep one of them",
        )

    def _scalar(self, event: ScalarEvent, path: str, line: int) -> Node:
        source = event.value
        if event.style:
            return Node(value=source, line=line)
        if _NOT_FINITE.fullmatch(source):
            self._bad(path, line, source, "a finite number")
            return Node(value=0.0, line=line, source=source)
        if _NOT_DECIMAL.fullmatch(source):
            self._bad(path, line, source, "a decimal number")
            return Node(value=0, line=line, source=source)
        return Node(value=_resolved(source), line=line, source=source)

    def _bad(self, path: str, line: int, source: str, expected: str) -> None:
        self._reading.note(path, line)
        what = "the number is not acceptable"
        self._reading.bad(path, what, expected=expected, found=source)

    def _refuse(self, path: str, event: Any, what: str, todo: str) -> None:
        self._reading.note(path, event.start_mark.line + 1)
        self._reading.refuse(path, what, todo=todo)


def _resolved(source: str) -> Value:
    """Returns a plain scalar's value by the core schema of YAML 1.2, without octal and hex."""
    if source in _NULL:
        return None
    if source in _BOOLEANS:
        return _BOOLEANS[source]
    if _INTEGER.fullmatch(source):
        return int(source)
    return float(source) if _NUMBER.fullmatch(source) else source
