"""`ledger invalidate`: a person declares an outcome invalid."""

from __future__ import annotations

from pathlib import Path

import click

from .acts import print_act
from .options import reason_option, verb, writing_options
from .output import Output

__all__ = ("command",)


@verb(
    "invalidate",
    example="""
    ledger log --kind decision
    ledger invalidate 17 --reason "the grader used the wrong reference"
    """,
)
@click.argument("seq", type=click.IntRange(min=0))
@click.option("--experiment", metavar="EXPERIMENT", help="When the ledger holds several.")
@reason_option
@writing_options
def command(
    out: Output, seq: int, experiment: str | None, ledger: Path, actor: str, reason: str
) -> None:
    """Declares an outcome invalid, named by its entry; its value stays on record.

    The result then shows both analyses, with and without it, in its text and in --json
    (`without_invalidated` of each comparison): the verdict stands only when they agree.
    After the result nothing can be invalidated.
    """
    from fairtrial.engine.session import invalidate_outcome

    done = invalidate_outcome(ledger, experiment, actor=actor, seq=seq, reason=reason)
    print_act(
        out,
        done,
        f"outcome of entry {seq:,}: {reason}",
        ledger=ledger,
        next_command="ledger status",
    )
