"""`ledger import`: takes over a whole ledger from another file."""

from __future__ import annotations

from pathlib import Path

import click

from .copied import print_copied
from .options import ledger_option, verb
from .output import Output

__all__ = ("command",)


@verb(
    "import",
    example="""
    ledger export copy.jsonl
    ledger import copy.jsonl --ledger again.db
    """,
)
@click.argument("source", type=click.Path(path_type=Path))
@ledger_option
def command(out: Output, source: Path, ledger: Path) -> None:
    """Takes over a whole ledger from SOURCE into a new one; nothing is changed on the way.

    The new ledger must not exist yet. To continue both would fork them: keep one.
    """
    from fairtrial.engine.inspecting import import_ledger

    print_copied(out, import_ledger(source, ledger), source=source, target=ledger)
