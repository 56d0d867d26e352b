"""A person's table of outcomes, long or wide, understood: which columns mean what. Pure.

Leaves single cells to `drivers/recorded_cells.py`, the plan made from it to `table_protocol.py`.

Rules:
- Long: a row an outcome, with columns for unit and arm and one for the value. Wide: a row a unit,
  with one column an arm, named by the caller.
- Without being told, the value is `passed`, else `score`; the cluster is the column `cluster` where
  there is one. The control is the first arm in the file.
- A value column that holds 0, 1, true, false and nothing else is binary; one of yes, no, pass, fail
  too, as 1 and 0, which a note says.
- What can't be read is named by the line and column of the person's own file.
- A column that can't be what its name says (`status` with other words) is left out, and a note
  says so.
- Every unit has one cluster; a unit that one arm never answered stays in and is missing there.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Literal, get_args

from fairtrial.drivers.recorded_cells import parse_cells, replicate_of
from fairtrial.ledger.errors import Problem, ProtocolError
from fairtrial.ledger.events import Status
from fairtrial.protocols.nodes import nearest
from fairtrial.protocols.tables import Row, Table, cell_text, raise_problems, read_table

from .overlap import check_overlap, overlap_of

__all__ = ("OutcomeTable", "TableRow", "read_outcome_table")

_BINARY = frozenset(("0", "1", "0.0", "1.0", "true", "false"))
_WORDS = {"yes": "1", "pass": "1", "no": "0", "fail": "0"}
_NO_VALUE = frozenset(("", "na", "n/a", "nan", "null", "none"))
_STATUSES = frozenset(("", *get_args(Status)))


@dataclass(frozen=True, kw_only=True, slots=True)
class TableRow:
    """One outcome of the table, its cells as text."""

    unit: str
    arm: str
    replicate: str
    status: str
    value: str
    line: int


@dataclass(frozen=True, kw_only=True, slots=True)
class OutcomeTable:
    """What a table holds.

    Attributes:
        name: of the file.
        layout: long or wide.
        row_count: rows of the file.
        units: unit ids with their cluster, in order of first appearance; the cluster is "" where
            the table has none.
        control: the incumbent arm's name in the file; `treatment` the other's.
        chosen: the caller named the control; else it is the first in the file.
        unit_column: name of the column; `value_column`, `cluster_column` likewise.
        binary: the value is 0 or 1.
        translated: the file had words for it, which `rows` hold as 0 and 1.
        repeats: the largest replicate of control and treatment.
        has_status: the table tells statuses.
        rows: the outcomes of the two arms.
        notes: what a reader has to know about how the table was read.
        overlap: units that stand in one arm alone were left out.
    """

    name: str
    layout: Literal["long", "wide"]
    row_count: int
    units: tuple[tuple[str, str], ...]
    control: str
    treatment: str
    chosen: bool
    unit_column: str
    value_column: str
    cluster_column: str | None
    binary: bool
    translated: bool
    repeats: tuple[int, int]
    has_status: bool
    rows: tuple[TableRow, ...]
    notes: tuple[str, ...]
    overlap: bool = False


def read_outcome_table(
    data: bytes,
    *,
    name: str,
    arms: Sequence[str] | None = None,
    control: str | None = None,
    unit: str | None = None,
    cluster: str | None = None,
    value: str | None = None,
    overlap: bool = False,
) -> OutcomeTable:
    """Understands a table of outcomes.

    Args:
        data: the bytes of the file, CSV, or JSONL by the suffix of `name`.
        name: of the file.
        arms: two columns of a wide table, or two values of a long table's column `arm`.
        control: which of the two is the incumbent.
        unit: column of unit ids; `unit` without it.
        cluster: column of clusters; "none" says that each unit is its own.
        value: column of the value.
        overlap: units that stand in one arm alone are left out.

    Raises:
        ProtocolError: The table can't be understood, or its arms have different units.
    """
    table = _table(data, name)
    unit_column = _column(table, name, unit, ("unit",), "the unit (--unit COLUMN)")
    cluster_column = _cluster_column(table, name, cluster)
    is_wide = arms is not None and len(arms) > 0 and set(arms) <= set(table.columns)
    read = _wide if is_wide else _long
    found = read(table, name, unit_column, arms, value)
    names = _two_arms(found, name, arms, control)
    as_found = tuple(row for row in found.rows if row.arm in names)
    rows = _translated(as_found)
    translated = rows is not as_found
    binary = all(_folded(row) in _BINARY | _NO_VALUE for row in rows)
    repeats = (_repeats(rows, names[0], name), _repeats(rows, names[1], name))
    _check_rows(rows, name, None if is_wide else found.value_column, binary=binary)
    rows, left_out = _common(rows, names, name, overlap=overlap)
    independent = cluster_column is None and cluster != "none"
    return OutcomeTable(
        name=name,
        layout="wide" if is_wide else "long",
        row_count=len(table.rows),
        units=_units(table, name, unit_column, cluster_column, {row.unit for row in rows}),
        control=names[0],
        treatment=names[1],
        chosen=control is not None,
        unit_column=unit_column,
        value_column=found.value_column,
        cluster_column=cluster_column,
        binary=binary,
        translated=translated,
        repeats=repeats,
        has_status=found.has_status,
        rows=rows,
        notes=(*found.notes, *left_out, *_notes(repeats, translated, independent)),
        overlap=bool(left_out),
    )


def _table(data: bytes, name: str) -> Table:
    media: Literal["csv", "jsonl"] = "jsonl" if name.endswith((".jsonl", ".ndjson")) else "csv"
    table = read_table(data, media, name=name)
    if not table.rows:
        raise _refusal(name, "the table has no row", "rows", "at least two units", "")
    return table


def _common(
    rows: tuple[TableRow, ...], names: tuple[str, str], name: str, *, overlap: bool
) -> tuple[tuple[TableRow, ...], tuple[str, ...]]:
    """Returns the rows to compare, and what to say of those that are left out."""
    first, second = ([row.unit for row in rows if row.arm == arm] for arm in names)
    if not first or not second:
        return rows, ()
    found = overlap_of(names, first, second)
    check_overlap(found, file=name, wanted=overlap)
    if not overlap or found.total == len(found.both):
        return rows, ()
    return tuple(row for row in rows if row.unit in found.both), (found.note(),)


def _notes(repeats: tuple[int, int], translated: bool, independent: bool) -> Iterator[str]:
    if translated:
        yield "yes and pass count as 1, no and fail as 0"
    if max(repeats) > 1:
        yield f"a unit counts with the mean of its replicates, up to {max(repeats)}"
    if independent:
        yield _INDEPENDENT


_INDEPENDENT = (
    "each unit counts as independent; if several share a document, a repository or an author, "
    "name that column: --cluster COLUMN"
)


def _folded(row: TableRow) -> str:
    return row.value.strip().lower()


def _translated(rows: tuple[TableRow, ...]) -> tuple[TableRow, ...]:
    """Returns rows whose words are 1 and 0; the same rows where no or other words are used."""
    found = {_folded(row) for row in rows}
    if not found & _WORDS.keys() or not found <= _WORDS.keys() | _BINARY | _NO_VALUE:
        return rows
    return tuple(replace(row, value=_WORDS.get(_folded(row), row.value)) for row in rows)


_VALUES = (
    "1 or 0, true or false, yes or no, pass or fail in the whole column; or numbers; "
    "empty where there is no value"
)


def _check_rows(rows: Sequence[TableRow], name: str, column: str | None, *, binary: bool) -> None:
    """Checks that values can be read and that no outcome stands twice; column None: the arm's."""
    lines: dict[tuple[str, str, str], int] = {}
    problems: list[Problem] = []
    for row in rows:
        slot = (row.unit, row.arm, row.replicate)
        first = lines.setdefault(slot, row.line)
        if first != row.line:
            problems.append(_twice(row, first))
        read = parse_cells({"passed" if binary else "score": row.value}, line=row.line)
        if isinstance(read, Problem):
            problems.append(
                Problem(
                    what="this value can't be read",
                    where=f"column {column or row.arm}",
                    line=row.line,
                    expected=_VALUES,
                    found=repr(row.value),
                    todo="correct the cell, or name another column: --value COLUMN",
                )
            )
    raise_problems(problems, name)


