"""Results: the verdict of each way to end, its reason in words of the data, and the long form."""

from __future__ import annotations

import gc
import json
import math
import random
import weakref
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from fairtrial.ledger.events import Head
from fairtrial.ledger.slots import STATUSES
from fairtrial.ledger.state import AmendNote
from fairtrial.verbs.text_result import result_text
from fairtrial.verdicts.conclude import ResultBody, conclude, detail
from fairtrial.verdicts.finals import ended
from fairtrial.verdicts.outcomes import collect_decisions

LOOKS = "{at: [0.5, 1.0], icc: 0.05}"
ANALYSE = "{rule: superiority, margin: 0.0, on_under_run: analyse}"
HARM = (
    "[{name: passed, role: primary, type: binary, value: passed, better: higher}, "
    "{name: unsafe, role: harm, type: binary, value: scores.unsafe, better: lower}]"
)
BESIDE = HARM.replace("role: harm", "role: secondary")
HARM_DECISION = "{rule: superiority, margin: 0.0, harm: {alpha: 0.05, margin: 0.01}}"
HEAD = Head(size=7, root="ab" * 32)


def rated(bridge: Any, rates: dict[str, float], *, seed: int = 1, **extra: Any) -> Any:
    """Returns answers that pass with a rate by arm; further scores by name."""

    def answers(unit: str, arm: str, replicate: int) -> Any:
        level = random.Random(f"{seed}/{unit}").random()
        scores = {"passed": float(level < rates[arm])}
        scores |= {name: float(level < chance[arm]) for name, chance in extra.items()}
        return bridge.outcome(scores=scores)

    return answers


def long_form(trial: Any, body: ResultBody | None = None) -> Any:
    """Returns the long form as JSON."""
    body = body or conclude(trial.context)
    data = detail(
        trial.context, body, experiment="trial", basis=HEAD, spend_nanousd={"A": 0, "B": 1500000000}
    )
    return json.loads(data)


def first_endpoint(trial: Any) -> Any:
    """Returns the first endpoint of the long form."""
    return long_form(trial)["comparisons"][0]["endpoints"][0]


def test_verified_demo_concludes_nothing_and_says_why(bridge: Any) -> None:
    """231 of 500 units are one repository: too few independent ones, in those words."""
    trial = bridge.demo("verified").run()
    body = conclude(trial.context)
    assert ("inconclusive", "low_df") == (body.verdict, body.reason_code)
    assert "231 of 500 units are one cluster (django/django)" in body.reason
    assert "about 4 independent clusters" in body.reason
    assert (2, "recorded", None, ("A", "B")) == (
        body.look,
        body.evidence,
        body.as_registered,
        body.existed_before,
    )
    found = first_endpoint(trial)
    assert {"A": 0.646, "B": 0.666} == found["arms"]
    assert {"only_control": 40, "only_treatment": 50} == found["discordant"]
    tests = {name: test["p_value"] for name, test in found["tests"].items()}
    expected = {"cr2_t": 0.698, "tango": 0.698, "mcnemar": 0.343, "sign_flip": 0.781}
    assert expected == pytest.approx({name: tests[name] for name in expected}, abs=5e-4)
    weighted = found["tests"]["cluster_weighted"]
    assert [-0.001, -0.068, 0.066] == pytest.approx(
        [weighted[name] for name in ("estimate", "lower", "upper")], abs=5e-4
    )
    assert ["mcnemar ignores clusters"] == found["warnings"]
    cr2 = found["interval"]["parts"]["cr2_t"]
    assert [-0.122, 0.162] == pytest.approx([cr2["lower"], cr2["upper"]], abs=5e-4)


