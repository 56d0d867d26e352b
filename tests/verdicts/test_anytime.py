"""Looks at any time: one after each cluster, limits that hold at all, a stop that counts."""

from __future__ import annotations

import math
import random
from typing import Any

import numpy as np
import pytest

from fairtrial.analysis.confidence_sequences import betting_hedged, mcnemar_eprocess
from fairtrial.engine.assuming import Assumed
from fairtrial.engine.assumptions import for_all
from fairtrial.engine.simulating import simulate
from fairtrial.ledger.errors import ProtocolError
from fairtrial.verdicts.conclude import conclude
from fairtrial.verdicts.look_table import power_findings

SECTIONS = {
    "looks": "{kind: anytime, method: betting, min_clusters: 10}",
    "analysis": "{estimand: cluster_weighted}",
}


def trial(bridge: Any, rates: dict[str, float], *, clusters: int = 40, **more: str) -> Any:
    """Returns a trial of clusters of 5 whose arms pass with given rates."""

    def answers(unit: str, arm: str, replicate: int) -> Any:
        return bridge.outcome(int(random.Random(f"{unit}/{arm}").random() < rates[arm]))

    return bridge.trial(bridge.units(clusters, 5), answers, **{**SECTIONS, **more})


def test_there_is_a_look_after_each_cluster(bridge: Any) -> None:
    """From the smallest number of clusters on every border is a look, each at the whole alpha."""
    found = trial(bridge, {"A": 0.5, "B": 0.5}).context.looks
    assert list(range(10, 41)) == [look.clusters for look in found]
    assert [look.clusters * 10 for look in found] == [look.last for look in found]
    assert {(0.05, True)} == {(look.tests[0].nominal_p, look.tests[0].eligible) for look in found}


def test_limits_are_those_of_the_sequence_in_run_order(bridge: Any) -> None:
    """A look has the running limits over the clusters' mean differences, scaled to [-1, 1]."""
    run = trial(bridge, {"A": 0.5, "B": 0.55})
    for number in range(1, 6):
        run = run.take(number)
    names = list(dict.fromkeys(run.plan.clusters))[:14]
    column = run.context.outcomes.scores["passed"].values
    at = {(slot.unit, slot.arm): slot.position - 1 for slot in run.plan.slots()}
    means = [
        np.mean(
            [
                column[at[unit, "B"]] - column[at[unit, "A"]]
                for unit, own in zip(run.plan.units, run.plan.clusters, strict=True)
                if own == name
            ]
        )
        for name in names
    ]
    expected = betting_hedged((np.array(means) + 1) / 2, alpha=0.05)
    found = run.context.taken[4].comparisons[0].endpoints[0]
    assert (2 * expected.lower[-1] - 1, 2 * expected.upper[-1] - 1) == pytest.approx(
        (found.lower, found.upper)
    )
    assert np.mean(means) == pytest.approx(found.estimate)
    assert (None, None) == (found.p_value, found.z)


def test_clear_difference_stops_early_and_is_adopted(bridge: Any) -> None:
    """The run ends with the first cluster after which the limits lie above 0."""
    run = trial(bridge, {"A": 0.05, "B": 0.95}).run()
    result = conclude(run.context)
    assert ("adopt", "boundary") == (result.verdict, result.stopped_by)
    assert len(run.context.taken) < len(run.context.looks)
    lower = result.comparisons[0].endpoints[0].lower
    assert lower is not None
    assert lower > 0.0


def test_no_difference_goes_on_to_the_end(bridge: Any) -> None:
    """Equal arms use all clusters and end inconclusive."""
    result = conclude(trial(bridge, {"A": 0.5, "B": 0.5}).run().context)
    assert ("inconclusive", "last_look") == (result.verdict, result.stopped_by)


