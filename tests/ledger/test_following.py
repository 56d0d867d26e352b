"""The quick way recognises nothing that the slow way would refuse, and reads the same from it."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fairtrial.ledger.canonical import decode_event, encode_event, event_id
from fairtrial.ledger.entry import Entry, build_entry, check_entry, parse_entry
from fairtrial.ledger.errors import LedgerError
from fairtrial.ledger.events import Attempt, AttemptEnd, Decision, Event, event_kind
from fairtrial.ledger.following import Followed, Follower, decode_to_fold
from fairtrial.ledger.memory import MemoryMedium, MemoryStore
from fairtrial.ledger.merkle import leaf_hash, leaf_hashes
from fairtrial.ledger.port import Block, Report, Tail
from fairtrial.ledger.state import State
from fairtrial.ledger.walk import Walk, walk_entries

from .chains import EMPTY, LEDGER, entry

GOLDEN = (Path(__file__).parents[1] / "golden/v1/ledger.jsonl").read_bytes().splitlines()
RUN: tuple[Event, ...] = (
    Attempt(experiment="exp-1", position=1, number=1, session=1, arm="A", reserved_nanousd=7),
    AttemptEnd(
        experiment="exp-1", position=1, number=1, session=1, status="error", code="http_500",
        tokens={"in": 3, "out": 0},
    ),
    Attempt(
        experiment="exp-1", position=1, number=2, session=1, arm="A", reserved_nanousd=7,
        sealed="0" * 64,
    ),
    Decision(
        experiment="exp-1", position=1, session=1, attempt=2, arm="A", unit="unit 1", replicate=1,
        status="ok", scores={"passed": 1.0, "score": None}, flag=True, answer="yes", origin="live",
        cost_nanousd=1_500_000, duration_ms=12, served_model="m",
    ),
    Decision(
        experiment="exp-1", position=2, session=1, attempt=1, arm="B", unit="ünit\u00a02",
        replicate=1, status="ok", answer='a "word"\n', origin="live",
    ),
)  # fmt: skip


def chain(*events: Event) -> list[bytes]:
    """Returns entries that follow one another from the start of a ledger."""
    entries: list[bytes] = []
    tail = EMPTY
    for event in events:
        entries.append(entry(event, tail))
        tail = Tail(tail.size + 1, leaf_hash(entries[-1]))
    return entries


LEDGERS = (GOLDEN, chain(*RUN))
PLACES = [(entries, seq) for entries in LEDGERS for seq in range(1, len(entries))]
EVENTS = [parse_entry(data).event for entries in LEDGERS for data in entries]
# What a careless or a sly writer of JSON puts in place of a value, a name or a mark.
SWAPS: tuple[tuple[bytes, bytes], ...] = (
    (b":1,", b":1.0,"), (b":1,", b":01,"), (b":1,", b":true,"), (b":1,", b":-1,"),
    (b":1,", b":1 ,"), (b":1,", b":9007199254740992,"), (b":0,", b":-0,"), (b"1.0", b"1"),
    (b"1.0", b"1.00"), (b"1.0", b"1e0"), (b"null", b"0"), (b"null", b'""'), (b"null", b"NaN"),
    (b"true", b"1"), (b'"exp-1"', b'"Exp 1"'), (b'"exp-1"', b'"exp-1\\n"'), (b'"exp-1"', b'""'),
    (b'"arm":"A"', b'"arm":"A B"'), (b'"arm":"A"', b'"arm":""'),
    (b'"arm":"A"', b'"arm":"\\u0041"'), (b'"arm":"B"', b'"arm":"' + b"B" * 33 + b'"'),
    (b'"http_500"', b'"HTTP"'), (b'"unit 1"', b'" unit"'), (b'"unit 1"', b'""'),
    (b'"unit 1"', b'"unit\\u00201"'), (b'"yes"', b'"\xff"'), (b'"yes"', b'"\\ud800"'),
    (b'"yes"', b'"' + b"y" * 201 + b'"'), (b'"yes"', b'"a\x7f"'),
    (b'"status":"ok"', b'"status":"fine"'), (b"/1", b"/2"), (b'{"', b'{ "'), (b',"', b', "'),
    (b"}", b',"more":1}'), (b"}", b"}}"), (b"0000", b"000A"), (b"tester", b"te ter"),
    (b"T", b"t"), (b"Z", b"z"), (b".0", b",0"), (b"b3:", b"B3:"), (b"}", b"}\n"), (b"1Z", b"xZ"),
    (b"3Z", b" Z"), (b"-12-", b"-13-"),
)  # fmt: skip


def swapped(data: bytes) -> Iterator[bytes]:
    """Yields an entry or event with each swap made at each place where it fits."""
    for old, new in SWAPS:
        for at in range(len(data)):
            if data.startswith(old, at):
                yield data[:at] + new + data[at + len(old) :]


@st.composite
def mutated(draw: st.DrawFn, data: bytes) -> bytes:
    """Draws bytes that differ from an entry or event in one or two places."""
    for _ in range(draw(st.integers(1, 2))):
        begin = draw(st.integers(0, len(data)))
        end = min(len(data), begin + draw(st.integers(0, 3)))
        fitting = [swap for swap in SWAPS if swap[0] in data]
        is_swap = draw(st.booleans())
        if fitting and is_swap:
            old, new = draw(st.sampled_from(fitting))
            at = draw(st.sampled_from([i for i in range(len(data)) if data.startswith(old, i)]))
            data = data[:at] + new + data[at + len(old) :]
        else:
            data = data[:begin] + draw(st.binary(max_size=3)) + data[end:]
    return data


@st.composite
def renamed(draw: st.DrawFn, data: bytes) -> bytes:
    """Draws an entry whose event was mutated, with the id of what it is now."""
    told = parse_entry(data)
    event = draw(mutated(told.event))
    return build_entry(
        event, ledger=told.ledger, seq=told.seq, prev=told.prev, time=told.time, actor=told.actor,
        id=event_id(event),
    )  # fmt: skip


def follower_at(entries: list[bytes], seq: int) -> tuple[Follower, Entry, bytes]:
    """Returns a follower that has seen the entries before `seq`, the one it saw last, its leaf."""
    before = parse_entry(entries[seq - 1])
    follower = Follower()
    follower.learn(before)
    return follower, before, before.leaf()


def slow(data: bytes, *, ledger: str, seq: int, prev: bytes) -> Entry | None:
    """Returns what the slow way makes of an entry, None when it refuses it."""
    try:
        found = parse_entry(data)
        check_entry(found, ledger=ledger, seq=seq, prev=prev)
    except LedgerError:
        return None
    return found


def read(data: bytes, *, quickly: bool) -> tuple[str, object, object]:
    """Returns all that can be seen of a decoded event, or of the error."""
    try:
        event = decode_to_fold(data) if quickly else decode_event(data)
    except LedgerError as error:
        return str(error), error.where, (error.expected, error.found)
    return event_kind(event), msgspec.structs.astuple(event), msgspec.json.encode(event)


@given(place=st.sampled_from(PLACES), given_data=st.data())
def test_follow_recognises_only_what_the_slow_way_accepts(
    place: tuple[list[bytes], int], given_data: st.DataObject
) -> None:
    """Whatever is done to an entry: a recognised one is accepted, and read alike."""
    entries, seq = place
    follower, before, prev = follower_at(entries, seq)
    data = given_data.draw(mutated(entries[seq]))
    found = follower.follow(data, seq=seq, prev=prev)
    assert found in (None, slow(data, ledger=before.ledger, seq=seq, prev=prev))


@pytest.mark.parametrize("seq", range(1, len(RUN)))
def test_each_swap_is_seen_by_both_ways(seq: int) -> None:
    """What JSON takes for the same is recognised only where the slow way accepts it."""
    entries = LEDGERS[1]
    follower, before, prev = follower_at(entries, seq)
    for data in swapped(entries[seq]):
        wanted = slow(data, ledger=before.ledger, seq=seq, prev=prev)
        assert follower.follow(data, seq=seq, prev=prev) in (None, wanted)
    for event in swapped(parse_entry(entries[seq]).event):
        assert read(event, quickly=False) == read(event, quickly=True)


@given(event=st.sampled_from(EVENTS).flatmap(lambda data: st.just(data) | mutated(data)))
def test_event_to_fold_is_the_event(event: bytes) -> None:
    """Both ways of decoding give the same fields, or the same words of refusal."""
    assert read(event, quickly=False) == read(event, quickly=True)


@pytest.mark.parametrize("entries", LEDGERS, ids=["golden", "run"])
def test_follow_recognises_every_entry_of_an_actor_seen_before(entries: list[bytes]) -> None:
    """In a sound ledger the slow way is asked at the start and when the actor changes."""
    parsed = [parse_entry(data) for data in entries]
    for seq in range(1, len(entries)):
        follower, before, prev = follower_at(entries, seq)
        found = follower.follow(entries[seq], seq=seq, prev=prev)
        assert (parsed[seq] if before.actor == parsed[seq].actor else None) == found


@pytest.mark.parametrize("part", ["ledger", "seq", "prev", "id"])
def test_follow_is_unsure_of_another_place(part: str) -> None:
    """An entry that is sound in itself and stands elsewhere isn't recognised."""
    entries = LEDGERS[1]
    follower, before, prev = follower_at(entries, 2)
    told = parse_entry(entries[2])
    event = encode_event(RUN[0]) if part == "id" else told.event
    other = build_entry(
        event,
        ledger="f" * 32 if part == "ledger" else told.ledger,
        seq=3 if part == "seq" else told.seq,
        prev=bytes(32) if part == "prev" else told.prev,
        time=told.time,
        actor=told.actor,
        id=told.id,
    )
    assert before.ledger == LEDGER
    assert follower.follow(entries[2], seq=2, prev=prev) == told
    assert follower.follow(other, seq=2, prev=prev) is None


