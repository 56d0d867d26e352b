"""The deciding numbers: interval, boundary, resamples, a threshold rule, and a whole result.

Each line says the time here and what share of its goal that is; the goals are seconds on one
machine of two shared cores, so only shares near or above 1 mean anything elsewhere.
"""

from __future__ import annotations

import sys
from dataclasses import replace
from unittest.mock import patch

import numpy as np

from benchmarks.measuring import is_quick, option, rounds
from fairtrial.analysis import crossing
from fairtrial.analysis.block_rules import BlockRule, Scored, apply_rule
from fairtrial.analysis.deciding import deciding_interval
from fairtrial.analysis.precision_bounds import Bound
from fairtrial.analysis.resampling import cluster_bootstrap
from fairtrial.analysis.sequential import spending_boundary
from fairtrial.ledger.events import Decision, Head
from fairtrial.ledger.protocol import Protocol
from fairtrial.protocols.file import parse_protocol
from fairtrial.protocols.plan import Plan, build_plan
from fairtrial.protocols.units import Units, parse_units
from fairtrial.verdicts.conclude import conclude, detail
from fairtrial.verdicts.evaluate import AnalysisContext, evaluate_look
from fairtrial.verdicts.look_table import look_table
from fairtrial.verdicts.outcomes import collect_decisions

HEAD = Head(size=1, root="0" * 64)
BINARY, BOUNDED = 5, 3
_BOUNDS: tuple[Bound, ...] = ("clopper_pearson", "cluster_aware")
PROTOCOL = """
protocol: 1
id: large
about: {hypothesis: B is better.}
units: {file: units.csv, id: unit, cluster: cluster}
design: {pairing: paired, seed: 7}
arms:
  A: {driver: {kind: recorded, file: o.csv, where: {arm: a}, columns: {unit: u, COLUMNS}}}
  B: {driver: {kind: recorded, file: o.csv, where: {arm: b}, columns: {unit: u, COLUMNS}}}
control: A
endpoints: [ENDPOINTS]
missing: {rules: {failed: failure, timeout: failure, limit: failure, error: exclude_pair,
  ungraded: exclude_pair, replay_miss: exclude_pair, invalidated: exclude_pair}, limit: 0.02}
analysis: {estimand: unit_weighted, resamples: 9999, also: [sign_flip, cluster_weighted]}
looks: {at: [0.25, 0.5, 0.75, 1.0], icc: 0.05}
decision: {rule: superiority}
power: {effect: none, accept: {not_assessed: a benchmark}}
budget: {usd: 0}
"""


def tell(what: str, seconds: float, goal: float) -> None:
    """Prints a time and its share of the goal."""
    sys.stdout.write(f"{what:<62} {1e3 * seconds:9.1f} ms  {seconds / goal:6.2f} of its goal\n")


def small_parts(count: int) -> None:
    """Times the interval, boundaries and the studentised bootstrap."""
    source = np.random.Generator(np.random.Philox(7))
    differences = source.integers(-1, 2, 10_000).astype(float)
    codes = source.integers(0, 200, 10_000)
    five, ten = ([(k + 1) / n for k in range(n)] for n in (5, 10))
    sums, sizes = source.normal(size=30), source.integers(5, 60, 30).astype(float)
    interval, shorter, longer, resampled = rounds(
        lambda: deciding_interval(
            differences, codes, family="binary", estimand="unit_weighted", nominal_p=0.05,
            singletons=False,
        ),
        lambda: spending_boundary(five, alpha=0.05),
        lambda: spending_boundary(ten, alpha=0.05),
        lambda: cluster_bootstrap(sums, sizes, seed=1, resamples=9_999),
        count=count,
    )  # fmt: skip
    tell("CR2-t and cluster-adjusted Tango, 10,000 units", interval, 0.005)
    tell("a boundary of 5 looks", shorter, 0.020)
    tell("S4 a boundary of 10 looks", longer, 0.050)
    coarse = spending_boundary(ten, alpha=0.05).critical_values
    with patch.object(crossing, "_PANEL_SD", crossing._PANEL_SD / 3.0):
        fine = spending_boundary(ten, alpha=0.05).critical_values
    gap = max(abs(a - b) for a, b in zip(coarse, fine, strict=True))
    sys.stdout.write(f"   largest difference to panels a third as wide: {gap:.1e} (goal 1e-5)\n")
    tell("9,999 studentised resamples of 30 clusters", resampled, 0.5)


