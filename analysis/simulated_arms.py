"""Outcomes of several arms drawn together, where comparisons share an arm.

Job: turn the assumptions of comparisons that hang together into one value a unit and arm. Leaves a
comparison that shares no arm to `simulation.py`, and which arms hang together to the caller.

Rules:
    - Arms are drawn one after the other: arm 0 first, each further one from an arm drawn before by
      the model of the comparison between them. So every comparison has what is assumed of it.
    - Yes or no: the further arm differs from the known one with the assumed shares, given what the
      known one is; nothing else ties arms together. A unit copies all its arms from one unit of its
      cluster, by the urn of `simulation.py`, so each difference has the assumed correlation.
    - Else each arm has normal noise of its own, half the variance of the least variable comparison,
      and what a comparison varies beyond that goes to the further arm and to those drawn from it.
      Two comparisons of equal spread with a common arm then have correlation one half.
    - icc, loss, base, scale and level are those of the first comparison; each arm is lost by itself
      so that the assumed share of pairs is lost.
    - Where each unit is in one arm, arms share their noise: no unit is in two of them.

Source:
    The urn is that of `simulation.py`.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from .grouping import FloatArray, IntArray
from .randomness import STREAM_SIMULATION, uniforms
from .simulation import PairModel, ancestors, check_clusters, clumped, on_scale

__all__ = ("ArmStep", "SimulatedArms", "impossible_step", "simulate_arms")

# Shares that add up to 1 in decimals may miss it by so much.
_ROUNDING = 1e-12


@dataclass(frozen=True, kw_only=True, slots=True)
class ArmStep:
    """Holds how one further arm follows from one drawn before.

    Attributes:
        known: number of the arm drawn before; the further one has the number of the step, from 1.
        is_control: the known arm is the control of the comparison.
        model: of the comparison.
    """

    known: int
    is_control: bool
    model: PairModel


@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class SimulatedArms:
    """Holds one run.

    Attributes:
        values: one row an arm, shape (arms, n).
        lost: whether the arm's outcome is lost, shape (arms, n).
    """

    values: FloatArray
    lost: npt.NDArray[np.bool_]


def impossible_step(steps: Sequence[ArmStep]) -> int | None:
    """Returns the first step whose shares can't hold beside those before; None: all can.

    Of values that aren't yes or no every step can.
    """
    if not _is_yes_or_no(steps):
        return None
    rates = _rates(steps)
    for place, step in enumerate(steps):
        down, up = _moves(step)
        rate, drawn = rates[step.known], rates[place + 1]
        fits = down <= rate + _ROUNDING and up <= 1.0 - rate + _ROUNDING
        if not (fits and -_ROUNDING <= drawn <= 1.0 + _ROUNDING):
            return place
    return None


def simulate_arms(
    steps: Sequence[ArmStep],
    clusters: IntArray,
    *,
    seed: int,
    run: int,
    stream: int = STREAM_SIMULATION,
) -> SimulatedArms:
    """Draws the arms of one run.

    Args:
        steps: how each further arm follows from one before; at least one.
        clusters: code of each unit's cluster, 0 to G - 1, units of a cluster together, shape (n,).
        seed: of the whole simulation.
        run: number of the run, from 0.
        stream: of random words.
    """
    count = _check_steps(steps, clusters)
    n, arms = len(clusters), len(steps) + 1
    draws = uniforms((3 * arms + 2) * n + (2 * arms + 1) * count, seed=seed, stream=stream, run=run)
    rows = draws[: (3 * arms + 2) * n].reshape(3 * arms + 2, n)
    shared = draws[(3 * arms + 2) * n :].reshape(2 * arms + 1, count)
    gone, rest = rows[:arms], rows[arms:]
    if _is_yes_or_no(steps):
        values = _yes_or_no(steps, clusters, rest)
    else:
        values = _normal(steps, clusters, rest, shared)
    # Of a pair either arm may be lost, of an assigned unit only the one that it is in.
    missing = steps[0].model.missing
    each = missing if steps[0].model.assigned else 1.0 - math.sqrt(1.0 - missing)
    return SimulatedArms(values=values, lost=np.asarray(gone < each))


def _is_yes_or_no(steps: Sequence[ArmStep]) -> bool:
    first = steps[0].model
    return first.is_yes_or_no or first.discordance is not None


def _moves(step: ArmStep) -> tuple[float, float]:
    """Returns the shares of units at which the further arm is below and above the known one."""
    effect = step.model.effect if step.is_control else -step.model.effect
    differ = step.model.discordance
    if differ is None:
        return max(-effect, 0.0), max(effect, 0.0)
    return (differ - effect) / 2.0, (differ + effect) / 2.0


def _rates(steps: Sequence[ArmStep]) -> list[float]:
    """Returns each arm's share of yes."""
    first = steps[0].model
    rate = first.base - first.effect / 2.0
    if first.discordance is not None:
        below = (first.discordance - first.effect) / 2.0
        rate = below + first.base * (1.0 - first.discordance)
    rates = [rate if steps[0].is_control else rate + first.effect]
    for step in steps:
        down, up = _moves(step)
        rates.append(rates[step.known] + up - down)
    return rates


