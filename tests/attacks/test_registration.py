"""A protocol is registered twice, or after results were seen."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from fairtrial.engine.session import register_protocol
from fairtrial.ledger.errors import LedgerError

from .conftest import Case, Verify, place_of, rechained

Agreed = Callable[..., str]


def test_second_registration_is_refused(case: Case, tmp_path: Path) -> None:
    """Another protocol for a registered id changes nothing on record."""
    before = case.entries()
    path = case.ledger.with_name("protocol.yaml")
    path.write_text(path.read_text().replace("better: higher", "better: lower"))
    with pytest.raises(LedgerError):
        register_protocol(case.ledger, path, actor="ada")
    assert before == case.entries()


def test_forged_second_registration_is_corrupt(lines: Case, agreed: Agreed) -> None:
    """With all hashes made again the slot is taken still (SQLite refuses such a row)."""
    entries = lines.entries()
    register = entries[place_of(entries, "register")]
    lines.put(rechained([*entries, register]))
    assert "corrupt" == agreed(lines)


def test_registration_after_an_outcome_is_corrupt(case: Case, verify: Verify) -> None:
    """An outcome before the freeze breaks an order rule, however well the bytes agree."""
    entries = case.entries()
    freeze, decision = place_of(entries, "freeze"), place_of(entries, "decision")
    moved = [*entries[:freeze], entries[decision], *entries[freeze:decision]]
    case.put(rechained(moved))
    assert "corrupt" == case.word()
    assert "broken_rule" in {one.code for one in case.replay().findings}
    word, said = verify(case)
    assert ("intact", True) == (word, "not checked: rules" in said)
