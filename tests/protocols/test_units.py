"""The units file: encodings, the id rule, selection, twins, folds (FR-11, FR-12)."""

from __future__ import annotations

import json
from collections.abc import Sequence
from types import ModuleType
from typing import Any

import pytest
from msgspec.structs import replace

import fairtrial.protocols.tables as tables_module
import fairtrial.protocols.units as module
from fairtrial.ledger.errors import Problem, ProtocolError
from fairtrial.ledger.protocol import Endpoint, UnitsSpec
from fairtrial.protocols.plan import unit_order
from fairtrial.protocols.tables import read_table
from fairtrial.protocols.units import Units, check_units, parse_pilot, parse_units, population

SPEC = UnitsSpec(file="u.csv", format="csv", id="id", cluster="c")


def parse(data: bytes | str, **changes: Any) -> Units:
    """Units of a file named u.csv, with a changed specification."""
    raw = data if isinstance(data, bytes) else data.encode()
    return parse_units(raw, replace(SPEC, **changes), name="u.csv", seed=1)


def problems(data: bytes | str, **changes: Any) -> tuple[Problem, ...]:
    """What is refused about a file."""
    with pytest.raises(ProtocolError) as caught:
        parse(data, **changes)
    assert caught.value.file == "u.csv"
    return caught.value.problems


def jsonl(rows: Sequence[object]) -> bytes:
    """Rows as JSON lines."""
    return "".join(json.dumps(row) + "\n" for row in rows).encode()


TEN = [f"ü{index},c{index // 5}" for index in range(10)]


@pytest.mark.parametrize("ending", ["\n", "\r\n"])
@pytest.mark.parametrize("mark", [b"", b"\xef\xbb\xbf"], ids=["plain", "BOM"])
def test_marks_and_line_ends_do_not_change_units(ending: str, mark: bytes) -> None:
    """FR-11: LF, CRLF, BOM+LF and BOM+CRLF give the same ten units."""
    text = ending.join(["id,c", *TEN]) + ending
    units = parse(mark + text.encode())
    assert units.ids == tuple(f"ü{index}" for index in range(10))
    assert units.clusters == ("c0",) * 5 + ("c1",) * 5
    assert units.lines == tuple(range(2, 12))


@pytest.mark.parametrize("ending", ["\n", "\r\n"])
@pytest.mark.parametrize("mark", [b"", b"\xef\xbb\xbf"], ids=["plain", "BOM"])
def test_marks_and_line_ends_do_not_change_units_of_jsonl(ending: str, mark: bytes) -> None:
    """FR-11 for JSON lines."""
    text = ending.join(f'{{"id":"ü{index}","c":"x"}}' for index in range(10)) + ending
    units = parse(mark + text.encode(), format="jsonl")
    assert units.ids == tuple(f"ü{index}" for index in range(10))


@pytest.mark.parametrize("media", ["csv", "jsonl"])
@pytest.mark.parametrize(
    ("encoding", "line", "where", "byte"),
    [
        ("utf-16", 1, "byte 1", "0xFF"),
        ("utf-16-be", 1, "byte 1", "0x00"),
        ("latin-1", 2, "byte 6", "0xFC"),
    ],
)
def test_other_encodings_are_refused_with_line_and_byte(
    media: str, encoding: str, line: int, where: str, byte: str
) -> None:
    """FR-11: UTF-16 and Latin-1 are refused with file, line and the offending byte."""
    data = "\n".join(["id,c", *TEN]).encode(encoding)
    (problem,) = problems(data, format=media)
    assert (problem.line, problem.where, problem.expected) == (line, where, "UTF-8")
    assert byte in problem.found


def test_the_offending_byte_is_counted_from_the_start_of_the_file() -> None:
    """A byte order mark counts, so that a hex editor finds the byte at once."""
    (problem,) = problems(b"\xef\xbb\xbfid,c\n\xfc,1\n")
    assert (problem.line, problem.where) == (2, "byte 9")


