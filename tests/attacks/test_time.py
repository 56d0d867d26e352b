"""Times are set back: steps show, a shift of everything doesn't, and the text says so."""

from __future__ import annotations

from collections.abc import Callable

from fairtrial.engine.story import read_stories
from fairtrial.verbs.text_replay import replay_text

from .conftest import Case, Verify, rechained

Agreed = Callable[..., str]


def test_step_back_is_reported(case: Case, verify: Verify) -> None:
    """A clock that goes backwards is no corruption, and both verifiers name the entry."""
    case.put(
        rechained(case.entries(), time_of=lambda seq, time: "2020" + time[4:] if seq == 5 else time)
    )
    report = case.replay()
    assert ("intact", (5,)) == (report.record, report.time_steps_back)
    assert "the clock steps back at entry 5" in verify(case)[1]


def test_backdated_ledger_is_not_detected_and_the_text_says_so(
    case: Case, agreed: Agreed, verify: Verify
) -> None:
    """All times ten years earlier: nothing inside contradicts; the clock is the writer's own."""
    case.put(rechained(case.entries(), time_of=lambda seq, time: "2016" + time[4:]))
    assert "intact" == agreed(case)
    assert "UNANCHORED" in verify(case)[1]
    text = replay_text(case.replay(), read_stories(case.ledger))
    assert "Clock: the writer's; no outside time" in text
    assert "when, without an outside time stamp" in text
    assert "forked" == agreed(case, case.receipt)
