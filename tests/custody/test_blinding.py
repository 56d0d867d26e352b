"""Blinded arms: labels, commitments, seals, the same numbers, and what replay finds of them."""

from __future__ import annotations

import json
import re
import zipfile
from pathlib import Path

import msgspec
import pytest

from fairtrial.custody.blinding import Opening, names_of, openings_of, padded
from fairtrial.custody.bundling import README, bundle_ledger
from fairtrial.custody.redacting import redact_blob
from fairtrial.custody.sealing import Seals, opened_events
from fairtrial.custody.trial import open_trial
from fairtrial.engine.inspecting import (
    artifact_of,
    export_ledger,
    replay_ledger,
    revealed_arms,
    show_event,
    status,
)
from fairtrial.engine.look_view import read_look_view
from fairtrial.engine.progress import Progress
from fairtrial.engine.session import (
    amend_protocol,
    freeze_experiment,
    look_at,
    register_protocol,
    result_of,
    run,
    settle_cost,
    withdraw_experiment,
)
from fairtrial.engine.unblinding import unblind_experiment
from fairtrial.ledger.blinding import arm_labels, commitment, drawn_labels
from fairtrial.ledger.errors import (
    DigestMismatchError,
    IntegrityError,
    ProtocolError,
    RefusedError,
    StoreError,
    TransitionError,
)
from fairtrial.ledger.events import AttemptEnd, Decision, Event, Freeze, Look
from fairtrial.protocols.file import check_supported, parse_protocol
from fairtrial.verbs.text_look import look_text

from .blinded_trial import (
    ACTOR,
    BLINDED,
    NEW,
    OLD,
    SECRETS,
    blinded_ledger,
    finish,
    numbers,
    write_plan,
)

STORES = ("ledger.db", "ledger.jsonl")


class Heard:
    """A sink that keeps every line for people."""

    def __init__(self) -> None:
        self.notes: list[str] = []

    def note(self, text: str) -> None:
        """Keeps a line."""
        self.notes.append(text)

    def progress(self, progress: Progress) -> None:
        """Keeps a view as it is shown."""
        self.notes.append(repr(progress))


def events(ledger: Path) -> list[Event]:
    """Returns all events."""
    with open_trial(ledger, read_only=True) as trial:
        return [event for _, event in trial.read()]


def folder(tmp_path: Path, name: str = "blinded") -> Path:
    """Returns a folder whose name says that its arms have to be opened."""
    (tmp_path / name).mkdir()
    return tmp_path / name


@pytest.mark.slow
@pytest.mark.parametrize(
    ("store", "unsafe", "verdict"),
    [("ledger.db", False, "adopt"), ("ledger.jsonl", True, "reject")],
)
def test_blinded_result_is_that_of_the_unblinded_experiment(
    tmp_path: Path, store: str, unsafe: bool, verdict: str
) -> None:
    """Sealing changes no number: verdict, estimates, harm, saving, looks and spend are the same."""
    blinded = finish(blinded_ledger(folder(tmp_path), store, unsafe=unsafe))
    plain = finish(blinded_ledger(folder(tmp_path, "plain"), store, unsafe=unsafe, more=""))
    assert verdict == plain["verdict"]
    assert numbers(plain) == numbers(blinded)
    report = replay_ledger(tmp_path / "blinded" / store)
    assert ("intact", "ok", 3) == (report.record, report.levels["numbers"], report.recomputed)


@pytest.mark.slow
@pytest.mark.parametrize("name", ["blinded", "plain"])
def test_run_that_a_signal_to_its_host_ended_explains_the_missing_result(
    tmp_path: Path, name: str
) -> None:
    """SIGTERM ends a run and not the program around it, so whoever goes on is told of it."""
    home = folder(tmp_path, name)
    path = write_plan(home, units=40, more=BLINDED if name == "blinded" else "")
    arm, told = home / "arm.py", "import os\nWAITS = []\n"
    told += (home / "arm.py").read_text().replace(
        "    n, costly", '    WAITS.append(1)\n    len(WAITS) == 9 and os.kill(os.getpid(), 15)\n'
        "    len(WAITS) >= 9 and time.sleep(60)\n    n, costly"
    )  # fmt: skip
    arm.write_text(told)
    register_protocol(home / "ledger.db", path, actor=ACTOR)
    assert "terminated" == run(home / "ledger.db", None, actor=ACTOR, concurrency=1).reason
    with pytest.raises(TransitionError, match="isn't finished") as caught:
        finish(home / "ledger.db")
    assert re.fullmatch(
        r"\d outcomes and 0 looks; session 1 stopped: terminated; before look 1:.*"
        r" 1 interrupted, to try again \(position \d+\), .*not started \(positions .*\).*",
        caught.value.found,
    )