def _twice(row: TableRow, first: int) -> Problem:
    return Problem(
        what=f"arm {row.arm!r} has two rows of unit {row.unit!r}",
        where="columns unit and arm",
        line=row.line,
        expected="one row a unit and arm; repetitions are numbered in a column replicate",
        found=f"lines {first} and {row.line}",
        todo="take one of them out, or add the column replicate",
    )


def _cluster_column(table: Table, name: str, cluster: str | None) -> str | None:
    usual = "cluster" if "cluster" in table.columns else None
    wanted = None if cluster == "none" else cluster or usual
    if wanted is None:
        return None
    return _column(table, name, wanted, (), "the cluster (--cluster COLUMN)")


@dataclass(frozen=True, kw_only=True, slots=True)
class _Found:
    value_column: str
    has_status: bool
    rows: list[TableRow]
    notes: list[str]


def _long(
    table: Table, name: str, unit: str, arms: Sequence[str] | None, value: str | None
) -> _Found:
    arm = _column(table, name, None, ("arm",), "the arm; for one column an arm: --arms A,B")
    value_column = _column(table, name, value, ("passed", "score"), "the value (--value COLUMN)")
    notes: list[str] = []
    has_status = "status" in table.columns
    if has_status and not all(_text(row, "status") in _STATUSES for row in table.rows):
        has_status = False
        notes.append("column status holds other words than the statuses of outcomes: ignored")
    numbered = "replicate" in table.columns
    rows = [
        TableRow(
            unit=_text(row, unit),
            arm=_text(row, arm),
            replicate=_text(row, "replicate") if numbered else "1",
            status=_text(row, "status") if has_status else "",
            value=_text(row, value_column),
            line=row.line,
        )
        for row in table.rows
    ]
    return _Found(value_column=value_column, has_status=has_status, rows=rows, notes=notes)


