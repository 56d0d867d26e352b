"""The cells of one recorded outcome become an `Answer`, or a problem with its line. Pure.

Leaves which rows count to `recorded.py`.

Rules:
- A score that is empty, null, NA, NaN or an infinity is ungraded, never 0. What isn't a number at
  all is a problem.
- `passed` is 1, 0, true or false (also 1.0 and 0.0, as pandas writes); `status` is one of the
  closed list, ok when empty or not mapped. Only an ok becomes ungraded.
- `usd`, `tokens` and `duration_seconds` that are empty weren't recorded.
"""

from __future__ import annotations

import math
from decimal import Decimal, InvalidOperation
from typing import cast, get_args

from fairtrial.ledger.errors import Problem
from fairtrial.ledger.events import Status
from fairtrial.protocols.tables import cell_text

from .answer import Answer
from .answer_fields import NANO_MAX, nano_usd, parse_score

__all__ = ("parse_cells", "replicate_of")

_STATUSES = get_args(Status)
_EMPTY = frozenset({"", "na", "n/a", "null", "none"})
_YES_NO = frozenset({"true", "false", "yes", "no", "t", "f", "y", "n"})
_PASSED = {"1": 1.0, "1.0": 1.0, "true": 1.0, "0": 0.0, "0.0": 0.0, "false": 0.0}


def replicate_of(cell: object) -> int:
    """Returns a replicate, 0 when the cell isn't a whole number."""
    text = cell_text(cell)
    return int(text) if text and text.isascii() and text.isdecimal() and len(text) < 10 else 0


def parse_cells(cells: dict[str, object], *, line: int) -> Answer | Problem:
    """Returns an outcome.

    Args:
        cells: Cells by field of the outcome: status, passed, score, answer, usd, tokens,
            duration_seconds, scores.NAME.
        line: The row's line.
    """
    field = ""
    try:
        scores: dict[str, float] = {}
        lost: dict[str, str] = {}
        other: dict[str, object] = {"incurred_nanousd": 0}
        for field, cell in cells.items():
            if field == "passed" or field == "score" or field.startswith("scores."):
                _put(scores, lost, field, cell)
            else:
                other |= _OTHER[field](cell)
    except ValueError as error:
        return Problem(
            what=f"a cell of {field} can't be read: {error}",
            where=f"driver.columns.{field}",
            line=line,
            found=repr(cells[field]),
            todo=_todo(field, cells[field]),
        )
    return _answer(scores, lost, other)


def _todo(field: str, cell: object) -> str:
    is_score = field == "score" or field.startswith("scores.")
    if is_score and isinstance(cell, str) and cell.strip().lower() in _YES_NO:
        return f"write 1 or 0; only a column mapped as `passed` takes true and false, not {field}"
    return "correct the cell"


def _answer(scores: dict[str, float], lost: dict[str, str], other: dict[str, object]) -> Answer:
    status, code = cast("Status", other.pop("status", "ok")), None
    if status == "ok" and lost:
        status, code = "ungraded", next(iter(lost.values()))
    # The keys of `other` are those of the functions in _OTHER, each with its field's type.
    return Answer(status=status, code=code, scores=scores, **other)  # type: ignore[arg-type]


def _put(scores: dict[str, float], lost: dict[str, str], field: str, cell: object) -> None:
    name = field.removeprefix("scores.")
    value = _passed(cell) if field == "passed" else _score(cell)
    if isinstance(value, str):
        lost[name] = value
    else:
        scores[name] = value


def _passed(cell: object) -> float | str:
    text = cell.strip().lower() if isinstance(cell, str) else str(cell).lower()
    if text in _PASSED:
        return _PASSED[text]
    value = _score(cell)
    if isinstance(value, str):
        return value
    raise ValueError("it is neither 1, 0, true nor false")


def _score(cell: object) -> float | str:
    if isinstance(cell, bool):
        return float(cell)
    if not isinstance(cell, str):
        return parse_score(cell)
    number = _number(cell)
    return parse_score(number)


def _number(cell: str) -> object:
    """Returns the number in a text, None for an empty one; a spelling of NaN stays text."""
    text = cell.strip()
    if text.lower() in _EMPTY:
        return None
    if text.lstrip("+-").lower() in ("nan", "inf", "infinity"):
        return text
    try:
        # A Decimal takes what a float takes; underscores are Python's own idea of a number.
        return Decimal("x" if "_" in text else text)
    except InvalidOperation:
        raise ValueError("it is not a number") from None


def _amount(cell: object) -> object:
    number = _number(cell) if isinstance(cell, str) else cell
    if number is None or isinstance(number, (int, float, Decimal)):
        return number
    raise ValueError("it is not a number")


def _status_cell(cell: object) -> dict[str, object]:
    text = cell_text(cell)
    if text and text not in _STATUSES:
        raise ValueError("it is none of " + ", ".join(_STATUSES))
    if text is None:
        raise ValueError("it is not text")
    return {"status": text or "ok"}


def _answer_cell(cell: object) -> dict[str, object]:
    text = cell_text(cell)
    if text is None:
        raise ValueError("it is not text")
    return {"answer": text or None}


def _usd_cell(cell: object) -> dict[str, object]:
    amount = _amount(cell)
    return {"cost_nanousd": None if amount is None else nano_usd(amount)}


def _tokens_cell(cell: object) -> dict[str, object]:
    amount = _measure(cell)
    if amount is None:
        return {}
    if amount != int(amount):
        raise ValueError("it is not a whole number")
    return {"tokens": {"total": int(amount)}}


def _duration_cell(cell: object) -> dict[str, object]:
    amount = _measure(cell)
    return {"duration_ms": None if amount is None else round(amount * 1000)}


def _measure(cell: object) -> float | None:
    amount = _amount(cell)
    if amount is None:
        return None
    number = float(cast("float", amount))
    if not (math.isfinite(number) and 0 <= number <= NANO_MAX // 1000):
        raise ValueError("it is not a number from 0")
    return number


_OTHER = {
    "status": _status_cell,
    "answer": _answer_cell,
    "usd": _usd_cell,
    "tokens": _tokens_cell,
    "duration_seconds": _duration_cell,
}
