"""Look, invalidate, unblind, withdraw, reanalysis: their rows of the transition table."""

from __future__ import annotations

from collections.abc import Callable

import msgspec
import pytest

from fairtrial.ledger.entry import parse_entry
from fairtrial.ledger.errors import ConflictError, TransitionError
from fairtrial.ledger.events import Head, UnblindArm
from fairtrial.ledger.fold import apply

from .fold_bench import Bench
from .fold_drafts import (
    Design,
    blob,
    comparisons,
    digest,
    make_blinded,
    make_design,
    make_looks,
)
from .fold_pairs import Pair, check_pair, each_pair

TWO_LOOKS = make_design(4, lasts=(4, 8))
GOES_ON = make_design(4, lasts=(4, 8), on_crossing="continue")
BLINDED = make_design(
    4,
    arms=(make_blinded("a", "x"), make_blinded("b", "y")),
    lasts=(4, 8),
)


def opened_arms(names: str = "a b", real: str = "x y") -> tuple[UnblindArm, ...]:
    """Returns the arms of an unblinding that opens every commitment."""
    pairs = zip(names.split(), real.split(), strict=True)
    return tuple(UnblindArm(name=name, arm=arm, salt=digest(name)) for name, arm in pairs)


def _due(bench: Bench, design: Design = TWO_LOOKS) -> Bench:
    """Settles what the first look needs."""
    return bench.running(design).settled(1, 2, 3, 4)


LOOKS = (
    Pair(
        "look needs a freeze",
        lambda b: b.registered().draft("look"),
        "isn't due",
        lambda b: _due(b).draft("look"),
    ),
    Pair(
        "all slots of a look are settled",
        lambda b: b.running(TWO_LOOKS).settled(1, 2, 4).draft("look"),
        "isn't due",
        lambda b: b.running(TWO_LOOKS).settled(1, 2, 4, 3).draft("look"),
    ),
    Pair(
        "an open attempt holds a look up",
        lambda b: b.running(TWO_LOOKS).settled(1, 2, 4).do("attempt", position=3).draft("look"),
        "isn't due",
        lambda b: (
            b.running(TWO_LOOKS).settled(1, 2, 4).do("attempt", position=3)
            .do("decision", position=3).draft("look")
        ),
    ),
    Pair(
        "looks are taken in order",
        lambda b: _due(b).draft("look", number=2),
        "follow without gap",
        lambda b: _due(b).draft("look", number=1),
    ),
    Pair(
        "a look is taken once",
        lambda b: b.running(TWO_LOOKS).looked().draft("look", number=1, method="other"),
        "the slot holds another event",
        lambda b: b.running(TWO_LOOKS).looked().looked(method="other").idle().draft("result"),
        ConflictError,
    ),
    Pair(
        "a look ends where it was planned",
        lambda b: _due(b).draft("look", last=3),
        "another slot than planned",
        lambda b: _due(b).draft("look", last=4),
    ),
    Pair(
        "the basis of a look covers the last change",
        lambda b: (
            b.running(TWO_LOOKS).settled(1, 2, 3).do("attempt", position=4)
            .append(b.draft("decision", position=4))
            .draft("look", basis=_head(b, b.log.state.size - 1))
        ),
        "between the last change and this entry",
        lambda b: _due(b).draft("look", basis=b.log.head()),
    ),
    Pair(
        "a look that isn't eligible on its data doesn't cross",
        lambda b: _due(b).draft("look", comparisons=comparisons("favourable", eligible=False)),
        "isn't eligible can't cross",
        lambda b: _due(b).draft("look", comparisons=comparisons("no", eligible=False)),
    ),
    Pair(
        "a look that isn't eligible by design doesn't cross",
        lambda b: (
            _due(b, TWO_LOOKS._replace(looks=make_looks((4, 8), eligible=False)))
            .draft("look", comparisons=comparisons("against"))
        ),
        "isn't eligible can't cross",
        lambda b: _due(b).draft("look", comparisons=comparisons("against")),
    ),
    Pair(
        "a look stops a run only by crossing",
        lambda b: _due(b).draft("look", continues=False),
        "only by crossing",
        lambda b: _due(b).draft("look", continues=False, comparisons=comparisons("against")),
    ),
    Pair(
        "a protocol that goes on after a crossing isn't stopped by one",
        lambda b: _due(b, GOES_ON).draft(
            "look", continues=False, comparisons=comparisons("against")
        ),
        "goes on after a crossing",
        lambda b: _due(b, GOES_ON).draft("look", comparisons=comparisons("against")),
    ),
    Pair(
        "nothing comes after the last look",
        lambda b: (
            b.running(TWO_LOOKS).looked().settled(5, 6, 7, 8).draft("look", continues=True)
        ),
        "nothing comes after the last look",
        lambda b: (
            b.running(TWO_LOOKS).looked().settled(5, 6, 7, 8).draft("look", continues=False)
        ),
    ),
    Pair(
        "no look is taken after a crossing that stops",
        lambda b: b.running(TWO_LOOKS).looked(crossed="against", continues=False)
        .draft("look", last=8),
        "isn't due",
        lambda b: b.running(TWO_LOOKS).looked(crossed="against").settled(5, 6, 7, 8)
        .draft("look", last=8),
    ),
    Pair(
        "no look is taken of what was withdrawn",
        lambda b: b.running(TWO_LOOKS).idle().do("withdraw").draft("look"),
        "isn't due",
        lambda b: _due(b).draft("look"),
    ),
    Pair(
        "a blinded look that stops has its numbers sealed",
        lambda b: _due(b, BLINDED).draft("look", continues=False, comparisons=()),
        "only by crossing",
        lambda b: _due(b, BLINDED).draft(
            "look", continues=False, sealed=blob("seal"), comparisons=()
        ),
    ),
    Pair(
        "a sealed look stops only a blinded experiment",
        lambda b: _due(b).draft("look", continues=False, sealed=blob("seal"), comparisons=()),
        "only by crossing",
        lambda b: _due(b, BLINDED).draft(
            "look", continues=False, sealed=blob("seal"), comparisons=()
        ),
    ),
)  # fmt: skip

