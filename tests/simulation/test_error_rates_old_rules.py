"""Rules in wide use that err with few clusters, modelled in a few lines, beside the default path.

Each test simulates the same clustered outcomes for both: the old rule misses its nominal level
by far, ours keeps it. Clusters as in test_error_rates_default_path.py: sizes lognormal (mean 15,
cv 0.8), discordance and win share beta distributed with intra-class correlation 0.17.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pytest

from fairtrial.analysis.auc import ClusteredAuc, auc_clustered_difference
from fairtrial.analysis.auc_bootstrap import auc_bootstrap
from fairtrial.analysis.deciding import Deciding, deciding_interval
from fairtrial.analysis.grouping import FloatArray, IntArray
from fairtrial.analysis.labelled import deciding_precision
from fairtrial.analysis.mcnemar import mcnemar_exact
from fairtrial.analysis.resampling import Bootstrap, cluster_bootstrap
from fairtrial.analysis.sequential import (
    check_explicit_boundary,
    information_fractions,
    spending_boundary,
)
from fairtrial.analysis.values import Undetermined
from fairtrial.analysis.verdict import decide, guard_findings

RHO = 0.17
RUNS = 1_500
RESAMPLES = 400


@dataclass(frozen=True, kw_only=True)
class Run:
    """One run: units, wins and losses of each cluster."""

    sizes: IntArray
    wins: IntArray
    losses: IntArray

    @property
    def sums(self) -> IntArray:
        """Sum of the differences of each cluster."""
        return self.wins - self.losses

    def units(self, cut: int) -> tuple[FloatArray, IntArray]:
        """Returns difference and cluster of each unit of the first `cut` clusters."""
        counts = np.stack([self.wins, self.losses, self.sizes - self.wins - self.losses], axis=1)
        values = np.tile([1.0, -1.0, 0.0], cut)
        repeat = counts[:cut].ravel()
        return np.repeat(values, repeat), np.repeat(np.repeat(np.arange(cut), 3), repeat)


def _runs(
    clusters: int, *, effect: float = 0.0, discordance: float = 0.2, runs: int = RUNS
) -> Iterator[Run]:
    rng = np.random.default_rng([20261129, clusters, round(1000 * discordance)])
    sigma, weight = math.sqrt(math.log(1.64)), 1.0 / RHO - 1.0
    centre = 0.5 * (1.0 + effect / discordance)
    for _ in range(runs):
        drawn = rng.lognormal(math.log(15.0) - sigma**2 / 2.0, sigma, clusters)
        sizes = np.maximum(1, np.rint(drawn)).astype(np.int64)
        share = rng.beta(weight * discordance, weight * (1.0 - discordance), clusters)
        differing = rng.binomial(sizes, share)
        wins = rng.binomial(differing, rng.beta(weight * centre, weight * (1.0 - centre), clusters))
        yield Run(sizes=sizes, wins=wins, losses=differing - wins)


def _ours(run: Run, cut: int, nominal: float = 0.05) -> Deciding | None:
    """The deciding interval where the guards allow a verdict, else None."""
    found = deciding_interval(
        *run.units(cut),
        family="binary",
        estimand="unit_weighted",
        nominal_p=nominal,
        singletons=False,
    )
    if isinstance(found, Undetermined):
        return None
    held_back = guard_findings(
        clusters=found.clusters,
        df=found.df,
        discordant_clusters=found.discordant_clusters,
        zero_variance=found.degenerate,
        nominal_p=nominal,
    )
    return None if held_back else found


def _excludes(found: Deciding | None, null: float) -> bool:
    return found is not None and not found.lower <= null <= found.upper


def _bootstrap_error(run: Run, cut: int) -> float:
    """What the cluster bootstrap's standard error tends to: CR0."""
    sizes, sums = run.sizes[:cut], run.sums[:cut]
    residuals = sums - sizes * (sums.sum() / sizes.sum())
    return math.sqrt(float(np.sum(residuals**2))) / float(sizes.sum())


def _percentiles(run: Run, rng: np.random.Generator, level: float) -> npt.NDArray[np.float64]:
    picks = rng.integers(0, run.sizes.size, (RESAMPLES, run.sizes.size))
    ratios = run.sums[picks].sum(axis=1) / run.sizes[picks].sum(axis=1)
    return np.asarray(np.quantile(ratios, [(1.0 - level) / 2.0, (1.0 + level) / 2.0]))


def _percent(hits: list[bool]) -> float:
    return 100.0 * sum(hits) / len(hits)


