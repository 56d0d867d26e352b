"""What one analysis says of one test: numbers, eligibility, and the claim that they make. Pure.

Leaves which looks were taken before to `evaluate.py`, and the verdict of a comparison to
`combining.py`.

Rules:
- A reading is eligible when its look is eligible by design, the guards hold on the data, no outcome
  is refused and no arm lost more units than the limit. What isn't eligible claims nothing.
- Reasons come in one order: what is missing first, since it explains the rest, then the guards.
- A claim on two scales has to hold on both.
- A test of a claim is computed at the claim's own null: the margin, on the side that favours the
  treatment; 0 where the rule has more than one. That of a saving stands in `saving.py`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Final, cast

from fairtrial.analysis.assigned import least_p
from fairtrial.analysis.verdict import (
    ReasonCode,
    Verdict,
    decide,
    guard_findings,
    harm_verdict,
)
from fairtrial.ledger.events import Crossed
from fairtrial.ledger.protocol import Protocol

from .arrays import pair_up
from .assigned_arrays import counted_arms
from .boundaries import (
    NOMINAL_P_MIN,
    Nominal,
    Test,
    guards_of,
    margin_on,
    needs_discordance,
    nominal,
    uses_t,
)
from .estimates import Numbers, ScaleName, estimate, scales_of
from .frames import Frame, Pairs
from .power_values import decision_rules
from .saving import is_saved, numbers_of_saving
from .slot_values import direction

__all__ = (
    "NOT_SHOWN",
    "Place",
    "Reading",
    "claim_if_ended",
    "claim_on",
    "null_of",
    "numbers_of",
    "over_limit",
    "read_test",
    "reason_of",
)

NOT_SHOWN: Final = Verdict("inconclusive", "interval_spans")
_SHOWN: Final = Verdict("adopt", "interval_favours")


@dataclass(frozen=True, kw_only=True, slots=True)
class Place:
    """Where one analysis of one test stands.

    Attributes:
        number: of the look, from 1; one more than the last for an analysis after a ceiling.
        last: last position that counts.
        fraction: information fraction.
        by_design: the look is eligible by design.
        history: fractions of the eligible looks before.
        spend_all: nothing comes after it.
    """

    number: int
    last: int
    fraction: float
    by_design: bool
    history: tuple[float, ...] = ()
    spend_all: bool = False


@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class Reading:
    """One test at one look.

    Attributes:
        test: what is tested.
        place: where.
        pairs: the pairs behind it.
        scales: numbers, one for each scale of the endpoint.
        boundary: the look's boundary.
        why_not: codes of what makes it ineligible.
        verdict: of this test alone; inconclusive with the first reason where it isn't eligible.
    """

    test: Test
    place: Place
    pairs: Pairs
    scales: tuple[Numbers, ...]
    boundary: Nominal
    why_not: tuple[str, ...]
    verdict: Verdict

    @property
    def eligible(self) -> bool:
        """Whether this reading may decide."""
        return not self.why_not

    @property
    def crossed(self) -> Crossed:
        """Which side of its boundary the test has crossed."""
        if self.verdict.verdict == "inconclusive":
            return "no"
        return "against" if self.verdict.verdict == "reject" else "favourable"

    @property
    def undetermined(self) -> str | None:
        """Why some number doesn't exist."""
        return next((each.undetermined for each in self.scales if each.undetermined), None)

    @property
    def p_value(self) -> float | None:
        """The largest p of the deciding tests on all scales; None where one doesn't exist."""
        found = [each.p_value for each in self.scales]
        known = [p for p in found if p is not None]
        return max(known) if len(known) == len(found) else None


def read_test(frame: Frame, test: Test, place: Place, *, invalidated: bool = False) -> Reading:
    """Reads one test at one look.

    Args:
        frame: plan and outcomes.
        test: what is tested, and its alpha.
        place: where.
        invalidated: outcomes declared invalid count as such.
    """
    protocol = frame.protocol
    pairs = pair_up(frame, test.comparison, test.endpoint, last=place.last, invalidated=invalidated)
    boundary = _boundary(protocol, test, place)
    scales = tuple(
        numbers_of(pairs, protocol, test, scale, nominal_p=boundary.p)
        for scale in scales_of(test.endpoint)
    )
    why_not = _why_not(protocol, test, place, pairs, scales=scales, boundary=boundary)
    verdict = _claim(protocol, test, scales)
    if why_not:
        verdict = Verdict("inconclusive", reason_of(why_not))
    return Reading(
        test=test,
        place=place,
        pairs=pairs,
        scales=scales,
        boundary=boundary,
        why_not=why_not,
        verdict=verdict,
    )


def numbers_of(
    pairs: Pairs, protocol: Protocol, test: Test, scale: ScaleName, *, nominal_p: float
) -> Numbers:
    """Computes the numbers of a test on one scale, at its own null.

    Args:
        pairs: its pairs.
        protocol: the registered plan.
        test: what is tested.
        scale: raw or log.
        nominal_p: two-sided p that the look allows.
    """
    if test.role == "saving":
        return numbers_of_saving(pairs, protocol, test.endpoint, scale, nominal_p=nominal_p)
    null = null_of(protocol, test)
    return estimate(pairs, protocol, test.endpoint, scale, nominal_p=nominal_p, null=null)


