"""Every error class of Fairtrial; says nothing of how a command line maps them to exit codes.

    LedgerError
      ProtocolError            the plan is not acceptable: its author must act
      RefusedError             the act is not allowed now
        TransitionError        wrong state of the experiment
          FailingArmError      too many errors in a row in an arm: nothing of it begins
        DigestMismatchError    something registered has changed
        BudgetExceededError    the ceiling leaves no room
      StoreError               the medium failed, or the ledger is missing or unreadable
        ConflictError          the slot holds other content, or another writer was first
        BusyError              a lock was not obtained within the limit
        IntegrityError         bytes contradict their hashes; writing stops
          RolledBackError        the ledger is shorter than what was seen of it
          ForkedError            it has another root than what was seen of it
        TornError              bytes after the last whole entry: a crash, to be recovered
        NewerError             the ledger was written by a newer format than this tool knows
        PlanMissingError       the frozen plan's blob isn't beside the ledger
      DriverError              a driver broke its contract

Rules:
- A message says what, where, expected, found and what to do next; each of these is an attribute
  too.
- A failing system under test is an outcome, never one of these errors.
- As text each part stands on its line: what a person or a file put into it can't begin another one
  or move a terminal's cursor. The attributes hold it as it is.
"""

from __future__ import annotations

import re

import msgspec

__all__ = (
    "BudgetExceededError",
    "BusyError",
    "ConflictError",
    "DigestMismatchError",
    "DriverError",
    "FailingArmError",
    "ForkedError",
    "IntegrityError",
    "LedgerError",
    "NewerError",
    "PlanMissingError",
    "Problem",
    "ProtocolError",
    "RefusedError",
    "RolledBackError",
    "StoreError",
    "TornError",
    "TransitionError",
    "visible",
)

# Control characters, and those that turn the direction of a line.
_UNSEEN = re.compile("[\0-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069]")


def visible(text: str) -> str:
    """Returns text in one line, control characters written as Python escapes them."""
    return _UNSEEN.sub(lambda found: repr(found[0])[1:-1], text)


class LedgerError(Exception):
    """An act that did not happen, and why.

    Attributes:
        what: What went wrong, one sentence.
        where: File, line, seq, unit or field path; "" when the act as a whole is meant.
        expected: What would have been right; "" when there is nothing to compare.
        found: What was there instead.
        todo: What to do next.
    """

    def __init__(
        self, what: str, *, where: str = "", expected: str = "", found: str = "", todo: str = ""
    ) -> None:
        self.what, self.where = what, where
        self.expected, self.found, self.todo = expected, found, todo
        super().__init__(what)

    def __str__(self) -> str:
        lines = [f"{self.where}: {self.what}" if self.where else self.what]
        if self.expected:
            lines.append(f"  expected  {self.expected}")
        if self.expected or self.found:
            lines.append(f"  found     {self.found or 'nothing'}")
        if self.todo:
            lines.append(f"  do        {self.todo}")
        return "\n".join(visible(line) for line in lines)


class Problem(msgspec.Struct, frozen=True, kw_only=True):
    """One thing that is not acceptable in a file that a person wrote."""

    what: str
    where: str
    line: int | None = None
    expected: str = ""
    found: str = ""
    todo: str = ""

    def text(self, file: str) -> str:
        """Returns the problem as lines of text that begin with `file:line`."""
        place = file if self.line is None else f"{file}:{self.line}"
        rest = LedgerError(
            self.what, where=self.where, expected=self.expected, found=self.found, todo=self.todo
        )
        return f"{visible(place)}: {rest}"


class ProtocolError(LedgerError):
    """The protocol or an input file is not acceptable; all problems found, at once."""

    def __init__(self, problems: tuple[Problem, ...], *, file: str) -> None:
        assert problems, "a ProtocolError needs a problem"
        first = problems[0]
        super().__init__(
            first.what,
            where=first.where,
            expected=first.expected,
            found=first.found,
            todo=first.todo,
        )
        self.problems, self.file = problems, file

    def __str__(self) -> str:
        return "\n".join(problem.text(self.file) for problem in self.problems)


class RefusedError(LedgerError):
    """The act is not allowed now."""


class TransitionError(RefusedError):
    """The experiment is not in a state that allows the act."""


class FailingArmError(TransitionError):
    """An arm has a failing streak: nothing of it begins or is given up until that has ended."""


class DigestMismatchError(RefusedError):
    """Something registered has changed."""


class BudgetExceededError(RefusedError):
    """The ceiling leaves no room for what was asked."""


class StoreError(LedgerError):
    """The medium failed, or the ledger is missing or unreadable."""


class ConflictError(StoreError):
    """The slot is taken by another event, or another writer was first."""


class BusyError(StoreError):
    """A lock was not obtained within the limit."""


class IntegrityError(StoreError):
    """Bytes contradict their hashes; nothing more is written."""


class RolledBackError(IntegrityError):
    """The ledger is shorter than a head of it that is remembered; nothing more is written."""


class ForkedError(IntegrityError):
    """The ledger isn't a continuation of a head of it that is remembered."""


class TornError(StoreError):
    """Bytes follow the last whole entry: a crash left them; `recover` sets them aside."""


class NewerError(StoreError):
    """The ledger holds what only a newer version of this tool understands."""


class PlanMissingError(StoreError):
    """The blob of a frozen plan isn't there: what follows it can be neither read nor judged."""

    def __init__(self, blake3: str) -> None:
        super().__init__(
            "the blob of the frozen plan is missing",
            where=f"blob {blake3}",
            expected="the folder named as the ledger's file with .d at the end, beside it",
            todo="bring the ledger's .d folder along with the ledger",
        )


class DriverError(LedgerError):
    """A driver broke its contract."""
