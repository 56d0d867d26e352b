"""What failing arms say, as far as people may hear it.

Leaves counting tries and streaks to the fold.

Rules:
- The words of a driver are for the terminal, never for an event.
- What a blinded arm says could name it: only its code is told.
- Of a blinded arm the label isn't told either: whoever mends a program knows which one it was.
"""

from __future__ import annotations

from fairtrial.custody.blinding import shown_names
from fairtrial.custody.trial import Reader
from fairtrial.drivers.answer import Answer
from fairtrial.ledger.state import STREAK_MAX, Experiment, is_blinded
from fairtrial.protocols.plan import Slot

__all__ = ("Faults",)


class Faults:
    """The last error of each arm.

    Args:
        trial: The ledger.
        known: The experiment.

    Attributes:
        names: What each arm is called in front of people.
        called: The same in a sentence about a failure.
    """

    def __init__(self, trial: Reader, known: Experiment) -> None:
        self.names = shown_names(trial, known)
        self.called = {
            name: "one of the arms" if is_blinded(known) else f"arm {shown}"
            for name, shown in self.names.items()
        }
        self._is_blinded = is_blinded(known)
        self._last: dict[str, tuple[str | None, str]] = {}

    def note(self, slot: Slot, number: int, answer: Answer) -> str:
        """Takes in an attempt that ended in error; returns a line about it."""
        code, said = answer.code, "" if self._is_blinded else answer.message
        self._last[slot.arm] = code, said
        why = f"{code}: {said}" if said else f"{code}"
        return f"error in {self.called[slot.arm]}, {slot.unit}, attempt {number}: {why}"

    def unstorable(self, slot: Slot, what: str) -> str:
        """Returns a line about an answer that no event can hold."""
        return f"{self.called[slot.arm]}, {slot.unit}: the answer can't be stored: {what}"

    def streak(self, arm: str) -> tuple[str, str]:
        """Returns why an arm is failing, and a line with the words of its last error, if any."""
        code, said = self._last.get(arm, (None, ""))
        # Attempts beside the last one may have failed while it ended.
        why = f"at least {STREAK_MAX} attempts in a row failed in {self.called[arm]}"
        last = f"{self.called[arm]} said last: {said}" if said else ""
        return f"{why} ({code})" if code else why, last
