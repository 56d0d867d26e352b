"""What is known before any outcome: where looks fall, who may decide there, what can be found."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from fairtrial.ledger.errors import ProtocolError
from fairtrial.ledger.events import LookTest
from fairtrial.verdicts.boundaries import tests_of as all_tests
from fairtrial.verdicts.look_table import PowerReport, look_table, power_blob, power_findings

TWO_PRIMARIES = (
    "[{name: passed, role: primary, type: binary, value: passed, better: higher}, "
    "{name: score, role: primary, type: continuous, value: score, better: higher, missing: "
    "{failed: exclude_pair, timeout: exclude_pair, limit: exclude_pair}}]"
)
HARM = (
    "[{name: passed, role: primary, type: binary, value: passed, better: higher}, "
    "{name: unsafe, role: harm, type: binary, value: scores.unsafe, better: lower}]"
)
LOOKS = "{at: [0.5, 1.0], icc: 0.05}"


def empty(bridge: Any, clusters: int, size: int, **sections: str) -> Any:
    """Returns a trial of equal clusters without outcomes."""
    return bridge.trial(bridge.units(clusters, size), lambda unit, arm, r: {}, **sections)


def only(trial: Any, look: int) -> LookTest:
    """Returns the one test of a look."""
    tests: tuple[LookTest, ...] = trial.context.looks[look - 1].tests
    (test,) = tests
    return test


def report(trial: Any) -> PowerReport:
    """Returns the power findings of a trial."""
    return power_findings(trial.protocol, trial.plan, trial.units)


def test_verified_demo_falls_where_the_seed_puts_it(bridge: Any) -> None:
    """96 of 500 units in half the clusters hold 6 % of the information; no look can decide."""
    trial = bridge.demo("verified")
    first, last = trial.context.looks
    assert (192, 6, 96) == (first.last, first.clusters, first.units)
    assert (1000, 12, 500) == (last.last, last.clusters, last.units)
    assert only(trial, 1).fraction == pytest.approx(0.0631, abs=5e-5)
    assert only(trial, 1).nominal_p < 1e-12
    assert only(trial, 2).df == pytest.approx(3.33, abs=5e-3)
    assert only(trial, 2).nominal_p == pytest.approx(0.05, abs=1e-12)
    assert [False, False] == [only(trial, 1).eligible, only(trial, 2).eligible]


def test_pro_demo_has_two_looks_that_can_decide(bridge: Any) -> None:
    """9 of 11 clusters, 70 % of the information, and what the last look has left."""
    trial = bridge.demo("pro")
    assert (1098, 9, 549) == msgspec.structs.astuple(trial.context.looks[0])[:3]
    assert only(trial, 1).fraction == pytest.approx(0.7046, abs=5e-5)
    assert only(trial, 1).nominal_p == pytest.approx(0.01516, abs=5e-6)
    assert only(trial, 2).nominal_p == pytest.approx(0.0454, abs=5e-5)
    assert only(trial, 2).z == pytest.approx(2.0009, abs=1e-4)
    assert [True, True] == [only(trial, 1).eligible, only(trial, 2).eligible]


def test_look_that_cannot_decide_spends_nothing(bridge: Any) -> None:
    """After an ineligible first look the last one has the whole of alpha."""
    trial = empty(bridge, 10, 10, looks=LOOKS)
    assert not only(trial, 1).eligible
    assert only(trial, 2).nominal_p == pytest.approx(0.05, abs=1e-12)
    both = empty(bridge, 40, 10, looks=LOOKS)
    assert only(both, 1).eligible
    assert only(both, 2).nominal_p < 0.0495


def test_fraction_is_of_the_endpoints_population(bridge: Any) -> None:
    """A look holds the share of information of the units that the endpoint is about."""
    rows = [f"u{c}-{u},c{c},{int(c % 2 == 0)}" for c in range(40) for u in range(5)]
    trial = bridge.trial(
        "unit,cluster,truth\n" + "\n".join(rows) + "\n",
        lambda unit, arm, r: {},
        units="{file: units.csv, id: unit, cluster: cluster, label: truth}",
        endpoints="[{name: recall, role: primary, type: binary, value: passed, better: higher, "
        "where: {label: [1]}}]",
        looks=LOOKS,
    )
    first = {trial.plan.clusters[i] for i in range(trial.context.looks[0].units)}
    positive = sum(int(name[1:]) % 2 == 0 for name in first)
    assert positive / 20 == pytest.approx(only(trial, 1).fraction)
    assert 19.0 == only(trial, 2).df


def test_population_that_ends_early_decides_at_the_later_look(bridge: Any) -> None:
    """Of two looks with the same information the later one may decide, with all of alpha."""
    order = list(dict.fromkeys(empty(bridge, 40, 5).plan.clusters))
    rows = [
        f"u{c:03}-{u:03},c{c:03},{int(f'c{c:03}' in order[:20])}"
        for c in range(40)
        for u in range(5)
    ]
    trial = bridge.trial(
        "unit,cluster,truth\n" + "\n".join(rows) + "\n",
        lambda unit, arm, r: {},
        units="{file: units.csv, id: unit, cluster: cluster, label: truth}",
        endpoints="[{name: recall, role: primary, type: binary, value: passed, better: higher, "
        "where: {label: [1]}}]",
        looks=LOOKS,
    )
    assert [1.0, 1.0] == [only(trial, 1).fraction, only(trial, 2).fraction]
    assert [False, True] == [only(trial, 1).eligible, only(trial, 2).eligible]
    assert only(trial, 2).nominal_p == pytest.approx(0.05, abs=1e-12)


def test_single_units_have_no_floor_of_degrees(bridge: Any) -> None:
    """Where each unit is its own cluster Tango's z decides, and 8 units can be enough."""
    trial = empty(bridge, 30, 1, units="{file: units.csv, id: unit, cluster: none}")
    assert only(trial, 1).eligible
    assert 29.0 == only(trial, 1).df


