"""Each unit in one arm: the list that is frozen, and a whole experiment on it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from hashlib import sha256
from typing import TYPE_CHECKING, Any

import msgspec
import numpy as np
import pytest

from fairtrial.analysis.assigned import assigned_difference
from fairtrial.analysis.paired import ClusteredMean
from fairtrial.engine.assuming import assumed_by
from fairtrial.engine.assumptions import for_all
from fairtrial.engine.simulating import simulate
from fairtrial.ledger.errors import ProtocolError
from fairtrial.ledger.events import Head
from fairtrial.ledger.protocol import Assign
from fairtrial.protocols.assigning import assign_arms, plan_of
from fairtrial.protocols.plan import parse_plan, plan_lines
from fairtrial.protocols.units import Units
from fairtrial.verdicts.conclude import conclude
from fairtrial.verdicts.evaluate import frame_of
from fairtrial.verdicts.result_detail import detail

if TYPE_CHECKING:
    from tests.conftest import Bridge, Trial

RATIO = {"A": 1, "B": 1}
DESIGN = "{pairing: assigned, seed: 7, assign: {by: unit, ratio: {A: 1, B: 1}, within: cluster}}"
BY_CLUSTER = "{pairing: assigned, seed: 7, assign: {by: cluster, ratio: {A: 1, B: 1}}}"


def _units(sizes: list[int], strata: list[str] | None = None) -> Units:
    ids = [f"u{c}-{u}" for c, size in enumerate(sizes) for u in range(size)]
    clusters = [f"c{c}" for c, size in enumerate(sizes) for _ in range(size)]
    families = None
    if strata is not None:
        families = tuple(strata[c] for c, size in enumerate(sizes) for _ in range(size))
    return Units(ids=tuple(ids), clusters=tuple(clusters), strata=families)


def _share(name: str, arm: str) -> float:
    """An outcome that depends on the unit, its cluster and the arm alone, of no random library."""

    def draw(text: str) -> float:
        return int.from_bytes(sha256(text.encode()).digest()[:4], "big") / 2**32

    shift = 0.25 * (draw(name.split("-")[0]) - 0.5)
    return float(draw(name) + shift < (0.8 if arm == "B" else 0.4))


def test_ratio_is_met_exactly_where_integers_allow() -> None:
    """60 units at 2:1 without scopes are 40 and 20, whatever the seed."""
    for seed in range(5):
        arms = assign_arms(_units([6] * 10), Assign(by="unit", ratio={"A": 2, "B": 1}), seed=seed)
        assert Counter(arms) == {"A": 40, "B": 20}


@pytest.mark.parametrize("ratio", [{"A": 1, "B": 1}, {"A": 2, "B": 1}, {"A": 1, "B": 3, "C": 2}])
@pytest.mark.parametrize("within", ["cluster", "stratum"])
def test_ratio_is_as_near_as_integers_allow_in_every_scope_and_in_all(
    ratio: dict[str, int], within: Any
) -> None:
    """In each scope an arm's units are its share rounded down or up; over all, within one scope."""
    sizes = [1, 2, 3, 1, 1, 5, 7, 1, 4, 2, 1, 1, 9]
    units = _units(sizes, [f"s{c % 3}" for c in range(len(sizes))])
    arms = assign_arms(units, Assign(by="unit", ratio=ratio, within=within), seed=11)
    scopes = units.clusters if within == "cluster" else units.strata
    assert scopes is not None
    whole = sum(ratio.values())
    for scope in set(scopes):
        own = [arm for arm, name in zip(arms, scopes, strict=True) if name == scope]
        for arm, part in ratio.items():
            assert abs(own.count(arm) - len(own) * part / whole) < 1.0
    for arm, part in ratio.items():
        assert abs(arms.count(arm) - len(arms) * part / whole) <= 1.0


def test_assignment_is_the_ranking_by_hash() -> None:
    """The first half of the ranking by SHA-256 is in the first arm: anyone can check the list."""
    units = _units([4] * 3)
    arms = assign_arms(units, Assign(by="unit", ratio=RATIO), seed=5)

    def key(unit: str) -> bytes:
        return sha256(f"fairtrial/1/assign\0005\0\0{unit}".encode()).digest()

    ranked = sorted(units.ids, key=key)
    assert set(ranked[:6]) == {u for u, arm in zip(units.ids, arms, strict=True) if arm == "A"}


