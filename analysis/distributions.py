"""Distribution functions: normal, t, beta, binomial, chi-square, noncentral t.

Job: give the other modules quantiles and tails, as scalars and, where a loop would be slow, on
arrays. Leaves every statistical meaning to them.

Rules:
    - `scipy.special` only, imported at the first call: `scipy.stats` is slow to import, and
      `ledger --help` must not pay for either.
    - Tails are computed as tails, never as 1 - cdf, so small p keep their digits.
    - An argument outside its range is a ValueError; no function returns NaN.
"""

from __future__ import annotations

import math
from functools import cache
from types import ModuleType
from typing import cast

import numpy as np
import numpy.typing as npt

__all__ = (
    "beta_quantile",
    "beta_quantile_array",
    "binomial_cdf",
    "binomial_cdf_array",
    "chi2_quantile",
    "chi2_sf",
    "log_beta_array",
    "noncentral_t_cdf",
    "normal_cdf",
    "normal_density_array",
    "normal_log_cdf",
    "normal_quantile",
    "normal_quantile_array",
    "normal_sf",
    "normal_sf_array",
    "normal_upper_quantile",
    "t_cdf",
    "t_quantile",
    "t_sf",
    "t_upper_quantile",
    "t_upper_quantile_array",
)

FloatArray = npt.NDArray[np.float64]
IntArray = npt.NDArray[np.int64]


def normal_quantile(p: float) -> float:
    """Returns the standard normal quantile of `p` in (0, 1)."""
    _check_probability(p)
    return float(_special().ndtri(p))


def normal_quantile_array(p: FloatArray) -> FloatArray:
    """Returns standard normal quantiles of probabilities inside (0, 1), any shape."""
    if p.size and not (float(p.min()) > 0.0 and float(p.max()) < 1.0):
        raise ValueError("p: expected numbers inside (0, 1)")
    return np.asarray(_special().ndtri(p), dtype=np.float64)


def normal_upper_quantile(p: float) -> float:
    """Returns z with P(Z > z) = `p`, exact for tiny `p` in (0, 1)."""
    return -normal_quantile(p) + 0.0


def normal_cdf(x: float) -> float:
    """Returns P(Z <= x)."""
    _check_number("x", x)
    return float(_special().ndtr(x))


def normal_sf(x: float) -> float:
    """Returns P(Z > x)."""
    _check_number("x", x)
    return float(_special().ndtr(-x))


def log_beta_array(a: FloatArray, b: FloatArray) -> FloatArray:
    """Returns ln B(a, b) elementwise for a, b > 0, any shape."""
    return np.asarray(_special().betaln(a, b), dtype=np.float64)


def normal_log_cdf(x: float) -> float:
    """Returns ln P(Z <= x), finite far into the lower tail."""
    _check_number("x", x)
    return float(_special().log_ndtr(x))


def normal_sf_array(x: FloatArray) -> FloatArray:
    """Returns P(Z > x) elementwise, any shape."""
    return cast(FloatArray, _special().ndtr(-x))


def normal_density_array(x: FloatArray) -> FloatArray:
    """Returns the standard normal density elementwise, any shape."""
    return np.exp(-0.5 * x * x) / math.sqrt(2.0 * math.pi)


def t_quantile(p: float, df: float) -> float:
    """Returns the quantile of `p` in (0, 1) of Student's t with `df` > 0, fractional allowed."""
    _check_probability(p)
    _check_positive("df", df)
    return float(_special().stdtrit(df, p))


def t_upper_quantile(p: float, df: float) -> float:
    """Returns t with P(T > t) = `p`, exact for tiny `p` in (0, 1)."""
    return -t_quantile(p, df) + 0.0


def t_upper_quantile_array(p: float, df: FloatArray) -> FloatArray:
    """Returns `t_upper_quantile` of one `p` for each of `df` > 0, shape (k,)."""
    _check_probability(p)
    if df.size:
        _check_positive("df", float(df.min()))
    return np.asarray(-_special().stdtrit(df, p) + 0.0, dtype=np.float64)


