"""The deciding interval: which methods decide, the hull, degenerate data (FR-24), direction."""

from __future__ import annotations

import time

import numpy as np
import pytest

from fairtrial.analysis.deciding import Deciding, deciding_interval
from fairtrial.analysis.grouping import FloatArray, IntArray
from fairtrial.analysis.paired import clustered_mean, equal_weight_mean, t_interval
from fairtrial.analysis.tango import tango, tango_cluster_adjusted
from fairtrial.analysis.values import Estimand, Family, Interval, Undetermined
from fairtrial.analysis.verdict import decide, guard_findings


def _pairs(seed: int, clusters: int = 14, effect: float = 0.1) -> tuple[FloatArray, IntArray]:
    rng = np.random.default_rng(seed)
    codes = np.repeat(np.arange(clusters), rng.integers(2, 25, clusters))
    win = rng.beta(3.0 * (1.0 + effect), 3.0 * (1.0 - effect), clusters)[codes]
    differing = (rng.random(codes.size) < 0.3).astype(np.float64)
    return differing * np.where(rng.random(codes.size) < win, 1.0, -1.0), codes


def _decide(
    values: FloatArray,
    codes: IntArray,
    *,
    family: Family = "binary",
    estimand: Estimand = "unit_weighted",
    nominal_p: float = 0.05,
    singletons: bool = False,
    null: float = 0.0,
) -> Deciding:
    found = deciding_interval(
        values,
        codes,
        family=family,
        estimand=estimand,
        nominal_p=nominal_p,
        singletons=singletons,
        null=null,
    )
    assert isinstance(found, Deciding)
    return found


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize("nominal", [0.05, 0.003])
def test_binary_with_clusters_is_the_hull_of_both(seed: int, nominal: float) -> None:
    """A claim needs CR2-t and cluster-adjusted Tango: limits and p are the less favourable."""
    values, codes = _pairs(seed)
    found = _decide(values, codes, nominal_p=nominal)
    mean, score = (
        clustered_mean(values, codes),
        tango_cluster_adjusted(values, codes, alpha=nominal),
    )
    assert not isinstance(mean, Undetermined)
    assert not isinstance(score, Undetermined)
    t = t_interval(mean, alpha=nominal)
    assert isinstance(t, Interval)
    assert (found.lower, found.upper) == (min(t.lower, score.lower), max(t.upper, score.upper))
    assert set(found.tests) == {"cr2_t", "tango"}
    assert found.p_value == max(found.tests.values())
    assert found.method == "cr2_t+tango_cluster_adjusted"


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize("null", [-0.1, 0.0, 0.05])
def test_p_at_a_null_says_what_the_interval_says(seed: int, null: float) -> None:
    """The hull excludes the null exactly when the larger p is below the nominal p."""
    values, codes = _pairs(seed)
    p = _decide(values, codes, null=null).p_value
    for nominal in (0.999 * p, min(0.999, 1.001 * p)):
        found = _decide(values, codes, nominal_p=nominal)
        assert (found.lower <= null <= found.upper) == (p >= nominal)


def test_singletons_decide_by_tango_alone() -> None:
    """Every unit its own cluster: Tango with z; CR2-t is shown and has no say."""
    values = np.array([1.0] * 12 + [-1.0] * 4 + [0.0] * 30)
    found = _decide(values, np.arange(46), singletons=True)
    alone = tango(4, 12, 46)
    assert (found.lower, found.upper) == (alone.lower, alone.upper)
    assert found.method == "tango"
    assert found.p_value == found.tests["tango"]
    assert "cr2_t" in found.tests
    assert found.t_critical == pytest.approx(1.959964, abs=1e-6)


def test_means_and_cluster_weights_decide_by_t() -> None:
    """CR2-t for means; t(G - 1) on cluster means when clusters weigh alike."""
    values, codes = _pairs(3)
    scaled = values * 0.37
    mean, weighted = clustered_mean(scaled, codes), equal_weight_mean(values, codes)
    assert not isinstance(mean, Undetermined)
    assert not isinstance(weighted, Undetermined)
    found = _decide(scaled, codes, family="mean")
    limits = t_interval(mean)
    assert isinstance(limits, Interval)
    assert (found.lower, found.upper, found.method) == (limits.lower, limits.upper, "cr2_t")
    found = _decide(values, codes, estimand="cluster_weighted")
    limits = t_interval(weighted)
    assert isinstance(limits, Interval)
    assert (found.lower, found.upper) == (limits.lower, limits.upper)
    assert (found.method, found.df) == ("cluster_means_t", 13.0)


@pytest.mark.parametrize("family", ["binary", "mean"])
@pytest.mark.parametrize("estimand", ["unit_weighted", "cluster_weighted"])
def test_swapping_the_arms_mirrors_everything(family: Family, estimand: Estimand) -> None:
    """Limits negate and change places to the last bit; p and counts follow."""
    values, codes = _pairs(6)
    there = _decide(values, codes, family=family, estimand=estimand)
    back = _decide(-values, codes, family=family, estimand=estimand)
    assert (there.estimate, there.lower, there.upper) == (-back.estimate, -back.upper, -back.lower)
    assert (there.p_value, there.df) == (back.p_value, back.df)
    assert (there.only_control, there.only_treatment) == (back.only_treatment, back.only_control)
    for margin, rule in ((0.0, "superiority"), (0.3, "non_inferiority"), (0.3, "equivalence")):
        up = decide(rule, margin, there.lower, there.upper, "higher")  # type: ignore[arg-type]  # a literal in a pair
        down = decide(rule, margin, back.lower, back.upper, "lower")  # type: ignore[arg-type]  # a literal in a pair
        assert up == down


