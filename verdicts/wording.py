"""What the sentences of reasons and findings call things: the protocol's own words. Pure.

Leaves the sentences themselves to `analysis/reasons.py`.

Rules:
- A column's name is the noun: units in column `ticket` are tickets, a cluster in column `customer`
  is a customer. A name that is no word (`id`, `x1`) gives way to unit and cluster.
- Where each unit is its own cluster, the cluster's noun is the unit's.
- A difference of shares is said in percentage points, any other as a plain number; what money,
  tokens and time are measured in is known of the field that an endpoint is of.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence

from fairtrial.analysis.reasons import Facts, reason_sentence
from fairtrial.analysis.verdict import ReasonCode
from fairtrial.ledger.protocol import Comparison, Endpoint, Protocol
from fairtrial.protocols.assigning import is_assigned

from .boundaries import guards_of
from .slot_values import YES_OR_NO

__all__ = (
    "cluster_noun",
    "differences_in",
    "in_points",
    "measured_in",
    "plan_facts",
    "plural",
    "sentence",
    "unit_noun",
)

# What the fields of an outcome that have a unit are measured in.
_MEASURES = {"usd": "usd", "usd_incurred": "usd", "tokens": "tokens", "duration_seconds": "s"}
_WORD = re.compile(r"[a-z][a-z]+(?:[_ -][a-z]+)*", re.IGNORECASE)


def unit_noun(protocol: Protocol) -> str:
    """Returns what one unit is called."""
    name = re.sub(r"[_ -]?id$", "", protocol.units.id, flags=re.IGNORECASE)
    return _words(name, "unit")


def cluster_noun(protocol: Protocol) -> str:
    """Returns what one cluster is called."""
    if protocol.units.cluster is None:
        return unit_noun(protocol)
    name = re.sub(r"[_ -]?id$", "", protocol.units.cluster, flags=re.IGNORECASE)
    return _words(name, "cluster")


def plural(noun: str) -> str:
    """Returns the plural of a noun."""
    if noun.endswith("y") and noun[-2:-1] not in tuple("aeiou"):
        return noun[:-1] + "ies"
    return noun + ("es" if noun.endswith(("s", "x", "ch", "sh")) else "s")


def in_points(endpoint: Endpoint) -> bool:
    """Returns whether differences of an endpoint are differences of shares."""
    share = endpoint.type in (*YES_OR_NO, "win_rate") or endpoint.bounds == (0.0, 1.0)
    return share and endpoint.scale == "raw"


def measured_in(protocol: Protocol) -> dict[str, str]:
    """Returns what the numbers of each endpoint are measured in; those of others are left out."""
    return {
        one.name: _MEASURES[one.value]
        for one in protocol.endpoints
        if one.value in _MEASURES and not in_points(one) and one.type != "win_rate"
    }


def differences_in(protocol: Protocol) -> dict[str, str]:
    """Returns what differences of each endpoint are measured in: those of logarithms in nothing."""
    logarithms = {one.name for one in protocol.endpoints if one.scale == "log"}
    return {name: unit for name, unit in measured_in(protocol).items() if name not in logarithms}


def plan_facts(
    protocol: Protocol, comparison: Comparison, endpoint: Endpoint, clusters: Sequence[str]
) -> Facts:
    """Returns the facts of a reason as far as units and clusters tell them.

    Args:
        protocol: whose words are used.
        comparison: its arms, by name.
        endpoint: the endpoint that the reason is about.
        clusters: the cluster of each unit that counts.
    """
    sizes = Counter(clusters)
    largest = min(sizes, key=lambda name: (-sizes[name], name), default="")
    return Facts(
        control=comparison.control,
        treatment=comparison.treatment,
        endpoint=endpoint.name,
        unit_noun=plural(unit_noun(protocol)),
        cluster_noun=cluster_noun(protocol),
        n=len(clusters),
        clusters=len(sizes),
        largest_name=largest,
        largest_units=sizes[largest] if sizes else 0,
        effective_clusters=_effective(sizes),
        in_points=in_points(endpoint),
        from_even=endpoint.type == "win_rate",
        assigned=is_assigned(protocol),
        guards=guards_of(protocol),
    )


def sentence(protocol: Protocol, code: ReasonCode, facts: Facts) -> str:
    """Returns the reason as a clause in the protocol's words."""
    if protocol.units.cluster is None and code == "few_clusters":
        need = f"a verdict needs at least {facts.guards.min_clusters}"
        both = "" if facts.assigned else " in both arms"
        have = f"{unit_noun(protocol)} has" if facts.n == 1 else f"{facts.unit_noun} have"
        return f"only {facts.n} {have} a usable outcome{both}; {need}"
    return reason_sentence(code, facts)


def _effective(sizes: Counter[str]) -> float | None:
    if not sizes:
        return None
    counts = list(sizes.values())
    return sum(counts) ** 2 / sum(count * count for count in counts)


def _words(name: str, default: str) -> str:
    return name.replace("_", " ").lower() if _WORD.fullmatch(name) else default
