"""What an event says beside the numbers: each false word is found, though every hash agrees."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import msgspec
import pytest

from fairtrial.engine.inspecting import replay_ledger
from fairtrial.ledger.canonical import encode_event
from fairtrial.ledger.entry import parse_entry
from fairtrial.ledger.events import Blob, Event, Freeze, Open, Recover, Register
from fairtrial.ledger.opening import blob_store, open_store
from fairtrial.ledger.reading import read_events

from .conftest import Case, rechained

Agreed = Callable[..., str]
Forge = Callable[[Case, Event], Event | None]


def _put(case: Case, data: bytes) -> Blob:
    return blob_store(case.ledger).put(data)


def forged(case: Case, forge: Forge) -> None:
    """Puts other events into the ledger and makes every hash again."""
    store = open_store(case.ledger, read_only=True)
    events = [event for _, event in read_events(store)]
    store.close()
    made = [encode_event(forge(case, event) or event) for event in events]
    assert made != [encode_event(event) for event in events]
    case.put(rechained(case.entries(), partial(_stored, made)))


def _stored(events: list[bytes], seq: int, event: bytes) -> bytes:
    del event
    return events[seq]


def _list(data: bytes, case: Case, event: Event) -> Event | None:
    if not isinstance(event, (Register, Freeze)):
        return None
    return msgspec.structs.replace(event, files=_put(case, data))


def _shorter(case: Case, event: Event) -> Event | None:
    if not isinstance(event, Freeze):
        return None
    listed = msgspec.json.decode(blob_store(case.ledger).get(event.files))
    return _list(msgspec.json.encode(listed[:-1]), case, event)


def _frozen(name: str, data: bytes, case: Case, event: Event) -> Event | None:
    if not isinstance(event, Freeze):
        return None
    return msgspec.structs.replace(event, **{name: _put(case, data)})


def _identity(old: bytes, new: bytes, case: Case, event: Event) -> Event | None:
    if not isinstance(event, Freeze):
        return None
    first, *rest = event.arms
    data = blob_store(case.ledger).get(first.identity)
    assert old in data
    lie = msgspec.structs.replace(first, identity=_put(case, data.replace(old, new, 1)))
    return msgspec.structs.replace(event, arms=(lie, *rest))


def _power(change: Callable[[dict[str, Any]], None], case: Case, event: Event) -> Event | None:
    if not isinstance(event, Freeze):
        return None
    assert event.power is not None
    report = msgspec.json.decode(blob_store(case.ledger).get(event.power))
    change(report)
    return _frozen("power", msgspec.json.encode(report), case, event)


def _reworded(report: dict[str, Any]) -> None:
    report["warnings"] = [*report["warnings"], "in other words"]
    report["refused"] = {name: f"{text} or so" for name, text in report["refused"].items()}


def _refused_more(report: dict[str, Any]) -> None:
    report["refused"] |= {"hopeless": "it is not"}


def _stronger(report: dict[str, Any]) -> None:
    report["target"] = 0.5


def _other_units(case: Case, event: Event) -> Event | None:
    if not isinstance(event, Freeze):
        return None
    data = blob_store(case.ledger).get(event.units)
    return _frozen("units", data.replace(b"\n", b"\r\n"), case, event)


@pytest.mark.parametrize("forge", [partial(_list, b"[]"), partial(_list, b"{"), _shorter])
def test_list_without_what_the_protocol_names_is_found(case: Case, forge: Forge) -> None:
    """An empty, unreadable or shortened list leaves nothing to compare: never intact."""
    forged(case, forge)
    assert "files_differ" == case.replay().record
    assert "list_differs" in {one.code for one in case.replay().findings}


@pytest.mark.parametrize(
    ("forge", "record"),
    [
        (partial(_identity, b'"kind":"recorded"', b'"kind":"command"'), "corrupt"),
        (partial(_identity, b'"sha256":"', b'"sha256":"00'), "corrupt"),
        (_other_units, "corrupt"),
        (partial(_frozen, "power", b'{"power":1.0}'), "numbers_differ"),
    ],
)
def test_freeze_that_contradicts_protocol_and_list_is_found(
    case: Case, forge: Forge, record: str
) -> None:
    """Arms, units and power of a freeze follow from protocol and list of files."""
    forged(case, forge)
    assert record == replay_ledger(case.ledger).record


@pytest.mark.parametrize(
    ("change", "places"),
    [(_stronger, ["power.target"]), (_refused_more, ["power.refused.0"]), (_reworded, [])],
)
def test_report_of_power_may_have_other_sentences_and_no_other_numbers(
    case: Case, change: Callable[[dict[str, Any]], None], places: list[str]
) -> None:
    """What a later version says in better words is no finding; a number or a refusal is."""
    forged(case, partial(_power, change))
    found = [one.where.split()[-1] for one in replay_ledger(case.ledger).findings]
    assert places == [where for where in found if where.startswith("power")]


def test_unknown_format_is_newer(case: Case, agreed: Agreed) -> None:
    """A format that this tool doesn't know is read for its bytes alone."""

    def newer(case: Case, event: Event) -> Event | None:
        is_open = isinstance(event, Open)
        return msgspec.structs.replace(event, format="fairtrial/77") if is_open else None

    forged(case, newer)
    assert "newer" == agreed(case)
    assert "skipped" == case.replay().levels["rules"]


@pytest.mark.parametrize("time", [b"2026-99-99T99:99:99", b"2026-02-30T10:00:00"])
def test_time_that_there_is_none_is_corrupt(case: Case, agreed: Agreed, time: bytes) -> None:
    """An entry of the thirtieth of February is no entry."""
    entries = case.entries()
    last = entries[-1]
    real = parse_entry(last).time[:19].encode()
    case.put([*entries[:-1], last.replace(b'"time":"' + real, b'"time":"' + time, 1)])
    assert "corrupt" == agreed(case)


def test_torn_bytes_follow_a_whole_entry(case: Case) -> None:
    """What was set aside began where an entry before it ended, the last one or an earlier one."""
    entries = case.entries()
    first, size = len(entries[0]) + 1, sum(len(data) + 1 for data in entries)
    good, bad = (0, first, size), (1, first - 1, first + 1, size - 1, size + 1)
    for offset in (*good, *bad):
        event = encode_event(Recover(number=1, offset=offset, length=3, sha256="0" * 64))
        events = [*(parse_entry(data).event for data in entries), event]
        case.put(rechained([*entries, entries[-1]], partial(_stored, events)))
        report = case.replay()
        assert ("intact" if offset in good else "corrupt") == report.record
        found = [(one.code, one.seq, one.found) for one in report.findings]
        wrong = [("broken_rule", len(entries), f"byte {offset}")]
        assert ([] if offset in good else wrong) == found
        case.put(entries)
