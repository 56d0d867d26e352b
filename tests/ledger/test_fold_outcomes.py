"""Attempt_end, decision, settle: each need and each prohibition of the transition table."""

from __future__ import annotations

import pytest

from fairtrial.engine.spending import KeptReservations, unsettled
from fairtrial.ledger.errors import ConflictError, PlanMissingError, TransitionError

from .fold_bench import Bench
from .fold_drafts import RESERVE, make_arm, make_design
from .fold_pairs import Pair, check_pair, each_pair

TWO_LOOKS = make_design(4, lasts=(4, 8))
TIMEOUTS = make_design(attempts_max=2, retry_on=("error", "timeout"))
RECORDED = make_design(arms=(make_arm("a", "recorded"), make_arm("b")))
IMPORTED = make_design(arms=(make_arm("a", "imported"),))
CACHED = make_design(arms=(make_arm("a", "cached"),))


def _given_up(bench: Bench) -> Bench:
    """Uses up the tries of slot 1; then its arm goes on."""
    return bench.running().tried(1, "error").settled(3)


ENDINGS = (
    Pair(
        "attempt_end needs a session",
        lambda b: b.running().idle().draft("attempt_end", position=3, number=0),
        "isn't the live one",
        lambda b: b.running().do("attempt", position=3).draft("attempt_end", position=3),
    ),
    Pair(
        "a fenced session ends no attempt",
        lambda b: (
            b.running().do("attempt", position=1).do("start")
            .draft("attempt_end", position=1, session=1)
        ),
        "isn't the live one",
        lambda b: (
            b.running().do("attempt", position=1).do("start")
            .draft("attempt_end", position=1, session=2, status="lost")
        ),
    ),
    Pair(
        "attempt_end needs an attempt",
        lambda b: b.running().draft("attempt_end", position=1, number=1),
        "follow without gap",
        lambda b: b.running().do("attempt", position=1).draft("attempt_end", position=1, number=1),
    ),
    Pair(
        "attempt_end is for a slot of the plan",
        lambda b: b.running().draft("attempt_end", position=9, number=1),
        "isn't open",
        lambda b: b.running().do("attempt", position=8).draft("attempt_end", position=8),
    ),
    Pair(
        "an attempt ends once",
        lambda b: b.running().tried(1, "error").draft("attempt_end", position=1, code="again"),
        "the slot holds another event",
        lambda b: (
            b.running().do("attempt", position=1).draft("attempt_end", position=1, code="again")
        ),
        ConflictError,
    ),
    Pair(
        "an older attempt has ended",
        lambda b: (
            b.running(TIMEOUTS).tried(1, "error").do("attempt", position=1)
            .draft("attempt_end", position=1, number=1, status="timeout")
        ),
        "the slot holds another event",
        lambda b: (
            b.running(TIMEOUTS).tried(1, "error").do("attempt", position=1)
            .draft("attempt_end", position=1, number=2, status="timeout")
        ),
        ConflictError,
    ),
    Pair(
        "an attempt that its outcome closed doesn't end as well",
        lambda b: b.running().settled(1).draft("attempt_end", position=1),
        "isn't open",
        lambda b: b.running().do("attempt", position=1).draft("attempt_end", position=1),
    ),
    Pair(
        "an attempt of another session doesn't end in error",
        lambda b: b.running().do("attempt", position=1).do("start")
        .draft("attempt_end", position=1, status="error"),
        "can only end as lost",
        lambda b: b.running().do("attempt", position=1)
        .draft("attempt_end", position=1, status="error"),
    ),
    Pair(
        "an attempt of another session isn't interrupted",
        lambda b: b.running().do("attempt", position=1).do("start")
        .draft("attempt_end", position=1, status="interrupted"),
        "can only end as lost",
        lambda b: b.running().do("attempt", position=1).do("start")
        .draft("attempt_end", position=1, status="lost"),
    ),
    Pair(
        "a lost attempt costs its reservation, whoever says less",
        lambda b: b.running().do("attempt", position=1).do("start")
        .draft("attempt_end", position=1, status="lost", cost_nanousd=0),
        "costs its reservation",
        lambda b: b.running().do("attempt", position=1).do("start")
        .draft("attempt_end", position=1, status="lost", cost_nanousd=RESERVE),
    ),
    Pair(
        "a timeout ends an attempt only where it is tried again",
        lambda b: b.running().do("attempt", position=1)
        .draft("attempt_end", position=1, status="timeout"),
        "is an outcome",
        lambda b: b.running(TIMEOUTS).do("attempt", position=1)
        .draft("attempt_end", position=1, status="timeout"),
    ),
    Pair(
        "attempt_end isn't for what has ended",
        lambda b: b.running().idle().do("withdraw").draft("attempt_end", position=1, number=0),
        "isn't the live one",
        lambda b: b.running().do("attempt", position=1).draft("attempt_end", position=1),
    ),
)  # fmt: skip

