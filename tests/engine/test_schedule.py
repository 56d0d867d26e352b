"""What a run does next: order, pairs, room, streaks; without a driver, a clock or a thread."""

from __future__ import annotations

from collections.abc import Mapping

from fairtrial.engine.schedule import Schedule, Step
from fairtrial.ledger.events import ArmCeiling, Blob, FrozenArm, LookPlan, Rules
from fairtrial.ledger.slots import STATUSES, new_slots
from fairtrial.ledger.state import ArmTally, Experiment
from fairtrial.protocols.plan import Plan, build_plan

BLOB = Blob(size=0, blake3="0" * 64, sha256="0" * 64)
OK = STATUSES.index("ok") + 1


def _plan(units: int = 3) -> Plan:
    ids = [f"u{number}" for number in range(units)]
    return build_plan(ids, ids, {"A": 1, "B": 1}, seed=1)


def _known(
    plan: Plan,
    *,
    usd: int | None = None,
    calls: int | None = None,
    arms: Mapping[str, ArmCeiling] | None = None,
) -> Experiment:
    """Returns an experiment as its fold would be after a start; an attempt reserves 10."""
    frozen = tuple(
        FrozenArm(
            name=name, origin="live", identity=BLOB, metered=True, reserve_nanousd=10,
            repeatable=True,
        )
        for name in plan.arms
    )  # fmt: skip
    rules = Rules(
        usd_nanousd=usd, calls=calls, tokens=None, wall_seconds=None, arms=dict(arms or {}),
        attempts_max=2, retry_on=("error",), on_crossing="stop", on_under_run="inconclusive",
        anchor="none", signatures=(), primaries=("y",),
    )  # fmt: skip
    return Experiment(
        name="e", register_seq=0, protocol=BLOB, resolved=BLOB, sections={}, plan_seq=0,
        media="yaml", arms=frozen, rules=rules, slots=new_slots(list(plan.arm_of)),
        looks=(LookPlan(last=plan.slot_count, clusters=1, units=1, tests=()),),
        tallies=[ArmTally() for _ in frozen], sessions=1, live=True,
    )  # fmt: skip


def _begin(known: Experiment, schedule: Schedule, position: int) -> None:
    """Folds an attempt."""
    slots = known.slots
    assert slots is not None
    slots.is_open[position] = 1
    slots.attempts[position] += 1
    tally = known.tallies[slots.arm[position]]
    tally.reserved_nanousd += 10
    tally.calls += 1
    schedule.began(position)


def _end(known: Experiment, schedule: Schedule, position: int, *, cost: int, ok: bool) -> None:
    """Folds the end of an attempt, with an outcome or with an error that may be tried again."""
    slots = known.slots
    assert slots is not None
    slots.is_open[position] = 0
    tally = known.tallies[slots.arm[position]]
    tally.reserved_nanousd -= 10
    tally.spent_nanousd += cost
    if ok:
        slots.status[position] = OK
    else:
        slots.counted[position] += 1
        slots.ended[position] = 1
    schedule.ended(position)


def test_slots_start_in_the_order_of_the_plan() -> None:
    """Whoever asks gets the next pending slot; with all of them under way there is only waiting."""
    plan = _plan()
    schedule = Schedule(_known(plan), plan, 6)
    assert [Step("attempt", position) for position in range(1, 7)] == [
        schedule.next() for _ in range(6)
    ]
    assert Step("wait") == schedule.next()


def test_slots_beyond_the_look_are_not_this_schedules() -> None:
    """A schedule ends with its look."""
    plan = _plan()
    known = _known(plan)
    schedule = Schedule(known, plan, 2)
    for position in (1, 2):
        assert Step("attempt", position) == schedule.next()
        _begin(known, schedule, position)
        _end(known, schedule, position, cost=1, ok=True)
    assert Step("done") == schedule.next()


def test_retry_queues_behind_slots_that_were_not_tried() -> None:
    """A slot that failed comes again after all fresh ones."""
    plan = _plan()
    known = _known(plan)
    schedule = Schedule(known, plan, 6)
    order = []
    for _ in range(7):
        step = schedule.next()
        order.append(step.position)
        _begin(known, schedule, step.position)
        _end(known, schedule, step.position, cost=1, ok=order.count(1) != 1 or step.position != 1)
    assert [1, 2, 3, 4, 5, 6, 1] == order
    assert Step("done") == schedule.next()


def test_pair_starts_whole_or_not_at_all() -> None:
    """With room for three reservations one pair starts; the second waits for the first."""
    plan = _plan()
    known = _known(plan, usd=30)
    schedule = Schedule(known, plan, 6)
    assert [1, 2] == [schedule.next().position for _ in range(2)]
    assert Step("wait") == schedule.next()
    for position in (1, 2):
        _begin(known, schedule, position)
    assert Step("wait") == schedule.next()
    # They cost less than they reserved, so there is room for another pair.
    _end(known, schedule, 1, cost=4, ok=True)
    assert Step("wait") == schedule.next()
    _end(known, schedule, 2, cost=4, ok=True)
    assert [3, 4] == [schedule.next().position for _ in range(2)]