def test_pro_demo_adopts(bridge: Any) -> None:
    """The numbers of an independent computation; the one missing outcome can't undo the claim."""
    trial = bridge.demo("pro").run()
    body = conclude(trial.context)
    assert ("adopt", "interval_favours", 2) == (body.verdict, body.reason_code, body.look)
    assert "B is better than A (+7.4 points" in body.reason
    assert {"A": {"replay_miss": 1}, "B": {}} == body.missing
    found = first_endpoint(trial)
    assert [0.3635, 0.4376] == pytest.approx(list(found["arms"].values()), abs=5e-5)
    assert {"only_control": 59, "only_treatment": 113} == found["discordant"]
    tests = {name: test["p_value"] for name, test in found["tests"].items()}
    assert tests["mcnemar"] == pytest.approx(4.7e-5, abs=5e-7)
    assert found["tests"]["mcnemar"]["mid_p"] == pytest.approx(3.5e-5, abs=5e-7)
    assert tests["sign_flip"] == pytest.approx(0.041, abs=5e-4)
    weighted = found["tests"]["cluster_weighted"]
    assert [0.055, -0.015, 0.125] == pytest.approx(
        [weighted[name] for name in ("estimate", "lower", "upper")], abs=5e-4
    )
    parts = found["interval"]["parts"]
    cr2, tango = parts["cr2_t"], parts["tango_cluster_adjusted"]
    assert [0.0149, 0.1332] == pytest.approx([cr2["lower"], cr2["upper"]], abs=1e-4)
    assert [0.0146, 0.1348] == pytest.approx([tango["lower"], tango["upper"]], abs=1e-4)
    assert found["bounds"]["claim_holds"] is True
    assert 0.0 < found["bounds"]["lower"] < found["interval"]["lower"]
    assert ["instance_flipt-io__flipt-c1fd7a81ef9f23e742501bfb26d914eb683262aa"] == (
        found["units"]["excluded"]
    )


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(8))
def test_pro_demo_adopts_whatever_the_seed(bridge: Any, seed: int) -> None:
    """The order decides whether look 1 or look 2 crosses, never the verdict."""
    trial = bridge.demo("pro", seed=seed).run()
    assert "adopt" == conclude(trial.context).verdict


def test_swapped_arms_mirror_the_verdict(bridge: Any) -> None:
    """What is adopted over a control is rejected as its control, with negated numbers."""
    answers = rated(bridge, {"A": 0.3, "B": 0.6})
    units = bridge.units(40, 5)
    one = conclude(bridge.trial(units, answers).run().context)
    other = conclude(bridge.trial(units, answers, control="B").run().context)
    assert ("adopt", "reject") == (one.verdict, other.verdict)
    first, second = one.comparisons[0].endpoints[0], other.comparisons[0].endpoints[0]
    assert first.difference is not None
    assert -first.difference == second.difference
    assert "A is worse than B" in other.reason


def test_order_of_outcomes_changes_no_byte(bridge: Any) -> None:
    """Result and long form are the same whatever order the outcomes came in."""
    trial = bridge.trial(bridge.units(30, 5), lambda unit, arm, r: {}, looks=LOOKS)
    decisions = bridge.decisions(trial.plan, rated(bridge, {"A": 0.4, "B": 0.6}), "recorded")
    found = []
    for seed in range(2):
        random.Random(seed).shuffle(decisions)
        outcomes = collect_decisions(decisions, trial.plan.slot_count)
        shuffled = trial.with_outcomes(outcomes).run()
        body = conclude(shuffled.context)
        found.append((body, long_form(shuffled, body)))
    assert found[0] == found[1]


