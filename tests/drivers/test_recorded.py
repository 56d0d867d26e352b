"""The recorded driver: which rows count, what their cells mean, and what is refused."""

from __future__ import annotations

import time
from pathlib import Path

import anyio
import pytest

from fairtrial.drivers.answer import Answer
from fairtrial.drivers.port import Job
from fairtrial.drivers.recorded import open_recorded, parse_recorded
from fairtrial.ledger import sections
from fairtrial.ledger.errors import DriverError, ProtocolError

UNITS = ("u1", "u2", "u3")
PASSED = {"unit": "unit", "passed": "passed"}


def _parse(
    text: str,
    columns: dict[str, str] | None = None,
    *,
    file: str = "o.csv",
    where: dict[str, str] | None = None,
    repeats: int | None = 1,
) -> dict[tuple[str, int], Answer]:
    spec = sections.RecordedDriver(file=file, columns=columns or PASSED, where=where or {})
    return parse_recorded(text.encode(), spec, units=UNITS, repeats=repeats)


def _refusal(text: str, columns: dict[str, str] | None = None, **settings: object) -> str:
    with pytest.raises(ProtocolError) as caught:
        _parse(text, columns, **settings)  # type: ignore[arg-type]  # by name
    return str(caught.value)


def test_rows_of_one_arm_are_taken() -> None:
    """`where` keeps the rows whose cells have this text; other arms' rows don't matter."""
    text = "arm,unit,passed\na,u1,1\nb,u1,0\na,u2,false\nb,nobody,1\n"
    found = _parse(text, where={"arm": "a"})
    assert {("u1", 1): {"passed": 1.0}, ("u2", 1): {"passed": 0.0}} == {
        slot: answer.scores for slot, answer in found.items()
    }


def test_every_field_can_be_mapped() -> None:
    """All columns that a protocol may name arrive in the outcome; nothing is spent now."""
    text = (
        "id,rep,st,p,s,a,usd,tok,sec,unsafe\n"
        "u1,2,ok,true,0.5,yes,0.1,110,1.2345,0\n"
        "u2,1,timeout,,,,0.05,,30,\n"
    )
    columns = {
        "unit": "id", "replicate": "rep", "status": "st", "passed": "p", "score": "s",
        "answer": "a", "usd": "usd", "tokens": "tok", "duration_seconds": "sec",
        "scores.unsafe": "unsafe",
    }  # fmt: skip
    found = _parse(text, columns, repeats=2)
    assert {
        ("u1", 2): Answer(
            status="ok",
            scores={"passed": 1.0, "score": 0.5, "unsafe": 0.0},
            answer="yes",
            cost_nanousd=100_000_000,
            incurred_nanousd=0,
            tokens={"total": 110},
            duration_ms=1234,
        ),
        ("u2", 1): Answer(
            status="timeout", cost_nanousd=50_000_000, incurred_nanousd=0, duration_ms=30_000
        ),
    } == found


@pytest.mark.parametrize("cell", ["NaN", "nan", "inf", "-Infinity", "", "NA", "null"])
@pytest.mark.parametrize("field", ["passed", "score", "scores.x"])
def test_score_that_is_no_number_is_ungraded(field: str, cell: str) -> None:
    """A lost score is ungraded with its reason, never 0 (FR-22)."""
    found = _parse(f"unit,c\nu1,{cell}\n", {"unit": "unit", field: "c"})[("u1", 1)]
    code = "score_null" if cell in ("", "NA", "null") else "score_not_finite"
    assert ("ungraded", code, {}) == (found.status, found.code, found.scores)


@pytest.mark.parametrize("cell", ["NaN", "Infinity", "-Infinity", "null", '"NaN"'])
def test_json_lines_may_hold_what_json_dumps_prints(cell: str) -> None:
    """A bare NaN in a JSONL table is ungraded; the same letters in a text stay as they are."""
    text = f'{{"unit":"u1","s":{cell},"a":"NaN, \\"NaN"}}\n{{"unit":"u2","s":1,"a":""}}\n'
    columns = {"unit": "unit", "score": "s", "answer": "a"}
    found = _parse(text, columns, file="o.jsonl")
    assert ("ungraded", 'NaN, "NaN') == (found["u1", 1].status, found["u1", 1].answer)
    assert ("ok", {"score": 1.0}, None) == (
        found["u2", 1].status, found["u2", 1].scores, found["u2", 1].answer,
    )  # fmt: skip


def test_json_types_are_read_like_texts() -> None:
    """true, 1 and "1" are the same yes, in the unit's column too."""
    lines = ['{"unit":"u1","p":true}', '{"unit":"u2","p":1}', '{"unit":"u3","p":"1"}']
    found = _parse("\n".join(lines), {"unit": "unit", "passed": "p"}, file="o.jsonl")
    assert [{"passed": 1.0}] * 3 == [answer.scores for answer in found.values()]


def test_status_that_is_not_ok_keeps_it_without_scores() -> None:
    """Only an ok becomes ungraded: a recorded failure has no score to lose."""
    found = _parse("unit,passed,s\nu1,,failed\nu2,,error\n", {**PASSED, "status": "s"})
    assert ["failed", "error"] == [answer.status for answer in found.values()]


def test_two_rows_for_one_slot_are_refused_with_both_lines() -> None:
    """Which of two outcomes counts is nobody's choice to make now."""
    refusal = _refusal("unit,passed\nu1,1\nu2,1\nu1,0\n")
    assert "lines 2 and 4" in refusal
    assert "o.csv:4" in refusal


