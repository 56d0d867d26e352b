"""Cluster bootstrap of means, of eight metrics and of AUC: against scipy and a plain loop."""

from __future__ import annotations

import random
import sys
import warnings
from bisect import bisect_left, bisect_right
from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
from scipy import stats

from benchmarks.measuring import is_quick, option, rounds, say
from fairtrial.analysis.auc_bootstrap import auc_bootstrap
from fairtrial.analysis.resampling import cluster_bootstrap, cluster_percentiles

RESAMPLES = option("resamples", 10_000)
UNITS = option("units", 100_000)
METRICS = 8
Metric: TypeAlias = Callable[[list[tuple[int, float]]], float]


@dataclass(frozen=True, slots=True)
class Unit:
    """One unit as a plain program keeps it."""

    label: int
    control: float
    treatment: float


def columns(units: int, clusters: int) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """Returns cluster codes, labels and both arms' scores."""
    source = np.random.Generator(np.random.Philox(7))
    codes, labels = source.integers(0, clusters, units), source.integers(0, 2, units)
    control = source.normal(size=units) + labels
    return codes, labels, control, control + source.normal(size=units)


def plain_loop(members: list[list[Unit]], metric: Metric, resamples: int) -> float:
    """Draws clusters, lists their units and computes both arms' metric, in plain Python."""
    chooser, found = random.Random(1), []
    for _ in range(resamples):
        drawn = [unit for _ in members for unit in chooser.choice(members)]
        control = metric([(unit.label, unit.control) for unit in drawn])
        treatment = metric([(unit.label, unit.treatment) for unit in drawn])
        found.append(treatment - control)
    return sorted(found)[resamples // 40]


def plain_mean(rows: list[tuple[int, float]]) -> float:
    """Returns the mean of scores."""
    return sum(score for _, score in rows) / len(rows)


def plain_auc(rows: list[tuple[int, float]]) -> float:
    """Returns the area by a search of each positive among sorted negatives."""
    low = sorted(score for label, score in rows if label == 0)
    high = [score for label, score in rows if label == 1]
    won = sum((bisect_left(low, score) + bisect_right(low, score)) / 2.0 for score in high)
    return won / (len(high) * len(low))


def scipy_sums(sums: np.ndarray, sizes: np.ndarray) -> object:
    """Resamples cluster sums and sizes with scipy, vectorised."""

    def mean(one: np.ndarray, other: np.ndarray, axis: int = -1) -> np.ndarray:
        return np.asarray(one.sum(axis) / other.sum(axis))

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return stats.bootstrap(
            (sums, sizes), mean, paired=True, vectorized=True, n_resamples=RESAMPLES,
            method="percentile", rng=np.random.Generator(np.random.Philox(1)),
        )  # fmt: skip


def benchmark(units: int, clusters: int, loop: int, *, count: int) -> None:
    """Prints the ratios at one size; the plain loop takes `loop` resamples and is scaled up."""
    codes, labels, control, treatment = columns(units, clusters)
    members: list[list[Unit]] = [[] for _ in range(clusters)]
    for code, *unit in zip(*(c.tolist() for c in (codes, labels, control, treatment)), strict=True):
        members[code].append(Unit(*unit))
    sums, sizes = np.bincount(codes, treatment - control), np.bincount(codes).astype(float)
    many_sums = np.stack([np.roll(sums, shift) for shift in range(METRICS)])
    many_sizes = np.stack([np.roll(sizes, shift) for shift in range(METRICS)])
    one, whole, many, peer, slow, area, slow_area = rounds(
        lambda: cluster_percentiles(sums[None], sizes[None], seed=1, resamples=RESAMPLES),
        lambda: cluster_bootstrap(sums, sizes, seed=1, resamples=RESAMPLES),
        lambda: cluster_percentiles(many_sums, many_sizes, seed=1, resamples=RESAMPLES),
        lambda: scipy_sums(sums, sizes),
        lambda: plain_loop(members, plain_mean, loop),
        lambda: auc_bootstrap(control, treatment, labels, codes, seed=1, resamples=RESAMPLES),
        lambda: plain_loop(members, plain_auc, loop),
        count=count,
    )
    is_small, scale = units < 10_000, RESAMPLES / loop
    sys.stdout.write(f"{units:,} units in {clusters:,} clusters, {RESAMPLES:,} resamples\n")
    say("S1 percentile limits, plain loop", one, slow * scale, goal="100" if is_small else "3,000")
    say("S1 percentile limits, scipy", one, peer, goal="1")
    say("S1 with studentised and BCa limits, scipy's percentile", whole, peer, goal="1")
    say(f"S2 {METRICS} metrics from one set of draws, cost of one", one, many, goal="at most 2.5")
    goal = "300" if is_small else "800"
    say(
        "S3 AUC of both arms, three kinds of limits, plain loop", area, slow_area * scale, goal=goal
    )


def main() -> None:
    """Prints the ratios."""
    count = option("rounds", 3 if is_quick() else 5)
    benchmark(min(500, UNITS), 12, min(200, RESAMPLES), count=count)
    benchmark(UNITS, UNITS // 100, 2, count=count)


if __name__ == "__main__":
    main()
