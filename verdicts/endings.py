"""How each comparison of an experiment ends: its data, its readings and its verdict. Pure.

Leaves looks to `evaluate.py`, the sentence to `reasoning.py` and the event's body to `conclude.py`.

Rules:
- A comparison that was decided at a look keeps that look's verdict and data; nothing later counts.
- What is still open after the last look has the verdict of the last look, guards first.
- A ceiling or the wall time leave it open, unless the protocol said `analyse`: then all complete
  pairs are analysed once, with all alpha that is left. A stop by a person always leaves it open.
- A diagnostic that is positive, and registered as `inconclusive`, leaves the comparison open.
- Where outcomes were declared invalid, the analysis is done with the old values and with the rule
  for `invalidated`; a verdict stands only where both agree.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cache

import msgspec

from fairtrial.analysis.verdict import ReasonCode, Verdict
from fairtrial.ledger.events import LookEndpoint
from fairtrial.ledger.protocol import Comparison
from fairtrial.protocols.assigning import is_assigned

from .arrays import cluster_sizes_in_order, complete_counts, complete_sizes, counts_in_order
from .boundaries import Test, reached_fraction, tests_of
from .combining import Claim, combined, is_decided, read_together
from .diagnosing import Diagnosis, diagnoses
from .evaluate import AnalysisContext, found_in, history_of, place_of, standing
from .frames import Frame
from .readings import NOT_SHOWN, Place, Reading, read_test, reason_of
from .saving_skew import saving_diagnoses

__all__ = ("Ending", "Second", "claim_of", "endings")


@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class Second:
    """The same data, looks and boundaries, with the rule for invalidated outcomes.

    Attributes:
        verdict: that they give.
        readings: of all tests.
    """

    verdict: Verdict
    readings: tuple[Reading, ...]


@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class Ending:
    """One comparison at its end.

    Attributes:
        comparison: which.
        claim: its verdict, and the test it follows from.
        readings: all its tests, read from the data that it ended with.
        last: last position of those data.
        look: number of the look that it ended with; None where the run ended between looks.
        planned: a look or an `analyse` that the protocol planned, so intervals keep their level.
        recorded: the verdict with the old values of outcomes that were declared invalid.
        second: the analysis with the rule for them; None where none was declared invalid.
        diagnoses: what was looked at before the verdict.
        voided_by: the diagnostic that made the verdict inconclusive.
    """

    comparison: Comparison
    claim: Claim
    readings: tuple[Reading, ...]
    last: int
    look: int | None
    planned: bool = True
    recorded: Verdict | None = None
    second: Second | None = None
    diagnoses: tuple[Diagnosis, ...] = ()
    voided_by: Diagnosis | None = None


def endings(context: AnalysisContext, frame: Frame) -> tuple[Ending, ...]:
    """Returns how each comparison ends, in the registered order."""
    registered = _Reader(context, frame, invalidated=False)
    found = [registered.ending(each) for each in context.protocol.analysis.comparisons]
    if context.outcomes.invalidated:
        other = _Reader(context, frame, invalidated=True)
        found = [_compared(each, other.again(each)) for each in found]
    return tuple(_diagnosed(frame, each) for each in found)


def _diagnosed(frame: Frame, ending: Ending) -> Ending:
    """Adds the diagnostics; one that is positive and registered to do so voids the verdict."""
    pairs = next(each for each in ending.readings if each.test.role == "primary").pairs
    # Added later than the others, so last: older forms have the others at the same places.
    skewed = saving_diagnoses(frame.protocol, ending.readings)
    found = (*diagnoses(frame, ending.comparison, pairs, ending.last), *skewed)
    ending = replace(ending, diagnoses=found)
    voids = _voiding(found)
    if not voids or ending.claim.verdict.verdict == "inconclusive":
        return ending
    claim = replace(ending.claim, verdict=Verdict("inconclusive", "diagnostic"))
    return replace(ending, claim=claim, voided_by=voids[0])


def claim_of(
    context: AnalysisContext,
    frame: Frame,
    comparison: Comparison,
    readings: Sequence[Sequence[Reading]],
) -> Claim:
    """Returns what the looks taken say of a comparison, without reading anything again.

    Args:
        context: looks after which nothing else comes; no outcome was declared invalid.
        frame: plan and outcomes.
        comparison: which.
        readings: those of each look taken.
    """
    decided = _decided(context, comparison)
    claim, number = decided or (_last_claim(context, comparison, readings[-1]), len(readings))
    voiding = "inconclusive" in msgspec.structs.astuple(context.protocol.diagnostics)
    if not voiding or claim.verdict.verdict == "inconclusive":
        return claim
    first = next(
        each
        for each in readings[number - 1]
        if each.test.comparison.name == comparison.name and each.test.role == "primary"
    )
    if _voiding(diagnoses(frame, comparison, first.pairs, first.place.last)):
        return replace(claim, verdict=Verdict("inconclusive", "diagnostic"))
    return claim


def _voiding(found: Sequence[Diagnosis]) -> list[Diagnosis]:
    """Returns the positive diagnostics that are registered to leave the verdict open."""
    return [each for each in found if each.positive and each.effect == "inconclusive"]


def _last_claim(
    context: AnalysisContext, comparison: Comparison, readings: Sequence[Reading]
) -> Claim:
    """Returns the claim of a comparison that no look has decided."""
    verdicts: list[tuple[Test, Verdict]] = []
    for reading in readings:
        if reading.test.comparison.name == comparison.name:
            crossing = standing(context, reading.test, len(context.taken))
            verdicts.append((reading.test, crossing[1] if crossing else reading.verdict))
    return combined(context.protocol, verdicts)


def _decided(context: AnalysisContext, comparison: Comparison) -> tuple[Claim, int] | None:
    """Returns the claim of the first look that decided a comparison, and its number."""
    for number in range(1, len(context.taken) + 1):
        verdicts = _on_record(context, comparison, number)
        claim = combined(context.protocol, verdicts)
        if is_decided(context.protocol, claim, verdicts):
            return claim, number
    return None


def _on_record(
    context: AnalysisContext, comparison: Comparison, number: int
) -> list[tuple[Test, Verdict]]:
    """Returns what each test showed up to a look, from the events alone."""
    look = context.taken[number - 1]
    verdicts: list[tuple[Test, Verdict]] = []
    for test in _own(tests_of(context.protocol), comparison):
        crossing = standing(context, test, number)
        verdicts.append((test, crossing[1] if crossing else _open(found_in(look, test))))
    return verdicts


def _own(tests: Sequence[Test], comparison: Comparison) -> list[Test]:
    return [test for test in tests if test.comparison.name == comparison.name]


def _compared(ending: Ending, second: Second) -> Ending:
    """Adds the second analysis; where its verdict is another one, none of the two stands."""
    ending = replace(ending, recorded=ending.claim.verdict, second=second)
    if ending.claim.verdict.verdict == second.verdict.verdict:
        return ending
    claim = replace(ending.claim, verdict=Verdict("inconclusive", "invalidated"))
    return replace(ending, claim=claim)


class _Reader:
    """Reads the tests of all comparisons, each place once; old values, or invalidated ones."""

    def __init__(self, context: AnalysisContext, frame: Frame, *, invalidated: bool) -> None:
        self._context, self._frame, self._invalidated = context, frame, invalidated
        self._protocol, self._tests = context.protocol, tests_of(context.protocol)
        self._read = cache(self._read_once)

    def ending(self, comparison: Comparison) -> Ending:
        """Returns how a comparison ends by the looks on record."""
        decided = _decided(self._context, comparison)
        if decided is not None:
            return self._ending(comparison, *decided)
        number = len(self._context.taken)
        if number and self._context.stopped_by in ("last_look", "boundary"):
            claim = combined(self._protocol, self._verdicts(comparison, number))
            return self._ending(comparison, claim, number)
        return self._ending(comparison, self._early(comparison), None)

    def again(self, ending: Ending) -> Second:
        """Returns what the same data, looks and boundaries say by this reader's values."""
        comparison, number = ending.comparison, ending.look
        if number is None:
            verdict = self._early(comparison).verdict
        else:
            verdict = combined(self._protocol, self._verdicts(comparison, number)).verdict
        return Second(verdict=verdict, readings=self._readings(comparison, number))

    def _ending(self, comparison: Comparison, claim: Claim, number: int | None) -> Ending:
        looks, slots = self._context.looks, self._context.plan.slot_count
        return Ending(
            comparison=comparison,
            claim=claim,
            readings=self._readings(comparison, number),
            last=slots if number is None else looks[number - 1].last,
            look=number,
            planned=number is not None or self._analyses(),
        )

    def _readings(self, comparison: Comparison, number: int | None) -> tuple[Reading, ...]:
        return tuple(self._reading(test, number) for test in self._own(comparison))

    def _analyses(self) -> bool:
        ceiling = self._context.stopped_by in ("ceiling", "wall_time")
        planned = self._protocol.decision.on_under_run == "analyse"
        # The protocol's word isn't enough: whoever moves a ceiling must not choose the end.
        return ceiling and planned and self._context.may_analyse

    def _early(self, comparison: Comparison) -> Claim:
        """Returns the claim of a comparison that no look decided before the run ended."""
        if self._analyses():
            return combined(self._protocol, self._verdicts(comparison, None))
        verdicts = [
            (test, self._crossing(test, None) or NOT_SHOWN) for test in self._own(comparison)
        ]
        claim = combined(self._protocol, verdicts)
        if claim.verdict.verdict != "inconclusive":
            return claim
        person = self._context.stopped_by == "person"
        code: ReasonCode = "stopped_by_person" if person else "under_run"
        return Claim(verdict=Verdict("inconclusive", code), test=claim.test)

    def _verdicts(self, comparison: Comparison, number: int | None) -> list[tuple[Test, Verdict]]:
        """Returns what each test shows up to a look: its crossing, else its reading there."""
        return [
            (test, self._crossing(test, number) or self._reading(test, number).verdict)
            for test in self._own(comparison)
        ]

    def _crossing(self, test: Test, number: int | None) -> Verdict | None:
        crossing = standing(self._context, test, number or len(self._context.taken))
        if crossing is None:
            return None
        place, verdict = crossing
        return self._reading(test, place).verdict if self._invalidated else verdict

    def _own(self, comparison: Comparison) -> list[Test]:
        return _own(self._tests, comparison)

    def _reading(self, test: Test, number: int | None) -> Reading:
        key = (test.comparison.name, test.endpoint.name)
        readings = self._read(number)
        return next(r for r in readings if key == (r.test.comparison.name, r.test.endpoint.name))

    def _read_once(self, number: int | None) -> list[Reading]:
        """Reads all tests at a look, or where the run ended."""
        end = self._end_place if number is None else None

        def read(test: Test) -> Reading:
            place = end(test) if end else place_of(self._context, test, number or 1)
            return read_test(self._frame, test, place, invalidated=self._invalidated)

        return read_together(self._protocol, self._tests, read)

    def _end_place(self, test: Test) -> Place:
        """Returns where a run that ended between looks stands: at all complete pairs."""
        taken, slots = len(self._context.taken), self._context.plan.slot_count
        assigned = is_assigned(self._protocol)
        plan, units, endpoint = self._context.plan, self._context.units, test.endpoint
        planned_in = counts_in_order if assigned else cluster_sizes_in_order
        reached_in = complete_counts if assigned else complete_sizes
        planned = planned_in(plan, units, endpoint, test.comparison)
        reached = reached_in(self._frame, test.comparison, endpoint)
        return Place(
            number=min(taken + 1, len(self._context.looks)),
            last=slots,
            fraction=reached_fraction(self._protocol, test.endpoint, planned, reached),
            by_design=True,
            history=history_of(self._context, test, taken + 1),
            spend_all=True,
        )


def _open(found: LookEndpoint | None) -> Verdict:
    """Returns what a test that hasn't crossed says at a look on record."""
    if found is None or found.eligible:
        return NOT_SHOWN
    return Verdict("inconclusive", reason_of(found.why_not))
