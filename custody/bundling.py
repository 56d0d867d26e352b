"""One archive for an auditor who may install nothing: ledger, blobs, files, verifier, instructions.

Leaves copying entries to `ledger.transfer`, and checking them to `docs/verify_ledger.py`.

Rules:
- The same ledger makes the same archive: sorted names, one fixed time, nothing of this machine.
- Entries are copied and checked first; blobs are those that the copied entries name, each checked.
- Registered files go in as they are now, at their places from the ledger's folder; one that lies
  outside that folder, or isn't there, is named in the instructions.
- Of a file that a later plan took over the bytes registered first go in too, from the blobs.
- The openings of blinded arms go in, since a replay needs them; the instructions say so.
- No receipt stands in the instructions: one that comes with the ledger vouches for nothing.
"""

from __future__ import annotations

import os
import shutil
import zipfile
from contextlib import closing
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import NamedTuple

from fairtrial.ledger.durable import create_folder, publish_new, sync_file, unfinished
from fairtrial.ledger.entry import parse_entry
from fairtrial.ledger.errors import StoreError
from fairtrial.ledger.events import (
    Amend,
    AttemptEnd,
    Blob,
    Decision,
    Freeze,
    Head,
    Redact,
    Register,
    Result,
    Unblind,
)
from fairtrial.ledger.merkle import root_of
from fairtrial.ledger.opening import open_store
from fairtrial.ledger.regular import is_regular
from fairtrial.ledger.transfer import copy_ledger

from .file_findings import blobs_of, readable_events
from .files import FileEntry, digest_now, parse_file_list
from .registered_places import Planned, places_of, protocol_folder
from .sealing import Seals
from .trial import Reader, check_begun, receipt_line

__all__ = ("README", "Bundled", "bundle_ledger")

README = "README-AUDIT.txt"
_DOCS = Path(__file__).resolve().parents[1] / "docs"
_EVIDENCE = ("receipts", "checkpoints", "quarantine")
_TIME = (1980, 1, 1, 0, 0, 0)
_UNIX, _MODE = 3, 0o100644
_TEXT = """\
Evidence of a fairtrial ledger: {size:,} entries, ledger {ledger}.

1. Compare the SHA-256 of verify_ledger.py with docs/verify_ledger.sha256 in the repository of
   fairtrial, as it stands at the version that packed this archive. Don't take it from this archive,
   and don't take the verifier on trust:

       sha256sum verify_ledger.py

2. Check the ledger. That needs Python 3.9 or newer and nothing else:

       python3 -I verify_ledger.py {name}

   Without anything from outside it says at best INTACT, UNANCHORED: whoever holds a ledger can
   write a whole other one. What vouches for it is a receipt (a line fairtrial:LEDGER@SIZE#ROOT)
   that you have from elsewhere: a mail, a ticket, the log of a build.

       python3 -I verify_ledger.py {name} --against "fairtrial:..."

   Receipts and checkpoints inside this archive vouch for nothing: they came with the ledger.

3. Check order, numbers, signatures and files as well, where something may be installed:

       pip install fairtrial
       ledger replay {name} --against "fairtrial:..."

What is here
    {name}  the record, one entry a line or a row; docs/format.md is its format
    {name}.d/blobs/  what its entries name by digest: sha256sum and b3sum show the same
    result-EXPERIMENT.json  the long form of each result, as the ledger names it by digest
    registered files, at their places from the ledger's folder
    registered-EXPERIMENT/  what a later plan of this ledger replaced at its place

What is not here
{absent}
{blinded}Not shown by any ledger: other ledgers or runs that were not handed over; what the
drivers really did; when, without an outside time stamp.
"""
_BLINDED = """\
STILL BLINDED: {names}
The blobs hold who is behind each label, and costs that tell it: without them nothing could be
replayed. Whoever shall not know the arms yet must not open the blobs, nor be given this archive.

"""


