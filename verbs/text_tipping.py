"""The tipping point as people read it: how many lost outcomes would change the claim. Pure.

Leaves every number to the engine.

Rules:
- The fewest come first; where not all smaller numbers were tried, that is said.
- The count in run order says that it is in run order.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from .text_numbers import count, quantity

__all__ = ("tipping_lines",)

Detail = Mapping[str, Any]


def tipping_lines(tipping: Detail | None, treatment: str) -> Iterator[str]:
    """Yields how many lost outcomes would change the claim, and to what."""
    if tipping is None:
        return
    lost = quantity(tipping["lost"], "lost outcome")
    if not tipping["changes"] and not tipping["fewest"]:
        yield f"tipping point: none; no way that was tried for {lost} to end changes the claim"
    for each in tipping["fewest"]:
        few, fewer = ("as few as ", "") if each["exact"] else ("", ", perhaps with fewer")
        yield (
            f"tipping point: the claim would be {each['verdict']} with {few}{count(each['count'])}"
            f" of {lost} {each['way']} {treatment}{fewer}"
        )
    for change in tipping["changes"]:
        yield (
            f"in run order: the claim would be {change['verdict']} with"
            f" {_how_many(change, tipping['lost'])} of {lost} against {treatment}"
        )


def _how_many(change: Detail, lost: int) -> str:
    """Returns a range of counts in words."""
    least, most = change["at_least"], change["at_most"]
    if least == 0:
        return "any number" if most == lost else f"{count(most)} or fewer"
    return f"{count(least)} or more" if most == lost else f"{count(least)} to {count(most)}"
