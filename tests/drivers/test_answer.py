"""The rules of driver protocol 1 for an answer, one by one."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest

from fairtrial.drivers.answer import Answer, check_limits, parse_answer, parse_mapping


def _said(text: str, *, exit_status: int = 0) -> Answer:
    return parse_answer(text.encode(), exit_status=exit_status)


def test_whole_answer_is_read() -> None:
    """Every key of the documented line arrives; `extra` is nobody's business."""
    line = (
        '{"v":1,"status":"ok","passed":true,"score":0.8,"scores":{"unsafe":false,"depth":3},'
        '"answer":"","flag":false,"usd":0.02,"tokens":{"input_uncached":20,"input_cached":80,'
        '"output":10},"model":"served","artifacts":["a.diff"],'
        '"error":{"kind":"","message":"","retry":true},"extra":{"anything":[1]}}'
    )
    expected = Answer(
        status="ok",
        scores={"passed": 1.0, "score": 0.8, "unsafe": 0.0, "depth": 3.0},
        answer="",
        flag=False,
        cost_nanousd=20_000_000,
        tokens={"input_uncached": 20, "input_cached": 80, "output": 10},
        served_model="served",
        declared=("a.diff",),
    )
    assert expected == _said(line)


def test_last_line_that_is_not_blank_is_the_answer() -> None:
    """Chatter before and blank lines after don't matter; U+2028 is no line end."""
    answer = _said('{"v":1,"score":0}\nchatter\n{"v":1,"answer":"a\u2028b"}\r\n \n\n')
    assert ("ok", "a\u2028b") == (answer.status, answer.answer)


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("", "nothing was printed"),
        ("[1]", "not a JSON object"),
        ("done", "not a JSON object"),
        ('{"v":1,"score":', "not a JSON object"),
        ("[" * 5000, "not a JSON object"),
        ('{"score":1}', "v is missing"),
        ('{"v":2,"score":1}', "v is 2"),
        ('{"v":true,"score":1}', "v is True"),
        ('{"v":1,"passd":true}', "did you mean 'passed'"),
        ('{"v":1,"score":1,"zzz":1}', "under extra"),
        ('{"v":1,"score":1,"score":0}', "comes twice"),
        ('{"v":1}', "needs one of passed"),
        ('{"v":1,"scores":{}}', "needs one of passed"),
        ('{"v":1,"status":"timeout"}', "ok, failed or error"),
        ('{"v":1,"status":["ok"]}', "ok, failed or error"),
        ('{"v":1,"passed":1}', "true or false"),
        ('{"v":1,"score":true}', "what passed is for"),
        ('{"v":1,"score":"0.8"}', "score is text"),
        ('{"v":1,"score":[1]}', "score is a list"),
        ('{"v":1,"scores":{"score":1}}', "write it beside"),
        ('{"v":1,"scores":{" x":1}}', "blank"),
        ('{"v":1,"scores":3}', "not an object"),
        ('{"v":1,"score":1,"usd":-0.1}', "usd is -0.1"),
        ('{"v":1,"score":1,"usd":true}', "usd is true or false"),
        ('{"v":1,"score":1,"usd":1e300}', "usd is"),
        ('{"v":1,"score":1,"usd":NaN}', "usd is nan"),
        ('{"v":1,"score":1,"tokens":{"input":5}}', "unknown key 'tokens.input'"),
        ('{"v":1,"score":1,"tokens":7}', "not an object of input_uncached, input_cached"),
        ('{"v":1,"score":1,"tokens":{"zzz":5}}', "tokens has input_uncached, input_cached"),
        ('{"v":1,"score":1,"tokens":{"output":1.5}}', "whole number"),
        ('{"v":1,"score":1,"tokens":{"output":-1}}', "whole number"),
        ('{"v":1,"score":1,"tokens":{"input_total":5,"input_cached":6}}', "includes it"),
        ('{"v":1,"answer":3}', "not text"),
        ('{"v":1,"answer":"\\ud800"}', "lone surrogate"),
        ('{"v":1,"score":1,"flag":1}', "true or false"),
        ('{"v":1,"score":1,"model":" m"}', "blank"),
        ('{"v":1,"score":1,"artifacts":"a"}', "list of file names"),
        ('{"v":1,"score":1,"artifacts":[1]}', "not text"),
        ('{"v":1,"score":1,"error":{"knd":"x"}}', "did you mean 'error.kind'"),
        ('{"v":1,"score":1,"error":{"kind":"auth"}}', "say failed or error"),
    ],
)
def test_broken_answer_is_bad_output(line: str, message: str) -> None:
    """What breaks the protocol is an error that may be tried again, and says what is wrong."""
    answer = _said(line)
    assert ("error", "bad_output", True) == (answer.status, answer.code, answer.retry)
    assert message in answer.message


