"""FR-07, 08, 09, 15, 29: what was registered stays, copies are whole, edits are found."""

from __future__ import annotations

import re
import shutil
import signal
import sqlite3
from hashlib import sha256
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from blake3 import blake3

if TYPE_CHECKING:
    from .conftest import Lab

SLOW_TABLE = """sleep 0.02
if [ "$FAIRTRIAL_ARM" = B ]; then p=true; else p=false; fi
printf '{"v":1,"passed":%s,"usd":0.001}\\n' "$p"
"""


def _half_run(lab: Lab) -> None:
    process = lab.start("run", "--concurrency", "2")
    lab.wait_for(8, process)
    process.send_signal(signal.SIGINT)
    process.communicate(timeout=60)
    assert 130 == process.returncode


def _edit(path: Path, old: str, new: str) -> bytes:
    """Changes one text of a file; returns the bytes before."""
    before = path.read_bytes()
    text = before.decode()
    assert old in text, f"{old} isn't in {path.name}"
    path.write_bytes(text.replace(old, new).encode())
    return before


# File, text, other text, the field that is named, and both values; of a file both digests.
CHANGES = (
    ("protocol.yaml", "seed: 11", "seed: 12", "design.seed", ("11", "12")),
    ("protocol.yaml", "limit: 20}\ndesign", "limit: 21}\ndesign", "units.limit", ("20", "21")),
    ("protocol.yaml", "A: {repeats: 1", "A: {repeats: 2", "arms.A.repeats", ("1", "2")),
    ("protocol.yaml", "usd: 5.0", "usd: 6.0", "budget.usd", ("5.0", "6.0")),
    (
        "protocol.yaml",
        "[./agent.sh, b]",
        "[./agent.sh, c]",
        "arms.B.driver.argv",
        ('["./agent.sh","b"]', '["./agent.sh","c"]'),
    ),
    ("units.csv", "u3,c3,q3", "u3,c3,other", "units.file", None),
    ("agent.sh", "sleep 0.02", "sleep 0.03", "driver.files", None),
)


@pytest.mark.slow
def test_changed_identity_is_refused_by_its_name(lab: Lab) -> None:
    """FR-08: any change between run and resume is refused before a driver starts, on record."""
    lab.write(units=100, body=SLOW_TABLE, limit=", limit: 20", reducer=", reducer: first")
    lab.register()
    _half_run(lab)
    for file, old, new, field, values in CHANGES:
        before = _edit(lab.folder / file, old, new)
        edited = (lab.folder / file).read_bytes()
        digests = sha256(before).hexdigest(), sha256(edited).hexdigest()
        starts, size = lab.starts(), len(lab.entries())
        refused = lab.call("run", expect=3)
        assert field in refused.stderr
        said = re.findall(r"^ +(expected|found) +(.*)$", refused.stderr, re.MULTILINE)
        assert list(zip(("expected", "found"), values or digests, strict=True)) == said
        assert starts == lab.starts()
        added = lab.entries()[size:]
        assert ["refuse/1"] == [entry["event"]["kind"] for entry in added]
        (lab.folder / file).write_bytes(before)
    lab.call("run", "--concurrency", "4")
    assert "complete" == lab.json("status")["state"]
    assert {1} == set(lab.starts().values())


def test_other_line_endings_are_another_file(lab: Lab) -> None:
    """FR-09: digests are over raw bytes, and the refusal says that only line endings differ."""
    lab.write(body=SLOW_TABLE)
    lab.register()
    units = lab.folder / "units.csv"
    frozen = lab.events("freeze")[0]["units"]
    assert blake3(units.read_bytes()).hexdigest() == frozen["blake3"]
    units.write_bytes(units.read_bytes().replace(b"\n", b"\r\n"))
    refused = lab.call("run", expect=3)
    assert "line endings" in refused.stderr
    assert "units.csv" in refused.stderr


def test_same_meaning_in_other_bytes_is_told_apart(lab: Lab) -> None:
    """A comment in the protocol is refused with the command that writes the registered bytes."""
    lab.write(body=SLOW_TABLE)
    lab.register()
    path = lab.folder / "protocol.yaml"
    registered = path.read_bytes()
    path.write_bytes(registered + b"# later\n")
    refused = lab.call("run", expect=3)
    assert "meaning is unchanged" in refused.stderr
    assert registered == lab.call("show", "--protocol").stdout.encode()


@pytest.mark.slow
def test_threshold_edited_after_results_is_named(lab: Lab) -> None:
    """FR-29: run before freeze is refused; afterwards no change of plan passes unnamed."""
    lab.write(units=30, body=SLOW_TABLE, margin=", margin: 0.05")
    lab.call("register", "protocol.yaml", "--no-freeze")
    assert "freeze" in lab.call("run", expect=3).stderr
    lab.call("freeze")
    _half_run(lab)
    for old, new, field in (
        ("margin: 0.05", "margin: 0.01", "decision.margin"),
        ("value: passed", "value: score", "endpoints.resolved"),
        ("estimand: unit_weighted", "estimand: unit_weighted, sides: 1", "analysis.sides"),
    ):
        before = _edit(lab.folder / "protocol.yaml", old, new)
        for act in (("run",), ("result", "--stop", "--reason", "t")):
            assert field in lab.call(*act, expect=3).stderr
        (lab.folder / "protocol.yaml").write_bytes(before)
    lab.call("freeze")  # the same freeze again changes nothing
    assert 1 == len(lab.events("freeze"))