@pytest.mark.parametrize(
    ("ids", "lines"),
    [
        (["a", "b", "a"], "lines 2 and 4"),
        (["A", "a"], "lines 2 and 3"),
        (["straße", "STRASSE"], "lines 2 and 3"),
        (["x", "x "], "lines 2 and 3"),
        (["\u00e9", "e\u0301"], "lines 2 and 3"),
    ],
    ids=["twice", "case", "folding", "blank", "NFC"],
)
def test_ids_that_collide_are_refused_with_both_lines(ids: list[str], lines: str) -> None:
    """FR-12: what the id rule makes equal is refused at once, with both lines."""
    found = problems("id,c\n" + "".join(f"{unit},k\n" for unit in ids))
    assert [problem for problem in found if lines in problem.what]
    assert all(problem.where == "units.id" for problem in found)


def test_a_number_and_its_text_are_one_id() -> None:
    """FR-12: 1 and "1" are the same text, so they collide."""
    (problem,) = problems(jsonl([{"id": 1, "c": "k"}, {"id": "1", "c": "k"}]), format="jsonl")
    assert "lines 1 and 2" in problem.what


def test_distinct_ids_stay_distinct() -> None:
    """What the rule holds apart stays apart, with the bytes of the file."""
    units = parse("id,c\n1,k\n01,k\n1.0,k\na b,k\na  b,k\n\u00e4,k\n")
    assert units.ids == ("1", "01", "1.0", "a b", "a  b", "\u00e4")


@pytest.mark.parametrize(
    ("cell", "what"),
    [
        ("", "empty"),
        (" a", "blank"),
        ("e\u0301", "NFC"),
        ("x" * 201, "201 bytes"),
        ("\u00e9" * 101, "202 bytes"),
        ("a\x07b", "control"),
    ],
)
def test_the_id_rule(cell: str, what: str) -> None:
    """An id is 1 to 200 bytes in NFC, without control characters or blanks at its ends."""
    (problem,) = problems(f"id,c\n{cell},k\n")
    assert what in problem.what
    assert (problem.where, problem.line) == ("units.id", 2)


@pytest.mark.parametrize("cell", [True, 1.5, ["a"], {"a": 1}])
def test_an_id_is_text_or_an_integer(cell: object) -> None:
    """Other JSON values are no ids."""
    (problem,) = problems(jsonl([{"id": cell, "c": "k"}]), format="jsonl")
    assert problem.what == "the cell is not text"


def test_a_missing_column_is_named_with_the_nearest() -> None:
    """Every declared column has to be in the file."""
    found = problems(
        "id,cluster,kind\na,1,x\n",
        cluster="clusters",
        stratum="knd",
        twin="t",
        label="l",
        split="s",
        fold="f",
        select={"q": ("1",)},
        input=("zzz",),
    )
    assert [problem.where for problem in found] == [
        "units.cluster", "units.stratum", "units.twin", "units.label", "units.split",
        "units.fold", "units.select.q", "units.input",
    ]  # fmt: skip
    assert found[0].todo == "did you mean 'cluster'?"
    assert found[1].todo == "did you mean 'kind'?"


@pytest.mark.parametrize(
    ("role", "cell", "what"),
    [
        ("cluster", "", "empty"),
        ("cluster", "None", "named none"),
        ("cluster", "none", "named none"),
        ("cluster", " a", "blank"),
        ("stratum", "", "empty"),
        ("fold", "", "empty"),
    ],
)
def test_cells_that_no_unit_may_have(role: str, cell: str, what: str) -> None:
    """Cluster, stratum and fold are needed for each unit; no cluster reads none."""
    (problem,) = problems(f"id,c,x\na,k,{cell}\n", **{role: "x"})
    assert what in problem.what
    assert (problem.where, problem.line) == (f"units.{role}", 2)


def test_without_a_cluster_column_each_unit_is_its_own() -> None:
    """`cluster: none` makes the id the cluster."""
    assert parse("id,c\na,k\nb,k\n", cluster=None).clusters == ("a", "b")


def test_select_keeps_rows_and_ignores_the_rest() -> None:
    """Other rows are not units: nothing about them is refused."""
    text = "id,c,split\na,k,test\nA,,train\n,,train\nb,k,test\n"
    units = parse(text, select={"split": ("test",)}, split="split")
    assert (units.ids, units.splits, units.lines) == (("a", "b"), ("test", "test"), (2, 5))


