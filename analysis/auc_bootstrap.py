"""The cluster bootstrap of an area under the ROC curve, from a table of pairs of clusters.

Job: count once how often a positive of one cluster scores above a negative of another; then each
resample's area, its error and what the area is without a cluster follow from the counts of
clusters alone. Leaves the limits to `resampling`, the deciding interval to `labelled`.

Rules:
    - A table's entries are whole or half numbers and an area is bilinear in the counts, so each
      resample's area is exact up to its one division: equal to a recomputation from its units.
    - A cluster drawn twice is two clusters: its positives meet the negatives of both.
    - A resample without positives or without negatives is kept as an infinite value.
    - The table has a cell for each pair of clusters: more than 3,000 clusters are too many.
    - Clusters are put in an order that follows from their units, so names and order don't matter.

Source:
    Obuchowski (1997) for the error within a resample; Davison and Hinkley (1997), section 2.4.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Final

import numpy as np
import numpy.typing as npt

from .auc import check_clustered
from .draws import drawn_counts
from .grouping import FloatArray, IntArray
from .resampling import Bootstrap, summarised
from .values import Undetermined

__all__ = ("PairTable", "auc_bootstrap", "auc_replicates", "pair_table")

_CLUSTERS_MAX: Final = 3_000
# Small blocks cost products of matrices, large ones comparisons of pairs.
_UNITS_A_BLOCK: Final = (8, 64)
_BLOCKS_A_PRODUCT: Final = 2_048
# A table is read once for each chunk of resamples: more of them at once than for columns.
_CHUNK_CELLS: Final = 256_000
_ZERO: Final = 1e-24


@dataclass(frozen=True, kw_only=True, eq=False, slots=True)
class PairTable:
    """Holds what areas of resampled clusters follow from.

    Attributes:
        wins: pairs that a positive of the row's cluster wins over a negative of the column's, ties
            one half; of a difference treatment's minus control's, shape (G, G).
        positives: positives of each cluster, shape (G,); `negatives` likewise.
    """

    wins: FloatArray
    positives: FloatArray
    negatives: FloatArray


def auc_bootstrap(
    control: FloatArray,
    treatment: FloatArray,
    labels: IntArray,
    clusters: IntArray,
    *,
    seed: int,
    resamples: int = 9999,
    alpha: float = 0.05,
) -> Bootstrap | Undetermined:
    """Resamples clusters and summarises the difference of two areas, treatment minus control.

    Args:
        control: control's score per unit, shape (n,), finite.
        treatment: treatment's score per unit, shape (n,), finite.
        labels: 0 or 1 per unit, shape (n,).
        clusters: integer code of each unit's cluster, shape (n,).
        seed: the design's seed.
        resamples: draws, at least 999.
        alpha: two-sided error.
    """
    positive = check_clustered(control, labels, clusters)
    check_clustered(treatment, labels, clusters)
    if resamples < 999:
        raise ValueError(f"resamples: expected at least 999, found {resamples}")
    if not positive.any() or positive.all():
        return Undetermined("positives and negatives are both needed")
    codes = _canonical(control, treatment, labels, clusters)
    count = int(codes.max()) + 1
    if not 2 <= count <= _CLUSTERS_MAX:
        return Undetermined(f"{count} clusters: the bootstrap takes 2 to {_CLUSTERS_MAX}")
    tables = [pair_table(scores, labels, codes) for scores in (control, treatment)]
    table = PairTable(
        wins=tables[1].wins - tables[0].wins,
        positives=tables[0].positives,
        negatives=tables[0].negatives,
    )
    return _bootstrap(table, seed=seed, resamples=resamples, alpha=alpha)


def auc_replicates(
    table: PairTable, counts: FloatArray, *, with_errors: bool = True
) -> tuple[FloatArray, FloatArray]:
    """Computes the area of each resample and Obuchowski's error within it.

    Args:
        table: the pairs.
        counts: how often each resample holds each cluster, shape (rows, G).
        with_errors: False leaves out the errors, at half the time.

    Returns:
        Areas, infinite where there is none, and errors, zero where nothing varies, shapes (rows,).
    """
    # Entries are halves and counts whole: the product is exact in whatever order it is added up.
    by_negatives = counts @ table.wins
    m, n = counts @ table.positives, counts @ table.negatives
    with np.errstate(divide="ignore", invalid="ignore"):
        areas = (by_negatives * counts).sum(axis=1) / (m * n)
        areas = np.where(np.isnan(areas), np.inf, areas)
        if not with_errors:
            return areas, np.zeros(len(areas))
        s10 = (counts @ table.wins.T) / n[:, None] - table.positives * areas[:, None]
        s01 = by_negatives / m[:, None] - table.negatives * areas[:, None]
        drawn = float(table.positives.size)
        first = _share(counts @ (table.positives > 0.0)) * (counts * s10 * s10).sum(axis=1)
        second = _share(counts @ (table.negatives > 0.0)) * (counts * s01 * s01).sum(axis=1)
        both = 2.0 * _share(drawn) * (counts * s10 * s01).sum(axis=1)
        variance = first / (m * m) + second / (n * n) + both / (m * n)
        return areas, np.where(variance > _ZERO, np.sqrt(np.maximum(variance, 0.0)), 0.0)


def pair_table(scores: FloatArray, labels: IntArray, codes: IntArray) -> PairTable:
    """Counts the pairs of one score, ties one half, exactly.

    Args:
        scores: one score per unit, shape (n,), finite.
        labels: 0 or 1 per unit, shape (n,).
        codes: cluster of each unit, 0 to G - 1, shape (n,).
    """
    positive, count = labels == 1, int(codes.max()) + 1
    levels = np.unique(scores, return_inverse=True)[1]
    order = np.argsort(levels, kind="stable")
    levels, positive, codes = levels[order], positive[order], codes[order]
    blocks, is_tie = _blocks(levels)
    wins = _across_blocks(blocks, is_tie, positive, codes, count)
    return PairTable(
        wins=wins
        + _within_blocks(levels, blocks, is_tie, positive=positive, codes=codes, count=count),
        positives=np.bincount(codes[positive], minlength=count).astype(np.float64),
        negatives=np.bincount(codes[~positive], minlength=count).astype(np.float64),
    )


def _bootstrap(
    table: PairTable, *, seed: int, resamples: int, alpha: float
) -> Bootstrap | Undetermined:
    count = table.positives.size
    whole, error = auc_replicates(table, np.ones((1, count)))
    areas, errors = np.empty(resamples), np.empty(resamples)
    for first, counts in drawn_counts(count, seed=seed, resamples=resamples, cells=_CHUNK_CELLS):
        rows = slice(first, first + len(counts))
        areas[rows], errors[rows] = auc_replicates(table, counts)
    estimate = float(whole[0])
    with np.errstate(divide="ignore", invalid="ignore"):
        pivots = np.where(areas == estimate, 0.0, (areas - estimate) / errors)
    without = _leave_one_out(table)
    return summarised(estimate, float(error[0]), areas, pivots, without, alpha=alpha)


def _leave_one_out(table: PairTable) -> FloatArray:
    wins, m, n = table.wins, table.positives, table.negatives
    left = wins.sum() - wins.sum(axis=0) - wins.sum(axis=1) + wins.diagonal()
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.asarray(left / ((m.sum() - m) * (n.sum() - n)), dtype=np.float64)


def _share(clusters: FloatArray | float) -> FloatArray | float:
    return clusters / (clusters - 1.0)


def _blocks(levels: IntArray) -> tuple[IntArray, npt.NDArray[np.bool_]]:
    """Cuts units sorted by level into blocks of whole levels; says which are one large level."""
    least, most = _UNITS_A_BLOCK
    block = min(max(math.isqrt(levels.size) // 4, least), most)
    sizes = np.bincount(levels)
    windows = (np.cumsum(sizes) - sizes) // block
    is_large = sizes > block
    starts = np.r_[False, (np.diff(windows) > 0) | is_large[1:] | is_large[:-1]]
    of_level = np.cumsum(starts)
    is_tie = np.zeros(int(of_level[-1]) + 1, dtype=np.bool_)
    is_tie[of_level[is_large]] = True
    return of_level[levels], is_tie


def _across_blocks(
    blocks: IntArray,
    is_tie: npt.NDArray[np.bool_],
    positive: npt.NDArray[np.bool_],
    codes: IntArray,
    count: int,
) -> FloatArray:
    """Counts wins over negatives of lower blocks, and half of a block that is one level."""
    wins, below = np.zeros((count, count)), np.zeros(count)
    for first in range(0, is_tie.size, _BLOCKS_A_PRODUCT):
        last = min(first + _BLOCKS_A_PRODUCT, is_tie.size)
        inside = slice(*np.searchsorted(blocks, [first, last]))
        rows = last - first
        cells = (blocks[inside] - first) * count + codes[inside]
        chosen = positive[inside]
        above, own = (
            np.bincount(cells[side], minlength=rows * count).reshape(rows, count).astype(np.float64)
            for side in (chosen, ~chosen)
        )
        lower = below + np.cumsum(own, axis=0) - own
        wins += above.T @ (lower + 0.5 * own * is_tie[first:last, None])
        below = below + own.sum(axis=0)
    return wins


def _within_blocks(
    levels: IntArray,
    blocks: IntArray,
    is_tie: npt.NDArray[np.bool_],
    *,
    positive: npt.NDArray[np.bool_],
    codes: IntArray,
    count: int,
) -> FloatArray:
    """Counts the pairs inside blocks of several levels one by one."""
    halves = np.zeros(count * count)
    open_block = ~is_tie[blocks]
    for step in range(1, levels.size):
        low, high = slice(0, levels.size - step), slice(step, levels.size)
        near = (blocks[low] == blocks[high]) & open_block[low]
        if not near.any():
            break
        tied = levels[low] == levels[high]
        upper_wins = near & positive[high] & ~positive[low]
        lower_ties = near & tied & positive[low] & ~positive[high]
        cells = np.r_[
            codes[high][upper_wins] * count + codes[low][upper_wins],
            codes[low][lower_ties] * count + codes[high][lower_ties],
        ]
        worth = np.r_[2.0 - tied[upper_wins], np.ones(int(lower_ties.sum()))]
        np.add.at(halves, cells, worth)
    return 0.5 * halves.reshape(count, count)


def _canonical(
    control: FloatArray, treatment: FloatArray, labels: IntArray, clusters: IntArray
) -> IntArray:
    """Returns codes that rank clusters by their units, whatever their names and order."""
    order = np.lexsort((treatment, control, labels, clusters))
    columns = np.column_stack([labels, control, treatment])[order].astype(">f8") + 0.0
    ends = np.flatnonzero(np.r_[np.diff(clusters[order]) != 0, True]) + 1
    starts = np.r_[0, ends[:-1]]
    contents = [columns[a:b].tobytes() for a, b in zip(starts, ends, strict=True)]
    ranked = sorted(range(len(contents)), key=lambda place: (len(contents[place]), contents[place]))
    rank_of = np.empty(len(contents), dtype=np.int64)
    rank_of[ranked] = np.arange(len(contents))
    codes = np.empty(len(clusters), dtype=np.int64)
    codes[order] = np.repeat(rank_of, ends - starts)
    return codes
