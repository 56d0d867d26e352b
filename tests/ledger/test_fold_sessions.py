"""Start, stop, attempt: each need and each prohibition of the transition table."""

from __future__ import annotations

import pytest

from fairtrial.ledger.errors import ConflictError, FailingArmError, TransitionError

from .fold_bench import Bench
from .fold_drafts import RESERVE, make_arm, make_design
from .fold_pairs import Pair, check_pair, each_pair

ONE_ARM = make_design(8, arms=(make_arm("a"),))
TWO_LOOKS = make_design(4, lasts=(4, 8))
TWICE = make_design(attempts_max=2)


def _failing(bench: Bench, errors: int = 5) -> Bench:
    bench.running(ONE_ARM)
    for position in range(1, errors + 1):
        bench.tried(position, "error")
    return bench


STARTS = (
    Pair(
        "start needs a freeze",
        lambda b: b.registered().draft("start"),
        "a run needs a freeze",
        lambda b: b.frozen().draft("start"),
    ),
    Pair(
        "start needs a fresh nonce",
        lambda b: b.frozen().do("start", nonce="n").draft("start", nonce="n"),
        "used once",
        lambda b: b.frozen().do("start", nonce="n").draft("start", nonce="m"),
    ),
    Pair(
        "the nonce of another experiment is fresh here",
        lambda b: b.frozen().do("start", nonce="n").draft("start", nonce="n"),
        "used once",
        lambda b: b.frozen().frozen(name="f").do("start", "f", nonce="n").draft("start", nonce="n"),
    ),
    Pair(
        "start isn't for what was withdrawn",
        lambda b: b.frozen().do("withdraw").draft("start"),
        "has ended",
        lambda b: b.frozen().draft("start"),
    ),
    Pair(
        "start isn't for what has a result",
        lambda b: b.complete().do("result").draft("start"),
        "has ended",
        lambda b: b.complete().draft("start"),
    ),
)

STOPS = (
    Pair(
        "stop needs a session",
        lambda b: b.frozen().draft("stop"),
        "no session is live",
        lambda b: b.frozen().do("start").draft("stop"),
    ),
    Pair(
        "a session stops once",
        lambda b: b.running().idle().draft("stop", reason="crashed"),
        "the slot holds another event",
        lambda b: b.running().draft("stop", reason="crashed"),
        ConflictError,
    ),
    Pair(
        "a session that a later start fenced doesn't stop",
        lambda b: b.running().do("start").draft("stop", number=1),
        "follow without gap",
        lambda b: b.running().do("start").draft("stop", number=2),
    ),
    Pair(
        "a session stops when no attempt is open",
        lambda b: b.running().do("attempt", position=1).draft("stop"),
        "no attempt is open",
        lambda b: b.running().tried(1, "interrupted").draft("stop"),
    ),
    Pair(
        "complete: every slot is settled, or nothing more may come",
        lambda b: b.running(TWO_LOOKS).looked().draft("stop", reason="complete"),
        "for the reason complete",
        lambda b: b.running(TWO_LOOKS).looked().looked().draft("stop", reason="complete"),
    ),
    Pair(
        "complete: every slot is settled, though the last look isn't taken",
        lambda b: b.running(TWO_LOOKS).settled(1, 2, 3, 4).draft("stop", reason="complete"),
        "for the reason complete",
        lambda b: (
            b.running(TWO_LOOKS).looked().settled(5, 6, 7, 8).draft("stop", reason="complete")
        ),
    ),
    Pair(
        "complete: a crossing that stops leaves nothing to do",
        lambda b: b.running(TWO_LOOKS).looked(crossed="against").draft("stop", reason="complete"),
        "for the reason complete",
        lambda b: (
            b.running(TWO_LOOKS)
            .looked(crossed="against", continues=False)
            .draft("stop", reason="complete")
        ),
    ),
    Pair(
        "boundary: the newest look crossed and stopped the run",
        lambda b: b.running(TWO_LOOKS).looked().looked().draft("stop", reason="boundary"),
        "for the reason boundary",
        lambda b: (
            b.running(TWO_LOOKS)
            .looked(crossed="against", continues=False)
            .draft("stop", reason="boundary")
        ),
    ),
    Pair(
        "boundary: a look was taken",
        lambda b: b.running().draft("stop", reason="boundary"),
        "for the reason boundary",
        lambda b: b.running().looked(crossed="against").draft("stop", reason="boundary"),
    ),
    Pair(
        "boundary isn't a crossing after which the run goes on",
        lambda b: b.running(TWO_LOOKS).looked(crossed="against").draft("stop", reason="boundary"),
        "for the reason boundary",
        lambda b: (
            b.running(TWO_LOOKS).looked().looked(crossed="against").draft("stop", reason="boundary")
        ),
    ),
    Pair(
        "ceiling: some slot before the look has no room",
        lambda b: b.running(make_design(usd_nanousd=2 * RESERVE)).draft("stop", reason="ceiling"),
        "for the reason ceiling",
        lambda b: (
            b.running(make_design(usd_nanousd=2 * RESERVE))
            .settled(1, 2, cost_nanousd=RESERVE)
            .draft("stop", reason="ceiling")
        ),
    ),
    Pair(
        "ceiling: whole pairs have to fit",
        lambda b: (
            b.running(make_design(usd_nanousd=4 * RESERVE))
            .settled(1, 2, cost_nanousd=RESERVE)
            .draft("stop", reason="ceiling")
        ),
        "for the reason ceiling",
        lambda b: (
            b.running(make_design(usd_nanousd=3 * RESERVE))
            .settled(1, 2, cost_nanousd=RESERVE)
            .draft("stop", reason="ceiling")
        ),
    ),
    Pair(
        "ceiling: a slot that may not be tried anyway is no reason",
        lambda b: (
            b.running(make_design(1, arms=(make_arm("a"),), usd_nanousd=RESERVE))
            .tried(1, "error", cost_nanousd=2 * RESERVE)
            .draft("stop", reason="ceiling")
        ),
        "for the reason ceiling",
        lambda b: (
            b.running(make_design(2, arms=(make_arm("a"),), usd_nanousd=RESERVE))
            .tried(1, "error", cost_nanousd=2 * RESERVE)
            .draft("stop", reason="ceiling")
        ),
    ),
    Pair(
        "ceiling: an outcome that nobody is asked for needs no room",
        lambda b: (
            b.running(make_design(1, arms=(make_arm("a"), make_arm("r", "recorded")), calls=1))
            .settled(1)
            .draft("stop", reason="ceiling")
        ),
        "for the reason ceiling",
        lambda b: (
            b.running(make_design(1, arms=(make_arm("a"), make_arm("b")), calls=1))
            .settled(1)
            .draft("stop", reason="ceiling")
        ),
    ),
    Pair(
        "arm_failing: an arm has a streak of five",
        lambda b: _failing(b, 4).draft("stop", reason="arm_failing"),
        "for the reason arm_failing",
        lambda b: _failing(b, 5).draft("stop", reason="arm_failing"),
    ),
)