@pytest.mark.slow
def test_amended_analysis_is_never_as_registered(lab: Lab) -> None:
    """FR-29: an amendment is the way, and every later result shows it."""
    lab.write(units=40, body=SLOW_TABLE, margin=", margin: 0.05")
    lab.register()
    _half_run(lab)
    _edit(lab.folder / "protocol.yaml", "margin: 0.05", "margin: 0.01")
    lab.call("amend", "--reason", "the margin was too wide")
    lab.call("run", "--concurrency", "4")
    result = lab.json("result")
    assert result["as_registered"] is False
    assert ["decision"] == result["amended"]
    status = lab.json("status")
    keys = ("as_registered", "amended", "existed_before")
    assert [result[key] for key in keys] == [status[key] for key in keys]
    assert ["decision"] == status["amendments"]
    assert "intact" == lab.json("replay")["record"]


@pytest.mark.slow
def test_exports_during_a_run_are_whole(lab: Lab) -> None:
    """FR-07: each export verifies alone and holds what was acknowledged when it began."""
    lab.write(units=60, body=SLOW_TABLE)
    lab.register()
    process = lab.start("run", "--concurrency", "4")
    for number in range(5):
        lab.wait_for(10 * (number + 1), process)
        known = lab.settled()
        target = lab.folder / f"copy{number}.jsonl"
        lab.call("export", str(target))
        copy = lab.call("log", str(target), "--json").stdout
        assert known <= copy.count('"kind":"decision/1"')
        report = lab.json("replay", str(target), "--no-files")
        assert "intact" == report["record"]
    process.communicate(timeout=60)
    assert 0 == process.returncode


def test_bare_copy_of_a_database_is_never_a_shorter_experiment(one_lab: Lab) -> None:
    """FR-07: between commits a copy of the main file alone holds every acknowledged entry."""
    lab = one_lab
    lab.write(units=60, body=SLOW_TABLE)
    lab.register()
    process = lab.start("run", "--concurrency", "4")
    lab.wait_for(20, process)
    bare = lab.folder / "bare.db"
    # A reader's lock keeps the writer from the middle of a commit, where no copy is whole.
    reader = sqlite3.connect(f"file:{lab.ledger}?mode=ro", uri=True, isolation_level=None)
    reader.execute("BEGIN")
    (known,) = reader.execute("SELECT count(*) FROM entry").fetchone()
    shutil.copyfile(lab.ledger, bare)
    reader.close()
    process.communicate(timeout=60)
    assert 0 == process.returncode
    copied = lab.call("log", str(bare), "--json").stdout.splitlines()
    whole = lab.call("log", "--json").stdout.splitlines()
    assert 20 < known == len(copied) < len(whole)
    assert copied == whole[:known]


@pytest.mark.slow
def test_edited_score_is_found_and_work_stops(lab: Lab) -> None:
    """FR-15: a digit changed by hand is named by its entry; run, look and result refuse."""
    lab.write(units=20, body=SLOW_TABLE)
    lab.register()
    _half_run(lab)
    seq = next(e["seq"] for e in lab.entries() if e["event"]["kind"] == "decision/1")
    _tamper(lab, seq)
    replay = lab.call("replay", "--json", expect=12)
    assert f'"seq":{seq}' in replay.stdout
    for act in (("run",), ("look",), ("result", "--stop", "--reason", "t")):
        refused = lab.call(*act, expect=12)
        assert "entry" in refused.stderr
    lab.ledger.unlink()
    assert 8 == lab.call("replay", expect=8).returncode


def _tamper(lab: Lab, seq: int) -> None:
    """Changes one score of a stored entry with the means of its medium."""
    if lab.store.endswith(".jsonl"):
        lines = lab.ledger.read_bytes().split(b"\n")
        lines[seq] = _flip(lines[seq])
        lab.ledger.write_bytes(b"\n".join(lines))
        return
    connection = sqlite3.connect(lab.ledger)
    try:
        (text,) = connection.execute("SELECT entry FROM entry WHERE seq=?", (seq,)).fetchone()
        triggers = connection.execute("SELECT name, sql FROM sqlite_schema WHERE type='trigger'")
        saved = triggers.fetchall()
        for name, _ in saved:
            connection.execute(f'DROP TRIGGER "{name}"')
        changed = _flip(text.encode()).decode()
        connection.execute("UPDATE entry SET entry=? WHERE seq=?", (changed, seq))
        for _, sql in saved:
            connection.execute(sql)
        connection.commit()
    finally:
        connection.close()


def _flip(entry: bytes) -> bytes:
    assert b'"passed":' in entry
    if b'"passed":1.0' in entry:
        return entry.replace(b'"passed":1.0', b'"passed":0.0')
    return entry.replace(b'"passed":0.0', b'"passed":1.0')


@pytest.mark.slow
def test_edited_artifact_is_found(lab: Lab) -> None:
    """FR-15: a raw output changed on disk is named with its digest; its status is another one."""
    lab.write(units=10, body=SLOW_TABLE)
    lab.register()
    # One at a time: small artifacts that are committed together share a pack.
    lab.call("run", "--concurrency", "1")
    stdout = lab.events("decision")[0]["artifacts"]["stdout"]
    blobs = Path(f"{lab.ledger}.d") / "blobs"
    (path,) = blobs.rglob(stdout["blake3"])
    path.write_bytes(path.read_bytes().replace(b"e", b"E", 1))
    report = lab.json("replay", expect=16)
    assert "files_differ" == report["record"]
    assert {"blob_differs"} == {finding["code"] for finding in report["findings"]}
    assert all(stdout["blake3"] in finding["where"] for finding in report["findings"])
