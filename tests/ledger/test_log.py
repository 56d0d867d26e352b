"""The log: places, batches, pointers, other writers, errors of the medium, tampering."""

from __future__ import annotations

from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager
from pathlib import Path

import pytest

from fairtrial.ledger.canonical import encode_event, event_id
from fairtrial.ledger.entry import build_entry, parse_entry
from fairtrial.ledger.errors import (
    BusyError,
    ConflictError,
    IntegrityError,
    LedgerError,
    StoreError,
    TransitionError,
)
from fairtrial.ledger.events import Event, Head, Reference
from fairtrial.ledger.log import Appended, Log, basis_of, reference_of
from fairtrial.ledger.memory import MemoryMedium, MemoryStore
from fairtrial.ledger.merkle import leaf_hash, root_of
from fairtrial.ledger.port import StoreWriter

from .fold_bench import Bench
from .fold_drafts import LEDGER, digest, make_arm, make_design

TWO_LOOKS = make_design(4, lasts=(4, 8))


def _batch(bench: Bench, *events: Event | Callable[..., Event]) -> list[Appended | LedgerError]:
    return bench.log.append_many(events, actor="tester", ledger=LEDGER)


def _seqs(outcomes: Sequence[Appended | LedgerError]) -> list[int | str]:
    """Returns the place of each event, or the class of its refusal."""
    return [one.seq if isinstance(one, Appended) else type(one).__name__ for one in outcomes]


# One event, one slot.


def test_event_is_appended_once() -> None:
    """The same event again is no new entry: it returns the place where it stands."""
    bench = Bench().running().settled(1)
    event = bench.draft("decision", position=1, number=0)
    first = bench.again(event)
    assert (bench.log.state.size - 1, False) == (first.seq, first.fresh)
    assert leaf_hash(bench.medium.entries[first.seq]) == first.leaf
    bench.do("refuse")
    assert first == bench.again(event)


def test_other_event_for_a_taken_slot_is_a_conflict() -> None:
    """What differs in one field is another event; the first one stays."""
    bench = Bench().running().settled(1)
    with pytest.raises(ConflictError, match="holds another event") as caught:
        bench.do("decision", position=1, scores={"passed": 0.0})
    assert "e decision position 1" == caught.value.where
    assert caught.value.expected.startswith("b3:")
    assert caught.value.expected != caught.value.found


def test_batch_knows_its_own_slots() -> None:
    """A repeated event in a batch has one place, another one for its slot is a conflict."""
    bench = Bench().registered()
    event = bench.draft("refuse", field="f")
    other = bench.draft("refuse", field="g")
    assert [2, 2, "ConflictError"] == _seqs(_batch(bench, event, event, other))
    assert 3 == len(bench.medium.entries)


def test_stop_of_a_fenced_session_keeps_its_place() -> None:
    """A later start doesn't make a stop that is on record a new one."""
    bench = Bench().running()
    stop = bench.draft("stop")
    bench.append(stop).do("start")
    assert (4, False) == (bench.again(stop).seq, bench.again(stop).fresh)
    with pytest.raises(ConflictError, match="holds another event"):
        bench.do("stop", number=1, reason="crashed")


def test_slot_that_nothing_fills_is_not_called_taken() -> None:
    """What the fold refuses and no entry holds is out of order, not a conflict."""
    fenced = Bench().running().do("start")
    with pytest.raises(TransitionError):
        fenced.do("stop", number=1)
    closed = Bench().running().settled(1)
    with pytest.raises(TransitionError, match="isn't open"):
        closed.do("attempt_end", position=1)


def test_ended_attempt_keeps_its_place_after_the_outcome() -> None:
    """An attempt_end that is on record is found when its slot is settled since."""
    bench = Bench().running(make_design(1, arms=(make_arm("a"),)))
    bench.do("attempt", position=1)
    end = bench.draft("attempt_end", position=1)
    bench.append(end).do("decision", position=1, status="error")
    assert (5, False) == (bench.again(end).seq, bench.again(end).fresh)


