"""Whatever finite numbers the outcomes hold: every look and result exists and can be stored."""

from __future__ import annotations

import json
import math
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from fairtrial.drivers.answer import parse_answer
from fairtrial.ledger.canonical import encode_event
from fairtrial.ledger.events import Head
from fairtrial.verdicts.conclude import conclude, detail

HEAD = Head(size=1, root="0" * 64)
EXCLUDE = (
    "{rules: {failed: exclude_pair, timeout: exclude_pair, limit: exclude_pair, error: "
    "exclude_pair, ungraded: exclude_pair, replay_miss: exclude_pair, invalidated: exclude_pair}, "
    "limit: 0.2}"
)
ENDPOINTS = {
    "binary": "{type: binary, value: passed, better: higher}",
    "bounded": "{type: bounded, value: score, bounds: [-1.0e+100, 1.0e+100], better: higher}",
    "continuous": "{type: continuous, value: score, better: higher}",
    "log": "{type: continuous, value: score, better: lower, scale: both}",
    "cost": "{type: cost, value: usd, better: lower}",
}
SIZES = st.sampled_from([0.0, 5e-324, 1e-320, 1e-200, 1e-170, 1e-100, 1.0, 1e49, 1e100, 1e149,
                         1e150, 1e200, 1e308])  # fmt: skip
VALUES = st.one_of(
    st.tuples(SIZES, st.sampled_from([1.0, -1.0, 0.5, -0.7])).map(lambda pair: pair[0] * pair[1]),
    st.floats(allow_nan=False, allow_infinity=False),
)


def ended(bridge: Any, kind: str, values: list[float], **sections: str) -> Any:
    """Returns the trial of 12 clusters of 2 with these scores and costs, after all its looks."""

    def answers(unit: str, arm: str, replicate: int) -> Any:
        place = 2 * (2 * int(unit[1:4]) + int(unit[5:])) + (arm == "B")
        value = values[place % len(values)]
        cost = int(min(abs(value), 1.0) * (2**53 - 1))
        scores = {"score": value, "passed": float(value > 0.0)}
        return bridge.outcome(scores=scores, cost_nanousd=cost)

    endpoint = ENDPOINTS[kind].replace("{", "{name: it, role: primary, ")
    everything = {
        "endpoints": f"[{endpoint}]",
        "missing": EXCLUDE,
        "analysis": "{estimand: unit_weighted, resamples: 999, also: [mcnemar, sign_flip, "
        "bootstrap, wild_bootstrap, cluster_weighted]}",
        "looks": "{at: [0.5, 1.0], icc: 0.05}",
    }
    return bridge.trial(bridge.units(12, 2), answers, **(everything | sections)).run()


def has_an_end(trial: Any) -> Any:
    """Checks that looks and result of a trial can be stored; returns the result's body."""
    for look in trial.context.taken:
        encode_event(look)
    body = conclude(trial.context)
    data = detail(trial.context, body, experiment="trial", basis=HEAD, spend_nanousd={})
    json.loads(data, parse_constant=pytest.fail)
    for comparison in body.comparisons:
        for found in comparison.endpoints:
            numbers = (found.difference, found.lower, found.upper, found.p_value)
            assert all(number is None or math.isfinite(number) for number in numbers)
    return body


@pytest.mark.slow
@pytest.mark.parametrize("kind", list(ENDPOINTS))
@given(values=st.lists(VALUES, min_size=2, max_size=48))
@settings(
    max_examples=40, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
def test_any_finite_values_reach_an_end(bridge: Any, kind: str, values: list[float]) -> None:
    """No score and no cost makes a look or a result impossible."""
    has_an_end(ended(bridge, kind, values))


@pytest.mark.parametrize("size", [1e308, -1e308, 1e200, 1e149, 1e-170, 1e-320])
@pytest.mark.parametrize("kind", ["continuous", "log"])
def test_one_extreme_size_reaches_an_end(bridge: Any, kind: str, size: float) -> None:
    """Multiples of one extreme number against 0 give an inconclusive end."""
    values = [value for n in range(24) for value in (0.0, size * (n % 7) / 7)]
    assert has_an_end(ended(bridge, kind, values)).verdict == "inconclusive"


def test_a_score_on_record_beyond_the_limit_is_ungraded(bridge: Any) -> None:
    """A ledger that already holds one such score ends without that pair, and says so."""
    values = [value for n in range(24) for value in (float(n % 3), float(n % 5))]
    trial = ended(bridge, "continuous", [1e308, *values[1:]])
    assert has_an_end(trial).missing["A"] == {}
    data = detail(
        trial.context, conclude(trial.context), experiment="t", basis=HEAD, spend_nanousd={}
    )
    units = json.loads(data)["comparisons"][0]["endpoints"][0]["units"]
    assert (23, 1, {"ungraded": 1}) == (
        units["paired"], units["excluded_count"], units["missing"]["A"]
    )  # fmt: skip


@pytest.mark.parametrize(
    ("said", "code"),
    [("1e100", None), ("-1e100", None), ("1.1e100", "score_out_of_range"),
     ("-1e308", "score_out_of_range"), ("1e999", "score_not_finite"),
     ("1" + "0" * 101, "score_out_of_range"), ("1e-320", None)],
)  # fmt: skip
def test_scores_beyond_the_limit_settle_as_ungraded(said: str, code: str | None) -> None:
    """What no analysis can compute with is no score: the outcome is ungraded from the start."""
    found = parse_answer(f'{{"v":1,"score":{said}}}'.encode(), exit_status=0)
    assert (found.code, "ungraded" if code else "ok") == (code, found.status)
