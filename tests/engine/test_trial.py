"""A ledger opened for writing: who writes with other schemas is on record before the first act."""

from __future__ import annotations

from pathlib import Path

import pytest

from fairtrial.engine.trial import open_trial, tool_name
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
