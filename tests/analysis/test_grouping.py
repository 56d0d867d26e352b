"""Sums per cluster: correctly rounded, whatever the numbers and their order."""

from __future__ import annotations

import math

import numpy as np
import pytest

from fairtrial.analysis.grouping import (
    FloatArray,
    exact_mean,
    exact_sum,
    group,
    on_grid,
    sums_by_code,
)


def numbers(seed: int, kind: str, size: int) -> FloatArray:
    """Returns numbers of one kind."""
    rng = np.random.default_rng(seed)
    signs = rng.choice([-1.0, 1.0], size)
    kinds: dict[str, FloatArray] = {
        "uniform": rng.random(size),
        "normal": rng.normal(size=size),
        "skewed": np.exp(rng.normal(0.0, 3.0, size)),
        "apart": signs * np.exp(rng.uniform(-600.0, 300.0, size)),
        "tiny": signs * 5e-324 * rng.integers(0, 9, size),
        "huge": signs * rng.random(size) * 1e303,
        "cancelling": np.r_[signs * 1e16, -signs * 1e16 + rng.random(size)],
    }
    return kinds[kind]


@pytest.mark.parametrize("size", [3, 300, 5_000])
@pytest.mark.parametrize(
    "kind", ["uniform", "normal", "skewed", "apart", "tiny", "huge", "cancelling"]
)
def test_sums_are_correctly_rounded(kind: str, size: int) -> None:
    """Each sum is `math.fsum` of its values to the last bit."""
    values = numbers(1, kind, size)
    codes = np.random.default_rng(2).integers(0, 7, values.size)
    sizes = np.bincount(codes, minlength=7).astype(np.float64)
    assert math.fsum(values.tolist()) == exact_sum(values)
    expected = [math.fsum(values[codes == code].tolist()) for code in range(7)]
    assert expected == sums_by_code(values, codes, sizes).tolist()


def test_grid_keeps_whole_numbers_and_makes_sums_exact() -> None:
    """Whole numbers stay; a sum of numbers on the grid has the same bits in every order."""
    whole = np.arange(-500.0, 500.0)
    assert whole.tolist() == on_grid(whole, 1_000).tolist()
    values = on_grid(numbers(3, "normal", 4_000), 4_000)
    for seed in range(5):
        order = np.random.default_rng(seed).permutation(4_000)
        assert math.fsum(values.tolist()) == float(np.cumsum(values[order])[-1])


@pytest.mark.parametrize("scale", [1.0, 0.1, 1e-200, 1e130])
@pytest.mark.parametrize("count", [1, 90, 700])
def test_mean_has_the_bits_of_the_grouped_total(scale: float, count: int) -> None:
    """Whole numbers, fractions and numbers far apart have one mean, with clusters or without."""
    rng = np.random.default_rng(count)
    clusters = rng.integers(0, 9, count)
    drawn: list[FloatArray] = [
        rng.integers(-3, 4, count).astype(np.float64),
        rng.normal(size=count),
        np.exp(rng.normal(0.0, 9.0, count)),
    ]
    for each in drawn:
        values = np.asarray(scale * each, dtype=np.float64)
        groups = group(values, clusters)
        assert groups.total / groups.n == exact_mean(values)
    with pytest.raises(ValueError, match="1e150"):
        exact_mean(np.array([1.0, 1e151]))
