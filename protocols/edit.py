"""Sets single fields in the bytes of a protocol file; every other byte, comments too, stays. Pure.

Leaves what a field may hold to `file.py`, putting a change on record to `amending.py`.

Rules:
- YAML alone; the place of a value comes from the marks of ruamel's nodes: nothing is dumped again.
- A path is written as refusals show it: `budget.usd`, `endpoints.resolved.role`.
- A field that isn't there is added to its mapping, and that mapping where it isn't there either.
- A value is YAML; text that YAML would read as something else is quoted.
"""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, NoReturn

from fairtrial.ledger.errors import Problem, ProtocolError

if TYPE_CHECKING:
    from ruamel.yaml.nodes import MappingNode, Node

__all__ = ("set_fields",)

_MARK = b"\xef\xbb\xbf"
_PLAIN = re.compile(r"[A-Za-z0-9_./-]([A-Za-z0-9 _./-]*[A-Za-z0-9_./-])?")
_FLOW = re.compile(r"[\[{].*[\]}]", re.DOTALL)
_STEP = re.compile(r"([^.\[\]]+)|\[(\d+)\]")


def set_fields(data: bytes, changes: Sequence[tuple[str, str]], *, name: str) -> bytes:
    """Returns the file with each field set to its value.

    Args:
        data: The bytes of a YAML file.
        changes: Pairs of field path and value, applied in order.
        name: The file's name, for messages.

    Raises:
        ProtocolError: The file isn't YAML, or a path leads nowhere.
    """
    mark = _MARK if data.startswith(_MARK) else b""
    text = data.removeprefix(mark).decode("utf-8")
    for path, value in changes:
        text = _set(text, path, _scalar(value), name)
    return mark + text.encode()


def _scalar(value: str) -> str:
    """Returns a value as it is written in a file."""
    if _PLAIN.fullmatch(value) or _FLOW.fullmatch(value):
        return value
    return json.dumps(value, ensure_ascii=False)


def _set(text: str, path: str, value: str, name: str) -> str:
    node: Any = _compose(text, name)
    steps = _steps(path, name)
    for depth, step in enumerate(steps):
        found = _child(node, step)
        if found is None:
            return _add(text, node, steps[depth:], value, path=path, name=name)
        node = found
    return text[: node.start_mark.index] + value + text[_end(text, node) :]


def _end(text: str, node: Any) -> int:
    """Returns where a node's text ends; a block collection's mark lies at the next token."""
    begin: int = node.start_mark.index
    end: int = node.end_mark.index
    block = not getattr(node, "flow_style", True) or getattr(node, "style", None) in ("|", ">")
    return begin + len(text[begin:end].rstrip()) if block else end


def _compose(text: str, name: str) -> Any:
    from ruamel.yaml import YAML
    from ruamel.yaml.error import YAMLError

    try:
        node: Any = YAML(typ="safe", pure=True).compose(text)
    except YAMLError as error:
        _refuse(
            name,
            "file",
            f"the file is not YAML: {str(error).splitlines()[0]}",
            todo="correct it: ledger check names the line",
        )
    if node is None or node.id != "mapping":
        _refuse(
            name, "file", "the file is not a mapping", todo="write fields, as `ledger init` does"
        )
    return node


def _steps(path: str, name: str) -> list[str | int]:
    steps: list[str | int] = []
    place = 0
    while place < len(path):
        match = _STEP.match(path, place)
        if match is None:
            _refuse(name, path, "this is no field path", todo="write it as in budget.usd")
        steps.append(match[1] if match[1] is not None else int(match[2]))
        place = match.end() + (path[match.end() : match.end() + 1] == ".")
    if not steps:
        _refuse(name, path, "this is no field path", todo="write it as in budget.usd")
    return steps


def _child(node: Any, step: str | int) -> Node | None:
    """Returns the member of a mapping, or the item of a list by its index or its `name`."""
    if node.id == "mapping":
        return next((value for key, value in node.value if key.value == step), None)
    if node.id == "sequence" and isinstance(step, int):
        return node.value[step] if step < len(node.value) else None
    if node.id == "sequence":
        return next((item for item in node.value if _named(item) == step), None)
    return None


def _named(item: Any) -> str | None:
    found = _child(item, "name") if item.id == "mapping" else None
    return getattr(found, "value", None)


def _add(
    text: str, node: Any, steps: Sequence[str | int], value: str, *, path: str, name: str
) -> str:
    """Returns the text with a field that wasn't there, in the mapping where it belongs."""
    if node.id != "mapping" or any(isinstance(step, int) for step in steps):
        _refuse(
            name,
            path,
            "the path leads through something that isn't there",
            todo="name a field of the file",
        )
    *outer, last = [str(step) for step in steps]
    member = f"{last}: {value}"
    for step in reversed(outer):
        member = f"{step}: {{{member}}}"
    return _add_member(text, node, member)


def _add_member(text: str, node: MappingNode, member: str) -> str:
    if node.flow_style:
        close: int = node.end_mark.index - 1
        comma = ", " if node.value else ""
        return text[:close].rstrip() + comma + member + text[close:]
    # Before the first member, at its column: no comment that belongs to another one is parted.
    first = node.value[0][0].start_mark
    place: int = first.index
    column: int = first.column
    newline = "\r\n" if "\r\n" in text else "\n"
    return text[:place] + member + newline + " " * column + text[place:]


def _refuse(name: str, where: str, what: str, *, todo: str = "") -> NoReturn:
    raise ProtocolError((Problem(what=what, where=where, todo=todo),), file=name)
