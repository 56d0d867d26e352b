"""The share saved: Fieller's formula, inversion of the test, other units, and no limits at all."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from scipy.optimize import brentq  # type: ignore[import-untyped]  # scipy ships no types
from scipy.stats import t  # type: ignore[import-untyped]

from fairtrial.analysis.assigned_deciding import difference_with_df
from fairtrial.analysis.grouping import FloatArray, IntArray
from fairtrial.analysis.paired import ClusteredMean, clustered_mean, equal_weight_mean
from fairtrial.analysis.saving import ShareSaved, share_saved, share_saved_between_arms
from fairtrial.analysis.values import Estimand, Undetermined

ESTIMANDS: tuple[Estimand, ...] = ("unit_weighted", "cluster_weighted")
# The pairs of the example of `ci.ratio.mean.ps` in the R package statpsych.
LEFT = np.array([3.3, 3.6, 3.0, 3.1, 3.9, 4.2, 3.5, 3.3])
RIGHT = np.array([3.0, 3.1, 2.7, 2.6, 3.2, 3.8, 3.2, 3.0])


def known(found: ShareSaved | Undetermined) -> ShareSaved:
    """Returns a share that has to be there."""
    assert isinstance(found, ShareSaved)
    return found


def number(value: float | None) -> float:
    """Returns a number that has to be there."""
    assert value is not None
    return value


def drawn(seed: int, *, clusters: int = 9) -> tuple[FloatArray, FloatArray, IntArray]:
    """Returns costs of both arms in clusters of unequal size."""
    rng = np.random.default_rng(seed)
    codes = np.repeat(np.arange(clusters), rng.integers(1, 9, clusters)).astype(np.int64)
    shared = rng.lognormal(0.0, 0.4, clusters)[codes]
    control = shared * rng.lognormal(0.0, 0.5, codes.size)
    return control, 0.7 * control + rng.normal(0.0, 0.3, codes.size), codes


def by_theorem(
    a: float, b: float, v: tuple[float, float, float], critical: float
) -> tuple[float, float]:
    """Returns Fieller's limits of a / b in his own form, from g and the covariance."""
    va, vb, vab = v
    ratio, g = a / b, critical**2 * vb / b**2
    inner = va - 2.0 * ratio * vab + ratio**2 * vb - g * (va - vab**2 / vb)
    middle, half = ratio - g * vab / vb, critical / b * math.sqrt(inner)
    return (middle - half) / (1.0 - g), (middle + half) / (1.0 - g)


def test_single_pairs_have_the_limits_of_the_theorem() -> None:
    """With single units it is the textbook's interval, from sample variances and covariance."""
    n = LEFT.size
    (va, vab), (_, vb) = np.cov(LEFT, RIGHT) / n
    lower, upper = by_theorem(LEFT.mean(), RIGHT.mean(), (va, vb, vab), float(t.ppf(0.975, n - 1)))
    found = known(share_saved(RIGHT, LEFT, np.arange(n), estimand="unit_weighted", alpha=0.05))
    assert number(found.share) == pytest.approx(1.0 - LEFT.mean() / RIGHT.mean())
    assert number(found.lower) == pytest.approx(1.0 - upper, rel=1e-12)
    assert number(found.upper) == pytest.approx(1.0 - lower, rel=1e-12)
    # What that package prints for them by Bonett and Price (2020), whose interval is another one.
    assert (lower, upper) == pytest.approx((1.09417, 1.175583), abs=5e-4)


def test_arms_of_single_units_have_the_limits_of_the_theorem() -> None:
    """Between equal arms nothing is shared, and the degrees of freedom are those of both."""
    values = np.concatenate((RIGHT, LEFT))
    treated = np.arange(16) >= 8
    v = (LEFT.var(ddof=1) / 8.0, RIGHT.var(ddof=1) / 8.0, 0.0)
    lower, upper = by_theorem(LEFT.mean(), RIGHT.mean(), v, float(t.ppf(0.975, 14)))
    found = known(
        share_saved_between_arms(
            values, treated, np.arange(16), estimand="unit_weighted", alpha=0.05
        )
    )
    assert (found.lower, found.upper) == pytest.approx((1.0 - upper, 1.0 - lower), rel=1e-12)


def inverted(test: Callable[[float], ClusteredMean | Undetermined], alpha: float) -> list[float]:
    """Returns the ratios at which the t test of the contrast is just not rejected."""

    def distance(ratio: float) -> float:
        mean = test(ratio)
        assert isinstance(mean, ClusteredMean)
        return abs(mean.estimate / mean.standard_error) - float(t.ppf(1 - alpha / 2, mean.df))

    middle = root(lambda ratio: _estimate(test(ratio)), -1e4, 1e4)
    return [root(distance, middle - 1e4, middle), root(distance, middle, middle + 1e4)]


def root(of: Callable[[float], float], low: float, high: float) -> float:
    """Returns where a function is 0."""
    found: Any = brentq(of, low, high, xtol=1e-14)
    return float(found)


def _estimate(found: ClusteredMean | Undetermined) -> float:
    assert isinstance(found, ClusteredMean)
    return found.estimate


