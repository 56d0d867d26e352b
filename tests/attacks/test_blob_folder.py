"""A folder of blobs that someone crafted: a finding or a clear refusal, never a wait or a bug."""

from __future__ import annotations

import contextlib
import json
import os
from collections.abc import Callable
from pathlib import Path

import pytest

from fairtrial.custody.bundling import bundle_ledger
from fairtrial.engine.inspecting import import_ledger, replay_ledger
from fairtrial.engine.session import result_of
from fairtrial.engine.story import read_stories
from fairtrial.ledger.errors import LedgerError
from fairtrial.ledger.events import Blob, Freeze, Register, Result
from fairtrial.ledger.opening import blob_store, open_store, side_folder
from fairtrial.ledger.reading import read_events

from .conftest import Case, rechained

pytestmark = pytest.mark.skipif(os.name == "nt", reason="there are no named pipes in a folder")

DEEP = b"[" * 100_000 + b"]" * 100_000


def blobs_of(case: Case) -> dict[str, Blob]:
    """Returns the blobs that the experiment stands on, by what they are."""
    found: dict[str, Blob] = {}
    store = open_store(case.ledger, read_only=True)
    try:
        for _, event in read_events(store):
            match event:
                case Register():
                    found |= {"protocol": event.protocol, "resolved": event.resolved}
                case Freeze():
                    found |= {"units": event.units, "plan": event.plan, "files": event.files}
                case Result():
                    found["detail"] = event.detail
                case _:
                    continue
    finally:
        store.close()
    return found


def take_out(case: Case, blob: Blob) -> Path:
    """Removes a blob that has a file of its own, whatever pack it was in; returns its place."""
    data = blob_store(case.ledger).get(blob)
    blob_store(case.ledger).erase(blob)
    assert data
    path = side_folder(case.ledger) / "blobs" / blob.blake3[:2] / blob.blake3
    path.parent.mkdir(parents=True, exist_ok=True)
    return path


def pack(case: Case, index: object) -> None:
    """Puts a pack with a first line of one's own beside the ledger."""
    folder = side_folder(case.ledger) / "blobs" / "packs"
    folder.mkdir(parents=True, exist_ok=True)
    line = json.dumps({"v": 1, "blobs": index}, separators=(",", ":")).encode()
    (folder / f"{'a' * 64}.pack").write_bytes(line + b"\nxxxx")


def as_pipe(case: Case, blob: Blob) -> None:
    """Puts a pipe in the place of a blob."""
    os.mkfifo(take_out(case, blob))


def as_folder(case: Case, blob: Blob) -> None:
    """Puts a folder in the place of a blob."""
    take_out(case, blob).mkdir()


def as_endless(case: Case, blob: Blob) -> None:
    """Puts a device that never ends in the place of a blob."""
    take_out(case, blob).symlink_to("/dev/zero")


def in_pack(index: Callable[[Blob], object]) -> Callable[[Case, Blob], None]:
    """Returns what puts a blob into a pack of a crafted index."""

    def put(case: Case, blob: Blob) -> None:
        take_out(case, blob)
        pack(case, index(blob))

    return put


CRAFTED: dict[str, Callable[[Case, Blob], None]] = {
    "pipe": as_pipe,
    "folder": as_folder,
    "endless": as_endless,
    "negative": in_pack(lambda blob: [[blob.blake3, -5]]),
    "huge": in_pack(lambda blob: [[blob.blake3, 10**18]]),
    "beyond 63 bits": in_pack(lambda blob: [[blob.blake3, 2**63]]),
    "negative before it": in_pack(lambda blob: [["0" * 64, -999_999], [blob.blake3, blob.size]]),
    "deep index": in_pack(lambda blob: json.loads("[" * 500 + "]" * 500)),
}


def use(case: Case, folder: Path) -> str:
    """Uses a ledger in every way that reads its blobs; returns the word of its replay."""
    word = replay_ledger(case.ledger).record
    read_stories(case.ledger)
    for act in (
        lambda: bundle_ledger(case.ledger, folder / "audit.zip"),
        lambda: import_ledger(case.ledger, folder / "imported.db"),
        lambda: result_of(case.ledger, None, actor="ada"),
    ):
        with contextlib.suppress(LedgerError):
            act()
    return word


@pytest.mark.parametrize("kind", ["plan", "detail", "files"])
@pytest.mark.parametrize("crafted", CRAFTED)
def test_crafted_folder_is_a_finding(lines: Case, tmp_path: Path, crafted: str, kind: str) -> None:
    """Whatever stands in the place of a blob, replay ends with a finding and the rest refuses."""
    CRAFTED[crafted](lines, blobs_of(lines)[kind])
    assert "files_differ" == use(lines, tmp_path)


def test_folder_as_a_pack_hides_nothing(lines: Case, tmp_path: Path) -> None:
    """A pack that can't be read is no fault where nothing that is named was in it."""
    (side_folder(lines.ledger) / "blobs" / "packs" / "x.pack").mkdir(parents=True)
    assert "intact" == use(lines, tmp_path)


def test_pipe_as_a_note_is_passed_over(lines: Case, tmp_path: Path) -> None:
    """Whoever can put a pipe among the signed heads could leave them out."""
    notes = side_folder(lines.ledger) / "checkpoints"
    notes.mkdir()
    os.mkfifo(notes / "000005.note")
    assert "intact" == use(lines, tmp_path)


@pytest.mark.parametrize("content", [DEEP, b"\xff\x00\xfe" * 9, b"[1]"], ids=["deep", "noise", "1"])
@pytest.mark.parametrize("kind", ["plan", "detail", "files", "units", "resolved", "protocol"])
def test_content_of_another_kind_is_a_finding(
    lines: Case, tmp_path: Path, kind: str, content: bytes
) -> None:
    """A blob whose digest the record names and that isn't what it must be: found, not failed on."""
    old, new = blobs_of(lines)[kind], blob_store(lines.ledger).put(content)

    def change(seq: int, event: bytes) -> bytes:
        del seq
        text = event.replace(old.blake3.encode(), new.blake3.encode())
        text = text.replace(old.sha256.encode(), new.sha256.encode())
        was, now = (f'{{"size":{one.size},"blake3":"{new.blake3}"'.encode() for one in (old, new))
        return text.replace(was, now)

    lines.put(rechained(lines.entries(), change))
    assert use(lines, tmp_path) not in ("intact", "newer")
