"""Simulated pairs have the mean, spread, correlation and loss that were assumed."""

from __future__ import annotations

import math

import numpy as np
import pytest

from fairtrial.analysis.correlation import Icc, icc_anova
from fairtrial.analysis.simulation import PairModel, simulate_pairs

CLUSTERS = np.repeat(np.arange(4000), 10)


def known_icc(values: np.ndarray, clusters: np.ndarray) -> float:
    """Returns the analysis-of-variance estimate of the correlation."""
    found = icc_anova(values, clusters)
    assert isinstance(found, Icc)
    return found.icc


@pytest.mark.parametrize(("effect", "discordance", "icc"), [(0.05, 0.2, 0.1), (0.0, 0.1, 0.4)])
def test_yes_or_no_has_what_was_assumed(effect: float, discordance: float, icc: float) -> None:
    """Mean, share that differs and correlation are those of the model, whatever the shares."""
    model = PairModel(effect=effect, sd=0.0, discordance=discordance, icc=icc, base=0.7)
    pairs = simulate_pairs(model, CLUSTERS, seed=5, run=3)
    difference = pairs.treatment - pairs.control
    assert float(difference.mean()) == pytest.approx(effect, abs=0.012)
    assert float((difference != 0).mean()) == pytest.approx(discordance, abs=0.012)
    assert known_icc(difference, CLUSTERS) == pytest.approx(icc, abs=0.03)
    assert float(pairs.control[difference == 0].mean()) == pytest.approx(0.7, abs=0.01)
    assert set(np.unique(pairs.control)) | set(np.unique(pairs.treatment)) == {0.0, 1.0}


def test_normal_has_what_was_assumed() -> None:
    """Mean, standard deviation and correlation are those of the model, on the log scale too."""
    model = PairModel(effect=0.3, sd=0.5, icc=0.2, base=9.0)
    pairs = simulate_pairs(model, CLUSTERS, seed=5, run=0)
    difference = pairs.treatment - pairs.control
    assert float(difference.mean()) == pytest.approx(0.3, abs=0.02)
    assert float(difference.std()) == pytest.approx(0.5, abs=0.02)
    assert known_icc(difference, CLUSTERS) == pytest.approx(0.2, abs=0.03)
    logs = simulate_pairs(
        PairModel(effect=0.3, sd=0.5, icc=0.2, is_log=True), CLUSTERS, seed=5, run=0
    )
    assert np.log(logs.treatment / logs.control) == pytest.approx(difference, abs=1e-9)


def test_lost_pairs_fall_on_both_arms() -> None:
    """The assumed share of pairs is lost, half of it in each arm."""
    model = PairModel(effect=0.0, sd=0.0, discordance=0.2, missing=0.1)
    lost = simulate_pairs(model, CLUSTERS, seed=1, run=0).lost
    assert [float((lost == code).mean()) for code in (1, 2)] == pytest.approx(
        [0.05, 0.05], abs=0.005
    )


def test_a_run_is_the_same_alone() -> None:
    """A run doesn't depend on the runs before it, and no two runs are alike."""
    model = PairModel(effect=0.0, sd=1.0, icc=0.1)
    clusters = np.array([0, 0, 1, 1, 2])
    runs = [simulate_pairs(model, clusters, seed=9, run=run).control for run in range(5)]
    assert np.array_equal(runs[3], simulate_pairs(model, clusters, seed=9, run=3).control)
    assert len({tuple(run.tolist()) for run in runs}) == 5


def test_impossible_assumptions_are_refused() -> None:
    """A difference above the share that differs, a correlation of 1, codes that jump."""
    with pytest.raises(ValueError, match="discordance"):
        PairModel(effect=0.3, sd=0.0, discordance=0.2)
    with pytest.raises(ValueError, match="icc"):
        PairModel(effect=0.0, sd=1.0, icc=1.0)
    with pytest.raises(ValueError, match="finite"):
        PairModel(effect=math.inf, sd=1.0)
    with pytest.raises(ValueError, match="clusters"):
        simulate_pairs(PairModel(effect=0.0, sd=1.0), np.array([0, 2]), seed=1, run=0)
