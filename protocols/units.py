"""The units file: bytes and the registered columns become units. Pure.

Leaves bytes and lines to `tables.py`, the order of units to `plan.py`, and the file's digest to
whoever read the bytes.

Rules:
- What the reader accepts (marks, line ends) doesn't change which units exist.
- An id is text, compared byte for byte; ids that Unicode normalisation or case folding would make
  equal are refused, with both lines, because file names and other tools fold them.
- Rows that `units.select` leaves out are not units: no rule looks at them.
- Columns, not objects; `inputs` alone holds one mapping a unit, restricted to `units.input`.
- All problems of a file are reported at once, as `tables.py` reports them.
"""

from __future__ import annotations

import unicodedata
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from typing import Literal, TypeAlias

import msgspec

from fairtrial.ledger.canonical import check_name
from fairtrial.ledger.errors import LedgerError, Problem
from fairtrial.ledger.protocol import Endpoint, UnitsSpec

from .nodes import nearest
from .plan import unit_order
from .tables import Row, Table, cell_text, raise_problems, read_table

__all__ = ("Units", "check_units", "parse_pilot", "parse_units", "population")


class Units(msgspec.Struct, frozen=True, kw_only=True):
    """The units that are left after `select` and `limit`, as columns in the order of the file.

    Attributes:
        ids: Unit ids.
        clusters: The cluster of each unit; its own id where each unit is its own cluster.
        strata: Family of each unit; None when no column is declared, as for those below.
        labels: Truth of each unit, "" where it isn't given.
        twins: Name of the candidate that a unit is one side of, "" for a unit without a twin.
        folds: Fold of each unit.
        splits: Split of each unit, "" where it isn't given.
        inputs: What a driver receives beside the id, one mapping a unit.
        lines: Line of each unit in the file, from 1.
    """

    ids: tuple[str, ...]
    clusters: tuple[str, ...]
    strata: tuple[str, ...] | None = None
    labels: tuple[str, ...] | None = None
    twins: tuple[str, ...] | None = None
    folds: tuple[str, ...] | None = None
    splits: tuple[str, ...] | None = None
    inputs: tuple[dict[str, object], ...] | None = None
    lines: tuple[int, ...] = ()


def parse_units(data: bytes, spec: UnitsSpec, *, name: str, seed: int) -> Units:
    """Returns the units of a file.

    Args:
        data: The bytes of the file.
        spec: The registered section `units`.
        name: The file's name, for messages.
        seed: The registered seed, which decides whom `limit` keeps.

    Raises:
        ProtocolError: The file isn't acceptable; every problem names its line.
    """
    table = read_table(data, spec.format, name=name)
    raise_problems(list(_column_problems(table, spec)), name)
    rows = [row for row in table.rows if _is_selected(row, spec)]
    selection, ids = _selection_problems(table, rows, spec), _id_problems(rows, spec)
    raise_problems([*selection, *ids, *_cell_problems(rows, spec)], name)
    units = _limited(_columns(rows, spec), spec, seed)
    limit = _limit_problems(len(rows), spec)
    raise_problems([*limit, *_fold_problems(units), *_twin_problems(units)], name)
    return units


def parse_pilot(data: bytes, spec: UnitsSpec, *, name: str, planned: Iterable[str]) -> Units:
    """Returns the pilot units, of which only the columns `units.id` and `units.input` are read.

    Raises:
        ProtocolError: The file isn't acceptable, or holds a unit of the plan.
    """
    media: Literal["csv", "jsonl"] = "jsonl" if name.endswith((".jsonl", ".ndjson")) else "csv"
    plain = UnitsSpec(file=name, format=media, id=spec.id, cluster=None, input=spec.input)
    units = parse_units(data, plain, name=name, seed=0)
    folded = {_fold(unit) for unit in planned}
    problems = [
        Problem(
            what=f"pilot unit {unit!r} is a unit of the plan",
            where="units.pilot",
            line=line,
            expected="units that the experiment doesn't use",
            found=unit,
            todo="take the unit out of the pilot file",
        )
        for unit, line in zip(units.ids, units.lines, strict=True)
        if _fold(unit) in folded
    ]
    raise_problems(problems, name)
    return units


WhereColumn: TypeAlias = Literal["label", "stratum", "split"]


def population(units: Units, where: Mapping[WhereColumn, Sequence[str]]) -> tuple[int, ...]:
    """Returns the indices of the units that an endpoint's `where` keeps, all without one."""
    columns: dict[WhereColumn, tuple[str, ...] | None]
    columns = {"label": units.labels, "stratum": units.strata, "split": units.splits}
    kept: Iterable[int] = range(len(units.ids))
    for key, values in where.items():
        column = columns[key]
        assert column is not None, f"where.{key} without its column passed the protocol file"
        kept = [index for index in kept if column[index] in values]
    return tuple(kept)