class Bundled(NamedTuple):
    """What went into the archive, what was named and isn't there, and the head of the copy.

    `blinded` names the experiments whose arms aren't open yet.
    """

    size: int
    names: tuple[str, ...]
    absent: tuple[str, ...]
    receipt: str
    blinded: tuple[str, ...] = ()


class _Contents(NamedTuple):
    """Files for the archive by their names in it: bytes, or where they lie."""

    files: dict[str, bytes | Path]
    absent: list[str]


def bundle_ledger(ledger: Path, target: Path) -> Bundled:
    """Writes an archive with everything that an auditor needs.

    Args:
        ledger: The ledger's file.
        target: The archive, a `.zip` that isn't there yet.

    Raises:
        IntegrityError: The ledger or a blob contradicts itself.
        StoreError: The target exists, or a medium failed.
    """
    ledger, target = ledger.absolute(), target.absolute()
    if target.exists():
        raise _refusal("the archive is there already", target, "give a name that isn't taken")
    create_folder(target.parent)
    with TemporaryDirectory(prefix="fairtrial-") as folder:
        copy = Path(folder) / ledger.name
        with closing(open_store(ledger, read_only=True)) as store:
            check_begun(store.tail().size, ledger)
            copy_ledger(store, copy)
            torn = store.torn()
        what = "bytes after the last whole entry: torn, as after a crash"
        absent = [f"{torn.length:,} {what}"] if torn is not None else []
        with closing(open_store(copy, read_only=True)) as store:
            # Entries of the copy, blobs and files of the original.
            return _bundle(Reader(ledger, store), copy, target, absent)


def _bundle(reader: Reader, copy: Path, target: Path, left_out: list[str]) -> Bundled:
    contents = _Contents({reader.path.name: copy}, left_out)
    _add_evidence(reader, contents)
    _add_blobs(reader, contents)
    _add_registered(reader, contents)
    for name in ("verify_ledger.py", "format.md"):
        place = name if name.endswith(".py") else f"docs/{name}"
        contents.files[place] = _DOCS / name
    first = parse_entry(next(reader.store.read(0, 1)))
    head = Head(size=reader.store.tail().size, root=root_of(reader.store.leaves()).hex())
    absent = "".join(f"    {line}\n" for line in contents.absent or ["nothing that is named"])
    blinded = _still_blinded(reader)
    text = _TEXT.format(
        size=head.size,
        ledger=first.ledger,
        name=reader.path.name,
        absent=absent,
        blinded=_BLINDED.format(names=", ".join(blinded)) if blinded else "",
    )
    contents.files[README] = text.encode()
    _write(target, contents.files)
    names = tuple(sorted(contents.files))
    return Bundled(
        head.size, names, tuple(contents.absent), receipt_line(first.ledger, head), blinded
    )


def _still_blinded(reader: Reader) -> tuple[str, ...]:
    """Returns the experiments whose labels are still to be opened."""
    names: dict[str, None] = {}
    for _, event in readable_events(reader):
        if isinstance(event, Freeze) and any(arm.commitment is not None for arm in event.arms):
            names[event.experiment] = None
        elif isinstance(event, Unblind):
            names.pop(event.experiment, None)
    return tuple(names)


def _add_evidence(reader: Reader, contents: _Contents) -> None:
    """Adds what lies beside the ledger as evidence: receipts, checkpoints, quarantined bytes."""
    for folder in _EVIDENCE:
        for path in sorted((reader.side / folder).rglob("*")):
            if path.is_file() and not path.name.startswith("."):
                name = path.relative_to(reader.folder).as_posix()
                contents.files[name] = path


def _add_blobs(reader: Reader, contents: _Contents) -> None:
    """Adds every blob that an entry names, each in a file of its own, and the results by name."""
    named: dict[str, Blob] = {}
    erased: set[str] = set()
    seals = Seals(reader)
    for _, event in readable_events(reader):
        named |= {blob.blake3: blob for blob in blobs_of(event)}
        if isinstance(event, (Decision, AttemptEnd)) and event.sealed is not None:
            named |= {blob.blake3: blob for blob in seals.blobs(event)}
        if isinstance(event, Redact):
            erased.add(event.blob.sha256)
        if isinstance(event, Result) and reader.blobs.has(event.detail):
            contents.files[f"result-{event.experiment}.json"] = reader.blobs.get(event.detail)
    for name, blob in sorted(named.items()):
        place = f"{reader.side.name}/blobs/{name[:2]}/{name}"
        if reader.blobs.has(blob):
            contents.files[place] = reader.blobs.get(blob)
        else:
            why = "erased on record" if blob.sha256 in erased else "MISSING"
            contents.absent.append(f"{place}: {why}")


