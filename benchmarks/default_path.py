"""False verdicts of the default path between equal arms, and which part of the rule keeps them low.

    python -P benchmarks/default_path.py [plans] [runs of each]

Clusters have lognormal sizes (mean 15, cv 0.8); their discordance and win share are beta
distributed with intra-class correlations r and w, which gives differences with the icc
(0.2 + 0.8 r) w where the discordance is 0.2. Runs are decided together, from sums per cluster; the
tests hold them to `deciding_interval`, run by run.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cache
from typing import Final, TypeAlias

import numpy as np
import numpy.typing as npt
from scipy import special  # type: ignore[import-untyped]  # scipy ships no types

from fairtrial.analysis.grouping import FloatArray, IntArray
from fairtrial.analysis.sequential import information_fractions, spending_boundary
from fairtrial.analysis.verdict import Guards

Flags: TypeAlias = npt.NDArray[np.bool_]

SEED: Final = 20261129
PLANS: Final = 60
RUNS: Final = 400
# For type-I error: the rate differs between plans, so many plans with few runs each.
MANY_PLANS: Final = 400
FEW_RUNS: Final = 60
GUARDS: Final = Guards()
LOOKS: Final = (1, 2, 3, 5)


@dataclass(frozen=True, kw_only=True)
class Correlated:
    """Intra-class correlations of discordance and win share over clusters."""

    discordance: float
    win: float


# Differences have the icc 0.058 and 0.009; MIXED has 0.009 as well, from both parts alike.
STRONG = Correlated(discordance=1.0 / 9.0, win=0.2)
WEAK = Correlated(discordance=0.005, win=0.044)
MIXED = Correlated(discordance=0.04, win=0.04)


@dataclass(frozen=True, kw_only=True)
class Runs:
    """Outcomes of many runs of one plan: counts per run and cluster."""

    sizes: IntArray
    wins: IntArray
    losses: IntArray


@dataclass(frozen=True, kw_only=True)
class Statistics:
    """What one look sees in each run, shape (runs,)."""

    estimate: FloatArray
    error: FloatArray
    naive: FloatArray
    df: float
    n: float
    clusters: int
    wins: FloatArray
    losses: FloatArray
    discordant_clusters: IntArray

    @property
    def deff(self) -> FloatArray:
        """Design effect, cut at 1."""
        return np.maximum(1.0, self.error**2 / np.maximum(self.naive, 1e-300))


def simulate(
    clusters: int,
    correlated: Correlated,
    seed: int,
    *,
    effect: float = 0.0,
    discordance: float = 0.2,
    runs: int = RUNS,
) -> Runs:
    """Draws one plan's sizes and `runs` runs of it."""
    rng = np.random.default_rng([SEED, seed, clusters])
    sigma = math.sqrt(math.log(1.0 + 0.8**2))
    sizes = np.maximum(1, np.rint(rng.lognormal(math.log(15.0) - sigma**2 / 2, sigma, clusters)))
    sizes = sizes.astype(np.int64)
    shape = (runs, clusters)
    weight = 1.0 / correlated.discordance - 1.0
    share = rng.beta(weight * discordance, weight * (1.0 - discordance), shape)
    weight = 1.0 / correlated.win - 1.0
    centre = 0.5 * (1.0 + effect / discordance)
    win = rng.beta(weight * centre, weight * (1.0 - centre), shape)
    differing = rng.binomial(np.broadcast_to(sizes, shape), share)
    wins = rng.binomial(differing, win)
    return Runs(sizes=sizes, wins=wins, losses=differing - wins)


def statistics(runs: Runs, cut: int) -> Statistics:
    """Returns what a look at the first clusters sees in each run."""
    sizes = runs.sizes[:cut].astype(np.float64)
    wins, losses = runs.wins[:, :cut], runs.losses[:, :cut]
    n, h = sizes.sum(), 1.0 - sizes / sizes.sum()
    sums = (wins - losses).astype(np.float64)
    mean = sums.sum(axis=1) / n
    residuals = sums - mean[:, None] * sizes
    total = (wins + losses).sum(axis=1)
    a = sizes / h
    first, second = (sizes * a).sum(), (sizes * a * a).sum()
    return Statistics(
        estimate=mean,
        error=np.sqrt((residuals**2 / h).sum(axis=1)) / n,
        naive=(total / n - mean**2) / n,
        df=float(n * n / (first - second / n + first**2 / n**2)),
        n=float(n),
        clusters=cut,
        wins=wins.sum(axis=1).astype(np.float64),
        losses=losses.sum(axis=1).astype(np.float64),
        discordant_clusters=np.count_nonzero(wins + losses, axis=1),
    )


def tango_z(look: Statistics, null: float) -> FloatArray:
    """Returns the cluster-adjusted score statistic, made for null >= 0 and mirrored below."""
    if null < 0.0:
        return -tango_z(mirror(look), -null)
    n, x, y = look.n / look.deff, look.wins / look.deff, look.losses / look.deff
    b = (2.0 * n - x + y) * null - y - x
    share = (np.sqrt(b * b + 8.0 * n * y * null * (1.0 - null)) - b) / (4.0 * n)
    variance = n * (2.0 * share + null * (1.0 - null))
    return (x - y - n * null) / np.sqrt(np.maximum(variance, 1e-300))


def tail(t: FloatArray, df: float) -> FloatArray:
    """Returns the upper tail of t."""
    return np.asarray(special.stdtr(df, -t), dtype=np.float64)


