"""Takes looks and results and puts them on record; recomputes them for replay.

Leaves every number to `evaluate.py` and `conclude.py`, every rule of order to the fold.

Rules:
- Numbers come from the entries of the ledger up to a basis, and the event names that basis.
- A look that was taken is returned as it stands; one that isn't due is refused, on record.
- Replay calls the same functions on the same prefix and compares field by field.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Literal, NamedTuple, TypeAlias

import msgspec

from fairtrial.ledger.canonical import blob_of
from fairtrial.ledger.errors import LedgerError, RefusedError, StoreError, TransitionError
from fairtrial.ledger.events import Head, Look, Redact, Result
from fairtrial.ledger.findings import Finding, NumbersCase
from fairtrial.ledger.state import Experiment, due_look, is_final

from .conclude import conclude, detail
from .evaluate import AnalysisContext, evaluate_look
from .outcomes import read_outcomes
from .trial import Reader, Trial
from .verifying import check_registered, refuse_look

__all__ = ("StoppedBy", "context_of", "look", "recompute", "result", "take_look")

StoppedBy: TypeAlias = Literal["last_look", "boundary", "ceiling", "wall_time", "person"]
# Numbers of another numpy or another processor agree with the recorded ones within these.
RELATIVE_TOLERANCE = 1e-9
ABSOLUTE_TOLERANCE = 1e-12


def context_of(
    trial: Reader, known: Experiment, *, size: int, stopped_by: StoppedBy | None = None
) -> AnalysisContext:
    """Returns what an analysis needs, from the first `size` entries alone."""
    assert known.slots is not None
    return AnalysisContext(
        protocol=trial.protocol(known),
        plan=trial.plan(known),
        units=trial.units(known),
        looks=known.looks,
        taken=trial.looks(known),
        outcomes=read_outcomes(trial.read(0, size), known.name, len(known.slots)),
        origins={arm.name: arm.origin for arm in known.arms},
        stopped_by=stopped_by,
        amends=tuple(known.amends),
        invalidated=frozenset(known.invalidated),
    )


def take_look(trial: Trial, known: Experiment) -> Look:
    """Computes the due look from the present head and appends it.

    Raises:
        TransitionError: No look is due.
    """
    number = due_look(known)
    if number is None:
        raise TransitionError("no look is due", where=known.name, todo="ledger run")
    event = _look_event(trial, known, number, trial.log.head())
    trial.append(event)
    if trial.after_look is not None:
        trial.after_look(known)
    return event


def _look_event(trial: Reader, known: Experiment, number: int, basis: Head) -> Look:
    body = evaluate_look(context_of(trial, known, size=basis.size), number)
    return Look(
        experiment=known.name,
        number=number,
        basis=basis,
        data=body.data,
        last=body.last,
        continues=body.continues,
        method=body.method,
        units=body.units,
        clusters=body.clusters,
        comparisons=body.comparisons,
    )


def look(trial: Trial, known: Experiment, number: int | None = None) -> Look:
    """Returns a look: the one taken, or the due one after taking it.

    Raises:
        RefusedError: The look isn't planned or isn't due; a `refuse` event is on record.
    """
    due, taken = due_look(known), len(known.taken)
    wanted = number or due or taken or 1
    if 1 <= wanted <= taken:
        return trial.looks(known)[wanted - 1]
    if wanted == due and not trial.read_only:
        check_registered(trial, known, act="look")
        return take_look(trial, known)
    raise refuse_look(trial, known, wanted)


class Conclusion(NamedTuple):
    """A result with its long form, the bytes of `result --json`."""

    event: Result
    detail: bytes


def result(
    trial: Trial, known: Experiment, *, stop: bool = False, reason: str | None = None
) -> Conclusion:
    """Returns the result on record, or ends the experiment with one.

    Args:
        trial: The ledger.
        known: The experiment.
        stop: Whether a person ends it before its last look.
        reason: Why that person does.

    Raises:
        TransitionError: The experiment can't end now.
        RefusedError: A stop without a reason.
    """
    found = trial.log.find(known.name, "result")
    if isinstance(found, Result):
        return Conclusion(found, trial.blobs.get(found.detail))
    if stop and not (reason or "").strip():
        raise RefusedError("a stop by a person needs a reason", todo="--stop --reason TEXT")
    check_registered(trial, known, act="result")
    if due_look(known) is not None:
        take_look(trial, known)
    conclusion = _conclude(
        trial, known, trial.log.head(), _stopped_by(known, stop=stop), reason if stop else None
    )
    trial.blobs.put(conclusion.detail)
    trial.append(conclusion.event)
    return conclusion


def _stopped_by(known: Experiment, *, stop: bool) -> StoppedBy:
    """Returns what ended an experiment.

    Raises:
        TransitionError: Nothing did.
    """
    if is_final(known):
        return "boundary" if len(known.taken) < len(known.looks) else "last_look"
    if stop:
        return "person"
    if known.last_stop == "ceiling":
        return "ceiling"
    if known.last_stop == "wall_time":
        return "wall_time"
    planned = len(known.slots) if known.slots is not None else 0
    raise TransitionError(
        "the experiment isn't finished",
        where=known.name,
        expected=f"{planned} outcomes and {len(known.looks)} looks",
        found=f"{known.settled} outcomes and {len(known.taken)} looks",
        todo="ledger run; or end it early: ledger result --stop --reason TEXT",
    )


def _conclude(
    trial: Reader, known: Experiment, basis: Head, stopped_by: StoppedBy, note: str | None
) -> Conclusion:
    context = context_of(trial, known, size=basis.size, stopped_by=stopped_by)
    body = conclude(context)
    spend = {
        arm.name: tally.spent_nanousd for arm, tally in zip(known.arms, known.tallies, strict=True)
    }
    data = detail(
        context, body, experiment=known.name, basis=basis, spend_nanousd=spend, stop_note=note
    )
    event = Result(
        experiment=known.name,
        basis=basis,
        data=body.data,
        method=body.method,
        verdict=body.verdict,
        reason=body.reason,
        reason_code=body.reason_code,
        stopped_by=stopped_by,
        look=len(known.taken),
        as_registered=body.as_registered,
        evidence=body.evidence,
        existed_before=body.existed_before,
        amended=body.amended,
        missing=body.missing,
        cost_nanousd=spend,
        comparisons=body.comparisons,
        detail=blob_of(data),
    )
    return Conclusion(event, data)


def recompute(trial: Reader, cases: Sequence[NumbersCase]) -> Iterator[Finding]:
    """Yields how recomputed looks and results differ from the recorded ones."""
    for case in cases:
        where = f"entry {case.seq}"
        try:
            yield from _differences(case.seq, _again(trial, case), case.event)
        except (LedgerError, ValueError) as error:
            yield Finding(
                level="numbers",
                code=_why_not(trial, error),
                seq=case.seq,
                where=where,
                expected="the numbers of this event",
                found=str(error),
            )


def _why_not(trial: Reader, error: LedgerError | ValueError) -> str:
    """Returns the code of a failed recomputation: a blob is erased or missing, or numbers are."""
    if not isinstance(error, StoreError):
        return "not_recomputable"
    erased = {event.blob.blake3 for _, event in trial.read() if isinstance(event, Redact)}
    return "blob_erased" if Path(error.where).name in erased else "blob_unreadable"


def _again(trial: Reader, case: NumbersCase) -> Look | Result:
    """Returns the event that this version computes in the place of the recorded one."""
    event = case.event
    if isinstance(event, Look):
        return _look_event(trial, case.known, event.number, event.basis)
    recorded = trial.get_json(event.detail)
    note = recorded.get("stop_note") if isinstance(recorded, dict) else None
    return _conclude(
        trial,
        case.known,
        event.basis,
        event.stopped_by,
        note if isinstance(note, str) else None,
    ).event


def _differences(seq: int, expected: object, found: object, path: str = "") -> Iterator[Finding]:
    if isinstance(expected, msgspec.Struct) and isinstance(found, msgspec.Struct):
        for name in expected.__struct_fields__:
            # The long form holds every float; a change of its last digit changes its digest.
            if name != "detail":
                inner = f"{path}.{name}" if path else name
                yield from _differences(seq, getattr(expected, name), getattr(found, name), inner)
    elif isinstance(expected, (tuple, dict)) and isinstance(found, (tuple, dict)):
        yield from _container_differences(seq, expected, found, path)
    elif not _same(expected, found):
        yield Finding(
            level="numbers",
            code="number_differs",
            seq=seq,
            where=f"entry {seq} {path}",
            expected=repr(expected),
            found=repr(found),
        )


def _container_differences(
    seq: int,
    expected: tuple[object, ...] | dict[str, object],
    found: tuple[object, ...] | dict[str, object],
    path: str,
) -> Iterator[Finding]:
    old, new = _items(expected), _items(found)
    for key in sorted(old.keys() | new.keys()):
        yield from _differences(seq, old.get(key), new.get(key), f"{path}[{key}]")


def _items(value: tuple[object, ...] | dict[str, object]) -> dict[str, object]:
    """Returns the members of a container by their index or key, as text."""
    pairs = enumerate(value) if isinstance(value, tuple) else value.items()
    return {str(key): item for key, item in pairs}


def _same(expected: object, found: object) -> bool:
    if isinstance(expected, float) and isinstance(found, float):
        return math.isclose(expected, found, rel_tol=RELATIVE_TOLERANCE, abs_tol=ABSOLUTE_TOLERANCE)
    return type(expected) is type(found) and expected == found
