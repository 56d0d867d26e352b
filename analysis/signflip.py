"""The sign-flip randomisation test over clusters.

Job: the p of "within each cluster the arms could have been exchanged", from one sum of
differences per cluster. Leaves the verdict to other tests: this one is shown beside them.

Rules:
    - Clusters with a sum of zero change nothing and are left out before counting.
    - Up to 16 other clusters every pattern is counted; above, seeded Monte Carlo with
      (k + 1) / (B + 1), which is never zero.
    - The sums are sorted first, so the order of clusters and the arms' direction don't matter.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np

from .grouping import FloatArray, exact_sum
from .randomness import STREAM_SIGN_FLIP, signs

__all__ = ("SignFlip", "min_attainable_p", "sign_flip")

_EXACT_CLUSTERS: Final = 16
_TIES: Final = 1e-10
_CHUNK_CELLS: Final = 4_000_000


@dataclass(frozen=True, kw_only=True, slots=True)
class SignFlip:
    """Holds a randomisation p; `exact` says that every pattern was counted."""

    p_value: float
    exact: bool


def sign_flip(cluster_sums: FloatArray, *, seed: int, resamples: int = 9999) -> SignFlip:
    """Computes the share of sign patterns whose absolute sum reaches the observed one.

    Args:
        cluster_sums: sum of the differences of each cluster, shape (G,), finite.
        seed: the design's seed; used only when there are too many clusters to enumerate.
        resamples: Monte Carlo patterns, at least 999.

    Returns:
        The two-sided p, the identity pattern included; 1 when all sums are zero.

    Source:
        Fisher (1935), section 21; Phipson and Smyth (2010) for (k + 1) / (B + 1).
    """
    sums = _check_sign_flip(cluster_sums, resamples)
    total = exact_sum(sums)
    # Flipping a cluster's own sign only renames the patterns: magnitudes and the total suffice.
    sums = np.sort(np.abs(sums[sums != 0.0]))
    if sums.size == 0:
        return SignFlip(p_value=1.0, exact=True)
    # Sums within rounding of the observed one count as ties, so that no platform decides them.
    observed = abs(total) - _TIES * exact_sum(sums)
    if sums.size <= _EXACT_CLUSTERS:
        return SignFlip(p_value=_exact(sums, observed), exact=True)
    reached = _reached(sums, observed, seed, resamples)
    return SignFlip(p_value=(reached + 1) / (resamples + 1), exact=False)


def min_attainable_p(clusters: int) -> float:
    """Returns 2^(1-G), the smallest p that the test can give with G >= 1 clusters."""
    if clusters < 1:
        raise ValueError(f"clusters: expected at least 1, found {clusters}")
    return 2.0 ** (1 - clusters)


def _exact(sums: FloatArray, observed: float) -> float:
    # One cluster keeps its sign: a pattern and its mirror image have the same absolute sum.
    totals = np.array([sums[-1]])
    for value in sums[:-1]:
        totals = np.concatenate([totals + value, totals - value])
    return float(np.count_nonzero(np.abs(totals) >= observed) / totals.size)


def _reached(sums: FloatArray, observed: float, seed: int, resamples: int) -> int:
    step = max(1, _CHUNK_CELLS // sums.size)
    reached = 0
    for first in range(0, resamples, step):
        rows = min(step, resamples - first)
        flips = signs(rows, sums.size, seed=seed, stream=STREAM_SIGN_FLIP, first_row=first)
        totals = np.einsum("ij,j->i", flips, sums, optimize=False)
        reached += int(np.count_nonzero(np.abs(totals) >= observed))
    return reached


def _check_sign_flip(cluster_sums: FloatArray, resamples: int) -> FloatArray:
    sums = np.asarray(cluster_sums, dtype=np.float64)
    if sums.ndim != 1 or not np.all(np.isfinite(sums)):
        raise ValueError("cluster_sums: expected a list of finite numbers")
    if resamples < 999:
        raise ValueError(f"resamples: expected at least 999, found {resamples}")
    return sums
