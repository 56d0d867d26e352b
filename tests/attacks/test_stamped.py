"""What a time stamp of an outside authority shows: backdating, and what was registered first."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pytest

from fairtrial.custody.anchor_acts import checkpoint_ledger
from fairtrial.custody.timestamping import stamp_request
from fairtrial.custody.vouching import Pins, read_pins
from fairtrial.engine.inspecting import export_ledger
from fairtrial.engine.session import register_protocol, result_of, run
from fairtrial.engine.story import read_stories
from fairtrial.ledger.errors import RefusedError
from fairtrial.verbs.text_replay import replay_text
from tests.custody.timestamp_authority import Authority, require_timestamps

from .conftest import Verify, place_of, rechained, write_trial
from .signed_trial import ACTOR, SignedTrial, home_of, signed_copy

pytestmark = pytest.mark.slow


@dataclass(frozen=True)
class Stamped:
    """A trial whose freeze was stamped before its first outcome, and the caller's certificates."""

    trial: SignedTrial
    authority: Authority
    roots: Path

    @property
    def pins(self) -> Pins:
        """The authority's certificates, from elsewhere."""
        return read_pins(stamp_roots=self.roots)

    def text(self) -> str:
        """Returns what `ledger replay` prints."""
        return replay_text(self.trial.judge(pins=self.pins), read_stories(self.trial.ledger))


