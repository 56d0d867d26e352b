"""A TOML document becomes nodes with lines: values by `tomllib`, lines by a scan of our own.

Leaves what a field may hold to `shapes.py`.

Rules:
- `tomllib` decides what is TOML and what a value is; the scan only finds keys, so a key that it
  doesn't find costs a line number, never a value.
- Equal keys, which `tomllib` refuses with one line, are refused with both.
- Dates, times, NaN, infinities and numbers that aren't decimal are refused.
"""

from __future__ import annotations

import contextlib
import math
import re
import tomllib
from collections.abc import Iterator

from .nodes import Node, Reading

__all__ = ("compose_toml",)


def compose_toml(text: str, reading: Reading) -> Node:
    """Returns the document's root; what isn't TOML is raised as a ProtocolError at once."""
    scan = _Scan(text)
    repeated = {path: lines for path, lines in scan.run().items() if len(lines) > 1}
    try:
        values = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        for path, lines in repeated.items():
            # The keys of a table that stands twice stand twice as well.
            if not any(path.startswith(f"{outer}.") for outer in repeated):
                _refuse_repeated(path, lines, reading)
        if not repeated:
            found = re.search(r"at line (\d+)", str(error))
            reading.note("file", int(found[1]) if found else text.count("\n") + 1)
            what, todo = f"the file is not TOML: {error}", "correct the line (TOML 1.0)"
            reading.bad("file", what, todo=todo)
        reading.raise_problems()
        raise AssertionError("a problem was recorded") from error
    return _Builder(scan, reading).node(values, "", 1)


def _refuse_repeated(path: str, lines: list[int], reading: Reading) -> None:
    reading.note(path, lines[1])
    key = path.rpartition(".")[2]
    reading.refuse(
        path,
        f"the key {key!r} stands twice: lines {lines[0]} and {lines[1]}",
        expected="each key once",
        found=f"lines {lines[0]} and {lines[1]}",
        todo="keep one of them",
    )


class _Builder:
    """Joins the values of `tomllib` with the lines of the scan."""

    def __init__(self, scan: _Scan, reading: Reading) -> None:
        self._scan = scan
        self._reading = reading

    def node(self, value: object, path: str, line: int) -> Node:
        line = self._scan.line(path) or line
        if isinstance(value, dict):
            join = f"{path}." if path else ""
            inner = {key: self.node(item, f"{join}{key}", line) for key, item in value.items()}
            return Node(value=inner, line=line)
        if isinstance(value, list):
            items = (self.node(item, f"{path}[{i}]", line) for i, item in enumerate(value))
            return Node(value=tuple(items), line=line)
        return self._scalar(value, path, line)

    def _scalar(self, value: object, path: str, line: int) -> Node:
        source = self._scan.sources.get(path, "")
        if isinstance(value, str):
            return Node(value=value, line=line)
        if isinstance(value, float) and not math.isfinite(value):
            self._bad(path, line, "a finite number", source)
            return Node(value=0.0, line=line, source=source)
        if re.match(r"[-+]?0[xob]", source):
            self._bad(path, line, "a decimal number", source)
        if isinstance(value, (bool, int, float)):
            return Node(value=value, line=line, source=source)
        self._bad(path, line, "text in quotes", source)
        return Node(value=source, line=line, source=source)

    def _bad(self, path: str, line: int, expected: str, source: str) -> None:
        self._reading.note(path, line)
        self._reading.bad(path, "the value is not acceptable", expected=expected, found=source)


class _StopScan(Exception):  # noqa: N818 - it ends a scan and is no error of anybody's
    """The scan met what it doesn't know; `tomllib` says what it is."""


_KEY = re.compile(r"""[ \t]*([A-Za-z0-9_-]+|"(?:[^"\\\n]|\\.)*"|'[^'\n]*')[ \t]*""")
_BLANK = re.compile(r"(?:[ \t\r\n]|#[^\n]*)*")
_STRING = re.compile(
    r'"""(?:[^\\]|\\.)*?"{3,5}|' + r"'''.*?'{3,5}|" + r'"(?:[^"\\\n]|\\.)*"|' + r"'[^'\n]*'", re.S
)
_BARE = re.compile(r"[^,\]}\n#]+")


