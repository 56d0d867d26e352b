"""How often a bound of the precision of flags reaches a target that is exactly the truth.

    python -P benchmarks/flag_errors.py [--quick]

Data: flags of clusters that resemble each other as a beta-binomial makes them, with true precision
0.95; a side has error 2.5 percent. The last column has 120 clusters of 1 to 60 flags, drawn once,
lognormal with mean 10 and coefficient of variation 1.2. Prints the table of docs/statistics.md,
percent of 4,000 runs a cell; `--quick` takes 400.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping

import numpy as np

from fairtrial.analysis.grouping import IntArray
from fairtrial.analysis.precision_bounds import Bound, simulated_error

RUNS, QUICK_RUNS = 4000, 400
TARGET, ALPHA, SEED = 0.95, 0.025, 20261130
BOUNDS: tuple[Bound, ...] = ("wilson", "cluster_aware")
ICCS = (0.0, 0.1, 0.3)
EQUAL = ((20, 10), (8, 25), (40, 10), (40, 50), (100, 5), (100, 20))


def unequal(clusters: int) -> IntArray:
    """Draws flags of clusters of unequal size."""
    spread = np.log(1.0 + 1.2**2)
    rng = np.random.default_rng([SEED, clusters])
    drawn = rng.lognormal(np.log(10.0) - spread / 2.0, np.sqrt(spread), clusters)
    return np.clip(np.rint(drawn), 1, 60).astype(np.int64)


def designs() -> Mapping[str, IntArray]:
    """Returns the flags of each cluster, by the head of the column."""
    equal = {f"{count} x {size}": np.full(count, size, dtype=np.int64) for count, size in EQUAL}
    return {**equal, "120, unequal": unequal(120)}


ROWS = {f"{bound}, {icc:g}": (bound, icc) for bound in BOUNDS for icc in ICCS}


def table(runs: int) -> Iterator[str]:
    """Yields the lines of the table."""
    columns = designs()
    yield f"| bound, icc | {' | '.join(columns)} |"
    yield "|---" * (len(columns) + 1) + "|"
    for row, (bound, icc) in ROWS.items():
        shares = [
            simulated_error(
                flags, target=TARGET, bound=bound, alpha=ALPHA, icc=icc, seed=SEED, runs=runs
            )
            for flags in columns.values()
        ]
        yield f"| {row} | {' | '.join(f'{100 * share:.1f}' for share in shares)} |"


if __name__ == "__main__":
    for line in table(QUICK_RUNS if "--quick" in sys.argv[1:] else RUNS):
        sys.stdout.write(line + "\n")
        sys.stdout.flush()
