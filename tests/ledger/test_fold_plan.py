"""Open, adopt, register, freeze: each need and each prohibition of the transition table."""

from __future__ import annotations

import pytest

from fairtrial.ledger.entry import parse_entry
from fairtrial.ledger.errors import ConflictError, PlanMissingError, TransitionError
from fairtrial.ledger.fold import apply
from fairtrial.ledger.state import State

from .fold_bench import Bench
from .fold_drafts import (
    Design,
    blob,
    digest,
    make_arm,
    make_design,
    make_looks,
    make_rules,
)
from .fold_pairs import Pair, check_pair, each_pair


def _looks(*lasts: int) -> Design:
    return make_design(4)._replace(looks=make_looks(lasts))


def _freeze(design: Design, bench: Bench) -> Bench:
    bench.designs["e"] = design
    return bench.registered()


def _rising(*lasts: int) -> Pair:
    return Pair(
        f"looks rise to the last slot, not {lasts}",
        lambda b: _freeze(_looks(*lasts), b).draft("freeze"),
        "looks rise",
        lambda b: _freeze(_looks(4, 8), b).draft("freeze"),
    )


def _tried(times: int) -> Pair:
    return Pair(
        f"a slot isn't tried {times} times",
        lambda b: b.registered().draft("freeze", rules=make_rules(attempts_max=times)),
        "1 to 20 times",
        lambda b: b.registered().draft("freeze", rules=make_rules(attempts_max=20)),
    )


BEFORE_THE_RUN = (
    Pair(
        "open needs an empty ledger",
        lambda b: b.opened().draft("open", tool="t 2"),
        "the slot holds another event",
        lambda b: b.draft("open"),
        ConflictError,
    ),
    Pair(
        "a ledger begins with open",
        lambda b: b.draft("key"),
        "a ledger begins with `open`",
        lambda b: b.opened().draft("key"),
    ),
    Pair(
        "adopt needs another tool",
        lambda b: b.opened().draft("adopt", tool="t 1", schemas=digest("1")),
        "already writes here",
        lambda b: b.opened().draft("adopt"),
    ),
    Pair(
        "another tool with the same events is another tool",
        lambda b: b.opened().draft("adopt", tool="t 1", schemas=digest("1")),
        "already writes here",
        lambda b: b.opened().draft("adopt", tool="t 2", schemas=digest("1")),
    ),
    Pair(
        "the same tool with other events is another tool",
        lambda b: b.opened().draft("adopt", tool="t 1", schemas=digest("1")),
        "already writes here",
        lambda b: b.opened().draft("adopt", tool="t 1", schemas=digest("2")),
    ),
    Pair(
        "what adopt is compared with is the newest tool",
        lambda b: b.opened().do("adopt").draft("adopt"),
        "already writes here",
        lambda b: b.opened().do("adopt").draft("adopt", tool="t 1", schemas=digest("1")),
    ),
    Pair(
        "adopt isn't for a closed ledger",
        lambda b: b.opened().do("close").draft("adopt"),
        "the ledger is closed",
        lambda b: b.opened().draft("adopt"),
    ),
    Pair(
        "register needs a new id",
        lambda b: b.registered().draft("register", media="toml"),
        "the slot holds another event",
        lambda b: b.registered().draft("register", "f", media="toml"),
        ConflictError,
    ),
    Pair(
        "register isn't for a closed ledger",
        lambda b: b.opened().do("close").draft("register"),
        "the ledger is closed",
        lambda b: b.opened().draft("register"),
    ),
    Pair(
        "what is superseded is withdrawn",
        lambda b: b.registered().draft("register", "f", supersedes="e"),
        "must be withdrawn",
        lambda b: b.registered().do("withdraw").draft("register", "f", supersedes="e"),
    ),
    Pair(
        "what is superseded is registered",
        lambda b: b.registered().do("withdraw").draft("register", "f", supersedes="g"),
        "must be withdrawn",
        lambda b: b.registered().do("withdraw").draft("register", "f", supersedes="e"),
    ),
    Pair(
        "an experiment doesn't supersede itself",
        lambda b: b.opened().draft("register", supersedes="e"),
        "must be withdrawn",
        lambda b: b.opened().draft("register"),
    ),
    Pair(
        "an experiment is superseded once",
        lambda b: (
            b.registered()
            .do("withdraw")
            .do("register", "f", supersedes="e")
            .draft("register", "g", supersedes="e")
        ),
        "not yet superseded",
        lambda b: b.registered().do("withdraw").draft("register", "g", supersedes="e"),
    ),
    Pair(
        "freeze needs register",
        lambda b: b.opened().draft("freeze"),
        "isn't registered",
        lambda b: b.registered().draft("freeze"),
    ),
    Pair(
        "freeze comes once",
        lambda b: b.frozen().draft("freeze", cluster_count=1),
        "the slot holds another event",
        lambda b: b.registered().draft("freeze", cluster_count=1),
        ConflictError,
    ),
    Pair(
        "freeze isn't for what has ended",
        lambda b: b.registered().do("withdraw").draft("freeze"),
        "has ended",
        lambda b: b.registered().draft("freeze"),
    ),
    *(_rising(*lasts) for lasts in ((), (4,), (4, 9), (8, 4), (4, 4, 8), (0, 8))),
    Pair(
        "the plan has as many lines as slots",
        lambda b: b.registered().draft("freeze", slot_count=7),
        "as many lines as slots",
        lambda b: b.registered().draft("freeze", slot_count=8),
    ),
    Pair(
        "the plan is at hand",
        lambda b: b.registered().draft("freeze", plan=blob("elsewhere")),
        "the blob of the frozen plan is missing",
        lambda b: b.registered().draft("freeze"),
        PlanMissingError,
    ),
    Pair(
        "arms have names of their own",
        lambda b: b.registered().draft("freeze", arms=(make_arm("a"), make_arm("a"))),
        "names of their own",
        lambda b: b.registered().draft("freeze", arms=(make_arm("b"), make_arm("a"))),
    ),
    Pair(
        "the plan holds only frozen arms",
        lambda b: b.registered().draft("freeze", arms=(make_arm("a"), make_arm("c"))),
        "only the frozen arms",
        lambda b: b.registered().draft(
            "freeze", arms=(make_arm("a"), make_arm("b"), make_arm("c"))
        ),
    ),
    _tried(0),
    _tried(21),
    Pair(
        "all arms are blinded or none",
        lambda b: b.registered().draft(
            "freeze", arms=(make_arm("a", commitment=digest("a")), make_arm("b"))
        ),
        "blinded arms",
        lambda b: b.registered().draft(
            "freeze",
            arms=(
                make_arm("a", commitment=digest("a")),
                make_arm("b", commitment=digest("b")),
            ),
        ),
    ),
    Pair(
        "blinded arms reserve the same",
        lambda b: b.registered().draft(
            "freeze",
            arms=(
                make_arm("a", commitment=digest("a"), reserve_nanousd=1),
                make_arm("b", commitment=digest("b"), reserve_nanousd=2),
            ),
        ),
        "the same reservation",
        lambda b: b.registered().draft(
            "freeze",
            arms=(make_arm("a", reserve_nanousd=1), make_arm("b", reserve_nanousd=2)),
        ),
    ),
)


