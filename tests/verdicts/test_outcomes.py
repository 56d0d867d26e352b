"""Outcomes as columns: what a slot cost, what the digest covers, what order doesn't change."""

from __future__ import annotations

import random
import sys
from hashlib import sha256
from typing import Any

import msgspec
import pytest

from fairtrial.ledger.canonical import blob_of, encode_event, event_id
from fairtrial.ledger.entry import Entry, build_entry, parse_entry
from fairtrial.ledger.events import (
    Attempt,
    AttemptEnd,
    Decision,
    Event,
    Freeze,
    FrozenArm,
    Invalidate,
    Reference,
    Rules,
    Settle,
)
from fairtrial.ledger.slots import STATUSES
from fairtrial.verdicts.outcomes import (
    Measures,
    Outcomes,
    collect_decisions,
    data_digest,
    read_outcomes,
)

BLOB = blob_of(b"x")
RULES = Rules(
    arms={},
    attempts_max=3,
    retry_on=("error",),
    on_crossing="stop",
    on_under_run="inconclusive",
    anchor="none",
    signatures=(),
    primaries=("passed",),
)


def freeze(*, metered: bool, reserve: int = 100) -> Freeze:
    """Returns the freeze of one live arm."""
    arm = FrozenArm(
        name="A",
        origin="live",
        identity=BLOB,
        metered=metered,
        reserve_nanousd=reserve,
        repeatable=True,
    )
    return Freeze(
        experiment="e",
        units=BLOB,
        plan=BLOB,
        files=BLOB,
        unit_count=2,
        cluster_count=2,
        slot_count=2,
        arms=(arm,),
        rules=RULES,
        looks=(),
    )


def attempt(position: int, number: int = 1) -> Attempt:
    """Returns a try of a slot."""
    return Attempt(
        experiment="e", position=position, number=number, session=1, arm="A", reserved_nanousd=100
    )


def ended(position: int, number: int = 1, **fields: Any) -> AttemptEnd:
    """Returns the end of a try that settled nothing."""
    fields = {"status": "error", **fields}
    return AttemptEnd(experiment="e", position=position, number=number, session=1, **fields)


def decided(position: int, **fields: Any) -> Decision:
    """Returns an outcome."""
    fields = {"status": "ok", "scores": {"passed": 1.0}, "attempt": 1, "origin": "live", **fields}
    return Decision(
        experiment=fields.pop("experiment", "e"),
        position=position,
        session=1,
        arm="A",
        unit=f"u{position}",
        replicate=1,
        **fields,
    )


def entries(*events: Event) -> list[tuple[Entry, Event]]:
    """Returns events at consecutive places of a log."""
    found: list[tuple[Entry, Event]] = []
    prev = bytes(32)
    for seq, event in enumerate(events):
        data = encode_event(event)
        line = build_entry(
            data,
            ledger="0" * 32,
            seq=seq,
            prev=prev,
            time="2026-12-01T00:00:00.000000Z",
            actor="t",
            id=event_id(data),
        )
        entry = parse_entry(line)
        prev = entry.leaf()
        found.append((entry, event))
    return found


def read(*events: Event, slots: int = 2) -> Outcomes:
    """Returns the outcomes of events at consecutive places."""
    return read_outcomes(entries(*events), "e", slots)


def test_slot_costs_the_sum_of_its_attempts() -> None:
    """Ended attempts, one that reported nothing, and the outcome's own add up; metered arms."""
    outcomes = read(
        freeze(metered=True),
        attempt(1),
        ended(1, cost_nanousd=7),
        attempt(1, 2),
        ended(1, 2),
        attempt(1, 3),
        decided(1, cost_nanousd=5, attempt=3),
    )
    assert 7 + 100 + 5 == outcomes.cost_nanousd[0]
    assert -1 == outcomes.cost_nanousd[1]


def test_cost_that_nobody_reports_is_unknown() -> None:
    """An arm that isn't metered has no cost, whatever was lost; it isn't 0."""
    outcomes = read(freeze(metered=False), attempt(1), ended(1, status="lost"), decided(1))
    assert -1 == outcomes.cost_nanousd[0]


def test_given_up_slot_is_charged_once() -> None:
    """An outcome after its attempt ended on its own adds no second reservation."""
    outcomes = read(
        freeze(metered=True),
        attempt(1),
        ended(1),
        decided(1, status="error", scores={}),
    )
    assert 100 == outcomes.cost_nanousd[0]


def test_settled_cost_replaces_the_reservation() -> None:
    """A person's correction of a lost attempt counts, also the second one in the same slot."""
    events = entries(
        freeze(metered=True),
        attempt(1),
        ended(1, status="lost"),
        attempt(1, 2),
        decided(1, cost_nanousd=5, attempt=2),
    )
    lost = Reference(seq=2, leaf=events[2][0].leaf().hex())
    settle = Settle(
        experiment="e", position=1, number=1, subject=lost, cost_nanousd=30, reason="bill"
    )
    outcomes = read_outcomes([*events, (events[-1][0], settle)], "e", 2)
    assert 35 == outcomes.cost_nanousd[0]
    assert 35 == outcomes.incurred_nanousd[0]


def test_incurred_is_the_price_unless_it_differs() -> None:
    """A cached answer costs its price and incurs what it says."""
    outcomes = read(
        freeze(metered=True),
        attempt(1),
        decided(1, cost_nanousd=50, incurred_nanousd=0),
        attempt(2),
        decided(2, cost_nanousd=60),
    )
    assert [50, 60] == list(outcomes.cost_nanousd)
    assert [0, 60] == list(outcomes.incurred_nanousd)


