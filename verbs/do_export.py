"""`ledger export`: a copy of a ledger in another file, or an archive for an auditor."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import TYPE_CHECKING

import click

from .copied import print_copied
from .options import ledger_option, verb
from .output import Output, label
from .text_numbers import quantity

if TYPE_CHECKING:
    from fairtrial.engine.bundling import Bundled

__all__ = ("command",)


@verb(
    "export",
    example="""
    ledger export copy.jsonl
    ledger export --bundle evidence.zip
    """,
)
@click.argument("target", type=click.Path(path_type=Path), required=False)
@click.option(
    "--bundle",
    type=click.Path(path_type=Path),
    metavar="FILE.zip",
    help="Ledger, blobs, files, receipts and a verifier that needs Python alone.",
)
@ledger_option
def command(out: Output, target: Path | None, bundle: Path | None, ledger: Path) -> None:
    """Copies a whole ledger with its blobs into TARGET; .jsonl or .db picks the store.

    Every entry, its leaf and the root stay the same. A file that exists is never overwritten.
    """
    if (target is None) == (bundle is None):
        raise click.UsageError("give TARGET, or --bundle FILE.zip")
    if bundle is not None:
        from fairtrial.engine.bundling import bundle_ledger

        _print_bundle(out, bundle_ledger(ledger, bundle), ledger, bundle)
    if target is not None:
        from fairtrial.engine.inspecting import export_ledger

        print_copied(out, export_ledger(ledger, target), source=ledger, target=target)


def _print_bundle(out: Output, done: Bundled, ledger: Path, bundle: Path) -> None:
    entries = quantity(done.size, "entry", "entries")
    out.text(label("bundle", f"{entries} of {ledger}, {len(done.names)} files in {bundle}"))
    for line in done.absent:
        out.text(label("not in it", line))
    out.text(label("send", "the receipt by another way than the archive: it vouches for it"))
    out.ledger = None
    value = {
        "v": 1,
        "source": str(ledger),
        "bundle": str(bundle),
        "size": done.size,
        "files": list(done.names),
        "absent": list(done.absent),
    }
    out.end(value, receipt=done.receipt, next_command=f"unzip -l {shlex.quote(str(bundle))}")
