"""Which endpoints are tested, at what alpha, and the boundary of each look. Pure.

Leaves the look table of the freeze to `look_table.py`, and what the data say to `evaluate.py`.

Rules:
- Tested are the primaries, the harm endpoints and the endpoint of the saving; no other decides.
- A comparison has its share of alpha. `primaries: any` shares it equally among the primaries; `all`
  and `ordered` test each at the whole. Harm has its own alpha, shared over harm endpoints.
- The fraction of a look is fixed by the planned cluster sizes of the endpoint's population.
- A look is eligible by design when the guards hold for its planned clusters, 2^(1-G) is at most its
  nominal p, that p is at least 1e-12, and a later look brings new information or it is the last.
- A look that isn't eligible spends nothing; the next eligible one spends it.
- Where each unit is in one arm, fractions and df are those of the arm contrast, in place of
  2^(1-G) stands what an assignment of whole clusters could reach, and discordance says nothing.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from itertools import accumulate
from typing import Final, Literal

from fairtrial.analysis.assigned import (
    ArmCounts,
    assigned_fractions,
    assigned_weights,
    least_p,
)
from fairtrial.analysis.assigned_deciding import deciding_df
from fairtrial.analysis.distributions import normal_sf
from fairtrial.analysis.grouping import IntArray, exact_sum
from fairtrial.analysis.paired import satterthwaite_df
from fairtrial.analysis.sequential import Spending, information_fractions, spending_boundary
from fairtrial.analysis.values import Undetermined
from fairtrial.analysis.verdict import Guards, guard_findings
from fairtrial.ledger.events import LookTest
from fairtrial.ledger.protocol import Comparison, Endpoint, Protocol
from fairtrial.protocols.assigning import is_assigned
from fairtrial.protocols.defaults import ALL_REPLICATES
from fairtrial.protocols.plan import LookCut, Plan
from fairtrial.protocols.units import Units

from .arrays import cluster_sizes_in_order, counts_in_order
from .slot_values import ONE_OR_NONE

__all__ = (
    "NOMINAL_P_MIN",
    "Nominal",
    "Test",
    "discordance_counts",
    "first_clusters",
    "gate_of",
    "guards_of",
    "is_anytime",
    "look_tests",
    "margin_on",
    "needs_discordance",
    "nominal",
    "reached_fraction",
    "share_of",
    "tests_of",
    "uses_t",
)

NOMINAL_P_MIN: Final = 1e-12
# Types whose information is counted in clusters: how much a unit brings depends on its label.
BY_CLUSTER: Final = ("auc", "within_twin_auc", "precision")


@dataclass(frozen=True, kw_only=True, slots=True)
class Test:
    """One endpoint of one comparison that takes part in the verdict.

    Attributes:
        comparison: whose arms.
        endpoint: which endpoint.
        role: what it is tested for; `saving` is the endpoint of `decision.saving`.
        alpha: two-sided error over all looks.
    """

    comparison: Comparison
    endpoint: Endpoint
    role: Literal["primary", "harm", "saving"]
    alpha: float


@dataclass(frozen=True, slots=True)
class Nominal:
    """The boundary of one look: its two-sided p, and z where that isn't infinite."""

    p: float
    z: float | None


def tests_of(protocol: Protocol) -> tuple[Test, ...]:
    """Returns all tests, comparisons in their order, endpoints in the order of the file."""
    return tuple(
        Test(
            comparison=comparison,
            endpoint=endpoint,
            role=role,
            alpha=share_of(protocol, comparison) * _alpha(protocol, role),
        )
        for comparison in protocol.analysis.comparisons
        for endpoint in protocol.endpoints
        if (role := _role(protocol, endpoint)) is not None
    )


def nominal(
    test: Test,
    protocol: Protocol,
    number: int,
    fraction: float,
    *,
    history: Sequence[float] = (),
    spend_all: bool = False,
) -> Nominal:
    """Returns the boundary of a look.

    Args:
        test: whose alpha.
        protocol: how alpha is spent.
        number: number of the look, from 1; an explicit boundary is read by it.
        fraction: information fraction of the look.
        history: fractions of the eligible looks before, rising.
        spend_all: nothing comes after this look, so it spends what is left.
    """
    looks, sides = protocol.looks, protocol.analysis.sides
    if is_anytime(protocol):
        return Nominal(test.alpha, None)
    if looks.boundary is not None:
        z = looks.boundary[number - 1]
        return Nominal(2.0 * normal_sf(z), z)
    assert looks.spending is not None, "looks at any time passed the protocol file"
    return _by_spending(
        (*history, fraction),
        alpha=test.alpha if sides == 2 else test.alpha / 2.0,
        sides=sides,
        spending=looks.spending,
        parameter=looks.parameter,
        spend_all=spend_all,
    )


