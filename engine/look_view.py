"""A look as people may see it now.

Leaves the numbers to the event and words to the verbs; writes nothing.

Rules:
- Where the protocol says `continue_or_stop`, only whether the run goes on is shown: until `unblind`
  where arms are blinded, until the result where they aren't.
- Of blinded arms whether a look was eligible is that of the design: of the data it would be a
  number.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType
from typing import NamedTuple

from fairtrial.custody.sealing import opened_looks
from fairtrial.custody.trial import Reader, open_trial
from fairtrial.ledger.deviations import amended_sections
from fairtrial.ledger.errors import LedgerError
from fairtrial.ledger.events import Look
from fairtrial.ledger.protocol import Protocol
from fairtrial.ledger.state import Experiment, is_blinded, is_ended
from fairtrial.protocols.assigning import is_assigned
from fairtrial.verdicts.diagnosing import Diagnosis
from fairtrial.verdicts.evaluate import frame_of
from fairtrial.verdicts.hypotheses import Against, hypotheses_of
from fairtrial.verdicts.interim import FutilityNote, futility_notes
from fairtrial.verdicts.saving_error import saving_error
from fairtrial.verdicts.saving_skew import saving_at
from fairtrial.verdicts.wording import differences_in, in_points

from .concluding import context_of
from .status import next_command, state_word
from .story import targets_of

__all__ = ("LookView", "read_look_view")


class LookView(NamedTuple):
    """What of a look is shown beside its event.

    Attributes:
        planned: how many looks there are at most.
        ended: whether the experiment has a result or was withdrawn.
        next: the command that goes on from where the experiment stands.
        fraction: its share of the information.
        eligible: whether it could decide.
        blinded: nobody may know the arms yet.
        hidden: people see only whether the run goes on.
        in_points: endpoints whose differences are in points.
        notes: what is left to hope for, where the protocol asks.
        noun: what a difference is counted in: pairs, or units that are in one arm each.
        target: the precision that a threshold rule is held against; None for a comparison.
        measured_in: what the differences of an endpoint are measured in, by its name, where known.
        logarithms: endpoints whose differences are logarithms of ratios.
        against: what the p of an endpoint is held against, by its name.
        savings: what the data of the look say of each comparison's saving, by its name.
    """

    planned: int
    ended: bool
    next: str
    fraction: float
    eligible: bool
    blinded: bool
    hidden: bool
    in_points: frozenset[str]
    notes: tuple[FutilityNote, ...]
    noun: str
    target: float | None = None
    measured_in: Mapping[str, str] = MappingProxyType({})
    logarithms: frozenset[str] = frozenset()
    against: Mapping[str, Against] = MappingProxyType({})
    savings: Mapping[str, Diagnosis] = MappingProxyType({})


def read_look_view(ledger: Path, look: Look) -> LookView:
    """Returns what is shown of a look that was taken."""
    with open_trial(ledger, read_only=True) as trial:
        known = trial.experiment(look.experiment)
        protocol, table = trial.protocol(known), known.looks[look.number - 1]
        hidden, blinded = _is_hidden(protocol, known), is_blinded(known)
        notes: tuple[FutilityNote, ...] = ()
        if protocol.looks.futility is not None and not hidden:
            notes = tuple(futility_notes(protocol, opened_looks(trial, known)[: look.number]))
        savings = {} if hidden else _savings(trial, known, protocol, look)
    first = look.comparisons[0].endpoints[0] if look.comparisons else None
    planned = table.tests[0]
    return LookView(
        planned=len(known.looks),
        ended=is_ended(known),
        next=next_command(known, state_word(known, running=False), ""),
        fraction=first.information_fraction if first is not None else planned.fraction,
        eligible=first.eligible if first is not None else planned.eligible,
        blinded=blinded,
        hidden=hidden,
        in_points=frozenset(one.name for one in protocol.endpoints if in_points(one)),
        notes=notes,
        noun="units" if is_assigned(protocol) else "pairs",
        target=next(iter(targets_of(protocol).values()), None),
        measured_in=differences_in(protocol),
        logarithms=frozenset(one.name for one in protocol.endpoints if one.scale == "log"),
        against={} if amended_sections(known.amends) else hypotheses_of(protocol),
        savings=savings,
    )


def _savings(
    trial: Reader, known: Experiment, protocol: Protocol, look: Look
) -> dict[str, Diagnosis]:
    """Returns what the outcomes of a look say of skewed costs; the event has no place for it.

    Nothing in a copy that lacks their blobs: the look itself needs none.
    """
    if saving_error(protocol) is None:
        return {}
    try:
        frame = frame_of(context_of(trial, known, size=look.basis.size))
    except LedgerError:
        return {}
    return dict(saving_at(frame, look.last))


def _is_hidden(protocol: Protocol, known: Experiment) -> bool:
    if protocol.blinding.arms:
        return is_blinded(known)
    return protocol.blinding.looks == "continue_or_stop" and known.result is None
