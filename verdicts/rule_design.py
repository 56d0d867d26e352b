"""What a threshold-rule experiment can show, known before any score: look table and capacity. Pure.

Leaves comparisons to `look_table.py`, bounds to `analysis/precision_bounds.py`.

Rules:
- One look, at the end; its information is counted in clusters of the primary population.
- `no_verdict_possible`: that population lies in too few clusters. `impossible`: even if every unit
  of label 1 were flagged and nothing else, the lower bound would miss the target, or no family
  would pass its floor. Where each family is judged, that bound is the best family's, and says so.
- Power of a bound has no formula here: the capacity table stands in its place, `not_assessed`.
- A bound that takes flags as independent shows its simulated error for the frozen clusters, at the
  icc that is stated (`power.assume.icc`, else `looks.icc`), else at 0.1 and 0.3.
"""

from __future__ import annotations

from operator import itemgetter
from typing import Final, Literal, NamedTuple, get_args

from fairtrial.analysis.distributions import normal_upper_quantile
from fairtrial.analysis.grouping import IntArray, effective_clusters
from fairtrial.analysis.precision_bounds import (
    Bound,
    PrecisionBound,
    precision_bound,
    simulated_error,
)
from fairtrial.analysis.riskcontrol import min_flagged
from fairtrial.analysis.verdict import guard_findings
from fairtrial.ledger.errors import Problem
from fairtrial.ledger.events import LookPlan, LookTest
from fairtrial.ledger.protocol import Protocol, primaries
from fairtrial.protocols.plan import Plan
from fairtrial.protocols.tables import raise_problems
from fairtrial.protocols.units import Units

from .boundaries import gate_of, guards_of
from .frames import BoolArray
from .power_values import (
    Capacity,
    CapacityRow,
    FamilyCapacity,
    Finding,
    LookFacts,
    PowerReport,
    SimulatedBound,
)
from .rule_flags import is_above_floor, side_alpha, target_of
from .rule_scores import column_of, families_of, members_of, sizes_of
from .rule_verdict import primary_population
from .wording import cluster_noun, plural

__all__ = ("check_rule_units", "rule_looks", "rule_power", "simulated_bounds")

_WRONG: Final = (0, 1, 2, 3, 5, 10)
# Where nothing is stated: a little and a good deal.
_ICC: Final = (0.1, 0.3)
_REFUSING: Final = ("no_verdict_possible", "impossible")


def check_rule_units(units: Units, *, name: str) -> None:
    """Refuses units that no rule can learn from.

    Raises:
        ProtocolError: A label isn't 0 or 1, or there is a single fold.
    """
    problems = [
        Problem(
            what="a rule learns from labels",
            where="units.label",
            line=units.lines[index],
            expected="0 or 1",
            found=repr(label),
            todo="label the unit, or leave it out with units.select",
        )
        for index, label in enumerate(units.labels or ())
        if label not in ("0", "1")
    ]
    folds = sorted(set(units.folds or ()))
    if len(folds) < 2:
        problems.append(
            Problem(
                what="with one fold nothing is left to choose a threshold on",
                where="units.fold",
                expected="two folds or more",
                found=", ".join(folds),
            )
        )
    raise_problems(problems, name)


def rule_looks(protocol: Protocol, plan: Plan, units: Units) -> tuple[LookPlan, ...]:
    """Returns the one look of a threshold-rule experiment."""
    gate, alpha = gate_of(protocol), protocol.analysis.alpha
    clusters = int(sizes_of(plan, _members(protocol, plan, units)).size)
    reasons = guard_findings(
        clusters=clusters,
        df=None,
        discordant_clusters=None,
        nominal_p=alpha,
        guards=guards_of(protocol),
    )
    test = LookTest(
        comparison=gate.name,
        endpoint=primaries(protocol)[0].name,
        fraction=1.0,
        df=None,
        nominal_p=alpha,
        z=normal_upper_quantile(alpha / 2.0),
        eligible=not reasons,
    )
    return (
        LookPlan(
            last=plan.slot_count,
            clusters=plan.cluster_count,
            units=len(plan.units),
            tests=(test,),
        ),
    )


