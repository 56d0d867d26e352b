"""Areas: against pairs counted one by one, DeLong's definition, and clusters of one."""

from __future__ import annotations

import math

import numpy as np
import pytest

from fairtrial.analysis import auc as area
from fairtrial.analysis.grouping import FloatArray, IntArray
from fairtrial.analysis.values import Interval, Undetermined


def _count(positives: FloatArray, negatives: FloatArray) -> float:
    wins = [
        1.0 if x > y else 0.5 if x == y else 0.0
        for x in positives.tolist()
        for y in negatives.tolist()
    ]
    return math.fsum(wins) / len(wins)


def _scores(seed: int) -> tuple[FloatArray, FloatArray]:
    rng = np.random.default_rng(seed)
    return rng.integers(2, 11, 17) / 10.0, rng.integers(0, 9, 23) / 10.0


@pytest.mark.parametrize("seed", range(5))
def test_area_counts_pairs_with_ties_half(seed: int) -> None:
    """Ranks give what counting gives; swapping labels gives the rest to one."""
    x, y = _scores(seed)
    found, mirrored = area.auc(x, y), area.auc(y, x)
    assert found == pytest.approx(_count(x, y), abs=1e-12)
    assert isinstance(found, float)
    assert mirrored == pytest.approx(1.0 - found, abs=1e-12)


@pytest.mark.parametrize("seed", range(3))
def test_delong_variance_is_that_of_the_components(seed: int) -> None:
    """Structural components computed by counting."""
    x, y = _scores(seed)
    above = np.array([_count(np.array([v]), y) for v in x])
    below = np.array([_count(x, np.array([v])) for v in y])
    found = area.auc_delong(x, y)
    assert isinstance(found, area.AucEstimate)
    expected = above.var(ddof=1) / x.size + below.var(ddof=1) / y.size
    assert found.variance == pytest.approx(expected)
    assert isinstance(found.interval, Interval)
    assert 0.0 <= found.interval.lower < found.auc < found.interval.upper <= 1.0


def test_paired_difference_of_a_score_with_itself_has_no_test() -> None:
    """No variance, no z; swapping arms negates."""
    x, y = _scores(1)
    same = area.auc_delong_paired(x, y, x, y)
    assert isinstance(same, area.AucDifference)
    assert same.difference == 0.0
    assert isinstance(same.p_value, Undetermined)
    x2, y2 = _scores(2)
    there = area.auc_delong_paired(x, y, x2, y2)
    back = area.auc_delong_paired(x2, y2, x, y)
    assert isinstance(there, area.AucDifference)
    assert isinstance(back, area.AucDifference)
    assert (there.difference, there.p_value) == (-back.difference, back.p_value)


def _clustered(seed: int) -> tuple[FloatArray, FloatArray, IntArray, IntArray]:
    rng = np.random.default_rng(seed)
    labels = (rng.random(60) < 0.4).astype(np.int64)
    control = rng.normal(labels * 0.8, 1.0)
    return control, control + rng.normal(labels * 0.3, 0.5), labels, rng.integers(0, 9, 60)


def test_clusters_of_one_unit_give_delong() -> None:
    """Obuchowski's variance reduces to DeLong's, for one score and for a difference."""
    control, treatment, labels, _ = _clustered(1)
    alone = np.arange(60)
    positive = labels == 1
    one = area.auc_clustered(control, labels, alone)
    plain = area.auc_delong(control[positive], control[~positive])
    assert isinstance(one, area.ClusteredAuc)
    assert isinstance(plain, area.AucEstimate)
    assert one.variance == pytest.approx(plain.variance)
    gap = area.auc_clustered_difference(control, treatment, labels, alone)
    paired = area.auc_delong_paired(
        control[positive], control[~positive], treatment[positive], treatment[~positive]
    )
    assert isinstance(gap, area.ClusteredAuc)
    assert isinstance(paired, area.AucDifference)
    assert (gap.estimate, gap.variance) == pytest.approx((paired.difference, paired.variance))


