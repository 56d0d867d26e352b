"""The tipping-point table: its ends are the bounds, its change is where a count by hand puts it."""

from __future__ import annotations

import itertools
import random
from itertools import pairwise
from typing import Any

import msgspec
import pytest

from fairtrial.ledger.events import Head, Verdict
from fairtrial.verdicts.conclude import conclude, detail
from fairtrial.verdicts.fewest import Step
from fairtrial.verdicts.tipping import changes_of

LOSSES = (
    "{{rules: {{failed: failure, timeout: failure, limit: failure, error: {}, ungraded: "
    "exclude_pair, replay_miss: exclude_pair, invalidated: exclude_pair}}, limit: 0.2}}"
)


def ended(bridge: Any, lost: int, *, rule: str = "exclude_pair", arm: str = "B") -> Any:
    """Returns the endpoint of a result in which some outcomes of an arm were lost."""

    def answers(unit: str, name: str, replicate: int) -> Any:
        cluster, number = int(unit[1:4]), int(unit[-3:])
        if name == arm and number == 9 and cluster < lost:
            return {"status": "error", "code": "down"}
        return bridge.outcome(1 if name == "B" and number < 2 + cluster % 2 else 0)

    trial = bridge.trial(bridge.units(20, 10), answers, missing=LOSSES.format(rule))
    return shown(trial.run())


def shown(trial: Any) -> Any:
    """Returns the endpoint in the long form of a result."""
    head = Head(size=1, root="0" * 64)
    data = detail(
        trial.context, conclude(trial.context), experiment="t", basis=head, spend_nanousd={}
    )
    return msgspec.json.decode(data)["comparisons"][0]["endpoints"][0]


def test_nothing_lost_no_table(bridge: Any) -> None:
    """Without a lost outcome there is nothing to tip."""
    assert ended(bridge, 0)["tipping"] is None


@pytest.mark.parametrize("rule", ["exclude_pair", "worst_case"])
def test_ends_of_the_table_are_the_bounds(bridge: Any, rule: str) -> None:
    """The first and the last step are the two extreme completions, whatever the rule."""
    found = ended(bridge, 6, rule=rule)
    steps = found["tipping"]["steps"]
    assert [0, 1, 2, 3, 4, 5, 6] == [step["against"] for step in steps]
    assert found["bounds"]["lower"] == min(step["lower"] for step in steps)
    assert found["bounds"]["upper"] == max(step["upper"] for step in steps)
    assert ([], "adopt") == (found["tipping"]["fewest"], found["tipping"]["claim"])


def test_each_outcome_moves_the_estimate_by_one_unit(bridge: Any) -> None:
    """From step to step one treatment outcome of 200 turns from success to failure."""
    steps = ended(bridge, 6)["tipping"]["steps"]
    moves = [a["estimate"] - b["estimate"] for a, b in pairwise(steps)]
    assert [1 / 200] * 6 == pytest.approx(moves)
    assert [0, 1, 2, 3, 4, 5, 6] == [step["treatment_worst"] for step in steps]


def test_control_that_succeeds_counts_against(bridge: Any) -> None:
    """Where control's outcomes were lost, its successes count against the treatment."""
    steps = ended(bridge, 4, arm="A")["tipping"]["steps"]
    assert [0, 0, 0, 0, 0] == [step["treatment_worst"] for step in steps]
    assert steps[0]["estimate"] > steps[-1]["estimate"]


