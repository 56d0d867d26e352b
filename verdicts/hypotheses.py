"""What each endpoint's p is held against, for who reads it. Pure.

Leaves the null itself to `readings.py`, the p to `estimates.py` and `saving.py`.

Rules:
- A primary or harm endpoint is tested at its margin, the endpoint of a saving at the share that has
  to be saved; what decides nothing at no difference.
- On the log scale a difference is the logarithm of a ratio, and so is its null.
"""

from __future__ import annotations

import msgspec

from fairtrial.ledger.protocol import Protocol

from .boundaries import Test, tests_of
from .readings import null_of

__all__ = ("Against", "hypotheses_of")


class Against(msgspec.Struct, frozen=True, kw_only=True):
    """What a p is held against.

    Attributes:
        difference: the null on the endpoint's own scale; None for a saving.
        saving: the share of control's mean that has to be saved; None for anything else.
    """

    difference: float | None = None
    saving: float | None = None


def hypotheses_of(protocol: Protocol) -> dict[str, Against]:
    """Returns what the p of each endpoint of a comparison is held against, by its name."""
    if protocol.kind == "decision_rule":
        return {}
    found = {endpoint.name: Against(difference=0.0) for endpoint in protocol.endpoints}
    return found | {test.endpoint.name: _against(protocol, test) for test in tests_of(protocol)}


def _against(protocol: Protocol, test: Test) -> Against:
    if test.role == "saving":
        assert protocol.decision.saving is not None, "a saving is registered where one is tested"
        return Against(saving=protocol.decision.saving.at_least)
    return Against(difference=null_of(protocol, test))
