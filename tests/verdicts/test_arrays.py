"""Pairs under the missing rules: what each status becomes, in each type and with replicates."""

from __future__ import annotations

import math
import random
from typing import Any

import pytest

from fairtrial.analysis.values import Undetermined
from fairtrial.verdicts.arrays import logged, pair_up
from fairtrial.verdicts.evaluate import frame_of
from fairtrial.verdicts.frames import Pairs, build_frame
from fairtrial.verdicts.outcomes import collect_decisions

RULES = (
    "{{rules: {{failed: failure, timeout: failure, limit: failure, error: exclude_pair, "
    "ungraded: {ungraded}, replay_miss: refuse, invalidated: worst_case}}, "
    "replicates: {replicates}, limit: 0.2}}"
)
BOUNDED = (
    "[{name: score, role: primary, type: bounded, value: score, better: higher, bounds: [0, 1], "
    "reducer: mean}]"
)


def missing(ungraded: str = "worst_case", replicates: str = "all") -> str:
    """Returns a section of missing rules in which every rule occurs."""
    return RULES.format(ungraded=ungraded, replicates=replicates)


def repeated(count: int) -> str:
    """Returns arms with replicates, their `passed` and `score` mapped."""
    arm = (
        "{{label: {0}, repeats: {1}, driver: {{kind: recorded, file: o.csv, where: {{arm: {0}}}, "
        "columns: {{unit: unit, replicate: r, passed: passed, score: score}}}}}}"
    )
    return f"{{A: {arm.format('a', count)}, B: {arm.format('b', count)}}}"


def paired(trial: Any, **options: Any) -> Pairs:
    """Returns the pairs of a trial's first comparison and endpoint."""
    protocol = trial.protocol
    return pair_up(
        frame_of(trial.context),
        protocol.analysis.comparisons[0],
        protocol.endpoints[0],
        **{"last": trial.plan.slot_count, **options},
    )


def values(trial: Any, pairs: Pairs, completion: int = 0) -> dict[str, tuple[float, float]]:
    """Returns (control, treatment) of each unit that is left."""
    found = pairs.completions[completion]
    names = [trial.plan.units[index] for index in pairs.units.tolist()]
    both = zip(found.control.tolist(), found.treatment.tolist(), strict=True)
    return dict(zip(names, both, strict=True))


def one_lost(bridge: Any, status: str, *, arm: str = "B", score: float | None = None) -> Any:
    """Returns a trial of three units in which one outcome of one arm isn't ok."""

    def answers(unit: str, name: str, replicate: int) -> Any:
        if unit == "u000-000" and name == arm:
            return bridge.outcome(score, status=status)
        return bridge.outcome(1.0)

    return bridge.trial(bridge.units(3, 1), answers, missing=missing())


def test_own_failure_counts_as_the_worst_value(bridge: Any) -> None:
    """Failed, timeout and limit of an arm are 0 where higher is better; the pair stays."""
    for status in ("failed", "timeout", "limit"):
        trial = one_lost(bridge, status)
        pairs = paired(trial)
        assert (1.0, 0.0) == values(trial, pairs)["u000-000"]
        assert {"A": {}, "B": {status: 1}} == pairs.statuses
        assert {"A": 0, "B": 0} == pairs.lost


def test_worst_value_follows_the_direction(bridge: Any) -> None:
    """Where lower is better, a failure counts as 1."""
    endpoint = "[{name: bad, role: primary, type: binary, value: passed, better: lower}]"
    trial = bridge.trial(
        bridge.units(2, 1),
        lambda unit, arm, r: bridge.outcome(status="failed") if arm == "A" else bridge.outcome(0.0),
        endpoints=endpoint,
    )
    assert {(1.0, 0.0)} == set(values(trial, paired(trial)).values())


def test_infrastructure_fault_takes_the_pair_out_of_both_arms(bridge: Any) -> None:
    """An error in one arm is evidence for neither: the unit leaves, named and counted."""
    trial = one_lost(bridge, "error", arm="A")
    pairs = paired(trial)
    assert {"u001-000", "u002-000"} == set(values(trial, pairs))
    assert ["u000-000"] == [trial.plan.units[index] for index in pairs.excluded]
    assert {"A": 1, "B": 0} == pairs.lost
    assert (3, 0) == (pairs.planned, pairs.refused)


