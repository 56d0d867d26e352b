"""`ledger compare`: an answer from a table of outcomes; nothing is written."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from .options import output_options, verb
from .output import Output
from .table_options import init_command, read_table_file, table_options

if TYPE_CHECKING:
    from typing import Unpack

    from fairtrial.engine.compare import Choices

__all__ = ("command",)


@verb(
    "compare",
    example="""
    ledger compare results.csv
    ledger compare wide.csv --arms agent_a,agent_b --cluster repository
    """,
)
@click.argument("table", type=click.Path(path_type=Path))
@table_options
@output_options
def command(out: Output, table: Path, **choices: Unpack[Choices]) -> None:
    """Compares two arms in a TABLE of outcomes (CSV or JSONL); writes nothing.

    A long table has a row an outcome, with columns unit, arm and passed (or score); a wide one has
    a row a unit and a column an arm, named with --arms. The answer is no verdict: nothing was
    registered before the outcomes were known.
    """
    from fairtrial.engine.compare import compare_table

    from .text_compare import compare_text, would_be_line

    report = compare_table(read_table_file(table), name=table.name, **choices)
    following = init_command(table, choices)
    if out.quiet:
        out.essential(would_be_line(report))
    out.text(compare_text(report, following=following))
    out.end(_plain(report), next_command=following)


def _plain(report: object) -> dict[str, object]:
    import msgspec

    plain: dict[str, object] = msgspec.to_builtins(report)
    return {"v": 1, **plain}
