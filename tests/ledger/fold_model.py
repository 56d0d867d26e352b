"""A few rules of the fold again, in plain dictionaries, written apart from it.

It reads the events of a ledger one after the other, checks what must hold of each, and then says
what the state must be: counts, money, tries, streaks, the look barrier.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from fairtrial.ledger.events import (
    Amend,
    Attempt,
    AttemptEnd,
    Decision,
    Event,
    Freeze,
    FrozenArm,
    Invalidate,
    Look,
    Register,
    Result,
    Rules,
    Settle,
    Start,
    Stop,
    Withdraw,
    event_kind,
)
from fairtrial.ledger.state import Experiment, PlanColumns, State


@dataclass
class Try:
    """One attempt of a slot."""

    session: int
    first: bool
    status: str = "open"
    seq: int = -1
    cost: int = 0
    retry: bool = True
    excused: bool = False
    settled: bool = False

    def counts(self) -> bool:
        """Returns whether it counts against the registered tries."""
        return self.status in ("error", "timeout") and not self.excused


@dataclass
class Trial:
    """One experiment."""

    slot_arms: Sequence[str] = ()
    arms: dict[str, FrozenArm] = field(default_factory=dict)
    rules: Rules | None = None
    lasts: list[int] = field(default_factory=list)
    tries: dict[int, list[Try]] = field(default_factory=dict)
    settled: dict[int, str] = field(default_factory=dict)
    paid: dict[str, int] = field(default_factory=dict)
    streaks: dict[str, list[int]] = field(default_factory=dict)
    good: dict[str, int] = field(default_factory=dict)
    excuses: dict[int, int] = field(default_factory=dict)
    sessions: int = 0
    live: bool = False
    looks: list[Look] = field(default_factory=list)
    last_change: int = -1
    ended: bool = False

    def of(self, arm: str) -> list[Try]:
        """Returns all tries of an arm."""
        places = [at for at in self.tries if self.slot_arms[at - 1] == arm]
        return [one for at in places for one in self.tries[at]]

    def spent(self, arm: str) -> int:
        """Returns what an arm has cost so far."""
        return self.paid[arm] + sum(one.cost for one in self.of(arm))

    def reserved(self, arm: str) -> int:
        """Returns what an arm's open attempts hold back."""
        open_ = sum(one.status == "open" for one in self.of(arm))
        return open_ * self.arms[arm].reserve_nanousd

    def open(self) -> int:
        """Returns how many attempts are open."""
        return sum(one.status == "open" for tries in self.tries.values() for one in tries)

    def barrier(self) -> int:
        """Returns the last slot that may be settled now."""
        done = self.looks and (not self.looks[-1].continues or len(self.looks) == len(self.lasts))
        return 0 if done or not self.lasts else self.lasts[len(self.looks)]

    def is_due(self) -> bool:
        """Returns whether a look is due."""
        last = self.barrier()
        return last > 0 and all(at in self.settled for at in range(1, last + 1))

    def is_used_up(self, position: int) -> bool:
        """Returns whether a slot may not be tried again."""
        assert self.rules is not None
        tries, arm = self.tries.get(position, []), self.arms[self.slot_arms[position - 1]]
        counted = [one for one in tries if one.counts()]
        ended = [one for one in tries if one.status != "open"]
        lost = sum(one.status in ("lost", "interrupted") for one in tries)
        return (
            len(counted) >= self.rules.attempts_max
            or any(not one.retry for one in counted)
            or (ended[-1:] == counted[-1:] != [] and ended[-1].status not in self.rules.retry_on)
            or lost >= (3 if arm.repeatable else 1)
        )


