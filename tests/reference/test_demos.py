"""The two demonstrations: what the whole default path must say about real data.

The expected figures were computed before this code existed, by other code; data/README.md has the
source and licence of the data.
"""

from __future__ import annotations

import csv
import hashlib
import math
from dataclasses import dataclass
from itertools import combinations
from pathlib import Path

import numpy as np
import pytest

from fairtrial.analysis.deciding import Deciding, deciding_interval
from fairtrial.analysis.grouping import FloatArray, IntArray, effective_clusters, group
from fairtrial.analysis.paired import (
    clustered_mean,
    equal_weight_mean,
    mcnemar_exact,
    mcnemar_midp,
    satterthwaite_df,
    sign_flip,
    t_interval,
)
from fairtrial.analysis.power import Assumption, Plan, design_guards, mde, power_report
from fairtrial.analysis.sequential import information_fractions, spending_boundary, t_critical
from fairtrial.analysis.values import Interval, Undetermined
from fairtrial.analysis.verdict import decide, guard_findings

DATA = Path(__file__).with_name("data")
SEED = 20261129
ICC = 0.05


@dataclass(frozen=True)
class Cluster:
    """One repository: its complete pairs, and its planned units."""

    name: str
    differences: tuple[float, ...]
    planned: int


def _load(name: str) -> list[Cluster]:
    with (DATA / f"{name}.csv").open(encoding="utf-8", newline="") as file:
        rows = list(csv.DictReader(file))
    clusters = []
    for row in rows:
        counts = {key: int(value) for key, value in row.items() if key != "cluster"}
        pairs = (
            [0.0] * (counts["both"] + counts["neither"])
            + [-1.0] * counts["only_control"]
            + [1.0] * counts["only_treatment"]
        )
        clusters.append(Cluster(row["cluster"], tuple(pairs), sum(counts.values())))
    return clusters


def _in_run_order(clusters: list[Cluster]) -> list[Cluster]:
    def key(cluster: Cluster) -> bytes:
        return hashlib.sha256(f"fairtrial/1/cluster\0{SEED}\0{cluster.name}".encode()).digest()

    return sorted(clusters, key=key)


def _arrays(clusters: list[Cluster]) -> tuple[FloatArray, IntArray]:
    values = [d for cluster in clusters for d in cluster.differences]
    codes = [k for k, cluster in enumerate(clusters) for _ in cluster.differences]
    return np.array(values), np.array(codes)


def _decide(clusters: list[Cluster], nominal_p: float) -> Deciding:
    found = deciding_interval(
        *_arrays(clusters),
        family="binary",
        estimand="unit_weighted",
        nominal_p=nominal_p,
        singletons=False,
    )
    assert not isinstance(found, Undetermined)
    return found


def _fractions(clusters: list[Cluster], cut: int) -> tuple[float, ...]:
    # The expected figures were computed from complete pairs. The rule takes frozen units, which
    # differ by the one lost outcome of Pro: see test_pro_boundary_of_frozen_units.
    sizes = np.array([len(cluster.differences) for cluster in clusters])
    return information_fractions(sizes, [cut, sizes.size], icc=ICC, estimand="unit_weighted")


def _guards(found: Deciding, nominal_p: float) -> tuple[str, ...]:
    return guard_findings(
        clusters=found.clusters,
        df=found.df,
        discordant_clusters=found.discordant_clusters,
        zero_variance=found.degenerate,
        nominal_p=nominal_p,
    )


def _part(found: Deciding, method: str) -> Interval:
    return next(part for part in found.parts if part.method == method)


@pytest.fixture(scope="module")
def verified() -> list[Cluster]:
    """SWE-bench Verified in run order."""
    return _in_run_order(_load("verified"))


@pytest.fixture(scope="module")
def pro() -> list[Cluster]:
    """SWE-bench Pro in run order."""
    return _in_run_order(_load("pro"))


