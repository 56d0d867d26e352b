"""Pairs of types that need the truth of each unit: labels, and twins. Pure.

Leaves statuses and missing rules to `arrays.py`, the numbers to `analysis/labelled.py`.

Rules:
- A couple of twins counts only when both have a value in both arms.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Final, NamedTuple

import numpy as np

from fairtrial.analysis.grouping import FloatArray, IntArray

from .frames import Completion, Frame, Pairs

__all__ = ("LABELLED", "Couples", "couples_of", "twin_pairs")

# Types that need the truth of each unit.
LABELLED: Final = ("auc", "within_twin_auc", "precision")


class Couples(NamedTuple):
    """Couples of twins, each as the places of its two units among pairs."""

    true: IntArray
    false: IntArray


def couples_of(frame: Frame, pairs: Pairs) -> Couples:
    """Returns the couples of twins of which both have a value in both arms."""
    assert frame.units.twins is not None, "an endpoint that needs twins passed the protocol"
    assert pairs.labels is not None
    known = dict(zip(frame.units.ids, frame.units.twins, strict=True))
    sides: tuple[dict[str, int], dict[str, int]] = ({}, {})
    for place, (unit, label) in enumerate(
        zip(pairs.units.tolist(), pairs.labels.tolist(), strict=True)
    ):
        sides[label][known[frame.plan.units[unit]]] = place
    both = [name for name in sides[1] if name in sides[0]]
    true, false = ([side[name] for name in both] for side in (sides[1], sides[0]))
    return Couples(true=np.array(true, dtype=np.int64), false=np.array(false, dtype=np.int64))


def twin_pairs(pairs: Pairs, couples: Couples) -> Pairs:
    """Returns one pair for each couple of twins, whose value says whether the true one is above.

    1 where the twin with label 1 has the higher score, 1/2 for a tie. A twin alone leaves.
    """
    return replace(
        pairs,
        units=pairs.units[couples.true],
        clusters=pairs.clusters[couples.true],
        completions=tuple(
            Completion(
                control=_above(each.control, couples), treatment=_above(each.treatment, couples)
            )
            for each in pairs.completions
        ),
        labels=None,
    )


def _above(scores: FloatArray, couples: Couples) -> FloatArray:
    return (1.0 + np.sign(scores[couples.true] - scores[couples.false])) / 2.0