def _yes_or_no(steps: Sequence[ArmStep], clusters: IntArray, rows: FloatArray) -> FloatArray:
    copied, first = rows[-1], steps[0].model
    drawn = rows[: len(steps) + 1][:, ancestors(clusters, copied, first.icc)]
    rates = _rates(steps)
    if first.assigned:
        return np.array([(drawn[0] < rate).astype(np.float64) for rate in rates])
    values = [drawn[0] < rates[0]]
    for place, step in enumerate(steps, start=1):
        rate, (down, up) = rates[step.known], _moves(step)
        falls = drawn[place] * rate < down
        rises = drawn[place] * (1.0 - rate) < up
        values.append(np.where(values[step.known], ~falls, rises))
    return np.array(values, dtype=np.float64)


def _normal(
    steps: Sequence[ArmStep], clusters: IntArray, rows: FloatArray, shared: FloatArray
) -> FloatArray:
    first, arms = steps[0].model, len(steps) + 1
    common = clumped(clusters, rows[2 * arms], shared[2 * arms], icc=first.level_icc)
    if first.assigned:
        noise = [first.sd * clumped(clusters, rows[0], shared[0], icc=first.icc)] * arms
    else:
        noise = _noises(steps, clusters, rows, shared)
    means = [-first.effect / 2.0 if steps[0].is_control else first.effect / 2.0]
    for step in steps:
        effect = step.model.effect if step.is_control else -step.model.effect
        means.append(means[step.known] + effect)
    return np.array(
        [
            on_scale(first, mean + own + first.level_sd * common)
            for mean, own in zip(means, noise, strict=True)
        ]
    )


def _noises(
    steps: Sequence[ArmStep], clusters: IntArray, rows: FloatArray, shared: FloatArray
) -> list[FloatArray]:
    """Returns each arm's deviation from its mean: noise of its own, and what it was drawn from."""
    arms, icc = len(steps) + 1, steps[0].model.icc
    normal = [clumped(clusters, row, own, icc=icc) for row, own in zip(rows, shared, strict=False)]
    least = min(step.model.sd for step in steps)
    beyond: list[FloatArray] = [np.zeros(len(clusters))]
    for place, step in enumerate(steps, start=1):
        spread = math.sqrt(max(step.model.sd**2 - least**2, 0.0))
        beyond.append(beyond[step.known] + spread * normal[arms + place])
    return [more + least / math.sqrt(2.0) * normal[arm] for arm, more in enumerate(beyond)]


def _check_steps(steps: Sequence[ArmStep], clusters: IntArray) -> int:
    if not steps or any(not 0 <= step.known <= place for place, step in enumerate(steps)):
        raise ValueError("steps: expected each to follow from an arm before, arm 0 first")
    if impossible_step(steps) is not None:
        raise ValueError(f"steps: step {impossible_step(steps)} can't hold beside those before")
    return check_clusters(clusters)
