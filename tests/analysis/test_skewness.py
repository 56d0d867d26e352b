"""The growth of a contrast with costs: what it is made of, and what doesn't move it."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy import stats  # type: ignore[import-untyped]  # scipy ships no types

from fairtrial.analysis.skewness import LEAST_UNITS, SIGMA_MAX, Z_OCTILE, cost_growth
from fairtrial.analysis.values import Undetermined


def test_octile_is_that_of_the_normal() -> None:
    """Seven eighths lie below."""
    assert Z_OCTILE == pytest.approx(stats.norm.ppf(0.875), abs=1e-15)


def test_growth_is_rank_correlation_times_spread() -> None:
    """By scipy's ranks, ties included, and the lognormal with the octiles, of both arms."""
    rng = np.random.default_rng(1)
    control = np.round(rng.lognormal(0.0, 1.0, 200), 1)
    treatment = 0.8 * control + rng.normal(0.0, 0.3, 200)
    contrast = treatment - 0.5 * control
    expected = 0.0
    for arm in (control, treatment):
        low, middle, high = np.sort(arm)[25], np.median(arm), np.sort(arm)[-26]
        sigma = math.log((high - middle) / (middle - low)) / Z_OCTILE
        rank = np.corrcoef(stats.rankdata(contrast), stats.rankdata(arm))[0, 1]
        expected += float(rank) * math.sqrt(math.exp(sigma**2) - 1)
    assert cost_growth(contrast, control, treatment) == pytest.approx(expected / 2.0)


def test_costs_of_a_lognormal_spread_by_its_coefficient_of_variation() -> None:
    """Where the contrast follows control and treatment is symmetric, half of control's counts."""
    quantiles = stats.norm.ppf((np.arange(4001) + 0.5) / 4001)
    for variation in (0.5, 1.0, 2.0):
        control = 3.0 + np.exp(math.sqrt(math.log(1.0 + variation**2)) * quantiles)
        found = cost_growth(control, control, quantiles)
        assert found == pytest.approx(variation / 2.0, rel=0.01)


def test_largest_costs_move_nothing() -> None:
    """A million times dearer dear units give the same growth: those are what nobody may draw."""
    rng = np.random.default_rng(2)
    control = np.sort(rng.lognormal(0.0, 1.0, 80))
    dearer = np.concatenate((control[:-5], 1e6 * control[-5:]))
    assert cost_growth(control, control, control) == cost_growth(dearer, dearer, dearer)


def test_arms_that_pull_apart_cancel() -> None:
    """Equal independent costs grow by nearly nothing, whichever arm is control."""
    rng = np.random.default_rng(3)
    one, other = rng.lognormal(0.0, 1.0, (2, 4000))
    found = cost_growth(other - one, one, other)
    assert found == pytest.approx(0.0, abs=0.05)
    assert cost_growth(one - other, other, one) == pytest.approx(0.0, abs=0.05)


def test_costs_that_are_equal_or_longer_below_have_no_part() -> None:
    """No spread, no correlation, and no arithmetic that fails."""
    rising = np.arange(40.0)
    same = np.ones(40)
    assert 0.0 == cost_growth(rising, same, same)
    assert 0.0 == cost_growth(same, np.exp(rising / 10), np.exp(rising / 10))
    assert 0.0 == cost_growth(rising, -np.exp(-rising / 10), same)


def test_many_equal_costs_spread_as_far_as_any() -> None:
    """Half of the units cost nothing: the growth is at its end, and finite."""
    costs = np.concatenate((np.zeros(30), np.arange(1.0, 11.0)))
    found = cost_growth(costs, costs, np.ones(40))
    assert found == pytest.approx(math.sqrt(math.expm1(SIGMA_MAX**2)) / 2.0)


def test_few_units_show_nothing() -> None:
    """Below 16 an octile is one unit."""
    few = np.arange(LEAST_UNITS - 1.0)
    assert isinstance(cost_growth(few, few, few), Undetermined)
    with pytest.raises(ValueError, match="expected 15 numbers each, found 3 and 15"):
        cost_growth(few, few[:3], few)