def test_verified_counts_agree(verified: list[Cluster]) -> None:
    """500 units of 12 repositories, one of them 231; 40 and 50 discordant; McNemar beside it."""
    found = _decide(verified, 0.05)
    sizes = np.array([cluster.planned for cluster in verified])
    assert (500, 12, 231) == (found.n, found.clusters, sizes.max())
    assert (40, 50) == (found.only_control, found.only_treatment)
    assert effective_clusters(sizes) == pytest.approx(3.9, abs=0.05)
    assert mcnemar_exact(40, 50) == pytest.approx(0.343, abs=5e-4)
    assert mcnemar_midp(40, 50) == pytest.approx(0.294, abs=5e-4)


def test_verified_final_numbers_agree(verified: list[Cluster]) -> None:
    """Estimate, standard error, df, p, both intervals, sign flip and the weighted estimand."""
    found = _decide(verified, 0.05)
    values, codes = _arrays(verified)
    mean = clustered_mean(values, codes)
    assert not isinstance(mean, Undetermined)
    assert found.estimate == pytest.approx(0.02, abs=1e-12)
    assert found.standard_error == pytest.approx(0.0472, abs=5e-5)
    assert found.df == pytest.approx(3.33, abs=5e-3)
    assert found.tests["cr2_t"] == pytest.approx(0.698, abs=5e-4)
    assert found.tests["tango"] == pytest.approx(0.698, abs=5e-4)
    cr2, tango = _part(found, "cr2_t"), _part(found, "tango_cluster_adjusted")
    assert (cr2.lower, cr2.upper) == pytest.approx((-0.122, 0.162), abs=5e-4)
    assert (tango.lower, tango.upper) == pytest.approx((-0.142, 0.184), abs=5e-4)
    assert (found.lower, found.upper) == (tango.lower, tango.upper)
    assert mean.standard_error**2 / mean.variance_naive == pytest.approx(6.20, abs=5e-3)
    flip = sign_flip(group(values, codes).sums, seed=SEED)
    assert flip.exact
    assert flip.p_value == pytest.approx(0.781, abs=5e-4)
    weighted = equal_weight_mean(values, codes)
    assert not isinstance(weighted, Undetermined)
    limits = t_interval(weighted)
    assert not isinstance(limits, Undetermined)
    assert (weighted.estimate, limits.lower, limits.upper) == pytest.approx(
        (-0.001, -0.068, 0.066), abs=5e-4
    )


def test_verified_is_inconclusive_by_its_cluster_sizes(verified: list[Cluster]) -> None:
    """The df of the sizes alone keeps a verdict back, and the interval spans 0 as well."""
    found = _decide(verified, 0.05)
    sizes = np.array([cluster.planned for cluster in verified])
    assert ("low_df",) == _guards(found, 0.05)
    assert ("low_df",) == design_guards(Plan(sizes=sizes))
    assert satterthwaite_df(sizes) == pytest.approx(found.df, abs=1e-12)
    assert decide("superiority", 0.0, found.lower, found.upper, "higher").reason_code == (
        "interval_spans"
    )


def test_verified_first_look_is_not_eligible(verified: list[Cluster]) -> None:
    """Look 1 of this seed: 96 units, nominal p underflowed, nothing spent."""
    first = verified[:6]
    t, last = _fractions(verified, 6)
    found = _decide(first, 0.05)
    nominal = spending_boundary([t], alpha=0.05).nominal_p[0]
    assert (found.n, last) == (96, 1.0)
    assert t == pytest.approx(0.06, abs=5e-3)
    assert found.estimate == pytest.approx(-0.031, abs=5e-4)
    assert found.standard_error == pytest.approx(0.068, abs=5e-4)
    assert found.df == pytest.approx(2.41, abs=5e-3)
    assert nominal < 1e-12
    assert "few_clusters" in _guards(found, nominal)
    assert spending_boundary([1.0], alpha=0.05).critical_values[0] == pytest.approx(1.960, abs=5e-4)