@given(place=st.sampled_from(PLACES), given_data=st.data())
def test_block_is_recognised_only_where_the_slow_way_accepts_all_of_it(
    place: tuple[list[bytes], int], given_data: st.DataObject
) -> None:
    """Entries that are recognised together are those that are accepted and read one by one."""
    entries, seq = place
    follower, before, prev = follower_at(entries, seq)
    block = list(entries[seq : seq + given_data.draw(st.integers(1, 8))])
    changed = given_data.draw(st.integers(0, len(block) - 1))
    block[changed] = given_data.draw(
        st.just(block[changed]) | mutated(block[changed]) | renamed(block[changed])
    )
    if given_data.draw(st.booleans()):
        block = [*block[:changed], *relinked(block, changed, seq=seq)[changed:]]
    found = follower.follow_block(Block(block, leaf_hashes(block)), seq=seq, prev=prev)
    if found is None:
        return
    for place_, (data, event, time) in enumerate(
        zip(block, found.events, found.times, strict=True)
    ):
        told = slow(data, ledger=before.ledger, seq=seq + place_, prev=prev)
        assert told is not None
        assert (before.actor, time.decode()) == (told.actor, told.time)
        seen = event_kind(event), msgspec.structs.astuple(event), msgspec.json.encode(event)
        assert read(told.event, quickly=False) == seen
        prev = told.leaf()


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ('"unit":"unit 1"', '"unit":" unit 1"'), ('"unit":"unit 1"', '"unit":"unit\x7f1"'),
        ('"unit":"unit 1"', '"unit":"u\u0308nit 1"'), ('"unit":"unit 1"', '"unit":""'),
        ('"arm":"A"', '"arm":"A B"'), ('"experiment":"exp-1"', '"experiment":"Exp 1"'),
        ('"passed":1.0', '"passed":1'), ('"kind":"decision/1",', '"kind":"decision/1", '),
        ('"kind":"decision/1"', '"kind":"look/1"'), ('"answer":"yes"', '"answer":"yes\\u0007"'),
    ],
    ids=str,
)  # fmt: skip
def test_block_with_an_event_that_breaks_the_grammar_is_left_alone(old: str, new: str) -> None:
    """One event that the slow way refuses, with a sound header and id, leaves a block to it."""
    entries = LEDGERS[1]
    told = parse_entry(entries[3])
    event = told.event.decode().replace(old, new).encode()
    assert event != told.event
    with pytest.raises(LedgerError):
        decode_event(event)
    changed = build_entry(
        event, ledger=told.ledger, seq=3, prev=told.prev, time=told.time, actor=told.actor,
        id=event_id(event),
    )  # fmt: skip
    follower, _, prev = follower_at(entries, 1)
    block = [*entries[1:3], changed]
    assert follower.follow_block(Block(block, leaf_hashes(block)), seq=1, prev=prev) is None
    block[2] = entries[3]
    assert follower.follow_block(Block(block, leaf_hashes(block)), seq=1, prev=prev) is not None


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("Z", "z"), ("Z", "0"), (r"\d\dZ", "0ZZ"), (r"\dZ", "Z0"), (r"\.\d", ".a"), (r"\.\d", ". "),
        (r"\.", ","), ("T", " "), (r":\d\d\.", ":60."), (r"T\d", "T3"), (r"-\d\dT", "-32T"),
    ],
    ids=str,
)  # fmt: skip
def test_block_with_a_time_of_another_form_is_left_alone(old: str, new: str) -> None:
    """One time that the slow way refuses, in a header that is sound otherwise, leaves a block."""
    entries = LEDGERS[1]
    told = parse_entry(entries[3])
    time = re.sub(old, new, told.time)
    changed = entries[3].replace(told.time.encode(), time.encode())
    assert changed != entries[3]
    assert len(changed) == len(entries[3])
    with pytest.raises(LedgerError):
        parse_entry(changed)
    follower, _, prev = follower_at(entries, 1)
    block = [*entries[1:3], changed]
    assert follower.follow_block(Block(block, leaf_hashes(block)), seq=1, prev=prev) is None


