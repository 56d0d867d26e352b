"""Looks: their numbers, who may decide, what a crossing does, and what changes nothing."""

from __future__ import annotations

import random
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from fairtrial.analysis.deciding import Deciding, deciding_interval
from fairtrial.ledger.canonical import encode_event
from fairtrial.ledger.events import LookEndpoint
from fairtrial.ledger.slots import STATUSES
from fairtrial.verdicts.evaluate import LookBody, evaluate_look
from fairtrial.verdicts.outcomes import collect_decisions

LOOKS = "{at: [0.5, 1.0], icc: 0.05}"
MARGIN = "{{rule: {}, margin: {}}}"
HARM = (
    "[{name: passed, role: primary, type: binary, value: passed, better: higher}, "
    "{name: unsafe, role: harm, type: binary, value: scores.unsafe, better: lower}]"
)
HARM_DECISION = "{rule: superiority, margin: 0.0, harm: {alpha: 0.05, margin: 0.01}}"


def endpoint(body: Any, name: str = "passed", comparison: int = 0) -> LookEndpoint:
    """Returns one endpoint of a look."""
    found: tuple[LookEndpoint, ...] = body.comparisons[comparison].endpoints
    return next(each for each in found if each.name == name)


def known(number: float | None) -> float:
    """Returns a number that has to be there."""
    assert number is not None
    return number


def drawn(bridge: Any, rates: dict[str, float], *, seed: int = 1, **extra: Any) -> Any:
    """Returns answers that pass with a rate by arm, the same for each call."""

    def answers(unit: str, arm: str, replicate: int) -> Any:
        draw = random.Random(f"{seed}/{unit}")
        level = draw.random()
        scores = {"passed": float(level < rates[arm])}
        scores |= {name: float(level < chance[arm]) for name, chance in extra.items()}
        return bridge.outcome(scores=scores)

    return answers


def big(bridge: Any, rates: dict[str, float], *, clusters: int = 60, **options: Any) -> Any:
    """Returns a trial of clusters of 5 whose arms pass with given rates."""
    extra = options.pop("extra", {})
    return bridge.trial(bridge.units(clusters, 5), drawn(bridge, rates, **extra), **options)


def look(trial: Any, number: int = 1) -> LookBody:
    """Returns a look of a trial that has taken those before it."""
    for before in range(1, number):
        trial = trial.take(before)
    return evaluate_look(trial.context, number)


def test_verified_demo_is_as_published(bridge: Any) -> None:
    """Look 1 can't decide; look 2 has the numbers of an independent computation."""
    first, second = look(bridge.demo("verified")), look(bridge.demo("verified"), 2)
    early, late = endpoint(first, "resolved"), endpoint(second, "resolved")
    assert (96, 6, True) == (early.n, early.clusters, first.continues)
    assert (early.estimate, early.standard_error) == pytest.approx((-0.031, 0.068), abs=5e-4)
    assert early.df == pytest.approx(2.41, abs=5e-3)
    assert ("few_clusters", "low_df", "few_discordant_clusters") == early.why_not
    assert (None, None, "no") == (early.lower, early.upper, early.crossed)
    assert (500, 12, False) == (late.n, late.clusters, second.continues)
    assert (late.estimate, late.standard_error) == pytest.approx((0.02, 0.0472), abs=5e-5)
    assert list(late.tests.values()) == pytest.approx([0.698, 0.698], abs=5e-4)
    assert (late.lower, late.upper) == pytest.approx((-0.142, 0.184), abs=5e-4)
    assert ("low_df",) == late.why_not


