"""The deciding interval of numbers that need the truth: AUC, and precision of flags.

Job: for two arms on the same labelled units, estimate the difference with its interval and test at
a look's nominal p. Leaves formulas to `auc` and `resampling`, means to `deciding`.

Rules:
    - AUC: Obuchowski's variance over clusters with t(G-1); singly DeLong's, with t.
    - Precision: the jackknife over clusters with t(G-1). An arm without flags, or with none left
      when a cluster is left out, has no precision, and there is no interval.
    - The estimand weighs units, whatever the others of a protocol weigh.

Source:
    Obuchowski (1997); DeLong, DeLong and Clarke-Pearson (1988); Efron (1982) for the jackknife.
"""

from __future__ import annotations

import math
from types import MappingProxyType

import numpy as np

from .auc import RankedArms, ranked_arms, ranked_clustered_difference
from .deciding import Deciding
from .distributions import t_upper_quantile
from .grouping import FloatArray, IntArray
from .resampling import jackknife_t
from .values import Interval, Undetermined

__all__ = ("deciding_auc", "deciding_precision", "precision_of")

_FEW = Undetermined("fewer than two complete pairs")


def precision_of(flags: FloatArray, labels: IntArray) -> float | Undetermined:
    """Computes the share of flagged units (1 in `flags`) whose label is 1, shapes (n,)."""
    flagged = int((flags == 1.0).sum())
    if not flagged:
        return Undetermined("nothing was flagged")
    return int(((flags == 1.0) & (labels == 1)).sum()) / flagged


def deciding_auc(
    control: FloatArray,
    treatment: FloatArray,
    labels: IntArray,
    clusters: IntArray,
    *,
    nominal_p: float,
    null: float = 0.0,
    ranked: RankedArms | None = None,
) -> Deciding | Undetermined:
    """Computes the deciding interval of the difference of two AUCs, treatment minus control.

    Args:
        control: control's score per unit, shape (n,).
        treatment: treatment's score per unit, shape (n,).
        labels: 0 or 1 per unit, shape (n,).
        clusters: integer code of each unit's cluster, shape (n,).
        nominal_p: two-sided p that the look allows.
        null: difference at which the test is computed.
        ranked: both arms' scores, where they are ranked already.
    """
    if len(control) < 2:
        return _FEW
    if ranked is None:
        ranked = ranked_arms(control, treatment, labels)
    found = ranked_clustered_difference(ranked, clusters, alpha=nominal_p, null=null)
    if isinstance(found, Undetermined):
        return found
    if isinstance(found.interval, Undetermined):
        return found.interval
    if isinstance(found.p_value, Undetermined):
        return found.p_value
    return _deciding(
        found.estimate,
        math.sqrt(found.variance),
        found.df,
        found.interval,
        found.p_value,
        units=len(control),
        nominal_p=nominal_p,
    )


def deciding_precision(
    control: FloatArray,
    treatment: FloatArray,
    labels: IntArray,
    clusters: IntArray,
    *,
    nominal_p: float,
    null: float = 0.0,
) -> Deciding | Undetermined:
    """Computes the deciding interval of the difference of two precisions, treatment minus control.

    Args:
        control: 1 where control flags a unit, else 0, shape (n,).
        treatment: treatment's flags likewise.
        labels: 0 or 1 per unit, shape (n,).
        clusters: integer code of each unit's cluster, shape (n,).
        nominal_p: two-sided p that the look allows.
        null: difference at which the test is computed.
    """
    if len(control) < 2:
        return _FEW
    codes = np.unique(clusters, return_inverse=True)[1]
    counts = [_flag_counts(flags, labels, codes) for flags in (control, treatment)]
    totals = [(right.sum(), flagged.sum()) for right, flagged in counts]
    if not all(flagged > 0.0 for _, flagged in totals):
        return Undetermined("an arm flagged nothing")
    left = [
        (total - right, everything - flagged)
        for (right, flagged), (total, everything) in zip(counts, totals, strict=True)
    ]
    if any((flagged == 0.0).any() for _, flagged in left):
        return Undetermined("all flags of an arm are in one cluster")
    estimate = totals[1][0] / totals[1][1] - totals[0][0] / totals[0][1]
    without = left[1][0] / left[1][1] - left[0][0] / left[0][1]
    found = jackknife_t(float(estimate), without, alpha=nominal_p, null=null)
    if isinstance(found, Undetermined):
        return found
    return _deciding(
        float(estimate),
        found.standard_error,
        found.df,
        found.interval,
        found.p_value,
        units=len(control),
        nominal_p=nominal_p,
    )


def _flag_counts(
    flags: FloatArray, labels: IntArray, codes: IntArray
) -> tuple[FloatArray, FloatArray]:
    """Returns right flags and flags of each cluster."""
    flagged = np.bincount(codes[flags == 1.0], minlength=int(codes.max()) + 1)
    true = np.bincount(codes[(flags == 1.0) & (labels == 1)], minlength=flagged.size)
    return true.astype(np.float64), flagged.astype(np.float64)


def _deciding(
    estimate: float,
    error: float,
    df: int,
    interval: Interval,
    p_value: float,
    *,
    units: int,
    nominal_p: float,
) -> Deciding:
    return Deciding(
        estimate=estimate,
        standard_error=error,
        df=float(df),
        lower=interval.lower,
        upper=interval.upper,
        t_critical=t_upper_quantile(nominal_p / 2.0, df),
        tests=MappingProxyType({interval.method: p_value}),
        p_value=p_value,
        method=interval.method,
        parts=(interval,),
        degenerate=False,
        n=units,
        clusters=df + 1,
        discordant_clusters=df + 1,
        only_control=0,
        only_treatment=0,
    )
