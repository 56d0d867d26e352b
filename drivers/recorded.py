"""The driver `recorded`: outcomes that exist already, in a CSV or JSONL table.

Leaves the bytes of a table to `protocols/tables.py`, its single cells to `recorded_cells.py`.

Rules:
- `where` keeps the rows of an arm by the text of their cells; `columns` maps fields of an outcome
  to columns. Without a `replicate` column every row is replicate 1.
- Two rows for one slot are refused with both lines; rows of units that the plan doesn't have are
  refused with their count and the first ids; cells of a column that can't be read for the same
  reason are one problem.
- A slot without a row is the outcome `replay_miss`.
- What an outcome cost then is its price; nothing is spent now.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Literal

from msgspec.structs import replace

from fairtrial.ledger import sections
from fairtrial.ledger.errors import DriverError, Problem, ProtocolError
from fairtrial.ledger.given import TABLE_BYTES_MAX
from fairtrial.ledger.regular import read_regular
from fairtrial.protocols.tables import Row, cell_text, raise_problems, read_table

from .answer import Answer
from .port import Job, file_identity
from .recorded_cells import parse_cells, replicate_of

__all__ = ("RecordedDriver", "open_recorded", "parse_recorded")

_MISS = Answer(status="replay_miss", code="no_row", incurred_nanousd=0)
_IDS_SHOWN = 5
_VALUES_SHOWN = 4
# json.dumps prints these bare, which no JSON reader has to take; in quotes they mean the same here.
_BARE_NUMBER = re.compile(rb'"(?:[^"\\]|\\.)*"|(?<![\w.])-?(?:NaN|Infinity)(?![\w.])')


class RecordedDriver:
    """Answers from a table."""

    name = "recorded"

    def __init__(
        self,
        outcomes: Mapping[tuple[str, int], Answer],
        *,
        spec: sections.RecordedDriver,
        folder: Path | None,
    ) -> None:
        self._outcomes, self._spec, self._folder = outcomes, spec, folder

    def outcome(self, unit: str, replicate: int) -> Answer:
        """Returns the recorded outcome of a slot, or the outcome that there is none."""
        return self._outcomes.get((unit, replicate), _MISS)

    def has_row(self, unit: str, replicate: int) -> bool:
        """Returns whether the table has an outcome of a slot."""
        return (unit, replicate) in self._outcomes

    def identity(self) -> dict[str, object]:
        """Returns the table's digest and how it is read."""
        paths = {self._spec.file, *self._spec.files}
        return {
            "kind": self.name,
            "file": self._spec.file,
            "files": file_identity(self._folder, paths) if self._folder is not None else {},
            "where": dict(self._spec.where),
            "columns": dict(self._spec.columns),
        }

    def problems(self) -> tuple[str, ...]:
        """Returns nothing: a table that was read is all there is."""
        return ()

    async def run(self, job: Job) -> Answer:
        """Returns the recorded outcome of the job's slot."""
        return self.outcome(job.unit, job.replicate)

    async def aclose(self) -> None:
        """Does nothing."""


def open_recorded(
    spec: sections.RecordedDriver, *, folder: Path, units: Iterable[str], repeats: int | None = None
) -> RecordedDriver:
    """Returns the driver of a table beside the protocol.

    Raises:
        DriverError: The file can't be read.
        ProtocolError: The table isn't acceptable.
    """
    try:
        data = read_regular(folder / spec.file, bytes_max=TABLE_BYTES_MAX)
    except OSError as error:
        raise DriverError(
            "the table of outcomes can't be read",
            where=spec.file,
            found=error.strerror or type(error).__name__,
            todo="put the file there, or correct driver.file",
        ) from error
    outcomes = parse_recorded(data, spec, units=units, repeats=repeats)
    return RecordedDriver(outcomes, spec=spec, folder=folder)


def parse_recorded(
    data: bytes, spec: sections.RecordedDriver, *, units: Iterable[str], repeats: int | None = None
) -> dict[tuple[str, int], Answer]:
    """Returns the outcomes of one arm by unit and replicate. Pure.

    Args:
        data: The bytes of the table.
        spec: Which rows and columns are meant.
        units: The units of the plan.
        repeats: The arm's planned replicates; None: not checked.

    Raises:
        ProtocolError: The table isn't acceptable; every problem has its line.
    """
    media: Literal["csv", "jsonl"] = "csv"
    if spec.file.endswith((".jsonl", ".ndjson")):
        media, data = "jsonl", _quoted(data)
    table = read_table(data, media, name=spec.file)
    _check_columns(table.columns, spec)
    rows = [row for row in table.rows if _is_kept(row, spec.where)]
    if not rows:
        found = ", ".join(f"{column}={value}" for column, value in spec.where.items())
        problem = Problem(
            what="no row is left",
            where="driver.where",
            found=found,
            todo="compare driver.where with the file",
        )
        raise ProtocolError((problem,), file=spec.file)
    return _outcomes(rows, spec, set(units), repeats)