@pytest.mark.slow
def test_crossing_at_a_sealed_look_concludes(tmp_path: Path) -> None:
    """A look that stops the run tells its side only after the arms are open."""
    ledger = blinded_ledger(folder(tmp_path), units=160, clusters=40)
    with open_trial(ledger, read_only=True) as trial:
        known = trial.experiment(None)
        assert (1, True) == (len(known.taken), known.taken[0].crossed)
    with pytest.raises(TransitionError, match="ends with its result"):
        withdraw_experiment(ledger, None, actor=ACTOR, reason="not what was hoped for")
    assert ("adopt", "boundary") == ((found := finish(ledger))["verdict"], found["stopped_by"])


@pytest.mark.slow
@pytest.mark.parametrize("store", STORES)
def test_ledger_bytes_tell_nothing(tmp_path: Path, store: str) -> None:
    """No byte of a blinded ledger holds an arm's name, label, model, price or artifact."""
    ledger = blinded_ledger(folder(tmp_path), store)
    data = ledger.read_bytes().decode("latin-1")
    assert [] == [secret for secret in SECRETS if secret in data]
    found = events(ledger)
    endings = [event for event in found if isinstance(event, (Decision, AttemptEnd))]
    assert all(event.sealed is not None for event in endings)
    assert len(endings) == len({event.sealed for event in endings})
    looks = [event for event in found if isinstance(event, Look)]
    assert [()] * len(looks) == [look.comparisons for look in looks]
    sizes = {arm.identity.size for arm in _frozen(ledger).arms}
    assert 1 == len(sizes)


def _frozen(ledger: Path) -> Freeze:
    return next(event for event in events(ledger) if isinstance(event, Freeze))


def test_labels_follow_the_salts_not_the_file() -> None:
    """Over many salts each arm is X about half the time, and a salt alone decides."""
    drawn = [drawn_labels("e", {OLD: f"{n:064x}", NEW: f"{n + 9999:064x}"}) for n in range(200)]
    assert 70 < sum(labels[OLD] == "X" for labels in drawn) < 130
    assert drawn[3] == drawn_labels("e", {NEW: f"{3 + 9999:064x}", OLD: f"{3:064x}"})
    assert ("X", "Y", "Z", "L4", "L5") == arm_labels(5)


def test_commitment_is_the_one_of_the_format() -> None:
    """The vector of docs/format.md, and every part of it counts."""
    parts = ("e", "X", "candidate", "00" * 32)
    made = commitment(*parts)
    assert "05401a63a91eed0f11d7f663ec15a455ce05b43eec0dd11ec905e36db74354b3" == made
    for place in range(4):
        other = [*parts]
        other[place] += "1"
        assert made != commitment(*other)


def test_freezing_again_keeps_the_labels(tmp_path: Path) -> None:
    """Salts are drawn once: the same freeze is a no-op, not a second draw."""
    home = folder(tmp_path)
    ledger = home / "ledger.db"
    first = register_protocol(ledger, write_plan(home), actor=ACTOR)
    again = freeze_experiment(ledger, None, actor=ACTOR)
    assert first.freeze == again.freeze
    assert 3 == len(events(ledger))


REFUSED = {
    "arms.*.repeats": (f"  {OLD}: {{label", f"  {OLD}: {{repeats: 2, label"),
    "arms.*.driver.repeatable": ("reserve_usd: 0.05", "reserve_usd: 0.05, repeatable: false"),
    "budget.arms": ("usd: 50}", f"usd: 50, arms: {{{OLD}: {{usd: 40}}, {NEW}: {{usd: 9}}}}}}"),
    "budget.tokens": ("usd: 50}", "usd: 50, tokens: 100000}"),
}


@pytest.mark.parametrize("field", REFUSED)
def test_what_would_tell_arms_apart_is_refused(tmp_path: Path, field: str) -> None:
    """A plan whose readable part can't be the same for all arms isn't blinded by name only."""
    path = write_plan(folder(tmp_path))
    text = path.read_text().replace(*REFUSED[field], 1)
    text = text.replace("max: 2", "max: 1")
    if "repeats" in text:
        text = text.replace("type: binary", "type: bounded, bounds: [0, 1], reducer: mean")
        text = text.replace("type: cost", "type: cost, reducer: mean")
    with pytest.raises(ProtocolError) as caught:
        check_supported(parse_protocol(text.encode(), name="p", media="yaml"))
    assert [field] == [problem.where for problem in caught.value.problems]
    check_supported(parse_protocol(text.replace(BLINDED, "").encode(), name="p", media="yaml"))