OUTCOMES = (
    Pair(
        "decision needs a session",
        lambda b: b.running(RECORDED).idle().draft("decision", position=1),
        "isn't the live one",
        lambda b: b.running(RECORDED).draft("decision", position=1),
    ),
    Pair(
        "decision needs a freeze",
        lambda b: b.registered().draft("decision", position=1),
        "isn't frozen",
        lambda b: b.running(RECORDED).draft("decision", position=1),
    ),
    Pair(
        "a slot has one outcome",
        lambda b: b.running().settled(1).draft("decision", position=1, status="failed"),
        "the slot holds another event",
        lambda b: b.running().do("attempt", position=1)
        .draft("decision", position=1, status="failed"),
        ConflictError,
    ),
    Pair(
        "a look comes before the outcomes behind it",
        lambda b: b.running(RECORDED._replace(looks=TWO_LOOKS.looks)).draft("decision", position=5),
        "a look comes before",
        lambda b: b.running(RECORDED._replace(looks=TWO_LOOKS.looks)).looked()
        .draft("decision", position=5),
    ),
    Pair(
        "nothing is decided after a crossing that stops",
        lambda b: b.running(RECORDED._replace(looks=TWO_LOOKS.looks))
        .looked(crossed="against", continues=False).draft("decision", position=5),
        "takes no further outcome",
        lambda b: b.running(RECORDED._replace(looks=TWO_LOOKS.looks))
        .looked(crossed="against").draft("decision", position=5),
    ),
    Pair(
        "the plan says which unit a slot is of",
        lambda b: b.running(RECORDED).draft("decision", position=1, unit="u2"),
        "to another slot",
        lambda b: b.running(RECORDED).draft("decision", position=1, unit="u1"),
    ),
    Pair(
        "the plan says which arm a slot is of",
        lambda b: b.running(RECORDED).draft("decision", position=1, arm="b"),
        "to another slot",
        lambda b: b.running(RECORDED).draft("decision", position=1, arm="a"),
    ),
    Pair(
        "the plan says which replicate a slot is of",
        lambda b: b.running(RECORDED).draft("decision", position=1, replicate=2),
        "to another slot",
        lambda b: b.running(RECORDED).draft("decision", position=1, replicate=1),
    ),
    Pair(
        "the plan says which slots there are",
        lambda b: b.running(RECORDED).draft("decision", position=9),
        "no such position",
        lambda b: b.running(RECORDED).draft("decision", position=7),
    ),
    Pair(
        "recorded outcomes say that they are",
        lambda b: b.running(RECORDED).draft("decision", position=1, origin="live"),
        "are recorded",
        lambda b: b.running(RECORDED).draft("decision", position=1, origin="recorded"),
    ),
    Pair(
        "a live outcome says that it is",
        lambda b: b.running().do("attempt", position=1)
        .draft("decision", position=1, origin="recorded"),
        "are live",
        lambda b: b.running().do("attempt", position=1)
        .draft("decision", position=1, origin="live"),
    ),
    Pair(
        "an outcome nobody was asked for has attempt 0",
        lambda b: b.running(RECORDED).draft("decision", position=1, attempt=1),
        "has attempt 0",
        lambda b: b.running(RECORDED).draft("decision", position=1, attempt=0),
    ),
    Pair(
        "a live outcome has an attempt",
        lambda b: b.running().draft("decision", position=1),
        "closes the newest attempt",
        lambda b: b.running().do("attempt", position=1).draft("decision", position=1),
    ),
    Pair(
        "a live outcome closes the newest attempt",
        lambda b: b.running(TIMEOUTS).tried(1, "error").do("attempt", position=1)
        .draft("decision", position=1, attempt=1),
        "closes the newest attempt",
        lambda b: b.running(TIMEOUTS).tried(1, "error").do("attempt", position=1)
        .draft("decision", position=1, attempt=2),
    ),
    Pair(
        "an attempt that has ended brings no answer any more",
        lambda b: b.running(TIMEOUTS).tried(1, "error").draft("decision", position=1),
        "isn't open",
        lambda b: b.running(TIMEOUTS).do("attempt", position=1).draft("decision", position=1),
    ),
    Pair(
        "an attempt of an earlier session brings no answer",
        lambda b: b.running().do("attempt", position=1).do("start").draft("decision", position=1),
        "can only end as lost",
        lambda b: b.running().do("start").do("attempt", position=1).draft("decision", position=1),
    ),
    Pair(
        "a cached answer of a live arm closes an attempt of its own",
        lambda b: b.running().tried(1, "error").settled(3)
        .draft("decision", position=1, origin="cached", status="error"),
        "are live",
        lambda b: b.running().do("attempt", position=1)
        .draft("decision", position=1, origin="cached", incurred_nanousd=0),
    ),
    Pair(
        "an arm that only replays answers from the cache",
        lambda b: b.running(CACHED).draft("decision", position=1, origin="live"),
        "are cached",
        lambda b: b.running(CACHED).draft("decision", position=1, status="replay_miss"),
    ),
    Pair(
        "imported outcomes follow an import",
        lambda b: b.frozen(name="f").do("import").running(IMPORTED).draft("decision", position=1),
        "needs an import after the freeze",
        lambda b: b.running(IMPORTED).do("import").draft("decision", position=1),
    ),
    Pair(
        "an error ends its attempt before it can be the outcome",
        lambda b: b.running().do("attempt", position=1)
        .draft("decision", position=1, status="error"),
        "has to end on its own first",
        lambda b: _given_up(b).draft("decision", position=1, status="error"),
    ),
    Pair(
        "a timeout that is tried again ends its attempt first",
        lambda b: b.running(TIMEOUTS).do("attempt", position=1)
        .draft("decision", position=1, status="timeout"),
        "has to end on its own first",
        lambda b: b.running().do("attempt", position=1)
        .draft("decision", position=1, status="timeout"),
    ),
    Pair(
        "a slot isn't given up while it has tries left",
        lambda b: b.running(TIMEOUTS).tried(1, "error").settled(3)
        .draft("decision", position=1, status="error"),
        "only when its attempts are used up",
        lambda b: b.running(TIMEOUTS).tried(1, "error").tried(1, "error").settled(3)
        .draft("decision", position=1, status="error"),
    ),
    Pair(
        "giving up costs nothing more",
        lambda b: _given_up(b).draft("decision", position=1, status="error", cost_nanousd=1),
        "ended with its own cost",
        lambda b: _given_up(b).draft("decision", position=1, status="error", cost_nanousd=0),
    ),
    Pair(
        "the code lost is for lost attempts",
        lambda b: _given_up(b).draft("decision", position=1, status="error", code="lost"),
        "the code `lost`",
        lambda b: b.running().tried(1, "lost").tried(1, "lost").tried(1, "lost")
        .draft("decision", position=1, status="error", code="lost"),
    ),
    Pair(
        "lost attempts have the code lost",
        lambda b: b.running().tried(1, "lost").tried(1, "lost").tried(1, "lost")
        .draft("decision", position=1, status="error", code="other"),
        "the code `lost`",
        lambda b: b.running(make_design(arms=(make_arm("a", repeatable=False),))).tried(1, "lost")
        .draft("decision", position=1, status="error", code="lost"),
    ),
    Pair(
        "a slot that ended in error isn't given up as a timeout",
        lambda b: _given_up(b).draft("decision", position=1, status="timeout"),
        "isn't how the last attempt ended",
        lambda b: b.running(TIMEOUTS).tried(1, "error").tried(1, "timeout")
        .draft("decision", position=1, status="timeout"),
    ),
    Pair(
        "a slot that ended in a timeout isn't given up as an error",
        lambda b: b.running(TIMEOUTS).tried(1, "error").tried(1, "timeout")
        .draft("decision", position=1, status="error"),
        "isn't how the last attempt ended",
        lambda b: b.running(TIMEOUTS).tried(1, "timeout").tried(1, "error").settled(3)
        .draft("decision", position=1, status="error"),
    ),
    Pair(
        "a lost slot isn't given up as a timeout",
        lambda b: b.running(TIMEOUTS).tried(1, "lost").tried(1, "lost").tried(1, "lost")
        .draft("decision", position=1, status="timeout", code="lost"),
        "isn't how the last attempt ended",
        lambda b: b.running(TIMEOUTS).tried(1, "lost").tried(1, "lost").tried(1, "lost")
        .draft("decision", position=1, status="error", code="lost"),
    ),
)  # fmt: skip

