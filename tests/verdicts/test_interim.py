"""Notes of futility and inference after stopping, against their formulas and their symmetry."""

from __future__ import annotations

import math
import random
from typing import Any

import msgspec
import numpy as np
import pytest

from fairtrial.analysis.distributions import normal_sf, normal_upper_quantile
from fairtrial.analysis.stagewise import conditional_power, final_within
from fairtrial.ledger.events import Head
from fairtrial.verdicts import boundaries
from fairtrial.verdicts.conclude import conclude, detail
from fairtrial.verdicts.interim import AfterStopping, after_stopping, futility_notes

LOOKS = "{at: [0.5, 1.0], icc: 0.05, futility: {conditional_power: 0.1}}"


def drawn(bridge: Any, rates: dict[str, float], **sections: str) -> Any:
    """Returns a trial of 40 clusters of 5 whose arms pass with given rates."""

    def answers(unit: str, arm: str, replicate: int) -> Any:
        return bridge.outcome(int(random.Random(f"{unit}/{arm}").random() < rates[arm]))

    return bridge.trial(bridge.units(40, 5), answers, **{"looks": LOOKS, **sections})


def stopped(trial: Any) -> AfterStopping:
    """Returns the stage-wise inference of a run trial's first test."""
    test = boundaries.tests_of(trial.protocol)[0]
    found = after_stopping(trial.protocol, test, trial.context.taken)
    assert found is not None
    return found


def test_note_is_the_conditional_power_of_the_trend(bridge: Any) -> None:
    """The note is P(Z at the end beyond its boundary), the trend so far going on."""
    trial = drawn(bridge, {"A": 0.5, "B": 0.55}).take(1)
    (note,) = futility_notes(trial.protocol, trial.context.taken)
    found = trial.context.taken[0].comparisons[0].endpoints[0]
    t, last = found.information_fraction, trial.context.looks[1].tests[0].z
    z = math.copysign(normal_upper_quantile(found.p_value / 2), found.estimate)
    mean = z * math.sqrt(t) + z / math.sqrt(t) * (1 - t)
    assert normal_sf((last - mean) / math.sqrt(1 - t)) == pytest.approx(note.conditional_power)
    assert note.is_futile == (note.conditional_power < 0.1)


def test_worse_treatment_is_futile_and_binds_nobody(bridge: Any) -> None:
    """A treatment that does worse has no hope left; the look says so and goes on all the same."""
    trial = drawn(bridge, {"A": 0.5, "B": 0.45}).take(1)
    (note,) = futility_notes(trial.protocol, trial.context.taken)
    assert note.is_futile
    assert trial.context.taken[0].continues


@pytest.mark.parametrize(
    ("rule", "shift"), [("equivalence", 0.0), ("[superiority, equivalence]", 0.08)]
)
def test_note_of_equivalence_is_the_chance_of_a_last_interval(
    bridge: Any, rule: str, shift: float
) -> None:
    """Drawn last estimates, the trend going on, conclude as often as the note says."""
    decision = f"{{rule: {rule}, margin: 0.15}}"
    trial = drawn(bridge, {"A": 0.5, "B": 0.5 + shift}, decision=decision).take(1)
    (note,) = futility_notes(trial.protocol, trial.context.taken)
    found = trial.context.taken[0].comparisons[0].endpoints[0]
    t, last = found.information_fraction, trial.context.looks[1].tests[0].z
    error = found.standard_error * math.sqrt(t)
    source = np.random.default_rng(3)
    # The remaining part has the same mean as the part seen, and its own error.
    rest = found.estimate + source.normal(size=400_000) * error / math.sqrt(1.0 - t)
    final = t * found.estimate + (1.0 - t) * rest
    concludes = (final - last * error > -0.15) & (final + last * error < 0.15)
    if "superiority" in rule:
        concludes |= final - last * error > 0.15
    assert 0.01 < note.conditional_power < 0.99
    assert note.conditional_power == pytest.approx(float(np.mean(concludes)), abs=0.004)


