"""How alike units of one cluster are, and what that costs.

Job: the intra-cluster correlation by one-way analysis of variance, the design effect of unequal
clusters, and Miller's clustered standard error of a single arm. Leaves standard errors that
decide to `paired`.

Rules:
    - Estimates from data describe; the icc of a protocol is declared and never replaced by one.

Source:
    Donner and Koval (1980) for the icc with n0; Kish (1965); Miller (2024), eq. (4).
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from .grouping import FloatArray, IntArray, exact_sum, group
from .values import Undetermined

__all__ = ("DesignEffect", "Icc", "MillerError", "design_effect", "icc_anova", "miller_clustered")


@dataclass(frozen=True, kw_only=True, slots=True)
class Icc:
    """Holds an intra-cluster correlation and the mean cluster size n0 that belongs to it."""

    icc: float
    n0: float


@dataclass(frozen=True, kw_only=True, slots=True)
class DesignEffect:
    """Holds a design effect and the number of independent units that weigh as much."""

    design_effect: float
    effective_n: float


@dataclass(frozen=True, kw_only=True, slots=True)
class MillerError:
    """Holds the standard error of a mean without and with clusters."""

    se_clt: float
    se_clustered: float


def icc_anova(values: FloatArray, clusters: IntArray) -> Icc | Undetermined:
    """Estimates the intra-cluster correlation; it may be slightly negative.

    Args:
        values: one number per unit, shape (n,).
        clusters: integer code of each unit's cluster, shape (n,), with 2 <= G < n.
    """
    groups = group(values, clusters)
    count, n = groups.sums.size, groups.n
    if count < 2 or count == n:
        return Undetermined("clusters of more than one unit, and more than one, are needed")
    n0 = (n - exact_sum(groups.sizes**2) / n) / (count - 1)
    means = groups.sums / groups.sizes
    within = values - means[groups.codes]
    between = exact_sum(groups.sizes * (means - groups.total / n) ** 2) / (count - 1)
    inside = exact_sum(within * within) / (n - count)
    spread = between + (n0 - 1.0) * inside
    if spread <= 0.0:
        return Undetermined("all values are equal")
    return Icc(icc=(between - inside) / spread, n0=n0)


def design_effect(sizes: FloatArray | IntArray, icc: float) -> DesignEffect:
    """Computes 1 + (sum m^2 / sum m - 1) icc for clusters of sizes m, shape (G,)."""
    sizes = np.asarray(sizes, dtype=np.float64)
    if sizes.size == 0 or not np.all(sizes > 0.0):
        raise ValueError("sizes: expected numbers above 0")
    n = exact_sum(sizes)
    effect = 1.0 + (exact_sum(sizes * sizes) / n - 1.0) * icc
    return DesignEffect(design_effect=effect, effective_n=n / effect)


def miller_clustered(values: FloatArray, clusters: IntArray) -> MillerError | Undetermined:
    """Computes the standard error of a mean with within-cluster cross products.

    Args:
        values: one number per unit, shape (n,), n >= 2.
        clusters: integer code of each unit's cluster, shape (n,).
    """
    groups = group(values, clusters)
    n = groups.n
    if n < 2:
        return Undetermined("fewer than two values show no variance")
    simple = groups.squares / (n - 1) / n
    residuals = groups.sums - groups.sizes * (groups.total / n)
    cross = exact_sum(residuals * residuals) - groups.squares
    return MillerError(
        se_clt=math.sqrt(simple), se_clustered=math.sqrt(max(0.0, simple + cross / (n * n)))
    )
