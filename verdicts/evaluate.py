"""A look: the outcomes up to a barrier become the body of a look event. Pure.

Leaves arrays, numbers and claims to `arrays.py`, `estimates.py`, `readings.py` and `combining.py`;
basis and number of the event to the session.

Rules:
- Numbers come from outcomes alone; a look computed again from the same outcomes is the same.
- A look spends by the looks that really were eligible before it; one that isn't spends nothing.
- An outcome that was declared invalid keeps its value in every look: only the result weighs that.
- The run stops when every comparison is decided or harm is shown, at a look that crosses a
  boundary, where the protocol says stop.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final, Literal, NamedTuple, TypeAlias

from fairtrial.analysis.verdict import Verdict
from fairtrial.ledger.events import (
    Head,
    Look,
    LookComparison,
    LookEndpoint,
    LookPlan,
    LookTest,
    Origin,
)
from fairtrial.ledger.protocol import Comparison, Protocol
from fairtrial.ledger.state import AmendNote
from fairtrial.protocols.plan import Plan
from fairtrial.protocols.units import Units

from .boundaries import Test, discordance_counts, tests_of
from .combining import combined, crossing_verdict, is_decided, read_together
from .estimates import scales_of
from .frames import Frame, build_frame
from .outcomes import Measures, Outcomes, data_digest
from .readings import Place, Reading, read_test

__all__ = (
    "AnalysisContext",
    "LookBody",
    "LookNumbers",
    "StoppedBy",
    "digest_of",
    "evaluate_look",
    "found_in",
    "frame_of",
    "history_of",
    "look_numbers",
    "method_of",
    "place_of",
    "standing",
)

_METHOD: Final = "fairtrial-numbers/1"
# A saving on the raw scale by its contrast; version 1 took control's mean as known.
_METHOD_OF_SAVING: Final = "fairtrial-numbers/2"
StoppedBy: TypeAlias = Literal["last_look", "boundary", "ceiling", "wall_time", "person"]


@dataclass(frozen=True, kw_only=True, slots=True, eq=False, weakref_slot=True)
class AnalysisContext:
    """Everything that the numbers of one experiment are computed from.

    Attributes:
        protocol: the registered plan in force.
        plan: the frozen run order; `units` the frozen units.
        looks: the look table in force.
        taken: the looks taken before, in order.
        outcomes: what is known of every slot.
        origins: where each arm's outcomes come from.
        stopped_by: what ended the experiment; None while it goes on.
        amends: amendments, as later reports list them.
        unblinded_early: the arms were unblinded before the data were complete.
        invalidated: positions whose outcome was declared invalid.
        may_analyse: data that a ceiling cut short may still decide (`ledger.ceilings`).
    """

    protocol: Protocol
    plan: Plan
    units: Units
    looks: tuple[LookPlan, ...]
    taken: tuple[Look, ...]
    outcomes: Outcomes
    origins: Mapping[str, Origin]
    stopped_by: StoppedBy | None = None
    amends: tuple[AmendNote, ...] = ()
    unblinded_early: bool = False
    invalidated: frozenset[int] = frozenset()
    may_analyse: bool = False


@dataclass(frozen=True, kw_only=True, slots=True)
class LookBody:
    """The fields of a look event that come from the numbers."""

    data: str
    last: int
    continues: bool
    method: str
    units: int
    clusters: int
    comparisons: tuple[LookComparison, ...]

    def event(self, experiment: str, number: int, basis: Head) -> Look:
        """Returns the look event that these numbers make."""
        return Look(
            experiment=experiment,
            number=number,
            basis=basis,
            data=self.data,
            last=self.last,
            continues=self.continues,
            method=self.method,
            units=self.units,
            clusters=self.clusters,
            comparisons=self.comparisons,
        )


def evaluate_look(context: AnalysisContext, number: int) -> LookBody:
    """Computes a look.

    Args:
        context: the outcomes up to the look at least, and the looks taken before it.
        number: of the look, from 1.
    """
    planned = context.looks[number - 1]
    numbers = look_numbers(context, frame_of(context), number)
    return LookBody(
        data=digest_of(context, planned.last),
        last=planned.last,
        continues=numbers.continues,
        method=method_of(context.protocol),
        units=planned.units,
        clusters=planned.clusters,
        comparisons=numbers.comparisons,
    )


class LookNumbers(NamedTuple):
    """What a look says, the readings behind it, and whether the run goes on after it."""

    continues: bool
    comparisons: tuple[LookComparison, ...]
    readings: tuple[Reading, ...]


def look_numbers(context: AnalysisContext, frame: Frame, number: int) -> LookNumbers:
    """Computes the numbers of a look from outcomes that are indexed already."""
    readings = read_together(
        context.protocol,
        tests_of(context.protocol),
        lambda test: read_test(frame, test, place_of(context, test, number)),
    )
    return LookNumbers(
        continues=_continues(context, number, readings),
        comparisons=tuple(
            _comparison(comparison, readings)
            for comparison in context.protocol.analysis.comparisons
        ),
        readings=tuple(readings),
    )


def frame_of(context: AnalysisContext) -> Frame:
    """Returns plan and outcomes, indexed."""
    return build_frame(context.protocol, context.plan, context.units, context.outcomes)


def method_of(protocol: Protocol) -> str:
    """Returns the name of all that makes a plan's numbers: by it a reader knows their meaning."""
    roles = (test for test in tests_of(protocol) if test.role == "saving")
    raw = any("raw" in scales_of(test.endpoint) for test in roles)
    return _METHOD_OF_SAVING if raw else _METHOD


