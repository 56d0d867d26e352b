"""Prints a small act of a person that is on record now: what, the event, the receipt."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from .output import Output, label

if TYPE_CHECKING:
    from fairtrial.engine.session import Receipted

__all__ = ("print_act",)


def print_act(out: Output, done: Receipted, text: str, *, next_command: str) -> None:
    """Prints one line about the act, or its event as JSON; then the receipt."""
    import msgspec

    plain: dict[str, Any] = msgspec.to_builtins(done.event)
    kind = str(plain["kind"]).partition("/")[0]
    out.text(label(kind, text))
    out.end({"v": 1, "event": plain}, receipt=done.receipt, next_command=next_command)