@pytest.mark.parametrize("estimand", ESTIMANDS)
@pytest.mark.parametrize("seed", range(6))
def test_limits_are_where_the_test_of_the_contrast_turns(seed: int, estimand: Estimand) -> None:
    """A share is within the limits where "treatment - (1 - share) x control" may be 0."""
    control, treatment, codes = drawn(seed)
    mean = clustered_mean if estimand == "unit_weighted" else equal_weight_mean
    ends = inverted(lambda ratio: mean(treatment - ratio * control, codes), 0.05)
    found = known(share_saved(control, treatment, codes, estimand=estimand, alpha=0.05))
    assert (found.upper, found.lower) == pytest.approx([1.0 - end for end in ends], abs=1e-10)


@pytest.mark.parametrize("whole", [False, True])
@pytest.mark.parametrize("estimand", ESTIMANDS)
def test_limits_between_arms_are_where_their_test_turns(estimand: Estimand, whole: bool) -> None:
    """Whole clusters in an arm, or both arms in every cluster: the same rule."""
    rng = np.random.default_rng(4)
    codes = np.repeat(np.arange(14), rng.integers(2, 8, 14)).astype(np.int64)
    within = np.concatenate([np.arange(size) for size in np.bincount(codes)])
    treated = codes % 2 == 1 if whole else within % 2 == 1
    values = rng.lognormal(0.0, 0.3, codes.size) * np.where(treated, 0.7, 1.0)
    ends = inverted(
        lambda ratio: difference_with_df(
            np.where(treated, values, ratio * values), treated, codes, estimand=estimand
        ),
        0.05,
    )
    found = known(share_saved_between_arms(values, treated, codes, estimand=estimand, alpha=0.05))
    assert (found.upper, found.lower) == pytest.approx([1.0 - end for end in ends], abs=1e-10)


def test_another_unit_of_money_changes_nothing() -> None:
    """Shares are the same in dollars, in cents, and bit for bit in a power of two of them."""
    control, treatment, codes = drawn(2)
    first, cents, scaled = (
        known(share_saved(k * control, k * treatment, codes, estimand=ESTIMANDS[0], alpha=0.05))
        for k in (1.0, 100.0, 1024.0)
    )
    assert first == scaled
    assert (first.share, first.lower, first.upper) == pytest.approx(
        (cents.share, cents.lower, cents.upper), rel=1e-12
    )


def test_swapped_arms_have_the_inverse_ratio() -> None:
    """Fieller's set of the inverse is the inverse of the set: no arm is the one that is known."""
    control, treatment, codes = drawn(3)
    found = known(share_saved(control, treatment, codes, estimand=ESTIMANDS[0], alpha=0.05))
    swapped = known(share_saved(treatment, control, codes, estimand=ESTIMANDS[0], alpha=0.05))
    ends = [1.0 / (1.0 - number(end)) for end in (found.upper, found.lower)]
    assert [1.0 - number(swapped.lower), 1.0 - number(swapped.upper)] == pytest.approx(ends)


def test_order_and_names_change_no_bit() -> None:
    """Units in any order, clusters by any number."""
    control, treatment, codes = drawn(5)
    mixed = np.random.default_rng(1).permutation(codes.size)
    one = share_saved(control, treatment, codes, estimand=ESTIMANDS[0], alpha=0.05)
    other = share_saved(
        control[mixed], treatment[mixed], 97 - 3 * codes[mixed], estimand=ESTIMANDS[0], alpha=0.05
    )
    assert one == other


def test_a_mean_that_may_be_zero_has_no_limits_of_its_share() -> None:
    """Every share far enough out fits such values; the reason says that there is no end."""
    control = np.array([9.0, -7.0, 8.0, -6.0, 7.0, -5.0])
    found = known(
        share_saved(
            control, control / 2.0 + LEFT[:6], np.arange(6), estimand=ESTIMANDS[0], alpha=0.05
        )
    )
    assert (None, None) == (found.lower, found.upper)
    assert "without end" in str(found.why_not)
    assert found.level_p > 0.05
    below = known(share_saved(-LEFT, LEFT, np.arange(8), estimand=ESTIMANDS[0], alpha=0.05))
    assert (None, 1.0) == (below.share, below.level_p)
    assert "not above 0" in str(below.why_not)


def test_one_share_everywhere_has_no_variance() -> None:
    """Half the price in every unit: a share, and no limits of zero width."""
    found = known(share_saved(LEFT, LEFT / 2.0, np.arange(8), estimand=ESTIMANDS[0], alpha=0.05))
    assert (0.5, None, None) == (found.share, found.lower, found.upper)
    assert "no variance" in str(found.why_not)


def test_a_known_level_leaves_the_plain_interval() -> None:
    """Where control is the same in every unit, limits are those of treatment's mean."""
    found = known(
        share_saved(np.full(8, 5.0), LEFT, np.arange(8), estimand=ESTIMANDS[0], alpha=0.05)
    )
    half = float(t.ppf(0.975, 7)) * LEFT.std(ddof=1) / math.sqrt(8.0) / 5.0
    share = 1.0 - LEFT.mean() / 5.0
    assert (found.lower, found.upper) == pytest.approx((share - half, share + half))
    assert 0.0 == found.level_p


def test_bad_arguments_are_refused() -> None:
    """A level outside 0 to 1; one cluster has no variance."""
    with pytest.raises(ValueError, match="alpha"):
        share_saved(LEFT, RIGHT, np.arange(8), estimand=ESTIMANDS[0], alpha=1.0)
    single = share_saved(LEFT, RIGHT, np.zeros(8, np.int64), estimand=ESTIMANDS[0], alpha=0.05)
    assert isinstance(single, Undetermined)
