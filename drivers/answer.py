"""What a driver said, checked: bytes or a mapping become an `Answer`. Pure.

Leaves the single keys to `answer_fields.py`, starting programs to `command.py` and what
becomes an event to `executor.py`.

Rules of an answer (driver protocol 1):
- `output: json`: the last line of stdout that isn't blank is the answer, one JSON object. `v` is
  required and 1; `status` defaults to ok; with ok one of passed, score, scores, answer is there. An
  empty `answer` is an answer.
- A key that nobody knows, twice the same key, a wrong type, no answer line: status error, code
  `bad_output`; the message names the nearest key.
- A driver may say ok, failed (the arm answered and it can't count) or error (infrastructure).
- `passed` is true or false, `score` a number, a member of `scores` either. NaN, an infinity (bare
  or as text) or null in one of them: status ungraded, code `score_not_finite` or `score_null`; the
  other members stay. A null elsewhere means that nothing was given.
- `usd` becomes nano-USD in decimal arithmetic, rounded half up; below 0 it is bad output.
- `tokens` has input_uncached, input_cached, output, or input_total, which includes what was cached;
  the normalised form has the first three, so that every provider's count means the same.
- `error.kind` becomes the code; `error.retry` false says that another try is useless.
- A non-zero exit status is error whatever was printed; cost, tokens and, of an answer with status
  error, kind and retry are kept. Code `exit_N` or `signal_N` else.
- `output: text`: stdout without its last line ends is the answer; nothing at all is failed, code
  `no_answer`. `output: exit`: 0 passed, 1 not passed, else error.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from decimal import Decimal
from typing import Literal, TypeAlias, cast

from fairtrial.ledger.events import Status
from fairtrial.ledger.protocol import SCORE_MAX

from . import answer_fields as fields
from .answer_fields import BadAnswerError

__all__ = ("Answer", "Output", "bad_output", "check_limits", "parse_answer", "parse_mapping")

Output: TypeAlias = Literal["json", "text", "exit"]

# A quoted text, or a not-a-number in one of the spellings that printf and f-strings give.
_NOT_USED = {
    "score_null": "null, not a number",
    "score_not_finite": "not a finite number",
    "score_out_of_range": f"larger than {SCORE_MAX:g}, which no analysis can compute with",
}
_LOOSE_NUMBER = re.compile(r'"(?:[^"\\]|\\.)*"|(?<![\w.])(-?)(nan|inf(?:inity)?)(?![\w.])', re.I)


@dataclass(frozen=True, kw_only=True, slots=True)
class Answer:
    """What one attempt gave.

    Attributes:
        status: How it ended; of the closed list of outcomes.
        code: Why, in one word; None for a plain ok.
        retry: Whether another try could help; matters for error and timeout only.
        scores: Finite values by name; `passed` (1 or 0) and `score` are members.
        flag: The arm's yes or no.
        answer: The arm's answer.
        cost_nanousd: Price as if nothing were cached; None: not reported.
        incurred_nanousd: What was really paid, where that differs; None: not reported.
        tokens: Normalised counts; their sum is the total.
        requested_model: The model that the protocol asks for.
        served_model: The model that the provider says it used.
        duration_ms: Measured time.
        artifacts: Kept bytes by name: stdout, stderr, and the files that the driver declared.
        declared: Names of files in the OUT folder that the answer lists.
        message: For the terminal; never in an event.
    """

    status: Status
    code: str | None = None
    retry: bool = True
    scores: Mapping[str, float] = field(default_factory=dict)
    flag: bool | None = None
    answer: str | None = None
    cost_nanousd: int | None = None
    incurred_nanousd: int | None = None
    tokens: Mapping[str, int] = field(default_factory=dict)
    requested_model: str | None = None
    served_model: str | None = None
    duration_ms: int | None = None
    artifacts: Mapping[str, bytes] = field(default_factory=dict)
    declared: tuple[str, ...] = ()
    message: str = ""


def parse_answer(stdout: bytes, *, exit_status: int, output: Output = "json") -> Answer:
    """Returns what a program's output and exit status mean.

    Args:
        stdout: All that was printed.
        exit_status: 0 to 255, or minus the number of the signal that ended the program.
        output: How the protocol says the program answers.
    """
    if output == "exit" and exit_status in (0, 1):
        return Answer(status="ok", scores={"passed": 1.0 - exit_status})
    said = _parse_line(stdout) if output == "json" else _parse_text(stdout)
    if exit_status == 0:
        return said
    return _exited(said, exit_status)


def parse_mapping(value: object) -> Answer:
    """Returns what a python driver's return value means; `v` may be left out, there is no wire."""
    if not isinstance(value, Mapping):
        return bad_output(f"the callable returned {fields.kind_of(value)}, not a dict")
    try:
        return _answer({"v": 1} | cast("dict[object, object]", _plain(value)))
    except BadAnswerError as error:
        return bad_output(str(error))


