"""Prints that a ledger was copied: how much, from where, to where."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from .output import Output, label, shell_word
from .text_numbers import quantity

if TYPE_CHECKING:
    from fairtrial.engine.inspecting import Copied

__all__ = ("print_copied",)


_SQLITE = (".db", ".sqlite", ".sqlite3")


def print_copied(out: Output, done: Copied, *, source: Path, target: Path) -> None:
    """Prints text or JSON, the receipt, and the command that verifies the copy."""
    entries = quantity(done.size, "entry", "entries")
    out.text(label("copied", f"{entries} from {source} to {target}, every leaf and the root equal"))
    if target.suffix not in (*_SQLITE, ".jsonl"):
        out.note(f"{target} holds SQLite: only a name that ends with .jsonl gets JSON Lines")
    if done.left_out:
        torn = quantity(done.left_out, "byte")
        text = f"{torn} after the last whole entry of {source}, as after a crash"
        out.text(label("left out", text))
    if done.blobs.missing:
        out.note(_missing_text(done, source))
    out.ledger = None
    out.end(
        {
            "v": 1,
            "source": str(source),
            "target": str(target),
            "size": done.size,
            "left_out_bytes": done.left_out,
            "blobs": done.blobs.named,
            "missing_blobs": done.blobs.missing,
        },
        receipt=done.receipt,
        next_command=f"ledger replay {shell_word(target)} --against {done.receipt}",
    )


def _missing_text(done: Copied, source: Path) -> str:
    """Returns what isn't in the copy, and what a replay of it can't show then."""
    are = "is" if done.blobs.missing == 1 else "are"
    return (
        f"warning: of {quantity(done.blobs.named, 'blob')} that entries name"
        f" {done.blobs.missing:,} {are} missing beside {source}, and so in the copy. Replay of it"
        " verifies the entries and ends with exit code 16; without the frozen plan it checks no"
        " order and no number.\n"
        f"  do        bring {source}.d along, then copy again under another name"
    )