def test_first_event_brings_the_id() -> None:
    """Nothing stands before `open`, and `open` needs an id for the ledger."""
    bench = Bench()
    for event in (bench.draft("key"), bench.draft("open")):
        with pytest.raises(TransitionError, match="begins with `open`"):
            bench.log.append(event, actor="tester")
    assert "" == bench.log.ledger
    assert LEDGER == bench.opened().log.ledger
    assert (0, False) == (bench.again(bench.draft("open")).seq, bench.again(bench.draft("open"))[2])


def test_refusals_leave_the_rest_of_a_batch_alone() -> None:
    """Each event of a batch stands or falls by itself, in order."""
    bench = Bench().running()
    unfit = bench.draft("attempt", position=3, session=-1)
    outcomes = _batch(
        bench,
        bench.draft("attempt", position=1),
        bench.draft("attempt", position=99),
        unfit,
        bench.draft("attempt", position=2),
        lambda state: bench.draft("decision", position=1),
    )
    assert [4, "TransitionError", "LedgerError", 5, 6] == _seqs(outcomes)
    assert 7 == len(bench.medium.entries)
    assert bench.log.state == Bench(bench).log.state


def test_request_sees_the_state_under_the_lock() -> None:
    """A function makes its event from what the events before it in the batch have left."""
    bench = Bench().registered()
    numbers: list[int] = []

    def refuse(state: object) -> Event:
        event = bench.draft("refuse")
        numbers.append(event.number)
        return event

    assert [2, 3] == _seqs(_batch(bench, refuse, refuse))
    assert [1, 2] == numbers


def test_actor_is_checked_before_anything_is_written() -> None:
    """An actor outside the grammar is refused."""
    bench = Bench().opened()
    with pytest.raises(LedgerError, match="actor"):
        bench.log.append(bench.draft("key"), actor="two words")
    assert 1 == len(bench.medium.entries)


# What an event names.


@pytest.mark.parametrize("kind", ["look", "result", "reanalysis", "anchor", "close"])
def test_basis_is_a_prefix_of_this_ledger(kind: str) -> None:
    """A size behind the head, no entry at all, or another root is a conflict."""
    bench = Bench().complete() if kind != "look" else Bench().running(TWO_LOOKS).settled(1, 2, 3, 4)
    if kind in ("reanalysis", "close"):
        bench.do("result")
    head = bench.log.head()
    for basis in (
        Head(size=head.size + 1, root=head.root),
        Head(size=0, root=root_of([]).hex()),
        Head(size=head.size, root=digest("other")),
        Head(size=head.size - 1, root=head.root),
    ):
        event = bench.draft(kind, basis=basis)
        assert basis == basis_of(event)
        with pytest.raises(ConflictError, match="isn't a prefix"):
            bench.again(event)
    assert bench.again(bench.draft(kind)).fresh


def test_stale_basis_is_refused() -> None:
    """A look computed before the last outcome of its experiment is computed again."""
    bench = Bench().running(TWO_LOOKS).settled(1, 2, 3)
    basis = bench.log.head()
    bench.settled(4)
    with pytest.raises(TransitionError, match="between the last change"):
        bench.do("look", basis=basis)


def test_basis_may_lie_before_entries_of_another_experiment() -> None:
    """Writers of other experiments don't outdate a look."""
    bench = Bench().running(name="f").running(TWO_LOOKS).settled(1, 2, 3, 4)
    basis = bench.log.head()
    Bench(bench).settled(1, 2, name="f").do("anchor").do("sign")
    event = bench.draft("look", basis=basis)
    assert bench.again(event).fresh


