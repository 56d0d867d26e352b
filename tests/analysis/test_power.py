"""Power by formula: against simulation, scipy and enumeration; findings of a plan."""

from __future__ import annotations

import math
from dataclasses import replace
from itertools import product

import numpy as np
import pytest
from scipy import stats  # type: ignore[import-untyped]  # scipy ships no types

from fairtrial.analysis.assigned import ArmCounts
from fairtrial.analysis.mcnemar import mcnemar_exact
from fairtrial.analysis.paired import satterthwaite_df
from fairtrial.analysis.power import (
    Assumption,
    Plan,
    design_guards,
    mde,
    power,
    power_report,
    power_table,
)
from fairtrial.analysis.samplesize import (
    mde_cluster_t,
    mde_paired_binary,
    power_cluster_t,
    power_mcnemar_exact,
    power_paired_t,
    samplesize_miller,
    samplesize_paired_binary,
)
from fairtrial.analysis.values import Undetermined

EQUAL = np.full(12, 20)
UNEQUAL = np.array([60, 40, 30, 20, 20, 10, 10, 5, 5, 5])


def test_equal_clusters_have_the_textbook_power() -> None:
    """Satterthwaite df is G - 1 there: 12 clusters of 20 at icc 0.1, sd 0.45 find 0.152."""
    assume = Assumption(sd=0.45, icc=0.1)
    found = mde(Plan(sizes=EQUAL), assume)
    assert found == pytest.approx(mde_cluster_t(0.45, 0.1, 12, 20), abs=1e-6)
    assert found == pytest.approx(0.152, abs=5e-4)
    # The textbook counts a crossing on the wrong side as well: 7e-5 here.
    assert power(0.1, Plan(sizes=EQUAL), assume) == pytest.approx(
        power_cluster_t(0.1, 0.45, 0.1, 12, 20), abs=1e-4
    )


@pytest.mark.parametrize("rule", ["superiority", "non_inferiority"])
@pytest.mark.parametrize("margin", [0.0, 0.04])
def test_power_is_that_of_a_shifted_noncentral_t(rule: str, margin: float) -> None:
    """One tail, at the claim's own null, with the df of the sizes."""
    plan = Plan(sizes=UNEQUAL, rule=rule, margin=margin, nominal_p=0.03)  # type: ignore[arg-type]  # a literal
    error = 0.5 * math.sqrt(float(np.sum(UNEQUAL * (1 + 0.05 * (UNEQUAL - 1))))) / UNEQUAL.sum()
    df = satterthwaite_df(UNEQUAL)
    shift = 0.12 + (margin if rule == "non_inferiority" else -margin)
    oracle = stats.nct.sf(stats.t.isf(0.015, df), df, shift / error)
    assert power(0.12, plan, Assumption(sd=0.5, icc=0.05)) == pytest.approx(oracle, abs=1e-8)


def test_equivalence_power_agrees_with_simulation() -> None:
    """Both limits inside the margin, estimate and its error drawn independently."""
    plan = Plan(sizes=np.full(30, 15), rule="equivalence", margin=0.05)
    assume = Assumption.of_discordance(0.06, icc=0.1)
    rng = np.random.default_rng(3)
    error, df = math.sqrt(0.06 * (1 + 14 * 0.1) / 450), 29
    for effect in (0.0, 0.02):
        estimates = rng.normal(effect, error, 400_000)
        errors = error * np.sqrt(rng.chisquare(df, 400_000) / df)
        room = stats.t.isf(0.025, df) * errors
        inside = (estimates - room > -0.05) & (estimates + room < 0.05)
        assert power(effect, plan, assume) == pytest.approx(float(np.mean(inside)), abs=0.004)


def test_mde_has_the_target_power() -> None:
    """Power at the smallest difference is the target, for either estimand."""
    assume = Assumption(sd=0.4, icc=0.05)
    for plan in (
        Plan(sizes=UNEQUAL),
        Plan(sizes=UNEQUAL, estimand="cluster_weighted", target=0.9, nominal_p=0.01),
        Plan(sizes=UNEQUAL, margin=0.02),
    ):
        smallest = mde(plan, assume)
        assert isinstance(smallest, float)
        assert power(smallest, plan, assume) == pytest.approx(plan.target, abs=1e-9)


def test_missing_units_cost_power() -> None:
    """A registered share of losses shrinks each cluster."""
    whole, lossy = Assumption(sd=0.4), Assumption(sd=0.4, missing=0.2)
    first, second = power(0.1, Plan(sizes=UNEQUAL), whole), power(0.1, Plan(sizes=UNEQUAL), lossy)
    assert isinstance(first, float)
    assert isinstance(second, float)
    assert second < first


def test_findings_name_what_must_be_accepted() -> None:
    """Hopeless by design, impossible at best, underpowered as assumed, not assessed."""
    few = power_report(0.1, Plan(sizes=np.full(5, 200)), Assumption.of_discordance(0.2))
    assert few.findings == ("no_verdict_possible",)
    assert "few_clusters" in few.guards
    tiny = power_report(0.02, Plan(sizes=EQUAL), Assumption.of_discordance(0.2, icc=0.05))
    assert tiny.findings == ("impossible", "underpowered")
    good = power_report(0.2, Plan(sizes=EQUAL), Assumption.of_discordance(0.2, icc=0.02))
    assert good.findings == ()
    open_ = power_report(0.1, Plan(sizes=EQUAL), None)
    assert open_.findings == ("not_assessed",)
    assert isinstance(open_.power, Undetermined)
    assert len(open_.table) == 9
    continuous = power_report(0.1, Plan(sizes=EQUAL, binary=False, discordance_guard=False), None)
    assert continuous.table == ()


