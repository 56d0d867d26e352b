"""Bootstrap, jackknife and wild bootstrap: against complete enumeration, seeded, order-free."""

from __future__ import annotations

import math
from itertools import product
from typing import Any

import numpy as np
import pytest
from scipy import stats  # type: ignore[import-untyped]  # scipy ships no types

from fairtrial.analysis.draws import drawn_counts, drawn_totals
from fairtrial.analysis.grouping import FloatArray, on_grid
from fairtrial.analysis.paired import ClusteredMean, clustered_mean
from fairtrial.analysis.resampling import (
    BcaLevels,
    Bootstrap,
    Jackknife,
    bca_levels,
    cluster_bootstrap,
    cluster_percentiles,
    jackknife_t,
    percentile_limits,
)
from fairtrial.analysis.values import Interval, Undetermined
from fairtrial.analysis.wild import WildBootstrap, wild_bootstrap_t

SUMS = np.array([3.0, 1.0, 2.0, 4.0, -1.0])
SIZES = np.array([10.0, 6.0, 9.0, 12.0, 5.0])


def _t_test(values: Any, null: float = 0.0, **options: Any) -> Any:
    """Scipy's test, whose result type no checker knows."""
    return stats.ttest_1samp(values, null, **options)


def _bootstrap(sums: FloatArray, sizes: FloatArray, seed: int = 1) -> Bootstrap:
    found = cluster_bootstrap(sums, sizes, seed=seed)
    assert isinstance(found, Bootstrap)
    return found


def _interval(value: Interval | Undetermined) -> Interval:
    assert isinstance(value, Interval)
    return value


def test_bootstrap_is_near_the_complete_one() -> None:
    """Standard error and percentile limits against all 5^5 resamples."""
    picks = np.array(list(product(range(5), repeat=5)))
    ratios = np.sort(SUMS[picks].sum(axis=1) / SIZES[picks].sum(axis=1))
    found = _bootstrap(SUMS, SIZES)
    assert found.standard_error == pytest.approx(float(ratios.std()), rel=0.03)
    limits = _interval(found.percentile)
    assert limits.lower == pytest.approx(np.quantile(ratios, 0.025), abs=0.012)
    assert limits.upper == pytest.approx(np.quantile(ratios, 0.975), abs=0.012)


def test_studentised_limits_follow_from_their_definition() -> None:
    """Pivots of all 5^5 resamples with CR1, quantiles turned round the estimate."""
    picks = np.array(list(product(range(5), repeat=5)))
    estimate = SUMS.sum() / SIZES.sum()

    def error(sums: FloatArray, sizes: FloatArray) -> FloatArray:
        mean = sums.sum(axis=1) / sizes.sum(axis=1)
        residuals = sums - sizes * mean[:, None]
        return np.asarray(
            np.sqrt((residuals**2).sum(axis=1) * 5 / 4) / sizes.sum(axis=1), dtype=np.float64
        )

    means = SUMS[picks].sum(axis=1) / SIZES[picks].sum(axis=1)
    with np.errstate(divide="ignore", invalid="ignore"):
        pivots = np.nan_to_num(
            (means - estimate) / error(SUMS[picks], SIZES[picks]), nan=0.0, posinf=1e9, neginf=-1e9
        )
    scale = error(SUMS[None, :], SIZES[None, :])[0]
    found = _interval(_bootstrap(SUMS, SIZES).studentised)
    for limit, level in ((found.upper, 0.025), (found.lower, 0.975)):
        below, above = np.quantile(pivots, [level - 0.006, level + 0.006])
        assert estimate - above * scale <= limit <= estimate - below * scale


def test_bootstrap_does_not_depend_on_the_order_of_clusters() -> None:
    """Permuted clusters give equal numbers; another seed gives others."""
    rng = np.random.default_rng(3)
    sums, sizes = rng.normal(size=40), rng.integers(1, 9, 40).astype(float)
    first, order = _bootstrap(sums, sizes), rng.permutation(40)
    assert first == _bootstrap(sums[order], sizes[order])
    assert first != _bootstrap(sums, sizes, seed=2)


def test_many_clusters_agree_with_the_formula() -> None:
    """At 400 clusters every interval is near CR2-t."""
    rng = np.random.default_rng(5)
    codes = np.repeat(np.arange(400), 5)
    values = rng.normal(0.2, 1.0, 2000) + rng.normal(0.0, 0.5, 400)[codes]
    mean = clustered_mean(values, codes)
    assert isinstance(mean, ClusteredMean)
    found = _bootstrap(np.bincount(codes, values).astype(np.float64), np.full(400, 5.0))
    half = 1.96 * mean.standard_error
    for interval in (found.percentile, found.bca, found.studentised):
        limits = _interval(interval)
        assert limits.lower == pytest.approx(mean.estimate - half, abs=0.15 * half)
        assert limits.upper == pytest.approx(mean.estimate + half, abs=0.15 * half)


