"""Clusters drawn with replacement, as counts, and totals over them that no machine adds otherwise.

Job: give each resample's number of times that it holds each cluster, and the totals of columns of
clusters' sums over it. Leaves what is made of the totals to `resampling` and `auc_bootstrap`.

Rules:
    - Draws come from the bootstrap's Philox stream; resample r is the same however the work is cut.
    - Columns are rounded to a grid on which every total of a resample is exact in float64
      (`grouping.on_grid`), so that the order of a sum, the threads of a matrix
      product and the version of a library change no bit. Whole numbers are on the grid already.
    - One set of draws serves any number of columns.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

import numpy as np

from .grouping import FloatArray
from .randomness import STREAM_BOOTSTRAP, indices

__all__ = ("drawn_counts", "drawn_totals")

# Indices of one chunk stay in the processor's cache.
_CHUNK_CELLS: Final = 32_000


def drawn_counts(
    clusters: int, *, seed: int, resamples: int, cells: int = _CHUNK_CELLS
) -> Iterator[tuple[int, FloatArray]]:
    """Yields chunks of resamples: the first one's number, and how often each holds each cluster.

    Args:
        clusters: number of clusters, G; each resample draws as many.
        seed: the design's seed.
        resamples: number of resamples in all.
        cells: counts of one chunk, about; the numbers don't depend on it.

    Yields:
        The number of the chunk's first resample and counts, shape (rows, G).
    """
    step = max(1, cells // clusters)
    for first in range(0, resamples, step):
        rows = min(step, resamples - first)
        places = indices(
            rows, clusters, clusters, seed=seed, stream=STREAM_BOOTSTRAP, first_row=first
        )
        places += (np.arange(rows) * clusters)[:, None]
        counts = np.bincount(places.ravel(), minlength=rows * clusters)
        yield first, counts.reshape(rows, clusters).astype(np.float64)


def drawn_totals(columns: FloatArray, *, seed: int, resamples: int) -> FloatArray:
    """Computes the totals of columns over the clusters of each resample.

    Args:
        columns: one row a cluster, each column on the grid of `on_grid`, shape (G, C).
        seed: the design's seed.
        resamples: number of resamples, B.

    Returns:
        Exact totals, shape (B, C).
    """
    totals = np.empty((resamples, columns.shape[1]))
    for first, counts in drawn_counts(columns.shape[0], seed=seed, resamples=resamples):
        totals[first : first + len(counts)] = counts @ columns
    return totals