def test_infrastructure_faults_are_no_evidence(bridge: Any) -> None:
    """Two equal arms, 8 of 40 units lost in one: no discordant pair, 8 excluded by id, no win."""
    lost = {f"u{i:02}" for i in range(8)}
    trial = bridge.trial(
        "unit\n" + "\n".join(f"u{i:02}" for i in range(40)) + "\n",
        lambda unit, arm, r: (
            bridge.outcome(status="error", code="exit_75")
            if arm == "A" and unit in lost
            else bridge.outcome(1.0)
        ),
        units="{file: units.csv, id: unit, cluster: none}",
    ).run()
    body, found = conclude(trial.context), first_endpoint(trial)
    assert ("inconclusive", "missing_over_limit") == (body.verdict, body.reason_code)
    assert "8 of 40 units (20.0 %) have no usable outcome; the protocol allows 2 %" == body.reason
    assert (32, 40, sorted(lost)) == (
        found["units"]["paired"],
        found["units"]["planned"],
        sorted(found["units"]["excluded"]),
    )
    assert {"only_control": 0, "only_treatment": 0} == found["discordant"]
    assert "excluded in both arms: 8 of 40 units" in found["warnings"]


def test_wrong_answers_still_count(bridge: Any) -> None:
    """A driver that says the answer was wrong is evidence, unlike a fault."""
    trial = bridge.trial(
        bridge.units(40, 1),
        lambda unit, arm, r: bridge.outcome(float(arm == "B" or unit > "u020")),
        units="{file: units.csv, id: unit, cluster: none}",
    ).run()
    assert "adopt" == conclude(trial.context).verdict


def test_everything_failed_is_no_verdict(bridge: Any) -> None:
    """With errors everywhere the result says so, and no number is made up."""
    trial = bridge.trial(
        bridge.units(10, 4), lambda unit, arm, r: bridge.outcome(status="error")
    ).run()
    body = conclude(trial.context)
    assert ("inconclusive", "missing_over_limit") == (body.verdict, body.reason_code)
    assert body.reason.startswith("40 of 40 units (100.0 %) have no usable outcome")
    assert {"A": {"error": 40}, "B": {"error": 40}} == body.missing
    found = first_endpoint(trial)
    assert (None, None, {"A": None, "B": None}) == (
        found["difference"],
        found["interval"],
        found["arms"],
    )
    assert 0 == found["units"]["paired"]


def test_boundary_ends_with_the_crossing_look(bridge: Any) -> None:
    """After a stop at look 1 the numbers are those of look 1, at its level."""
    trial = bridge.trial(
        bridge.units(60, 5), rated(bridge, {"A": 0.2, "B": 0.8}), looks=LOOKS
    ).run()
    assert "boundary" == trial.context.stopped_by
    body = conclude(trial.context)
    taken = trial.context.taken[0].comparisons[0].endpoints[0]
    found = body.comparisons[0].endpoints[0]
    assert ("adopt", 1) == (body.verdict, body.look)
    assert (taken.estimate, taken.lower, taken.upper) == (
        found.difference,
        found.lower,
        found.upper,
    )
    assert 150 == first_endpoint(trial)["units"]["planned"]


def test_crossing_stays_when_the_run_goes_on(bridge: Any) -> None:
    """With `continue`, what look 1 showed is the verdict, whatever look 2 says."""

    def answers(first: set[str]) -> Any:
        def answer(unit: str, arm: str, replicate: int) -> Any:
            return bridge.outcome(float((arm == "B") == (unit in first)))

        return answer

    looks = "{at: [0.5, 1.0], icc: 0.05, on_crossing: continue}"
    plan = bridge.trial(bridge.units(60, 5), lambda unit, arm, r: {}, looks=looks).plan
    first = {unit for unit in plan.units[:150] if random.Random(unit).random() < 0.8}
    trial = bridge.trial(bridge.units(60, 5), answers(first), looks=looks).run()
    crossed = [look.comparisons[0].endpoints[0].crossed for look in trial.context.taken]
    assert "favourable" == crossed[0]
    body = conclude(trial.context)
    assert ("adopt", "last_look", 2) == (body.verdict, body.stopped_by, body.look)
    assert 1 == long_form(trial)["comparisons"][0]["look"]


