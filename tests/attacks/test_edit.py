"""An entry is edited: alone, with every hash after it made again, with the numbers made again."""

from __future__ import annotations

from collections.abc import Callable

import msgspec
import pytest

from fairtrial.engine.inspecting import replay_ledger
from fairtrial.engine.tampering import rewrite
from fairtrial.ledger.events import Decision

from .conftest import Case, Verify, rechained, successful

Agreed = Callable[..., str]


def lost(seq: int, target: int, event: bytes) -> bytes:
    """Returns an event with the score of one entry turned from 1 to 0."""
    return event.replace(b'"passed":1.0', b'"passed":0.0') if seq == target else event


def test_edited_score_is_corrupt_at_its_entry(case: Case, agreed: Agreed) -> None:
    """One score: its id differs, and the entry after it doesn't follow any more."""
    entries = case.entries()
    seq = successful(entries)
    entries[seq] = entries[seq].replace(b'"passed":1.0', b'"passed":0.0')
    case.put(entries)
    assert "corrupt" == agreed(case)
    found = {(one.seq, one.code) for one in case.replay().findings if one.level == "bytes"}
    assert {(seq, "wrong_id"), (seq + 1, "broken_chain")} == found


def test_edited_header_of_the_last_entry_needs_a_receipt(case: Case, agreed: Agreed) -> None:
    """Nothing follows the last entry's time and actor: only a receipt shows that they changed."""
    entries = case.entries()
    entries[-1] = entries[-1].replace(b'"actor":"ada"', b'"actor":"bob"')
    case.put(entries)
    assert "intact" == agreed(case)
    assert "no" == case.replay().anchored
    assert "forked" == agreed(case, case.receipt)


def test_edit_with_the_chain_made_again_needs_a_receipt(
    case: Case, agreed: Agreed, verify: Verify
) -> None:
    """With all hashes made again the bytes agree; the text says that nothing vouches for them."""
    entries = case.entries()
    seq = successful(entries)
    case.put(rechained(entries, lambda at, event: lost(at, seq, event)))
    assert "intact" == agreed(case)
    assert "no" == case.replay().anchored
    assert "UNANCHORED: nothing outside this ledger vouches for it" in verify(case)[1]
    assert "forked" == agreed(case, case.receipt)


def test_numbers_show_an_edit_that_left_them(case: Case) -> None:
    """Where look and result weren't computed again, they don't follow from the outcomes."""
    entries = case.entries()
    seq = successful(entries)
    case.put(rechained(entries, lambda at, event: lost(at, seq, event)))
    assert "numbers_differ" == replay_ledger(case.ledger).record


@pytest.mark.slow
def test_whole_rewrite_is_found_by_the_receipt_alone(case: Case, agreed: Agreed) -> None:
    """All that an owner can do: outcome, hashes, looks and result. Alone it is intact."""
    forged = case.ledger.with_name("forged" + case.ledger.suffix)

    def change(event: Decision) -> Decision:
        return msgspec.structs.replace(event, scores={**event.scores, "passed": 0.0})

    rewrite(case.ledger, forged, seq=successful(case.entries()), change=change)
    other = Case(forged, case.receipt)
    assert ("intact", "no") == (replay_ledger(forged).record, replay_ledger(forged).anchored)
    assert "intact" == agreed(other)
    assert "forked" == agreed(other, case.receipt)


def test_every_edited_place_is_reported(case: Case) -> None:
    """Rot in several places: each is named, not the first alone."""
    entries = case.entries()
    places = [1, 10, 20, len(entries) - 1]
    for seq in places:
        entries[seq] = entries[seq].replace(b'"actor":"ada"', b'"actor":"a da"')
    case.put(entries)
    found = {one.seq for one in case.replay().findings if one.code == "not_an_entry"}
    assert set(places) == found


def test_no_entry_is_skipped(made: tuple[object, str], lines: Case, verify: Verify) -> None:
    """Each entry in turn, first and last included: the finding names it."""
    honest = lines.entries()
    for seq in range(len(honest)):
        entries = list(honest)
        entries[seq] = entries[seq].replace(b'"experiment":"', b'"experiment" :"', 1)
        lines.put(entries)
        places = {one.seq for one in lines.replay().findings if one.code == "noncanonical"}
        assert {seq} == places
        word, said = verify(lines)
        assert ("corrupt", True) == (word, f"entry {seq}: noncanonical" in said)
        assert f"record    {len(honest)} entries" in said
