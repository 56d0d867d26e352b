"""Bounds of the precision of flags: against other formulas, by symmetry and by simulation."""

from __future__ import annotations

import math

import numpy as np
import pytest

from fairtrial.analysis.distributions import normal_upper_quantile, t_upper_quantile
from fairtrial.analysis.precision_bounds import (
    BOUNDS,
    Bound,
    PrecisionBound,
    holm_bounds,
    precision_bound,
    simulated_error,
)
from fairtrial.analysis.rates import clopper_pearson_lower, clopper_pearson_upper, wilson_lower
from fairtrial.analysis.values import Undetermined

ALPHA = 0.025


def bound(right: list[int], flags: list[int], kind: Bound, alpha: float = ALPHA) -> PrecisionBound:
    """Returns a bound that exists."""
    found = precision_bound(np.array(right), np.array(flags), bound=kind, alpha=alpha)
    assert isinstance(found, PrecisionBound)
    return found


@pytest.mark.parametrize("kind", ["clopper_pearson", "learn_then_test", "cluster_aware"])
def test_single_flags_give_the_exact_bound(kind: Bound) -> None:
    """Where every flag is its own cluster, all but Wilson are Clopper-Pearson."""
    right = [1] * 97 + [0] * 3
    found = bound(right, [1] * 100, kind)
    assert math.isclose(clopper_pearson_lower(97, 100, alpha=ALPHA), found.lower, rel_tol=1e-12)
    assert math.isclose(clopper_pearson_upper(97, 100, alpha=ALPHA), found.upper, rel_tol=1e-12)


def test_bounds_that_ignore_clusters_take_flags_as_independent() -> None:
    """Wilson and clopper_pearson depend on the sums alone."""
    spread, clumped = ([9] * 10, [10] * 10), ([10] * 9 + [0], [10] * 10)
    kinds: tuple[Bound, ...] = ("wilson", "clopper_pearson")
    for kind in kinds:
        assert bound(*spread, kind).lower == bound(*clumped, kind).lower
    assert math.isclose(wilson_lower(90, 100, alpha=ALPHA), bound(*spread, "wilson").lower)


def test_clumped_wrong_flags_widen_the_aware_bound() -> None:
    """The same precision is shown less well by wrong flags in few clusters."""
    spread = bound([18] * 20 + [20] * 20, [20] * 40, "cluster_aware")
    clumped = bound([20] * 30 + [16] * 10, [20] * 40, "cluster_aware")
    assert spread.estimate == clumped.estimate == 0.95
    assert clumped.lower < spread.lower < 0.95 < spread.upper < clumped.upper


def test_few_clusters_with_wrong_flags_count_as_one_flag_each() -> None:
    """Without wrong flags n* is Kish's number of clusters, however many flags each holds."""
    found = bound([10] * 50, [10] * 50, "cluster_aware")
    assert found.effective_flags == 50.0
    assert math.isclose(clopper_pearson_lower(50, 50, alpha=ALPHA), found.lower, rel_tol=1e-9)
    unequal = bound([1, 2, 3, 30], [1, 2, 3, 30], "cluster_aware")
    assert unequal.effective_flags is not None
    assert math.isclose(36**2 / (1 + 4 + 9 + 900), unequal.effective_flags)


def test_the_effective_number_is_that_of_korn_and_graubard() -> None:
    """n* is p(1-p)/V (z/t)^2, recomputed here from the formula with the jackknife by a loop."""
    right, flags = [8, 9, 7, 10, 6, 9, 9, 8, 9, 10, 5, 8], [10] * 12
    n, s = sum(flags), sum(right)
    without = [(s - r) / (n - m) for r, m in zip(right, flags, strict=True)]
    mean = sum(without) / 12
    variance = 11 / 12 * sum((one - mean) ** 2 for one in without) + (5 / n) ** 2
    wrong = [m - r for r, m in zip(right, flags, strict=True) if m > r]
    df = min(sum(wrong) ** 2 / sum(w * w for w in wrong), 12.0) - 1.0
    ratio = normal_upper_quantile(ALPHA) / t_upper_quantile(ALPHA, df)
    expected = min(n, s / n * (1 - s / n) / variance * ratio**2)
    found = bound(right, flags, "cluster_aware")
    assert found.effective_flags is not None
    assert found.df is not None
    assert math.isclose(expected, found.effective_flags, rel_tol=1e-9)
    assert math.isclose(df, found.df, rel_tol=1e-12)


@pytest.mark.parametrize("kind", BOUNDS)
def test_order_and_empty_clusters_change_nothing(kind: Bound) -> None:
    """Clusters may come in any order, and one without a flag says nothing."""
    right, flags = [9, 8, 10, 7, 3, 9, 6, 2, 4, 5], [10, 9, 10, 9, 4, 10, 7, 3, 5, 5]
    there = bound(right, flags, kind)
    back = bound([*reversed(right), 0], [*reversed(flags), 0], kind)
    assert there == back