def test_full_looks_are_refused_while_arms_are_blinded(tmp_path: Path) -> None:
    """A look that shows everything would show the arms."""
    path = write_plan(folder(tmp_path), more="blinding: {arms: true, looks: full}")
    with pytest.raises(ProtocolError, match="hidden"):
        register_protocol(path.parent / "ledger.db", path, actor=ACTOR)


@pytest.mark.slow
def test_result_and_settle_wait_for_unblinding(tmp_path: Path) -> None:
    """What needs an arm's name or its cost is refused with what to do, and nothing is written."""
    ledger = blinded_ledger(folder(tmp_path), units=40)
    size = len(events(ledger))
    with pytest.raises(TransitionError, match="still blinded") as caught:
        result_of(ledger, None, actor=ACTOR)
    assert "ledger unblind" in caught.value.todo
    end = next(n for n, event in enumerate(events(ledger)) if isinstance(event, AttemptEnd))
    with pytest.raises(TransitionError, match="apart"):
        settle_cost(ledger, None, actor=ACTOR, seq=end, usd="0.1", reason="bill")
    with pytest.raises(RefusedError, match="sealed"):
        artifact_of(ledger, end, "diary.txt")
    with pytest.raises(RefusedError, match="reason"):
        unblind_experiment(ledger, None, actor=ACTOR, reason=" ")
    assert size == len(events(ledger))
    assert "ledger unblind --reason TEXT" == status(ledger)[0].next


@pytest.mark.slow
def test_views_before_and_after(tmp_path: Path) -> None:
    """Status, look and show hold nothing of an arm before, and everything after."""
    ledger = blinded_ledger(folder(tmp_path), units=40)
    before = status(ledger)[0]
    assert (True, {}, {"ok": 80}) == (before.blinded, before.arms, before.statuses)
    assert () == look_at(ledger, None, actor=ACTOR, number=1)[0].comparisons
    seq = next(n for n, event in enumerate(events(ledger)) if isinstance(event, Decision))
    assert show_event(ledger, seq).opened is None
    assert {} == revealed_arms(ledger, "lab")
    shown = look_at(ledger, None, actor=ACTOR, number=1)[0]
    assert "sealed until ledger unblind" in look_text(shown, read_look_view(ledger, shown))
    done = bundle_ledger(ledger, tmp_path / "sealed.zip")
    with zipfile.ZipFile(tmp_path / "sealed.zip") as archive:
        assert "STILL BLINDED: lab" in archive.read(README).decode()
    assert ("lab",) == done.blinded
    unblind_experiment(ledger, None, actor=ACTOR, reason="done")
    assert () == bundle_ledger(ledger, tmp_path / "open.zip").blinded
    after = status(ledger)[0]
    # All costs were sealed and so looked unreported; opened, none of them is.
    assert (None, None) == (before.unpriced, before.unsettled)
    assert after.unpriced is not None
    assert 0 == after.unpriced.attempts
    assert {OLD, NEW} == set(after.arms)
    assert after.spent_usd == pytest.approx(sum(arm.spent_usd for arm in after.arms.values()))
    assert after.spent_usd < before.spent_usd / 2
    comparison = look_at(ledger, None, actor=ACTOR, number=1)[0].comparisons[0]
    assert (NEW, OLD) == (comparison.treatment, comparison.control)
    opened = show_event(ledger, seq).opened
    assert isinstance(opened, Decision)
    assert opened.served_model in ("bigmodel", "tinymodel")
    assert b"dear diary" in artifact_of(ledger, seq, "diary.txt")
    assert {"X", "Y"} == set(revealed_arms(ledger, "lab"))


@pytest.mark.slow
def test_continue_or_stop_alone_hides_looks_until_the_result(tmp_path: Path) -> None:
    """Without blinded arms a look says only whether the run goes on, until the result is there."""
    ledger = blinded_ledger(
        folder(tmp_path, "plain"), units=40, more="blinding: {looks: continue_or_stop}"
    )
    look = look_at(ledger, None, actor=ACTOR, number=1)[0]
    assert read_look_view(ledger, look).hidden
    finish(ledger)
    assert not read_look_view(ledger, look).hidden


