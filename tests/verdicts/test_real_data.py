"""Public evaluations through the whole path, against a computation that shares no code with it.

The other computation uses full matrices, root finding and enumeration, not the closed forms of the
analysis. Sources and licences: tests/reference/data/README.md.
"""

from __future__ import annotations

import csv
import math
from collections import defaultdict
from collections.abc import Callable, Sequence
from itertools import combinations
from pathlib import Path
from typing import Any, cast

import numpy as np
import pytest
from scipy import optimize, stats  # type: ignore[import-untyped]  # scipy ships no types

from fairtrial.verdicts.conclude import conclude
from fairtrial.verdicts.finals import Final, ended

DATA = Path(__file__).resolve().parents[1] / "reference" / "data"
ARM = (
    "{{repeats: {0}, driver: {{kind: recorded, file: o.csv, where: {{arm: {1}}}, columns: "
    "{{unit: u, replicate: r, passed: p}}}}}}"
)
MISSING = (
    "{rules: {failed: failure, timeout: failure, limit: failure, error: exclude_pair, ungraded: "
    "exclude_pair, replay_miss: exclude_pair, invalidated: exclude_pair}, limit: 0.2}"
)

Values = dict[tuple[str, str], list[float]]


def rows(name: str) -> list[dict[str, str]]:
    """Returns the rows of a data file."""
    with (DATA / name).open(encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file))


def grouped(name: str, arms: dict[str, str]) -> tuple[Values, dict[str, str]]:
    """Returns the replicates of each (unit, arm), in their order, and each unit's cluster."""
    values: Values = defaultdict(list)
    clusters: dict[str, str] = {}
    for row in sorted(rows(name), key=lambda row: int(row.get("replicate", "1"))):
        clusters[row["unit"]] = row.get("cluster", row["unit"])
        if row["arm"] in arms:
            values[row["unit"], arms[row["arm"]]].append(float(row["passed"]))
    return values, clusters


def trial(bridge: Any, values: Values, clusters: dict[str, str], repeats: int, **more: str) -> Any:
    """Returns the run trial over such data; a replicate that isn't there is a miss."""
    table = "unit,cluster\n" + "".join(f"{unit},{name}\n" for unit, name in clusters.items())

    def answers(unit: str, arm: str, replicate: int) -> Any:
        found = values.get((unit, arm), [])
        if replicate > len(found):
            return {"status": "replay_miss"}
        return bridge.outcome(found[replicate - 1])

    arms = ", ".join(f"{name}: {ARM.format(repeats, name.lower())}" for name in "AB")
    sections = {"arms": f"{{{arms}}}", "missing": MISSING, **more}
    return bridge.trial(table, answers, **sections).run()


def final(run: Any) -> Final:
    """Returns the final numbers of the one endpoint."""
    ((found,),) = ended(run.context).finals
    return found


def by_matrices(differences: Sequence[float], clusters: Sequence[str]) -> tuple[float, ...]:
    """Returns mean, CR2 error, Satterthwaite df and t interval at 95 %, all from full matrices."""
    d, names = np.array(differences), np.array(clusters)
    n = len(d)
    residual_maker = np.eye(n) - np.full((n, n), 1.0 / n)
    residuals, meat, columns = residual_maker @ d, 0.0, []
    for name in sorted(set(clusters)):
        own = np.flatnonzero(names == name)
        block = residual_maker[np.ix_(own, own)]
        roots, vectors = np.linalg.eigh(block)
        adjust = (vectors * roots**-0.5) @ vectors.T
        weights = adjust @ np.ones(len(own)) / n
        meat += float(weights @ residuals[own]) ** 2
        columns.append(residual_maker[:, own] @ weights)
    gram = np.array(columns) @ np.array(columns).T
    df = float(np.trace(gram) ** 2 / np.trace(gram @ gram))
    half = float(stats.t.ppf(0.975, df)) * math.sqrt(meat)
    return float(d.mean()), math.sqrt(meat), df, float(d.mean()) - half, float(d.mean()) + half


def tango_by_roots(b: int, c: int, n: int) -> tuple[float, float]:
    """Returns Tango's 95 % limits of (c - b) / n by maximising the likelihood numerically."""

    def z(delta: float) -> float:
        low, high = max(0.0, -delta) + 1e-12, (1.0 - delta) / 2.0 - 1e-12

        def minus_log(p10: float) -> float:
            p01 = p10 + delta
            rest = 1.0 - p10 - p01
            return -(b * math.log(p10) + c * math.log(p01) + (n - b - c) * math.log(rest))

        p10 = optimize.minimize_scalar(
            minus_log, bounds=(low, high), method="bounded", options={"xatol": 1e-12}
        ).x
        variance = n * (2.0 * p10 + delta - delta * delta)
        return (c - b - n * delta) / math.sqrt(variance)

    critical, middle = float(stats.norm.ppf(0.975)), (c - b) / n
    return (
        _root(lambda delta: z(delta) - critical, middle - 0.5, middle - 1e-6),
        _root(lambda delta: z(delta) + critical, middle + 1e-6, middle + 0.5),
    )


