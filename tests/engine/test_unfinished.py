"""Why there is no end yet: the newest session's stop, and every slot that is open."""

from __future__ import annotations

import pytest

from fairtrial.engine.unfinished import unfinished
from fairtrial.ledger.events import Blob, FrozenArm, LookPlan, Rules
from fairtrial.ledger.slots import ENDINGS, STATUSES, new_slots
from fairtrial.ledger.state import ArmTally, Experiment, LookTaken

BLOB = Blob(size=0, blake3="0" * 64, sha256="0" * 64)


def _known(*, slots: int = 12, sessions: int = 1, stop: str | None = None) -> Experiment:
    """Returns an experiment with looks at half of its slots and at all of them."""
    arms = tuple(
        FrozenArm(
            name=name, origin="live", identity=BLOB, metered=True, reserve_nanousd=10,
            repeatable=True,
        )
        for name in ("A", "B")
    )  # fmt: skip
    rules = Rules(
        usd_nanousd=None, calls=None, tokens=None, wall_seconds=None, arms={}, attempts_max=2,
        retry_on=("error",), on_crossing="stop", on_under_run="inconclusive", anchor="none",
        signatures=(), primaries=("y",),
    )  # fmt: skip
    looks = (slots // 2, slots)
    return Experiment(
        name="e", register_seq=0, protocol=BLOB, resolved=BLOB, sections={}, plan_seq=0,
        media="yaml", arms=arms, rules=rules, slots=new_slots([0, 1] * (slots // 2)), freeze_seq=1,
        looks=tuple(LookPlan(last=last, clusters=1, units=1, tests=()) for last in looks),
        tallies=[ArmTally() for _ in arms], sessions=sessions, live=bool(sessions) and stop is None,
        last_stop=stop,
    )  # fmt: skip


def _settle(known: Experiment, *positions: int) -> None:
    assert known.slots is not None
    for position in positions:
        known.slots.status[position] = STATUSES.index("ok") + 1
        known.settled += 1


def _end(known: Experiment, position: int, how: str, *, counted: int = 0) -> None:
    """Folds the end of a slot's newest attempt."""
    slots = known.slots
    assert slots is not None
    slots.attempts[position] += 1
    slots.ended[position] = ENDINGS.index(how) + 1 if how else 0
    slots.counted[position] = counted


def test_every_open_slot_is_named_with_its_state() -> None:
    """Slots of one state stand together, neighbours as a range; settled and later ones don't."""
    known = _known(stop="terminated")
    _settle(known, 1, 4)
    _end(known, 2, "interrupted")
    assert unfinished(known).found == (
        "2 outcomes and 0 looks; session 1 stopped: terminated; before look 1:"
        " 1 interrupted, to try again (position 2), 3 not started (positions 3, 5 to 6)"
    )


def test_states_of_a_slot_are_told_apart() -> None:
    """In flight, tries left, tries used up, excused by a start: each is another way to be open."""
    known = _known(slots=14)
    assert known.slots is not None
    _settle(known, 1)
    known.slots.is_open[2] = known.slots.attempts[2] = 1
    _end(known, 3, "error", counted=1)
    _end(known, 4, "error", counted=2)
    _end(known, 5, "")
    _end(known, 6, "lost")
    assert unfinished(known).found.partition("look 1: ")[2].split(", 1 ") == [
        "1 in flight (position 2)",
        "error, to try again (position 3)",
        "error, tries used up (position 4)",
        "excused, to try again (position 5)",
        "lost, to try again (position 6)",
        "not started (position 7)",
    ]


def test_only_slots_before_the_next_look_keep_it_away() -> None:
    """After look 1 the slots are those of look 2."""
    known = _known(stop="ceiling")
    _settle(known, *range(1, 11))
    known.taken = [LookTaken(seq=9, last=6, continues=True, crossed=False)]
    assert unfinished(known).found.endswith("before look 2: 2 not started (positions 11 to 12)")


def test_look_that_is_due_is_named() -> None:
    """A host that stopped between the last outcome and its look left no slot open."""
    known = _known(stop="terminated")
    _settle(known, *range(1, 7))
    error = unfinished(known)
    assert error.found == "6 outcomes and 0 looks; session 1 stopped: terminated; look 1 is due"
    assert error.todo.startswith("go on: ledger run e;")


@pytest.mark.parametrize(
    ("known", "said"),
    [
        (_known(sessions=0), "no session yet"),
        (_known(sessions=3), "session 3 hasn't stopped"),
        (_known(sessions=2, stop="arm_failing"), "session 2 stopped: arm_failing"),
    ],
)
def test_newest_session_is_named(known: Experiment, said: str) -> None:
    """Whoever asks for a result learns first why the run is over."""
    assert f"; {said}; " in unfinished(known).found


def test_scattered_slots_are_cut_short() -> None:
    """A line for people stays a line; the count in front is whole."""
    known = _known(slots=60)
    _settle(known, *range(2, 31, 2))
    assert unfinished(known).found.endswith("15 not started (positions 1, 3, 5, 7, 9, ...)")