def test_select_refuses_values_that_no_row_has() -> None:
    """A value without a row is a slip, and no unit left is no experiment."""
    (problem,) = problems("id,c\na,k\n", select={"c": ("k", "q")})
    assert (problem.where, problem.found) == ("units.select.c", "q")
    found = problems("id,c\na,k\n", select={"c": ("q",)})
    assert [problem.what for problem in found][1] == "no unit is left"
    (problem,) = problems("id,c\n")
    assert problem.what == "no unit is left"


def test_select_compares_numbers_of_jsonl_as_text() -> None:
    """A fold 1 in JSON is the text 1 of the protocol."""
    rows = [{"id": "a", "c": "k", "n": 1}, {"id": "b", "c": "k", "n": True}]
    assert parse(jsonl(rows), format="jsonl", select={"n": ("1",)}).ids == ("a",)


def test_limit_keeps_the_first_by_order_key() -> None:
    """The order key of the plan decides whom a limit keeps, not the order of the file."""
    text = "id,c\n" + "".join(f"u{index},c{index % 4}\n" for index in range(20))
    everyone, kept = parse(text), parse(text, limit=7)
    first = unit_order(everyone.ids, everyone.clusters, seed=1)[:7]
    assert set(kept.ids) == {everyone.ids[index] for index in first}
    assert kept.ids != everyone.ids[:7]
    assert len(kept.clusters) == len(kept.lines) == 7


def test_limit_above_the_number_of_units_is_refused() -> None:
    """More units than there are can't be kept."""
    (problem,) = problems("id,c\na,k\nb,k\n", limit=3)
    assert (problem.where, problem.expected, problem.found) == ("units.limit", "at most 2", "3")


def test_a_cluster_in_two_folds_is_refused() -> None:
    """Folds are made of whole clusters."""
    (problem,) = problems("id,c,f\na,k,1\nb,k,2\n", fold="f")
    assert (problem.where, problem.line) == ("units.fold", 3)


@pytest.mark.parametrize(
    "rows",
    [
        ["a,k,1,p", "b,k,1,p"],
        ["a,k,1,p"],
        ["a,k,1,p", "b,k,0,p", "d,k,0,p"],
        ["a,k,1,p", "b,m,0,p"],
        ["a,k,yes,p", "b,k,no,p"],
    ],
    ids=["labels", "alone", "three", "clusters", "words"],
)
def test_twins_are_one_and_zero_in_one_cluster(rows: list[str]) -> None:
    """A twin group is exactly one label 1 and one label 0 that don't span clusters."""
    found = problems("\n".join(["id,c,l,t", *rows]), label="l", twin="t")
    assert [problem.where for problem in found] == ["units.twin"]


def test_twins_may_leave_units_without_one() -> None:
    """An empty cell is a unit without a twin."""
    units = parse("id,c,l,t\na,k,1,p\nb,k,0,p\nd,k,0,\n", label="l", twin="t")
    assert (units.twins, units.labels) == (("p", "p", ""), ("1", "0", "0"))


def test_inputs_are_restricted_to_the_declared_columns() -> None:
    """A driver gets the input columns with their JSON values and nothing else."""
    rows = [{"id": "a", "c": "k", "label": "secret", "q": {"deep": [1, 2.5, None]}}]
    units = parse(jsonl(rows), format="jsonl", input=("q",), label="label")
    assert units.inputs == ({"q": {"deep": [1, 2.5, None]}},)


def test_no_inputs_where_none_are_declared() -> None:
    """A recorded arm shows units to nobody."""
    assert parse("id,c\na,k\n").inputs is None


@pytest.mark.parametrize(
    ("data", "media", "line", "what"),
    [
        (b"id,c\na,k\nb\n", "csv", 3, "another number of cells"),
        (b'id,c\na,"k\nb,k\n', "csv", 3, "not CSV"),
        (b"id,c,id\na,k,b\n", "csv", 1, "twice in the header"),
        (b"", "csv", None, "empty"),
        (b'{"id":"a","c":"k","c":"m"}', "jsonl", 1, "'c' stands twice"),
        (b'{"id":"a","c":"k","q":{"x":1,"x":2}}', "jsonl", 1, "'x' stands twice"),
        (b'{"id":"a","c":"k"}\n["a"]\n', "jsonl", 2, "not a row"),
        (b'{"id":"a","c":NaN}\n', "jsonl", 1, "not a row"),
        (b'{"id":"a","c":"k","q":"\\ud800"}\n', "jsonl", 1, "not a row"),
        (b'{"id":"a","c":' + b"[" * 6000, "jsonl", 1, "not a row"),
    ],
)
def test_rows_that_are_no_rows(data: bytes, media: str, line: int | None, what: str) -> None:
    """What isn't CSV or one JSON object a line is refused with its line."""
    found = problems(data, format=media)
    assert what in found[0].what
    assert line == found[0].line


