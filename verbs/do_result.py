"""`ledger result`: the verdict; ends the experiment when that is due."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import click

from .options import experiment_argument, key_option, verb, writing_options
from .output import Ending, Output, label

__all__ = ("command",)

VERDICTS = ("adopt", "equivalent", "reject", "inconclusive")


def _gate(ctx: click.Context, param: click.Parameter, value: str | None) -> tuple[str, ...]:
    words = tuple(word.strip() for word in (value or "").split(",") if word.strip())
    unknown = [word for word in words if word not in VERDICTS]
    if unknown or (value is not None and not words):
        raise click.BadParameter(f"name verdicts among {', '.join(VERDICTS)}", ctx, param)
    return words


@verb(
    "result",
    example="""
    ledger result
    ledger result --gate=adopt,equivalent && ./deploy
    ledger result --stop --reason "the budget ends here"
    """,
)
@experiment_argument
@click.option("--stop", is_flag=True, help="End before the last look; needs --reason.")
@click.option("--reason", metavar="TEXT", help="Why it ends early; kept for ever.")
@click.option(
    "--gate",
    metavar="VERDICT[,VERDICT]",
    callback=_gate,
    help="Exit 0 for these verdicts, 5 for reject, 6 for another.",
)
@key_option
@writing_options
def command(
    out: Output,
    experiment: str | None,
    ledger: Path,
    actor: str,
    stop: bool,
    reason: str | None,
    gate: tuple[str, ...],
    key: str | None,
) -> Ending:
    """Shows the verdict, and ends the experiment with it when that is due.

    An experiment that isn't finished is refused, whatever stopped its run: go on with `ledger run`
    (after a ceiling with `ledger amend` first), or end it with --stop. Stopped early it is
    inconclusive, unless a boundary was crossed before or the protocol analyses what a ceiling left.
    """
    import msgspec

    from fairtrial.engine.inspecting import status
    from fairtrial.engine.session import result_of

    from .text_numbers import visible_form
    from .text_result import result_text, verdict_line
    from .text_status import kept_text

    if stop and not (reason or "").strip():
        raise click.UsageError("--stop needs --reason TEXT")
    if reason and not stop:
        raise click.UsageError("--reason goes with --stop")
    concluded, receipt = result_of(
        ledger, experiment, actor=actor, stop=stop, reason=reason, key=key
    )
    against = msgspec.to_builtins(dict(concluded.against))
    detail = _measured(msgspec.json.decode(concluded.detail), concluded.measured_in, against)
    detail["warnings"] = _with_idle(detail["warnings"], concluded.idle_accepts)
    (now,) = status(ledger, concluded.event.experiment)
    if now.waiting:
        detail |= {"counts": False, "waiting": now.waiting}
    shown = visible_form(detail)
    if out.quiet:
        out.essential(verdict_line(shown))
    out.text(result_text(shown, kept=kept_text(now)))
    for what in now.waiting:
        out.essential(label("waiting", f"the verdict doesn't count yet: the protocol wants {what}"))
    following = now.next if now.waiting else f"ledger replay --against {receipt}"
    out.end(detail, receipt=receipt, next_command=following)
    # A gate is passed by what counts.
    return "gate_other" if gate and now.waiting else _ending(concluded.event.verdict, gate)


def _measured(
    detail: dict[str, Any], measured_in: Mapping[str, str], against: Mapping[str, Any]
) -> dict[str, Any]:
    """Returns the long form with what its endpoints are measured in and tested against."""

    def with_unit(shape: dict[str, Any]) -> dict[str, Any]:
        endpoints = [
            {
                **one,
                "measured_in": measured_in.get(one["name"]),
                "against": against.get(one["name"]),
            }
            for one in shape["endpoints"]
        ]
        return {**shape, "endpoints": endpoints}

    comparisons = []
    for each in detail["comparisons"]:
        second = each.get("without_invalidated")
        beside = {"without_invalidated": with_unit(second)} if second is not None else {}
        comparisons.append({**with_unit(each), **beside})
    return {**detail, "comparisons": comparisons}


def _with_idle(warnings: list[str], idle: tuple[str, ...]) -> list[str]:
    """Returns the warnings, with a word behind what was accepted and never found."""
    begins = tuple(f"accepted in the protocol, {name.replace('_', ' ')}: " for name in idle)
    word = " (the freeze found nothing to accept)"
    return [text + (word if text.startswith(begins) else "") for text in warnings]


def _ending(verdict: str, gate: tuple[str, ...]) -> Ending:
    if not gate or verdict in gate:
        return "done"
    return "gate_reject" if verdict == "reject" else "gate_other"
