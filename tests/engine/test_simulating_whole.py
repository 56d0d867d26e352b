"""A saving and further comparisons are part of the simulated protocol, as of the registered one."""

from __future__ import annotations

import math
from itertools import product
from typing import Any

import msgspec
import numpy as np
import pytest
from scipy.stats import nct, t  # type: ignore[import-untyped]  # scipy ships no types

from fairtrial.engine.assumed_savings import AssumedSaving, pilot_saving
from fairtrial.engine.assuming import Assumed
from fairtrial.engine.assumptions import (
    assumptions_of,
    for_all,
    groups_of,
    implied_comparisons,
)
from fairtrial.engine.assumptions_file import Stated, StatedComparison
from fairtrial.engine.power_file import parse_power_report
from fairtrial.engine.simulating import simulate
from fairtrial.engine.simulation_report import Simulation
from fairtrial.ledger.errors import RefusedError
from fairtrial.verdicts.look_table import power_findings

SINGLE = "{file: units.csv, id: unit, cluster: none}"
EXCLUDED = (
    "{rules: {failed: exclude_pair, timeout: exclude_pair, limit: exclude_pair, error: "
    "exclude_pair, ungraded: exclude_pair, replay_miss: exclude_pair, invalidated: exclude_pair}, "
    "limit: 0.2}"
)
PRIMARY = "{name: passed, role: primary, type: binary, value: passed, better: higher}"
COST = "{name: usd, role: secondary, type: cost, value: usd, better: lower, scale: %s}"
SAVED = "{rule: non_inferiority, margin: 0.45, saving: {endpoint: usd, at_least: 0.2}}"
PAIRS = Assumed(discordance=0.5, sd=None, icc=0.0, missing=0.0, source="protocol")
SAVING = AssumedSaving(endpoint="usd", scale="log", ratio=0.7, sd=0.5, icc=0.0, source="file")


def arms(*names: str) -> str:
    """Returns recorded arms of these names."""
    driver = "{kind: recorded, file: o.csv, where: {arm: %s}, columns: *}"
    each = ", ".join(f"{name}: {{driver: {driver % name}}}" for name in names)
    return "{" + each.replace("columns: *", "columns: {unit: unit, passed: passed}") + "}"


def several(*pairs: str, share: str = "0.5") -> str:
    """Returns an analysis whose comparisons are named treatment-control."""
    rows = [
        f"{{name: {pair}, treatment: {pair[0]}, control: {pair[2]}, share: {share}}}"
        for pair in pairs
    ]
    return f"{{estimand: unit_weighted, comparisons: [{', '.join(rows)}]}}"


def of_saving(
    bridge: Any, saving: AssumedSaving, *, scale: str, runs: int, size: int = 60, **options: Any
) -> Simulation:
    """Returns a simulation in which the primary holds nearly always, so that the saving decides."""
    trial = bridge.trial(
        bridge.units(size, 1),
        lambda u, a, r: {},
        endpoints=f"[{PRIMARY}, {COST % scale}]",
        missing=EXCLUDED,
        decision=SAVED,
        **{"units": SINGLE, **options},
    )
    assumed = for_all(trial.protocol, PAIRS, saving)
    return simulate(
        trial.protocol, trial.plan, trial.units, assumed, effect=0.0, runs=runs, seed=5, checked=5
    )


@pytest.mark.parametrize("scale", ["log", "both"])
@pytest.mark.parametrize("size", [{"sd": 1000.0}, {"sd": 0.5, "level_sd": 1000.0}])
def test_values_that_no_outcome_can_have_are_refused(
    bridge: Any, scale: str, size: dict[str, float]
) -> None:
    """A spread under which costs overflow is no assumption: nothing is said of its power."""
    saving = msgspec.structs.replace(SAVING, level_sd=0.8)
    with pytest.raises(RefusedError, match="draws values that no outcome can have"):
        of_saving(bridge, msgspec.structs.replace(saving, **size), scale=scale, runs=1)


