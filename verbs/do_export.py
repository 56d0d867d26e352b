"""`ledger export`: a copy of a ledger in another file; the suffix picks the store."""

from __future__ import annotations

from pathlib import Path

import click

from .copied import print_copied
from .options import ledger_option, verb
from .output import Output

__all__ = ("command",)


@verb(
    "export",
    example="""
    ledger export copy.jsonl
    ledger replay copy.jsonl
    """,
)
@click.argument("target", type=click.Path(path_type=Path))
@ledger_option
def command(out: Output, target: Path, ledger: Path) -> None:
    """Copies a whole ledger with its blobs into TARGET; .jsonl or .db picks the store.

    Every entry, its leaf and the root stay the same. A file that exists is never overwritten.
    """
    from fairtrial.engine.inspecting import export_ledger

    print_copied(out, export_ledger(ledger, target), source=ledger, target=target)
