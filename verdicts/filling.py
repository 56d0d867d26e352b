"""Lost outcomes filled in one by one, each at its worst or its best, for the tipping point. Pure.

Leaves which outcomes are lost to `arrays.py`, what is worst and best to `completing.py`, and what
the filled-in numbers show to `tipping.py`.

Rules:
- Counted are outcomes: a replicate, a twin's score, a value of a win rate each by itself, whatever
  the unit, the couple or the pair is reduced to afterwards.
- Lost is what was filled in and whose worst and best differ. A twin whose couple leaves, a
  replicate that the unit is reduced without, and what can only end one way are not among them.
- Their order is that of the run by units, control's before treatment's, by replicates.
- Against the treatment: its own outcome at its worst, or control's at its best.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from fairtrial.analysis.grouping import FloatArray, IntArray
from fairtrial.ledger.protocol import Endpoint

from .frames import BoolArray, Completion, Frame, Pairs
from .slot_values import reduced
from .truth import Couples, couples_of, twin_pairs
from .winning import win_pairs

__all__ = ("Filled", "Lost", "lost_of", "of_type", "spread")


@dataclass(frozen=True, kw_only=True, eq=False)
class Filled:
    """One arm's values with all lost ones at one end.

    Attributes:
        own: which members are in the arm.
        worst: one row a unit that is in the arm, one column a replicate; `best` likewise.
    """

    own: BoolArray
    worst: FloatArray
    best: FloatArray


@dataclass(frozen=True, kw_only=True, eq=False)
class Lost:
    """The lost outcomes of one endpoint of one comparison.

    Attributes:
        endpoint: of what type.
        base: the pairs of values before couples are made or values compared.
        sides: control and treatment.
        in_treatment: of each lost outcome, shape (lost,); `rows` of its arm's values and
            `columns`, the replicate, likewise.
        couples: of twins; None for other types.
    """

    endpoint: Endpoint
    base: Pairs
    sides: tuple[Filled, Filled]
    in_treatment: BoolArray
    rows: IntArray
    columns: IntArray
    couples: Couples | None

    @property
    def count(self) -> int:
        """How many outcomes were lost."""
        return int(self.rows.size)

    def filled(self, against: BoolArray) -> Pairs:
        """Returns the pairs with some lost outcomes against the treatment, the others for it.

        Args:
            against: which, shape (lost,).
        """
        control, treatment = self.sides
        completion = Completion(
            control=self._values(control, ~self.in_treatment & against, turned=True),
            treatment=self._values(treatment, self.in_treatment & against, turned=False),
        )
        pairs = replace(self.base, completions=(completion,))
        return _of_type(pairs, self.endpoint, self.couples)

    def _values(self, side: Filled, against: BoolArray, *, turned: bool) -> FloatArray:
        rest, put = (side.worst, side.best) if turned else (side.best, side.worst)
        values, rows, columns = rest.copy(), self.rows[against], self.columns[against]
        values[rows, columns] = put[rows, columns]
        return spread(reduced(values, self.endpoint), side.own)


def of_type(frame: Frame, endpoint: Endpoint, pairs: Pairs) -> Pairs:
    """Returns the pairs that the endpoint's type is about, from pairs of values."""
    twins = endpoint.type == "within_twin_auc"
    return _of_type(pairs, endpoint, couples_of(frame, pairs) if twins else None)


def _of_type(pairs: Pairs, endpoint: Endpoint, couples: Couples | None) -> Pairs:
    if couples is not None:
        return twin_pairs(pairs, couples)
    return win_pairs(pairs, endpoint) if endpoint.type == "win_rate" else pairs


def lost_of(
    frame: Frame, endpoint: Endpoint, base: Pairs, control: Filled, treatment: Filled
) -> Lost:
    """Finds the lost outcomes.

    Args:
        frame: plan and outcomes.
        endpoint: of what type.
        base: the pairs of values, every member among them.
        control: values of control's arm.
        treatment: values of treatment's arm.
    """
    couples = couples_of(frame, base) if endpoint.type == "within_twin_auc" else None
    counting = np.ones(base.units.size, dtype=np.bool_)
    if couples is not None:
        counting = np.isin(np.arange(base.units.size), np.concatenate(couples))
    found: list[tuple[int, bool, int, int]] = []
    for in_treatment, side in ((False, control), (True, treatment)):
        places = np.flatnonzero(side.own)
        differ = np.isfinite(side.worst) & (side.worst != side.best)
        differ &= counting[side.own][:, None]
        for row, column in np.argwhere(differ).tolist():
            found.append((int(places[row]), in_treatment, row, column))
    found.sort()
    return Lost(
        endpoint=endpoint,
        base=base,
        sides=(control, treatment),
        in_treatment=np.array([each[1] for each in found], dtype=np.bool_),
        rows=np.array([each[2] for each in found], dtype=np.int64),
        columns=np.array([each[3] for each in found], dtype=np.int64),
        couples=couples,
    )


def spread(values: FloatArray | IntArray, own: BoolArray) -> FloatArray:
    """Returns one number a unit from those of an arm's own units, NaN for the others."""
    found = np.full(own.shape, np.nan)
    found[own] = values
    return found
