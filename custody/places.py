"""Where things lie that are kept outside every ledger: keys, and what a machine remembers.

Leaves what lies there to `keys.py`, `heads.py` and `cache_key.py`; makes nothing.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

__all__ = ("key_folder", "state_folder")


def key_folder(environment: Mapping[str, str]) -> Path:
    """Returns the folder of the key files."""
    return _folder(environment, "FAIRTRIAL_KEYS", "XDG_CONFIG_HOME", ".config", "keys")


def state_folder(environment: Mapping[str, str]) -> Path:
    """Returns the folder of what is remembered outside every ledger."""
    return _folder(environment, "FAIRTRIAL_STATE", "XDG_STATE_HOME", ".local/state", "")


def _folder(environment: Mapping[str, str], own: str, base: str, home: str, inner: str) -> Path:
    if environment.get(own):
        return Path(environment[own]).absolute()
    # The XDG specification has relative paths ignored.
    given = Path(environment.get(base, ""))
    root = given if given.is_absolute() else Path.home() / home
    return root / "fairtrial" / inner
