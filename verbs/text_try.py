"""What one attempt on a pilot unit was asked and gave. Pure.

Rules:
- The score stays hidden unless it was asked for: whoever writes the plan isn't told how arms fare.
- What isn't an answer is shown as far as it helps to mend it.
"""

from __future__ import annotations

from fairtrial.drivers.answer import Answer
from fairtrial.engine.try_unit import Tried

from .output import label
from .text_numbers import clip, count, duration, quantity, usd

__all__ = ("tried_text", "try_value")

STDIN_SHOWN = 400
OUTPUT_SHOWN = 2000
_STREAMS = ("stdout", "stderr")


def tried_text(tried: Tried, *, show_score: bool) -> str:
    """Returns one attempt in lines."""
    answer = tried.answer
    lines = [
        label("arm", f"{tried.arm}   unit {tried.unit}"),
        label("stdin", clip(tried.stdin, STDIN_SHOWN)),
        label("ended", _ended_text(answer, show_score)),
    ]
    if answer.status != "ok":
        lines += _output_lines(answer)
    lines += [
        label("warning", f"endpoint {name} finds no value in this answer: it would be ungraded")
        for name in tried.unanswered
    ]
    return "\n".join(lines)


def _ended_text(answer: Answer, show_score: bool) -> str:
    parts = [f"status {answer.status}" + (f" ({answer.code})" if answer.code else "")]
    if answer.message and answer.status != "ok":
        parts.append(clip(answer.message, 200))
    if answer.duration_ms is not None:
        parts.append(duration(answer.duration_ms / 1000))
    if answer.cost_nanousd is not None:
        parts.append(f"usd {usd(answer.cost_nanousd / 1e9)}")
    if answer.served_model:
        parts.append(f"model {answer.served_model}")
    if answer.tokens:
        parts.append(f"{count(sum(answer.tokens.values()))} tokens")
    if answer.answer is not None:
        parts.append(f"answer {quantity(len(answer.answer.encode()), 'byte')}")
    kept = [name for name in answer.artifacts if name not in _STREAMS]
    if kept:
        parts.append(f"{quantity(len(kept), 'artifact')}: {', '.join(kept)}")
    if answer.scores:
        parts.append(_scores_text(answer) if show_score else "score hidden (--show-score)")
    return ", ".join(parts)


def _scores_text(answer: Answer) -> str:
    return " ".join(f"{name}={value:g}" for name, value in answer.scores.items())


def _output_lines(answer: Answer) -> list[str]:
    lines = []
    for name in _STREAMS:
        text = answer.artifacts.get(name, b"").decode("utf-8", "replace").strip()
        if text:
            lines.append(label(name, text[-OUTPUT_SHOWN:]))
    return lines


def try_value(tried: Tried, *, show_score: bool) -> dict[str, object]:
    """Returns one attempt for JSON."""
    answer = tried.answer
    return {
        "arm": tried.arm,
        "unit": tried.unit,
        "stdin": tried.stdin,
        "status": answer.status,
        "code": answer.code,
        "message": answer.message,
        "seconds": None if answer.duration_ms is None else answer.duration_ms / 1000,
        "usd": None if answer.cost_nanousd is None else answer.cost_nanousd / 1e9,
        "tokens": dict(answer.tokens),
        "model": answer.served_model,
        "answer_bytes": None if answer.answer is None else len(answer.answer.encode()),
        "artifacts": {name: len(data) for name, data in answer.artifacts.items()},
        "scores": dict(answer.scores) if show_score else None,
        "unanswered": list(tried.unanswered),
    }