def test_alpha_is_shared_as_registered(bridge: Any) -> None:
    """`all` tests each primary at the whole, `any` shares it; harm has its own."""
    decision = "{{rule: superiority, margin: 0.0, primaries: {}}}"
    for how, expected in (("all", 0.05), ("ordered", 0.05), ("any", 0.025)):
        protocol = bridge.protocol(endpoints=TWO_PRIMARIES, decision=decision.format(how))
        assert [expected, expected] == [test.alpha for test in all_tests(protocol)]
    harm = "{rule: superiority, margin: 0.0, harm: {alpha: 0.02, margin: 0.01}}"
    protocol = bridge.protocol(endpoints=HARM, decision=harm)
    assert [("primary", 0.05), ("harm", 0.02)] == [(t.role, t.alpha) for t in all_tests(protocol)]


def test_comparisons_have_their_shares(bridge: Any) -> None:
    """Two comparisons of three arms have half of alpha each."""
    driver = "{kind: recorded, file: o.csv, where: {arm: %s}, columns: {unit: u, passed: p}}"
    arms = ", ".join(f"{arm}: {{label: {arm}, driver: {driver % arm}}}" for arm in "ABC")
    trial = empty(
        bridge, 30, 2, arms=f"{{{arms}}}", decision="{rule: superiority, gate: B, margin: 0.0}"
    )
    tests = trial.context.looks[0].tests
    assert ["B", "C"] == [test.comparison for test in tests]
    assert [0.025, 0.025] == pytest.approx([test.nominal_p for test in tests])


def test_one_sided_plan_spends_half(bridge: Any) -> None:
    """With one side the favourable claim has alpha / 2, as with two."""
    one = empty(bridge, 40, 10, looks=LOOKS, analysis="{estimand: unit_weighted, sides: 1}")
    two = empty(bridge, 40, 10, looks=LOOKS)
    assert only(one, 1).nominal_p == pytest.approx(only(two, 1).nominal_p, abs=1e-6)


def test_explicit_boundary_is_held_to_alpha(bridge: Any) -> None:
    """A boundary that spends more than alpha is refused with what it spends; another one stands."""
    looks = "{{at: [0.5, 1.0], icc: 0.05, boundary: [{}, {}]}}"
    trial = empty(bridge, 40, 10, looks=looks.format(2.8, 1.98))
    assert [2.8, 1.98] == [only(trial, 1).z, only(trial, 2).z]
    with pytest.raises(ProtocolError, match="more than its share") as caught:
        empty(bridge, 40, 10, looks=looks.format(2.0, 1.96))
    assert "looks.boundary" == caught.value.where


def test_hopeless_design_is_refused_in_words_of_the_units(bridge: Any) -> None:
    """Without an accepted reason each finding refuses, and says why."""
    trial = empty(bridge, 4, 50, power="{effect: 0.1, assume: {discordance: 0.2, icc: 0.2}}")
    found = report(trial)
    assert ("no_verdict_possible", "underpowered") == found.findings
    assert {"no_verdict_possible", "underpowered"} == set(found.refused)
    assert (
        "come from only 4 clusters; a verdict needs at least 6"
        in (found.refused["no_verdict_possible"])
    )
    assert "below the target 80 %" in found.refused["underpowered"]