def test_assignment_follows_neither_the_order_of_units_nor_of_arms() -> None:
    """The same units and seed give the same list, in any order; another seed gives another."""
    units = _units([5, 3, 8, 2])
    turned = Units(ids=units.ids[::-1], clusters=units.clusters[::-1])
    assign = Assign(by="unit", ratio=RATIO, within="cluster")
    other = Assign(by="unit", ratio={"B": 1, "A": 1}, within="cluster")

    first = assign_arms(units, assign, seed=1)

    assert first == assign_arms(turned, assign, seed=1)[::-1] == assign_arms(units, other, seed=1)
    assert first != assign_arms(units, assign, seed=2)


def test_whole_clusters_keep_their_units_together() -> None:
    """By cluster, all units of a cluster are in one arm, and clusters follow the ratio."""
    units = _units([3, 9, 1, 4, 4, 6])
    arms = assign_arms(units, Assign(by="cluster", ratio=RATIO), seed=3)
    of_cluster = dict(zip(units.clusters, arms, strict=True))
    assert len(set(zip(units.clusters, arms, strict=True))) == 6
    assert Counter(of_cluster.values()) == {"A": 3, "B": 3}


def test_plan_has_one_arm_a_unit_and_is_read_back(bridge: Bridge) -> None:
    """The frozen plan is the assignment list: each unit once, and the blob says the same."""
    protocol = bridge.protocol(design=DESIGN)
    plan = plan_of(protocol, _units([4] * 6))
    assert Counter(slot.unit for slot in plan.slots()) == dict.fromkeys(plan.units, 1)
    assert parse_plan(plan_lines(plan)) == plan


def test_what_the_units_do_not_allow_is_refused(bridge: Bridge) -> None:
    """An arm without a unit, a cluster in two strata, clusters without an arm: named, with why."""
    cases: list[tuple[str, Mapping[str, str], Units]] = [
        ("gets no unit", {"design": DESIGN.replace("A: 1", "A: 9")}, _units([1, 1])),
        (
            "lies in two strata",
            {
                "design": BY_CLUSTER.replace("}}}", "}, within: stratum}}"),
                "units": "{file: units.csv, id: unit, cluster: cluster, stratum: s}",
            },
            Units(ids=("a", "b", "c"), clusters=("x", "x", "y"), strata=("1", "2", "1")),
        ),
        (
            "no unit in some arm",
            {"design": DESIGN, "analysis": "{estimand: cluster_weighted, alpha: 0.05}"},
            _units([1, 4, 4]),
        ),
    ]
    for words, sections, units in cases:
        with pytest.raises(ProtocolError, match=words):
            plan_of(bridge.protocol(**sections), units)


def test_types_that_need_the_truth_are_not_supported_yet(bridge: Bridge) -> None:
    """An AUC between other units in each arm is understood and refused before any run."""
    endpoints = "[{name: a, role: primary, type: auc, value: score, better: higher}]"
    rules = bridge.text()
    assert "exclude_pair" in rules
    with pytest.raises(ProtocolError, match="not supported by this version"):
        bridge.protocol(
            design=DESIGN,
            endpoints=endpoints,
            units="{file: units.csv, id: unit, cluster: cluster, label: l}",
            missing="{rules: {failed: refuse, timeout: refuse, limit: refuse, error: exclude_pair,"
            " ungraded: exclude_pair, replay_miss: exclude_pair, invalidated: exclude_pair},"
            " limit: 0.02}",
        )


def _trial(bridge: Bridge, design: str, **sections: str) -> Trial:
    """An experiment whose treatment is better."""

    def answers(unit: str, arm: str, replicate: int) -> Mapping[str, object]:
        return bridge.outcome(_share(unit, arm))

    return bridge.trial(bridge.units(30, 8), answers, origin="recorded", design=design, **sections)


