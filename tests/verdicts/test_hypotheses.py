"""What a p is held against, and how people read it."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from fairtrial.verbs.text_result import endpoint_lines
from fairtrial.verbs.text_tests import against_text, deciding_tests
from fairtrial.verdicts.hypotheses import hypotheses_of

ENDPOINTS = (
    "[{name: passed, role: primary, type: binary, value: passed, better: higher}, "
    "{name: unsafe, role: harm, type: binary, value: scores.unsafe, better: lower}, "
    "{name: grade, role: secondary, type: bounded, bounds: [1, 5], "
    "value: score, better: higher}, "
    "{name: cost, role: secondary, type: cost, value: usd, better: lower, "
    "missing: {failed: value, timeout: value, limit: value}}]"
)
DECISION = (
    "{rule: non_inferiority, margin: 0.03, harm: {alpha: 0.05, margin: 0.01}, "
    "saving: {endpoint: cost, at_least: 0.2}}"
)


def test_each_p_names_its_own_hypothesis(bridge: Any) -> None:
    """Margins stand on the side where they are tested; a saving is no difference."""
    found = hypotheses_of(bridge.protocol(endpoints=ENDPOINTS, decision=DECISION))
    words = {
        name: against_text(msgspec.to_builtins(one), points=name in ("passed", "unsafe"))
        for name, one in found.items()
    }
    assert {
        "passed": " against a difference of -3.0 points",
        "unsafe": " against a difference of +1.0 points",
        "grade": " against no difference",
        "cost": " against a saving of 20 %",
    } == words


def test_superiority_without_a_margin_is_held_against_no_difference(bridge: Any) -> None:
    """The same endpoint has another hypothesis under another rule; a rule of flags has none."""
    found = hypotheses_of(bridge.protocol(endpoints=ENDPOINTS.partition(", {")[0] + "]"))
    assert " against no difference" == against_text(
        msgspec.to_builtins(found["passed"]), points=True
    )


@pytest.mark.parametrize(
    ("against", "line"),
    [
        (None, "CR2-t p 0.010, Tango p 0.020"),
        ({"difference": 0.0, "saving": None}, "CR2-t p 0.010, Tango p 0.020 against no difference"),
    ],
)
def test_methods_of_one_hypothesis_share_a_line(against: Any, line: str) -> None:
    """What isn't known to be the hypothesis isn't said."""
    tests = {"cr2_t": {"p_value": 0.01}, "tango": {"p_value": 0.02}}
    endpoint = {"tests": tests, "in_points": True, "against": against}
    assert [line] == list(deciding_tests(endpoint))


def test_p_of_a_saving_is_held_against_the_saving() -> None:
    """The share that was asked for stands behind it."""
    endpoint = {
        "tests": {"cr2_t_saving": {"p_value": 0.000012}},
        "in_points": False,
        "against": {"difference": None, "saving": 0.2},
    }
    line = "CR2-t of the saving p 0.000012 against a saving of 20 %"
    assert [line] == list(deciding_tests(endpoint))


def test_stage_wise_p_has_the_hypothesis_of_its_endpoint() -> None:
    """What counts the looks is held against what the looks were."""
    endpoint: dict[str, Any] = {
        "interval": None,
        "tests": {},
        "discordant": None,
        "in_points": True,
        "scale": "raw",
        "units": {"excluded_count": 0, "lost": {}},
        "after_stopping": {
            "looks": 2,
            "estimate": 0.1,
            "lower": 0.01,
            "upper": 0.2,
            "p_one_sided": 0.0015,
        },
        "undetermined": None,
        "warnings": [],
        "against": {"difference": -0.03, "saving": None},
    }
    (line,) = endpoint_lines(endpoint, "A", "B")
    assert line.endswith("one-sided p 0.0015 against a difference of -3.0 points")
