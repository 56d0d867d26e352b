"""The key that seals cached projections: one of this machine's user, outside every ledger.

Leaves the seal to `ledger.projection`.

Rules:
- Without a key there is no cache, which costs time and nothing else.
- Only an act that writes makes the key; it is readable by its owner alone.
"""

from __future__ import annotations

import os
import secrets
from collections.abc import Mapping
from pathlib import Path

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
    temporary = path.with_name(f"{path.name}.{os.getpid()}.tmp")
    descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    with os.fdopen(descriptor, "wb") as file:
        file.write(secrets.token_bytes(KEY_BYTES))
    try:
        # Whoever was first keeps its key.
        os.link(temporary, path)
    except FileExistsError:
        return
    finally:
        temporary.unlink()
