"""Distribution functions agree with scipy.stats, keep small tails, and refuse what is no number."""

from __future__ import annotations

import math
import subprocess
import sys

import pytest
from scipy import stats  # type: ignore[import-untyped]  # scipy ships no types

from fairtrial.analysis import distributions as d


@pytest.mark.parametrize("p", [1e-12, 1e-6, 0.0123, 0.5, 0.9, 0.999])
@pytest.mark.parametrize("df", [1.0, 2.37, 11.0, 480.5])
def test_quantiles_agree_with_scipy_stats(p: float, df: float) -> None:
    """Normal, t, beta and chi-square quantiles."""
    assert d.normal_quantile(p) == pytest.approx(stats.norm.ppf(p), rel=1e-9, abs=1e-12)
    assert d.t_quantile(p, df) == pytest.approx(stats.t.ppf(p, df), rel=1e-8, abs=1e-12)
    assert d.beta_quantile(p, df, 3.5) == pytest.approx(stats.beta.ppf(p, df, 3.5), rel=1e-8)
    assert d.chi2_quantile(p, df) == pytest.approx(stats.chi2.ppf(p, df), rel=1e-8)


@pytest.mark.parametrize("x", [-3.3, -0.4, 0.0, 1.7, 6.0])
def test_tails_agree_with_scipy_stats(x: float) -> None:
    """Normal, t, noncentral t and chi-square probabilities."""
    assert d.normal_cdf(x) == pytest.approx(stats.norm.cdf(x), rel=1e-12)
    assert d.normal_sf(x) == pytest.approx(stats.norm.sf(x), rel=1e-12)
    assert d.t_cdf(x, 4.5) == pytest.approx(stats.t.cdf(x, 4.5), rel=1e-10)
    assert d.t_sf(x, 4.5) == pytest.approx(stats.t.sf(x, 4.5), rel=1e-10)
    assert d.noncentral_t_cdf(x, 4.5, 1.2) == pytest.approx(stats.nct.cdf(x, 4.5, 1.2), rel=1e-8)
    assert d.chi2_sf(abs(x), 3.0) == pytest.approx(stats.chi2.sf(abs(x), 3.0), rel=1e-10)


def test_binomial_cdf_sums_the_point_masses() -> None:
    """Also below 0 and from n on."""
    for k in range(-1, 8):
        masses = [math.comb(7, j) * 0.3**j * 0.7 ** (7 - j) for j in range(k + 1) if j <= 7]
        assert d.binomial_cdf(k, 7, 0.3) == pytest.approx(math.fsum(masses), abs=1e-14)
    assert d.binomial_cdf(3, 5, 0.0) == 1.0
    assert d.binomial_cdf(3, 5, 1.0) == 0.0


def test_upper_quantiles_keep_tiny_tails() -> None:
    """A nominal p of 1e-15 still has its digits."""
    assert d.normal_sf(d.normal_upper_quantile(1e-15)) == pytest.approx(1e-15, rel=1e-9)
    assert d.t_sf(d.t_upper_quantile(1e-15, 8.5), 8.5) == pytest.approx(1e-15, rel=1e-9)
    assert d.normal_upper_quantile(0.5) == 0.0


@pytest.mark.parametrize(
    "call",
    [
        lambda: d.normal_quantile(0.0),
        lambda: d.normal_quantile(math.nan),
        lambda: d.t_quantile(0.5, 0.0),
        lambda: d.t_sf(math.nan, 3.0),
        lambda: d.beta_quantile(0.5, -1.0, 2.0),
        lambda: d.binomial_cdf(1, -1, 0.5),
        lambda: d.binomial_cdf(1, 2, 1.5),
        lambda: d.chi2_sf(-1.0, 2.0),
        lambda: d.noncentral_t_cdf(1.0, math.inf, 0.0),
    ],
)
def test_bad_arguments_are_value_errors(call: object) -> None:
    """Nothing outside the range of a function gives NaN."""
    assert callable(call)
    with pytest.raises(ValueError, match="expected"):
        call()


def test_import_of_the_analysis_loads_no_scipy() -> None:
    """scipy.special is loaded by the first call, and scipy.stats never."""
    program = (
        "import sys, fairtrial.analysis.deciding, fairtrial.analysis.verdict;"
        "assert 'scipy' not in sys.modules;"
        "from fairtrial.analysis.distributions import normal_cdf; normal_cdf(0.0);"
        "assert 'scipy.special' in sys.modules and 'scipy.stats' not in sys.modules"
    )
    subprocess.run([sys.executable, "-c", program], check=True)


def test_values_verdict_and_reasons_need_no_numpy() -> None:
    """A reader of verdicts pays for no numerical library."""
    program = (
        "import sys, fairtrial.analysis.verdict, fairtrial.analysis.reasons;"
        "assert 'numpy' not in sys.modules"
    )
    subprocess.run([sys.executable, "-c", program], check=True)