def test_degenerate_data_give_reasons() -> None:
    """Equal cluster means, one cluster: no interval of zero width, no NaN."""
    flat = _bootstrap(np.array([2.0, 4.0, 6.0]), np.array([1.0, 2.0, 3.0]))
    assert flat.estimate == 2.0
    for interval in (flat.percentile, flat.bca, flat.studentised):
        assert isinstance(interval, Undetermined)
    assert isinstance(cluster_bootstrap(np.ones(1), np.ones(1), seed=1), Undetermined)


def test_resamples_without_units_are_not_dropped() -> None:
    """A ratio whose denominator can vanish has no percentile limit there."""
    sizes = np.array([3.0, 0.0, 0.0, 0.0, 0.0, 0.0])
    found = _bootstrap(np.array([2.0, 0.0, 0.0, 0.0, 0.0, 0.0]), sizes)
    assert isinstance(found.standard_error, Undetermined)
    assert isinstance(found.percentile, Undetermined)


def test_percentile_is_the_weibull_quantile() -> None:
    """(B + 1)p order statistics, linear between, as numpy's "weibull"."""
    values = np.random.default_rng(2).normal(size=99)
    for low, high in ((0.025, 0.975), (0.05, 0.95), (0.013, 0.6)):
        found = percentile_limits(values, low, high)
        assert not isinstance(found, Undetermined)
        assert found == pytest.approx(np.quantile(values, [low, high], method="weibull"))
    assert isinstance(percentile_limits(np.array([]), 0.1, 0.9), Undetermined)


def test_bca_of_a_symmetric_case_has_the_plain_levels() -> None:
    """No bias and no skew: the percentile levels; ties count half."""
    replicates = np.arange(-50.0, 51.0)
    found = bca_levels(0.0, replicates, np.array([-1.0, 1.0, -2.0, 2.0]))
    assert isinstance(found, BcaLevels)
    assert (found.z0, found.acceleration) == pytest.approx((0.0, 0.0), abs=1e-12)
    assert (found.level_lower, found.level_upper) == pytest.approx((0.025, 0.975))
    assert isinstance(bca_levels(99.0, replicates, np.array([1.0, 2.0])), Undetermined)
    assert isinstance(bca_levels(0.0, replicates, np.array([1.0, 1.0])), Undetermined)


def test_jackknife_of_a_mean_is_the_t_interval() -> None:
    """Equal clusters: the jackknife equals the t interval of cluster means."""
    means = np.random.default_rng(4).normal(0.5, 1.0, 12)
    left = (means.sum() - means) / 11
    found = jackknife_t(float(means.mean()), left)
    assert isinstance(found, Jackknife)
    low, high = _t_test(means, 0.0).confidence_interval()
    assert (found.interval.lower, found.interval.upper) == pytest.approx((low, high))
    assert found.p_value == pytest.approx(_t_test(means, 0.0).pvalue)
    for values in (np.full(5, 0.3), np.array([0.3]), np.array([0.3, math.inf])):
        assert isinstance(jackknife_t(0.3, values), Undetermined)


def _wild_brute(sums: FloatArray, sizes: FloatArray) -> float:
    def t(signed: FloatArray) -> float:
        mean = signed.sum() / sizes.sum()
        residuals = signed - sizes * mean
        spread = math.sqrt(float((residuals**2).sum()) * len(sums) / (len(sums) - 1))
        return float(mean * sizes.sum() / spread)

    observed = abs(t(sums))
    hits = [
        abs(t(sums * np.array(flips))) >= observed - 1e-9
        for flips in product((-1.0, 1.0), repeat=len(sums))
    ]
    return sum(hits) / len(hits)


@pytest.mark.parametrize("seed", range(4))
def test_wild_bootstrap_counts_every_pattern(seed: int) -> None:
    """Rademacher with up to 16 clusters, the null imposed, CR1 t."""
    rng = np.random.default_rng(seed)
    sums, sizes = rng.normal(1.0, 2.0, 8), rng.integers(1, 20, 8).astype(float)
    found = wild_bootstrap_t(sums, sizes, seed=1, weights="rademacher")
    assert isinstance(found, WildBootstrap)
    assert found.exact
    assert found.p_value == pytest.approx(_wild_brute(sums, sizes), abs=1e-12)
    order = rng.permutation(8)
    assert found == wild_bootstrap_t(sums[order], sizes[order], seed=9, weights="rademacher")


