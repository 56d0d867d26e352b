"""A kind or a format that this version doesn't know: bytes checked, meaning not, said so."""

from __future__ import annotations

import shutil
from collections.abc import Callable

import pytest

from fairtrial.custody.closing import close_ledger
from fairtrial.engine.inspecting import export_ledger, status
from fairtrial.engine.session import register_protocol, result_of, run
from fairtrial.ledger.errors import NewerError

from .conftest import Case, Verify, rechained
from .signed_trial import exit_code

Agreed = Callable[..., str]


def newer_end(case: Case, entries: list[bytes], kind: str = "result/9") -> list[bytes]:
    """Returns entries whose last event is of a kind that a later version would write."""
    last, swap = len(entries) - 1, (b'"kind":"result/1"', b'"kind":"%b"' % kind.encode())
    assert swap[0] in entries[last], case.ledger
    return rechained(entries, lambda at, event: event.replace(*swap) if at == last else event)


def test_unknown_kind_is_newer(case: Case, agreed: Agreed, verify: Verify) -> None:
    """An event of a later version at the end: not intact, not corrupt, a word of its own."""
    case.put(newer_end(case, case.entries()))
    assert "newer" == agreed(case)
    assert f"{len(case.entries())} entries" in verify(case)[1]


def test_newer_ledger_is_neither_read_for_meaning_nor_written_to(
    case: Case, agreed: Agreed
) -> None:
    """Bytes checked, rules and numbers not: a word and an exit code of its own; nothing appended.

    It isn't called corrupt by any act, and it can be copied whole.
    """
    newer = newer_end(case, case.entries())
    case.put(newer)
    side = case.ledger.with_name(case.ledger.name + ".d")
    for name in ("receipts", "cache"):
        shutil.rmtree(side / name, ignore_errors=True)
    report = case.replay()
    assert ("newer", "ok") == (report.record, report.levels["bytes"])
    assert ("skipped", "skipped") == (report.levels["rules"], report.levels["numbers"])
    assert [(len(newer) - 1, "unknown_kind")] == [(one.seq, one.code) for one in report.findings]
    acts: tuple[Callable[[], object], ...] = (
        lambda: status(case.ledger),
        lambda: run(case.ledger, None, actor="ada"),
        lambda: result_of(case.ledger, None, actor="ada"),
        lambda: close_ledger(case.ledger, actor="ada", reason="it is over"),
        lambda: register_protocol(case.ledger, case.ledger.with_name("protocol.yaml"), actor="ada"),
    )
    for act in acts:
        with pytest.raises(NewerError, match="newer version than this tool") as caught:
            act()
        assert "result/9" == caught.value.found
    assert 17 == exit_code("status", "--ledger", case.ledger)
    assert newer == case.entries()
    other = case.ledger.with_name("other" + (".db" if case.is_jsonl else ".jsonl"))
    assert len(newer) == export_ledger(case.ledger, other).size
    assert newer == Case(other, "").entries()
    assert "newer" == agreed(Case(other, ""))


@pytest.mark.parametrize("kind", ["result/9", "verdict/1"])
def test_newer_version_and_unknown_kind_are_the_same_to_an_older_tool(
    case: Case, agreed: Agreed, kind: str
) -> None:
    """A later version of a known kind, and a kind that it has never heard of."""
    case.put(newer_end(case, case.entries(), kind))
    assert "newer" == agreed(case)


def test_changed_member_of_a_known_kind_is_no_newer_version(case: Case) -> None:
    """A member more under the old tag isn't evolution: a changed kind has to say so."""
    entries = case.entries()
    last = len(entries) - 1
    more = rechained(
        entries, lambda at, event: event[:-1] + b',"extra":1}' if at == last else event
    )
    case.put(more)
    assert "corrupt" == case.word()


def test_damage_beside_an_unknown_kind_is_still_found(case: Case, agreed: Agreed) -> None:
    """A newer event excuses nothing: the chain is checked as ever."""
    forged = newer_end(case, case.entries())
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
