"""Replay from a head on: what was added is checked as ever, what came before is the head's word."""

from __future__ import annotations

import json
import os
import shutil
import threading
from dataclasses import dataclass
from pathlib import Path

import pytest

from fairtrial.custody.incremental import replay_from
from fairtrial.custody.trial import open_trial, parse_receipt
from fairtrial.custody.vouching import read_pins
from fairtrial.engine.inspecting import export_ledger, read_log, replay_ledger, status
from fairtrial.ledger.canonical import decode_event
from fairtrial.ledger.checkpoint import SigningKey
from fairtrial.ledger.entry import parse_entry
from fairtrial.ledger.errors import RefusedError
from fairtrial.ledger.events import Open
from fairtrial.ledger.findings import ReplayReport
from fairtrial.ledger.frontier import load_frontier, save_frontier
from fairtrial.ledger.merkle import CompactRange, leaf_hash
from fairtrial.ledger.note import format_vkey
from fairtrial.ledger.opening import open_store
from fairtrial.verbs.text_since import since_text

from .anchor_trial import ACTOR, make_trial

pytestmark = pytest.mark.slow


@dataclass(frozen=True)
class Kept:
    """A finished trial in one store, and what was kept of its freeze: receipt and checkpoint."""

    ledger: Path
    receipt: str
    note: Path
    vkey: str

    def replay(self, *against: str) -> ReplayReport:
        """Replays from the receipt of the freeze on."""
        return replay_from(self.ledger, self.receipt, against=against)

    def end(self) -> str:
        """Returns the receipt of the present end."""
        with open_trial(self.ledger, read_only=True, rehash=False) as trial:
            return trial.receipt()

    def entries(self) -> list[bytes]:
        """Returns the entries."""
        return list(open_store(self.ledger, read_only=True).read())

    def put(self, entries: list[bytes]) -> None:
        """Writes the ledger anew from entries."""
        self.ledger.unlink()
        store = open_store(self.ledger, create=True)
        if self.ledger.suffix == ".jsonl":
            self.ledger.write_bytes(b"".join(one + b"\n" for one in entries))
        else:
            with store.writer() as writer:
                writer.write(entries, [leaf_hash(one) for one in entries])
        store.close()


