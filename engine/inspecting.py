"""The facade's reading half: status, entries, replay, copies of a ledger.

Leaves acts that append to `session.py`.

Rules:
- Nothing is created or written beside the ledger that is read.
- What only some of these acts need is imported by those: reading a log loads no numbers.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from fairtrial.custody.sealing import Seals
from fairtrial.custody.trial import (
    Reader,
    Trial,
    check_begun,
    open_trial,
    parse_receipt,
    receipt_line,
)
from fairtrial.ledger.claims import BESIDE
from fairtrial.ledger.entry import parse_entry
from fairtrial.ledger.errors import LedgerError, RefusedError, StoreError, visible
from fairtrial.ledger.events import AttemptEnd, Blob, Decision, Event, Head, Unblind
from fairtrial.ledger.findings import Claim, ReplayReport
from fairtrial.ledger.given import given_path, read_text
from fairtrial.ledger.log import find_event
from fairtrial.ledger.merkle import root_of
from fairtrial.ledger.opening import blob_store, nearest_ledger, open_store
from fairtrial.ledger.state import PlanColumns

from .status import Status, status_of

if TYPE_CHECKING:
    from fairtrial.custody.file_findings import NamedBlobs
    from fairtrial.custody.vouching import Pins

__all__ = (
    "Copied",
    "Shown",
    "artifact_of",
    "entry_of",
    "export_ledger",
    "holds_several",
    "import_ledger",
    "read_log",
    "registered_protocol",
    "replay_ledger",
    "revealed_arms",
    "show_event",
    "status",
)


class Copied(NamedTuple):
    """A copy of a ledger: its size and receipt, equal to those of what was copied.

    `left_out` counts the bytes after the last whole entry of what was copied, which are torn; and
    `blobs` what the entries name, and what of it isn't beside the copy since it wasn't there.
    """

    size: int
    receipt: str
    left_out: int
    blobs: NamedBlobs


class Shown(NamedTuple):
    """One entry with what it says; `opened` is what was sealed in it, once that may be seen."""

    seq: int
    leaf: str
    entry: bytes
    event: Event
    opened: Event | None = None


def status(ledger: Path, name: str | None = None) -> list[Status]:
    """Returns the status of one experiment, or of all."""
    with open_trial(ledger, read_only=True, rehash=False) as trial:
        if name is not None or len(trial.log.state.experiments) == 1:
            return [status_of(trial, trial.experiment(name))]
        return [status_of(trial, known) for known in trial.log.state.experiments.values()]


def holds_several(ledger: Path) -> bool:
    """Returns whether a command on a ledger has to say which experiment it means."""
    with open_trial(ledger, read_only=True, rehash=False) as trial:
        return len(trial.log.state.experiments) > 1


def entry_of(trial: Trial, seq: int) -> Shown:
    """Returns one entry of an open ledger.

    Raises:
        RefusedError: There is no such entry.
    """
    if not 0 <= seq < trial.log.state.size:
        raise RefusedError(
            "the ledger has no such entry",
            where=f"entry {seq}",
            expected=f"0 to {trial.log.state.size - 1}",
            found=str(seq),
            todo="ledger log",
        )
    for entry, event in trial.log.read(seq, seq + 1):
        return Shown(seq, entry.leaf().hex(), entry.data, event)
    raise AssertionError("an entry below the size exists")


def show_event(ledger: Path, seq: int) -> Shown:
    """Returns one entry, with what was sealed in it once the arms are unblinded."""
    with open_trial(ledger, read_only=True, rehash=False) as trial:
        shown = entry_of(trial, seq)
        return shown._replace(opened=_opened(trial, shown))


def _opened(trial: Trial, shown: Shown) -> Event | None:
    opened = Seals(trial).shown(trial.log.state, shown.seq, shown.event)
    return None if opened is shown.event else opened


def revealed_arms(ledger: Path, experiment: str) -> dict[str, str]:
    """Returns which arm was behind each label of an experiment; empty before `unblind`.

    Serves damaged ledgers too: where it can't be read, nothing is revealed.
    """
    store = open_store(ledger.absolute(), read_only=True)
    try:
        event = find_event(store, experiment, "unblind", number=1)
    except LedgerError:
        event = None
    finally:
        store.close()
    return {arm.name: arm.arm for arm in event.arms} if isinstance(event, Unblind) else {}


def artifact_of(ledger: Path, seq: int, name: str) -> bytes:
    """Returns the bytes that an attempt or an outcome kept under a name, such as stderr.

    Raises:
        RefusedError: The entry keeps nothing under that name, or it was erased on record.
        StoreError: The bytes aren't there.
    """
    with open_trial(ledger, read_only=True, rehash=False) as trial:
        shown = entry_of(trial, seq)
        event = _opened(trial, shown) or shown.event
        if isinstance(event, (AttemptEnd, Decision)) and event.sealed is not None:
            raise RefusedError(
                "what a blinded arm has written is sealed",
                where=f"entry {seq}",
                todo="ledger unblind opens it",
            )
        kept = event.artifacts if isinstance(event, (AttemptEnd, Decision)) else {}
        if name not in kept:
            raise RefusedError(
                "the entry keeps nothing under this name",
                where=f"entry {seq}",
                expected=" or ".join(kept) or "the end of an attempt, or an outcome",
                found=name,
                todo="ledger log --kind attempt_end; ledger log --kind outcome",
            )
        return trial.read_blob(kept[name])


def registered_protocol(ledger: Path, name: str | None) -> bytes:
    """Returns the protocol's bytes in force."""
    with open_trial(ledger, read_only=True, rehash=False) as trial:
        return trial.blobs.get(trial.experiment(name).protocol)