def test_basis_may_lie_within_its_batch() -> None:
    """The root of a prefix counts the entries of the batch that aren't in the store yet."""
    bench = Bench().registered()
    heads: list[Head] = []

    def refuse(state: object) -> Event:
        heads.append(bench.log.head())
        return bench.draft("refuse")

    outcomes = _batch(
        bench,
        refuse,
        refuse,
        refuse,
        lambda state: bench.draft("anchor", basis=Head(size=4, root=digest("wrong"))),
        lambda state: bench.draft("anchor", basis=Head(size=4, root=bench.log.root_at(4).hex())),
        lambda state: bench.draft("anchor", basis=heads[1]),
    )
    assert [2, 3, 4, "ConflictError", 5, 6] == _seqs(outcomes)
    leaves = [leaf_hash(one) for one in bench.medium.entries]
    assert (3, root_of(leaves[:3]).hex()) == (heads[1].size, heads[1].root)
    assert root_of(leaves[:4]) == bench.log.root_at(4)


@pytest.mark.parametrize(
    ("kind", "position"), [("sign", 0), ("amend", 0), ("settle", 1), ("invalidate", 2)]
)
def test_reference_names_an_entry_by_its_leaf(kind: str, position: int) -> None:
    """A subject that isn't there, or has another leaf, is a conflict."""
    bench = Bench().running().tried(1, "interrupted").settled(2)
    right = reference_of(bench.draft(kind, position=position))
    assert right is not None
    for subject in (
        Reference(seq=right.seq, leaf=digest("other")),
        Reference(seq=right.seq + 50, leaf=right.leaf),
    ):
        with pytest.raises(ConflictError, match="isn't in this ledger"):
            bench.do(kind, position=position, subject=subject)
    bench.do(kind, position=position, subject=right)


def test_source_of_an_outcome_is_an_entry_too() -> None:
    """An outcome that names where it came from names an entry of this ledger."""
    bench = Bench().running(make_design(arms=(make_arm("a", "imported"),))).do("import")
    source = bench.reference(bench.log.state.size - 1)
    with pytest.raises(ConflictError, match="isn't in this ledger"):
        bench.do("decision", position=1, source=Reference(seq=source.seq, leaf=digest("other")))
    bench.do("decision", position=1, source=source)


def test_reference_may_name_an_entry_of_its_batch() -> None:
    """A subject that stands in the same batch is found by its leaf."""
    bench = Bench().opened()
    outcomes = _batch(
        bench,
        bench.draft("key"),
        lambda state: bench.draft("sign", subject=Reference(seq=1, leaf=digest("other"))),
        lambda state: bench.draft("sign", subject=bench.reference(1)),
    )
    assert [1, "ConflictError", 2] == _seqs(outcomes)
    sign = bench.log.find("", "sign", number=1)
    assert sign is not None
    assert bench.reference(1) == reference_of(sign)


# Other writers.


def test_two_logs_on_one_store_catch_up_with_each_other() -> None:
    """What another process appended is folded before the next event is judged."""
    one = Bench().running()
    two = Bench(one)
    one.settled(1)
    assert 2 == two.log.refresh()
    assert 0 == two.log.refresh()
    one.do("attempt", position=2)
    outcome = two.again(two.draft("attempt", position=3))
    assert (7, True) == (outcome.seq, outcome.fresh)
    assert 1 == one.log.refresh()
    assert (one.log.state, one.log.head()) == (two.log.state, two.log.head())


def test_entry_that_breaks_a_rule_is_not_folded() -> None:
    """What another program wrote against the rules ends the use of the ledger."""
    bench = Bench().frozen()
    foreign = Bench(bench)
    _write(bench.medium, bench.draft("attempt", position=1))
    for log in (foreign.log.refresh, lambda: Bench(bench)):
        with pytest.raises(IntegrityError, match="breaks a rule") as caught:
            log()
        assert "entry 3" == caught.value.where


def _write(medium: MemoryMedium, event: Event) -> None:
    """Writes an entry past the fold, chained as it should be."""
    data = encode_event(event)
    last = parse_entry(medium.entries[-1])
    medium.entries.append(
        build_entry(
            data,
            ledger=last.ledger,
            seq=last.seq + 1,
            prev=last.leaf(),
            time=last.time,
            actor="other",
            id=event_id(data),
        )
    )


# Errors of the medium.


