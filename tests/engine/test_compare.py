"""A table compared in one call: the same numbers as a registered trial, and how tables are read."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import msgspec
import pytest

from fairtrial.drivers.recorded import parse_recorded
from fairtrial.engine.compare import CompareReport, compare_table, protocol_from_table
from fairtrial.ledger.errors import ProtocolError
from fairtrial.ledger.protocol import RecordedDriver
from fairtrial.protocols.file import check_supported, parse_protocol
from fairtrial.protocols.plan import build_plan
from fairtrial.protocols.units import parse_units
from fairtrial.verbs.text_compare import compare_text
from fairtrial.verdicts.conclude import conclude
from fairtrial.verdicts.look_table import power_findings

Rows = Sequence[Sequence[object]]


def table(*rows: Sequence[object]) -> bytes:
    """Returns CSV."""
    text = io.StringIO()
    csv.writer(text, lineterminator="\n").writerows(rows)
    return text.getvalue().encode()


def long(pairs: dict[str, tuple[object, object]], *, cluster: bool = False) -> bytes:
    """Returns a long table of two arms, `old` first."""
    head = ["unit", "arm", "passed", *(["cluster"] if cluster else [])]
    rows = [
        [unit, arm, value, *([f"c{index % 10}"] if cluster else [])]
        for index, (unit, values) in enumerate(pairs.items())
        for arm, value in zip(("old", "new"), values, strict=True)
    ]
    return table(head, *rows)


def answers(count: int) -> dict[str, tuple[object, object]]:
    """Returns pairs of which a third is won and a tenth lost by the second arm."""
    return {
        f"u{i:03}": (int(i % 10 == 0), int(i % 3 == 0 or (i % 7 == 0 and i % 10 > 0)))
        for i in range(count)
    }


def compared(data: bytes, **options: Any) -> CompareReport:
    """Returns the report of a table."""
    return compare_table(data, name=options.pop("name", "results.csv"), **options)


def test_numbers_follow_from_what_is_compared_alone() -> None:
    """A column that isn't used, and the order of the rows, change no simulated p."""
    plain = long(answers(120), cluster=True).decode().splitlines()
    noted = "\n".join(f"{row},note {place}" for place, row in enumerate(plain)).encode()
    turned = "\n".join([plain[0], *sorted(plain[1:], reverse=True)]).encode()
    data = "\n".join(plain).encode()
    found, *others = (
        compared(each, cluster="none", control="old") for each in (data, noted, turned)
    )
    assert {"exact": False, "draws": 9999} == {
        name: found.tests["sign_flip"][name]  # type: ignore[index]  # a member of JSON
        for name in ("exact", "draws")
    }
    assert [found.tests] * 2 == [each.tests for each in others]
    assert "(simulated, 9,999 draws)" in compare_text(found, following="")


def test_text_names_the_columns_of_a_wide_table() -> None:
    """The arms' columns are what was read; no column `passed` is made up."""
    rows = [(unit, *values) for unit, values in answers(60).items()]
    found = compared(table(("unit", "a", "b"), *rows), arms=("a", "b"))
    assert "(columns: unit, a, b; no clusters)" in compare_text(found, following="")


def p_values(found: CompareReport) -> dict[str, float]:
    """Returns the p of each test."""
    tests: Any = found.tests
    return {name: test["p_value"] for name, test in tests.items()}


@pytest.fixture(scope="module")
def verified(bridge: Any) -> bytes:
    """The outcomes of the demo, with columns unit, cluster, arm, replicate, passed, score."""
    path = Path(__file__).resolve().parents[2] / "examples" / "demo" / "verified-outcomes.csv"
    return path.read_bytes()


def test_table_of_500_pairs_has_the_published_numbers(verified: bytes) -> None:
    """Rates, difference, interval, discordant pairs and the reason, from the table alone."""
    found = compared(verified)
    assert (1000, 500, 500, 12) == (found.rows, found.planned, found.paired, found.clusters)
    assert {"baseline": 0.646, "polydev": 0.666} == found.arms
    assert ("baseline", "polydev", False) == (found.control, found.treatment, found.chosen)
    assert found.difference == pytest.approx(0.02)
    assert (40, 50) == (found.only_control, found.only_treatment)
    assert [-0.122, 0.162] == pytest.approx(list(found.parts["cr2_t"]), abs=5e-4)
    assert found.df == pytest.approx(3.33, abs=5e-3)
    assert ("inconclusive", "low_df") == (found.would_be, found.reason_code)
    assert "231 of 500 units are one cluster (django/django)" in found.reason
    assert found.registered is False


