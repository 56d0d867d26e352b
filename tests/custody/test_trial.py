"""A ledger opened for writing: who writes with other schemas is on record before the first act."""

from __future__ import annotations

import resource
import signal
from pathlib import Path

import pytest

from fairtrial.custody.trial import open_trial, tool_name
from fairtrial.ledger.errors import IntegrityError
from fairtrial.ledger.event_schemas import schemas_digest
from fairtrial.ledger.events import Adopt, Blob, Close, Open
from fairtrial.ledger.log import Log
from fairtrial.ledger.opening import open_store

STORES = ["ledger.db", "ledger.jsonl"]


def no_plan(blob: Blob) -> None:
    """Reads no plan: these ledgers freeze nothing."""


def of_other_schemas(path: Path) -> Path:
    """Makes a ledger whose newest writer had other event schemas."""
    store = open_store(path, create=True)
    event = Open(format="fairtrial/1", tool="fairtrial 0.0", schemas="0" * 64, origin="here")
    Log(store, plan_of=no_plan).append(event, actor="earlier", ledger="ab" * 16)
    store.close()
    return path


def adoptions(path: Path) -> list[tuple[int, Adopt]]:
    """Returns the adoptions on record with their places."""
    with open_trial(path, read_only=True) as trial:
        return [(entry.seq, event) for entry, event in trial.read() if isinstance(event, Adopt)]


@pytest.mark.parametrize("name", STORES)
def test_newer_tool_adopts_before_its_first_act(tmp_path: Path, name: str) -> None:
    """One adoption, at the first opening for writing; none by reading or by the same tool."""
    path = of_other_schemas(tmp_path / name)
    assert [] == adoptions(path)
    expected = Adopt(number=1, tool=tool_name(), schemas=schemas_digest())
    for _ in range(2):
        with open_trial(path, actor="tester") as trial:
            assert schemas_digest() == trial.log.state.schemas
        assert [(1, expected)] == adoptions(path)


def test_new_ledger_and_closed_ledger_need_no_adoption(tmp_path: Path) -> None:
    """Its first entry names the schemas; to a closed one nothing is added."""
    with open_trial(tmp_path / "new.db", actor="tester", create=True):
        pass
    assert [] == adoptions(tmp_path / "new.db")
    path = of_other_schemas(tmp_path / "old.db")
    store = open_store(path)
    log = Log(store, plan_of=no_plan)
    log.append(Close(basis=log.head(), reason="done"), actor="earlier")
    store.close()
    with open_trial(path, actor="tester"):
        pass
    assert [] == adoptions(path)


def test_damaged_receipt_stops_no_later_act(tmp_path: Path) -> None:
    """A receipt that was cut short says nothing; the newest whole one still guards the ledger."""
    path = tmp_path / "ledger.db"
    with open_trial(path, actor="tester", create=True) as trial:
        trial.keep_receipt("open")
    (tmp_path / "ledger.db.d/receipts/0009-run.txt").write_bytes(b"fairtrial:")
    with open_trial(path, actor="tester"):
        pass
    other = f"fairtrial:{'0' * 32}@9#{'A' * 43}=\n"
    with open_trial(path, read_only=True) as trial:
        line = trial.receipt()
    later = line.replace("@1#", "@8#")
    (tmp_path / "ledger.db.d/receipts/0008-run.txt").write_text(later)
    with pytest.raises(IntegrityError, match="receipt beside it"), open_trial(path, actor="tester"):
        pytest.fail("a ledger that became shorter was opened for writing")
    (tmp_path / "ledger.db.d/receipts/0010-run.txt").write_text(other)
    with open_trial(path, actor="tester"):
        pass


def test_receipt_is_written_whole_or_not_at_all(tmp_path: Path) -> None:
    """What can't be written leaves no half of a file that a later act would stumble over."""
    path = tmp_path / "ledger.db"
    with open_trial(path, actor="tester", create=True) as trial:
        trial.keep_receipt("open")
        before = sorted(one.name for one in (tmp_path / "ledger.db.d/receipts").iterdir())
        limit = resource.getrlimit(resource.RLIMIT_FSIZE)
        handler = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        try:
            resource.setrlimit(resource.RLIMIT_FSIZE, (20, limit[1]))
            with pytest.raises(OSError, match="too large"):
                trial.keep_receipt("again")
        finally:
            resource.setrlimit(resource.RLIMIT_FSIZE, limit)
            signal.signal(signal.SIGXFSZ, handler)
    assert before == sorted(one.name for one in (tmp_path / "ledger.db.d/receipts").iterdir())
