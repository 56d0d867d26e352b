"""What can't be computed says so."""

from __future__ import annotations

import math

import numpy as np
import pytest

from fairtrial.analysis.grouping import group
from fairtrial.analysis.guarded import NOT_COMPUTABLE, all_finite, computed
from fairtrial.analysis.paired import ClusteredMean, clustered_mean, t_interval
from fairtrial.analysis.values import Undetermined


def test_failing_arithmetic_is_undetermined_and_nothing_else_is() -> None:
    """Overflow, division by nothing and refused values have no number; a broken program raises."""
    clusters = np.array([0, 1])
    assert NOT_COMPUTABLE == computed(lambda: math.exp(1e9))
    assert NOT_COMPUTABLE == computed(lambda: 1.0 / 0.0)
    assert NOT_COMPUTABLE == computed(lambda: group(np.array([1e308, -1e308]), clusters))
    assert 2.0 == computed(lambda: 1.0 + 1.0)
    with pytest.raises(TypeError):
        computed(lambda: group(np.array([1.0, 2.0]), np.array([0.5, 1.5])))
    assert all_finite([None, 0.0, -1e308])
    assert not all_finite([0.0, math.inf])


@pytest.mark.parametrize("size", [1e-320, 1e-200, 1e-170, 1e-150])
def test_variance_that_underflows_is_no_variance(size: float) -> None:
    """Squares that have lost their digits give no interval, rather than a wrong or empty one."""
    values, clusters = np.arange(12, dtype=np.float64) * size, np.arange(12) // 2
    found = clustered_mean(values, clusters)
    assert isinstance(found, ClusteredMean)
    assert (True, 0.0) == (found.degenerate, found.standard_error)
    assert isinstance(t_interval(found), Undetermined)
    larger = clustered_mean(np.arange(12, dtype=np.float64) * 1e-100, clusters)
    assert isinstance(larger, ClusteredMean)
    assert not larger.degenerate
