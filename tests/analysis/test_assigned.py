"""The difference between arms of units in one arm each: outside numbers, limits, error rates."""

from __future__ import annotations

import json
from math import comb
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy import stats  # type: ignore[import-untyped]  # scipy ships no types

from fairtrial.analysis.assigned import (
    arm_counts,
    assigned_df,
    assigned_difference,
    assigned_weights,
    least_p,
)
from fairtrial.analysis.assigned_deciding import deciding_assigned
from fairtrial.analysis.deciding import Deciding
from fairtrial.analysis.paired import ClusteredMean, clustered_mean, t_interval
from fairtrial.analysis.values import Estimand, Interval, Undetermined

_CASES: list[dict[str, Any]] = json.loads(
    (Path(__file__).parents[1] / "reference" / "assigned.json").read_bytes()
)


def _difference(
    values: Any, treated: Any, clusters: Any, estimand: Estimand = "unit_weighted"
) -> ClusteredMean:
    found = assigned_difference(
        np.asarray(values, dtype=float),
        np.asarray(treated, dtype=bool),
        np.asarray(clusters, dtype=np.int64),
        estimand=estimand,
    )
    assert isinstance(found, ClusteredMean)
    return found


@pytest.mark.parametrize("case", _CASES, ids=lambda case: case["source"].split(":")[0])
def test_difference_is_that_of_statsmodels_and_of_explicit_matrices(case: dict[str, Any]) -> None:
    """Estimate, CR0 to CR3 and the df are those of make_assigned.py, made outside the project."""
    found = _difference(**case["inputs"])

    expected = case["expected"]
    assert {name: getattr(found, name) for name in expected} == pytest.approx(
        expected, abs=case["tolerance"]
    )
    counts = arm_counts(np.array(case["inputs"]["treated"]), np.array(case["inputs"]["clusters"]))
    assert assigned_df(counts, estimand="unit_weighted") == pytest.approx(expected["df"])


def test_single_units_have_the_standard_error_of_welch() -> None:
    """With single units CR2 is HC2, which is Welch's; equal arms have n - 2 degrees of freedom."""
    rng = np.random.default_rng(3)
    values, treated = rng.normal(size=30), np.arange(30) % 2 == 0

    found = _difference(values, treated, np.arange(30))

    welch: Any = stats.ttest_ind(values[treated], values[~treated], equal_var=False)
    assert found.estimate / found.standard_error == pytest.approx(welch.statistic)
    assert found.df == pytest.approx(28.0)


def test_one_unit_of_each_arm_in_a_cluster_is_the_paired_mean() -> None:
    """A cluster that holds one unit of each arm is a pair: same difference, error and df."""
    rng = np.random.default_rng(4)
    control, treatment = rng.normal(size=(2, 15))
    clusters = np.arange(15)

    found = _difference(
        np.concatenate([control, treatment]),
        np.repeat([False, True], 15),
        np.concatenate([clusters, clusters]),
    )

    paired = clustered_mean(treatment - control, clusters)
    assert isinstance(paired, ClusteredMean)
    assert (found.estimate, found.cr0, found.cr2, found.cr3, found.df) == pytest.approx(
        (paired.estimate, paired.cr0, paired.cr2, paired.cr3, paired.df)
    )


@pytest.mark.parametrize("estimand", ["unit_weighted", "cluster_weighted"])
def test_order_of_units_and_names_of_clusters_change_no_bit(estimand: Estimand) -> None:
    """Units in any order, and clusters under any codes, give the same bits."""
    rng = np.random.default_rng(5)
    clusters = np.repeat(np.arange(8), 5)
    values, treated = rng.normal(size=40), clusters % 2 == 0
    order = rng.permutation(40)

    first = _difference(values, treated, clusters, estimand)

    assert first == _difference(values[order], treated[order], clusters[order], estimand)
    assert first == _difference(values, treated, 1000 - 7 * clusters, estimand)


def test_swapped_arms_negate() -> None:
    """Treatment minus control turns its sign, and nothing else, when arms change places."""
    rng = np.random.default_rng(6)
    clusters, treated = np.repeat(np.arange(9), 4), rng.random(36) < 0.4
    values = rng.normal(size=36)

    one, other = (_difference(values, side, clusters) for side in (treated, ~treated))

    assert -one.estimate == other.estimate
    assert (one.standard_error, one.df) == pytest.approx((other.standard_error, other.df))


def test_cluster_weights_count_each_cluster_once() -> None:
    """Whole clusters in an arm: means of cluster means; both arms in each: mean of differences."""
    values = np.array([1.0, 1.0, 1.0, 0.0, 0.0, 1.0, 0.0, 1.0])
    whole = _difference(
        values,
        [True, True, True, True, False, False, False, False],
        [0, 0, 0, 1, 2, 2, 3, 3],
        "cluster_weighted",
    )
    inside = _difference(
        values,
        [True, True, False, True, False, True, False, True],
        [0, 0, 0, 1, 1, 2, 2, 2],
        "cluster_weighted",
    )

    assert whole.estimate == 0.5 - 0.5
    assert inside.estimate == pytest.approx((0.0 + 0.0 + 1.0) / 3.0)
    assert (inside.df, inside.n) == (2.0, 8)


