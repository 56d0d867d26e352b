"""McNemar's tests: exact values, symmetry, and the borders (FR-25)."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy import stats  # type: ignore[import-untyped]  # scipy ships no types

from fairtrial.analysis.clustered_mcnemar import clustered_mcnemar
from fairtrial.analysis.mcnemar import mcnemar_asymptotic, mcnemar_exact, mcnemar_midp
from fairtrial.analysis.values import Undetermined


@pytest.mark.parametrize(
    ("b", "c", "p"),
    [
        (0, 0, 1.0),
        (3, 3, 1.0),
        (0, 5, 0.0625),
        (0, 6, 0.03125),
        (1, 9, 0.021484375),
        (2, 10, 0.03857421875),
        (5, 15, 0.0413894653),
    ],
)
def test_exact_p_at_the_borders(b: int, c: int, p: float) -> None:
    """No division by zero, symmetric, never above 1."""
    assert mcnemar_exact(b, c) == pytest.approx(p, abs=1e-9)
    assert mcnemar_exact(b, c) == mcnemar_exact(c, b)


def test_exact_and_midp_follow_from_enumeration() -> None:
    """All splits up to 14 discordant pairs, against sums of binomial coefficients."""
    for m in range(15):
        for b in range(m + 1):
            low = min(b, m - b)
            tail = sum(math.comb(m, k) for k in range(low + 1)) / 2**m
            point = math.comb(m, b) / 2**m
            exact = min(1.0, 2.0 * tail)
            midp = 1.0 if m == 0 else 1.0 - point / 2 if b == m - b else 2.0 * tail - point
            assert mcnemar_exact(b, m - b) == pytest.approx(exact, abs=1e-12)
            assert mcnemar_midp(b, m - b) == pytest.approx(midp, abs=1e-12)
            assert 0.0 < mcnemar_midp(b, m - b) <= mcnemar_exact(b, m - b) <= 1.0


def test_exact_p_agrees_with_the_binomial_test() -> None:
    """Large counts, against scipy.stats."""
    for b, c in ((400, 461), (59, 113), (10_000, 10_400)):
        assert mcnemar_exact(b, c) == pytest.approx(stats.binomtest(b, b + c).pvalue, rel=1e-8)


def test_asymptotic_form_is_the_chi_square() -> None:
    """With and without continuity correction, and without any discordance."""
    plain, corrected = (
        mcnemar_asymptotic(10, 24),
        mcnemar_asymptotic(10, 24, continuity_correction=True),
    )
    assert plain.statistic == pytest.approx(14**2 / 34)
    assert corrected.statistic == pytest.approx(13**2 / 34)
    assert plain.p_value == pytest.approx(stats.chi2.sf(14**2 / 34, 1))
    assert mcnemar_asymptotic(0, 0).p_value == 1.0
    assert mcnemar_asymptotic(4, 4, continuity_correction=True).p_value == 1.0


def test_negative_counts_are_refused() -> None:
    """Counts are counts."""
    for function in (mcnemar_exact, mcnemar_midp, mcnemar_asymptotic):
        with pytest.raises(ValueError, match="at least 0"):
            function(-1, 3)


def test_clustered_family_of_singletons_is_near_mcnemar() -> None:
    """One pair a cluster: Durkalski and McNemar are the same number."""
    b, c = np.array([1] * 7 + [0] * 23), np.array([0] * 7 + [1] * 15 + [0] * 8)
    a, d = np.zeros(30, dtype=np.int64), 1 - b - c
    family = clustered_mcnemar(a, b, c, d)
    assert not isinstance(family.durkalski, Undetermined)
    assert not isinstance(family.obuchowski, Undetermined)
    assert family.durkalski.statistic == pytest.approx(family.mcnemar.statistic)
    assert family.obuchowski.statistic == pytest.approx(family.mcnemar.statistic * 29 / 30)


def test_clustered_family_without_discordance_is_undetermined() -> None:
    """Nothing to divide by."""
    zeros, ones = np.zeros(5, dtype=np.int64), np.ones(5, dtype=np.int64)
    family = clustered_mcnemar(ones, zeros, zeros, ones)
    assert family.mcnemar.p_value == 1.0
    assert isinstance(family.yang, Undetermined)
    assert isinstance(family.durkalski, Undetermined)
