"""`ledger withdraw`: an experiment ends without a result."""

from __future__ import annotations

from pathlib import Path

from .acts import print_act
from .options import experiment_argument, reason_option, verb, writing_options
from .output import Output

__all__ = ("command",)


@verb(
    "withdraw",
    example="""
    ledger withdraw --reason "typo in the hypothesis"
    """,
)
@experiment_argument
@reason_option
@writing_options
def command(out: Output, experiment: str | None, ledger: Path, actor: str, reason: str) -> None:
    """Ends an experiment without a result; what was recorded stays.

    A new protocol with another id can name it: `ledger register --supersedes EXPERIMENT`.
    """
    from fairtrial.engine.session import withdraw_experiment

    done = withdraw_experiment(ledger, experiment, actor=actor, reason=reason)
    name = done.event.experiment
    print_act(
        out,
        done,
        f"{name}: {reason}\na new protocol needs another id and names this one as superseded",
        ledger=ledger,
        next_command=f"ledger register PROTOCOL --supersedes {name}",
    )
