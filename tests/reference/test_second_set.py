"""A second set of cases with other inputs: no method leans on the cases at hand.

Inputs are drawn afresh from seeds; what is expected comes from scipy, scikit-learn, explicit
matrices and enumeration, none of which the package uses for these methods. The set goes through
the reference test itself, by FAIRTRIAL_REFERENCE.
"""

from __future__ import annotations

import json
import math
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy import stats  # type: ignore[import-untyped]  # scipy ships no types
from sklearn.isotonic import IsotonicRegression  # type: ignore[import-untyped]  # nor does this
from sklearn.metrics import brier_score_loss, roc_auc_score  # type: ignore[import-untyped]  # nor

ROUNDS = 8
Case = tuple[dict[str, Any], dict[str, Any]]


def shares(rng: Any) -> Case:
    """Wilson's interval of scipy's binomial test."""
    n = int(rng.integers(5, 400))
    k, level = int(rng.integers(0, n + 1)), float(rng.choice([0.9, 0.95, 0.99]))
    found = stats.binomtest(k, n).proportion_ci(level, method="wilson")
    return (
        {"successes": k, "n": n, "confidence": level},
        {"lower": float(found.low), "upper": float(found.high)},
    )


def exact_shares(rng: Any) -> Case:
    """Clopper and Pearson's interval of scipy's binomial test."""
    inputs, _ = shares(rng)
    test = stats.binomtest(inputs["successes"], inputs["n"])
    found = test.proportion_ci(inputs["confidence"], method="exact")
    return inputs, {"lower": float(found.low), "upper": float(found.high)}


def one_sample(rng: Any) -> Case:
    """The one-sample t test of scipy."""
    values = np.round(rng.normal(0.3, 2.0, int(rng.integers(3, 60))), 3)
    found: Any = stats.ttest_1samp(values, 0.0)
    limits = found.confidence_interval(0.95)
    return (
        {"values": values.tolist(), "confidence": 0.95},
        {
            "mean": float(values.mean()),
            "se": float(stats.sem(values)),
            "df": len(values) - 1,
            "lower": float(limits.low),
            "upper": float(limits.high),
            "p_value": float(found.pvalue),
        },
    )


def mcnemar(rng: Any) -> Case:
    """The binomial test of scipy on discordant pairs."""
    b, c = (int(rng.integers(0, 60)) for _ in range(2))
    return {"b": b, "c": c}, {"p_value": float(stats.binomtest(b, b + c).pvalue) if b + c else 1.0}


def areas(rng: Any) -> Case:
    """Scikit-learn's area, with ties."""
    high, low = (np.round(rng.normal(s, 1.0, int(rng.integers(3, 40))), 1) for s in (0.7, 0.0))
    labels = np.r_[np.ones(high.size), np.zeros(low.size)]
    found = float(roc_auc_score(labels, np.r_[high, low]))
    return {"positives": high.tolist(), "negatives": low.tolist()}, {"auc": found}


def clustered(rng: Any) -> Case:
    """CR0 to CR3 and the df by explicit matrices, as Bell and McCaffrey define them."""
    sizes = rng.integers(1, 14, int(rng.integers(4, 16)))
    codes = np.repeat(np.arange(sizes.size), sizes)
    values = np.round(rng.normal(0.1, 1.0, codes.size) + rng.normal(size=sizes.size)[codes], 3)
    n, x = codes.size, np.ones((codes.size, 1))
    hat = x @ x.T / n
    residual = values - values.mean()
    errors, rows = {}, []
    for power, name in ((0.0, "se_cr0"), (0.5, "se_cr2"), (1.0, "se_cr3")):
        total = 0.0
        for g in range(sizes.size):
            own = codes == g
            block = np.eye(own.sum()) - hat[np.ix_(own, own)]
            roots, vectors = np.linalg.eigh(block)
            adjust = vectors @ np.diag(roots**-power) @ vectors.T
            total += float((adjust @ residual[own]).sum()) ** 2
            if name == "se_cr2":
                rows.append(adjust.sum(axis=0) @ (np.eye(n) - hat)[own])
        errors[name] = math.sqrt(total) / n
    gram = np.array(rows) @ np.array(rows).T
    return (
        {
            "differences": values.tolist(),
            "clusters": [f"k{code}" for code in codes],
            "confidence": 0.95,
        },
        {
            "mean": float(values.mean()),
            **errors,
            "df_cr2": float(np.trace(gram) ** 2 / np.trace(gram @ gram)),
        },
    )


def sign_flips(rng: Any) -> Case:
    """All patterns of signs, one by one."""
    sums = rng.integers(-9, 10, int(rng.integers(3, 11))).tolist()
    flips = [abs(sum(a * b for a, b in zip(s, sums, strict=True))) for s in
             product((-1, 1), repeat=len(sums))]  # fmt: skip
    share = sum(total >= abs(sum(sums)) for total in flips) / len(flips)
    return {"cluster_sums": sums}, {"p_value": share}


