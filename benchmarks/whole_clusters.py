"""False verdicts between arms of whole clusters whose sizes differ, each unit counted once.

    python -P benchmarks/whole_clusters.py [plans] [runs of each]

The level of `cr2_t_whole_clusters` and, beside it, of the same standard error with the degrees of
freedom of a model without correlation. Leaves the whole path, with looks, to `assigned_errors.py`.

Rules:
- A plan draws the sizes of its clusters and who is in which arm; rates are means over plans.
- A run of a plan whose degrees of freedom are below 4 gives no verdict: the guard.
- Runs are decided together, from sums per cluster; the tests hold them to `deciding_assigned`.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
from scipy import special  # type: ignore[import-untyped]  # scipy ships no types

from fairtrial.analysis.assigned import ArmCounts
from fairtrial.analysis.assigned_deciding import WORKING_CORRELATION, whole_clusters_df
from fairtrial.analysis.grouping import FloatArray

SEED = 20261130
CLUSTERS = (12, 20, 30, 40)
MIN_DF = 4.0

Sizes: TypeAlias = Callable[[np.random.Generator, int], FloatArray]
Sums: TypeAlias = Callable[[np.random.Generator, FloatArray, int], FloatArray]


@dataclass(frozen=True, kw_only=True, eq=False)
class Plan:
    """Clusters of both arms, control's first.

    Attributes:
        sizes: units of each cluster.
        treated: clusters in the treatment arm.
    """

    sizes: FloatArray
    treated: int

    @property
    def arms(self) -> tuple[slice, slice]:
        """Where control's clusters stand, and treatment's."""
        cut = len(self.sizes) - self.treated
        return slice(0, cut), slice(cut, len(self.sizes))

    @property
    def counts(self) -> ArmCounts:
        """Units of each cluster by arm."""
        control, treatment = np.zeros((2, len(self.sizes)))
        control[self.arms[0]], treatment[self.arms[1]] = (self.sizes[arm] for arm in self.arms)
        return ArmCounts(control=control, treatment=treatment)

    def df(self, correlation: float) -> float:
        """Returns the degrees of freedom; 0 where an arm is one cluster."""
        sides = [self.sizes[arm] for arm in self.arms]
        if any(side.max() == side.sum() for side in sides):
            return 0.0
        return whole_clusters_df(self.counts, correlation=correlation)


def lognormal(mean: float, variation: float) -> Sizes:
    """Returns sizes of a mean and a coefficient of variation."""
    sigma = math.sqrt(math.log(1.0 + variation**2))

    def draw(rng: np.random.Generator, clusters: int) -> FloatArray:
        drawn = rng.lognormal(math.log(mean) - sigma**2 / 2.0, sigma, clusters)
        return np.maximum(1.0, np.rint(drawn))

    return draw


def giants(clusters_large: int, times: float) -> Sizes:
    """Returns clusters of 10 units, a few of which are larger."""

    def draw(rng: np.random.Generator, clusters: int) -> FloatArray:
        sizes = np.full(clusters, 10.0)
        sizes[:clusters_large] = 10.0 * times
        return rng.permutation(sizes)

    return draw


def yes_or_no(rate: float, icc: float) -> Sums:
    """Returns sums of clusters of yes or no, beta-binomial."""

    def draw(rng: np.random.Generator, sizes: FloatArray, runs: int) -> FloatArray:
        shape = (runs, len(sizes))
        share = np.full(shape, rate)
        if icc > 0.0:
            weight = 1.0 / icc - 1.0
            share = rng.beta(weight * rate, weight * (1.0 - rate), shape)
        return rng.binomial(np.broadcast_to(sizes.astype(np.int64), shape), share).astype(float)

    return draw


def normal(icc: float) -> Sums:
    """Returns sums of clusters of normal values with variance 1."""

    def draw(rng: np.random.Generator, sizes: FloatArray, runs: int) -> FloatArray:
        own, shared = rng.standard_normal((2, runs, len(sizes)))
        within = np.sqrt(sizes * (1.0 - icc)) * own
        return np.asarray(within + sizes * math.sqrt(icc) * shared)

    return draw


@dataclass(frozen=True, kw_only=True)
class Data:
    """What is drawn in one row of the table."""

    sizes: Sizes
    sums: Sums
    ratio: float = 0.5


COMMON = lognormal(15.0, 0.8)
ROWS: Mapping[str, Data] = {
    "rate 0.4, icc 0": Data(sizes=COMMON, sums=yes_or_no(0.4, 0.0)),
    "rate 0.4, icc 0.05": Data(sizes=COMMON, sums=yes_or_no(0.4, 0.05)),
    "rate 0.4, icc 0.2": Data(sizes=COMMON, sums=yes_or_no(0.4, 0.2)),
    "rate 0.1, icc 0.05": Data(sizes=COMMON, sums=yes_or_no(0.1, 0.05)),
    "normal, icc 0.3": Data(sizes=COMMON, sums=normal(0.3)),
    "equal sizes, rate 0.4, icc 0.05": Data(sizes=lognormal(15.0, 1e-3), sums=yes_or_no(0.4, 0.05)),
    "mean 4, rate 0.4, icc 0.3": Data(sizes=lognormal(4.0, 0.8), sums=yes_or_no(0.4, 0.3)),
    "mean 60, variation 1.2, rate 0.4, icc 0.3": Data(
        sizes=lognormal(60.0, 1.2), sums=yes_or_no(0.4, 0.3)
    ),
    "two of 40 among 10, rate 0.4, icc 0.3": Data(sizes=giants(2, 4.0), sums=yes_or_no(0.4, 0.3)),
    "one of 4 in the treatment, rate 0.4, icc 0.05": Data(
        sizes=COMMON, sums=yes_or_no(0.4, 0.05), ratio=0.25
    ),
}


def planned(rng: np.random.Generator, data: Data, clusters: int) -> Plan:
    """Draws the sizes of a plan."""
    return Plan(sizes=data.sizes(rng, clusters), treated=round(clusters * data.ratio))


def t_values(plan: Plan, sums: FloatArray) -> FloatArray:
    """Returns the difference over its CR2 standard error in each run; 0 where nothing varies.

    Args:
        plan: the clusters, of which no arm has only one.
        sums: of each run and cluster.
    """
    means, variances = [], []
    for arm in plan.arms:
        sizes, own = plan.sizes[arm], sums[:, arm]
        n = sizes.sum()
        mean = own.sum(axis=1) / n
        residuals = own - mean[:, None] * sizes
        means.append(mean)
        variances.append((residuals**2 / (1.0 - sizes / n)).sum(axis=1) / n**2)
    variance = variances[0] + variances[1]
    flat = variance < 1e-14
    return np.where(flat, 0.0, (means[1] - means[0]) / np.sqrt(np.where(flat, 1.0, variance)))


@dataclass(frozen=True, kw_only=True)
class Rate:
    """Percent of false verdicts, its standard error over plans, and the older df's percent."""

    percent: float
    error: float
    uncorrelated: float


