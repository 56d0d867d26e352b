"""Closes a ledger: after it only anchors and recoveries may follow.

Leaves the condition, that every experiment has ended, to the fold.

Rules:
- The event names the head of everything before it, so that a cut tail shows by the count.
"""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

from fairtrial.ledger.errors import RefusedError
from fairtrial.ledger.events import Close

from .trial import open_trial

__all__ = ("Closed", "close_ledger")


class Closed(NamedTuple):
    """The last event of a ledger, and the receipt after it."""

    event: Close
    receipt: str


def close_ledger(ledger: Path, *, actor: str, reason: str, successor: str | None = None) -> Closed:
    """Closes a ledger.

    Args:
        ledger: The ledger's file.
        actor: Who closes it, as claimed.
        reason: Why.
        successor: The id of the ledger that continues it.

    Raises:
        TransitionError: An experiment hasn't ended.
        RefusedError: There is no reason.
    """
    if not reason.strip():
        raise RefusedError("this act needs a reason", todo="--reason TEXT")
    with open_trial(ledger, actor=actor) as trial:
        event = Close(basis=trial.log.head(), reason=reason, successor=successor)
        trial.append(event)
        return Closed(event, trial.keep_receipt("close"))