class Model:
    """All experiments of a ledger.

    Args:
        plans: The plans by the digest of their blob.
    """

    def __init__(self, plans: Mapping[str, PlanColumns]) -> None:
        self.plans = plans
        self.filled: set[tuple[str, int, str, int]] = set()
        self.trials: dict[str, Trial] = {}
        self.size = 0

    def take(self, seq: int, event: Event) -> None:
        """Reads the next event."""
        assert self.size == seq
        kind = event_kind(event)
        slot = (event.experiment, event.position, kind, event.number)
        assert slot not in self.filled, f"two events fill {slot}"
        assert (
            event.number <= 1
            or kind in ("stop", "attempt_end")
            or ((*slot[:3], event.number - 1) in self.filled)
        ), f"{slot} leaves a number out"
        self.filled.add(slot)
        self.size += 1
        if isinstance(event, Register):
            self.trials[event.experiment] = Trial()
        elif event.experiment:
            self._take(self.trials[event.experiment], seq, event)

    def _take(self, trial: Trial, seq: int, event: Event) -> None:
        allowed = ("settle", "refuse", "reanalysis")
        assert not trial.ended or event_kind(event) in allowed, f"{event} after the end"
        if isinstance(event, Freeze):
            trial.slot_arms = self.plans[event.plan.sha256].arms
            trial.arms = {arm.name: arm for arm in event.arms}
            trial.paid = dict.fromkeys(trial.arms, 0)
            trial.good = dict.fromkeys(trial.arms, -1)
            trial.streaks = {name: [] for name in trial.arms}
            trial.rules, trial.lasts = event.rules, [look.last for look in event.looks]
        elif isinstance(event, Amend):
            trial.rules = event.rules or trial.rules
            trial.lasts = [look.last for look in event.looks] if event.looks else trial.lasts
        elif isinstance(event, Start):
            _start(trial, event)
        elif isinstance(event, Stop):
            assert (trial.live, trial.open()) == (True, 0)
            assert trial.sessions == event.number
            trial.live = False
        elif isinstance(event, Attempt):
            _attempt(trial, event)
        elif isinstance(event, AttemptEnd):
            _attempt_end(trial, seq, event)
        elif isinstance(event, Decision):
            _decision(trial, seq, event)
        elif isinstance(event, Look):
            assert trial.is_due()
            assert (trial.barrier(), len(trial.looks) + 1) == (event.last, event.number)
            assert trial.open() == 0
            assert trial.last_change < event.basis.size <= seq
            trial.looks.append(event)
        elif isinstance(event, Settle):
            (one,) = [x for x in trial.tries[event.position] if x.seq == event.subject.seq]
            assert one.status in ("lost", "interrupted")
            assert not one.settled
            one.cost, one.settled = event.cost_nanousd, True
        elif isinstance(event, (Result, Withdraw)):
            assert (trial.live, trial.open(), trial.is_due()) == (False, 0, False)
            trial.ended = True
        elif isinstance(event, Invalidate):
            assert event.position in trial.settled
        if isinstance(event, (AttemptEnd, Decision, Settle, Invalidate, Amend, Look)):
            trial.last_change = seq

    def check(self, state: State) -> None:
        """Checks that a state says of each experiment what its events say."""
        assert self.size == state.size
        assert set(self.trials) == set(state.experiments)
        for name, trial in self.trials.items():
            _check(trial, state.experiments[name])


def _start(trial: Trial, event: Start) -> None:
    for streak in trial.streaks.values():
        for position in streak if len(streak) >= 5 else ():
            counted = [one for one in trial.tries[position] if one.counts()]
            if counted and trial.excuses.get(position, 0) < 3:
                trial.excuses[position] = trial.excuses.get(position, 0) + 1
                counted[-1].excused = True
        streak.clear()
    trial.sessions, trial.live = event.number, True


def _attempt(trial: Trial, event: Attempt) -> None:
    rules = trial.rules
    assert rules is not None
    assert (trial.live, trial.sessions) == (True, event.session)
    assert event.position <= trial.barrier(), "an attempt behind a look"
    assert event.position not in trial.settled
    arm = trial.arms[event.arm]
    tries = trial.tries.setdefault(event.position, [])
    assert all(one.status != "open" for one in tries)
    assert not trial.is_used_up(event.position)
    assert len(trial.streaks[event.arm]) < 5
    used = {name: trial.spent(name) + trial.reserved(name) for name in trial.arms}
    own = rules.arms.get(event.arm)
    for limit, spent in (
        (rules.usd_nanousd, sum(used.values())),
        (own.usd_nanousd if own else None, used[event.arm]),
    ):
        assert limit is None or spent + arm.reserve_nanousd <= limit, "beyond the usd ceiling"
    calls = sum(len(each) for each in trial.tries.values())
    assert rules.calls is None or calls < rules.calls, "beyond the ceiling of calls"
    first = all(one.session != event.session for one in tries)
    tries.append(Try(session=event.session, first=first))


