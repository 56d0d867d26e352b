"""Numbers as people read them: counts, money, shares, points, p-values, times. Pure.

Leaves which numbers are shown to the other text modules.

Rules:
- A share is a percentage with one decimal, a difference of shares is in points with its sign.
- A p-value has two significant digits; below one in a million it is said to be below that.
- A number that doesn't exist is a word, never 0.
- Text on record writes no line of its own and nothing that a terminal would obey.
- What a number is measured in stands beside its name, unless the name says it.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from fairtrial.ledger.errors import visible

__all__ = (
    "ABSENT",
    "clip",
    "count",
    "difference",
    "duration",
    "interval",
    "measured",
    "named",
    "p_value",
    "plain",
    "quantity",
    "signed",
    "usd",
    "usd_alike",
    "value",
    "visible_form",
)

ABSENT = "none"
# Words in a name that say what it is measured in.
_SAID = {
    "usd": {"usd", "dollar", "dollars"},
    "tokens": {"token", "tokens"},
    "s": {"s", "sec", "secs", "second", "seconds"},
}
# What of a long form people wrote, beside the labels: each is cut to a line where it is printed.
_QUOTED = (("stop_note",), ("deviations", "*", "reason"))
# Text of drivers and people may hold escape sequences that a terminal would obey.
_CONTROLS = re.compile(r"[\x00-\x1f\x7f-\x9f]+")


def named(name: str, measured_in: str | None) -> str:
    """Returns an endpoint's name, with what it is measured in where the name doesn't say it."""
    if measured_in is None or _SAID[measured_in] & set(re.split("[^a-z]+", name.lower())):
        return name
    return f"{name} ({measured_in})"


def count(number: int) -> str:
    """Returns a count with thousands apart."""
    return f"{number:,}"


def quantity(number: int, noun: str, plural: str | None = None) -> str:
    """Returns a count with its noun."""
    return f"{number:,} {noun if number == 1 else plural or noun + 's'}"


def usd(amount: float | None) -> str:
    """Returns money with two decimals, more where the cents would hide it."""
    if amount is None:
        return ABSENT
    return f"{amount:,.{_decimals(amount)}f}"


def usd_alike(*amounts: float) -> list[str]:
    """Returns amounts of one sum with as many decimals each as the one that needs most."""
    decimals = max(map(_decimals, amounts))
    return [f"{amount:,.{decimals}f}" for amount in amounts]


def _decimals(amount: float) -> int:
    return 4 if 0 < abs(amount) < 1 and round(amount, 2) != round(amount, 6) else 2


def plain(number: float | None, *, digits: int = 4) -> str:
    """Returns a number with so many significant digits, in decimals."""
    if number is None:
        return ABSENT
    text = f"{number:.{digits}g}"
    return f"{number:,.0f}" if "e+" in text else text


def signed(number: float | None, *, digits: int = 4) -> str:
    """Returns a number with its sign."""
    text = plain(number, digits=digits)
    return text if number is None or number < 0 else f"+{text}"


def measured(text: str, measured_in: str | None) -> str:
    """Returns a number's text with what it is measured in, where that is known."""
    return text if measured_in is None else f"{text} {measured_in}"


def value(number: float | None, *, points: bool) -> str:
    """Returns one arm's number: a percentage where differences are in points."""
    if number is None:
        return ABSENT
    return f"{100 * number:.1f} %" if points else plain(number)


def difference(number: float | None, *, points: bool, unit: bool = True) -> str:
    """Returns a difference with its sign, in points where that is meant."""
    if number is None:
        return ABSENT
    if not points:
        return signed(number)
    text = f"{100 * number:+.1f}".replace("-0.0", "+0.0")
    return f"{text} points" if unit else text


def interval(lower: float | None, upper: float | None, *, points: bool) -> str:
    """Returns the limits of an interval; a side without a limit is said to be open.

    A difference of rates beyond 100 points isn't possible, so that no limit is shown beyond it.
    """
    if lower is None and upper is None:
        return ABSENT
    sides = [
        "open" if limit is None else difference(_possible(limit, points), points=points, unit=False)
        for limit in (lower, upper)
    ]
    return " to ".join(sides)


def _possible(limit: float, points: bool) -> float:
    return max(-1.0, min(1.0, limit)) if points else limit


def p_value(number: float | None) -> str:
    """Returns a p-value without its letter."""
    if number is None:
        return ABSENT
    if number < 1e-6:
        return "under 0.000001"
    exponent = int(f"{number:.1e}".partition("e")[2])
    return f"{number:.{max(2, 1 - exponent)}f}"


def duration(seconds: float) -> str:
    """Returns a time span in its two largest units."""
    if seconds < 60:
        return f"{seconds:.1f} s" if seconds < 10 else f"{seconds:.0f} s"
    whole = round(seconds)
    if whole < 3600:
        return f"{whole // 60} min {whole % 60} s" if whole < 600 else f"{whole // 60} min"
    if whole < 48 * 3600:
        return f"{whole // 3600} h {whole % 3600 // 60} min"
    return f"{whole // 86400} days {whole % 86400 // 3600} h"


def visible_form(detail: Mapping[str, Any]) -> dict[str, Any]:
    """Returns a long form whose names, sentences and nouns write no line of their own."""
    return {visible(key): _visible_value(value, (key,)) for key, value in detail.items()}


def _visible_value(value: Any, path: tuple[str, ...]) -> Any:
    # Any: a long form that somebody else wrote may be any JSON.
    if isinstance(value, dict):
        return {visible(key): _visible_value(item, (*path, key)) for key, item in value.items()}
    if isinstance(value, list):
        return [_visible_value(item, (*path, "*")) for item in value]
    is_quoted = path[0] == "labels" or path in _QUOTED
    return visible(value) if isinstance(value, str) and not is_quoted else value


def clip(text: str, width: int) -> str:
    """Returns text in one line of at most so many characters, without control characters."""
    line = _CONTROLS.sub(" ", text).strip()
    return line if len(line) <= width else line[: width - 1] + "…"
