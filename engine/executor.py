"""The anyio shell of a run: workers ask the arms, append what comes of it, and stop for a reason.

Leaves what may start to `admission.py`, events to `recording.py`, commits to `writer.py`, what may
stand to the fold.

Rules:
- An attempt is on record before its driver starts; its outcome, or how it ended, before the slot is
  left.
- Completion order is never identity: a slot's place is its position in the plan.
- The first Ctrl-C starts nothing new and waits; the second, or SIGTERM, ends what is in flight.
  What was
  cut short is on record as interrupted, and the slot stays pending.
- Errors end attempts. A slot is given up only when the fold allows it; a failing streak stops the
  run.
- A look is taken as soon as its last slot is settled; nothing beyond it starts before.
"""

from __future__ import annotations

import signal
import threading
import time
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from typing import Protocol

import anyio
import msgspec

from fairtrial.ledger.errors import (
    BudgetExceededError,
    LedgerError,
    StoreError,
    TransitionError,
)
from fairtrial.ledger.events import Attempt, AttemptEnd, Decision, Event, StopReason
from fairtrial.ledger.run_rules import error_is_due, is_exhausted, is_lost_up
from fairtrial.ledger.slots import ENDINGS
from fairtrial.ledger.state import STREAK_MAX, Experiment, due_look, is_final, next_look_last

from .admission import Admission, Refusal
from .answer import Answer
from .drivers import Driver, Job, Limits, driver_seed, limits_of
from .plan import Plan, Slot
from .recording import (
    Ending,
    attempt_end,
    bad_ending,
    decision,
    ends_slot,
    given_up,
    interrupted,
)
from .trial import Trial
from .writer import Writer

__all__ = ("Executor", "Progress", "Sink")

_RECORDED_BATCH = 500


class Progress(msgspec.Struct, frozen=True, kw_only=True):
    """Where a run stands: counts, money in usd, seconds."""

    experiment: str
    settled: int
    planned: int
    settled_here: int
    arms: dict[str, tuple[int, int]]
    in_flight: int
    errors: int
    retries: int
    spent_usd: float
    reserved_usd: float
    ceiling_usd: float | None
    looks_taken: int
    looks_planned: int
    waiting_for_look: int
    seconds: float
    stopping: str | None


class Sink(Protocol):
    """Is told how a run goes on."""

    def note(self, text: str) -> None:
        """Takes one line for people."""

    def progress(self, progress: Progress) -> None:
        """Takes the present counts."""


