"""The paired mean: against dense matrices, under relabelling, and where it is degenerate."""

from __future__ import annotations

import math
from dataclasses import fields
from typing import Any

import numpy as np
import pytest
from scipy import stats  # type: ignore[import-untyped]  # scipy ships no types

from fairtrial.analysis.grouping import FloatArray, IntArray
from fairtrial.analysis.paired import (
    ClusteredMean,
    clustered_mean,
    count_pairs,
    equal_weight_mean,
    satterthwaite_df,
    t_interval,
    t_test,
)
from fairtrial.analysis.values import Interval, Undetermined


def _t_test(values: Any, null: float = 0.0, **options: Any) -> Any:
    """Scipy's test, whose result type no checker knows."""
    return stats.ttest_1samp(values, null, **options)


def _data(seed: int, n: int = 40, clusters: int = 7) -> tuple[FloatArray, IntArray]:
    rng = np.random.default_rng(seed)
    codes = np.concatenate([np.arange(clusters), rng.integers(0, clusters, n - clusters)])
    return rng.normal(0.1, 1.0, n) + 0.3 * codes, codes.astype(np.int64)


def _mean(values: FloatArray, clusters: IntArray) -> ClusteredMean:
    found = clustered_mean(values, clusters)
    assert isinstance(found, ClusteredMean)
    return found


def _interval(mean: ClusteredMean) -> Interval:
    found = t_interval(mean)
    assert isinstance(found, Interval)
    return found


def _dense(values: FloatArray, clusters: IntArray, power: float) -> tuple[float, float]:
    """Variance and Satterthwaite df from the n x n matrices of the definition."""
    n = values.size
    hat = np.full((n, n), 1.0 / n)
    rest = np.eye(n) - hat
    residuals = rest @ values
    variance, columns = 0.0, []
    for g in np.unique(clusters):
        inside = clusters == g
        block = rest[np.ix_(inside, inside)]
        eigen, vectors = np.linalg.eigh(block)
        adjust = vectors @ np.diag(eigen ** (-power)) @ vectors.T
        row = np.ones(inside.sum()) @ adjust / n
        variance += float(row @ residuals[inside]) ** 2
        columns.append(rest[:, inside] @ row)
    gram = np.array(columns) @ np.array(columns).T
    return variance, float(np.trace(gram) ** 2 / np.trace(gram @ gram))


@pytest.mark.parametrize("seed", range(5))
def test_standard_errors_are_those_of_the_definition(seed: int) -> None:
    """CR0, CR2, CR3 and the df equal the matrix formulas; CR1 is CR0 with G/(G-1)."""
    values, clusters = _data(seed)
    mean = _mean(values, clusters)
    count = mean.clusters
    assert mean.cr0**2 == pytest.approx(_dense(values, clusters, 0.0)[0], rel=1e-10)
    assert mean.cr1**2 == pytest.approx(mean.cr0**2 * count / (count - 1), rel=1e-12)
    assert mean.cr2**2 == pytest.approx(_dense(values, clusters, 0.5)[0], rel=1e-10)
    assert mean.cr3**2 == pytest.approx(_dense(values, clusters, 1.0)[0], rel=1e-10)
    assert mean.df == pytest.approx(_dense(values, clusters, 0.5)[1], rel=1e-9)
    assert mean.standard_error == mean.cr2


def test_cr3_is_the_jackknife_about_the_estimate() -> None:
    """Leaving out a cluster at a time gives CR3 when deviations are from the full mean."""
    values, clusters = _data(11)
    mean = _mean(values, clusters)
    left = np.array([values[clusters != g].mean() for g in np.unique(clusters)])
    sizes = np.bincount(clusters)
    scaled = (left - mean.estimate) * (values.size - sizes) / values.size
    kept = scaled / (1.0 - sizes / values.size)
    assert mean.cr3 == pytest.approx(math.sqrt(float(np.sum(kept**2))), rel=1e-10)


@pytest.mark.parametrize("binary", [True, False])
def test_order_and_names_change_no_bit(binary: bool) -> None:
    """Any permutation of units and any relabelling of clusters gives equal results."""
    values, clusters = _data(3, n=200, clusters=13)
    if binary:
        values = np.sign(np.rint(values))
    first, rng = _mean(values, clusters), np.random.default_rng(0)
    for _ in range(10):
        order = rng.permutation(values.size)
        names = rng.permutation(10**6)[:13] - 500_000
        assert first == _mean(values[order], names[clusters][order])
        assert equal_weight_mean(values, clusters) == equal_weight_mean(
            values[order], names[clusters][order]
        )


def test_swapping_the_arms_negates_and_keeps_the_rest() -> None:
    """The estimate changes sign to the last bit; nothing else changes."""
    values, clusters = _data(4)
    there, back = _mean(values, clusters), _mean(-values, clusters)
    for field in fields(ClusteredMean):
        sign = -1.0 if field.name == "estimate" else 1.0
        assert getattr(there, field.name) == sign * getattr(back, field.name)


def test_duplicating_units_within_clusters_keeps_the_interval() -> None:
    """Twice the same answers from the same clusters are no new evidence."""
    values, clusters = _data(5)
    once = _mean(values, clusters)
    twice = _mean(np.tile(values, 2), np.tile(clusters, 2))
    assert (once.standard_error, once.df) == pytest.approx((twice.standard_error, twice.df))
    assert twice.variance_naive == pytest.approx(once.variance_naive / 2.0)


def test_singletons_are_the_one_sample_t_test() -> None:
    """Every unit its own cluster: the textbook standard error, n - 1 df and p."""
    values = np.random.default_rng(6).normal(0.3, 1.0, 25)
    mean = _mean(values, np.arange(25))
    oracle = _t_test(values, 0.0)
    assert mean.standard_error == pytest.approx(values.std(ddof=1) / 5.0)
    assert mean.df == 24.0
    assert t_test(mean) == pytest.approx(oracle.pvalue)
    low, high = oracle.confidence_interval()
    assert (_interval(mean).lower, _interval(mean).upper) == pytest.approx((low, high))


