"""A kind or a format that this version doesn't know: bytes checked, meaning not, said so."""

from __future__ import annotations

from collections.abc import Callable

from .conftest import Case, Verify, rechained

Agreed = Callable[..., str]


def test_unknown_kind_is_newer(case: Case, agreed: Agreed, verify: Verify) -> None:
    """An event of a later version at the end: not intact, not corrupt, a word of its own."""
    entries = case.entries()
    last = len(entries) - 1
    swap = (b'"kind":"result/1"', b'"kind":"result/9"')
    case.put(rechained(entries, lambda at, event: event.replace(*swap) if at == last else event))
    assert "newer" == agreed(case)
    assert f"{len(entries)} entries" in verify(case)[1]


def test_damage_beside_an_unknown_kind_is_still_found(case: Case, agreed: Agreed) -> None:
    """A newer event excuses nothing: the chain is checked as ever."""
    entries = case.entries()
    last = len(entries) - 1
    swap = (b'"kind":"result/1"', b'"kind":"result/9"')
    forged = rechained(entries, lambda at, event: event.replace(*swap) if at == last else event)
    forged[4] = forged[4].replace(b'"actor":"ada"', b'"actor":"bob"')
    case.put(forged)
    assert "corrupt" == agreed(case)


def test_newer_file_format_is_newer(case: Case, agreed: Agreed) -> None:
    """A later number of the file's own format: refused with the code for newer."""
    data = bytearray(case.ledger.read_bytes())
    if case.is_jsonl:
        data[5:6] = b"2"
    else:
        data[60:64] = (2).to_bytes(4, "big")
    case.ledger.write_bytes(data)
    assert "newer" == agreed(case)
