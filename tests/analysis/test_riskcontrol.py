"""Guarantees of thresholds, by enumeration."""

from __future__ import annotations

import math

import numpy as np
import pytest

from fairtrial.analysis.rates import clopper_pearson_lower, wilson_lower
from fairtrial.analysis.riskcontrol import (
    conformal_risk_control,
    hoeffding_bentkus,
    learn_then_test,
    min_flagged,
)
from fairtrial.analysis.values import Undetermined


@pytest.mark.parametrize("target", [0.8, 0.95])
@pytest.mark.parametrize("errors", [0, 1, 4])
def test_min_flagged_is_the_first_that_reaches(target: float, errors: int) -> None:
    """One flag fewer would not do, for either bound."""
    for bound, lower in (("wilson", wilson_lower), ("clopper_pearson", clopper_pearson_lower)):
        n = min_flagged(target, bound=bound, alpha=0.05, errors=errors)  # type: ignore[arg-type]  # a literal in a pair
        assert lower(n - errors, n, alpha=0.05) >= target
        assert n - 1 < max(1, errors) or lower(n - 1 - errors, n - 1, alpha=0.05) < target


def test_hoeffding_bentkus_is_a_valid_p() -> None:
    """With the risk exactly at the limit P(p <= u) <= u, at every attainable p."""
    for n, risk in ((20, 0.1), (60, 0.05)):
        masses = [math.comb(n, k) * risk**k * (1 - risk) ** (n - k) for k in range(n + 1)]
        p = [hoeffding_bentkus(k / n, n, alpha=risk) for k in range(n + 1)]
        for level in set(p):
            chance = math.fsum(m for m, q in zip(masses, p, strict=True) if q <= level)
            assert chance <= level + 1e-9


def test_learn_then_test_walks_from_the_strictest() -> None:
    """The last threshold before the first failure; nothing flagged is a failure."""
    found = learn_then_test([0.9, 0.8, 0.7], [80, 200, 90], [0, 1, 40], max_error=0.05, delta=0.05)
    assert found.selected == 0.8
    none = learn_then_test([0.9, 0.8], [0, 200], [0, 0], max_error=0.05, delta=0.05)
    assert (none.p_values[0], none.selected) == (1.0, None)


def test_learn_then_test_keeps_its_error_over_many_thresholds() -> None:
    """Ten nested thresholds with a true error rate just above the limit: at most delta selected."""
    rng = np.random.default_rng(1)
    wrong = 0
    for _ in range(2000):
        flags = np.cumsum(rng.multinomial(400, [0.1] * 10))
        errors = np.cumsum(rng.binomial(np.diff(flags, prepend=0), 0.051))
        found = learn_then_test(
            list(range(10)), flags.tolist(), errors.tolist(), max_error=0.05, delta=0.05
        )
        wrong += found.selected is not None
    assert wrong / 2000 <= 0.05 + 2.0 * math.sqrt(0.05 * 0.95 / 2000)


def test_conformal_risk_control_takes_the_smallest_safe_lambda() -> None:
    """The adjusted risk must not exceed alpha; losses that rise have no answer."""
    found = conformal_risk_control([0.0, 0.5, 1.0], [0.3, 0.08, 0.0], 19, alpha=0.13)
    assert not isinstance(found, Undetermined)
    assert found.selected == 0.5
    assert found.adjusted_risk == pytest.approx((0.335, 0.126, 0.05))
    none = conformal_risk_control([0.0, 1.0], [0.3, 0.2], 9, alpha=0.05)
    assert not isinstance(none, Undetermined)
    assert none.selected is None
    rising = conformal_risk_control([0.0, 1.0], [0.1, 0.2], 9, alpha=0.5)
    assert isinstance(rising, Undetermined)


@pytest.mark.parametrize(
    "call",
    [
        lambda: min_flagged(1.0, bound="wilson", alpha=0.05),
        lambda: hoeffding_bentkus(1.1, 5, alpha=0.1),
        lambda: learn_then_test([0.1], [1, 2], [0], max_error=0.1, delta=0.1),
        lambda: conformal_risk_control([0.1], [0.1, 0.2], 5, alpha=0.1),
    ],
)
def test_bad_arguments_are_value_errors(call: object) -> None:
    """Lists of unequal length and shares outside their range."""
    assert callable(call)
    with pytest.raises(ValueError, match="expected"):
        call()
