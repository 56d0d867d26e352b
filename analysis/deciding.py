"""The interval that a verdict is read from.

Job: for one endpoint at one look, choose the methods by the outcome's family, the estimand and the
clusters, and return their hull at the look's nominal p. Leaves the look's boundary to
`sequential`, the claim itself to `verdict`.

Rules:
    - Binary with clusters: the hull of CR2-t and the cluster-adjusted Tango interval, so that a
      claim needs both.
    - Binary where every unit is its own cluster: Tango with z.
    - Binary and cluster-weighted: t(G-1) on the cluster means.
    - Means (bounded, continuous, reduced replicates): CR2-t, or t(G-1) on the cluster means.
    - Zero variance between clusters gives no interval; nothing falls back silently.

Source:
    The family's rule is this project's own composition; its coverage is simulated in the tests.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from types import MappingProxyType

import numpy as np

from .distributions import normal_upper_quantile, t_upper_quantile
from .grouping import FloatArray, IntArray, group
from .paired import (
    ClusteredMean,
    PairCounts,
    counts_of_groups,
    mean_of_cluster_means,
    mean_of_groups,
    t_interval,
    t_test,
)
from .tango import ClusteredPairs, adjusted_limits, adjusted_p, tango, tango_score
from .values import Estimand, Family, Interval, Undetermined

__all__ = ("Deciding", "deciding_interval")

_FEW = Undetermined("fewer than two complete pairs")


@dataclass(frozen=True, kw_only=True, slots=True)
class Deciding:
    """Holds the deciding interval of one endpoint at one look.

    Attributes:
        estimate: treatment minus control, in the endpoint's own direction.
        standard_error: CR2, or that of the cluster means; 0 when `degenerate`.
        df: degrees of freedom of `standard_error`.
        lower: lower limit of the hull at level 1 - nominal_p; `upper` likewise.
        t_critical: critical value of the t (or, for singletons, normal) methods.
        tests: two-sided p at `null` of each test, by name.
        p_value: the largest p among the tests that decide.
        method: names of the deciding methods, joined by "+".
        parts: the interval of each deciding method.
        degenerate: no variance between clusters; only singletons still have an interval then.
        n: pairs.
        clusters: clusters.
        discordant_clusters: clusters with a non-zero difference.
        only_control: pairs below zero; `only_treatment` above.
    """

    estimate: float
    standard_error: float
    df: float
    lower: float
    upper: float
    t_critical: float
    tests: Mapping[str, float]
    p_value: float
    method: str
    parts: tuple[Interval, ...]
    degenerate: bool
    n: int
    clusters: int
    discordant_clusters: int
    only_control: int
    only_treatment: int


def deciding_interval(
    differences: FloatArray,
    clusters: IntArray,
    *,
    family: Family,
    estimand: Estimand,
    nominal_p: float,
    singletons: bool,
    null: float = 0.0,
) -> Deciding | Undetermined:
    """Computes the deciding interval [lower, upper] of treatment minus control.

    Args:
        differences: one number per complete pair, shape (n,); -1, 0 or 1 for "binary".
        clusters: integer code of each pair's cluster, shape (n,).
        family: "binary" for one yes/no per unit and arm, else "mean".
        estimand: weight of a unit or of a cluster.
        nominal_p: two-sided p that the look allows, in (0, 1).
        singletons: every unit is its own cluster by design.
        null: difference at which the tests are computed, in (-1, 1) for "binary".

    Returns:
        The interval with its tests; `Undetermined` with fewer than two pairs, with a single
        cluster, or without variance between clusters.
    """
    _check_deciding(differences, clusters, family, nominal_p, singletons)
    if len(differences) < 2:
        return _FEW
    values = np.asarray(differences, dtype=np.float64)
    groups = group(values, clusters)
    counts = counts_of_groups(values, groups)
    weighted = estimand == "cluster_weighted" and not singletons
    mean = (mean_of_cluster_means if weighted else mean_of_groups)(groups)
    if isinstance(mean, Undetermined):
        return mean
    if family == "binary" and singletons:
        return _tango_alone(mean, counts, nominal_p, null)
    name = "cluster_means_t" if weighted else "cr2_t"
    by_t = _by_t(mean, name, nominal_p, null)
    if isinstance(by_t, Undetermined):
        return by_t
    deciding = {name: by_t}
    if family == "binary" and not weighted:
        deciding["tango"] = _by_tango(mean, groups.sizes, counts, nominal_p, null)
    return _decide(mean, counts, t_upper_quantile(nominal_p / 2.0, mean.df), deciding, {})


def _by_t(
    mean: ClusteredMean, name: str, nominal_p: float, null: float
) -> tuple[Interval, float] | Undetermined:
    interval, p = t_interval(mean, alpha=nominal_p), t_test(mean, null=null)
    if isinstance(interval, Undetermined):
        return interval
    assert not isinstance(p, Undetermined)
    return replace(interval, method=name), p


def _by_tango(
    mean: ClusteredMean, sizes: FloatArray, counts: PairCounts, nominal_p: float, null: float
) -> tuple[Interval, float]:
    pairs = ClusteredPairs(
        mean=mean, sizes=sizes, n10=counts.only_control, n01=counts.only_treatment
    )
    limits = adjusted_limits(pairs, alpha=nominal_p)
    interval = Interval(
        lower=limits.lower, upper=limits.upper, level=limits.level, method="tango_cluster_adjusted"
    )
    return interval, adjusted_p(pairs, null=null)


def _tango_alone(
    mean: ClusteredMean, counts: PairCounts, nominal_p: float, null: float
) -> Deciding:
    interval = tango(counts.only_control, counts.only_treatment, counts.n, alpha=nominal_p)
    score = tango_score(counts.only_control, counts.only_treatment, counts.n, null=null)
    p = min(1.0, 2.0 * min(score.p_greater, score.p_less))
    beside = t_test(mean, null=null)
    shown = {} if isinstance(beside, Undetermined) else {"cr2_t": beside}
    critical = normal_upper_quantile(nominal_p / 2.0)
    return _decide(mean, counts, critical, {"tango": (interval, p)}, shown)


def _decide(
    mean: ClusteredMean,
    counts: PairCounts,
    critical: float,
    deciding: Mapping[str, tuple[Interval, float]],
    shown: Mapping[str, float],
) -> Deciding:
    parts = tuple(interval for interval, _ in deciding.values())
    tests = {name: p for name, (_, p) in deciding.items()}
    return Deciding(
        estimate=mean.estimate,
        standard_error=mean.standard_error,
        df=mean.df,
        lower=min(part.lower for part in parts),
        upper=max(part.upper for part in parts),
        t_critical=critical,
        tests=MappingProxyType({**tests, **shown}),
        p_value=max(tests.values()),
        method="+".join(part.method for part in parts),
        parts=parts,
        degenerate=mean.degenerate,
        n=counts.n,
        clusters=counts.clusters,
        discordant_clusters=counts.discordant_clusters,
        only_control=counts.only_control,
        only_treatment=counts.only_treatment,
    )


def _check_deciding(
    differences: FloatArray,
    clusters: IntArray,
    family: Family,
    nominal_p: float,
    singletons: bool,
) -> None:
    if not 0.0 < nominal_p < 1.0:
        raise ValueError(f"nominal_p: expected a number in (0, 1), found {nominal_p}")
    if singletons and np.unique(clusters).size != len(clusters):
        raise ValueError("singletons: expected one unit per cluster, found a larger cluster")
    values = np.asarray(differences, dtype=np.float64)
    if family == "binary" and not np.all((values == 0.0) | (np.abs(values) == 1.0)):
        raise ValueError("differences: expected each to be -1, 0 or 1 for a binary endpoint")
