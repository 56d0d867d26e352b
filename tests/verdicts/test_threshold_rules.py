"""Threshold-rule experiments without a ledger: verdicts, guards, floors, populations, refusals."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from fairtrial.analysis.rates import clopper_pearson_lower
from fairtrial.ledger.errors import ProtocolError
from fairtrial.ledger.events import Decision, Head
from fairtrial.ledger.protocol import Protocol
from fairtrial.protocols.file import check_supported, parse_protocol
from fairtrial.protocols.plan import Plan, build_plan
from fairtrial.protocols.units import Units, parse_units
from fairtrial.verbs.text_rule import capacity_text
from fairtrial.verdicts.evaluate import AnalysisContext, StoppedBy
from fairtrial.verdicts.look_table import look_table, power_findings
from fairtrial.verdicts.outcomes import collect_decisions
from fairtrial.verdicts.power_values import Capacity
from fairtrial.verdicts.result_body import ResultBody
from fairtrial.verdicts.rule_design import check_rule_units
from fairtrial.verdicts.rule_detail import rule_detail
from fairtrial.verdicts.rule_look import conclude_rule, evaluate_rule_look

DATA = Path(__file__).parents[1] / "protocols" / "data"
BLOCK_RULE = (DATA / "block_rule.yaml").read_text(encoding="utf-8")
HEAD = Head(size=1, root="0" * 64)
Table = list[dict[str, object]]
Edit = tuple[str, str]


def protocol(*edits: Edit) -> Protocol:
    """Returns the protocol of the specification with words replaced."""
    text = BLOCK_RULE
    for old, new in edits:
        assert old in text, old
        text = text.replace(old, new)
    parsed = parse_protocol(text.encode(), name="p.yaml", media="yaml")
    check_supported(parsed)
    return parsed


def rows(
    wrong: Callable[[int], bool] = lambda _: False,
    *,
    clusters: int = 100,
    pairs: int = 2,
    score: float = 5.0,
) -> Table:
    """Returns pairs whose positive scores high; where `wrong`, the other side scores as high."""
    found: Table = []
    for number in range(clusters * pairs):
        cluster = number // pairs
        for label in (1, 0):
            high = label == 1 or wrong(number)
            found.append(
                {
                    "unit": f"u{number:04d}-{label}",
                    "repository": f"r{cluster:03d}",
                    "family": "xy"[number % 2],
                    "pair": f"p{number:04d}",
                    "vulnerable": label,
                    "fold": f"f{cluster % 4}",
                    "s": score + (number % 7) / 10 if high else (number % 7) / 10 - score,
                }
            )
    return found


# B flags every high score: the middle of two well-parted groups is its threshold.
EASY = ("B: {rule: {name: pooled_block_gate, precision: 0.95, recall: 0.98,"
        " family_floor: 20, normalise: platt, select_on: twins}}",
        "B: {rule: {name: calibrated_block, precision: 0.5, select_on: twins}}")  # fmt: skip


def context_of(
    table: Table,
    *edits: Edit,
    lost: Mapping[str, str] | None = None,
    invalidated: tuple[str, ...] = (),
    stopped_by: StoppedBy = "last_look",
) -> AnalysisContext:
    """Returns a run whose scores stand in the table, with its look taken."""
    plan_of = protocol(*edits)
    units = units_of(table, plan_of)
    plan = build_plan(units.ids, units.clusters, {"score": 1}, seed=plan_of.design.seed)
    scores = {str(row["unit"]): row["s"] for row in table}
    decisions = [
        Decision(
            experiment="t", position=slot.position, session=1, attempt=0, arm="score",
            unit=slot.unit, replicate=1, origin="recorded",
            status=(lost or {}).get(slot.unit, "ok"),  # type: ignore[arg-type]  # a status
            scores={} if slot.unit in (lost or {}) else {"score": scores[slot.unit]},  # type: ignore[dict-item]  # floats
        )
        for slot in plan.slots()
    ]  # fmt: skip
    outcomes = collect_decisions(decisions, plan.slot_count)
    for slot in plan.slots():
        if slot.unit in invalidated:
            outcomes.invalidated[slot.position] = 9
    context = AnalysisContext(
        protocol=plan_of,
        plan=plan,
        units=units,
        looks=look_table(plan_of, plan, units),
        taken=(),
        outcomes=outcomes,
        origins={"score": "recorded"},
        stopped_by=stopped_by,
    )
    look = evaluate_rule_look(context, 1).event("t", 1, HEAD)
    return replace(context, taken=(look,) if stopped_by == "last_look" else ())


def units_of(table: Table, plan: Protocol) -> Units:
    """Returns the units of a table."""
    data = "".join(json.dumps(row) + "\n" for row in table).encode()
    return parse_units(data, plan.units, name="candidates.jsonl", seed=plan.design.seed)


def concluded(table: Table, *edits: Edit, **more: object) -> ResultBody:
    """Returns the result of a run."""
    return conclude_rule(context_of(table, *edits, **more))  # type: ignore[arg-type]  # as context_of has them


def long_form(context: AnalysisContext) -> Any:
    """Returns the long form as JSON."""
    data = rule_detail(
        context, conclude_rule(context), experiment="t", basis=HEAD, spend_nanousd={"score": 0}
    )
    return json.loads(data)


def shown(context: AnalysisContext) -> dict[str, object]:
    """Returns the part of the long form that rules have alone."""
    found = long_form(context)["rule"]
    assert isinstance(found, dict)
    return found


def test_flags_that_are_right_are_adopted() -> None:
    """The lower bound reaches the target: adopt, and the event holds the bounds."""
    body = concluded(rows())
    assert (body.verdict, body.reason_code) == ("adopt", "bound_reached")
    first = body.comparisons[0].endpoints[0]
    assert first.bound_lower is not None
    # No wrong flag tells how they clump, so 100 clusters count, and each as one.
    assert math.isclose(first.bound_lower, clopper_pearson_lower(100, 100, alpha=0.025))
    assert first.bound_upper == 1.0


def test_flags_shown_below_are_rejected() -> None:
    """Half of the flags wrong in every cluster: the upper bound is far below the target."""
    body = concluded(rows(lambda n: n % 4 < 2), EASY)
    assert (body.verdict, body.reason_code) == ("reject", "bound_below")
    one_sided = ("alpha: 0.05}", "alpha: 0.05, sides: 1}")
    body = concluded(rows(lambda n: n % 4 < 2), EASY, one_sided)
    assert (body.verdict, body.reason_code) == ("inconclusive", "interval_spans")


def test_a_point_estimate_below_the_target_rejects_nothing() -> None:
    """Precision 0.943 in 200 flags isn't shown to miss 0.95: inconclusive."""
    body = concluded(rows(lambda n: n % 17 == 0, pairs=2), EASY)
    arms = shown(context_of(rows(lambda n: n % 17 == 0), EASY))["arms"]
    assert isinstance(arms, dict)
    total = arms["B"]["populations"]["twins"]["total"]
    assert 0.9 < total["precision"] < 0.95 < total["upper"]
    assert (body.verdict, body.reason_code) == ("inconclusive", "interval_spans")


