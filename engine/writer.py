"""Group commit: many tasks append, one thread commits, and an append returns when it is durable.

Leaves rules and bytes to the log; artifacts of a batch are stored with it, before the entries.

Rules:
- A batch is what has arrived within 5 ms, at most 100 events.
- A commit is shielded from cancellation: a cancelled task must not cancel what others wait for.
- An event that is refused fails its own task alone. An error of the medium ends the writer and
  every
  task that waits.
- Closing waits for what was handed in.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TypeAlias

import anyio
from anyio.streams.memory import MemoryObjectReceiveStream, MemoryObjectSendStream

from fairtrial.ledger.errors import LedgerError, StoreError
from fairtrial.ledger.events import Blob, Event
from fairtrial.ledger.log import Appended
from fairtrial.ledger.state import State

from .trial import Trial

__all__ = ("BATCH_MAX", "BATCH_SECONDS", "Make", "Writer")

BATCH_MAX = 100
BATCH_SECONDS = 0.005

# Makes an event from the state under the append lock and the references of its stored artifacts.
Make: TypeAlias = Callable[[State, dict[str, Blob]], Event]


@dataclass(slots=True, eq=False)
class _Request:
    """One event on its way: how to make it, what to store with it, and what became of it."""

    make: Make
    artifacts: Mapping[str, bytes]
    done: anyio.Event = field(default_factory=anyio.Event)
    outcome: Appended | LedgerError | None = None


class Writer:
    """Appends for many tasks through one thread.

    Args:
        trial: The ledger; nothing else may append through it while the writer runs, but for acts
            in a thread while no request is on its way.
    """

    def __init__(self, trial: Trial) -> None:
        self._trial = trial
        self._send: MemoryObjectSendStream[_Request]
        self._receive: MemoryObjectReceiveStream[_Request]
        self._send, self._receive = anyio.create_memory_object_stream[_Request](BATCH_MAX * 4)
        self._error: StoreError | None = None

    async def append(self, make: Make, artifacts: Mapping[str, bytes] | None = None) -> Appended:
        """Appends one event; returns when it is durable.

        Raises:
            LedgerError: The event was refused; the ledger is as it was.
            StoreError: The medium failed.
        """
        request = _Request(make, artifacts or {})
        if self._error is not None:
            raise self._error
        await self._send.send(request)
        await request.done.wait()
        if isinstance(request.outcome, LedgerError):
            raise request.outcome
        assert request.outcome is not None, "a request is done when it has an outcome"
        return request.outcome

    def close(self) -> None:
        """Takes no further event; `run` ends when what was handed in is stored."""
        self._send.close()

    async def run(self) -> None:
        """Commits batches until `close`."""
        async with self._receive:
            async for first in self._receive:
                batch = [first]
                with anyio.move_on_after(BATCH_SECONDS):
                    while len(batch) < BATCH_MAX:
                        batch.append(await self._receive.receive())
                        # Closing while a batch fills ends the loop after this batch.
                await self._commit(batch)

    async def _commit(self, batch: list[_Request]) -> None:
        with anyio.CancelScope(shield=True):
            if self._error is None:
                try:
                    await anyio.to_thread.run_sync(self._store, batch)
                except StoreError as error:
                    self._error = error
        for request in batch:
            if request.outcome is None:
                request.outcome = self._error
            request.done.set()

    def _store(self, batch: list[_Request]) -> None:
        """Stores artifacts, then entries; runs in a thread."""
        contents = [data for request in batch for data in request.artifacts.values()]
        blobs = iter(self._trial.blobs.put_many(contents) if contents else [])
        makes = [
            _bound(request.make, {name: next(blobs) for name in request.artifacts})
            for request in batch
        ]
        outcomes = self._trial.log.append_many(makes, actor=self._trial.actor)
        for request, outcome in zip(batch, outcomes, strict=True):
            request.outcome = outcome


def _bound(make: Make, artifacts: dict[str, Blob]) -> Callable[[State], Event]:
    return lambda state: make(state, artifacts)
