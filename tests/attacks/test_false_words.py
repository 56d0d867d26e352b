"""What an event says beside the numbers: each false word is found, though every hash agrees."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import msgspec
import pytest

from fairtrial.cli import main
from fairtrial.engine.inspecting import replay_ledger
from fairtrial.engine.recomputing import NOTES_KEPT
from fairtrial.ledger.canonical import encode_event
from fairtrial.ledger.entry import parse_entry
from fairtrial.ledger.events import Blob, Event, Freeze, Look, Open, Recover, Register, Result
from fairtrial.ledger.findings import FINDINGS_MAX
from fairtrial.ledger.opening import blob_store, open_store
from fairtrial.ledger.reading import read_events
from fairtrial.verbs.text_replay import replay_text

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
    [(_stronger, ["power.target"]), (_refused_more, ["power.refused.hopeless"]), (_reworded, [])],
)
def test_report_of_power_may_have_other_sentences_and_no_other_numbers(
    case: Case, change: Callable[[dict[str, Any]], None], places: list[str]
) -> None:
    """What a later version says in better words is a note; a number or a refusal is a fault."""
    forged(case, partial(_power, change))
    found = replay_ledger(case.ledger).findings
    about = [one for one in found if one.where.split()[-1].startswith("power")]
    assert places == [one.where.split()[-1] for one in about if one.code == "number_differs"]
    said = [one.found.strip("'") for one in about if one.code == "words_differ"]
    assert ("in other words" in said) is (change is _reworded)


def _told(change: Callable[[dict[str, Any]], None], case: Case, event: Event) -> Event | None:
    """Returns a result whose long form was changed, and whose reason is what it says there."""
    if not isinstance(event, Result):
        return None
    form = msgspec.json.decode(blob_store(case.ledger).get(event.detail))
    change(form)
    made = _put(case, msgspec.json.encode(form))
    return msgspec.structs.replace(event, detail=made, reason=form["reason"])


LIE = "B is better than A (+40.0 points, interval +31.0 to +49.0 points)"


def _everywhere(form: dict[str, Any]) -> None:
    (comparison,) = form["comparisons"]
    form["reason"] = comparison["reason"] = LIE


def _warned_otherwise(form: dict[str, Any]) -> None:
    form["warnings"] = ["nothing to see", *form["warnings"][1:]]


def _unwarned(form: dict[str, Any]) -> None:
    form["warnings"] = form["warnings"][1:]


def _reassured(form: dict[str, Any]) -> None:
    form["comparisons"][0]["endpoints"][0]["warnings"].append("checked twice")


def _looked_well(form: dict[str, Any]) -> None:
    form["comparisons"][0]["diagnostics"][0]["text"] = "nothing was found"


def _called(form: dict[str, Any]) -> None:
    form["units"]["noun"] = "patients"


@pytest.mark.parametrize(
    ("change", "where", "said"),
    [
        (_everywhere, "reason, detail.comparisons.0.reason, detail.reason", LIE),
        (_warned_otherwise, "detail.warnings", "nothing to see"),
        (_unwarned, "detail.warnings", "None"),
        (_reassured, "detail.comparisons.0.endpoints.0.warnings", "checked twice"),
        (_looked_well, "detail.comparisons.0.diagnostics.0.text", "nothing was found"),
        (_called, "detail.units.noun", "patients"),
    ],
)
def test_false_sentence_is_seen(
    case: Case, change: Callable[[dict[str, Any]], None], where: str, said: str
) -> None:
    """Other words than this version's change no word of the record, and are never passed over."""
    forged(case, partial(_told, change))
    report = replay_ledger(case.ledger)
    (note,) = report.findings
    assert ("intact", "ok", "words_differ") == (report.record, report.levels["numbers"], note.code)
    assert note.where.endswith(f" {where}")
    assert note.found.strip("'") == said
    text = replay_text(report, ())
    assert ", 1 SENTENCE NOT AS THIS VERSION WORDS IT" in text.splitlines()[-2]
    assert note.found in text


def _replayed(capsys: pytest.CaptureFixture[str], *words: str) -> tuple[int, Any]:
    """Returns the exit code of `ledger replay --json` and what it says."""
    with pytest.raises(SystemExit) as ended:
        main(["replay", *words, "--json"])
    return int(ended.value.code or 0), msgspec.json.decode(capsys.readouterr().out)


@pytest.mark.parametrize(("change", "code"), [(None, 0), (_everywhere, 10)])
def test_gate_may_ask_for_the_words(
    lines: Case,
    capsys: pytest.CaptureFixture[str],
    change: Callable[[dict[str, Any]], None] | None,
    code: int,
) -> None:
    """Exit 10 tells a program what the record's line tells a reader."""
    if change is not None:
        forged(lines, partial(_told, change))
    plain, said = _replayed(capsys, str(lines.ledger))
    assert (0, "intact") == (plain, said["record"])
    gated, said = _replayed(capsys, str(lines.ledger), "--require", "words")
    assert (code, code == 0) == (gated, not said["lacking"])
    unread, _ = _replayed(capsys, str(lines.ledger), "--require", "words", "--no-numbers")
    assert 10 == unread


