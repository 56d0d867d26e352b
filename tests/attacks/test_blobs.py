"""A blob is deleted or changed: a finding, unless the record says that it was erased."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path

import msgspec
import pytest

from fairtrial.custody.closing import close_ledger
from fairtrial.custody.redacting import redact_blob
from fairtrial.engine.inspecting import replay_ledger
from fairtrial.engine.session import result_of
from fairtrial.engine.story import read_stories
from fairtrial.ledger.canonical import encode_event
from fairtrial.ledger.entry import parse_entry
from fairtrial.ledger.errors import RefusedError, TransitionError
from fairtrial.ledger.events import Blob, Freeze, Redact, Register, Result, Start
from fairtrial.ledger.opening import blob_store, open_store
from fairtrial.ledger.reading import read_events
from fairtrial.verbs.text_replay import record_line, replay_text

from .conftest import Case, Verify, place_of, rechained

Agreed = Callable[..., str]


Kind = type[Register | Freeze | Start | Result]


def blob_of_first(case: Case, kind: Kind, name: str) -> tuple[int, Blob]:
    """Returns place and blob of a member of the first event of a kind."""
    store = open_store(case.ledger, read_only=True)
    try:
        for entry, event in read_events(store):
            if isinstance(event, kind):
                blob: Blob = getattr(event, name)
                return entry.seq, blob
    finally:
        store.close()
    raise LookupError(kind)


def path_of(case: Case, blob: Blob) -> Path:
    """Returns the file that holds a blob."""
    path = blob_store(case.ledger).path_of(blob)
    assert path is not None
    return path


def test_deleted_blob_is_a_finding(case: Case, agreed: Agreed) -> None:
    """A blob that is named and isn't there: files differ, at the entry that names it."""
    seq, blob = blob_of_first(case, Start, "environment")
    path_of(case, blob).unlink()
    assert "files_differ" == agreed(case, case.receipt)
    assert (seq, "blob_differs") in [(one.seq, one.code) for one in case.replay().findings]


def test_changed_blob_is_a_finding(case: Case, agreed: Agreed) -> None:
    """A blob with other bytes of the same length: files differ."""
    _, blob = blob_of_first(case, Start, "environment")
    path = path_of(case, blob)
    path.write_bytes(bytes(byte ^ 1 for byte in path.read_bytes()))
    assert "files_differ" == agreed(case, case.receipt)


def test_erased_blob_is_no_finding(case: Case, agreed: Agreed, verify: Verify) -> None:
    """A blob that is gone by `redact` leaves the record intact, and the earlier receipt true."""
    seq, blob = blob_of_first(case, Start, "environment")
    path = path_of(case, blob)
    done = redact_blob(case.ledger, f"{seq}:environment", actor="ada", reason="host names")
    assert (True, True, False) == (done.fresh, done.was_here, path.exists())
    assert "intact" == agreed(case, case.receipt) == agreed(case, done.receipt)
    assert "1 erased on record" in verify(case)[1]
    assert "intact" == replay_ledger(case.ledger, against=[case.receipt]).record


def test_erasing_is_done_once(case: Case) -> None:
    """A second call finishes what a crash left and puts nothing on record."""
    _, blob = blob_of_first(case, Start, "environment")
    first = redact_blob(case.ledger, blob.sha256, actor="ada", reason="host names")
    blob_store(case.ledger).put(b"")
    again = redact_blob(case.ledger, blob.blake3, actor="ada", reason="another reason")
    assert (first.event, first.receipt) == (again.event, again.receipt)
    assert (False, False) == (again.fresh, again.was_here)


KEPT = [
    (Register, "protocol"),
    (Register, "resolved"),
    (Register, "files"),
    (Freeze, "plan"),
    (Freeze, "units"),
    (Freeze, "files"),
    (Freeze, "power"),
]


@pytest.mark.parametrize(("kind", "name"), KEPT)
def test_what_the_record_is_checked_by_is_not_erased(
    case: Case, kind: type[Register | Freeze], name: str
) -> None:
    """Protocol, units, plan and lists stay: without them a false verdict couldn't be told."""
    seq, blob = blob_of_first(case, kind, name)
    with pytest.raises(TransitionError, match="can't be erased"):
        redact_blob(case.ledger, f"{seq}:{name}", actor="ada", reason="r")
    assert path_of(case, blob).exists()


def lied(case: Case, redact: Blob | None, *, at: int) -> str:
    """Puts `reject` in the place of the verdict, and a redact at a place; returns what was there.

    Every hash, basis and the blob store agree with that, as its owner can make it.
    """
    entries = case.entries()
    store = open_store(case.ledger, read_only=True)
    events = [event for _, event in read_events(store)]
    store.close()
    (result,) = (event for event in events if isinstance(event, Result))
    verdict = result.verdict
    lie = msgspec.structs.replace(result, verdict="reject")
    made = [encode_event(lie if event is result else event) for event in events]
    order = list(range(len(made)))
    if redact is not None:
        blob_store(case.ledger).erase(redact)
        made.append(encode_event(Redact(number=1, blob=redact, reason="r")))
        entries.append(entries[-1])
        order.insert(at, len(made) - 1)
    moved = [entries[old] for old in order]
    case.put(rechained(moved, lambda seq, _: made[order[seq]], inserted_at=at))
    assert verdict != "reject"
    return verdict


