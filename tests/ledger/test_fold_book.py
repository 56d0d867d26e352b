"""Refuse, sign, import, anchor, key, redact, recover, close: their rows of the table."""

from __future__ import annotations

import pytest

from fairtrial.ledger.book_rules import REFUSALS_FULL, REFUSALS_MAX
from fairtrial.ledger.entry import parse_entry
from fairtrial.ledger.errors import ConflictError, TransitionError
from fairtrial.ledger.events import Head, Reference, UnblindArm
from fairtrial.ledger.fold import apply
from fairtrial.ledger.state import State

from .fold_bench import Bench
from .fold_drafts import blob, digest, make_blinded, make_design
from .fold_pairs import Pair, check_pair, each_pair

BLINDED = make_design(
    4,
    arms=(make_blinded("a", "real_a"), make_blinded("b", "real_b")),
    lasts=(4, 8),
)


def _refused(bench: Bench, times: int) -> Bench:
    """Records different refusals in one batch."""
    bench.registered()
    drafts = [
        bench.draft("refuse", number=number, field=f"field {number}")
        for number in range(1, times + 1)
    ]
    bench.log.append_many(drafts, actor="tester")
    return bench


def _sealed(bench: Bench) -> Bench:
    return bench.running(BLINDED).settled(1, 2, 3, 4).do("look", sealed=blob("seal"))


def _freeze_keeps(name: str) -> Pair:
    return Pair(
        f"what a freeze names isn't erased: {name}",
        lambda b: b.frozen().draft("redact", blob=blob(name)),
        "can't be erased",
        lambda b: b.opened().draft("redact", blob=blob(name)),
    )


def _freeze_refuses(name: str) -> Pair:
    return Pair(
        f"a freeze names nothing that was erased: {name}",
        lambda b: b.registered().do("redact", blob=blob(name)).draft("freeze", files=blob("list")),
        "was erased on record",
        lambda b: b.registered().do("redact", blob=blob("another")).draft("freeze"),
    )


def _register_refuses(name: str) -> Pair:
    return Pair(
        f"a registration names nothing that was erased: {name}",
        lambda b: b.opened().do("redact", blob=blob(name)).draft("register", "e"),
        "was erased on record",
        lambda b: b.opened().do("redact", blob=blob("another")).draft("register", "e"),
    )


