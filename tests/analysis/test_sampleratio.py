"""The sample ratio of assigned units: against enumeration, and its error rate."""

from __future__ import annotations

from itertools import combinations
from math import comb
from typing import Any

import numpy as np
import pytest
from scipy import stats  # type: ignore[import-untyped]  # scipy ships no types

from fairtrial.analysis.sampleratio import by_cluster_ratio, by_unit_ratio


@pytest.mark.parametrize(
    ("control", "treatment", "lost"),
    [(10, 10, (0, 0)), (10, 10, (1, 7)), (20, 12, (9, 1)), (300, 290, (2, 19)), (5, 8, (5, 8))],
)
def test_units_are_tested_as_fisher_does(
    control: int, treatment: int, lost: tuple[int, int]
) -> None:
    """The p is that of scipy's exact test of the 2 x 2 table of arm and loss."""
    table = [[control - lost[0], lost[0]], [treatment - lost[1], lost[1]]]
    expected: Any = stats.fisher_exact(table)
    assert by_unit_ratio(control, treatment, *lost) == pytest.approx(expected.pvalue, rel=1e-9)


def test_whole_clusters_are_chosen_in_every_way() -> None:
    """The p is the share of all choices of clusters that are as far from an even loss."""
    lost = np.array([3.0, 0.0, 2.0, 4.0, 0.0, 1.0, 5.0])
    units = np.array([9.0, 8.0, 10.0, 7.0, 12.0, 6.0, 9.0])
    treated = np.array([True, False, False, True, False, False, True])
    excess = lost - units * lost.sum() / units.sum()
    seen = abs(excess[treated].sum())
    sums = [abs(excess[list(part)].sum()) for part in combinations(range(7), 3)]

    found, exact = by_cluster_ratio(lost, units, treated, seed=1)

    assert exact
    assert found == sum(each >= seen - 1e-9 for each in sums) / comb(7, 3)


def test_many_clusters_are_drawn_from_the_seed() -> None:
    """Above the limit the choices are drawn: the same for a seed, near the exact share."""
    rng = np.random.default_rng(2)
    units = np.full(30, 10.0)
    treated = np.arange(30) < 15
    lost = rng.binomial(10, np.where(treated, 0.35, 0.2)).astype(float)

    first, exact = by_cluster_ratio(lost, units, treated, seed=1)

    assert not exact
    assert first == by_cluster_ratio(lost, units, treated, seed=1)[0]
    seen = abs(lost[treated].sum() - lost.sum() / 2)
    drawn = [abs(lost[rng.permutation(30)[:15]].sum() - lost.sum() / 2) for _ in range(5000)]
    share = sum(each >= seen for each in drawn) / 5000
    assert first == pytest.approx(share, abs=0.02)


def test_what_cannot_have_been_lost_is_refused() -> None:
    """More units lost than assigned, and too few draws, are wrong arguments."""
    with pytest.raises(ValueError, match="lost"):
        by_unit_ratio(3, 3, 4, 0)
    with pytest.raises(ValueError, match="resamples"):
        by_cluster_ratio(np.zeros(2), np.ones(2), np.array([True, False]), seed=1, resamples=10)