def rule_power(protocol: Protocol, plan: Plan, units: Units, look: LookPlan) -> PowerReport:
    """Returns what is known of the flags before any score, with the findings of the plan."""
    capacity = _capacity(protocol, plan, units)
    sentences = _sentences(protocol, capacity, look)
    reasons = {
        name: reason
        for name in get_args(Finding)
        if (reason := getattr(protocol.power.accept, name)) is not None
    }
    findings = tuple(name for name in get_args(Finding) if name in sentences)
    return PowerReport(
        findings=findings,
        refused={
            name: sentences[name] for name in findings if name in _REFUSING and name not in reasons
        },
        accepted={name: reasons[name] for name in findings if name in reasons},
        warnings=(
            *(
                f"power.accept.{name} has a reason and nothing to accept"
                for name in reasons
                if name not in findings
            ),
            *_bound_warnings(capacity),
        ),
        effect=None,
        target=protocol.power.target,
        power=None,
        smallest_difference=None,
        looks=(
            LookFacts(
                number=1,
                planned=1.0,
                last=look.last,
                clusters=look.clusters,
                units=look.units,
                fraction=1.0,
                eligible=look.tests[0].eligible,
            ),
        ),
        endpoints=(),
        capacity=capacity,
    )


def _bound_warnings(capacity: Capacity) -> list[str]:
    return [
        f"bound {capacity.bound} takes flags as independent: at icc {one.icc:g} it would reach a"
        f" target that isn't exceeded in {100 * one.error:.1f} % of runs, where"
        f" {100 * capacity.alpha:g} % is stated"
        for one in capacity.simulated
    ]


def _sentences(protocol: Protocol, capacity: Capacity, look: LookPlan) -> dict[str, str]:
    found = {"not_assessed": "a precision bound has no effect to detect; see the capacity table"}
    nouns = plural(cluster_noun(protocol))
    if not look.tests[0].eligible:
        least = protocol.decision.guards.min_clusters
        found["no_verdict_possible"] = (
            f"no verdict is possible: the primary population has {capacity.clusters} {nouns}, a"
            f" verdict needs at least {least}"
        )
    if capacity.best_lower is None or capacity.best_lower < capacity.target:
        found["impossible"] = _out_of_reach(capacity)
    elif capacity.families and not any(one.can_pass for one in capacity.families):
        found["impossible"] = "no family has enough units of label 1 to pass its floor"
    return found


def _out_of_reach(capacity: Capacity) -> str:
    """Returns why even flags that are all right would miss the target."""
    flagged = f"even if all {capacity.best_positives} units of label 1"
    if capacity.best_family is not None:
        flagged += f" in family {capacity.best_family}"
    flagged += " were flagged and nothing else"
    if capacity.best_lower is None:
        return f"{flagged}, there is none, below the target {100 * capacity.target:g} %"
    text = f"{flagged}, the lower bound would be {100 * capacity.best_lower:.1f} %"
    if capacity.best_family is not None:
        text += " by Holm, no other family's would be higher, and it is"
    return f"{text} below the target {100 * capacity.target:g} %"


def _capacity(protocol: Protocol, plan: Plan, units: Units) -> Capacity:
    target, alpha = target_of(protocol), side_alpha(protocol)
    bound: Bound = protocol.decision.bound or "cluster_aware"
    members = _members(protocol, plan, units)
    positives = members & column_of(plan, units, units.labels or ("",) * len(units.ids), "1")
    sizes, best = sizes_of(plan, positives), _best(protocol, plan, units, positives)
    independent: Literal["wilson", "clopper_pearson"]
    independent = "wilson" if bound == "wilson" else "clopper_pearson"
    return Capacity(
        target=target,
        bound=bound,
        alpha=alpha,
        population=primary_population(protocol),
        units=int(members.sum()),
        clusters=int(sizes_of(plan, members).size),
        positives=int(positives.sum()),
        effective_clusters=effective_clusters(sizes) if sizes.size else None,
        best_lower=best.lower,
        best_family=best.family,
        best_positives=best.positives,
        rows=tuple(
            CapacityRow(
                wrong=wrong,
                flags=min_flagged(target, bound=independent, alpha=alpha, errors=wrong),
            )
            for wrong in _WRONG
        ),
        families=_families(protocol, plan, units, members, positives),
        simulated=simulated_bounds(protocol, sizes),
    )


