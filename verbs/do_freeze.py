"""`ledger freeze`: units, run order and looks of a registered protocol are fixed."""

from __future__ import annotations

from pathlib import Path

from .options import experiment_argument, key_option, power_report_option, verb, writing_options
from .output import Output
from .registered import print_registered

__all__ = ("command",)


@verb(
    "freeze",
    example="""
    ledger register protocol.yaml --no-freeze
    ledger freeze
    """,
)
@experiment_argument
@power_report_option
@key_option
@writing_options
def command(
    out: Output,
    experiment: str | None,
    ledger: Path,
    actor: str,
    power_report: Path | None,
    key: str | None,
) -> None:
    """Fixes units, run order and looks of a registered protocol ("freeze the units").

    Needed only after `register --no-freeze`, or when the units file came later. A plan whose
    power falls short of its own target is refused, unless the protocol accepts that with a reason.
    """
    from fairtrial.engine.session import freeze_experiment
    from fairtrial.ledger.given import read_optional

    report = read_optional(power_report, what="the power report")
    done = freeze_experiment(ledger, experiment, actor=actor, power_report=report, key=key)
    print_registered(out, done, ledger)