def test_numbers_are_those_of_a_registered_trial(bridge: Any, verified: bytes) -> None:
    """One look at the end by the same rules: nothing in the comparison is computed apart."""
    options = {"looks": "{at: [1.0]}"}
    trial = bridge.demo("verified")
    passed = trial.context.outcomes.scores["passed"].values
    places = {(slot.unit, slot.arm): slot.position for slot in trial.plan.slots()}
    rows = "\n".join(f"{u},{c}" for u, c in zip(trial.units.ids, trial.units.clusters, strict=True))
    again = bridge.trial(
        f"unit,cluster\n{rows}\n",
        lambda unit, arm, r: bridge.outcome(passed[places[unit, arm] - 1]),
        **options,
    ).run()
    body, found = conclude(again.context), compared(verified)
    endpoint = body.comparisons[0].endpoints[0]
    assert (endpoint.difference, endpoint.lower, endpoint.upper, endpoint.p_value) == (
        found.difference,
        found.lower,
        found.upper,
        max(p_values(found)[name] for name in ("cr2_t", "tango")),
    )
    assert body.reason == found.reason


def test_wide_table_is_the_same_as_a_long_one() -> None:
    """One column an arm, named by the caller, gives the same numbers."""
    pairs = answers(60)
    wide = table(["unit", "old", "new"], *([unit, *both] for unit, both in pairs.items()))
    one, two = compared(long(pairs)), compared(wide, arms=["old", "new"])
    assert ("long", "wide") == (one.layout, two.layout)
    assert (120, 60) == (one.rows, two.rows)
    for name in ("arms", "difference", "lower", "upper", "only_control", "would_be", "reason"):
        assert getattr(one, name) == getattr(two, name)


def test_named_incumbent_turns_the_difference() -> None:
    """The caller says which arm is the control."""
    data = long(answers(60))
    one, two = compared(data), compared(data, control="new")
    assert one.difference is not None
    assert -one.difference == two.difference
    assert ("old", "new", False) == (one.control, one.treatment, one.chosen)
    assert ("new", "old", True) == (two.control, two.treatment, two.chosen)


def test_table_without_clusters_says_what_that_assumes() -> None:
    """Each unit counts as independent, and a note says which option would change it."""
    data = long(answers(60))
    assert any("--cluster COLUMN" in note for note in compared(data).notes)
    assert () == compared(data, cluster="none").notes
    assert ["tango"] == list(compared(data).parts)


def test_cluster_column_is_used_and_can_be_named() -> None:
    """The column `cluster` is taken as it is; another one is named."""
    data = long(answers(60), cluster=True)
    assert 10 == compared(data).clusters
    renamed = data.replace(b"cluster", b"customer")
    found = compared(renamed, cluster="customer")
    assert (10, "customer") == (found.clusters, found.columns["cluster"])
    assert 60 == compared(data, cluster="none").clusters


def test_unit_that_one_arm_never_answered_is_missing() -> None:
    """It stays a unit, leaves the pairs, and is listed by id."""
    rows = long(answers(60)).decode().splitlines()
    data = "\n".join(row for row in rows if not row.startswith("u007,new")).encode() + b"\n"
    found = compared(data)
    assert (60, 59, ("u007",)) == (found.planned, found.paired, found.excluded)
    assert {"old": {}, "new": {"replay_miss": 1}} == found.missing
    assert "excluded in both arms: 1 of 60 units" in found.warnings
    said = compare_text(found, following="")
    assert 1 == said.count("missing: new 1 without a row; excluded in both arms: 1 of 60 units")
    assert 1 == said.count(" 1 of 60 units")
    assert "the plan of `init --from` allows 2 %" not in said


def test_cell_that_is_no_number_is_ungraded() -> None:
    """NaN and an empty cell are lost outcomes, never 0; no NaN is in any number."""
    pairs = {**answers(60), "u007": (1, "NaN"), "u011": ("", 1)}
    found = compared(long(pairs))
    assert {"old": {"ungraded": 1}, "new": {"ungraded": 1}} == found.missing
    assert b"NaN" not in msgspec.json.encode(found)
    assert 58 == found.paired


