"""Prints many numbers of the analysis to the last bit, for tests on threads, orders and versions.

    numbers_program.py ORDER

ORDER is a seed by which the units of every input are permuted and clusters renamed; 0 leaves them.
Inputs are made without numpy's generators, whose distributions may change between versions.
"""

from __future__ import annotations

import dataclasses
import json
import random
import sys
from collections.abc import Mapping
from typing import Any

import numpy as np

from fairtrial.analysis import (
    auc,
    auc_bootstrap,
    confidence_sequences,
    deciding,
    equivalence,
    labelled,
    paired,
    resampling,
    riskcontrol,
    samplesize,
    sequential,
    signflip,
    simulation,
    stagewise,
    tango,
    wild,
)
from fairtrial.analysis.grouping import group

UNITS, CLUSTERS = 900, 40


def flat(value: Any) -> list[str]:
    """Returns all numbers of a value, floats in hexadecimal, in a fixed order."""
    if dataclasses.is_dataclass(value):
        return [
            text for field in dataclasses.fields(value) for text in flat(getattr(value, field.name))
        ]
    if isinstance(value, float | np.floating):
        return [float(value).hex()]
    if isinstance(value, np.ndarray):
        return flat(value.tolist())
    if isinstance(value, Mapping):
        return [text for key in sorted(value) for text in flat(value[key])]
    if isinstance(value, list | tuple):
        return [text for each in value for text in flat(each)]
    return [str(value)]


def main() -> None:
    """Prints a JSON object of names and numbers."""
    order = int(sys.argv[1])
    source = random.Random(20261129)
    rows = []
    for unit in range(UNITS):
        cluster = min(int(source.expovariate(0.08)), CLUSTERS - 1)
        shared = random.Random(cluster).gauss(0.0, 0.4)
        label = int(source.random() < 0.4)
        control = source.gauss(shared + 0.7 * label, 1.0)
        treatment = control + source.gauss(shared + 0.4 * label, 0.6)
        rows.append((cluster, label, control, treatment, unit))
    if order:
        random.Random(order).shuffle(rows)
    names = list(range(CLUSTERS))
    if order:
        random.Random(order + 1).shuffle(names)
    codes = np.array([names[row[0]] for row in rows])
    labels = np.array([row[1] for row in rows])
    scores = [np.array([row[place] for row in rows]) for place in (2, 3)]
    numbers = of_units(codes, labels, *scores)
    numbers |= without_units()
    print(json.dumps({name: flat(value) for name, value in numbers.items()}))  # noqa: T201 its job


def of_units(codes: Any, labels: Any, control: Any, treatment: Any) -> dict[str, Any]:
    """Returns numbers that depend on units in clusters."""
    flags = [(scores > 0.3).astype(float) for scores in (control, treatment)]
    gaps, signs = treatment - control, flags[1] - flags[0]
    compact = np.unique(codes, return_inverse=True)[1]
    sums: Any = np.bincount(compact, signs)
    sizes: Any = np.bincount(compact).astype(float)
    # Sums of floats per cluster come from the project's own grouping: exact in any order.
    groups = resampling_input(gaps, codes)
    seeded: Any = {"seed": 11, "resamples": 1_999}
    return {
        "cr2": paired.clustered_mean(gaps, codes),
        "cluster_means": paired.equal_weight_mean(gaps, codes),
        "tango": tango.tango_cluster_adjusted(signs, codes),
        "deciding": deciding.deciding_interval(
            signs, codes, family="binary", estimand="unit_weighted", nominal_p=0.03,
            singletons=False, null=0.02,
        ),
        "tost": equivalence.tost_estimate(0.01, 0.013, 17.5, low=-0.05, high=0.05),
        "auc": auc.auc_clustered_difference(control, treatment, labels, codes),
        "precision": labelled.deciding_precision(flags[0], flags[1], labels, codes, nominal_p=0.05),
        "auc_bootstrap": auc_bootstrap.auc_bootstrap(
            control, treatment, labels, codes, **seeded
        ),
        "bootstrap": resampling.cluster_bootstrap(sums, sizes, **seeded),
        "bootstrap_of_means": resampling.cluster_bootstrap(*groups, **seeded),
        "wild": wild.wild_bootstrap_t(*groups, **seeded),
        "sign_flip": signflip.sign_flip(groups[0], **seeded),
    }  # fmt: skip


def resampling_input(values: Any, codes: Any) -> tuple[Any, Any]:
    """Returns sums and sizes of clusters."""
    found = group(values, codes)
    return found.sums, found.sizes


def without_units() -> dict[str, Any]:
    """Returns numbers that depend on plans alone."""
    looks = [0.13, 0.4, 0.71, 1.0]
    boundary = sequential.spending_boundary(looks, alpha=0.05)
    steps = np.array([((7 * k) % 11) / 11 for k in range(120)])
    model = simulation.PairModel(effect=0.05, sd=0.4, discordance=0.2, icc=0.05, missing=0.03)
    normal = simulation.PairModel(effect=0.05, sd=0.4, icc=0.05)
    clusters = np.repeat(np.arange(30), 9)
    return {
        "boundary": boundary,
        "pocock": sequential.spending_boundary(looks, alpha=0.05, spending="lan_demets_pocock"),
        "betting": confidence_sequences.betting_hedged(steps),
        "bernstein": confidence_sequences.empirical_bernstein_predmix(steps),
        "simulated": [
            simulation.simulate_pairs(each, clusters, seed=3, run=run).treatment
            for each in (model, normal)
            for run in range(3)
        ],
        "stopped": stagewise.stagewise(boundary.critical_values[:2], looks[:2], look=2, z=3.1),
        "power": samplesize.power_cluster_t(0.1, 0.45, 0.05, clusters=30, size=9),
        "mcnemar_power": samplesize.power_mcnemar_exact(0.1, 0.18, 240),
        "bound": riskcontrol.hoeffding_bentkus(0.03, 200, alpha=0.08),
    }


if __name__ == "__main__":
    main()