def _root(function: Callable[[float], float], low: float, high: float) -> float:
    return cast("float", optimize.brentq(function, low, high))


@pytest.mark.parametrize(
    ("arms", "verdict"),
    [
        ({"gpt4_simple_run1": "A", "gpt4_simple_run2": "B"}, "inconclusive"),
        ({"gpt4_simple_run1": "A", "gpt4_reflexion": "B"}, None),
        ({"gpt4_simple_run2": "A", "gpt4_reflexion": "B"}, None),
    ],
    ids=["A/A", "run 1 and reflexion", "run 2 and reflexion"],
)
def test_reflexion_agrees(bridge: Any, arms: dict[str, str], verdict: str | None) -> None:
    """Single units: Tango's interval and McNemar's counts; two runs of one thing don't differ."""
    values, clusters = grouped("reflexion.csv", arms)
    units = "{file: units.csv, id: unit, cluster: none}"
    run = trial(bridge, values, clusters, 1, units=units)
    found = final(run).scales[0]
    pairs = [(values[u, "A"][0], values[u, "B"][0]) for u in clusters]
    b, c = sum(a > t for a, t in pairs), sum(a < t for a, t in pairs)
    assert (b, c, len(pairs)) == (found.only_control, found.only_treatment, found.n)
    assert tango_by_roots(b, c, len(pairs)) == pytest.approx((found.lower, found.upper), abs=2e-6)
    result = conclude(run.context)
    shown = found.lower is not None and found.lower > 0.0
    assert (verdict or ("adopt" if shown else "inconclusive")) == result.verdict


METR = {"GPT-4o": "A", "o1-preview": "B"}
Reduce = Callable[[list[float]], float]


def mean(values: list[float]) -> float:
    """Returns the mean of replicates."""
    return math.fsum(values) / len(values)


def share(counts: Callable[[tuple[float, ...]], bool], k: int) -> Reduce:
    """Returns a reducer: the share of all choices of k replicates that count."""

    def reduce(values: list[float]) -> float:
        choices = list(combinations(values, k))
        return sum(counts(choice) for choice in choices) / len(choices)

    return reduce


@pytest.mark.parametrize(
    ("text", "reduce"),
    [
        ("type: bounded, bounds: [0, 1], reducer: mean", mean),
        ("type: pass_at_k, k: 2", share(lambda choice: any(choice), 2)),
        ("type: pass_hat_k, k: 3", share(lambda choice: all(choice), 3)),
        ("type: agreement", share(lambda choice: choice[0] == choice[1], 2)),
    ],
    ids=["mean", "pass@2", "pass^3", "agreement"],
)
def test_metr_agrees(bridge: Any, text: str, reduce: Reduce) -> None:
    """Replicates in families of tasks: the mean difference with CR2 and Satterthwaite's df."""
    values, clusters = grouped("metr.csv", METR)
    endpoint = f"[{{name: main, role: primary, value: passed, better: higher, {text}}}]"
    missing = MISSING.replace("failure", "exclude_pair")
    run = trial(bridge, values, clusters, 4, endpoints=endpoint, missing=missing)
    found = final(run).scales[0]
    whole = sorted(
        unit for unit in clusters if all(len(values.get((unit, arm), [])) == 4 for arm in "AB")
    )
    differences = [reduce(values[u, "B"]) - reduce(values[u, "A"]) for u in whole]
    expected = by_matrices(differences, [clusters[u] for u in whole])
    assert len(whole) == found.n < len(clusters)
    assert expected == pytest.approx(
        (found.estimate, found.standard_error, found.df, found.lower, found.upper), rel=1e-8
    )


def test_metr_missing_limit_is_kept(bridge: Any) -> None:
    """A tenth of the tasks is lost in one arm: over 2 % there is no verdict, and it says why."""
    values, clusters = grouped("metr.csv", METR)
    run = trial(bridge, values, clusters, 1, missing=MISSING.replace("limit: 0.2", "limit: 0.02"))
    result = conclude(run.context)
    assert ("inconclusive", "missing_over_limit") == (result.verdict, result.reason_code)


def test_pro_agrees(bridge: Any) -> None:
    """SWE-bench Pro at the last look: estimate, error and df of 729 pairs from full matrices."""
    run = bridge.demo("pro").run()
    found = final(run).scales[0]
    counts = rows("pro.csv")
    differences: list[float] = []
    clusters: list[str] = []
    for row in counts:
        for key, value in (("both", 0.0), ("only_control", -1.0), ("only_treatment", 1.0),
                           ("neither", 0.0)):  # fmt: skip
            differences += [value] * int(row[key])
            clusters += [row["cluster"]] * int(row[key])
    estimate, error, df, _, _ = by_matrices(differences, clusters)
    assert (estimate, error, df) == pytest.approx(
        (found.estimate, found.standard_error, found.df), rel=1e-8
    )
    half = float(stats.t.ppf(1.0 - final(run).nominal_p / 2.0, df)) * error
    assert (estimate - half, estimate + half) == pytest.approx(found.parts["cr2_t"], rel=1e-8)