def test_pro_demo_is_as_published(bridge: Any) -> None:
    """Look 1 goes on, look 2 crosses in favour of the treatment."""
    first, second = look(bridge.demo("pro")), look(bridge.demo("pro"), 2)
    early, late = endpoint(first, "resolved"), endpoint(second, "resolved")
    assert (549, True, True) == (early.n, early.eligible, first.continues)
    assert (early.estimate, early.standard_error) == pytest.approx((0.0638, 0.0320), abs=5e-5)
    assert early.df == pytest.approx(7.16, abs=5e-3)
    assert list(early.tests.values()) == pytest.approx([0.085, 0.088], abs=6e-4)
    assert (729, 11, "favourable") == (late.n, late.clusters, late.crossed)
    assert (late.estimate, late.standard_error) == pytest.approx((0.0741, 0.0255), abs=5e-5)
    assert late.df == pytest.approx(8.99, abs=5e-3)
    assert list(late.tests.values()) == pytest.approx([0.0174, 0.0183], abs=5e-5)
    assert (late.lower, late.upper) == pytest.approx((0.0146, 0.1348), abs=1e-4)
    assert late.p_value == max(known(p) for p in late.tests.values())


def test_numbers_are_those_of_the_analysis(bridge: Any) -> None:
    """A look adds no arithmetic of its own: the pairs, counted by hand, give the same interval."""
    trial = big(bridge, {"A": 0.5, "B": 0.6})
    passed = {(s.unit, s.arm): s.position for s in trial.plan.slots()}
    column = trial.context.outcomes.scores["passed"].values
    units = sorted(trial.plan.units)
    differences = [column[passed[u, "B"] - 1] - column[passed[u, "A"] - 1] for u in units]
    expected = deciding_interval(
        np.array(differences),
        np.array([int(unit[1:4]) for unit in units]),
        family="binary",
        estimand="unit_weighted",
        nominal_p=known(endpoint(look(trial)).nominal_p),
        singletons=False,
    )
    assert isinstance(expected, Deciding)
    found = endpoint(look(trial))
    assert (expected.estimate, expected.standard_error) == (found.estimate, found.standard_error)
    assert (expected.lower, expected.upper) == (found.lower, found.upper)
    assert dict(expected.tests) == found.tests
    assert expected.t_critical == found.t_critical


def test_order_of_outcomes_changes_no_byte(bridge: Any) -> None:
    """Any order of completion gives the same event: concurrency can't be seen in a look."""
    trial = bridge.demo("pro")
    decisions = bridge.decisions(trial.plan, _answers(trial), "recorded")
    bodies = []
    for seed in range(3):
        random.Random(seed).shuffle(decisions)
        outcomes = collect_decisions(decisions, trial.plan.slot_count)
        shuffled = trial.with_outcomes(outcomes).take(1).take(2)
        bodies.append([encode_event(event) for event in shuffled.context.taken])
    assert bodies[0] == bodies[1] == bodies[2]
    assert [encode_event(event) for event in trial.take(1).take(2).context.taken] == bodies[0]


def _answers(trial: Any) -> Any:
    outcomes = trial.context.outcomes
    places = {(slot.unit, slot.arm): slot.position for slot in trial.plan.slots()}

    def answers(unit: str, arm: str, replicate: int) -> Any:
        position = places[unit, arm]
        scores = {}
        if outcomes.scores["passed"].given[position - 1]:
            scores = {"passed": outcomes.scores["passed"].values[position - 1]}
        return {"status": STATUSES[outcomes.status[position - 1] - 1], "scores": scores}

    return answers


def test_swapped_arms_mirror_the_look(bridge: Any) -> None:
    """The other control negates every number and turns the crossing round."""
    rates = {"A": 0.4, "B": 0.6}
    one = endpoint(look(big(bridge, rates)))
    other = endpoint(look(big(bridge, rates, control="B")))
    negated = [-known(number) for number in (one.estimate, one.upper, one.lower)]
    assert negated == [other.estimate, other.lower, other.upper]
    assert one.tests == other.tests
    assert ("favourable", "against") == (one.crossed, other.crossed)


def test_lower_is_better_turns_the_crossing(bridge: Any) -> None:
    """The same difference speaks against the treatment where lower is better."""
    endpoints = "[{name: passed, role: primary, type: binary, value: passed, better: lower}]"
    found = endpoint(look(big(bridge, {"A": 0.4, "B": 0.6}, endpoints=endpoints)))
    assert known(found.estimate) > 0.0
    assert "against" == found.crossed