@pytest.mark.slow
def test_a_saving_on_the_log_scale_has_the_power_of_its_t_test(bridge: Any) -> None:
    """With known normal log ratios power is that of noncentral t; at the least saving 2.5 %."""
    runs, n = 500, 60
    found = of_saving(bridge, SAVING, scale="log", runs=runs)
    at_effect, at_border, at_saving = found.cases
    shift = (math.log(0.8) - math.log(0.7)) / (0.5 / math.sqrt(n))
    power = float(nct.sf(t.ppf(0.975, n - 1), n - 1, shift))
    error = math.sqrt(power * (1.0 - power) / runs)
    assert at_effect.intended == pytest.approx(power, abs=4.0 * error)
    assert at_effect.reasons["no_saving"] == pytest.approx(1.0 - power, abs=4.0 * error)
    assert at_saving.intended == pytest.approx(0.025, abs=4.0 * math.sqrt(0.025 / runs))
    assert ("at_saving_border", 0.0) == (at_saving.name, at_saving.effect)
    assert at_border.intended < 0.05
    assert found.agreed == found.checked == 15


def shown_by_hand(ratio: float, *, mean: float, sd: float, level: float, n: int) -> float:
    """Returns how often a saving of 20 % is shown on the raw scale, by a plain program."""
    rng = np.random.default_rng(8)
    difference = rng.normal(mean * (ratio - 1.0), sd, (20_000, n))
    middle = rng.normal(mean * (1.0 + ratio) / 2.0, level, (20_000, n))
    contrast = 0.2 * (middle - difference / 2.0) + difference
    error = contrast.std(axis=1, ddof=1) / math.sqrt(n)
    return float((contrast.mean(axis=1) + t.ppf(0.975, n - 1) * error < 0.0).mean())


@pytest.mark.slow
def test_a_saving_on_the_raw_scale_has_the_power_of_a_plain_program(bridge: Any) -> None:
    """A level that varies blurs the contrast, and at the least saving 2.5 % pass all the same."""
    runs, n = 400, 60
    saving = msgspec.structs.replace(
        SAVING, scale="raw", ratio=0.62, sd=4.0, mean=10.0, level_sd=25.0, level_icc=0.0
    )
    found = of_saving(bridge, saving, scale="raw", runs=runs)
    at_effect, _, at_saving = found.cases
    for case, ratio in ((at_effect, 0.62), (at_saving, 0.8)):
        share = shown_by_hand(ratio, mean=10.0, sd=4.0, level=25.0, n=n)
        error = math.sqrt(share * (1.0 - share) / runs)
        assert case.intended == pytest.approx(share, abs=4.0 * error)
    assert at_saving.intended == pytest.approx(0.025, abs=4.0 * math.sqrt(0.025 / runs))
    assert found.agreed == found.checked


@pytest.mark.slow
def test_a_level_that_varies_costs_power_on_the_raw_scale_alone(bridge: Any) -> None:
    """A claim on both scales needs the raw one too, where large units weigh more."""
    calm, wild = (
        msgspec.structs.replace(SAVING, ratio=0.6, level_sd=spread, level_icc=0.0)
        for spread in (0.0, 1.2)
    )
    powers = [
        of_saving(bridge, each, scale=scale, runs=80).cases[0].intended
        for scale, each in product(("log", "both"), (calm, wild))
    ]
    log_calm, log_wild, both_calm, both_wild = powers
    assert log_calm == log_wild
    assert both_wild < both_calm - 0.15
    assert both_calm <= log_calm


def of_arms(
    bridge: Any, analysis: str, names: str, *, runs: int, effect: float | None = 0.12, **more: Any
) -> Simulation:
    """Returns a simulation of several comparisons over 60 single units."""
    gate = analysis.partition("name: ")[2][:3]
    stated = more.pop("stated", None)
    trial = bridge.trial(
        bridge.units(more.pop("size", 150), 1),
        lambda u, a, r: {},
        units=SINGLE,
        arms=arms(*names),
        control=names[0],
        analysis=analysis,
        missing=EXCLUDED,
        decision=f"{{rule: superiority, gate: {gate}}}",
        power="{effect: 0.12, assume: {discordance: 0.3}}",
        **more,
    )
    assumed = assumptions_of(trial.protocol, stated, None)
    assert assumed is not None
    return simulate(
        trial.protocol,
        trial.plan,
        trial.units,
        assumed,
        effect=effect,
        runs=runs,
        seed=3,
        checked=6,
    )


