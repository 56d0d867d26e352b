"""The end is cut off, an older copy put back, the whole ledger deleted or begun anew."""

from __future__ import annotations

import base64
import hashlib
import json
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from fairtrial.custody.closing import close_ledger
from fairtrial.custody.trial import parse_receipt
from fairtrial.engine.inspecting import replay_ledger, status
from fairtrial.engine.session import register_protocol, result_of, run
from fairtrial.ledger.errors import TornError
from fairtrial.ledger.merkle import leaf_hash, root_of
from fairtrial.ledger.opening import open_store

from .conftest import Case, Verify, place_of, write_trial

Agreed = Callable[..., str]


def test_cut_tail_needs_a_receipt(case: Case, agreed: Agreed, verify: Verify) -> None:
    """A beginning is a ledger by itself: the text says unanchored, a receipt shows the cut."""
    case.put(case.entries()[:-3])
    assert "intact" == agreed(case)
    assert "UNANCHORED" in verify(case)[1]
    assert "rolled_back" == agreed(case, case.receipt)


@pytest.mark.parametrize("kept", ["all but 1", "all but 5", "the first 5 outcomes"])
def test_cut_tail_that_grows_again_is_another_history(
    case: Case, agreed: Agreed, verify: Verify, kept: str
) -> None:
    """FR-14: cut, stripped of receipts and run again: open, then whole; a receipt tells."""
    entries = case.entries()
    decisions = place_of(entries, "decision")
    left = {"all but 1": -1, "all but 5": -5}.get(kept, decisions + 5)
    case.put(entries[:left])
    for beside in ("receipts", "cache"):
        shutil.rmtree(case.ledger.parent / "ledger.db.d" / beside, ignore_errors=True)
        shutil.rmtree(case.ledger.parent / "ledger.jsonl.d" / beside, ignore_errors=True)
    assert {"trial": "open"} == case.replay().verdicts
    run(case.ledger, None, actor="thief")
    result_of(case.ledger, None, actor="thief")
    assert len(case.entries()) >= len(entries)
    assert "intact" == agreed(case)
    assert "UNANCHORED" in verify(case)[1]
    assert "forked" == agreed(case, case.receipt)


def test_cut_tail_shows_in_the_plan(case: Case) -> None:
    """The frozen plan says how many outcomes are missing, so no result can be claimed."""
    entries = case.entries()
    case.put(entries[: place_of(entries, "look")])
    (found,) = status(case.ledger)
    assert found.planned > found.settled
    assert {"trial": "open"} == case.replay().verdicts


def test_older_copy_needs_a_receipt(case: Case, agreed: Agreed) -> None:
    """A copy from before, with what lay beside it, is rolled back against a later receipt."""
    case.put(case.entries()[:3])
    (early,) = case.ledger.parent.glob("ledger.db.d/receipts/*-freeze.txt")
    assert "intact" == agreed(case, early.read_text())
    assert "rolled_back" == agreed(case, case.receipt)


@pytest.mark.parametrize("cut", [1, 7, 200])
def test_torn_tail_is_no_attack(lines: Case, agreed: Agreed, cut: int) -> None:
    """Bytes without a newline at the end: torn, recoverable; with a receipt the loss shows."""
    honest = lines.ledger.read_bytes()
    lines.ledger.write_bytes(honest[:-cut])
    assert "torn" == agreed(lines)
    assert "rolled_back" == agreed(lines, lines.receipt)


def test_missing_newline_alone_is_torn_for_a_reader_too(lines: Case) -> None:
    """A reader that saw the entry says torn as replay does, and what to do; a writer heals it."""
    close_ledger(lines.ledger, actor="ada", reason="it is complete")
    honest = lines.ledger.read_bytes()
    lines.ledger.write_bytes(honest[:-1])
    with pytest.raises(TornError, match="newline") as caught:
        status(lines.ledger)
    assert "ledger run" in caught.value.todo
    assert "torn" == lines.replay().record
    result_of(lines.ledger, None, actor="ada")
    assert lines.ledger.read_bytes().startswith(honest)
    assert "intact" == lines.replay().record


def test_zeros_at_the_end_are_torn(lines: Case, agreed: Agreed) -> None:
    """A run of NULs, as file systems leave it: torn, with and without the receipt."""
    with lines.ledger.open("ab") as file:
        file.write(bytes(4096))
    assert "torn" == agreed(lines) == agreed(lines, lines.receipt)


def test_deleted_ledger_is_never_fine(case: Case, agreed: Agreed) -> None:
    """A verifier that is given a name and finds nothing fails."""
    case.ledger.unlink()
    assert "unreadable" == agreed(case, case.receipt)