def rate(data: Data, clusters: int, *, plans: int, runs: int, level: float = 0.05) -> Rate:
    """Returns the rate of false verdicts at one look."""
    found: dict[float, list[float]] = {0.0: [], WORKING_CORRELATION: []}
    for number in range(plans):
        rng = np.random.default_rng([SEED, clusters, number])
        plan = planned(rng, data, clusters)
        sums = data.sums(rng, plan.sizes, runs)
        for correlation, rates in found.items():
            df = plan.df(correlation)
            if df < MIN_DF:
                rates.append(0.0)
                continue
            critical = float(special.stdtrit(df, 1.0 - level / 2.0))
            rates.append(100.0 * float(np.mean(np.abs(t_values(plan, sums)) > critical)))
    rates = found[WORKING_CORRELATION]
    return Rate(
        percent=float(np.mean(rates)),
        error=float(np.std(rates)) / math.sqrt(plans),
        uncorrelated=float(np.mean(found[0.0])),
    )


def table(plans: int, runs: int) -> Iterator[str]:
    """Yields the lines of the table: the method's rate, in brackets the older one's."""
    yield "| sizes and data | " + " | ".join(str(count) for count in CLUSTERS) + " |"
    yield "|---|" + "---|" * len(CLUSTERS)
    for name, data in ROWS.items():
        cells = [rate(data, count, plans=plans, runs=runs) for count in CLUSTERS]
        text = " | ".join(f"{cell.percent:.1f} ({cell.uncorrelated:.1f})" for cell in cells)
        yield f"| {name} | {text} |"


if __name__ == "__main__":
    given = [int(text) for text in sys.argv[1:]]
    for line in table(*(given if len(given) == 2 else (400, 200))):
        sys.stdout.write(line + "\n")
        sys.stdout.flush()