def _interrupted(tmp_path: Path) -> Path:
    """Returns a blinded ledger whose run stopped in the middle at its ceiling."""
    home = folder(tmp_path)
    path = write_plan(home, units=40)
    path.write_text(path.read_text().replace("usd: 50", "usd: 2"))
    register_protocol(home / "ledger.db", path, actor=ACTOR)
    assert "ceiling" == run(home / "ledger.db", None, actor=ACTOR).reason
    return home / "ledger.db"


@pytest.mark.slow
def test_ceiling_counts_reservations(tmp_path: Path) -> None:
    """While costs are sealed each attempt counts with the common, largest reservation."""
    ledger = _interrupted(tmp_path)
    now = status(ledger)[0]
    attempts = sum(event.__class__.__name__ == "Attempt" for event in events(ledger))
    assert now.spent_usd == pytest.approx(0.05 * attempts)
    assert 1.95 < now.spent_usd <= 2.0


@pytest.mark.slow
def test_early_unblinding_is_not_as_registered(tmp_path: Path) -> None:
    """Opened before the data are complete, the arms go on by name and the result says so."""
    ledger = _interrupted(tmp_path)
    assert unblind_experiment(ledger, None, actor=ACTOR, reason="an arm is broken").early
    with pytest.raises(TransitionError, match="are open"):
        unblind_experiment(ledger, None, actor=ACTOR, reason="again")
    concluded, _ = result_of(ledger, None, actor=ACTOR, stop=True, reason="given up")
    assert (False, "inconclusive") == (concluded.event.as_registered, concluded.event.verdict)
    assert json.loads(concluded.detail)["unblinded_early"] is True
    assert "intact" == replay_ledger(ledger).record


@pytest.mark.slow
def test_run_goes_on_by_name_after_early_unblinding(tmp_path: Path) -> None:
    """Outcomes after the arms are open hold their cost in the event; replay agrees with both."""
    ledger = _interrupted(tmp_path)
    unblind_experiment(ledger, None, actor=ACTOR, reason="an arm is broken")
    path = ledger.parent / "protocol.yaml"
    path.write_text(path.read_text().replace("usd: 2}", "usd: 60}"))
    amend_protocol(ledger, None, actor=ACTOR, reason="more money")
    assert "complete" == run(ledger, None, actor=ACTOR).reason
    result = finish_open(ledger)
    assert result["as_registered"] is False
    costs = [event.cost_nanousd for event in events(ledger) if isinstance(event, Decision)]
    assert None in costs
    assert {17_300_000, 3_100_000} <= set(costs)
    assert ("intact", "ok") == ((r := replay_ledger(ledger)).record, r.levels["numbers"])


def finish_open(ledger: Path) -> dict[str, object]:
    """Returns the result of an experiment whose arms are open."""
    found: dict[str, object] = json.loads(result_of(ledger, None, actor=ACTOR)[0].detail)
    return found


@pytest.mark.slow
def test_replay_skips_sealed_numbers_and_says_so(tmp_path: Path) -> None:
    """Before `unblind` no number is compared, and that isn't called equal."""
    ledger = blinded_ledger(folder(tmp_path), units=40)
    report = replay_ledger(ledger)
    assert ("intact", "skipped", 0) == (report.record, report.levels["numbers"], report.recomputed)
    assert report.skipped["numbers"].startswith("sealed")


def test_changed_driver_is_refused_without_a_name(tmp_path: Path) -> None:
    """Which label a changed part belongs to would tell the arms apart."""
    home = folder(tmp_path)
    ledger = home / "ledger.db"
    path = write_plan(home, units=40)
    register_protocol(ledger, path, actor=ACTOR)
    (home / "arm.py").write_text((home / "arm.py").read_text() + "# changed\n")
    with pytest.raises(DigestMismatchError) as caught:
        run(ledger, None, actor=ACTOR)
    assert [] == [secret for secret in SECRETS if secret in str(caught.value)]
    write_plan(home, units=40)
    text = path.read_text()
    path.write_text(text.replace("how: frugal", "how: frugally"))
    with pytest.raises(DigestMismatchError) as caught:
        run(ledger, None, actor=ACTOR)
    assert [] == [secret for secret in SECRETS if secret in str(caught.value)]
    assert [] == [secret for secret in SECRETS if secret in ledger.read_bytes().decode("latin-1")]


