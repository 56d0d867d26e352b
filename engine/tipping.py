"""How many lost outcomes would have to go which way to change a claim. Pure.

Leaves what is lost to `arrays.py`, and the claim of given limits to `readings.py`.

Rules (PROTOCOL-V1, section 6):
- Lost is an outcome that no rule gives a value: `exclude_pair`, `worst_case` and `refuse` alike.
- Step k has the first k lost outcomes, in run order, at their worst for the treatment and the
  others at their best for it: k counts treatment's that fail and control's that succeed.
- Step 0 is the best case and the last step the worst: the two completions of the bounds.
- Many lost outcomes are walked in at most `STEPS_MAX` even steps, both ends among them.
- A type without extreme values, or a claim on two scales, has no such table.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Final as Constant

from fairtrial.analysis.grouping import FloatArray
from fairtrial.ledger.events import Verdict

from .arrays import pair_up
from .endings import Ending
from .estimates import control_mean, estimate
from .finals import Final
from .frames import Completion, Frame, Pairs
from .readings import claim_on
from .slot_values import extremes

__all__ = ("STEPS_MAX", "Step", "Tipping", "tipping_point")

STEPS_MAX: Constant = 41


@dataclass(frozen=True, kw_only=True, slots=True)
class Step:
    """One way in which the lost outcomes could have come out.

    Attributes:
        against: how many of them count against the treatment.
        treatment_worst: how many of those are treatment's own; the rest are control's, at best.
        estimate: treatment minus control.
        lower: limit of the deciding interval; `upper` likewise; None where there is none.
        verdict: what these limits show.
    """

    against: int
    treatment_worst: int
    estimate: float | None
    lower: float | None
    upper: float | None
    verdict: Verdict


@dataclass(frozen=True, kw_only=True, slots=True)
class Tipping:
    """The table of one test.

    Attributes:
        lost: outcomes that were lost.
        steps: from none against the treatment to all.
        claim: what the test shows as registered.
        changes_at: fewest outcomes against the treatment with which the claim is another one, when
            it is favourable; most with which it is, when it is against; None where none changes it.
    """

    lost: int
    steps: tuple[Step, ...]
    claim: Verdict
    changes_at: int | None


def tipping_point(frame: Frame, ending: Ending, final: Final) -> Tipping | None:
    """Returns the table of a test; None where nothing was lost or there can be none."""
    reading = final.reading
    if reading is None or len(final.scales) > 1 or math.isnan(extremes(final.endpoint)[0]):
        return None
    pairs = pair_up(frame, ending.comparison, final.endpoint, last=ending.last, extreme=True)
    if len(pairs.completions) < 2:
        return None
    lost = list(_lost(pairs))
    counts = sorted({round(len(lost) * part / (STEPS_MAX - 1)) for part in range(STEPS_MAX)})
    steps = tuple(_step(frame, final, pairs, lost, count) for count in counts)
    claim = reading.verdict.verdict
    return Tipping(lost=len(lost), steps=steps, claim=claim, changes_at=_changes_at(steps, claim))


def _lost(pairs: Pairs) -> Iterator[tuple[int, bool]]:
    """Yields (pair, is treatment's) of each lost outcome, in run order, control's first."""
    against, favour = pairs.completions
    for pair in range(len(pairs.units)):
        if against.control[pair] != favour.control[pair]:
            yield pair, False
        if against.treatment[pair] != favour.treatment[pair]:
            yield pair, True


def _step(
    frame: Frame, final: Final, pairs: Pairs, lost: list[tuple[int, bool]], count: int
) -> Step:
    against, favour = pairs.completions
    control, treatment = favour.control.copy(), favour.treatment.copy()
    for pair, is_treatment in lost[:count]:
        target: FloatArray = treatment if is_treatment else control
        source = against.treatment if is_treatment else against.control
        target[pair] = source[pair]
    completed = replace(pairs, completions=(Completion(control=control, treatment=treatment),))
    numbers = estimate(
        completed,
        frame.protocol,
        final.endpoint,
        final.scales[0].scale,
        nominal_p=final.nominal_p,
    )
    assert final.reading is not None
    mean = control_mean(completed, frame.protocol)
    return Step(
        against=count,
        treatment_worst=sum(is_treatment for _, is_treatment in lost[:count]),
        estimate=numbers.estimate,
        lower=numbers.lower,
        upper=numbers.upper,
        verdict=claim_on(frame.protocol, final.reading.test, numbers, mean).verdict,
    )


def _changes_at(steps: tuple[Step, ...], claim: Verdict) -> int | None:
    other = [step.against for step in steps if step.verdict != claim]
    if not other:
        return None
    return max(other) if claim == "reject" else min(other)