def read_log(ledger: Path, *, start: int = 0, stop: int | None = None) -> Iterator[bytes]:
    """Yields stored entries, exactly their bytes; checks nothing."""
    store = open_store(ledger.absolute(), read_only=True)
    try:
        check_begun(store.tail().size, ledger)
        yield from store.read(start, stop)
    finally:
        store.close()


def replay_ledger(
    ledger: Path,
    *,
    against: Sequence[str] = (),
    checkpoints: Sequence[Path] = (),
    pins: Pins | None = None,
    with_numbers: bool = True,
    with_files: bool = True,
) -> ReplayReport:
    """Verifies a ledger without writing anything.

    Args:
        ledger: The ledger's file.
        against: Receipt lines, or names of files that hold one.
        checkpoints: Signed heads from elsewhere.
        pins: Keys, origin, policy and certificates from elsewhere (`vouching.read_pins`).
        with_numbers: Whether looks and results are computed again.
        with_files: Whether registered files and blobs are compared.

    Raises:
        StoreError: The ledger can't be read at all.
        RefusedError: A receipt isn't one.
    """
    # The numbers load numpy and scipy, which no other reading act needs.
    from fairtrial.custody import vouching as v
    from fairtrial.custody.file_findings import file_findings
    from fairtrial.ledger.replay import replay

    from .recomputing import recompute

    path = ledger.absolute()
    claims = [_claim(text, path) for text in against]
    store = open_store(path, read_only=True)
    try:
        reader = Reader(path, store)
        notes = [v.read_note(one, reader.side) for one in checkpoints]
        vouching = v.Vouching(reader, pins or v.Pins(), [*notes, *v.notes_beside(reader.side)])
        return replay(
            store,
            plan_of=lambda blob: _plan_columns(reader, blob),
            claims=claims,
            sizes=vouching.sizes(),
            vouch=vouching,
            numbers=(lambda cases: recompute(reader, cases)) if with_numbers else None,
            files=(lambda state: file_findings(reader, state)) if with_files else None,
        )
    finally:
        store.close()


def _plan_columns(reader: Reader, blob: Blob) -> PlanColumns | None:
    """Returns a plan, None when its bytes are missing or damaged: that is a finding of `files`.

    Raises:
        IntegrityError: The bytes are those of the record, and no plan.
    """
    try:
        return reader.read_columns(blob)
    except LedgerError:
        if not _is_whole(reader, blob):
            return None
        raise


def _is_whole(reader: Reader, blob: Blob) -> bool:
    try:
        reader.blobs.get(blob)
    except LedgerError:
        return False
    return True


def _claim(text: str, ledger: Path) -> Claim:
    # Loaded when a replay needs it, as the numbers are.
    from fairtrial.custody.vouching import is_named_beside

    path = given_path(text)
    receipt = parse_receipt(text if path is None else read_text(path), file=path)
    source = "receipt given by you" if path is None else f"receipt in {visible(path.name)}"
    is_beside = path is not None and is_named_beside(text, ledger)
    level = BESIDE if is_beside else "receipt"
    return Claim(receipt.ledger, receipt.size, receipt.root, source, level)


def export_ledger(ledger: Path, target: Path) -> Copied:
    """Copies a ledger with its blobs into a new file; the target's suffix picks the store.

    Raises:
        IntegrityError: The ledger contradicts itself.
        StoreError: The target exists, or a medium failed.
    """
    from fairtrial.custody.file_findings import count_blobs
    from fairtrial.ledger.transfer import copy_ledger

    store = open_store(ledger.absolute(), read_only=True)
    try:
        check_begun(store.tail().size, ledger)
        # Before a copy stands: a seal that can't be read is refused.
        blobs = count_blobs(Reader(ledger.absolute(), store))
        size, _ = copy_ledger(store, target.absolute(), blobs=blob_store(ledger.absolute()))
        first = next(store.read(0, 1), b"")
        torn = store.torn()
    finally:
        store.close()
    copy = open_store(target.absolute(), read_only=True)
    try:
        # Not folded: what a newer version wrote is copied all the same.
        head = Head(size=size, root=root_of(copy.leaves()).hex())
    finally:
        copy.close()
    receipt = receipt_line(parse_entry(first).ledger, head) if first else ""
    return Copied(size, receipt, torn.length if torn is not None else 0, blobs)


def import_ledger(source: Path, ledger: Path) -> Copied:
    """Takes over a whole ledger from a file of either store.

    Raises:
        IntegrityError: The source contradicts itself.
        StoreError: The target exists, or a medium failed.
    """
    if not source.exists():
        raise StoreError(
            "there is no ledger to take over",
            where=str(source.absolute()),
            expected="the file of a ledger, .db or .jsonl",
            todo=nearest_ledger(source)
            or "correct the path of SOURCE; --ledger is the new ledger's",
        )
    return export_ledger(source, ledger)