def test_person_who_stops_gets_no_verdict(bridge: Any) -> None:
    """However clear the data are, a stop by a person before a crossing decides nothing."""
    trial = bridge.trial(
        bridge.units(60, 5), rated(bridge, {"A": 0.2, "B": 0.8}), looks=LOOKS
    ).ended("person")
    body = conclude(trial.context)
    assert ("inconclusive", "stopped_by_person", 0) == (
        body.verdict,
        body.reason_code,
        body.look,
    )
    assert "a person stopped the run" in body.reason
    assert any("does not keep its level" in text for text in first_endpoint(trial)["warnings"])


def unfinished(bridge: Any, reached: int, **sections: str) -> Any:
    """Returns a trial in which only the first units of the run order are settled."""
    draw = rated(bridge, {"A": 0.25, "B": 0.75})
    plan = bridge.trial(bridge.units(60, 5), lambda unit, arm, r: {}, **sections).plan
    settled = set(plan.units[:reached])
    return bridge.trial(
        bridge.units(60, 5),
        lambda unit, arm, r: draw(unit, arm, r) if unit in settled else {},
        **sections,
    )


def test_ceiling_gives_no_verdict_unless_registered(bridge: Any) -> None:
    """Under-run is inconclusive; `analyse` spends what is left on all complete pairs."""
    stopped = unfinished(bridge, 203).ended("ceiling")
    body = conclude(stopped.context)
    assert ("inconclusive", "under_run") == (body.verdict, body.reason_code)
    analysed = unfinished(bridge, 203, decision=ANALYSE).ended("ceiling")
    body = conclude(analysed.context)
    assert ("adopt", "interval_favours") == (body.verdict, body.reason_code)
    found = first_endpoint(analysed)
    assert (203, 203) == (found["units"]["planned"], found["units"]["paired"])
    assert 0.95 == pytest.approx(found["interval"]["level"])
    assert [] == [text for text in found["warnings"] if "level" in text]
    assert 2 * 97 == long_form(analysed)["units"]["not_run_slots"]


def test_moved_ceiling_is_never_analysed(bridge: Any) -> None:
    """`analyse` isn't for a ceiling that somebody moved, or that lost attempts reached."""
    stopped = unfinished(bridge, 203, decision=ANALYSE).ended("ceiling")
    body = conclude(replace(stopped.context, may_analyse=False))
    assert ("inconclusive", "under_run") == (body.verdict, body.reason_code)


def test_ceiling_after_a_look_spends_the_rest(bridge: Any) -> None:
    """What look 1 spent isn't spent again by the analysis at the ceiling."""
    sections = {"decision": ANALYSE, "looks": LOOKS}
    draw = rated(bridge, {"A": 0.5, "B": 0.55})
    plan = bridge.trial(bridge.units(60, 5), lambda unit, arm, r: {}, **sections).plan
    settled = set(plan.units[:250])
    trial = bridge.trial(
        bridge.units(60, 5),
        lambda unit, arm, r: draw(unit, arm, r) if unit in settled else {},
        **sections,
    )
    trial = trial.take(1).ended("wall_time")
    taken = trial.context.taken[0].comparisons[0].endpoints[0]
    assert (True, "no") == (taken.eligible, taken.crossed)
    assert 0.95 < first_endpoint(trial)["interval"]["level"] < 0.956
    assert 1 == conclude(trial.context).look


def test_harm_rejects_and_is_named(bridge: Any) -> None:
    """Harm comes before the primary's claim, in its own words."""
    trial = bridge.trial(
        bridge.units(60, 5),
        rated(bridge, {"A": 0.2, "B": 0.8}, unsafe={"A": 0.0, "B": 0.4}),
        endpoints=HARM,
        decision=HARM_DECISION,
    ).run()
    body = conclude(trial.context)
    assert ("reject", "harm") == (body.verdict, body.reason_code)
    assert body.reason.startswith("harm endpoint unsafe is worse with B by more than 1.0 points")


