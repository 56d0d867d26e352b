"""The report of a simulated protocol: its values, and how runs are counted. Pure.

Leaves the runs to `simulating.py`, and what a freeze takes of a report to `power_file.py`.

Rules:
- A case counts the verdicts that are meant at the effect, and those that are errors at a border.
- The verdict of the experiment is that of the gate comparison; of several comparisons the report
  says each one's share too, and how often all of them and any of them counted.
- At the border only a comparison that really lies there counts: not one that is implied by others.
- A reject for harm is no error of the primary, and no success.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Literal, NamedTuple

import msgspec

from fairtrial.analysis.rates import clopper_pearson
from fairtrial.ledger.events import LookPlan
from fairtrial.ledger.protocol import Protocol
from fairtrial.verdicts.power_values import decision_rules

from .assuming import Assumed
from .assumptions import AssumedComparison, implied_comparisons
from .simulated_comparisons import CaseName

__all__ = ("Ended", "Run", "Simulation", "SimulationCase", "case_of")


class SimulationCase(msgspec.Struct, frozen=True, kw_only=True):
    """What many runs at one truth came to.

    Attributes:
        name: the difference is the registered effect, or the border at which a claim is an error,
            or it is the effect and the saving lies at its own border.
        effect: true difference of the gate's first primary, treatment minus control.
        verdicts: share of runs by verdict; `reasons` likewise of those that are inconclusive or
            rejected for harm.
        intended: share of runs with a verdict that counts: power, or type-I error.
        standard_error: of `intended`; `lower` and `upper`: its exact 95 % limits.
        stops: share of runs that ended with each look.
        expected_units: mean number of units used; `expected_slots` likewise.
        comparisons: share of runs with a verdict that counts, by comparison, where there are
            several that can.
        all_intended: share of runs in which all of these counted; `any_intended` at least one.
    """

    name: CaseName
    effect: float
    verdicts: dict[str, float]
    reasons: dict[str, float]
    intended: float
    standard_error: float
    lower: float
    upper: float
    stops: tuple[float, ...]
    expected_units: float
    expected_slots: float
    comparisons: dict[str, float] = {}
    all_intended: float | None = None
    any_intended: float | None = None


class Simulation(msgspec.Struct, frozen=True, kw_only=True):
    """A simulated protocol.

    Attributes:
        protocol: SHA-256 of the resolved protocol; `plan` of the run order.
        assumed: what the gate's outcomes were drawn from; `assumptions` likewise of every
            comparison, with its saving; `stated` is what a file of assumptions says of itself.
        runs: per case; `seed` of all draws; `method` of the numbers.
        cases: see `SimulationCase`; without an effect only the border.
        checked: runs computed again from events; `agreed` those that came out alike.
        not_simulated: conditions of the protocol that were left out.
    """

    v: Literal[1] = 1
    experiment: str
    protocol: str
    plan: str
    assumed: Assumed
    runs: int
    seed: int
    method: str
    cases: tuple[SimulationCase, ...]
    checked: int
    agreed: int
    not_simulated: tuple[str, ...]
    assumptions: tuple[AssumedComparison, ...] = ()
    stated: str | None = None


class Ended(NamedTuple):
    """How one comparison ended."""

    verdict: str
    reason: str


class Run(NamedTuple):
    """How a run ended: its comparisons by name, and the number of its last look."""

    comparisons: dict[str, Ended]
    look: int


def case_of(
    protocol: Protocol,
    looks: Sequence[LookPlan],
    name: CaseName,
    effect: float,
    found: Sequence[Run],
) -> SimulationCase:
    """Returns what the runs of a case came to.

    Args:
        protocol: as it was simulated.
        looks: where they fall.
        name: of the case.
        effect: true difference of the gate's first primary.
        found: the runs.
    """
    runs, gate = len(found), protocol.decision.gate
    own = [run.comparisons[gate] for run in found]
    counted = _wanted(protocol) if name == "at_effect" else _errors(protocol, name)
    hits = sum(_counts(each, counted) for each in own)
    intended, limits = hits / runs, clopper_pearson(hits, runs)
    ends = [looks[run.look - 1] for run in found]
    together = _together(
        [{k: _counts(each, counted) for k, each in run.comparisons.items()} for run in found],
        _at_truth(protocol, name),
    )
    return SimulationCase(
        name=name,
        effect=effect,
        verdicts=_shares([each.verdict for each in own], runs),
        reasons=_shares(
            [e.reason for e in own if e.verdict == "inconclusive" or e.reason == "harm"], runs
        ),
        intended=intended,
        standard_error=math.sqrt(intended * (1.0 - intended) / runs),
        lower=limits.lower,
        upper=limits.upper,
        stops=tuple(
            sum(run.look == number for run in found) / runs for number in range(1, len(looks) + 1)
        ),
        expected_units=sum(end.units for end in ends) / runs,
        expected_slots=sum(end.last for end in ends) / runs,
        comparisons=together.shares,
        all_intended=together.all,
        any_intended=together.any,
    )


class _Together(NamedTuple):
    """What the comparisons came to, each and together; of one alone nothing more is said."""

    shares: dict[str, float]
    all: float | None
    any: float | None


def _at_truth(protocol: Protocol, name: CaseName) -> list[str]:
    """Returns the comparisons of which a case says what is true."""
    implied = frozenset[str]() if name == "at_effect" else implied_comparisons(protocol)
    return [each.name for each in protocol.analysis.comparisons if each.name not in implied]


def _together(hits: Sequence[Mapping[str, bool]], names: Sequence[str]) -> _Together:
    if len(names) < 2:
        return _Together({}, None, None)
    runs = len(hits)
    return _Together(
        {name: sum(run[name] for run in hits) / runs for name in names},
        sum(all(run[name] for name in names) for run in hits) / runs,
        sum(any(run[name] for name in names) for run in hits) / runs,
    )


def _counts(ended: Ended, counted: Sequence[str]) -> bool:
    return ended.verdict in counted and ended.reason != "harm"


def _shares(words: Sequence[str], runs: int) -> dict[str, float]:
    counts = Counter(words)
    return {word: counts[word] / runs for word in sorted(counts)}


def _wanted(protocol: Protocol) -> tuple[str, ...]:
    """Returns the verdicts that a run at the registered effect is meant to reach."""
    return ("adopt", "equivalent") if "equivalence" in decision_rules(protocol) else ("adopt",)


def _errors(protocol: Protocol, name: CaseName) -> tuple[str, ...]:
    """Returns the verdicts that are errors at the border of the first rule, or of the saving."""
    either_way = decision_rules(protocol) == ("superiority",) and not protocol.decision.margin
    if name == "at_border" and either_way:
        # No difference at all lies at the border, so that either claim is an error.
        return ("adopt", "reject")
    return ("adopt", "equivalent")
