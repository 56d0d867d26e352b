"""FR-27: arms of different units are refused, or compared on what they share when asked to."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterable

import pytest

from fairtrial.engine.compare import compare_table, protocol_from_table
from fairtrial.ledger.errors import ProtocolError


def table(first: Iterable[int], second: Iterable[int]) -> bytes:
    """Returns a long table whose arms hold these units."""
    rows = [f"u{n},X,{n % 2}\n" for n in first] + [f"u{n},Y,{n % 3 % 2}\n" for n in second]
    return ("unit,arm,passed\n" + "".join(rows)).encode()


def test_arms_of_different_units_are_refused() -> None:
    """The refusal counts both sides and names their first units."""
    with pytest.raises(ProtocolError) as refused:
        compare_table(table(range(1, 101), range(51, 151)), name="t.csv")
    (problem,) = refused.value.problems
    assert "the arms have different units" == problem.what
    assert (
        "50 of 150 units in both arms; 50 of X alone (u1, u2, u3, …); "
        "50 of Y alone (u101, u102, u103, …)"
    ) == problem.found


def test_common_units_are_compared_when_asked_for() -> None:
    """The numbers are those of a table of the common units, and the report says how many of all."""
    found = compare_table(table(range(1, 101), range(51, 151)), name="t.csv", overlap=True)
    common = compare_table(table(range(51, 101), range(51, 101)), name="t.csv")
    assert (50, 50) == (found.planned, found.paired)
    assert "50 of 150 units are in both arms; 100 are left out" in found.notes
    assert (common.difference, common.lower, common.upper, common.tests) == (
        found.difference, found.lower, found.upper, found.tests,
    )  # fmt: skip


def test_trial_of_the_common_units_holds_no_other() -> None:
    """`init --from --overlap` writes the outcomes of the units that it plans."""
    made = protocol_from_table(table(range(1, 101), range(51, 151)), name="t.csv", overlap=True)
    outcomes = csv.DictReader(io.StringIO(made.outcomes.decode()))
    assert {f"u{n}" for n in range(51, 101)} == {row["unit"] for row in outcomes}


@pytest.mark.parametrize("overlap", [False, True])
def test_arms_without_a_common_unit_are_refused(overlap: bool) -> None:
    """There is nothing to compare, asked for or not."""
    with pytest.raises(ProtocolError, match="no unit has an outcome in both arms"):
        compare_table(table(range(1, 51), range(51, 101)), name="t.csv", overlap=overlap)


@pytest.mark.parametrize(("lost", "refused"), [(2, False), (3, True)])
def test_few_units_without_a_row_are_missing_outcomes(lost: int, refused: bool) -> None:
    """As many as the implied plan allows: 2 of 100; a third makes them other units."""
    data = table(range(100), range(lost, 100))
    if refused:
        with pytest.raises(ProtocolError, match="the arms have different units"):
            compare_table(data, name="t.csv")
    else:
        found = compare_table(data, name="t.csv")
        assert {"X": {}, "Y": {"replay_miss": lost}} == found.missing
