"""`ledger run`: runs what is pending, takes the looks, resumes."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from .options import experiment_argument, key_option, verb, writing_options
from .output import Ending, Output

if TYPE_CHECKING:
    from fairtrial.engine.running import RunReport

__all__ = ("command",)

_ENDINGS: dict[str, Ending] = {
    "complete": "done",
    "boundary": "done",
    "interrupted": "interrupted",
    "terminated": "terminated",
}


@verb(
    "run",
    example="""
    ledger run --concurrency 16
    ledger run router-ab --json > run.json
    """,
)
@experiment_argument
@click.option(
    "--concurrency",
    type=click.IntRange(1, 1024),
    default=4,
    show_default=True,
    help="Attempts in flight at most; no number depends on it.",
)
@click.option(
    "--progress",
    type=click.Choice(["auto", "bar", "lines", "none"]),
    default="auto",
    show_default=True,
    help="On stderr: a bar on a terminal, lines elsewhere.",
)
@key_option
@writing_options
def command(
    out: Output,
    experiment: str | None,
    ledger: Path,
    actor: str,
    concurrency: int,
    progress: str,
    key: str | None,
) -> Ending:
    """Runs what is pending and takes the looks; the same command resumes.

    A look says only whether a boundary was crossed. Ctrl-C waits for what is in flight, a second
    one ends it; nothing that was settled is lost. Exit code 4: stopped before its end (ceiling,
    failing arm, time); 130, 143: interrupted, terminated.
    """
    from fairtrial.engine.session import run

    from .progress import open_sink
    from .text_run import run_text

    with open_sink("quiet" if out.quiet else progress) as sink:
        report = run(
            ledger,
            experiment,
            actor=actor,
            concurrency=concurrency,
            sink=sink,
            settings={"progress": progress},
            key=key,
        )
    out.of(report.experiment, ledger)
    out.text(run_text(report, out.command))
    out.end({"v": 1, **_plain(report)}, receipt=report.receipt, next_command=report.next)
    return _ENDINGS.get(report.reason, "unfinished")


def _plain(report: RunReport) -> dict[str, object]:
    import msgspec

    plain: dict[str, object] = msgspec.to_builtins(report)
    return plain
