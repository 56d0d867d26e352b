"""Looks: boundaries against the multivariate normal, fractions, and what each look may spend."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from scipy import stats  # type: ignore[import-untyped]  # scipy ships no types

from fairtrial.analysis.classical import classical_boundary, haybittle_peto, inflation
from fairtrial.analysis.crossing import exit_probability
from fairtrial.analysis.distributions import normal_quantile, normal_sf, t_sf
from fairtrial.analysis.sequential import (
    Spending,
    check_explicit_boundary,
    information_fractions,
    repeated_interval,
    spending_boundary,
    t_critical,
)
from fairtrial.analysis.spending import spent
from fairtrial.analysis.stagewise import conditional_power, stagewise

SPENDINGS: list[tuple[Spending, float | None]] = [
    ("lan_demets_obrien_fleming", None),
    ("lan_demets_pocock", None),
    ("hwang_shih_decani", -4.0),
    ("hwang_shih_decani", 0.0),
    ("power", 2.5),
]


def _inside(bounds: list[float], information: list[float], drift: float = 0.0) -> float:
    """P(|Z_k| < c_k at every look) by scipy's multivariate normal."""
    t = np.array(information)
    covariance = np.sqrt(np.minimum.outer(t, t) / np.maximum.outer(t, t))
    box = np.minimum(np.array(bounds), 40.0)
    normal: Any = stats
    return float(
        normal.multivariate_normal.cdf(
            box,
            drift * np.sqrt(t),
            covariance,
            lower_limit=-box,
            maxpts=2_000_000,
            abseps=1e-9,
            releps=1e-9,
            rng=np.random.default_rng(1),
        )
    )


@pytest.mark.slow
@pytest.mark.parametrize(("spending", "parameter"), SPENDINGS)
@pytest.mark.parametrize("information", [[0.5, 1.0], [0.1, 0.2, 0.9]])
def test_boundary_spends_what_the_function_says(
    spending: Spending, parameter: float | None, information: list[float]
) -> None:
    """The crossing probability up to each look, by another integrator, is the spent alpha."""
    found = spending_boundary(information, alpha=0.05, spending=spending, parameter=parameter)
    for k in range(1, len(information) + 1):
        crossing = 1.0 - _inside(list(found.critical_values[:k]), information[:k])
        assert crossing == pytest.approx(found.cumulative_alpha[k - 1], abs=2e-6)
    for c, p in zip(found.critical_values, found.nominal_p, strict=True):
        assert p == pytest.approx(2.0 * normal_sf(c))


def test_one_look_is_the_fixed_test() -> None:
    """A single look at everything has z 1.96 and nominal p alpha, whatever the function."""
    for spending, parameter in SPENDINGS:
        found = spending_boundary([1.0], alpha=0.05, spending=spending, parameter=parameter)
        assert found.critical_values[0] == pytest.approx(normal_quantile(0.975), abs=1e-12)
        assert found.nominal_p[0] == pytest.approx(0.05, abs=1e-12)
    one = spending_boundary([1.0], alpha=0.025, sides=1)
    assert one.critical_values[0] == pytest.approx(normal_quantile(0.975), abs=1e-12)


def test_looks_that_are_left_out_spend_nothing() -> None:
    """Only eligible looks are passed; the last then has all of alpha."""
    assert spending_boundary([0.4, 1.0], alpha=0.05) == spending_boundary([0.4, 1.0], alpha=0.05)
    assert (
        spending_boundary([1.0], alpha=0.05).nominal_p[0]
        > (spending_boundary([0.4, 1.0], alpha=0.05).nominal_p[1])
    )


def test_spend_all_at_last_uses_what_is_left() -> None:
    """A registered final analysis short of t = 1 spends everything, and no more."""
    early = spending_boundary([0.5, 0.8], alpha=0.05)
    final = spending_boundary([0.5, 0.8], alpha=0.05, spend_all_at_last=True)
    assert early.critical_values[0] == final.critical_values[0]
    assert final.critical_values[1] < early.critical_values[1]
    assert final.cumulative_alpha[1] == 0.05
    assert exit_probability(final.critical_values, [0.5, 0.8]).total == pytest.approx(0.05)


def test_more_looks_than_matter_keep_alpha() -> None:
    """Twenty looks, and steps of a thousandth, still spend exactly alpha."""
    for information in ([k / 20 for k in range(1, 21)], [0.5, 0.501, 0.502, 1.0]):
        found = spending_boundary(information, alpha=0.05)
        exits = exit_probability(found.critical_values, information)
        assert exits.total == pytest.approx(0.05, abs=1e-9)
        assert sum(exits.upper) == pytest.approx(sum(exits.lower), abs=1e-12)


def test_tiny_fractions_underflow_to_no_boundary() -> None:
    """At 1 % of the information there is no chance to stop and nothing is lost."""
    found = spending_boundary([0.001, 0.5, 1.0], alpha=0.05)
    assert found.critical_values[0] == math.inf
    assert found.nominal_p[0] == 0.0
    later = spending_boundary([0.5, 1.0], alpha=0.05)
    assert found.critical_values[1:] == pytest.approx(later.critical_values, abs=1e-9)


