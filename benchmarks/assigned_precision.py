"""False verdicts between equal precisions of flags, units in one arm each.

    python -P benchmarks/assigned_precision.py [runs]

Data: clusters of lognormal size (median 12), whose chance of a flag and whose share of true units
vary (beta 3, 3 and 7, 3); every second unit is treated, or every second cluster. One look, without
guards, since the method alone is asked. With 3,000 runs an error of 5 has an error of 0.4.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator

import numpy as np

from fairtrial.analysis.assigned_deciding import deciding_assigned_precision
from fairtrial.analysis.deciding import Deciding

SEED = 20261130
RUNS = 3000
CLUSTERS = (12, 20, 30)
# Whether whole clusters are assigned, by the row of the table.
ROWS = {"within clusters": False, "whole clusters": True}


def is_rejected(rng: np.random.Generator, clusters: int, *, by_cluster: bool) -> bool:
    """Draws one run and returns whether its interval leaves 0 out."""
    sizes = np.maximum(2, np.rint(rng.lognormal(2.5, 0.7, clusters))).astype(int)
    codes = np.repeat(np.arange(clusters), sizes)
    treated = np.arange(codes.size) % 2 == 0
    if by_cluster:
        treated = (rng.permutation(clusters) < clusters // 2)[codes]
    flags = (rng.random(codes.size) < rng.beta(3.0, 3.0, clusters)[codes]).astype(float)
    labels = (rng.random(codes.size) < rng.beta(7.0, 3.0, clusters)[codes]).astype(np.int64)
    found = deciding_assigned_precision(flags, treated, labels, codes, nominal_p=0.05)
    return isinstance(found, Deciding) and not found.lower <= 0.0 <= found.upper


def error(clusters: int, *, by_cluster: bool, runs: int) -> float:
    """Returns the share of runs with a difference between equal arms."""
    rng = np.random.default_rng([SEED, clusters, by_cluster])
    return sum(is_rejected(rng, clusters, by_cluster=by_cluster) for _ in range(runs)) / runs


def table(runs: int) -> Iterator[str]:
    """Yields the lines of the table."""
    yield f"| assigned | {' | '.join(f'{clusters} clusters' for clusters in CLUSTERS)} |"
    yield "|---" * (len(CLUSTERS) + 1) + "|"
    for row, by_cluster in ROWS.items():
        shares = [error(clusters, by_cluster=by_cluster, runs=runs) for clusters in CLUSTERS]
        yield f"| {row} | {' | '.join(f'{100 * share:.1f}' for share in shares)} |"


if __name__ == "__main__":
    for line in table(int(sys.argv[1]) if len(sys.argv) > 1 else RUNS):
        sys.stdout.write(line + "\n")
        sys.stdout.flush()
