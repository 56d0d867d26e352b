"""Signs the head of a ledger, and remembers outside the ledger what was signed last.

Leaves key files to `keys.py`, and when a head is signed to `anchoring.py`.

Rules:
- The bytes are read back from the medium and the root is computed again before anything is signed.
- A head is signed only if it is the one signed last, or one that it grew from: both roots are
  computed in one pass over the same bytes.
- The record is replaced under a lock, whole and synced, before the signature is given out. So there
  may be a record without its note, and never a note without its record.
- A record that can't be read stops the signing: what was signed must not be forgotten.
"""

from __future__ import annotations

from pathlib import Path
from typing import Literal

import msgspec

from fairtrial.ledger.checkpoint import Checkpoint, SigningKey, sign_checkpoint
from fairtrial.ledger.durable import create_folder, write_file
from fairtrial.ledger.errors import ForkedError, IntegrityError, RolledBackError, StoreError
from fairtrial.ledger.events import Head
from fairtrial.ledger.locks import file_lock
from fairtrial.ledger.log import LogStore
from fairtrial.ledger.merkle import CompactRange
from fairtrial.ledger.note import format_vkey
from fairtrial.ledger.regular import read_regular

__all__ = ("HeadRecord", "read_record", "roots_at", "sign_head")

LOCK_SECONDS = 60.0
_BYTES_MAX = 1 << 16


class HeadRecord(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The last head of a ledger that was signed on this machine."""

    v: Literal[1]
    ledger: str
    origin: str
    vkey: str
    size: int
    root: str


def _record_path(folder: Path, ledger: str) -> Path:
    return folder / "heads" / f"{ledger}.json"


def read_record(folder: Path, ledger: str) -> HeadRecord | None:
    """Returns what was signed last of a ledger, None when nothing was.

    Args:
        folder: The folder of what is remembered outside ledgers.
        ledger: The ledger's id.

    Raises:
        StoreError: The record can't be read.
    """
    path = _record_path(folder, ledger)
    try:
        _check_no_dead_end(path)
        return msgspec.json.decode(read_regular(path, bytes_max=_BYTES_MAX), type=HeadRecord)
    except FileNotFoundError:
        return None
    except (OSError, ValueError, msgspec.MsgspecError) as error:
        raise StoreError(
            "the record of what was signed last can't be read, so nothing is signed or added",
            where=str(path),
            found=str(error),
            todo="restore it from a copy; without one, compare the ledger with a receipt that was"
            " kept elsewhere (ledger replay --against), then remove the file",
        ) from error


def _check_no_dead_end(path: Path) -> None:
    """Refuses a link that leads nowhere, which isn't the same as that nothing was ever signed."""
    for place in (path, path.parent, path.parent.parent):
        if place.is_symlink() and not place.exists():
            raise OSError(f"{place} is a link that leads nowhere")


def roots_at(store: LogStore, sizes: set[int]) -> dict[int, bytes]:
    """Returns the roots at these sizes from the stored bytes, as far as the ledger reaches."""
    tree, roots = CompactRange(), {}
    if 0 in sizes:
        roots[0] = tree.root()
    for leaf in store.leaves(0, max(sizes, default=0)):
        tree.append(leaf)
        if tree.size in sizes:
            roots[tree.size] = tree.root()
    return roots


def sign_head(
    store: LogStore,
    head: Head,
    *,
    ledger: str,
    origin: str,
    key: SigningKey,
    folder: Path,
    known: tuple[Checkpoint, ...] = (),
) -> bytes:
    """Returns the signed note of a head.

    Args:
        store: The ledger's medium.
        head: The head as folded.
        ledger: The ledger's id.
        origin: The ledger's origin, the name under which the key signs.
        key: The key.
        folder: The folder of what is remembered outside ledgers.
        known: Heads that the same key is known to have signed.

    Raises:
        IntegrityError: The bytes have another root, or aren't a continuation of what was signed.
        StoreError: The record can't be read or written.
    """
    path = _record_path(folder, ledger)
    create_folder(path.parent)
    with file_lock(path.with_suffix(".lock"), timeout_seconds=LOCK_SECONDS, what="sign a head"):
        record = read_record(folder, ledger)
        earlier = {one.size: one.root for one in known}
        if record is not None:
            _same(
                bytes.fromhex(record.root),
                earlier.get(record.size),
                record.size,
                "signed",
                error=ForkedError,
            )
            earlier[record.size] = bytes.fromhex(record.root)
        roots = roots_at(store, {head.size, *earlier})
        _same(bytes.fromhex(head.root), roots.get(head.size), head.size, "folded")
        for size, root in sorted(earlier.items()):
            _check_grown(head, size, root, roots.get(size), path)
        note = sign_checkpoint(Checkpoint(origin, head.size, roots[head.size]), key)
        now = HeadRecord(
            v=1,
            ledger=ledger,
            origin=origin,
            vkey=format_vkey(key.verifier(origin)),
            size=head.size,
            root=head.root,
        )
        write_file(path, msgspec.json.encode(now) + b"\n")
    return note


def _same(
    expected: bytes,
    found: bytes | None,
    size: int,
    what: str,
    *,
    error: type[IntegrityError] = IntegrityError,
) -> None:
    if found is not None and found != expected:
        raise error(
            f"the ledger isn't the one that was {what}: nothing is signed",
            where=f"root of {size} entries",
            expected=expected.hex(),
            found=found.hex(),
            todo="ledger replay; nobody should write to it before that is explained",
        )


def _check_grown(head: Head, size: int, root: bytes, found: bytes | None, path: Path) -> None:
    """Refuses a head that isn't a continuation of one signed before."""
    if size > head.size:
        raise RolledBackError(
            "a longer ledger was signed before: this one was cut, or an older copy was put back",
            where=str(path),
            expected=f"at least {size} entries",
            found=f"{head.size} entries",
            todo="put the newest copy back; ledger replay --against RECEIPT shows what is missing",
        )
    _same(root, found, size, "signed before", error=ForkedError)
    if found is None:
        raise IntegrityError(
            "the ledger became shorter while it was read",
            where=str(path),
            expected=f"at least {size} entries",
            found="fewer",
            todo="let nobody replace the file meanwhile, then run the same command again",
        )