@pytest.mark.parametrize(("spending", "parameter"), SPENDINGS)
def test_spending_functions_rise_from_zero_to_alpha(
    spending: Spending, parameter: float | None
) -> None:
    """Monotone, nothing at 0, everything from 1 on."""
    values = [spent(k / 50, alpha=0.025, spending=spending, parameter=parameter) for k in range(61)]
    assert values[0] == 0.0
    assert values[50:] == [0.025] * 11
    assert values == sorted(values)


@pytest.mark.slow
@pytest.mark.parametrize("drift", [0.0, 1.3, -2.8])
def test_exit_probabilities_agree_with_the_multivariate_normal(drift: float) -> None:
    """Symmetric boundary of three looks, with and without drift."""
    bounds, information = [2.9, 2.4, 2.0], [0.3, 0.6, 1.0]
    found = exit_probability(bounds, information, drift=drift)
    assert found.total == pytest.approx(1.0 - _inside(bounds, information, drift), abs=1e-6)
    mirrored = exit_probability(bounds, information, drift=-drift)
    assert found.upper == pytest.approx(mirrored.lower, abs=1e-13)


def test_exit_probabilities_survive_extreme_arguments() -> None:
    """Infinite boundaries, huge drifts and boundaries at zero are all probabilities."""
    for bounds, drift in (([math.inf, 2.0], 0.0), ([3.0, 2.0], 60.0), ([0.0, 0.0], 0.5)):
        found = exit_probability(bounds, [0.5, 1.0], drift=drift)
        assert 0.0 <= found.total <= 1.0 + 1e-9
    assert exit_probability([3.0, 2.0], [0.5, 1.0], drift=60.0).total == pytest.approx(1.0)


def test_explicit_boundaries_are_checked_against_alpha() -> None:
    """Pocock's values pass, one look too cheap does not."""
    good = check_explicit_boundary([2.1783, 2.1783], [0.5, 1.0], alpha=0.05)
    bad = check_explicit_boundary([1.96, 1.96], [0.5, 1.0], alpha=0.05)
    assert (good.acceptable, bad.acceptable) == (True, False)
    assert bad.spends == pytest.approx(0.0831, abs=5e-5)
    assert bad.cumulative_alpha[0] == pytest.approx(0.05, abs=5e-6)


@pytest.mark.slow
def test_classical_boundaries_spend_alpha_in_their_shape() -> None:
    """O'Brien-Fleming falls with sqrt(t), Pocock is flat, Wang-Tsiatis lies between."""
    information = [0.25, 0.5, 1.0]
    for family, delta in (("obrien_fleming", 0.0), ("pocock", 0.5), ("wang_tsiatis", 0.25)):
        found = classical_boundary(
            family,  # type: ignore[arg-type]  # a literal in a list of pairs
            information,
            alpha=0.05,
            delta=delta if family == "wang_tsiatis" else None,
        )
        shape = [found.constant * t ** (delta - 0.5) for t in information]
        assert found.critical_values == pytest.approx(shape)
        assert 1.0 - _inside(list(found.critical_values), information) == pytest.approx(
            0.05, abs=2e-6
        )


def test_haybittle_peto_leaves_the_rest_to_the_end() -> None:
    """Interims at 3 cost next to nothing."""
    found = haybittle_peto(3.0, [0.5, 1.0], alpha=0.05)
    assert found[0] == 3.0
    assert exit_probability(found, [0.5, 1.0]).total == pytest.approx(0.05, abs=1e-9)
    with pytest.raises(ValueError, match="spends all"):
        haybittle_peto(1.5, [0.5, 1.0], alpha=0.05)


def test_inflation_of_one_look_is_none() -> None:
    """A fixed test has the drift of its textbook formula."""
    found = inflation([normal_quantile(0.975)], [1.0], alpha=0.05, power=0.8)
    assert found.inflation_factor == pytest.approx(1.0, abs=1e-4)


def test_t_critical_has_the_boundary_s_tail() -> None:
    """The same nominal p in t; wider than z."""
    found = t_critical(2.5, 7.3)
    assert 2.0 * t_sf(found.t_critical, 7.3) == pytest.approx(found.nominal_p_two_sided)
    assert found.t_critical > 2.5


def test_repeated_interval_excludes_zero_when_the_boundary_is_crossed() -> None:
    """Interval and boundary say the same."""
    low, high = repeated_interval(0.12, 0.05, 2.797)
    assert low < 0.0 < high
    assert repeated_interval(0.16, 0.05, 2.797)[0] > 0.0


