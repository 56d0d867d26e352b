"""Sets aside what a crash left after the last whole entry, and puts that on record.

Leaves it to the stores to say what is torn and to move the bytes.

Rules:
- Only an act that writes does it, before anything else of it; reading repairs nothing.
- The bytes stand in a file of their own before they leave the ledger. The entry that names them
  comes after: an opening that is killed in between is made good by the next one.
- A whole entry that only lacked its newline is completed; nothing was lost, so nothing is recorded.
"""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from fairtrial.ledger.canonical import sha256_hex
from fairtrial.ledger.events import Recover
from fairtrial.ledger.opening import side_folder
from fairtrial.ledger.port import LogStore
from fairtrial.ledger.state import State, next_number

if TYPE_CHECKING:
    from .trial import Trial

__all__ = ("record_torn", "set_torn_aside")


def set_torn_aside(store: LogStore, ledger: Path) -> None:
    """Moves torn bytes into quarantine, under the append lock."""
    if store.torn() is not None:
        store.recover(_quarantine(ledger))


def record_torn(trial: Trial) -> None:
    """Appends an entry for each file in quarantine that none names yet."""
    files = sorted(_quarantine(trial.path).glob(f"{trial.path.name}-*.torn"))
    if not files:
        return
    events = (event for _, event in trial.read())
    known = {(one.offset, one.sha256) for one in events if isinstance(one, Recover)}
    for file in files:
        data = file.read_bytes()
        offset, digest = int(file.stem.split("-")[-2]), sha256_hex(data)
        if (offset, digest) not in known:
            trial.append(partial(_event, offset=offset, length=len(data), sha256=digest))


def _quarantine(ledger: Path) -> Path:
    return side_folder(ledger) / "quarantine"


def _event(state: State, *, offset: int, length: int, sha256: str) -> Recover:
    number = next_number(state, "recover", "")
    return Recover(number=number, offset=offset, length=length, sha256=sha256)
