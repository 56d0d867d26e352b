"""What the formula's power is about, and why there is none: the protocol's side of it. Pure.

Leaves the numbers to `power_values.py`, the sentences to the command line.

Rules:
- The icc is that of `power.assume`, else that of the looks, else 0 where units are single.
- The formula is that of t: it says nothing of limits at any time, nor of an AUC or a precision.
"""

from __future__ import annotations

import msgspec

from fairtrial.ledger.protocol import Protocol, primaries

from .boundaries import BY_CLUSTER, is_anytime
from .wording import differences_in, in_points

__all__ = ("PowerTerms", "lacking_assumption", "power_terms")


class PowerTerms(msgspec.Struct, frozen=True, kw_only=True):
    """What a power by formula means.

    Attributes:
        rule: the first of the registered rules, with its `margin`.
        points: differences are shares.
        measured_in: what differences are measured in; None where that isn't known.
        discordance: assumed by the protocol, as are `sd`, `icc` and `missing`.
        why_not: why the formula knows no power; None where it does.
    """

    rule: str
    margin: float
    points: bool
    measured_in: str | None = None
    discordance: float | None
    sd: float | None
    icc: float | None
    missing: float
    why_not: str | None


def power_terms(protocol: Protocol) -> PowerTerms:
    """Returns what the formula's power of a plan is about."""
    assume = protocol.power.assume
    return PowerTerms(
        rule=protocol.decision.rule[0],
        margin=protocol.decision.margin or 0.0,
        points=in_points(primaries(protocol)[0]),
        measured_in=differences_in(protocol).get(primaries(protocol)[0].name),
        discordance=assume.discordance,
        sd=assume.sd,
        icc=_icc(protocol),
        missing=assume.missing or 0.0,
        why_not=_why_not(protocol),
    )


def lacking_assumption(protocol: Protocol) -> str | None:
    """Returns what is missing among the assumptions of a plan; None where nothing is."""
    assume = protocol.power.assume
    spread = "discordance" if assume.discordance is not None else "sd"
    if assume.discordance is None and assume.sd is None:
        if assume.icc is None:
            return "nothing is assumed of the spread"
        return "power.assume has an icc and no spread: discordance or sd is missing"
    if _icc(protocol) is None:
        return f"power.assume has {spread} and no icc: icc is missing"
    return None


def _why_not(protocol: Protocol) -> str | None:
    if is_anytime(protocol):
        return "there is no formula for looks at any time; `ledger power` simulates them"
    kind = primaries(protocol)[0].type
    if kind in BY_CLUSTER:
        return f"there is no formula for type {kind}"
    return lacking_assumption(protocol)


def _icc(protocol: Protocol) -> float | None:
    own = protocol.power.assume.icc
    icc = protocol.looks.icc if own is None else own
    return 0.0 if icc is None and protocol.units.cluster is None else icc