INVALIDATIONS = (
    Pair(
        "only a settled outcome is invalidated",
        lambda b: b.running().draft("invalidate", position=1),
        "only a settled outcome",
        lambda b: b.running().settled(1).draft("invalidate", position=1),
    ),
    Pair(
        "only a slot of the plan is invalidated",
        lambda b: b.running().draft("invalidate", position=9),
        "only a settled outcome",
        lambda b: b.running().settled(8).draft("invalidate", position=8),
    ),
    Pair(
        "an outcome is invalidated once",
        lambda b: b.running().settled(1).do("invalidate", position=1)
        .draft("invalidate", position=1),
        "declared invalid before",
        lambda b: b.running().settled(1, 2).do("invalidate", position=1)
        .draft("invalidate", position=2),
    ),
    Pair(
        "the subject is the outcome of the slot",
        lambda b: b.running().settled(1, 2).draft(
            "invalidate", position=1, subject=b.reference(b.log.state.size - 1)
        ),
        "isn't the outcome of this slot",
        lambda b: b.running().settled(1, 2).draft(
            "invalidate", position=2, subject=b.reference(b.log.state.size - 1)
        ),
    ),
    Pair(
        "a due look comes before an invalidation",
        lambda b: _due(b).draft("invalidate", position=1),
        "a look is due",
        lambda b: _due(b).do("look").draft("invalidate", position=1),
    ),
    Pair(
        "nothing is invalidated after the result",
        lambda b: b.complete().do("result").draft("invalidate", position=1),
        "has ended",
        lambda b: b.complete().draft("invalidate", position=1),
    ),
    Pair(
        "invalidate needs a freeze",
        lambda b: b.registered().draft("invalidate", position=1),
        "only a settled outcome",
        lambda b: b.running().settled(1).draft("invalidate", position=1),
    ),
)  # fmt: skip


def _salted(salt: str) -> tuple[UnblindArm, ...]:
    first, second = opened_arms()
    return first, msgspec.structs.replace(second, salt=digest(salt))