ATTEMPTS = (
    Pair(
        "attempt needs a session",
        lambda b: b.frozen().draft("attempt", position=1),
        "isn't the live one",
        lambda b: b.frozen().do("start").draft("attempt", position=1),
    ),
    Pair(
        "attempt needs a session that hasn't stopped",
        lambda b: b.running().idle().draft("attempt", position=1),
        "isn't the live one",
        lambda b: b.running().idle().do("start").draft("attempt", position=1),
    ),
    Pair(
        "a fenced session attempts nothing",
        lambda b: b.running().do("start").draft("attempt", position=1, session=1),
        "a later start fenced it",
        lambda b: b.running().do("start").draft("attempt", position=1, session=2),
    ),
    Pair(
        "attempt isn't for what has ended",
        lambda b: b.running().idle().do("withdraw").draft("attempt", position=1),
        "has ended",
        lambda b: b.running().draft("attempt", position=1),
    ),
    Pair(
        "the plan says which arm a slot is of",
        lambda b: b.running().draft("attempt", position=1, arm="b"),
        "to another arm",
        lambda b: b.running().draft("attempt", position=2, arm="b"),
    ),
    Pair(
        "the plan says which slots there are",
        lambda b: b.running().draft("attempt", position=9),
        "no such position",
        lambda b: b.running().draft("attempt", position=8),
    ),
    Pair(
        "an arm that isn't live isn't asked",
        lambda b: b.running(make_design(arms=(make_arm("a", "recorded"),))).draft(
            "attempt", position=1
        ),
        "not asked for",
        lambda b: b.running(make_design(arms=(make_arm("a"),))).draft("attempt", position=1),
    ),
    Pair(
        "a look comes before the slots behind it",
        lambda b: b.running(TWO_LOOKS).draft("attempt", position=5),
        "a look comes before",
        lambda b: b.running(TWO_LOOKS).looked().draft("attempt", position=5),
    ),
    Pair(
        "nothing is tried after a crossing that stops",
        lambda b: (
            b.running(TWO_LOOKS)
            .looked(crossed="favourable", continues=False)
            .draft("attempt", position=5)
        ),
        "takes no further outcome",
        lambda b: b.running(TWO_LOOKS).looked(crossed="favourable").draft("attempt", position=5),
    ),
    Pair(
        "a settled slot isn't tried again",
        lambda b: b.running().settled(1).draft("attempt", position=1),
        "the slot is settled",
        lambda b: b.running().settled(1).draft("attempt", position=2),
    ),
    Pair(
        "one attempt of a slot is open at a time",
        lambda b: b.running(TWICE).do("attempt", position=1).draft("attempt", position=1),
        "an attempt of this slot is open",
        lambda b: b.running(TWICE).tried(1, "error").draft("attempt", position=1),
    ),
    Pair(
        "a slot has as many tries as the protocol says",
        lambda b: b.running(TWICE).tried(1, "error").tried(1, "error").draft("attempt", position=1),
        "are used up",
        lambda b: b.running(TWICE).tried(1, "error").draft("attempt", position=1),
    ),
    Pair(
        "what the protocol doesn't try again has one try",
        lambda b: (
            b.running(make_design(attempts_max=9, retry_on=("timeout",)))
            .tried(1, "error")
            .draft("attempt", position=1)
        ),
        "are used up",
        lambda b: (
            b.running(make_design(attempts_max=9, retry_on=("timeout",)))
            .tried(1, "timeout")
            .draft("attempt", position=1)
        ),
    ),
    Pair(
        "`retry: false` uses the tries up",
        lambda b: b.running(TWICE).tried(1, "error", retry=False).draft("attempt", position=1),
        "are used up",
        lambda b: b.running(TWICE).tried(1, "error", retry=True).draft("attempt", position=1),
    ),
    Pair(
        "three lost attempts use a slot up, and two don't",
        lambda b: (
            b.running()
            .tried(1, "interrupted")
            .tried(1, "lost")
            .tried(1, "interrupted")
            .draft("attempt", position=1)
        ),
        "are used up",
        lambda b: b.running().tried(1, "interrupted").tried(1, "lost").draft("attempt", position=1),
    ),
    Pair(
        "one lost attempt uses a slot up that can't be repeated",
        lambda b: (
            b.running(make_design(arms=(make_arm("a", repeatable=False),)))
            .tried(1, "interrupted")
            .draft("attempt", position=1)
        ),
        "are used up",
        lambda b: b.running().tried(1, "interrupted").draft("attempt", position=1),
    ),
    Pair(
        "five errors in a row stop an arm",
        lambda b: _failing(b, 5).draft("attempt", position=6),
        "arm a is failing",
        lambda b: _failing(b, 4).draft("attempt", position=6),
        FailingArmError,
    ),
    Pair(
        "an attempt reserves what is frozen",
        lambda b: b.running().draft("attempt", position=1, reserved_nanousd=RESERVE - 1),
        "isn't the frozen one",
        lambda b: b.running().draft("attempt", position=1, reserved_nanousd=RESERVE),
    ),
    Pair(
        "attempts of a slot follow without gap",
        lambda b: b.running().draft("attempt", position=1, number=2),
        "follow without gap",
        lambda b: b.running().draft("attempt", position=1, number=1),
    ),
)


