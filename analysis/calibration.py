"""Calibration of scores: Platt, isotonic, and how far probabilities are off.

Job: fit a sigmoid or a rising step function from scores to labels, and Brier score, log loss and
expected calibration error. Leaves which units a fit may see (training folds of whole clusters) to
the caller.

Rules:
    - Deterministic; ties of a score are averaged before an isotonic fit.
    - Labels are 0 or 1, probabilities lie in [0, 1].

Source:
    Platt (1999) with the smoothed targets, minimised as in Lin, Lin and Weng (2007); Ayer et al.
    (1955) for pool-adjacent-violators; Naeini, Cooper and Hauskrecht (2015) for ECE.
"""

from __future__ import annotations

import math
from bisect import bisect_right
from dataclasses import dataclass
from typing import Final

import numpy as np

from .grouping import FloatArray, IntArray, exact_sum
from .values import Undetermined

__all__ = ("Isotonic", "Platt", "brier", "ece", "isotonic", "log_loss", "platt")

_STEPS: Final = 200


@dataclass(frozen=True, kw_only=True, slots=True)
class Platt:
    """Holds a fitted sigmoid: probability = 1 / (1 + exp(-(slope score + intercept)))."""

    slope: float
    intercept: float

    def probability(self, score: float) -> float:
        """Returns the calibrated probability of a score."""
        value = self.slope * score + self.intercept
        if value >= 0.0:
            return 1.0 / (1.0 + math.exp(-value))
        return math.exp(value) / (1.0 + math.exp(value))


@dataclass(frozen=True, kw_only=True, slots=True)
class Isotonic:
    """Holds a rising fit at the distinct scores."""

    knots: tuple[float, ...]
    fitted: tuple[float, ...]

    def probability(self, score: float) -> float:
        """Returns the fit at a score: that of the last knot up to it, the first's below all."""
        return self.fitted[max(0, bisect_right(self.knots, score) - 1)]


def platt(scores: FloatArray, labels: IntArray) -> Platt | Undetermined:
    """Fits Platt's sigmoid.

    Args:
        scores: shape (n,), finite.
        labels: 0 or 1, shape (n,), both present.
    """
    x, y = _check_labels(scores, labels)
    ones = int(y.sum())
    if ones in (0, y.size):
        return Undetermined("both labels are needed for a calibration")
    target = np.where(y == 1.0, (ones + 1.0) / (ones + 2.0), 1.0 / (y.size - ones + 2.0))
    weights = np.array([0.0, math.log((ones + 1.0) / (y.size - ones + 1.0))])
    design = np.stack([x, np.ones_like(x)], axis=1)
    loss = _cross_entropy(design, weights, target)
    for _ in range(_STEPS):
        step = _newton_step(design, weights, target)
        scale, before = 1.0, loss
        # Near the minimum a whole step changes the loss by less than rounding, either way.
        limit = loss * (1.0 + 1e-14)
        loss = _cross_entropy(design, weights + step, target)
        while loss > limit and scale > 1e-10:
            scale *= 0.5
            loss = _cross_entropy(design, weights + scale * step, target)
        weights = weights + scale * step
        small = 1e-12 * (1.0 + float(np.max(np.abs(weights))))
        if loss >= before or float(np.max(np.abs(step))) < small:
            break
    return Platt(slope=float(weights[0]), intercept=float(weights[1]))


def isotonic(x: FloatArray, y: FloatArray | IntArray) -> Isotonic:
    """Fits the rising function nearest to `y` in squares, by pooling adjacent violators.

    Args:
        x: scores, shape (n,), n >= 1.
        y: labels or values, shape (n,).
    """
    scores, values = _check_pair(x, y)
    knots, places = np.unique(scores, return_inverse=True)
    sizes = np.bincount(places).astype(np.float64)
    sums = np.bincount(places, values)
    blocks: list[tuple[float, float, int]] = []
    for total, size in zip(sums.tolist(), sizes.tolist(), strict=True):
        blocks.append((total, size, 1))
        while len(blocks) > 1 and blocks[-2][0] * blocks[-1][1] >= blocks[-1][0] * blocks[-2][1]:
            last, before = blocks.pop(), blocks.pop()
            blocks.append((before[0] + last[0], before[1] + last[1], before[2] + last[2]))
    fitted = [total / size for total, size, count in blocks for _ in range(count)]
    return Isotonic(knots=tuple(knots.tolist()), fitted=tuple(fitted))