UNBLINDING = (
    Pair(
        "unblind needs blinded arms",
        lambda b: b.running(TWO_LOOKS).idle().draft("unblind", arms=opened_arms()),
        "aren't blinded",
        lambda b: b.running(BLINDED).idle().draft("unblind", arms=opened_arms()),
    ),
    Pair(
        "arms are unblinded once",
        lambda b: (
            b.running(BLINDED).idle().do("unblind", arms=opened_arms())
            .draft("unblind", arms=opened_arms())
        ),
        "aren't blinded",
        lambda b: b.running(BLINDED).idle().draft("unblind", arms=opened_arms()),
    ),
    Pair(
        "unblinding waits for the session to stop",
        lambda b: b.running(BLINDED).draft("unblind", arms=opened_arms()),
        "a run is going on",
        lambda b: b.running(BLINDED).idle().draft("unblind", arms=opened_arms()),
    ),
    Pair(
        "a due look comes before unblinding",
        lambda b: _due(b, BLINDED).idle().draft("unblind", arms=opened_arms()),
        "a look is due",
        lambda b: _due(b, BLINDED).do("look").idle().draft("unblind", arms=opened_arms()),
    ),
    Pair(
        "every commitment is opened",
        lambda b: b.running(BLINDED).idle().draft("unblind", arms=opened_arms("a", "x")),
        "opens every commitment",
        lambda b: b.running(BLINDED).idle().draft("unblind", arms=opened_arms()),
    ),
    Pair(
        "every commitment is opened to an arm of its own",
        lambda b: b.running(BLINDED).idle().draft("unblind", arms=opened_arms("a b", "x x")),
        "opens every commitment",
        lambda b: b.running(BLINDED).idle().draft("unblind", arms=opened_arms("b a", "y x")),
    ),
    Pair(
        "a commitment is opened by its own arm",
        lambda b: b.running(BLINDED).idle().draft("unblind", arms=opened_arms("a b", "y x")),
        "isn't what was committed to",
        lambda b: b.running(BLINDED).idle().draft("unblind", arms=opened_arms()),
    ),
    Pair(
        "a commitment is opened by its own salt",
        lambda b: b.running(BLINDED).idle().draft("unblind", arms=_salted("z")),
        "isn't what was committed to",
        lambda b: b.running(BLINDED).idle().draft("unblind", arms=_salted("b")),
    ),
    Pair(
        "what was withdrawn is opened once",
        lambda b: b.running(BLINDED).idle().do("withdraw").do("unblind", arms=opened_arms())
        .draft("unblind", arms=opened_arms()),
        "aren't blinded",
        lambda b: b.running(BLINDED).idle().do("withdraw").draft("unblind", arms=opened_arms()),
    ),
)  # fmt: skip

WITHDRAWALS = (
    Pair(
        "withdraw needs register",
        lambda b: b.opened().draft("withdraw"),
        "isn't registered",
        lambda b: b.registered().draft("withdraw"),
    ),
    Pair(
        "withdraw waits for the session to stop",
        lambda b: b.running().draft("withdraw"),
        "a run is going on",
        lambda b: b.running().idle().draft("withdraw"),
    ),
    Pair(
        "a due look comes before a withdrawal",
        lambda b: _due(b).idle().draft("withdraw"),
        "a look is due",
        lambda b: _due(b).do("look").idle().draft("withdraw"),
    ),
    Pair(
        "nothing is withdrawn after a crossing that stops",
        lambda b: b.running(TWO_LOOKS).looked(crossed="against", continues=False).idle()
        .draft("withdraw"),
        "a boundary was crossed",
        lambda b: b.running(TWO_LOOKS).looked().idle().draft("withdraw"),
    ),
    Pair(
        "nothing is withdrawn after a crossing, though the run went on",
        lambda b: b.running(GOES_ON).looked(crossed="favourable").idle().draft("withdraw"),
        "a boundary was crossed",
        lambda b: b.running(GOES_ON).looked(crossed="favourable").idle().draft("result"),
    ),
    Pair(
        "an experiment is withdrawn once",
        lambda b: b.registered().do("withdraw").draft("withdraw", reason="another"),
        "the slot holds another event",
        lambda b: b.registered().draft("withdraw", reason="another"),
        ConflictError,
    ),
    Pair(
        "a result isn't withdrawn",
        lambda b: b.complete().do("result").draft("withdraw"),
        "has ended",
        lambda b: b.complete().draft("withdraw"),
    ),
    Pair(
        "reanalysis needs a result",
        lambda b: b.complete().draft("reanalysis"),
        "after a result",
        lambda b: b.complete().do("result").draft("reanalysis"),
    ),
    Pair(
        "what was withdrawn isn't analysed again",
        lambda b: b.complete().do("withdraw").draft("reanalysis"),
        "after a result",
        lambda b: b.complete().do("result").draft("reanalysis"),
    ),
)  # fmt: skip


def _head(bench: Bench, size: int) -> Head:
    return Head(size=size, root=bench.log.root_at(size).hex())


@each_pair(LOOKS)
def test_looking_follows_the_table(pair: Pair) -> None:
    """A look is taken when it is due, once, and crosses only where it may."""
    check_pair(pair)


