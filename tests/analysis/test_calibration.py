"""Calibration against scikit-learn and by definition."""

from __future__ import annotations

import math

import numpy as np
import pytest
from sklearn.isotonic import IsotonicRegression  # type: ignore[import-untyped]  # no types shipped
from sklearn.metrics import (  # type: ignore[import-untyped]  # no types shipped
    brier_score_loss,
    log_loss,
)

from fairtrial.analysis import calibration
from fairtrial.analysis.grouping import FloatArray, IntArray
from fairtrial.analysis.values import Undetermined


def _data(seed: int, n: int = 80) -> tuple[FloatArray, IntArray]:
    rng = np.random.default_rng(seed)
    scores = np.round(rng.normal(size=n), 1)
    return scores, (rng.random(n) < 1.0 / (1.0 + np.exp(-1.5 * scores))).astype(np.int64)


@pytest.mark.parametrize("seed", range(5))
def test_isotonic_agrees_with_scikit_learn(seed: int) -> None:
    """Ties averaged and weighted, at every distinct score."""
    scores, labels = _data(seed)
    found = calibration.isotonic(scores, labels)
    oracle = IsotonicRegression().fit(scores, labels.astype(float))
    assert found.fitted == pytest.approx(oracle.predict(np.array(found.knots)))
    assert list(found.fitted) == sorted(found.fitted)


@pytest.mark.parametrize("seed", range(3))
def test_platt_is_at_the_minimum(seed: int) -> None:
    """The gradient of the smoothed likelihood vanishes."""
    scores, labels = _data(seed)
    found = calibration.platt(scores, labels)
    assert isinstance(found, calibration.Platt)
    p = np.array([found.probability(s) for s in scores])
    ones = labels.sum()
    target = np.where(labels == 1, (ones + 1) / (ones + 2), 1 / (labels.size - ones + 2))
    assert float(np.sum(p - target)) == pytest.approx(0.0, abs=1e-8)
    assert float(np.sum((p - target) * scores)) == pytest.approx(0.0, abs=1e-8)


def test_platt_survives_separation_and_constant_scores() -> None:
    """Smoothed targets keep perfect separation finite; a constant score has slope 0."""
    separated = calibration.platt(np.array([-2.0, -1.0, 1.0, 2.0]), np.array([0, 0, 1, 1]))
    assert isinstance(separated, calibration.Platt)
    assert 0.0 < separated.slope < 50.0
    constant = calibration.platt(np.full(6, 3.0), np.array([0, 1, 1, 0, 1, 1]))
    assert isinstance(constant, calibration.Platt)
    assert constant.probability(3.0) == pytest.approx((4 * 5 / 6 + 2 * 1 / 4) / 6, abs=1e-6)
    assert (separated.probability(-1e6), separated.probability(1e6)) == (0.0, 1.0)
    assert isinstance(calibration.platt(np.ones(3), np.ones(3, dtype=np.int64)), Undetermined)


def test_scores_of_probabilities_agree_with_scikit_learn() -> None:
    """Brier and log loss; an impossible outcome has no finite loss."""
    scores, labels = _data(7)
    p = 1.0 / (1.0 + np.exp(-scores))
    assert calibration.brier(p, labels) == pytest.approx(brier_score_loss(labels, p))
    assert calibration.log_loss(p, labels) == pytest.approx(log_loss(labels, p))
    assert isinstance(calibration.log_loss(np.array([1.0]), np.array([0])), Undetermined)
    assert calibration.log_loss(np.array([1.0]), np.array([1])) == 0.0


def test_ece_bins_are_closed_below_and_the_last_on_both_sides() -> None:
    """0.5 falls into the upper of two bins, 1 into the last."""
    p, labels = np.array([0.0, 0.5, 1.0, 0.25]), np.array([0, 1, 1, 1])
    low, high = abs(0.0 + 0.25 - 1.0), abs(0.5 + 1.0 - 2.0)
    assert calibration.ece(p, labels, bins=2) == pytest.approx((low + high) / 4)
    assert calibration.ece(p, labels, bins=1) == pytest.approx(abs(1.75 - 3.0) / 4)


@pytest.mark.parametrize(
    "call",
    [
        lambda: calibration.brier(np.array([1.2]), np.array([1])),
        lambda: calibration.brier(np.array([0.2]), np.array([2])),
        lambda: calibration.ece(np.array([0.2]), np.array([1]), bins=0),
        lambda: calibration.isotonic(np.array([]), np.array([])),
        lambda: calibration.platt(np.array([math.nan]), np.array([1])),
    ],
)
def test_bad_arguments_are_value_errors(call: object) -> None:
    """Probabilities, labels and bins outside their range."""
    assert callable(call)
    with pytest.raises(ValueError, match="expected"):
        call()
