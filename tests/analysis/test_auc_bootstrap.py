"""The cluster bootstrap of AUC: every resample equals a recomputation from its units."""

from __future__ import annotations

import numpy as np
import pytest

from fairtrial.analysis.auc import ClusteredAuc, auc, auc_clustered_difference
from fairtrial.analysis.auc_bootstrap import (
    PairTable,
    auc_bootstrap,
    auc_replicates,
    pair_table,
)
from fairtrial.analysis.draws import drawn_counts
from fairtrial.analysis.grouping import FloatArray, IntArray
from fairtrial.analysis.resampling import Bootstrap
from fairtrial.analysis.values import Interval, Undetermined


def data(
    seed: int, *, units: int = 240, clusters: int = 12, levels: int | None = None
) -> tuple[FloatArray, FloatArray, IntArray, IntArray]:
    """Returns two correlated scores, labels and clusters; few levels make ties."""
    rng = np.random.default_rng(seed)
    codes = rng.integers(0, clusters, units)
    labels = (rng.random(units) < 0.4).astype(np.int64)
    base = rng.normal(size=units) + 0.8 * labels + 0.5 * rng.normal(size=clusters)[codes]
    scores = [base + rng.normal(size=units), base + 0.5 * rng.normal(size=units)]
    if levels is not None:
        scores = [np.floor(score * levels / 4.0) for score in scores]
    return scores[0], scores[1], labels, codes


def drawn(counts: FloatArray, codes: IntArray) -> tuple[IntArray, IntArray]:
    """Returns the units of one resample, and a code of its own for each copy of a cluster."""
    places, copies, number = [], [], 0
    for code, times in enumerate(counts.astype(int)):
        own = np.flatnonzero(codes == code)
        for _ in range(times):
            places.append(own)
            copies.append(np.full(own.size, number))
            number += 1
    return np.concatenate(places), np.concatenate(copies)


@pytest.mark.parametrize("levels", [None, 400, 3, 1])
def test_table_counts_every_pair(levels: int | None) -> None:
    """Wins of each pair of clusters as in a double loop over units, ties one half."""
    for seed, units in ((1, 240), (2, 900)):
        score, _, labels, codes = data(seed, units=units, levels=levels)
        gap = score[:, None] - score[None, :]
        won = (gap > 0.0) + 0.5 * (gap == 0.0)
        expected = np.zeros((12, 12))
        for g in range(12):
            for h in range(12):
                rows, columns = (codes == g) & (labels == 1), (codes == h) & (labels == 0)
                expected[g, h] = won[np.ix_(rows, columns)].sum()
        assert expected.tolist() == pair_table(score, labels, codes).wins.tolist()


@pytest.mark.parametrize("levels", [None, 4])
def test_resamples_equal_a_recomputation(levels: int | None) -> None:
    """Area within 1e-12, and Obuchowski's error, of the units of 50 resamples themselves."""
    control, treatment, labels, codes = data(3, levels=levels)
    tables = [pair_table(score, labels, codes) for score in (control, treatment)]
    table = PairTable(
        wins=tables[1].wins - tables[0].wins,
        positives=tables[0].positives,
        negatives=tables[0].negatives,
    )
    (_, counts), *_ = drawn_counts(12, seed=5, resamples=50)
    areas, errors = auc_replicates(table, counts)
    for row, area, error in zip(counts, areas.tolist(), errors.tolist(), strict=True):
        units, copies = drawn(row, codes)
        found = auc_clustered_difference(control[units], treatment[units], labels[units], copies)
        assert isinstance(found, ClusteredAuc)
        assert abs(area - found.estimate) <= 1e-12
        assert error == pytest.approx(found.variance**0.5, rel=1e-9)


def test_bootstrap_is_that_of_the_difference() -> None:
    """Estimate and error are the analysis' own; limits surround it and are near its t interval."""
    control, treatment, labels, codes = data(7, units=2_000, clusters=60)
    found = auc_bootstrap(control, treatment, labels, codes, seed=2, resamples=4_000)
    expected = auc_clustered_difference(control, treatment, labels, codes)
    assert isinstance(found, Bootstrap)
    assert isinstance(expected, ClusteredAuc)
    assert isinstance(expected.interval, Interval)
    assert found.estimate == pytest.approx(expected.estimate, abs=1e-13)
    assert found.standard_error == pytest.approx(expected.variance**0.5, rel=0.1)
    half = expected.interval.upper - expected.estimate
    for interval in (found.percentile, found.bca, found.studentised):
        assert isinstance(interval, Interval)
        assert interval.lower == pytest.approx(expected.interval.lower, abs=0.2 * half)
        assert interval.upper == pytest.approx(expected.interval.upper, abs=0.2 * half)


def test_bootstrap_ignores_order_and_names_and_mirrors_with_the_arms() -> None:
    """Permuted units and renamed clusters change no bit; swapped arms negate."""
    control, treatment, labels, codes = data(9)
    first = auc_bootstrap(control, treatment, labels, codes, seed=4, resamples=999)
    order = np.random.default_rng(1).permutation(codes.size)
    names = np.random.default_rng(2).permutation(12) * 7 - 3
    again = auc_bootstrap(
        control[order], treatment[order], labels[order], names[codes][order], seed=4, resamples=999
    )
    assert first == again
    swapped = auc_bootstrap(treatment, control, labels, codes, seed=4, resamples=999)
    assert isinstance(first, Bootstrap)
    assert isinstance(swapped, Bootstrap)
    assert first.estimate == -swapped.estimate
    assert first.standard_error == pytest.approx(swapped.standard_error, rel=0.05)


def test_a_resample_without_positives_is_kept() -> None:
    """Positives in one cluster of four: a third of the resamples has no area, and says so."""
    codes = np.repeat(np.arange(4), 5)
    labels = (codes == 0).astype(np.int64)
    labels[0] = 0
    scores = np.random.default_rng(3).normal(size=20)
    found = auc_bootstrap(scores, -scores, labels, codes, seed=1, resamples=999)
    assert isinstance(found, Bootstrap)
    assert isinstance(found.percentile, Undetermined)
    assert isinstance(found.standard_error, Undetermined)
    assert found.estimate == pytest.approx(
        float(str(auc(-scores[labels == 1], -scores[labels == 0])))
        - float(str(auc(scores[labels == 1], scores[labels == 0])))
    )


def test_what_cannot_be_resampled_says_so() -> None:
    """No negatives, one cluster, equal scores: undetermined; bad arguments are refused."""
    control, treatment, labels, codes = data(1)
    ones = np.ones_like(labels)
    assert isinstance(auc_bootstrap(control, treatment, ones, codes, seed=1), Undetermined)
    one = np.zeros_like(codes)
    assert isinstance(auc_bootstrap(control, treatment, labels, one, seed=1), Undetermined)
    same = auc_bootstrap(control, control, labels, codes, seed=1, resamples=999)
    assert isinstance(same, Bootstrap)
    for interval in (same.percentile, same.bca, same.studentised):
        assert isinstance(interval, Undetermined)
    with pytest.raises(ValueError, match="resamples"):
        auc_bootstrap(control, treatment, labels, codes, seed=1, resamples=99)
    with pytest.raises(ValueError, match="labels"):
        auc_bootstrap(control, treatment, labels + 5, codes, seed=1)