def test_bytes_that_are_not_utf8_are_bad_output() -> None:
    """Latin-1 in the answer is named by its byte."""
    answer = parse_answer(b'{"v":1,"answer":"\xe4"}', exit_status=0)
    assert ("bad_output", "the answer line is not UTF-8: byte 17") == (answer.code, answer.message)


@pytest.mark.parametrize(
    ("score", "code"),
    [
        ("NaN", "score_not_finite"),
        ('"NaN"', "score_not_finite"),
        ("nan", "score_not_finite"),
        ("Infinity", "score_not_finite"),
        ("-Infinity", "score_not_finite"),
        ("-inf", "score_not_finite"),
        ('"-inf"', "score_not_finite"),
        ("1e999", "score_not_finite"),
        ("1" + "0" * 400, "score_not_finite"),
        ("null", "score_null"),
    ],
)
@pytest.mark.parametrize("key", ["passed", "score", "scores.x"])
def test_score_that_is_not_finite_is_ungraded(key: str, score: str, code: str) -> None:
    """NaN in any spelling, an infinity or null leaves no number behind, and is never 0 (FR-22)."""
    pair = f'"scores":{{"x":{score}}}' if key == "scores.x" else f'"{key}":{score}'
    answer = _said(f'{{"v":1,{pair},"answer":"so: nan, \\"inf\\"","usd":0.5}}')
    assert ("ungraded", code, {}) == (answer.status, answer.code, answer.scores)
    assert ('so: nan, "inf"', 500_000_000) == (answer.answer, answer.cost_nanousd)


def test_finite_members_stay_beside_one_that_is_not() -> None:
    """The other scores of an ungraded answer are kept."""
    answer = _said('{"v":1,"passed":true,"scores":{"x":NaN,"y":2}}')
    assert ("ungraded", {"passed": 1.0, "y": 2.0}) == (answer.status, answer.scores)


@pytest.mark.parametrize(
    ("usd", "nano"),
    [("0.1", 100_000_000), ("0.30000000000000004", 300_000_000), ("0.0000000005", 1), ("0", 0),
     ("100000", 100_000_000_000_000), ("1e-12", 0), ("2.91", 2_910_000_000)],
)  # fmt: skip
def test_usd_becomes_whole_nano_usd(usd: str, nano: int) -> None:
    """Money is decimal: no binary float comes between what was printed and what is summed."""
    assert nano == _said(f'{{"v":1,"score":1,"usd":{usd}}}').cost_nanousd


@pytest.mark.parametrize(
    "usd",
    ["100000.01", "9007199", "1e300", "1e999", "-0.01", "1e-999999999999999999999",
     "1e999999999999999999999", "1" + "0" * 400],
)  # fmt: skip
def test_usd_that_no_attempt_costs_is_bad_output(usd: str) -> None:
    """A price beyond what one attempt can cost, or that is no number, is the driver's fault."""
    answer = _said(f'{{"v":1,"score":1,"usd":{usd}}}')
    assert ("error", "bad_output", None) == (answer.status, answer.code, answer.cost_nanousd)


@pytest.mark.parametrize("key", ["score", "v", "duration"])
def test_any_number_of_absurd_exponent_is_bad_output(key: str) -> None:
    """Whatever key holds it, such a number ends the attempt and not the run."""
    answer = _said(f'{{"v":1,"score":1,"extra":{{"x":1}},"{key}":1e-999999999999999999999}}')
    assert ("error", "bad_output") == (answer.status, answer.code)


def test_both_ways_of_counting_cached_tokens_agree() -> None:
    """Input with and without what was cached become one form, whose sum is the total (FR-20)."""
    within = _said('{"v":1,"score":1,"tokens":{"input_total":100,"input_cached":80,"output":10}}')
    beside = _said('{"v":1,"score":1,"tokens":{"input_uncached":20,"input_cached":80,"output":10}}')
    assert within.tokens == beside.tokens
    assert 110 == sum(within.tokens.values())


@pytest.mark.parametrize(
    ("error", "code", "retry"),
    [
        ('{"kind":"auth","retry":false}', "auth", False),
        ('{"kind":"Rate limit (429)"}', "rate_limit_429", True),
        ('{"kind":"429"}', "kind_429", True),
        ("{}", "driver_error", True),
        ("null", "driver_error", True),
    ],
)
def test_error_kind_becomes_the_code(error: str, code: str, retry: bool) -> None:
    """The code is one word that an event may hold; retry is true unless it says false."""
    answer = _said(f'{{"v":1,"status":"error","error":{error}}}')
    assert ("error", code, retry) == (answer.status, answer.code, answer.retry)