@pytest.mark.slow
def test_comparisons_of_other_arms_win_together_by_the_product(bridge: Any) -> None:
    """Pairs of arms that have none in common are independent: all win by the product."""
    runs = 350
    found = of_arms(bridge, several("B-A", "D-C"), "ABCD", runs=runs)
    case = found.cases[0]
    one, other = case.comparisons["B-A"], case.comparisons["D-C"]
    assert one == case.intended
    assert one == pytest.approx(other, abs=0.08)
    assert case.all_intended is not None
    assert case.all_intended == pytest.approx(one * other, abs=4.0 * math.sqrt(0.25 / runs))
    assert case.any_intended == pytest.approx(one + other - case.all_intended)
    assert found.agreed == found.checked


def of_primaries(bridge: Any, *endpoints: str, primaries: str, runs: int) -> Simulation:
    """Returns a simulation of primaries over 150 single units."""
    combined = f", primaries: {primaries}" if len(endpoints) > 1 else ""
    trial = bridge.trial(
        bridge.units(150, 1),
        lambda u, a, r: {},
        units=SINGLE,
        endpoints=f"[{', '.join(endpoints)}]",
        missing=EXCLUDED,
        decision=f"{{rule: superiority{combined}}}",
    )
    pairs = msgspec.structs.replace(PAIRS, discordance=0.3)
    assumed = for_all(trial.protocol, pairs)
    return simulate(
        trial.protocol, trial.plan, trial.units, assumed, effect=0.12, runs=runs, seed=3, checked=3
    )


@pytest.mark.slow
def test_primaries_that_must_all_win_win_by_the_product(bridge: Any) -> None:
    """Each has an effect in its own better direction; of two that may win, one is enough."""
    runs, lower = 250, PRIMARY.replace("higher", "lower").replace("passed,", "unsafe,", 1)
    lower = lower.replace("value: passed", "value: scores.unsafe")
    alone = of_primaries(bridge, PRIMARY, primaries="all", runs=runs).cases[0].intended
    other = of_primaries(bridge, lower, primaries="all", runs=runs).cases[0]
    assert (-0.12, True) == (other.effect, other.intended > 0.5)
    both, either = (
        of_primaries(bridge, PRIMARY, lower, primaries=word, runs=runs).cases[0].intended
        for word in ("all", "any")
    )
    assert both == pytest.approx(alone * other.intended, abs=4.0 * math.sqrt(0.25 / runs))
    assert either > max(alone, other.intended)


@pytest.mark.slow
def test_holm_gives_more_power_than_shares_and_keeps_the_error(bridge: Any) -> None:
    """The second of two wins steps down to the whole alpha; false claims stay below 5 %."""
    runs = 250
    fixed = of_arms(bridge, several("B-A", "C-A"), "ABC", runs=runs)
    holm = of_arms(bridge, several("B-A", "C-A", share="holm"), "ABC", runs=runs)
    for name, share in fixed.cases[0].comparisons.items():
        assert holm.cases[0].comparisons[name] > share
    assert fixed.cases[0].any_intended == holm.cases[0].any_intended
    for found in (fixed, holm):
        error = found.cases[1].any_intended
        assert error is not None
        assert 0.01 < error < 0.05 + 4.0 * math.sqrt(0.05 / runs)
        assert found.agreed == found.checked


