"""Proofs of entries and of growth, made from a ledger and checked without it."""

from __future__ import annotations

import base64
import shutil
from pathlib import Path

import pytest

from fairtrial.custody.proof_check import check_proof
from fairtrial.custody.proving import OldHead, find_entry, parse_old, prove, prove_growth
from fairtrial.custody.trial import Reader, open_trial
from fairtrial.custody.vouching import Pins, read_pins
from fairtrial.ledger.checkpoint import Checkpoint, SigningKey, sign_checkpoint
from fairtrial.ledger.errors import RefusedError
from fairtrial.ledger.events import Open
from fairtrial.ledger.note import format_vkey
from fairtrial.ledger.opening import open_store
from fairtrial.ledger.proofs import format_inclusion, parse_inclusion

from .anchor_trial import AnchorTrial, make_trial

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def trial(tmp_path_factory: pytest.TempPathFactory) -> AnchorTrial:
    """A concluded trial with checkpoints; the tests only read it."""
    with pytest.MonkeyPatch.context() as patch:
        made = make_trial(tmp_path_factory.mktemp("proving"), patch)
        made.key("lab")
        made.register("{anchor: checkpoint}", key="lab")
        made.finish(key="lab")
        return made


@pytest.fixture
def reader(trial: AnchorTrial) -> Reader:
    """The trial, open for reading."""
    return Reader(trial.ledger, open_store(trial.ledger, read_only=True))


@pytest.fixture
def pins(trial: AnchorTrial) -> Pins:
    """The ledger's key, pinned."""
    opened = trial.events()[0]
    assert isinstance(opened, Open)
    assert opened.vkey is not None
    return read_pins(vkeys=[opened.vkey])


def receipt_of(trial: AnchorTrial, size: int) -> str:
    """Returns the receipt of a head."""
    with open_trial(trial.ledger, read_only=True) as opened:
        root = base64.b64encode(opened.log.root_at(size)).decode()
        return f"fairtrial:{opened.log.ledger}@{size}#{root}"


def test_every_entry_is_proved_without_the_ledger(reader: Reader, pins: Pins) -> None:
    """A proof of each entry holds against the pinned key and shows the entry itself."""
    for seq, data in enumerate(reader.store.read()):
        report = check_proof(prove(reader, find_entry(reader, str(seq)), None), pins=pins)
        assert ("holds", seq, "") == (report.record, report.seq, report.reason)
        assert data.decode() == report.entry
        assert (f"signed by {report.origin}",) == report.vouched_by


def test_entry_is_found_by_its_id(reader: Reader) -> None:
    """A seq and the id of an event name the same entry; anything else is refused."""
    entry = find_entry(reader, "5")
    assert entry == find_entry(reader, entry.id)
    for name in ("99999", "b3:" + "0" * 64, "", "-1", "five", entry.id[:-1]):
        with pytest.raises(RefusedError, match="no such entry"):
            find_entry(reader, name)


def test_unpinned_proof_is_called_unvouched(reader: Reader, trial: AnchorTrial) -> None:
    """Without anything from elsewhere a proof agrees only with itself; a receipt vouches."""
    data = prove(reader, find_entry(reader, "5"), None)
    report = check_proof(data, pins=Pins())
    assert ("unvouched", ()) == (report.record, report.vouched_by)
    receipt = parse_old(receipt_of(trial, report.size))
    report = check_proof(data, pins=Pins(), against=[receipt])
    assert ("holds", ("receipt given by you",)) == (report.record, report.vouched_by)


def test_contradiction_is_a_fork(reader: Reader, trial: AnchorTrial, pins: Pins) -> None:
    """Another root of the same size, another key and another origin are named as such."""
    data = prove(reader, find_entry(reader, "5"), None)
    size = check_proof(data, pins=pins).size
    other = OldHead(size, bytes(32), None, "receipt given by you")
    assert "forked" == check_proof(data, pins=pins, against=[other]).record
    origin = pins.keys[0].name
    stranger = SigningKey(b"s" * 32)
    for one in (
        read_pins(vkeys=[format_vkey(stranger.verifier(origin))]),
        read_pins(vkeys=[format_vkey(stranger.verifier("other.example/x"))]),
        read_pins(origin="other.example/x"),
    ):
        report = check_proof(data, pins=one)
        assert ("forked", ()) == (report.record, report.vouched_by)


def test_every_changed_byte_of_a_proof_is_noticed(reader: Reader, pins: Pins) -> None:
    """No changed byte leaves a proof that holds."""
    data = prove(reader, find_entry(reader, "5"), None)
    for place in range(len(data)):
        changed = bytearray(data)
        changed[place] ^= 0x01
        try:
            report = check_proof(bytes(changed), pins=pins)
        except RefusedError:
            continue
        assert "holds" != report.record