class _Best(NamedTuple):
    """The lower bound of all positives: of the best family where each is judged, else of all."""

    lower: float | None
    family: str | None
    positives: int


def _best(protocol: Protocol, plan: Plan, units: Units, positives: BoolArray) -> _Best:
    alpha = side_alpha(protocol)
    if protocol.decision.strata != "each":
        return _all_right(protocol, plan, positives, None, alpha)
    names = _names(plan, units, _members(protocol, plan, units))
    # The first family of Holm's walk has the smallest share.
    alpha /= max(1, len(names))
    own = (positives & column_of(plan, units, families_of(units), name) for name in names)
    each = [
        _all_right(protocol, plan, group, name, alpha)
        for name, group in zip(names, own, strict=True)
    ]
    bounded = [one for one in each if one.lower is not None]
    return max(bounded, key=itemgetter(0)) if bounded else _Best(None, None, int(positives.sum()))


def _all_right(
    protocol: Protocol, plan: Plan, group: BoolArray, name: str | None, alpha: float
) -> _Best:
    sizes = sizes_of(plan, group)
    bound = protocol.decision.bound or "cluster_aware"
    found = precision_bound(sizes, sizes, bound=bound, alpha=alpha)
    lower = found.lower if isinstance(found, PrecisionBound) else None
    return _Best(lower, name, int(group.sum()))


def _families(
    protocol: Protocol, plan: Plan, units: Units, members: BoolArray, positives: BoolArray
) -> tuple[FamilyCapacity, ...]:
    if units.strata is None:
        return ()
    rule = protocol.arms[gate_of(protocol).treatment].rule
    floor = None if rule is None else rule.family_floor
    found: list[FamilyCapacity] = []
    for name in _names(plan, units, members):
        own = column_of(plan, units, units.strata, name)
        count = int((positives & own).sum())
        passes = floor is None or is_above_floor(count, count, floor, alpha=side_alpha(protocol))
        found.append(
            FamilyCapacity(
                family=name,
                units=int((members & own).sum()),
                positives=count,
                clusters=int(sizes_of(plan, members & own).size),
                can_pass=passes,
            )
        )
    return tuple(found)


def simulated_bounds(protocol: Protocol, sizes: IntArray) -> tuple[SimulatedBound, ...]:
    """Returns the simulated error of a bound that ignores clusters; nothing for any other.

    Args:
        protocol: names bound, target and icc.
        sizes: flags of each cluster, each at least 1.
    """
    bound: Bound = protocol.decision.bound or "cluster_aware"
    if bound not in ("wilson", "clopper_pearson") or not sizes.size or int(sizes.max()) == 1:
        return ()
    return tuple(
        SimulatedBound(
            icc=icc,
            error=simulated_error(
                sizes,
                target=target_of(protocol),
                bound=bound,
                alpha=side_alpha(protocol),
                icc=icc,
                seed=protocol.design.seed,
            ),
        )
        for icc in _stated(protocol)
    )


def _stated(protocol: Protocol) -> tuple[float, ...]:
    stated = protocol.power.assume.icc
    stated = protocol.looks.icc if stated is None else stated
    return _ICC if stated is None else (stated,)


def _members(protocol: Protocol, plan: Plan, units: Units) -> BoolArray:
    return members_of(plan, units, primaries(protocol)[0], primary_population(protocol))


def _names(plan: Plan, units: Units, members: BoolArray) -> list[str]:
    """Returns the families of some plan units."""
    family_of = dict(zip(units.ids, families_of(units), strict=True))
    inside = zip(plan.units, members.tolist(), strict=True)
    return sorted({family_of[unit] for unit, kept in inside if kept})