def test_scores_are_compared_as_means() -> None:
    """Without `passed` the score is taken; it isn't in points and no pair is discordant."""
    rows = [[f"u{i}", arm, (i % 7) / 3 + (arm == "new") / 9 * (i % 5)] for i in range(40)
            for arm in ("old", "new")]  # fmt: skip
    found = compared(table(["unit", "arm", "score"], *rows))
    assert ("score", False, None) == (found.endpoint, found.in_points, found.only_control)
    assert ["cr2_t"] == list(found.parts)
    assert "adopt" == found.would_be


def test_status_column_counts_by_its_words() -> None:
    """`failed` is a failure of the arm, `error` takes the pair out; other words are left alone."""
    rows = [
        [unit, arm, value, "failed" if (unit, arm) == ("u001", "new") else "ok"]
        for unit, both in answers(60).items()
        for arm, value in zip(("old", "new"), both, strict=True)
    ]
    data = table(["unit", "arm", "passed", "status"], *rows)
    assert {"old": {}, "new": {"failed": 1}} == compared(data).missing
    foreign = compared(data.replace(b"failed", b"wontfix"))
    assert any("column status" in note for note in foreign.notes)
    assert {"old": {}, "new": {}} == foreign.missing


def test_replicates_count_as_the_mean_of_their_unit() -> None:
    """Three passes of a unit are one number of it, also where one of them is missing."""
    rows = [
        [f"u{i:02}", arm, replicate, int((i + replicate) % (2 if arm == "old" else 3) > 0)]
        for i in range(40)
        for arm in ("old", "new")
        for replicate in (1, 2, 3)
        if (i, arm, replicate) != (0, "new", 3)
    ]
    found = compared(table(["unit", "arm", "replicate", "passed"], *rows))
    assert (40, 40) == (found.planned, found.paired)
    assert {"old": {}, "new": {}} == found.missing
    assert "a unit counts with the mean of its replicates, up to 3" in found.notes
    assert found.arms["new"] == pytest.approx((39 * 2 / 3 + 0.5) / 40, abs=0.02)


def test_json_lines_are_read() -> None:
    """The suffix tells the format; booleans are what they are."""
    rows = [
        {"unit": unit, "arm": arm, "passed": bool(value)}
        for unit, both in answers(60).items()
        for arm, value in zip(("old", "new"), both, strict=True)
    ]
    data = "".join(json.dumps(row) + "\n" for row in rows).encode()
    lines, cells = compared(data, name="results.jsonl"), compared(long(answers(60)))
    assert (cells.difference, cells.lower) == (lines.difference, lines.lower)


@pytest.mark.parametrize(
    ("data", "options", "expected"),
    [
        (b"unit,arm,passed\n", {}, "no row"),
        (b"id,arm,passed\na,x,1\n", {}, "the unit (--unit COLUMN)"),
        (b"unit,agent,passed\na,x,1\n", {}, "--arms A,B"),
        (b"unit,arm,correct\na,x,1\n", {}, "the value (--value COLUMN)"),
        (b"unit,arm,passed\na,x,1\na,y,1\na,z,1\n", {}, "two arms"),
        (b"unit,arm,passed\na,x,1\na,y,1\n", {"control": "z"}, "incumbent"),
        (b"unit,arm,passed\na,x,1\na,y,1\n", {"unit": "units"}, "did you mean 'unit'?"),
        (b"unit,arm,passed,cluster\na,x,1,c\na,y,1,d\n", {}, "in two clusters"),
        (b"unit,x,y\na,1,1\na,0,1\n", {"arms": ["x", "y"]}, "stands twice in a wide table"),
        (b"unit,arm,passed\na,x,1\na,x,1\na,y,1\n", {}, "two rows"),
        (b"unit,arm,passed\na,x,yes\na,y,maybe\n", {}, "yes or no, pass or fail"),
    ],
)
def test_table_that_cannot_be_read_says_what_it_has(
    data: bytes, options: dict[str, Any], expected: str
) -> None:
    """Every refusal names the column or line and what to do."""
    with pytest.raises(ProtocolError) as caught:
        compared(data, **options)
    assert expected in str(caught.value)


