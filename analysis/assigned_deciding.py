"""What decides between two arms when each unit is in one of them: CR2-t, and whose df it has.

Job: from the difference of `assigned`, the degrees of freedom that a verdict goes by, the test and
the interval. Leaves the difference and its standard errors to `assigned`.

Rules:
    - Where clusters of several units lie in one arm each, and a unit counts once, a large cluster's
      sum varies more than its units alone would: the df are those of the same CR2 standard error
      under a working model in which units of a cluster correlate by `WORKING_CORRELATION`. The
      method has a name of its own, `cr2_t_whole_clusters`.
    - Everywhere else the df are those of the model without correlation, and the method is `cr2_t`.
    - With equal clusters, with single units, and with correlation 0, both df are the same.
    - Precision is the mean of the labels of what an arm flags: the same regression over flagged
      units alone. Which are flagged is taken as given, so clusters without a flag don't count.
    - The correlation is a constant of the method: neither outcomes nor the plan's icc move it.

Source:
    Pustejovsky and Tipton (2018), eq. (11), with a compound-symmetric working model; Imbens and
    Kolesar (2016) take such a model for the df alone, as here, with a correlation that is estimated
    from the data instead. The constant is this project's own; `benchmarks/whole_clusters.py` has
    the error rates with it.
"""

from __future__ import annotations

from dataclasses import replace
from types import MappingProxyType
from typing import Final

import numpy as np
import numpy.typing as npt

from .assigned import ArmCounts, arm_counts, assigned_df, assigned_difference
from .deciding import Deciding
from .distributions import t_upper_quantile
from .grouping import FloatArray, IntArray, exact_sum
from .paired import ClusteredMean, t_interval, t_test
from .values import Estimand, Undetermined

__all__ = (
    "WHOLE",
    "WORKING_CORRELATION",
    "deciding_assigned",
    "deciding_assigned_precision",
    "deciding_df",
    "difference_with_df",
    "weighs_whole_clusters",
    "whole_clusters_df",
)

_BoolArray = npt.NDArray[np.bool_]

WHOLE: Final = "cr2_t_whole_clusters"
WORKING_CORRELATION: Final = 0.2
_NO_FLAG = Undetermined("an arm flagged nothing")


def deciding_assigned(
    values: FloatArray,
    treated: _BoolArray,
    clusters: IntArray,
    *,
    estimand: Estimand,
    nominal_p: float,
    null: float = 0.0,
) -> Deciding | Undetermined:
    """Computes the deciding interval of treatment minus control between units in one arm each.

    Args:
        values: one number a unit, shape (n,), finite.
        treated: whether the unit is in the treatment arm, shape (n,).
        clusters: integer code of each unit's cluster, shape (n,).
        estimand: weight of a unit or of a cluster.
        nominal_p: two-sided p that the look allows, in (0, 1).
        null: difference at which the test is computed.
    """
    if not 0.0 < nominal_p < 1.0:
        raise ValueError(f"nominal_p: expected a number in (0, 1), found {nominal_p}")
    found = difference_with_df(values, treated, clusters, estimand=estimand)
    if isinstance(found, Undetermined):
        return found
    counts = arm_counts(np.asarray(treated), np.asarray(clusters))
    method = WHOLE if weighs_whole_clusters(counts, estimand) else "cr2_t"
    interval, p = t_interval(found, alpha=nominal_p), t_test(found, null=null)
    if isinstance(interval, Undetermined):
        return interval
    assert not isinstance(p, Undetermined)
    return Deciding(
        estimate=found.estimate,
        standard_error=found.standard_error,
        df=found.df,
        lower=interval.lower,
        upper=interval.upper,
        t_critical=t_upper_quantile(nominal_p / 2.0, found.df),
        tests=MappingProxyType({method: p}),
        p_value=p,
        method=method,
        parts=(replace(interval, method=method),),
        degenerate=False,
        n=found.n,
        clusters=found.clusters,
        discordant_clusters=0,
        only_control=0,
        only_treatment=0,
    )


