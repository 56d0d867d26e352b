"""Error rates of the default path, by seeded simulation of clustered paired outcomes.

Clusters have lognormal sizes (mean 15, cv 0.8); their discordance and win share are beta
distributed with intra-class correlations r and w, which gives differences with the icc
(0.2 + 0.8 r) w where the discordance is 0.2. How an icc is divided between the two matters at 12
clusters: the more the discordance varies, the more often the guard of 8 discordant clusters holds.
The decision is computed for many runs at once from sums per cluster; a sample of the runs is
decided again by `deciding_interval`, which must agree.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache

import numpy as np
import numpy.typing as npt
import pytest
from scipy import special  # type: ignore[import-untyped]  # scipy ships no types

from fairtrial.analysis.deciding import deciding_interval
from fairtrial.analysis.grouping import FloatArray, IntArray
from fairtrial.analysis.sequential import (
    exit_probability,
    information_fractions,
    spending_boundary,
)
from fairtrial.analysis.values import Undetermined
from fairtrial.analysis.verdict import Guards

Flags = npt.NDArray[np.bool_]

SEED = 20261129
PLANS = 60
RUNS = 400
# For type-I error: the rate differs between plans, so many plans with few runs each.
MANY_PLANS, FEW_RUNS = 400, 60
GUARDS = Guards()


@dataclass(frozen=True, kw_only=True)
class Correlated:
    """Intra-class correlations of discordance and win share over clusters."""

    discordance: float
    win: float


# Differences have the icc 0.058 and 0.009: with these the rates of both rows of the design
# document come out within their errors. MIXED has 0.009 as well, from both parts alike.
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


def _simulate(
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


def _statistics(runs: Runs, cut: int) -> Statistics:
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


def _tango_z(look: Statistics, null: float) -> FloatArray:
    """The cluster-adjusted score statistic, formulated for null >= 0 and mirrored below."""
    if null < 0.0:
        mirrored = Statistics(
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
        return -_tango_z(mirrored, -null)
    n, x, y = look.n / look.deff, look.wins / look.deff, look.losses / look.deff
    b = (2.0 * n - x + y) * null - y - x
    share = (np.sqrt(b * b + 8.0 * n * y * null * (1.0 - null)) - b) / (4.0 * n)
    variance = n * (2.0 * share + null * (1.0 - null))
    return (x - y - n * null) / np.sqrt(np.maximum(variance, 1e-300))


def _tail(t: FloatArray, df: float) -> FloatArray:
    return np.asarray(special.stdtr(df, -t), dtype=np.float64)


def _beyond(look: Statistics, null: float, nominal: float | FloatArray) -> Flags:
    """Runs whose whole hull lies above `null` at a two-sided nominal p."""
    with np.errstate(divide="ignore", invalid="ignore"):
        t = (look.estimate - null) / look.error
    worst = np.maximum(_tail(t, look.df), _tail(_tango_z(look, null), look.df))
    return np.asarray(worst < np.asarray(nominal) / 2.0)


def _mirror(look: Statistics) -> Statistics:
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


def _enough(look: Statistics, nominal: float | FloatArray) -> Flags:
    reachable = 2.0 ** (1 - look.clusters)
    return np.asarray(
        (look.clusters >= GUARDS.min_clusters)
        & (look.df >= GUARDS.min_df)
        & (look.discordant_clusters >= GUARDS.min_discordant_clusters)
        & (look.error > 1e-12)
        & (reachable <= np.asarray(nominal))
    )


@cache
def _nominal(information: tuple[float, ...]) -> float:
    return spending_boundary(information, alpha=0.05).nominal_p[-1]


def _crossings(runs: Runs, looks: int, icc: float) -> tuple[Flags, Flags]:
    """Returns which runs conclude in favour, and which against, at any eligible look."""
    count = runs.sizes.size
    cuts = [math.ceil(count * (k + 1) / looks) for k in range(looks)]
    fractions = information_fractions(runs.sizes, cuts, icc=icc, estimand="unit_weighted")
    size = len(runs.wins)
    taken: list[tuple[float, ...]] = [()] * size
    done, favour, against = (np.zeros(size, dtype=bool) for _ in range(3))
    for cut, t in zip(cuts, fractions, strict=True):
        look = _statistics(runs, cut)
        nominal = np.array([_nominal((*before, t)) for before in taken])
        eligible = _enough(look, nominal)
        open_now = eligible & ~done
        up = open_now & _beyond(look, 0.0, nominal)
        down = open_now & _beyond(_mirror(look), 0.0, nominal)
        favour, against, done = favour | up, against | down, done | up | down
        taken = [(*b, t) if e else b for b, e in zip(taken, eligible.tolist(), strict=True)]
    return favour, against


def _rate(clusters: int, correlated: Correlated, looks: int) -> tuple[float, float]:
    """Returns the share of false verdicts and its standard error, in percent."""
    found = []
    for plan in range(MANY_PLANS):
        runs = _simulate(clusters, correlated, plan, runs=FEW_RUNS)
        favour, against = _crossings(runs, looks, icc=0.05)
        found.append(100.0 * float(np.mean(favour | against)))
    return float(np.mean(found)), float(np.std(found)) / math.sqrt(MANY_PLANS)


@pytest.mark.slow
@pytest.mark.parametrize("looks", [1, 2, 3, 5])
@pytest.mark.parametrize(
    ("clusters", "correlated", "least"),
    [
        (12, STRONG, 1.5),
        (12, WEAK, 1.5),
        # Here the guard of 8 discordant clusters, not the interval, keeps the rate low.
        (12, MIXED, 1.2),
        (30, STRONG, 3.0),
        (30, WEAK, 3.0),
    ],
    ids=["12-strong", "12-weak", "12-mixed", "30-strong", "30-weak"],
)
def test_error_rates_type_one_is_kept(
    looks: int, clusters: int, correlated: Correlated, least: float
) -> None:
    """False verdicts stay at most 5.5 % at any number of looks, without a test that never errs.

    24,000 runs show a rate to about 0.2 points: the upper limit of its 95 % interval has to reach
    what is least, and its lower limit has to lie below 5.5 %.
    """
    rate, error = _rate(clusters, correlated, looks)
    assert rate <= 5.5, (rate, error)
    assert rate + 1.96 * error >= least, (rate, error)


def test_error_rates_naive_looks_would_inflate() -> None:
    """Five looks at 1.96 each would give 14.2 %; the planned boundary gives 5 % (FR-28)."""
    five = [0.2, 0.4, 0.6, 0.8, 1.0]
    boundary = spending_boundary(five, alpha=0.05)
    assert exit_probability([1.96] * 5, five).total == pytest.approx(0.142, abs=5e-4)
    assert exit_probability(boundary.critical_values, five).total == pytest.approx(0.05, abs=1e-9)


def _false_claims(clusters: int, discordance: float, margin: float, effect: float) -> list[Flags]:
    """Runs that claim equivalence, and runs that claim non-inferiority, at one look."""
    equivalent, fine = [], []
    for plan in range(PLANS):
        runs = _simulate(clusters, WEAK, plan, effect=effect, discordance=discordance)
        look = _statistics(runs, clusters)
        above = _enough(look, 0.05) & _beyond(look, -margin, 0.05)
        equivalent.append(above & _beyond(_mirror(look), -margin, 0.05))
        fine.append(above & ~_beyond(_mirror(look), 0.0, 0.05))
    return [np.concatenate(equivalent), np.concatenate(fine)]


@pytest.mark.slow
@pytest.mark.parametrize("clusters", [12, 30, 60])
@pytest.mark.parametrize("discordance", [0.06, 0.2])
def test_error_rates_false_equivalence_and_non_inferiority(
    clusters: int, discordance: float
) -> None:
    """With the true difference at the margin at most 5 % are called equivalent or non-inferior."""
    equivalent, fine = _false_claims(clusters, discordance, 0.05, -0.05)
    assert 100.0 * float(np.mean(equivalent)) <= 5.0
    assert 100.0 * float(np.mean(fine)) <= 5.0


@pytest.mark.slow
@pytest.mark.parametrize("clusters", [6, 12, 30])
@pytest.mark.parametrize("effect", [0.0, 0.08])
def test_error_rates_coverage_of_the_hull(clusters: int, effect: float) -> None:
    """The deciding interval holds the true difference in at least 93 % of the runs."""
    missed = []
    for plan in range(PLANS):
        look = _statistics(_simulate(clusters, STRONG, plan, effect=effect), clusters)
        missed.append(_beyond(look, effect, 0.05) | _beyond(_mirror(look), -effect, 0.05))
    assert 100.0 * (1.0 - float(np.mean(np.concatenate(missed)))) >= 93.0


@pytest.mark.slow
def test_error_rates_of_a_stop_at_will() -> None:
    """Who looks at every cluster and spends all alpha there errs too often: that never decides."""
    inflated = []
    for plan in range(PLANS):
        runs = _simulate(30, STRONG, plan)
        crossed = np.zeros(RUNS, dtype=bool)
        for cut in range(8, 31):
            look = _statistics(runs, cut)
            crossed |= _enough(look, 0.05) & (
                _beyond(look, 0.0, 0.05) | _beyond(_mirror(look), 0.0, 0.05)
            )
        inflated.append(float(np.mean(crossed)))
    assert 100.0 * float(np.mean(inflated)) > 10.0


def _units(runs: Runs, run: int, cut: int) -> tuple[FloatArray, IntArray]:
    values, codes = [], []
    for g in range(cut):
        wins, losses = int(runs.wins[run, g]), int(runs.losses[run, g])
        rest = int(runs.sizes[g]) - wins - losses
        values += [1.0] * wins + [-1.0] * losses + [0.0] * rest
        codes += [g] * int(runs.sizes[g])
    return np.array(values), np.array(codes)


def _agrees(runs: Runs, cut: int, nulls: Sequence[float], nominal: float) -> None:
    look = _statistics(runs, cut)
    for run in range(0, RUNS, 20):
        found = deciding_interval(
            *_units(runs, run, cut),
            family="binary",
            estimand="unit_weighted",
            nominal_p=nominal,
            singletons=False,
        )
        assert not isinstance(found, Undetermined)
        assert found.estimate == pytest.approx(look.estimate[run], abs=1e-12)
        assert found.standard_error == pytest.approx(look.error[run], abs=1e-12)
        assert found.df == pytest.approx(look.df, abs=1e-9)
        assert found.discordant_clusters == look.discordant_clusters[run]
        for null in nulls:
            assert (found.lower > null) == _beyond(look, null, nominal)[run]
            assert (found.upper < -null) == _beyond(_mirror(look), null, nominal)[run]


@pytest.mark.parametrize(("clusters", "cut"), [(12, 12), (30, 15)])
def test_error_rates_are_those_of_the_deciding_interval(clusters: int, cut: int) -> None:
    """The vectorised decision is the product's: same estimate, error, df, and side of each null."""
    runs = _simulate(clusters, STRONG, 0, effect=0.05)
    _agrees(runs, cut, [0.0, -0.05, 0.03], 0.02)