# Every comparison and endpoint of a plan asks for the same few boundaries.
@cache
def _by_spending(
    fractions: tuple[float, ...],
    *,
    alpha: float,
    sides: int,
    spending: Spending,
    parameter: float | None,
    spend_all: bool,
) -> Nominal:
    boundary = spending_boundary(
        fractions,
        alpha=alpha,
        sides=sides,
        spending=spending,
        parameter=parameter,
        spend_all_at_last=spend_all,
    )
    z, p = boundary.critical_values[-1], boundary.nominal_p[-1]
    return Nominal(p, None if p == 0.0 else z)


def look_tests(
    protocol: Protocol, plan: Plan, units: Units, test: Test, cuts: Sequence[LookCut]
) -> tuple[LookTest, ...]:
    """Returns the boundary of a test at each look, as known before any outcome."""
    sizes = cluster_sizes_in_order(plan, units, test.endpoint, test.comparison)
    counts = None
    if is_assigned(protocol):
        counts = counts_in_order(plan, units, test.endpoint, test.comparison).present()
    counted = list(accumulate(int(size > 0) for size in sizes.tolist()))
    ends = [counted[cut.clusters - 1] for cut in cuts]
    sizes = sizes[sizes > 0]
    fractions = _fractions(protocol, test.endpoint, sizes if counts is None else counts, ends)
    history: list[float] = []
    found: list[LookTest] = []
    for index, (end, fraction) in enumerate(zip(ends, fractions, strict=True)):
        boundary = Nominal(0.0, None)
        if end and fraction > 0.0:
            boundary = nominal(test, protocol, index + 1, fraction, history=tuple(history))
        seen = sizes[:end] if counts is None else counts.first(end)
        df = _design_df(protocol, test.endpoint, seen)
        reasons = guard_findings(
            clusters=end,
            df=df if uses_t(protocol, test.endpoint) else None,
            discordant_clusters=end if needs_discordance(protocol, test.endpoint) else None,
            nominal_p=boundary.p,
            least_p=least_p(seen) if isinstance(seen, ArmCounts) else None,
            guards=guards_of(protocol),
        )
        # Arms that aren't there yet, or are in one cluster each, leave nothing to compute.
        if isinstance(seen, ArmCounts) and df is None and not reasons:
            reasons = ("few_clusters",)
        more = index + 1 == len(ends) or ends[index + 1] > end
        begun = cuts[index].clusters >= first_clusters(protocol)
        # Limits of an asymptotic sequence are those of the population's own clusters.
        if protocol.looks.method == "asymptotic":
            begun = end >= first_clusters(protocol)
        eligible = not reasons and boundary.p >= NOMINAL_P_MIN and more and begun
        if eligible:
            history.append(fraction)
        found.append(
            LookTest(
                comparison=test.comparison.name,
                endpoint=test.endpoint.name,
                fraction=fraction,
                df=df,
                nominal_p=boundary.p,
                z=boundary.z,
                eligible=eligible,
            )
        )
    return tuple(found)


def gate_of(protocol: Protocol) -> Comparison:
    """Returns the comparison whose verdict is the experiment's."""
    gate = protocol.decision.gate
    return next(one for one in protocol.analysis.comparisons if one.name == gate)


def guards_of(protocol: Protocol) -> Guards:
    """Returns the registered guards as the analysis takes them."""
    guards = protocol.decision.guards
    return Guards(
        min_clusters=guards.min_clusters,
        min_df=guards.min_df,
        min_discordant_clusters=guards.min_discordant_clusters,
    )


def discordance_counts(endpoint: Endpoint) -> bool:
    """Returns whether an endpoint of pairs needs clusters in which the arms differ."""
    kinds = ("bounded", "win_rate", "binary", *ALL_REPLICATES)
    return endpoint.type in kinds


def margin_on(endpoint: Endpoint, margin: float) -> float:
    """Returns a margin on the scale of the analysis: on the log scale it is a share of the ratio.

    A margin of 0.05 on the log scale means the ratio 1.05, log 1.05 on either side of no change.
    """
    return math.log1p(margin) if endpoint.scale == "log" else margin


def reached_fraction(
    protocol: Protocol,
    endpoint: Endpoint,
    planned: IntArray | ArmCounts,
    reached: IntArray | ArmCounts,
) -> float:
    """Returns the share of information in units that a run reached before it ended, at most 1.

    Args:
        protocol: icc and estimand.
        endpoint: whose units.
        planned: planned units of each cluster, by arm where each is in one.
        reached: those whose slots are all settled.
    """
    if isinstance(planned, ArmCounts) or isinstance(reached, ArmCounts):
        assert isinstance(planned, ArmCounts)
        assert isinstance(reached, ArmCounts)
        return _reached_assigned(protocol, planned, reached)
    whole, part = (_information(protocol, endpoint, sizes) for sizes in (planned, reached))
    return min(1.0, part / whole) if whole > 0.0 else 0.0


