"""Diagnostics keep their error where nothing is wrong, and are exact on small cases."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest

from fairtrial.analysis.diagnostics import flip_rate, order_effect, time_drift
from fairtrial.analysis.values import Undetermined


def number(found: tuple[float, float] | Undetermined) -> tuple[float, float]:
    """Returns a pair of numbers that has to be there."""
    assert not isinstance(found, Undetermined)
    return found


def test_order_effect_is_exact_on_few_units() -> None:
    """Up to 16 units p is the share of all assignments that reach the observed sum."""
    rng = np.random.default_rng(4)
    values, first = rng.normal(size=10), np.array([True, False] * 5)
    centred = values - values.mean()
    sums = [abs(float(np.dot(centred, signs))) for signs in product((-1, 1), repeat=10)]
    observed = abs(float(np.dot(centred, np.where(first, 1, -1))))
    expected = sum(each >= observed - 1e-9 for each in sums) / len(sums)
    effect, p = number(order_effect(values, first))
    assert expected == pytest.approx(p)
    assert effect == pytest.approx((values[first].mean() - values[~first].mean()) / 2)


@pytest.mark.slow
def test_order_effect_keeps_its_error_within_clusters() -> None:
    """Strong clusters don't matter, since the order is drawn unit by unit."""
    rng, hits, runs = np.random.default_rng(7), 0, 1500
    for _ in range(runs):
        values = np.repeat(rng.normal(size=10), 10) + rng.normal(size=100) / 4
        hits += number(order_effect(values, rng.random(100) < 0.5))[1] < 0.05
    assert hits / runs == pytest.approx(0.05, abs=0.018)


@pytest.mark.slow
def test_time_drift_keeps_its_error() -> None:
    """Clusters of unlike size in an order drawn at random show a drift in about 5 % of runs."""
    rng, hits, runs = np.random.default_rng(8), 0, 1500
    sizes = np.array([1, 2, 3, 5, 8, 13, 21, 34, 3, 4, 5, 6])
    for _ in range(runs):
        order = rng.permutation(sizes)
        clusters = np.repeat(np.arange(12), order)
        values = rng.normal(size=12)[clusters] + rng.normal(size=len(clusters))
        hits += number(time_drift(values, clusters))[1] < 0.05
    assert hits / runs == pytest.approx(0.05, abs=0.018)


def test_time_drift_is_a_correlation() -> None:
    """The number is the correlation of places and cluster means."""
    clusters = np.repeat(np.arange(9), 3)
    values = np.random.default_rng(1).normal(size=27)
    means = values.reshape(9, 3).mean(axis=1)
    expected = float(np.corrcoef(np.arange(9), means)[0, 1])
    assert expected == pytest.approx(number(time_drift(values, clusters))[0])


def test_nothing_to_see_is_said() -> None:
    """Few units, one order only, no variance: no number, and a reason."""
    few = np.zeros(4)
    assert isinstance(order_effect(few, np.array([True, False] * 2)), Undetermined)
    assert isinstance(order_effect(np.arange(9.0), np.ones(9, dtype=bool)), Undetermined)
    assert isinstance(order_effect(np.zeros(10), np.array([True, False] * 5)), Undetermined)
    assert isinstance(time_drift(few, np.arange(4)), Undetermined)
    assert isinstance(time_drift(np.zeros(9), np.arange(9)), Undetermined)
    assert isinstance(flip_rate(np.zeros((3, 1))), Undetermined)


def test_flip_rate_counts_units_that_differ() -> None:
    """Missing replicates don't flip; units with one replicate don't count."""
    nan = np.nan
    table = np.array([[0, 0, 1], [1, 1, 1], [0, nan, 0], [1, nan, nan]])
    assert flip_rate(table) == pytest.approx(1 / 3)
