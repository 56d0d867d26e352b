"""The tests of an endpoint as people read them: each p with what it is held against. Pure.

Leaves the table of numbers and the looks to `text_result.py`.

Rules:
- A p stands beside its hypothesis: no difference, the margin, or the saving that was asked for.
- A test that ignores clusters says so.
- A randomisation p says whether it is exact or simulated.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from typing import Any, TypeAlias

from .text_numbers import count, difference, interval, p_value

__all__ = ("METHODS", "T_METHODS", "against_text", "beside_line", "deciding_tests", "pairs_line")

Detail: TypeAlias = Mapping[str, Any]

METHODS = {
    "cr2_t": "CR2-t",
    "cr2_t_whole_clusters": "CR2-t of whole clusters",
    "cluster_means_t": "t on cluster means",
    "tango": "Tango",
    "betting": "hedged betting, at any time",
    "empirical_bernstein": "empirical Bernstein, at any time",
    "beta": "beta mixture, at any time",
    "asymptotic": "asymptotic sequence, at any time",
    "obuchowski_t": "Obuchowski t",
    "jackknife_t": "jackknife t",
    "tango_cluster_adjusted": "cluster-adjusted Tango",
}
T_METHODS = frozenset(
    ("cr2_t", "cr2_t_whole_clusters", "cluster_means_t", "obuchowski_t", "jackknife_t")
)
_SAVINGS = {f"{name}_saving": name for name in T_METHODS}
_BESIDE = {
    "sign_flip": "sign flip",
    "bootstrap": "studentised bootstrap",
    "wild_bootstrap": "wild bootstrap-t",
    "cluster_weighted": "cluster-weighted",
    "unit_weighted": "unit-weighted",
}


def against_text(against: Detail | None, *, points: bool, ratio: bool = False) -> str:
    """Returns what a p is held against, with a blank before it; "" where that isn't known.

    Args:
        against: what it is, as `verdicts/hypotheses.py` has it.
        points: differences are shares.
        ratio: the difference is the logarithm of a ratio.
    """
    if against is None:
        return ""
    if against["saving"] is not None:
        return f" against a saving of {100 * against['saving']:g} %"
    null = against["difference"]
    if null == 0.0:
        return " against no difference"
    if ratio:
        return f" against a ratio of {math.exp(null):.4g}"
    return f" against a difference of {difference(null, points=points)}"


def deciding_tests(endpoint: Detail) -> Iterator[str]:
    """Yields the p of the deciding methods, with what they are held against."""
    tests, points = endpoint["tests"], endpoint["in_points"]
    own = [f"{METHODS.get(name, name)} p {p_value(one['p_value'])}" for name, one in tests.items()
           if name in ("tango", *sorted(T_METHODS))]  # fmt: skip
    own += [f"{METHODS[_SAVINGS[name]]} of the saving p {p_value(one['p_value'])}"
            for name, one in tests.items() if name in _SAVINGS]  # fmt: skip
    if own:
        yield ", ".join(own) + against_text(endpoint.get("against"), points=points)


def pairs_line(endpoint: Detail, control: str, treatment: str) -> Iterator[str]:
    """Yields how many pairs only one arm has, with the test of these counts alone."""
    discordant = endpoint["discordant"]
    if discordant is None or endpoint["difference"] is None:
        return
    text = (
        f"only {treatment} {count(discordant['only_treatment'])},"
        f" only {control} {count(discordant['only_control'])}"
    )
    mcnemar = endpoint["tests"].get("mcnemar")
    if mcnemar is not None:
        text += f": McNemar p {p_value(mcnemar['p_value'])}"
        text += " (ignores clusters)" if mcnemar["ignores_clusters"] else ""
    yield text


def beside_line(endpoint: Detail) -> Iterator[str]:
    """Yields the tests that are shown beside and never decide."""
    beside = [_beside(endpoint, name) for name in _BESIDE if name in endpoint["tests"]]
    if beside:
        yield "beside: " + "; ".join(beside)


def _beside(endpoint: Detail, name: str) -> str:
    found, words = endpoint["tests"][name], _BESIDE[name]
    if "estimate" in found:
        points = endpoint["in_points"]
        limits = interval(found["lower"], found["upper"], points=points)
        return f"{words} {difference(found['estimate'], points=points)} ({limits})"
    return f"{words} p {p_value(found['p_value'])}{_how_counted(found)}"


def _how_counted(found: Detail) -> str:
    """Returns whether a randomisation p is exact or simulated, where it says so."""
    if "exact" not in found:
        return ""
    if found["exact"]:
        return " (exact)"
    return f" (simulated, {count(found['draws'])} draws)" if "draws" in found else " (simulated)"
