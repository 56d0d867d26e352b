"""What to know of a plan before it runs that its stored report doesn't hold. Pure.

Leaves what is assessed and stored to `look_table.py`, and the rule itself to `analysis/verdict.py`.

Rules:
- Each warning has a code, so that programs can tell it without reading the sentence.
- It is printed and never stored: a plan on record has the report it was frozen with.
"""

from __future__ import annotations

from collections.abc import Iterator

import msgspec

from fairtrial.ledger.protocol import Protocol

from .boundaries import guards_of, needs_discordance
from .wording import cluster_noun, plural

__all__ = ("PlanWarning", "plan_warnings")


class PlanWarning(msgspec.Struct, frozen=True, kw_only=True):
    """One warning: `code` for programs, `text` for people."""

    code: str
    text: str


def plan_warnings(protocol: Protocol) -> tuple[PlanWarning, ...]:
    """Returns what a plan's author should know beside its report of power."""
    return tuple(_rare_harm(protocol))


def _rare_harm(protocol: Protocol) -> Iterator[PlanWarning]:
    least = guards_of(protocol).min_discordant_clusters
    nouns = plural(cluster_noun(protocol))
    for endpoint in protocol.endpoints:
        if endpoint.role == "harm" and needs_discordance(protocol, endpoint):
            text = (
                f"as long as harm is so rare that the arms differ in fewer than {least} {nouns} on"
                f" harm endpoint {endpoint.name}, the verdict is inconclusive, whatever the"
                " primary shows"
            )
            yield PlanWarning(code="rare_harm", text=text)