@pytest.mark.slow
def test_a_run_goes_on_until_every_comparison_is_decided(bridge: Any) -> None:
    """A second comparison that never decides lets no run end early; a sure one does."""
    looks = "{at: [0.5, 1.0]}"
    stated = {
        effect: Stated(
            assumptions=1,
            source="a test",
            comparisons={"C-A": StatedComparison(effect=effect, discordance=0.4)},
        )
        for effect in (0.0, 0.4)
    }
    never, surely = (
        of_arms(bridge, several("B-A", "C-A"), "ABC", runs=60, effect=0.3, looks=looks, stated=each)
        for each in stated.values()
    )
    assert never.cases[0].stops[0] < 0.1
    assert surely.cases[0].stops[0] > 0.5
    assert never.cases[0].expected_units > surely.cases[0].expected_units + 20
    assert never.agreed == never.checked


def test_a_comparison_of_arms_that_others_draw_is_implied(bridge: Any) -> None:
    """Of a circle the last comparison follows; at the border it isn't counted as one."""
    found = of_arms(bridge, several("B-A", "C-A", "C-B", share="0.3"), "ABC", runs=4)
    assert [None] == [each.pairs for each in found.assumptions if each.comparison == "C-B"]
    assert {"B-A", "C-A", "C-B"} == set(found.cases[0].comparisons)
    assert {"B-A", "C-A"} == set(found.cases[1].comparisons)
    assert () == found.not_simulated


def test_arms_are_drawn_from_the_gate_on(bridge: Any) -> None:
    """The gate's pair comes first; a comparison of other arms is a group of its own."""
    protocol = bridge.protocol(
        arms=arms("A", "B", "C", "D", "E"),
        analysis=several("E-D", "C-B", "B-A", share="0.3"),
        decision="{rule: superiority, gate: B-A}",
    )
    walked = [
        [(step.comparison.name, step.known, step.drawn) for step in group]
        for group in groups_of(protocol)
    ]
    assert [[("B-A", "A", "B"), ("C-B", "B", "C")], [("E-D", "D", "E")]] == walked
    assert frozenset() == implied_comparisons(protocol)


def test_arms_in_common_share_what_belongs_to_the_arm(bridge: Any) -> None:
    """Comparisons with a common arm use the mean icc and loss; the report shows what was used."""
    rows = {"B-A": (0.02, 0.0), "C-A": (0.06, 0.1)}
    stated = Stated(
        assumptions=1,
        source="a test",
        comparisons={
            name: StatedComparison(discordance=0.3, icc=icc, missing=missing)
            for name, (icc, missing) in rows.items()
        },
    )
    protocol = bridge.protocol(
        arms=arms("A", "B", "C"),
        analysis=several("B-A", "C-A"),
        decision="{rule: superiority, gate: B-A}",
    )
    found = assumptions_of(protocol, stated, None)
    assert found is not None
    for each in found:
        assert each.pairs is not None
        assert (0.04, 0.05) == pytest.approx((each.pairs.icc, each.pairs.missing))
        assert "file" == each.pairs.source


def test_what_decides_and_is_not_assumed_is_asked_for(bridge: Any) -> None:
    """A saving without a ratio, or a comparison without a spread, is refused and never guessed."""
    power = "{effect: 0.0, assume: {discordance: 0.2}}"
    saving = bridge.protocol(
        units=SINGLE,
        endpoints=f"[{PRIMARY}, {COST % 'log'}]",
        missing=EXCLUDED,
        decision=SAVED,
        power=power,
    )
    with pytest.raises(RefusedError, match="a saving, of which nothing is assumed"):
        assumptions_of(saving, None, None)
    two = bridge.protocol(
        units=SINGLE,
        arms=arms("A", "B", "C"),
        analysis=several("B-A", "C-A"),
        decision="{rule: superiority, gate: B-A}",
    )
    only_gate = {"B-A": StatedComparison(discordance=0.2)}
    stated = Stated(assumptions=1, source="a test", comparisons=only_gate)
    with pytest.raises(RefusedError, match="has to draw") as refused:
        assumptions_of(two, stated, None)
    assert "comparison C-A" == refused.value.where
    assert assumptions_of(two, None, None) is None


