"""`ledger export`: a copy of a ledger, an archive, files for a static host, or a statement."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from .copied import print_copied
from .options import key_option, ledger_option, verb
from .output import Output, label, shell_word
from .text_numbers import quantity

if TYPE_CHECKING:
    from fairtrial.custody.bundling import Bundled
    from fairtrial.custody.statement import Stated
    from fairtrial.custody.tiling import Tiled

__all__ = ("command",)


@verb(
    "export",
    example="""
    ledger export copy.jsonl
    ledger export --bundle evidence.zip
    ledger export --tiles public/log
    ledger export --statement result.dsse.json --key lab
    """,
)
@click.argument("target", type=click.Path(path_type=Path), required=False)
@click.option(
    "--bundle",
    type=click.Path(path_type=Path),
    metavar="FILE.zip",
    help="Ledger, blobs, files, receipts and a verifier that needs Python alone.",
)
@click.option(
    "--tiles",
    type=click.Path(path_type=Path, file_okay=False),
    metavar="DIR",
    help="Signed head, hashes and entries as files to serve (C2SP tlog-tiles); adds what is new.",
)
@click.option(
    "--checkpoint",
    type=click.Path(path_type=Path),
    metavar="FILE",
    help="With --tiles: the signed head, such as a cosigned one; default: the newest here.",
)
@click.option(
    "--statement",
    type=click.Path(path_type=Path, dir_okay=False),
    metavar="FILE",
    help="A result as a signed in-toto Statement (DSSE), to be kept beside what was compared.",
)
@click.option("--experiment", metavar="NAME", help="With --statement: which, if there are several.")
@key_option
@ledger_option
def command(
    out: Output,
    target: Path | None,
    bundle: Path | None,
    tiles: Path | None,
    checkpoint: Path | None,
    statement: Path | None,
    experiment: str | None,
    key: str | None,
    ledger: Path,
) -> None:
    """Copies a whole ledger with its blobs into TARGET: JSON Lines for .jsonl, else SQLite.

    Every entry, its leaf and the root stay the same. A file that exists is never overwritten.
    """
    if sum(one is not None for one in (target, bundle, tiles, statement)) != 1:
        raise click.UsageError(
            "give one of TARGET, --bundle FILE.zip, --tiles DIR, --statement FILE"
        )
    if checkpoint is not None and tiles is None:
        raise click.UsageError("--checkpoint goes with --tiles DIR")
    if experiment is not None and statement is None:
        raise click.UsageError("--experiment goes with --statement FILE")
    if statement is not None:
        from fairtrial.custody.statement import export_statement

        _print_statement(out, export_statement(ledger, statement, name=experiment, key=key))
    if tiles is not None:
        from fairtrial.custody.tiling import export_tiles

        _print_tiles(out, export_tiles(ledger, tiles, checkpoint=checkpoint), ledger, tiles)
    if bundle is not None:
        from fairtrial.custody.bundling import bundle_ledger

        _print_bundle(out, bundle_ledger(ledger, bundle), ledger, bundle)
    if target is not None:
        from fairtrial.engine.inspecting import export_ledger

        print_copied(out, export_ledger(ledger, target), source=ledger, target=target)


def _print_bundle(out: Output, done: Bundled, ledger: Path, bundle: Path) -> None:
    entries = quantity(done.size, "entry", "entries")
    out.text(label("bundle", f"{entries} of {ledger}, {len(done.names)} files in {bundle}"))
    for line in done.absent:
        out.text(label("not in it", line))
    if done.blinded:
        out.note(
            f"still blinded: {', '.join(done.blinded)}. The archive holds who is behind each label:"
            " give it to nobody who shall not know, or unblind first"
        )
    out.text(label("send", "the receipt by another way than the archive: it vouches for it"))
    out.ledger = None
    value = {
        "v": 1,
        "source": str(ledger),
        "bundle": str(bundle),
        "size": done.size,
        "files": list(done.names),
        "absent": list(done.absent),
        "blinded": list(done.blinded),
    }
    out.end(value, receipt=done.receipt, next_command=f"unzip -l {shell_word(bundle)}")


def _print_statement(out: Output, done: Stated) -> None:
    about = f"the result of {done.experiment}, entry {done.seq}: {done.verdict}"
    out.text(label("statement", f"{done.path}   {about}"))
    out.text(label("signed by", done.vkey))
    out.end({"v": 1, **done._asdict(), "path": str(done.path)})


def _print_tiles(out: Output, done: Tiled, ledger: Path, tiles: Path) -> None:
    entries = quantity(done.size, "entry", "entries")
    files = f"{quantity(done.written, 'file')} new of {done.files:,}"
    out.text(label("tiles", f"{entries} of {ledger} in {tiles}, {files}"))
    out.text(label("head", f"{done.note}, signed by the ledger's key; written last"))
    if done.newer:
        newer = quantity(done.newer, "entry is", "entries are")
        out.note(f"{newer} newer than the signed head and not in it: ledger checkpoint --key NAME")
    out.text(label("serve", "the folder as it is: every entry is in it in full, no blob is"))
    value = {"v": 1, "source": str(ledger), "tiles": str(tiles), **done._asdict()}
    out.end(value)
