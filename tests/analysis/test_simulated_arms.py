"""Arms drawn together: each comparison has what is assumed of it, beside every other one."""

from __future__ import annotations

import math

import numpy as np
import pytest

from fairtrial.analysis.correlation import Icc, icc_anova
from fairtrial.analysis.simulated_arms import ArmStep, impossible_step, simulate_arms
from fairtrial.analysis.simulation import PairModel

CLUSTERS = np.repeat(np.arange(4000), 10)


def known_icc(values: np.ndarray) -> float:
    """Returns the analysis-of-variance estimate of the correlation."""
    found = icc_anova(values, CLUSTERS)
    assert isinstance(found, Icc)
    return found.icc


def star(*models: PairModel) -> tuple[ArmStep, ...]:
    """Returns steps that compare further arms with arm 0, the control of all."""
    return tuple(ArmStep(known=0, is_control=True, model=model) for model in models)


def test_yes_or_no_comparisons_with_one_control_have_what_was_assumed() -> None:
    """Difference, share that differs and correlation are each model's own; yes stays 0 or 1."""
    models = [
        PairModel(effect=0.05, sd=0.0, discordance=0.2, icc=0.1),
        PairModel(effect=-0.1, sd=0.0, discordance=0.3, icc=0.1),
    ]
    values = simulate_arms(star(*models), CLUSTERS, seed=5, run=3).values
    for model, arm in zip(models, values[1:], strict=True):
        difference = arm - values[0]
        assert float(difference.mean()) == pytest.approx(model.effect, abs=0.012)
        assert float((difference != 0).mean()) == pytest.approx(model.discordance, abs=0.012)
        assert known_icc(difference) == pytest.approx(0.1, abs=0.03)
    assert set(np.unique(values)) == {0.0, 1.0}


def test_a_chain_is_walked_in_both_directions() -> None:
    """Arm 1 against 0, arm 2 against 1, and arm 3 as the control of a comparison with 0."""
    models = [PairModel(effect=0.1, sd=0.0, discordance=share) for share in (0.2, 0.3, 0.4)]
    steps = (
        ArmStep(known=0, is_control=True, model=models[0]),
        ArmStep(known=1, is_control=True, model=models[1]),
        ArmStep(known=0, is_control=False, model=models[2]),
    )
    values = simulate_arms(steps, CLUSTERS, seed=5, run=1).values
    for low, high, model in ((0, 1, models[0]), (1, 2, models[1]), (3, 0, models[2])):
        difference = values[high] - values[low]
        assert float(difference.mean()) == pytest.approx(0.1, abs=0.01)
        assert float((difference != 0).mean()) == pytest.approx(model.discordance, abs=0.01)


@pytest.mark.slow
def test_normal_comparisons_have_their_spread_and_share_the_noise_of_the_common_arm() -> None:
    """Mean, spread and icc are each model's own; equal spreads have correlation one half."""
    models = [PairModel(effect=effect, sd=0.5, icc=0.2, base=9.0) for effect in (0.3, -0.1)]
    models.append(PairModel(effect=0.0, sd=0.8, icc=0.2, base=9.0))
    values = simulate_arms(star(*models), CLUSTERS, seed=5, run=0).values
    differences = [arm - values[0] for arm in values[1:]]
    for model, difference in zip(models, differences, strict=True):
        assert float(difference.mean()) == pytest.approx(model.effect, abs=0.02)
        assert float(difference.std()) == pytest.approx(model.sd, abs=0.02)
        assert known_icc(difference) == pytest.approx(0.2, abs=0.03)
    assert np.corrcoef(differences[0], differences[1])[0, 1] == pytest.approx(0.5, abs=0.02)


@pytest.mark.slow
def test_a_level_is_common_to_all_arms_and_leaves_differences_alone() -> None:
    """On the log scale the level varies by its own spread and icc, the ratio by its own."""
    model = PairModel(effect=math.log(0.7), sd=0.4, base=2.0, is_log=True)
    with_level = PairModel(
        effect=math.log(0.7), sd=0.4, base=2.0, is_log=True, level_sd=0.9, level_icc=0.3
    )
    plain, level = (
        np.log(simulate_arms(star(each, each), CLUSTERS, seed=2, run=0).values)
        for each in (model, with_level)
    )
    assert level[1] - level[0] == pytest.approx(plain[1] - plain[0], abs=1e-9)
    common = level[0] - plain[0]
    assert common == pytest.approx(level[2] - plain[2], abs=1e-9)
    assert float(common.std()) == pytest.approx(0.9, abs=0.03)
    assert known_icc(common) == pytest.approx(0.3, abs=0.03)


def test_assigned_arms_have_rates_and_means_that_add_up() -> None:
    """Of units in one arm each only the arms' own rates count; each is lost as assumed."""
    models = [
        PairModel(effect=0.1, sd=0.5, base=0.5, assigned=True, is_yes_or_no=True, missing=0.2),
        PairModel(effect=-0.2, sd=0.5, base=0.5, assigned=True, is_yes_or_no=True, missing=0.2),
    ]
    arms = simulate_arms(star(*models), CLUSTERS, seed=4, run=0)
    assert arms.values.mean(axis=1) == pytest.approx([0.45, 0.55, 0.25], abs=0.01)
    assert arms.lost.mean(axis=1) == pytest.approx([0.2, 0.2, 0.2], abs=0.01)


def test_the_assumed_share_of_pairs_is_lost() -> None:
    """Either arm of a pair may be the lost one, so each is lost less often than the pair."""
    model = PairModel(effect=0.0, sd=0.0, discordance=0.2, missing=0.1)
    lost = simulate_arms(star(model, model), CLUSTERS, seed=1, run=0).lost
    for arm in (1, 2):
        assert float((lost[0] | lost[arm]).mean()) == pytest.approx(0.1, abs=0.006)


def test_shares_that_leave_no_room_are_found() -> None:
    """An arm that is yes in 15 % of units can't lose a yes in 20 % of them."""
    rare = PairModel(effect=0.1, sd=0.0, discordance=0.1, base=0.05)
    wide = PairModel(effect=0.0, sd=0.0, discordance=0.4)
    assert impossible_step(star(rare, rare)) is None
    assert impossible_step(star(rare, wide)) == 1
    with pytest.raises(ValueError, match="step 1 can't hold"):
        simulate_arms(star(rare, wide), CLUSTERS, seed=1, run=0)
    with pytest.raises(ValueError, match="an arm before"):
        simulate_arms((ArmStep(known=1, is_control=True, model=wide),), CLUSTERS, seed=1, run=0)


def test_a_run_is_the_same_alone() -> None:
    """A run doesn't depend on the runs before it, and no two runs are alike."""
    steps, clusters = star(*[PairModel(effect=0.0, sd=1.0)] * 2), np.array([0, 0, 1, 1, 2])
    runs = [simulate_arms(steps, clusters, seed=9, run=run).values for run in range(4)]
    assert np.array_equal(runs[3], simulate_arms(steps, clusters, seed=9, run=3).values)
    assert len({run.tobytes() for run in runs}) == 4