def brier(probabilities: FloatArray, labels: IntArray) -> float:
    """Returns the mean squared distance of probability and label, shape (n,) each."""
    p, y = _check_probabilities(probabilities, labels)
    return exact_sum((p - y) ** 2) / p.size


def log_loss(probabilities: FloatArray, labels: IntArray) -> float | Undetermined:
    """Returns the mean negative log likelihood; infinite losses are `Undetermined`."""
    p, y = _check_probabilities(probabilities, labels)
    given = np.where(y == 1.0, p, 1.0 - p)
    if np.any(given == 0.0):
        return Undetermined("an impossible outcome happened: a probability of 0 or 1 was wrong")
    return -exact_sum(np.log(given)) / p.size


def ece(probabilities: FloatArray, labels: IntArray, *, bins: int = 10) -> float:
    """Returns the expected calibration error over equal bins [k/b, (k+1)/b), the last closed."""
    p, y = _check_probabilities(probabilities, labels)
    if bins < 1:
        raise ValueError(f"bins: expected at least 1, found {bins}")
    edges = np.arange(1, bins) / bins
    places = np.searchsorted(edges, p, side="right")
    gaps = np.bincount(places, p - y, minlength=bins)
    return exact_sum(np.abs(gaps)) / p.size


def _cross_entropy(design: FloatArray, weights: FloatArray, target: FloatArray) -> float:
    value = design[:, 0] * weights[0] + weights[1]
    return exact_sum(np.logaddexp(0.0, value) - target * value)


def _newton_step(design: FloatArray, weights: FloatArray, target: FloatArray) -> FloatArray:
    value = design[:, 0] * weights[0] + weights[1]
    p = np.exp(-np.logaddexp(0.0, -value))
    slope = p * (1.0 - p)
    gradient = [exact_sum((target - p) * column) for column in design.T]
    a, b, c = (
        exact_sum(slope * design[:, 0] ** 2),
        exact_sum(slope * design[:, 0]),
        exact_sum(slope),
    )
    # A ridge far below rounding of the sums keeps a constant score solvable.
    a, c = a + 1e-12, c + 1e-12
    determinant = a * c - b * b
    first = (c * gradient[0] - b * gradient[1]) / determinant
    second = (a * gradient[1] - b * gradient[0]) / determinant
    return np.array([first, second])


def _check_pair(x: FloatArray, y: FloatArray | IntArray) -> tuple[FloatArray, FloatArray]:
    first, second = np.asarray(x, dtype=np.float64), np.asarray(y, dtype=np.float64)
    if first.ndim != 1 or first.shape != second.shape or first.size == 0:
        raise ValueError("expected two arrays of one equal length above 0")
    if not (np.all(np.isfinite(first)) and np.all(np.isfinite(second))):
        raise ValueError("expected finite numbers, found NaN or an infinity")
    return first, second


def _check_labels(scores: FloatArray, labels: IntArray) -> tuple[FloatArray, FloatArray]:
    x, y = _check_pair(scores, labels)
    if not np.all((y == 0.0) | (y == 1.0)):
        raise ValueError("labels: expected each to be 0 or 1")
    return x, y


def _check_probabilities(
    probabilities: FloatArray, labels: IntArray
) -> tuple[FloatArray, FloatArray]:
    p, y = _check_labels(probabilities, labels)
    if not np.all((p >= 0.0) & (p <= 1.0)):
        raise ValueError("probabilities: expected each in [0, 1]")
    return p, y
