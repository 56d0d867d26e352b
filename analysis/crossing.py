"""Crossing probabilities of a group-sequential statistic by recursive integration.

Job: given looks at information fractions t_k, Z_k ~ N(drift sqrt t_k, 1) with
Cov(Z_i, Z_j) = sqrt(t_i/t_j), the density of Z_k on paths that have not stopped, and the
probability to cross at each look. Leaves boundaries to `sequential`, inference after stopping to
`stagewise`.

Rules:
    - The density lives on Gauss-Legendre panels no wider than four standard deviations of the
      narrowest step beside it, so the error is near rounding, not a property of a grid.
    - Regions are cut nine standard deviations from the drift; the mass beyond is 1e-19.
    - Nothing is random; the order of operations is fixed, whatever the library's version.

Source:
    Armitage, McPherson and Rowe (1969); Jennison and Turnbull (2000), chapter 19, with other
    nodes than theirs.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from itertools import pairwise
from typing import Final

import numpy as np

from .distributions import normal_density_array, normal_sf, normal_sf_array
from .grouping import FloatArray

__all__ = ("Exit", "Paths", "advance", "begin", "exit_probability", "tail_above", "tail_below")

_NODES: Final = 20
_PANEL_SD: Final = 4.0
_CUT_SD: Final = 9.0
_PANELS_MAX: Final = 200
_NEWTON_STEPS: Final = 12


@dataclass(frozen=True, kw_only=True, eq=False)
class Paths:
    """Holds the sub-density of Z at `information` on paths that have not stopped.

    Attributes:
        nodes: values of Z, shape (m,); None before the first look.
        mass: density times quadrature weight at `nodes`, shape (m,).
        information: fraction t of the last look passed, 0 before the first.
        drift: mean of Z at t = 1.
    """

    nodes: FloatArray | None
    mass: FloatArray
    information: float
    drift: float


@dataclass(frozen=True, kw_only=True, slots=True)
class Exit:
    """Holds first-crossing probabilities per look, and their sum."""

    upper: tuple[float, ...]
    lower: tuple[float, ...]
    total: float


def exit_probability(
    critical_values: Sequence[float],
    information: Sequence[float],
    *,
    sides: int = 2,
    drift: float = 0.0,
) -> Exit:
    """Computes the probability of crossing first at each look.

    Args:
        critical_values: boundary z per look, infinite where a look cannot stop.
        information: rising fractions in (0, 1], one per look.
        sides: 2 for a symmetric boundary, 1 for the upper side alone.
        drift: mean of Z at t = 1.
    """
    critical_values = check_boundary(critical_values, information, sides)
    paths, upper, lower = begin(drift), [], []
    for k, (c, t) in enumerate(zip(critical_values, information, strict=True)):
        floor = -c if sides == 2 else -math.inf
        upper.append(tail_above(paths, t, c))
        lower.append(tail_below(paths, t, floor))
        paths = advance(paths, t, floor, c, next_information=_after(information, k))
    return Exit(upper=tuple(upper), lower=tuple(lower), total=math.fsum(upper) + math.fsum(lower))


def begin(drift: float = 0.0) -> Paths:
    """Returns the paths before the first look."""
    return Paths(nodes=None, mass=np.array([1.0]), information=0.0, drift=drift)


def tail_above(paths: Paths, information: float, z: float) -> float:
    """Returns P(not stopped before, Z at `information` >= z)."""
    if math.isinf(z):
        return 0.0 if z > 0.0 else _total(paths.mass)
    means, sd = _step(paths, information)
    if paths.nodes is None:
        return normal_sf((z - float(means[0])) / sd)
    return _total(paths.mass * normal_sf_array((z - means) / sd))


def tail_below(paths: Paths, information: float, z: float) -> float:
    """Returns P(not stopped before, Z at `information` <= z)."""
    if math.isinf(z):
        return 0.0 if z < 0.0 else _total(paths.mass)
    means, sd = _step(paths, information)
    if paths.nodes is None:
        return normal_sf((float(means[0]) - z) / sd)
    return _total(paths.mass * normal_sf_array((means - z) / sd))


def density_at(paths: Paths, information: float, z: float) -> float:
    """Returns the sub-density of Z at `information` in the point `z`."""
    means, sd = _step(paths, information)
    return _total(paths.mass * normal_density_array((z - means) / sd)) / sd


def advance(
    paths: Paths,
    information: float,
    lower: float,
    upper: float,
    *,
    next_information: float | None = None,
) -> Paths:
    """Passes a look: keeps the paths with lower < Z < upper.

    Args:
        paths: paths before the look.
        information: fraction of the look.
        lower: lower boundary, -inf for none.
        upper: upper boundary, inf for none.
        next_information: fraction of the look after it; a narrow step asks for more nodes.
    """
    means, sd = _step(paths, information)
    after = math.inf
    if next_information is not None:
        after = math.sqrt(max(next_information / information - 1.0, 1e-300))
    nodes, weights = _panels(paths, information, lower, upper, min(sd, after))
    scaled = (nodes[None, :] - means[:, None]) / sd
    # Over the first axis rows are added one after the other, in every version of the library.
    density = np.sum(normal_density_array(scaled) * paths.mass[:, None], axis=0) / sd
    return Paths(nodes=nodes, mass=density * weights, information=information, drift=paths.drift)


def check_boundary(
    critical_values: Sequence[float], information: Sequence[float], sides: int
) -> tuple[float, ...]:
    """Raises ValueError unless there is one number per look and the fractions rise in (0, 1]."""
    check_information(information)
    if len(critical_values) != len(information):
        raise ValueError(
            f"critical_values: expected one per look ({len(information)}), "
            f"found {len(critical_values)}"
        )
    if any(math.isnan(c) for c in critical_values):
        raise ValueError("critical_values: expected numbers, found NaN")
    if sides not in (1, 2):
        raise ValueError(f"sides: expected 1 or 2, found {sides}")
    return tuple(float(c) for c in critical_values)


def check_information(information: Sequence[float]) -> None:
    """Raises ValueError unless the fractions rise strictly within (0, 1]."""
    rising = all(a < b for a, b in pairwise(information))
    if not (information and rising and information[0] > 0.0 and information[-1] <= 1.0 + 1e-12):
        raise ValueError(
            f"information: expected fractions that rise within (0, 1], found {list(information)}"
        )


def _step(paths: Paths, information: float) -> tuple[FloatArray, float]:
    t, before = information, paths.information
    if paths.nodes is None:
        return np.array([paths.drift * math.sqrt(t)]), 1.0
    shift = paths.drift * (t - before) / math.sqrt(t)
    return paths.nodes * math.sqrt(before / t) + shift, math.sqrt((t - before) / t)


def _panels(
    paths: Paths, information: float, lower: float, upper: float, resolution: float
) -> tuple[FloatArray, FloatArray]:
    middle = paths.drift * math.sqrt(information)
    low, high = max(lower, middle - _CUT_SD), min(upper, middle + _CUT_SD)
    if high <= low:
        return np.array([middle]), np.array([0.0])
    count = min(_PANELS_MAX, max(1, math.ceil((high - low) / (_PANEL_SD * resolution))))
    points, weights = _legendre()
    half = 0.5 * (high - low) / count
    centres = low + half * (2.0 * np.arange(count) + 1.0)
    nodes = (centres[:, None] + half * points[None, :]).ravel()
    return nodes, np.tile(weights * half, count)


@cache
def _legendre() -> tuple[FloatArray, FloatArray]:
    """Returns nodes and weights of Gauss and Legendre on [-1, 1].

    By Newton's method in plain floats: a library's come from an eigenvalue routine whose last bits
    change with its version.
    """
    nodes, weights = [], []
    for k in range(_NODES, 0, -1):
        x, slope = math.cos(math.pi * (k - 0.25) / (_NODES + 0.5)), 1.0
        for _ in range(_NEWTON_STEPS):
            before, value = 1.0, x
            for n in range(2, _NODES + 1):
                before, value = value, ((2 * n - 1) * x * value - (n - 1) * before) / n
            slope = _NODES * (x * value - before) / (x * x - 1.0)
            x -= value / slope
        nodes.append(x)
        weights.append(2.0 / ((1.0 - x * x) * slope * slope))
    return np.array(nodes), np.array(weights)


def _total(values: FloatArray) -> float:
    """Returns the sum from first to last: the order of a library changes with its version."""
    return float(np.cumsum(values)[-1])


def _after(information: Sequence[float], k: int) -> float | None:
    return information[k + 1] if k + 1 < len(information) else None
