"""How often a saving is shown on the raw scale where exactly the least one is true.

    python -P benchmarks/saving_errors.py [plans] [runs of each] [--warned]

At a true saving of 20 %, the share of runs that claim one of at least 20 %, where 2.5 % are meant:
by the contrast that decides and, in brackets, by the older rule, which held the difference against
20 % of control's own mean as if that were known. Leaves looks, guards and lost outcomes aside.

With `--warned`: in how many runs the growth with costs (`analysis/skewness.py`) is high, and
how often a saving is shown among those runs and among the others.

Rules:
- A plan draws the sizes of its clusters (lognormal, mean 15, coefficient of variation 0.8, or 60
  single units); rates are means over plans.
- A cluster has a factor of its own, with a coefficient of variation of 0.2, in every value.
- Runs are decided together; the tests hold them to `deciding_interval` and `cost_growth`.
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
from fairtrial.analysis.skewness import SIGMA_MAX, Z_OCTILE
from fairtrial.verdicts.saving_skew import POSITIVE_GROWTH

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


def treatment_alone(level: float) -> Costs:
    """Returns costs that only the treatment makes skewed."""

    def draw(rng: np.random.Generator, factor: FloatArray) -> tuple[FloatArray, FloatArray]:
        control = factor * lognormal(rng, 0.5, factor.shape)
        return control, (1.0 - SAVING) * factor * lognormal(rng, level, factor.shape)

    return draw


def normal(noise: float) -> Costs:
    """Returns costs that nothing skews."""

    def draw(rng: np.random.Generator, factor: FloatArray) -> tuple[FloatArray, FloatArray]:
        one, other = (1.0 + noise * rng.standard_normal(factor.shape) for _ in range(2))
        return factor * one, (1.0 - SAVING) * factor * other

    return draw


WARNED_ROWS: Mapping[str, Costs] = {
    **ROWS,
    "steady difference but for noise of 0.3, level varies by 2": steady(2.0, 0.3),
    "treatment alone varies by 2, control by 0.5": treatment_alone(2.0),
    "arms apart, level varies by 2": apart(2.0),
    "arms apart, normal": normal(0.3),
}
WARNED_DESIGNS: Mapping[str, tuple[int, bool]] = {**DESIGNS, "400 single units": (400, True)}


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


def planned(design: str, plans: int) -> Iterator[tuple[np.random.Generator, FloatArray, float]]:
    """Yields the generator, the sizes and the degrees of freedom of each plan."""
    clusters, single = WARNED_DESIGNS[design]
    for number in range(plans):
        rng = np.random.default_rng([SEED, clusters, int(single), number])
        sizes = sizes_of(rng, clusters, single=single)
        df = satterthwaite_df(sizes)
        assert isinstance(df, float)
        yield rng, sizes, df


def rate(costs: Costs, design: str, *, plans: int, runs: int) -> Rate:
    """Returns how often the least saving is shown."""
    shown: list[float] = []
    older: list[float] = []
    for rng, sizes, df in planned(design, plans):
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


def growths(contrast: FloatArray, control: FloatArray, treatment: FloatArray) -> FloatArray:
    """Returns the growth of each run, shape (runs,), as `cost_growth` has it without ties."""
    own = _ranks(contrast)
    parts = [_correlations(own, _ranks(arm)) * _spreads(arm) for arm in (control, treatment)]
    return np.asarray(sum(parts) / 2.0)


def _ranks(values: FloatArray) -> FloatArray:
    ranks = np.argsort(np.argsort(values, axis=1), axis=1).astype(np.float64)
    return np.asarray(ranks - ranks.mean(axis=1, keepdims=True))


def _correlations(one: FloatArray, other: FloatArray) -> FloatArray:
    spread = (one * one).sum(axis=1) * (other * other).sum(axis=1)
    return np.asarray((one * other).sum(axis=1) / np.sqrt(spread))


def _spreads(costs: FloatArray) -> FloatArray:
    ordered, n = np.sort(costs, axis=1), costs.shape[1]
    middle = (ordered[:, (n - 1) // 2] + ordered[:, n // 2]) / 2.0
    below, above = middle - ordered[:, n // 8], ordered[:, n - 1 - n // 8] - middle
    sigma = np.clip(np.log(above / below) / Z_OCTILE, 0.0, SIGMA_MAX)
    return np.asarray(np.sqrt(np.expm1(sigma**2)))


def warned(
    costs: Costs, design: str, *, plans: int, runs: int
) -> tuple[float, float, float, float]:
    """Returns percent of runs that show a saving, that are warned, and that show one of either."""
    shown: list[FloatArray] = []
    scores: list[FloatArray] = []
    for rng, sizes, df in planned(design, plans):
        if df < MIN_DF:
            continue
        control, treatment = drawn(rng, costs, sizes, runs)
        contrast = treatment - (1.0 - SAVING) * control
        shown.append(upper_limits(contrast, sizes, df) < 0.0)
        scores.append(growths(contrast, control, treatment))
    claims, high = np.concatenate(shown), np.concatenate(scores) >= POSITIVE_GROWTH
    return _percent(claims), _percent(high), _percent(claims[high]), _percent(claims[~high])


def _percent(flags: FloatArray) -> float:
    """Returns the share of true flags in percent; NaN where there is none to share."""
    return 100.0 * float(np.mean(flags)) if flags.size else math.nan


def warned_table(plans: int, runs: int) -> Iterator[str]:
    """Yields a table: the share of runs that show a saving, that are warned, and both apart."""
    yield f"| costs, warned | {' | '.join(WARNED_DESIGNS)} |"
    yield "|---" * (len(WARNED_DESIGNS) + 1) + "|"
    for name, costs in WARNED_ROWS.items():
        cells: list[str] = []
        for design in WARNED_DESIGNS:
            error, share, high, low = warned(costs, design, plans=plans, runs=runs)
            apart_text = ", ".join("-" if math.isnan(one) else f"{one:.1f}" for one in (high, low))
            cells.append(f"{error:.1f}; {share:.0f} ({apart_text})")
        yield f"| {name} | {' | '.join(cells)} |"


def table(plans: int, runs: int) -> Iterator[str]:
    """Yields the lines of the table: the rule's rate, in brackets the older one's."""
    yield f"| costs | {' | '.join(DESIGNS)} |"
    yield "|---" * (len(DESIGNS) + 1) + "|"
    for name, costs in ROWS.items():
        cells = [rate(costs, design, plans=plans, runs=runs) for design in DESIGNS]
        text = " | ".join(f"{cell.percent:.1f} ({cell.older:.1f})" for cell in cells)
        yield f"| {name} | {text} |"


if __name__ == "__main__":
    given = [int(text) for text in sys.argv[1:] if text.isdigit()]
    made = warned_table if "--warned" in sys.argv[1:] else table
    for line in made(*(given if len(given) == 2 else (100, 200))):
        sys.stdout.write(line + "\n")
        sys.stdout.flush()
