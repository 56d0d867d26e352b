"""Coverage of each interval where its number is known, as docs/statistics.md prints it.

    python -P benchmarks/coverage.py [runs]

Data: clusters of lognormal size (mean 15, coefficient of variation 0.8), drawn from a seed. Each
cell says how many of 100 intervals at 95 % hold the true number, and how many of 100 runs have no
interval. With 2,000 runs a coverage of 95 has an error of about 0.5.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from dataclasses import replace

import numpy as np

from fairtrial.analysis.assigned_deciding import deciding_assigned
from fairtrial.analysis.deciding import Deciding, deciding_interval
from fairtrial.analysis.labelled import deciding_auc, deciding_precision
from fairtrial.analysis.simulation import PairModel, SimulatedPairs, simulate_pairs
from fairtrial.analysis.values import Undetermined

CLUSTERS = (6, 8, 12, 20, 30, 60)
Found = Deciding | Undetermined
Cell = Callable[[np.random.Generator, int, int], tuple[Found, float]]


def sizes(rng: np.random.Generator, clusters: int) -> np.ndarray:
    """Draws cluster sizes."""
    spread = np.log(1 + 0.8**2)
    drawn = rng.lognormal(np.log(15) - spread / 2, np.sqrt(spread), clusters)
    return np.maximum(1, np.rint(drawn)).astype(int)


def drawn(
    rng: np.random.Generator, clusters: int, run: int, model: PairModel
) -> tuple[SimulatedPairs, np.ndarray]:
    """Draws the pairs of one run, and their clusters."""
    codes = np.repeat(np.arange(clusters), sizes(rng, clusters))
    return simulate_pairs(model, codes, seed=20261129, run=run, stream=1000 + clusters), codes


def mean(family: str, model: PairModel, *, part: str | None = None, weighted: bool = False) -> Cell:
    """Returns a cell for a mean difference: the hull, or one of its parts."""

    def cell(rng: np.random.Generator, clusters: int, run: int) -> tuple[Found, float]:
        pairs, codes = drawn(rng, clusters, run, model)
        difference = pairs.treatment - pairs.control
        if model.is_log:
            difference = np.log(pairs.treatment / pairs.control)
        found = deciding_interval(
            difference,
            codes,
            family=family,  # type: ignore[arg-type]  # a literal of this table
            estimand="cluster_weighted" if weighted else "unit_weighted",
            nominal_p=0.05,
            singletons=False,
        )
        if part is None or isinstance(found, Undetermined):
            return found, model.effect
        limits = next(each for each in found.parts if each.method == part)
        return _within(found, limits.lower, limits.upper), model.effect

    return cell


def _within(found: Deciding, lower: float, upper: float) -> Deciding:
    return replace(found, lower=lower, upper=upper)


def labelled(kind: str) -> Cell:
    """Returns a cell for AUC or precision: both arms equal in law, so the difference is 0."""

    def cell(rng: np.random.Generator, clusters: int, run: int) -> tuple[Found, float]:
        codes = np.repeat(np.arange(clusters), sizes(rng, clusters))
        labels = (rng.random(len(codes)) < 0.4).astype(int)
        common = rng.normal(size=clusters)[codes] * 0.7 + labels
        a, b = (common + rng.normal(size=len(codes)) for _ in range(2))
        if kind == "auc":
            return deciding_auc(a, b, labels, codes, nominal_p=0.05), 0.0
        flags = (a > 1.0).astype(float), (b > 1.0).astype(float)
        return deciding_precision(flags[0], flags[1], labels, codes, nominal_p=0.05), 0.0

    return cell


def assigned(model: PairModel, *, by_cluster: bool, weighted: bool = False) -> Cell:
    """Returns a cell for units that are in one arm each, half of them in either."""

    def cell(rng: np.random.Generator, clusters: int, run: int) -> tuple[Found, float]:
        pairs, codes = drawn(rng, clusters, run, model)
        if by_cluster:
            treated = (rng.permutation(clusters) < clusters // 2)[codes]
        else:
            places = np.arange(len(codes)) - np.searchsorted(codes, codes)
            treated = (places + rng.integers(0, 2, clusters)[codes]) % 2 == 0
        found = deciding_assigned(
            np.where(treated, pairs.treatment, pairs.control),
            treated,
            codes,
            estimand="cluster_weighted" if weighted else "unit_weighted",
            nominal_p=0.05,
        )
        return found, model.effect

    return cell


def half(effect: float, rate: float, icc: float) -> PairModel:
    """Returns yes or no of units in one arm each, at a rate between both arms."""
    return PairModel(effect=effect, sd=0.0, icc=icc, base=rate, assigned=True, is_yes_or_no=True)


COMMON = PairModel(effect=0.08, sd=0.0, discordance=0.2, icc=0.05)
RARE = PairModel(effect=0.03, sd=0.0, discordance=0.05, icc=0.05)
CORRELATED = PairModel(effect=0.0, sd=0.0, discordance=0.2, icc=0.2)
NORMAL = PairModel(effect=0.1, sd=0.35, icc=0.05)

CELLS: dict[str, Cell] = {
    "CR2-t and Tango, discordance 0.2, +0.08": mean("binary", COMMON),
    "CR2-t alone, the same": mean("binary", COMMON, part="cr2_t"),
    "CR2-t and Tango, discordance 0.05, +0.03": mean("binary", RARE),
    "CR2-t alone, the same (rare)": mean("binary", RARE, part="cr2_t"),
    "CR2-t and Tango, icc 0.2, 0": mean("binary", CORRELATED),
    "t on cluster means, discordance 0.2, +0.08": mean("binary", COMMON, weighted=True),
    "CR2-t, normal, sd 0.35, +0.1": mean("mean", NORMAL),
    "Obuchowski t, AUC, 0": labelled("auc"),
    "jackknife t, precision, 0": labelled("precision"),
    "CR2-t, assigned within cluster, rate 0.5, icc 0.1, +0.08": assigned(
        half(0.08, 0.5, 0.1), by_cluster=False
    ),
    "CR2-t, assigned within cluster, rate 0.05, icc 0.1, 0": assigned(
        half(0.0, 0.05, 0.1), by_cluster=False
    ),
    "CR2-t, assigned by cluster, rate 0.5, icc 0.1, +0.08": assigned(
        half(0.08, 0.5, 0.1), by_cluster=True
    ),
    "CR2-t, assigned by cluster, rate 0.05, icc 0.1, 0": assigned(
        half(0.0, 0.05, 0.1), by_cluster=True
    ),
    "t on cluster means, assigned by cluster, rate 0.5, icc 0.1, 0": assigned(
        half(0.0, 0.5, 0.1), by_cluster=True, weighted=True
    ),
}


def table(runs: int) -> Iterator[str]:
    """Yields the lines of the table."""
    yield "| method and data | " + " | ".join(str(count) for count in CLUSTERS) + " |"
    yield "|---|" + "---|" * len(CLUSTERS)
    for name, cell in CELLS.items():
        texts: list[str] = []
        for clusters in CLUSTERS:
            rng = np.random.default_rng([20261129, clusters])
            held = without = 0
            for run in range(runs):
                found, truth = cell(rng, clusters, run)
                if isinstance(found, Undetermined) or found.degenerate:
                    without += 1
                else:
                    held += found.lower <= truth <= found.upper
            share = f"{100 * held / (runs - without):.1f}" if without < runs else "none"
            texts.append(share + (f" ({100 * without / runs:.1f})" if without else ""))
        yield f"| {name} | " + " | ".join(texts) + " |"


if __name__ == "__main__":
    for line in table(int(sys.argv[1]) if len(sys.argv) > 1 else 2000):
        sys.stdout.write(line + "\n")
        sys.stdout.flush()