@pytest.mark.parametrize("kind", BOUNDS)
def test_a_smaller_alpha_widens(kind: Bound) -> None:
    """The limits lie around the estimate, further out where less error is allowed."""
    right, flags = [9, 8, 10, 7, 3, 9, 6, 2, 4, 5], [10, 9, 10, 9, 4, 10, 7, 3, 5, 5]
    wide, narrow = bound(right, flags, kind, 0.005), bound(right, flags, kind, 0.1)
    assert 0 <= wide.lower < narrow.lower < narrow.estimate < narrow.upper < wide.upper <= 1


def test_the_same_clusters_again_tell_more_and_doubled_flags_tell_nothing() -> None:
    """Twice the clusters narrow the bound; every flag twice in its cluster doesn't."""
    right, flags = [9, 8, 10, 7, 8, 9, 6, 10, 4, 5, 9, 7], [10] * 12
    once = bound(right, flags, "cluster_aware")
    assert bound(right * 2, flags * 2, "cluster_aware").lower > once.lower
    doubled = bound([2 * r for r in right], [2 * m for m in flags], "cluster_aware")
    assert math.isclose(once.lower, doubled.lower, rel_tol=1e-9)


def test_nothing_flagged_has_no_bound() -> None:
    """No flag, no number."""
    found = precision_bound(np.array([0, 0]), np.array([0, 0]), bound="wilson", alpha=ALPHA)
    assert found == Undetermined("nothing was flagged")


def test_impossible_counts_are_refused() -> None:
    """More right flags than flags, and an alpha that is no error, are ValueErrors."""
    for right, alpha in (([3], 0.025), ([-1], 0.025), ([1], 0.0), ([1], 0.5)):
        with pytest.raises(ValueError, match="expected"):
            precision_bound(np.array(right), np.array([2]), bound="wilson", alpha=alpha)


def test_holm_walks_from_the_strongest_family() -> None:
    """Each family is bounded at its step's alpha; after a failure nobody gets more."""
    families = {
        "strong": (np.ones(400, dtype=int), np.ones(400, dtype=int)),
        "weak": (np.array([1] * 96 + [0] * 4), np.ones(100, dtype=int)),
        "none": (np.zeros(3, dtype=int), np.zeros(3, dtype=int)),
    }
    found = holm_bounds(families, target=0.95, bound="clopper_pearson", alpha=ALPHA)
    strong, weak = found["strong"], found["weak"]
    assert isinstance(strong, PrecisionBound)
    assert isinstance(weak, PrecisionBound)
    assert (strong.alpha, weak.alpha) == (ALPHA / 3, ALPHA / 2)
    assert math.isclose(strong.lower, clopper_pearson_lower(400, 400, alpha=ALPHA / 3))
    assert isinstance(found["none"], Undetermined)


def test_the_simulated_error_is_the_binomial_one_without_correlation() -> None:
    """With icc 0 the share agrees with the exact chance that the bound reaches its target."""
    flags, target = np.array([10] * 20), 0.95
    chance = math.fsum(
        math.comb(200, s) * target**s * (1 - target) ** (200 - s)
        for s in range(201)
        if wilson_lower(s, 200, alpha=ALPHA) >= target
    )
    found = simulated_error(flags, target=target, bound="wilson", alpha=ALPHA, icc=0.0, seed=3)
    assert abs(found - chance) < 4 * math.sqrt(chance / 4000)


def test_the_simulated_error_of_wholly_alike_clusters_is_that_of_clusters() -> None:
    """With icc 1 a cluster is all right or all wrong, so G clusters decide."""
    chance = 0.95**20
    found = simulated_error(
        np.array([10] * 20), target=0.95, bound="clopper_pearson", alpha=ALPHA, icc=1.0, seed=3
    )
    assert abs(found - chance) < 4 * math.sqrt(chance * (1 - chance) / 4000)


def test_independence_assumed_wrongly_costs_error() -> None:
    """Wilson on 20 clusters of 10 at icc 0.3 errs several times as often as it says."""
    flags = np.array([10] * 20)
    found = simulated_error(flags, target=0.95, bound="wilson", alpha=ALPHA, icc=0.3, seed=5)
    assert found > 4 * ALPHA


UNEQUAL = [max(1, round(15 * math.exp(0.7 * z - 0.25))) for z in np.linspace(-2.2, 2.2, 120)]


@pytest.mark.slow
@pytest.mark.parametrize("icc", [0.0, 0.1, 0.3])
@pytest.mark.parametrize("flags", [[20] * 100, UNEQUAL], ids=["equal", "unequal"])
def test_the_aware_bound_keeps_its_error(flags: list[int], icc: float) -> None:
    """With the true precision exactly at the target at most 2.5 % reach it, but for chance."""
    runs = 2500
    found = simulated_error(
        np.array(flags),
        target=0.95,
        bound="cluster_aware",
        alpha=ALPHA,
        icc=icc,
        seed=11,
        runs=runs,
    )
    assert found <= ALPHA + 2.0 * math.sqrt(ALPHA * (1 - ALPHA) / runs)
    # A bound that never reaches anything would pass too.
    assert found >= 0.004


def test_the_aware_bound_adopts_where_flags_are_good() -> None:
    """100 clusters of flags with one wrong in a hundred are enough for 0.95."""
    right = [20] * 80 + [19] * 20
    assert bound(right, [20] * 100, "cluster_aware").lower >= 0.95