def test_what_no_number_can_say_is_undetermined() -> None:
    """An empty arm, an arm in one cluster, mixed clusters under cluster weights: no number."""
    values = np.array([1.0, 0.0, 1.0, 0.0, 1.0, 1.0])
    clusters = np.array([0, 0, 1, 1, 2, 2])
    sides = {
        "no unit": (np.ones(6, dtype=bool), "unit_weighted"),
        "in one cluster": (clusters == 0, "unit_weighted"),
        "compares the arms": (
            np.array([True, False, True, True, False, False]),
            "cluster_weighted",
        ),
    }
    for words, (treated, estimand) in sides.items():
        found = assigned_difference(values, treated, clusters, estimand=estimand)  # type: ignore[arg-type]  # literals of this table
        assert isinstance(found, Undetermined)
        assert words in found.reason


def test_equal_units_have_no_interval() -> None:
    """Arms without any variance have no interval of zero width."""
    found = deciding_assigned(
        np.repeat([0.0, 1.0], 10),
        np.repeat([False, True], 10),
        np.arange(20),
        estimand="unit_weighted",
        nominal_p=0.05,
    )
    assert isinstance(found, Undetermined)
    assert "no variance" in found.reason


def test_least_p_counts_the_ways_to_assign() -> None:
    """Of 8 clusters, 4 in each arm, the least p is 2 of 70; with both arms in each it is 2^-7."""
    clusters = np.repeat(np.arange(8), 2)

    assert least_p(arm_counts(clusters % 2 == 0, clusters)) == 2 / comb(8, 4)
    assert least_p(arm_counts(np.arange(16) % 2 == 0, clusters)) == 2.0**-7


@pytest.mark.parametrize("count", [900, 1030, 1100, 2200, 200_000])
def test_least_p_falls_to_zero_where_no_float_holds_the_ways(count: int) -> None:
    """Ways beyond the largest float leave a p of 0, never an error; a few clusters are no many."""
    clusters = np.arange(count)

    assert 0.0 <= least_p(arm_counts(clusters % 2 == 0, clusters)) < 1e-200
    assert least_p(arm_counts(clusters == 0, clusters)) == 2 / count
    assert least_p(arm_counts(clusters > 0, clusters)) == 2 / count
    assert least_p(arm_counts(np.repeat([True, False], count), np.tile(clusters, 2))) < 1e-200


@pytest.mark.parametrize("kind", ["constant", "within"])
@pytest.mark.parametrize("estimand", ["unit_weighted", "cluster_weighted"])
@pytest.mark.slow
def test_weights_are_the_covariance_of_a_look_with_the_end(kind: str, estimand: Estimand) -> None:
    """With arms in proportion at the look, its share of weights is the squared correlation."""
    rng = np.random.default_rng(7)
    sizes = np.array([2, 2, 6, 6, 4, 4, 8, 8] if kind == "constant" else [4, 8, 6, 2, 4, 8])
    clusters = np.repeat(np.arange(len(sizes)), sizes)
    treated = clusters % 2 == 0 if kind == "constant" else np.arange(len(clusters)) % 2 == 0
    cut = clusters < len(sizes) // 2
    weights = assigned_weights(arm_counts(treated, clusters), icc=0.3, estimand=estimand)
    ends = []
    for _ in range(2000):
        own = rng.normal(0.0, 0.3**0.5, len(sizes))[clusters]
        values = own + rng.normal(0.0, 0.7**0.5, len(clusters))
        part = _difference(values[cut], treated[cut], clusters[cut], estimand)
        ends.append((part.estimate, _difference(values, treated, clusters, estimand).estimate))
    correlation = np.corrcoef(np.array(ends).T)[0, 1]
    share = weights[: len(sizes) // 2].sum() / weights.sum()

    assert correlation**2 == pytest.approx(share, abs=0.05)


@pytest.mark.parametrize("clusters", [12, 30])
@pytest.mark.parametrize("kind", ["constant", "within", "binary"])
@pytest.mark.slow
def test_two_equal_arms_are_told_apart_in_5_of_100_runs(kind: str, clusters: int) -> None:
    """Type-I error and coverage at 12 and 30 clusters of unequal size, icc 0.1."""
    rng = np.random.default_rng([20261129, clusters])
    rejected, runs = 0, 700
    for _ in range(runs):
        sizes = np.maximum(2, np.rint(rng.lognormal(2.0, 0.6, clusters))).astype(int)
        codes = np.repeat(np.arange(clusters), sizes)
        treated = np.arange(len(codes)) % 2 == 0
        if kind == "constant":
            treated = (rng.permutation(clusters) < clusters // 2)[codes]
        values = rng.normal(0.0, 0.33, clusters)[codes] + rng.normal(size=len(codes))
        if kind == "binary":
            values = (values > 1.0).astype(float)
        found = deciding_assigned(values, treated, codes, estimand="unit_weighted", nominal_p=0.05)
        assert isinstance(found, Deciding)
        rejected += not found.lower <= 0.0 <= found.upper

    assert 0.025 <= rejected / runs <= 0.075


def test_deciding_interval_is_the_t_interval() -> None:
    """The interval that decides is the t interval of CR2, and its p agrees with it."""
    rng = np.random.default_rng(8)
    clusters = np.repeat(np.arange(10), 6)
    values, treated = rng.normal(size=60), np.arange(60) % 2 == 0

    found = deciding_assigned(
        values, treated, clusters, estimand="unit_weighted", nominal_p=0.05, null=0.4
    )

    limits = t_interval(_difference(values, treated, clusters))
    assert isinstance(found, Deciding)
    assert isinstance(limits, Interval)
    assert (found.lower, found.upper) == (limits.lower, limits.upper)
    assert (found.p_value < 0.05) == (not found.lower <= 0.4 <= found.upper)
