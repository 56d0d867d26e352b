"""Acts by which a person corrects the record: the cost of a lost attempt, an invalid outcome.

Leaves whether they may stand now to the fold.

Rules:
- The earlier value stays on record; what is corrected is named by its entry.
- Each needs a reason.
"""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

from fairtrial.custody.trial import open_trial
from fairtrial.ledger.errors import RefusedError
from fairtrial.ledger.events import AttemptEnd, Decision, Event, Invalidate, Reference, Settle
from fairtrial.ledger.protocol import nano_usd

from .inspecting import entry_of

__all__ = ("Receipted", "checked_reason", "invalidate_outcome", "settle_cost")


class Receipted(NamedTuple):
    """What an act appended, and the receipt after it."""

    event: Event
    receipt: str


def checked_reason(text: str) -> str:
    """Returns the reason of an act.

    Raises:
        RefusedError: There is none.
    """
    if not text.strip():
        raise RefusedError("this act needs a reason", todo="--reason TEXT")
    return text


def settle_cost(
    ledger: Path, name: str | None, *, actor: str, seq: int, usd: str, reason: str
) -> Receipted:
    """Corrects the cost of a lost or interrupted attempt, named by its entry.

    Raises:
        RefusedError: The entry isn't such an attempt's end.
    """
    with open_trial(ledger, actor=actor) as trial:
        known = trial.open_experiment(name)
        shown = entry_of(trial, seq)
        if not isinstance(shown.event, AttemptEnd) or shown.event.experiment != known.name:
            raise RefusedError(
                "only the end of an attempt has a cost to settle",
                where=f"entry {seq}",
                expected="an attempt_end that says lost or interrupted",
                found=type(shown.event).__name__.lower(),
                todo="ledger log --kind attempt_end",
            )
        event = Settle(
            experiment=known.name,
            position=shown.event.position,
            number=sum(one.settled for one in known.lost.get(shown.event.position, ())) + 1,
            subject=Reference(seq=seq, leaf=shown.leaf),
            cost_nanousd=nano_usd(usd),
            reason=checked_reason(reason),
        )
        trial.append(event)
        return Receipted(event, trial.keep_receipt("settle"))


def invalidate_outcome(
    ledger: Path, name: str | None, *, actor: str, seq: int, reason: str
) -> Receipted:
    """Declares an outcome invalid, named by its entry; its value stays on record.

    Raises:
        RefusedError: The entry isn't an outcome.
    """
    with open_trial(ledger, actor=actor) as trial:
        known = trial.open_experiment(name)
        shown = entry_of(trial, seq)
        if not isinstance(shown.event, Decision) or shown.event.experiment != known.name:
            raise RefusedError(
                "only an outcome can be invalidated",
                where=f"entry {seq}",
                expected="an outcome of this experiment",
                found=type(shown.event).__name__.lower(),
                todo="ledger log --kind decision",
            )
        event = Invalidate(
            experiment=known.name,
            position=shown.event.position,
            number=1,
            subject=Reference(seq=seq, leaf=shown.leaf),
            reason=checked_reason(reason),
        )
        trial.append(event)
        return Receipted(event, trial.keep_receipt("invalidate"))