def _attempt_end(trial: Trial, seq: int, event: AttemptEnd) -> None:
    assert (trial.live, trial.sessions) == (True, event.session)
    one = trial.tries[event.position][event.number - 1]
    assert one.status == "open"
    assert one.session == event.session or event.status == "lost"
    arm = trial.slot_arms[event.position - 1]
    one.status, one.seq, one.retry = event.status, seq, event.retry
    reserve = trial.arms[arm].reserve_nanousd
    one.cost = reserve if event.cost_nanousd is None else event.cost_nanousd
    assert event.status != "lost" or one.cost == reserve
    if event.status == "timeout":
        trial.streaks[arm], trial.good[arm] = [], seq
    elif event.status == "error" and one.first and event.position not in trial.streaks[arm]:
        trial.streaks[arm].append(event.position)


def _decision(trial: Trial, seq: int, event: Decision) -> None:
    assert (trial.live, trial.sessions) == (True, event.session)
    assert event.position <= trial.barrier(), "an outcome behind a look"
    assert event.position not in trial.settled
    arm = trial.arms[event.arm]
    if arm.origin != "live":
        assert (arm.origin, 0) == (event.origin, event.attempt)
        trial.paid[event.arm] += event.incurred_nanousd or 0
    else:
        one = trial.tries[event.position][event.attempt - 1]
        assert len(trial.tries[event.position]) == event.attempt
        if one.status == "open":
            assert (one.session, event.status == "error") == (event.session, False)
            one.status, one.seq = "decided", seq
            one.cost = arm.reserve_nanousd if event.cost_nanousd is None else event.cost_nanousd
        else:
            _give_up(trial, event, one)
    trial.settled[event.position] = event.status
    if event.status != "error":
        trial.streaks[event.arm], trial.good[event.arm] = [], seq


def _give_up(trial: Trial, event: Decision, one: Try) -> None:
    assert event.status in ("error", "timeout")
    assert not event.cost_nanousd
    assert trial.is_used_up(event.position)
    if event.status == "error" and event.code != "lost":
        assert len(trial.streaks[event.arm]) < 5
        left = [
            at
            for at in range(1, trial.barrier() + 1)
            if trial.slot_arms[at - 1] == event.arm
            and at not in trial.settled
            and not trial.is_used_up(at)
        ]
        assert trial.good[event.arm] > one.seq or not left


def _check(trial: Trial, known: Experiment) -> None:
    assert (trial.sessions, trial.live) == (known.sessions, known.live)
    assert trial.open() == known.open
    assert len(trial.looks) == len(known.taken)
    assert trial.ended == (known.result is not None or known.withdrawn_seq is not None)
    slots = known.slots
    if slots is None:
        return
    settled = {at for at in range(1, len(slots) + 1) if slots.status[at]}
    pending = list(slots.pending(1, len(slots)))
    assert set(trial.settled) == settled
    assert len(trial.slot_arms) == known.settled + len(pending) == len(slots)
    for arm, tally in zip(known.arms, known.tallies, strict=True):
        tries = trial.of(arm.name)
        assert trial.spent(arm.name) == tally.spent_nanousd
        assert trial.reserved(arm.name) == tally.reserved_nanousd
        assert (len(tries), sum(one.status == "open" for one in tries)) == (tally.calls, tally.open)
        assert trial.streaks[arm.name] == tally.streak
    for position, tries in trial.tries.items():
        assert len(tries) == slots.attempts[position]
        assert sum(one.counts() for one in tries) == slots.counted[position]