def scored_units(count: int) -> Scored:
    """Returns scored units of 30 families and 10 folds, in clusters whose scores move alike."""
    source = np.random.Generator(np.random.Philox(5))
    clusters = np.arange(count) // 20
    labels = source.integers(0, 2, count)
    lift = source.normal(0.0, 0.5, clusters[-1] + 1)[clusters]
    return Scored(
        scores=source.normal(2.0 * labels + lift, 0.9),
        labels=labels,
        clusters=clusters,
        families=[f"f{cluster % 30:02}" for cluster in clusters.tolist()],
        folds=[f"k{cluster // 30 % 10}" for cluster in clusters.tolist()],
        eligible=np.ones(count, dtype=np.bool_),
    )


def block_rule(count: int, units: int) -> None:
    """Times a threshold rule whose training bound looks at clusters, against one that doesn't."""
    scored = scored_units(units)
    plain, aware = (
        BlockRule(name="precision_bound_block", precision=0.8, bound=bound) for bound in _BOUNDS
    )
    plainly, by_cluster = rounds(
        lambda: apply_rule(scored, plain), lambda: apply_rule(scored, aware), count=count
    )
    name = f"precision_bound_block, {units:,} units, 30 families, 10 folds"
    tell(name, by_cluster, 2.0)
    ratio = by_cluster / plainly
    sys.stdout.write(f"   cluster_aware: {ratio:.2f} x the time of clopper_pearson (goal 3)\n")


def context(units: int, clusters: int, also: str) -> AnalysisContext:
    """Returns a frozen trial of eight endpoints with all its outcomes."""
    names = [f"s{k}" for k in range(BINARY + BOUNDED)]
    endpoints = ", ".join(
        f"{{name: {name}, role: {'primary' if k < 2 else 'secondary'}, better: higher, "
        f"value: scores.{name}, type: {'binary' if k < BINARY else 'bounded, bounds: [0, 1]'}}}"
        for k, name in enumerate(names)
    )
    columns = ", ".join(f"scores.{name}: {name}" for name in names)
    text = PROTOCOL.replace("ENDPOINTS", endpoints).replace("COLUMNS", columns)
    text = text.replace("rule: superiority", "rule: superiority, primaries: all")
    text = text.replace("also: [", f"also: [{also}")
    protocol = parse_protocol(text.encode(), name="p.yaml", media="yaml")
    rows = [f"u{k:06},c{k % clusters:04}" for k in range(units)]
    table = ("unit,cluster\n" + "\n".join(rows) + "\n").encode()
    known = parse_units(table, protocol.units, name="units.csv", seed=7)
    plan = build_plan(known.ids, known.clusters, {"A": 1, "B": 1}, seed=7)
    source = np.random.Generator(np.random.Philox(9))
    values = source.random((plan.slot_count, len(names)))
    values[:, :BINARY] = values[:, :BINARY] < 0.5
    decisions = [
        Decision(
            experiment="large", position=slot.position, arm=slot.arm, unit=slot.unit, session=1,
            attempt=0, replicate=1, status="ok", origin="recorded",
            scores=dict(zip(names, row, strict=True)),
        )
        for slot, row in zip(plan.slots(), values.tolist(), strict=True)
    ]  # fmt: skip
    return frozen_context(protocol, plan, known, decisions)