def test_verified_first_look_is_eligible_in_no_order(verified: list[Cluster]) -> None:
    """Of the 924 sets of six repositories none can stop the run."""
    low, high = math.inf, 0.0
    for chosen in combinations(range(12), 6):
        first = [verified[k] for k in chosen]
        rest = [verified[k] for k in range(12) if k not in chosen]
        t = _fractions([*first, *rest], 6)[0]
        nominal = spending_boundary([t], alpha=0.05).nominal_p[0]
        sizes = np.array([cluster.planned for cluster in first])
        df = satterthwaite_df(sizes)
        assert isinstance(df, float)
        low, high = min(low, df), max(high, df)
        assert design_guards(Plan(sizes=sizes, nominal_p=max(nominal, 1e-300))) != ()
    assert (low, high) == pytest.approx((1.24, 4.52), abs=5e-3)


def test_pro_counts_and_final_numbers_agree(pro: list[Cluster]) -> None:
    """729 pairs of 730, the repeated interval at z 2.0014, and an adopt in words of the rule."""
    t1, t2 = _fractions(pro, 9)
    boundary = spending_boundary([t1, t2], alpha=0.05)
    nominal = boundary.nominal_p[1]
    found = _decide(pro, nominal)
    assert sum(cluster.planned for cluster in pro) == 730
    assert (729, 11, 59, 113) == (
        found.n,
        found.clusters,
        found.only_control,
        found.only_treatment,
    )
    assert found.estimate == pytest.approx(0.0741, abs=5e-5)
    assert found.standard_error == pytest.approx(0.0255, abs=5e-5)
    assert found.df == pytest.approx(8.99, abs=5e-3)
    assert boundary.critical_values[1] == pytest.approx(2.0014, abs=5e-5)
    assert nominal == pytest.approx(0.0454, abs=5e-5)
    assert found.tests["cr2_t"] == pytest.approx(0.0174, abs=5e-5)
    assert found.tests["tango"] == pytest.approx(0.0183, abs=5e-5)
    cr2, tango = _part(found, "cr2_t"), _part(found, "tango_cluster_adjusted")
    assert (cr2.lower, cr2.upper) == pytest.approx((0.0149, 0.1332), abs=5e-5)
    assert (tango.lower, tango.upper) == pytest.approx((0.0146, 0.1348), abs=5e-5)
    assert () == _guards(found, nominal)
    verdict = decide("superiority", 0.0, found.lower, found.upper, "higher")
    assert ("adopt", "interval_favours") == (verdict.verdict, verdict.reason_code)


def test_pro_tests_beside_it_agree(pro: list[Cluster]) -> None:
    """McNemar, sign flip, the design effect and the weighted estimand, none of which decides."""
    values, codes = _arrays(pro)
    mean, weighted = clustered_mean(values, codes), equal_weight_mean(values, codes)
    assert not isinstance(mean, Undetermined)
    assert not isinstance(weighted, Undetermined)
    assert mcnemar_exact(59, 113) == pytest.approx(4.7e-5, abs=5e-7)
    assert mcnemar_midp(59, 113) == pytest.approx(3.5e-5, abs=5e-7)
    assert mean.standard_error**2 / mean.variance_naive == pytest.approx(2.05, abs=5e-3)
    assert sign_flip(group(values, codes).sums, seed=SEED).p_value == pytest.approx(0.041, abs=5e-4)
    assert weighted.estimate == pytest.approx(0.055, abs=5e-4)
    wide = t_interval(weighted)
    assert not isinstance(wide, Undetermined)
    assert (wide.lower, wide.upper) == pytest.approx((-0.0129, 0.1233), abs=5e-5)


