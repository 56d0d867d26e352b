"""Tango's score interval: against direct maximisation, at every border, and with clusters."""

from __future__ import annotations

import math

import numpy as np
import pytest

from fairtrial.analysis.distributions import normal_upper_quantile, t_upper_quantile
from fairtrial.analysis.paired import ClusteredMean, clustered_mean
from fairtrial.analysis.tango import (
    TangoAdjusted,
    tango,
    tango_cluster_adjusted,
    tango_cluster_adjusted_p,
    tango_limits,
    tango_score,
    tango_statistic,
)
from fairtrial.analysis.values import Undetermined


def _profile_statistic(n10: float, n01: float, n: float, null: float) -> float:
    """The score with the restricted estimate found by golden-section search, not a formula."""

    def loss(p10: float) -> float:
        p01 = p10 + null
        rest = 1.0 - p10 - p01
        cells = ((n10, p10), (n01, p01), (n - n10 - n01, rest))
        if any(p < 0.0 or (count > 0.0 and p <= 0.0) for count, p in cells):
            return math.inf
        return -math.fsum(count * math.log(p) for count, p in cells if count > 0.0)

    low, high = max(0.0, -null), (1.0 - null) / 2.0
    ratio = (math.sqrt(5.0) - 1.0) / 2.0
    for _ in range(200):
        a, b = high - ratio * (high - low), low + ratio * (high - low)
        low, high = (low, b) if loss(a) < loss(b) else (a, high)
    p10 = 0.5 * (low + high)
    return (n01 - n10 - n * null) / math.sqrt(n * (2.0 * p10 + null - null * null))


@pytest.mark.parametrize(
    "counts", [(3, 9, 40), (12, 2, 50), (5, 5, 30), (0, 7, 25), (8.4, 1.3, 19.5)]
)
@pytest.mark.parametrize("null", [-0.4, -0.05, 0.05, 0.31])
def test_statistic_is_the_score_at_the_restricted_maximum(
    counts: tuple[float, float, float], null: float
) -> None:
    """The closed form equals a numeric maximisation, for fractional counts too."""
    assert tango_statistic(*counts, null) == pytest.approx(
        _profile_statistic(*counts, null), abs=1e-5
    )


def test_at_zero_it_is_mcnemar() -> None:
    """Without a margin the statistic is (n01 - n10)/sqrt(n01 + n10)."""
    assert tango_statistic(7, 15, 60, 0.0) == pytest.approx(8.0 / math.sqrt(22.0))
    assert tango_statistic(0, 0, 60, 0.0) == 0.0


def test_limits_are_where_the_statistic_is_critical() -> None:
    """Every table of up to 9 pairs and some large ones."""
    z = normal_upper_quantile(0.025)
    tables = [(b, c, n) for n in range(1, 10) for b in range(n + 1) for c in range(n + 1 - b)]
    for b, c, n in [*tables, (300, 410, 9000), (0, 1, 10**6)]:
        lower, upper = tango_limits(b, c, n, z)
        estimate = (c - b) / n
        assert -1.0 <= lower <= estimate <= upper <= 1.0
        assert lower < upper
        if upper < 1.0:
            assert tango_statistic(b, c, n, upper) == pytest.approx(-z, abs=1e-6)
        if lower > -1.0:
            assert tango_statistic(b, c, n, lower) == pytest.approx(z, abs=1e-6)


def test_swapping_arms_negates_to_the_last_bit() -> None:
    """Limits and statistic."""
    for b, c, n in ((3, 9, 40), (0, 0, 25), (11.7, 4.2, 33.3), (0, 10, 10)):
        there, back = tango(b, c, n), tango(c, b, n)
        assert (there.lower, there.upper) == (-back.upper, -back.lower)
        assert tango_statistic(b, c, n, 0.1) == -tango_statistic(c, b, n, -0.1)


def test_borders_have_a_width() -> None:
    """No discordance, and all pairs one way."""
    none, all_up = tango(0, 0, 25), tango(0, 10, 10)
    assert (none.lower, none.upper) == pytest.approx((-0.133192250939, 0.133192250939), abs=1e-9)
    assert all_up.upper == 1.0
    assert 0.0 < all_up.lower < 1.0


def test_score_test_has_complementary_sides() -> None:
    """The two one-sided p sum to one."""
    found = tango_score(3, 9, 40, null=0.05)
    assert found.p_greater + found.p_less == pytest.approx(1.0)
    assert found.z == tango_statistic(3, 9, 40, 0.05)


def _clustered(seed: int, clusters: int = 15, size: int = 12) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    codes = np.repeat(np.arange(clusters), rng.integers(1, size, clusters))
    win = rng.beta(1.0, 1.0, clusters)[codes]
    differing = rng.random(codes.size) < 0.3
    return differing * np.where(rng.random(codes.size) < win, 1.0, -1.0), codes