def test_accepted_finding_does_not_refuse(bridge: Any) -> None:
    """The demo accepts both of its findings; the reasons are kept."""
    found = report(bridge.demo("verified"))
    assert ("no_verdict_possible", "underpowered") == found.findings
    assert {} == found.refused
    assert "46 %" in found.accepted["no_verdict_possible"]


def test_impossible_even_when_all_differences_agree(bridge: Any) -> None:
    """With every discordance in one direction the power is still below target."""
    trial = empty(bridge, 10, 2, power="{effect: 0.1, assume: {discordance: 0.4, icc: 0.0}}")
    assert "impossible" in report(trial).refused


def test_reason_without_its_finding_is_a_warning(bridge: Any) -> None:
    """An acceptance that accepts nothing is said."""
    accept = "accept: {underpowered: no matter}"
    power = f"{{effect: 0.3, assume: {{discordance: 0.4, icc: 0.0}}, {accept}}}"
    found = report(empty(bridge, 30, 20, power=power))
    assert () == found.findings
    assert ("power.accept.underpowered has a reason and nothing to accept",) == found.warnings


def test_nothing_is_assumed_silently(bridge: Any) -> None:
    """Without assumptions there is a table over discordance and icc, and no refusal."""
    found = report(empty(bridge, 30, 20, power="{effect: 0.1}"))
    assert (("not_assessed",), {}) == (found.findings, found.refused)
    assert found.power is None
    cells = found.endpoints[0].table
    assert {0.1, 0.2, 0.4} == {cell.discordance for cell in cells}
    assert {0.0, 0.05, 0.2} == {cell.icc for cell in cells}


def test_look_before_the_last_that_cannot_decide_is_a_warning(bridge: Any) -> None:
    """`check` warns of a look that spends time and can't stop, and says where it falls."""
    found = report(bridge.demo("verified"))
    assert any("look 1 can't decide" in text and "96 units" in text for text in found.warnings)
    assert [(1, 0.5, 96), (2, 1.0, 500)] == [
        (each.number, each.planned, each.units) for each in found.looks
    ]


def test_harm_that_cannot_be_judged_leaves_no_verdict(bridge: Any) -> None:
    """A harm endpoint whose population is too small refuses the design."""
    rows = [f"u{c}-{u},c{c},{int(c < 3)}" for c in range(40) for u in range(5)]
    harm = HARM.replace("better: lower", "better: lower, where: {label: [1]}")
    trial = bridge.trial(
        "unit,cluster,truth\n" + "\n".join(rows) + "\n",
        lambda unit, arm, r: {},
        units="{file: units.csv, id: unit, cluster: cluster, label: truth}",
        endpoints=harm,
        decision="{rule: superiority, margin: 0.0, harm: {alpha: 0.05, margin: 0.0}}",
    )
    assert "harm endpoint unsafe" in report(trial).refused["no_verdict_possible"]


def test_blob_reads_back(bridge: Any) -> None:
    """The JSON form holds the whole report."""
    found = report(bridge.demo("pro"))
    assert found == msgspec.json.decode(power_blob(found), type=PowerReport)
    assert found.smallest_difference == pytest.approx(0.087, abs=5e-4)


def test_table_is_the_same_again(bridge: Any) -> None:
    """Nothing but protocol, plan and units enters the table."""
    trial = bridge.demo("pro")
    assert trial.context.looks == look_table(trial.protocol, trial.plan, trial.units)


@pytest.mark.parametrize(
    ("clusters", "size", "need"),
    [
        (10, 10, "at least 6 clusters"),
        (14, 10, "at least 8 clusters in which the arms differ"),
        (24, 10, "its boundary, p"),
    ],
)
def test_look_that_cannot_decide_says_what_it_would_need(
    bridge: Any, clusters: int, size: int, need: str
) -> None:
    """The warning names the guard that the look fails, in words of the plan."""
    looks = "{at: [0.35, 1.0], icc: 0.05}" if clusters == 24 else LOOKS
    found = report(empty(bridge, clusters, size, looks=looks))
    (warning,) = [text for text in found.warnings if text.startswith("look 1 can't decide")]
    assert need in warning
