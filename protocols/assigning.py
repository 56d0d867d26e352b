"""Which arm each unit is in, and the plan that follows from a protocol and its units. Pure.

Leaves the run order to `plan.py`; the plan's blob, one line a slot, is the assignment list.

Rules:
- What is assigned is a unit, or a cluster with all its units. It is shared out among the arms
  inside each scope: a cluster, a stratum, or everything.
- Scopes are ranked by SHA-256("fairtrial/1/assign_scope" NUL seed NUL scope), what is assigned
  inside a scope by "fairtrial/1/assign" over (seed, scope, name); the first of the rank go to the
  first arm by name, and so on.
- Of n in a scope an arm gets its share by the ratio, rounded down or up. What rounding leaves goes
  to the arms that are furthest below their share over the scopes so far, in the order of scopes;
  ties by "fairtrial/1/assign_arm" over (seed, scope, arm). So the whole list is as near to the
  ratio as the scopes are.
- Seed and units alone decide: the list is known at the freeze, and replay makes it again.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence

from fairtrial.ledger.errors import Problem, ProtocolError
from fairtrial.ledger.protocol import Assign, Protocol

from .plan import Plan, build_plan, keyed_digest
from .terms import planned_repeats
from .units import Units

__all__ = ("assign_arms", "is_assigned", "plan_of")


def is_assigned(protocol: Protocol) -> bool:
    """Returns whether each unit is in one arm only."""
    return protocol.design.pairing == "assigned"


def plan_of(protocol: Protocol, units: Units) -> Plan:
    """Returns the plan of a protocol over its units.

    Raises:
        ProtocolError: The units can't be assigned as registered.
    """
    repeats = planned_repeats(protocol)
    seed, assign = protocol.design.seed, protocol.design.assign
    if assign is None:
        return build_plan(units.ids, units.clusters, repeats, seed=seed)
    arms = assign_arms(units, assign, seed=seed)
    only = dict(zip(units.ids, arms, strict=True))
    _check_assigned(protocol, units, arms)
    return build_plan(units.ids, units.clusters, repeats, seed=seed, only=only)


def assign_arms(units: Units, assign: Assign, *, seed: int) -> tuple[str, ...]:
    """Returns the arm of each unit, in the order of the units.

    Args:
        units: The units; with their clusters or strata where `assign` needs them.
        assign: What is assigned, in which ratio, within what.
        seed: The registered seed.
    """
    names = units.ids if assign.by == "unit" else units.clusters
    scopes = _scopes(units, assign)
    members: dict[str, dict[str, None]] = defaultdict(dict)
    for name, scope in zip(names, scopes, strict=True):
        members[scope][name] = None
    arm_of: dict[tuple[str, str], str] = {}
    given = dict.fromkeys(sorted(assign.ratio), 0)
    for scope in sorted(members, key=lambda each: keyed_digest("assign_scope", str(seed), each)):
        ranked = sorted(
            members[scope], key=lambda each: keyed_digest("assign", str(seed), scope, each)
        )
        counts = _counts(len(ranked), assign.ratio, given, scope, seed)
        arms = iter([arm for arm, count in counts.items() for _ in range(count)])
        arm_of.update(((scope, name), next(arms)) for name in ranked)
        for arm, count in counts.items():
            given[arm] += count
    return tuple(arm_of[scope, name] for name, scope in zip(names, scopes, strict=True))


def _scopes(units: Units, assign: Assign) -> Sequence[str]:
    if assign.within is None:
        return ("",) * len(units.ids)
    scopes = units.clusters if assign.within == "cluster" else units.strata
    assert scopes is not None, "a protocol that assigns within strata without them passed"
    return scopes


def _counts(
    n: int, ratio: Mapping[str, int], given: Mapping[str, int], scope: str, seed: int
) -> dict[str, int]:
    """Returns how many of n go to each arm, arms by name."""
    whole = sum(ratio.values())
    counts = {arm: n * ratio[arm] // whole for arm in given}
    behind = {
        arm: (sum(given.values()) + n) * ratio[arm] - (given[arm] + counts[arm]) * whole
        for arm in given
        if n * ratio[arm] % whole
    }
    left = n - sum(counts.values())
    order = sorted(
        behind, key=lambda arm: (-behind[arm], keyed_digest("assign_arm", str(seed), scope, arm))
    )
    for arm in order[:left]:
        counts[arm] += 1
    return counts


def _check_assigned(protocol: Protocol, units: Units, arms: Sequence[str]) -> None:
    problems = (*_stratum_problems(protocol, units), *_arm_problems(protocol, units, arms))
    if problems:
        raise ProtocolError(problems, file=protocol.units.file)


def _stratum_problems(protocol: Protocol, units: Units) -> Iterator[Problem]:
    assign = protocol.design.assign
    if assign is None or (assign.by, assign.within) != ("cluster", "stratum"):
        return
    assert units.strata is not None
    found: dict[str, str] = {}
    for cluster, stratum in zip(units.clusters, units.strata, strict=True):
        first = found.setdefault(cluster, stratum)
        if first != stratum:
            yield Problem(
                what=f"cluster {cluster!r} lies in two strata, so it can't be assigned within one",
                where="units.stratum",
                expected="one stratum in a cluster",
                found=f"{first!r} and {stratum!r}",
                todo="assign by unit, or within none",
            )
            return


def _arm_problems(protocol: Protocol, units: Units, arms: Sequence[str]) -> Iterator[Problem]:
    for arm in sorted(set(protocol.arms) - set(arms)):
        yield Problem(
            what=f"arm {arm} gets no unit",
            where=f"design.assign.ratio.{arm}",
            expected="at least one unit in each arm",
            found=f"{len(units.ids)} units shared out",
            todo="more units, or another ratio",
        )
    assign = protocol.design.assign
    if protocol.analysis.estimand != "cluster_weighted" or assign is None or assign.by == "cluster":
        return
    held: dict[str, set[str]] = defaultdict(set)
    for cluster, arm in zip(units.clusters, arms, strict=True):
        held[cluster].add(arm)
    short = sorted(name for name, own in held.items() if len(own) < len(protocol.arms))
    if short and protocol.units.cluster is not None:
        yield Problem(
            what=f"{len(short)} clusters have no unit in some arm, so their arms can't be compared",
            where="analysis.estimand",
            expected="a unit of each arm in every cluster, which cluster_weighted needs",
            found=", ".join(short[:5]) + (", …" if len(short) > 5 else ""),
            todo="leave these clusters out, or choose unit_weighted",
        )