def t_cdf(x: float, df: float) -> float:
    """Returns P(T <= x) of Student's t with `df` > 0."""
    _check_number("x", x)
    _check_positive("df", df)
    return float(_special().stdtr(df, x))


def t_sf(x: float, df: float) -> float:
    """Returns the upper tail P(T > x) of Student's t with `df` > 0."""
    return t_cdf(-x, df)


def beta_quantile(p: float, a: float, b: float) -> float:
    """Returns the quantile of `p` in (0, 1) of the beta distribution with `a`, `b` > 0."""
    _check_probability(p)
    _check_positive("a", a)
    _check_positive("b", b)
    return float(_special().betaincinv(a, b, p))


def beta_quantile_array(p: float, a: FloatArray, b: FloatArray) -> FloatArray:
    """Returns `beta_quantile` of one `p` for each of `a`, `b` > 0, shapes (k,)."""
    _check_probability(p)
    if a.size:
        _check_positive("a", float(a.min()))
        _check_positive("b", float(b.min()))
    return np.asarray(_special().betaincinv(a, b, p), dtype=np.float64)


def binomial_cdf(k: int, n: int, p: float) -> float:
    """Returns P(X <= k) for X ~ Bin(n, p), 0 <= p <= 1; 0 below k = 0 and 1 from k = n."""
    if n < 0 or not 0.0 <= p <= 1.0:
        raise ValueError(f"binomial_cdf: expected n >= 0 and p in [0, 1], found n={n}, p={p}")
    if k < 0:
        return 0.0
    if k >= n:
        return 1.0
    return float(_special().betaincc(k + 1.0, float(n - k), p))


def binomial_cdf_array(k: IntArray, n: IntArray, p: float) -> FloatArray:
    """Returns `binomial_cdf` of one `p` for each of 0 <= `k` <= `n`, shapes (m,)."""
    if k.size and not (int(k.min()) >= 0 and bool(np.all(k <= n)) and 0.0 <= p <= 1.0):
        raise ValueError(f"binomial_cdf: expected 0 <= k <= n and p in [0, 1], found p={p}")
    found = np.ones(k.size)
    below = k < n
    found[below] = _special().betaincc(k[below] + 1.0, (n - k)[below].astype(np.float64), p)
    return found


def chi2_sf(x: float, df: float) -> float:
    """Returns the upper tail P(X > x) of chi-square with `df` > 0, x >= 0."""
    _check_positive("df", df)
    if not x >= 0.0:
        raise ValueError(f"x: expected >= 0, found {x}")
    return float(_special().chdtrc(df, x))


def chi2_quantile(p: float, df: float) -> float:
    """Returns the quantile of `p` in (0, 1) of chi-square with `df` > 0, fractional allowed."""
    _check_probability(p)
    _check_positive("df", df)
    return 2.0 * float(_special().gammaincinv(df / 2.0, p))


def noncentral_t_cdf(x: float, df: float, noncentrality: float) -> float:
    """Returns P(T <= x) of the noncentral t with `df` > 0 and a finite noncentrality."""
    _check_number("x", x)
    _check_number("noncentrality", noncentrality)
    _check_positive("df", df)
    return float(_special().nctdtr(df, noncentrality, x))


@cache
def _special() -> ModuleType:
    from scipy import special  # type: ignore[import-untyped]  # scipy ships no types

    return cast(ModuleType, special)


def _check_probability(p: float) -> None:
    if not 0.0 < p < 1.0:
        raise ValueError(f"p: expected a probability in (0, 1), found {p}")


def _check_positive(name: str, value: float) -> None:
    if not value > 0.0 or math.isinf(value):
        raise ValueError(f"{name}: expected a finite number above 0, found {value}")


def _check_number(name: str, value: float) -> None:
    if math.isnan(value):
        raise ValueError(f"{name}: expected a number, found NaN")