def test_worst_case_is_completed_both_ways(bridge: Any) -> None:
    """A lost value stands against the treatment once and for it once, whichever arm lost it."""
    treatment_lost, control_lost = (
        one_lost(bridge, "ungraded"),
        one_lost(bridge, "ungraded", arm="A"),
    )
    pairs = paired(treatment_lost)
    found = [values(treatment_lost, pairs, each)["u000-000"] for each in (0, 1)]
    assert [(1.0, 0.0), (1.0, 1.0)] == found
    pairs = paired(control_lost)
    found = [values(control_lost, pairs, each)["u000-000"] for each in (0, 1)]
    assert [(1.0, 1.0), (0.0, 1.0)] == found


def test_refused_outcome_is_counted(bridge: Any) -> None:
    """`refuse` takes the unit out and is counted, since it voids every verdict."""
    pairs = paired(one_lost(bridge, "replay_miss"))
    assert (1, 2) == (pairs.refused, pairs.units.size)


@pytest.mark.parametrize("value", [None, math.nan, 2.0, -1.0, 0.5])
def test_value_outside_the_type_is_ungraded(bridge: Any, value: float | None) -> None:
    """An ok outcome without a 0 or 1 for a binary endpoint isn't silently 0 and no number."""

    def answers(unit: str, arm: str, replicate: int) -> Any:
        if unit == "u000-000" and arm == "B":
            return bridge.outcome(status="ok", scores={"passed": value})
        return bridge.outcome(1.0)

    trial = bridge.trial(bridge.units(3, 1), answers, missing=missing("exclude_pair"))
    pairs = paired(trial)
    assert {"A": {}, "B": {"ungraded": 1}} == pairs.statuses
    assert 2 == pairs.units.size


def test_bounds_of_the_endpoint_are_the_range(bridge: Any) -> None:
    """A bounded value beyond its declared bounds is ungraded; the bounds themselves are not."""

    def answers(unit: str, arm: str, replicate: int) -> Any:
        score = {"u000-000": 1.01, "u001-000": 1.0, "u002-000": 0.0}[unit]
        return bridge.outcome(scores={"score": score})

    trial = bridge.trial(bridge.units(3, 1), answers, endpoints=BOUNDED)
    assert {"u001-000", "u002-000"} == set(values(trial, paired(trial)))


def test_declared_number_stands_for_a_status(bridge: Any) -> None:
    """A number is a value like any other; the endpoint's own rule leads the protocol's."""
    endpoint = (
        "[{name: passed, role: primary, type: binary, value: passed, better: higher, "
        "missing: {timeout: 1, failed: exclude_pair}}]"
    )
    cases = {"u000-000": "timeout", "u001-000": "failed"}
    trial = bridge.trial(
        bridge.units(3, 1),
        lambda unit, arm, r: (
            bridge.outcome(0.0)
            if arm == "A" or unit not in cases
            else bridge.outcome(status=cases[unit])
        ),
        endpoints=endpoint,
    )
    assert {"u000-000": (0.0, 1.0), "u002-000": (0.0, 0.0)} == values(trial, paired(trial))


def test_measured_value_counts_whatever_the_status(bridge: Any) -> None:
    """`value` takes the money of a timeout, and a unit without any measured value leaves."""
    endpoint = (
        "[{name: usd, role: primary, type: cost, value: usd, better: lower, scale: raw, "
        "missing: {timeout: value, limit: value, failed: exclude_pair}}]"
    )
    usd = {"u000-000": 2_500_000_000, "u001-000": None, "u002-000": 1_000_000_000}
    trial = bridge.trial(
        bridge.units(3, 1),
        lambda unit, arm, r: (
            bridge.outcome(status="timeout", cost_nanousd=usd[unit])
            if arm == "B"
            else bridge.outcome(cost_nanousd=0)
        ),
        endpoints=endpoint,
    )
    assert {"u000-000": (0.0, 2.5), "u002-000": (0.0, 1.0)} == values(trial, paired(trial))


def test_strictest_rule_of_a_unit_wins(bridge: Any) -> None:
    """Excluded in one arm and worst case in the other is excluded; refused beats both."""
    cases = {"u000-000": ("error", "ungraded"), "u001-000": ("ungraded", "replay_miss")}

    def answers(unit: str, arm: str, replicate: int) -> Any:
        if unit not in cases:
            return bridge.outcome(1.0)
        return bridge.outcome(status=cases[unit][arm == "B"])

    pairs = paired(bridge.trial(bridge.units(3, 1), answers, missing=missing()))
    assert (2, 1, 1) == (pairs.excluded.size, pairs.refused, len(pairs.completions))
    assert {"A": 2, "B": 2} == pairs.lost