def exits(rng: Any) -> Case:
    """Crossing probabilities of two looks by scipy's bivariate normal."""
    t, z = float(rng.uniform(0.1, 0.9)), rng.uniform(1.5, 3.0, 2)
    both: Any = [[1.0, math.sqrt(t)], [math.sqrt(t), 1.0]]
    law = stats.multivariate_normal([0.0, 0.0], both)
    inside = law.cdf(z, lower_limit=-z, rng=np.random.default_rng(1))
    first = 2.0 * float(stats.norm.sf(z[0]))
    second = 1.0 - first - float(inside)
    return (
        {"critical_values": z.tolist(), "information": [t, 1.0], "sided": 2, "drift": 0.0},
        {"upper": [first / 2.0, second / 2.0], "lower": [first / 2.0, second / 2.0],
         "total": first + second},
    )  # fmt: skip


def chosen(rng: Any) -> Case:
    """The share of choices of k among n of which one passes, by the hypergeometric law."""
    n = int(rng.integers(2, 40))
    c, k = int(rng.integers(0, n + 1)), int(rng.integers(1, n + 1))
    return {"n": n, "c": c, "k": k}, {"value": 1.0 - float(stats.hypergeom.pmf(0, n, c, k))}


def steps(rng: Any) -> Case:
    """Isotonic regression of scikit-learn at the distinct x."""
    x = np.round(rng.random(30), 1)
    y = (rng.random(30) < x).astype(int)
    knots = np.unique(x)
    fitted = IsotonicRegression().fit(x, y).predict(knots)
    return (
        {"x": x.tolist(), "y": y.tolist()},
        {"knots": knots.tolist(), "fitted": [float(value) for value in fitted]},
    )


def squares(rng: Any) -> Case:
    """The Brier score of scikit-learn."""
    p = np.round(rng.random(25), 3)
    labels = np.r_[0, 1, (rng.random(23) < p[2:]).astype(int)]
    return (
        {"probabilities": p.tolist(), "labels": labels.tolist()},
        {"brier": float(brier_score_loss(labels, p))},
    )


def quantiles(rng: Any) -> Case:
    """Student's quantile of scipy.stats."""
    p, df = float(rng.uniform(0.001, 0.999)), float(rng.uniform(1.0, 80.0))
    return {"p": p, "df": df}, {"value": float(stats.t.ppf(p, df))}


def score_limits(rng: Any) -> Case:
    """Tango's limits by a search for the restricted likelihood's score."""
    n11, n10, n01, n00 = (int(k) for k in rng.integers(1, 25, 4))
    n = n11 + n10 + n01 + n00

    def score(delta: float) -> float:
        a, b = 2.0 * n, -n01 - n10 + (2.0 * n - n01 + n10) * delta
        q = (math.sqrt(b * b - 4.0 * a * (-n10 * delta * (1.0 - delta))) - b) / (2.0 * a)
        return (n01 - n10 - n * delta) / math.sqrt(n * (2.0 * q + delta * (1.0 - delta)))

    def root(level: float, low: float, high: float) -> float:
        for _ in range(200):
            middle = (low + high) / 2.0
            low, high = (middle, high) if score(middle) > level else (low, middle)
        return low

    z, middle = float(stats.norm.ppf(0.975)), (n01 - n10) / n
    return (
        {"n11": n11, "n10": n10, "n01": n01, "n00": n00, "confidence": 0.95},
        {"estimate": middle, "lower": root(z, -1.0, middle), "upper": root(-z, middle, 1.0)},
    )


METHODS: dict[str, tuple[Callable[[Any], Case], float]] = {
    "interval.wilson": (shares, 1e-9),
    "interval.clopper_pearson": (exact_shares, 1e-9),
    "interval.t_mean": (one_sample, 1e-9),
    "mcnemar.exact": (mcnemar, 1e-9),
    "auc": (areas, 1e-12),
    "clustered.mean_difference": (clustered, 1e-9),
    "cluster.sign_flip": (sign_flips, 1e-12),
    "gs.exit_probability": (exits, 1e-5),
    "pass_at_k": (chosen, 1e-9),
    "isotonic": (steps, 1e-9),
    "brier": (squares, 1e-12),
    "special.t_quantile": (quantiles, 1e-8),
    "interval.tango": (score_limits, 1e-8),
}


def cases() -> Iterator[dict[str, Any]]:
    """Yields the set in the shape of statistics.json."""
    for number, (method, (make, tolerance)) in enumerate(METHODS.items()):
        rng = np.random.default_rng([20261129, number])
        for _ in range(ROUNDS):
            inputs, expected = make(rng)
            yield {
                "method": method,
                "inputs": inputs,
                "expected": expected,
                "tolerance": tolerance,
                "source": "drawn here",
            }


def judged(folder: Path, found: list[dict[str, Any]]) -> subprocess.CompletedProcess[str]:
    """Runs the reference test on another file."""
    file = folder / "second.json"
    file.write_text(json.dumps(found), encoding="utf-8")
    test = Path(__file__).with_name("test_statistics.py")
    return subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-n", "0", "-p", "no:cacheprovider", str(test)],
        env={**os.environ, "FAIRTRIAL_REFERENCE": str(file)},
        capture_output=True,
        text=True,
        check=False,
    )


@pytest.mark.slow
def test_another_set_is_met(tmp_path: Path) -> None:
    """Every method meets numbers of inputs that are in no file; a wrong number is seen."""
    found = list(cases())
    done = judged(tmp_path, found)
    assert 0 == done.returncode, done.stdout[-4000:]
    assert f"{len(found)} passed" in done.stdout
    found[0]["expected"]["lower"] += 1e-3
    assert 0 != judged(tmp_path, found).returncode