def test_information_fractions_weigh_clusters_by_size_and_icc() -> None:
    """Without correlation units count, with full correlation of equal weight the squares do."""
    sizes, cuts = np.array([4, 1, 3, 2]), [1, 3, 4]
    assert information_fractions(sizes, cuts, icc=0.0, estimand="unit_weighted") == pytest.approx(
        (0.4, 0.8, 1.0)
    )
    assert information_fractions(sizes, cuts, icc=1.0, estimand="unit_weighted") == pytest.approx(
        (16 / 30, 26 / 30, 1.0)
    )
    assert information_fractions(
        sizes, cuts, icc=1.0, estimand="cluster_weighted"
    ) == pytest.approx((0.25, 0.75, 1.0))
    weights = [(1 + 0.2 * (m - 1)) / m for m in (4, 1, 3, 2)]
    assert information_fractions(sizes, [2, 4], icc=0.2, estimand="cluster_weighted")[
        0
    ] == pytest.approx(sum(weights[:2]) / sum(weights))


def test_information_fraction_is_the_squared_correlation_of_running_and_final_sum() -> None:
    """By simulation of correlated clusters: corr^2 of the weighted sums, as the rule claims."""
    rng, sizes, icc = np.random.default_rng(4), np.array([30, 4, 9, 15, 2, 21]), 0.1
    sums = np.array(
        [
            math.sqrt(icc) * m * rng.normal(size=100_000)
            + math.sqrt((1 - icc) * m) * rng.normal(size=100_000)
            for m in sizes
        ]
    )
    found = information_fractions(sizes, [2, 4, 6], icc=icc, estimand="unit_weighted")
    for cut, t in zip((2, 4), found, strict=False):
        correlation = float(np.corrcoef(sums[:cut].sum(axis=0), sums.sum(axis=0))[0, 1])
        assert correlation**2 == pytest.approx(t, abs=0.01)


def test_stagewise_after_one_look_is_the_fixed_analysis() -> None:
    """No earlier look: p, estimate and limits are those of a plain z."""
    found = stagewise([1.96], [1.0], look=1, z=2.4)
    assert found.p_one_sided == pytest.approx(normal_sf(2.4))
    assert found.median_unbiased == pytest.approx(2.4, abs=1e-8)
    assert found.upper - found.median_unbiased == pytest.approx(normal_quantile(0.975), abs=1e-8)


def test_stagewise_p_of_the_boundary_is_the_alpha_spent() -> None:
    """Reaching the last boundary exactly has the one-sided alpha as its p."""
    information = [0.4, 0.7, 1.0]
    boundary = spending_boundary(information, alpha=0.05)
    found = stagewise(boundary.critical_values, information, look=3, z=boundary.critical_values[2])
    assert found.p_one_sided == pytest.approx(0.025, abs=1e-8)
    assert found.lower == pytest.approx(0.0, abs=1e-6)
    assert found.lower < found.median_unbiased < found.upper


def test_conditional_power_agrees_with_simulation() -> None:
    """The chance to end above the boundary, from where the run is."""
    rng = np.random.default_rng(8)
    end = 1.1 * math.sqrt(0.6) + rng.normal(2.5 * 0.4, math.sqrt(0.4), 200_000)
    found = conditional_power(1.1, 0.6, 1.98, drift=2.5)
    assert found == pytest.approx(float(np.mean(end >= 1.98)), abs=0.005)


@pytest.mark.parametrize(
    "call",
    [
        lambda: spending_boundary([0.5, 0.5], alpha=0.05),
        lambda: spending_boundary([0.5, 1.2], alpha=0.05),
        lambda: spending_boundary([], alpha=0.05),
        lambda: spending_boundary([1.0], alpha=0.7),
        lambda: spending_boundary([1.0], alpha=0.05, sides=3),
        lambda: spending_boundary([1.0], alpha=0.05, spending="power"),
        lambda: spending_boundary([1.0], alpha=0.05, parameter=2.0),
        lambda: spending_boundary([1.0], alpha=0.05, spending="power", parameter=-1.0),
        lambda: exit_probability([2.0], [0.5, 1.0]),
        lambda: exit_probability([math.nan], [1.0]),
        lambda: check_explicit_boundary([2.0], [1.0], alpha=0.05, sides=0),
        lambda: classical_boundary("pocock", [1.0], alpha=0.05, delta=0.1),
        lambda: inflation([2.0], [1.0], alpha=0.05, power=0.01),
        lambda: t_critical(math.inf, 3.0),
        lambda: information_fractions(np.array([3, 2]), [2, 1], icc=0.1, estimand="unit_weighted"),
        lambda: information_fractions(np.array([3, 2]), [3], icc=0.1, estimand="unit_weighted"),
        lambda: information_fractions(np.array([3, 0]), [2], icc=0.1, estimand="unit_weighted"),
        lambda: information_fractions(np.array([3, 2]), [2], icc=1.1, estimand="unit_weighted"),
        lambda: stagewise([2.0], [1.0], look=2, z=1.0),
        lambda: conditional_power(1.0, 1.0, 2.0),
    ],
)
def test_bad_arguments_are_value_errors(call: object) -> None:
    """Plans that cannot be."""
    assert callable(call)
    with pytest.raises(ValueError, match=r"expected|needs|takes|need"):
        call()
