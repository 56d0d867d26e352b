"""The values of a protocol file with their lines, and the collector of all that is wrong with it.

Leaves the syntax of YAML and TOML to `file.py` and `toml.py`, what a field may
hold to `shapes.py`.

Rules:
- Every problem of a file is collected; nothing is raised before all rules have been tried.
- A field that is bad or missing is known as bad, so that a rule that needs it says nothing more.
- A problem shows what the file has at its path, unless it says better what was found.
- A path is dotted: `analysis.alpha`, `arms.B.driver.argv`, `endpoints.resolved.value`; an item of a
  list without names is `looks.at[0]`.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterable
from typing import TypeAlias

import msgspec

from fairtrial.ledger.errors import Problem, ProtocolError

__all__ = ("Node", "Reading", "Value", "describe", "nearest")

Value: TypeAlias = "str | int | float | bool | tuple[Node, ...] | dict[str, Node] | None"


class Node(msgspec.Struct, frozen=True, kw_only=True):
    """A value of the file: `line` is that of its key or item, `source` a scalar as written."""

    value: Value
    line: int
    source: str = ""


class Reading:
    """What reading one file has found so far.

    Attributes:
        file: The file's name.
        problems: Everything that isn't acceptable.
    """

    def __init__(self, file: str) -> None:
        self.file = file
        self.problems: list[Problem] = []
        self._lines: dict[str, int] = {"": 1}
        self._written: dict[str, str] = {}
        self._bad: set[str] = set()

    def note(self, path: str, line: int, node: Node | None = None) -> None:
        """Remembers that the file gives this path, where, and what it has there."""
        self._lines[path] = line
        if node is not None:
            self._written[path] = _written(node)

    def is_given(self, path: str) -> bool:
        """Returns whether the author wrote this field."""
        return path in self._lines

    def line(self, path: str) -> int:
        """Returns the line of a path, or of the nearest mapping around it."""
        while path not in self._lines:
            path = path.rpartition(".")[0]
        return self._lines[path]

    def bad(
        self, path: str, what: str, *, expected: str = "", found: str = "", todo: str = ""
    ) -> None:
        """Records a problem of one field, which no other rule can use from now on."""
        if path not in self._bad:
            self._record(path, what, expected, found, todo)
        self._bad.add(path)

    def refuse(
        self,
        path: str,
        what: str,
        *,
        expected: str = "",
        found: str = "",
        todo: str = "",
        needs: Iterable[str] = (),
    ) -> None:
        """Records a problem between fields, unless one of them is bad and says so already."""
        if not any(self.has_problem(name) for name in (path, *needs)):
            self._record(path, what, expected, found, todo)

    def missing(self, path: str, expected: str, *needs: str) -> None:
        """Records that a field is missing which other fields make necessary."""
        self.refuse(path, "the field is missing", expected=expected, needs=needs)

    def has_problem(self, path: str) -> bool:
        """Returns whether a field, or a part of it, is bad or missing."""
        return any(
            path == bad or path.startswith((f"{bad}.", f"{bad}[")) or bad.startswith(f"{path}.")
            for bad in self._bad
        )

    def raise_problems(self) -> None:
        """Raises a ProtocolError with all problems, by line, if there are any."""
        if self.problems:
            ordered = sorted(self.problems, key=lambda problem: problem.line or 0)
            raise ProtocolError(tuple(ordered), file=self.file)

    def _record(self, path: str, what: str, expected: str, found: str, todo: str) -> None:
        problem = Problem(
            what=what,
            where=path,
            line=self.line(path),
            expected=expected,
            found=found or self._written.get(path, ""),
            todo=todo,
        )
        if problem not in self.problems:
            self.problems.append(problem)


# Below it two words share letters by chance: `client` isn't a misspelt `len`.
_NEAR = 0.7


def nearest(word: str, known: Iterable[str]) -> str | None:
    """Returns the known word that a misspelt one most likely means, None if none is near."""
    folded = {name.casefold(): name for name in known}
    found = difflib.get_close_matches(word.casefold(), folded, n=1, cutoff=_NEAR)
    return folded[found[0]] if found else None


def _written(node: Node) -> str:
    """Returns what the file has for a field, where a line can hold it; "" for a mapping."""
    if isinstance(node.value, dict):
        return ""
    if isinstance(node.value, tuple):
        items = [_written(item) for item in node.value]
        return ", ".join(items)[:80] if all(items) else ""
    return (node.source or str(node.value))[:80] if node.value is not None else ""


def describe(node: Node) -> str:
    """Returns a value of the file in words, for `found`."""
    value = node.value
    if isinstance(value, dict):
        return "a mapping"
    if isinstance(value, tuple):
        return "a list"
    if value is None:
        return "no value"
    if isinstance(value, str):
        return f"text {value[:80]!r}"
    return f"{'true or false' if isinstance(value, bool) else 'number'} {node.source or value}"