BOOK = (
    Pair(
        "refuse needs register",
        lambda b: b.opened().draft("refuse"),
        "isn't registered",
        lambda b: b.registered().draft("refuse"),
    ),
    Pair(
        "a refusal is recorded once",
        lambda b: b.registered().do("refuse", field="f").draft("refuse", field="f"),
        "is on record",
        lambda b: b.registered().do("refuse", field="f").draft("refuse", field="f", act="look"),
    ),
    Pair(
        "the last refusal that fits says so",
        lambda b: _refused(b, REFUSALS_MAX - 1).draft("refuse"),
        "names the field full",
        lambda b: _refused(b, REFUSALS_MAX - 1).draft("refuse", field=REFUSALS_FULL),
    ),
    Pair(
        "no other refusal says that the record is full",
        lambda b: _refused(b, REFUSALS_MAX - 2).draft("refuse", field=REFUSALS_FULL),
        "names the field full",
        lambda b: _refused(b, REFUSALS_MAX - 2).draft("refuse"),
    ),
    Pair(
        "beyond a thousand refusals none is recorded",
        lambda b: _refused(b, REFUSALS_MAX - 1).do("refuse", field=REFUSALS_FULL).draft("refuse"),
        "is full",
        lambda b: _refused(b, REFUSALS_MAX - 1).draft("refuse", field=REFUSALS_FULL),
    ),
    Pair(
        "the subject of a signature exists",
        lambda b: b.opened().draft("sign", subject=Reference(seq=9, leaf=digest("x"))),
        "isn't in this ledger",
        lambda b: b.opened().draft("sign"),
        ConflictError,
    ),
    Pair(
        "import needs a frozen experiment",
        lambda b: b.registered().draft("import"),
        "needs a frozen experiment",
        lambda b: b.frozen().draft("import"),
    ),
    Pair(
        "import needs an experiment that hasn't ended",
        lambda b: b.frozen().do("withdraw").draft("import"),
        "needs a frozen experiment",
        lambda b: b.frozen().do("withdraw").frozen(name="f").draft("import"),
    ),
    Pair(
        "an anchor covers at most the ledger",
        lambda b: b.opened().draft("anchor", basis=Head(size=2, root=digest("x"))),
        "isn't a prefix of this ledger",
        lambda b: b.opened().draft("anchor"),
        ConflictError,
    ),
    Pair(
        "a new key names the one before it",
        lambda b: b.opened().do("key").draft("key", previous=None, previous_signature=None),
        "names the one before it",
        lambda b: b.opened().do("key").draft("key"),
    ),
    Pair(
        "a first key names none",
        lambda b: b.opened().draft("key", previous="k", previous_signature="s"),
        "names the one before it",
        lambda b: b.do("open", vkey="k").draft("key", previous="k", previous_signature="s"),
    ),
    Pair(
        "the key before signs the new one",
        lambda b: b.opened().do("key").draft("key", previous_signature=None),
        "the previous key signs",
        lambda b: b.opened().do("key").draft("key", previous_signature="s"),
    ),
    Pair(
        "the protocol isn't erased",
        lambda b: b.registered().draft("redact", blob=blob("protocol e")),
        "can't be erased",
        lambda b: b.registered().draft("redact", blob=blob("protocol f")),
    ),
    Pair(
        "the resolved protocol isn't erased",
        lambda b: b.registered().draft("redact", blob=blob("resolved e")),
        "can't be erased",
        lambda b: b.registered().draft("redact", blob=blob("units")),
    ),
    Pair(
        "an amended protocol isn't erased, nor the one before it",
        lambda b: b.registered().do("amend").draft("redact", blob=blob("protocol e")),
        "can't be erased",
        lambda b: b.registered().draft("redact", blob=blob("amended protocol")),
    ),
    Pair(
        "the protocol that an amendment brought isn't erased",
        lambda b: b.registered().do("amend").draft("redact", blob=blob("amended resolved")),
        "can't be erased",
        lambda b: b.registered().draft("redact", blob=blob("amended resolved")),
    ),
    Pair(
        "the plan isn't erased",
        lambda b: b.frozen().draft("redact", blob=make_design().blob),
        "can't be erased",
        lambda b: b.registered().draft("redact", blob=make_design().blob),
    ),
    Pair(
        "an unopened seal isn't erased",
        lambda b: _sealed(b).draft("redact", blob=blob("seal")),
        "a seal that isn't opened",
        lambda b: _sealed(b).draft("redact", blob=blob("artifact")),
    ),
    Pair(
        "an opened seal isn't erased",
        lambda b: (
            _sealed(b).idle().do("unblind", arms=_opened()).draft("redact", blob=blob("seal"))
        ),
        "can't be erased",
        lambda b: (
            _sealed(b).idle().do("unblind", arms=_opened()).draft("redact", blob=blob("artifact"))
        ),
    ),
    *(_freeze_keeps(name) for name in ("units", "files", "a")),
    *(_freeze_refuses(name) for name in ("units", "list", "a")),
    Pair(
        "a freeze names no plan that was erased",
        lambda b: b.registered().do("redact", blob=make_design().blob).draft("freeze"),
        "was erased on record",
        lambda b: b.registered().do("redact", blob=blob("another")).draft("freeze"),
    ),
    *(_register_refuses(name) for name in ("protocol e", "resolved e", "files")),
    Pair(
        "an amendment names nothing that was erased",
        lambda b: b.registered().do("redact", blob=blob("amended resolved")).draft("amend"),
        "was erased on record",
        lambda b: b.registered().do("redact", blob=blob("another")).draft("amend"),
    ),
    Pair(
        "a result names no long form that was erased",
        lambda b: b.complete().do("redact", blob=blob("detail")).draft("result"),
        "was erased on record",
        lambda b: b.complete().do("redact", blob=blob("another")).draft("result"),
    ),
    Pair(
        "the note of an anchor isn't erased",
        lambda b: b.opened().do("anchor").draft("redact", blob=blob("note")),
        "can't be erased",
        lambda b: b.opened().draft("redact", blob=blob("note")),
    ),
    Pair(
        "an anchor names no note that was erased",
        lambda b: b.opened().do("redact", blob=blob("note")).draft("anchor"),
        "was erased on record",
        lambda b: b.opened().do("redact", blob=blob("another")).draft("anchor"),
    ),
    Pair(
        "what isn't a seal is erased from a blinded experiment",
        lambda b: _sealed(b).draft("redact", blob=blob("seal")),
        "a seal that isn't opened",
        lambda b: _sealed(b).draft("redact", blob=blob("artifact")),
    ),
    Pair(
        "close needs every experiment ended",
        lambda b: b.registered().registered("f").do("withdraw").draft("close"),
        "not ended: f",
        lambda b: b.registered().registered("f").do("withdraw").do("withdraw", "f").draft("close"),
    ),
    Pair(
        "close covers every entry before it",
        lambda b: b.opened().do("key").draft("close", basis=Head(size=1, root=_root(b, 1))),
        "covers every entry",
        lambda b: b.opened().do("key").draft("close", basis=Head(size=2, root=_root(b, 2))),
    ),
    Pair(
        "a ledger closes once",
        lambda b: b.opened().do("close").draft("close", reason="another"),
        "the slot holds another event",
        lambda b: b.opened().draft("close", reason="another"),
        ConflictError,
    ),
)