def claim_if_ended(protocol: Protocol, reading: Reading, pairs: Pairs, numbers: Numbers) -> Verdict:
    """Returns what the test of a reading would claim had its lost outcomes ended, guards included.

    Args:
        protocol: the registered plan.
        reading: the test on one scale, as registered.
        pairs: its pairs, with every lost outcome filled in, so that none counts as lost.
        numbers: of these pairs.
    """
    ended = replace(pairs, refused=0, lost={})
    why_not = _why_not(
        protocol,
        reading.test,
        reading.place,
        ended,
        scales=(numbers,),
        boundary=reading.boundary,
    )
    if why_not:
        return Verdict("inconclusive", reason_of(why_not))
    return claim_on(protocol, reading.test, numbers)


def over_limit(protocol: Protocol, pairs: Pairs) -> bool:
    """Returns whether an arm lost a larger share of the planned units than the protocol allows."""
    allowed = Fraction(repr(protocol.missing.limit))
    return any(count > allowed * pairs.planned_of[arm] for arm, count in pairs.lost.items())


def reason_of(why_not: Sequence[str]) -> ReasonCode:
    """Returns the reason of an ineligible reading: its first code that is a reason by itself."""
    silent = ("no_interval", "little_information")
    return cast("ReasonCode", next((c for c in why_not if c not in silent), "interval_spans"))


def _boundary(protocol: Protocol, test: Test, place: Place) -> Nominal:
    if place.fraction <= max(place.history, default=0.0):
        return Nominal(0.0, None)
    return nominal(
        test,
        protocol,
        place.number,
        place.fraction,
        history=place.history,
        spend_all=place.spend_all,
    )


def null_of(protocol: Protocol, test: Test) -> float:
    """Returns the difference at which a primary or a harm endpoint is tested, on its scale."""
    turn = 1.0 if direction(test.endpoint) == "higher" else -1.0
    if test.role == "harm":
        assert protocol.decision.harm is not None
        return -turn * margin_on(test.endpoint, protocol.decision.harm.margin) + 0.0
    margin = turn * margin_on(test.endpoint, protocol.decision.margin or 0.0)
    nulls = {"superiority": margin, "non_inferiority": -margin + 0.0}
    rules = decision_rules(protocol)
    return nulls.get(rules[0], 0.0) if len(rules) == 1 else 0.0


def _why_not(
    protocol: Protocol,
    test: Test,
    place: Place,
    pairs: Pairs,
    *,
    scales: Sequence[Numbers],
    boundary: Nominal,
) -> tuple[str, ...]:
    first = scales[0]
    df = first.df if uses_t(protocol, test.endpoint) else None
    guards = guard_findings(
        clusters=first.clusters,
        df=df,
        discordant_clusters=first.discordant_clusters
        if needs_discordance(protocol, test.endpoint)
        else None,
        zero_variance=any(each.zero_variance for each in scales),
        nominal_p=boundary.p,
        least_p=_least_p(test, pairs),
        guards=guards_of(protocol),
    )
    found: list[str] = []
    if pairs.refused:
        found.append("missing_refused")
    if over_limit(protocol, pairs):
        found.append("missing_over_limit")
    found.extend(guards)
    if not found and any(each.lower is None for each in scales) and boundary.p >= NOMINAL_P_MIN:
        found.append("no_interval")
    if not found and (not place.by_design or boundary.p < NOMINAL_P_MIN):
        found.append("little_information")
    return tuple(found)


def _least_p(test: Test, pairs: Pairs) -> float | None:
    if pairs.treated is None:
        return None
    counts = counted_arms(pairs, test.endpoint)
    return least_p(counts) if counts.sizes.size else None


def _claim(protocol: Protocol, test: Test, scales: Sequence[Numbers]) -> Verdict:
    """Returns what the limits show on all scales together."""
    claims = {claim_on(protocol, test, numbers) for numbers in scales}
    if len(claims) == 1:
        return claims.pop()
    words = {claim.verdict for claim in claims}
    if len(words) == 1 and words != {"inconclusive"}:
        return claim_on(protocol, test, scales[0])
    return Verdict("inconclusive", "methods_disagree")


def claim_on(protocol: Protocol, test: Test, numbers: Numbers) -> Verdict:
    """Returns what the limits show on one scale."""
    lower, upper, endpoint = numbers.lower, numbers.upper, test.endpoint
    if lower is None or upper is None:
        return NOT_SHOWN
    if test.role == "saving":
        return _SHOWN if is_saved(protocol, numbers) else NOT_SHOWN
    if test.role == "harm":
        assert protocol.decision.harm is not None
        margin = margin_on(endpoint, protocol.decision.harm.margin)
        return harm_verdict(margin, lower, upper, direction(endpoint))
    return decide(
        decision_rules(protocol),
        margin_on(endpoint, protocol.decision.margin or 0.0),
        lower,
        upper,
        direction(endpoint),
        parts=tuple(numbers.parts.values()),
        worse_inside_margin=protocol.decision.worse_inside_margin,
        sides=protocol.analysis.sides,
    )