def deciding_assigned_precision(
    flags: FloatArray,
    treated: _BoolArray,
    labels: IntArray,
    clusters: IntArray,
    *,
    nominal_p: float,
    null: float = 0.0,
) -> Deciding | Undetermined:
    """Computes the deciding interval of the difference of two precisions, units in one arm each.

    Args:
        flags: 1 where the unit's arm flags it, else 0, shape (n,).
        treated: whether the unit is in the treatment arm, shape (n,).
        labels: 0 or 1 per unit, shape (n,).
        clusters: integer code of each unit's cluster, shape (n,).
        nominal_p: two-sided p that the look allows, in (0, 1).
        null: difference at which the test is computed.
    """
    flagged = np.asarray(flags) == 1.0
    arms = np.asarray(treated)[flagged]
    if not arms.any() or arms.all():
        return _NO_FLAG
    return deciding_assigned(
        np.asarray(labels)[flagged].astype(np.float64),
        arms,
        np.asarray(clusters)[flagged],
        estimand="unit_weighted",
        nominal_p=nominal_p,
        null=null,
    )


def difference_with_df(
    values: FloatArray, treated: _BoolArray, clusters: IntArray, *, estimand: Estimand
) -> ClusteredMean | Undetermined:
    """Computes `assigned_difference`, with the degrees of freedom that a verdict goes by.

    Args:
        values: one number a unit, shape (n,), finite.
        treated: whether the unit is in the treatment arm, shape (n,).
        clusters: integer code of each unit's cluster, shape (n,).
        estimand: weight of a unit or of a cluster.
    """
    found = assigned_difference(values, treated, clusters, estimand=estimand)
    if isinstance(found, Undetermined):
        return found
    df = deciding_df(arm_counts(np.asarray(treated), np.asarray(clusters)), estimand=estimand)
    assert not isinstance(df, Undetermined), "a difference has degrees of freedom"
    return replace(found, df=df)


def deciding_df(counts: ArmCounts, *, estimand: Estimand) -> float | Undetermined:
    """Returns the degrees of freedom that a verdict goes by, from the assignment alone.

    Args:
        counts: units of each cluster by arm.
        estimand: weight of a unit or of a cluster.
    """
    df = assigned_df(counts, estimand=estimand)
    if isinstance(df, Undetermined) or not weighs_whole_clusters(counts, estimand):
        return df
    return whole_clusters_df(counts, correlation=WORKING_CORRELATION)


def weighs_whole_clusters(counts: ArmCounts, estimand: Estimand) -> bool:
    """Returns whether units count once, in clusters of several that lie in one arm each."""
    several = bool(counts.sizes.size) and bool(counts.sizes.max() > 1.0)
    return estimand == "unit_weighted" and counts.by_cluster and several


def whole_clusters_df(counts: ArmCounts, *, correlation: float) -> float:
    """Returns tr(P)^2 / tr(P^2), P the covariance of CR2's scores under correlated units.

    With m the units of a cluster, n those of its arm, v = m (1 + (m-1) correlation), V the sum of
    v and h = 1 - m/n, an arm's P has the elements (v_g [g = k] - m_g v_k/n - v_g m_k/n +
    m_g m_k V/n^2) / (n^2 sqrt(h_g h_k)); arms share no cluster. In O(G).

    Args:
        counts: units of each cluster by arm; every cluster in one arm, two clusters or more in an
            arm.
        correlation: of units of one cluster, in [0, 1].
    """
    traces, squares = [], []
    for side in (counts.control, counts.treatment):
        sizes = side[side > 0.0]
        n = exact_sum(sizes)
        v = sizes * (1.0 + (sizes - 1.0) * correlation)
        weights = 1.0 / (n * np.sqrt(1.0 - sizes / n))
        d, p, q = weights * weights * v, weights * sizes, weights * v / n
        whole = exact_sum(v) / (n * n)
        pp, pq, qq = exact_sum(p * p), exact_sum(p * q), exact_sum(q * q)
        traces.append(exact_sum(d) - 2.0 * pq + whole * pp)
        crossed = exact_sum(d * (whole * p * p - 2.0 * p * q))
        low_rank = 2.0 * (pq * pq + pp * qq) - 4.0 * whole * pp * pq + (whole * pp) ** 2
        squares.append(exact_sum(d * d) + 2.0 * crossed + low_rank)
    return sum(traces) ** 2 / sum(squares)