def test_changed_value_that_is_no_arms_is_shown(tmp_path: Path) -> None:
    """A ceiling is public and in the caller's file; what names an arm stays a digest."""
    home = folder(tmp_path)
    ledger = home / "ledger.db"
    path = write_plan(home, units=40)
    register_protocol(ledger, path, actor=ACTOR)
    text = path.read_text()
    path.write_text(text.replace("usd: 50}", "usd: 60}"))
    with pytest.raises(DigestMismatchError) as caught:
        run(ledger, None, actor=ACTOR)
    assert ("lab: budget.usd", "50.0", "60.0") == (
        caught.value.where, caught.value.expected, caught.value.found,
    )  # fmt: skip
    named = f"analysis: {{comparisons: [{{name: c, treatment: {OLD}, control: {NEW}, share: 1}}], "
    path.write_text(text.replace("analysis: {", named))
    with pytest.raises(DigestMismatchError) as caught:
        run(ledger, None, actor=ACTOR)
    assert "analysis" in caught.value.where
    assert [] == [name for name in (OLD, NEW) if name in str(caught.value)]


@pytest.mark.slow
def test_no_refusal_finding_or_fault_names_an_arm(tmp_path: Path) -> None:
    """A changed file of one arm, and an arm that fails, are told without arm, label or place."""
    home = folder(tmp_path)
    ledger = home / "ledger.db"
    path = write_plan(home, units=40)
    # One program each, and one of them always fails.
    (home / "bad.py").write_text('def ask(job):\n    return {"status": "error"}\n')
    text = path.read_text()
    at = text.index(f"  {NEW}: ")
    own = text[at:].replace("arm:ask", "bad:ask", 1).replace("arm.py", "bad.py", 1)
    path.write_text(text[:at] + own)
    register_protocol(ledger, path, actor=ACTOR)
    sink = Heard()
    failed = run(ledger, None, actor=ACTOR, sink=sink)
    assert ("arm_failing", True) == (failed.reason, "failed in one of the arms" in str(failed.note))
    (home / "bad.py").write_text("# mended\n")
    with pytest.raises(DigestMismatchError) as caught:
        run(ledger, None, actor=ACTOR)
    report = replay_ledger(ledger)
    assert ["file_differs"] == [finding.code for finding in report.findings]
    assert failed.note is not None
    told = [failed.note, str(caught.value), *caught.value.__notes__, *sink.notes]
    told += [repr(report.findings), repr(events(ledger)[-1])]
    for one in told:
        assert [] == [name for name in (OLD, NEW) if name in one]
        assert None is re.search(r"\barm (X|Y)\b|arms\.\w", one), one


def _blob_files(ledger: Path) -> Path:
    return ledger.with_name(f"{ledger.name}.d") / "blobs"


@pytest.mark.slow
def test_lost_opening_is_a_clear_refusal(tmp_path: Path) -> None:
    """Without an opening the arms stay blinded; a copy of the ledger brings it along."""
    ledger = blinded_ledger(folder(tmp_path), units=40)
    (tmp_path / "blinded copy").mkdir()
    copy = tmp_path / "blinded copy" / "copy.db"
    export_ledger(ledger, copy)
    name = _frozen(ledger).arms[0].identity.blake3
    (_blob_files(ledger) / name[:2] / name).unlink()
    for act in (unblind_experiment, run_again):
        with pytest.raises(StoreError, match="lost") as caught:
            act(ledger, None, actor=ACTOR, reason="done")
        assert "from a copy" in caught.value.todo
    assert "blob_differs" in {finding.code for finding in replay_ledger(ledger).findings}
    assert finish(copy)["as_registered"]


def run_again(ledger: Path, name: str | None, *, actor: str, reason: str) -> None:
    """Takes a look back, so that a run needs the arms."""
    del reason
    with open_trial(ledger, actor=actor) as trial:
        names_of(trial, trial.experiment(name))


@pytest.mark.slow
def test_opening_that_was_changed_is_refused(tmp_path: Path) -> None:
    """An opening has to be what the freeze committed to, whoever wrote it."""
    ledger = blinded_ledger(folder(tmp_path), units=40)
    with open_trial(ledger, read_only=True) as trial:
        known = trial.experiment(None)
        first, second = openings_of(trial, known)
        swapped = msgspec.structs.replace(first, arm=second.arm)
        forged = trial.blobs
        blob = known.arms[0].identity
    path = forged.path_of(blob)
    assert path is not None
    path.chmod(0o600)
    path.write_bytes(padded(msgspec.json.encode(swapped), blob.size))
    with pytest.raises(IntegrityError):
        unblind_experiment(ledger, None, actor=ACTOR, reason="done")
    assert isinstance(swapped, Opening)