def test_harm_that_cannot_speak_leaves_the_claim_open(bridge: Any) -> None:
    """A harm endpoint without enough evidence of its own makes the whole inconclusive."""
    trial = bridge.trial(
        bridge.units(60, 5),
        rated(bridge, {"A": 0.2, "B": 0.8}, unsafe={"A": 0.0, "B": 0.0}),
        endpoints=HARM,
        decision=HARM_DECISION,
    ).run()
    body = conclude(trial.context)
    assert ("inconclusive", "few_discordant_clusters") == (body.verdict, body.reason_code)
    assert body.reason.startswith("harm endpoint unsafe: the arms differ in only 0 of 60 ")
    assert body.reason == long_form(trial, body)["comparisons"][0]["reason"]


def test_worse_inside_the_margin_is_not_adopted(bridge: Any) -> None:
    """Non-inferior and yet shown worse: inconclusive, unless the protocol says adopt."""
    decision = "{{rule: non_inferiority, margin: 0.2, worse_inside_margin: {}}}"
    answers = rated(bridge, {"A": 0.55, "B": 0.5})
    units = bridge.units(80, 5)
    found = [
        conclude(bridge.trial(units, answers, decision=decision.format(word)).run().context)
        for word in ("inconclusive", "adopt")
    ]
    assert ["worse_inside_margin", "within_margin"] == [body.reason_code for body in found]
    assert ["inconclusive", "adopt"] == [body.verdict for body in found]


def test_invalidated_outcomes_void_a_verdict_they_would_change(bridge: Any) -> None:
    """A verdict stands only when both analyses agree; the numbers show the old values."""

    def trial_of(lost: int) -> Any:
        trial = bridge.trial(bridge.units(60, 5), rated(bridge, {"A": 0.2, "B": 0.8})).run()
        for slot in trial.plan.slots():
            if slot.arm == "B" and int(slot.unit[1:4]) < lost and slot.unit.endswith("000"):
                trial.context.outcomes.invalidated[slot.position] = 99
        return trial

    same, other = trial_of(5), trial_of(20)
    assert "adopt" == conclude(same.context).verdict
    body = conclude(other.context)
    assert ("inconclusive", "invalidated") == (body.verdict, body.reason_code)
    said = "without the outcomes that were declared invalid the verdict is inconclusive"
    assert f"{said}, with them adopt" == body.reason
    assert conclude(same.context).comparisons[0].endpoints == body.comparisons[0].endpoints
    assert "outcomes declared invalid: 20; the first analysis" in long_form(other)["warnings"][0]


def test_invalidated_outcomes_bring_the_second_analysis_into_the_long_form(bridge: Any) -> None:
    """Its estimates and limits are those of a run that never had the outcomes."""
    units = bridge.units(60, 5)
    answers = rated(bridge, {"A": 0.2, "B": 0.8}, unsafe={"A": 0.3, "B": 0.4})
    trial = bridge.trial(units, answers, endpoints=BESIDE).run()
    assert "without_invalidated" not in long_form(trial)["comparisons"][0]
    gone = [slot.position for slot in trial.plan.slots() if slot.arm == "B" and slot.unit < "u020"]
    trial.context.outcomes.invalidated.update(dict.fromkeys(gone, 99))
    trial = trial.with_outcomes(trial.context.outcomes)
    (comparison,) = long_form(trial)["comparisons"]
    second = comparison["without_invalidated"]
    clean = bridge.trial(units, answers, endpoints=BESIDE).run()
    for position in gone:
        clean.context.outcomes.status[position - 1] = 1 + STATUSES.index("error")
    (expected,) = long_form(clean)["comparisons"]
    assert ("adopt", "inconclusive") == (second["recorded_verdict"], second["verdict"])
    for found, wanted in zip(second["endpoints"], expected["endpoints"], strict=True):
        assert all(
            found[name] == wanted[name] for name in ("name", "difference", "interval", "arms")
        )
        first = next(one for one in comparison["endpoints"] if one["name"] == found["name"])
        assert first["difference"] != found["difference"]
    text = result_text(long_form(trial))
    assert "ADOPT (interval favours), without them (below) INCONCLUSIVE (more lost" in text
    assert "100 declared invalid" in text
    assert 3 == text.count("passed   "), "two tables and a look"