@pytest.mark.parametrize("entries", LEDGERS, ids=["golden", "run"])
def test_sound_block_of_one_actor_is_recognised(entries: list[bytes]) -> None:
    """What follows entries of one actor is recognised together, up to where another one acts."""
    parsed = [parse_entry(data) for data in entries]
    recognised = 0
    for seq in range(1, len(entries)):
        follower, before, prev = follower_at(entries, seq)
        others = (at for at in range(seq, len(parsed)) if parsed[at].actor != before.actor)
        stop = min(next(others, len(parsed)), 10 ** len(str(seq)))
        assert stop - seq == follower.fitting(entries[seq:], seq=seq)
        block = Block(entries[seq:stop], leaf_hashes(entries[seq:stop]))
        if block.entries:
            found = follower.follow_block(block, seq=seq, prev=prev)
            assert found is not None
            recognised += len(found.events)
    assert recognised > len(entries)


def test_follower_that_has_learned_nothing_is_unsure() -> None:
    """The first entry is always read the slow way."""
    assert Follower().follow(GOLDEN[0], seq=0, prev=bytes(32)) is None


class Unsure(Follower):
    """A follower that leaves everything to the slow way."""

    def follow(self, data: bytes, *, seq: int, prev: bytes) -> Entry | None:
        """Recognises nothing."""
        return None

    def follow_block(self, block: Block, *, seq: int, prev: bytes) -> Followed | None:
        """Recognises nothing."""
        return None