def test_one_range_above_is_conditional_power() -> None:
    """The chance of ending above one limit is that of the statistic beyond its boundary."""
    for z, t, critical in ((0.4, 0.3, 2.1), (1.9, 0.8, 2.0), (-1.0, 0.5, 1.96)):
        error = 0.2 * math.sqrt(t)
        chance = final_within(0.2 * z, error, t, [(critical * error, math.inf)])
        assert chance == pytest.approx(conditional_power(z, t, critical), abs=1e-12)


def test_no_note_unless_asked_and_something_is_to_come(bridge: Any) -> None:
    """Without the field, at the last look, before any look: no note."""
    plain = drawn(bridge, {"A": 0.5, "B": 0.5}, looks="{at: [0.5, 1.0], icc: 0.05}").take(1)
    assert [] == futility_notes(plain.protocol, plain.context.taken)
    trial = drawn(bridge, {"A": 0.5, "B": 0.5})
    assert [] == futility_notes(trial.protocol, trial.context.taken)
    assert [] == futility_notes(trial.protocol, trial.take(1).take(2).context.taken)


def test_one_look_leaves_the_estimate_as_it_is(bridge: Any) -> None:
    """With one look nothing was selected: estimate as observed, p half the deciding one."""
    trial = drawn(bridge, {"A": 0.4, "B": 0.6}, looks="{at: [1.0]}").run()
    found, look = stopped(trial), trial.context.taken[0].comparisons[0].endpoints[0]
    assert look.estimate == pytest.approx(found.estimate, abs=1e-8)
    assert look.p_value / 2 == pytest.approx(found.p_one_sided, rel=1e-6)
    assert (found.lower > 0) == (look.p_value < 0.05)


def test_stop_at_the_first_look_pulls_nothing_beyond_it(bridge: Any) -> None:
    """Stopped early, the stage-wise p is that of the first look alone."""
    trial = drawn(bridge, {"A": 0.2, "B": 0.8}).run()
    assert 1 == len(trial.context.taken)
    found, look = stopped(trial), trial.context.taken[0].comparisons[0].endpoints[0]
    assert look.p_value / 2 == pytest.approx(found.p_one_sided, rel=1e-6)
    assert found.lower < found.estimate < found.upper


def test_later_end_shrinks_towards_the_null(bridge: Any) -> None:
    """At the last look the chance of an earlier stop counts: p is larger than the look's own."""
    trial = drawn(bridge, {"A": 0.45, "B": 0.57}).run()
    assert 2 == len(trial.context.taken)
    found, look = stopped(trial), trial.context.taken[1].comparisons[0].endpoints[0]
    assert 2 == found.looks
    assert found.p_one_sided > look.p_value / 2
    assert 0 < found.estimate <= look.estimate


@pytest.mark.parametrize("rates", [{"A": 0.45, "B": 0.57}, {"A": 0.2, "B": 0.8}])
def test_swapped_arms_mirror_everything(bridge: Any, rates: dict[str, float]) -> None:
    """Control and treatment exchanged: estimate and interval change sign, p becomes 1 - p."""

    def answers(swap: bool) -> Any:
        def answer(unit: str, arm: str, replicate: int) -> Any:
            name = {"A": "B", "B": "A"}[arm] if swap else arm
            return bridge.outcome(int(random.Random(f"{unit}/{name}").random() < rates[name]))

        return answer

    one, other = (
        stopped(bridge.trial(bridge.units(40, 5), answers(swap), looks=LOOKS).run())
        for swap in (False, True)
    )
    assert one.estimate == pytest.approx(-other.estimate, abs=1e-7)
    assert (one.lower, one.upper) == pytest.approx((-other.upper, -other.lower), abs=1e-7)
    assert one.p_one_sided == pytest.approx(1 - other.p_one_sided, abs=1e-7)


def test_result_shows_both(bridge: Any) -> None:
    """The long form holds the note of look 1 and the inference after look 2."""
    trial = drawn(bridge, {"A": 0.45, "B": 0.57}).run()
    head = Head(size=1, root="0" * 64)
    data = detail(
        trial.context, conclude(trial.context), experiment="t", basis=head, spend_nanousd={}
    )
    comparison = msgspec.json.decode(data)["comparisons"][0]
    assert comparison["endpoints"][0]["after_stopping"]["estimate"] == stopped(trial).estimate
    assert [True, False] == [row["conditional_power"] is not None for row in comparison["looks"]]
