"""What a look that can't decide would need, in the protocol's own words. Pure.

Leaves whether a look may decide to `boundaries.py`.

Rules:
- One clause, the reason that comes first among the guards; each says what is there and what is
  needed.
"""

from __future__ import annotations

from fairtrial.ledger.events import LookPlan, LookTest
from fairtrial.ledger.protocol import Protocol

from .boundaries import Test, first_clusters, needs_discordance, uses_t
from .wording import cluster_noun, plural

__all__ = ("look_need",)


def look_need(protocol: Protocol, test: Test, look: LookPlan, found: LookTest) -> str:
    """Returns what an ineligible look would need before it could decide.

    Args:
        protocol: whose guards and words.
        test: which endpoint of which comparison.
        look: where the look falls.
        found: the test at this look.
    """
    guards, nouns = protocol.decision.guards, plural(cluster_noun(protocol))
    least = max(guards.min_clusters, first_clusters(protocol))
    if look.clusters < least:
        return f"at least {least} {nouns}"
    if uses_t(protocol, test.endpoint) and (found.df or 0.0) < guards.min_df:
        have = "none" if found.df is None else f"{found.df:.1f}"
        return f"at least {guards.min_df:g} degrees of freedom (there are {have}): more {nouns}"
    few = guards.min_discordant_clusters
    if needs_discordance(protocol, test.endpoint) and look.clusters < few:
        return f"at least {few} {nouns} in which the arms differ"
    if found.nominal_p < 2.0 ** (1 - look.clusters):
        return (
            f"more {nouns}, or a later place: its boundary, p {found.nominal_p:.2g}, "
            f"is below what {look.clusters} {nouns} can show"
        )
    return f"more {nouns} with units of this endpoint, or a later place"