def test_emptied_ledger_is_never_fine(case: Case, agreed: Agreed) -> None:
    """No entries: corrupt, never "0 entries, fine"."""
    case.put([])
    assert "corrupt" == agreed(case) == agreed(case, case.receipt)
    assert "empty" in {one.code for one in case.replay().findings}


def test_ledger_begun_anew_is_another_one(case: Case, agreed: Agreed, tmp_path: Path) -> None:
    """A fresh ledger in the old one's place has another id: forked against the receipt."""
    folder = tmp_path / "anew"
    folder.mkdir()
    anew = folder / case.ledger.name
    register_protocol(anew, write_trial(folder), actor="ada")
    assert "forked" == agreed(Case(anew, case.receipt), case.receipt)


def test_next_act_sets_torn_bytes_aside_on_record(lines: Case, agreed: Agreed) -> None:
    """No repair by hand: whoever writes next quarantines the bytes, and an entry says so."""
    whole = lines.entries()
    left = whole[-1][:100]
    lines.ledger.write_bytes(b"".join(data + b"\n" for data in whole[:-1]) + left)
    assert "torn" == agreed(lines)
    result_of(lines.ledger, None, actor="ada")
    report = replay_ledger(lines.ledger)
    assert ("intact", 1) == (report.record, report.recoveries)
    recovered = json.loads(lines.entries()[len(whole) - 1])["event"]
    assert {
        "kind": "recover/1",
        "experiment": "",
        "position": 0,
        "number": 1,
        "offset": sum(len(data) + 1 for data in whole[:-1]),
        "length": len(left),
        "sha256": hashlib.sha256(left).hexdigest(),
    } == recovered
    (file,) = lines.ledger.with_name("ledger.jsonl.d").glob("quarantine/*")
    assert left == file.read_bytes()


def test_quarantined_bytes_are_put_on_record_once(lines: Case) -> None:
    """An opening that was killed after it had set bytes aside is made good by the next."""
    whole = lines.entries()
    lines.ledger.write_bytes(b"".join(data + b"\n" for data in whole[:-1]) + b'{"v":')
    store = open_store(lines.ledger)
    assert store.recover(lines.ledger.with_name("ledger.jsonl.d") / "quarantine") is not None
    store.close()
    for _ in range(2):
        result_of(lines.ledger, None, actor="ada")
        assert 1 == replay_ledger(lines.ledger).recoveries


@pytest.mark.parametrize(
    "name", ["notes", "x-0123456789abcdef", "0-0123456789abcdef", "00-{}", "٣-{}", "0-{}x", "{}/"]
)
def test_what_no_store_set_aside_is_let_be(lines: Case, name: str) -> None:
    """What somebody else put into quarantine, or changed there, stops no act and isn't recorded."""
    digest = hashlib.sha256(b"notes").hexdigest()[:16]
    quarantine = lines.ledger.with_name("ledger.jsonl.d") / "quarantine"
    quarantine.mkdir()
    if name == "{}/":
        (quarantine / f"ledger.jsonl-0-{digest}.torn").mkdir()
    else:
        (quarantine / f"ledger.jsonl-{name.format(digest)}.torn").write_bytes(b"notes")
    result_of(lines.ledger, None, actor="ada")
    assert 0 == replay_ledger(lines.ledger).recoveries


@pytest.mark.parametrize("way", ["file", "link"])
def test_receipt_beside_the_ledger_is_no_anchor(
    case: Case, agreed: Agreed, verify: Verify, tmp_path: Path, way: str
) -> None:
    """Whoever cuts a ledger can cut the receipts in its own folder: they vouch for nothing."""
    cut = case.entries()[:20]
    case.put(cut)
    folder = case.ledger.with_name(case.ledger.name + ".d") / "receipts"
    folder.mkdir(exist_ok=True)
    forged = folder / "0020-run.txt"
    root = base64.b64encode(root_of(map(leaf_hash, cut))).decode()
    forged.write_text(f"fairtrial:{parse_receipt(case.receipt).ledger}@20#{root}\n")
    brought = forged if way == "file" else tmp_path / "mail.txt"
    if way == "link":
        brought.symlink_to(forged)
    assert "intact" == agreed(case, str(brought))
    assert "UNANCHORED" in verify(case, str(brought))[1]
    report = case.replay(str(brought))
    assert ("no", 0, ()) == (report.anchored, report.covered, report.anchored_by)
    case.put(cut[:10])
    assert "rolled_back" == agreed(case, str(brought))
