"""How many lost outcomes would have to go which way to change a claim. Pure.

Leaves the lost outcomes to `filling.py`, the bounds to `finals.py`, the claim and its guards to
`readings.py`, the search for the fewest to `fewest.py`.

Rules:
- Lost is an outcome that no rule gives a value: `exclude_pair`, `worst_case` and `refuse` alike.
- Outcomes are counted: not pairs, couples or units, of which one can have lost several.
- Step k has the first k lost outcomes, in run order, at their worst for the treatment and the
  others at their best for it: k counts treatment's that fail and control's that succeed.
- Step 0 is the best case and the last step the worst: the two completions of the bounds.
- Many lost outcomes are walked in at most `STEPS_MAX` even steps, both ends among them.
- Where the steps show another verdict than the claim, each run of them is a change of its own: a
  claim that is inconclusive can change on either side.
- A step's verdict is what the test would show had the outcomes ended so: the guards look at these
  outcomes, and none counts as lost.
- The walk is one order of many: `fewest` says with how few outcomes any order could do it.
- A type without extreme values, or a claim on two scales, has no such table.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from itertools import groupby
from typing import Final

import numpy as np

from fairtrial.ledger.events import Verdict

from .fewest import Fewest, Step, fewest_of, shown_once
from .filling import Lost
from .frames import BoolArray, Frame
from .readings import Reading, claim_if_ended, numbers_of
from .slot_values import direction

__all__ = ("STEPS_MAX", "Change", "Tipping", "changes_of", "tipping_point")

STEPS_MAX: Final = 41


@dataclass(frozen=True, kw_only=True, slots=True)
class Change:
    """Neighbouring steps that all show one verdict, another one than the claim.

    Attributes:
        verdict: what they show.
        at_least: fewest outcomes against the treatment among them; `at_most` the most.
    """

    verdict: Verdict
    at_least: int
    at_most: int


@dataclass(frozen=True, kw_only=True, slots=True)
class Tipping:
    """The table of one test.

    Attributes:
        lost: outcomes that were lost.
        steps: from none against the treatment to all.
        claim: what the test shows as registered.
        changes: where the steps show another verdict, by rising count.
        fewest: with how few outcomes the claim would be another one, in each way in which it could.
    """

    lost: int
    steps: tuple[Step, ...]
    claim: Verdict
    changes: tuple[Change, ...]
    fewest: tuple[Fewest, ...]

    @property
    def is_firm(self) -> bool:
        """Whether every completion that was tried makes the claim."""
        return not self.changes and not self.fewest


def tipping_point(frame: Frame, reading: Reading, lost: Lost) -> Tipping | None:
    """Returns the table of a test; None where nothing was lost or there can be none.

    Args:
        frame: plan and outcomes.
        reading: the test, as registered.
        lost: every lost outcome of its endpoint.
    """
    first = reading.scales[0]
    if len(reading.scales) > 1 or not lost.count:
        return None
    counts = sorted({round(lost.count * part / (STEPS_MAX - 1)) for part in range(STEPS_MAX)})
    show = shown_once(partial(_step, frame, reading, lost))
    places = np.arange(lost.count)
    steps = tuple(show(np.asarray(places < count)) for count in counts)
    claim = reading.verdict.verdict
    return Tipping(
        lost=lost.count,
        steps=steps,
        claim=claim,
        changes=changes_of(steps, claim),
        fewest=fewest_of(
            show,
            lost.count,
            claim=claim,
            estimate=first.estimate,
            turn=1.0 if direction(reading.test.endpoint) == "higher" else -1.0,
            size=reading.pairs.planned,
        ),
    )


def changes_of(steps: tuple[Step, ...], claim: Verdict) -> tuple[Change, ...]:
    """Returns the runs of steps that show another verdict than the claim."""
    runs = [list(run) for _, run in groupby(steps, key=lambda step: step.verdict)]
    return tuple(
        Change(verdict=run[0].verdict, at_least=run[0].against, at_most=run[-1].against)
        for run in runs
        if run[0].verdict != claim
    )


def _step(frame: Frame, reading: Reading, lost: Lost, against: BoolArray) -> Step:
    completed = lost.filled(against)
    numbers = numbers_of(
        completed,
        frame.protocol,
        reading.test,
        reading.scales[0].scale,
        nominal_p=reading.boundary.p,
    )
    return Step(
        against=int(np.count_nonzero(against)),
        treatment_worst=int(np.count_nonzero(against & lost.in_treatment)),
        estimate=numbers.estimate,
        lower=numbers.lower,
        upper=numbers.upper,
        verdict=claim_if_ended(frame.protocol, reading, completed, numbers).verdict,
    )
