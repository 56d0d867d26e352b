"""The sign-flip test: every pattern counted, seeded above, and indifferent to order."""

from __future__ import annotations

import math
from itertools import product

import numpy as np
import pytest

from fairtrial.analysis.randomness import STREAM_SIGN_FLIP, indices, signs, words
from fairtrial.analysis.signflip import min_attainable_p, sign_flip

WORDS = [0x764C43EA45E88B4B, 0xE168526C616D4DF5, 0x6ECA97593281C707, 0x68683D3AF30B4523]


def _brute(sums: list[float]) -> float:
    observed = abs(math.fsum(sums))
    totals = [
        abs(math.fsum(s * x for s, x in zip(flips, sums, strict=True)))
        for flips in product((-1.0, 1.0), repeat=len(sums))
    ]
    return sum(total >= observed - 1e-9 for total in totals) / len(totals)


@pytest.mark.parametrize("seed", range(8))
def test_exact_p_counts_every_pattern(seed: int) -> None:
    """Whole numbers (many ties) and decimals, one to nine clusters."""
    rng = np.random.default_rng(seed)
    for count in range(1, 10):
        for sums in (rng.integers(-4, 5, count).astype(float), rng.normal(size=count)):
            found = sign_flip(sums, seed=1)
            assert found.exact
            assert found.p_value == pytest.approx(_brute(sums.tolist()), abs=1e-12)


def test_all_one_way_gives_the_smallest_attainable_p() -> None:
    """Five clusters can never give less than 0.0625."""
    for count in range(1, 12):
        assert sign_flip(np.ones(count), seed=1).p_value == min_attainable_p(count)
    assert min_attainable_p(6) == 0.03125


def test_no_difference_gives_one() -> None:
    """Zero sums, or no cluster that differs."""
    assert sign_flip(np.zeros(20), seed=1).p_value == 1.0
    assert sign_flip(np.array([]), seed=1).p_value == 1.0


def test_zero_clusters_change_nothing() -> None:
    """A cluster without a difference doubles patterns and hits alike."""
    sums = np.array([3.0, -1.0, 2.0, 2.0])
    assert sign_flip(sums, seed=1) == sign_flip(np.append(sums, np.zeros(40)), seed=1)


def test_monte_carlo_is_near_the_normal_limit_and_never_zero() -> None:
    """200 clusters: p close to the normal tail; an overwhelming effect keeps (0 + 1)/(B + 1)."""
    sums = np.random.default_rng(3).normal(0.1, 1.0, 200)
    found = sign_flip(sums, seed=7)
    z = abs(sums.sum()) / math.sqrt(float(np.sum(sums**2)))
    assert not found.exact
    assert found.p_value == pytest.approx(math.erfc(z / math.sqrt(2.0)), abs=0.015)
    assert sign_flip(np.ones(50), seed=7).p_value == 1.0 / 10_000.0


def test_order_direction_and_names_do_not_matter() -> None:
    """Monte Carlo too: the same patterns are drawn for the same magnitudes."""
    rng = np.random.default_rng(5)
    sums = rng.normal(size=40)
    first = sign_flip(sums, seed=11)
    assert first == sign_flip(rng.permutation(sums), seed=11)
    assert first == sign_flip(-sums, seed=11)
    assert first == sign_flip(sums, seed=11)
    assert first != sign_flip(sums, seed=12)


def test_words_are_the_published_philox_stream() -> None:
    """The raw words behind every draw, fixed for good: replay depends on them."""
    first = words(4, seed=20261129, stream=STREAM_SIGN_FLIP).tolist()
    assert first == words(8, seed=20261129, stream=STREAM_SIGN_FLIP).tolist()[:4]
    assert WORDS == first


def test_rows_may_be_drawn_in_any_chunks() -> None:
    """Row r is the same whether drawn alone or with others."""
    whole = signs(10, 300, seed=5, stream=1)
    split = np.concatenate(
        [signs(4, 300, seed=5, stream=1), signs(6, 300, seed=5, stream=1, first_row=4)]
    )
    assert np.array_equal(whole, split)
    drawn = indices(10, 21, 7, seed=5, stream=1)
    again = np.concatenate(
        [indices(3, 21, 7, seed=5, stream=1), indices(7, 21, 7, seed=5, stream=1, first_row=3)]
    )
    assert np.array_equal(drawn, again)


def test_draws_are_uniform() -> None:
    """Signs balance and each index is equally likely, within five standard errors."""
    flips = signs(2000, 50, seed=9, stream=1)
    assert set(np.unique(flips).tolist()) == {-1, 1}
    assert abs(float(flips.mean())) < 5.0 / math.sqrt(flips.size)
    counts = np.bincount(indices(2000, 50, 7, seed=9, stream=3).ravel(), minlength=7)
    expected = 100_000 / 7
    assert counts.size == 7
    assert np.all(np.abs(counts - expected) < 5.0 * math.sqrt(expected))


def test_bad_arguments_are_refused() -> None:
    """Too few resamples, infinite sums, seeds out of range, no cluster."""
    with pytest.raises(ValueError, match="999"):
        sign_flip(np.ones(3), seed=1, resamples=10)
    with pytest.raises(ValueError, match="finite"):
        sign_flip(np.array([math.inf]), seed=1)
    with pytest.raises(ValueError, match="seed"):
        words(1, seed=-1, stream=0)
    with pytest.raises(ValueError, match="below"):
        indices(1, 1, 0, seed=1, stream=0)
    with pytest.raises(ValueError, match="at least 1"):
        min_attainable_p(0)
