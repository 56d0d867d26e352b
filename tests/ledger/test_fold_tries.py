"""Streaks, excuses, losses and giving up, as they play out over sessions."""

from __future__ import annotations

from typing import Any

import pytest

from fairtrial.ledger.errors import FailingArmError, TransitionError
from fairtrial.ledger.tries import error_is_due, is_exhausted

from .fold_bench import Bench
from .fold_drafts import make_arm, make_design

A = make_arm("a")
ONE_ARM = make_design(12, arms=(A,))


def _tried(bench: Bench, positions: range, status: str = "error", **fields: Any) -> Bench:
    for position in positions:
        bench.tried(position, status, **fields)
    return bench


def _give_up(bench: Bench, position: int, **fields: Any) -> Bench:
    return bench.do("decision", position=position, status="error", **fields)


def test_streak_counts_first_tries_of_different_slots() -> None:
    """A second try of a slot in the same session makes a streak no longer."""
    bench = Bench().running(make_design(12, arms=(A,), attempts_max=5))
    for position in (1, 1, 1, 2, 2, 3):
        bench.tried(position, "error")
    assert [1, 2, 3] == bench.known().tallies[0].streak


def test_later_try_begins_no_streak() -> None:
    """An error in a second try is the slot's own, also after an outcome has cleared the streak."""
    bench = Bench().running(make_design(12, arms=(A,), attempts_max=5))
    bench.tried(1, "error").settled(2).tried(1, "error")
    assert [] == bench.known().tallies[0].streak
    bench.do("start").tried(1, "error")
    assert [1] == bench.known().tallies[0].streak


def test_streak_is_of_one_arm() -> None:
    """Errors of one arm neither lengthen nor clear the streak of another."""
    bench = Bench().running(make_design(6))
    for position in (1, 3, 2, 5):
        bench.tried(position, "error")
    bench.settled(4)
    assert [[1, 3, 5], []] == [tally.streak for tally in bench.known().tallies]


@pytest.mark.parametrize(
    ("status", "streak"),
    [("interrupted", [1, 2]), ("timeout", []), ("error", [1, 2, 3])],
)
def test_ending_that_clears_a_streak(status: str, streak: list[int]) -> None:
    """A timeout shows that the arm answers or hangs by itself; an interruption shows nothing."""
    bench = Bench().running(make_design(12, arms=(A,), retry_on=("error", "timeout")))
    _tried(bench, range(1, 3)).tried(3, status)
    assert streak == bench.known().tallies[0].streak


def test_outcome_clears_a_streak() -> None:
    """One answer says that the arm works."""
    bench = _tried(Bench().running(ONE_ARM), range(1, 5)).settled(5, status="failed")
    assert [] == bench.known().tallies[0].streak


def test_lost_attempts_do_not_clear_a_streak() -> None:
    """An attempt that a later session closes as lost leaves the new session's streak alone."""
    bench = Bench().running(ONE_ARM).do("attempt", position=9).do("start")
    _tried(bench, range(1, 5)).do("attempt_end", position=9, status="lost")
    assert [1, 2, 3, 4] == bench.known().tallies[0].streak


def test_next_start_excuses_a_failing_streak() -> None:
    """After five errors the next session tries their slots again: they didn't count."""
    bench = _tried(Bench().running(ONE_ARM), range(1, 6))
    slots = bench.known().slots
    assert slots is not None
    assert [1, 1, 1, 1, 1, 0] == list(slots.counted[1:7])
    with pytest.raises(FailingArmError, match="its arm goes on"):
        _give_up(bench, 1)
    bench.idle(reason="arm_failing").do("start")
    assert [0] * 6 == list(slots.counted[1:7])
    bench.settled(1, 2, 3, 4, 5)


def test_shorter_streak_is_cleared_and_not_excused() -> None:
    """Four errors are the slots' own: the next start forgets the streak, not the errors."""
    bench = _tried(Bench().running(ONE_ARM), range(1, 5)).idle().do("start")
    assert [] == bench.known().tallies[0].streak
    with pytest.raises(TransitionError, match="used up"):
        bench.do("attempt", position=1)


