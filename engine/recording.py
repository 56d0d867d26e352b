"""Makes the events of an attempt: how it begins, and what a driver's answer becomes. Pure.

Leaves when to append to `executor.py` and whether it may stand to the fold.

Rules:
- Infrastructure errors, and timeouts that are tried again, end the attempt; anything else is the
  outcome.
- An answer that is long, or holds what an event can't, becomes the artifact `answer`, whole.
- What can't be stored at all is no reason to lose the slot: the attempt ends as `bad_output`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from fairtrial.drivers.answer import Answer
from fairtrial.ledger.canonical import check_text
from fairtrial.ledger.errors import LedgerError
from fairtrial.ledger.events import Attempt, AttemptEnd, Blob, Decision, Origin, Rules
from fairtrial.ledger.state import Experiment, slots_of
from fairtrial.protocols.plan import Slot

__all__ = (
    "Ending",
    "attempt_end",
    "bad_ending",
    "beginning",
    "decision",
    "ends_slot",
    "given_up",
    "interrupted",
    "is_within",
)

ANSWER_BYTES_MAX = 200


class Ending(NamedTuple):
    """One attempt that is over: where, which, and what came of it."""

    experiment: str
    slot: Slot
    session: int
    attempt: int
    origin: Origin
    answer: Answer

    def artifacts(self) -> dict[str, bytes]:
        """Returns the bytes to keep, a long answer among them."""
        kept = dict(self.answer.artifacts)
        if self.answer.answer is not None and not _fits(self.answer.answer):
            kept["answer"] = self.answer.answer.encode("utf-8", "surrogatepass")
        return kept


def _fits(answer: str) -> bool:
    """Returns whether an answer can stand in the event itself."""
    try:
        check_text(answer, "answer")
    except LedgerError:
        return False
    return len(answer.encode()) <= ANSWER_BYTES_MAX


def beginning(known: Experiment, position: int, session: int) -> Attempt:
    """Returns the beginning of a slot's next attempt, with its reservation."""
    slots = slots_of(known)
    frozen = known.arms[slots.arm[position]]
    return Attempt(
        experiment=known.name,
        position=position,
        number=slots.attempts[position] + 1,
        session=session,
        arm=frozen.name,
        reserved_nanousd=frozen.reserve_nanousd,
    )


def ends_slot(answer: Answer, rules: Rules) -> bool:
    """Returns whether an answer settles its slot."""
    if answer.status == "error":
        return False
    return answer.status != "timeout" or "timeout" not in rules.retry_on


def decision(ending: Ending, artifacts: Mapping[str, Blob]) -> Decision:
    """Returns the outcome of a slot."""
    answer, slot = ending.answer, ending.slot
    fits = answer.answer is not None and _fits(answer.answer)
    incurred = answer.incurred_nanousd
    if ending.origin != "live":
        # Old money is an endpoint's value; nothing is spent by reading it.
        incurred = 0
    return Decision(
        experiment=ending.experiment,
        position=slot.position,
        session=ending.session,
        attempt=ending.attempt,
        arm=slot.arm,
        unit=slot.unit,
        replicate=slot.replicate,
        status=answer.status,
        code=answer.code,
        scores=dict(answer.scores),
        flag=answer.flag,
        answer=answer.answer if fits else None,
        cost_nanousd=answer.cost_nanousd,
        incurred_nanousd=incurred,
        tokens=dict(answer.tokens),
        duration_ms=answer.duration_ms,
        requested_model=answer.requested_model,
        served_model=answer.served_model,
        origin=ending.origin,
        artifacts=dict(artifacts),
    )


def is_within(answer: Answer, reserve_nanousd: int) -> bool:
    """Returns whether an answer costs no more than its attempt reserved."""
    try:
        return answer.cost_nanousd is None or answer.cost_nanousd <= reserve_nanousd
    except TypeError:
        # A driver that breaks its contract: the answer is refused where it would be stored.
        return False


def attempt_end(ending: Ending, artifacts: Mapping[str, Blob]) -> AttemptEnd:
    """Returns the end of an attempt that didn't settle its slot."""
    answer = ending.answer
    return AttemptEnd(
        experiment=ending.experiment,
        position=ending.slot.position,
        number=ending.attempt,
        session=ending.session,
        status="timeout" if answer.status == "timeout" else "error",
        retry=answer.retry,
        code=answer.code,
        cost_nanousd=answer.cost_nanousd,
        incurred_nanousd=answer.incurred_nanousd,
        tokens=dict(answer.tokens),
        duration_ms=answer.duration_ms,
        artifacts=dict(artifacts),
    )


def bad_ending(ending: Ending) -> AttemptEnd:
    """Returns the end of an attempt whose answer can't be stored; its cost is the reservation."""
    return AttemptEnd(
        experiment=ending.experiment,
        position=ending.slot.position,
        number=ending.attempt,
        session=ending.session,
        status="error",
        code="bad_output",
    )


def interrupted(ending_of: Slot, *, experiment: str, session: int, attempt: int) -> AttemptEnd:
    """Returns the end of an attempt that was cut short by the run itself."""
    return AttemptEnd(
        experiment=experiment,
        position=ending_of.position,
        number=attempt,
        session=session,
        status="interrupted",
    )


def given_up(
    slot: Slot, *, experiment: str, session: int, attempt: int, status: str, code: str | None
) -> Decision:
    """Returns the outcome of a slot whose attempts are used up; its attempts hold the cost."""
    return Decision(
        experiment=experiment,
        position=slot.position,
        session=session,
        attempt=attempt,
        arm=slot.arm,
        unit=slot.unit,
        replicate=slot.replicate,
        status="timeout" if status == "timeout" else "error",
        code=code,
        cost_nanousd=0,
        incurred_nanousd=0,
        origin="live",
    )