@each_pair(INVALIDATIONS)
def test_invalidating_follows_the_table(pair: Pair) -> None:
    """A settled outcome is declared invalid once, before the result and after a due look."""
    check_pair(pair)


@each_pair(UNBLINDING)
def test_unblinding_follows_the_table(pair: Pair) -> None:
    """Commitments are opened all at once, when nothing runs."""
    check_pair(pair)


@each_pair(WITHDRAWALS)
def test_withdrawing_follows_the_table(pair: Pair) -> None:
    """An experiment ends without a result only while no boundary was crossed."""
    check_pair(pair)


@pytest.mark.parametrize(
    "change",
    [
        lambda b: b.settled(5),
        lambda b: b.tried(5, "interrupted"),
        lambda b: b.do("invalidate", position=1),
        lambda b: b.do("amend"),
        lambda b: b.do("settle", position=6),
        lambda b: b.looked(),
    ],
    ids=["decision", "attempt_end", "invalidate", "amend", "settle", "look"],
)
def test_basis_is_scoped_to_changes_of_its_experiment(change: Callable[[Bench], Bench]) -> None:
    """Every change of the experiment outdates a basis; an entry of another one doesn't."""
    for outdates in (True, False):
        bench = Bench().running(TWO_LOOKS).looked().tried(6, "interrupted")
        basis = bench.log.head()
        if outdates:
            change(bench)
            bench.log.refresh()
            bench.idle()
            with pytest.raises(TransitionError, match="between the last change"):
                bench.do("result", basis=basis)
        else:
            bench.frozen(name="f").do("start", "f").settled(1, name="f")
            bench.idle().do("result", basis=basis)


def test_unblinding_outdates_a_basis() -> None:
    """What an unblinded result says isn't what was computed before."""
    bench = Bench().running(BLINDED).idle()
    basis = bench.log.head()
    bench.do("unblind", arms=opened_arms())
    with pytest.raises(TransitionError, match="between the last change"):
        bench.do("result", basis=basis)


def test_basis_covers_the_freeze() -> None:
    """A result of what was never started is still computed from what was frozen."""
    bench = Bench().registered()
    basis = bench.log.head()
    bench.do("freeze")
    with pytest.raises(TransitionError, match="between the last change"):
        bench.do("result", basis=basis)


def test_early_unblinding_is_kept() -> None:
    """Unblinding before the data are complete is early, after the last look it isn't."""
    early = Bench().running(BLINDED).idle().do("unblind", arms=opened_arms())
    late = Bench().running(BLINDED).looked().looked().idle().do("unblind", arms=opened_arms())
    assert (True, False) == (early.known().unblinded_early, late.known().unblinded_early)


def test_sealed_look_that_goes_on_is_no_crossing() -> None:
    """Neither a blinded look after which the run goes on nor the last one says that it crossed."""
    bench = _due(Bench(), BLINDED).do("look", sealed=blob("seal"), comparisons=())
    bench.settled(5, 6, 7, 8).do("look", sealed=blob("seal 2"), comparisons=())
    bench.idle().do("withdraw")


def test_look_outdates_a_basis() -> None:
    """A result computed before the last look isn't one of all looks."""
    bench = Bench().running(TWO_LOOKS).looked().settled(5, 6, 7, 8)
    basis = bench.log.head()
    bench.do("look").idle()
    with pytest.raises(TransitionError, match="between the last change"):
        bench.do("result", basis=basis)


def test_result_is_analysed_again_as_often_as_need_be() -> None:
    """Reanalyses are counted; without a log the fold still wants an earlier prefix."""
    bench = Bench().complete().do("result").do("reanalysis").do("reanalysis")
    assert 2 == bench.known().counters["reanalysis"]
    last = parse_entry(bench.medium.entries[-1])
    entry = last._replace(seq=bench.log.state.size)
    for size in (0, entry.seq + 1):
        event = bench.draft("reanalysis", basis=Head(size=size, root=digest("x")))
        with pytest.raises(TransitionError, match="isn't a prefix"):
            apply(bench.log.state, entry, event, plan_of=lambda _: None)


def test_sealed_stop_counts_as_a_crossing() -> None:
    """A blinded look that stopped the run crossed something, so nothing is withdrawn after it."""
    bench = _due(Bench(), BLINDED).do("look", continues=False, sealed=blob("seal"), comparisons=())
    with pytest.raises(TransitionError, match="a boundary was crossed"):
        bench.idle().do("withdraw")