_BINARY_LABELS = frozenset(("auc", "within_twin_auc", "precision"))


def check_units(
    units: Units, endpoints: Iterable[Endpoint], *, first_look: AbstractSet[str], name: str
) -> None:
    """Refuses units that an endpoint can't be computed on.

    Args:
        units: The units.
        endpoints: The registered endpoints.
        first_look: Ids of the units of the first look; later looks hold them too.
        name: The units file's name, for messages.

    Raises:
        ProtocolError: A label isn't 0 or 1 where it has to be; a look has no unit of an endpoint.
    """
    problems: list[Problem] = []
    for endpoint in endpoints:
        members = population(units, endpoint.where)
        if endpoint.type in _BINARY_LABELS:
            problems.extend(_label_problems(units, members, endpoint.name))
        if not any(units.ids[index] in first_look for index in members):
            problems.append(_no_population(endpoint))
    raise_problems(problems, name)


_ROLES = ("id", "cluster", "stratum", "twin", "label", "split", "fold")
# Columns in which every unit needs a value.
_NEEDED = ("cluster", "stratum", "fold")


def _roles(spec: UnitsSpec) -> Iterator[tuple[str, str]]:
    """Yields (role, column) of each declared column."""
    for role in _ROLES:
        column: str | None = getattr(spec, role)
        if column is not None:
            yield role, column


def _column_problems(table: Table, spec: UnitsSpec) -> Iterator[Problem]:
    wanted = [(f"units.{role}", column) for role, column in _roles(spec)]
    wanted += [(f"units.select.{column}", column) for column in spec.select]
    wanted += [("units.input", column) for column in spec.input or ()]
    for where, column in wanted:
        if column not in table.columns:
            near = nearest(column, table.columns)
            yield Problem(
                what=f"the units file has no column {column!r}",
                where=where,
                expected=f"one of {', '.join(table.columns)}",
                found=column,
                todo=f"did you mean {near!r}?" if near else "name a column of the file",
            )


def _is_selected(row: Row, spec: UnitsSpec) -> bool:
    return all(cell_text(row.cells.get(key)) in values for key, values in spec.select.items())


def _selection_problems(table: Table, rows: list[Row], spec: UnitsSpec) -> Iterator[Problem]:
    for column, values in spec.select.items():
        present = {cell_text(row.cells.get(column)) for row in table.rows}
        for value in values:
            if value not in present:
                yield Problem(
                    what=f"no row has {value!r} in column {column!r}",
                    where=f"units.select.{column}",
                    found=value,
                    todo="correct the value or leave it out",
                )
    if not rows:
        yield Problem(
            what="no unit is left",
            where="units.select" if spec.select else "units.file",
            expected="at least one row",
            found=f"{len(table.rows)} rows in the file, none selected",
        )


def _id_problems(rows: list[Row], spec: UnitsSpec) -> Iterator[Problem]:
    seen: dict[str, tuple[str, int]] = {}
    for row in rows:
        cell = row.cells.get(spec.id)
        problem = _id_problem(cell, row.line)
        if problem:
            yield problem
        if unit := cell_text(cell):
            first, line = seen.setdefault(_fold(unit), (unit, row.line))
            if line != row.line:
                yield _collision(first, line, unit, row.line)


def _id_problem(cell: object, line: int) -> Problem | None:
    if isinstance(cell, bool):
        return _not_text(cell, "units.id", line)
    return _name_problem(cell, "units.id", line)


def _name_problem(cell: object, where: str, line: int) -> Problem | None:
    text = cell_text(cell)
    if text is None:
        return _not_text(cell, where, line)
    try:
        check_name(text, where)
    except LedgerError as error:
        expected = "1 to 200 bytes in NFC, no control characters, no blank at an end"
        return Problem(
            what=error.what, where=where, line=line, expected=expected, found=ascii(text)
        )
    return None


def _not_text(cell: object, where: str, line: int) -> Problem:
    return Problem(
        what="the cell is not text",
        where=where,
        line=line,
        expected="text or an integer",
        found=ascii(cell)[:80],
        todo="write it as text, in quotes",
    )


def _fold(unit: str) -> str:
    plain = unicodedata.normalize("NFC", unit.strip()).casefold()
    return unicodedata.normalize("NFC", plain)


def _collision(first: str, first_line: int, second: str, second_line: int) -> Problem:
    same = first == second
    what = f"unit {second!r} stands twice" if same else f"units {first!r} and {second!r} are one"
    return Problem(
        what=f"{what}: lines {first_line} and {second_line}",
        where="units.id",
        line=second_line,
        expected="ids that differ in more than case, Unicode form or outer blanks",
        found=f"{first!a} in line {first_line}, {second!a} in line {second_line}",
        todo="give each unit an id of its own",
    )