def note(class_: str, *sections: str) -> AmendNote:
    """Returns one amendment."""
    return AmendNote(
        seq=5, class_=class_, sections=sections, fields=(), outcomes=3, looks_taken=0, reason="why"
    )


def test_only_live_evidence_is_as_registered(bridge: Any) -> None:
    """Live and cached are live; one recorded arm makes the whole recorded."""
    trial = bridge.trial(bridge.units(30, 3), rated(bridge, {"A": 0.4, "B": 0.5})).run()

    def said(**origins: str) -> tuple[str, bool | None, tuple[str, ...]]:
        body = conclude(replace(trial.context, origins=origins))
        return body.evidence, body.as_registered, body.existed_before

    assert ("live", True, ()) == said(A="live", B="cached")
    assert ("recorded", None, ("A",)) == said(A="recorded", B="live")
    assert ("imported", None, ("A", "B")) == said(A="recorded", B="imported")


def test_amendments_end_as_registered_by_their_class(bridge: Any) -> None:
    """A budget is a deviation; a changed analysis is named and ends "as registered"."""
    trial = bridge.trial(
        bridge.units(30, 3), rated(bridge, {"A": 0.4, "B": 0.5}), origin="live"
    ).run()
    budget = replace(trial.context, amends=(note("operational", "budget"),))
    assert (True, ()) == (conclude(budget).as_registered, conclude(budget).amended)
    changed = replace(trial.context, amends=(note("analysis", "missing", "budget"),))
    body = conclude(changed)
    assert (False, ("missing",)) == (body.as_registered, body.amended)


def test_long_form_has_the_documented_shape(bridge: Any) -> None:
    """At least these fields, with these names, for whoever builds on them."""
    found = long_form(bridge.demo("pro").run())
    top = "v experiment verdict reason reason_code evidence existed_before as_registered amended"
    assert {*top.split(), "basis", "units", "comparisons", "spend_usd"} <= set(found)
    assert {"size": 7, "root": "ab" * 32} == found["basis"]
    assert {"A": 0.0, "B": 1.5} == found["spend_usd"]
    assert {"planned", "paired", "clusters", "missing"} <= set(found["units"])
    comparison = found["comparisons"][0]
    assert {"name", "treatment", "control", "verdict", "endpoints", "looks"} <= set(comparison)
    endpoint = (
        "name role arms difference standard_error df interval tests discordant bounds warnings"
    )
    assert set(endpoint.split()) <= set(comparison["endpoints"][0])
    assert {"lower", "upper", "level", "method"} <= set(comparison["endpoints"][0]["interval"])
    row = (
        "look endpoint information_fraction eligible why_not estimate nominal_p t_critical p_value"
    )
    assert {*row.split(), "crossed"} <= set(comparison["looks"][0])
    assert [1, 2] == [each["look"] for each in comparison["looks"]]


def test_long_form_is_the_same_again(bridge: Any) -> None:
    """The same outcomes, looks, basis and costs give the same bytes."""
    trial = bridge.demo("pro").run()
    body = conclude(trial.context)
    make: Callable[[], bytes] = lambda: detail(  # noqa: E731 - one call, twice
        trial.context, body, experiment="trial", basis=HEAD, spend_nanousd={"A": 0, "B": 0}
    )
    assert make() == make()


