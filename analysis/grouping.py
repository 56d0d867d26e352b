"""Sums per cluster, exact whatever the order of the units.

Job: reduce (value, cluster) arrays to one sum and one size per cluster. Leaves what is done with
the sums to `paired`, `intervals` and `resampling`.

Rules:
    - Each sum is the correctly rounded sum of its values (`math.fsum`, or numbers on a grid where
      float64 addition is exact), so any permutation of the units gives the same bits.
    - The order of the clusters in the result follows their codes and carries no meaning: whoever
      adds over clusters uses `math.fsum` again.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

__all__ = (
    "FloatArray",
    "Groups",
    "IntArray",
    "check_cluster_lists",
    "cluster_sizes",
    "compact_codes",
    "effective_clusters",
    "exact_mean",
    "exact_sum",
    "group",
    "on_grid",
    "sums_by_code",
)

FloatArray = npt.NDArray[np.float64]
IntArray = npt.NDArray[np.int64]

_EXACT_INTEGERS = 2.0**53
# Squares of larger values would overflow.
_LARGEST = 1e150
_FEW = 256
# Each part holds over 30 bits; numbers that differ more in size take the slow way.
_PARTS_MAX = 4
_BITS = 53


@dataclass(frozen=True, kw_only=True, eq=False)
class Groups:
    """Holds what the cluster-robust formulas need of n units in G clusters.

    Attributes:
        sums: sum of the values of each cluster, shape (G,).
        sizes: units of each cluster, shape (G,), as float64.
        codes: place of each unit's cluster in `sums`, shape (n,).
        total: sum of all values.
        squares: sum of the squared deviations from the mean.
        largest: largest absolute value.
        n: number of units.
    """

    sums: FloatArray
    sizes: FloatArray
    codes: IntArray
    total: float
    squares: float
    largest: float
    n: int


def group(values: FloatArray, clusters: IntArray) -> Groups:
    """Groups values by cluster.

    Args:
        values: shape (n,), finite, at most 1e150 in size, n >= 1.
        clusters: integer code of each unit's cluster, shape (n,); any integers.
    """
    values, clusters = _check_group(values, clusters)
    codes, count = compact_codes(clusters)
    sizes = np.bincount(codes, minlength=count).astype(np.float64)
    largest = float(np.max(np.abs(values)))
    exact = bool(np.all(values == np.rint(values))) and largest * values.size < _EXACT_INTEGERS
    sums = _integer_sums(values, codes, count) if exact else sums_by_code(values, codes, sizes)
    total = exact_sum(sums) if exact else exact_sum(values)
    deviations = values - total / values.size
    return Groups(
        sums=sums,
        sizes=sizes,
        codes=codes,
        total=total,
        squares=exact_sum(deviations * deviations),
        largest=largest,
        n=int(values.size),
    )


def exact_sum(values: FloatArray) -> float:
    """Returns the correctly rounded sum, the same for any order of `values`."""
    parts = _parts(values)
    if parts is None:
        return math.fsum(values.tolist())
    return math.fsum(float(part.sum()) for part in parts)


def exact_mean(values: FloatArray) -> float:
    """Returns the total of `group` over its number of units, the same bits without the grouping.

    Args:
        values: shape (n,), finite, at most 1e150 in size, n >= 1.
    """
    _check_size(values)
    return exact_sum(values) / int(values.size)


def on_grid(values: FloatArray, count: int) -> FloatArray:
    """Rounds values to multiples of a power of two so that any sum of `count` of them is exact.

    Whole numbers stay as they are while their sum stays below 2^53.

    Args:
        values: finite numbers, any shape.
        count: how many are added at most, 1 or more.
    """
    values = np.asarray(values, dtype=np.float64)
    largest = float(np.max(np.abs(values), initial=0.0))
    if largest == 0.0:
        return values + 0.0
    # frexp gives numbers below 2^exponent, so the sum stays within 53 bits of the grid.
    shift = _BITS - math.frexp(largest)[1] - math.frexp(count)[1]
    return np.asarray(np.ldexp(np.rint(np.ldexp(values, shift)), -shift), dtype=np.float64)


def cluster_sizes(clusters: IntArray) -> FloatArray:
    """Returns the number of units of each cluster, shape (G,), in the order of the codes."""
    codes, count = compact_codes(np.asarray(clusters))
    return np.bincount(codes, minlength=count).astype(np.float64)


def effective_clusters(sizes: FloatArray | IntArray) -> float:
    """Returns Kish's number of equal clusters that weigh like these, (sum m)^2 / sum m^2.

    Args:
        sizes: units per cluster, shape (G,), all above 0.
    """
    sizes = np.asarray(sizes, dtype=np.float64)
    return exact_sum(sizes) ** 2 / exact_sum(sizes * sizes)


def compact_codes(clusters: IntArray) -> tuple[IntArray, int]:
    """Returns the place of each unit's cluster among the sorted codes, and how many there are."""
    low, high = int(clusters.min()), int(clusters.max())
    if high - low < 4 * clusters.size:
        present = np.bincount(clusters - low) > 0
        places = np.cumsum(present) - 1
        return places[clusters - low].astype(np.int64), int(present.sum())
    names, codes = np.unique(clusters, return_inverse=True)
    return codes.astype(np.int64), int(names.size)