def test_lines_are_those_of_an_editor() -> None:
    """Blank lines and line ends inside quotes count as lines."""
    units = parse('id,c\n\n"a",k\n"b","m\nn"\n\nd,k\n'.replace("m\nn", "mn"))
    assert units.lines == (3, 4, 6)
    table = read_table(b'id,c\n"a","x\ny"\nb,k\n', "csv", name="u.csv")
    assert [row.line for row in table.rows] == [2, 4]


def test_jsonl_is_split_at_line_feeds_only() -> None:
    """U+2028 stands unescaped in JSON and is no line end."""
    data = '{"id":"a","c":"k","q":"x\u2028y"}\n{"id":"b","c":"k","q":""}\n'
    units = parse(data, format="jsonl", input=("q",))
    assert units.inputs == ({"q": "x\u2028y"}, {"q": ""})


def test_all_problems_come_at_once_up_to_twenty() -> None:
    """A file with many faults is reported once, the rest as a number."""
    found = problems("id,c\n" + "\n".join(["a,"] * 30))
    assert len(found) == 21
    assert found[-1].what == "39 more problems of this kind"


def test_population_keeps_units_by_label_stratum_and_split() -> None:
    """`where` keeps the units that have one of the values in each named column."""
    units = parse("id,c,l,s\na,k,1,x\nb,k,0,x\nd,k,1,y\n", label="l", stratum="s")
    assert population(units, {}) == (0, 1, 2)
    assert population(units, {"label": ("1",)}) == (0, 2)
    assert population(units, {"label": ("1", "0"), "stratum": ("x",)}) == (0, 1)


def endpoint(**changes: Any) -> Endpoint:
    """A primary endpoint."""
    plain = Endpoint(name="e", role="primary", type="binary", value="passed", better="higher")
    return replace(plain, **changes)


def test_an_auc_needs_labels_of_zero_and_one() -> None:
    """Other labels can't be computed with; the line is named."""
    units = parse("id,c,l\na,k,1\nb,k,maybe\n", label="l")
    with pytest.raises(ProtocolError) as caught:
        check_units(units, [endpoint(type="auc")], first_look={"a"}, name="u.csv")
    (problem,) = caught.value.problems
    assert (problem.where, problem.line, problem.found) == ("units.label", 3, "maybe")
    check_units(units, [endpoint()], first_look={"a"}, name="u.csv")


def test_a_population_needs_a_unit_in_every_look() -> None:
    """An endpoint whose population begins after the first look is refused."""
    units = parse("id,c,l\na,k,1\nb,k,0\n", label="l")
    recall = endpoint(where={"label": ("1",)})
    check_units(units, [recall], first_look={"a"}, name="u.csv")
    with pytest.raises(ProtocolError) as caught:
        check_units(units, [recall], first_look={"b"}, name="u.csv")
    assert caught.value.problems[0].where == "endpoints.e.where"


def test_pilot_units_are_not_units_of_the_plan() -> None:
    """A pilot unit that the plan uses, or could be taken for one, is refused."""
    spec = replace(SPEC, input=("q",))
    pilot = parse_pilot(b"id,q\np1,x\n", spec, name="pilot.csv", planned=["a"])
    assert (pilot.ids, pilot.inputs) == (("p1",), ({"q": "x"},))
    with pytest.raises(ProtocolError) as caught:
        parse_pilot(b"id,q\np1,x\nA,x\n", spec, name="pilot.csv", planned=["a"])
    assert (caught.value.problems[0].where, caught.value.problems[0].line) == ("units.pilot", 3)


@pytest.mark.parametrize("found", [module, tables_module])
def test_all_lists_what_exists(found: ModuleType) -> None:
    """`__all__` is a tuple, and every name in it is there."""
    assert isinstance(found.__all__, tuple)
    assert [name for name in found.__all__ if not hasattr(found, name)] == []
