"""False verdicts of the whole path for units in one arm each, as docs/statistics.md states them.

    python -P benchmarks/assigned_errors.py [runs]

Data: one frozen plan for each number of clusters, of lognormal size (mean 15, coefficient of
variation 0.8); yes or no at rate 0.4 in both arms, icc 0.05. Each run goes through assignment,
looks, guards and verdict as a real one. With 2,000 runs an error of 5 has an error of about 1.0.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator

import numpy as np

from fairtrial.engine.assuming import assumed_by
from fairtrial.engine.assumptions import for_all
from fairtrial.engine.simulating import simulate
from fairtrial.protocols.assigning import plan_of
from fairtrial.protocols.file import parse_protocol
from fairtrial.protocols.units import Units

SEED = 11
CLUSTERS = (12, 30)
ASSIGNMENTS = (("unit", "cluster"), ("unit", "none"), ("cluster", "none"))
LOOKS = ("[1.0]", "[0.5, 1.0]", "[0.34, 0.67, 1.0]")

PROTOCOL = """\
protocol: 1
id: assigned
about: {{hypothesis: the arms are equal}}
units: {{file: units.csv, id: unit, cluster: cluster}}
design:
  pairing: assigned
  seed: {seed}
  assign: {{by: {by}, ratio: {{A: 1, B: 1}}, within: {within}}}
arms:
  A: {{driver: {{kind: recorded, file: a.csv, columns: {{unit: u, passed: p}}}}}}
  B: {{driver: {{kind: recorded, file: b.csv, columns: {{unit: u, passed: p}}}}}}
control: A
endpoints: [{{name: passed, role: primary, type: binary, value: passed, better: higher}}]
missing:
  rules: {{failed: failure, timeout: failure, limit: failure, error: exclude_pair,
    ungraded: exclude_pair, replay_miss: exclude_pair, invalidated: exclude_pair}}
  limit: 0.05
analysis: {{estimand: {estimand}}}
looks: {{at: {at}, icc: 0.05}}
decision: {{rule: superiority}}
power: {{effect: 0.2, assume: {{sd: 0.49, icc: 0.05}}}}
budget: {{usd: 0}}
"""


def units(clusters: int) -> Units:
    """Draws units in clusters of unequal size."""
    rng = np.random.default_rng([20261129, clusters])
    spread = np.log(1 + 0.8**2)
    drawn = rng.lognormal(np.log(15) - spread / 2, np.sqrt(spread), clusters)
    sizes = np.maximum(1, np.rint(drawn)).astype(int)
    names = [(f"u{c}-{u}", f"c{c}") for c in range(clusters) for u in range(sizes[c])]
    return Units(ids=tuple(unit for unit, _ in names), clusters=tuple(name for _, name in names))


def error(clusters: int, *, by: str, within: str, at: str, estimand: str, runs: int) -> float:
    """Returns the share of runs with a verdict between equal arms."""
    text = PROTOCOL.format(seed=SEED, by=by, within=within, at=at, estimand=estimand)
    protocol = parse_protocol(text.encode(), name="protocol.yaml", media="yaml")
    known = units(clusters)
    assumed = assumed_by(protocol)
    assert assumed is not None
    plan = plan_of(protocol, known)
    found = simulate(
        protocol, plan, known, for_all(protocol, assumed), effect=None, runs=runs, seed=3, checked=0
    )
    return found.cases[0].intended


def table(runs: int) -> Iterator[str]:
    """Yields the lines of the table."""
    yield "| clusters | assigned | estimand | " + " | ".join(LOOKS) + " |"
    yield "|---|---|---|" + "---|" * len(LOOKS)
    for clusters in CLUSTERS:
        for by, within in ASSIGNMENTS:
            for estimand in ("unit_weighted", "cluster_weighted"):
                if estimand == "cluster_weighted" and by == "unit":
                    continue
                shares = [
                    error(clusters, by=by, within=within, at=at, estimand=estimand, runs=runs)
                    for at in LOOKS
                ]
                cells = " | ".join(f"{100 * share:.1f}" for share in shares)
                yield f"| {clusters} | by {by} within {within} | {estimand} | {cells} |"


if __name__ == "__main__":
    for line in table(int(sys.argv[1]) if len(sys.argv) > 1 else 2000):
        sys.stdout.write(line + "\n")
        sys.stdout.flush()