@pytest.fixture(scope="module")
def authority(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    """An authority that stamps."""
    require_timestamps()
    return Authority(tmp_path_factory.mktemp("authority") / "one")


def make_stamped(folder: Path, authority: Authority, *, late: bool) -> None:
    """Makes a signed trial that requires a stamp, or one that is stamped after its run."""
    roots = folder / "roots.pem"
    roots.write_bytes(authority.roots)
    shutil.rmtree(folder / "trial")
    trial = folder / "trial"
    trial.mkdir()
    ledger, path = trial / "ledger.db", write_trial(trial)
    if not late:
        path.write_text(path.read_text().replace("{commit: false}", "{anchor: timestamp}"))

    def stamp() -> None:
        note = max((trial / "ledger.db.d/checkpoints").glob("*.note"))
        token = folder / "token.tsr"
        token.write_bytes(authority.stamp(stamp_request(note.read_bytes())))
        checkpoint_ledger(ledger, actor=ACTOR, key="lab", note=note, token=token)

    with pytest.MonkeyPatch.context() as patch:
        for name, value in home_of(folder).items():
            patch.setenv(name, value)
        patch.setenv("FAIRTRIAL_TSA_ROOTS", str(roots))
        register_protocol(ledger, path, actor=ACTOR, key="lab")
        if late:
            run(ledger, None, actor=ACTOR, key="lab")
            stamp()
        else:
            with pytest.raises(RefusedError, match="wants a timestamp"):
                run(ledger, None, actor=ACTOR, key="lab")
            stamp()
            run(ledger, None, actor=ACTOR, key="lab")
        _, receipt = result_of(ledger, None, actor=ACTOR, key="lab")
        export_ledger(ledger, trial / "ledger.jsonl")
    (folder / "receipt").write_text(receipt)


def stamped_source(made: Path, folder: Path, authority: Authority, *, late: bool) -> Path:
    """Returns the folder of a stamped trial with the keys of the signed one."""
    shutil.copytree(made, folder)
    shutil.rmtree(folder / "state")
    make_stamped(folder, authority, late=late)
    return folder


@pytest.fixture(scope="module")
def sources(
    signed_source: Path, authority: Authority, tmp_path_factory: pytest.TempPathFactory
) -> dict[str, Path]:
    """The folders of a trial stamped in time and of one stamped late."""
    folder = tmp_path_factory.mktemp("stamped")
    return {
        name: stamped_source(signed_source, folder / name, authority, late=name == "late")
        for name in ("in time", "late")
    }


Stamp = Callable[..., Stamped]


@pytest.fixture(params=["db", "jsonl"])
def stamped(
    request: pytest.FixtureRequest, sources: dict[str, Path], authority: Authority, tmp_path: Path
) -> Stamp:
    """Returns a copy of a stamped trial in each store."""

    def make(which: str = "in time") -> Stamped:
        trial = signed_copy(sources[which], tmp_path / which, request.param)
        return Stamped(trial, authority, tmp_path / which / "roots.pem")

    return make


def test_what_was_registered_first_is_shown_by_the_stamp(stamped: Stamp) -> None:
    """The stamp over the freeze is on record before the first outcome, and the text says so."""
    made = stamped()
    report = made.trial.judge(pins=made.pins)
    assert ("intact", "part") == (report.record, report.anchored)
    (stamp,) = report.stamps
    entries = made.trial.entries()
    assert place_of(entries, "freeze") < stamp.size <= stamp.seq < place_of(entries, "decision")
    assert "covers the freeze and stands before the first outcome" in made.text()
    assert "no outside time" not in made.text()


def test_stamp_that_came_after_results_is_told(stamped: Stamp) -> None:
    """Stamped once the outcomes were known: the stamp is real and shows nothing of the order."""
    made = stamped("late")
    assert "intact" == made.trial.judge(pins=made.pins).record
    assert "stands AFTER the first outcome" in made.text()


def test_run_without_the_required_stamp_is_corrupt(stamped: Stamp) -> None:
    """The stamp taken out, or moved behind the first outcome, with the chain made again.

    The protocol requires it before the run: the order rules find that, whoever signs.
    """
    made = stamped()
    entries = made.trial.entries()
    first = place_of(entries, "freeze")
    anchors = [n for n, data in enumerate(entries) if b'"event":{"kind":"anchor/1"' in data]
    stamp = next(n for n in anchors if b'"level":"timestamp"' in entries[n])
    assert first < stamp
    without = [*entries[:stamp], *entries[stamp + 1 :]]
    decision = place_of(without, "decision")
    moved = [*without[: decision + 1], entries[stamp], *without[decision + 1 :]]
    for forged in (without, moved):
        made.trial.put_signed(rechained(forged), made.trial.key().signer)
        report = made.trial.judge(pins=made.pins)
        assert "corrupt" == report.record
        assert "broken_rule" in {one.code for one in report.findings}


def test_backdated_ledger_contradicts_its_stamp(stamped: Stamp, verify: Verify) -> None:
    """All times ten years earlier: what the stamp is over has other bytes now.

    The one-file verifier checks no signature: to it the bytes agree, and it says what it left out.
    """
    made = stamped()
    entries = made.trial.entries()
    made.trial.put(rechained(entries, time_of=lambda seq, time: "2016" + time[4:]))
    made.trial.drop_evidence()
    report = made.trial.judge(pins=made.pins)
    assert ("corrupt", "no", ()) == (report.record, report.anchored, report.stamps)
    word, said = verify(made.trial)
    assert ("intact", True) == (word, "not checked: rules, numbers, signatures, files" in said)
    assert "UNANCHORED" in said


def test_times_set_back_after_the_stamp_are_told(stamped: Stamp) -> None:
    """The covered beginning untouched, what follows backdated: the stamp's own entry says no."""
    made = stamped()
    (stamp,) = made.trial.judge(pins=made.pins).stamps
    entries = made.trial.entries()
    shifted = rechained(
        entries, time_of=lambda seq, time: time if seq < stamp.size else "2016" + time[4:]
    )
    made.trial.put(shifted)
    made.trial.drop_evidence()
    report = made.trial.judge(pins=made.pins)
    assert "clock_contradicted" in {one.code for one in report.findings}
    assert stamp.size == report.time_steps_back[0]
    assert "clock contradicted" in made.text()


def test_honest_clock_agrees_with_its_stamp(stamped: Stamp) -> None:
    """Without any change there is no such finding."""
    made = stamped()
    assert () == made.trial.judge(pins=made.pins).findings


def test_stamp_of_another_ledger_vouches_for_nothing(stamped: Stamp) -> None:
    """A real stamp taken from another trial's record: its note is another ledger's."""
    made, other = stamped(), stamped("late")
    entries = made.trial.entries()
    anchor = next(data for data in other.trial.entries() if b'"level":"timestamp"' in data)
    at = len(entries)
    anchors = sum(b'"event":{"kind":"anchor/1"' in data for data in entries)
    free = b'"number":%d,' % (anchors + 1)
    shutil.copytree(
        other.trial.notes.parent / "blobs", made.trial.notes.parent / "blobs", dirs_exist_ok=True
    )
    own = entries[0][: entries[0].index(b',"seq"')]
    theirs = anchor[: anchor.index(b',"seq"')]
    anchor = anchor.replace(theirs, own).replace(b'"number":1,', free)
    made.trial.put(rechained([*entries, anchor]))
    made.trial.drop_evidence()
    report = made.trial.judge(pins=made.pins)
    assert "corrupt" == report.record
    assert ("bad_signature", at) in {(one.code, one.seq) for one in report.findings}
    assert at not in {stamp.seq for stamp in report.stamps}