@pytest.mark.parametrize(
    "data",
    [long(answers(60)), long(answers(60), cluster=True), long(answers(7), cluster=True)],
)
def test_trial_from_a_table_is_a_trial(data: bytes) -> None:
    """The protocol can be computed, its files fit it, and nothing refuses the freeze."""
    trial = protocol_from_table(data, name="My results.csv")
    protocol = parse_protocol(trial.protocol.encode(), name="protocol.yaml", media="yaml")
    check_supported(protocol)
    assert "my-results" == protocol.id
    units = parse_units(trial.units, protocol.units, name="units.csv", seed=protocol.design.seed)
    plan = build_plan(units.ids, units.clusters, {"old": 1, "new": 1}, seed=protocol.design.seed)
    assert {} == power_findings(protocol, plan, units).refused
    for arm in protocol.arms.values():
        assert isinstance(arm.driver, RecordedDriver)
        assert len(units.ids) == len(parse_recorded(trial.outcomes, arm.driver, units=units.ids))


def test_trial_keeps_the_table_as_it_is(verified: bytes) -> None:
    """A long CSV is copied byte for byte, and the same table gives the same protocol."""
    trial = protocol_from_table(verified, name="results.csv", id="agentcheck")
    assert verified == trial.outcomes
    assert trial == protocol_from_table(verified, name="results.csv", id="agentcheck")
    assert "id: agentcheck" in trial.protocol
    assert 501 == trial.units.count(b"\n")


def test_wide_table_becomes_a_long_one() -> None:
    """A wide table is written out with one row an outcome."""
    wide = table(["unit", "old", "new"], ["a", 1, 0], ["b", 0, 1])
    trial = protocol_from_table(wide, name="wide.csv", arms=["old", "new"])
    assert b"a,old,1,,1\na,new,1,,0\n" in trial.outcomes


def test_names_that_a_protocol_cannot_have_become_labels() -> None:
    """An arm of any name is compared; in the protocol it has a near name and its own as label."""
    data = long(answers(60)).replace(b",old,", b",Claude 3.5 (Old),").replace(b",new,", b',"a: b",')
    found = compared(data)
    assert ("Claude 3.5 (Old)", "a: b") == (found.control, found.treatment)
    text = protocol_from_table(data, name="t.csv").protocol
    protocol = parse_protocol(text.encode(), name="p.yaml", media="yaml")
    assert {"Claude-3-5-Old": "Claude 3.5 (Old)", "a-b": "a: b"} == {
        name: arm.label for name, arm in protocol.arms.items()
    }


def test_words_of_two_kinds_are_read_as_one_and_zero() -> None:
    """A column of yes and no is the same as one of 1 and 0, and becomes a trial that can run."""
    words = {unit: tuple("yes" if v else "no" for v in pair) for unit, pair in answers(60).items()}
    found, plain = compared(long(words)), compared(long(answers(60)))  # type: ignore[arg-type]
    assert (plain.difference, plain.lower) == (found.difference, found.lower)
    assert "yes and pass count as 1, no and fail as 0" in found.notes
    made = protocol_from_table(long(words), name="results.csv")  # type: ignore[arg-type]
    assert b"yes" not in made.outcomes


@pytest.mark.parametrize(
    ("value", "what"), [("maybe", "column passed"), (None, "lines 3 and 4")], ids=["word", "twice"]
)
def test_what_cannot_be_read_is_named_in_the_table_of_its_author(
    value: str | None, what: str
) -> None:
    """Line, column and file are those of the file that was given."""
    rows: list[Sequence[object]] = [["unit", "arm", "passed"], ["u1", "old", 1], ["u1", "new", 0]]
    rows.append(["u1", "new", 1] if value is None else ["u2", "old", value])
    with pytest.raises(ProtocolError) as raised:
        compared(table(*rows, ["u2", "new", 1], ["u3", "old", 1]))
    text = str(raised.value)
    assert text.startswith("results.csv:4: ")
    assert what in text
    assert "driver" not in text


def test_other_separators_are_named() -> None:
    """A table with semicolons says so instead of missing its columns."""
    with pytest.raises(ProtocolError, match="separated by commas"):
        compared(b"unit;arm;passed\nu1;old;1\nu1;new;1\n")


def test_units_in_one_arm_each_are_no_pairs() -> None:
    """A table without a pair is refused with what to do, not answered with nothing."""
    rows: list[Sequence[object]] = [["unit", "arm", "passed"], ["u1", "old", 1], ["u2", "new", 0]]
    with pytest.raises(ProtocolError, match="no unit has an outcome in both arms"):
        compared(table(*rows))