@pytest.mark.parametrize("estimand", ["unit_weighted", "cluster_weighted"])
@pytest.mark.parametrize("design", [DESIGN, BY_CLUSTER])
def test_result_is_the_difference_of_means_between_units(
    bridge: Bridge, design: str, estimand: Any
) -> None:
    """Estimate, interval and verdict are those of the estimator on the outcomes as they are."""
    analysis = f"{{estimand: {estimand}, alpha: 0.05}}"
    trial = _trial(bridge, design, analysis=analysis, looks="{at: [0.5, 1.0], icc: 0.05}").run()
    last = trial.plan.slot_count
    slots = [slot for slot in trial.plan.slots() if slot.position <= last]
    clusters = {name: code for code, name in enumerate(sorted({s.cluster for s in slots}))}

    if len(trial.context.taken) == 1:
        slots = slots[: trial.context.looks[0].last]
    found = assigned_difference(
        np.array([_share(slot.unit, slot.arm) for slot in slots]),
        np.array([slot.arm == "B" for slot in slots]),
        np.array([clusters[slot.cluster] for slot in slots]),
        estimand=estimand,
    )

    endpoint = trial.context.taken[-1].comparisons[0].endpoints[0]
    assert isinstance(found, ClusteredMean)
    assert endpoint.estimate == pytest.approx(found.estimate)
    assert endpoint.standard_error == pytest.approx(found.standard_error)
    assert endpoint.df == pytest.approx(found.df)
    assert endpoint.discordant_clusters is None
    assert conclude(trial.context).verdict == "adopt"


def test_every_unit_out_of_another_arm_stays_out_of_a_comparison(bridge: Bridge) -> None:
    """With three arms, a comparison holds the units of its two arms alone."""
    driver = "{kind: recorded, file: o.csv, where: {arm: *}, columns: {unit: unit, passed: passed}}"
    arms = ", ".join(
        f"{name}: {{label: {name}, driver: {driver.replace('*', name)}}}" for name in "ABC"
    )
    design = DESIGN.replace("B: 1}", "B: 1, C: 2}")
    trial = _trial(
        bridge, design, arms=f"{{{arms}}}", decision="{rule: superiority, gate: B}"
    ).run()
    by_arm = Counter(slot.arm for slot in trial.plan.slots())
    found = {each.name: each.endpoints[0].n for each in trial.context.taken[0].comparisons}
    assert found == {"B": by_arm["A"] + by_arm["B"], "C": by_arm["A"] + by_arm["C"]}


def _detail(trial: Trial) -> Any:
    body = conclude(trial.context)
    head = Head(size=1, root="0" * 64)
    blob = detail(trial.context, body, experiment="trial", basis=head, spend_nanousd={})
    return msgspec.json.decode(blob)


@pytest.mark.parametrize("design", [DESIGN, BY_CLUSTER])
def test_uneven_loss_voids_the_verdict_where_registered(bridge: Bridge, design: str) -> None:
    """A mismatched sample ratio is always shown; as a gate it leaves the verdict open."""
    missing = (
        "{rules: {failed: failure, timeout: failure, limit: failure, error: exclude_pair,"
        " ungraded: exclude_pair, replay_miss: exclude_pair, invalidated: exclude_pair},"
        " limit: 0.2}"
    )

    def answers(unit: str, arm: str, replicate: int) -> Mapping[str, object]:
        if arm == "A" and unit.endswith("1"):
            return bridge.outcome(status="error")
        return bridge.outcome(_share(unit, arm))

    for effect, verdict in (("show", "adopt"), ("inconclusive", "inconclusive")):
        trial = bridge.trial(
            bridge.units(30, 8),
            answers,
            design=design,
            missing=missing,
            diagnostics=f"{{sample_ratio: {effect}}}",
        ).run()
        body = conclude(trial.context)
        assert body.verdict == verdict
        found = _detail(trial)["comparisons"][0]
        ratio = next(each for each in found["diagnostics"] if each["name"] == "sample_ratio")
        assert ratio["positive"]
        assert "the arms lost outcomes at different rates" in found["endpoints"][0]["warnings"]


