"""How often a saving is shown on the raw scale where exactly the least one is true.

    python -P benchmarks/saving_errors.py [plans] [runs of each]

At a true saving of 20 %, the share of runs that claim one of at least 20 %, where 2.5 % are meant:
by the contrast that decides and, in brackets, by the older rule, which held the difference against
20 % of control's own mean as if that were known. Leaves looks, guards and lost outcomes aside.

Rules:
- A plan draws the sizes of its clusters (lognormal, mean 15, coefficient of variation 0.8, or 60
  single units); rates are means over plans.
- A cluster has a factor of its own, with a coefficient of variation of 0.2, in every value.
- Runs are decided together; the tests hold them to `deciding_interval`.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
from scipy import special  # type: ignore[import-untyped]  # scipy ships no types

from fairtrial.analysis.grouping import FloatArray
from fairtrial.analysis.paired import satterthwaite_df

SEED = 20261130
SAVING = 0.2
# Columns of the table: how many clusters, and whether they are single units.
DESIGNS: Mapping[str, tuple[int, bool]] = {
    "60 single units": (60, True),
    "12 clusters": (12, False),
    "30 clusters": (30, False),
    "60 clusters": (60, False),
}
MIN_DF = 4.0

# Of a generator and each run's and unit's factor: costs of control and of treatment.
Costs: TypeAlias = Callable[[np.random.Generator, FloatArray], tuple[FloatArray, FloatArray]]


def lognormal(rng: np.random.Generator, variation: float, shape: tuple[int, ...]) -> FloatArray:
    """Draws numbers with mean 1 and a coefficient of variation."""
    sigma = math.sqrt(math.log(1.0 + variation**2))
    return np.asarray(rng.lognormal(-(sigma**2) / 2.0, sigma, shape))


def steady(level: float, noise: float = 0.1) -> Costs:
    """Returns costs whose difference is the same whatever a unit costs, up to noise."""

    def draw(rng: np.random.Generator, factor: FloatArray) -> tuple[FloatArray, FloatArray]:
        control = 0.3 + 0.7 * factor * lognormal(rng, level, factor.shape)
        return control, control - SAVING + noise * rng.standard_normal(factor.shape)

    return draw


def in_proportion(level: float, noise: float = 0.3) -> Costs:
    """Returns costs of which each unit saves its share, up to noise."""

    def draw(rng: np.random.Generator, factor: FloatArray) -> tuple[FloatArray, FloatArray]:
        control = factor * lognormal(rng, level, factor.shape)
        return control, (1.0 - SAVING) * control * lognormal(rng, noise, factor.shape)

    return draw


def apart(level: float) -> Costs:
    """Returns costs that have nothing in common but the cluster."""

    def draw(rng: np.random.Generator, factor: FloatArray) -> tuple[FloatArray, FloatArray]:
        control = factor * lognormal(rng, level, factor.shape)
        return control, (1.0 - SAVING) * factor * lognormal(rng, level, factor.shape)

    return draw


ROWS: Mapping[str, Costs] = {
    "steady difference, level varies by 0.5": steady(0.5),
    "steady difference, level varies by 1": steady(1.0),
    "steady difference, level varies by 2": steady(2.0),
    "in proportion, level varies by 0.5": in_proportion(0.5),
    "in proportion, level varies by 1": in_proportion(1.0),
    "in proportion, level varies by 2": in_proportion(2.0),
    "arms apart, level varies by 0.5": apart(0.5),
    "arms apart, level varies by 1": apart(1.0),
}


def sizes_of(rng: np.random.Generator, clusters: int, *, single: bool) -> FloatArray:
    """Draws the sizes of a plan's clusters."""
    if single:
        return np.ones(clusters)
    return np.maximum(1.0, np.rint(15.0 * lognormal(rng, 0.8, (clusters,))))


def drawn(
    rng: np.random.Generator, costs: Costs, sizes: FloatArray, runs: int
) -> tuple[FloatArray, FloatArray]:
    """Returns costs of control and treatment, a row a run and a column a unit."""
    factor = lognormal(rng, 0.2, (runs, sizes.size))
    return costs(rng, np.repeat(factor, sizes.astype(np.int64), axis=1))


def upper_limits(values: FloatArray, sizes: FloatArray, df: float) -> FloatArray:
    """Returns the upper limit of each run's mean by CR2-t, shape (runs,)."""
    n = sizes.sum()
    starts = np.concatenate(([0], np.cumsum(sizes)[:-1])).astype(np.int64)
    sums = np.add.reduceat(values, starts, axis=1)
    means = sums.sum(axis=1) / n
    residuals = sums - means[:, None] * sizes
    variances = (residuals**2 / (1.0 - sizes / n)).sum(axis=1) / n**2
    return np.asarray(means + float(special.stdtrit(df, 0.975)) * np.sqrt(variances))


@dataclass(frozen=True, kw_only=True)
class Rate:
    """Percent of runs that show a saving, its standard error over plans, and the older rule's."""

    percent: float
    error: float
    older: float


def rate(costs: Costs, design: str, *, plans: int, runs: int) -> Rate:
    """Returns how often the least saving is shown."""
    clusters, single = DESIGNS[design]
    shown: list[float] = []
    older: list[float] = []
    for number in range(plans):
        rng = np.random.default_rng([SEED, clusters, int(single), number])
        sizes = sizes_of(rng, clusters, single=single)
        df = satterthwaite_df(sizes)
        assert isinstance(df, float)
        if df < MIN_DF:
            shown.append(0.0)
            older.append(0.0)
            continue
        control, treatment = drawn(rng, costs, sizes, runs)
        contrast = upper_limits(treatment - (1.0 - SAVING) * control, sizes, df)
        difference = upper_limits(treatment - control, sizes, df)
        shown.append(100.0 * float(np.mean(contrast < 0.0)))
        older.append(100.0 * float(np.mean(difference < -SAVING * control.mean(axis=1))))
    return Rate(
        percent=float(np.mean(shown)),
        error=float(np.std(shown)) / math.sqrt(plans),
        older=float(np.mean(older)),
    )


def table(plans: int, runs: int) -> Iterator[str]:
    """Yields the lines of the table: the rule's rate, in brackets the older one's."""
    yield f"| costs | {' | '.join(DESIGNS)} |"
    yield "|---" * (len(DESIGNS) + 1) + "|"
    for name, costs in ROWS.items():
        cells = [rate(costs, design, plans=plans, runs=runs) for design in DESIGNS]
        text = " | ".join(f"{cell.percent:.1f} ({cell.older:.1f})" for cell in cells)
        yield f"| {name} | {text} |"


if __name__ == "__main__":
    given = [int(text) for text in sys.argv[1:]]
    for line in table(*(given if len(given) == 2 else (100, 200))):
        sys.stdout.write(line + "\n")
        sys.stdout.flush()