def test_a_rule_that_flags_nothing_is_inconclusive() -> None:
    """Scores that tell nothing leave no threshold."""
    table = [{**row, "s": 1.0} for row in rows()]
    body = concluded(table)
    assert (body.verdict, body.reason_code) == ("inconclusive", "no_flags")
    assert body.reason == "B flagged nothing, so its precision is unknown"


def test_flags_in_few_clusters_decide_nothing() -> None:
    """A hundred right flags of five repositories are no evidence about repositories."""
    body = concluded(rows(clusters=5, pairs=40), EASY)
    assert (body.verdict, body.reason_code) == ("inconclusive", "few_clusters")
    assert "5 repositories; a verdict needs at least 6" in body.reason


def test_what_has_no_score_follows_the_missing_rule() -> None:
    """Refuse voids; exclude_pair leaves out, up to the limit."""
    table = rows()
    body = concluded(table, lost={"u0003-1": "error"})
    assert (body.verdict, body.reason_code) == ("inconclusive", "missing_refused")
    assert body.missing == {"score": {"error": 1}}
    few = {f"u{n:04d}-1": "ungraded" for n in range(10)}
    assert concluded(table, lost=few).verdict == "adopt"
    many = {f"u{n:04d}-1": "ungraded" for n in range(30)}
    body = concluded(table, lost=many)
    assert (body.verdict, body.reason_code) == ("inconclusive", "missing_over_limit")


def test_invalid_scores_that_matter_leave_it_open() -> None:
    """The verdict stands only where it is the same without them."""
    table = rows(lambda n: n % 25 == 0)
    wrong = tuple(f"u{n:04d}-0" for n in range(200) if n % 25 == 0)
    assert concluded(table, EASY).verdict == "inconclusive"
    body = concluded(table, EASY, invalidated=wrong)
    assert (body.verdict, body.reason_code) == ("inconclusive", "invalidated")
    assert "the verdict is adopt" in body.reason
    (comparison,) = long_form(context_of(table, EASY, invalidated=wrong))["comparisons"]
    without = comparison["without_invalidated"]
    assert ("inconclusive", "adopt") == (without["recorded_verdict"], without["verdict"])
    assert without["judged"]["lower"] >= 0.95
    body = concluded(rows(), invalidated=("u0003-1",))
    assert body.verdict == "adopt"


