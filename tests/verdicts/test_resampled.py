"""Resampling beside the deciding test: computed over clusters, labelled, and never deciding."""

from __future__ import annotations

import random
from typing import Any

import msgspec
import numpy as np
import pytest

from fairtrial.analysis.resampling import Bootstrap, cluster_bootstrap
from fairtrial.analysis.values import Interval
from fairtrial.ledger.events import Head
from fairtrial.verdicts.conclude import conclude, detail

ALSO = "also: [bootstrap, wild_bootstrap], resamples: 999"


def passes(unit: str, arm: str) -> bool:
    """Returns whether an arm passes on a unit."""
    return random.Random(f"{unit}/{arm}").random() < {"A": 0.4, "B": 0.6}[arm]


def shown(bridge: Any, estimand: str) -> tuple[Any, Any]:
    """Returns a run trial and the tests in the long form of its result."""
    trial = bridge.trial(
        bridge.units(14, 6),
        lambda u, a, r: bridge.outcome(int(passes(u, a))),
        analysis=f"{{estimand: {estimand}, {ALSO}}}",
    ).run()
    body = conclude(trial.context)
    head = Head(size=1, root="0" * 64)
    data = detail(trial.context, body, experiment="t", basis=head, spend_nanousd={})
    return trial, msgspec.json.decode(data)["comparisons"][0]["endpoints"][0]["tests"]


@pytest.mark.parametrize("estimand", ["unit_weighted", "cluster_weighted"])
def test_bootstrap_is_that_of_clusters(bridge: Any, estimand: str) -> None:
    """The interval is the analysis' own over sums of clusters, by the registered estimand."""
    trial, tests = shown(bridge, estimand)
    names = sorted({unit[:4] for unit in trial.plan.units})
    sums = np.array(
        [
            sum(
                passes(unit, "B") - passes(unit, "A")
                for unit in trial.plan.units
                if unit[:4] == name
            )
            for name in names
        ],
        dtype=float,
    )
    sizes = np.full(len(names), 6.0)
    if estimand == "cluster_weighted":
        sums, sizes = sums / sizes, sizes / sizes
    expected = cluster_bootstrap(sums, sizes, seed=7, resamples=999, alpha=0.05)
    assert isinstance(expected, Bootstrap)
    assert isinstance(expected.studentised, Interval)
    found = tests["bootstrap"]
    assert (found["lower"], found["upper"]) == pytest.approx(
        (expected.studentised.lower, expected.studentised.upper)
    )
    assert {"percentile", "bca"} == set(found["description_only"])
    assert 0.0 < tests["wild_bootstrap"]["p_value"] < 1.0


def test_neither_decides(bridge: Any) -> None:
    """Verdict and reason are the same with and without them."""
    with_them, _ = shown(bridge, "unit_weighted")
    without = bridge.trial(
        bridge.units(14, 6), lambda u, a, r: bridge.outcome(int(passes(u, a)))
    ).run()
    one, other = conclude(with_them.context), conclude(without.context)
    assert (one.verdict, one.reason, one.comparisons) == (
        other.verdict,
        other.reason,
        other.comparisons,
    )