@each_pair(STARTS)
def test_starting_follows_the_table(pair: Pair) -> None:
    """A session starts on a frozen experiment that hasn't ended, with a nonce of its own."""
    check_pair(pair)


@each_pair(STOPS)
def test_stopping_follows_the_table(pair: Pair) -> None:
    """The live session stops, with nothing open and for a reason that is true."""
    check_pair(pair)


@each_pair(ATTEMPTS)
def test_attempting_follows_the_table(pair: Pair) -> None:
    """An attempt stands in the live session, before the look, with a try left."""
    check_pair(pair)


def test_start_fences_the_session_before_it() -> None:
    """After a second start only its session may do anything, though the first never stopped."""
    bench = Bench().running().do("attempt", position=1)
    other = Bench(bench).do("start")
    assert (2, True) == (other.known().sessions, other.known().live)
    late = bench.draft("decision", position=1)
    bench.log.refresh()
    for event in (late, bench.draft("stop", number=1)):
        with pytest.raises(TransitionError, match=r"isn't the live one|without gap"):
            bench.again(event)


def test_start_forgets_why_the_session_before_it_stopped() -> None:
    """While a session is live there is no newest stop."""
    bench = Bench().running().idle()
    assert "interrupted" == bench.known().last_stop
    assert None is bench.do("start").known().last_stop


@pytest.mark.parametrize("reason", ["interrupted", "terminated", "crashed"])
def test_what_the_ledger_cannot_know_is_always_true(reason: str) -> None:
    """Signals and crashes leave no other trace: their reasons are taken as they are."""
    assert reason == Bench().running().idle(reason=reason).known().last_stop
