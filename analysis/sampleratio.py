"""Whether the arms of assigned units are left with the units that were assigned to them.

Job: test whether a unit was lost for being in its arm, given who was assigned where. Leaves the
assignment itself, which is made again from the seed, to the engine.

Rules:
    - The registered ratio is met by the plan, so what can differ is who is left; the test is
      conditional on the units assigned and on the units lost.
    - Units assigned one by one: the exact hypergeometric test, in whole numbers. Assigned within
      clusters or strata it errs on the cautious side.
    - Whole clusters assigned: every way to choose as many clusters for the arm, or that many drawn
      at random where there are more than `EXACT_MAX`, the identity counted as one of them.
    - Two-sided: as far from what is expected, or less likely than what was seen.

Source:
    Fisher (1935) for both; Phipson and Smyth (2010) for (k + 1) / (B + 1). Fabijan et al. (2019)
    for the diagnosis.
"""

from __future__ import annotations

import math
from fractions import Fraction
from itertools import combinations
from typing import Final

import numpy as np
import numpy.typing as npt

from .grouping import FloatArray
from .randomness import STREAM_SAMPLE_RATIO, uniforms

__all__ = ("EXACT_MAX", "by_cluster_ratio", "by_unit_ratio")

EXACT_MAX: Final = 20_000
_TIES: Final = 1e-9
_CHUNK_CELLS: Final = 200_000


def by_unit_ratio(control: int, treatment: int, lost_control: int, lost_treatment: int) -> float:
    """Returns the two-sided p of as uneven a loss between the arms of units assigned one by one.

    Args:
        control: units assigned to control.
        treatment: units assigned to treatment.
        lost_control: how many of control's have no usable outcome.
        lost_treatment: how many of treatment's have none.
    """
    if not (0 <= lost_control <= control and 0 <= lost_treatment <= treatment):
        raise ValueError("lost: expected 0 to the number of units of the arm")
    lost = lost_control + lost_treatment
    first = max(0, lost - control)
    weight = math.comb(treatment, first) * math.comb(control, lost - first)
    weights = [weight]
    for k in range(first, min(lost, treatment)):
        weight = weight * (treatment - k) * (lost - k)
        weight //= (k + 1) * (control - lost + k + 1)
        weights.append(weight)
    seen = weights[lost_treatment - first]
    return float(Fraction(sum(each for each in weights if each <= seen), sum(weights)))


def by_cluster_ratio(
    lost: FloatArray,
    units: FloatArray,
    treated: npt.NDArray[np.bool_],
    *,
    seed: int,
    resamples: int = 9999,
) -> tuple[float, bool]:
    """Returns the two-sided p of as uneven a loss between arms of whole clusters; whether exact.

    Args:
        lost: units of each cluster without a usable outcome, shape (G,).
        units: units assigned of each cluster, shape (G,).
        treated: whether the cluster is in the treatment arm, shape (G,).
        seed: of the draws, where there are too many ways to count them all.
        resamples: draws, at least 999.
    """
    if resamples < 999:
        raise ValueError(f"resamples: expected at least 999, found {resamples}")
    excess = lost - units * (lost.sum() / units.sum())
    clusters, chosen = len(lost), int(np.count_nonzero(treated))
    observed = abs(float(excess[treated].sum())) - _TIES * float(np.abs(excess).sum())
    if math.comb(clusters, chosen) <= EXACT_MAX:
        sums = [abs(math.fsum(part)) for part in combinations(excess.tolist(), chosen)]
        return sum(each >= observed for each in sums) / len(sums), True
    return (_reached(excess, chosen, observed, seed, resamples) + 1) / (resamples + 1), False


def _reached(excess: FloatArray, chosen: int, observed: float, seed: int, resamples: int) -> int:
    step = max(1, _CHUNK_CELLS // excess.size)
    reached = 0
    for run, first in enumerate(range(0, resamples, step)):
        rows = min(step, resamples - first)
        drawn = uniforms(step * excess.size, seed=seed, stream=STREAM_SAMPLE_RATIO, run=run)
        order = np.argsort(drawn.reshape(step, -1)[:rows], axis=1)[:, :chosen]
        reached += int(np.count_nonzero(np.abs(excess[order].sum(axis=1)) >= observed))
    return reached
