"""A batch leaves what its events leave one by one: the same bytes, places, refusals and state."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from enum import Enum
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import structs

from fairtrial.ledger import folded
from fairtrial.ledger.canonical import encode_event, encode_events
from fairtrial.ledger.entry import Entry
from fairtrial.ledger.errors import LedgerError
from fairtrial.ledger.events import Decision, Event, Reference
from fairtrial.ledger.fold import apply
from fairtrial.ledger.log import Appended
from fairtrial.ledger.replay import replay
from fairtrial.ledger.run_append import Drafts, gathered
from fairtrial.ledger.state import PlanReader, State

from .canonical_cases import CASES, build
from .fold_bench import Bench
from .fold_drafts import RESERVE, digest, make_arm, make_design

NOW = "2026-01-01T00:00:00.000001Z"
PLACES = 8
DESIGNS = (
    make_design(), make_design(lasts=(4, 8)), make_design(arms=[make_arm("a", "recorded")]),
    make_design(attempts_max=2, usd_nanousd=3 * RESERVE), make_design(attempts_max=1, calls=4),
)  # fmt: skip
# What makes an event another one, mostly one that is refused, or none that can be stored.
CHANGES: tuple[dict[str, Any], ...] = (
    {}, {}, {}, {}, {"number": 2}, {"session": 2}, {"arm": "b"}, {"arm": "no arm"}, {"unit": "u2"},
    {"position": 99}, {"experiment": "f"}, {"experiment": "F"}, {"attempt": 2}, {"status": "error"},
    {"status": "failed"}, {"scores": {"passed": 1}}, {"scores": {"passed": math.nan}},
    {"answer": "\ud800"}, {"answer": " a"}, {"unit": "x" * 201}, {"tokens": {"in": 2**60}},
    {"reserved_nanousd": RESERVE + 1}, {"cost_nanousd": 5}, {"origin": "recorded"},
    {"source": Reference(seq=0, leaf=digest("1"))},
)  # fmt: skip
drafts = st.tuples(
    st.sampled_from(["attempt", "decision", "attempt_end", "refuse", "call"]),
    st.integers(1, PLACES),
    st.sampled_from(CHANGES),
)


def running(design: int) -> Bench:
    """Returns a process with a live session, whose clock stands still."""
    bench = Bench().running(DESIGNS[design])
    bench.log.clock = lambda: NOW
    return bench


def request_of(
    bench: Bench, kind: str, at: int, change: dict[str, Any]
) -> Event | Callable[[State], Event]:
    """Returns what is appended: an event, or a function that makes it."""
    if kind in ("refuse", "call"):
        event = bench.draft("refuse", "e")
        return event if kind == "refuse" else lambda _: event
    fields: dict[str, Any] = {"number": int(kind != "decision")}
    event = bench.draft(kind, "e", at, **fields)
    if isinstance(event, Decision) and event.origin == "live":
        event = structs.replace(event, attempt=1)
    fitting = {name: value for name, value in change.items() if name in event.__struct_fields__}
    return structs.replace(event, **fitting)


def told(outcomes: Sequence[Appended | LedgerError]) -> list[object]:
    """Returns places as they are, and refusals as their words."""
    return [one if isinstance(one, Appended) else (type(one), str(one)) for one in outcomes]


@pytest.mark.slow
@given(design=st.integers(0, len(DESIGNS) - 1), drawn=st.lists(drafts, min_size=2, max_size=14))
def test_batch_leaves_what_its_events_leave_one_by_one(
    design: int, drawn: list[tuple[str, int, dict[str, Any]]]
) -> None:
    """Whatever stands in a batch, in whatever order: nothing depends on what it stands with."""
    together, apart = running(design), running(design)
    requests = [request_of(together, *one) for one in drawn]
    outcomes = together.log.append_many(requests, actor="tester")
    single = [apart.log.append_many([request], actor="tester")[0] for request in requests]
    assert told(single) == told(outcomes)
    assert apart.medium.entries == together.medium.entries
    assert apart.medium.slots == together.medium.slots
    assert apart.snapshot() == together.snapshot()
    assert apart.log.state == together.log.state


@pytest.mark.parametrize("design", range(len(DESIGNS)))
def test_plain_batch_is_appended_together(design: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """The slow way is asked for nothing that plainly may stand, and for all that may not."""
    bench, asked = running(design), list[Event]()
    slow = apply

    def noted(state: State, entry: Entry, event: Event, *, plan_of: PlanReader) -> State:
        asked.append(event)
        return slow(state, entry, event, plan_of=plan_of)

    monkeypatch.setattr(folded, "apply", noted)
    kinds = ("attempt", "decision") if design != 2 else ("decision",)
    places = 1, 2, 3
    events = [request_of(bench, kind, at, {}) for at in places for kind in kinds]
    outcomes = bench.log.append_many([*events, events[-1]], actor="tester")
    assert [True] * len(events) + [False] == [
        isinstance(one, Appended) and one.fresh for one in outcomes
    ]
    assert [events[-1]] == asked
    report = replay(bench.log.store, plan_of=lambda blob: bench.plans.get(blob.sha256))
    assert "intact" == report.record


class Word(Enum):
    """A text that is no str."""

    OK = "ok"


class Text(str):
    """A str of another class."""


UNSTORABLE: tuple[dict[str, Any], ...] = (
    {"scores": {"s": 1}}, {"scores": {"s": math.inf}}, {"status": Word.OK}, {"attempt": True},
    {"attempt": 1.0}, {"arm": "A B"}, {"experiment": "exp-1\n"}, {"unit": ""}, {"unit": " u"},
    {"unit": "u\u0308"}, {"answer": "\u202e"}, {"answer": "x" * 201}, {"tokens": {"in": None}},
    {"tokens": (("in", 1),)}, {"cost_nanousd": 2**53}, {"flag": 1}, {"scores": {1: 1.0}},
    {"unit": Text("u")},
)  # fmt: skip


@pytest.mark.parametrize("values", CASES.values(), ids=CASES)
def test_events_are_encoded_together_as_each_by_itself(values: dict[str, object]) -> None:
    """Bytes that were made together are those that each event has by itself."""
    events = [build({}), build(values), build({})]
    together = encode_events(events)
    assert together in (None, [encode_event(event) for event in events])
    is_plain = all(data.isascii() and b"\\" not in data for data in map(encode_event, events))
    assert is_plain == (together is not None)


@pytest.mark.parametrize("values", UNSTORABLE, ids=repr)
def test_nothing_is_encoded_together_with_what_cannot_be_stored(values: dict[str, object]) -> None:
    """One event that is refused by itself leaves all of them to be asked one by one."""
    with pytest.raises(LedgerError):
        encode_event(build(values))
    assert encode_events([build({}), build(values), build({})]) is None


def test_event_that_may_not_fit_is_left_out() -> None:
    """What could be too large for an entry isn't gathered: the slow way refuses it by itself."""
    large = build({"scores": {f"score {i:04}": 0.1 for i in range(4000)}})
    assert [large] * 2 == list(gathered([large] * 2))
    bench = running(2)
    plain = request_of(bench, "decision", 1, {})
    (first, second) = bench.log.append_many([plain, large], actor="tester")
    assert isinstance(first, Appended)
    assert isinstance(second, LedgerError)
    assert "too large" in second.what