@pytest.mark.parametrize(
    ("differences", "code"),
    [
        ([0.0] * 30, "few_discordant_clusters"),
        ([0.25] * 30, "zero_variance"),
        ([0.0] * 29 + [1.0], "few_discordant_clusters"),
        ([1.0], "few_clusters"),
        ([], "missing_over_limit"),
    ],
)
def test_degenerate_differences_decide_nothing(
    bridge: Any, differences: list[float], code: str
) -> None:
    """Constant, single or absent data give a reason, no exception, no NaN and no crossing."""
    binary = all(value in (0.0, 1.0) for value in differences)
    kind = "binary" if binary else "bounded, bounds: [0, 1]"
    trial = bridge.trial(
        bridge.units(max(len(differences), 2), 1),
        lambda unit, arm, r: (
            bridge.outcome(status="error")
            if int(unit[1:4]) >= len(differences)
            else bridge.outcome(differences[int(unit[1:4])] if arm == "B" else 0.0)
        ),
        endpoints=f"[{{name: passed, role: primary, type: {kind}, value: passed, better: higher}}]",
    )
    found = endpoint(look(trial))
    assert code in found.why_not
    assert ("no", False) == (found.crossed, found.eligible)
    assert found.n == len(differences)
    if code != "few_discordant_clusters":
        assert (None, None) == (found.lower, found.upper)
        assert found.undetermined


def test_single_units_without_disagreement_have_an_exact_interval(bridge: Any) -> None:
    """30 pairs that agree: effect 0, p 1, an interval around 0, and no verdict."""
    trial = bridge.trial(
        "unit\n" + "\n".join(f"u{i}" for i in range(30)) + "\n",
        lambda unit, arm, r: bridge.outcome(1.0),
        units="{file: units.csv, id: unit, cluster: none}",
    )
    found = endpoint(look(trial))
    assert (0.0, 1.0, "no") == (found.estimate, found.p_value, found.crossed)
    assert known(found.lower) == pytest.approx(-known(found.upper))
    assert "few_discordant_clusters" in found.why_not


def test_ungraded_share_over_the_limit_decides_nothing(bridge: Any) -> None:
    """10 of 100 candidates without a number can't make it better: no verdict, however large."""

    def answers(unit: str, arm: str, replicate: int) -> Any:
        hard = int(unit[1:4]) < 10
        if arm == "B" and hard:
            return bridge.outcome(status="ungraded", code="score_not_finite")
        return bridge.outcome(float(arm == "B" or int(unit[1:4]) > 60))

    table = "unit\n" + "\n".join(f"u{i:03}" for i in range(100)) + "\n"
    trial = bridge.trial(table, answers, units="{file: units.csv, id: unit, cluster: none}")
    found = endpoint(look(trial))
    assert (90, False, ("missing_over_limit",)) == (found.n, found.eligible, found.why_not)
    assert "no" == found.crossed


def test_refused_outcome_voids_the_look(bridge: Any) -> None:
    """One outcome that the protocol refuses is enough."""
    missing = (
        "{rules: {failed: failure, timeout: failure, limit: failure, error: refuse, "
        "ungraded: exclude_pair, replay_miss: exclude_pair, invalidated: exclude_pair}, limit: 0.2}"
    )
    draw = drawn(bridge, {"A": 0.3, "B": 0.7})
    trial = bridge.trial(
        bridge.units(60, 5),
        lambda unit, arm, r: (
            bridge.outcome(status="error")
            if (unit, arm) == ("u000-000", "B")
            else draw(unit, arm, r)
        ),
        missing=missing,
    )
    assert ("missing_refused",) == endpoint(look(trial)).why_not


def test_worst_case_widens_the_interval_to_both_sides(bridge: Any) -> None:
    """Filled in both ways, the hull holds what either way alone would give."""
    draw = drawn(bridge, {"A": 0.5, "B": 0.6})

    def lost(fill: Any) -> Any:
        return lambda unit, arm, r: (
            fill if unit.endswith("000") and arm == "B" else draw(unit, arm, r)
        )

    missing = (
        "{rules: {failed: failure, timeout: failure, limit: failure, error: exclude_pair, "
        "ungraded: worst_case, replay_miss: exclude_pair, invalidated: exclude_pair}, limit: 0.2}"
    )
    units = bridge.units(60, 5)
    both = endpoint(
        look(bridge.trial(units, lost(bridge.outcome(status="ungraded")), missing=missing))
    )
    low = endpoint(look(bridge.trial(units, lost(bridge.outcome(0.0)), missing=missing)))
    high = endpoint(look(bridge.trial(units, lost(bridge.outcome(1.0)), missing=missing)))
    assert (low.lower, high.upper) == (both.lower, both.upper)
    middle = (known(low.estimate) + known(high.estimate)) / 2
    assert middle == pytest.approx(both.estimate)