def test_failed_keeps_its_code() -> None:
    """An arm that answered in a way that can't count says why."""
    answer = _said('{"v":1,"status":"failed","error":{"kind":"refused"},"usd":0.1}')
    assert ("failed", "refused", 100_000_000) == (answer.status, answer.code, answer.cost_nanousd)


def test_exit_status_beats_a_good_last_line() -> None:
    """Non-zero is error whatever was printed, but the money was spent (FR-19 d)."""
    answer = _said('{"v":1,"passed":true,"answer":"x","usd":0.5}', exit_status=1)
    assert ("error", "exit_1", True, {}) == (
        answer.status, answer.code, answer.retry, answer.scores,
    )  # fmt: skip
    assert (None, 500_000_000) == (answer.answer, answer.cost_nanousd)


def test_exit_status_keeps_the_word_of_an_error() -> None:
    """A driver that says error and exits non-zero is believed as to kind and retry."""
    line = '{"v":1,"status":"error","error":{"kind":"auth","retry":false}}'
    answer = _said(line, exit_status=75)
    assert ("auth", False) == (answer.code, answer.retry)
    assert "exit_75" == _said("nonsense", exit_status=75).code
    assert "signal_9" == _said("", exit_status=-9).code


@pytest.mark.parametrize(
    ("printed", "exit_status", "expected"),
    [
        (b"42\n", 0, ("ok", None, "42")),
        (b"a\n\nb\r\n", 0, ("ok", None, "a\n\nb")),
        (b" \n", 0, ("failed", "no_answer", None)),
        (b"", 0, ("failed", "no_answer", None)),
        (b"42\n", 3, ("error", "exit_3", None)),
        (b"\xff", 0, ("error", "bad_output", None)),
    ],
)
def test_output_text_takes_stdout_as_the_answer(
    printed: bytes, exit_status: int, expected: tuple[str, str | None, str | None]
) -> None:
    """Without JSON all of stdout answers, and nothing at all is no answer."""
    answer = parse_answer(printed, exit_status=exit_status, output="text")
    assert expected == (answer.status, answer.code, answer.answer)


@pytest.mark.parametrize(
    ("exit_status", "status", "scores"),
    [(0, "ok", {"passed": 1.0}), (1, "ok", {"passed": 0.0}), (2, "error", {}), (-15, "error", {})],
)
def test_output_exit_takes_the_status_as_the_answer(
    exit_status: int, status: str, scores: dict[str, float]
) -> None:
    """0 passed, 1 didn't, anything else says that there was no test."""
    answer = parse_answer(b"NaN of 3 tests", exit_status=exit_status, output="exit")
    assert (status, scores) == (answer.status, answer.scores)


class _Scalar:
    """Behaves as a numpy scalar does."""

    shape = ()

    def item(self) -> float:
        return 0.25


def test_mapping_obeys_the_same_rules() -> None:
    """A dict that a callable returned is judged as a line is; v may be left out."""
    assert _said('{"v":1,"passed":true}') == parse_mapping({"passed": True})
    assert {"score": 0.25} == parse_mapping({"score": _Scalar()}).scores
    assert "ungraded" == parse_mapping({"score": float("nan")}).status
    assert "bad_output" == parse_mapping({"v": 2, "score": 1}).code
    assert "bad_output" == parse_mapping({1: 2}).code
    assert "bad_output" == parse_mapping(0.5).code
    assert 300_000_000 == parse_mapping({"score": 1, "usd": 0.3}).cost_nanousd


def test_limit_is_reached_by_more_than_it() -> None:
    """What is reported exactly at a limit is within it; beyond, no score is left."""
    answer = parse_mapping({"score": 1, "usd": 0.05, "tokens": {"output": 10}, "answer": "abc"})

    def limited(usd: int | None, tokens: int | None, size: int | None) -> Answer:
        return check_limits(answer, usd_nano=usd, tokens=tokens, output_bytes=size)

    assert answer == limited(50_000_000, 10, 3)
    assert ("limit", "limit_usd", {}) == _ending(limited(49_999_999, None, None))
    assert ("limit", "limit_tokens", {}) == _ending(limited(None, 9, None))
    assert ("limit", "limit_output_bytes", {}) == _ending(limited(None, None, 2))
    failed = replace(answer, status="error", code="auth", scores={})
    assert failed == check_limits(failed, usd_nano=1, tokens=1, output_bytes=1)


def _ending(answer: Answer) -> tuple[str, str | None, dict[str, float]]:
    return answer.status, answer.code, dict(answer.scores)


def test_what_json_dumps_prints_for_nan_is_ungraded() -> None:
    """The standard library prints a bare NaN, which is no JSON; it is told apart from garbage."""
    assert "ungraded" == _said(json.dumps({"v": 1, "score": float("nan")})).status