SETTLING = (
    Pair(
        "settle is for a lost or interrupted attempt",
        lambda b: b.running().tried(1, "error")
        .draft("settle", position=1, subject=b.reference(5)),
        "only the cost of a lost or interrupted attempt",
        lambda b: b.running().tried(1, "interrupted").draft("settle", position=1),
    ),
    Pair(
        "a cost is settled once",
        lambda b: b.running().tried(1, "lost").do("settle", position=1)
        .draft("settle", position=1),
        "was settled before",
        lambda b: b.running().tried(1, "lost").do("settle", position=1).tried(1, "lost")
        .draft("settle", position=1),
    ),
    Pair(
        "settle names the slot of its attempt",
        lambda b: b.running().tried(1, "lost")
        .draft("settle", position=2, subject=b.reference(5)),
        "only the cost of a lost or interrupted attempt",
        lambda b: b.running().tried(1, "lost").draft("settle", position=1, subject=b.reference(5)),
    ),
    Pair(
        "settle needs a freeze",
        lambda b: b.registered().draft("settle", position=1),
        "only the cost of a lost or interrupted attempt",
        lambda b: b.running().tried(1, "lost").draft("settle", position=1),
    ),
    Pair(
        "settle may come after the result, and not after close",
        lambda b: b.running().tried(1, "lost").idle().do("withdraw").do("close")
        .draft("settle", position=1),
        "the ledger is closed",
        lambda b: b.running().tried(1, "lost").idle().do("result").draft("settle", position=1),
    ),
)  # fmt: skip


