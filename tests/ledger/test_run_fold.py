"""The quick way of folding a run takes what plainly is the next, and nothing that is refused."""

from __future__ import annotations

from typing import Any

import pytest
from msgspec import structs

from fairtrial.ledger.log import Appended

from .fold_bench import Bench
from .fold_drafts import RESERVE, make_arm, make_design
from .fold_quick import is_taken_quickly

LIVE, RECORDED = make_design(), make_design(arms=[make_arm("a", "recorded")])
# Each field that the rules look at, changed for itself.
ATTEMPTS: tuple[dict[str, Any], ...] = (
    {}, {"number": 2}, {"session": 2}, {"arm": "b"}, {"reserved_nanousd": RESERVE + 1},
    {"position": 9}, {"experiment": "f"},
)  # fmt: skip
OUTCOMES: tuple[dict[str, Any], ...] = (
    {}, {"number": 1}, {"session": 2}, {"arm": "b"}, {"unit": "u2"}, {"replicate": 2},
    {"attempt": 2}, {"attempt": 0}, {"attempt": 1}, {"origin": "recorded"}, {"origin": "live"},
    {"origin": "cached"}, {"origin": "imported"}, {"status": "error"}, {"status": "timeout"},
    {"status": "failed"}, {"position": 2}, {"position": 9}, {"experiment": "f"},
    {"cost_nanousd": 5, "tokens": {"in": 3}}, {"incurred_nanousd": 7},
)  # fmt: skip


def sent(bench: Bench, kind: str, at: int, **fields: Any) -> tuple[bool, bool]:
    """Returns whether the log took a draft, and whether the quick way did."""
    event = structs.replace(bench.draft(kind, "e", at), **fields)
    before = bench.snapshot()
    (place,) = bench.log.append_many([event], actor="tester")
    is_fresh = isinstance(place, Appended) and place.fresh
    return is_fresh, is_taken_quickly(bench, before, event)


@pytest.mark.parametrize("fields", ATTEMPTS, ids=str)
def test_attempt_is_taken_quickly_only_where_the_fold_takes_it(fields: dict[str, Any]) -> None:
    """One wrong field is enough to be refused by both; a first attempt is quick."""
    bench = Bench().running(LIVE)
    bench.running(LIVE, "f")
    is_taken, is_quick = sent(bench, "attempt", 1, **fields)
    assert is_taken == is_quick == (fields in ({}, {"experiment": "f"}))


@pytest.mark.parametrize("retry_on", [("error",), ("error", "timeout")], ids=str)
@pytest.mark.parametrize("fields", OUTCOMES, ids=str)
def test_asked_outcome_is_taken_quickly_only_where_the_fold_takes_it(
    fields: dict[str, Any], retry_on: tuple[str, ...]
) -> None:
    """One wrong field is enough to be refused by both; an outcome of the open attempt is quick."""
    bench = Bench().running(make_design(retry_on=retry_on)).do("attempt", "e", 1)
    is_taken, is_quick = sent(bench, "decision", 1, **fields)
    assert is_quick == (is_taken and fields.get("status") != "timeout")
    assert is_taken or fields


@pytest.mark.parametrize("fields", OUTCOMES, ids=str)
def test_recorded_outcome_is_taken_quickly_only_where_the_fold_takes_it(
    fields: dict[str, Any],
) -> None:
    """What nobody was asked for is quick with every status."""
    bench = Bench().running(RECORDED)
    is_taken, is_quick = sent(bench, "decision", 1, **fields)
    assert is_taken == is_quick
    assert is_taken or fields


def test_attempt_of_a_failing_arm_is_left_to_the_fold() -> None:
    """After five errors in a row nothing of the arm starts; before, the fold is asked as well."""
    bench = Bench().running(make_design(8, attempts_max=1))
    slots = bench.known().slots
    assert slots is not None
    own = [position for position in range(1, 17) if slots.arm[position] == slots.arm[1]]
    found = []
    for position in own[:6]:
        found.append(sent(bench, "attempt", position))
        if found[-1][0]:
            bench.do("attempt_end", "e", position, status="error")
    assert [(True, True), *[(True, False)] * 4, (False, False)] == found


@pytest.mark.parametrize("rules", [{"calls": 1}, {"usd_nanousd": RESERVE}, {"tokens": 1}], ids=str)
def test_attempt_beyond_a_ceiling_is_left_to_the_fold(rules: dict[str, Any]) -> None:
    """The first attempt fits and is quick, the one that finds no room is refused by both."""
    bench = Bench().running(make_design(**rules))
    assert (True, True) == sent(bench, "attempt", 1)
    assert (True, True) == sent(bench, "decision", 1, tokens={"in": 1}, cost_nanousd=RESERVE)
    assert (False, False) == sent(bench, "attempt", 2)


def test_second_attempt_and_outcome_past_a_look_are_left_to_the_fold() -> None:
    """What needs a question about tries or looks isn't plain."""
    bench = Bench().running(make_design(lasts=[2, 8], attempts_max=2)).tried(1, "error")
    assert (True, False) == sent(bench, "attempt", 1)
    assert (False, False) == sent(bench, "attempt", 3)
    assert (True, True) == sent(bench, "decision", 1)
    assert (False, False) == sent(bench, "decision", 1, attempt=2)


def test_imported_outcome_needs_its_import() -> None:
    """Until an import after the freeze an imported outcome is refused; then it is quick."""
    bench = Bench().running(make_design(arms=[make_arm("a", "imported")]))
    assert (False, False) == sent(bench, "decision", 1)
    bench.do("import")
    assert (True, True) == sent(bench, "decision", 1)


def test_outcome_of_a_fenced_or_stopped_session_is_left_to_the_fold() -> None:
    """A later start fences; after a stop, a result or a close nothing is quick."""
    bench = Bench().running(RECORDED).do("start")
    assert (False, False) == sent(bench, "decision", 1, session=1)
    bench.idle()
    assert (False, False) == sent(bench, "decision", 1)
    bench.do("withdraw").do("close")
    assert (False, False) == sent(bench, "decision", 1)


def test_outcome_of_an_attempt_that_was_fenced_is_left_to_the_fold() -> None:
    """The attempt of an earlier session can only end as lost."""
    bench = Bench().running(LIVE).do("attempt", "e", 1).do("start")
    assert (False, False) == sent(bench, "decision", 1, session=2, attempt=1)


def test_attempt_of_a_recorded_arm_is_left_to_the_fold() -> None:
    """Nobody is asked for what is on record."""
    bench = Bench().running(RECORDED)
    assert (False, False) == sent(bench, "attempt", 1, reserved_nanousd=0)