def _cell_problems(rows: list[Row], spec: UnitsSpec) -> Iterator[Problem]:
    for role, column in list(_roles(spec))[1:]:
        for row in rows:
            problem = _cell_problem(row.cells.get(column), role, row.line)
            if problem:
                yield problem


def _cell_problem(cell: object, role: str, line: int) -> Problem | None:
    where, text = f"units.{role}", cell_text(cell)
    if text is None:
        return _not_text(cell, where, line)
    if role == "cluster" and text.casefold() == "none":
        todo = "write `cluster: none` in the protocol if each unit is its own, else name it"
        return Problem(
            what="a cluster is named none", where=where, line=line, found=text, todo=todo
        )
    if text == "" and role in _NEEDED:
        return Problem(what="the cell is empty", where=where, line=line, expected=f"a {role}")
    return _name_problem(text, where, line) if text and role != "label" else None


def _columns(rows: list[Row], spec: UnitsSpec) -> Units:
    ids = _texts(rows, spec.id)
    return Units(
        ids=ids,
        clusters=ids if spec.cluster is None else _texts(rows, spec.cluster),
        strata=_texts(rows, spec.stratum) if spec.stratum else None,
        labels=_texts(rows, spec.label) if spec.label else None,
        twins=_texts(rows, spec.twin) if spec.twin else None,
        folds=_texts(rows, spec.fold) if spec.fold else None,
        splits=_texts(rows, spec.split) if spec.split else None,
        inputs=None if spec.input is None else tuple(_input(row, spec.input) for row in rows),
        lines=tuple(row.line for row in rows),
    )


def _texts(rows: list[Row], column: str) -> tuple[str, ...]:
    names: dict[str, str] = {}
    texts = (cell_text(row.cells.get(column)) or "" for row in rows)
    return tuple(names.setdefault(text, text) for text in texts)


def _input(row: Row, columns: tuple[str, ...]) -> dict[str, object]:
    return {column: row.cells[column] for column in columns if column in row.cells}


def _limit_problems(units: int, spec: UnitsSpec) -> Iterator[Problem]:
    if spec.limit is not None and spec.limit > units:
        yield Problem(
            what="the limit is above the number of units",
            where="units.limit",
            expected=f"at most {units}",
            found=str(spec.limit),
            todo="lower the limit or leave it out",
        )


def _limited(units: Units, spec: UnitsSpec, seed: int) -> Units:
    if spec.limit is None:
        return units
    kept = sorted(unit_order(units.ids, units.clusters, seed=seed)[: spec.limit])
    columns = {field: getattr(units, field) for field in Units.__struct_fields__}
    return msgspec.structs.replace(
        units,
        **{
            field: tuple(column[index] for index in kept)
            for field, column in columns.items()
            if column is not None
        },
    )


def _fold_problems(units: Units) -> Iterator[Problem]:
    fold_of: dict[str, str] = {}
    rows = zip(units.clusters, units.folds or (), units.lines, strict=False)
    for cluster, fold, line in rows:
        if fold_of.setdefault(cluster, fold) != fold:
            yield Problem(
                what=f"cluster {cluster!r} lies in two folds",
                where="units.fold",
                line=line,
                expected=fold_of[cluster],
                found=fold,
                todo="keep whole clusters in one fold",
            )


def _twin_problems(units: Units) -> Iterator[Problem]:
    groups: dict[str, list[int]] = defaultdict(list)
    for index, twin in enumerate(units.twins or ()):
        if twin:
            groups[twin].append(index)
    labels = units.labels or ("",) * len(units.ids)
    for twin, members in groups.items():
        found = sorted(labels[index] for index in members)
        clusters = {units.clusters[index] for index in members}
        if found != ["0", "1"] or len(clusters) > 1:
            yield Problem(
                what=f"twin {twin!r} is not one unit of label 1 and one of label 0 in one cluster",
                where="units.twin",
                line=units.lines[members[0]],
                expected="labels 0, 1; one cluster",
                found=f"labels {', '.join(found)}; {len(clusters)} clusters",
            )


def _label_problems(units: Units, members: Sequence[int], endpoint: str) -> Iterator[Problem]:
    labels = units.labels or ("",) * len(units.ids)
    for index in members:
        if labels[index] not in ("0", "1"):
            yield Problem(
                what=f"endpoint {endpoint} needs a label of 0 or 1",
                where="units.label",
                line=units.lines[index],
                expected="0 or 1",
                found=labels[index] or "nothing",
            )


def _no_population(endpoint: Endpoint) -> Problem:
    return Problem(
        what=f"endpoint {endpoint.name} has no unit in the first look",
        where=f"endpoints.{endpoint.name}.where",
        expected="at least one unit of its population in every look",
        todo="widen `where`, or move the first look",
    )
