"""Adjusted p: against closed testing and scipy, and ordered procedures step by step."""

from __future__ import annotations

from itertools import combinations, pairwise

import numpy as np
import pytest
from scipy import stats  # type: ignore[import-untyped]  # scipy ships no types

from fairtrial.analysis.multiplicity import Adjustment, adjust_p, fallback, fixed_sequence

METHODS: tuple[Adjustment, ...] = ("benjamini_hochberg", "hochberg", "holm", "bonferroni")


def _closed(p: list[float]) -> list[float]:
    """Holm is the closure of Bonferroni: the largest local p of all sets that hold a hypothesis."""
    sets = [s for r in range(1, len(p) + 1) for s in combinations(range(len(p)), r)]
    return [
        min(1.0, max(len(s) * min(p[j] for j in s) for s in sets if i in s)) for i in range(len(p))
    ]


@pytest.mark.parametrize("seed", range(6))
def test_holm_is_closed_testing(seed: int) -> None:
    """Every intersection hypothesis, for up to six p."""
    p = np.round(np.random.default_rng(seed).random(6) ** 2, 3).tolist()
    assert adjust_p(p) == pytest.approx(_closed(p))


@pytest.mark.parametrize("seed", range(6))
def test_methods_are_ordered_and_keep_the_order_of_p(seed: int) -> None:
    """Benjamini-Hochberg <= Hochberg <= Holm <= Bonferroni; smaller p stay smaller."""
    p = np.random.default_rng(seed).random(7).tolist()
    found = [adjust_p(p, method) for method in METHODS]
    for low, high in pairwise(found):
        assert all(a <= b + 1e-12 for a, b in zip(low, high, strict=True))
    order = sorted(range(7), key=p.__getitem__)
    for adjusted in found:
        sorted_adjusted = [adjusted[i] for i in order]
        assert sorted_adjusted == sorted(sorted_adjusted)
    assert found[0] == pytest.approx(stats.false_discovery_control(p))


def test_fixed_sequence_ends_at_the_first_failure() -> None:
    """A small p after a failure claims nothing."""
    found = fixed_sequence([0.01, 0.2, 0.001], alpha=0.05)
    assert (found.rejected, found.levels) == ((True, False, False), (0.05, 0.05, 0.0))


def test_fallback_passes_on_what_was_won() -> None:
    """Levels add up after a rejection and start afresh after a failure."""
    found = fallback([0.02, 0.03, 0.04], [0.5, 0.25, 0.25], alpha=0.05)
    assert found.rejected == (True, True, True)
    assert found.levels == pytest.approx((0.025, 0.0375, 0.05))
    missed = fallback([0.03, 0.02, 0.01], [0.5, 0.25, 0.25], alpha=0.05)
    assert missed.levels == pytest.approx((0.025, 0.0125, 0.0125))
    assert missed.rejected == (False, False, True)


def test_bad_arguments_are_refused() -> None:
    """No p, p outside [0, 1], weights above one."""
    with pytest.raises(ValueError, match="p_values"):
        adjust_p([])
    with pytest.raises(ValueError, match="p_values"):
        fixed_sequence([1.2], alpha=0.05)
    with pytest.raises(ValueError, match="weights"):
        fallback([0.1, 0.2], [0.9, 0.2], alpha=0.05)