def test_table_covers_discordance_and_icc() -> None:
    """The stated effect leads the rows; a discordance below it is left out."""
    rows = power_table(0.15, Plan(sizes=EQUAL))
    assert {row.discordance for row in rows} == {0.15, 0.2, 0.4}
    assert {row.icc for row in rows} == {0.0, 0.05, 0.2}
    powers = [row.power for row in rows if row.icc == 0.0]
    assert all(isinstance(p, float) for p in powers)
    assert all(isinstance(row.power, Undetermined) for row in power_table(None, Plan(sizes=EQUAL)))


def test_design_guards_ask_what_the_sizes_allow() -> None:
    """By design every cluster could differ: fewer than eight never reach the guard."""
    plan = Plan(sizes=np.full(7, 50))
    assert design_guards(plan) == ("few_discordant_clusters",)
    assert design_guards(Plan(sizes=np.full(7, 50), discordance_guard=False)) == ()
    assert design_guards(Plan(sizes=np.array([9]))) == ("few_clusters", "few_discordant_clusters")


def test_best_case_of_assigned_units_weighs_arms_as_the_estimand_does() -> None:
    """Clusters of one control unit each make control unsure, however many units one of them has."""
    counts = ArmCounts(control=np.array([1.0] * 7 + [393.0]), treatment=np.full(8, 50.0))
    plan = Plan(sizes=counts.sizes, counts=counts, estimand="cluster_weighted")
    turned = replace(plan, counts=ArmCounts(control=counts.treatment, treatment=counts.control))

    found = power_report(0.1, plan, None)

    assert found.findings == ("not_assessed",)
    assert found.best_power == power_report(0.1, turned, None).best_power
    # All the variance, 0.09, is in the arm whose clusters have 50 units each.
    error = math.sqrt(0.09 * 8 / 50 / 64)
    chance = 1.0 - stats.nct.cdf(stats.t.ppf(0.975, 7), 7, 0.1 / error)
    assert found.best_power == pytest.approx(chance, abs=1e-6)
    by_unit = power_report(0.1, replace(plan, estimand="unit_weighted"), None)
    assert isinstance(by_unit.best_power, float)
    without = replace(plan, counts=ArmCounts(control=np.zeros(8), treatment=counts.treatment))
    assert isinstance(power_report(0.1, without, None).best_power, Undetermined)


def test_one_cluster_and_impossible_binary_differences_are_undetermined() -> None:
    """No df, or a smallest difference above 100 points."""
    one = Plan(sizes=np.array([300]))
    assert isinstance(power(0.1, one, Assumption(sd=0.4)), Undetermined)
    assert isinstance(mde(one, Assumption(sd=0.4)), Undetermined)
    assert isinstance(mde(Plan(sizes=np.array([3, 3])), Assumption(sd=1.0)), Undetermined)


def test_mcnemar_power_is_the_enumeration_of_all_outcomes() -> None:
    """Every split of 12 pairs into three kinds, weighed by its probability."""
    p10, p01, n = 0.15, 0.4, 12
    expected = 0.0
    for b, c in product(range(n + 1), repeat=2):
        if b + c <= n and mcnemar_exact(b, c) <= 0.05:
            ways = math.comb(n, b) * math.comb(n - b, c)
            expected += ways * p10**b * p01**c * (1 - p10 - p01) ** (n - b - c)
    assert power_mcnemar_exact(p10, p01, n) == pytest.approx(expected, abs=1e-12)
    assert power_mcnemar_exact(0.0, 0.0, n) == 0.0


def test_sample_sizes_invert_their_power() -> None:
    """Connor's n gives back the difference; the paired t has the power of scipy's nct."""
    size = samplesize_paired_binary(0.05, 0.15)
    assert not isinstance(size, Undetermined)
    assert mde_paired_binary(size.n_exact, 0.2) == pytest.approx(0.1, abs=1e-9)
    assert mde_paired_binary(2 * size.n_exact, 0.2, deff=2.0) == pytest.approx(0.1, abs=1e-9)
    critical, shift = stats.t.isf(0.025, 39), 0.2 / (0.5 / math.sqrt(40))
    both = stats.nct.sf(critical, 39, shift) + stats.nct.cdf(-critical, 39, shift)
    assert power_paired_t(0.2, 0.5, 40) == pytest.approx(both, abs=1e-9)
    half = samplesize_miller(0.05, omega2=0.1, sigma2_a=0.1, k_a=2, sigma2_b=0.1, k_b=2)
    full = samplesize_miller(0.05, omega2=0.1, sigma2_a=0.1, k_a=1, sigma2_b=0.1, k_b=1)
    assert half.n_exact / full.n_exact == pytest.approx(2.0 / 3.0)


def test_no_difference_needs_no_finite_sample() -> None:
    """Reasons instead of infinities."""
    assert isinstance(samplesize_paired_binary(0.1, 0.1), Undetermined)
    assert isinstance(mde_paired_binary(5, 0.1), Undetermined)


@pytest.mark.parametrize(
    "call",
    [
        lambda: Assumption.of_discordance(0.0),
        lambda: power(0.1, Plan(sizes=EQUAL), Assumption(sd=0.0)),
        lambda: power(0.1, Plan(sizes=EQUAL), Assumption(sd=0.1, icc=2.0)),
        lambda: mde(Plan(sizes=EQUAL, target=0.01), Assumption(sd=0.1)),
        lambda: samplesize_miller(0.0, omega2=0.1, sigma2_a=0.1, k_a=1, sigma2_b=0.1, k_b=1),
        lambda: power_mcnemar_exact(0.7, 0.7, 5),
    ],
)
def test_bad_arguments_are_value_errors(call: object) -> None:
    """Assumptions that cannot be."""
    assert callable(call)
    with pytest.raises(ValueError, match="expected"):
        call()