def _adjusted(values: np.ndarray, codes: np.ndarray, alpha: float = 0.05) -> TangoAdjusted:
    found = tango_cluster_adjusted(values, codes, alpha=alpha)
    assert isinstance(found, TangoAdjusted)
    return found


@pytest.mark.parametrize("seed", range(6))
def test_adjusted_interval_is_tango_of_the_divided_counts(seed: int) -> None:
    """Counts over max(1, V_CR2/V_naive), and the t quantile with the df of CR2."""
    values, codes = _clustered(seed)
    found, mean = _adjusted(values, codes), clustered_mean(values, codes)
    assert isinstance(mean, ClusteredMean)
    deff = max(1.0, mean.standard_error**2 / mean.variance_naive)
    b, c, n = (np.sum(values < 0) / deff, np.sum(values > 0) / deff, values.size / deff)
    limits = tango_limits(b, c, n, t_upper_quantile(0.025, mean.df))
    assert (found.lower, found.upper) == pytest.approx(limits)
    assert (found.deff, found.df, found.n_effective) == pytest.approx((deff, mean.df, n))


@pytest.mark.parametrize("seed", range(6))
@pytest.mark.parametrize("null", [-0.1, 0.0, 0.02])
def test_adjusted_p_and_interval_agree(seed: int, null: float) -> None:
    """The p at a null is below alpha exactly when the null lies outside the interval."""
    values, codes = _clustered(seed)
    p = tango_cluster_adjusted_p(values, codes, null=null)
    assert isinstance(p, float)
    for alpha in (p * 0.999, min(0.999, p * 1.001)):
        found = _adjusted(values, codes, alpha)
        assert (found.lower <= null <= found.upper) == (p >= alpha)


def test_at_zero_the_adjusted_statistic_follows_from_t() -> None:
    """Z = t sqrt(1 - n d^2/(b + c)) where the design effect is not cut, so its p is larger."""
    values, codes = _clustered(2)
    mean = clustered_mean(values, codes)
    assert isinstance(mean, ClusteredMean)
    found = _adjusted(values, codes)
    assert found.deff > 1.0
    t = mean.estimate / mean.standard_error
    n, b, c = values.size, np.sum(values < 0), np.sum(values > 0)
    shrunk = t * math.sqrt(1.0 - n * mean.estimate**2 / (b + c))
    z = tango_statistic(b / found.deff, c / found.deff, n / found.deff, 0.0)
    assert z == pytest.approx(shrunk)


def test_design_effect_is_cut_at_one() -> None:
    """Clusters that balance better than chance do not narrow the interval."""
    values, codes = np.tile([1.0, -1.0, 0.0, 0.0], 10), np.repeat(np.arange(10), 4)
    found = _adjusted(values, codes)
    assert found.deff == 1.0
    assert found.lower < 0.0 < found.upper


@pytest.mark.parametrize("value", [0.0, 1.0, -1.0])
def test_without_variation_clusters_count_as_units(value: float) -> None:
    """No discordance, or nothing else: the design effect of fully correlated clusters."""
    codes = np.repeat(np.arange(8), [1, 2, 3, 4, 5, 6, 7, 8])
    found = _adjusted(np.full(36, value), codes)
    assert found.deff == pytest.approx(sum(k * k for k in range(1, 9)) / 36)
    assert found.upper - found.lower > 0.2
    assert found.lower <= value <= found.upper


def test_order_and_names_change_no_bit() -> None:
    """Permuted units and renamed clusters give equal results."""
    values, codes = _clustered(4)
    first, rng = _adjusted(values, codes), np.random.default_rng(0)
    for _ in range(5):
        order, names = rng.permutation(values.size), rng.permutation(1000)[:15]
        assert first == _adjusted(values[order], names[codes][order])
        mirrored = _adjusted(-values[order], names[codes][order])
        assert (first.lower, first.upper) == (-mirrored.upper, -mirrored.lower)


def test_duplicating_units_keeps_the_adjusted_interval() -> None:
    """Twice the units with the same answers: the design effect doubles."""
    values, codes = _clustered(1)
    once, twice = _adjusted(values, codes), _adjusted(np.tile(values, 2), np.tile(codes, 2))
    assert once.deff > 1.0
    assert (twice.lower, twice.upper) == pytest.approx((once.lower, once.upper))


def test_bad_arguments_are_refused() -> None:
    """Other values than -1, 0, 1, impossible counts, a null outside (-1, 1); one cluster."""
    codes = np.array([0, 1])
    with pytest.raises(ValueError, match="-1, 0 or 1"):
        tango_cluster_adjusted(np.array([0.5, 1.0]), codes)
    with pytest.raises(ValueError, match="n10"):
        tango(5, 6, 10)
    with pytest.raises(ValueError, match="null"):
        tango_score(1, 2, 10, null=1.0)
    one = tango_cluster_adjusted(np.array([1.0, 0.0]), np.array([2, 2]))
    assert isinstance(one, Undetermined)
    assert isinstance(tango_cluster_adjusted_p(np.array([1.0]), np.array([2])), Undetermined)