def test_wild_bootstrap_draws_webb_points_below_twelve_clusters() -> None:
    """Few clusters get six-point weights; many get signs; a seed fixes both."""
    rng = np.random.default_rng(6)
    few = wild_bootstrap_t(rng.normal(1.0, 1.0, 7), np.full(7, 4.0), seed=3)
    assert isinstance(few, WildBootstrap)
    assert not few.exact
    assert 0.0 < few.p_value < 0.4
    sums = rng.normal(0.3, 1.0, 40)
    many = wild_bootstrap_t(sums, np.full(40, 4.0), seed=3)
    assert isinstance(many, WildBootstrap)
    oracle = _t_test(sums, 0.0).pvalue
    assert many.p_value == pytest.approx(oracle, abs=0.02)
    assert many == wild_bootstrap_t(sums[::-1].copy(), np.full(40, 4.0), seed=3)


def test_wild_bootstrap_shifts_to_its_null() -> None:
    """Testing the estimate itself gives p = 1."""
    found = wild_bootstrap_t(
        SUMS, SIZES, seed=1, weights="rademacher", null=float(SUMS.sum() / SIZES.sum())
    )
    assert isinstance(found, WildBootstrap)
    assert found.p_value == 1.0
    assert isinstance(wild_bootstrap_t(np.zeros(5), SIZES, seed=1), Undetermined)
    assert isinstance(wild_bootstrap_t(np.ones(1), np.ones(1), seed=1), Undetermined)


@pytest.mark.parametrize(
    "call",
    [
        lambda: cluster_bootstrap(SUMS, SIZES[:3], seed=1),
        lambda: cluster_bootstrap(SUMS, -SIZES, seed=1),
        lambda: cluster_bootstrap(SUMS, SIZES, seed=1, resamples=99),
        lambda: wild_bootstrap_t(SUMS, SIZES * 0.0, seed=1),
        lambda: wild_bootstrap_t(SUMS * math.nan, SIZES, seed=1),
    ],
)
def test_bad_arguments_are_value_errors(call: object) -> None:
    """Sums and sizes that do not belong together."""
    assert callable(call)
    with pytest.raises(ValueError, match="expected"):
        call()


def test_metrics_from_one_set_of_draws_have_the_limits_of_each_alone() -> None:
    """Eight metrics give what one does, whichever stand beside it, in any order of clusters."""
    rng = np.random.default_rng(4)
    sums = rng.integers(-6, 7, (8, 15)).astype(np.float64)
    sizes = np.tile(rng.integers(1, 9, 15).astype(np.float64), (8, 1))
    found = cluster_percentiles(sums, sizes, seed=3, resamples=2_000)
    order = np.argsort(rng.random(15))
    assert found == cluster_percentiles(sums[:, order], sizes[:, order], seed=3, resamples=2_000)
    for row, denominators, interval in zip(sums, sizes, found, strict=True):
        alone = cluster_bootstrap(row, denominators, seed=3, resamples=2_000)
        assert isinstance(alone, Bootstrap)
        limits, expected = _interval(interval), _interval(alone.percentile)
        # The draws are the same; which cluster is the first depends on all metrics together.
        assert limits.lower == pytest.approx(expected.lower, abs=0.15)
        assert limits.upper == pytest.approx(expected.upper, abs=0.15)
    single = cluster_percentiles(sums[:1], sizes[:1], seed=3, resamples=2_000)
    assert single[0] == _percentile_of(sums[0], sizes[0])


def _percentile_of(sums: FloatArray, sizes: FloatArray) -> Interval | Undetermined:
    found = cluster_bootstrap(sums, sizes, seed=3, resamples=2_000)
    assert isinstance(found, Bootstrap)
    return found.percentile


def test_totals_are_exact_whatever_adds_them() -> None:
    """Any total of a resample is the correctly rounded one of its columns on the grid."""
    values = np.random.default_rng(8).normal(size=(200, 3)) * [1.0, 1e-200, 1e140]
    columns = np.column_stack([on_grid(column, 200) for column in values.T])
    assert np.allclose(columns, values, rtol=1e-9, atol=0.0)
    totals = drawn_totals(columns, seed=1, resamples=999)
    for first, counts in drawn_counts(200, seed=1, resamples=999):
        for row, times in enumerate(counts[:3].astype(int)):
            drawn = np.repeat(columns, times, axis=0)
            assert [math.fsum(column) for column in drawn.T] == totals[first + row].tolist()