def digest_of(context: AnalysisContext, last: int) -> str:
    """Returns the digest of the outcomes up to a position."""
    values = {each.value for each in context.protocol.endpoints}
    measures = Measures(
        cost=not values.isdisjoint(("usd", "usd_incurred")),
        tokens="tokens" in values,
        duration="duration_seconds" in values,
    )
    return data_digest(context.outcomes, last=last, measures=measures)


def place_of(context: AnalysisContext, test: Test, number: int) -> Place:
    """Returns where a test stands at a planned look, after the looks that were eligible before."""
    planned = context.looks[number - 1]
    boundary = _planned_test(planned, test)
    return Place(
        number=number,
        last=planned.last,
        fraction=boundary.fraction if boundary else 0.0,
        by_design=boundary is not None and boundary.eligible,
        history=history_of(context, test, number),
    )


def history_of(context: AnalysisContext, test: Test, number: int) -> tuple[float, ...]:
    """Returns the fractions of the looks before `number` that were eligible for a test."""
    return tuple(
        found.information_fraction
        for look in context.taken[: number - 1]
        if (found := found_in(look, test)) is not None and found.eligible
    )


def found_in(look: Look, test: Test) -> LookEndpoint | None:
    """Returns what a look taken says of a test; None where it was not a test then."""
    for comparison in look.comparisons:
        if comparison.name == test.comparison.name:
            return next((e for e in comparison.endpoints if e.name == test.endpoint.name), None)
    return None


def standing(context: AnalysisContext, test: Test, number: int) -> tuple[int, Verdict] | None:
    """Returns the look of a test's first crossing among the first `number`, and what it showed."""
    for place, look in enumerate(context.taken[:number], start=1):
        found = found_in(look, test)
        if found is not None and found.crossed != "no":
            return place, crossing_verdict(context.protocol, test, found)
    return None


def _planned_test(planned: LookPlan, test: Test) -> LookTest | None:
    """Returns the boundary of a test at a look; None where an amendment made it a test later."""
    key = (test.comparison.name, test.endpoint.name)
    return next((each for each in planned.tests if key == (each.comparison, each.endpoint)), None)


def _continues(context: AnalysisContext, number: int, readings: Sequence[Reading]) -> bool:
    if number == len(context.looks):
        return False
    crossed = any(reading.crossed != "no" for reading in readings)
    if not crossed or context.protocol.looks.on_crossing == "continue":
        return True
    if any(reading.test.role == "harm" and reading.crossed != "no" for reading in readings):
        return False
    return not all(
        _is_decided(context, comparison, number, readings)
        for comparison in context.protocol.analysis.comparisons
    )


def _is_decided(
    context: AnalysisContext, comparison: Comparison, number: int, readings: Sequence[Reading]
) -> bool:
    verdicts: list[tuple[Test, Verdict]] = []
    for reading in readings:
        if reading.test.comparison.name == comparison.name:
            before = standing(context, reading.test, number - 1)
            verdicts.append((reading.test, before[1] if before else reading.verdict))
    claim = combined(context.protocol, verdicts)
    return is_decided(context.protocol, claim, verdicts)


def _comparison(comparison: Comparison, readings: Sequence[Reading]) -> LookComparison:
    own = [reading for reading in readings if reading.test.comparison.name == comparison.name]
    return LookComparison(
        name=comparison.name,
        treatment=comparison.treatment,
        control=comparison.control,
        endpoints=tuple(_endpoint(reading) for reading in own),
    )


def _endpoint(reading: Reading) -> LookEndpoint:
    """Returns one reading as the wire has it; the first scale leads, tests have all of them."""
    first = reading.scales[0]
    counts = discordance_counts(reading.test.endpoint) and reading.pairs.treated is None
    return LookEndpoint(
        name=reading.test.endpoint.name,
        information_fraction=reading.place.fraction,
        eligible=reading.eligible,
        why_not=reading.why_not,
        n=first.n,
        clusters=first.clusters,
        discordant_clusters=first.discordant_clusters if counts else None,
        estimate=first.estimate,
        standard_error=first.standard_error,
        df=first.df,
        tests={
            name if each.scale == "raw" else f"log_{name}": p
            for each in reading.scales
            for name, p in each.tests.items()
        },
        p_value=reading.p_value,
        nominal_p=reading.boundary.p,
        t_critical=first.t_critical,
        z=reading.boundary.z,
        lower=first.lower,
        upper=first.upper,
        crossed=reading.crossed,
        undetermined=reading.undetermined,
    )