def test_order_and_names_change_no_bit() -> None:
    """Units in any order, clusters under any code."""
    values, codes = _pairs(7)
    first, rng = _decide(values, codes), np.random.default_rng(0)
    for _ in range(5):
        order, names = rng.permutation(values.size), rng.permutation(10**6)[:14]
        assert first == _decide(values[order], names[codes][order])


def test_a_lower_nominal_p_widens_the_interval() -> None:
    """An early look asks for more."""
    values, codes = _pairs(8)
    widths = [
        (found := _decide(values, codes, nominal_p=p)).upper - found.lower
        for p in (0.2, 0.05, 0.01, 1e-4, 1e-9)
    ]
    assert widths == sorted(widths)


@pytest.mark.parametrize("clusters", [30, 6])
@pytest.mark.parametrize("value", [0.0, 0.25, 1.0])
def test_equal_differences_never_adopt(value: float, clusters: int) -> None:
    """Constant data have no interval, or one that the guards keep from deciding (FR-24)."""
    values, codes = np.full(30, value), np.arange(30) % clusters
    family: Family = "mean" if value == 0.25 else "binary"
    found = deciding_interval(
        values,
        codes,
        family=family,
        estimand="unit_weighted",
        nominal_p=0.05,
        singletons=clusters == 30,
    )
    if isinstance(found, Undetermined):
        assert "variance" in found.reason
        return
    assert found.degenerate
    assert found.lower < found.upper
    if value == 0.0:
        assert (found.estimate, found.p_value) == (0.0, 1.0)
    assert "zero_variance" in guard_findings(
        clusters=found.clusters,
        df=found.df,
        discordant_clusters=found.discordant_clusters,
        zero_variance=found.degenerate,
    )


def test_one_pair_in_thirty_does_not_decide() -> None:
    """29 zeros and a one: a finite interval, far from a claim, and the guard says why (FR-24)."""
    values = np.array([1.0] + [0.0] * 29)
    for singletons, codes in ((True, np.arange(30)), (False, np.arange(30) % 10)):
        found = _decide(values, codes, singletons=singletons)
        assert found.lower < 0.0 < found.upper
        assert guard_findings(
            clusters=found.clusters, df=found.df, discordant_clusters=found.discordant_clusters
        ) == ("few_discordant_clusters",)


@pytest.mark.parametrize("n", [0, 1])
def test_no_pair_and_one_pair_have_no_interval(n: int) -> None:
    """A reason instead of a number (FR-24)."""
    for singletons in (True, False):
        found = deciding_interval(
            np.ones(n),
            np.arange(n),
            family="binary",
            estimand="unit_weighted",
            nominal_p=0.05,
            singletons=singletons,
        )
        assert isinstance(found, Undetermined)
        assert "pair" in found.reason


def test_single_cluster_has_no_interval() -> None:
    """Many units of one repository say nothing about others."""
    found = deciding_interval(
        np.array([1.0, 0.0, -1.0, 1.0]),
        np.zeros(4, dtype=np.int64),
        family="binary",
        estimand="unit_weighted",
        nominal_p=0.05,
        singletons=False,
    )
    assert isinstance(found, Undetermined)


def test_every_small_set_of_pairs_gives_ordered_limits_or_a_reason() -> None:
    """No NaN, no exception, no empty interval: 3^6 outcomes in clusters of 1, 2 and 3."""
    codes = np.array([0, 1, 1, 2, 2, 2])
    for number in range(3**6):
        values = np.array([number // 3**k % 3 - 1.0 for k in range(6)])
        found = deciding_interval(
            values,
            codes,
            family="binary",
            estimand="unit_weighted",
            nominal_p=0.05,
            singletons=False,
        )
        if isinstance(found, Undetermined):
            assert found.reason
        else:
            assert found.lower <= found.estimate <= found.upper
            assert found.lower < found.upper
            assert 0.0 <= found.p_value <= 1.0


def test_ten_thousand_units_take_milliseconds() -> None:
    """Best of five stays far below what a person notices; the goal itself is a benchmark."""
    rng = np.random.default_rng(1)
    values, codes = rng.integers(-1, 2, 10_000).astype(float), rng.integers(0, 200, 10_000)
    best = 1.0
    for _ in range(5):
        start = time.perf_counter()
        _decide(values, codes)
        best = min(best, time.perf_counter() - start)
    assert best < 0.1


def test_bad_arguments_are_refused() -> None:
    """A nominal p outside (0, 1), and clusters that are said to be units."""
    values, codes = _pairs(1)
    with pytest.raises(ValueError, match="nominal_p"):
        _decide(values, codes, nominal_p=0.0)
    with pytest.raises(ValueError, match="singletons"):
        _decide(values, codes, singletons=True)