class Blocks(MemoryStore):
    """A store that hands out its entries in blocks of a size."""

    size = 1000

    def blocks(
        self, start: int = 0, stop: int | None = None, *, report: Report | None = None
    ) -> Iterator[Block]:
        """Yields blocks; there is nothing to report."""
        for (block,) in [tuple(super().blocks(start, stop, report=report))]:
            for at in range(0, len(block.entries), self.size):
                part = slice(at, at + self.size)
                yield Block(block.entries[part], block.leaves[part])


def walked(entries: list[bytes], follower: Follower, *, size: int = 1000) -> tuple[object, ...]:
    """Returns all that one pass over a ledger found."""
    medium = MemoryMedium()
    medium.entries += entries
    walk = Walk(lambda _: None, (5, 7))
    walk.follower = follower
    store = Blocks(medium)
    store.size = size
    walk_entries(walk, store)
    state: State = walk.state
    return (
        walk.findings, walk.dropped, walk.skipped, walk.signed, walk.roots_due, walk.leaves_due,
        walk.time, walk.steps_back, walk.recoveries, walk.ledger, walk.rules_stopped,
        walk.tree.root(), state.size, [case.seq for case in walk.cases], walk.claim_roots,
        walk.bytes, walk.prev,
    )  # fmt: skip


@given(given_data=st.data())
def test_walk_finds_the_same_without_a_follower(given_data: st.DataObject) -> None:
    """A damaged ledger gives the same findings, in the same words, in blocks of any size."""
    entries = list(given_data.draw(st.sampled_from(LEDGERS)))
    seq = given_data.draw(st.integers(0, len(entries) - 1))
    size = given_data.draw(st.sampled_from((2, 3, 5, 1000)))
    entries[seq] = given_data.draw(mutated(entries[seq]) | renamed(entries[seq]))
    if given_data.draw(st.booleans()):
        entries = relinked(entries, seq)
    assert walked(entries, Unsure()) == walked(entries, Follower(), size=size)


def relinked(entries: list[bytes], start: int, *, seq: int = 0) -> list[bytes]:
    """Returns a ledger whose entries after `start` follow what stands there now.

    `seq` is the place of the first of them.
    """
    entries = list(entries)
    for at in range(start + 1, len(entries)):
        old = parse_entry(entries[at])
        entries[at] = build_entry(
            old.event, ledger=old.ledger, seq=seq + at, prev=leaf_hash(entries[at - 1]),
            time=old.time, actor=old.actor, id=event_id(old.event),
        )  # fmt: skip
    return entries