class Executor:
    """One session of one experiment.

    Args:
        trial: The ledger, opened for writing.
        known: The experiment as folded; the fold advances it.
        drivers: A driver an arm.
        session: The number of this session's start.
        concurrency: Attempts in flight at most.
        take_look: Takes the due look in a thread; returns whether the run goes on.
        sink: Is told about progress.
    """

    def __init__(
        self,
        *,
        trial: Trial,
        known: Experiment,
        drivers: dict[str, Driver],
        session: int,
        concurrency: int,
        take_look: Callable[[], bool],
        sink: Sink,
    ) -> None:
        self._trial, self._known, self._drivers = trial, known, drivers
        self._session, self._concurrency = session, max(1, concurrency)
        self._take_look, self._sink = take_look, sink
        self._plan: Plan = trial.plan(known)
        self._protocol = trial.protocol(known)
        units = trial.units(known)
        self._inputs = dict(zip(units.ids, units.inputs or ({},) * len(units.ids), strict=True))
        self._writer = Writer(trial)
        self._begun = time.monotonic()
        self._settled_before = known.settled
        self._errors = self._retries = 0
        self._stopping: StopReason | None = None
        self._note: str | None = None
        self._given_up: dict[int, str | None] = {}
        self._arms_done = {arm.name: [0, 0] for arm in known.arms}
        self._count_arms()
        self._scope = anyio.CancelScope()
        self._flying = 0
        self._changed = anyio.Event()
        self._shown = 0.0

    async def run(self) -> tuple[StopReason, str | None]:
        """Runs until the experiment ends or a reason stops it; returns reason and note.

        Raises:
            StoreError: The medium failed; what was durable stays.
        """
        try:
            async with anyio.create_task_group() as group:
                group.start_soon(self._writer.run)
                async with _signals(self._signalled):
                    reason = await self._stretches()
                self._writer.close()
        except BaseExceptionGroup as errors:
            raise _first(errors) from errors
        finally:
            for driver in self._drivers.values():
                with anyio.CancelScope(shield=True):
                    await driver.aclose()
        self._show(force=True)
        return reason, self._note

    def _signalled(self, number: int) -> None:
        if number == signal.SIGTERM:
            self._stopping = "terminated"
            self._sink.note("terminating: what is in flight is ended")
            self._scope.cancel()
        elif self._stopping is None:
            self._stopping = "interrupted"
            self._sink.note(
                f"stopping: {self._known.open} in flight may finish; Ctrl-C again ends them now"
            )
        else:
            self._scope.cancel()
        self._changed.set()

    async def _stretches(self) -> StopReason:
        """Works from look to look."""
        while True:
            while due_look(self._known) is not None:
                with anyio.CancelScope(shield=True):
                    await anyio.to_thread.run_sync(self._take_look)
            if is_final(self._known):
                return "boundary" if not self._is_last_look() else "complete"
            if self._stopping is not None:
                return self._stopping
            self._scope = anyio.CancelScope()
            with self._scope:
                await self._stretch()
            if self._stopping is not None and due_look(self._known) is None:
                return self._stopping

    def _is_last_look(self) -> bool:
        return len(self._known.taken) == len(self._known.looks)

    async def _stretch(self) -> None:
        """Settles the slots up to the next look, or sets why not."""
        slots, known = self._known.slots, self._known
        assert slots is not None, "a run needs a freeze"
        pending = list(slots.pending(1, next_look_last(known)))
        asked = {index for index, arm in enumerate(known.arms) if arm.origin == "live"}
        live = [p for p in pending if slots.arm[p] in asked]
        await self._settle_recorded([p for p in pending if slots.arm[p] not in asked])
        self._given_up = {p: None for p in live if is_exhausted(known, p)}
        admission = Admission(known, self._plan, [p for p in live if p not in self._given_up])
        await self._flush_given_up()
        async with anyio.create_task_group() as group:
            for _ in range(min(self._concurrency, len(admission))):
                group.start_soon(self._worker, admission)
        await self._flush_given_up()
        if self._stopping is None and next(slots.pending(1, next_look_last(known)), None):
            self._stopping = self._why_unfinished(admission)

    def _why_unfinished(self, admission: Admission) -> StopReason:
        if self._is_failing():
            return "arm_failing"
        assert len(admission), "slots that can't be tried again are given up when nothing is left"
        return "ceiling"

    async def _settle_recorded(self, positions: Sequence[int]) -> None:
        """Puts recorded outcomes on record in batches."""
        for start in range(0, len(positions), _RECORDED_BATCH):
            if self._stopping is not None:
                return
            events: list[Event] = []
            for position in positions[start : start + _RECORDED_BATCH]:
                slot = self._plan.slot(position)
                answer = await self._drivers[slot.arm].run(self._job(slot, 0))
                events.append(self._recorded(slot, answer))
            with anyio.CancelScope(shield=True):
                outcomes = await anyio.to_thread.run_sync(self._append_recorded, events)
            for outcome in outcomes:
                if isinstance(outcome, LedgerError):
                    raise outcome
            for event in events:
                assert isinstance(event, Decision), "recorded slots are settled by outcomes"
                self._arms_done[event.arm][0] += 1
            self._show()

    def _append_recorded(self, events: Sequence[Event]) -> list[object]:
        return list(self._trial.log.append_many(list(events), actor=self._trial.actor))

    def _recorded(self, slot: Slot, answer: Answer) -> Decision:
        arms = {arm.name: arm for arm in self._known.arms}
        ending = Ending(self._known.name, slot, self._session, 0, arms[slot.arm].origin, answer)
        blobs = {name: self._trial.blobs.put(data) for name, data in ending.artifacts().items()}
        return decision(ending, blobs)

    async def _worker(self, admission: Admission) -> None:
        while self._may_start():
            taken = admission.take()
            if isinstance(taken, Refusal):
                if not self._flying:
                    return
                # What is in flight may give room back, or come again.
                await self._changed.wait()
                continue
            self._flying += 1
            try:
                await self._attempt(taken, admission)
            finally:
                self._flying -= 1
                self._changed.set()
                self._changed = anyio.Event()
            self._show()

    def _may_start(self) -> bool:
        wall = self._known.rules.wall_seconds if self._known.rules is not None else None
        ran = self._known.ran_seconds + time.monotonic() - self._begun
        if wall is not None and ran >= wall and self._stopping is None:
            self._stopping = "wall_time"
        return self._stopping is None and not self._is_failing()

    def _is_failing(self) -> bool:
        for arm, tally in zip(self._known.arms, self._known.tallies, strict=True):
            if len(tally.streak) >= STREAK_MAX:
                self._note = f"{STREAK_MAX} attempts in a row failed in arm {arm.name}"
                return True
        return False

    async def _attempt(self, position: int, admission: Admission) -> None:
        """Makes one attempt and puts on record what came of it."""
        slot = self._plan.slot(position)
        assert self._known.slots is not None, "a run needs a freeze"
        number = self._known.slots.attempts[position] + 1
        if not await self._begin(slot, number, admission):
            return
        try:
            answer = await self._drivers[slot.arm].run(self._job(slot, number))
        except anyio.get_cancelled_exc_class():
            end = interrupted(
                slot, experiment=self._known.name, session=self._session, attempt=number
            )
            await self._put(end)
            raise
        ending = Ending(self._known.name, slot, self._session, number, "live", answer)
        await self._end(ending, admission)

    async def _begin(self, slot: Slot, number: int, admission: Admission) -> bool:
        """Appends the attempt; returns False when the fold leaves no room for it now."""
        frozen = {arm.name: arm for arm in self._known.arms}[slot.arm]
        attempt = Attempt(
            experiment=self._known.name,
            position=slot.position,
            number=number,
            session=self._session,
            arm=slot.arm,
            reserved_nanousd=frozen.reserve_nanousd,
        )
        try:
            await self._put(attempt)
        except BudgetExceededError:
            admission.retry(slot.position)
            return False
        except TransitionError:
            # A streak that another worker's error completed in the meantime.
            if not self._is_failing():
                raise
            return False
        finally:
            admission.begun(slot.position)
        return True

    async def _end(self, ending: Ending, admission: Admission) -> None:
        rules = self._known.rules
        assert rules is not None, "a run needs a freeze"
        position, answer = ending.slot.position, ending.answer
        if ends_slot(answer, rules):
            if await self._put_or_bad(ending):
                self._arms_done[ending.slot.arm][0] += 1
                await self._flush_given_up()
                return
        else:
            await self._put_end(ending)
        self._errors += 1
        if answer.message:
            self._note = f"arm {ending.slot.arm}: {answer.message}"[:500]
        if is_exhausted(self._known, position):
            self._given_up[position] = answer.code
            await self._flush_given_up()
        else:
            self._retries += 1
            admission.retry(position)

    async def _put_or_bad(self, ending: Ending) -> bool:
        """Appends the outcome; when its values can't be stored, ends the attempt as bad output."""
        with anyio.CancelScope(shield=True):
            try:
                await self._writer.append(
                    lambda _, blobs: decision(ending, blobs), ending.artifacts()
                )
            except (StoreError, TransitionError):
                raise
            except LedgerError as error:
                self._note = f"arm {ending.slot.arm}: {error.what}"
                await self._writer.append(lambda _state, _blobs: bad_ending(ending))
                return False
        return True

    async def _put_end(self, ending: Ending) -> None:
        with anyio.CancelScope(shield=True):
            try:
                await self._writer.append(
                    lambda _, blobs: attempt_end(ending, blobs), ending.artifacts()
                )
            except (StoreError, TransitionError):
                raise
            except LedgerError:
                await self._writer.append(lambda _state, _blobs: bad_ending(ending))

    async def _put(self, event: Event) -> None:
        """Appends one event, whatever happens to the task."""
        with anyio.CancelScope(shield=True):
            await self._writer.append(lambda _state, _blobs: event)

    async def _flush_given_up(self) -> None:
        """Settles slots whose attempts are used up, as far as the fold allows it now."""
        for position in [p for p in self._given_up if error_is_due(self._known, p)]:
            if position not in self._given_up:
                continue
            code = self._given_up.pop(position)
            slot = self._plan.slot(position)
            event = self._last_word(slot, code)
            await self._put(event)
            self._arms_done[slot.arm][0] += 1

    def _last_word(self, slot: Slot, code: str | None) -> Decision:
        """Returns the outcome of a slot that is given up, with the code of its last attempt."""
        slots, name = self._known.slots, self._known.name
        assert slots is not None, "a run needs a freeze"
        number = slots.attempts[slot.position]
        ended = ENDINGS[slots.ended[slot.position] - 1]
        if is_lost_up(self._known, slot.position):
            code = "lost"
        elif code is None:
            last = self._trial.log.find(name, "attempt_end", position=slot.position, number=number)
            code = last.code if isinstance(last, AttemptEnd) else None
        return given_up(
            slot,
            experiment=name,
            session=self._session,
            attempt=number,
            status=ended,
            code=code,
        )

    def _job(self, slot: Slot, attempt: int) -> Job:
        arm = self._protocol.arms[slot.arm]
        config = getattr(arm.driver, "config", {})
        return Job(
            experiment=self._known.name,
            arm=slot.arm,
            unit=slot.unit,
            replicate=slot.replicate,
            attempt=attempt,
            seed=driver_seed(self._protocol.design.seed, slot.unit, slot.replicate),
            input=self._inputs.get(slot.unit, {}),
            config=config,
            limits=limits_of(arm.limits) if attempt else Limits(),
        )

    def _count_arms(self) -> None:
        slots = self._known.slots
        assert slots is not None, "a run needs a freeze"
        for index, arm in enumerate(self._known.arms):
            counts = slots.status_counts(index)
            planned = sum(counts.values())
            self._arms_done[arm.name] = [planned - counts.get("pending", 0), planned]

    def _show(self, *, force: bool = False) -> None:
        """Tells the sink, ten times a second at most."""
        now = time.monotonic()
        if not force and now - self._shown < 0.1:
            return
        self._shown = now
        known = self._known
        last = next_look_last(known)
        rules, slots = known.rules, known.slots
        assert slots is not None, "a run needs a freeze"
        ceiling = rules.usd_nanousd if rules is not None else None
        self._sink.progress(
            Progress(
                experiment=known.name,
                settled=known.settled,
                planned=len(slots),
                settled_here=known.settled - self._settled_before,
                arms={name: (done, of) for name, (done, of) in self._arms_done.items()},
                in_flight=known.open,
                errors=self._errors,
                retries=self._retries,
                spent_usd=sum(tally.spent_nanousd for tally in known.tallies) / 1e9,
                reserved_usd=sum(tally.reserved_nanousd for tally in known.tallies) / 1e9,
                ceiling_usd=None if ceiling is None else ceiling / 1e9,
                looks_taken=len(known.taken),
                looks_planned=len(known.looks),
                waiting_for_look=last - slots.settled(1, last) if last else 0,
                seconds=now - self._begun,
                stopping=self._stopping,
            )
        )


@asynccontextmanager
async def _signals(handle: Callable[[int], None]) -> AsyncIterator[None]:
    """Hands SIGINT and SIGTERM to `handle` while the block runs; only a main thread gets them."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    with anyio.open_signal_receiver(signal.SIGINT, signal.SIGTERM) as received:

        async def listen() -> None:
            async for number in received:
                handle(number)

        async with anyio.create_task_group() as group:
            group.start_soon(listen)
            try:
                yield
            finally:
                group.cancel_scope.cancel()


def _first(errors: BaseExceptionGroup[BaseException]) -> BaseException:
    """Returns the error that a group of tasks ended with, alone."""
    for error in errors.exceptions:
        return _first(error) if isinstance(error, BaseExceptionGroup) else error
    return errors