@pytest.mark.parametrize(
    ("reducer", "kind", "expected"),
    [
        ("first", "binary", 1.0),
        ("majority", "binary", 0.0),
        ("any", "binary", 1.0),
        ("all", "binary", 0.0),
        ("at_least, k: 2", "binary", 0.0),
        ("mean", "bounded, bounds: [0, 1]", 1 / 3),
        ("median", "bounded, bounds: [0, 1]", 0.0),
    ],
)
def test_replicates_become_one_value(bridge: Any, reducer: str, kind: str, expected: float) -> None:
    """Each reducer of the outcomes 1, 0, 0."""
    endpoint = (
        f"[{{name: passed, role: primary, type: {kind}, value: passed, better: higher, "
        f"reducer: {reducer}}}]"
    )
    trial = bridge.trial(
        bridge.units(2, 1),
        lambda unit, arm, replicate: bridge.outcome(float(replicate == 1)),
        endpoints=endpoint,
        arms=repeated(3),
    )
    assert {(expected, expected)} == set(values(trial, paired(trial)).values())


def test_lost_replicate_loses_the_unit_unless_fewer_are_enough(bridge: Any) -> None:
    """`all` needs every replicate; with 2 of 3 the mean is over those that there are."""

    def answers(unit: str, arm: str, replicate: int) -> Any:
        if unit == "u000-000" and arm == "B" and replicate == 2:
            return bridge.outcome(status="error")
        return bridge.outcome(scores={"score": replicate / 4})

    units = bridge.units(2, 1)
    options = {"endpoints": BOUNDED, "arms": repeated(3)}
    strict = bridge.trial(units, answers, missing=missing(), **options)
    assert {"u001-000"} == set(values(strict, paired(strict)))
    lenient = bridge.trial(units, answers, missing=missing(replicates="2"), **options)
    assert (0.5, 0.5) == values(lenient, paired(lenient))["u000-000"]
    assert {"A": 0, "B": 0} == paired(lenient).lost


def test_worst_case_fills_the_lost_replicate_alone(bridge: Any) -> None:
    """The other replicates of the unit keep what they said."""

    def answers(unit: str, arm: str, replicate: int) -> Any:
        if unit == "u000-000" and arm == "B" and replicate == 2:
            return bridge.outcome(status="ungraded")
        return bridge.outcome(scores={"score": 0.5})

    trial = bridge.trial(
        bridge.units(2, 1), answers, missing=missing(), endpoints=BOUNDED, arms=repeated(2)
    )
    pairs = paired(trial)
    found = [values(trial, pairs, each)["u000-000"] for each in (0, 1)]
    assert [(0.5, 0.25), (0.5, 0.75)] == found


def test_first_reads_replicate_one_alone(bridge: Any) -> None:
    """A lost second replicate doesn't matter to the reducer `first`."""
    endpoint = (
        "[{name: passed, role: primary, type: binary, value: passed, better: higher, "
        "reducer: first}]"
    )
    trial = bridge.trial(
        bridge.units(2, 1),
        lambda unit, arm, replicate: (
            bridge.outcome(1.0) if replicate == 1 else bridge.outcome(status="error")
        ),
        endpoints=endpoint,
        arms=repeated(2),
    )
    assert 2 == paired(trial).units.size


def test_answers_are_compared_with_the_positive_ones(bridge: Any) -> None:
    """Positive answers are 1, others 0, long ones 0 too, and none at all is ungraded."""
    endpoint = (
        "[{name: flagged, role: primary, type: binary, value: answer, positive: [yes, maybe], "
        "better: higher}]"
    )
    texts = {"u000-000": "yes", "u001-000": "maybe", "u002-000": "no", "u003-000": None}
    trial = bridge.trial(
        bridge.units(5, 1),
        lambda unit, arm, r: bridge.outcome(answer=texts.get(unit)),
        endpoints=endpoint,
    )
    long = trial.context.outcomes
    long.long_answers.update(
        slot.position for slot in trial.plan.slots() if slot.unit == "u004-000"
    )
    found = {unit: value for unit, (_, value) in values(trial, paired(trial)).items()}
    assert {"u000-000": 1.0, "u001-000": 1.0, "u002-000": 0.0, "u004-000": 0.0} == found


