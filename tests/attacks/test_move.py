"""Entries are deleted, inserted, reordered in the middle, or pasted from another ledger."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from fairtrial.engine.session import register_protocol

from .conftest import Case, Verify, place_of, rechained, successful, write_trial

Agreed = Callable[..., str]
EDITS: dict[str, Callable[[list[bytes], int], list[bytes]]] = {
    "delete": lambda entries, seq: [*entries[:seq], *entries[seq + 1 :]],
    "insert": lambda entries, seq: [*entries[:seq], entries[-1], *entries[seq:]],
    "reorder": lambda entries, seq: [
        *entries[:seq],
        entries[seq + 1],
        entries[seq],
        *entries[seq + 2 :],
    ],
}


@pytest.mark.parametrize("act", ["delete", "reorder"])
def test_moved_entries_are_corrupt(case: Case, agreed: Agreed, act: str) -> None:
    """In the middle the chain breaks, and places don't fit."""
    entries = case.entries()
    case.put(EDITS[act](entries, successful(entries)))
    assert "corrupt" == agreed(case)


def test_entry_that_stands_twice_is_corrupt(lines: Case, agreed: Agreed) -> None:
    """The same entry at a second place: chain and slot both say so (SQLite refuses the row)."""
    entries = lines.entries()
    lines.put(EDITS["insert"](entries, successful(entries)))
    assert "corrupt" == agreed(lines)


@pytest.mark.parametrize("act", ["delete", "reorder"])
def test_moved_entries_with_the_chain_made_again_need_a_receipt(
    case: Case, verify: Verify, act: str
) -> None:
    """Bytes agree again; the receipt contradicts them, and so may the order rules."""
    entries = case.entries()
    stop = place_of(entries, "stop")
    seq = stop if act == "delete" else successful(entries)
    case.put(rechained(EDITS[act](entries, seq)[:stop]))
    assert "UNANCHORED" in verify(case)[1]
    assert "no" == case.replay().anchored
    assert "intact" != case.word(case.receipt)
    assert verify(case, case.receipt)[0] in ("forked", "rolled_back")


def test_missing_outcome_breaks_the_order_rules(case: Case) -> None:
    """A chain made again can't hide that a look was taken without one of its slots."""
    entries = case.entries()
    case.put(
        rechained(EDITS["delete"](entries, successful(entries))[: place_of(entries, "result")])
    )
    assert "corrupt" == case.word()
    assert {"broken_rule", "wrong_basis"} & {one.code for one in case.replay().findings}


def test_entry_of_another_ledger_is_corrupt(case: Case, agreed: Agreed, tmp_path: Path) -> None:
    """Each entry names its ledger."""
    folder = tmp_path / "other"
    folder.mkdir()
    other = folder / "ledger.db"
    register_protocol(other, write_trial(folder), actor="ada")
    pasted = Case(other, "").entries()
    entries = case.entries()
    case.put([*entries[:2], pasted[2], *entries[3:]])
    assert "corrupt" == agreed(case)
    assert "wrong_ledger" in {one.code for one in case.replay().findings}