def test_detail_says_how_units_were_assigned_and_compares_no_pairs(bridge: Bridge) -> None:
    """Beside stands the other estimand; no test of one unit's two outcomes is shown."""
    found = _detail(_trial(bridge, DESIGN).run())["comparisons"][0]
    endpoint = found["endpoints"][0]
    assert found["assigned"] == {
        "by": "unit",
        "within": "cluster",
        "units": {"A": 120, "B": 120},
        "noun": "units",
    }
    assert set(endpoint["tests"]) == {"cr2_t", "cluster_weighted"}
    assert endpoint["discordant"] is None
    names = {each["name"] for each in found["diagnostics"]}
    assert names == {"served_model", "sample_ratio", "informative_size"}


def test_lost_units_leave_their_arm_and_their_tipping_point_is_walked(bridge: Bridge) -> None:
    """A lost unit leaves the arm that it is in; the bounds fill it in both ways, there alone."""

    def answers(unit: str, arm: str, replicate: int) -> Mapping[str, object]:
        lost = unit in ("u003-000", "u004-001", "u005-002")
        return bridge.outcome(status="error") if lost else bridge.outcome(_share(unit, arm))

    found = _detail(bridge.trial(bridge.units(30, 8), answers, design=DESIGN).run())
    endpoint = found["comparisons"][0]["endpoints"][0]
    assert sum(endpoint["units"]["lost"].values()) == 3
    assert endpoint["units"]["paired"] == 237
    assert endpoint["tipping"]["lost"] == 3
    assert endpoint["bounds"]["lower"] < endpoint["interval"]["lower"]
    assert any("from the arm that they are in" in text for text in endpoint["warnings"])


def test_few_whole_clusters_cannot_reach_a_verdict(bridge: Bridge) -> None:
    """Six clusters, three in each arm, could be told apart by chance in 1 of 10: not eligible."""
    trial = bridge.trial(
        bridge.units(6, 8), lambda u, arm, r: bridge.outcome(_share(u, arm)), design=BY_CLUSTER
    ).run()
    body = conclude(trial.context)
    assert (body.verdict, body.reason_code) == ("inconclusive", "few_clusters")


@pytest.mark.slow
def test_thousands_of_single_units_reach_a_verdict(bridge: Bridge) -> None:
    """2,200 units without clusters have more ways to be assigned than a float holds."""
    trial = bridge.trial(
        bridge.units(2200, 1),
        lambda u, arm, r: bridge.outcome(_share(u, arm)),
        units="{file: units.csv, id: unit, cluster: none}",
        design=DESIGN.replace(", within: cluster", ""),
    ).run()
    assert conclude(trial.context).verdict == "adopt"


def test_arms_without_variance_have_no_interval(bridge: Bridge) -> None:
    """All of A fail and all of B pass: no variance, so no interval and no claim."""
    trial = bridge.trial(
        bridge.units(12, 6), lambda u, arm, r: bridge.outcome(float(arm == "B")), design=DESIGN
    ).run()
    body = conclude(trial.context)
    assert (body.verdict, body.reason_code) == ("inconclusive", "zero_variance")
    assert body.reason.startswith("within each arm every cluster shows the same")
    assert frame_of(trial.context).status.all()


@pytest.mark.parametrize("clusters", [12, 30])
@pytest.mark.slow
def test_equal_arms_rarely_reach_a_verdict(bridge: Bridge, clusters: int) -> None:
    """Through assignment, two looks, guards and verdict: false verdicts at most 5 of 100 or so."""
    protocol = bridge.protocol(
        design=DESIGN,
        looks="{at: [0.5, 1.0], icc: 0.05}",
        power="{effect: 0.3, assume: {sd: 0.49, icc: 0.05}}",
    )
    sizes = [4 + 3 * (c % 5) for c in range(clusters)]
    units, assumed = _units(sizes), assumed_by(protocol)
    assert assumed is not None

    found = simulate(
        protocol,
        plan_of(protocol, units),
        units,
        for_all(protocol, assumed),
        effect=None,
        runs=300,
        seed=3,
        checked=2,
    )

    assert found.agreed == found.checked
    assert 0.015 <= found.cases[0].intended <= 0.08