def test_a_person_ends_it_without_a_verdict() -> None:
    """Whatever the scores so far say."""
    body = concluded(rows(), stopped_by="person")
    assert (body.verdict, body.reason_code) == ("inconclusive", "stopped_by_person")
    body = concluded(rows(), stopped_by="wall_time")
    assert (body.verdict, body.reason_code) == ("inconclusive", "under_run")


def test_a_gate_without_a_family_above_its_floor_blocks_nothing() -> None:
    """The pooled bound is reached, but every family has fewer flags than its floor asks."""
    high = ("family_floor: 20", "family_floor: 150")
    body = concluded(rows(), high)
    assert (body.verdict, body.reason_code) == ("inconclusive", "no_flags")
    assert "nothing would be blocked" in body.reason
    found = shown(context_of(rows(), high))
    arms = found["arms"]
    assert isinstance(arms, dict)
    assert not any(one["may_block"] for one in arms["B"]["floors"].values())
    assert arms["B"]["after_floor"]["twins"]["flagged"] == 0
    assert arms["A"]["floors"] is None


def test_a_floor_asks_for_the_certainty_of_so_many_right_flags() -> None:
    """A clean family passes with as many flags as the floor; one with a wrong flag needs more."""
    from fairtrial.verdicts.rule_flags import is_above_floor

    assert is_above_floor(20, 20, 20, alpha=0.025)
    assert not is_above_floor(19, 19, 20, alpha=0.025)
    assert not is_above_floor(29, 30, 20, alpha=0.025)
    assert is_above_floor(39, 40, 20, alpha=0.025)
    assert not is_above_floor(0, 0, 20, alpha=0.025)


def test_each_family_is_judged_with_holm() -> None:
    """A family that is shown below rejects; one that reaches is enough to adopt where none is."""
    each = ("strata: pooled", "strata: each")
    good = concluded(rows(clusters=240), EASY, each)
    assert good.verdict == "adopt"
    assert "x, y" in good.reason
    below = concluded(rows(lambda n: n % 4 == 1, clusters=240), EASY, each)
    assert (below.verdict, below.reason_code) == ("reject", "bound_below")
    assert below.reason.endswith("in y")
    unsure = concluded(rows(lambda n: n % 34 == 1, clusters=240), EASY, each)
    assert unsure.verdict == "adopt"
    assert unsure.reason.endswith("in x; the other families stay advisory")
    families = shown(context_of(rows(clusters=240), EASY, each))["families"]
    assert isinstance(families, dict)
    assert sorted(one["alpha"] for one in families.values()) == [0.0125, 0.025]


EACH = ("strata: pooled", "strata: each")