def test_tokens_add_up_over_attempts_and_duration_does_not() -> None:
    """Tokens are a cost of the slot; its duration is the outcome's."""
    outcomes = read(
        freeze(metered=False),
        attempt(1),
        ended(1, tokens={"output": 3}, duration_ms=900),
        attempt(1, 2),
        decided(1, attempt=2, tokens={"output": 4, "input": 1}, duration_ms=100),
    )
    assert {"output": 7, "input": 1} == {k: c[0] for k, c in outcomes.tokens.items()}
    assert [100, -1] == list(outcomes.duration_ms)


def test_outcome_keeps_its_place_and_leaf() -> None:
    """Seq and leaf are those of the decision's entry; other experiments are skipped."""
    events = entries(freeze(metered=False), decided(1, experiment="other"), attempt(2), decided(2))
    outcomes = read_outcomes(events, "e", 2)
    assert [-1, 3] == list(outcomes.seq)
    assert events[3][0].leaf() == outcomes.leaf_at(2)
    assert [0, STATUSES.index("ok") + 1] == list(outcomes.status)


def test_invalidated_outcome_keeps_its_value() -> None:
    """An invalidated position is listed by the first event that named it."""
    events = entries(freeze(metered=False), attempt(1), decided(1))
    subject = Reference(seq=2, leaf=events[2][0].leaf().hex())
    invalidate = Invalidate(experiment="e", position=1, number=1, subject=subject, reason="wrong")
    outcomes = read_outcomes([*events, (events[-1][0], invalidate)], "e", 2)
    assert {1: 2} == outcomes.invalidated
    assert 1.0 == outcomes.scores["passed"].values[0]


def test_model_that_was_not_asked_for_is_noted() -> None:
    """A served model that differs from the requested one; none where one of them is unknown."""
    decisions = [
        decided(1, requested_model="m", served_model="n"),
        decided(2, served_model="n"),
    ]
    assert {1} == collect_decisions(decisions, 2).other_model


def test_digest_is_over_the_documented_lines() -> None:
    """Position, status, scores, answer, flag, then what endpoints use: one JSON array a line."""
    decisions = [
        decided(2, status="failed", scores={}, answer="no", flag=False, cost_nanousd=5),
        decided(1, scores={"score": None, "passed": 1.0}, tokens={"output": 4}, duration_ms=8),
    ]
    outcomes = collect_decisions(decisions, 2)
    first = b'[1,"ok",{"passed":1.0,"score":null},null,null]\n'
    second = b'[2,"failed",{},"no",false]\n'
    plain = Measures()
    assert sha256(first + second).hexdigest() == data_digest(outcomes, last=2, measures=plain)
    assert sha256(first).hexdigest() == data_digest(outcomes, last=1, measures=plain)
    whole = first[:-2] + b',null,{"output":4},8]\n' + second[:-2] + b",5,{},null]\n"
    everything = Measures(cost=True, tokens=True, duration=True)
    assert sha256(whole).hexdigest() == data_digest(outcomes, last=2, measures=everything)


@pytest.mark.parametrize("names", [(), ("passed",), ("passed", "a b", "é", "zz")])
@pytest.mark.parametrize("holes", [False, True])
def test_digest_of_whole_columns_is_that_of_single_lines(
    names: tuple[str, ...], *, holes: bool
) -> None:
    """Many slots at once, unsettled ones and missing scores among them, give the same lines."""
    source, lines, decisions = random.Random(4), [], []
    for position in range(1, 10_001):
        if holes and position % 7 == 0:
            continue
        scores = {name: source.choice([0.0, 1.0, 1e-7, 0.1 + 0.2]) for name in names}
        if holes and position % 11 == 0:
            scores = dict(list(scores.items())[1:])
        decisions.append(decided(position, scores=dict(scores)))
        lines.append([position, "ok", dict(sorted(scores.items())), None, None])
    expected = sha256()
    for line in lines:
        expected.update(msgspec.json.encode(line) + b"\n")
    found = data_digest(collect_decisions(decisions, 10_000), last=10_000, measures=Measures())
    assert expected.hexdigest() == found


def test_digest_is_the_same_for_any_order() -> None:
    """The order of completion, and so concurrency, changes nothing; a changed score does."""
    decisions = [decided(p, scores={"passed": float(p % 2), "x": p / 3}) for p in range(1, 41)]
    shuffled = decisions[:]
    random.Random(3).shuffle(shuffled)
    digests = {
        data_digest(collect_decisions(each, 40), last=40, measures=Measures())
        for each in (decisions, shuffled)
    }
    changed = [*decisions[:-1], decided(40, scores={"passed": 1.0, "x": 40 / 3})]
    digests.add(data_digest(collect_decisions(changed, 40), last=40, measures=Measures()))
    assert 2 == len(digests)


@pytest.mark.parametrize("size", [5000])
def test_slot_takes_little_memory(size: int) -> None:
    """Columns take less than 100 bytes a slot, so that 200,000 slots fit in 20 MB."""
    outcomes = collect_decisions((decided(p, answer="yes") for p in range(1, size + 1)), size)
    columns: list[object] = [
        outcomes.status,
        outcomes.flag,
        outcomes.answers,
        outcomes.cost_nanousd,
        outcomes.incurred_nanousd,
        outcomes.duration_ms,
        outcomes.seq,
        outcomes.leaves,
        outcomes.scores["passed"].values,
        outcomes.scores["passed"].given,
    ]
    assert sum(map(sys.getsizeof, columns)) < 100 * size
    assert 1 == len({id(answer) for answer in outcomes.answers})
