"""The keys of an answer, checked one by one: each becomes a value or a `BadAnswerError`. Pure.

Leaves what the keys mean together to `answer.py`, whose rules these functions carry out.
"""

from __future__ import annotations

import difflib
import math
import re
from collections.abc import Mapping, Sequence
from decimal import ROUND_HALF_UP, Decimal
from typing import NoReturn, cast

from fairtrial.ledger.canonical import check_name
from fairtrial.ledger.errors import LedgerError
from fairtrial.ledger.events import Status
from fairtrial.ledger.protocol import SCORE_MAX

__all__ = (
    "ANSWER_KEYS",
    "USD_MAX",
    "BadAnswerError",
    "bool_of",
    "check_keys",
    "error_of",
    "kind_of",
    "model_of",
    "names_of",
    "nano_usd",
    "parse_score",
    "scores_of",
    "status_of",
    "text_of",
    "tokens_of",
    "usd_of",
)

ANSWER_KEYS = (
    "v", "status", "passed", "score", "scores", "answer", "flag", "usd", "tokens", "model",
    "artifacts", "error", "extra",
)  # fmt: skip
NANO_MAX = 2**53 - 1
# More for one attempt is a unit mixed up; a sum of such costs would soon pass what fits the record.
USD_MAX = 100_000

_ERROR_KEYS = ("kind", "message", "retry")
_TOKEN_KEYS = ("input_uncached", "input_cached", "input_total", "output")
_CODE = re.compile("[a-z][a-z0-9_]{0,63}")
_NOT_FINITE_WORDS = frozenset({"nan", "inf", "infinity"})


class BadAnswerError(Exception):
    """An answer breaks the protocol; the text says how."""


def nano_usd(value: object) -> int:
    """Returns an amount of usd as whole nano-USD, rounded half up.

    Raises:
        ValueError: It isn't a number from 0 to `USD_MAX`.
    """
    if isinstance(value, bool) or not isinstance(value, (int, float, Decimal)):
        raise ValueError(f"usd is {kind_of(value)}, not a number")
    amount = value if isinstance(value, Decimal) else Decimal(repr(value))
    if not amount.is_finite() or amount < 0 or amount > USD_MAX:
        raise ValueError(f"usd is {value}, not a number from 0 to {USD_MAX:,} for one attempt")
    try:
        return int((amount * 10**9).to_integral_value(ROUND_HALF_UP))
    except ArithmeticError:
        raise ValueError(f"usd is {value}, which is too small to compute with") from None


def parse_score(value: object) -> float | str:
    """Returns a number that can be computed with, or the code of what is there instead of one.

    Raises:
        ValueError: It is neither a number nor one of the spellings of a missing one.
    """
    if value is None:
        return "score_null"
    if isinstance(value, str) and value.strip().lstrip("+-").lower() in _NOT_FINITE_WORDS:
        return "score_not_finite"
    if not isinstance(value, (bool, int, float, Decimal)):
        raise ValueError(f"{kind_of(value)}, not a number")
    try:
        number = float(value)
    except OverflowError:
        return "score_not_finite"
    if not math.isfinite(number):
        return "score_not_finite"
    return number if abs(number) <= SCORE_MAX else "score_out_of_range"


def check_keys(found: Mapping[object, object], known: Sequence[str], where: str) -> None:
    """Refuses a key that nobody knows, and names the nearest one."""
    for key in found:
        if key in known:
            continue
        near = difflib.get_close_matches(str(key), known, 1, 0.5)
        hint = f"; did you mean {where + near[0]!r}?" if near else f"; {_known(known, where)}"
        raise BadAnswerError(f"unknown key {where + str(key)!r}{hint}")


def _known(known: Sequence[str], where: str) -> str:
    """Returns where a key that nobody knows may go, or what could stand in its place."""
    return f"{where[:-1]} has {', '.join(known)}" if where else "free fields go under extra"


def status_of(found: Mapping[object, object]) -> Status:
    """Returns the status that a driver may say, ok when it says none."""
    status = found.get("status")
    if status is None:
        return "ok"
    if status not in ("ok", "failed", "error"):
        raise BadAnswerError(f"status is {status!r}; a driver says ok, failed or error")
    return status


def error_of(found: Mapping[object, object], status: Status) -> tuple[str | None, bool, str]:
    """Returns code, whether another try could help, and the message."""
    error = _mapping(found, "error", _ERROR_KEYS)
    check_keys(error, _ERROR_KEYS, "error.")
    kind, message = text_of(error, "kind") or "", text_of(error, "message") or ""
    retry = bool_of(error, "retry")
    if status == "ok":
        if kind:
            raise BadAnswerError(f"status is ok beside error.kind {kind!r}; say failed or error")
        return None, True, message
    if kind:
        word = re.sub("[^a-z0-9]+", "_", kind.lower()).strip("_")[:64]
        return (word if _CODE.fullmatch(word) else f"kind_{word}"[:64]), retry is not False, message
    return ("driver_error" if status == "error" else None), retry is not False, message