def test_ceiling_is_reached_when_nothing_is_in_flight() -> None:
    """Without room, and with nothing that could give room back, the run has to stop."""
    plan = _plan()
    known = _known(plan, usd=25)
    schedule = Schedule(known, plan, 6)
    for position in (1, 2):
        assert position == schedule.next().position
        _begin(known, schedule, position)
    for position in (1, 2):
        _end(known, schedule, position, cost=10, ok=True)
    step = schedule.next()
    assert "ceiling" == step.kind
    assert "usd" in step.why


def test_retry_may_use_room_that_a_pair_does_not_fit_in() -> None:
    """What is left for one attempt can still settle a slot that failed."""
    plan = _plan(2)
    known = _known(plan, calls=4)
    schedule = Schedule(known, plan, 4)
    for position in (1, 2):
        assert position == schedule.next().position
        _begin(known, schedule, position)
    known.tallies[0].calls += 1
    _end(known, schedule, 1, cost=1, ok=True)
    _end(known, schedule, 2, cost=1, ok=False)
    assert Step("attempt", 2) == schedule.next()


def test_refused_attempt_waits_in_its_place_without_a_claim() -> None:
    """When the fold finds no room after all, the slot is next again, and is measured again."""
    plan = _plan()
    known = _known(plan, usd=30)
    schedule = Schedule(known, plan, 6)
    assert 1 == schedule.next().position
    known.tallies[1].spent_nanousd = 25
    schedule.refused(1)
    assert "ceiling" == schedule.next().kind


def test_failing_arm_stops_starts_until_nothing_is_in_flight() -> None:
    """What is under way may still clear a streak; only then it is the reason to stop."""
    plan = _plan()
    known = _known(plan)
    schedule = Schedule(known, plan, 6)
    first, second = schedule.next().position, schedule.next().position
    for position in (first, second):
        _begin(known, schedule, position)
    known.tallies[0].streak = [1, 2, 3, 4, 5]
    _end(known, schedule, first, cost=1, ok=True)
    assert Step("wait") == schedule.next()
    _end(known, schedule, second, cost=1, ok=True)
    assert Step("failing", why="A") == schedule.next()
    known.tallies[0].streak = []
    assert "attempt" == schedule.next().kind


def test_used_up_slot_is_given_up_when_it_is_due() -> None:
    """It waits for a later attempt of its arm that ended otherwise, or for the end."""
    plan = _plan()
    known = _known(plan)
    slots = known.slots
    assert slots is not None
    slots.counted[1], slots.ended[1], slots.attempts[1], slots.end_seq[1] = 2, 1, 2, 10
    schedule = Schedule(known, plan, 6)
    assert Step("attempt", 2) == schedule.next()
    known.tallies[slots.arm[1]].good_seq = 11
    assert Step("give_up", 1) == schedule.next()
    slots.status[1] = STATUSES.index("error") + 1
    schedule.ended(1)
    assert Step("attempt", 3) == schedule.next()


def test_slot_begins_beside_an_outcome_where_what_is_next_does_not_hang_on_it() -> None:
    """The next slot that wasn't tried, with room beside all reservations; else none."""
    plan = _plan()
    known = _known(plan, usd=40)
    schedule = Schedule(known, plan, 6)
    assert 1 == schedule.next().position
    _begin(known, schedule, 1)
    assert [2, 3] == [schedule.next_beside_outcome() for _ in range(2)]
    for position in (2, 3):
        _begin(known, schedule, position)
    assert 4 == schedule.next_beside_outcome()
    _begin(known, schedule, 4)
    # Four reservations of 10 leave no room, though the outcomes may cost less.
    assert 0 == schedule.next_beside_outcome()
    for position in (1, 2):
        _end(known, schedule, position, cost=1, ok=True)
    assert 0 == schedule.next_beside_outcome()
    _end(known, schedule, 3, cost=1, ok=True)
    assert 5 == schedule.next_beside_outcome()
    assert 2 == schedule.in_flight


def test_retry_or_giving_up_is_never_beside_an_outcome() -> None:
    """Whether they are due hangs on outcomes."""
    plan = _plan()
    known = _known(plan)
    schedule = Schedule(known, plan, 6)
    for _ in range(6):
        _begin(known, schedule, schedule.next().position)
    _end(known, schedule, 1, cost=1, ok=False)
    assert 0 == schedule.next_beside_outcome()
    assert Step("attempt", 1) == schedule.next()
