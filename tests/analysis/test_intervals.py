"""Intervals of one rate and one mean, and closed forms for pairs, against scipy and brute force."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from scipy import stats  # type: ignore[import-untyped]  # scipy ships no types

from fairtrial.analysis import intervals as iv
from fairtrial.analysis.values import Interval, Undetermined


def _t_test(values: Any, null: float = 0.0, **options: Any) -> Any:
    """Scipy's test, whose result type no checker knows."""
    return stats.ttest_1samp(values, null, **options)


@pytest.mark.parametrize(("k", "n"), [(0, 1), (1, 1), (0, 12), (3, 12), (12, 12), (88, 97)])
def test_rates_agree_with_scipy(k: int, n: int) -> None:
    """Clopper-Pearson and Wilson, with and without continuity correction."""
    oracle = stats.binomtest(k, n)
    for found, method in (
        (iv.clopper_pearson(k, n), "exact"),
        (iv.wilson(k, n), "wilson"),
        (iv.wilson(k, n, continuity_correction=True), "wilsoncc"),
    ):
        low, high = oracle.proportion_ci(method=method)
        assert (found.lower, found.upper) == pytest.approx((low, high), abs=1e-9)


def test_one_sided_bounds_are_the_two_sided_limits_at_twice_alpha() -> None:
    """Each bound of every table up to n = 12."""
    for n in range(1, 13):
        for k in range(n + 1):
            exact, score = iv.clopper_pearson(k, n, alpha=0.1), iv.wilson(k, n, alpha=0.1)
            assert iv.clopper_pearson_lower(k, n, alpha=0.05) == exact.lower
            assert iv.clopper_pearson_upper(k, n, alpha=0.05) == exact.upper
            assert iv.wilson_lower(k, n, alpha=0.05) == pytest.approx(score.lower, abs=1e-15)
            assert iv.wilson_upper(k, n, alpha=0.05) == pytest.approx(score.upper, abs=1e-15)


def test_exact_interval_covers_at_every_rate() -> None:
    """Clopper-Pearson keeps 95 % for n = 14 at each of 99 rates, by enumeration."""
    found = [iv.clopper_pearson(k, 14) for k in range(15)]
    for rate in np.arange(0.01, 1.0, 0.01).tolist():
        masses = [math.comb(14, k) * rate**k * (1 - rate) ** (14 - k) for k in range(15)]
        held = math.fsum(
            m for m, i in zip(masses, found, strict=True) if i.lower <= rate <= i.upper
        )
        assert held >= 0.95


def test_every_rate_interval_is_ordered_and_mirrors() -> None:
    """Inside [0, 1], never empty, and failures mirror successes."""
    for function in (iv.wilson, iv.clopper_pearson, iv.jeffreys):
        for k in range(10):
            there, back = function(k, 9), function(9 - k, 9)
            assert 0.0 <= there.lower <= k / 9 <= there.upper <= 1.0
            assert there.lower < there.upper
            assert there.lower == pytest.approx(1.0 - back.upper, abs=1e-12)


def test_t_mean_is_the_one_sample_t_test() -> None:
    """Interval and p of scipy; nothing where nothing varies."""
    values = np.random.default_rng(1).normal(0.2, 1.0, 30)
    found = iv.t_mean(values, alpha=0.1)
    assert isinstance(found, iv.MeanTest)
    oracle = _t_test(values, 0.0)
    low, high = oracle.confidence_interval(0.9)
    assert (found.interval.lower, found.interval.upper) == pytest.approx((low, high))
    assert found.p_value == pytest.approx(oracle.pvalue)
    assert isinstance(iv.t_mean(np.full(9, 0.1)), Undetermined)
    assert isinstance(iv.t_mean(np.array([0.1])), Undetermined)


def test_bounded_intervals_are_clipped_and_never_empty() -> None:
    """Hoeffding and empirical Bernstein; the latter narrower for a tight sample."""
    tight = np.full(5000, 0.5) + np.tile([0.001, -0.001], 2500)
    wide = iv.hoeffding(0.5, 5000, low=0.0, high=1.0)
    narrow = iv.empirical_bernstein(tight, low=0.0, high=1.0)
    assert isinstance(narrow, Interval)
    assert narrow.upper - narrow.lower < wide.upper - wide.lower
    constant = iv.empirical_bernstein(np.zeros(20), low=0.0, high=1.0)
    assert isinstance(constant, Interval)
    assert constant.lower == 0.0 < constant.upper
    assert isinstance(iv.empirical_bernstein(np.zeros(1), low=0.0, high=1.0), Undetermined)


def test_pair_intervals_keep_a_width_and_mirror() -> None:
    """Newcombe and Bonett-Price over every table of six pairs."""
    tables = [
        (a, b, c, 6 - a - b - c) for a in range(7) for b in range(7 - a) for c in range(7 - a - b)
    ]
    for n11, n10, n01, n00 in tables:
        corrected = iv.newcombe_paired(n11, n10, n01, n00, phi_correction=True)
        assert isinstance(corrected, Interval)
        assert corrected.lower < corrected.upper
        there = iv.newcombe_paired(n11, n10, n01, n00)
        back = iv.newcombe_paired(n11, n01, n10, n00)
        if isinstance(there, Undetermined) or isinstance(back, Undetermined):
            assert (3, 0, 0, 3) == (n11, n10, n01, n00)
            continue
        assert -1.0 <= there.lower < there.upper <= 1.0
        assert (there.lower, there.upper) == pytest.approx((-back.upper, -back.lower), abs=1e-12)
        price = iv.bonett_price(n10, n01, 6)
        assert -1.0 <= price.lower < price.upper <= 1.0
        assert price.lower == -iv.bonett_price(n01, n10, 6).upper


@pytest.mark.parametrize(
    "call",
    [
        lambda: iv.wilson(3, 2),
        lambda: iv.clopper_pearson(-1, 2),
        lambda: iv.hoeffding(0.5, 0, low=0.0, high=1.0),
        lambda: iv.hoeffding(1.5, 4, low=0.0, high=1.0),
        lambda: iv.empirical_bernstein(np.array([0.2, 0.4]), low=1.0, high=0.0),
        lambda: iv.newcombe_paired(0, 0, 0, 0),
        lambda: iv.bonett_price(3, 3, 5),
    ],
)
def test_bad_arguments_are_value_errors(call: object) -> None:
    """Counts and bounds that cannot be."""
    assert callable(call)
    with pytest.raises(ValueError, match="expected"):
        call()
