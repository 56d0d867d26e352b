"""What a table of outcomes says of two arms, without a plan. Pure.

Leaves the numbers to `engine/compare.py`, the table's form to `text_result.py`.

Rules:
- There is no verdict: what it would be is said, and that nothing was registered.
- What is missing is said once, with what left for it.
- How the file was read is said first, since everything follows from it.
"""

from __future__ import annotations

from typing import Any

from fairtrial.engine.compare import CompareReport

from .text_numbers import count, quantity
from .text_result import endpoint_lines, table_lines

__all__ = ("compare_text", "would_be_line")

_LEFT = "excluded in "
# A table has no run in which something could be lost: what a status means is what isn't in it.
_LOST = {"ungraded": "without a value", "replay_miss": "without a row"}


def compare_text(report: CompareReport, *, following: str) -> str:
    """Returns the whole answer.

    Args:
        report: What was computed.
        following: The command to type next.
    """
    endpoint = _endpoint(report)
    why = "as chosen" if report.chosen else "is first in the file; --incumbent to change"
    lines = [
        _read_text(report),
        f"{report.treatment} minus {report.control}  ({report.control} {why})",
        *table_lines([endpoint], report.control, report.treatment),
        *endpoint_lines(endpoint, report.control, report.treatment),
        *_missing(report),
        *(f"note: {note}" for note in report.notes),
        would_be_line(report),
        f"Not registered, nothing written. To put it on record: {following}",
    ]
    return "\n".join(lines)


def would_be_line(report: CompareReport) -> str:
    """Returns what the verdict would be, the one line that `--quiet` keeps."""
    return f"would be: {report.would_be.upper()}: {report.reason}"


def _read_text(report: CompareReport) -> str:
    columns = dict(report.columns)
    cluster = columns.pop("cluster", None)
    units = quantity(report.planned, "unit")
    whole = report.planned if report.layout == "wide" else 2 * report.planned
    sign = "=" if report.rows == whole else "of"
    clusters = f"cluster: {cluster}" if cluster else "no clusters"
    order = [columns[name] for name in ("unit", "arm", "value") if name in columns]
    return (
        f"{report.name}: {quantity(report.rows, 'row')} {sign} {units} x 2 arms"
        f"   (columns: {', '.join(order)}; {clusters})"
    )


def _missing(report: CompareReport) -> list[str]:
    """Returns one line of what is missing where, and what left for it; none where nothing is."""
    arms = [f"{arm} {_lost(counts)}" for arm, counts in report.missing.items() if counts]
    left = [text for text in report.warnings if text.startswith(_LEFT)]
    return ["missing: " + "; ".join([*arms, *left])] if arms or left else []


def _lost(counts: dict[str, int]) -> str:
    return ", ".join(f"{count(number)} {_LOST.get(word, word)}" for word, number in counts.items())


def _endpoint(report: CompareReport) -> dict[str, Any]:
    """Returns the numbers in the shape of a result's endpoint."""
    has_limits = report.lower is not None and report.upper is not None
    limits = {
        "lower": report.lower,
        "upper": report.upper,
        "level": report.level,
        "parts": {
            name: {"lower": lower, "upper": upper} for name, (lower, upper) in report.parts.items()
        },
    }
    discordant = {
        "only_control": report.only_control,
        "only_treatment": report.only_treatment,
    }
    return {
        "name": report.endpoint,
        "scale": "raw",
        "in_points": report.in_points,
        "arms": report.arms,
        "difference": report.difference,
        "df": report.df,
        "interval": limits if has_limits else None,
        "undetermined": None,
        "units": {
            "clusters": report.clusters,
            "paired": report.paired,
            "excluded_count": 0,
            "lost": {},
        },
        "tests": report.tests,
        # The plan of `init --from` asks for superiority, without a margin.
        "against": {"difference": 0.0, "saving": None},
        "discordant": None if report.only_control is None else discordant,
        "warnings": [text for text in report.warnings if not text.startswith(_LEFT)],
    }
