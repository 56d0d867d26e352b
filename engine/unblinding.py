"""Opens the arms of a blinded experiment on record.

Leaves what is behind a label to `custody/blinding.py`, when it may happen to the fold.

Rules:
- A withdrawn experiment is opened for the record: what it cost is sealed until then.
- Everything is opened at once: names and salts, which the fold compares with the commitments.
- What a run that was killed left open is closed first; a look that is due comes first.
"""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

from fairtrial.custody.anchoring import seal, setup_for
from fairtrial.custody.blinding import unblind_event
from fairtrial.custody.trial import open_trial
from fairtrial.ledger.errors import TransitionError
from fairtrial.ledger.events import Unblind
from fairtrial.ledger.state import is_blinded, next_number

from .correcting import checked_reason
from .running import end_dead_session
from .status import next_command, state_word

__all__ = ("Unblinded", "unblind_experiment")


class Unblinded(NamedTuple):
    """The event, the receipt after it, whether the data were incomplete, and what comes next."""

    event: Unblind
    receipt: str
    early: bool
    next: str


def unblind_experiment(
    ledger: Path, name: str | None, *, actor: str, reason: str, key: str | None = None
) -> Unblinded:
    """Opens the arms of a blinded experiment, on record.

    Args:
        ledger: The ledger's file.
        name: The experiment; None when there is only one.
        actor: Who unblinds, as claimed.
        reason: Why.
        key: The name of the key that signs; None: the one in FAIRTRIAL_KEY, if any.

    Raises:
        TransitionError: The arms aren't blinded, a run is going on or a look is due.
        StoreError: What is behind a label is lost.
    """
    with open_trial(ledger, actor=actor) as trial:
        known = trial.open_experiment(name)
        if not is_blinded(known):
            raise TransitionError(
                "the arms aren't blinded" if known.unblind_seq is None else "the arms are open",
                where=known.name,
                todo="ledger status",
            )
        setup = setup_for(trial, known, key)
        number = next_number(trial.log.state, "unblind", known.name)
        event = unblind_event(trial, known, number=number, reason=checked_reason(reason))
        end_dead_session(trial, known)
        trial.append(event)
        seal(trial, setup, known)
        after = next_command(known, state_word(known, running=False), "")
        return Unblinded(event, trial.keep_receipt("unblind"), known.unblinded_early, after)