def frozen_context(
    protocol: Protocol, plan: Plan, known: Units, decisions: list[Decision]
) -> AnalysisContext:
    """Returns what an analysis is given of a trial whose outcomes are all on record."""
    return AnalysisContext(
        protocol=protocol, plan=plan, units=known, looks=look_table(protocol, plan, known),
        taken=(), outcomes=collect_decisions(decisions, plan.slot_count),
        origins=dict.fromkeys(protocol.arms, "recorded"), may_analyse=True,
    )  # fmt: skip


def auc_context(units: int, lost: int) -> AnalysisContext:
    """Returns a frozen trial of one AUC in clusters of 100, some of whose outcomes were lost."""
    text = PROTOCOL.replace("cluster: cluster}", "cluster: cluster, label: label}")
    text = text.replace("ENDPOINTS", "{name: s, role: primary, better: higher, VALUE}")
    text = text.replace("VALUE", "value: scores.s, type: auc").replace("COLUMNS", "scores.s: s")
    text = text.replace(": failure", ": exclude_pair").replace(", resamples: 9999", "")
    text = text.replace("[sign_flip, cluster_weighted]", "[]")
    protocol = parse_protocol(text.encode(), name="p.yaml", media="yaml")
    rows = [f"u{k:06},c{k // 100:04},{k % 2}" for k in range(units)]
    table = ("unit,cluster,label\n" + "\n".join(rows) + "\n").encode()
    known = parse_units(table, protocol.units, name="units.csv", seed=7)
    plan = build_plan(known.ids, known.clusters, {"A": 1, "B": 1}, seed=7)
    source = np.random.Generator(np.random.Philox(9))
    noise = source.normal(size=plan.slot_count).tolist()
    gone = set(source.choice(plan.slot_count, lost, replace=False).tolist())
    decisions = [
        Decision(
            experiment="large", position=slot.position, arm=slot.arm, unit=slot.unit, session=1,
            attempt=0, replicate=1, status="error" if place in gone else "ok", origin="recorded",
            scores={} if place in gone else {"s": noise[place] + int(slot.unit[1:]) % 2},
        )
        for place, slot in enumerate(plan.slots())
    ]  # fmt: skip
    return frozen_context(protocol, plan, known, decisions)


def lost_of_auc(count: int, units: int) -> None:
    """Times a result whose tipping point fills in lost scores of an AUC, against none lost."""
    none, some = (auc_context(units, lost) for lost in (0, 40))
    plainly, filled = rounds(lambda: whole_result(none), lambda: whole_result(some), count=count)
    tell(f"a whole result: AUC, {units:,} units, 4 looks, 40 lost outcomes", filled, 5.0)
    ratio = filled / plainly
    sys.stdout.write(f"   {ratio:.2f} x the time with nothing lost (goal 10)\n")


def whole_result(trial: AnalysisContext) -> bytes:
    """Takes all looks and concludes, from columns of outcomes to the bytes of the long result."""
    for number in range(1, len(trial.looks) + 1):
        look = evaluate_look(trial, number).event("large", number, HEAD)
        trial = replace(trial, taken=(*trial.taken, look))
    trial = replace(trial, stopped_by="last_look")
    body = conclude(trial)
    return detail(trial, body, experiment="large", basis=HEAD, spend_nanousd={})


def main() -> None:
    """Prints times and shares."""
    count, units = option("rounds", 3 if is_quick() else 7), option("units", 100_000)
    small_parts(count)
    block_rule(min(count, 3), max(2_000, units // 5))
    lost_of_auc(min(count, 3), max(600, units // 2))
    for also in ("", "bootstrap, "):
        trial = context(units, units // 100, also)
        (seconds,) = rounds(lambda t=trial: whole_result(t), count=min(count, 3))
        name = f"a whole result: {units:,} units, {units // 100:,} clusters, 4 looks, 8 endpoints"
        tell(name + (", bootstrap of each" if also else ""), seconds, 2.0)


if __name__ == "__main__":
    main()
