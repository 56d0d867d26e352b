"""The ledger that nobody touched: what each verifier says of it, with and without a receipt."""

from __future__ import annotations

from collections.abc import Callable

from .conftest import Case, Verify


def test_untouched_ledger_is_intact_and_unanchored(case: Case, verify: Verify) -> None:
    """Without anything from outside both say intact, and that nothing vouches for it."""
    report = case.replay()
    assert ("intact", "no", ()) == (report.record, report.anchored, report.findings)
    word, said = verify(case)
    assert "intact" == word
    assert "INTACT, UNANCHORED: nothing outside this ledger vouches for it" in said


def test_untouched_ledger_is_anchored_by_its_receipt(case: Case, verify: Verify) -> None:
    """With the receipt both say anchored."""
    report = case.replay(case.receipt)
    assert ("intact", "yes") == (report.record, report.anchored)
    word, said = verify(case, case.receipt)
    assert "intact" == word
    assert "INTACT, ANCHORED by receipt given by you" in said


def test_verifiers_change_nothing(case: Case, agreed: Callable[..., str]) -> None:
    """No file appears, vanishes or changes in the ledger's folder."""
    folder = case.ledger.parent
    before = {path: path.stat().st_mtime_ns for path in folder.rglob("*")}
    assert "intact" == agreed(case, case.receipt)
    assert before == {path: path.stat().st_mtime_ns for path in folder.rglob("*")}
