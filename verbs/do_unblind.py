"""`ledger unblind`: who was behind X and Y."""

from __future__ import annotations

from pathlib import Path

from .acts import print_act
from .options import experiment_argument, key_option, reason_option, verb, writing_options
from .output import Output

__all__ = ("command",)


@verb(
    "unblind",
    example="""
    ledger unblind --reason "all looks are taken"
    """,
)
@experiment_argument
@reason_option
@key_option
@writing_options
def command(
    out: Output, experiment: str | None, ledger: Path, actor: str, reason: str, key: str | None
) -> None:
    """Opens the arms of a blinded experiment, with the salts that prove it.

    A result needs it. Before the last look it is possible and early: the result then is not as
    registered. A withdrawn experiment can be opened for the record. From here on every view shows
    names and numbers.
    """
    from fairtrial.custody.blinding import DISCIPLINE
    from fairtrial.engine.unblinding import unblind_experiment

    done = unblind_experiment(ledger, experiment, actor=actor, reason=reason, key=key)
    event = done.event
    lines = [f"{event.experiment}   arm {arm.name} is {arm.arm}" for arm in event.arms]
    if done.early:
        lines.append("EARLY: before the last look; the result will say that it isn't as registered")
    lines.append(f"that nobody knew before is {DISCIPLINE}")
    print_act(out, done, "\n".join(lines), ledger=ledger, next_command=done.next)
