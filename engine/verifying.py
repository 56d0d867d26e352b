"""Refuses to go on when something registered has changed, by the name of the field that differs.

Leaves the digests to `custody/files.py` and `ledger.protocol`; every refusal is an event.

Rules:
- The protocol file at its recorded place must hold the bytes in force; when it is absent the
  registered copy leads and that is said. Any other named file must be there and equal.
- A change of meaning names field, registered and found value; a change of bytes alone says so.
- A refusal holds digests of both values, never the values; it is recorded once.
"""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple, NoReturn

import msgspec

from fairtrial.custody.blinding import registered_identity
from fairtrial.custody.files import FileEntry, only_endings_differ, parse_file_list
from fairtrial.custody.trial import Trial
from fairtrial.drivers.port import Driver
from fairtrial.ledger.book_rules import REFUSALS_FULL, REFUSALS_MAX
from fairtrial.ledger.canonical import blob_of, sha256_hex
from fairtrial.ledger.errors import (
    DigestMismatchError,
    DriverError,
    LedgerError,
    ProtocolError,
    RefusedError,
)
from fairtrial.ledger.events import FrozenArm, Refuse, Register
from fairtrial.ledger.given import TABLE_BYTES_MAX
from fairtrial.ledger.protocol import changed_fields, driver_path, unnamed_field
from fairtrial.ledger.regular import read_regular
from fairtrial.ledger.state import (
    Experiment,
    due_look,
    is_blinded,
    is_crossed_for_good,
    is_ended,
    is_final,
    next_number,
)
from fairtrial.protocols.file import parse_protocol

__all__ = (
    "check_identities",
    "check_registered",
    "protocol_path",
    "recorded_files",
    "refuse",
    "refuse_look",
)


class _Change(NamedTuple):
    """One difference as a refusal shows it."""

    field: str
    registered: str
    found: str
    what: str
    todo: str


def recorded_files(trial: Trial, known: Experiment) -> list[FileEntry]:
    """Returns the newest recorded list of files: the freeze's, else the register's."""
    blob = known.files_blob
    if blob is None:
        event = trial.log.find(known.name, "register")
        assert isinstance(event, Register), "a known experiment was registered"
        blob = event.files
    return parse_file_list(trial.blobs.get(blob))


def protocol_path(trial: Trial, known: Experiment) -> Path:
    """Returns where the protocol file was recorded."""
    for entry in recorded_files(trial, known):
        if entry.role == "protocol":
            return (trial.folder / entry.path).absolute()
    raise AssertionError("every recorded list names the protocol")


def check_registered(
    trial: Trial, known: Experiment, *, act: str, with_files: bool = True
) -> list[str]:
    """Checks the protocol file and all recorded files; returns notes for people.

    Without the files for acts that read nothing but the ledger and its blobs.

    Raises:
        DigestMismatchError: Something differs; a `refuse` event is on record.
    """
    notes: list[str] = []
    path = protocol_path(trial, known)
    registered = trial.blobs.get(known.protocol)
    if not path.exists():
        notes.append(f"{path.name} isn't there: the registered copy in the ledger leads")
    elif read_regular(path, bytes_max=TABLE_BYTES_MAX) != registered:
        refuse(trial, known, act, _protocol_change(trial, known, path, registered))
    for entry in recorded_files(trial, known):
        if with_files and entry.role != "protocol":
            _check_file(trial, known, act, entry, path.parent)
    return notes