def test_merging_correlated_clusters_never_gives_the_unclustered_error() -> None:
    """With units that agree inside clusters, coarser clusters mean a wider interval."""
    rng = np.random.default_rng(7)
    clusters = np.repeat(np.arange(12), 10)
    values = np.sign(rng.normal(size=12))[clusters] + 0.2 * rng.normal(size=120)
    alone = _interval(_mean(values, np.arange(120)))
    grouped = _interval(_mean(values, clusters))
    merged = _interval(_mean(values, clusters // 2))
    assert alone.upper - alone.lower < grouped.upper - grouped.lower
    assert alone.upper - alone.lower < merged.upper - merged.lower


def test_equal_sizes_make_cr2_equal_cr1_with_g_minus_one_df() -> None:
    """A property of the formulas for equal clusters."""
    rng = np.random.default_rng(8)
    clusters = np.repeat(np.arange(9), 6)
    mean = _mean(rng.normal(size=54), clusters)
    assert mean.cr2 == pytest.approx(mean.cr1, rel=1e-12)
    assert mean.df == 8.0


def test_equal_weight_mean_is_the_t_test_of_cluster_means() -> None:
    """Each cluster counts once, whatever its size."""
    values, clusters = _data(9)
    found = equal_weight_mean(values, clusters)
    assert isinstance(found, ClusteredMean)
    means = [values[clusters == g].mean() for g in range(7)]
    oracle = _t_test(means, 0.0)
    assert found.estimate == pytest.approx(np.mean(means))
    assert (found.df, found.n, found.clusters) == (6.0, 40, 7)
    assert t_test(found) == pytest.approx(oracle.pvalue)


def test_satterthwaite_df_needs_sizes_only_and_is_bounded() -> None:
    """Between 1 and G - 1; near 1 when one cluster is nearly everything."""
    values, clusters = _data(10)
    assert satterthwaite_df(np.bincount(clusters)) == _mean(values, clusters).df
    rng = np.random.default_rng(1)
    for _ in range(50):
        sizes = rng.integers(1, 200, 8)
        df = satterthwaite_df(sizes)
        assert isinstance(df, float)
        assert 1.0 <= df <= 7.0 + 1e-9
    lonely = satterthwaite_df(np.array([10**6, 1, 1]))
    assert isinstance(lonely, float)
    assert lonely == pytest.approx(1.0, abs=0.01)
    assert isinstance(satterthwaite_df(np.array([5])), Undetermined)


@pytest.mark.parametrize("value", [0.0, 0.25, 0.1, -1.0, 1e149])
def test_equal_differences_are_degenerate(value: float) -> None:
    """Constant data: the estimate stands, no test and no interval follow (FR-24)."""
    mean = _mean(np.full(30, value), np.arange(30) % 6)
    assert mean.degenerate
    assert mean.estimate == pytest.approx(value)
    assert mean.standard_error == 0.0
    assert isinstance(t_test(mean), Undetermined)
    assert isinstance(t_interval(mean), Undetermined)


def test_equal_cluster_means_are_degenerate_though_units_vary() -> None:
    """What counts is variation between clusters."""
    mean = _mean(np.tile([1.0, 0.0, -1.0], 8), np.repeat(np.arange(8), 3))
    assert mean.degenerate
    assert mean.variance_naive > 0.0


def test_a_tiny_true_variance_is_not_degenerate() -> None:
    """Only rounding counts as zero."""
    values = np.full(12, 1.0)
    values[3] += 1e-6
    assert not _mean(values, np.arange(12)).degenerate


def test_one_cluster_and_no_unit_are_undetermined() -> None:
    """Without a second cluster nothing can be said about others."""
    for function in (clustered_mean, equal_weight_mean):
        assert isinstance(function(np.array([0.5, 1.0]), np.array([3, 3])), Undetermined)
        assert isinstance(function(np.array([]), np.array([], dtype=np.int64)), Undetermined)


def test_a_mean_of_floats_is_exactly_rounded() -> None:
    """No order of addition loses a digit."""
    values = np.array([1e16, 1.0, -1e16, 1.0])
    assert _mean(values, np.arange(4)).estimate == 0.5


def test_count_pairs_counts_disagreement_by_cluster() -> None:
    """A cluster whose differences cancel is discordant all the same."""
    counts = count_pairs(np.array([1.0, -1.0, 0.0, 0.0, 1.0]), np.array([4, 4, 4, 9, -2]))
    assert (5, 3, 2, 1, 2) == (
        counts.n,
        counts.clusters,
        counts.discordant_clusters,
        counts.only_control,
        counts.only_treatment,
    )
    assert (0.2, 3) == (counts.estimate, counts.largest_cluster)
    empty = count_pairs(np.array([]), np.array([], dtype=np.int64))
    assert isinstance(empty.estimate, Undetermined)


def test_bad_arguments_are_refused() -> None:
    """NaN, unequal lengths and names instead of codes."""
    with pytest.raises(ValueError, match="finite"):
        clustered_mean(np.array([1.0, math.nan]), np.array([0, 1]))
    with pytest.raises(ValueError, match="equal length"):
        clustered_mean(np.array([1.0, 2.0]), np.array([0, 1, 2]))
    with pytest.raises(TypeError, match="integer codes"):
        clustered_mean(np.array([1.0, 2.0]), np.array(["a", "b"]))
    with pytest.raises(ValueError, match="above 0"):
        satterthwaite_df(np.array([3, 0]))