def _opened() -> tuple[UnblindArm, ...]:
    return tuple(UnblindArm(name=name, arm=f"real_{name}", salt=digest(name)) for name in "ab")


def _root(bench: Bench, size: int) -> str:
    return bench.log.root_at(size).hex()


@each_pair(BOOK)
def test_book_keeping_follows_the_table(pair: Pair) -> None:
    """What is written about the ledger itself stands only where the table lets it stand."""
    check_pair(pair)


@pytest.mark.parametrize("kind", ["sign", "import", "anchor", "key", "redact", "recover", "refuse"])
def test_kinds_of_the_book_are_numbered(kind: str) -> None:
    """The second event of a kind has number 2, and the first one keeps its place."""
    bench = Bench().frozen()
    first = bench.draft(kind)
    bench.append(first).do("start")
    second = bench.draft(kind)
    assert (1, 2) == (first.number, second.number)
    assert bench.again(second).fresh
    assert 3 == bench.again(first).seq


def test_only_anchor_and_recover_follow_close() -> None:
    """A closed ledger takes evidence of itself and nothing else."""
    bench = Bench().complete().do("result").do("close")
    before = bench.snapshot()
    for kind in ("adopt", "register", "refuse", "sign", "import", "key", "redact", "reanalysis"):
        name = "f" if kind == "register" else None
        with pytest.raises(TransitionError, match="the ledger is closed"):
            bench.do(kind, name)
    assert before == bench.snapshot()
    bench.do("anchor").do("recover").do("anchor", level="timestamp")


def test_anchor_counts_for_its_level_and_the_weaker_ones() -> None:
    """A time stamp also is a checkpoint; a checkpoint is no time stamp."""
    bench = Bench().opened().do("anchor", level="checkpoint").do("anchor", level="witness")
    assert {"checkpoint": 2, "witness": 2} == bench.log.state.anchored
    bench.do("anchor", basis=Head(size=1, root=_root(bench, 1)), level="timestamp")
    assert {"checkpoint": 2, "witness": 2, "timestamp": 1} == bench.log.state.anchored


def test_fold_refuses_places_that_only_the_log_knows() -> None:
    """Without a log the fold still refuses a basis or a subject behind the entry itself."""
    bench = Bench().opened()
    entry, state = parse_entry(bench.medium.entries[0]), State()
    state = apply(state, entry, next(bench.log.read())[1], plan_of=lambda _: None)
    later = entry._replace(seq=1)
    for event in (
        bench.draft("sign", subject=Reference(seq=1, leaf=digest("x"))),
        bench.draft("anchor", basis=Head(size=2, root=digest("x"))),
        bench.draft("anchor", basis=Head(size=0, root=digest("x"))),
    ):
        with pytest.raises(TransitionError, match=r"earlier entries|comes before it"):
            apply(state, later, event, plan_of=lambda _: None)
