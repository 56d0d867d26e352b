"""Which units of a table stand in both arms, and what to do about those that don't. Pure.

Leaves the columns and the values to `outcome_table.py`.

Rules:
- Arms of different units aren't compared by what happens to be in both: that is refused, with the
  counts and the first ids of each side, unless the caller asks for it.
- A few units without a row in one arm are missing outcomes, not another set of units: as many as
  the implied plan allows to be lost.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import NamedTuple

from fairtrial.ledger.errors import Problem, ProtocolError

__all__ = ("ALONE_MAX", "Overlap", "check_overlap", "overlap_of")

# The share of lost units that the plan of `ledger init --from` allows.
ALONE_MAX = 0.02


class Overlap(NamedTuple):
    """The units of two arms: of each alone, in the order of the table, and those of both."""

    names: tuple[str, str]
    alone: tuple[tuple[str, ...], tuple[str, ...]]
    both: frozenset[str]

    @property
    def total(self) -> int:
        """Units of either arm."""
        return len(self.both) + len(self.alone[0]) + len(self.alone[1])

    def note(self) -> str:
        """Returns what a report says where only the common units are compared."""
        left = self.total - len(self.both)
        return f"{len(self.both)} of {self.total} units are in both arms; {left} are left out"


def overlap_of(names: tuple[str, str], first: Collection[str], second: Collection[str]) -> Overlap:
    """Returns which units two arms share.

    Args:
        names: The two arms.
        first: Units of the first arm, in the order of the table.
        second: Units of the second.
    """
    in_first, in_second = frozenset(first), frozenset(second)
    return Overlap(
        names,
        (
            tuple(unit for unit in dict.fromkeys(first) if unit not in in_second),
            tuple(unit for unit in dict.fromkeys(second) if unit not in in_first),
        ),
        in_first & in_second,
    )


def check_overlap(found: Overlap, *, file: str, wanted: bool) -> None:
    """Refuses arms of different units.

    Args:
        found: The units of the arms.
        file: The table's name.
        wanted: The caller asked to compare the common units alone.

    Raises:
        ProtocolError: No unit is in both arms, or too many are in one alone.
    """
    if not found.both:
        raise _refusal(
            found,
            file,
            "no unit has an outcome in both arms",
            "pairs: a unit in either arm",
            "check the ids; for units in one arm each register a plan with "
            "`design: {pairing: assigned}`, which assigns them",
        )
    if not wanted and found.total - len(found.both) > ALONE_MAX * found.total:
        raise _refusal(
            found,
            file,
            "the arms have different units",
            f"the same units in both, but for {ALONE_MAX:.0%}",
            "complete the table, or compare the common units alone with --overlap",
        )


def _refusal(found: Overlap, file: str, what: str, expected: str, todo: str) -> ProtocolError:
    sides = [
        f"{len(units)} of {name} alone ({', '.join(units[:3])}{', …' if len(units) > 3 else ''})"
        for name, units in zip(found.names, found.alone, strict=True)
        if units
    ]
    problem = Problem(
        what=what,
        where="unit",
        expected=expected,
        found=f"{len(found.both)} of {found.total} units in both arms; {'; '.join(sides)}",
        todo=todo,
    )
    return ProtocolError((problem,), file=file)
