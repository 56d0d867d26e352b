"""Paired outcomes drawn from an assumption, to try a plan on before it runs.

Job: turn an assumed difference, spread, intra-cluster correlation and loss into pairs, with raw
Philox words of a seed. Leaves arms that several comparisons share to `simulated_arms.py`, and what
a plan makes of the pairs to the caller.

Rules:
    - One run is one block of words: run r is the same whichever runs were drawn before it.
    - Where an outcome is yes or no, the difference is -1, 0 or 1, and units of one cluster follow a
      Polya urn: unit j copies one of the j before it with probability j / (k + j), k = 1 / icc - 1.
      So any two units of a cluster have the correlation icc, whatever the shares of the three.
    - Other outcomes are normal, with a cluster's and a unit's part; so is the level that both arms
      of a pair share, where one is assumed.
    - A pair is lost with the assumed probability, in one arm or the other alike.
    - Where each unit is in one arm, the values that it would have in either come from one draw: yes
      where a uniform draw, shared in a cluster by the same urn, is below the arm's rate; else
      normal, shifted. It is lost with the assumed probability in whichever arm it is.

Source:
    Blackwell and MacQueen (1973) for the urn; its draws are Dirichlet-multinomial.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from .distributions import normal_quantile_array
from .grouping import FloatArray, IntArray
from .randomness import STREAM_SIMULATION, uniforms

__all__ = (
    "PairModel",
    "SimulatedPairs",
    "ancestors",
    "check_clusters",
    "clumped",
    "on_scale",
    "simulate_pairs",
)


@dataclass(frozen=True, kw_only=True, slots=True)
class PairModel:
    """Holds what is assumed of a pair.

    Attributes:
        effect: mean of treatment minus control.
        sd: standard deviation of the difference; of a yes or no it follows from `discordance`.
        discordance: share of pairs that differ; None for outcomes that aren't yes or no.
        icc: intra-cluster correlation of the difference, in [0, 1).
        missing: share of pairs that are lost.
        base: control's share of yes among equal pairs; of other outcomes the middle of both arms.
        bounds: range of an outcome, where there is one; a value beyond it is set to the limit.
        is_log: the difference is one of logarithms.
        assigned: each unit is in one arm: `sd` and `icc` are of a unit's value within an arm, and
            `base` is the middle of both arms; yes or no where `is_yes_or_no`.
        is_yes_or_no: an assigned unit's value is 0 or 1.
        level_sd: standard deviation, over pairs, of what both arms have in common, where outcomes
            aren't yes or no; `level_icc` its intra-cluster correlation.
    """

    effect: float
    sd: float
    discordance: float | None = None
    icc: float = 0.0
    missing: float = 0.0
    base: float = 0.5
    bounds: tuple[float, float] | None = None
    is_log: bool = False
    assigned: bool = False
    is_yes_or_no: bool = False
    level_sd: float = 0.0
    level_icc: float = 0.0

    def __post_init__(self) -> None:
        if not 0.0 <= self.icc < 1.0 or not 0.0 <= self.missing < 1.0:
            raise ValueError(f"icc, missing: expected [0, 1), found {self.icc}, {self.missing}")
        if self.discordance is not None and not abs(self.effect) <= self.discordance <= 1.0:
            raise ValueError(
                f"discordance: expected {abs(self.effect)} to 1, found {self.discordance}"
            )
        if not (math.isfinite(self.effect) and 0.0 <= self.sd < math.inf):
            raise ValueError(f"effect, sd: expected finite numbers, found {self.effect}, {self.sd}")
        if not 0.0 <= self.level_icc < 1.0 or not 0.0 <= self.level_sd < math.inf:
            raise ValueError(
                "level_sd, level_icc: expected a finite number and [0, 1), "
                f"found {self.level_sd}, {self.level_icc}"
            )


@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class SimulatedPairs:
    """Holds one run.

    Attributes:
        control: one value a unit, shape (n,); `treatment` likewise.
        lost: 0 for a whole pair, 1 where control's outcome is lost, 2 treatment's, 3 the only one,
            shape (n,).
    """

    control: FloatArray
    treatment: FloatArray
    lost: npt.NDArray[np.uint8]


def simulate_pairs(
    model: PairModel, clusters: IntArray, *, seed: int, run: int, stream: int = STREAM_SIMULATION
) -> SimulatedPairs:
    """Draws the pairs of one run.

    Args:
        model: what is assumed.
        clusters: code of each unit's cluster, 0 to G - 1, units of a cluster together, shape (n,).
        seed: of the whole simulation.
        run: number of the run, from 0.
        stream: of random words; several endpoints take several.
    """
    count = check_clusters(clusters)
    n = len(clusters)
    draws = uniforms(4 * n + count, seed=seed, stream=stream, run=run)
    own, copied, base, gone = draws[: 4 * n].reshape(4, n)
    lost = np.where(gone < model.missing, np.where(gone < model.missing / 2.0, 1, 2), 0)
    if model.assigned:
        return _assigned(model, clusters, own, copied, shared=draws[4 * n :], lost=lost)
    values = (
        _normal(model, clusters, draws[: 4 * n].reshape(4, n), draws[4 * n :])
        if model.discordance is None
        else _yes_or_no(model, clusters, own, copied, base)
    )
    return SimulatedPairs(
        control=values[0], treatment=values[1], lost=np.asarray(lost, dtype=np.uint8)
    )


def _assigned(
    model: PairModel,
    clusters: IntArray,
    own: FloatArray,
    copied: FloatArray,
    *,
    shared: FloatArray,
    lost: IntArray,
) -> SimulatedPairs:
    half = model.effect / 2.0
    if model.is_yes_or_no:
        drawn = own[ancestors(clusters, copied, model.icc)]
        control, treatment = (
            (drawn < rate).astype(np.float64) for rate in (model.base - half, model.base + half)
        )
    else:
        noise = model.sd * clumped(clusters, own, shared, icc=model.icc)
        control, treatment = on_scale(model, noise - half), on_scale(model, noise + half)
    gone = np.where(lost > 0, 3, 0).astype(np.uint8)
    return SimulatedPairs(control=control, treatment=treatment, lost=gone)


def on_scale(model: PairModel, deviations: FloatArray) -> FloatArray:
    """Returns an arm's values from their deviations of the base, shape (n,)."""
    if model.is_log:
        return np.asarray(model.base * np.exp(deviations))
    values = model.base + deviations
    return values if model.bounds is None else np.clip(values, *model.bounds)


