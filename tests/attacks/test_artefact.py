"""What was frozen is exchanged: units, outcomes, protocol."""

from __future__ import annotations

import shutil

import pytest

from fairtrial.engine.session import run
from fairtrial.ledger.errors import DigestMismatchError

from .conftest import Case


@pytest.mark.parametrize("name", ["units.csv", "outcomes.csv", "protocol.yaml"])
def test_exchanged_file_is_found(case: Case, name: str) -> None:
    """A registered file with other bytes beside the ledger: files differ, by its name."""
    path = case.ledger.with_name(name)
    path.write_text(path.read_text().replace("u1", "u2").replace("higher", "lower"))
    report = case.replay(case.receipt)
    assert "files_differ" == report.record
    assert name in " ".join(one.where for one in report.findings)


@pytest.mark.parametrize("name", ["units.csv", "outcomes.csv", "protocol.yaml"])
def test_exchanged_file_starts_no_run(case: Case, name: str) -> None:
    """A run refuses by the name of what differs, and the refusal is on record."""
    entries = case.entries()
    case.put(entries[:3])
    # Without the receipts that would tell of the rollback itself.
    shutil.rmtree(f"{case.ledger}.d/receipts", ignore_errors=True)
    path = case.ledger.with_name(name)
    path.write_text(path.read_text().replace("u1", "u2").replace("higher", "lower"))
    with pytest.raises(DigestMismatchError):
        run(case.ledger, None, actor="ada")
    assert 4 == len(case.entries())
    assert b'"kind":"refuse/1"' in case.entries()[-1]


def test_absent_file_is_no_finding(made: tuple[object, str], case: Case) -> None:
    """An auditor may hold the ledger alone."""
    for name in ("units.csv", "outcomes.csv", "protocol.yaml"):
        case.ledger.with_name(name).unlink()
    assert "intact" == case.replay().record
