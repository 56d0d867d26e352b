"""Takes looks and results and puts them on record.

Leaves every number to `verdicts/evaluate.py` and `verdicts/conclude.py`, every rule of order to
the fold, and why there is no end yet to `unfinished.py`.

Rules:
- Numbers come from the entries of the ledger up to a basis, and the event names that basis.
- A look that was taken is returned as it stands; one that isn't due is refused, on record.
- While arms are blinded a look's numbers are sealed and there is no result.
- An end comes of itself only after the last look or a crossing; whatever else stopped a run, it can
  go on, so ending there takes a person's word and reason.
- Replay calls the same functions on the same prefix (`recomputing.py`).
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import NamedTuple

from fairtrial.custody.blinding import has_labels, names_of
from fairtrial.custody.sealing import opened_events, opened_looks, seal_look
from fairtrial.custody.trial import Reader, Trial
from fairtrial.ledger.canonical import blob_of
from fairtrial.ledger.ceilings import may_analyse
from fairtrial.ledger.deviations import origins_of
from fairtrial.ledger.errors import IntegrityError, RefusedError, TransitionError
from fairtrial.ledger.events import Freeze, Head, Look, Result
from fairtrial.ledger.log import find_event
from fairtrial.ledger.protocol import NANO_USD_MAX
from fairtrial.ledger.state import Experiment, due_look, is_blinded, is_final
from fairtrial.protocols.plan import renamed_plan
from fairtrial.protocols.terms import named_looks
from fairtrial.verdicts.conclude import conclude, detail
from fairtrial.verdicts.evaluate import AnalysisContext, StoppedBy, evaluate_look
from fairtrial.verdicts.hypotheses import Against
from fairtrial.verdicts.outcomes import read_outcomes, spent_by_arm
from fairtrial.verdicts.rule_detail import rule_detail
from fairtrial.verdicts.rule_look import conclude_rule, evaluate_rule_look

from .unfinished import check_frozen, check_standing, unfinished
from .verifying import check_registered, refuse_look

__all__ = (
    "Conclusion",
    "StoppedBy",
    "conclude_event",
    "context_of",
    "idle_accepts",
    "look",
    "look_event",
    "result",
    "take_look",
)


def context_of(
    trial: Reader, known: Experiment, *, size: int, stopped_by: StoppedBy | None = None
) -> AnalysisContext:
    """Returns what an analysis needs, from the first `size` entries alone."""
    assert known.slots is not None
    protocol, names = trial.protocol(known), names_of(trial, known)
    return AnalysisContext(
        protocol=protocol,
        plan=renamed_plan(trial.plan(known), names),
        units=trial.units(known),
        looks=named_looks(protocol, known.looks),
        taken=opened_looks(trial, known),
        outcomes=read_outcomes(opened_events(trial, known, size), known.name, len(known.slots)),
        origins={names[arm]: origin for arm, origin in origins_of(known).items()},
        stopped_by=stopped_by,
        may_analyse=may_analyse(known),
        amends=tuple(known.amends),
        unblinded_early=known.unblinded_early,
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
    event = look_event(trial, known, number, trial.log.head())
    if is_blinded(known):
        event, content = seal_look(event)
        trial.blobs.put(content)
    trial.append(event)
    if trial.after_look is not None:
        trial.after_look(known)
    return event


def look_event(trial: Reader, known: Experiment, number: int, basis: Head) -> Look:
    """Returns the look that the first `basis.size` entries give, with its numbers."""
    context = context_of(trial, known, size=basis.size)
    ruled = context.protocol.kind == "decision_rule"
    body = (evaluate_rule_look if ruled else evaluate_look)(context, number)
    return body.event(known.name, number, basis)


def look(trial: Trial, known: Experiment, number: int | None = None) -> Look:
    """Returns a look: the one taken, or the due one after taking it.

    Raises:
        RefusedError: The look isn't planned or isn't due; a `refuse` event is on record.
        TransitionError: The experiment was withdrawn before this look.
    """
    due, taken = due_look(known), len(known.taken)
    wanted = number or due or taken or 1
    if 1 <= wanted <= taken:
        return trial.looks(known)[wanted - 1]
    check_standing(known)
    if wanted == due and not trial.read_only:
        check_registered(trial, known, act="look", with_files=False)
        return take_look(trial, known)
    raise refuse_look(trial, known, wanted)


class Conclusion(NamedTuple):
    """A result with its long form.

    Attributes:
        event: The result.
        detail: The bytes of its long form.
        measured_in: What the numbers of an endpoint are measured in, by its name, where known.
        against: What the p of an endpoint is held against, by its name.
        idle_accepts: Findings that the protocol accepts and the freeze didn't have.
    """

    event: Result
    detail: bytes
    measured_in: Mapping[str, str] = MappingProxyType({})
    against: Mapping[str, Against] = MappingProxyType({})
    idle_accepts: tuple[str, ...] = ()


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
        TransitionError: The experiment can't end now, or was withdrawn.
        RefusedError: A stop without a reason.
    """
    found = trial.log.find(known.name, "result")
    if isinstance(found, Result):
        return _on_record(trial, found)
    if stop and not (reason or "").strip():
        raise RefusedError("a stop by a person needs a reason", todo="--stop --reason TEXT")
    check_standing(known)
    check_frozen(known)
    check_registered(trial, known, act="result", with_files=False)
    if due_look(known) is not None:
        take_look(trial, known)
    stopped_by = _stopped_by(known, stop=stop)
    _check_unblinded(known)
    conclusion = conclude_event(
        trial, known, trial.log.head(), stopped_by, reason if stop else None
    )
    trial.blobs.put(conclusion.detail)
    trial.append(conclusion.event)
    return conclusion


