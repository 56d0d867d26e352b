"""Asks, before anything is added to a ledger, what this machine remembers of it.

Leaves writing receipts to `trial.py`, and the record of signed heads to `heads.py`.

Rules:
- The newest receipt beside the ledger guards against accidents: it is copied along with the ledger.
- The record of the head that was signed last lies elsewhere, so it knows an older copy that was put
  back. It is asked whether or not a key is named now, before anything is spent.
- A ledger shorter than what is remembered was rolled back; one with another root was forked.
- A last entry that lacks no more than its newline counts: the recovery that follows completes it.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple

from fairtrial.ledger.errors import ForkedError, RefusedError, RolledBackError
from fairtrial.ledger.log import Log
from fairtrial.ledger.merkle import root_of
from fairtrial.ledger.regular import read_regular

from .heads import read_record
from .places import state_folder
from .receipts import Receipt, parse_receipt

__all__ = ("check_remembered",)

_TODO = "put the newest copy back; ledger replay --against RECEIPT shows what is missing"
# A receipt is one line; whoever keeps words beside it has room for them.
_BYTES_MAX = 1 << 16


def check_remembered(
    log: Log, side: Path, environment: Mapping[str, str], *, ahead: bytes | None = None
) -> None:
    """Checks a ledger against the receipts beside it and the head that was signed last.

    Args:
        log: The ledger, folded.
        side: The folder beside it.
        environment: Where this machine remembers what it signed.
        ahead: The leaf of a whole entry after the last one, whose line isn't ended yet.

    Raises:
        RolledBackError: The ledger is shorter than it was.
        ForkedError: It has another root than it had.
        StoreError: The record of what was signed can't be read.
    """
    newest = _newest_receipt(side / "receipts")
    if newest is not None and newest[1].ledger == log.ledger:
        path, receipt = newest
        what = "the ledger isn't the one that the receipt beside it was given for"
        _check(_Held(log, ahead), receipt.size, receipt.root, what, path)
    try:
        folder = state_folder(environment)
    except RuntimeError:
        # Without a home folder nothing can have been remembered.
        return
    record = read_record(folder, log.ledger)
    if record is not None:
        what = "the ledger isn't the one that was signed on this machine: nothing is added to it"
        _check(_Held(log, ahead), record.size, bytes.fromhex(record.root), what, folder)


class _Held(NamedTuple):
    """A folded ledger, and the leaf of a whole entry that only lacks its newline."""

    log: Log
    ahead: bytes | None

    @property
    def size(self) -> int:
        """Entries that are there."""
        return self.log.state.size + (self.ahead is not None)

    def root_at(self, size: int) -> bytes:
        """Returns the root of the first entries."""
        if self.ahead is None or size <= self.log.state.size:
            return self.log.root_at(size)
        return root_of([*self.log.store.leaves(0, size - 1), self.ahead])


def _check(held: _Held, size: int, root: bytes, what: str, where: Path) -> None:
    """Refuses a ledger that doesn't begin with a head that it had."""
    expected = f"at least {size} entries, those with the root {root.hex()}"
    if size > held.size:
        found = f"{held.size} entries"
        raise RolledBackError(what, where=str(where), expected=expected, found=found, todo=_TODO)
    found_root = held.root_at(size)
    if found_root != root:
        found = f"root {found_root.hex()}"
        raise ForkedError(what, where=str(where), expected=expected, found=found, todo=_TODO)


def _newest_receipt(folder: Path) -> tuple[Path, Receipt] | None:
    """Returns the receipt of the largest size in a folder, passing over files that hold none."""
    for path in sorted(folder.glob("*-*.txt"), key=_receipt_size, reverse=True):
        try:
            data = read_regular(path, bytes_max=_BYTES_MAX)
            return path, parse_receipt(data.decode(), file=path)
        except (RefusedError, UnicodeDecodeError, OSError):
            # Who can damage it could delete it: it guards against accidents alone.
            continue
    return None


def _receipt_size(path: Path) -> int:
    digits = path.name.partition("-")[0]
    return int(digits) if digits.isdecimal() and len(digits) < 16 else 0