@each_pair(BEFORE_THE_RUN)
def test_registering_and_freezing_follow_the_table(pair: Pair) -> None:
    """What comes before a run stands only where the table lets it stand."""
    check_pair(pair)


def test_fold_knows_the_first_event_without_a_log() -> None:
    """The fold itself refuses a second `open` and any other first event."""
    bench = Bench().opened().do("key")
    first, second = (parse_entry(data) for data in bench.medium.entries)
    events = [event for _, event in bench.log.read()]
    with pytest.raises(TransitionError, match="begins with `open`"):
        apply(State(), second, events[1], plan_of=lambda _: None)
    state = apply(State(), first, events[0], plan_of=lambda _: None)
    with pytest.raises(TransitionError, match="comes only once"):
        apply(state, second, events[0], plan_of=lambda _: None)


def _ended(bench: Bench) -> Bench:
    """A whole experiment: its first attempt was interrupted and settled, its result analysed."""
    bench.running(make_design(1, lasts=(1, 2))).tried(1, "interrupted").do("settle", position=1)
    bench.looked().do("invalidate", position=1).looked().idle()
    return bench.do("result").do("reanalysis")


@pytest.mark.parametrize(
    ("kind", "position", "number"),
    [
        ("register", 0, 0),
        ("freeze", 0, 0),
        ("start", 0, 1),
        ("stop", 0, 1),
        ("attempt", 1, 1),
        ("attempt", 1, 2),
        ("attempt_end", 1, 1),
        ("decision", 1, 0),
        ("settle", 1, 1),
        ("invalidate", 1, 1),
        ("look", 0, 1),
        ("result", 0, 0),
        ("reanalysis", 0, 1),
    ],
)
def test_fold_calls_a_taken_slot_taken(kind: str, position: int, number: int) -> None:
    """Without a log the fold says that a slot is taken, not that the event comes too late."""
    _check_taken(_ended(Bench()), kind, position, number)


def test_fold_calls_the_end_of_an_open_slot_taken() -> None:
    """An attempt that has ended has ended, while its slot waits for the next one."""
    _check_taken(Bench().running().tried(1, "interrupted"), "attempt_end", 1, 1)


def _check_taken(bench: Bench, kind: str, position: int, number: int) -> None:
    event = bench.draft(kind, position=position, number=number)
    before = bench.snapshot()
    entry = parse_entry(bench.medium.entries[-1])._replace(seq=bench.log.state.size)
    with pytest.raises(ConflictError, match="the slot is taken"):
        apply(bench.log.state, entry, event, plan_of=lambda _: None)
    assert before == bench.snapshot()


@pytest.mark.parametrize(
    ("kind", "experiment", "position", "says"),
    [
        ("key", "e", 0, "has no experiment"),
        ("start", "", 0, "needs an experiment"),
        ("attempt", "e", 0, "needs a position"),
        ("start", "e", 1, "has no position"),
    ],
)
def test_slot_has_the_parts_of_its_kind(
    kind: str, experiment: str, position: int, says: str
) -> None:
    """Experiment and position are there exactly where the kind has them."""
    bench = Bench().running()
    with pytest.raises(TransitionError, match=says):
        bench.do(kind, experiment, position, number=1)


@pytest.mark.parametrize("kind", ["start", "amend", "refuse", "anchor", "sign", "redact"])
def test_numbers_follow_without_gap(kind: str) -> None:
    """A number that leaves one out, or 0 where they count from 1, is refused."""
    bench = Bench().running()
    expected = bench.draft(kind).number
    for number in (expected + 1, 0):
        with pytest.raises(TransitionError, match="follow without gap"):
            bench.do(kind, number=number)
    bench.do(kind, number=expected)


def test_freeze_puts_the_plan_in_force() -> None:
    """After a freeze the state knows what was frozen and how much of it there is."""
    design = make_design(3)
    known = Bench().frozen(design).known()
    assert (3, 3, 6) == (known.unit_count, known.cluster_count, len(known.slots or ()))
    assert (design.blob, blob("units"), blob("files")) == (
        known.plan_blob,
        known.units_blob,
        known.files_blob,
    )
    assert (design.arms, design.rules, design.looks) == (known.arms, known.rules, known.looks)
