"""One writer for all workers of a run: what they append together is committed together.

Leaves the order of events and their rules to the log.

Rules:
- A commit takes what waits in one durable step, until it has `BATCH_MAX` events; what one caller
  hands over at once stays together. While it is under way the next batch gathers, so nobody waits
  for a timer.
- A caller goes on when its event is durable. A refusal is that event's alone.
- Blobs of a batch are durable before its events, in one step.
- Commits run in a thread, one after the other, and a cancellation doesn't reach them: a caller that
  is cancelled doesn't take back what others append, and its own event may still be stored.
- An error of the medium ends the writer: everyone who waits or comes later gets it.
- Other work on the ledger (`call`) has its turn between two commits.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Generic, Protocol, TypeVar, cast

import anyio
import anyio.lowlevel
import anyio.to_thread
import msgspec

from fairtrial.custody.sealing import Sealed
from fairtrial.ledger.blobs import Blobs
from fairtrial.ledger.canonical import blob_of
from fairtrial.ledger.errors import ConflictError, IntegrityError, LedgerError, StoreError
from fairtrial.ledger.events import AttemptEnd, Decision, Event
from fairtrial.ledger.log import Appended

__all__ = ("BATCH_MAX", "AppendLog", "Draft", "Writer")

BATCH_MAX = 100
T = TypeVar("T")


class AppendLog(Protocol):
    """What the writer needs of a log."""

    def append_many(
        self, requests: Sequence[Event], *, actor: str
    ) -> Sequence[Appended | LedgerError]:
        """Appends events in one durable batch; for each its place or why it was refused."""
        ...


@dataclass(frozen=True, slots=True)
class Draft:
    """An event, and contents that become its artifacts."""

    event: Event
    artifacts: Mapping[str, bytes] = field(default_factory=dict)


class _Waiting:
    """Work for the writer's thread and those who wait for it."""

    def __init__(self) -> None:
        self.done = anyio.Event()
        self.error: LedgerError | None = None

    async def finished(self) -> None:
        await self.done.wait()
        if self.error is not None:
            raise self.error


class _Batch(_Waiting):
    """What is committed together; it grows until the writer turns to it."""

    def __init__(self) -> None:
        super().__init__()
        self.drafts: list[Draft] = []
        self.outcomes: Sequence[Appended | LedgerError] = ()


class _Call(_Waiting, Generic[T]):
    def __init__(self, work: Callable[[], T]) -> None:
        super().__init__()
        self.work = work
        self.results: list[T] = []
        self.raised: list[Exception] = []