def test_pro_first_look_of_this_seed_agrees(pro: list[Cluster]) -> None:
    """549 pairs, p 0.085 and 0.087 against a nominal 0.0153: the run goes on."""
    t = _fractions(pro, 9)[0]
    boundary = spending_boundary([t], alpha=0.05)
    nominal, z = boundary.nominal_p[0], boundary.critical_values[0]
    found = _decide(pro[:9], nominal)
    assert found.n == 549
    assert found.estimate == pytest.approx(0.0638, abs=5e-5)
    assert found.standard_error == pytest.approx(0.0320, abs=5e-5)
    assert found.df == pytest.approx(7.16, abs=5e-3)
    assert found.tests["cr2_t"] == pytest.approx(0.085, abs=5e-4)
    assert found.tests["tango"] == pytest.approx(0.0875, abs=5e-5)
    assert t == pytest.approx(0.707, abs=5e-4)
    assert z == pytest.approx(2.425, abs=5e-4)
    assert nominal == pytest.approx(0.0153, abs=5e-5)
    assert found.t_critical == pytest.approx(t_critical(z, found.df).t_critical, abs=1e-9)
    assert () == _guards(found, nominal)
    assert found.p_value > nominal
    assert found.lower < 0.0 < found.upper


def test_pro_boundary_of_frozen_units(pro: list[Cluster]) -> None:
    """The boundary is fixed before any outcome: 730 planned units, not 729 pairs, place look 1."""
    sizes = np.array([cluster.planned for cluster in pro])
    fractions = information_fractions(sizes, [9, 11], icc=ICC, estimand="unit_weighted")
    boundary = spending_boundary(fractions, alpha=0.05)
    assert fractions == pytest.approx((0.7046, 1.0), abs=5e-5)
    assert boundary.critical_values == pytest.approx((2.4286, 2.0009), abs=5e-5)
    assert boundary.nominal_p == pytest.approx((0.0152, 0.0454), abs=5e-5)


def test_pro_first_look_over_all_orders(pro: list[Cluster]) -> None:
    """All 55 choices are eligible; 19 cross, always in favour."""
    crossed, fractions = [], []
    for left_out in combinations(range(11), 2):
        first = [pro[k] for k in range(11) if k not in left_out]
        t = _fractions([*first, *(pro[k] for k in left_out)], 9)[0]
        nominal = spending_boundary([t], alpha=0.05).nominal_p[0]
        found = _decide(first, nominal)
        fractions.append(t)
        assert () == _guards(found, nominal)
        crossed.append(decide("superiority", 0.0, found.lower, found.upper, "higher").verdict)
    assert (min(fractions), max(fractions)) == pytest.approx((0.69, 0.95), abs=5e-3)
    assert (19, 36) == (crossed.count("adopt"), crossed.count("inconclusive"))


def test_pro_lost_outcome_cannot_turn_the_sign(pro: list[Cluster]) -> None:
    """Whatever the absent control outcome was, the lower limit at 95 % is 0.0159 or more."""
    values, codes = _arrays(pro)
    place = next(k for k, c in enumerate(pro) if c.planned != len(c.differences))
    lowest = math.inf
    for treatment in (0.0, 1.0):
        for control in (0.0, 1.0):
            found = deciding_interval(
                np.append(values, treatment - control),
                np.append(codes, place),
                family="binary",
                estimand="unit_weighted",
                nominal_p=0.05,
                singletons=False,
            )
            assert not isinstance(found, Undetermined)
            lowest = min(lowest, found.lower)
    assert lowest == pytest.approx(0.0159, abs=5e-4)


def test_smallest_differences_of_the_designs_agree(
    verified: list[Cluster], pro: list[Cluster]
) -> None:
    """Verified finds 18 points (7.7 without correlation), Pro 9.0."""
    demo = Plan(sizes=np.array([cluster.planned for cluster in verified]))
    other = Plan(sizes=np.array([cluster.planned for cluster in pro]))
    found = [
        mde(demo, Assumption.of_discordance(0.18, icc=0.036)),
        mde(demo, Assumption.of_discordance(0.18)),
        mde(other, Assumption.of_discordance(172 / 729, icc=0.021)),
    ]
    assert found == pytest.approx([0.18, 0.077, 0.090], abs=5e-3)
    report = power_report(0.05, demo, Assumption.of_discordance(0.2, icc=0.05))
    assert ("no_verdict_possible", "underpowered") == report.findings
    report = power_report(0.1, other, Assumption.of_discordance(0.22, icc=0.02))
    assert () == report.findings
