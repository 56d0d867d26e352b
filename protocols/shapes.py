"""What a single value of the protocol file may be: shapes that read a node into a plain value.

Leaves lists and mappings to `records.py`, which field has which shape to
`fields.py`, rules between fields to `rules.py`.

Rules:
- A shape reports what is wrong and returns its `blank` instead, a harmless value of the same type,
  so that reading goes on; the path is marked bad and its blank is never used by a rule.
- Text is text: a number or a `true` where text belongs is refused, not converted.
- A number field is a finite decimal; an integer field never takes 1.0.
"""

from __future__ import annotations

import math
import re
import unicodedata
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from fairtrial.ledger.protocol import NANO_USD, NANO_USD_MAX, SCORE_MAX, nano_usd

from .nodes import Node, Reading, describe, nearest

__all__ = (
    "Cell",
    "Choice",
    "Flag",
    "Integer",
    "Money",
    "Number",
    "Shape",
    "Text",
    "one_of",
    "wrong",
)

# What stands for an outcome, or is compared with one, is no larger than an outcome may be.
SIZE_MAX = SCORE_MAX

_BIDI = frozenset("\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069\u200e\u200f\u061c")


class Shape(Protocol):
    """What every shape can do."""

    @property
    def blank(self) -> object:
        """A harmless value of this shape."""

    def read(self, node: Node, path: str, reading: Reading) -> object:
        """Returns the value of a node, or the blank after reporting what is wrong."""


@dataclass(frozen=True, kw_only=True)
class Text:
    """Text that matches a pattern; `multiline` allows LF and TAB."""

    expected: str = "text"
    pattern: str = r"(?s).+"
    multiline: bool = False
    blank: str = "x"

    def read(self, node: Node, path: str, reading: Reading) -> object:
        """Returns the text as it stands."""
        value = node.value
        if not isinstance(value, str):
            todo = "put it in quotes" if isinstance(value, (bool, int, float)) else ""
            return wrong(self, node, path, reading, self.expected, todo=todo)
        if any(_is_control(character, self.multiline) for character in value):
            return wrong(self, node, path, reading, "text without control characters")
        if not re.fullmatch(self.pattern, value):
            return wrong(self, node, path, reading, self.expected)
        return value


def _is_control(character: str, multiline: bool) -> bool:
    if multiline and character in "\n\t":
        return False
    return unicodedata.category(character) in ("Cc", "Cs") or character in _BIDI


@dataclass(frozen=True, kw_only=True)
class Choice:
    """One word of a closed list; `hints` says what to do about words that are often meant."""

    words: tuple[str, ...]
    hints: Mapping[str, str] = field(default_factory=dict)

    @property
    def blank(self) -> object:
        """The first word."""
        return self.words[0]

    def read(self, node: Node, path: str, reading: Reading) -> object:
        """Returns the word."""
        value = node.value
        if isinstance(value, str) and value in self.words:
            return value
        word = value if isinstance(value, str) else node.source
        near = nearest(word, self.words)
        todo = self.hints.get(word, f"did you mean {near}?" if near else "")
        return wrong(self, node, path, reading, one_of(self.words), todo=todo)


@dataclass(frozen=True, kw_only=True)
class Flag:
    """True or false; `yes`, `no`, `on` and `off` are text in YAML 1.2."""

    blank: bool = False
    expected: str = "true or false"

    def read(self, node: Node, path: str, reading: Reading) -> object:
        """Returns the boolean."""
        if isinstance(node.value, bool):
            return node.value
        return wrong(self, node, path, reading, self.expected, todo="write true or false")


@dataclass(frozen=True, kw_only=True)
class Integer:
    """A whole number within limits, both inclusive."""

    low: int = 0
    high: int = 2**53 - 1
    hint: str = ""

    @property
    def blank(self) -> object:
        """The lowest value."""
        return self.low

    @property
    def expected(self) -> str:
        """What the field may hold."""
        limit = f" to {self.high}" if self.high < 2**53 - 1 else " or more"
        return f"an integer, {self.low}{limit}"

    def read(self, node: Node, path: str, reading: Reading) -> object:
        """Returns the integer."""
        value = node.value
        if (
            isinstance(value, int)
            and not isinstance(value, bool)
            and self.low <= value <= self.high
        ):
            return value
        return wrong(self, node, path, reading, self.expected, todo=self.hint)