def test_sentence_on_record_writes_no_line_of_its_own(
    lines: Case, capsys: pytest.CaptureFixture[str]
) -> None:
    """A false sentence or name is shown by `ledger result` as what it is, in its place."""
    line = "\r\x1b[2J\nVERDICT   ADOPT: B is better"

    def written(form: dict[str, Any]) -> None:
        (comparison,) = form["comparisons"]
        form["reason"] = comparison["reason"] = "as\nVERDICT   ADOPT: B is better"
        form["warnings"].append(line)
        form["spend_usd"][line], form["units"]["missing"][line] = 1.0, {line: 1}
        names: dict[str, Any] = {"class": line, "fields": [line], "reason": line}
        form["deviations"] = [{"seq": 1, "outcomes": 1, "looks_taken": 1, **names}]

    forged(lines, partial(_told, written))
    for words in ([], ["--quiet"]):
        with pytest.raises(SystemExit):
            main(["result", "--ledger", str(lines.ledger), *words])
        said = capsys.readouterr().out
        verdicts = [one for one in map(str.strip, said.splitlines()) if one[:7] == "VERDICT"]
        assert "\x1b" not in said
        assert [r"as\nVERDICT   ADOPT: B is better"] == [
            line.partition(": ")[2] for line in verdicts
        ]


def _other_code(form: dict[str, Any]) -> None:
    form["reason_code"] = "interval_favours"


def _other_name(form: dict[str, Any]) -> None:
    form["comparisons"][0]["endpoints"][0]["name"] = "resolved"


def _other_number(form: dict[str, Any]) -> None:
    form["comparisons"][0]["endpoints"][0]["difference"] = 0.4


def _explained(form: dict[str, Any]) -> None:
    form["comparisons"][0]["endpoints"][0]["undetermined"] = "it can't be computed"


def _unexplained(form: dict[str, Any]) -> None:
    form["comparisons"][0]["reason"] = None


def _listed(form: dict[str, Any]) -> None:
    form["warnings"] = [{"text": LIE}]


def _added(form: dict[str, Any]) -> None:
    form["comparisons"][0]["note"] = LIE


def _numbered(form: dict[str, Any]) -> None:
    form["warnings"] = {str(index): text for index, text in enumerate(form["warnings"])}


def _numbered_inside(form: dict[str, Any]) -> None:
    form["comparisons"] = {str(index): one for index, one in enumerate(form["comparisons"])}


def _found_nothing(form: dict[str, Any]) -> None:
    del form["comparisons"][0]["diagnostics"][-1]


@pytest.mark.parametrize(
    ("change", "where"),
    [
        (_other_code, "detail.reason_code"),
        (_other_name, "detail.comparisons.0.endpoints.0.name"),
        (_other_number, "detail.comparisons.0.endpoints.0.difference"),
        (_explained, "detail.comparisons.0.endpoints.0.undetermined"),
        (_unexplained, "detail.comparisons.0.reason"),
        (_listed, "detail.warnings"),
        (_numbered, "detail.warnings"),
        (_numbered_inside, "detail.comparisons"),
        (_added, "detail.comparisons.0.note"),
        (_found_nothing, "detail.comparisons.0.diagnostics"),
    ],
)
def test_whatever_is_no_sentence_is_compared(
    lines: Case, change: Callable[[dict[str, Any]], None], where: str
) -> None:
    """Codes, names, numbers and whether a sentence is there at all are as they are computed."""
    forged(lines, partial(_told, change))
    report = replay_ledger(lines.ledger)
    assert "numbers_differ" == report.record
    assert {where} == {one.where.split()[-1][: len(where)] for one in report.findings}


def test_long_form_that_says_two_things_is_found(lines: Case) -> None:
    """Of two members of one name a reader may take the first: the long form has each once."""

    def twofold(case: Case, event: Event) -> Event | None:
        if not isinstance(event, Result):
            return None
        data = blob_store(case.ledger).get(event.detail)
        return msgspec.structs.replace(
            event, detail=_put(case, b'{"verdict":"adopt",' + data.removeprefix(b"{"))
        )

    forged(lines, twofold)
    report = replay_ledger(lines.ledger)
    assert "files_differ" == report.record
    (found,) = report.findings
    assert "twice" in found.found


def test_look_that_explains_a_number_which_is_there_is_found(lines: Case) -> None:
    """A sentence where this version has none is no matter of words."""

    def explained(case: Case, event: Event) -> Event | None:
        del case
        if not isinstance(event, Look):
            return None
        (comparison,) = event.comparisons
        (endpoint,) = comparison.endpoints
        lie = msgspec.structs.replace(endpoint, undetermined="it can't be computed")
        with_lie = msgspec.structs.replace(comparison, endpoints=(lie,))
        return msgspec.structs.replace(event, comparisons=(with_lie,))

    forged(lines, explained)
    assert "numbers_differ" == replay_ledger(lines.ledger).record


def test_two_reasons_of_one_result_are_found(lines: Case) -> None:
    """A result and its long form give one reason, in whatever words."""

    def reworded(case: Case, event: Event) -> Event | None:
        del case
        is_result = isinstance(event, Result)
        return msgspec.structs.replace(event, reason=LIE) if is_result else None

    forged(lines, reworded)
    report = replay_ledger(lines.ledger)
    assert "numbers_differ" == report.record
    assert {"words_differ", "number_differs"} == {one.code for one in report.findings}


def test_no_number_of_sentences_hides_a_fault(lines: Case) -> None:
    """Notes come after the faults and leave room for those of later levels."""

    def crowded(form: dict[str, Any]) -> None:
        form["warnings"] += [f"warning {number}" for number in range(FINDINGS_MAX + 5)]
        form["comparisons"][0]["endpoints"][0]["difference"] = 0.4

    forged(lines, partial(_told, crowded))
    report = replay_ledger(lines.ledger)
    assert "numbers_differ" == report.record
    assert ("number_differs", NOTES_KEPT + 2) == (report.findings[0].code, len(report.findings))
    assert f"{FINDINGS_MAX + 5 - NOTES_KEPT} more, from here on" == report.findings[-1].found


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