def _wide(
    table: Table, name: str, unit: str, arms: Sequence[str] | None, value: str | None
) -> _Found:
    assert arms is not None
    rows = [
        TableRow(
            unit=_text(row, unit),
            arm=arm,
            replicate="1",
            status="",
            value=_text(row, arm),
            line=row.line,
        )
        for row in table.rows
        for arm in arms
    ]
    seen: dict[str, int] = {}
    problems = [
        Problem(
            what=f"unit {_text(row, unit)!r} stands twice in a wide table",
            where=unit,
            line=row.line,
            found=f"lines {seen[_text(row, unit)]} and {row.line}",
            todo="keep one row a unit",
        )
        for row in table.rows
        if seen.setdefault(_text(row, unit), row.line) != row.line
    ]
    raise_problems(problems, name)
    return _Found(value_column="passed", has_status=False, rows=rows, notes=[])


def _column(table: Table, name: str, wanted: str | None, usual: Sequence[str], what: str) -> str:
    """Returns the column that is meant."""
    if wanted is None:
        found = next((column for column in usual if column in table.columns), None)
        if found is not None:
            return found
        raise _refusal(
            name, f"no column is known to hold {what}", "columns", ", ".join(usual) or "its name",
            ", ".join(table.columns),
        )  # fmt: skip
    if wanted in table.columns:
        return wanted
    near = nearest(wanted, table.columns)
    columns = ", ".join(table.columns)
    todo = f"did you mean {near!r}?" if near else "name a column of the file"
    raise _refusal(name, f"the table has no column {wanted!r}", what, columns, wanted, todo=todo)


def _two_arms(
    found: _Found, name: str, arms: Sequence[str] | None, control: str | None
) -> tuple[str, str]:
    """Returns control and treatment."""
    present = list(dict.fromkeys(row.arm for row in found.rows))
    names = list(arms) if arms else present
    shown = ", ".join(present[:10])
    if len(set(names)) != 2 or not set(names) <= set(present):
        todo = "name two of them: --arms A,B"
        raise _refusal(name, "two arms are compared", "arm", "two arms", shown, todo=todo)
    if control is not None and control not in names:
        raise _refusal(name, "the incumbent is one of the two arms", "--incumbent",
                       " or ".join(names), control)  # fmt: skip
    first = control if control is not None else names[0]
    return first, next(arm for arm in names if arm != first)


def _units(
    table: Table, name: str, unit: str, cluster: str | None, kept: set[str]
) -> tuple[tuple[str, str], ...]:
    """Returns the units of the compared arms with their clusters."""
    clusters: dict[str, str] = {}
    problems: list[Problem] = []
    for row in table.rows:
        id, own = _text(row, unit), _text(row, cluster) if cluster is not None else ""
        if id in kept and clusters.setdefault(id, own) != own:
            problems.append(
                Problem(
                    what=f"unit {id!r} is in two clusters",
                    where=cluster or "",
                    line=row.line,
                    expected=clusters[id],
                    found=own,
                    todo="give each unit one cluster",
                )
            )
    raise_problems(problems, name)
    return tuple(clusters.items())


def _repeats(rows: Sequence[TableRow], arm: str, name: str) -> int:
    counts = [replicate_of(row.replicate) for row in rows if row.arm == arm]
    if 0 in counts:
        bad = next(row for row in rows if row.arm == arm and not replicate_of(row.replicate))
        raise _refusal(
            name, "a replicate is a whole number from 1", "replicate", "1, 2, ...", bad.replicate
        )
    return max(counts)


def _text(row: Row, column: str) -> str:
    value = row.cells.get(column)
    if isinstance(value, float):
        return repr(value)
    return cell_text(value) or ""


def _refusal(
    name: str, what: str, where: str, expected: str, found: str, *, todo: str = ""
) -> ProtocolError:
    problem = Problem(what=what, where=where, expected=expected, found=found, todo=todo)
    return ProtocolError((problem,), file=name)
