"""The power of a plan by formula, as people read it: worded by the registered rule. Pure.

Leaves the numbers and the reasons why there are none to the engine.

Rules:
- What is shown is named: a difference, non-inferiority within a margin, equivalence within one.
- The smallest difference is that of superiority; for non-inferiority it is the distance from the
  margin, and equivalence has none.
"""

from __future__ import annotations

from fairtrial.verdicts.power_terms import PowerTerms
from fairtrial.verdicts.power_values import PowerReport

from .text_numbers import difference, measured, plain

__all__ = ("assumed_text", "formula_text")


def formula_text(report: PowerReport, terms: PowerTerms) -> str:
    """Returns power and smallest difference in one line, or why they aren't known."""
    parts = [*_power_parts(report, terms), *_smallest_parts(report, terms)]
    if parts:
        return "; ".join(parts)
    why = terms.why_not or "no effect is registered"
    return _table_text(report, terms, why) or f"not known: {why}"


def assumed_text(
    *, discordance: float | None, sd: float | None, icc: float | None, missing: float
) -> str:
    """Returns what is assumed of the outcomes, in the words of `power.assume`."""
    spread = f"sd {plain(sd)}" if discordance is None else f"discordance {plain(discordance)}"
    return f"{spread}, icc {plain(icc)}, lost {100 * missing:.1f} %"


def _power_parts(report: PowerReport, terms: PowerTerms) -> list[str]:
    power, effect = report.power, report.effect
    if power is None or effect is None:
        return []
    if terms.rule == "superiority":
        above = f" above the margin of {_size(terms.margin, terms)}" if terms.margin else ""
        return [f"{100 * power:.1f} % for a difference of {_size(abs(effect), terms)}{above}"]
    word = "equivalence" if terms.rule == "equivalence" else "non-inferiority"
    return [
        f"{100 * power:.1f} % to show {word} within {_size(terms.margin, terms)}"
        f" at a true difference of {_size(effect, terms)}"
    ]


def _smallest_parts(report: PowerReport, terms: PowerTerms) -> list[str]:
    least, share = report.smallest_difference, f"{100 * report.target:g} %"
    if least is None or terms.rule == "equivalence":
        return []
    if terms.rule == "superiority":
        return [f"smallest difference found with {share}: {_size(least, terms)}"]
    return [f"found with {share}: a true difference {_size(least, terms)} better than the margin"]


def _table_text(report: PowerReport, terms: PowerTerms, why: str) -> str:
    """Returns the smallest difference over what could be assumed, where something is missing."""
    cells = report.endpoints[0].table if report.endpoints else ()
    rows = [
        f"discordance {cell.discordance:g}, icc {cell.icc:g}: "
        + ("none" if cell.smallest_difference is None else _size(cell.smallest_difference, terms))
        for cell in cells
    ]
    return "\n".join([f"{why}; smallest difference found with", *rows]) if rows else ""


def _size(number: float, terms: PowerTerms) -> str:
    text = difference(number, points=terms.points).removeprefix("+")
    return measured(text, terms.measured_in)