def test_entry_at_another_place_is_corrupt(reader: Reader, pins: Pins) -> None:
    """An entry that says another seq or ledger than the proof isn't taken."""
    proof = parse_inclusion(prove(reader, find_entry(reader, "5"), None))
    other = find_entry(reader, "6").data
    report = check_proof(format_inclusion(proof._replace(extra=other)), pins=pins)
    assert ("corrupt", None) == (report.record, report.entry)
    report = check_proof(format_inclusion(proof), pins=pins, entry=other)
    assert "corrupt" == report.record


def test_entry_may_come_beside_the_proof(reader: Reader, pins: Pins) -> None:
    """A proof without its entry is checked with the entry's line."""
    entry = find_entry(reader, "5")
    bare = format_inclusion(parse_inclusion(prove(reader, entry, None))._replace(extra=None))
    with pytest.raises(RefusedError, match="doesn't carry"):
        check_proof(bare, pins=pins)
    assert "holds" == check_proof(bare, pins=pins, entry=entry.data).record


def test_growth_is_proved_from_every_size(
    reader: Reader, trial: AnchorTrial, pins: Pins, tmp_path: Path
) -> None:
    """From each earlier head, given as receipt, file or size, the proof leads to the newest."""
    size = len(trial.events())
    for old in range(1, size + 1):
        receipt = receipt_of(trial, old)
        found, data = prove_growth(reader, parse_old(receipt), None)
        assert size == found
        assert data == prove_growth(reader, parse_old(str(old)), None)[1]
        report = check_proof(data, pins=pins, against=[parse_old(receipt)])
        assert ("holds", old) == (report.record, report.old)
    kept = tmp_path / "kept.txt"
    kept.write_text(receipt_of(trial, 7) + "\n")
    note = trial.notes[0]
    for text in (str(kept), str(note)):
        old_head = parse_old(text)
        _, data = prove_growth(reader, old_head, None)
        assert "holds" == check_proof(data, pins=pins, against=[old_head]).record


def test_growth_from_another_head_is_refused(reader: Reader, trial: AnchorTrial) -> None:
    """A head that this ledger never had has no proof."""
    ledger = receipt_of(trial, 5).partition("@")[0].removeprefix("fairtrial:")
    for old in (
        OldHead(5, bytes(32), ledger, "a receipt"),
        OldHead(5, None, "0" * 32, "a receipt of another ledger"),
        OldHead(0, None, None, "nothing"),
        OldHead(99999, None, None, "the future"),
    ):
        with pytest.raises(RefusedError):
            prove_growth(reader, old, None)


def test_growth_needs_the_old_head(reader: Reader, trial: AnchorTrial, pins: Pins) -> None:
    """Without the old root nothing is shown; with a wrong one the proof doesn't lead from it."""
    _, data = prove_growth(reader, parse_old("5"), None)
    with pytest.raises(RefusedError, match="against the head"):
        check_proof(data, pins=pins)
    with pytest.raises(RefusedError, match="against the head"):
        check_proof(data, pins=pins, against=[parse_old(receipt_of(trial, 6))])
    wrong = OldHead(5, bytes(32), None, "a wrong receipt")
    assert "corrupt" == check_proof(data, pins=pins, against=[wrong]).record
    right = parse_old(receipt_of(trial, 5))
    assert "unvouched" == check_proof(data, pins=Pins(), against=[right]).record


def test_proof_is_for_a_signed_head_of_this_ledger(
    reader: Reader, trial: AnchorTrial, tmp_path: Path
) -> None:
    """A named checkpoint is taken when the ledger's key signed it and it covers the entry."""
    entry = find_entry(reader, "2")
    first = trial.notes[0]
    assert 3 == check_proof(prove(reader, entry, first), pins=Pins()).size
    with pytest.raises(RefusedError, match="no signed head"):
        prove(reader, find_entry(reader, "3"), first)
    opened = trial.events()[0]
    assert isinstance(opened, Open)
    forged = tmp_path / "forged.note"
    forged.write_bytes(
        sign_checkpoint(Checkpoint(opened.origin, 9, bytes(32)), SigningKey(b"s" * 32))
    )
    with pytest.raises(RefusedError, match="no known key"):
        prove(reader, entry, forged)


def test_without_checkpoints_there_is_no_proof(trial: AnchorTrial, tmp_path: Path) -> None:
    """The way to a signed head is said."""
    folder = tmp_path / "copy"
    shutil.copytree(trial.folder, folder)
    shutil.rmtree(folder / "ledger.db.d/checkpoints")
    path = folder / "ledger.db"
    bare = Reader(path, open_store(path, read_only=True))
    with pytest.raises(RefusedError, match="no signed head") as caught:
        prove(bare, find_entry(bare, "2"), None)
    assert "ledger checkpoint" in caught.value.todo
