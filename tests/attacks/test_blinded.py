"""Blinded arms: forged commitments, wrong salts, swapped mappings, seals lost or changed."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path

import msgspec
import pytest

from fairtrial.engine.inspecting import export_ledger, replay_ledger
from fairtrial.engine.session import register_protocol, result_of, run
from fairtrial.engine.unblinding import unblind_experiment
from fairtrial.ledger.findings import ReplayReport

from .conftest import Case, place_of, rechained, write_trial

Change = Callable[[bytes], bytes]


@pytest.fixture(scope="module")
def source(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, str]:
    """The folder of a blinded trial that was opened and concluded, and its receipt."""
    folder = tmp_path_factory.mktemp("blinded")
    path = write_trial(folder)
    path.write_text(path.read_text() + "blinding: {arms: true}\n")
    ledger = folder / "ledger.db"
    register_protocol(ledger, path, actor="a")
    run(ledger, None, actor="a")
    unblind_experiment(ledger, None, actor="a", reason="all looks are taken")
    _, receipt = result_of(ledger, None, actor="a")
    export_ledger(ledger, folder / "ledger.jsonl")
    return folder, receipt


@pytest.fixture(params=["db", "jsonl"])
def opened(request: pytest.FixtureRequest, source: tuple[Path, str], tmp_path: Path) -> Case:
    """A copy of that trial in each store."""
    folder, receipt = source
    shutil.copytree(folder, tmp_path / "copy", ignore=shutil.ignore_patterns("cache", "*.lock"))
    return Case(tmp_path / "copy" / f"ledger.{request.param}", receipt)


def forge(case: Case, kind: str, change: Change) -> int:
    """Changes the event of a kind and makes all hashes again; returns its place."""
    entries = case.entries()
    place = place_of(entries, kind)
    case.put(rechained(entries, lambda seq, event: change(event) if seq == place else event))
    return place


def opened_arms(case: Case) -> list[dict[str, str]]:
    """Returns what the `unblind` event opens."""
    entries = case.entries()
    found = msgspec.json.decode(entries[place_of(entries, "unblind")])
    arms: list[dict[str, str]] = found["event"]["arms"]
    return arms


def codes(report: ReplayReport) -> set[tuple[str, int | None]]:
    """Returns what was found where."""
    return {(finding.code, finding.seq) for finding in report.findings}


def test_honest_blinded_trial_is_intact(opened: Case) -> None:
    """Nothing is found in an untouched one, so what is found below is the attack."""
    report = replay_ledger(opened.ledger)
    assert ("intact", ()) == (report.record, report.findings)
    assert "ok" == report.levels["numbers"]


def test_swapped_mapping_is_corrupt(opened: Case) -> None:
    """The two names exchanged in the `unblind` event don't make the commitments."""
    first, second = (arm["arm"].encode() for arm in opened_arms(opened))

    def swap(event: bytes) -> bytes:
        marks = b'"arm":"%b"' % first, b'"arm":"%b"' % second
        return event.replace(marks[0], b"<>").replace(marks[1], marks[0]).replace(b"<>", marks[1])

    place = forge(opened, "unblind", swap)
    report = opened.replay()
    assert "corrupt" == report.record
    assert ("broken_rule", place) in codes(report)


def test_wrong_salt_is_corrupt(opened: Case) -> None:
    """A salt that isn't the one of the freeze opens nothing."""
    salt = opened_arms(opened)[0]["salt"].encode()
    place = forge(opened, "unblind", lambda event: event.replace(salt, salt[::-1]))
    report = opened.replay()
    assert "corrupt" == report.record
    assert ("broken_rule", place) in codes(report)


def test_forged_commitment_is_corrupt(opened: Case) -> None:
    """A commitment exchanged in the freeze contradicts the opening that was kept, and `unblind`."""
    entries = opened.entries()
    frozen = msgspec.json.decode(entries[place_of(entries, "freeze")])["event"]["arms"]
    made = frozen[0]["commitment"].encode()
    place = forge(opened, "freeze", lambda event: event.replace(made, made[::-1]))
    report = replay_ledger(opened.ledger)
    assert "corrupt" == report.record
    assert ("broken_rule", place_of(entries, "unblind")) in codes(report)
    assert place < place_of(entries, "unblind")


def test_forged_commitment_is_corrupt_before_unblinding(opened: Case) -> None:
    """While the arms are blinded the kept opening shows a forged commitment, and tells nothing."""
    entries = opened.entries()
    opened.put(entries[: place_of(entries, "unblind")])
    frozen = msgspec.json.decode(entries[place_of(entries, "freeze")])["event"]["arms"]
    made = frozen[0]["commitment"].encode()
    place = forge(opened, "freeze", lambda event: event.replace(made, made[::-1]))
    report = replay_ledger(opened.ledger)
    assert "corrupt" == report.record
    assert ("contradiction", place) in codes(report)
    said = " ".join(f"{f.where} {f.expected} {f.found}" for f in report.findings)
    assert not any(arm in said for arm in ('"A"', '"B"', "arm A", "arm B", "arms.A", "arms.B"))


def test_whole_rewrite_of_the_mapping_needs_a_receipt(opened: Case) -> None:
    """Who writes a whole other ledger is found by what is kept outside it, and by nothing else."""
    place = forge(opened, "unblind", lambda event: event.replace(b"all looks", b"my wishes"))
    assert place > 0
    assert "intact" == opened.replay().record
    assert "forked" == opened.replay(opened.receipt).record


@pytest.mark.parametrize("kind", ["decision", "look"])
def test_changed_seal_is_found(opened: Case, kind: str) -> None:
    """Another digest in the place of a seal names nothing that is there."""
    entries = opened.entries()
    place = place_of(entries, kind)
    sealed = msgspec.json.decode(entries[place])["event"]["sealed"]
    digest = (sealed if isinstance(sealed, str) else sealed["blake3"]).encode()
    forge(opened, kind, lambda event: event.replace(digest, digest[::-1]))
    report = replay_ledger(opened.ledger)
    expected = "seal_differs" if kind == "decision" else "blob_differs"
    assert (expected, place) in codes(report)
    assert report.record in ("files_differ", "numbers_differ")


def test_sealed_numbers_of_another_look_differ(opened: Case) -> None:
    """A look that names the sealed numbers of another one is named with its place."""
    entries = opened.entries()
    first = place_of(entries, "look")
    second = place_of(entries, "look", after=first)
    looks = [msgspec.json.decode(entries[place])["event"] for place in (first, second)]
    old, new = (msgspec.json.encode(look["sealed"]) for look in looks)
    forge(opened, "look", lambda event: event.replace(old, new))
    report = replay_ledger(opened.ledger)
    assert first in {seq for _, seq in codes(report)}
    assert "numbers_differ" == report.record