def test_secondary_endpoint_is_shown_and_never_decides(bridge: Any) -> None:
    """It has numbers at the comparison's alpha, and a warning that it doesn't decide."""
    endpoints = (
        "[{name: passed, role: primary, type: binary, value: passed, better: higher}, "
        "{name: unsafe, role: secondary, type: binary, value: scores.unsafe, better: lower}]"
    )
    trial = bridge.trial(
        bridge.units(60, 5),
        rated(bridge, {"A": 0.2, "B": 0.8}, unsafe={"A": 0.0, "B": 0.5}),
        endpoints=endpoints,
    ).run()
    assert "adopt" == conclude(trial.context).verdict
    found = long_form(trial)["comparisons"][0]["endpoints"][1]
    assert 0.95 == pytest.approx(found["interval"]["level"])
    assert "shown beside: it does not decide" in found["warnings"]


def test_size_of_clusters_that_carries_information_is_said(bridge: Any) -> None:
    """Where the two estimands differ by more than a standard error, a warning says so."""
    rows = [f"u{c:02}-{u:02},c{c:02}" for c in range(30) for u in range(40 if c < 10 else 2)]
    trial = bridge.trial(
        "unit,cluster\n" + "\n".join(rows) + "\n",
        lambda unit, arm, r: bridge.outcome(float((arm == "B") == (unit < "u10" or unit > "u25"))),
        endpoints="[{name: passed, role: primary, type: binary, value: passed, better: higher}]",
    ).run()
    warnings = first_endpoint(trial)["warnings"]
    assert any("how large a cluster is carries information" in text for text in warnings)


def test_arms_that_lose_at_different_rates_are_said(bridge: Any) -> None:
    """30 outcomes lost in one arm and none in the other can hardly be chance."""
    draw = rated(bridge, {"A": 0.5, "B": 0.5})
    trial = bridge.trial(
        bridge.units(60, 5),
        lambda unit, arm, r: (
            bridge.outcome(status="error")
            if arm == "B" and unit.endswith("000") and unit < "u030"
            else draw(unit, arm, r)
        ),
    ).run()
    warnings = first_endpoint(trial)["warnings"]
    assert "the arms lost outcomes at different rates" in warnings


COST = (
    "[{{name: passed, role: primary, type: binary, value: passed, better: higher}}, "
    "{{name: cost, role: {role}, type: cost, value: usd, better: lower, scale: {scale}, missing: "
    "{{failed: value, timeout: value, limit: value, ungraded: value}}}}]"
)


def priced(bridge: Any, prices: dict[str, float]) -> Any:
    """Returns answers in which B is better, at prices that vary by unit."""
    draw = rated(bridge, {"A": 0.2, "B": 0.8})

    def answers(unit: str, arm: str, replicate: int) -> Any:
        level = random.Random(f"{arm}/{unit}").uniform(0.5, 1.5)
        return {**draw(unit, arm, replicate), "cost_nanousd": int(level * prices[arm] * 1e9)}

    return answers


@pytest.mark.parametrize(
    ("price", "verdict", "code"),
    [(0.5, "adopt", "interval_favours"), (0.85, "inconclusive", "no_saving")],
)
def test_declared_saving_is_part_of_the_claim(
    bridge: Any, price: float, verdict: str, code: str
) -> None:
    """The rule holds in both; only the half price is shown to save a fifth."""
    trial = bridge.trial(
        bridge.units(60, 5),
        priced(bridge, {"A": 1.0, "B": price}),
        endpoints=COST.format(role="secondary", scale="both"),
        decision="{rule: superiority, margin: 0.0, saving: {endpoint: cost, at_least: 0.2}}",
    ).run()
    body = conclude(trial.context)
    assert (verdict, code) == (body.verdict, body.reason_code)
    if code == "no_saving":
        assert "the rule holds, but a saving of 20 % on cost is not shown" == body.reason
    cost = long_form(trial)["comparisons"][0]["endpoints"][1]
    assert "log" == cost["log"]["scale"]
    assert cost["log"]["arms"]["B"] < cost["arms"]["B"]


