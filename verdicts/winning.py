"""Pairs of a win rate: in which the treatment's value is the better one. Pure.

Leaves the values to `arrays.py`, the estimate and its interval to the methods of means.

Rules:
- A win is 1, a tie one half, a loss 0; equal values tie, and so do two failures.
- Control's side of a pair is one half, so the difference is the win rate's distance from even.
- Of two completions each is compared by itself.
"""

from __future__ import annotations

from dataclasses import replace
from typing import NamedTuple

import numpy as np

from fairtrial.ledger.protocol import Endpoint

from .frames import Completion, Pairs

__all__ = ("EVEN", "Wins", "win_pairs", "wins_of")

EVEN = 0.5


class Wins(NamedTuple):
    """How many pairs the treatment wins, ties and loses, whatever was lost of other pairs."""

    wins: int
    ties: int
    losses: int


def win_pairs(pairs: Pairs, endpoint: Endpoint) -> Pairs:
    """Returns the pairs with a win, a tie or a loss in the place of their values."""
    turn = 1.0 if endpoint.better == "higher" else -1.0
    return replace(
        pairs,
        completions=tuple(
            Completion(
                control=np.full(each.control.shape, EVEN),
                treatment=EVEN * (1.0 + np.sign(turn * (each.treatment - each.control))),
            )
            for each in pairs.completions
        ),
    )


def wins_of(pairs: Pairs) -> Wins:
    """Counts the pairs whose comparison is the same in every completion."""
    against, favour = pairs.completions[0].treatment, pairs.completions[-1].treatment
    known = against[against == favour]
    wins, losses = (int(np.count_nonzero(known == value)) for value in (1.0, 0.0))
    return Wins(wins=wins, ties=len(known) - wins - losses, losses=losses)