@pytest.mark.slow
def test_error_rates_normal_boundaries_with_a_bootstrap_error_stop_falsely() -> None:
    """Difference over bootstrap error against z: 10 clusters, two looks, planned 5 %."""
    boundary = spending_boundary([0.5, 1.0], alpha=0.05)
    old, ours = [], []
    for run in _runs(10):
        crossed = [
            abs(run.sums[:cut].sum() / run.sizes[:cut].sum()) > z * _bootstrap_error(run, cut)
            for cut, z in zip((5, 10), boundary.critical_values, strict=True)
        ]
        old.append(any(crossed))
        looks = zip((5, 10), boundary.nominal_p, strict=True)
        ours.append(any(_excludes(_ours(run, cut, p), 0.0) for cut, p in looks))
    assert _percent(old) > 10.0
    assert _percent(ours) <= 5.5


@pytest.mark.slow
def test_error_rates_zero_variance_counts_as_crossing() -> None:
    """Two clusters that agree at the first look end the old experiment, ours never."""
    old, ours = [], []
    for run in _runs(4, discordance=0.05):
        gap, error = int(run.sums[:2].sum()), _bootstrap_error(run, 2)
        old.append(error == 0.0 and gap != 0)
        ours.append(_ours(run, 2, 0.003) is not None)
    assert any(old)
    assert not any(ours)


@pytest.mark.slow
@pytest.mark.parametrize("clusters", [6, 12])
def test_error_rates_percentile_bootstrap_is_too_narrow(clusters: int) -> None:
    """The 95 % percentile interval misses the truth far more often than 1 in 20."""
    rng, old, ours = np.random.default_rng(1), [], []
    for run in _runs(clusters, effect=0.08):
        low, high = _percentiles(run, rng, 0.95)
        old.append(not low <= 0.08 <= high)
        found = deciding_interval(
            *run.units(clusters),
            family="binary",
            estimand="unit_weighted",
            nominal_p=0.05,
            singletons=False,
        )
        ours.append(isinstance(found, Deciding) and _excludes(found, 0.08))
    assert _percent(old) > 8.0
    assert _percent(ours) <= 7.0


@pytest.mark.slow
def test_error_rates_percentile_equivalence_is_claimed_at_the_margin() -> None:
    """90 % percentile inside the margin while the true difference is the margin: nominal 5 %."""
    rng, old, ours = np.random.default_rng(2), [], []
    for run in _runs(12, effect=0.05, discordance=0.06):
        low, high = _percentiles(run, rng, 0.90)
        old.append(bool(low > -0.05 and high < 0.05))
        found = _ours(run, 12)
        ours.append(
            found is not None
            and decide("equivalence", 0.05, found.lower, found.upper, "higher").verdict
            == "equivalent"
        )
    assert _percent(old) > 10.0
    assert _percent(ours) <= 5.0


@pytest.mark.slow
def test_error_rates_mcnemar_ignores_clusters() -> None:
    """Exact McNemar on clustered pairs: nominal 5 %."""
    old, ours = [], []
    for run in _runs(30):
        old.append(mcnemar_exact(int(run.losses.sum()), int(run.wins.sum())) < 0.05)
        ours.append(_excludes(_ours(run, 30), 0.0))
    assert _percent(old) > 10.0
    assert _percent(ours) <= 5.5


@pytest.mark.slow
def test_error_rates_several_primaries_without_a_rule() -> None:
    """Reject when any of three unadjusted intervals lies below 0: three chances to err."""
    runs = [_ours(run, 30) for run in _runs(30)]
    against = [found is not None and found.upper < 0.0 for found in runs]
    thirds = [any(against[k : k + 3]) for k in range(0, len(against), 3)]
    shared = [_ours(run, 30, 0.05 / 3.0) for run in _runs(30)]
    lower = [found is not None and found.upper < 0.0 for found in shared]
    adjusted = [any(lower[k : k + 3]) for k in range(0, len(lower), 3)]
    assert _percent(thirds) > 2.0 * _percent(against)
    assert _percent(adjusted) <= 2.75


def test_error_rates_given_boundaries_are_not_checked() -> None:
    """Values of z for two looks, kept for five, spend twice alpha: the old rule takes any list."""
    two = spending_boundary([0.5, 1.0], alpha=0.05).critical_values
    five = [0.2, 0.4, 0.6, 0.8, 1.0]
    kept = [two[0], *(two[1] for _ in five[1:])]
    found = check_explicit_boundary(kept, five, alpha=0.05)
    assert found.spends > 0.1
    assert not found.acceptable
    assert check_explicit_boundary(two, [0.5, 1.0], alpha=0.05).acceptable