def uses_t(protocol: Protocol, endpoint: Endpoint) -> bool:
    """Returns whether the degrees of freedom matter: not for Tango's z on single units."""
    if is_anytime(protocol):
        return False
    tango = endpoint.type in ONE_OR_NONE and not is_assigned(protocol)
    return protocol.units.cluster is not None or not tango


def is_anytime(protocol: Protocol) -> bool:
    """Returns whether the limits hold at every look, so that there is one after each cluster."""
    return protocol.looks.kind == "anytime"


def first_clusters(protocol: Protocol) -> int:
    """Returns how many clusters the first look at any time waits for; 0 where looks are planned."""
    return (protocol.looks.min_clusters or 1) if is_anytime(protocol) else 0


def needs_discordance(protocol: Protocol, endpoint: Endpoint) -> bool:
    """Returns whether the guard of discordant clusters applies."""
    free = is_anytime(protocol) or is_assigned(protocol)
    return discordance_counts(endpoint) and not free


def _role(protocol: Protocol, endpoint: Endpoint) -> Literal["primary", "harm", "saving"] | None:
    saving = protocol.decision.saving
    if endpoint.role != "secondary":
        return endpoint.role
    return "saving" if saving is not None and saving.endpoint == endpoint.name else None


def share_of(protocol: Protocol, comparison: Comparison) -> float:
    """Returns the share of alpha of a comparison; under Holm that of the first step."""
    if comparison.share == "holm":
        return 1.0 / len(protocol.analysis.comparisons)
    return comparison.share


def _alpha(protocol: Protocol, role: Literal["primary", "harm", "saving"]) -> float:
    roles = [endpoint.role for endpoint in protocol.endpoints]
    if role == "harm":
        assert protocol.decision.harm is not None, "a harm endpoint without its alpha"
        return protocol.decision.harm.alpha / roles.count("harm")
    if role == "primary" and protocol.decision.primaries == "any":
        return protocol.analysis.alpha / roles.count("primary")
    return protocol.analysis.alpha


def _fractions(
    protocol: Protocol, endpoint: Endpoint, sizes: IntArray | ArmCounts, ends: Sequence[int]
) -> tuple[float, ...]:
    """Returns the fraction of each look, 0 where the population has no unit yet.

    Looks that end with the same cluster of the population share theirs.
    """
    distinct = sorted(set(ends) - {0})
    if not distinct:
        return (0.0,) * len(ends)
    icc = protocol.looks.icc or 0.0
    if isinstance(sizes, ArmCounts):
        found = _assigned_fractions(protocol, sizes, distinct, icc)
        return tuple({0: 0.0, **found}[end] for end in ends)
    if endpoint.type in BY_CLUSTER:
        return tuple(end / sizes.size for end in ends)
    shares = information_fractions(sizes, distinct, icc=icc, estimand=protocol.analysis.estimand)
    by_end = {0: 0.0, **dict(zip(distinct, shares, strict=True))}
    return tuple(by_end[end] for end in ends)


def _assigned_fractions(
    protocol: Protocol, counts: ArmCounts, cuts: Sequence[int], icc: float
) -> dict[int, float]:
    estimand = protocol.analysis.estimand
    if min(counts.control.sum(), counts.treatment.sum()) == 0.0:
        return dict.fromkeys(cuts, 0.0)
    shares = assigned_fractions(counts, cuts, icc=icc, estimand=estimand)
    return dict(zip(cuts, shares, strict=True))


def _reached_assigned(protocol: Protocol, planned: ArmCounts, reached: ArmCounts) -> float:
    """Returns the share of a cluster's weight by the share of its units that were reached."""
    kept = planned.sizes > 0.0
    weights = assigned_weights(
        planned.present(), icc=protocol.looks.icc or 0.0, estimand=protocol.analysis.estimand
    )
    shares = reached.sizes[kept] / planned.sizes[kept]
    return min(1.0, exact_sum(weights * shares) / exact_sum(weights))


def _information(protocol: Protocol, endpoint: Endpoint, sizes: IntArray) -> float:
    if endpoint.type in BY_CLUSTER:
        return float((sizes > 0).sum())
    icc = protocol.looks.icc or 0.0
    weights: list[float] = []
    for size in sizes.tolist():
        inflated = 1.0 + (size - 1.0) * icc
        by_unit = protocol.analysis.estimand == "unit_weighted"
        weights.append(size * inflated if by_unit else inflated / size if size else 0.0)
    return math.fsum(weights)


def _design_df(protocol: Protocol, endpoint: Endpoint, sizes: IntArray | ArmCounts) -> float | None:
    if isinstance(sizes, ArmCounts):
        found = deciding_df(sizes, estimand=protocol.analysis.estimand)
        return None if isinstance(found, Undetermined) else found
    if endpoint.type in ("auc", "precision") or protocol.analysis.estimand == "cluster_weighted":
        return float(sizes.size - 1) if sizes.size > 1 else None
    if not sizes.size:
        return None
    df = satterthwaite_df(sizes)
    return None if isinstance(df, Undetermined) else df