@each_pair(ENDINGS)
def test_ending_an_attempt_follows_the_table(pair: Pair) -> None:
    """An attempt ends once, in its own session, or as lost in a later one."""
    check_pair(pair)


@each_pair(OUTCOMES)
def test_deciding_follows_the_table(pair: Pair) -> None:
    """A slot has one outcome, from where the freeze said, before the look."""
    check_pair(pair)


@each_pair(SETTLING)
def test_settling_follows_the_table(pair: Pair) -> None:
    """A person corrects the cost of a lost or interrupted attempt, once."""
    check_pair(pair)


def test_costs_are_charged_and_settled() -> None:
    """What is reported counts, else the reservation; settling replaces what was charged."""
    bench = Bench().running(make_design(attempts_max=3))
    tally = bench.known().tallies[0]
    assert RESERVE == bench.do("attempt", position=1).known().tallies[0].reserved_nanousd
    bench.do("attempt_end", position=1, status="error", cost_nanousd=7)
    assert (7, 0) == (tally.spent_nanousd, tally.reserved_nanousd)
    bench.tried(1, "error")
    assert 7 + RESERVE == tally.spent_nanousd
    bench.tried(3, "interrupted", cost_nanousd=5)
    assert 12 + RESERVE == tally.spent_nanousd
    bench.do("settle", position=3, cost_nanousd=50)
    assert 57 + RESERVE == tally.spent_nanousd
    bench.settled(1, cost_nanousd=1000)
    assert 1057 + RESERVE == tally.spent_nanousd
    assert (4, 0, 0) == (tally.calls, tally.open, bench.known().open)


