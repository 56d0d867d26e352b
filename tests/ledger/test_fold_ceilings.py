"""What an attempt or outcome has to wait for: anchors, signatures, and room under the ceilings."""

from __future__ import annotations

import pytest

from fairtrial.ledger.errors import BudgetExceededError, TransitionError
from fairtrial.ledger.events import ArmCeiling, Head, SignatureRule

from .fold_bench import Bench
from .fold_drafts import RESERVE, Design, make_arm, make_design, make_rules
from .fold_pairs import Pair, check_pair, each_pair


def _signed(*rules: SignatureRule) -> Design:
    return make_design(signatures=rules)


APPROVED = _signed(SignatureRule(meaning="approved", role="reviewer", before="run"))


def _head(bench: Bench, size: int) -> Head:
    return Head(size=size, root=bench.log.root_at(size).hex())


PERMISSIONS = (
    Pair(
        "an anchor covers the freeze",
        lambda b: (
            b.frozen(make_design(anchor="checkpoint")).do("anchor", basis=_head(b, 2)).do("start")
            .draft("attempt", position=1)
        ),
        "wants a checkpoint",
        lambda b: (
            b.frozen(make_design(anchor="checkpoint")).do("anchor", basis=_head(b, 3)).do("start")
            .draft("attempt", position=1)
        ),
    ),
    Pair(
        "an anchor covers the newest amendment",
        lambda b: (
            b.frozen(make_design(anchor="checkpoint")).do("anchor").do("amend").do("start")
            .draft("attempt", position=1)
        ),
        "wants a checkpoint",
        lambda b: (
            b.frozen(make_design(anchor="checkpoint")).do("amend").do("anchor").do("start")
            .draft("attempt", position=1)
        ),
    ),
    Pair(
        "an anchor has the level that the protocol wants, or a stronger one",
        lambda b: (
            b.frozen(make_design(anchor="witness")).do("anchor").do("start")
            .draft("attempt", position=1)
        ),
        "wants a witness",
        lambda b: (
            b.frozen(make_design(anchor="witness")).do("anchor", level="timestamp").do("start")
            .draft("attempt", position=1)
        ),
    ),
    Pair(
        "recorded outcomes wait for the anchor too",
        lambda b: (
            b.running(make_design(arms=(make_arm("a", "recorded"),), anchor="checkpoint"))
            .draft("decision", position=1)
        ),
        "wants a checkpoint",
        lambda b: (
            b.running(make_design(arms=(make_arm("a", "recorded"),), anchor="checkpoint"))
            .do("anchor").draft("decision", position=1)
        ),
    ),
    Pair(
        "a signature is over the newest freeze or amendment",
        lambda b: b.frozen(APPROVED).do("sign").do("amend").do("start")
        .draft("attempt", position=1),
        "wants `approved` by reviewer",
        lambda b: b.frozen(APPROVED).do("amend").do("sign").do("start")
        .draft("attempt", position=1),
    ),
    Pair(
        "a signature over something else approves nothing",
        lambda b: b.frozen(APPROVED).do("start").do("sign").draft("attempt", position=1),
        "wants `approved` by reviewer",
        lambda b: b.frozen(APPROVED).do("sign").do("start").draft("attempt", position=1),
    ),
    Pair(
        "a signature is of the role and the meaning",
        lambda b: (
            b.frozen(APPROVED).do("sign", role="author").do("sign", subject=b.reference(2),
            meaning="reviewed").do("start").draft("attempt", position=1)
        ),
        "wants `approved` by reviewer",
        lambda b: b.frozen(APPROVED).do("sign").do("start").draft("attempt", position=1),
    ),
    Pair(
        "who rejects later no longer approves",
        lambda b: (
            b.frozen(APPROVED).do("sign").do("sign", subject=b.reference(2), meaning="rejected")
            .do("start").draft("attempt", position=1)
        ),
        "wants `approved` by reviewer",
        lambda b: (
            b.frozen(APPROVED).do("sign", meaning="rejected").do("sign", subject=b.reference(2))
            .do("start").draft("attempt", position=1)
        ),
    ),
    Pair(
        "a signature that the result waits for doesn't hold up the run",
        lambda b: b.running(APPROVED).draft("attempt", position=1),
        "wants `approved` by reviewer",
        lambda b: (
            b.running(_signed(
                SignatureRule(meaning="approved", role="reviewer", before="result_counts")
            )).draft("attempt", position=1)
        ),
    ),
)  # fmt: skip


def _own(**ceiling: int) -> Design:
    """Returns a design in which arm a alone has a ceiling."""
    return make_design(arms=(make_arm("a"), make_arm("b")))._replace(
        rules=make_rules(arms={"a": ArmCeiling(**ceiling)})
    )


