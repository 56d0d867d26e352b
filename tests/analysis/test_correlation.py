"""Correlation within clusters, its cost, and equivalence tests: definitions and borders."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from scipy import stats  # type: ignore[import-untyped]  # scipy ships no types

from fairtrial.analysis.correlation import (
    Icc,
    MillerError,
    design_effect,
    icc_anova,
    miller_clustered,
)
from fairtrial.analysis.equivalence import (
    Tost,
    tost_estimate,
    tost_paired_binary,
    tost_paired_mean,
)
from fairtrial.analysis.grouping import effective_clusters
from fairtrial.analysis.paired import ClusteredMean, clustered_mean
from fairtrial.analysis.tango import tango
from fairtrial.analysis.values import Undetermined


def _t_test(values: Any, null: float = 0.0, **options: Any) -> Any:
    """Scipy's test, whose result type no checker knows."""
    return stats.ttest_1samp(values, null, **options)


def test_icc_is_recovered_from_a_large_sample() -> None:
    """Simulated with 0.2, unequal clusters; and borders."""
    rng = np.random.default_rng(1)
    codes = np.repeat(np.arange(3000), rng.integers(2, 8, 3000))
    values = math.sqrt(0.2) * rng.normal(size=3000)[codes] + math.sqrt(0.8) * rng.normal(
        size=codes.size
    )
    found = icc_anova(values, codes)
    assert isinstance(found, Icc)
    assert found.icc == pytest.approx(0.2, abs=0.02)
    assert isinstance(icc_anova(np.ones(4), np.array([0, 0, 1, 1])), Undetermined)
    assert isinstance(icc_anova(np.ones(4), np.arange(4)), Undetermined)


def test_icc_of_equal_clusters_is_the_anova_ratio() -> None:
    """Mean squares of scipy's F test, n0 the common size."""
    rng = np.random.default_rng(2)
    groups = rng.normal(size=(6, 5)) + rng.normal(size=6)[:, None]
    f = stats.f_oneway(*groups).statistic
    found = icc_anova(groups.ravel(), np.repeat(np.arange(6), 5))
    assert isinstance(found, Icc)
    assert found.n0 == pytest.approx(5.0)
    assert found.icc == pytest.approx((f - 1.0) / (f + 4.0))


def test_design_effect_and_effective_clusters() -> None:
    """Kish: equal clusters weigh as many as they are."""
    found = design_effect(np.full(10, 8), 0.1)
    assert found.design_effect == pytest.approx(1.7)
    assert found.effective_n == pytest.approx(80 / 1.7)
    assert effective_clusters(np.full(10, 8)) == 10.0
    assert effective_clusters(np.array([231, 75, 44, 34, 32, 32, 22, 22, 19, 10, 8, 2])) < 5.0


def test_miller_s_clustered_error_is_cr0_with_its_own_diagonal() -> None:
    """Cross products of different units only, the diagonal with n - 1."""
    rng = np.random.default_rng(3)
    values, codes = rng.normal(size=40), rng.integers(0, 8, 40)
    found, mean = miller_clustered(values, codes), clustered_mean(values, codes)
    assert isinstance(found, MillerError)
    assert isinstance(mean, ClusteredMean)
    spread = float(np.sum((values - values.mean()) ** 2))
    expected = mean.cr0**2 - spread / 40**2 + spread / 39 / 40
    assert found.se_clustered == pytest.approx(math.sqrt(expected))
    assert isinstance(miller_clustered(np.ones(1), np.zeros(1, dtype=np.int64)), Undetermined)


def test_equivalence_of_pairs_is_the_interval_inside_the_margin() -> None:
    """P below alpha exactly when Tango's 1 - 2 alpha interval lies inside."""
    for n10, n01, n in ((3, 4, 200), (9, 20, 150), (0, 0, 60), (1, 0, 20)):
        found = tost_paired_binary(n10, n01, n, margin=0.08)
        for alpha in (0.999 * found.p_value, min(0.4999, 1.001 * found.p_value)):
            limits = tango(n10, n01, n, alpha=2.0 * alpha)
            inside = -0.08 < limits.lower and limits.upper < 0.08
            assert inside == (found.p_value < alpha)


def test_equivalence_of_a_mean_is_two_t_tests() -> None:
    """Scipy's one-sided p at both ends; constant data have none."""
    values = np.random.default_rng(4).normal(0.01, 0.1, 30)
    found = tost_paired_mean(values, low=-0.05, high=0.06)
    assert isinstance(found, Tost)
    below = _t_test(values, -0.05, alternative="greater").pvalue
    above = _t_test(values, 0.06, alternative="less").pvalue
    assert (found.p_lower, found.p_upper) == pytest.approx((below, above))
    assert found.p_value == max(found.p_lower, found.p_upper)
    assert isinstance(tost_paired_mean(np.zeros(9), low=-1.0, high=1.0), Undetermined)


@pytest.mark.parametrize(
    "call",
    [
        lambda: design_effect(np.array([]), 0.1),
        lambda: tost_paired_binary(1, 2, 10, margin=0.0),
        lambda: tost_estimate(0.0, 0.0, 5.0, low=-1.0, high=1.0),
        lambda: tost_paired_mean(np.array([0.1, 0.2]), low=1.0, high=0.0),
    ],
)
def test_bad_arguments_are_value_errors(call: object) -> None:
    """Margins, errors and sizes that cannot be."""
    assert callable(call)
    with pytest.raises(ValueError, match="expected"):
        call()
