"""What the power check says of a plan: its values, and the assessment of one endpoint. Pure.

Leaves the formula to `analysis/power.py`, and which findings refuse a freeze to `look_table.py`.

Rules:
- Every value can be written as JSON; a number that doesn't exist is null.
- An effect is turned so that positive means that the treatment is better; for superiority its sign
  doesn't matter.
- The icc is that of `power.assume`, else that of the looks, else 0 where units are single; without
  any of them nothing is assumed.
"""

from __future__ import annotations

import math
from typing import Literal, TypeAlias

import msgspec

from fairtrial.analysis.assigned import ArmCounts
from fairtrial.analysis.power import Assumption, power_report
from fairtrial.analysis.power import Plan as LastLook
from fairtrial.analysis.power import PowerReport as Assessment
from fairtrial.analysis.values import Undetermined
from fairtrial.analysis.verdict import Finding as Guard
from fairtrial.analysis.verdict import Rule
from fairtrial.ledger.events import Blob, LookTest
from fairtrial.ledger.protocol import Endpoint, Protocol
from fairtrial.protocols.assigning import is_assigned
from fairtrial.protocols.plan import Plan
from fairtrial.protocols.units import Units

from .arrays import cluster_sizes_in_order, counts_in_order
from .boundaries import (
    BY_CLUSTER,
    Test,
    guards_of,
    is_anytime,
    margin_on,
    needs_discordance,
)
from .saving_error import SavingError
from .slot_values import ONE_OR_NONE, direction

__all__ = (
    "Capacity",
    "CapacityRow",
    "EndpointPower",
    "FamilyCapacity",
    "Finding",
    "LookFacts",
    "PowerCell",
    "PowerReport",
    "SimulatedBound",
    "SimulatedPower",
    "assess",
    "decision_rules",
)


Finding: TypeAlias = Literal["no_verdict_possible", "impossible", "underpowered", "not_assessed"]


class _Report(msgspec.Struct, frozen=True, kw_only=True):
    """Base of the values that the power blob holds."""


class LookFacts(_Report, frozen=True, kw_only=True):
    """Where a look really falls.

    Attributes:
        number: from 1.
        planned: the share of clusters that the protocol asks for.
        last: last position; `clusters`, `units` up to there.
        fraction: information fraction of the first test.
        eligible: every test of the look may decide, by design.
    """

    number: int
    planned: float
    last: int
    clusters: int
    units: int
    fraction: float
    eligible: bool


class PowerCell(_Report, frozen=True, kw_only=True):
    """One cell of the table that is shown where nothing is assumed; null: there is no number."""

    discordance: float
    icc: float
    power: float | None
    smallest_difference: float | None


class EndpointPower(_Report, frozen=True, kw_only=True):
    """What the last look can find on one primary endpoint of one comparison.

    Attributes:
        findings: see `PowerReport`.
        guards: why the last look can reach no verdict, whatever the outcomes are.
        power: probability that the rule concludes as intended, under the assumption.
        smallest_difference: found with the target power, under the assumption.
        best_power: power under the most favourable assumption.
        table: power where nothing is assumed.
    """

    comparison: str
    endpoint: str
    findings: tuple[str, ...]
    guards: tuple[Guard, ...]
    power: float | None
    smallest_difference: float | None
    best_power: float | None
    table: tuple[PowerCell, ...]


class SimulatedPower(_Report, frozen=True, kw_only=True):
    """What a simulation of the very protocol found; see `simulating.py`.

    Attributes:
        report: the whole report, kept beside the ledger.
        runs: per case; `seed` of its draws.
        effect: true difference.
        power: share of runs with the intended verdict.
        type_i_error: share of runs with a claim where a claim is an error.
        expected_units: units used, on average.
    """

    report: Blob
    runs: int
    seed: int
    effect: float
    power: float
    type_i_error: float
    expected_units: float


class CapacityRow(_Report, frozen=True, kw_only=True):
    """How many independent flags are needed for the target with so many wrong ones among them."""

    wrong: int
    flags: int


class FamilyCapacity(_Report, frozen=True, kw_only=True):
    """What a family of the primary population holds; `can_pass`: its floor, were all flagged."""

    family: str
    units: int
    positives: int
    clusters: int
    can_pass: bool


class SimulatedBound(_Report, frozen=True, kw_only=True):
    """How often a bound reaches a target that is exactly the truth, at a correlation."""

    icc: float
    error: float


class Capacity(_Report, frozen=True, kw_only=True):
    """What the flags of a threshold rule can show at best, before any score.

    Attributes:
        target: precision that is asked for; `bound` and `alpha` of each side.
        population: that decides; `units`, `clusters` and `positives` (label 1) of it.
        effective_clusters: equal clusters that weigh like those of the positives.
        best_lower: the lower bound if every positive were flagged and nothing else, by Holm where
            each family is judged; null without positives.
        best_family: the family whose bound that is; null where flags are pooled.
        best_positives: units of label 1 behind that bound.
        rows: fewest independent flags for the target, by wrong flags.
        families: of the population; empty without a column of families.
        simulated: error of a bound that ignores clusters, where there are any.
    """

    target: float
    bound: str
    alpha: float
    population: str
    units: int
    clusters: int
    positives: int
    effective_clusters: float | None
    best_lower: float | None
    best_family: str | None
    best_positives: int
    rows: tuple[CapacityRow, ...]
    families: tuple[FamilyCapacity, ...]
    simulated: tuple[SimulatedBound, ...]