def bad_output(message: str) -> Answer:
    """Returns the answer of a driver that broke the protocol."""
    return Answer(status="error", code="bad_output", message=message)


def check_limits(
    answer: Answer, *, usd_nano: int | None, tokens: int | None, output_bytes: int | None
) -> Answer:
    """Returns the answer, with status limit when it cost more than one attempt may.

    What a driver reports exactly at a limit is within it. An error stays an error.
    """
    if answer.status == "error":
        return answer
    size = len(answer.answer.encode()) if answer.answer is not None else 0
    used = (("usd", answer.cost_nanousd or 0, usd_nano), ("tokens", sum(answer.tokens.values()),
            tokens), ("output_bytes", size, output_bytes))  # fmt: skip
    for name, found, limit in used:
        if limit is not None and found > limit:
            message = f"{name}: {found} is over the limit of {limit}"
            return replace(answer, status="limit", code=f"limit_{name}", scores={}, message=message)
    return answer


def _parse_line(stdout: bytes) -> Answer:
    lines = [line for line in stdout.split(b"\n") if line.strip()]
    if not lines:
        return bad_output("nothing was printed; the last line has to be the answer")
    try:
        return _answer(_load(lines[-1]))
    except BadAnswerError as error:
        return bad_output(str(error))


def _parse_text(stdout: bytes) -> Answer:
    try:
        text = stdout.decode().rstrip("\r\n")
    except UnicodeDecodeError as error:
        return bad_output(f"the output is not UTF-8: byte {error.start}")
    if not text.strip():
        return Answer(status="failed", code="no_answer", message="nothing was printed")
    return Answer(status="ok", answer=text)


def _exited(said: Answer, exit_status: int) -> Answer:
    ended = f"signal_{-exit_status}" if exit_status < 0 else f"exit_{exit_status}"
    own = said.status == "error" and said.code not in (None, "bad_output", "driver_error")
    return replace(
        said,
        status="error",
        code=said.code if own else ended,
        retry=said.retry if said.status == "error" else True,
        scores={},
        flag=None,
        answer=None,
        message=said.message if own else f"the program ended with {ended.replace('_', ' ')}",
    )


def _load(line: bytes) -> dict[object, object]:
    """Returns the object of an answer line; floats as decimals, not-a-number as float."""
    try:
        text = line.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise BadAnswerError(f"the answer line is not UTF-8: byte {error.start}") from None
    value = _loads(text)
    if value is None:
        value = _loads(_LOOSE_NUMBER.sub(_spell, text))
    if not isinstance(value, dict):
        raise BadAnswerError(f"the last line is not a JSON object: {text.strip()[:80]!r}")
    return value


def _loads(text: str) -> object:
    try:
        return json.loads(text, parse_float=_decimal, object_pairs_hook=_unique)
    except (ValueError, RecursionError):
        return None


def _decimal(text: str) -> Decimal:
    try:
        return Decimal(text)
    except ArithmeticError:
        raise BadAnswerError(f"the number {text[:40]} has too large an exponent") from None


def _spell(match: re.Match[str]) -> str:
    sign, word = match.groups()
    if word is None:
        return match[0]
    return "NaN" if word.lower() == "nan" else f"{sign}Infinity"


def _unique(pairs: list[tuple[str, object]]) -> dict[str, object]:
    found: dict[str, object] = {}
    for key, value in pairs:
        if key in found:
            raise BadAnswerError(f"the key {key!r} comes twice")
        found[key] = value
    return found


def _plain(value: object) -> object:
    """Returns a value of plain types: arrays of one element and numpy's scalars become theirs."""
    if isinstance(value, Mapping):
        return {key: _plain(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [_plain(item) for item in value]
    item = getattr(value, "item", None)
    return item() if callable(item) and getattr(value, "shape", None) == () else value


def _answer(found: Mapping[object, object]) -> Answer:
    fields.check_keys(found, fields.ANSWER_KEYS, "")
    version = found.get("v")
    if version != 1 or isinstance(version, bool):
        raise BadAnswerError(f"v is {version!r}; this is driver protocol 1" if "v" in found else
                   'v is missing; write "v": 1')  # fmt: skip
    status = fields.status_of(found)
    code, retry, message = fields.error_of(found, status)
    scores, lost = fields.scores_of(found)
    answer = fields.text_of(found, "answer")
    if status == "ok" and not (scores or lost or answer is not None):
        raise BadAnswerError("an answer with status ok needs one of passed, score, scores, answer")
    if status == "ok" and lost:
        name, code = next(iter(lost.items()))
        status, message = "ungraded", f"{name} is {_NOT_USED[code]}"
    return Answer(
        status=status,
        code=code,
        retry=retry,
        scores=scores,
        flag=fields.bool_of(found, "flag"),
        answer=answer,
        cost_nanousd=fields.usd_of(found),
        tokens=fields.tokens_of(found),
        served_model=fields.model_of(found),
        declared=fields.names_of(found),
        message=message,
    )