def test_log_scale_compares_ratios(bridge: Any) -> None:
    """On the log scale the difference is the logarithm of the ratio of geometric means."""
    endpoints = COST.format(role="primary", scale="log").replace(
        "{name: passed, role: primary, type: binary, value: passed, better: higher}, ", ""
    )
    trial = bridge.trial(
        bridge.units(60, 5), priced(bridge, {"A": 2.0, "B": 1.0}), endpoints=endpoints
    ).run()
    body, found = conclude(trial.context), first_endpoint(trial)
    assert "adopt" == body.verdict
    ratio = found["arms"]["B"] / found["arms"]["A"]
    assert ratio == pytest.approx(0.5, abs=0.05)
    assert math.log(ratio) == pytest.approx(found["difference"])


def test_crossing_stands_when_a_person_stops(bridge: Any) -> None:
    """What was crossed before isn't undone by whoever ends the run early."""
    looks = "{at: [0.5, 1.0], icc: 0.05, on_crossing: continue}"
    trial = bridge.trial(bridge.units(60, 5), rated(bridge, {"A": 0.2, "B": 0.8}), looks=looks)
    body = conclude(trial.take(1).ended("person").context)
    assert ("adopt", "person", 1) == (body.verdict, body.stopped_by, body.look)


def test_cluster_weighted_estimand_counts_each_cluster_once(bridge: Any) -> None:
    """The mean of cluster means decides, with G - 1 degrees; the pooled one stands beside it."""
    rows = [f"u{c:02}-{u:02},c{c:02}" for c in range(20) for u in range(20 if c < 5 else 2)]
    trial = bridge.trial(
        "unit,cluster\n" + "\n".join(rows) + "\n",
        lambda unit, arm, r: bridge.outcome(
            float(random.Random(f"{unit}{arm}").random() < (0.2 if arm == "A" else 0.7))
        ),
        analysis="{estimand: cluster_weighted}",
    ).run()
    found = first_endpoint(trial)
    assert 19.0 == found["df"]
    assert "cluster_means_t" == found["interval"]["method"]
    means: dict[str, list[float]] = {}
    column = trial.context.outcomes.scores["passed"].values
    for slot in trial.plan.slots():
        sign = 1.0 if slot.arm == "B" else -1.0
        means.setdefault(slot.cluster, []).append(2.0 * sign * column[slot.position - 1])
    expected = sum(sum(each) / len(each) for each in means.values()) / len(means)
    assert expected == pytest.approx(found["difference"])
    assert "unit_weighted" in found["tests"]


def test_gate_comparison_leads_and_each_has_its_own_verdict(bridge: Any) -> None:
    """Of three arms one is better and one worse than control: two verdicts, the gate's on top."""
    driver = "{kind: recorded, file: o.csv, where: {arm: %s}, columns: *}"
    arms = ", ".join(f"{arm}: {{label: {arm}, driver: {driver % arm}}}" for arm in "ABC")
    trial = bridge.trial(
        bridge.units(60, 5),
        rated(bridge, {"A": 0.5, "B": 0.2, "C": 0.8}),
        arms=f"{{{arms}}}",
        decision="{rule: superiority, margin: 0.0, gate: C}",
    ).run()
    body = conclude(trial.context)
    assert "adopt" == body.verdict
    assert {"B": "reject", "C": "adopt"} == {each.name: each.verdict for each in body.comparisons}


def test_event_and_long_form_share_their_numbers(bridge: Any) -> None:
    """They are computed once for a context, again for another one, and are gone with it."""
    trial = bridge.trial(bridge.units(60, 5), rated(bridge, {"A": 0.2, "B": 0.8})).run()
    context = replace(trial.context)
    first = weakref.ref(ended(context).frame)
    conclude(context)
    detail(context, conclude(context), experiment="t", basis=HEAD, spend_nanousd={})
    assert ended(context).frame is first()
    assert ended(trial.context).frame is not first()
    del context
    gc.collect()
    assert first() is None