def test_slot_is_excused_three_times() -> None:
    """Five slots that always fail block an arm for four sessions, and are given up then."""
    bench = Bench().running(make_design(5, arms=(A,)))
    for _ in range(3):
        _tried(bench, range(1, 6)).idle(reason="arm_failing").do("start")
    with pytest.raises(FailingArmError, match="its arm goes on"):
        _give_up(_tried(bench, range(1, 6)), 1)
    bench.do("start")
    with pytest.raises(TransitionError, match="used up"):
        bench.do("attempt", position=1)
    for position in range(1, 6):
        _give_up(bench, position)
    bench.do("look")


@pytest.mark.parametrize("retry_on", [("error",), ("timeout",)])
def test_excuse_gives_back_a_try_that_said_no_other_is_of_use(retry_on: tuple[str, ...]) -> None:
    """`retry: false` in a failing streak is excused like any error, whatever `retry_on` says."""
    bench = Bench().running(make_design(12, arms=(A,), attempts_max=3, retry_on=retry_on))
    _tried(bench, range(1, 6), retry=False)
    assert is_exhausted(bench.known(), 1)
    bench.idle(reason="arm_failing").do("start")
    assert not is_exhausted(bench.known(), 1)
    bench.tried(1, "error")
    assert is_exhausted(bench.known(), 1) == (retry_on == ("timeout",))


def test_error_is_given_up_once_its_arm_goes_on() -> None:
    """An exhausted slot waits until a later attempt of its arm ended otherwise than in error."""
    bench = Bench().running(make_design(6)).settled(1).tried(3, "error")
    assert not error_is_due(bench.known(), 3)
    bench.settled(2)
    assert not error_is_due(bench.known(), 3)
    bench.tried(5, "error")
    assert not error_is_due(bench.known(), 3)
    bench.settled(7)
    assert error_is_due(bench.known(), 3)
    _give_up(bench, 3)


def test_error_is_given_up_when_nothing_else_of_its_arm_is_left() -> None:
    """At the end of a look nothing can come that would show the arm to work."""
    bench = Bench().running(make_design(4, lasts=(4, 8))).tried(1, "error").settled(2)
    assert not error_is_due(bench.known(), 1)
    bench.do("attempt", position=3)
    assert not error_is_due(bench.known(), 1)
    bench.do("attempt_end", position=3)
    assert error_is_due(bench.known(), 1)
    _give_up(bench, 1)
    _give_up(bench, 3)
    bench.settled(4).do("look")


def test_timeout_is_given_up_at_once() -> None:
    """A timeout that used up its tries is an outcome of its own arm and waits for nothing."""
    bench = Bench().running(make_design(12, arms=(A,), retry_on=("error", "timeout")))
    bench.tried(1, "timeout").do("decision", position=1, status="timeout")


def test_lost_slot_is_given_up_at_once() -> None:
    """Three lost attempts say nothing of the arm, so that the slot waits for nothing."""
    bench = Bench().running(ONE_ARM)
    _tried(bench, range(2, 7))
    for _ in range(3):
        bench.idle().do("start").do("attempt", position=1)
        bench.do("start").do("attempt_end", position=1, status="lost")
    _give_up(bench, 1, code="lost")


def test_lost_attempts_do_not_use_up_the_tries() -> None:
    """Attempts that were lost or interrupted leave all registered tries."""
    bench = Bench().running(make_design(attempts_max=2)).tried(1, "lost").tried(1, "interrupted")
    bench.tried(1, "error").settled(1)


def test_three_always_failing_units_do_not_block_an_arm() -> None:
    """Slots that always fail are given up beside others that don't, however often it stops."""
    bench = Bench().running(make_design(8, arms=(A,)))
    _tried(bench, range(1, 4)).settled(4, 5, 6, 7, 8)
    for position in (1, 2, 3):
        _give_up(bench, position)
    assert 8 == bench.known().settled
