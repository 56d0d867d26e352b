"""Receipts: a head of a ledger in one line, to be kept outside it.

Leaves the copies beside a ledger to `trial.py`, and comparing heads to `ledger.claims`.

Rules:
- A receipt is `fairtrial:LEDGER@SIZE#ROOT`, found wherever in a text it stands.
"""

from __future__ import annotations

import base64
import re
from pathlib import Path
from typing import NamedTuple

from fairtrial.ledger.errors import RefusedError
from fairtrial.ledger.events import Head

__all__ = ("Receipt", "parse_receipt", "receipt_line")

_RECEIPT = re.compile(r"fairtrial:([0-9a-f]{32})@([1-9][0-9]{0,15})#([A-Za-z0-9+/]{43}=)")


class Receipt(NamedTuple):
    """A head of a ledger as kept outside it."""

    ledger: str
    size: int
    root: bytes


def receipt_line(ledger: str, head: Head) -> str:
    """Returns the receipt of a head: `fairtrial:LEDGER@SIZE#ROOT`."""
    root = base64.b64encode(bytes.fromhex(head.root)).decode()
    return f"fairtrial:{ledger}@{head.size}#{root}"


def parse_receipt(text: str, *, file: Path | None = None) -> Receipt:
    """Returns the receipt in a line, wherever in the text it stands.

    Args:
        text: The line, or what a file holds.
        file: That file; None: the text was given in its place, and names no file either.

    Raises:
        RefusedError: The text holds no receipt.
    """
    match = _RECEIPT.search(text)
    if match is None:
        raise _no_receipt(text, file)
    return Receipt(match[1], int(match[2]), base64.b64decode(match[3]))


def _no_receipt(text: str, file: Path | None) -> RefusedError:
    what, expected = "the text holds no receipt", "fairtrial:<32 hex digits>@<size>#<base64 root>"
    todo = "copy the whole line that a writing command printed last"
    if file is not None:
        return RefusedError(what, where=str(file), expected=expected, found=text[:120], todo=todo)
    return RefusedError(
        what,
        expected=f"{expected}, or a file that holds one",
        found=f"{text[:120]}, and no file of that name" if text else "nothing",
        todo=f"{todo}, or correct the path of the file",
    )