@pytest.fixture(scope="module")
def source(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A finished trial in both stores, with its freeze's checkpoint."""
    folder = tmp_path_factory.mktemp("source")
    with pytest.MonkeyPatch.context() as patch:
        made = make_trial(folder, patch)
        made.key("lab")
        made.setenv(FAIRTRIAL_KEY="lab")
        made.register()
        shutil.copy(made.notes[0], folder / "kept.note")
        made.finish()
    export_ledger(made.ledger, made.folder / "ledger.jsonl")
    frontiers = "cache/frontiers"
    side = made.folder / "ledger.db.d"
    shutil.copytree(side / frontiers, made.folder / "ledger.jsonl.d" / frontiers)
    return folder


def copied(source: Path, folder: Path, store: str) -> Kept:
    """Returns a copy of the trial in one store."""
    shutil.copytree(source, folder, dirs_exist_ok=True)
    (receipt,) = (folder / "trial/ledger.db.d/receipts").glob("*-freeze.txt")
    ledger = folder / f"trial/ledger.{store}"
    (first,) = read_log(ledger, stop=1)
    opened = decode_event(parse_entry(first).event)
    assert isinstance(opened, Open)
    assert opened.vkey is not None
    return Kept(ledger, receipt.read_text().strip(), folder / "kept.note", opened.vkey)


@pytest.fixture(params=["db", "jsonl"])
def kept(request: pytest.FixtureRequest, source: Path, tmp_path: Path) -> Kept:
    """A finished trial in each store."""
    return copied(source, tmp_path, request.param)


@pytest.fixture
def lines(source: Path, tmp_path: Path) -> Kept:
    """The trial in the store that holds any bytes that one writes."""
    return copied(source, tmp_path, "jsonl")


def edited(entry: bytes) -> bytes:
    """Returns an entry by another actor, its hashes left as they were."""
    old = f'"actor":"{ACTOR}"'.encode()
    assert old in entry
    return entry.replace(old, b'"actor":"nobody"')


def test_entries_after_the_head_are_checked_and_the_others_not_read(kept: Kept) -> None:
    """The head covers its own; what is newer is said to be vouched for by nothing."""
    report = kept.replay()
    whole = replay_ledger(kept.ledger)
    assert ("intact", "part", 3) == (report.record, report.anchored, report.covered)
    assert (whole.size, whole.root) == (report.size, report.root)
    assert report.since is not None
    assert (3, False) == (report.since.size, report.since.hashed)
    assert {"rules", "numbers", "files"} == set(report.skipped)
    text = since_text(report)
    assert "entries 0-2 were taken from it and NOT read again" in text
    assert f"{report.size - 3} entries checked (3-{report.size - 1})" in text
    assert "CHECKED: entries from 3 on alone" in text


def test_later_head_vouches_for_what_was_added(kept: Kept) -> None:
    """With the end's receipt too: anchored whole, and the tree of the new entries has its root."""
    report = kept.replay(kept.end())
    assert ("intact", "yes", report.size) == (report.record, report.anchored, report.covered)


def test_lost_frontier_costs_time_alone(kept: Kept) -> None:
    """Without it the old entries are hashed, checked against the head, and that is said."""
    shutil.rmtree(kept.ledger.with_name(f"{kept.ledger.name}.d") / "cache")
    report = kept.replay(kept.end())
    assert ("intact", "yes") == (report.record, report.anchored)
    assert report.since is not None
    assert report.since.hashed
    assert "were hashed and compared with it" in since_text(report)


def test_false_frontier_is_not_taken(kept: Kept) -> None:
    """Hashes that don't make the head's root are as good as none."""
    folder = kept.ledger.with_name(f"{kept.ledger.name}.d") / "cache/frontiers"
    save_frontier(folder, CompactRange(3, [bytes(32), bytes(32)]))
    report = kept.replay()
    assert report.since is not None
    assert ("intact", True) == (report.record, report.since.hashed)
    for data in (
        b"",
        b"{}",
        b'{"v":1,"size":3,"hashes":["zz","00"]}',
        b'{"v":1,"size":2,"hashes":[]}',
    ):
        (folder / "3.json").write_bytes(data)
        assert load_frontier(folder, 3, parse_receipt(kept.receipt).root) is None


def test_nothing_beside_a_ledger_moves_where_reading_begins(lines: Kept) -> None:
    """Lines put in after the head are found, wherever a cache that anybody can write points."""
    entries = lines.entries()
    begun = [*entries[:3], edited(entries[3]), entries[2]]
    lines.put([*begun, *entries[3:]])
    path = lines.ledger.with_name(f"{lines.ledger.name}.d") / "cache/frontiers/3.json"
    kept = json.loads(path.read_bytes())
    kept["offset"] = sum(map(len, begun)) + len(begun)
    path.write_text(json.dumps(kept))
    assert "corrupt" == lines.replay().record


@pytest.mark.parametrize("change", ["edit", "swap", "torn"])
def test_changes_after_the_head_are_found(lines: Kept, change: str) -> None:
    """The same word and places as a whole replay has for them."""
    end, entries = lines.end(), lines.entries()
    if change == "edit":
        entries[20] = edited(entries[20])
    elif change == "swap":
        entries[9], entries[10] = entries[10], entries[9]
    lines.put(entries)
    if change == "torn":
        with lines.ledger.open("ab") as file:
            file.write(b'{"v":1')
    report = lines.replay(end)
    whole = replay_ledger(lines.ledger, against=[end], with_numbers=False)
    assert ("torn" if change == "torn" else "corrupt") == report.record == whole.record
    places = [(one.code, one.seq) for one in whole.findings if one.level == "bytes"]
    assert places == [(one.code, one.seq) for one in report.findings if one.level == "bytes"]


@pytest.mark.parametrize("size", [2, 3, 30])
def test_cut_end_is_rolled_back(kept: Kept, size: int) -> None:
    """Shorter than the later head that was brought, or than the head itself."""
    end = kept.end()
    kept.put(kept.entries()[:size])
    assert "rolled_back" == kept.replay(end).record
    assert ("rolled_back" if size < 3 else "intact") == kept.replay().record


def test_change_before_the_head_shows_by_hashing_alone(lines: Kept) -> None:
    """With the frontier the old entries aren't read: the text says so. Without it: forked."""
    entries = lines.entries()
    entries[1] = edited(entries[1])
    lines.put(entries)
    assert "intact" == lines.replay().record
    assert "NOT read again" in since_text(lines.replay())
    shutil.rmtree(lines.ledger.with_name(f"{lines.ledger.name}.d") / "cache")
    assert "forked" == lines.replay().record
    assert "corrupt" == replay_ledger(lines.ledger, with_numbers=False).record


def test_head_of_another_ledger_is_a_fork(kept: Kept) -> None:
    """A receipt of another id, of another root, a checkpoint of another origin."""
    other = f"fairtrial:{'0' * 32}@{kept.receipt.partition('@')[2]}"
    assert "forked" == replay_from(kept.ledger, other).record
    root = f"{kept.receipt.partition('#')[0]}#{'A' * 43}="
    assert "forked" == replay_from(kept.ledger, root).record
    pins = read_pins(origin="other.example/x")
    assert "forked" == replay_from(kept.ledger, kept.receipt, pins=pins).record


def test_checkpoint_has_to_be_signed_by_the_pinned_key(kept: Kept) -> None:
    """With the key: signed by it or refused. Without: taken, and said to be unchecked."""
    pinned = replay_from(kept.ledger, str(kept.note), pins=read_pins(vkeys=[kept.vkey]))
    assert ("intact", "part") == (pinned.record, pinned.anchored)
    assert "signed by the pinned key" in pinned.anchored_by[0]
    origin = kept.vkey.partition("+")[0]
    stranger = read_pins(vkeys=[format_vkey(SigningKey(b"s" * 32).verifier(origin))])
    with pytest.raises(RefusedError, match="no known key"):
        replay_from(kept.ledger, str(kept.note), pins=stranger)
    assert "signature NOT checked" in replay_from(kept.ledger, str(kept.note)).anchored_by[0]


def test_checkpoint_beside_the_ledger_is_no_anchor(kept: Kept) -> None:
    """What lies there is the owner's own word: it says where to start and vouches for nothing."""
    beside = kept.ledger.with_name(f"{kept.ledger.name}.d") / "checkpoints"
    beside.mkdir(exist_ok=True)
    note = shutil.copy(kept.note, beside / "000003.note")
    report = replay_from(kept.ledger, str(note))
    assert ("intact", "no", 3) == (report.record, report.anchored, report.self_signed)
    pinned = replay_from(kept.ledger, str(note), pins=read_pins(vkeys=[kept.vkey]))
    assert "part" == pinned.anchored


def test_earlier_head_and_bare_size_are_refused(kept: Kept) -> None:
    """What lies before the head can't be compared; a size alone vouches for nothing."""
    with pytest.raises(RefusedError, match="before the one to start at"):
        replay_from(kept.ledger, kept.end(), against=[kept.receipt])
    with pytest.raises(RefusedError, match="size alone"):
        replay_from(kept.ledger, "3")


def test_nothing_new_is_said(kept: Kept) -> None:
    """From the end's own receipt there is no entry to check."""
    report = replay_from(kept.ledger, kept.end())
    assert ("intact", "yes") == (report.record, report.anchored)
    assert "no entry after it" in since_text(report)


def test_reading_writes_nothing(kept: Kept) -> None:
    """No cache, no frontier, no lock comes of it."""
    folder = kept.ledger.parent
    before = {path: path.stat().st_mtime_ns for path in folder.rglob("*")}
    kept.replay(kept.end())
    assert before == {path: path.stat().st_mtime_ns for path in folder.rglob("*")}


def test_each_act_keeps_its_frontier(kept: Kept) -> None:
    """The receipt of every act is a head to start at."""
    folder = kept.ledger.with_name(f"{kept.ledger.name}.d") / "cache/frontiers"
    receipts = kept.ledger.parent.glob("ledger.db.d/receipts/*.txt")
    sizes = {parse_receipt(path.read_text()).size for path in receipts}
    assert sizes <= {int(path.stem) for path in folder.iterdir()}


def test_pipes_beside_a_ledger_keep_nobody_waiting(kept: Kept) -> None:
    """Whoever can write beside a ledger can't stop those who read it: a pipe is a missing file."""
    side = kept.ledger.with_name(f"{kept.ledger.name}.d")
    (side / "run-exp-1.lock").touch()
    pipes = [path for path in side.rglob("*") if path.is_file() and "blobs" not in path.parts]
    assert {".json", ".lock"} <= {path.suffix for path in pipes}
    for path in pipes:
        path.unlink()
        os.mkfifo(path)
    done: list[str] = []

    def read() -> None:
        done.append(kept.replay().record)
        done.append(replay_ledger(kept.ledger, with_numbers=False).record)
        done.extend(one.experiment for one in status(kept.ledger))

    reading = threading.Thread(target=read, daemon=True)
    reading.start()
    reading.join(timeout=30.0)
    assert ["intact", "intact"] == done[:2]
    assert not reading.is_alive()
