"""A threshold-rule experiment as people read it: flags, bounds, families, capacity. Pure.

Leaves every number to the engine: the input is the long form of a result, or the power report.

Rules:
- Both populations stand in one table; the one that decides comes first and says so.
- A bound is shown with its error and with how many independent flags tell as much.
- A bound that ignores clusters says how often it really errs, as simulated.
- The capacity table says that it decides nothing.
- A reason is on record with its bounds as shares; what is printed has percent, as the tables have.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from fairtrial.verdicts.power_values import Capacity

from .output import label
from .text_numbers import ABSENT, count, plain, quantity, value

__all__ = ("capacity_text", "precision_text", "reason_words", "rule_lines")

_BOUNDS = {
    "cluster_aware": "cluster-aware",
    "clopper_pearson": "Clopper-Pearson",
    "learn_then_test": "Learn-then-Test",
    "wilson": "Wilson",
}
_THRESHOLDS_MAX = 20
# The bounds and the target in the reason of a rule's verdict; what stands on record stays so.
_SHARES = re.compile(
    r"(?:(?<=bound )|(?<=may be, )|(?<=[0-9] to )|(?<=the target ))[01](?:\.[0-9]+)?"
    r"(?= to [01]\.|, spans | is below | reaches |$|[;,] | in )"
)

Detail = Mapping[str, Any]


def rule_lines(rule: Detail, units: Detail) -> Iterator[str]:
    """Yields what every arm's rule flags, and what the judged arm's flags show."""
    yield from _table(_flag_rows(rule))
    if any(arm["after_floor"] for arm in rule["arms"].values()):
        yield (
            "above floors: the flags that would block, after families below their own floor are"
            " advisory only; shown, the rows without these words decide"
        )
    yield label("judged", _judged_text(rule, units))
    for one in rule["simulated_error"]:
        yield label("warning", _simulated_text(rule, one))
    judged = rule["arms"][rule["arm"]]
    families = judged["populations"][rule["population"]]["families"]
    if families:
        yield label("families", f"of {rule['arm']} on {rule['population']}")
        yield from _table(_family_rows(rule, judged, families))
    if rule["capacity"]:
        what = (
            "if so many were flagged, by rank; `from` is the last one's value; shown, and"
            " decides nothing"
        )
        yield label("capacity", what)
        yield from _table(_capacity_rows(rule["capacity"]))
    yield label("threshold", "\n".join(_threshold_lines(judged["thresholds"])))


def reason_words(reason: str) -> str:
    """Returns the reason of a rule's verdict with its shares as percent."""
    # Bounds are on record with three decimals, a target as it is registered.
    return _SHARES.sub(
        lambda found: f"{100 * float(found[0]):{'.1f' if len(found[0]) == 5 else 'g'}} %", reason
    )


def _table(rows: Sequence[Sequence[str]]) -> Iterator[str]:
    widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]))]
    for row in rows:
        cells = [f"{row[0]:<{widths[0]}}"]
        cells += [f"{cell:>{width}}" for cell, width in zip(row[1:], widths[1:], strict=True)]
        yield "   ".join(cells).rstrip()


def _flag_rows(rule: Detail) -> list[list[str]]:
    head = ["", "population", "units", "flagged", "right", "precision", "bounds"]
    rows = [[*head, "of label 1", "of label 0"]]
    for name, arm in rule["arms"].items():
        for which, found in arm["populations"].items():
            decides = which == rule["population"] and name == rule["arm"]
            word = f"{which}, decides" if decides else which
            rows.append(_flag_row(name, word, found["total"]))
        for which, found in (arm["after_floor"] or {}).items():
            rows.append(_flag_row(f"{name} above floors", which, found))
    return rows


def _flag_row(name: str, which: str, found: Detail) -> list[str]:
    return [
        name,
        which,
        count(found["units"]),
        count(found["flagged"]),
        count(found["right"]),
        value(found["precision"], points=True),
        _limits(found),
        value(found["coverage"], points=True),
        value(found["false_flag_rate"], points=True),
    ]


def _limits(found: Detail) -> str:
    if found["lower"] is None:
        return ABSENT
    return f"{100 * found['lower']:.1f} to {100 * found['upper']:.1f} %"