class _Scan:
    """Finds the line of every key, and the text of every value that isn't in quotes."""

    def __init__(self, text: str) -> None:
        self.sources: dict[str, str] = {}
        self._text = text
        self._position = 0
        self._defined: dict[str, list[int]] = {}
        self._touched: dict[str, int] = {}
        self._tables: dict[str, int] = {}

    def run(self) -> dict[str, list[int]]:
        """Returns the lines on which each key or table is defined."""
        with contextlib.suppress(_StopScan):  # what is found so far still has its lines
            self._document()
        return self._defined

    def line(self, path: str) -> int | None:
        """Returns the line of a key, table or item."""
        if path in self._defined:
            return self._defined[path][0]
        return self._touched.get(path)

    def _document(self) -> None:
        prefix = ""
        while self._skip() < len(self._text):
            if self._text.startswith("[[", self._position):
                prefix = self._array_table()
            elif self._text[self._position] == "[":
                prefix = self._table()
            else:
                self._pair(prefix)

    def _skip(self) -> int:
        match = _BLANK.match(self._text, self._position)
        assert match, "the pattern matches the empty text"
        self._position = match.end()
        return self._position

    def _array_table(self) -> str:
        line = self._line()
        self._position += 2
        path = self._resolved(self._keys("]]"))
        self._tables[path] = self._tables.get(path, -1) + 1
        item = f"{path}[{self._tables[path]}]"
        self._touched[item] = line
        self._touched.setdefault(path, line)
        return item

    def _table(self) -> str:
        line = self._line()
        self._position += 1
        path = self._resolved(self._keys("]"))
        self._define(path, line)
        return path

    def _resolved(self, keys: list[str]) -> str:
        """Returns the path of a table's header: inside an array of tables, its newest item."""
        path = ""
        for place, key in enumerate(keys):
            path = _joined(path, key)
            if place < len(keys) - 1 and path in self._tables:
                path = f"{path}[{self._tables[path]}]"
        return path

    def _pair(self, prefix: str) -> None:
        line, path = self._line(), prefix
        for key in self._keys("="):
            path = _joined(path, key)
            self._touched.setdefault(path, line)
        self._define(path, line)
        self._value(path)

    def _keys(self, end: str) -> list[str]:
        keys = [self._key()]
        while self._take("."):
            keys.append(self._key())
        if not self._take(end):
            raise _StopScan
        return keys

    def _key(self) -> str:
        match = _KEY.match(self._text, self._position)
        if not match:
            raise _StopScan
        self._position = match.end()
        return match[1].strip("\"'")

    def _value(self, path: str) -> None:
        self._skip()
        if self._take("{"):
            self._inline_table(path)
        elif self._take("["):
            self._array(path)
        elif match := _STRING.match(self._text, self._position):
            self._position = match.end()
        elif match := _BARE.match(self._text, self._position):
            self._position = match.end()
            self.sources[path] = match[0].strip()
        else:
            raise _StopScan

    def _inline_table(self, path: str) -> None:
        for _ in self._until("}"):
            self._pair(path)

    def _array(self, path: str) -> None:
        for index in self._until("]"):
            self._touched[f"{path}[{index}]"] = self._line()
            self._value(f"{path}[{index}]")

    def _until(self, end: str) -> Iterator[int]:
        """Yields before each member, and takes the commas between them and the end."""
        index = 0
        self._skip()
        while not self._take(end):
            yield index
            index += 1
            self._skip()
            if not self._take(",") and not self._text.startswith(end, self._position):
                raise _StopScan
            self._skip()

    def _take(self, token: str) -> bool:
        if not self._text.startswith(token, self._position):
            return False
        self._position += len(token)
        return True

    def _line(self) -> int:
        return self._text.count("\n", 0, self._position) + 1

    def _define(self, path: str, line: int) -> None:
        self._defined.setdefault(path, []).append(line)


def _joined(path: str, key: str) -> str:
    return f"{path}.{key}" if path else key