@pytest.mark.parametrize(
    ("kind", "name", "at"),
    [
        *((kind, name, 1) for kind, name in KEPT),
        (Freeze, "plan", -1),
        (Freeze, "units", -1),
        (Result, "detail", 1),
    ],
)
def test_false_verdict_is_not_hidden_by_erasing(
    case: Case, agreed: Agreed, kind: Kind, name: str, at: int
) -> None:
    """A redact before the entry that names the blob, or of what is kept, is corrupt at once."""
    _, blob = blob_of_first(case, kind, name)
    lied(case, blob, at=at if at > 0 else len(case.entries()))
    assert "corrupt" == agreed(case)
    assert "corrupt" == replay_ledger(case.ledger).record


def test_false_verdict_without_its_long_form_is_found(case: Case, verify: Verify) -> None:
    """Verdict and numbers are computed again although the long form was erased on record."""
    _, blob = blob_of_first(case, Result, "detail")
    lied(case, blob, at=len(case.entries()))
    assert "numbers_differ" == replay_ledger(case.ledger).record
    assert "intact" == verify(case)[0]


def test_erased_long_form_is_said(case: Case, agreed: Agreed) -> None:
    """An honest record without it is intact, with all numbers equal and a word about it."""
    seq, _ = blob_of_first(case, Result, "detail")
    redact_blob(case.ledger, f"{seq}:detail", actor="ada", reason="a name in it")
    report = replay_ledger(case.ledger)
    assert ("intact", "ok") == (report.record, report.levels["numbers"])
    assert ["long_form_erased"] == [one.code for one in report.findings]
    assert "long form was erased on record" in replay_text(report, read_stories(case.ledger))
    with pytest.raises(RefusedError, match="erased on record"):
        result_of(case.ledger, None, actor="ada")
    assert "intact" == agreed(case, case.receipt)


def _stored(events: list[bytes], seq: int, event: bytes) -> bytes:
    """Returns the event that shall stand at a place, whatever stood there."""
    del event
    return events[seq]


def test_redact_of_another_blob_of_that_digest_is_corrupt(case: Case, agreed: Agreed) -> None:
    """A redact names size, BLAKE3 and SHA-256 as an earlier entry does."""
    _, blob = blob_of_first(case, Start, "environment")
    honest = case.entries()
    for other in ({"size": 1}, {"blake3": "0" * 64}, {"sha256": "0" * 64}):
        redact = Redact(number=1, blob=msgspec.structs.replace(blob, **other), reason="r")
        events = [parse_entry(data).event for data in honest] + [encode_event(redact)]
        case.put(rechained([*honest, honest[-1]], partial(_stored, events)))
        assert "corrupt" == agreed(case)


def test_missing_plan_is_never_intact(case: Case) -> None:
    """Without the plan no rule can be followed: not intact, whichever levels were asked for."""
    _, blob = blob_of_first(case, Freeze, "plan")
    path_of(case, blob).unlink()
    assert "files_differ" == replay_ledger(case.ledger).record
    report = replay_ledger(case.ledger, with_files=False)
    assert ("files_differ", "skipped") == (report.record, report.levels["rules"])


def test_plan_of_other_bytes_is_corrupt(case: Case) -> None:
    """A plan blob that is whole and no plan doesn't leave the rules unchecked."""
    blob = blob_store(case.ledger).put(b"no plan")
    entries = case.entries()
    freeze = place_of(entries, "freeze")
    store = open_store(case.ledger, read_only=True)
    events = [event for _, event in read_events(store)]
    store.close()
    made = encode_event(msgspec.structs.replace(events[freeze], plan=blob))
    case.put(rechained(entries, lambda seq, event: made if seq == freeze else event))
    assert "corrupt" == replay_ledger(case.ledger).record


def test_unchecked_numbers_show_in_the_records_line(case: Case) -> None:
    """A verdict that wasn't computed again is said to be so in the line that people read."""
    line = record_line(case.replay(), read_stories(case.ledger))
    assert "NUMBERS NOT CHECKED" in line
    assert "NOT RECOMPUTED" in line
    assert "NOT" not in record_line(replay_ledger(case.ledger), read_stories(case.ledger))


@pytest.mark.parametrize("what", ["0" * 64, "1:nothing", "999:protocol", "protocol.yaml"])
def test_unknown_blob_is_refused(case: Case, what: str) -> None:
    """What no event names can't be erased, and nothing is put on record."""
    before = case.entries()
    with pytest.raises(RefusedError):
        redact_blob(case.ledger, what, actor="ada", reason="r")
    assert before == case.entries()


def test_closed_ledger_says_how_many_entries_there_were(case: Case, agreed: Agreed) -> None:
    """After `close` nothing can be registered or erased, and its head is the whole before it."""
    size = len(case.entries())
    done = close_ledger(case.ledger, actor="ada", reason="archived")
    assert size == done.event.basis.size
    assert "intact" == agreed(case, done.receipt)
    with pytest.raises(TransitionError, match="closed"):
        redact_blob(case.ledger, "1:files", actor="ada", reason="r")
