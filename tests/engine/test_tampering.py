"""The forgeries of the demonstrations: one changes a text, the other all that follows from it."""

from __future__ import annotations

import csv
from pathlib import Path

import msgspec
import pytest

from fairtrial.engine.compare import protocol_from_table
from fairtrial.engine.inspecting import export_ledger, replay_ledger
from fairtrial.engine.session import register_protocol, result_of, run
from fairtrial.engine.story import read_stories
from fairtrial.engine.tampering import change_score, first_success, rewrite
from fairtrial.ledger.events import Decision


@pytest.fixture
def ledger(tmp_path: Path) -> Path:
    """Returns a concluded ledger of 20 units in 10 clusters."""
    table = tmp_path / "table.csv"
    with table.open("w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(("unit", "cluster", "a", "b"))
        writer.writerows((f"u{i}", i % 10, int(i < 6), int(i < 16)) for i in range(20))
    made = protocol_from_table(table.read_bytes(), name="table.csv", id="t", arms=("a", "b"))
    (tmp_path / "protocol.yaml").write_text(made.protocol)
    (tmp_path / "units.csv").write_bytes(made.units)
    (tmp_path / "outcomes.csv").write_bytes(made.outcomes)
    path = tmp_path / "ledger.db"
    register_protocol(path, tmp_path / "protocol.yaml", actor="t")
    run(path, None, actor="t")
    result_of(path, None, actor="t")
    return path


def failed(event: Decision) -> Decision:
    """Returns the outcome as a failure."""
    return msgspec.structs.replace(event, scores={"passed": 0.0})


@pytest.mark.parametrize("store", ["db", "jsonl"])
def test_changed_score_is_one_wrong_id_at_its_place(ledger: Path, store: str) -> None:
    """Replay names the entry; the source stays as it was."""
    source = ledger
    if store == "jsonl":
        source = ledger.with_name("source.jsonl")
        export_ledger(ledger, source)
    before = source.read_bytes()
    seq = first_success(source, "t", "b").seq
    target = ledger.parent / "forged" / f"ledger.{store}"
    change_score(source, target, seq=seq, score="passed", value=0.0)
    report = replay_ledger(target, with_files=False)
    assert "corrupt" == report.record
    assert [seq] == [one.seq for one in report.findings if one.code == "wrong_id"]
    assert before == source.read_bytes()


def test_rewritten_ledger_is_intact_alone_and_forked_against_a_receipt(ledger: Path) -> None:
    """Every hash and number follows from the forged outcome; only a kept receipt tells."""
    receipt = max((ledger.parent / "ledger.db.d" / "receipts").iterdir()).read_text()
    outcome = first_success(ledger, "t", "b")
    folder = ledger.parent / "forged"
    folder.mkdir()
    for name in ("protocol.yaml", "units.csv", "outcomes.csv"):
        (folder / name).write_bytes((ledger.parent / name).read_bytes())
    target = folder / "ledger.db"
    rewrite(ledger, target, seq=outcome.seq, change=failed)
    honest, forged = replay_ledger(ledger), replay_ledger(target)
    assert ("intact", "intact") == (honest.record, forged.record)
    assert (honest.ledger, honest.size) == (forged.ledger, forged.size)
    assert honest.root != forged.root
    assert "forked" == replay_ledger(target, against=(receipt,)).record
    assert "intact" == replay_ledger(ledger, against=(receipt,)).record
    differences = [
        story.result.comparisons[0].endpoints[0].difference
        for path in (ledger, target)
        for story in read_stories(path)
        if story.result is not None
    ]
    assert pytest.approx([0.5, 0.45]) == differences


def test_first_success_says_when_there_is_none(ledger: Path) -> None:
    """An arm that never succeeded has no success to change."""
    with pytest.raises(LookupError):
        first_success(ledger, "t", "c")