def test_clustered_difference_ignores_order_and_names() -> None:
    """Permuted units and renamed clusters give the same bits; swapped arms negate."""
    control, treatment, labels, clusters = _clustered(2)
    first = area.auc_clustered_difference(control, treatment, labels, clusters)
    rng = np.random.default_rng(0)
    order, names = rng.permutation(60), rng.permutation(100)[:9]
    again = area.auc_clustered_difference(
        control[order], treatment[order], labels[order], names[clusters][order]
    )
    assert first == again
    back = area.auc_clustered_difference(treatment, control, labels, clusters)
    assert isinstance(first, area.ClusteredAuc)
    assert isinstance(back, area.ClusteredAuc)
    assert (first.estimate, first.p_value) == (-back.estimate, back.p_value)


def test_duplicating_units_keeps_the_clustered_variance() -> None:
    """Twice the same units in the same clusters are no new evidence."""
    control, treatment, labels, clusters = _clustered(3)
    once = area.auc_clustered_difference(control, treatment, labels, clusters)
    twice = area.auc_clustered_difference(
        np.tile(control, 2), np.tile(treatment, 2), np.tile(labels, 2), np.tile(clusters, 2)
    )
    assert isinstance(once, area.ClusteredAuc)
    assert isinstance(twice, area.ClusteredAuc)
    assert (twice.estimate, twice.variance) == pytest.approx((once.estimate, once.variance))


def test_ranks_in_order_have_the_bits_of_ranks_in_any_order() -> None:
    """Each component is the share of pairs that its unit wins, with ties and values far outside."""
    rng = np.random.default_rng(4)
    labels = rng.integers(0, 2, 400)
    control, treatment = (np.round(rng.normal(labels, 1.0), 1) for _ in range(2))
    treatment[:6] = [1e110, -1e110] * 3
    ranked = area.ranked_arms(control, treatment, labels)
    for scores, parts in ((control, ranked.control), (treatment, ranked.treatment)):
        assert not isinstance(parts, Undetermined)
        x, y = scores[labels == 1], scores[labels == 0]
        above = [(int((y < one).sum()) + int((y <= one).sum())) / (2.0 * y.size) for one in x]
        below = [1.0 - (int((x < one).sum()) + int((x <= one).sum())) / (2.0 * x.size) for one in y]
        assert above == parts.positives.tolist()
        assert below == parts.negatives.tolist()
    alone = tuple(area.auc(each[labels == 1], each[labels == 0]) for each in (control, treatment))
    assert alone == ranked.areas


def test_perfect_separation_has_no_interval() -> None:
    """An area of 1 varies in no resample; one positive shows no variance."""
    perfect = area.auc_delong(np.array([3.0, 4.0]), np.array([1.0, 2.0]))
    assert isinstance(perfect, area.AucEstimate)
    assert perfect.auc == 1.0
    assert isinstance(perfect.interval, Undetermined)
    assert isinstance(area.auc_delong(np.array([3.0]), np.array([1.0, 2.0])), Undetermined)
    assert isinstance(area.auc(np.array([]), np.array([1.0])), Undetermined)
    labels, clusters = np.array([1, 1, 0, 0]), np.array([0, 0, 1, 1])
    scores = np.array([0.1, 0.9, 0.4, 0.3])
    assert isinstance(area.auc_clustered(scores, labels, clusters), Undetermined)


@pytest.mark.parametrize(
    "call",
    [
        lambda: area.auc(np.array([math.nan]), np.array([1.0])),
        lambda: area.auc_delong_paired(np.ones(3), np.ones(3), np.ones(2), np.ones(3)),
        lambda: area.auc_clustered(np.ones(3), np.array([0, 1, 2]), np.arange(3)),
        lambda: area.auc_clustered(np.ones(3), np.array([0, 1]), np.arange(3)),
    ],
)
def test_bad_arguments_are_value_errors(call: object) -> None:
    """NaN, other units, other labels."""
    assert callable(call)
    with pytest.raises(ValueError, match="expected"):
        call()