def test_crossing_stops_and_continue_does_not(bridge: Any) -> None:
    """A boundary crossed at look 1 ends the run, unless the protocol goes on."""
    rates = {"A": 0.2, "B": 0.8}
    first = look(big(bridge, rates, looks=LOOKS))
    assert ("favourable", False) == (endpoint(first).crossed, first.continues)
    on = "{at: [0.5, 1.0], icc: 0.05, on_crossing: continue}"
    first = look(big(bridge, rates, looks=on))
    assert ("favourable", True) == (endpoint(first).crossed, first.continues)
    assert not look(big(bridge, rates, looks=on), 2).continues


def test_ineligible_look_leaves_its_alpha_to_the_next(bridge: Any) -> None:
    """A look whose data can't decide spends nothing, though its design could have."""
    rates = {"A": 0.5, "B": 0.55}
    trial = big(bridge, rates, looks=LOOKS)
    spent = endpoint(look(trial, 2)).nominal_p
    draw = drawn(bridge, rates)
    half = {
        slot.unit for slot in trial.plan.slots() if slot.position <= trial.context.looks[0].last
    }
    few = sorted(half)[:5]
    lost = bridge.trial(
        bridge.units(60, 5),
        lambda unit, arm, r: bridge.outcome(status="error") if unit in few else draw(unit, arm, r),
        looks=LOOKS,
    )
    first, second = endpoint(look(lost)), endpoint(look(lost, 2))
    assert ("missing_over_limit",) == first.why_not
    assert second.eligible
    assert known(spent) < known(second.nominal_p) == pytest.approx(0.05, abs=1e-12)


def test_harm_stops_the_run_whatever_the_primary_says(bridge: Any) -> None:
    """A harm endpoint beyond its margin ends the run with the primary still open."""
    extra = {"unsafe": {"A": 0.0, "B": 0.4}}
    trial = big(
        bridge,
        {"A": 0.5, "B": 0.5},
        looks=LOOKS,
        endpoints=HARM,
        decision=HARM_DECISION,
        extra=extra,
    )
    first = look(trial)
    assert ("no", "against") == (endpoint(first).crossed, endpoint(first, "unsafe").crossed)
    assert not first.continues


def test_harm_that_cannot_speak_keeps_the_run_going(bridge: Any) -> None:
    """A primary that crossed doesn't stop while a harm endpoint's guards fail."""
    trial = big(
        bridge,
        {"A": 0.2, "B": 0.8},
        looks=LOOKS,
        endpoints=HARM,
        decision=HARM_DECISION,
        extra={"unsafe": {"A": 0.0, "B": 0.0}},
    )
    first = look(trial)
    assert "favourable" == endpoint(first).crossed
    assert not endpoint(first, "unsafe").eligible
    assert first.continues


def _two(how: str) -> dict[str, Any]:
    return {
        "endpoints": "[{name: passed, role: primary, type: binary, value: passed, better: higher}, "
        "{name: unsafe, role: primary, type: binary, value: scores.unsafe, better: higher}]",
        "decision": f"{{rule: superiority, margin: 0.0, primaries: {how}}}",
        "looks": LOOKS,
    }


@pytest.mark.parametrize(("how", "continues"), [("all", True), ("ordered", True), ("any", False)])
def test_run_goes_on_until_its_primaries_are_decided(
    bridge: Any, how: str, continues: bool
) -> None:
    """One of two primaries crossing is enough for `any` alone."""
    extra = {"unsafe": {"A": 0.5, "B": 0.5}}
    trial = big(bridge, {"A": 0.2, "B": 0.8}, extra=extra, **_two(how))
    first = look(trial)
    assert ("favourable", "no") == (endpoint(first).crossed, endpoint(first, "unsafe").crossed)
    assert continues == first.continues


