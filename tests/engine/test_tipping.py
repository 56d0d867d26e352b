"""The tipping-point table: its ends are the bounds, its change is where a count by hand puts it."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import msgspec
import pytest

from fairtrial.engine.conclude import conclude, detail
from fairtrial.ledger.events import Head

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
    assert (None, "adopt") == (found["tipping"]["changes_at"], found["tipping"]["claim"])


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
    at = found["changes_at"]
    assert 1 <= at <= 5
    assert {"adopt"} == set(words[:at])
    assert "adopt" not in words[at:]
    # At the change 14 pairs speak for the treatment and 3 + at against it, of 200.
    assert found["steps"][at]["estimate"] == pytest.approx((14 - 3 - at) / 200)