def scores_of(found: Mapping[object, object]) -> tuple[dict[str, float], dict[str, str]]:
    """Returns the finite values, and the code of each that isn't one."""
    given: dict[str, object] = {}
    if "passed" in found:
        given["passed"] = found["passed"]
        if _is_number(given["passed"]):
            raise BadAnswerError("passed is a number; it has to be true or false")
    if "score" in found:
        given["score"] = found["score"]
        if isinstance(given["score"], bool):
            raise BadAnswerError("score is true or false; that is what passed is for")
    for name, value in _mapping(found, "scores").items():
        if name in ("passed", "score"):
            raise BadAnswerError(f"scores.{name} is a key of its own: write it beside scores")
        given[_name(name, "a name in scores")] = value
    return _split(given)


def _split(given: Mapping[str, object]) -> tuple[dict[str, float], dict[str, str]]:
    scores: dict[str, float] = {}
    lost: dict[str, str] = {}
    for name, value in given.items():
        try:
            parsed = parse_score(value)
        except ValueError as error:
            raise BadAnswerError(f"{name} is {error}") from None
        if isinstance(parsed, str):
            lost[name] = parsed
        else:
            scores[name] = parsed
    return scores, lost


def _is_number(value: object) -> bool:
    """Returns whether a value is a finite number, not a truth value."""
    if isinstance(value, bool) or not isinstance(value, (int, float, Decimal)):
        return False
    return not isinstance(parse_score(value), str)


def usd_of(found: Mapping[object, object]) -> int | None:
    """Returns the price in nano-USD, None when none was reported."""
    if found.get("usd") is None:
        return None
    try:
        return nano_usd(found["usd"])
    except ValueError as error:
        raise BadAnswerError(str(error)) from None


def tokens_of(found: Mapping[object, object]) -> dict[str, int]:
    """Returns the counts in normalised form: input_uncached, input_cached, output."""
    given = _mapping(found, "tokens", _TOKEN_KEYS)
    check_keys(given, _TOKEN_KEYS, "tokens.")
    counts = {str(key): _count(value, f"tokens.{key}") for key, value in given.items()}
    total = counts.pop("input_total", None)
    if total is None:
        return counts
    if "input_uncached" in counts:
        raise BadAnswerError("tokens has input_total and input_uncached; one of them is enough")
    if counts.get("input_cached", 0) > total:
        raise BadAnswerError(
            "tokens.input_cached is more than tokens.input_total, which includes it"
        )
    return {"input_uncached": total - counts.get("input_cached", 0)} | counts


def _count(value: object, where: str) -> int:
    if isinstance(value, bool) or not isinstance(value, int) or not 0 <= value <= NANO_MAX:
        raise BadAnswerError(f"{where} is {kind_of(value)}, not a whole number from 0")
    return value


def model_of(found: Mapping[object, object]) -> str | None:
    """Returns the served model, None when it was not said."""
    model = text_of(found, "model")
    return _name(model, "model") if model else None


def names_of(found: Mapping[object, object]) -> tuple[str, ...]:
    """Returns the names of the declared files."""
    names = found.get("artifacts")
    if names is None:
        return ()
    if not isinstance(names, list):
        raise BadAnswerError(f"artifacts is {kind_of(names)}, not a list of file names")
    return tuple(_name(name, "a name in artifacts") for name in cast("list[object]", names))


def _name(value: object, where: str) -> str:
    if not isinstance(value, str):
        raise BadAnswerError(f"{where} is {kind_of(value)}, not text")
    try:
        check_name(value, where)
    except LedgerError as error:
        raise BadAnswerError(f"{where}: {error.what}") from None
    return value


def text_of(found: Mapping[object, object], key: str) -> str | None:
    """Returns a text, None when it was not given."""
    value = found.get(key)
    if value is None:
        return None
    if not isinstance(value, str):
        _wrong(key, value, "text")
    try:
        value.encode()
    except UnicodeEncodeError:
        raise BadAnswerError(f"{key} holds half of a character (a lone surrogate)") from None
    return value


def bool_of(found: Mapping[object, object], key: str) -> bool | None:
    """Returns a yes or no, None when it was not given."""
    value = found.get(key)
    if value is not None and not isinstance(value, bool):
        _wrong(key, value, "true or false")
    return value


def _mapping(
    found: Mapping[object, object], key: str, members: Sequence[str] = ()
) -> Mapping[object, object]:
    value = found.get(key)
    if value is None:
        return {}
    if not isinstance(value, Mapping):
        _wrong(key, value, "an object" + (f" of {', '.join(members)}" if members else ""))
    return cast("Mapping[object, object]", value)


def _wrong(key: str, value: object, expected: str) -> NoReturn:
    raise BadAnswerError(f"{key} is {kind_of(value)}, not {expected}")


def kind_of(value: object) -> str:
    """Returns what a value is, in words for people."""
    words: dict[type[object], str] = {
        bool: "true or false", type(None): "null", str: "text", dict: "an object",
        list: "a list", int: "a number", float: "a number", Decimal: "a number",
    }  # fmt: skip
    return words.get(type(value), f"of type {type(value).__name__}")
