"""The key that seals cached projections: one of this machine's user, outside every ledger.

Leaves the seal to `ledger.projection`.

Rules:
- Without a key there is no cache, which costs time and nothing else.
- Only an act that writes makes the key; it is readable by its owner alone.
"""

from __future__ import annotations

import secrets
from collections.abc import Mapping
from pathlib import Path

from fairtrial.ledger.durable import write_new

from .places import state_folder

__all__ = ("cache_key",)

KEY_BYTES = 32


def cache_key(environment: Mapping[str, str], *, create: bool) -> bytes | None:
    """Returns the key of this user, None when there is none and none can be made."""
    try:
        path = state_folder(environment) / "projection.key"
        if create and not path.exists():
            _make(path)
        key = path.read_bytes()
    except (OSError, RuntimeError):
        # RuntimeError: there is no home folder to keep anything in.
        return None
    return key if len(key) == KEY_BYTES else None


def _make(path: Path) -> None:
    path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    try:
        write_new(path, secrets.token_bytes(KEY_BYTES))
    except FileExistsError:
        # Whoever was first keeps its key.
        return