def _integer_sums(values: FloatArray, codes: IntArray, count: int) -> FloatArray:
    return np.bincount(codes, values, count).astype(np.float64)


def sums_by_code(values: FloatArray, codes: IntArray, sizes: FloatArray) -> FloatArray:
    """Returns the correctly rounded sum of the values of each code, shape (G,).

    Args:
        values: shape (n,).
        codes: 0 to G - 1, shape (n,).
        sizes: how many values each code has, shape (G,).
    """
    parts = _parts(values)
    if parts is not None:
        sums = [np.bincount(codes, part, sizes.size).tolist() for part in parts]
        return np.array([math.fsum(each) for each in zip(*sums, strict=True)])
    ordered = values[np.argsort(codes, kind="stable")].tolist()
    ends = np.cumsum(sizes).astype(np.int64).tolist()
    starts = [0, *ends[:-1]]
    return np.array([math.fsum(ordered[a:b]) for a, b in zip(starts, ends, strict=True)])


def _parts(values: FloatArray) -> list[FloatArray] | None:
    """Returns arrays that add up to `values` and each have exact sums; None where fsum is better.

    Sums of these arrays are exact in any order, so adding up the few sums exactly gives the same
    bits as `math.fsum` of all values, which has to look at each of them in Python.
    """
    if values.ndim != 1 or values.size < _FEW:
        return None
    largest = float(np.max(np.abs(values)))
    if not largest < _LARGEST:
        return None
    parts, rest = [], values
    for _ in range(_PARTS_MAX):
        parts.append(on_grid(rest, values.size))
        rest = rest - parts[-1]
        if not rest.any():
            return parts
    return None


def check_cluster_lists(
    cluster_sums: FloatArray, cluster_sizes: FloatArray, *, resamples: int
) -> tuple[FloatArray, FloatArray]:
    """Returns sums and sizes of clusters as arrays, fit to be resampled.

    Args:
        cluster_sums: sum of each cluster, shape (clusters,).
        cluster_sizes: units of each cluster, shape (clusters,).
        resamples: how many are asked for.

    Raises:
        ValueError: They aren't finite lists of one length, or there are fewer than 999 resamples.
    """
    sums = np.asarray(cluster_sums, dtype=np.float64)
    sizes = np.asarray(cluster_sizes, dtype=np.float64)
    if sums.ndim != 1 or sums.shape != sizes.shape or not np.all(np.isfinite(sums)):
        raise ValueError("cluster_sums, cluster_sizes: expected finite lists of one equal length")
    if resamples < 999:
        raise ValueError(f"resamples: expected at least 999, found {resamples}")
    return sums, sizes


def _check_group(values: FloatArray, clusters: IntArray) -> tuple[FloatArray, IntArray]:
    values = np.asarray(values, dtype=np.float64)
    clusters = np.asarray(clusters)
    if clusters.dtype.kind not in "iu" and clusters.size:
        raise TypeError(f"clusters: expected integer codes, found {clusters.dtype}")
    if values.ndim != 1 or values.shape != clusters.shape:
        raise ValueError(
            "values, clusters: expected two arrays of one equal length, "
            f"found shapes {values.shape} and {clusters.shape}"
        )
    if values.size == 0:
        raise ValueError("values: expected at least one unit, found none")
    _check_size(values)
    return values, clusters.astype(np.int64)


def _check_size(values: FloatArray) -> None:
    if not np.all(np.abs(values) <= _LARGEST):
        raise ValueError("values: expected finite numbers up to 1e150, found NaN or a larger one")
