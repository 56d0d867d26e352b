"""`ledger check`: is the plan sound, where do its looks fall, what can it find."""

from __future__ import annotations

from pathlib import Path

from .options import output_options, protocol_argument, verb
from .output import Ending, Output, shell_word

__all__ = ("command",)


@verb(
    "check",
    example="""
    ledger init trial
    ledger check trial/protocol.yaml
    """,
)
@protocol_argument
@output_options
def command(out: Output, protocol: Path) -> Ending:
    """Says whether a plan is sound, where its looks fall and what it can find.

    Reads PROTOCOL (default protocol.yaml) and the files that it names, reports everything that is
    wrong at once, and writes nothing. Exit code 3: `register` would refuse the plan.
    """
    from fairtrial.engine.session import check_protocol
    from fairtrial.verdicts.plan_warnings import plan_warnings

    from .text_plan import check_text

    checked = check_protocol(protocol)
    git = checked.git
    refused = bool(checked.design.power.refused) or (
        git is not None and git.required and bool(git.uncommitted)
    )
    out.text(check_text(checked, refused=refused))
    following = f"ledger register {shell_word(protocol)}"
    design = checked.design
    out.end(
        {
            "v": 1,
            "experiment": design.protocol.id,
            "ok": not refused,
            "units": len(design.units.ids),
            "clusters": design.plan.cluster_count,
            "slots": design.plan.slot_count,
            "power": design.power,
            "warnings": plan_warnings(design.protocol),
            "budget": checked.money,
            "drivers": checked.drivers,
            "without_row": checked.without_row,
            "existed_before": checked.existing,
            "required": design.protocol.require,
            "git": checked.git,
        },
        next_command=None if refused else following,
    )
    return "refused" if refused else "done"