def test_reject_of_one_primary_decides_all(bridge: Any) -> None:
    """With `all`, a primary shown worse ends the run."""
    extra = {"unsafe": {"A": 0.5, "B": 0.5}}
    trial = big(bridge, {"A": 0.8, "B": 0.2}, extra=extra, **_two("all"))
    first = look(trial)
    assert ("against", False) == (endpoint(first).crossed, first.continues)


def test_non_inferiority_crosses_inside_the_margin(bridge: Any) -> None:
    """A lower limit above minus the margin is enough; its p is computed at minus the margin."""
    draw = random.Random(4)
    trial = bridge.trial(
        bridge.units(80, 5),
        lambda unit, arm, r: bridge.outcome(float(draw.random() < 0.5)),
        decision=MARGIN.format("non_inferiority", 0.15),
    )
    found = endpoint(look(trial))
    assert -0.15 < known(found.lower) < 0.0 < known(found.upper)
    assert "favourable" == found.crossed
    assert known(found.p_value) < known(found.nominal_p)


def test_equivalence_crosses_between_the_margins(bridge: Any) -> None:
    """An interval inside both margins is a claim, and stops."""
    decision = MARGIN.format("equivalence", 0.2)
    found = look(big(bridge, {"A": 0.50, "B": 0.55}, decision=decision, looks=LOOKS, clusters=120))
    assert ("favourable", False) == (endpoint(found).crossed, found.continues)


COST = (
    "[{name: passed, role: primary, type: binary, value: passed, better: higher}, "
    "{name: cost, role: secondary, type: cost, value: usd, better: lower, scale: both, missing: "
    "{failed: value, timeout: value, limit: value, ungraded: value}}]"
)
SAVING = "{rule: superiority, margin: 0.0, saving: {endpoint: cost, at_least: 0.2}}"


def costing(bridge: Any, prices: dict[str, float]) -> Any:
    """Returns answers in which B is better and each arm has a price that varies by unit."""
    draw = drawn(bridge, {"A": 0.2, "B": 0.8})

    def answers(unit: str, arm: str, replicate: int) -> Any:
        level = random.Random(f"{arm}/{unit}").uniform(0.5, 1.5)
        return {**draw(unit, arm, replicate), "cost_nanousd": int(level * prices[arm] * 1e9)}

    return answers


def test_saving_has_to_hold_on_both_scales(bridge: Any) -> None:
    """Half the price is a saving of 20 %; one free answer undoes the ratio, and the claim."""
    units = bridge.units(60, 5)
    trial = bridge.trial(
        units, costing(bridge, {"A": 1.0, "B": 0.5}), endpoints=COST, decision=SAVING
    )
    found = endpoint(look(trial), "cost")
    assert ("favourable", {"cr2_t_saving", "log_cr2_t"}) == (found.crossed, set(found.tests))
    free = costing(bridge, {"A": 1.0, "B": 0.5})
    trial = bridge.trial(
        units,
        lambda unit, arm, r: (
            {**free(unit, arm, r), "cost_nanousd": 0}
            if (unit, arm) == ("u000-000", "B")
            else free(unit, arm, r)
        ),
        endpoints=COST,
        decision=SAVING,
    )
    found = endpoint(look(trial), "cost")
    assert ("no", None) == (found.crossed, found.p_value)
    assert "0 or negative" in str(found.undetermined)


def test_saving_that_is_not_shown_keeps_the_run_going(bridge: Any) -> None:
    """The rule holds at look 1 and the saving doesn't: there is another look."""
    trial = bridge.trial(
        bridge.units(60, 5),
        costing(bridge, {"A": 1.0, "B": 0.9}),
        endpoints=COST,
        decision=SAVING,
        looks=LOOKS,
    )
    first = look(trial)
    assert ("favourable", "no") == (endpoint(first).crossed, endpoint(first, "cost").crossed)
    assert first.continues


