"""Runs the pending slots of one session: workers, retries, looks, ceilings, signals.

Leaves what comes next to `schedule.py`, what an answer becomes to `recording.py`, committing to
`writer.py`, start and stop of the session to `running.py`.

Rules:
- A live attempt is on record, with its reservation, before its driver starts.
- An outcome goes on record together with the attempt that its worker begins next, in this order,
  where what is next doesn't hang on it: a slot waits for one commit, not for two.
- No slot beyond a look starts before that look is taken; the run takes it by itself.
- The first Ctrl-C starts nothing more and waits for what is in flight; a second one, or SIGTERM,
  ends it: those attempts are recorded as interrupted and their slots stay pending.
- What was begun on record is ended on record, whatever cancels the run.
- Recorded outcomes are appended in batches in the order of the plan, without attempts.
- Completion order is never identity: an outcome is a function of its slot.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence

import anyio
from anyio.lowlevel import checkpoint_if_cancelled

from fairtrial.custody.sealing import seal_of
from fairtrial.custody.trial import Trial
from fairtrial.drivers.answer import Answer
from fairtrial.drivers.port import Driver
from fairtrial.ledger.ceilings import is_out_of_time
from fairtrial.ledger.errors import (
    BudgetExceededError,
    FailingArmError,
    LedgerError,
    StoreError,
    TransitionError,
)
from fairtrial.ledger.events import AttemptEnd, StopReason
from fairtrial.ledger.log import Appended
from fairtrial.ledger.state import Experiment, is_final, next_look_last, slots_of
from fairtrial.ledger.tries import is_lost_up
from fairtrial.protocols.plan import Slot

from .faults import Faults
from .jobs import Jobs
from .progress import Progress, Sink, Tally
from .recording import (
    Ending,
    attempt_end,
    bad_ending,
    beginning,
    decision,
    ends_slot,
    given_up,
    interrupted,
    is_within,
)
from .schedule import Schedule, Step, pending_of
from .signals import watch_signals
from .writer import Draft, Writer

__all__ = ("Executor", "Progress", "Sink", "Stopped")

RECORDED_BATCH = 1000
SHOW_SECONDS = 0.1

Stopped = tuple[StopReason, str | None]


class Executor:
    """One session at work. Made inside the event loop that runs it.

    Args:
        trial: The ledger, opened for writing.
        known: The experiment, with a live session.
        drivers: The driver of each arm.
        session: The session's number.
        concurrency: Attempts in flight at most.
        take_look: Takes the due look and returns whether the run goes on; called in a thread.
        sink: Is told about progress.
    """

    def __init__(
        self,
        *,
        trial: Trial,
        known: Experiment,
        drivers: Mapping[str, Driver],
        session: int,
        concurrency: int,
        take_look: Callable[[], bool],
        sink: Sink,
    ) -> None:
        self._trial, self._known, self._drivers, self._session = trial, known, drivers, session
        self._concurrency, self._take_look, self._sink = max(1, concurrency), take_look, sink
        self._plan = trial.plan(known)
        self._jobs = Jobs(trial, known)
        self._faults = Faults(trial, known)
        self._tally = Tally(known, self._faults.names)
        seal = seal_of(known)
        self._writer = Writer(trial.log, trial.blobs, actor=trial.actor, seal=seal)
        self._begun = self._shown = time.monotonic()
        self._stop: Stopped | None = None
        self._is_ending = False
        self._asking: set[anyio.CancelScope] = set()
        # Made when a worker has to wait. No lock: all of them live in one thread.
        self._changed: anyio.Event | None = None

    async def run(self) -> Stopped:
        """Works until there is nothing left to do, or something stops it.

        Returns:
            The reason for the stop event, and a note for it.

        Raises:
            LedgerError: The ledger refused an event, or its medium failed.
        """
        try:
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(self._writer.run)
                tasks.start_soon(watch_signals, self.interrupt, self.terminate)
                try:
                    return await self._work_through()
                finally:
                    await self._close()
                    tasks.cancel_scope.cancel()
        except BaseExceptionGroup as errors:
            raise _first(errors) from None
        raise AssertionError("the group returns or raises")

    async def interrupt(self) -> None:
        """Starts nothing more; a second call ends what is in flight."""
        if self._stop is not None and self._stop[0] == "interrupted":
            self._end_attempts()
        else:
            self._stop = ("interrupted", None)
            count = len(self._asking)
            if count:
                self._sink.note(
                    f"stopping: {count} in flight may finish; Ctrl-C again ends them now"
                )
        self._wake()

    async def terminate(self) -> None:
        """Starts nothing more and ends what is in flight."""
        self._stop = ("terminated", None)
        self._end_attempts()
        self._wake()

    def _end_attempts(self) -> None:
        self._is_ending = True
        for scope in self._asking:
            scope.cancel()

    async def _close(self) -> None:
        self._show(always=True)
        with anyio.CancelScope(shield=True):
            await self._writer.aclose()
            for driver in self._drivers.values():
                await driver.aclose()

    def _wake(self) -> None:
        """Shows how far the run is, and lets workers that wait look again for something to do."""
        self._show()
        if self._changed is not None:
            self._changed.set()
            self._changed = None

    async def _change(self) -> None:
        """Waits until something is over that can give a worker something to do."""
        if self._changed is None:
            self._changed = anyio.Event()
        await self._changed.wait()

    async def _work_through(self) -> Stopped:
        """Settles slots and takes looks until the last look, a crossing or a stop."""
        while not is_final(self._known):
            last = next_look_last(self._known)
            await self._settle_recorded(last)
            await self._settle_live(last)
            if self._stop is not None:
                return self._stop
            await self._writer.call(self._take_look)
            self._show(always=True)
        taken, looks = self._known.taken, self._known.looks
        return ("boundary" if len(taken) < len(looks) else "complete"), None

    async def _settle_recorded(self, last: int) -> None:
        positions, arms = pending_of(self._known, "recorded", last), slots_of(self._known).arm
        for start in range(0, len(positions), RECORDED_BATCH):
            if self._stop is not None:
                return
            batch = positions[start : start + RECORDED_BATCH]
            await self._writer.append_all([await self._recorded(position) for position in batch])
            for position in batch:
                self._tally.settled(arms[position])
            self._show()

    async def _recorded(self, position: int) -> Draft:
        slot = self._plan.slot(position)
        answer = await self._drivers[slot.arm].run(self._jobs.job(slot, attempt=0))
        ending = Ending(self._known.name, slot, self._session, 0, "recorded", answer)
        return Draft(decision(ending, {}), ending.artifacts())

    async def _settle_live(self, last: int) -> None:
        schedule = Schedule(self._known, self._plan, last)
        async with anyio.create_task_group() as workers:
            for _ in range(self._concurrency):
                workers.start_soon(self._work, schedule)

    async def _work(self, schedule: Schedule) -> None:
        while (step := await self._next(schedule)) is not None:
            position = step.position
            if step.kind == "give_up":
                await self._give_up(position)
                schedule.ended(position)
            elif await self._begin(schedule, position):
                while position:
                    position = await self._ask_and_end(schedule, position)
                    self._wake()
                continue
            self._wake()

    async def _next(self, schedule: Schedule) -> Step | None:
        """Waits for something to do; None when there is nothing more, or the run stops."""
        while self._stop is None:
            step = schedule.next()
            if step.kind == "attempt" and self._is_out_of_time():
                schedule.refused(step.position)
                self._stop = ("wall_time", None)
            elif step.kind in ("attempt", "give_up"):
                return step
            elif step.kind == "wait":
                await self._change()
                continue
            else:
                self._stop = self._reason(step)
            self._wake()
            return None
        return None

    def _is_out_of_time(self) -> bool:
        # The clock of the entries, because that is what the fold will compare.
        return is_out_of_time(self._known, self._trial.log.clock())

    def _reason(self, step: Step) -> Stopped | None:
        """Returns why a run stops by itself; None when its slots are all settled."""
        if step.kind == "done":
            return None
        if step.kind == "ceiling":
            return "ceiling", step.why
        why, said = self._faults.streak(step.why)
        self._sink.note(said) if said else None
        return "arm_failing", why

    async def _give_up(self, position: int) -> None:
        """Settles a slot whose attempts are used up, with the code of its last one."""
        number = slots_of(self._known).attempts[position]
        last = await self._writer.call(lambda: self._last_end(position, number))
        is_lost = is_lost_up(self._known, position)
        event = given_up(
            self._plan.slot(position),
            experiment=self._known.name,
            session=self._session,
            attempt=number,
            status="error" if is_lost else last.status,
            code="lost" if is_lost else last.code,
        )
        try:
            await self._writer.append(event)
        except FailingArmError:
            # Another attempt has ended since the choice; what comes of the arm is asked again.
            return
        self._tally.settled(slots_of(self._known).arm[position])

    def _last_end(self, position: int, number: int) -> AttemptEnd:
        found = self._trial.log.find(
            self._known.name, "attempt_end", position=position, number=number
        )
        assert isinstance(found, AttemptEnd), "a slot is used up by attempts that ended"
        return found

    async def _begin(self, schedule: Schedule, position: int) -> bool:
        """Puts the beginning of an attempt on record; returns whether it may stand."""
        await checkpoint_if_cancelled()
        drafts = [Draft(beginning(self._known, position, self._session))]
        with anyio.CancelScope(shield=True):  # who is cancelled here couldn't say how it ended
            (outcome,) = await self._writer.append_each(drafts)
            return self._has_begun(schedule, position, outcome)
        return False

    def _has_begun(
        self, schedule: Schedule, position: int, outcome: Appended | LedgerError
    ) -> bool:
        """Tells the schedule what became of the beginning of an attempt."""
        if not isinstance(outcome, LedgerError):
            schedule.began(position)
            self._show()
            return True
        if not isinstance(outcome, (BudgetExceededError, FailingArmError)):
            raise outcome
        # Others have ended since the choice, and by now the arm may even go on again.
        schedule.refused(position)
        return False

    async def _ask_and_end(self, schedule: Schedule, position: int) -> int:
        """Ends an attempt that has begun; returns the slot that begins with its end, 0 for none."""
        slot, number = self._plan.slot(position), slots_of(self._known).attempts[position]
        answer: Answer | None = None
        following = 0
        try:
            answer = await self._ask(slot, number)
        finally:
            # A cancelled run still has to say how its attempts ended.
            with anyio.CancelScope(shield=True):
                following = await self._put_end(schedule, slot, number, answer)
        self._count(slot, number, answer)
        schedule.ended(position)
        return following

    async def _put_end(
        self, schedule: Schedule, slot: Slot, number: int, answer: Answer | None
    ) -> int:
        """Puts on record how an attempt ended; returns the slot that has begun with it."""
        name, session, rules = self._known.name, self._session, self._known.rules
        if answer is None:
            cut = interrupted(slot, experiment=name, session=session, attempt=number)
            await self._writer.append(cut)
            return 0
        assert rules is not None
        ending = Ending(name, slot, session, number, "live", answer)
        if not ends_slot(answer, rules):
            await self._put(slot, ending, [Draft(attempt_end(ending, {}), ending.artifacts())])
            return 0
        drafts = [Draft(decision(ending, {}), ending.artifacts())]
        following = self._following(schedule, ending)
        if following:
            drafts.append(Draft(beginning(self._known, following, session)))
        begun = await self._put(slot, ending, drafts)
        return following if begun and self._has_begun(schedule, following, begun[0]) else 0

    def _following(self, schedule: Schedule, ending: Ending) -> int:
        arm = slots_of(self._known).arm[ending.slot.position]
        within = is_within(ending.answer, self._known.arms[arm].reserve_nanousd)
        # One that no event can hold becomes an error, perhaps the last one of a streak.
        plain = within and not self._known.tallies[arm].streak and self._stop is None
        return schedule.next_beside_outcome() if plain and not self._is_out_of_time() else 0

    async def _put(
        self, slot: Slot, ending: Ending, drafts: Sequence[Draft]
    ) -> Sequence[Appended | LedgerError]:
        """Appends the end of an attempt and what goes with it; returns what became of the rest."""
        ended, *others = await self._writer.append_each(drafts)
        if isinstance(ended, (StoreError, TransitionError)):
            raise ended
        if isinstance(ended, LedgerError):
            # Values that no event can hold are the driver's mistake, not the end of the run.
            self._sink.note(self._faults.unstorable(slot, ended.what))
            await self._writer.append(bad_ending(ending))
        return others

    async def _ask(self, slot: Slot, number: int) -> Answer | None:
        """Returns the driver's answer; None when it was ended before it answered."""
        if self._is_ending:
            return None
        with anyio.CancelScope() as scope:
            self._asking.add(scope)
            try:
                return await self._drivers[slot.arm].run(self._jobs.job(slot, attempt=number))
            except Exception as error:
                # One broken driver must not end the attempts of the others.
                text = f"{type(error).__name__}: {error}"
                return Answer(status="error", code="driver_raised", message=text)
            finally:
                self._asking.discard(scope)
        return None

    def _count(self, slot: Slot, number: int, answer: Answer | None) -> None:
        slots = slots_of(self._known)
        if slots.status[slot.position]:
            self._tally.settled(slots.arm[slot.position])
        self._tally.retries += number > 1
        if answer is not None and answer.status == "error":
            self._tally.errors += 1
            self._sink.note(self._faults.note(slot, number, answer))

    def _show(self, *, always: bool = False) -> None:
        """Tells the sink, ten times a second at most."""
        now = time.monotonic()
        if always or now - self._shown >= SHOW_SECONDS:
            self._shown = now
            stopping = None if self._stop is None else self._stop[0]
            self._sink.progress(self._tally.progress(now - self._begun, stopping=stopping))


def _first(error: BaseException) -> BaseException:
    """Returns the first error that isn't a group; the others came with it."""
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    return error