def _protocol_change(trial: Trial, known: Experiment, path: Path, registered: bytes) -> _Change:
    found = read_regular(path, bytes_max=TABLE_BYTES_MAX)
    todo = f"write the registered bytes back: ledger show --protocol {known.name} > {path.name}"
    try:
        toml = path.suffix == ".toml"
        now = parse_protocol(found, name=str(path), media="toml" if toml else "yaml")
    except ProtocolError as error:
        what = f"the protocol file has changed and isn't acceptable any more: {error.what}"
        return _Change("protocol", blob_of(registered).sha256, blob_of(found).sha256, what, todo)
    changes = changed_fields(trial.protocol(known), now)
    if not changes:
        ending = " (line endings)" if only_endings_differ(registered, found) else ""
        what = f"the protocol's meaning is unchanged, only its bytes differ{ending}"
        return _Change("protocol", blob_of(registered).sha256, blob_of(found).sha256, what, todo)
    first = changes[0]
    more = f" (and {len(changes) - 1} more fields)" if len(changes) > 1 else ""
    values = first.registered or "absent", first.found or "absent"
    field = first.field
    if is_blinded(known) and _tells_arms(field, values, {*trial.protocol(known).arms, *now.arms}):
        # Values of arms aren't repeated on terminals of a blinded experiment.
        field = unnamed_field(trial.protocol(known), field)
        values = _digest(values[0]), _digest(values[1])
    return _Change(
        field,
        *values,
        f"the protocol has changed since it was registered: {field}{more}",
        todo + "; or put the change on record: ledger amend",
    )


def _tells_arms(field: str, values: tuple[str, str], names: set[str]) -> bool:
    """Returns whether a field is of one arm, or a value of it names one."""
    return "arms" in field.split(".") or any(name in text for name in names for text in values)


def _check_file(trial: Trial, known: Experiment, act: str, entry: FileEntry, folder: Path) -> None:
    path = folder / entry.path
    if not path.is_file():
        what = f"{entry.path} isn't there any more"
        _refuse_file(trial, known, act, entry, found="absent", what=what)
    data = read_regular(path, bytes_max=TABLE_BYTES_MAX)
    if blob_of(data).sha256 == entry.sha256:
        return
    what = f"{entry.path} has changed since it was frozen"
    frozen = known.units_blob
    is_known = entry.role == "units" and frozen is not None and trial.blobs.has(frozen)
    if is_known and frozen is not None and only_endings_differ(trial.blobs.get(frozen), data):
        what += ": only line endings or a byte order mark differ"
    _refuse_file(trial, known, act, entry, found=blob_of(data).sha256, what=what)


def _refuse_file(
    trial: Trial, known: Experiment, act: str, entry: FileEntry, *, found: str, what: str
) -> NoReturn:
    todo = f"put the frozen file back; or, to go on with the changed one: {_begin_again(known)}"
    # Until the arms are open a field path would tell whose file it is.
    protocol = trial.protocol(known)
    field = unnamed_field(protocol, entry.field) if is_blinded(known) else entry.field
    refuse(trial, known, act, _Change(field, entry.sha256, found, what, todo))


def check_identities(
    trial: Trial, known: Experiment, drivers: dict[str, Driver], *, act: str
) -> None:
    """Checks that each arm is still made of what was frozen.

    Raises:
        DigestMismatchError: A part differs; a `refuse` event is on record.
    """
    for frozen in known.arms:
        registered = registered_identity(trial, known, frozen)
        try:
            found: object = msgspec.json.decode(
                msgspec.json.encode(drivers[frozen.name].identity(), order="deterministic")
            )
        except DriverError as error:
            refuse(trial, known, act, _absent_part(_path(trial, known, frozen), frozen, error))
        if registered != found:
            path = _path(trial, known, frozen)
            refuse(trial, known, act, _identity_change(path, known, frozen, registered, found))


def _path(trial: Trial, known: Experiment, frozen: FrozenArm) -> str:
    # Which label has changed would tell who is behind it.
    return driver_path(trial.protocol(known), frozen.name) if frozen.commitment is None else "arms"


def _begin_again(known: Experiment) -> str:
    """Returns the commands that put a plan with other files in the place of this one."""
    return (
        f"ledger withdraw {known.name} --reason TEXT, then, with another id in the protocol:"
        f" ledger register PROTOCOL --supersedes {known.name}"
    )


def _absent_part(path: str, frozen: FrozenArm, error: DriverError) -> _Change:
    return _Change(path, frozen.identity.sha256, "absent", error.what, error.todo)


