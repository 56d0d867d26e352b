"""Statistics: cluster bootstrap, deciding interval and boundary, against scipy and a plain loop."""

from __future__ import annotations

import random
import sys
import warnings

import numpy as np
from scipy import stats

from benchmarks.measuring import is_quick, rounds, say
from fairtrial.analysis.resampling import cluster_bootstrap
from fairtrial.analysis.sequential import spending_boundary

RESAMPLES = 10_000


def data(units: int, clusters: int) -> tuple[np.ndarray, np.ndarray]:
    """Returns paired differences and cluster codes."""
    source = np.random.Generator(np.random.Philox(7))
    return source.integers(-1, 2, units).astype(float), source.integers(0, clusters, units)


def plain_loop(values: np.ndarray, codes: np.ndarray, resamples: int) -> float:
    """Draws clusters and adds up units in plain Python, as first written by most people."""
    groups: dict[int, list[float]] = {}
    for code, value in zip(codes.tolist(), values.tolist(), strict=True):
        groups.setdefault(code, []).append(value)
    members, chooser = list(groups.values()), random.Random(1)
    means = []
    for _ in range(resamples):
        drawn = [value for _ in members for value in chooser.choice(members)]
        means.append(sum(drawn) / len(drawn))
    return sorted(means)[resamples // 40]


def ours_sums(values: np.ndarray, codes: np.ndarray) -> object:
    """Resamples with ours, which also gives studentised and BCa limits from the same draws."""
    sums, sizes = np.bincount(codes, values), np.bincount(codes).astype(float)
    return cluster_bootstrap(sums, sizes, seed=1, resamples=RESAMPLES)


def scipy_sums(values: np.ndarray, codes: np.ndarray) -> object:
    """Resamples cluster sums and sizes with scipy, vectorised."""
    sums, sizes = np.bincount(codes, values), np.bincount(codes).astype(float)

    def mean(one: np.ndarray, other: np.ndarray, axis: int = -1) -> np.ndarray:
        return np.asarray(one.sum(axis) / other.sum(axis))

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return stats.bootstrap(
            (sums, sizes), mean, paired=True, vectorized=True, n_resamples=RESAMPLES,
            method="percentile", rng=np.random.Generator(np.random.Philox(1)),
        )  # fmt: skip


def main() -> None:
    """Prints the ratios."""
    count = 3 if is_quick() else 5
    for units, clusters, loop in ((500, 12, 1_000), (100_000, 1_000, 5)):
        values, codes = data(units, clusters)
        ours, scipy_seconds, slow = rounds(
            lambda v=values, c=codes: ours_sums(v, c),
            lambda v=values, c=codes: scipy_sums(v, c),
            lambda v=values, c=codes, n=loop: plain_loop(v, c, n),
            count=count,
        )
        name = f"{RESAMPLES:,} resamples of {units:,} units in {clusters:,} clusters"
        say(f"{name}, scipy", ours, scipy_seconds, goal="1")
        say(f"{name}, plain loop", ours, slow * RESAMPLES / loop, goal="100 / 3,000")
    (five,) = rounds(lambda: spending_boundary([0.2, 0.4, 0.6, 0.8, 1.0], alpha=0.05), count=count)
    sys.stdout.write(f"a boundary of five looks: {five * 1e3:.1f} ms here (goal 20)\n")


if __name__ == "__main__":
    main()