def idle_accepts(trial: Reader, known: Experiment) -> tuple[str, ...]:
    """Returns what the protocol accepts of its power though the freeze found nothing of it."""
    frozen = find_event(trial.store, known.name, "freeze")
    if not isinstance(frozen, Freeze) or frozen.power is None or not trial.blobs.has(frozen.power):
        return ()
    report = trial.get_json(frozen.power)
    found = report.get("findings", ()) if isinstance(report, dict) else ()
    accept = trial.protocol(known).power.accept
    names = (name for name in accept.__struct_fields__ if getattr(accept, name) is not None)
    return tuple(name for name in names if name not in found)


def _check_unblinded(known: Experiment) -> None:
    """Refuses a result whose arms nobody may be told yet."""
    if is_blinded(known):
        early = "" if is_final(known) else "; before the last look that is not as registered"
        raise TransitionError(
            "the arms are still blinded, and a result names them",
            where=known.name,
            expected="an `unblind` event",
            found="labels under commitments",
            todo=f"ledger unblind --reason TEXT, then: ledger result{early}",
        )


def _on_record(trial: Trial, event: Result) -> Conclusion:
    """Returns a recorded result with its long form.

    Raises:
        IntegrityError: The long form says something else than the event.
        RefusedError: It was erased on record.
    """
    detail = trial.read_blob(event.detail)
    shown = trial.get_json(event.detail)
    said = (shown.get("verdict"), shown.get("reason")) if isinstance(shown, dict) else ()
    if said != (event.verdict, event.reason):
        raise IntegrityError(
            "the long form of the result contradicts its event",
            where=event.experiment,
            expected=f"{event.verdict}: {event.reason}",
            found=": ".join(map(str, said)),
            todo="ledger replay names every difference",
        )
    return Conclusion(event, detail)


def _stopped_by(known: Experiment, *, stop: bool) -> StoppedBy:
    """Returns what ended an experiment.

    Raises:
        TransitionError: Nothing did, and no person does.
    """
    if is_final(known):
        return "boundary" if len(known.taken) < len(known.looks) else "last_look"
    if not stop:
        raise unfinished(known)
    if known.last_stop == "ceiling":
        return "ceiling"
    return "wall_time" if known.last_stop == "wall_time" else "person"


def _spend_nanousd(known: Experiment, context: AnalysisContext) -> dict[str, int]:
    """Returns the spend of each arm: as the fold counts it, or from what was sealed."""
    if not has_labels(known):
        pairs = zip(known.arms, known.tallies, strict=True)
        return {arm.name: tally.spent_nanousd for arm, tally in pairs}
    return spent_by_arm(context.outcomes, context.plan, context.origins)


def conclude_event(
    trial: Reader, known: Experiment, basis: Head, stopped_by: StoppedBy, note: str | None
) -> Conclusion:
    """Returns the result that the first `basis.size` entries give, with its long form."""
    context = context_of(trial, known, size=basis.size, stopped_by=stopped_by)
    ruled = context.protocol.kind == "decision_rule"
    body = (conclude_rule if ruled else conclude)(context)
    spend = _spend_nanousd(known, context)
    data = (rule_detail if ruled else detail)(
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
        cost_nanousd={arm: min(nano, NANO_USD_MAX) for arm, nano in spend.items()},
        comparisons=body.comparisons,
        detail=blob_of(data),
    )
    return Conclusion(event, data)
