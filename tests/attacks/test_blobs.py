"""A blob is deleted or changed: a finding, unless the record says that it was erased."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from fairtrial.engine.closing import close_ledger
from fairtrial.engine.inspecting import replay_ledger
from fairtrial.engine.redacting import redact_blob
from fairtrial.ledger.errors import RefusedError, TransitionError
from fairtrial.ledger.events import Blob, Freeze, Register, Start
from fairtrial.ledger.opening import blob_store, open_store
from fairtrial.ledger.reading import read_events

from .conftest import Case, Verify

Agreed = Callable[..., str]


def blob_of_first(case: Case, kind: type[Register | Freeze | Start], name: str) -> tuple[int, Blob]:
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


def test_erased_units_leave_the_numbers_unchecked(case: Case) -> None:
    """Without the units no number can be computed again: that level is skipped and says why."""
    seq, _ = blob_of_first(case, Freeze, "units")
    redact_blob(case.ledger, f"{seq}:units", actor="ada", reason="personal data")
    report = replay_ledger(case.ledger)
    assert ("intact", "skipped") == (report.record, report.levels["numbers"])
    assert "erased on record" in report.skipped["numbers"]


@pytest.mark.parametrize(
    ("kind", "name"), [(Register, "protocol"), (Register, "resolved"), (Freeze, "plan")]
)
def test_what_the_rules_need_is_not_erased(
    case: Case, kind: type[Register | Freeze], name: str
) -> None:
    """Protocol and plan stay: without them nobody could check the order."""
    seq, blob = blob_of_first(case, kind, name)
    with pytest.raises(TransitionError, match="can't be erased"):
        redact_blob(case.ledger, f"{seq}:{name}", actor="ada", reason="r")
    assert path_of(case, blob).exists()


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
