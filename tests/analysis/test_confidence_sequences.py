"""Sequences: coverage at all times at once by simulation, mirror images, and borders."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from fairtrial.analysis import confidence_sequences as cs
from fairtrial.analysis.anytime import SequenceMethod, deciding_sequence
from fairtrial.analysis.deciding import Deciding
from fairtrial.analysis.grouping import FloatArray
from fairtrial.analysis.values import Undetermined

Sequence = Callable[[FloatArray], cs.Limits]
SEQUENCES: list[Sequence] = [
    cs.hoeffding_predmix,
    cs.empirical_bernstein_predmix,
    cs.betting_hedged,
]


def _values(seed: int, n: int = 60) -> FloatArray:
    return np.random.default_rng(seed).beta(2.0, 3.0, n)


@pytest.mark.parametrize("sequence", SEQUENCES)
def test_limits_only_ever_close_in(sequence: Sequence) -> None:
    """Running intersections inside [0, 1] that always hold something."""
    for seed in range(5):
        found = sequence(_values(seed))
        assert np.all(np.diff(found.lower) >= 0.0)
        assert np.all(np.diff(found.upper) <= 0.0)
        assert np.all(found.lower < found.upper)
        assert found.lower[0] >= 0.0
        assert found.upper[0] <= 1.0


@pytest.mark.parametrize("sequence", SEQUENCES)
def test_mirrored_values_mirror_the_limits(sequence: Sequence) -> None:
    """1 - x swaps the limits."""
    x = _values(3)
    there, back = sequence(x), sequence(1.0 - x)
    assert there.lower == pytest.approx(1.0 - back.upper, abs=5e-4)


@pytest.mark.parametrize("sequence", SEQUENCES)
def test_a_stop_at_any_time_keeps_the_level(sequence: Sequence) -> None:
    """The true mean leaves the sequence at some time in at most 5 % of 400 runs (plus error)."""
    missed = 0
    for seed in range(400):
        x = (np.random.default_rng(seed).random(80) < 0.3).astype(np.float64)
        found = sequence(x)
        missed += bool(found.lower[-1] > 0.3 or found.upper[-1] < 0.3)
    assert missed / 400 <= 0.05 + 2.0 * math.sqrt(0.05 * 0.95 / 400)


def test_an_impossible_run_keeps_the_last_interval() -> None:
    """When a drift empties the intersection, the last non-empty one stays."""
    x = np.concatenate([np.zeros(400), np.ones(4000)])
    for sequence in SEQUENCES:
        found = sequence(x)
        assert np.all(found.lower <= found.upper)


def test_bounded_mean_scales_to_its_range() -> None:
    """Differences in [-1, 1]: the interval of the mapped values, mapped back."""
    values = np.full(30, 0.0)
    found = cs.bounded_mean(values, low=-1.0, high=1.0)
    assert -1.0 <= found.lower < 0.0 < found.upper <= 1.0
    inner = cs.betting_hedged(np.full(30, 0.5))
    assert (found.lower, found.upper) == pytest.approx(
        (2.0 * inner.lower[-1] - 1.0, 2.0 * inner.upper[-1] - 1.0)
    )


def test_eprocess_is_the_mixture_of_likelihood_ratios() -> None:
    """Beta(1/2, 1/2) integrated on a grid over theta = sin^2; symmetric; 0 without pairs."""
    phi = (np.arange(200_000) + 0.5) / 200_000 * math.pi / 2.0
    theta = np.sin(phi) ** 2
    for b, c in ((3, 11), (0, 8), (20, 25)):
        ratio = np.mean(2.0 ** (b + c) * theta**c * (1.0 - theta) ** b)
        assert cs.mcnemar_eprocess(b, c).log_e == pytest.approx(math.log(ratio), abs=1e-6)
        assert cs.mcnemar_eprocess(b, c).log_e == pytest.approx(cs.mcnemar_eprocess(c, b).log_e)
    assert cs.mcnemar_eprocess(0, 0).p_value == 1.0


def test_eprocess_never_misleads_on_average() -> None:
    """Under equal chances the expected e-value of n pairs is 1, by enumeration."""
    for n in (1, 5, 30):
        mean = sum(
            math.comb(n, b) / 2**n * math.exp(cs.mcnemar_eprocess(b, n - b).log_e)
            for b in range(n + 1)
        )
        assert mean == pytest.approx(1.0)


def test_mixture_bound_and_asymptotic_widths_shrink_as_they_should() -> None:
    """The boundary grows slower than time; the asymptotic width falls with n, best near n_opt."""
    bounds = [cs.normal_mixture_bound(v, alpha=0.05, v_opt=100.0) for v in (0.0, 50.0, 200.0)]
    assert bounds == sorted(bounds)
    assert bounds[2] / 200.0 < bounds[1] / 50.0
    rho = cs.asymptotic_rho(500.0)
    widths = [cs.asymptotic(0.0, 1.0, n, rho=rho).upper for n in (100, 500, 2000)]
    assert widths == sorted(widths, reverse=True)
    best = cs.asymptotic(0.0, 1.0, 500, rho=rho).upper
    for other in (0.5 * rho, 2.0 * rho):
        assert best <= cs.asymptotic(0.0, 1.0, 500, rho=other).upper


@pytest.mark.parametrize(
    "call",
    [
        lambda: cs.betting_hedged(np.array([1.2])),
        lambda: cs.hoeffding_predmix(np.array([])),
        lambda: cs.betting_hedged(np.array([0.2]), alpha=0.0),
        lambda: cs.bounded_mean(np.array([0.2]), low=1.0, high=0.0),
        lambda: cs.asymptotic(0.0, 1.0, 0, rho=0.1),
        lambda: cs.asymptotic_rho(0.0),
        lambda: cs.normal_mixture_bound(1.0, alpha=0.6, v_opt=1.0),
        lambda: cs.mcnemar_eprocess(-1, 0),
    ],
)
def test_bad_arguments_are_value_errors(call: object) -> None:
    """Values outside their bounds."""
    assert callable(call)
    with pytest.raises(ValueError, match="expected"):
        call()


def test_share_is_rejected_where_its_mixture_says_so() -> None:
    """A share's limits are where its e-value is 1/alpha; at one half that is McNemar's."""
    flips = np.random.default_rng(2).random(60) < 0.7
    counts, trials = np.cumsum(flips).astype(float), np.arange(1.0, 61.0)
    found = cs.beta_sequence(counts, trials, alpha=0.05)
    for k in range(60):
        s, n = counts[k], trials[k]
        mixed = math.lgamma(s + 0.5) + math.lgamma(n - s + 0.5) - math.lgamma(n + 1.0)
        grid = np.linspace(1e-4, 1.0 - 1e-4, 4_001)
        log_e = mixed - math.log(math.pi) - s * np.log(grid) - (n - s) * np.log1p(-grid)
        kept = grid[log_e < math.log(20.0)]
        now = cs.beta_sequence(counts[k : k + 1], trials[k : k + 1], alpha=0.05)
        assert now.lower[0] == pytest.approx(kept[0], abs=6e-4)
        assert now.upper[0] == pytest.approx(kept[-1], abs=6e-4)
        rejected = cs.mcnemar_eprocess(int(n - s), int(s)).log_e >= math.log(20.0)
        assert rejected == (now.lower[0] >= 0.5 or now.upper[0] <= 0.5)
        assert found.lower[k] >= now.lower[0]


@pytest.mark.slow
@pytest.mark.parametrize("method", ["beta", "asymptotic", "empirical_bernstein"])
@pytest.mark.parametrize("effect", [0.0, 0.1])
def test_continuous_monitoring_keeps_the_level(method: SequenceMethod, effect: float) -> None:
    """With a look after each of 300 units at most 5 % of runs ever leave out the truth."""
    missed, rng = 0, np.random.default_rng([5, round(100 * effect)])
    for _ in range(200):
        draws = rng.random(300)
        wins = draws < 0.15 + effect / 2.0
        losses = draws > 1.0 - 0.15 + effect / 2.0
        found = deciding_sequence(
            wins.astype(float) - losses.astype(float),
            np.arange(300),
            method=method,
            bounds=(0.0, 1.0),
            alpha=0.05,
            first=100,
        )
        assert isinstance(found, Deciding)
        # Limits are running intersections: the last ones have left out what any look left out.
        missed += not found.lower <= effect <= found.upper
    assert missed <= 17  # 10 expected at most; 17 has a chance of one in fifty


@pytest.mark.slow
@pytest.mark.parametrize("method", ["beta", "asymptotic", "empirical_bernstein"])
@pytest.mark.parametrize("size", [1, 10])
def test_rare_differences_are_no_proof_of_a_margin(method: SequenceMethod, size: int) -> None:
    """Where 3 % of units differ, all for the worse and clusters as one, few runs deny it."""
    if method == "beta" and size > 1:
        return
    missed, rng = 0, np.random.default_rng([6, size])
    for _ in range(200):
        shares = rng.beta(0.07, 2.2633, 300) if size > 1 else np.full(300, 0.03)
        differences = -(rng.random((300, size)) < shares[:, None]).astype(float)
        found = deciding_sequence(
            differences.ravel(),
            np.repeat(np.arange(300), size),
            method=method,
            bounds=(0.0, 1.0),
            alpha=0.05,
            first=100,
        )
        missed += isinstance(found, Deciding) and found.lower > -0.03
    assert missed <= 10  # 5 expected at most


def test_asymptotic_limits_wait_for_enough_differences() -> None:
    """24 differing clusters of 400 leave them undetermined, 25 don't; one large adds no other."""
    differences = np.zeros(400)
    differences[:24] = [-1.0, 1.0] * 12

    def found(values: FloatArray) -> object:
        return deciding_sequence(
            values,
            np.arange(400),
            method="asymptotic",
            bounds=(0.0, 1.0),
            alpha=0.05,
            first=100,
        )

    few = found(differences)
    assert isinstance(few, Undetermined)
    assert "25 clusters" in few.reason
    assert isinstance(found(np.where(np.arange(400) == 300, 1.0, differences)), Deciding)
    tiny = np.where(np.arange(400) < 24, 0.001, 0.0005)
    assert isinstance(found(tiny), Deciding)
    # The first stays large, so that small ones never weigh like 25.
    assert isinstance(found(np.where(np.arange(400) == 0, 1.0, tiny)), Undetermined)


