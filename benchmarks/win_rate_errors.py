"""False verdicts of the whole path for a win rate, as docs/statistics.md states them.

    python -P benchmarks/win_rate_errors.py [--quick]

Data: clusters of lognormal size (mean 15, coefficient of variation 0.8), drawn anew for each of 20
frozen plans; equal arms that tie in 30 % of units, icc 0.05. Each run goes through guards and
verdict as a real one. Prints a table, percent of 200 runs of each plan with its standard error;
`--quick` takes 10.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Iterator

import numpy as np

from fairtrial.engine.assuming import assumed_by
from fairtrial.engine.assumptions import for_all
from fairtrial.engine.simulating import simulate
from fairtrial.protocols.assigning import plan_of
from fairtrial.protocols.file import parse_protocol
from fairtrial.protocols.units import Units

PLANS, RUNS, QUICK_RUNS = 20, 200, 10
SEED = 11
CLUSTERS = (12, 30)
# Also the rows of the table.
ESTIMANDS = ("unit_weighted", "cluster_weighted")

PROTOCOL = """\
protocol: 1
id: win-rate
about: {{hypothesis: the arms are equal}}
units: {{file: units.csv, id: unit, cluster: cluster}}
design: {{pairing: paired, seed: {seed}}}
arms:
  A: {{driver: {{kind: recorded, file: a.csv, columns: {{unit: u, score: s}}}}}}
  B: {{driver: {{kind: recorded, file: b.csv, columns: {{unit: u, score: s}}}}}}
endpoints: [{{name: better, role: primary, type: win_rate, value: score, better: higher}}]
missing:
  rules: {{failed: failure, timeout: failure, limit: failure, error: exclude_pair,
    ungraded: exclude_pair, replay_miss: exclude_pair, invalidated: exclude_pair}}
  limit: 0.05
analysis: {{estimand: {estimand}}}
decision: {{rule: superiority}}
power: {{effect: 0.1, assume: {{discordance: 0.7, icc: 0.05}}}}
budget: {{usd: 0}}
"""


def units(clusters: int, number: int) -> Units:
    """Draws the units of a plan, in clusters of unequal size."""
    rng = np.random.default_rng([20261130, clusters, number])
    spread = np.log(1.0 + 0.8**2)
    drawn = rng.lognormal(np.log(15.0) - spread / 2.0, np.sqrt(spread), clusters)
    sizes = np.maximum(1, np.rint(drawn)).astype(int)
    names = [(f"u{c}-{u}", f"c{c}") for c in range(clusters) for u in range(sizes[c])]
    return Units(ids=tuple(unit for unit, _ in names), clusters=tuple(name for _, name in names))


def error(clusters: int, *, estimand: str, runs: int) -> float:
    """Returns the share of runs with a verdict between equal arms, over all plans."""
    text = PROTOCOL.format(seed=SEED, estimand=estimand)
    protocol = parse_protocol(text.encode(), name="protocol.yaml", media="yaml")
    assumed = assumed_by(protocol)
    assert assumed is not None
    shares: list[float] = []
    for number in range(PLANS):
        known = units(clusters, number)
        found = simulate(
            protocol,
            plan_of(protocol, known),
            known,
            for_all(protocol, assumed),
            effect=None,
            runs=runs,
            seed=number,
            checked=0,
        )
        shares.append(found.cases[0].intended)
    return sum(shares) / PLANS


def table(runs: int) -> Iterator[str]:
    """Yields the lines of the table."""
    yield f"| estimand | {' | '.join(f'{clusters} clusters' for clusters in CLUSTERS)} |"
    yield "|---" * (len(CLUSTERS) + 1) + "|"
    for estimand in ESTIMANDS:
        shares = [error(clusters, estimand=estimand, runs=runs) for clusters in CLUSTERS]
        errors = [math.sqrt(share * (1.0 - share) / (PLANS * runs)) for share in shares]
        cells = [
            f"{100 * share:.1f} ({100 * own:.1f})"
            for share, own in zip(shares, errors, strict=True)
        ]
        yield f"| {estimand} | {' | '.join(cells)} |"


if __name__ == "__main__":
    for line in table(QUICK_RUNS if "--quick" in sys.argv[1:] else RUNS):
        sys.stdout.write(line + "\n")
        sys.stdout.flush()
