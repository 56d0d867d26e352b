"""The wild cluster bootstrap of t, with the null imposed.

Job: a p for "the mean is null" that keeps cluster sizes as they are and flips residual sums.
Leaves resampling of clusters to `resampling`, the sign-flip test of exchangeable arms to
`signflip`.

Rules:
    - Rademacher signs from 12 clusters, Webb's six points below, because few clusters have too
      few sign patterns.
    - Rademacher up to 16 clusters counts every pattern; else seeded Monte Carlo with
      (k + 1) / (B + 1).
    - t uses CR1; a pattern without variance counts as beyond any t.

Source:
    Cameron, Gelbach and Miller (2008); Webb (2023); MacKinnon and Webb (2018).
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Final, Literal

import numpy as np

from .grouping import FloatArray, check_cluster_lists
from .randomness import STREAM_WILD, indices, signs
from .values import Undetermined

__all__ = ("Weights", "WildBootstrap", "wild_bootstrap_t")

Weights = Literal["rademacher", "webb"]

_EXACT_CLUSTERS: Final = 16
_WEBB_BELOW: Final = 12
_TIES: Final = 1e-9
_WEBB_POINTS: Final = (
    -math.sqrt(1.5),
    -1.0,
    -math.sqrt(0.5),
    math.sqrt(0.5),
    1.0,
    math.sqrt(1.5),
)
_CHUNK_ROWS: Final = 4096


@dataclass(frozen=True, kw_only=True, slots=True)
class WildBootstrap:
    """Holds the observed t with CR1, its bootstrap p, and whether all patterns were counted."""

    t_cr1: float
    p_value: float
    exact: bool


def wild_bootstrap_t(
    cluster_sums: FloatArray,
    cluster_sizes: FloatArray,
    *,
    seed: int,
    weights: Weights | None = None,
    resamples: int = 9999,
    null: float = 0.0,
) -> WildBootstrap | Undetermined:
    """Computes the two-sided wild cluster bootstrap-t p.

    Args:
        cluster_sums: sum of the differences of each cluster, shape (G,).
        cluster_sizes: units of each cluster, > 0, shape (G,).
        seed: the design's seed; used only when patterns are drawn.
        weights: None picks Rademacher from 12 clusters and Webb below.
        resamples: patterns drawn when not all are counted, at least 999.
        null: mean under the null.
    """
    sums, sizes = _check_wild(cluster_sums, cluster_sizes, resamples)
    if sums.size < 2:
        return Undetermined("all units are in one cluster, so nothing varies between clusters")
    order = np.lexsort((sums, sizes))
    sizes = sizes[order]
    residuals = sums[order] - sizes * null
    means = residuals / sizes
    if float(np.ptp(means)) <= 1e-12 * float(np.max(np.abs(means))):
        return Undetermined("every cluster has the same mean, so there is no variance")
    observed = float(_t(residuals[None, :], sizes)[0])
    kind = weights or ("webb" if sums.size < _WEBB_BELOW else "rademacher")
    edge = abs(observed) * (1.0 - _TIES)
    if kind == "rademacher" and sums.size <= _EXACT_CLUSTERS:
        share = _exact_share(residuals, sizes, edge)
        return WildBootstrap(t_cr1=observed, p_value=share, exact=True)
    reached = sum(
        int(np.count_nonzero(np.abs(_t(residuals * draw, sizes)) >= edge))
        for draw in _draws(kind, sums.size, seed, resamples)
    )
    return WildBootstrap(t_cr1=observed, p_value=(reached + 1) / (resamples + 1), exact=False)


def _exact_share(residuals: FloatArray, sizes: FloatArray, edge: float) -> float:
    # One cluster keeps its sign: a pattern and its mirror image have the same absolute t.
    count, reached = residuals.size, 0
    half = 1 << (count - 1)
    for first in range(0, half, _CHUNK_ROWS):
        numbers = np.arange(first, min(half, first + _CHUNK_ROWS))[:, None]
        flips = 1.0 - 2.0 * ((numbers >> np.arange(count)[None, :]) & 1)
        reached += int(np.count_nonzero(np.abs(_t(residuals * flips, sizes)) >= edge))
    return reached / half


def _draws(kind: str, count: int, seed: int, resamples: int) -> list[FloatArray]:
    drawn = []
    for first in range(0, resamples, _CHUNK_ROWS):
        rows = min(_CHUNK_ROWS, resamples - first)
        if kind == "rademacher":
            flips = signs(rows, count, seed=seed, stream=STREAM_WILD, first_row=first)
            drawn.append(flips.astype(np.float64))
        else:
            places = indices(rows, count, 6, seed=seed, stream=STREAM_WILD, first_row=first)
            drawn.append(np.array(_WEBB_POINTS)[places])
    return drawn


def _t(sums: FloatArray, sizes: FloatArray) -> FloatArray:
    count, n = sizes.size, sizes.sum()
    means = sums.sum(axis=1) / n
    residuals = sums - means[:, None] * sizes
    errors = np.sqrt(np.sum(residuals * residuals, axis=1) * count / (count - 1)) / n
    flat = errors <= 1e-12 * np.max(np.abs(sums), axis=1) / n
    with np.errstate(divide="ignore", invalid="ignore"):
        ratio = means / errors
    beyond = np.where(means == 0.0, 0.0, np.copysign(np.inf, means))
    return np.asarray(np.where(flat, beyond, ratio), dtype=np.float64)


def _check_wild(
    cluster_sums: FloatArray, cluster_sizes: FloatArray, resamples: int
) -> tuple[FloatArray, FloatArray]:
    sums, sizes = check_cluster_lists(cluster_sums, cluster_sizes, resamples=resamples)
    if not np.all(sizes > 0.0):
        raise ValueError("cluster_sizes: expected numbers above 0")
    return sums, sizes