class _Failing(MemoryStore):
    """A store whose next write fails, before or after the entries are on the medium."""

    def __init__(self, medium: MemoryMedium) -> None:
        super().__init__(medium)
        self.fails = ""

    @contextmanager
    def writer(self, *, timeout_seconds: float = 30.0) -> Generator[StoreWriter]:  # type: ignore[override]
        """Takes the lock, or doesn't."""
        if self.fails == "busy":
            raise BusyError("the lock is held")
        with super().writer(timeout_seconds=timeout_seconds) as writer:
            if self.fails:
                yield _FailingWriter(writer, self.fails)
            else:
                yield writer


class _FailingWriter:
    def __init__(self, writer: StoreWriter, when: str) -> None:
        self._writer, self._when, self.tail = writer, when, writer.tail

    def write(self, entries: Sequence[bytes], leaves: Sequence[bytes]) -> None:
        if self._when == "after":
            self._writer.write(entries, leaves)
        raise StoreError("the disk is full")


def _failing(bench: Bench, cache: Path | None = None) -> tuple[Log, _Failing]:
    store = _Failing(bench.medium)
    plans = bench.plans
    log = Log(
        store,
        plan_of=lambda blob: plans.get(blob.sha256),
        clock=bench.clock,
        cache=cache,
        cache_key=bytes(32),
    )
    return log, store


@pytest.mark.parametrize("when", ["before", "after"])
def test_log_is_of_no_use_after_a_write_error(when: str) -> None:
    """Nothing is known of the batch: the log refuses, and a new one finds out by slot."""
    bench = Bench().running()
    log, store = _failing(bench)
    event = bench.draft("attempt", position=1)
    store.fails = when
    with pytest.raises(StoreError, match="disk is full"):
        log.append(event, actor="tester")
    store.fails = ""
    for use in (log.refresh, lambda: log.append(event, actor="tester")):
        with pytest.raises(StoreError, match="open the ledger again"):
            use()
    outcome = Bench(bench).again(event)
    assert (4, when == "before") == (outcome.seq, outcome.fresh)


def test_busy_lock_leaves_the_log_as_it_was() -> None:
    """Who didn't get the lock may try again."""
    bench = Bench().running()
    log, store = _failing(bench)
    event = bench.draft("attempt", position=1)
    store.fails = "busy"
    with pytest.raises(BusyError):
        log.append(event, actor="tester")
    store.fails = ""
    assert log.append(event, actor="tester").fresh


def test_broken_log_saves_no_projection(tmp_path: Path) -> None:
    """What was folded and perhaps never written isn't cached."""
    bench = Bench().running()
    log, store = _failing(bench, tmp_path / "fold")
    log.save()
    saved = (tmp_path / "fold").read_bytes()
    store.fails = "before"
    with pytest.raises(StoreError, match="disk is full"):
        log.append(bench.draft("attempt", position=1), actor="tester")
    log.save()
    assert saved == (tmp_path / "fold").read_bytes()


def test_damage_that_a_request_meets_ends_the_batch() -> None:
    """Bytes that contradict their hashes stop all writing, not one event of it."""
    bench = Bench().running().settled(1)
    size = len(bench.medium.entries)
    _change(bench, 5, b'"passed":1.0', b'"passed":0.0')

    def reads(state: object) -> Event:
        list(bench.log.read(5, 6))
        return bench.draft("refuse")

    with pytest.raises(IntegrityError):
        _batch(bench, bench.draft("refuse"), reads)
    assert size == len(bench.medium.entries)


def test_log_is_of_no_use_after_a_failing_request() -> None:
    """A request that breaks down leaves events folded that aren't in the store."""
    bench = Bench().registered()

    def breaks(state: object) -> Event:
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        _batch(bench, bench.draft("refuse"), breaks)
    with pytest.raises(StoreError, match="open the ledger again"):
        bench.do("refuse")
    assert 2 == Bench(bench).log.state.size


# Tampering with what is open, and with what was closed.