def beyond(
    look: Statistics, null: float, nominal: float | FloatArray, *, tango: bool = True
) -> Flags:
    """Runs whose whole hull lies above `null` at a two-sided nominal p.

    Args:
        look: what it sees.
        null: the difference.
        nominal: two-sided p.
        tango: whether the cluster-adjusted Tango interval has to agree, as the rule wants.
    """
    with np.errstate(divide="ignore", invalid="ignore"):
        t = (look.estimate - null) / look.error
    worst = tail(t, look.df)
    if tango:
        worst = np.maximum(worst, tail(tango_z(look, null), look.df))
    return np.asarray(worst < np.asarray(nominal) / 2.0)


def mirror(look: Statistics) -> Statistics:
    """Returns the same look with the arms exchanged."""
    return Statistics(
        estimate=-look.estimate,
        error=look.error,
        naive=look.naive,
        df=look.df,
        n=look.n,
        clusters=look.clusters,
        wins=look.losses,
        losses=look.wins,
        discordant_clusters=look.discordant_clusters,
    )


def enough(
    look: Statistics, nominal: float | FloatArray, *, discordant: int | None = None
) -> Flags:
    """Runs in which the look is eligible; `discordant` stands for the guard of that number."""
    reachable = 2.0 ** (1 - look.clusters)
    least = GUARDS.min_discordant_clusters if discordant is None else discordant
    return np.asarray(
        (look.clusters >= GUARDS.min_clusters)
        & (look.df >= GUARDS.min_df)
        & (look.discordant_clusters >= least)
        & (look.error > 1e-12)
        & (reachable <= np.asarray(nominal))
    )


@cache
def nominal_of(information: tuple[float, ...]) -> float:
    """Returns the nominal p of the last of some looks."""
    return spending_boundary(information, alpha=0.05).nominal_p[-1]


@dataclass(frozen=True, kw_only=True)
class Rule:
    """What has to hold for a verdict.

    Attributes:
        tango: the cluster-adjusted Tango interval has to agree with CR2-t.
        discordant: least clusters in which the arms differ; None: the default.
    """

    tango: bool = True
    discordant: int | None = None


DEFAULT: Final = Rule()


def crossings(runs: Runs, looks: int, icc: float, rule: Rule = DEFAULT) -> tuple[Flags, Flags]:
    """Returns which runs conclude in favour, and which against, at any eligible look."""
    count = runs.sizes.size
    cuts = [math.ceil(count * (k + 1) / looks) for k in range(looks)]
    fractions = information_fractions(runs.sizes, cuts, icc=icc, estimand="unit_weighted")
    size = len(runs.wins)
    taken: list[tuple[float, ...]] = [()] * size
    done, favour, against = (np.zeros(size, dtype=bool) for _ in range(3))
    for cut, t in zip(cuts, fractions, strict=True):
        look = statistics(runs, cut)
        nominal = np.array([nominal_of((*before, t)) for before in taken])
        eligible = enough(look, nominal, discordant=rule.discordant)
        open_now = eligible & ~done
        up = open_now & beyond(look, 0.0, nominal, tango=rule.tango)
        down = open_now & beyond(mirror(look), 0.0, nominal, tango=rule.tango)
        favour, against, done = favour | up, against | down, done | up | down
        taken = [(*b, t) if e else b for b, e in zip(taken, eligible.tolist(), strict=True)]
    return favour, against


def rate(
    clusters: int,
    correlated: Correlated,
    looks: int,
    rule: Rule = DEFAULT,
    *,
    plans: int = MANY_PLANS,
    runs: int = FEW_RUNS,
) -> tuple[float, float]:
    """Returns the share of false verdicts and its standard error, in percent."""
    found = []
    for plan in range(plans):
        drawn = simulate(clusters, correlated, plan, runs=runs)
        favour, against = crossings(drawn, looks, icc=0.05, rule=rule)
        found.append(100.0 * float(np.mean(favour | against)))
    return float(np.mean(found)), float(np.std(found)) / math.sqrt(plans)


ROWS: Final = {
    "12, 0.058": (12, STRONG),
    "12, 0.009": (12, WEAK),
    "12, 0.009, varying discordance": (12, MIXED),
    "30, 0.058": (30, STRONG),
    "30, 0.009": (30, WEAK),
}
RULES: Final = {
    "the rule": DEFAULT,
    "without the guard": Rule(discordant=0),
    "without Tango": Rule(tango=False),
    "without both": Rule(tango=False, discordant=0),
}

Cell: TypeAlias = Callable[[str, int, Rule], str]


def table(plans: int, runs: int) -> Iterator[str]:
    """Yields the rates of the rule, then of its parts at 12 clusters."""

    def cell(row: str, looks: int, rule: Rule) -> str:
        found, error = rate(*ROWS[row], looks, rule, plans=plans, runs=runs)
        return f"{found:.1f} ({error:.2f})"

    yield from _by_looks(cell)
    yield ""
    yield from _by_rule(cell)


def _by_looks(cell: Cell) -> Iterator[str]:
    yield "| clusters, icc | 1 look | 2 | 3 | 5 |"
    yield "|---|---|---|---|---|"
    for row in ROWS:
        yield f"| {row} | " + " | ".join(cell(row, looks, DEFAULT) for looks in LOOKS) + " |"


def _by_rule(cell: Cell) -> Iterator[str]:
    yield "| clusters, icc, looks | " + " | ".join(RULES) + " |"
    yield "|---|" + "---|" * len(RULES)
    for row in list(ROWS)[:3]:
        for looks in (1, 5):
            cells = " | ".join(cell(row, looks, rule) for rule in RULES.values())
            yield f"| {row}, {looks} | {cells} |"


if __name__ == "__main__":
    given = [int(text) for text in sys.argv[1:]]
    for line in table(*(given if len(given) == 2 else (MANY_PLANS, FEW_RUNS))):
        sys.stdout.write(line + "\n")
        sys.stdout.flush()