def by_family(families: Mapping[str, int], *, wrong: int = 0, pairs: int = 40) -> Table:
    """Returns rows with repositories of one family each: how many repositories a family has.

    Of every repository up to `wrong` negatives are flagged as well.
    """
    names = [name for name, count in families.items() for _ in range(count)]
    found = rows(
        lambda number: number % pairs < wrong - number // pairs % 2,
        clusters=len(names),
        pairs=pairs,
    )
    return [{**row, "family": names[index // (2 * pairs)]} for index, row in enumerate(found)]


def test_open_families_are_named_with_their_own_figures() -> None:
    """Where each family is judged, what is said to be too little is a family's, never the sum."""
    few = concluded(by_family({"v": 2, "w": 5, "x": 4}), EASY, EACH)
    assert (few.verdict, few.reason_code) == ("inconclusive", "few_clusters")
    assert few.reason == (
        "no family has enough to go by, w lacks least:"
        " the flags of B in family w lie in 5 repositories; a verdict needs at least 6"
    )
    sparse = by_family({"v": 8, "w": 10}, wrong=4)
    low = concluded(sparse, EASY, EACH, ("decision: {", "decision: {guards: {min_df: 30}, "))
    assert (low.verdict, low.reason_code) == ("inconclusive", "low_df")
    families = shown(context_of(sparse, EASY, EACH))["families"]
    assert isinstance(families, dict)
    df = families["w"]["df"]
    assert "the wrong flags of B in family w lie in too few repositories" in low.reason
    assert f"{df:.1f} degrees of freedom, 30 are needed" in low.reason


def test_the_best_bound_is_said_of_the_family_that_has_it() -> None:
    """Capacity and refusal of a plan whose families are judged name one, with its own units."""
    plan = protocol(EACH)
    table = by_family({"v": 8, "w": 10, "x": 9}, pairs=2)
    report = power_findings(plan, *plan_and_units(table, plan))
    best = report.capacity
    assert isinstance(best, Capacity)
    assert (best.best_family, best.best_positives, best.positives) == ("w", 20, 54)
    assert best.best_lower is not None
    said = report.refused["impossible"]
    assert said.startswith("even if all 20 units of label 1 in family w were flagged")
    assert f"would be {100 * best.best_lower:.1f} % by Holm" in said
    line = "if all 20 of family w were flagged and nothing else, the cluster-aware lower bound"
    assert line in capacity_text(best)
    alone = power_findings(protocol(), *plan_and_units(table, protocol())).capacity
    assert isinstance(alone, Capacity)
    assert (alone.best_family, alone.best_positives) == (None, 54)
    assert "if all of them were flagged" in capacity_text(alone)


def test_the_primary_population_decides() -> None:
    """Wrong flags among candidates without a twin are shown and don't decide."""
    alone: Table = [
        {**row, "unit": f"a{n}", "pair": "", "vulnerable": 0, "s": 5.0}
        for n, row in enumerate(rows()[:160:2])
    ]
    table = [*rows(), *alone]
    body = concluded(table)
    assert body.verdict == "adopt"
    arms = shown(context_of(table))["arms"]
    assert isinstance(arms, dict)
    populations = arms["B"]["populations"]
    assert populations["twins"]["total"]["precision"] == 1.0
    assert populations["all"]["total"]["precision"] < 0.8
    turned = ("populations: {primary: twins, secondary: [all]}", "populations: {primary: all}")
    assert concluded(table, turned).verdict == "reject"


def test_the_order_of_the_file_changes_nothing() -> None:
    """Neither a number of the result nor a byte of its rules depends on the order of units."""
    table = rows(lambda n: n % 23 == 0)
    there, back = context_of(table), context_of(table[::-1])
    assert shown(there) == shown(back)
    assert conclude_rule(there) == conclude_rule(back)


def test_more_repositories_of_the_same_kind_tell_more() -> None:
    """Twice the clusters narrow the bound; twice the right flags in each tell nothing."""

    def lower(table: Table) -> float:
        bound = conclude_rule(context_of(table)).comparisons[0].endpoints[0].bound_lower
        assert bound is not None
        return bound

    assert lower(rows(clusters=200)) > lower(rows(clusters=100))
    assert math.isclose(lower(rows(pairs=4)), lower(rows(pairs=2)))


def test_labels_of_a_fold_change_no_flag_in_it() -> None:
    """Turning the labels of one fold changes the thresholds of the others alone."""
    table = rows(lambda n: n % 5 == 0, clusters=60)
    turned = [
        {**row, "vulnerable": 1 - int(str(row["vulnerable"]))} if row["fold"] == "f1" else row
        for row in table
    ]

    def thresholds(of: Table) -> Table:
        arms = shown(context_of(of))["arms"]
        assert isinstance(arms, dict)
        return [one for arm in arms.values() for one in arm["thresholds"]]

    before, after = thresholds(table), thresholds(turned)
    own = [one for one in before if one["fold"] == "f1"]
    assert own
    assert own == [one for one in after if one["fold"] == "f1"]
    assert before != after


def test_the_look_shows_bounds_and_crosses_by_them() -> None:
    """estimate, lower and upper of the look are the precision and its bounds."""
    look = context_of(rows()).taken[0]
    found = look.comparisons[0].endpoints[0]
    assert (found.estimate, found.crossed, found.eligible) == (1.0, "favourable", True)
    assert (found.n, found.clusters, found.upper) == (200, 100, 1.0)
    assert not look.continues
    against = context_of(rows(lambda n: n % 4 < 2), EASY).taken[0]
    assert against.comparisons[0].endpoints[0].crossed == "against"


@pytest.mark.parametrize("bound", ["wilson", "clopper_pearson"])
def test_a_bound_that_ignores_clusters_prints_its_error(bound: str) -> None:
    """The error is simulated from the sizes at hand, at the icc that the protocol states."""
    edits: tuple[Edit, ...]
    edits = (("bound: cluster_aware", f"bound: {bound}"),
             ("effect: none,", "effect: none, assume: {icc: 0.3},"))  # fmt: skip
    simulated = shown(context_of(rows(clusters=30, pairs=8), *edits))["simulated_error"]
    assert isinstance(simulated, list)
    assert [one["icc"] for one in simulated] == [0.3]
    assert simulated[0]["error"] > 0.05
    # Where every unit is its own cluster nothing is wrong with it.
    edits = (edits[0], ("cluster: repository", "cluster: none"), ("primary: twins", "primary: all"),
             ("secondary: [all]", "secondary: []"), (" twin: pair,", ""),
             ("select_on: twins", "select_on: all"))  # fmt: skip
    assert shown(context_of(rows(clusters=30), *edits))["simulated_error"] == []


def test_learn_then_test_bounds_the_mean_over_clusters() -> None:
    """With clusters each is one loss, and the estimand has to be registered as such."""
    edits = (("bound: cluster_aware", "bound: learn_then_test"),
             ("estimand: unit_weighted", "estimand: cluster_weighted"))  # fmt: skip
    judged = shown(context_of(rows(clusters=120), *edits))["judged"]
    assert isinstance(judged, dict)
    assert judged["estimand"] == "cluster_weighted"
    with pytest.raises(ProtocolError, match="weighs clusters"):
        protocol(edits[0])


def plan_and_units(table: Table, plan: Protocol) -> tuple[Plan, Units]:
    """Returns what a freeze would make of a table."""
    units = units_of(table, plan)
    return build_plan(units.ids, units.clusters, {"score": 1}, seed=plan.design.seed), units


def test_a_hopeless_plan_is_found_before_any_score() -> None:
    """Too few positives for the bound, too few clusters, no family that could pass its floor."""
    plan = protocol()
    report = power_findings(plan, *plan_and_units(rows(clusters=60), plan))
    assert set(report.refused) == {"impossible"}
    assert "even if all 120 units of label 1 were flagged" in report.refused["impossible"]
    report = power_findings(plan, *plan_and_units(rows(clusters=5), plan))
    assert set(report.refused) == {"no_verdict_possible", "impossible"}
    plan = protocol(("family_floor: 20", "family_floor: 500"))
    report = power_findings(plan, *plan_and_units(rows(), plan))
    assert report.refused == {
        "impossible": "no family has enough units of label 1 to pass its floor"
    }


def test_the_capacity_table_says_how_many_flags_are_needed() -> None:
    """72 right flags for 0.95 by the exact bound, 73 by Wilson's."""
    plan = protocol()
    report = power_findings(plan, *plan_and_units(rows(), plan))
    assert not report.refused
    assert report.findings == ("not_assessed",)
    assert isinstance(report.capacity, Capacity)
    assert (report.capacity.rows[0].wrong, report.capacity.rows[0].flags) == (0, 72)
    families = [(one.family, one.positives) for one in report.capacity.families]
    assert families == [("x", 100), ("y", 100)]
    plan = protocol(("bound: cluster_aware", "bound: wilson"))
    capacity = power_findings(plan, *plan_and_units(rows(), plan)).capacity
    assert isinstance(capacity, Capacity)
    assert capacity.rows[0].flags == 73


def test_units_that_teach_nothing_are_refused() -> None:
    """Labels are 0 or 1, and there are two folds at least."""
    plan = protocol((" twin: pair,", ""), ("primary: twins, secondary: [all]", "primary: all"),
                    ("select_on: twins", "select_on: all"))  # fmt: skip
    table = rows()
    for changed, what in (
        ([{**row, "fold": "f0"} for row in table], "one fold"),
        ([{**table[0], "vulnerable": 2}, *table[1:]], "learns from labels"),
    ):
        with pytest.raises(ProtocolError, match=what):
            check_rule_units(units_of(changed, plan), name="candidates.jsonl")
    with pytest.raises(ProtocolError, match="two folds"):
        units_of([{**table[0], "fold": "f9"}, *table[1:]], plan)


def test_three_arms_are_shown_and_one_is_judged() -> None:
    """decision.gate names the comparison; the third arm's flags stand beside."""
    edits = (("populations:", "control: A\npopulations:"),
             ("endpoints:",
              "  C: {rule: {name: calibrated_block, normalise: isotonic}}\nendpoints:"),
             ("arm: B,", "arm: B, gate: B,"))  # fmt: skip
    context = context_of(rows(), *edits)
    body = conclude_rule(context)
    assert body.verdict == "adopt"
    assert [one.name for one in body.comparisons] == ["B"]
    arms = shown(context)["arms"]
    assert isinstance(arms, dict)
    assert list(arms) == ["A", "B", "C"]
    assert arms["C"]["rule"]["normalise"] == "isotonic"