def _add_registered(reader: Reader, contents: _Contents) -> None:
    """Adds the registered files that are here and lie within the ledger's folder."""
    planned: list[Planned] = [
        (seq, event)
        for seq, event in readable_events(reader)
        if isinstance(event, (Register, Freeze, Amend))
    ]
    places = places_of(reader, planned)
    lists = {e.experiment: (n, e.files) for n, e in planned if not isinstance(e, Amend)}
    plans = {e.experiment: (n, e.protocol) for n, e in planned if not isinstance(e, Freeze)}
    for name, (seq, blob) in lists.items():
        if not reader.blobs.has(blob):
            continue
        entries = parse_file_list(reader.blobs.get(blob))
        folder = protocol_folder(reader, entries)
        for entry in entries:
            is_own = entry.role == "protocol"
            base = reader.folder if is_own else folder
            since, kept = seq, _blob_of(entry)
            if is_own and name in plans:
                since, kept = max(seq, plans[name][0]), plans[name][1]
            path = base / entry.path
            found = digest_now(path)
            by = places.replaced_by(path, after=since, found=found)
            if by is None or found == kept.sha256:
                _add_file(reader, contents, path)
            else:
                _add_replaced(reader, contents, f"registered-{name}/{entry.path}", kept)


def _blob_of(entry: FileEntry) -> Blob:
    return Blob(size=entry.size, blake3=entry.blake3, sha256=entry.sha256)


def _add_replaced(reader: Reader, contents: _Contents, place: str, blob: Blob) -> None:
    """Adds the bytes that were registered, when the ledger kept them."""
    name = os.path.normpath(place.replace("../", ""))
    if reader.blobs.has(blob):
        contents.files[name] = reader.blobs.get(blob)
    else:
        contents.absent.append(f"{name}: replaced on record, and its bytes weren't kept")


def _add_file(reader: Reader, contents: _Contents, path: Path) -> None:
    place = Path(os.path.normpath(path))
    if not place.is_relative_to(reader.folder):
        contents.absent.append(f"{path.name}: a registered file outside the ledger's folder")
        return
    name = place.relative_to(reader.folder).as_posix()
    if not is_regular(place):
        contents.absent.append(f"{name}: a registered file that isn't here any more")
    else:
        contents.files.setdefault(name, place)


def _write(target: Path, files: dict[str, bytes | Path]) -> None:
    """Writes the archive under its name; a half-written one is no archive and is removed."""
    try:
        with unfinished(target) as temporary:
            with temporary.open("xb") as file:
                with zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED) as archive:
                    for name in sorted(files):
                        _write_one(archive, name, files[name])
                file.flush()
                sync_file(file.fileno())
            publish_new(temporary, target)
    except FileExistsError as error:
        raise _refusal("the archive is there already", target, "give another name") from error
    except OSError as error:
        raise _refusal(f"the archive can't be written: {error}", target, "see to it") from error


def _write_one(archive: zipfile.ZipFile, name: str, content: bytes | Path) -> None:
    info = zipfile.ZipInfo(name, _TIME)
    info.create_system, info.external_attr = _UNIX, _MODE << 16
    info.compress_type = zipfile.ZIP_DEFLATED
    with archive.open(info, "w", force_zip64=True) as target:
        if isinstance(content, bytes):
            target.write(content)
        else:
            with content.open("rb") as source:
                shutil.copyfileobj(source, target)


def _refusal(what: str, target: Path, todo: str) -> StoreError:
    return StoreError(what, where=str(target), todo=todo)