def test_whole_number_bounds_are_the_same_bounds() -> None:
    """Ends of a range, values and counts as integers give what they give as floats."""
    whole: Any = np.random.default_rng(8).integers(-1, 2, 150)
    values = whole.astype(np.float64)
    one = cs.asymptotic_sequence(whole, first=100, low=-1, high=1)
    other = cs.asymptotic_sequence(values, first=100, low=-1.0, high=1.0)
    assert (one.lower.tolist(), one.upper.tolist()) == (other.lower.tolist(), other.upper.tolist())
    assert -1.0 < one.lower[-1] < 0.0 < one.upper[-1] < 1.0
    assert cs.bounded_mean(values, low=-1, high=1) == cs.bounded_mean(values, low=-1.0, high=1.0)
    yes: Any = (whole > 0).astype(np.int64)
    for sequence in SEQUENCES:
        assert sequence(yes).upper.tolist() == sequence(yes.astype(float)).upper.tolist()
    counts, trials = np.cumsum(yes), np.arange(1, 151)
    share = cs.beta_sequence(counts, trials).lower.tolist()
    assert share == cs.beta_sequence(counts.astype(float), trials.astype(float)).lower.tolist()
    methods: tuple[SequenceMethod, ...] = ("beta", "asymptotic", "betting", "empirical_bernstein")
    for method in methods:
        ends = [
            deciding_sequence(
                values, np.arange(150), method=method, bounds=bounds, alpha=0.05, first=100
            )
            for bounds in ((0, 1), (0.0, 1.0))
        ]
        assert ends[0] == ends[1]


def test_swapped_arms_mirror_every_sequence() -> None:
    """Limits of the negated differences are the negated limits."""
    gaps = np.random.default_rng(9).integers(-1, 2, 150).astype(np.float64)
    methods: tuple[SequenceMethod, ...] = ("beta", "asymptotic", "betting", "empirical_bernstein")
    for method in methods:
        one, other = (
            deciding_sequence(
                values, np.arange(150), method=method, bounds=(0.0, 1.0), alpha=0.05, first=100
            )
            for values in (gaps, -gaps)
        )
        assert isinstance(one, Deciding)
        assert isinstance(other, Deciding)
        assert (one.lower, one.upper) == pytest.approx((-other.upper, -other.lower), abs=1e-9)