@pytest.mark.parametrize(
    ("value", "expected"), [("tokens", 7.0), ("duration_seconds", 1.5), ("usd", 0.25)]
)
def test_measures_have_their_units(bridge: Any, value: str, expected: float) -> None:
    """Tokens of all kinds are added, milliseconds become seconds, nano-USD become USD."""
    endpoint = (
        f"[{{name: it, role: primary, type: continuous, value: {value}, better: lower, "
        "missing: {failed: exclude_pair, timeout: exclude_pair, limit: exclude_pair}}]"
    )
    trial = bridge.trial(
        bridge.units(2, 1),
        lambda unit, arm, r: bridge.outcome(
            tokens={"input": 3, "output": 4}, duration_ms=1500, cost_nanousd=250_000_000
        ),
        endpoints=endpoint,
    )
    assert {(expected, expected)} == set(values(trial, paired(trial)).values())


def test_population_keeps_the_units_with_a_label(bridge: Any) -> None:
    """`where` restricts pairs and planned units alike."""
    endpoint = (
        "[{name: recall, role: primary, type: binary, value: passed, better: higher, "
        "where: {label: [1]}}]"
    )
    table = "unit,cluster,truth\na,c1,1\nb,c2,0\nc,c3,1\n"
    trial = bridge.trial(
        table,
        lambda unit, arm, r: bridge.outcome(1.0),
        endpoints=endpoint,
        units="{file: units.csv, id: unit, cluster: cluster, label: truth}",
    )
    pairs = paired(trial)
    assert {"a", "c"} == set(values(trial, pairs))
    assert 2 == pairs.planned


def test_invalidated_outcome_has_two_readings(bridge: Any) -> None:
    """The old value stays unless the rule for `invalidated` is asked for."""
    trial = one_lost(bridge, "ok", score=1.0)
    position = next(
        slot.position for slot in trial.plan.slots() if (slot.unit, slot.arm) == ("u000-000", "B")
    )
    trial.context.outcomes.invalidated[position] = 99
    assert 1 == len(paired(trial).completions)
    pairs = paired(trial, invalidated=True)
    assert 2 == len(pairs.completions)
    assert {"A": {}, "B": {"invalidated": 1}} == pairs.statuses


def test_bounds_fill_every_lost_value(bridge: Any) -> None:
    """`extreme` brings excluded units back, completed both ways."""
    trial = one_lost(bridge, "error")
    pairs = paired(trial, extreme=True)
    found = [values(trial, pairs, each)["u000-000"] for each in (0, 1)]
    assert [(1.0, 0.0), (1.0, 1.0)] == found


def test_unsettled_unit_is_not_run(bridge: Any) -> None:
    """A unit with an open slot is in no count; nor is one beyond the last position."""

    def answers(unit: str, arm: str, replicate: int) -> Any:
        return {} if (unit, arm) == ("u001-000", "B") else bridge.outcome(1.0)

    trial = bridge.trial(bridge.units(4, 1), answers)
    assert 3 == paired(trial).planned
    assert 0 == paired(trial, last=1).planned


def test_ratios_need_values_above_zero(bridge: Any) -> None:
    """The log scale is undetermined as soon as one value is 0."""
    trial = bridge.trial(bridge.units(3, 1), lambda unit, arm, r: bridge.outcome(1.0))
    pairs = logged(paired(trial))
    assert not isinstance(pairs, Undetermined)
    assert [0.0] * 3 == pairs.completions[0].control.tolist()
    assert isinstance(logged(paired(one_lost(bridge, "failed"))), Undetermined)


def test_order_of_outcomes_changes_nothing(bridge: Any) -> None:
    """Pairs are the same however the outcomes came."""
    draw = random.Random(5)

    def answers(unit: str, arm: str, replicate: int) -> Any:
        status = draw.choice(["ok", "ok", "ok", "failed", "error", "ungraded"])
        return bridge.outcome(float(draw.random() < 0.5), status=status)

    trial = bridge.trial(bridge.units(6, 5), lambda unit, arm, r: {}, missing=missing())
    decisions = bridge.decisions(trial.plan, answers, "recorded")
    found: list[Pairs] = []
    for seed in (None, 1, 2):
        if seed is not None:
            random.Random(seed).shuffle(decisions)
        outcomes = collect_decisions(decisions, trial.plan.slot_count)
        frame = build_frame(trial.protocol, trial.plan, trial.units, outcomes)
        comparison = trial.protocol.analysis.comparisons[0]
        endpoint = trial.protocol.endpoints[0]
        found.append(pair_up(frame, comparison, endpoint, last=trial.plan.slot_count))
    for other in found[1:]:
        assert found[0].units.tolist() == other.units.tolist()
        assert found[0].statuses == other.statuses
        for one, two in zip(found[0].completions, other.completions, strict=True):
            assert one.differences.tolist() == two.differences.tolist()