def clumped(clusters: IntArray, own: FloatArray, shared: FloatArray, *, icc: float) -> FloatArray:
    """Returns standard normal numbers that are correlated within clusters, shape (n,).

    Args:
        clusters: code of each unit's cluster, shape (n,).
        own: uniform numbers of the units, shape (n,).
        shared: uniform numbers of the clusters, shape (G,).
        icc: their correlation.
    """
    of_cluster = normal_quantile_array(shared)[clusters]
    of_unit = normal_quantile_array(own)
    return np.asarray(math.sqrt(icc) * of_cluster + math.sqrt(1.0 - icc) * of_unit)


def _yes_or_no(
    model: PairModel, clusters: IntArray, own: FloatArray, copied: FloatArray, base: FloatArray
) -> tuple[FloatArray, FloatArray]:
    discordance = model.discordance or 0.0
    minus = (discordance - model.effect) / 2.0
    drawn = np.where(own < minus, -1.0, np.where(own < discordance, 1.0, 0.0))
    difference = drawn[ancestors(clusters, copied, model.icc)]
    equal = (base < model.base).astype(np.float64)
    control = np.where(difference == 0.0, equal, (difference < 0.0).astype(np.float64))
    return control, control + difference


def ancestors(clusters: IntArray, copied: FloatArray, icc: float) -> IntArray:
    """Returns which unit's own draw each unit has, shape (n,).

    Args:
        clusters: code of each unit's cluster, units of a cluster together, shape (n,).
        copied: uniform numbers of the units, shape (n,).
        icc: the correlation of any two units of a cluster.
    """
    places = np.arange(len(clusters))
    if icc == 0.0:
        return places
    first = np.maximum.accumulate(np.where(np.r_[True, clusters[1:] != clusters[:-1]], places, 0))
    before = places - first
    # Below the number of units before it, the draw names one of them; else the unit is its own.
    draw = np.floor(copied * (before + 1.0 / icc - 1.0)).astype(np.int64)
    parents = np.where(draw < before, first + draw, places)
    while True:
        further = parents[parents]
        if np.array_equal(further, parents):
            return parents
        parents = further


def _normal(
    model: PairModel, clusters: IntArray, rows: FloatArray, shared: FloatArray
) -> tuple[FloatArray, FloatArray]:
    noise = clumped(clusters, rows[0], shared, icc=model.icc)
    half = (model.effect + model.sd * noise) / 2.0
    if not model.level_sd:
        return on_scale(model, -half), on_scale(model, half)
    # These rows are for the urn and for equal pairs, which only a yes or no has.
    common = clumped(clusters, rows[2], rows[1, : len(shared)], icc=model.level_icc)
    level = model.level_sd * common
    return on_scale(model, level - half), on_scale(model, level + half)


def check_clusters(clusters: IntArray) -> int:
    """Returns the number of clusters; raises ValueError where codes don't rise by steps."""
    if not len(clusters):
        raise ValueError("clusters: expected at least one unit, found none")
    steps = np.diff(clusters)
    if clusters[0] != 0 or not np.all((steps == 0) | (steps == 1)):
        raise ValueError("clusters: expected codes that rise from 0 by steps of one")
    return int(clusters[-1]) + 1