def _judged_text(rule: Detail, units: Detail) -> str:
    found, target = rule["judged"], 100 * rule["target"]
    if found is None:
        return f"{rule['arm']} flagged nothing; target {target:g} %"
    where = quantity(found["clusters"], units["cluster_noun"], units["cluster_noun"])
    lines = [
        f"{rule['arm']}: precision {value(found['estimate'], points=True)}, {_limits(found)}"
        f" ({_BOUNDS[found['method']]}, error {100 * found['alpha']:g} % on each side);"
        f" target {target:g} %",
    ]
    text = f"{quantity(found['flags'], 'flag')} in {where}"
    if found["wrong_clusters"]:
        text += f", wrong ones in {count(found['wrong_clusters'])}"
    if found["effective_flags"] is not None and found["effective_flags"] < found["flags"]:
        text += f"; they tell as much as {found['effective_flags']:.0f} independent flags"
    lines.append(text)
    if found["estimand"] == "cluster_weighted":
        lines.append("the bound is of the mean share over clusters, each counted once")
    return "\n".join(lines)


def _simulated_text(rule: Detail, one: Detail) -> str:
    return (
        f"{_BOUNDS[rule['bound']]} takes flags as independent: simulated with these clusters at"
        f" icc {one['icc']:g}, it reaches a target that isn't exceeded in"
        f" {100 * one['error']:.1f} % of runs, where {100 * rule['alpha']:g} % is stated"
    )


def _family_rows(rule: Detail, judged: Detail, families: Detail) -> list[list[str]]:
    rows = [["", "units", "flagged", "right", "precision", "bounds", "floor"]]
    for name, found in families.items():
        bound = rule["families"].get(name) or found
        rows.append(
            [
                name,
                count(found["units"]),
                count(found["flagged"]),
                count(found["right"]),
                value(found["precision"], points=True),
                _limits(bound),
                _floor_text(judged["floors"], name),
            ]
        )
    return rows


def _floor_text(floors: Detail | None, name: str) -> str:
    if floors is None:
        return "none"
    return f"{floors[name]['floor']}: {'blocks' if floors[name]['may_block'] else 'advisory'}"


def _capacity_rows(points: Sequence[Detail]) -> list[list[str]]:
    rows = [["", "flags", "right", "precision", "bounds", "from"]]
    for one in points:
        shown = value(one["precision"], points=True)
        numbers = [count(one["flags"]), count(one["right"]), shown, _limits(one)]
        rows.append(["", *numbers, plain(one["value"])])
    return rows


def _threshold_lines(thresholds: Sequence[Detail]) -> Iterator[str]:
    """Yields the thresholds that flag; one line a fold, and a family where each has its own."""
    shared = [one for one in thresholds if one["family"] is None]
    shown = shared or thresholds
    for one in shown[:_THRESHOLDS_MAX]:
        where = one["fold"] if one["family"] is None else f"{one['fold']} {one['family']}"
        learnt = f"{count(one['training'])} units of the other folds"
        if one["block"] is None:
            yield f"{where}: none ({one['why_not']}), from {learnt}"
        else:
            flags = f"{count(one['right'])} of {count(one['flagged'])} flags there were right"
            yield f"{where}: {plain(one['block'])}, from {learnt}; {flags}"
    if len(shown) > _THRESHOLDS_MAX:
        yield f"and {len(shown) - _THRESHOLDS_MAX} more: ledger result --json"
    if not shown:
        yield "none: the run ended before two folds had scores"


def precision_text(
    estimate: float, lower: float | None, upper: float | None, *, flags: int, clusters: int
) -> str:
    """Returns a precision between its bounds, as a look shows it."""
    limits = ABSENT if lower is None or upper is None else f"{100 * lower:.1f} to {100 * upper:.1f}"
    size = f"{quantity(flags, 'flag')} in {quantity(clusters, 'cluster')}"
    return f"precision {value(estimate, points=True)}   {size}   bounds {limits} %"


def capacity_text(found: Capacity) -> str:
    """Returns what the flags can show at best, before any score."""
    head = (
        f"target {100 * found.target:g} %; {count(found.positives)} of {count(found.units)} units"
        f" of population {found.population} have label 1, in {quantity(found.clusters, 'cluster')}"
    )
    lines = [head]
    if found.best_lower is not None:
        lines.append(_best_text(found, found.best_lower))
    needed = ", ".join(f"{count(row.flags)} with {row.wrong} wrong" for row in found.rows)
    lines.append(f"independent flags needed: {needed}")
    lines += [
        f"{one.family}: {count(one.positives)} of {count(one.units)} with label 1"
        + ("" if one.can_pass else "; cannot pass its floor")
        for one in found.families
    ]
    return "\n".join(lines)


def _best_text(found: Capacity, lower: float) -> str:
    would = f"the {_BOUNDS[found.bound]} lower bound would be {100 * lower:.1f} %"
    if found.best_family is None:
        return f"if all of them were flagged and nothing else, {would}"
    return (
        f"if all {count(found.best_positives)} of family {found.best_family} were flagged and"
        f" nothing else, {would} by Holm, no other family's higher"
    )
