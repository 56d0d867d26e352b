"""Prints a small act of a person that is on record now: what, the event, the receipt."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

from .output import Output, label

if TYPE_CHECKING:
    from fairtrial.ledger.events import Event

__all__ = ("print_act",)


class Act(Protocol):
    """An act that is on record, with the receipt after it."""

    @property
    def event(self) -> Event:
        """What was appended."""
        ...

    @property
    def receipt(self) -> str:
        """The head after it, in one line."""
        ...


def print_act(out: Output, done: Act, text: str, *, ledger: Path, next_command: str) -> None:
    """Prints one line about the act, or its event as JSON; then the receipt."""
    import msgspec

    plain: dict[str, Any] = msgspec.to_builtins(done.event)
    if plain.get("experiment"):
        out.of(plain["experiment"], ledger)
    kind = str(plain["kind"]).partition("/")[0]
    out.text(label(kind, text))
    out.end({"v": 1, "event": plain}, receipt=done.receipt, next_command=next_command)
