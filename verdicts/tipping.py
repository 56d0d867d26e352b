"""How many lost outcomes would have to go which way to change a claim. Pure.

Leaves what is lost to `arrays.py`, the bounds to `finals.py`, the claim of given limits to
`readings.py`.

Rules:
- Lost is an outcome that no rule gives a value: `exclude_pair`, `worst_case` and `refuse` alike.
- Step k has the first k lost outcomes, in run order, at their worst for the treatment and the
  others at their best for it: k counts treatment's that fail and control's that succeed.
- Of a win rate the values are counted, not the pairs: two lost in one pair are two outcomes.
- Step 0 is the best case and the last step the worst: the two completions of the bounds.
- Many lost outcomes are walked in at most `STEPS_MAX` even steps, both ends among them.
- Where the steps show another verdict than the claim, each run of them is a change of its own: a
  claim that is inconclusive can change on either side.
- A type without extreme values, or a claim on two scales, has no such table.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import groupby
from typing import Final

from fairtrial.analysis.grouping import FloatArray
from fairtrial.ledger.events import Verdict

from .estimates import control_mean, estimate
from .frames import Completion, Frame, Pairs
from .readings import Reading, claim_on
from .winning import win_pairs

__all__ = ("STEPS_MAX", "Change", "Step", "Tipping", "changes_of", "tipping_point")

STEPS_MAX: Final = 41


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
        changes_at: the count nearest to the claim at which it is another one; None without changes.
    """

    lost: int
    steps: tuple[Step, ...]
    claim: Verdict
    changes: tuple[Change, ...]

    @property
    def changes_at(self) -> int | None:
        """The inner end of a change: its last count when it begins at none, else its first."""
        if not self.changes:
            return None
        change = self.changes[-1 if self.claim == "reject" else 0]
        return change.at_least if change.at_least else change.at_most


def tipping_point(frame: Frame, reading: Reading, pairs: Pairs) -> Tipping | None:
    """Returns the table of a test; None where nothing was lost or there can be none.

    Args:
        frame: plan and outcomes.
        reading: the test, as registered.
        pairs: the same pairs, with every lost value filled in both ways.
    """
    if len(reading.scales) > 1 or len(pairs.completions) < 2:
        return None
    lost = list(_lost(pairs))
    counts = sorted({round(len(lost) * part / (STEPS_MAX - 1)) for part in range(STEPS_MAX)})
    steps = tuple(_step(frame, reading, pairs, lost, count) for count in counts)
    claim = reading.verdict.verdict
    return Tipping(lost=len(lost), steps=steps, claim=claim, changes=changes_of(steps, claim))


def changes_of(steps: tuple[Step, ...], claim: Verdict) -> tuple[Change, ...]:
    """Returns the runs of steps that show another verdict than the claim."""
    runs = [list(run) for _, run in groupby(steps, key=lambda step: step.verdict)]
    return tuple(
        Change(verdict=run[0].verdict, at_least=run[0].against, at_most=run[-1].against)
        for run in runs
        if run[0].verdict != claim
    )


def _lost(pairs: Pairs) -> Iterator[tuple[int, bool]]:
    """Yields (pair, is treatment's) of each lost outcome, in run order, control's first."""
    against, favour = _values(pairs)
    for pair in range(len(pairs.units)):
        if _differ(against.control[pair], favour.control[pair]):
            yield pair, False
        if _differ(against.treatment[pair], favour.treatment[pair]):
            yield pair, True


def _values(pairs: Pairs) -> tuple[Completion, ...]:
    return pairs.completions if pairs.compared is None else pairs.compared


def _differ(one: float, other: float) -> bool:
    # NaN stands in the arm that an assigned unit isn't in: nothing was lost there.
    return one != other and not math.isnan(one)


def _step(
    frame: Frame, reading: Reading, pairs: Pairs, lost: list[tuple[int, bool]], count: int
) -> Step:
    against, favour = _values(pairs)
    control, treatment = favour.control.copy(), favour.treatment.copy()
    for pair, is_treatment in lost[:count]:
        target: FloatArray = treatment if is_treatment else control
        source = against.treatment if is_treatment else against.control
        target[pair] = source[pair]
    completed = replace(pairs, completions=(Completion(control=control, treatment=treatment),))
    if pairs.compared is not None:
        completed = win_pairs(completed, reading.test.endpoint)
    numbers = estimate(
        completed,
        frame.protocol,
        reading.test.endpoint,
        reading.scales[0].scale,
        nominal_p=reading.boundary.p,
    )
    mean = control_mean(completed, frame.protocol)
    return Step(
        against=count,
        treatment_worst=sum(is_treatment for _, is_treatment in lost[:count]),
        estimate=numbers.estimate,
        lower=numbers.lower,
        upper=numbers.upper,
        verdict=claim_on(frame.protocol, reading.test, numbers, mean).verdict,
    )
