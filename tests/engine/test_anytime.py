"""Looks at any time: one after each cluster, limits that hold at all, a stop that counts."""

from __future__ import annotations

import random
from typing import Any

import numpy as np
import pytest

from fairtrial.analysis.confidence_sequences import betting_hedged
from fairtrial.engine.assuming import Assumed
from fairtrial.engine.conclude import conclude
from fairtrial.engine.simulating import simulate
from fairtrial.ledger.errors import ProtocolError

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
        base.protocol, base.plan, base.units, assumed, effect=None, runs=60, seed=5, checked=3
    )
    assert found.agreed == found.checked
    assert found.cases[0].intended <= 0.07


@pytest.mark.parametrize(
    ("section", "text"),
    [
        ("looks", "{kind: anytime, method: beta}"),
        ("analysis", "{estimand: unit_weighted}"),
    ],
)
def test_what_a_sequence_cannot_do_is_refused(bridge: Any, section: str, text: str) -> None:
    """Another estimand, and the method that has no limits, wait for a later version."""
    units = "{file: units.csv, id: unit, cluster: none}" if "beta" in text else ""
    more = {"units": units} if units else {}
    with pytest.raises(ProtocolError, match="not supported by this version"):
        bridge.protocol(**{**SECTIONS, section: text, **more})
