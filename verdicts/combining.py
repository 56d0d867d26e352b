"""From readings of single tests to the verdict of a comparison. Pure.

Leaves the combination rules to `analysis/verdict.py`, and numbers to `readings.py`.

Rules:
- A crossing stays: what a test has shown at one look isn't taken back at a later one.
- A harm endpoint that shows harm, or can't say anything, comes before every claim.
- With one look, `share: holm` and `primaries: any` step down by Holm: as long as something new is
  claimed, what is still open is tested again at its larger share.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TypeAlias

from fairtrial.analysis.verdict import Verdict, combine, decide, with_saving
from fairtrial.ledger.events import LookEndpoint
from fairtrial.ledger.protocol import Protocol

from .boundaries import Test, margin_on
from .power_values import decision_rules
from .readings import NOT_SHOWN, Reading
from .slot_values import direction

__all__ = ("Claim", "combined", "crossing_verdict", "is_decided", "read_together")

Read: TypeAlias = Callable[[Test], Reading]


@dataclass(frozen=True, kw_only=True, slots=True)
class Claim:
    """The verdict of a comparison, and the test that it follows from."""

    verdict: Verdict
    test: Test


def combined(protocol: Protocol, verdicts: Sequence[tuple[Test, Verdict]]) -> Claim:
    """Combines the tests of one comparison.

    Args:
        protocol: how primaries, harm and saving go together.
        verdicts: each test of the comparison with what it shows.
    """
    primaries = [verdict for test, verdict in verdicts if test.role == "primary"]
    harm = [verdict for test, verdict in verdicts if test.role == "harm"]
    before = combine(primaries, protocol.decision.primaries or "all", harm=harm)
    verdict = with_saving(before, *_savings(verdicts))
    if verdict != before:
        test = next(test for test, _ in verdicts if test.role == "saving")
        return Claim(verdict=verdict, test=test)
    order = sorted(verdicts, key=lambda each: ("harm", "primary", "saving").index(each[0].role))
    return Claim(verdict=verdict, test=_source(verdict, order))


def is_decided(protocol: Protocol, claim: Claim, verdicts: Sequence[tuple[Test, Verdict]]) -> bool:
    """Returns whether no later look could change a comparison's verdict.

    A walk through ordered primaries isn't over while one of them is open.
    """
    word = claim.verdict.verdict
    if word == "adopt" and protocol.decision.primaries == "ordered":
        return all(
            verdict.verdict != "inconclusive"
            for test, verdict in verdicts
            if test.role == "primary"
        )
    return word != "inconclusive"


def crossing_verdict(protocol: Protocol, test: Test, found: LookEndpoint) -> Verdict:
    """Returns what a test showed at a look taken where it crossed."""
    if test.role == "harm":
        return Verdict("reject", "harm")
    if test.role == "saving":
        return Verdict("adopt", "interval_favours")
    if found.lower is None or found.upper is None:
        return NOT_SHOWN
    return decide(
        decision_rules(protocol),
        margin_on(test.endpoint, protocol.decision.margin or 0.0),
        found.lower,
        found.upper,
        direction(test.endpoint),
        worse_inside_margin=protocol.decision.worse_inside_margin,
        sides=protocol.analysis.sides,
    )


def read_together(protocol: Protocol, tests: Sequence[Test], read: Read) -> list[Reading]:
    """Reads all tests of one look, stepping down by Holm where the protocol has one look.

    Args:
        protocol: whether and over what it steps down.
        tests: all tests, with the alpha of the first step.
        read: reads one test at its alpha.
    """
    names = [comparison.name for comparison in protocol.analysis.comparisons]
    own = {name: [test for test in tests if test.comparison.name == name] for name in names}
    if not _is_holm(protocol):
        found = {name: _read_primaries(protocol, own[name], read) for name in names}
    else:
        found = _step_down(protocol, own, read)
    return [reading for name in names for reading in found[name]]


def _step_down(
    protocol: Protocol, own: Mapping[str, Sequence[Test]], read: Read
) -> dict[str, list[Reading]]:
    found: dict[str, list[Reading]] = {}
    left = list(own)
    while left:
        factor = len(own) / len(left)
        for name in left:
            tests = [replace(test, alpha=test.alpha * factor) for test in own[name]]
            found[name] = _read_primaries(protocol, tests, read)
        still = [name for name in left if not _claims_something(protocol, found[name])]
        if still == left:
            break
        left = still
    return found


def _read_primaries(protocol: Protocol, tests: Sequence[Test], read: Read) -> list[Reading]:
    """Reads the tests of one comparison; `any` steps down over its primaries."""
    found = {test.endpoint.name: read(test) for test in tests}
    primary = [test for test in tests if test.role == "primary"]
    if protocol.decision.primaries == "any" and len(protocol.looks.at) == 1:
        left = [test for test in primary if found[test.endpoint.name].crossed == "no"]
        before = len(primary)
        while 0 < len(left) < before:
            before, factor = len(left), len(primary) / len(left)
            for test in left:
                found[test.endpoint.name] = read(replace(test, alpha=test.alpha * factor))
            left = [test for test in left if found[test.endpoint.name].crossed == "no"]
    return [found[test.endpoint.name] for test in tests]


def _claims_something(protocol: Protocol, readings: Sequence[Reading]) -> bool:
    verdicts = [(reading.test, reading.verdict) for reading in readings]
    return combined(protocol, verdicts).verdict.verdict != "inconclusive"


def _is_holm(protocol: Protocol) -> bool:
    return any(comparison.share == "holm" for comparison in protocol.analysis.comparisons)


def _savings(verdicts: Sequence[tuple[Test, Verdict]]) -> list[bool]:
    return [verdict.verdict == "adopt" for test, verdict in verdicts if test.role == "saving"]


def _source(verdict: Verdict, order: Sequence[tuple[Test, Verdict]]) -> Test:
    """Returns the first test that says what the comparison says."""
    same = (test for test, own in order if own == verdict and test.role != "saving")
    return next(same, next(test for test, _ in order if test.role == "primary"))
