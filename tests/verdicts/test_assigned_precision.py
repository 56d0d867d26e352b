"""Precision of what each arm flags, where each unit is in one arm."""

from __future__ import annotations

import runpy
from collections.abc import Mapping
from hashlib import sha256
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec
import numpy as np
import pytest

from fairtrial.analysis.assigned import assigned_difference
from fairtrial.analysis.paired import ClusteredMean
from fairtrial.ledger.events import Head
from fairtrial.verdicts.conclude import conclude
from fairtrial.verdicts.result_detail import detail

if TYPE_CHECKING:
    from tests.conftest import Bridge, Trial

ROOT = Path(__file__).resolve().parents[2]
BENCHMARK: dict[str, Any] = runpy.run_path(str(ROOT / "benchmarks" / "assigned_precision.py"))
DESIGN = "{pairing: assigned, seed: 7, assign: {by: unit, ratio: {A: 1, B: 1}, within: cluster}}"
BY_CLUSTER = "{pairing: assigned, seed: 7, assign: {by: cluster, ratio: {A: 1, B: 1}}}"
LABELLED = "{file: units.csv, id: unit, cluster: cluster, label: label}"
MISSING = (
    "{rules: {failed: worst_case, timeout: worst_case, limit: worst_case, error: exclude_pair, "
    "ungraded: exclude_pair, replay_miss: exclude_pair, invalidated: exclude_pair}, limit: 0.2}"
)
PRECISION = (
    "[{name: flagged, role: primary, type: precision, value: answer, positive: [yes], better: "
    "higher}]"
)


def _detail(trial: Trial) -> Any:
    body = conclude(trial.context)
    head = Head(size=1, root="0" * 64)
    blob = detail(trial.context, body, experiment="trial", basis=head, spend_nanousd={})
    return msgspec.json.decode(blob)


def _flags(bridge: Bridge, design: str, *, lost: str = "", sharper: bool = True) -> Trial:
    """A trial of 24 clusters of 14, in which B flags fewer of the units that aren't true."""

    def answers(unit: str, arm: str, replicate: int) -> Mapping[str, object]:
        if lost and unit.startswith(lost):
            return {"status": "error"}
        true = unit.endswith("t")
        chance = 0.7 if true else 0.25 if arm == "B" and sharper else 0.6
        draw = int.from_bytes(sha256(f"{unit}/{arm}".encode()).digest()[:4], "big") / 2**32
        return {"status": "ok", "scores": {}, "answer": "yes" if draw < chance else "no"}

    rows = "".join(
        f"u{c:03}-{u:03}{'tf'[u % 2]},c{c:03},{1 - u % 2}\n" for c in range(24) for u in range(14)
    )
    return bridge.trial(
        "unit,cluster,label\n" + rows,
        answers,
        units=LABELLED,
        endpoints=PRECISION,
        design=design,
        missing=MISSING,
    )


@pytest.mark.parametrize("design", [DESIGN, BY_CLUSTER])
def test_precision_of_assigned_units_is_that_of_what_each_arm_flags(
    bridge: Bridge, design: str
) -> None:
    """Share of true ones among an arm's own flags; error and df from the flagged units alone."""
    trial = _flags(bridge, design).run()
    plan, outcomes = trial.plan, trial.context.outcomes
    slots = list(plan.slots())
    kept = [slot for slot, text in zip(slots, outcomes.answers, strict=True) if text == "yes"]
    labels = np.array([float(slot.unit.endswith("t")) for slot in kept])
    treated = np.array([slot.arm == "B" for slot in kept])
    clusters = np.array([int(slot.unit[1:4]) for slot in kept])
    expected = assigned_difference(labels, treated, clusters, estimand="unit_weighted")
    assert isinstance(expected, ClusteredMean)

    found = _detail(trial)["comparisons"][0]["endpoints"][0]

    assert found["difference"] == pytest.approx(labels[treated].mean() - labels[~treated].mean())
    assert found["difference"] == pytest.approx(expected.estimate)
    assert found["standard_error"] == pytest.approx(expected.cr2)
    assert found["arms"]["B"] == pytest.approx(labels[treated].mean())
    assert conclude(trial.context).verdict == "adopt"


def test_precision_of_assigned_units_without_a_flag_has_no_number(bridge: Bridge) -> None:
    """An arm that flags nothing has no precision: inconclusive, with the reason."""

    def answers(unit: str, arm: str, replicate: int) -> Mapping[str, object]:
        return {"status": "ok", "scores": {}, "answer": "yes" if arm == "A" else "no"}

    rows = "".join(f"u{c:03}-{u},c{c:03},{u % 2}\n" for c in range(12) for u in range(6))
    trial = bridge.trial(
        "unit,cluster,label\n" + rows,
        answers,
        units=LABELLED,
        endpoints=PRECISION,
        design=DESIGN,
        missing=MISSING,
    ).run()
    assert conclude(trial.context).verdict == "inconclusive"
    found = _detail(trial)["comparisons"][0]["endpoints"][0]
    assert "flagged nothing" in found["undetermined"]


def test_lost_flags_of_assigned_units_have_bounds(bridge: Bridge) -> None:
    """A lost flag lies in its own arm; bounds and tipping point fill it in both ways."""
    found = _detail(_flags(bridge, DESIGN, lost="u003-00").run())["comparisons"][0]["endpoints"][0]
    assert found["tipping"]["lost"] == 10
    assert found["bounds"]["lower"] < found["interval"]["lower"]
    assert found["bounds"]["upper"] > found["interval"]["upper"]


@pytest.mark.slow
@pytest.mark.parametrize("by_cluster", [False, True])
@pytest.mark.parametrize("clusters", [12, 30])
def test_equal_precisions_are_told_apart_in_5_of_100_runs(clusters: int, by_cluster: bool) -> None:
    """Type-I error where the number of flags and the share of true ones vary between clusters."""
    assert 0.015 <= BENCHMARK["error"](clusters, by_cluster=by_cluster, runs=800) <= 0.07