def test_secondary_endpoints_stay_out_of_looks(bridge: Any) -> None:
    """A look holds what it tests; what is only shown waits for the result."""
    decision = "{rule: superiority, margin: 0.0}"
    trial = bridge.trial(
        bridge.units(60, 5),
        costing(bridge, {"A": 1.0, "B": 1.0}),
        endpoints=COST,
        decision=decision,
    )
    assert ["passed"] == [each.name for each in look(trial).comparisons[0].endpoints]


def test_holm_steps_down_over_comparisons(bridge: Any) -> None:
    """What half of alpha misses, the whole finds once the other comparison is decided."""

    def answers(unit: str, arm: str, replicate: int) -> Any:
        rate = {"A": 0.5, "B": 0.8, "C": 0.6}[arm]
        return bridge.outcome(float(random.Random(f"4/{unit}/{arm}").random() < rate))

    driver = "{kind: recorded, file: o.csv, where: {arm: %s}, columns: *}"
    arms = ", ".join(f"{arm}: {{label: {arm}, driver: {driver % arm}}}" for arm in "ABC")
    options = {"arms": f"{{{arms}}}", "decision": "{rule: superiority, margin: 0.0, gate: B}"}
    found = []
    for share in ("0.5", "holm"):
        pair = "{{name: {0}, treatment: {0}, control: A, share: {1}}}"
        pairs = ", ".join(pair.format(arm, share) for arm in "BC")
        analysis = f"{{estimand: unit_weighted, comparisons: [{pairs}]}}"
        trial = bridge.trial(bridge.units(60, 5), answers, analysis=analysis, **options)
        found.append(look(trial))
    fixed, holm = found
    assert "favourable" == endpoint(fixed, comparison=0).crossed
    assert 0.025 < known(endpoint(fixed, comparison=1).p_value) < 0.05
    assert ["no", "favourable"] == [endpoint(each, comparison=1).crossed for each in found]
    assert [0.025, 0.05] == pytest.approx(
        [known(endpoint(holm, comparison=place).nominal_p) for place in (0, 1)]
    )


def test_invalidated_outcome_keeps_its_value_in_a_look(bridge: Any) -> None:
    """A look is computed from what was settled, whatever was declared since."""
    trial = big(bridge, {"A": 0.4, "B": 0.6})
    before = look(trial)
    trial.context.outcomes.invalidated[3] = 9
    assert before == evaluate_look(replace(trial.context, invalidated=frozenset({3})), 1)


@pytest.mark.slow
def test_five_looks_at_equal_arms_keep_their_error(bridge: Any) -> None:
    """Of 400 A/A trials with five looks few cross; naive looks at 1.96 would cross in 14 %."""
    trial = bridge.trial(
        bridge.units(60, 4),
        lambda unit, arm, r: {},
        looks="{at: [0.2, 0.4, 0.6, 0.8, 1.0], icc: 0.05}",
    )
    draw, false, naive = random.Random(20261129), 0, 0
    for _ in range(400):
        shift = {cluster: draw.gauss(0.0, 0.1) for cluster in dict.fromkeys(trial.plan.clusters)}

        def answers(unit: str, arm: str, replicate: int, shift: Any = shift) -> Any:
            return bridge.outcome(float(draw.random() < 0.5 + shift[unit[:4].replace("u", "c")]))

        decisions = bridge.decisions(trial.plan, answers, "recorded")
        run = trial.with_outcomes(collect_decisions(decisions, trial.plan.slot_count))
        for number in range(1, 6):
            run = run.take(number)
            if not run.context.taken[-1].continues:
                break
        found = [endpoint(taken) for taken in run.context.taken]
        false += any(each.crossed != "no" for each in found)
        naive += any(known(each.p_value) < 0.05 for each in found)
    # 5 % of 400 are 20; three standard errors above that is 33.
    assert 3 <= false <= 33 < naive


@pytest.mark.slow
def test_large_look_is_quick(bridge: Any) -> None:
    """100,000 slots are read and analysed in a time that no run notices."""
    import time

    trial = big(bridge, {"A": 0.5, "B": 0.52}, clusters=10_000)
    began = time.perf_counter()
    body = evaluate_look(trial.context, 1)
    assert time.perf_counter() - began < 2.0
    assert 50_000 == endpoint(body).n