def test_attempts_without_a_price_are_counted_apart_from_lost_ones() -> None:
    """Only an attempt that says no price and that nobody can settle keeps its reservation."""
    bench = Bench().running(make_design(attempts_max=3)).tried(1, "error", cost_nanousd=None)
    tallies = bench.tried(1, "error", cost_nanousd=RESERVE).known().tallies
    assert 1 == sum(tally.unpriced for tally in tallies)
    bench.tried(2, "lost", cost_nanousd=None).tried(2, "interrupted", cost_nanousd=None)
    bench.tried(3, "interrupted", cost_nanousd=5)
    assert 1 == sum(tally.unpriced for tally in tallies)
    assert KeptReservations(attempts=2, usd=2 * RESERVE / 1e9) == unsettled(bench.known())
    bench.do("settle", position=2, cost_nanousd=9)
    assert 1 == unsettled(bench.known()).attempts
    bench.settled(3, cost_nanousd=None).settled(4, cost_nanousd=7)
    assert 2 == sum(tally.unpriced for tally in tallies)


def test_recorded_outcome_costs_what_it_incurred() -> None:
    """A recorded outcome spends only what was paid for it now, not what it once cost."""
    bench = Bench().running(RECORDED)
    bench.do("decision", position=1, cost_nanousd=500, incurred_nanousd=3)
    bench.do("decision", position=3, cost_nanousd=500)
    assert 3 == bench.known().tallies[0].spent_nanousd


def test_timeout_is_given_up_after_the_protocol_stopped_trying_it_again() -> None:
    """A slot whose attempt timed out keeps its way out when `retry_on` is amended."""
    bench = Bench().running(TIMEOUTS).tried(1, "timeout").idle()
    rules = make_design(attempts_max=2).rules
    bench.append(bench.amendment("attempts", "analysis", rules=rules)).do("start")
    with pytest.raises(TransitionError, match="used up"):
        bench.do("attempt", position=1)
    bench.do("decision", position=1, status="timeout")
    assert 1 == bench.known().settled


def test_outcome_needs_the_plan_at_hand() -> None:
    """Without the plan's blob nobody can say which unit a slot is of."""
    bench = Bench().running(RECORDED)
    event = bench.draft("decision", position=1)
    bench.plans.clear()
    with pytest.raises(PlanMissingError):
        bench.append(event)


def test_outcome_of_a_live_attempt_is_taken_after_an_amendment() -> None:
    """An attempt that was permitted may still be decided when a new anchor is due."""
    bench = Bench().frozen(make_design(anchor="checkpoint")).do("anchor").do("start")
    bench.do("attempt", position=1).do("amend").do("decision", position=1)
    with pytest.raises(TransitionError, match="wants a checkpoint"):
        bench.do("attempt", position=2)
