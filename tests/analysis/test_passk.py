"""pass@k and pass^k: every subset counted, and no number beyond the tries (FR-26)."""

from __future__ import annotations

from itertools import combinations

import pytest

from fairtrial.analysis.passk import macro_pass, pass_at_k, pass_hat_k
from fairtrial.analysis.values import Undetermined


def test_unbiased_forms_are_shares_of_subsets() -> None:
    """Every choice of k of n tries, n up to 7."""
    for n in range(1, 8):
        for c in range(n + 1):
            tries = [True] * c + [False] * (n - c)
            for k in range(1, n + 1):
                subsets = list(combinations(tries, k))
                some = sum(map(any, subsets)) / len(subsets)
                every = sum(map(all, subsets)) / len(subsets)
                assert pass_at_k(n, c, k) == pytest.approx(some, abs=1e-12)
                assert pass_hat_k(n, c, k) == pytest.approx(every, abs=1e-12)


@pytest.mark.parametrize(
    ("n", "c", "k", "value"),
    [(10, 3, 1, 0.3), (10, 3, 5, 0.916666667), (10, 3, 10, 1.0), (200, 1, 1, 0.005)],
)
def test_known_values(n: int, c: int, k: int, value: float) -> None:
    """Published examples."""
    assert pass_at_k(n, c, k) == pytest.approx(value, abs=1e-9)


@pytest.mark.parametrize(("n", "c", "k"), [(2, 0, 5), (2, 1, 5), (0, 0, 1)])
def test_more_tries_asked_than_made_is_undetermined(n: int, c: int, k: int) -> None:
    """Never 1, in any form."""
    assert isinstance(pass_at_k(n, c, k), Undetermined)
    for estimator in ("unbiased", "plugin", "all_pass"):
        assert isinstance(pass_hat_k(n, c, k, estimator=estimator), Undetermined)


def test_other_forms_have_their_own_names() -> None:
    """The plug-in is above the unbiased form; all-pass ignores k."""
    assert pass_hat_k(10, 8, 3, estimator="plugin") == pytest.approx(0.512)
    assert pass_hat_k(10, 8, 3) == pytest.approx(0.4666666667)
    assert pass_hat_k(10, 9, 1, estimator="all_pass") == 0.0
    assert pass_hat_k(10, 10, 1, estimator="all_pass") == 1.0


def test_mean_counts_tasks_that_are_left_out() -> None:
    """A task with fewer than k tries is not averaged, and said so."""
    found = macro_pass([(5, 5), (5, 0), (3, 3)], 5)
    assert (found.eligible, found.total, found.pass_at_k) == (2, 3, 0.5)
    none = macro_pass([(2, 1)], 5)
    assert isinstance(none.pass_at_k, Undetermined)
    one = macro_pass([(5, 5)], 5)
    assert isinstance(one.se_pass_at_k, Undetermined)


def test_impossible_counts_are_refused() -> None:
    """More passes than tries, k below 1."""
    for arguments in ((3, 4, 1), (3, 1, 0), (3, -1, 1)):
        with pytest.raises(ValueError, match="expected"):
            pass_at_k(*arguments)