@dataclass(frozen=True, kw_only=True)
class Number:
    """A finite number within limits (`above` and `below` exclusive); `expected` says which."""

    expected: str = "a number"
    low: float = -math.inf
    high: float = math.inf
    above: float = -math.inf
    below: float = math.inf
    blank: float = 0.5

    def read(self, node: Node, path: str, reading: Reading) -> object:
        """Returns the number as a float; minus zero is zero."""
        value = node.value
        if isinstance(value, bool) or not isinstance(value, (int, float)):
            return wrong(self, node, path, reading, self.expected, todo=_as_number(value))
        number = _float(value)
        if abs(number) > SIZE_MAX and self.high > SIZE_MAX:
            expected = f"{self.expected}, at most {SIZE_MAX:g} in size"
            return wrong(self, node, path, reading, expected)
        inside = self.low <= number <= self.high and self.above < number < self.below
        if not (math.isfinite(number) and inside):
            return wrong(self, node, path, reading, self.expected, todo=f"write {self.expected}")
        return number + 0.0


@dataclass(frozen=True, kw_only=True)
class Money:
    """An amount of usd, exact in nano-USD and no larger than an event can hold."""

    above: float = -1.0
    blank: float = 0.5

    @property
    def expected(self) -> str:
        """What the field may hold."""
        least = "a number above 0" if self.above >= 0 else "a number, 0 or more"
        return f"{least}, with at most nine decimals, up to {NANO_USD_MAX // NANO_USD:,}"

    def read(self, node: Node, path: str, reading: Reading) -> object:
        """Returns the amount as a float."""
        value = node.value
        if isinstance(value, bool) or not isinstance(value, (int, float)):
            return wrong(self, node, path, reading, self.expected)
        try:
            nano = nano_usd(repr(value) if isinstance(value, float) else str(value))
        except ValueError:
            return wrong(self, node, path, reading, self.expected)
        if nano < 0 or nano <= self.above:
            return wrong(self, node, path, reading, self.expected)
        return float(value) + 0.0


def _as_number(value: object) -> str:
    """Returns what to write in the place of a value that is no number."""
    text = value.strip() if isinstance(value, str) else ""
    share = re.fullmatch(r"(\d{1,9}(?:\.\d{1,9})?) ?%", text, re.ASCII)
    if share is None:
        return "write a number, without quotes or a unit"
    return f"write {float(share[1]) / 100:.12g}: a share isn't written in percent"


def _float(value: int | float) -> float:
    try:
        return float(value)
    except OverflowError:
        return math.inf


@dataclass(frozen=True, kw_only=True)
class Cell:
    """The text of a cell of a units or outcomes file; an integer stands for its digits."""

    blank: str = "x"
    expected: str = "text or an integer"

    def read(self, node: Node, path: str, reading: Reading) -> object:
        """Returns the cell's text."""
        value = node.value
        if isinstance(value, str):
            return value
        if isinstance(value, bool):
            return "true" if value else "false"
        if isinstance(value, int) and node.source in ("", str(value)):
            return str(value)
        return wrong(self, node, path, reading, self.expected, todo="put it in quotes")


def one_of(words: Sequence[str]) -> str:
    """Returns a closed list in words, for `expected`."""
    return words[0] if len(words) == 1 else f"one of {', '.join(words)}"


def wrong(
    shape: Shape,
    node: Node,
    path: str,
    reading: Reading,
    expected: str,
    *,
    todo: str = "",
    found: str = "",
) -> object:
    """Reports that a node isn't what a shape expects, and returns the shape's blank."""
    if node.value is None:
        todo = "leave the key out, or give it a value"
    what = "the value is not acceptable"
    reading.bad(path, what, expected=expected, found=found or describe(node), todo=todo)
    return shape.blank