class PowerReport(_Report, frozen=True, kw_only=True):
    """What is known about a plan before it runs.

    Attributes:
        findings: of the whole plan, in the order of `power.accept`.
        refused: findings that refuse the freeze, each with its sentence.
        accepted: findings with the reason that the protocol gives.
        warnings: sentences for whoever reads `check`.
        effect: the registered difference; `target` the power wanted for it.
        power: of the gate comparison's first primary; `smallest_difference` likewise.
        looks: where the looks fall.
        endpoints: one for each comparison and primary endpoint.
        simulated: what a simulation found, where one was handed over; it leads over the formula.
        capacity: of a threshold-rule experiment alone.
        saving_error: what is known of it, where a saving is tested on the raw scale.
    """

    findings: tuple[str, ...]
    refused: dict[str, str]
    accepted: dict[str, str]
    warnings: tuple[str, ...]
    effect: float | None
    target: float
    power: float | None
    smallest_difference: float | None
    looks: tuple[LookFacts, ...]
    endpoints: tuple[EndpointPower, ...]
    simulated: SimulatedPower | None = None
    capacity: Capacity | msgspec.UnsetType = msgspec.UNSET
    saving_error: SavingError | msgspec.UnsetType = msgspec.UNSET


def assess(
    protocol: Protocol, plan: Plan, units: Units, test: Test, last: LookTest
) -> EndpointPower:
    """Returns what the last look can find on a primary endpoint."""
    sizes = cluster_sizes_in_order(plan, units, test.endpoint, test.comparison)
    look = LastLook(
        sizes=sizes[sizes > 0],
        counts=_counts(protocol, plan, units, test),
        estimand=protocol.analysis.estimand,
        nominal_p=last.nominal_p,
        rule=decision_rules(protocol)[0],
        margin=margin_on(test.endpoint, protocol.decision.margin or 0.0),
        target=protocol.power.target,
        binary=test.endpoint.type in ONE_OR_NONE and not is_anytime(protocol),
        discordance_guard=needs_discordance(protocol, test.endpoint),
        guards=guards_of(protocol),
    )
    # Of an AUC or a precision no spread of a paired difference can be assumed.
    # The formula is that of t, so it says nothing of a confidence sequence.
    none = test.endpoint.type in BY_CLUSTER or is_anytime(protocol)
    assume = None if none else _assumption(protocol, test.endpoint)
    found = power_report(_effect(protocol, test.endpoint), look, assume)
    names = list(found.findings)
    if not last.eligible and "no_verdict_possible" not in names:
        names.insert(0, "no_verdict_possible")
    return EndpointPower(
        comparison=test.comparison.name,
        endpoint=test.endpoint.name,
        findings=tuple(names),
        guards=found.guards,
        power=_number(found.power),
        smallest_difference=_number(found.mde),
        best_power=_number(found.best_power),
        table=_cells(found),
    )


def _counts(protocol: Protocol, plan: Plan, units: Units, test: Test) -> ArmCounts | None:
    """Returns the units of each cluster by arm, where each is in one."""
    if not is_assigned(protocol):
        return None
    return counts_in_order(plan, units, test.endpoint, test.comparison).present()


def _number(value: float | Undetermined) -> float | None:
    return None if isinstance(value, Undetermined) else value


def _cells(found: Assessment) -> tuple[PowerCell, ...]:
    return tuple(
        PowerCell(
            discordance=row.discordance,
            icc=row.icc,
            power=_number(row.power),
            smallest_difference=_number(row.mde),
        )
        for row in found.table
    )


def decision_rules(protocol: Protocol) -> tuple[Rule, ...]:
    """Returns the registered rules of a comparison, in order."""
    rules: list[Rule] = [rule for rule in protocol.decision.rule if rule != "precision_bound"]
    assert rules, "a threshold-rule experiment compares no arms"
    return tuple(rules)


def _effect(protocol: Protocol, endpoint: Endpoint) -> float | None:
    """Returns the registered effect, positive when the treatment is better."""
    effect = protocol.power.effect
    if effect is None or decision_rules(protocol)[0] == "superiority":
        return None if effect is None else abs(effect)
    return effect if direction(endpoint) == "higher" else -effect


def _assumption(protocol: Protocol, endpoint: Endpoint) -> Assumption | None:
    assume = protocol.power.assume
    icc = protocol.looks.icc if assume.icc is None else assume.icc
    if icc is None and protocol.units.cluster is None:
        icc = 0.0
    if icc is None:
        return None
    missing = assume.missing or 0.0
    if assume.discordance is not None and endpoint.type == "win_rate":
        # A pair that isn't tied is one half away from even.
        spread = math.sqrt(assume.discordance) / 2.0
        return Assumption(sd=spread, icc=icc, missing=missing)
    if assume.discordance is not None:
        return Assumption.of_discordance(assume.discordance, icc=icc, missing=missing)
    return None if assume.sd is None else Assumption(sd=assume.sd, icc=icc, missing=missing)