@pytest.mark.slow
@pytest.mark.parametrize(("clusters", "stops", "wrong"), [(12, 7.0, 8.0), (20, 3.0, 6.0)])
def test_error_rates_a_look_at_half_of_a_half(clusters: int, stops: float, wrong: float) -> None:
    """The interim look takes half of the clusters present, and the end an unadjusted interval.

    Planned are stops in 0.5 % of runs without a difference, and 5 % wrong verdicts in all.
    """
    half, rng = clusters // 2, np.random.default_rng(3)
    boundary = spending_boundary([0.5, 1.0], alpha=0.05)
    stopped, old, ours = [], [], []
    for run in _runs(clusters):
        few = np.sort(rng.permutation(half)[: half // 2])
        part = Run(sizes=run.sizes[few], wins=run.wins[few], losses=run.losses[few])
        gap = abs(part.sums.sum() / part.sizes.sum())
        stopped.append(gap > 2.797 * _bootstrap_error(part, few.size))
        cut = half if stopped[-1] else clusters
        gap = abs(run.sums[:cut].sum() / run.sizes[:cut].sum())
        old.append(gap > 1.96 * _bootstrap_error(run, cut))
        looks = zip((half, clusters), boundary.nominal_p, strict=True)
        ours.append(any(_excludes(_ours(run, cut, p), 0.0) for cut, p in looks))
    assert _percent(stopped) > stops
    assert _percent(old) > wrong
    assert _percent(ours) <= 5.5


def test_error_rates_undefined_resamples_are_dropped() -> None:
    """Flags in one cluster: the old rule makes an interval of what is left, ours none."""
    right, flags = (number * (np.arange(6) == 0).astype(np.float64) for number in (3.0, 4.0))
    rng = np.random.default_rng(4)
    picks = rng.integers(0, 6, (RESAMPLES, 6))
    drawn = flags[picks].sum(axis=1)
    kept = right[picks].sum(axis=1)[drawn > 0.0] / drawn[drawn > 0.0]
    assert kept.size < 0.75 * RESAMPLES
    assert np.quantile(kept, 0.025) == np.quantile(kept, 0.975) == 0.75
    found = cluster_bootstrap(right, flags, seed=1, resamples=1_999)
    assert isinstance(found, Bootstrap)
    for interval in (found.percentile, found.bca, found.studentised):
        assert isinstance(interval, Undetermined)
    codes = np.repeat(np.arange(6), 4)
    labels = np.tile([1, 1, 1, 0], 6)
    flagged = (codes == 0).astype(np.float64)
    nothing = deciding_precision(flagged, flagged, labels, codes, nominal_p=0.05)
    assert isinstance(nothing, Undetermined)


def test_error_rates_a_cluster_drawn_twice_counts_once() -> None:
    """Keyed by name, a copy of a cluster replaces the other: the error is a fifth short."""
    rng = np.random.default_rng(5)
    means = rng.normal(size=40)
    old = [means[np.unique(rng.integers(0, 40, 40))].mean() for _ in range(4_000)]
    found = cluster_bootstrap(means, np.ones(40), seed=2, resamples=4_000)
    assert isinstance(found, Bootstrap)
    true = float(np.std(means)) / math.sqrt(40)
    assert float(np.std(old)) < 0.85 * true
    assert found.standard_error == pytest.approx(true, rel=0.04)
    codes = np.repeat(np.arange(40), 6)
    labels = np.tile([1, 0, 1, 0, 1, 0], 40)
    control = rng.normal(size=240) + labels + means[codes] * (labels - 0.5)
    treatment = control + 0.8 * rng.normal(size=240)
    area = auc_bootstrap(control, treatment, labels, codes, seed=3, resamples=1_999)
    formula = auc_clustered_difference(control, treatment, labels, codes)
    assert isinstance(area, Bootstrap)
    assert isinstance(formula, ClusteredAuc)
    assert area.standard_error == pytest.approx(math.sqrt(formula.variance), rel=0.12)


def test_error_rates_information_is_not_the_share_of_clusters() -> None:
    """The squared correlation of running and final sums is the frozen fraction, not 1/2."""
    rng = np.random.default_rng(6)
    sizes = np.array([231, 20, 20, 18, 18, 16, 15, 14, 12, 10, 8, 6])
    noise = rng.normal(size=(40_000, 12)) * np.sqrt(sizes * (1.0 + (sizes - 1.0) * 0.054))
    for order in (np.arange(12), np.arange(12)[::-1]):
        running = noise[:, order[:6]].sum(axis=1)
        true = float(np.corrcoef(running, noise.sum(axis=1))[0, 1]) ** 2
        (found, _) = information_fractions(
            sizes[order], [6, 12], icc=0.054, estimand="unit_weighted"
        )
        assert found == pytest.approx(true, abs=0.01)
        assert abs(true - 0.5) > 0.3
