"""Lines of a result that only some plans have: assigned units, win rates, savings. Pure.

Leaves the result itself to `text_result.py`.

Rules:
- What a difference is of is said before the table, where it isn't of pairs.
- A rate is said with what it is counted from.
- A share saved is said with its limits, or with why it has none.
- Where outcomes were declared invalid, what both analyses say comes before the second.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, TypeAlias

from .output import label
from .text_numbers import count, value
from .text_why import WHY_WORDS

__all__ = ("assigned_lines", "saving_lines", "second_head", "win_rate_lines")

Detail: TypeAlias = Mapping[str, Any]

_CODES = ("recorded_reason_code", "reason_code")


def assigned_lines(comparison: Detail) -> Iterator[str]:
    """Yields what a difference is of, where each unit is in one arm."""
    found = comparison.get("assigned")
    if found is None:
        return
    sides = [f"{count(found['units'][comparison[side]])} {found['noun']} assigned to"
             f" {comparison[side]}" for side in ("treatment", "control")]  # fmt: skip
    how = "whole clusters" if found["by"] == "cluster" else f"{found['noun']} one by one"
    how += f" within each {found['within']}" if found["within"] else ""
    yield f"differences of means between {' and '.join(sides)} ({how})"


def second_head(second: Detail) -> Iterator[str]:
    """Yields what both analyses say, where outcomes were declared invalid."""
    codes = {name: str(second[name]) for name in _CODES}
    words = {name: WHY_WORDS.get(code, code).replace("_", " ") for name, code in codes.items()}
    yield (
        "two analyses, as outcomes were declared invalid: with their old values (above)"
        f" {second['recorded_verdict'].upper()} ({words['recorded_reason_code']}), without them"
        f" (below) {second['verdict'].upper()} ({words['reason_code']})"
    )
    if "judged" in second:
        judged = second["judged"]
        shown = "nothing flagged" if judged is None else _bounds(judged)
        yield label("judged", f"without them: {shown}")


def _bounds(judged: Detail) -> str:
    text = f"precision {value(judged['estimate'], points=True)}"
    if judged["lower"] is None:
        return text
    return f"{text}, {100 * judged['lower']:.1f} to {100 * judged['upper']:.1f} %"


def saving_lines(found: Detail | None, control: str) -> Iterator[str]:
    """Yields the share of control's mean that is saved, where a saving decides on the raw scale."""
    if found is None:
        return
    share = "" if found["share"] is None else f" {value(found['share'], points=True)}"
    if found["lower"] is None:
        yield f"saved of the mean of {control}{share}: {found['why_not']}"
        return
    limits = " to ".join(value(found[side], points=True) for side in ("lower", "upper"))
    level = f"{100 * found['level']:.1f}".removesuffix(".0")
    yield f"saved of the mean of {control}{share} ({limits}; {level} %, Fieller)"


def win_rate_lines(found: Detail | None, treatment: str) -> Iterator[str]:
    """Yields a win rate with its limits, ties and all; the table has its distance from even."""
    if found is None or found["estimate"] is None:
        return
    counts = ", ".join(
        f"{count(found[name])} {word}"
        for name, word in (("wins", "won"), ("ties", "tied"), ("losses", "lost"))
    )
    limits = ""
    if found["lower"] is not None:
        sides = (min(1.0, max(0.0, found[side])) for side in ("lower", "upper"))
        limits = f" ({' to '.join(value(side, points=True) for side in sides)})"
    rate = value(found["estimate"], points=True)
    yield f"win rate of {treatment} {rate}{limits}: {counts}; the difference is from 50 %"