class Writer:
    """Appends for many tasks; `run` has to run beside them.

    Args:
        log: Where events go.
        blobs: Where artifacts go.
        actor: Who appends, as claimed.
        seal: Hides what of an ending would tell blinded arms apart; None: nothing is blinded.
    """

    def __init__(
        self,
        log: AppendLog,
        blobs: Blobs,
        *,
        actor: str,
        seal: Callable[[Decision | AttemptEnd], Sealed] | None = None,
    ) -> None:
        self._log, self._blobs, self._actor, self._seal = log, blobs, actor, seal
        # A stream between tasks would pass every event on in several turns of the loop.
        self._waiting: deque[_Batch | _Call[object]] = deque()
        self._wake = anyio.Event()
        self._is_closed = False
        self._failure: LedgerError | None = None
        self._ended = anyio.Event()

    @property
    def queued(self) -> int:
        """How many events and calls wait for their turn."""
        return sum(len(one.drafts) if isinstance(one, _Batch) else 1 for one in self._waiting)

    async def append(self, event: Event, artifacts: Mapping[str, bytes] | None = None) -> Appended:
        """Appends one event; durable when it returns.

        Args:
            event: The event, without artifacts.
            artifacts: Contents that become its artifacts.

        Raises:
            LedgerError: The event was refused.
            StoreError: The medium failed, now or before.
        """
        (outcome,) = await self.append_each((Draft(event, artifacts or {}),))
        if isinstance(outcome, LedgerError):
            raise outcome
        return outcome

    async def append_all(self, drafts: Sequence[Draft]) -> list[Appended]:
        """Appends several events in one batch.

        Raises:
            LedgerError: One of them was refused; the first such error. The others stand.
        """
        outcomes = await self.append_each(drafts)
        for outcome in outcomes:
            if isinstance(outcome, LedgerError):
                raise outcome
        return [cast("Appended", outcome) for outcome in outcomes]

    async def append_each(self, drafts: Sequence[Draft]) -> Sequence[Appended | LedgerError]:
        """Appends several events in one batch, in this order; returns what became of each.

        Raises:
            StoreError: The medium failed, now or before.
        """
        await self._check_open()
        newest = self._waiting[-1] if self._waiting else None
        if not isinstance(newest, _Batch) or len(newest.drafts) >= BATCH_MAX:
            newest = _Batch()
            self._waiting.append(newest)
            self._wake.set()
        start = len(newest.drafts)
        newest.drafts += drafts
        await newest.finished()
        return newest.outcomes[start : start + len(drafts)]

    async def call(self, work: Callable[[], T]) -> T:
        """Runs other work on the ledger in the writer's thread, between two commits."""
        item = _Call(work)
        await self._check_open()
        self._waiting.append(cast("_Call[object]", item))
        self._wake.set()
        await item.finished()
        if item.raised:
            raise item.raised[0]
        return item.results[0]

    async def run(self) -> None:
        """Commits until the writer is closed and its queue is empty."""
        # A commit that was begun is finished whatever happens to those who wait for it.
        with anyio.CancelScope(shield=True):
            try:
                while self._waiting or not self._is_closed:
                    if self._waiting:
                        await self._handle(self._waiting.popleft())
                    else:
                        self._wake = anyio.Event()
                        await self._wake.wait()
            finally:
                self._ended.set()

    async def aclose(self) -> None:
        """Takes no more and waits until all that was queued is done."""
        self._is_closed = True
        self._wake.set()
        with anyio.CancelScope(shield=True):
            await self._ended.wait()

    async def _check_open(self) -> None:
        if self._failure is not None:
            raise self._failure
        if self._is_closed or self._ended.is_set():
            raise anyio.ClosedResourceError
        await anyio.lowlevel.checkpoint_if_cancelled()

    async def _handle(self, item: _Batch | _Call[object]) -> None:
        if isinstance(item, _Batch):
            await self._in_thread(lambda: self._commit(item), item)
        else:
            await self._in_thread(lambda: _work(item), item)

    async def _in_thread(self, work: Callable[[], None], item: _Waiting) -> None:
        try:
            if self._failure is None:
                await anyio.to_thread.run_sync(work)
        except LedgerError as error:
            self._failure = error
        except Exception as error:
            # A bug in the store must not leave the waiters asleep.
            self._failure = StoreError(
                "the writer failed",
                expected="an append, or a refusal in its own words",
                found=repr(error),
                todo="run the same command again; report it if it comes back",
            )
            self._failure.__cause__ = error
        item.error = self._failure
        item.done.set()

    def _commit(self, batch: _Batch) -> None:
        events = self._with_artifacts(batch.drafts)
        batch.outcomes = self._log.append_many(events, actor=self._actor)

    def _with_artifacts(self, drafts: Sequence[Draft]) -> list[Event]:
        contents: list[bytes] = []
        events = [self._complete(draft, contents) for draft in drafts]
        if contents:
            self._blobs.put_many(contents)
        return events

    def _complete(self, draft: Draft, contents: list[bytes]) -> Event:
        """Returns an event that names its artifacts, sealed where it has to be; adds the bytes."""
        event = draft.event
        if draft.artifacts:
            assert isinstance(event, (Decision, AttemptEnd)), "other events have no artifacts"
            named = {name: blob_of(data) for name, data in sorted(draft.artifacts.items())}
            event = msgspec.structs.replace(event, artifacts=named)
            contents += draft.artifacts.values()
        if self._seal is not None and isinstance(event, (Decision, AttemptEnd)):
            sealed = self._seal(event)
            contents.append(sealed.content)
            return sealed.event
        return event


def _work(item: _Call[object]) -> None:
    """Does a call's work; its own error is its caller's, that of the medium everyone's."""
    try:
        item.results.append(item.work())
    except Exception as error:
        if isinstance(error, StoreError) and not isinstance(error, (ConflictError, IntegrityError)):
            raise
        item.raised.append(error)