@pytest.mark.slow
def test_thirty_looks_keep_their_error(bridge: Any) -> None:
    """With a look after each of 30 clusters at most 5 % of equal trials claim anything."""
    base = trial(bridge, {"A": 0.5, "B": 0.5}, clusters=30)
    assumed = Assumed(discordance=0.5, sd=None, icc=0.1, missing=0.0, source="protocol")
    found = simulate(
        base.protocol,
        base.plan,
        base.units,
        for_all(base.protocol, assumed),
        effect=None,
        runs=60,
        seed=5,
        checked=3,
    )
    assert found.agreed == found.checked
    assert found.cases[0].intended <= 0.07


BETA = "{kind: anytime, method: beta}"
SINGLE = "{file: units.csv, id: unit, cluster: none}"
COST = "{name: usd, role: secondary, type: cost, value: usd, better: lower}"
PASSED = "{name: passed, role: primary, type: binary, value: passed, better: higher}"
BOUNDED = PASSED.replace("binary", "bounded, bounds: [0, 1]")
EXCLUDE = (
    "{rules: {failed: exclude_pair, timeout: exclude_pair, limit: exclude_pair, error: "
    "exclude_pair, ungraded: exclude_pair, replay_miss: exclude_pair, invalidated: exclude_pair}, "
    "limit: 0.1}"
)


@pytest.mark.parametrize(
    ("sections", "why"),
    [
        ({"analysis": "{estimand: unit_weighted}"}, "cluster_weighted with looks at any time"),
        ({"looks": BETA, "units": SINGLE, "endpoints": f"[{BOUNDED}]"}, "binary with method beta"),
        (
            {
                "endpoints": f"[{PASSED}, {COST}]",
                "decision": "{rule: superiority, saving: {endpoint: usd, at_least: 0.1}}",
                "missing": EXCLUDE,
            },
            "no saving with looks at any time",
        ),
    ],
)
def test_what_a_sequence_cannot_do_is_refused(
    bridge: Any, sections: dict[str, str], why: str
) -> None:
    """A ratio over clusters, discordance of what isn't yes or no, and a saving: with the reason."""
    with pytest.raises(ProtocolError, match=why):
        bridge.protocol(**{**SECTIONS, **sections})


@pytest.mark.parametrize(
    ("sections", "why"),
    [
        ({"looks": BETA}, "beta needs units that are their own clusters"),
        (
            {"looks": "{kind: anytime, method: asymptotic, min_clusters: 50}"},
            "an asymptotic sequence begins too early",
        ),
        (
            {"endpoints": f"[{COST.replace('secondary', 'primary')}]", "missing": EXCLUDE},
            "has no bounds, which looks at any time need",
        ),
    ],
)
def test_what_no_sequence_can_do_breaks_a_rule(
    bridge: Any, sections: dict[str, str], why: str
) -> None:
    """Clusters with beta, few clusters with asymptotic limits, endpoints without bounds."""
    with pytest.raises(ProtocolError, match=why):
        bridge.protocol(**{**SECTIONS, **sections})


def single(bridge: Any, rates: dict[str, float], units: int, **sections: str) -> Any:
    """Returns a trial whose units are their own clusters."""

    def answers(unit: str, arm: str, replicate: int) -> Any:
        return bridge.outcome(int(random.Random(f"{unit}/{arm}").random() < rates[arm]))

    base = {"units": SINGLE, "looks": BETA, "analysis": "{estimand: unit_weighted}"}
    return bridge.trial(bridge.units(units, 1), answers, **{**base, **sections})


