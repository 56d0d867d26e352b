"""Labels and commitments of blinded arms. Pure.

Leaves when arms are opened to the fold (`end_rules.py`), where salts lie until then to the engine.

Rules:
- Arms are X, Y, Z, L4, L5, ... in an order drawn from the salts, never in that of the file.
- A commitment is a SHA-256 over a domain, experiment, label, arm and a salt of 32 random bytes: a
  bare hash of an arm's name would be found by trying the few names that there are.
- What names arms or comparisons in readable events of a blinded experiment is coded by place in the
  protocol, which says nothing of labels.
"""

from __future__ import annotations

import secrets
from collections.abc import Iterable, Mapping
from hashlib import sha256

from .events import AttemptEnd, Decision

__all__ = (
    "SALT_BYTES",
    "arm_labels",
    "coded_comparison",
    "commitment",
    "drawn_labels",
    "new_salt",
    "tells_arms_apart",
)

SALT_BYTES = 32
_FIRST = ("X", "Y", "Z")


def new_salt() -> str:
    """Returns a salt of 32 random bytes, in hex."""
    return secrets.token_hex(SALT_BYTES)


def arm_labels(count: int) -> tuple[str, ...]:
    """Returns the labels of so many blinded arms, in the order that they are drawn in."""
    return tuple(
        _FIRST[place] if place < len(_FIRST) else f"L{place + 1}" for place in range(count)
    )


def commitment(experiment: str, label: str, arm: str, salt: str) -> str:
    """Returns what a freeze says of an arm until it is opened, in hex.

    Args:
        experiment: The experiment's name.
        label: The label that stands for the arm.
        arm: The arm's name in the protocol.
        salt: 64 hex digits.
    """
    return _digest("commitment", experiment, label, arm, salt)


def drawn_labels(experiment: str, salts: Mapping[str, str]) -> dict[str, str]:
    """Returns the label of each arm, given the arms' salts."""
    keys = {arm: _digest("label", experiment, arm, salt) for arm, salt in salts.items()}
    return dict(zip(sorted(keys, key=keys.__getitem__), arm_labels(len(keys)), strict=True))


def coded_comparison(names: Iterable[str]) -> dict[str, str]:
    """Returns what stands for each comparison, by its place in the protocol."""
    return {name: f"comparison {place}" for place, name in enumerate(names, start=1)}


def tells_arms_apart(event: Decision | AttemptEnd) -> bool:
    """Returns whether the readable part of an ending holds what would tell arms apart."""
    values: tuple[object, ...] = (event.cost_nanousd, event.incurred_nanousd, event.duration_ms)
    if isinstance(event, Decision):
        values += (event.requested_model, event.served_model, event.source)
    return bool(event.tokens or event.artifacts) or any(value is not None for value in values)


def _digest(use: str, *parts: str) -> str:
    # No part holds a NUL: names are letters and digits, salts are hex.
    return sha256("\0".join((f"fairtrial/1/{use}", *parts)).encode()).hexdigest()