def test_assumptions_that_exclude_each_other_are_refused(bridge: Any) -> None:
    """Arm A can't lose to C in more units than A is right in."""
    rows = {
        "B-A": StatedComparison(effect=0.9, discordance=0.9),
        "C-A": StatedComparison(effect=-0.5, discordance=0.5),
    }
    stated = Stated(assumptions=1, source="a test", comparisons=rows)
    with pytest.raises(RefusedError, match="can't both be true") as refused:
        of_arms(
            bridge,
            several("B-A", "C-A"),
            "ABC",
            runs=1,
            stated=stated,
        )
    assert "comparison C-A: passed" == refused.value.where


def test_a_pilot_shows_ratio_spread_and_level(bridge: Any) -> None:
    """A saving's assumption is counted from the pilot's own costs, on the log scale."""

    def answers(unit: str, arm: str, replicate: int) -> Any:
        cost = 2.0 ** int(unit[-1]) * (1.0 if arm == "A" else 0.25)
        return bridge.outcome(1, cost_nanousd=round(cost * 1e9))

    endpoints = f"[{PRIMARY}, {COST % 'both'}]"
    sections = {"endpoints": endpoints, "missing": EXCLUDED, "decision": SAVED}
    pilot = bridge.trial(bridge.units(4, 8), answers, **sections)
    endpoint = pilot.protocol.endpoints[1]
    comparison = pilot.protocol.analysis.comparisons[0]
    found = pilot_saving(pilot.protocol, pilot.context, comparison, endpoint)
    assert ("log", "pilot", 32) == (found.scale, found.source, found.units)
    assert (0.25, 0.0) == pytest.approx((found.ratio, found.sd), abs=1e-12)
    assert found.mean == pytest.approx(2.0**3.5)
    spread = math.log(2.0) * math.sqrt(sum((k - 3.5) ** 2 for k in range(8)) * 4 / 31)
    assert (spread, 0.0) == pytest.approx((found.level_sd, found.level_icc))


def test_a_report_without_all_that_decides_is_refused_by_the_freeze(bridge: Any) -> None:
    """A report that left the saving out, as earlier ones did, leads over no formula."""
    power = "{effect: 0.0, assume: {discordance: 0.5}}"
    found = of_saving(bridge, SAVING, scale="log", runs=100, power=power)
    trial = bridge.trial(
        bridge.units(60, 1),
        lambda u, a, r: {},
        endpoints=f"[{PRIMARY}, {COST % 'log'}]",
        missing=EXCLUDED,
        decision=SAVED,
        units=SINGLE,
        power=power,
    )
    data = msgspec.json.encode({"v": 1, "simulation": found})
    lead = parse_power_report(data, trial.protocol, trial.plan)
    assert lead.power == found.cases[0].intended
    report = power_findings(trial.protocol, trial.plan, trial.units, simulated=lead)
    assert ("underpowered" in report.findings) is (lead.power < 0.8)
    without = msgspec.structs.replace(found, assumptions=())
    old = msgspec.json.encode({"v": 1, "simulation": without})
    with pytest.raises(RefusedError, match="isn't one of this plan") as refused:
        parse_power_report(old, trial.protocol, trial.plan)
    assert "a simulation of all that decides" == refused.value.expected
    case = msgspec.structs.replace(found.cases[0], effect=0.02)
    other = msgspec.structs.replace(found, cases=(case, *found.cases[1:]))
    with pytest.raises(RefusedError, match="isn't one of this plan") as refused:
        parse_power_report(
            msgspec.json.encode({"v": 1, "simulation": other}), trial.protocol, trial.plan
        )
    assert ("the registered effect, 0", "0.02") == (refused.value.expected, refused.value.found)
    assert "without an effect of comparison B in --assume" in refused.value.todo


def test_same_seed_same_report(bridge: Any) -> None:
    """Savings and arms in common are drawn from the seed alone."""
    first, second = (of_saving(bridge, SAVING, scale="log", runs=3) for _ in range(2))
    assert first == second
    one, two = (of_arms(bridge, several("B-A", "C-A"), "ABC", runs=3) for _ in range(2))
    assert one == two