def _identity_change(
    prefix: str, known: Experiment, frozen: FrozenArm, registered: object, found: object
) -> _Change:
    todo = f"put back what was frozen; or, to go on with what is there: {_begin_again(known)}"
    field, old, new = prefix, str(registered), str(found)
    if frozen.commitment is not None:
        what = "a blinded arm is made of something else now"
        return _Change(field, _digest(old), _digest(new), what, todo)
    if isinstance(registered, dict) and isinstance(found, dict):
        for key in sorted(registered.keys() | found.keys()):
            if registered.get(key) != found.get(key):
                field = f"{prefix}.{key}"
                old, new = str(registered.get(key)), str(found.get(key))
                break
    return _Change(field, old, new, f"arm {frozen.name} is made of something else now", todo)


def refuse(trial: Trial, known: Experiment, act: str, change: _Change) -> NoReturn:
    """Records a refusal and raises it.

    Raises:
        DigestMismatchError: Always.
    """
    note = _record(trial, known, act, change)
    error = DigestMismatchError(
        change.what,
        where=f"{known.name}: {change.field}",
        expected=change.registered,
        found=change.found,
        todo=change.todo,
    )
    error.add_note(note)
    raise error


def _record(trial: Trial, known: Experiment, act: str, change: _Change) -> str:
    """Records a refusal; returns what to say of that, with the receipt after it."""
    if trial.read_only:
        return "nothing was written"
    # The last refusal that fits says that the record is full.
    is_last = len(known.refusals) == REFUSALS_MAX - 1
    event = Refuse(
        experiment=known.name,
        number=next_number(trial.log.state, "refuse", known.name),
        act=act,
        field=REFUSALS_FULL if is_last else change.field[:200],
        expected=_digest(change.registered),
        found=_digest(change.found),
    )
    try:
        seq = trial.append(event).seq
    except LedgerError as error:
        # The same refusal is on record already, or the record of refusals is full.
        if "refusal" not in error.what:
            raise
        return f"{error.what}: nothing was written"
    return f"this refusal is on record, entry {seq}\nreceipt   {trial.keep_receipt('refuse')}"


def _digest(value: str) -> str:
    """Returns a digest as it is, and the digest of any other value."""
    is_digest = len(value) == 64 and all(c in "0123456789abcdef" for c in value)
    return value if is_digest else sha256_hex(value.encode("utf-8", "surrogatepass"))


def refuse_look(trial: Trial, known: Experiment, number: int) -> RefusedError:
    """Records that a look was asked for which isn't due, and returns the error to raise."""
    planned, due = len(known.looks), due_look(known)
    is_planned = 1 <= number <= planned
    change = _Change(
        f"looks.{number}",
        f"look {due}" if due else "no look due",
        f"look {number}",
        "this look isn't due" if is_planned else "this look isn't planned",
        _look_todo(known),
    )
    note = _record(trial, known, "look", change)
    error = RefusedError(
        change.what,
        where=known.name,
        expected=_expected_look(known, number) if is_planned else _numbers(planned),
        found=change.found,
        todo=change.todo,
    )
    error.add_note(note)
    return error


def _look_todo(known: Experiment) -> str:
    """Returns how to come by a look, or why no further one will ever be taken."""
    if is_final(known) or is_ended(known):
        crossed = is_crossed_for_good(known)
        why = "a boundary was crossed" if crossed else "all of it is over"
        return f"no further look comes: {why}; `ledger look` shows the last one that was taken"
    return "`ledger run` takes each look when its slots are settled; `ledger status` shows the next"


def _expected_look(known: Experiment, number: int) -> str:
    """Returns what a look waits for."""
    last = known.looks[number - 1].last
    settled = known.slots.settled(1, last) if known.slots is not None else 0
    return f"{last:,} settled slots for look {number}; {settled:,} are"


def _numbers(planned: int) -> str:
    if planned < 2:
        return "1" if planned else "a freeze first"
    return "1 or 2" if planned == 2 else f"1 to {planned}"
