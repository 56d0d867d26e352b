"""The bytes of a CSV or JSONL file become rows with their lines. Pure.

Leaves the meaning of columns to those who read a table: `units.py` and the recorded driver.

Rules:
- UTF-8, with or without a byte order mark, lines ended by LF or CRLF; every other encoding is
  refused with line and byte. No value keeps a mark or a carriage return of the line's end.
- CSV cells are text. JSONL cells are JSON values; a line is an object, each name once in it.
- Blank lines are no rows. Lines count from 1, as an editor counts them.
- All problems of a file are reported at once, the first 20 of them in full.
"""

from __future__ import annotations

import codecs
import csv
import io
import json
from collections.abc import Iterator, Sequence
from typing import Literal, NamedTuple

import msgspec

from fairtrial.ledger.errors import Problem, ProtocolError

__all__ = ("PROBLEMS_MAX", "Row", "Table", "cell_text", "raise_problems", "read_table")

PROBLEMS_MAX = 20


class Row(NamedTuple):
    """One row at its line; an absent cell of a JSONL file is not in `cells`."""

    line: int
    cells: dict[str, object]


class Table(NamedTuple):
    """The columns, in order of first appearance, and the rows."""

    columns: tuple[str, ...]
    rows: list[Row]


def read_table(data: bytes, media: Literal["csv", "jsonl"], *, name: str) -> Table:
    """Returns the rows of a file.

    Args:
        data: The bytes of the file.
        media: How the file is written.
        name: The file's name, for messages.

    Raises:
        ProtocolError: The bytes are not UTF-8, or not rows in this form.
    """
    text = _decoded(data, name)
    return _csv(text, name) if media == "csv" else _jsonl(text, name)


def cell_text(value: object) -> str | None:
    """Returns a cell as text: "" where there is none, None where the value is no text.

    Integers and booleans of a JSONL file are the text that JSON writes for them.
    """
    if value is None or isinstance(value, str):
        return value or ""
    if isinstance(value, bool):
        return "true" if value else "false"
    return str(value) if isinstance(value, int) else None


def raise_problems(problems: Sequence[Problem], name: str) -> None:
    """Raises a ProtocolError if there are problems; beyond 20 it says how many more there are."""
    if not problems:
        return
    shown = tuple(problems[:PROBLEMS_MAX])
    if more := len(problems) - len(shown):
        what, todo = f"{more} more problems of this kind", "mend those above first"
        shown += (Problem(what=what, where=problems[-1].where, todo=todo),)
    raise ProtocolError(shown, file=name)


_UTF16 = (codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)


def _decoded(data: bytes, name: str) -> str:
    if data.startswith(_UTF16):
        raise _not_utf8(data, 0, "UTF-16", name)
    if b"\0" in data:
        raise _not_utf8(data, data.index(b"\0"), "UTF-16 without a mark", name)
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        # The mark is cut off before decoding, so the error counts from behind it.
        mark = len(codecs.BOM_UTF8) if data.startswith(codecs.BOM_UTF8) else 0
        raise _not_utf8(data, error.start + mark, "Latin-1 or Windows-1252", name) from error


def _not_utf8(data: bytes, offset: int, likely: str, name: str) -> ProtocolError:
    problem = Problem(
        what="the file is not UTF-8 text",
        where=f"byte {offset + 1}",
        line=data.count(b"\n", 0, offset) + 1,
        expected="UTF-8",
        found=f"byte 0x{data[offset]:02X}, as in {likely}",
        todo="save the file as UTF-8",
    )
    return ProtocolError((problem,), file=name)


def _csv(text: str, name: str) -> Table:
    columns: tuple[str, ...] = ()
    rows: list[Row] = []
    problems: list[Problem] = []
    for line, cells in _csv_lines(text, name):
        if not columns:
            columns = tuple(cells)
            _check_separator(columns, line, name)
            problems.extend(_repeated(columns, line))
        elif len(cells) == len(columns):
            rows.append(Row(line, dict(zip(columns, cells, strict=True))))
        else:
            problems.append(_ragged(line, len(columns), len(cells)))
    raise_problems(problems or ([] if columns else [_EMPTY]), name)
    return Table(columns, rows)


def _check_separator(columns: tuple[str, ...], line: int, name: str) -> None:
    """Checks that a header of one cell isn't one of several, with another sign between them."""
    found = next((sign for sign in (";", "\t") if sign in columns[0]), None)
    if len(columns) > 1 or found is None:
        return
    problem = Problem(
        what="columns are separated by commas",
        where="",
        line=line,
        expected="commas",
        found="semicolons" if found == ";" else "tabs",
        todo="save the file as CSV with commas",
    )
    raise_problems([problem], name)


_EMPTY = Problem(what="the file is empty", where="", expected="a header line and rows")


def _csv_lines(text: str, name: str) -> Iterator[tuple[int, list[str]]]:
    """Yields (line where the row begins, cells) of each row that isn't blank."""
    reader = csv.reader(io.StringIO(text, newline=""), strict=True)
    try:
        ended = reader.line_num
        for cells in reader:
            if cells:
                yield ended + 1, cells
            ended = reader.line_num
    except csv.Error as error:
        problem = Problem(
            what=f"the row is not CSV: {error}",
            where="",
            line=reader.line_num,
            todo="close every quotation mark; write cells over 128 KB as JSONL",
        )
        raise ProtocolError((problem,), file=name) from error


def _repeated(columns: tuple[str, ...], line: int) -> list[Problem]:
    return [
        Problem(
            what=f"column {column!r} stands twice in the header",
            where=column,
            line=line,
            todo="rename or remove one of them",
        )
        for index, column in enumerate(columns)
        if column in columns[:index]
    ]


def _ragged(line: int, expected: int, found: int) -> Problem:
    return Problem(
        what="the row has another number of cells than the header",
        where="",
        line=line,
        expected=f"{expected} cells",
        found=f"{found} cells",
        todo="quote cells that hold a comma",
    )


def _jsonl(text: str, name: str) -> Table:
    columns: dict[str, None] = {}
    rows: list[Row] = []
    problems: list[Problem] = []
    # Split at LF only: splitlines() would also split at U+2028, which JSON writes unescaped.
    for line, source in enumerate(text.split("\n"), start=1):
        if not source.strip():
            continue
        try:
            cells = _json_object(source)
        except (ValueError, msgspec.MsgspecError, RecursionError) as error:
            problems.append(_not_json(line, error))
            continue
        columns.update(dict.fromkeys(cells))
        rows.append(Row(line, cells))
    raise_problems(problems, name)
    return Table(tuple(columns), rows)


_OBJECT = msgspec.json.Decoder(dict[str, object])


def _json_object(source: str) -> dict[str, object]:
    value = _OBJECT.decode(source)
    # msgspec keeps the last of two equal names without a word; the standard library shows them.
    json.loads(source, object_pairs_hook=_check_names)
    # A value that can't be written again (a lone surrogate) couldn't reach a driver either.
    msgspec.json.encode(value)
    return value


def _check_names(pairs: list[tuple[str, object]]) -> None:
    names = [name for name, _ in pairs]
    if len(set(names)) != len(names):
        twice = next(name for index, name in enumerate(names) if name in names[:index])
        raise ValueError(f"the name {twice!r} stands twice in one object")


def _not_json(line: int, error: Exception) -> Problem:
    return Problem(
        what=f"the line is not a row: {error}",
        where="",
        line=line,
        expected="one JSON object a line, each name once",
    )