def test_claim_changes_where_enough_go_against(bridge: Any) -> None:
    """14 clusters to 3 are a claim; each lost outcome against adds one, and the table says when."""

    def answers(unit: str, name: str, replicate: int) -> Any:
        cluster, number = int(unit[1:4]), int(unit[-3:])
        if number == 4:
            lost = {"status": "error", "code": "down"}
            return lost if name == "B" else bridge.outcome(1)
        if number == 0:
            return bridge.outcome(int(name == "B" and cluster < 14))
        return bridge.outcome(int(name == "A" and number == 1 and cluster >= 17))

    trial = bridge.trial(bridge.units(20, 10), answers, missing=LOSSES.format("exclude_pair"))
    found = shown(trial.run())["tipping"]
    words = [step["verdict"] for step in found["steps"]]
    assert ("adopt", 20) == (found["claim"], found["lost"])
    at = found["changes"][0]["at_least"]
    assert 1 <= at <= 5
    (fewest,) = found["fewest"]
    assert ("against", True) == (fewest["way"], fewest["exact"])
    assert 1 <= fewest["count"] <= at
    assert {"adopt"} == set(words[:at])
    assert "adopt" not in words[at:]
    # At the change 14 pairs speak for the treatment and 3 + at against it, of 200.
    assert found["steps"][at]["estimate"] == pytest.approx((14 - 3 - at) / 200)


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(6))
def test_bounds_and_claim_agree_with_all_completions(bridge: Any, seed: int) -> None:
    """5 lost outcomes, filled in all 32 ways: steps, bounds and claim say what they give."""
    chance = random.Random(seed)
    places = [(f"u{c:03}-{u:03}", arm) for c in range(14) for u in range(2) for arm in "AB"]
    values = {
        place: int(chance.random() < (0.4 if place[1] == "A" else 0.7 + 0.03 * seed))
        for place in places
    }
    lost = chance.sample(places, 5)

    def endpoint(filled: dict[tuple[str, str], int]) -> Any:
        def answers(unit: str, arm: str, replicate: int) -> Any:
            value = filled.get((unit, arm))
            return {"status": "error"} if value is None else bridge.outcome(value)

        rules = LOSSES.format("exclude_pair")
        return shown(bridge.trial(bridge.units(14, 2), answers, missing=rules).run())

    found = endpoint({key: value for key, value in values.items() if key not in lost})
    completed: dict[tuple[int, ...], Any] = {
        ends: endpoint(values | dict(zip(lost, ends, strict=True)))
        for ends in itertools.product((0, 1), repeat=5)
    }
    best = tuple(int(arm == "B") for _, arm in lost)
    worst = tuple(1 - end for end in best)
    steps = found["tipping"]["steps"]
    estimates = [each["difference"] for each in completed.values()]
    assert (max(estimates), min(estimates)) == (steps[0]["estimate"], steps[-1]["estimate"])
    limits = {_limits(each) for each in completed.values()}
    assert {(step["lower"], step["upper"]) for step in steps} <= limits
    assert (steps[0]["lower"], steps[0]["upper"]) == _limits(completed[best])
    assert (steps[-1]["lower"], steps[-1]["upper"]) == _limits(completed[worst])
    within = [_limits(found), *((step["lower"], step["upper"]) for step in steps)]
    lower, upper, holds = (found["bounds"][key] for key in ("lower", "upper", "claim_holds"))
    assert (lower, upper) == (min(low for low, _ in within), max(high for _, high in within))
    assert holds == (len({low > 0 for low, _ in within}) == 1)
    assert holds == (not found["tipping"]["changes"])


def _limits(endpoint: Any) -> tuple[float, float]:
    return endpoint["interval"]["lower"], endpoint["interval"]["upper"]


def test_open_claim_changes_with_few_against() -> None:
    """A claim that is inconclusive changes with K or fewer, with K or more, or on both sides."""
    words: list[Verdict] = ["adopt", "adopt", "inconclusive", "reject"]
    steps = tuple(
        Step(against=k, treatment_worst=k, estimate=0.0, lower=0.0, upper=0.0, verdict=word)
        for k, word in enumerate(words)
    )

    def changes(claim: Any, some: tuple[Step, ...]) -> Any:
        return [(c.verdict, c.at_least, c.at_most) for c in changes_of(some, claim)]

    both = [("adopt", 0, 1), ("reject", 3, 3)]
    assert both == changes("inconclusive", steps)
    assert [("reject", 3, 3)] == changes("inconclusive", steps[2:])
    assert [("inconclusive", 2, 2), ("reject", 3, 3)] == changes("adopt", steps)
    assert [("adopt", 0, 1), ("inconclusive", 2, 2)] == changes("reject", steps)
    assert [] == changes("adopt", steps[:2])
