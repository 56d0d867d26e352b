"""Lower bounds of the precision of flags at many thresholds of one set of scores.

Job: from labels and clusters in the order of falling scores, the lower bound of the flags down to
each of many places, and the last place at which it reaches a precision. Leaves bounds of one set
of flags to `precision_bounds`, and what a threshold does to `block_rules`.

Rules:
    - A bound has the bits that `precision_bound` gives for the same flags: its operations in its
      order, on one array a term instead of one number.
    - What counts units or clusters is added up along the order, once for all places.
    - A lower bound is never above its estimate, so places whose estimate is too low need no bound.
    - learn_then_test walks down and stops at the first failure; the other bounds have no order, so
      places are looked at from the last up, some together.
    - The jackknife looks at every cluster, so it is done only where n* rests on it, in tables of
      places by clusters that are kept small.

Source:
    As for `precision_bounds`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, Literal, TypeAlias

import numpy as np
import numpy.typing as npt

from .distributions import (
    beta_quantile_array,
    binomial_cdf_array,
    normal_upper_quantile,
    t_upper_quantile_array,
)
from .grouping import FloatArray, IntArray, exact_sum
from .precision_bounds import WRONG_CLUSTERS_MIN, Bound
from .rates import wilson_lower

__all__ = ("FallingFlags", "SteppedBound", "falling_flags", "last_reaching")

BoolArray: TypeAlias = npt.NDArray[np.bool_]
SteppedBound: TypeAlias = Literal["cluster_aware", "wilson"]
_CELLS: Final = 1 << 18
# Places whose bounds are computed together; the first that reaches is seldom far.
_AT_ONCE: Final = 64


def last_reaching(
    ends: IntArray,
    labels: IntArray,
    clusters: IntArray,
    *,
    bound: Bound,
    precision: float,
    alpha: float,
) -> int | None:
    """Returns the last place down to which the flags are shown to reach a precision.

    Args:
        ends: rising places that flags may end at, shape (k,), 0 to n - 1.
        labels: 0 or 1 per unit in the order of falling scores, shape (n,).
        clusters: integer code of each unit's cluster, shape (n,).
        bound: which bound; learn_then_test stops at its first failure.
        precision: to be reached.
        alpha: error of the bound, in (0, 0.5).
    """
    flagged, right = ends + 1, np.cumsum(labels)[ends]
    if bound == "clopper_pearson" or bound == "learn_then_test":
        # The exact bound reaches a precision where the binomial p of a lower one is small.
        reaches = binomial_cdf_array(flagged - right, flagged, 1.0 - precision) <= alpha
        if bound == "learn_then_test":
            reaches = np.logical_and.accumulate(reaches)
        passed = ends[reaches]
        return int(passed[-1]) if passed.size else None
    ends = ends[right / flagged >= precision]
    if not ends.size:
        return None
    flags = falling_flags(labels, clusters)
    for stop in range(ends.size, 0, -_AT_ONCE):
        some = ends[max(0, stop - _AT_ONCE) : stop]
        passed = some[flags.lower_bounds(some, bound=bound, alpha=alpha) >= precision]
        if passed.size:
            return int(passed[-1])
    return None


@dataclass(frozen=True, kw_only=True, eq=False, slots=True)
class _Tally:
    """Units of one kind down to each place, shapes (n,).

    Attributes:
        count: of them.
        clusters: that hold one.
        squares: sum over clusters of the squared number of them.
        largest: most of them in one cluster.
    """

    count: IntArray
    clusters: IntArray
    squares: IntArray
    largest: IntArray

    def at(self, ends: IntArray) -> _Tally:
        """Returns the same at some places alone."""
        return _Tally(
            count=self.count[ends],
            clusters=self.clusters[ends],
            squares=self.squares[ends],
            largest=self.largest[ends],
        )


@dataclass(frozen=True, kw_only=True, eq=False, slots=True)
class FallingFlags:
    """Units in the order of falling scores, which a lower threshold flags one after the other.

    Attributes:
        codes: 0 to G - 1, of each unit's cluster, shape (n,).
        is_right: whether its label is 1, shape (n,).
        flags: of all units; `right` and `wrong` of those with label 1 and 0.
    """

    codes: IntArray
    is_right: BoolArray
    flags: _Tally
    right: _Tally
    wrong: _Tally

    def lower_bounds(self, ends: IntArray, *, bound: SteppedBound, alpha: float) -> FloatArray:
        """Returns the lower bound of the precision of all units down to each place.

        Args:
            ends: rising places of last flags, shape (k,), 0 to n - 1.
            bound: which bound.
            alpha: its error, in (0, 0.5).
        """
        n, s = self.flags.count[ends], self.right.count[ends]
        p = s / n
        if bound == "wilson":
            pairs = zip(s.tolist(), n.tolist(), strict=True)
            limits = np.array([wilson_lower(a, b, alpha=alpha) for a, b in pairs])
        else:
            some = s > 0
            m, q = self._effective(ends, alpha)[some], p[some]
            limits = np.zeros(p.size)
            limits[some] = beta_quantile_array(alpha, q * m, m * (1.0 - q) + 1.0)
        return np.asarray(np.minimum(limits, p), dtype=np.float64)

    def _effective(self, ends: IntArray, alpha: float) -> FloatArray:
        """Returns the effective number of flags of the lower bound, shape (k,)."""
        flags, right, wrong = (each.at(ends) for each in (self.flags, self.right, self.wrong))
        found = _kish(flags)
        apart = flags.count == flags.clusters
        found[apart] = flags.count[apart]
        mostly_right = 2 * right.count >= flags.count
        rare_in = np.where(mostly_right, wrong.clusters, right.clusters)
        told = np.flatnonzero(~apart & (rare_in >= WRONG_CLUSTERS_MIN) & (flags.clusters >= 2))
        if told.size:
            by_kind = (wrong, mostly_right[told]), (right, ~mostly_right[told])
            rare_kish, rare_largest = np.zeros(told.size), np.zeros(told.size, dtype=np.int64)
            for tally, own in by_kind:
                rows = told[own]
                rare_kish[own] = _kish(tally.at(rows))
                rare_largest[own] = tally.largest[rows]
            df = np.maximum(1.0, np.minimum(rare_kish, found[told]) - 1.0)
            found[told] = self._by_variance(ends[told], rare_largest, df, alpha)
        return found

    def _by_variance(
        self, ends: IntArray, rare_largest: IntArray, df: FloatArray, alpha: float
    ) -> FloatArray:
        n = self.flags.count[ends]
        p = self.right.count[ends] / n
        # Python's own power, as in `precision_bounds`: numpy's multiplies.
        worst = np.array([share**2 for share in (rare_largest / n).tolist()])
        variance = self._jackknife_variances(ends) + worst
        ratio = normal_upper_quantile(alpha) / t_upper_quantile_array(alpha, df)
        found = np.maximum(1.0, p * (1.0 - p) / variance * ratio * ratio)
        return np.asarray(np.minimum(n.astype(np.float64), found), dtype=np.float64)

    def _jackknife_variances(self, ends: IntArray) -> FloatArray:
        rows = max(1, _CELLS // (int(self.codes.max()) + 1))
        parts = [self._jackknife(ends[at : at + rows]) for at in range(0, ends.size, rows)]
        p = self.right.count[ends] / self.flags.count[ends]
        least = p * (1.0 - p) / self.flags.count[ends]
        return np.maximum(np.concatenate(parts), least)

    def _jackknife(self, ends: IntArray) -> FloatArray:
        flags = self._by_cluster(ends, np.ones(self.codes.size, dtype=np.bool_))
        right = self._by_cluster(ends, self.is_right)
        held, count = flags > 0, self.flags.clusters[ends]
        without = np.divide(
            self.right.count[ends][:, None] - right,
            self.flags.count[ends][:, None] - flags,
            out=np.zeros(flags.shape),
            where=held,
        )
        # Clusters without a flag stay in the rows as zeros, which change no exact sum.
        means = _row_sums(without) / count
        apart = np.where(held, without - means[:, None], 0.0)
        return np.asarray((count - 1) / count * _row_sums(apart * apart), dtype=np.float64)

    def _by_cluster(self, ends: IntArray, kind: BoolArray) -> IntArray:
        """Returns the units of a kind of each cluster down to each place, shape (k, G)."""
        count = int(self.codes.max()) + 1
        own = np.flatnonzero(kind[: int(ends[-1]) + 1])
        row = np.searchsorted(ends, own)
        new = np.bincount(row * count + self.codes[own], minlength=ends.size * count)
        return np.cumsum(new.reshape(ends.size, count), axis=0, dtype=np.int64)


def falling_flags(labels: IntArray, clusters: IntArray) -> FallingFlags:
    """Counts units along their order, once for all thresholds.

    Args:
        labels: 0 or 1 per unit in the order of falling scores, shape (n,), n >= 1.
        clusters: integer code of each unit's cluster, shape (n,).
    """
    codes = np.unique(clusters, return_inverse=True)[1].astype(np.int64)
    is_right = labels == 1
    return FallingFlags(
        codes=codes,
        is_right=is_right,
        flags=_tally(codes, np.ones(codes.size, dtype=np.bool_)),
        right=_tally(codes, is_right),
        wrong=_tally(codes, ~is_right),
    )


def _tally(codes: IntArray, kind: BoolArray) -> _Tally:
    earlier = _earlier(codes[kind])

    def along(steps: IntArray | BoolArray) -> IntArray:
        placed = np.zeros(codes.size, dtype=np.int64)
        placed[kind] = steps
        return placed

    return _Tally(
        count=np.cumsum(kind, dtype=np.int64),
        clusters=np.cumsum(along(earlier == 0), dtype=np.int64),
        # One more of m in a cluster adds (m + 1)^2 - m^2.
        squares=np.cumsum(along(2 * earlier + 1), dtype=np.int64),
        largest=np.maximum.accumulate(along(earlier + 1)),
    )


def _earlier(codes: IntArray) -> IntArray:
    """Returns how many units of its cluster stand before each unit."""
    order = np.argsort(codes, kind="stable")
    sizes = np.bincount(codes)
    starts = np.repeat(np.cumsum(sizes) - sizes, sizes)
    found = np.empty(codes.size, dtype=np.int64)
    found[order] = np.arange(codes.size) - starts
    return found


def _kish(tally: _Tally) -> FloatArray:
    """Returns `effective_clusters` of the clusters that hold a unit, at each place."""
    count = tally.count.astype(np.float64)
    return np.asarray(count * count / np.maximum(tally.squares, 1), dtype=np.float64)


def _row_sums(table: FloatArray) -> FloatArray:
    return np.array([exact_sum(row) for row in table], dtype=np.float64)
