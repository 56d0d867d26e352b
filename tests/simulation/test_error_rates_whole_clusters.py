"""Error rates between arms of whole clusters of unequal size, from the committed benchmark."""

from __future__ import annotations

import runpy
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from fairtrial.analysis.assigned_deciding import WORKING_CORRELATION, deciding_assigned
from fairtrial.analysis.deciding import Deciding

ROOT = Path(__file__).resolve().parents[2]
BENCHMARK: dict[str, Any] = runpy.run_path(str(ROOT / "benchmarks" / "whole_clusters.py"))
COMMON = [name for name in BENCHMARK["ROWS"] if name.startswith(("rate", "normal", "equal"))]
ODD = [name for name in BENCHMARK["ROWS"] if name not in COMMON and "one of 4" not in name]


@pytest.mark.slow
@pytest.mark.parametrize("clusters", [12, 20, 30, 40])
@pytest.mark.parametrize("name", [*COMMON, *ODD])
def test_error_rates_of_whole_clusters_are_kept(name: str, clusters: int) -> None:
    """Equal arms end in a verdict in 1.5 to 5.5 % of runs, over 24,000 runs of 120 plans."""
    found = BENCHMARK["rate"](BENCHMARK["ROWS"][name], clusters, plans=120, runs=200)
    assert found.percent - 1.96 * found.error <= 5.5, found
    assert found.percent + 1.96 * found.error >= 1.5, found


@pytest.mark.slow
def test_error_rates_without_correlation_were_too_high() -> None:
    """The same standard error with the older degrees of freedom errs in over 5.5 % of runs."""
    for name in ("rate 0.4, icc 0.2", "mean 60, variation 1.2, rate 0.4, icc 0.3"):
        found = BENCHMARK["rate"](BENCHMARK["ROWS"][name], 20, plans=120, runs=200)
        assert found.uncorrelated - 1.96 * found.error > 5.5, found


@pytest.mark.parametrize("name", COMMON)
def test_error_rates_are_those_of_the_deciding_interval(name: str) -> None:
    """What the benchmark decides for many runs at once is what the product decides for each."""
    rng = np.random.default_rng(5)
    data = BENCHMARK["ROWS"][name]
    plan = BENCHMARK["planned"](rng, data, 12)
    sums = data.sums(rng, plan.sizes, 12)
    units = plan.sizes.astype(int)
    codes = np.repeat(np.arange(12), units)
    treated = codes >= 12 - plan.treated
    for run, t in zip(sums, BENCHMARK["t_values"](plan, sums), strict=True):
        # Only sums of clusters count: every unit has its cluster's mean.
        values = (run / plan.sizes)[codes]
        found = deciding_assigned(values, treated, codes, estimand="unit_weighted", nominal_p=0.05)
        assert isinstance(found, Deciding)
        assert found.estimate / found.standard_error == pytest.approx(t)
        assert found.df == pytest.approx(plan.df(WORKING_CORRELATION))