def _change(bench: Bench, seq: int, old: bytes, new: bytes) -> None:
    """Changes bytes of an entry behind the log's back."""
    assert old in bench.medium.entries[seq]
    bench.medium.entries[seq] = bench.medium.entries[seq].replace(old, new)


@pytest.mark.parametrize("change", ["cut", "time", "score"])
def test_open_log_sees_that_its_end_has_changed(change: str) -> None:
    """A tail that was cut, or a last entry with other bytes, is found on the next refresh."""
    bench = Bench().running().settled(1)
    if change == "cut":
        del bench.medium.entries[-1]
    elif change == "time":
        _change(bench, -1, b'"actor":"tester"', b'"actor":"another"')
    else:
        _change(bench, -1, b'"passed":1.0', b'"passed":0.0')
    for use in (bench.log.refresh, lambda: bench.do("refuse")):
        with pytest.raises(IntegrityError, match="lost or changed"):
            use()


def test_open_log_sees_that_a_new_entry_stands_on_another_past() -> None:
    """An entry that follows a changed one doesn't follow what was folded."""
    bench = Bench().registered()
    _change(bench, 1, b'"actor":"tester"', b'"actor":"another"')
    _write(bench.medium, bench.draft("refuse"))
    with pytest.raises(IntegrityError, match="doesn't follow"):
        bench.log.refresh()


@pytest.mark.parametrize(
    ("seq", "old", "new", "says"),
    [
        (2, b'"actor":"tester"', b'"actor":"another"', "doesn't follow"),
        (2, b'"unit_count":4', b'"unit_count":5', "the id isn't"),
        (5, b'"passed":1.0', b'"passed":0.0', "the id isn't"),
        (3, b'"seq":3', b'"seq":4', "another place"),
        (3, LEDGER.encode(), (b"f" * 32), "another ledger"),
    ],
    ids=["header", "freeze", "score", "seq", "ledger"],
)
def test_opening_finds_changed_bytes(seq: int, old: bytes, new: bytes, says: str) -> None:
    """Id, place and chain of every entry are checked when a ledger is folded."""
    bench = Bench().running().settled(1, 2)
    _change(bench, seq, old, new)
    with pytest.raises(IntegrityError, match=says):
        Bench(bench)


def test_reading_checks_the_id_of_each_event() -> None:
    """An event whose bytes aren't those that its id names isn't handed out."""
    bench = Bench().running().settled(1)
    _change(bench, 5, b'"passed":1.0', b'"passed":0.0')
    with pytest.raises(IntegrityError, match="the id isn't"):
        list(bench.log.read())


def test_read_and_find_return_what_was_appended() -> None:
    """Entries come in order with their events; a slot has one, or none."""
    bench = Bench().running().settled(1)
    read = list(bench.log.read(3, 5))
    assert [3, 4] == [entry.seq for entry, _ in read]
    assert read[1][1] == bench.log.find("e", "attempt", position=1, number=1)
    assert None is bench.log.find("e", "attempt", position=2, number=1)
    assert [None, None] == [bench.log.leaf_at(seq) for seq in (bench.log.state.size, 99)]
    assert leaf_hash(bench.medium.entries[2]) == bench.log.leaf_at(2)


def test_roots_are_those_of_the_prefixes() -> None:
    """The root of any prefix is that of its leaves, asked for in any order and number."""
    bench = Bench().registered()
    for _ in range(100):
        bench.do("refuse")
        bench.log.head()
    leaves = [leaf_hash(entry) for entry in bench.medium.entries]
    for size in (1, 102, 50, 2, 102, 50):
        assert root_of(leaves[:size]) == bench.log.root_at(size)
    for size in (103, -1):
        with pytest.raises(ValueError, match=f"no prefix of {size}"):
            bench.log.root_at(size)


def test_closed_log_gives_up_its_store() -> None:
    """After close the store is of no more use."""
    bench = Bench().opened()
    bench.log.close()
    with pytest.raises(StoreError, match="closed"):
        bench.log.refresh()
