"""Diagnostics find what was put into the data, and void a verdict only where registered so."""

from __future__ import annotations

import json
from typing import Any

import pytest

from fairtrial.ledger.events import Head
from fairtrial.verbs.text_result import result_text
from fairtrial.verdicts.conclude import conclude, detail
from fairtrial.verdicts.endings import endings
from fairtrial.verdicts.evaluate import frame_of

FULL = "{{rule: superiority, margin: 0.0}}"


def better(bridge: Any) -> Any:
    """Returns answers in which B wins one unit of ten in most clusters."""

    def answers(unit: str, arm: str, replicate: int) -> Any:
        return bridge.outcome(int(arm == "B" and wins(unit)))

    return answers


def wins(unit: str) -> bool:
    """Returns whether a unit is the first of its cluster, in three clusters of four."""
    return unit.endswith("-000") and int(unit[1:4]) % 4 > 0


def diagnosed(trial: Any) -> dict[str, Any]:
    """Returns the diagnostics of a run trial, by name."""
    ended = trial.run()
    found = endings(ended.context, frame_of(ended.context))[0]
    return {each.name: each for each in found.diagnoses}


def test_clean_run_finds_nothing(bridge: Any) -> None:
    """Where nothing is wrong nothing is positive, and everything was looked at."""
    found = diagnosed(bridge.trial(bridge.units(20, 10), better(bridge)))
    assert {"served_model", "order_effect", "time_drift", "informative_size"} == set(found)
    assert not any(each.positive for each in found.values())


def test_other_model_is_counted_and_voids_where_registered(bridge: Any) -> None:
    """One outcome of another model: shown; with `inconclusive` the verdict is open."""

    def answers(unit: str, arm: str, replicate: int) -> Any:
        fields = {"requested_model": "m-1", "served_model": "m-1"}
        if unit == "u003-003" and arm == "B":
            fields["served_model"] = "m-2"
        return bridge.outcome(int(arm == "B" and wins(unit)), **fields)

    shown = bridge.trial(bridge.units(20, 10), answers)
    assert diagnosed(shown)["served_model"].value == 1.0
    assert "adopt" == conclude(shown.run().context).verdict
    voided = bridge.trial(bridge.units(20, 10), answers, diagnostics="{served_model: inconclusive}")
    result = conclude(voided.run().context)
    assert ("inconclusive", "diagnostic") == (result.verdict, result.reason_code)
    assert "served by another model than requested: 1" in result.reason


@pytest.mark.parametrize("effect", ["show", "inconclusive"])
def test_arm_that_goes_first_is_found(bridge: Any, effect: str) -> None:
    """B passes only where it goes first: that is an order effect, not a better arm."""
    first: dict[str, str] = {}
    plan = bridge.trial(bridge.units(20, 10), better(bridge)).plan
    for slot in plan.slots():
        first.setdefault(slot.unit, slot.arm)

    def answers(unit: str, arm: str, replicate: int) -> Any:
        return bridge.outcome(int(arm == "B" and first[unit] == "B"))

    sections = {} if effect == "show" else {"diagnostics": "{order_effect: inconclusive}"}
    trial = bridge.trial(bridge.units(20, 10), answers, **sections)
    found = diagnosed(trial)["order_effect"]
    assert (True, pytest.approx(0.5)) == (found.positive, found.value)
    assert found.text.startswith("the arm that goes first does better by 50.0 points (p ")
    verdict = conclude(trial.run().context).verdict
    assert ("adopt" if effect == "show" else "inconclusive") == verdict


def test_order_effect_is_said_by_its_direction(bridge: Any) -> None:
    """Where less is better the arm that goes first does worse; no sign has to be read."""
    first: dict[str, str] = {}
    for slot in bridge.trial(bridge.units(20, 10), better(bridge)).plan.slots():
        first.setdefault(slot.unit, slot.arm)
    lower = "[{name: passed, role: primary, type: binary, value: passed, better: lower}]"
    trial = bridge.trial(
        bridge.units(20, 10),
        lambda unit, arm, replicate: bridge.outcome(int(first[unit] == arm)),
        endpoints=lower,
    )
    text = diagnosed(trial)["order_effect"].text
    assert text.startswith("the arm that goes first does worse by 100.0 points (p ")
    context = trial.run().context
    head = Head(size=1, root="0" * 64)
    form = detail(context, conclude(context), experiment="t", basis=head, spend_nanousd={})
    shown = result_text(json.loads(form))
    assert "; shown, does not touch the verdict" in shown


def test_drift_over_the_run_is_found(bridge: Any) -> None:
    """B wins in the later half of the clusters alone."""
    plan = bridge.trial(bridge.units(20, 10), better(bridge)).plan
    place = {name: number for number, name in enumerate(dict.fromkeys(plan.clusters))}

    def answers(unit: str, arm: str, replicate: int) -> Any:
        late = place["c" + unit[1:4]] >= 10
        return bridge.outcome(int(arm == "B" and late and int(unit[-3:]) < 5))

    trial = bridge.trial(bridge.units(20, 10), answers, diagnostics="{time_drift: inconclusive}")
    found = diagnosed(trial)["time_drift"]
    assert found.positive
    assert found.value > 0.8
    assert "diagnostic" == conclude(trial.run().context).reason_code


def test_informative_size_voids_where_registered(bridge: Any) -> None:
    """The treatment wins in small clusters and changes nothing in one that is large."""
    rows = [f"s{c}-{u},c{c}" for c in range(12) for u in range(3)]
    rows += [f"b{c}-{u},d{c}" for c in range(12) for u in range(60)]
    table = "unit,cluster\n" + "\n".join(rows) + "\n"

    def answers(unit: str, arm: str, replicate: int) -> Any:
        if unit.startswith("s"):
            return bridge.outcome(int(arm == "B"))
        return bridge.outcome(int(arm == "B" and unit.endswith("-1")))

    shown = bridge.trial(table, answers)
    assert diagnosed(shown)["informative_size"].positive
    trial = bridge.trial(table, answers, diagnostics="{informative_size: inconclusive}")
    assert "adopt" == conclude(shown.run().context).verdict
    assert "diagnostic" == conclude(trial.run().context).reason_code


def test_flips_between_replicates_are_counted(bridge: Any) -> None:
    """In arm B one unit of ten contradicts itself, in A none; neither decides."""
    sections = {
        "arms": "{A: {repeats: 2, driver: {kind: recorded, file: o.csv, where: {arm: a}, columns: "
        "{unit: unit, replicate: r, passed: p}}}, B: {repeats: 2, driver: {kind: recorded, file: "
        "o.csv, where: {arm: b}, columns: {unit: unit, replicate: r, passed: p}}}}",
        "endpoints": "[{name: passed, role: primary, type: bounded, bounds: [0, 1], value: passed, "
        "better: higher, reducer: mean}]",
    }

    def answers(unit: str, arm: str, replicate: int) -> Any:
        return bridge.outcome(int(arm == "B" and unit.endswith("-000") and replicate == 1))

    trial = bridge.trial(bridge.units(20, 10), answers, **sections).run()
    ending = endings(trial.context, frame_of(trial.context))[0]
    rates = [each.value for each in ending.diagnoses if each.name == "flip_rate"]
    assert [0.0, 0.1] == rates
