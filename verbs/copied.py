"""Prints that a ledger was copied: how much, from where, to where."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from .output import Output, label, shell_word
from .text_numbers import quantity

if TYPE_CHECKING:
    from fairtrial.engine.inspecting import Copied

__all__ = ("print_copied",)


def print_copied(out: Output, done: Copied, *, source: Path, target: Path) -> None:
    """Prints text or JSON, the receipt, and the command that verifies the copy."""
    entries = quantity(done.size, "entry", "entries")
    out.text(label("copied", f"{entries} from {source} to {target}, every leaf and the root equal"))
    if done.left_out:
        torn = quantity(done.left_out, "byte")
        text = f"{torn} after the last whole entry of {source}, as after a crash"
        out.text(label("left out", text))
    out.ledger = None
    out.end(
        {
            "v": 1,
            "source": str(source),
            "target": str(target),
            "size": done.size,
            "left_out_bytes": done.left_out,
        },
        receipt=done.receipt,
        next_command=f"ledger replay {shell_word(target)} --against {done.receipt}",
    )