@pytest.mark.slow
def test_unopened_seals_are_not_redacted(tmp_path: Path) -> None:
    """Openings and sealed looks stay: without them no number could be computed again."""
    ledger = blinded_ledger(folder(tmp_path), units=40)
    look = next(n for n, event in enumerate(events(ledger)) if isinstance(event, Look))
    for what in (_frozen(ledger).arms[0].identity.sha256, f"{look}:sealed"):
        with pytest.raises(TransitionError):
            redact_blob(ledger, what, actor=ACTOR, reason="space")
    unblind_experiment(ledger, None, actor=ACTOR, reason="done")
    with pytest.raises(TransitionError):
        redact_blob(ledger, _frozen(ledger).arms[0].identity.sha256, actor=ACTOR, reason="space")
    seq = next(n for n, event in enumerate(events(ledger)) if isinstance(event, Decision))
    assert redact_blob(ledger, f"{seq}:diary.txt", actor=ACTOR, reason="a name in it").was_here
    assert finish_open(ledger)["verdict"]


@pytest.mark.slow
@pytest.mark.parametrize("store", STORES)
@pytest.mark.parametrize("how", ["gone", "changed"])
def test_sealed_value_that_is_missing_or_changed_is_found(
    tmp_path: Path, store: str, how: str
) -> None:
    """Replay names the entry whose sealed part isn't what it committed to, before and after."""
    ledger = blinded_ledger(folder(tmp_path), store, units=40)
    with open_trial(ledger, read_only=True) as trial:
        seq, event = next((e.seq, v) for e, v in trial.read() if isinstance(v, Decision))
        assert event.sealed is not None
        place = trial.blobs.by_sha256(multiple_of=256)[event.sealed]
        held = trial.blobs.path_of(place)
        content = trial.blobs.get(place)
    assert held is not None
    data = held.read_bytes()
    if how == "changed":
        held.write_bytes(data.replace(content, content.replace(b'"v":1', b'"v":2')))
    elif held.suffix == ".pack":
        held.write_bytes(data.replace(content, b" " * len(content)))
    else:
        held.unlink()
    found = {(f.code, f.seq) for f in replay_ledger(ledger).findings}
    assert ("seal_differs", seq) in found
    unblind_experiment(ledger, None, actor=ACTOR, reason="done")
    report = replay_ledger(ledger)
    assert report.record != "intact"
    assert ("seal_differs", seq) in {(f.code, f.seq) for f in report.findings}
    with pytest.raises(StoreError, match="sealed value"):
        result_of(ledger, None, actor=ACTOR)


@pytest.mark.slow
def test_seal_opens_to_the_event_that_was_sealed(tmp_path: Path) -> None:
    """Opened events are those of an experiment that was never blinded, by the arms' own terms."""
    ledger = blinded_ledger(folder(tmp_path), units=40)
    with open_trial(ledger, read_only=True) as trial:
        known = trial.experiment(None)
        opened = [event for _, event in opened_events(trial, known, trial.log.state.size)]
        seals = Seals(trial)
        sealed = [event for _, event in trial.read()]
    frozen = next(event for event in opened if isinstance(event, Freeze))
    assert {(OLD, 50_000_000), (NEW, 20_000_000)} == {
        (arm.name, arm.reserve_nanousd) for arm in frozen.arms
    }
    ends = [event for event in opened if isinstance(event, (Decision, AttemptEnd))]
    assert {17_300_000, 3_100_000} <= {event.cost_nanousd for event in ends}
    assert all(seals.has(one.sealed or "") for one in sealed if isinstance(one, Decision))


def test_amending_cannot_open_the_arms(tmp_path: Path) -> None:
    """Whether arms are blinded is fixed by the freeze: `unblind` is the way."""
    home = folder(tmp_path)
    path = write_plan(home, units=40)
    register_protocol(home / "ledger.db", path, actor=ACTOR)
    path.write_text(path.read_text().replace(BLINDED, ""))
    with pytest.raises(RefusedError, match="fixed by the freeze"):
        amend_protocol(home / "ledger.db", None, actor=ACTOR, reason="let us see")