CEILINGS = (
    Pair(
        "spent, open and wanted fit into the usd ceiling",
        lambda b: (
            b.running(make_design(usd_nanousd=3 * RESERVE - 1)).settled(1)
            .do("attempt", position=2).draft("attempt", position=3)
        ),
        "what comes next reserves",
        lambda b: (
            b.running(make_design(usd_nanousd=3 * RESERVE)).settled(1)
            .do("attempt", position=2).draft("attempt", position=3)
        ),
        BudgetExceededError,
    ),
    Pair(
        "an outcome that costs more than it reserved leaves less room",
        lambda b: (
            b.running(make_design(usd_nanousd=3 * RESERVE)).settled(1, cost_nanousd=2 * RESERVE + 1)
            .draft("attempt", position=2)
        ),
        "usd",
        lambda b: (
            b.running(make_design(usd_nanousd=3 * RESERVE)).settled(1, cost_nanousd=2 * RESERVE)
            .draft("attempt", position=2)
        ),
        BudgetExceededError,
    ),
    Pair(
        "a lost attempt costs its reservation",
        lambda b: (
            b.running(make_design(usd_nanousd=RESERVE)).do("attempt", position=1).do("start")
            .do("attempt_end", position=1, status="lost").draft("attempt", position=1)
        ),
        "usd",
        lambda b: (
            b.running(make_design(usd_nanousd=RESERVE)).do("attempt", position=1).do("start")
            .do("attempt_end", position=1, status="lost")
            .do("settle", position=1, cost_nanousd=0).draft("attempt", position=1)
        ),
        BudgetExceededError,
    ),
    Pair(
        "an arm has a ceiling of its own",
        lambda b: b.running(_own(usd_nanousd=RESERVE)).settled(1).draft("attempt", position=3),
        "arm a: spent",
        lambda b: (
            b.running(_own(usd_nanousd=RESERVE)).settled(1, cost_nanousd=2 * RESERVE)
            .draft("attempt", position=2)
        ),
        BudgetExceededError,
    ),
    Pair(
        "calls are counted when they begin",
        lambda b: (
            b.running(make_design(calls=2)).do("attempt", position=1).tried(2, "interrupted")
            .draft("attempt", position=2)
        ),
        "calls 3 of 2",
        lambda b: (
            b.running(make_design(calls=3)).do("attempt", position=1).tried(2, "interrupted")
            .draft("attempt", position=2)
        ),
        BudgetExceededError,
    ),
    Pair(
        "an arm has its own calls",
        lambda b: b.running(_own(calls=1)).settled(1).draft("attempt", position=3),
        "arm a: calls 2 of 1",
        lambda b: b.running(_own(calls=1)).settled(1).draft("attempt", position=2),
        BudgetExceededError,
    ),
    Pair(
        "nothing starts once the tokens are used up",
        lambda b: (
            b.running(make_design(tokens=10)).tried(1, "error", tokens={"in": 4, "out": 2})
            .settled(2, tokens={"out": 4}).draft("attempt", position=3)
        ),
        "tokens 10 of 10",
        lambda b: (
            b.running(make_design(tokens=10)).tried(1, "error", tokens={"in": 4, "out": 2})
            .settled(2, tokens={"out": 3}).draft("attempt", position=3)
        ),
        BudgetExceededError,
    ),
)  # fmt: skip


@each_pair(PERMISSIONS)
def test_outcomes_wait_for_anchor_and_signatures(pair: Pair) -> None:
    """What the protocol wants first is newer than the freeze and every amendment."""
    check_pair(pair)


@each_pair(CEILINGS)
def test_no_attempt_starts_beyond_a_ceiling(pair: Pair) -> None:
    """An attempt needs room for its reservation under every ceiling."""
    check_pair(pair)


@pytest.mark.parametrize("wait", [59.0, 61.0])
def test_wall_time_is_a_true_reason_only_after_its_time(wait: float) -> None:
    """The time of all sessions together counts, that of a session that never stopped included."""
    bench = Bench().running(make_design(wall_seconds=60))
    bench.clock.wait(20)
    bench.idle()
    bench.clock.wait(1000)
    bench.do("start")
    bench.clock.wait(wait - 40)
    bench.settled(1)
    bench.clock.wait(1000)
    bench.do("start")
    bench.clock.wait(20)
    if wait < 60:
        with pytest.raises(TransitionError, match="for the reason wall_time"):
            bench.idle(reason="wall_time")
    else:
        bench.idle(reason="wall_time")


@pytest.mark.parametrize("last", ["attempt", "attempt_end", "decision"])
def test_session_that_never_stopped_ran_until_its_last_event(last: str) -> None:
    """A crash ends a session's time at what it last did, not at the next start."""
    bench = Bench().running()
    if last != "attempt":
        bench.do("attempt", position=1)
    bench.clock.wait(30)
    bench.do(last, position=1)
    bench.clock.wait(1000)
    assert 30 == int(bench.do("start").known().ran_seconds)


def test_wall_time_is_used_up_to_the_moment() -> None:
    """A session may stop for its time when exactly that time has passed."""
    bench = Bench().running(make_design(wall_seconds=60))
    # The clock goes on by a millisecond when the entry of the stop reads it.
    bench.clock.wait(60 - 0.002)
    with pytest.raises(TransitionError, match="for the reason wall_time"):
        bench.idle(reason="wall_time")
    bench.idle(reason="wall_time")
    assert 60.0 == bench.known().ran_seconds


def test_wall_time_is_no_reason_without_a_ceiling() -> None:
    """Without a ceiling of time none is used up."""
    bench = Bench().running()
    bench.clock.wait(10**6)
    with pytest.raises(TransitionError, match="for the reason wall_time"):
        bench.idle(reason="wall_time")


def test_time_that_is_no_date_is_refused() -> None:
    """An entry whose time has the form of a date and is none breaks a rule, not the program."""
    bench = Bench().running()
    before = bench.snapshot()
    bench.log.clock = lambda: "2026-13-45T99:99:99.000000Z"
    with pytest.raises(TransitionError, match="is no date"):
        bench.idle()
    assert before == bench.snapshot()


def test_signature_over_another_experiment_approves_nothing() -> None:
    """A reviewer who signs another experiment's freeze hasn't approved this one."""
    bench = Bench().frozen(APPROVED).frozen(name="f").do("sign").do("start")
    with pytest.raises(TransitionError, match="wants `approved`"):
        bench.do("attempt", position=1)
