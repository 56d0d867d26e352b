"""Acts by which a person corrects the record: the cost of a lost attempt, an invalid outcome.

Leaves whether they may stand now to the fold.

Rules:
- The earlier value stays on record; what is corrected is named by its entry.
- Each needs a reason.
- The entry names its experiment; a name that is given has to be that one.
"""

from __future__ import annotations

from pathlib import Path
from typing import Final, NamedTuple

from fairtrial.custody.trial import Trial, open_trial
from fairtrial.ledger.errors import RefusedError
from fairtrial.ledger.events import (
    AttemptEnd,
    Decision,
    Event,
    Invalidate,
    Reference,
    Settle,
    event_kind,
)
from fairtrial.ledger.protocol import nano_usd

from .inspecting import entry_of

__all__ = ("Amended", "Receipted", "checked_reason", "invalidate_outcome", "settle_cost")


class Receipted(NamedTuple):
    """What an act appended, the receipt after it, and what else there is to say."""

    event: Event
    receipt: str
    note: str = ""


class Amended(NamedTuple):
    """As `Receipted`, of an amendment; and whether outcomes existed before the protocol anyway."""

    event: Event
    receipt: str
    note: str
    retrospective: bool


class _Correctable(NamedTuple):
    """What an act may correct, and the words of its refusal."""

    kind: type[AttemptEnd | Decision]
    what: str
    expected: str
    todo: str


_SETTLED: Final = _Correctable(
    AttemptEnd,
    "only the end of an attempt has a cost to settle",
    "an attempt_end that says lost or interrupted",
    "ledger log --kind attempt_end",
)
_INVALIDATED: Final = _Correctable(
    Decision,
    "only an outcome can be invalidated",
    "an outcome of this experiment",
    "ledger log --kind decision",
)


def _named_in(trial: Trial, seq: int, wanted: _Correctable) -> str:
    """Returns the experiment of the entry that an act corrects."""
    event = entry_of(trial, seq).event
    if not isinstance(event, wanted.kind):
        raise _not_correctable(seq, wanted, event_kind(event))
    return event.experiment


def _not_correctable(seq: int, wanted: _Correctable, found: str) -> RefusedError:
    return RefusedError(
        wanted.what,
        where=f"entry {seq}",
        expected=wanted.expected,
        found=found,
        todo=wanted.todo,
    )


def _subject(trial: Trial, name: str, seq: int, wanted: _Correctable) -> tuple[int, Reference]:
    """Returns the position and the reference of the entry that an act corrects."""
    shown = entry_of(trial, seq)
    if not isinstance(shown.event, wanted.kind):
        raise _not_correctable(seq, wanted, event_kind(shown.event))
    if shown.event.experiment != name:
        raise _not_correctable(seq, wanted, f"one of {shown.event.experiment}")
    return shown.event.position, Reference(seq=seq, leaf=shown.leaf)


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
        known = trial.experiment(name or _named_in(trial, seq, _SETTLED))
        position, subject = _subject(trial, known.name, seq, _SETTLED)
        event = Settle(
            experiment=known.name,
            position=position,
            number=sum(one.settled for one in known.lost.get(position, ())) + 1,
            subject=subject,
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
        known = trial.experiment(name or _named_in(trial, seq, _INVALIDATED))
        position, subject = _subject(trial, known.name, seq, _INVALIDATED)
        event = Invalidate(
            experiment=known.name,
            position=position,
            number=1,
            subject=subject,
            reason=checked_reason(reason),
        )
        trial.append(event)
        return Receipted(event, trial.keep_receipt("invalidate"))
