"""Two histories of one ledger are shown to two people; many ledgers are made and one is shown."""

from __future__ import annotations

import base64
import shutil
from collections.abc import Callable

from fairtrial.custody.trial import parse_receipt
from fairtrial.engine.story import read_stories
from fairtrial.ledger.merkle import leaf_hash, root_of
from fairtrial.verbs.text_replay import NOT_SHOWN, replay_text

from .conftest import Case, rechained, successful

Agreed = Callable[..., str]


def receipt_of(case: Case) -> str:
    """Returns the receipt that the present owner of a ledger would print."""
    entries = case.entries()
    root = base64.b64encode(root_of(map(leaf_hash, entries))).decode()
    return f"fairtrial:{parse_receipt(case.receipt).ledger}@{len(entries)}#{root}"


def test_fork_shows_when_receipts_are_compared(case: Case, agreed: Agreed) -> None:
    """Each history agrees with its own receipt; neither with the other's, at equal size."""
    other = Case(case.ledger.with_name("fork" + case.ledger.suffix), case.receipt)
    shutil.copyfile(case.ledger, other.ledger)
    side = case.ledger.with_name(case.ledger.name + ".d")
    shutil.copytree(side, other.ledger.with_name(other.ledger.name + ".d"))
    entries = case.entries()
    seq = successful(entries)
    flip = (b'"passed":1.0', b'"passed":0.0')
    other.put(rechained(entries, lambda at, e: e.replace(*flip) if at == seq else e))
    assert "intact" == agreed(other, receipt_of(other))
    assert "intact" == agreed(case, case.receipt)
    assert "forked" == agreed(other, case.receipt) == agreed(case, receipt_of(other))


def test_both_receipts_together_convict(case: Case, agreed: Agreed) -> None:
    """Whoever holds two receipts of one size and other roots needs no ledger to see the fork."""
    mine = parse_receipt(case.receipt)
    root = base64.b64encode(bytes(32)).decode()
    theirs = f"fairtrial:{mine.ledger}@{mine.size}#{root}"
    assert "forked" == agreed(case, case.receipt, theirs)


def test_other_ledgers_are_not_shown_and_the_text_says_so(case: Case) -> None:
    """Many ledgers, the best one handed over; runs off the record: no ledger can show that."""
    text = replay_text(case.replay(), read_stories(case.ledger))
    assert NOT_SHOWN in text
    assert "other ledgers or runs that were not handed over" in NOT_SHOWN
    assert "what the drivers really did" in NOT_SHOWN.replace("\n", " ")