def test_beta_stops_where_its_e_process_reaches_its_share_of_alpha(bridge: Any) -> None:
    """The run ends at the first unit whose discordant pairs have an e-value of 1 / (0.9 alpha)."""
    run = single(bridge, {"A": 0.3, "B": 0.7}, 120).run()
    result = conclude(run.context)
    assert ("adopt", "boundary") == (result.verdict, result.stopped_by)
    column = run.context.outcomes.scores["passed"].values
    at = {(slot.unit, slot.arm): slot.position - 1 for slot in run.plan.slots()}
    number = b = c = 0
    for number, unit in enumerate(run.plan.units, start=1):
        gap = column[at[unit, "B"]] - column[at[unit, "A"]]
        b, c = b + (gap < 0.0), c + (gap > 0.0)
        if number >= 10 and mcnemar_eprocess(b, c).log_e >= math.log(1.0 / 0.045):
            break
    assert number == run.context.taken[-1].clusters


def test_asymptotic_looks_begin_at_a_hundred(bridge: Any) -> None:
    """Without a number of clusters the first look is the hundredth; limits narrow from there."""
    looks = "{kind: anytime, method: asymptotic}"
    run = single(bridge, {"A": 0.4, "B": 0.45}, 160, looks=looks)
    assert 100 == run.context.looks[0].clusters
    for number in range(1, 6):
        run = run.take(number)
    found = [look.comparisons[0].endpoints[0] for look in run.context.taken]
    widths = [each.upper - each.lower for each in found]
    assert widths == sorted(widths, reverse=True)
    assert widths[0] < 0.5


def test_rare_differences_leave_asymptotic_limits_undetermined(bridge: Any) -> None:
    """Where the arms differ in 3 of 120 units, a margin isn't shown, and the reason says why."""

    def answers(unit: str, arm: str, replicate: int) -> Any:
        return bridge.outcome(int(arm == "A" or not unit.startswith(("u000", "u001", "u002"))))

    run = bridge.trial(
        bridge.units(120, 1),
        answers,
        units=SINGLE,
        looks="{kind: anytime, method: asymptotic}",
        decision="{rule: non_inferiority, margin: 0.1}",
    ).run()
    result = conclude(run.context)
    assert "inconclusive" == result.verdict
    assert "differences between the arms are too rare so far" in result.reason
    found = run.context.taken[-1].comparisons[0].endpoints[0]
    assert (None, None, ("no_interval",)) == (found.lower, found.upper, found.why_not)
    assert -0.025 == found.estimate


@pytest.mark.parametrize(
    ("looks", "first"),
    [
        ("{kind: anytime, method: asymptotic}", 100),
        ("{kind: anytime, method: betting, min_clusters: 31}", 31),
        ("{kind: anytime, method: empirical_bernstein, min_clusters: 40}", 40),
        ("{kind: anytime, method: beta, min_clusters: 50}", 50),
    ],
)
def test_looks_that_would_begin_after_the_last_cluster_are_refused(
    bridge: Any, looks: str, first: int
) -> None:
    """A plan whose first look waits for more clusters than there are can reach no verdict."""
    few = single(bridge, {"A": 0.1, "B": 0.9}, 30, looks=looks)
    found = power_findings(few.protocol, few.plan, few.units)
    expected = f"the first look is after {first} units, there are 30"
    assert expected in found.refused["no_verdict_possible"]
    assert [False] == [look.eligible for look in found.looks]
    assert "inconclusive" == conclude(few.run().context).verdict
    enough = single(bridge, {"A": 0.1, "B": 0.9}, first, looks=looks)
    found = power_findings(enough.protocol, enough.plan, enough.units)
    assert "no_verdict_possible" not in found.findings


def test_harm_is_watched_at_any_time(bridge: Any) -> None:
    """A harm endpoint has its own sequence at its own alpha, and stops the run with `reject`."""
    harm = PASSED.replace("name: passed, role: primary", "name: unsafe, role: harm")
    harm = harm.replace("better: higher", "better: lower")
    watched = trial(
        bridge,
        {"A": 0.05, "B": 0.95},
        endpoints=f"[{PASSED}, {harm}]",
        decision="{rule: superiority, harm: {alpha: 0.05, margin: 0.0}}",
    )
    result = conclude(watched.run().context)
    assert ("reject", "harm") == (result.verdict, result.reason_code)