def test_rows_of_unknown_units_are_refused_with_count_and_first_ids() -> None:
    """A table of other units is not this experiment's."""
    rows = "".join(f"x{number},1\n" for number in range(7))
    refusal = _refusal("unit,passed\nu1,1\n" + rows)
    assert "7 rows are of units" in refusal
    assert "x0, x1, x2, x3, x4, ..." in refusal


@pytest.mark.parametrize(
    ("text", "columns", "message"),
    [
        ("unit,passed\nu1,2\n", PASSED, "neither 1, 0, true nor false"),
        ("unit,passed\nu1,yes\n", PASSED, "not a number"),
        ("unit,s\nu1,1_0\n", {"unit": "unit", "score": "s"}, "not a number"),
        ("unit,s\nu1,broken\n", {"unit": "unit", "status": "s"}, "none of ok, failed"),
        ("unit,usd\nu1,-1\n", {"unit": "unit", "usd": "usd"}, "usd is -1"),
        ("unit,t\nu1,1.5\n", {"unit": "unit", "tokens": "t"}, "whole number"),
        ("unit,t\nu1,-2\n", {"unit": "unit", "duration_seconds": "t"}, "number from 0"),
        ("unit,r\nu1,2\n", {"unit": "unit", "replicate": "r"}, "1 to 1"),
        ("unit,r\nu1,one\n", {"unit": "unit", "replicate": "r"}, "1 to 1"),
        ("unit,score\nu1,1\n", PASSED, "no column 'passed'"),
    ],
)
def test_cell_that_means_nothing_is_refused_with_its_line(
    text: str, columns: dict[str, str], message: str
) -> None:
    """What can't be read is told before the freeze, with line and column."""
    refusal = _refusal(text, columns)
    assert message in refusal
    assert "o.csv:" in refusal


def test_arm_without_a_row_is_refused() -> None:
    """A misspelt `where` isn't an arm that failed everywhere."""
    assert "no row is left" in _refusal("unit,passed,arm\nu1,1,a\n", where={"arm": "b"})
    assert "no column 'arm'" in _refusal("unit,passed\nu1,1\n", where={"arm": "b"})


def test_slot_without_a_row_is_a_miss(tmp_path: Path) -> None:
    """A row that isn't there is the outcome replay_miss, by either way of asking."""
    (tmp_path / "o.csv").write_text("unit,passed\nu1,1\n")
    spec = sections.RecordedDriver(file="o.csv", columns=PASSED)
    driver = open_recorded(spec, folder=tmp_path, units=UNITS)
    job = Job(experiment="e", arm="a", unit="u2", replicate=1, attempt=1, seed="1")
    assert ("replay_miss", "no_row") == (
        driver.outcome("u2", 1).status, anyio.run(driver.run, job).code,
    )  # fmt: skip
    assert "ok" == driver.outcome("u1", 1).status
    assert "replay_miss" == driver.outcome("u1", 2).status


def test_identity_is_the_table_and_how_it_is_read(tmp_path: Path) -> None:
    """Another byte or another column is another arm; a missing table is refused."""
    (tmp_path / "o.csv").write_text("unit,passed,p\nu1,1,0\n")
    first = sections.RecordedDriver(file="o.csv", columns=PASSED)
    second = sections.RecordedDriver(file="o.csv", columns={"unit": "unit", "passed": "p"})
    identities = [
        open_recorded(spec, folder=tmp_path, units=UNITS).identity() for spec in (first, second)
    ]
    assert identities[0]["files"] == identities[1]["files"]
    assert identities[0] != identities[1]
    absent = sections.RecordedDriver(file="none.csv", columns=PASSED)
    with pytest.raises(DriverError, match=r"none\.csv"):
        open_recorded(absent, folder=tmp_path, units=UNITS)


@pytest.mark.slow
def test_large_table_is_read_in_seconds() -> None:
    """Two hundred thousand rows are nothing to wait for, and equal outcomes are one value."""
    units = [f"u{number}" for number in range(200_000)]
    data = "unit,passed\n" + "".join(f"{unit},{n % 2}\n" for n, unit in enumerate(units))
    spec = sections.RecordedDriver(file="o.csv", columns=PASSED)
    begun = time.perf_counter()
    found = parse_recorded(data.encode(), spec, units=units)
    assert time.perf_counter() - begun < 10
    assert (200_000, 2) == (len(found), len({id(answer) for answer in found.values()}))


def test_cells_of_one_column_are_one_problem() -> None:
    """Yes and no under a score are told once, with how many rows, and that 1 and 0 are meant."""
    text = "unit,p\nu1,false\nu2,True\nu3,false\n"
    said = _refusal(text, {"unit": "unit", "scores.exact": "p"})
    assert 1 == said.count("it is not a number")
    assert "o.csv:2" in said
    assert "so are 2 more, the next in line 3" in said
    assert "found     'false', 'True'" in said
    assert "write 1 or 0" in said


def test_cells_of_several_reasons_are_told_each() -> None:
    """What has to be mended in another way stays a problem of its own."""
    text = "unit,p\nu1,false\nu2,many\nu3,1\n"
    said = _refusal(text, {"unit": "unit", "scores.exact": "p"})
    assert 2 == said.count("it is not a number")
    assert ("write 1 or 0" in said, "correct the cell" in said) == (True, True)