def _quoted(data: bytes) -> bytes:
    if b"NaN" not in data and b"Infinity" not in data:
        return data
    return _BARE_NUMBER.sub(
        lambda match: match[0] if match[0].startswith(b'"') else b'"' + match[0] + b'"', data
    )


def _check_columns(columns: tuple[str, ...], spec: sections.RecordedDriver) -> None:
    wanted = [(f"driver.columns.{field}", column) for field, column in spec.columns.items()]
    wanted += [(f"driver.where.{column}", column) for column in spec.where]
    raise_problems(
        [
            Problem(
                what=f"the table has no column {column!r}",
                where=where,
                line=1,
                expected="one of: " + ", ".join(columns),
                found=column,
                todo="correct the name in the protocol",
            )
            for where, column in wanted
            if column not in columns
        ],
        spec.file,
    )


def _is_kept(row: Row, where: Mapping[str, str]) -> bool:
    return all(cell_text(row.cells.get(column)) == value for column, value in where.items())


def _outcomes(
    rows: list[Row], spec: sections.RecordedDriver, units: set[str], repeats: int | None
) -> dict[tuple[str, int], Answer]:
    found: dict[tuple[str, int], Answer] = {}
    lines: dict[tuple[str, int], int] = {}
    strangers: list[Row] = []
    problems: list[Problem] = []
    unread: list[Problem] = []
    # Equal cells give one Answer: a table of yes and no holds two of them, however long it is.
    known: dict[str, Answer] = {}
    values = {field: name for field, name in spec.columns.items() if field != "unit"}
    for row in rows:
        unit = cell_text(row.cells.get(spec.columns["unit"]))
        if unit not in units:
            strangers.append(row)
            continue
        cells = {field: row.cells.get(column) for field, column in values.items()}
        slot = (unit, replicate_of(cells.pop("replicate", 1)))
        if slot[1] < 1 or (repeats is not None and slot[1] > repeats):
            problems.append(_not_planned(row, repeats))
        elif slot in lines:
            problems.append(_twice(row, slot, lines[slot]))
        else:
            lines[slot] = row.line
            answer = _answer(cells, known, row.line)
            if isinstance(answer, Answer):
                found[slot] = answer
            else:
                unread.append(answer)
    raise_problems([*_unknown(strangers, spec), *problems, *_together(unread)], spec.file)
    return found


def _together(problems: Iterable[Problem]) -> Iterable[Problem]:
    """Yields one problem for all cells of a column that can't be read for the same reason."""
    alike: dict[tuple[str, str], list[Problem]] = {}
    for problem in problems:
        alike.setdefault((problem.what, problem.todo), []).append(problem)
    for first, *rest in alike.values():
        if not rest:
            yield first
            continue
        found = list(dict.fromkeys(one.found for one in (first, *rest)))
        more = ", ..." if len(found) > _VALUES_SHOWN else ""
        yield replace(
            first,
            what=f"{first.what} (so are {len(rest)} more, the next in line {rest[0].line})",
            found=", ".join(found[:_VALUES_SHOWN]) + more,
        )


def _answer(cells: dict[str, object], known: dict[str, Answer], line: int) -> Answer | Problem:
    key = repr(cells)
    answer = known.get(key)
    if answer is not None:
        return answer
    parsed = parse_cells(cells, line=line)
    if isinstance(parsed, Answer):
        known[key] = parsed
    return parsed


def _unknown(rows: list[Row], spec: sections.RecordedDriver) -> list[Problem]:
    if not rows:
        return []
    ids = [str(row.cells.get(spec.columns["unit"])) for row in rows[:_IDS_SHOWN]]
    return [
        Problem(
            what=f"{len(rows)} rows are of units that the plan doesn't have",
            where="driver.columns.unit",
            line=rows[0].line,
            expected="units of the units file",
            found=", ".join(ids) + (", ..." if len(rows) > _IDS_SHOWN else ""),
            todo="take these rows out, or the units in",
        )
    ]


def _twice(row: Row, slot: tuple[str, int], first: int) -> Problem:
    return Problem(
        what=f"unit {slot[0]!r}, replicate {slot[1]}, has two rows",
        where="driver.file",
        line=row.line,
        expected="one row a slot",
        found=f"lines {first} and {row.line}",
        todo="take one of them out, or map a replicate column",
    )


def _not_planned(row: Row, repeats: int | None) -> Problem:
    return Problem(
        what="the replicate is not one of the planned ones",
        where="driver.columns.replicate",
        line=row.line,
        expected=f"1 to {repeats}" if repeats else "a whole number from 1",
        found=str(row.cells),
        todo="set repeats of the arm, or take the row out",
    )