def test_entry_that_an_outcome_names_is_looked_up() -> None:
    """An outcome that names an entry as its source isn't gathered: the entry has to be there."""
    bench = running(2)
    source = Reference(seq=0, leaf=digest("1"))
    events = [bench.draft("decision", "e", 1), bench.draft("decision", "e", 2, source=source)]
    (first, second) = bench.log.append_many(events, actor="tester")
    assert isinstance(first, Appended)
    assert isinstance(second, LedgerError)
    assert "isn't in this ledger" in second.what


def test_requests_are_gathered_in_their_order() -> None:
    """Events of a run that name no entry go together; a single one, and all others, by itself."""
    bench = running(0)
    one, two = (request_of(bench, "attempt", at, {}) for at in (1, 2))
    other = bench.draft("refuse", "e")
    parts = list(gathered([one, two, other, one, other, other, two, one, one]))
    sizes = [len(part.events) if isinstance(part, Drafts) else 1 for part in parts]
    assert [2, 1, 1, 1, 1, 3] == sizes


def test_clock_without_form_stores_nothing() -> None:
    """Where the clock gives no time, each event is refused and the state stays as it was."""
    bench = running(2)
    bench.log.clock = lambda: "now"
    before = bench.snapshot()
    events = [request_of(bench, "decision", at, {}) for at in (1, 2)]
    outcomes = bench.log.append_many(events, actor="tester")
    assert all(isinstance(one, LedgerError) and "6 decimals" in one.what for one in outcomes)
    assert before == bench.snapshot()
