"""The win rate: which of both values of a unit is the better one, ties counted by half."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from hashlib import sha256
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import msgspec
import numpy as np
import pytest

from fairtrial.analysis.paired import ClusteredMean, clustered_mean, equal_weight_mean
from fairtrial.engine.assuming import assumed_by
from fairtrial.engine.assumptions import for_all
from fairtrial.engine.simulating import simulate
from fairtrial.ledger.errors import ProtocolError
from fairtrial.ledger.events import Head
from fairtrial.protocols.units import parse_units
from fairtrial.verbs.text_result import table_lines
from fairtrial.verdicts.conclude import conclude
from fairtrial.verdicts.look_table import power_findings
from fairtrial.verdicts.result_detail import detail

if TYPE_CHECKING:
    from tests.conftest import Bridge, Trial

Values = Callable[[str, str], float | None]


def _endpoint(better: str = "higher", **fields: str) -> str:
    more = "".join(f", {name}: {value}" for name, value in fields.items())
    start = "name: wins, role: primary, type: win_rate, value: score"
    return f"[{{{start}, better: {better}{more}}}]"


def _draw(*parts: str) -> float:
    return int.from_bytes(sha256("/".join(parts).encode()).digest()[:4], "big") / 2**32


def _grade(unit: str, arm: str) -> float:
    """A judge's grade from 1 to 5; B's is better more often than not."""
    return float(1 + int(4.0 * _draw(unit, arm) + (0.9 if arm == "B" else 0.0)))


def _trial(bridge: Bridge, values: Values, clusters: int = 20, **sections: str) -> Trial:
    def answers(unit: str, arm: str, replicate: int) -> Mapping[str, object]:
        value = values(unit, arm)
        if value is None:
            return {"status": "failed", "scores": {}}
        return {"status": "ok", "scores": {"score": value}}

    given = {"endpoints": _endpoint(), **sections}
    return bridge.trial(bridge.units(clusters, 5), answers, origin="recorded", **given).run()


def _first(trial: Trial) -> Any:
    blob = detail(
        trial.context,
        conclude(trial.context),
        experiment="trial",
        basis=Head(size=1, root="0" * 64),
        spend_nanousd={},
    )
    return msgspec.json.decode(blob)["comparisons"][0]["endpoints"][0]


@pytest.mark.parametrize("estimand", ["unit_weighted", "cluster_weighted"])
def test_win_rate_is_the_share_of_wins_and_half_the_ties(bridge: Bridge, estimand: Any) -> None:
    """Rate, counts, error and interval are those of the scores 1, 1/2 and 0 by brute force."""
    analysis = f"{{estimand: {estimand}, alpha: 0.05}}"
    trial = _trial(bridge, _grade, analysis=analysis)
    found = _first(trial)
    pairs = [(_grade(u, "A"), _grade(u, "B")) for u in trial.plan.units]
    scores = np.array([1.0 if b > a else 0.5 if a == b else 0.0 for a, b in pairs])
    clusters = np.array([int(name[1:]) for name in trial.plan.clusters])
    mean = clustered_mean if estimand == "unit_weighted" else equal_weight_mean
    expected = mean(scores - 0.5, clusters)
    assert isinstance(expected, ClusteredMean)

    rate = found["win_rate"]
    assert rate["estimate"] == pytest.approx(0.5 + expected.estimate)
    assert (rate["wins"], rate["ties"], rate["losses"]) == (
        sum(b > a for a, b in pairs),
        sum(b == a for a, b in pairs),
        sum(b < a for a, b in pairs),
    )
    assert found["difference"] == pytest.approx(expected.estimate)
    assert found["standard_error"] == pytest.approx(expected.standard_error)
    assert found["df"] == pytest.approx(expected.df)
    assert found["arms"] == pytest.approx({"A": 1 - rate["estimate"], "B": rate["estimate"]})
    assert (rate["lower"] - 0.5, rate["upper"] - 0.5) == pytest.approx(
        (found["interval"]["lower"], found["interval"]["upper"])
    )
    assert "sign_flip" in found["tests"]
    assert conclude(trial.context).verdict == "adopt"
    assert " points from a win rate of 50 %, interval " in conclude(trial.context).reason
    row = list(table_lines([found], "A", "B"))[1]
    assert f"{100 * expected.estimate:+.1f} points from 50 %" in row


def test_lower_values_win_where_lower_is_better(bridge: Bridge) -> None:
    """Turned values with `better: lower` give the very same numbers and verdict."""
    higher = _trial(bridge, _grade)
    lower = _trial(bridge, lambda u, arm: -_grade(u, arm), endpoints=_endpoint("lower"))
    assert _first(higher) == _first(lower)
    assert conclude(lower.context).verdict == "adopt"
    worse = _trial(bridge, _grade, endpoints=_endpoint("lower"))
    assert conclude(worse.context).verdict == "reject"


def test_any_growing_change_of_the_values_changes_nothing(bridge: Bridge) -> None:
    """Only which value is larger counts, so no scale of a judge matters."""
    assert _first(_trial(bridge, _grade)) == _first(
        _trial(bridge, lambda u, arm: _grade(u, arm) ** 3 + 7.0)
    )


def test_failure_loses_to_every_value_and_ties_with_a_failure(bridge: Bridge) -> None:
    """A failed arm loses the unit; where both fail nobody wins it."""

    def values(unit: str, arm: str) -> float | None:
        if unit.endswith("0") or (arm == "B" and unit.endswith("1")):
            return None
        return -1e100 if arm == "B" else -2e99

    rate = _first(_trial(bridge, values))["win_rate"]
    assert (rate["wins"], rate["ties"], rate["losses"]) == (0, 20, 80)
    flipped = _first(_trial(bridge, values, endpoints=_endpoint("lower")))["win_rate"]
    assert (flipped["wins"], flipped["ties"], flipped["losses"]) == (60, 20, 20)


def test_lost_pairs_are_filled_in_both_ways(bridge: Bridge) -> None:
    """Worst case: a lost value loses in one completion and wins in the other, a pair at a time."""
    missing = (
        "{rules: {failed: worst_case, timeout: failure, limit: failure, error: exclude_pair,"
        " ungraded: exclude_pair, replay_miss: exclude_pair, invalidated: exclude_pair},"
        " limit: 0.2}"
    )

    def values(unit: str, arm: str) -> float | None:
        return None if unit in ("u003-000", "u004-001") and arm == "A" else _grade(unit, arm)

    trial = _trial(bridge, values, missing=missing)
    found = _first(trial)
    rate = found["win_rate"]
    assert rate["wins"] + rate["ties"] + rate["losses"] == 98
    assert found["tipping"]["lost"] == 2
    assert found["bounds"]["lower"] <= found["interval"]["lower"]


@pytest.mark.parametrize("better", ["higher", "lower"])
@pytest.mark.parametrize(
    ("lost_in", "against", "treatment_worst"),
    [
        ("A", [0, 1, 2, 3], [0, 0, 0, 0]),
        ("B", [0, 1, 2, 3], [0, 1, 2, 3]),
        ("AB", [0, 1, 2, 3, 4, 5, 6], [0, 0, 1, 1, 2, 2, 3]),
    ],
)
def test_tipping_counts_the_outcomes_of_the_arm_that_lost_them(
    bridge: Bridge, better: str, lost_in: str, against: list[int], treatment_worst: list[int]
) -> None:
    """Control's lost outcomes are control's, and a pair lost in both arms lost two; ends hold."""
    lost = ("u003-000", "u004-001", "u007-003")
    missing = (
        "{rules: {failed: worst_case, timeout: failure, limit: failure, error: exclude_pair,"
        " ungraded: exclude_pair, replay_miss: exclude_pair, invalidated: exclude_pair},"
        " limit: 0.2}"
    )

    def values(unit: str, arm: str) -> float | None:
        return None if unit in lost and arm in lost_in else _grade(unit, arm)

    found = _first(_trial(bridge, values, missing=missing, endpoints=_endpoint(better)))
    steps = found["tipping"]["steps"]
    assert len(against) - 1 == found["tipping"]["lost"]
    assert against == [step["against"] for step in steps]
    assert treatment_worst == [step["treatment_worst"] for step in steps]
    falls = [a["estimate"] - b["estimate"] for a, b in pairwise(steps)]
    each = 1.0 if len(lost_in) == 1 else 0.5
    assert [each / 100] * len(falls) == pytest.approx(falls)
    assert found["bounds"]["lower"] == min(step["lower"] for step in steps)
    assert found["bounds"]["upper"] == max(step["upper"] for step in steps)


def test_only_ties_give_no_interval(bridge: Bridge) -> None:
    """Where every pair is tied nothing varies, and the tool says so instead of "equivalent"."""
    trial = _trial(bridge, lambda u, arm: 3.0)
    body = conclude(trial.context)
    assert (body.verdict, body.reason_code) == ("inconclusive", "few_discordant_clusters")
    assert _first(trial)["interval"] is None


@pytest.mark.parametrize(
    ("fields", "where", "words"),
    [
        ({"value": "passed"}, "endpoints.wins.value", "can't hold passed"),
        ({"scale": "log"}, "endpoints.wins.scale", "the same on every scale"),
        ({"reducer": "majority"}, "endpoints.wins.reducer", "is binary"),
    ],
)
def test_what_makes_no_sense_is_refused(
    bridge: Bridge, fields: dict[str, str], where: str, words: str
) -> None:
    """A yes or no, a log scale and a vote of replicates have no win rate."""
    text = _endpoint(**fields)
    if "value" in fields:
        text = text.replace("value: score, ", "")
    with pytest.raises(ProtocolError, match=words) as caught:
        bridge.protocol(endpoints=text)
    assert where in {problem.where for problem in caught.value.problems}


def test_margin_beyond_a_half_is_refused(bridge: Bridge) -> None:
    """No win rate is more than one half away from even."""
    with pytest.raises(ProtocolError, match="can reach the margin"):
        bridge.protocol(endpoints=_endpoint(), decision="{rule: superiority, margin: 0.5}")


def test_assigned_units_have_no_win_rate(bridge: Bridge) -> None:
    """Where a unit is in one arm there is nothing to compare it with."""
    with pytest.raises(ProtocolError, match="two outcomes of one unit"):
        bridge.protocol(
            endpoints=_endpoint(),
            design="{pairing: assigned, seed: 1, assign: {by: unit, ratio: {A: 1, B: 1}}}",
        )


@pytest.mark.slow
def test_simulated_power_and_error_are_those_of_the_formula(bridge: Bridge) -> None:
    """Through the very pipeline: equal arms in at most 5.5 of 100 runs, power near the formula."""
    protocol = bridge.protocol(
        endpoints=_endpoint("lower"),
        power="{effect: 0.1, assume: {discordance: 0.7, icc: 0.05}}",
    )
    units = parse_units(bridge.units(30, 8).encode(), protocol.units, name="u.csv", seed=7)
    plan = bridge.plan(protocol, units)
    assumed = assumed_by(protocol)
    assert assumed is not None
    effect = 0.1

    found = simulate(
        protocol,
        plan,
        units,
        for_all(protocol, assumed),
        effect=effect,
        runs=250,
        seed=2,
        checked=3,
    )

    power = {case.name: case.intended for case in found.cases}
    formula = power_findings(protocol, plan, units).power
    assert found.agreed == found.checked
    assert power["at_border"] <= 0.075
    assert power["at_effect"] == pytest.approx(formula, abs=0.09)
