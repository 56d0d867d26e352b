"""One writer for many tasks: what is together, what is apart, and what survives."""

from __future__ import annotations

import threading
from collections.abc import Sequence

import anyio
import pytest

from fairtrial.engine.writer import BATCH_MAX, Draft, Writer
from fairtrial.ledger.blobs import MemoryBlobs
from fairtrial.ledger.errors import LedgerError, StoreError, TransitionError
from fairtrial.ledger.events import AttemptEnd, Event, Withdraw
from fairtrial.ledger.log import Appended


class Log:
    """Keeps batches; refuses what is called `refused`; can be held up and can break."""

    def __init__(self) -> None:
        self.batches: list[list[Event]] = []
        self.go = threading.Event()
        self.go.set()
        self.is_broken = False
        self.threads: set[int] = set()

    def append_many(self, requests: Sequence[Event], *, actor: str) -> list[Appended | LedgerError]:
        """Keeps a batch."""
        assert "tester" == actor
        assert self.go.wait(20)
        self.threads.add(threading.get_ident())
        if self.is_broken:
            raise StoreError("the medium is gone")
        self.batches.append(list(requests))
        return [
            TransitionError("refused")
            if event.experiment == "refused"
            else Appended(len(self.batches), b"", True, event)
            for event in requests
        ]


def _event(name: str) -> Event:
    return Withdraw(experiment=name, reason="r")


def _names(log: Log) -> list[list[str]]:
    return [[event.experiment for event in batch] for batch in log.batches]


async def _until_queued(writer: Writer, count: int) -> None:
    with anyio.fail_after(20):
        while writer.queued < count:
            await anyio.sleep(0.001)


def test_what_gathers_during_a_commit_is_committed_together() -> None:
    """While one batch is under way the next one gathers; each caller gets its own place."""
    log = Log()
    log.go.clear()
    places: dict[str, int] = {}

    async def main() -> None:
        writer = Writer(log, MemoryBlobs(), actor="tester")

        async def put(name: str) -> None:
            places[name] = (await writer.append(_event(name))).seq

        async with anyio.create_task_group() as group:
            group.start_soon(writer.run)
            async with anyio.create_task_group() as callers:
                callers.start_soon(put, "first")
                while writer.queued or "first" in places:
                    await anyio.sleep(0.001)
                await anyio.sleep(0.01)
                for number in range(BATCH_MAX + 1):
                    callers.start_soon(put, f"n{number}")
                await _until_queued(writer, BATCH_MAX + 1)
                log.go.set()
            await writer.aclose()

    anyio.run(main)
    assert [1, BATCH_MAX, 1] == [len(batch) for batch in log.batches]
    assert {1: 1, 2: BATCH_MAX, 3: 1} == {
        place: list(places.values()).count(place) for place in (1, 2, 3)
    }


def test_refused_event_fails_its_caller_alone() -> None:
    """Others of the same batch stand."""
    log, found = Log(), []

    async def main() -> None:
        writer = Writer(log, MemoryBlobs(), actor="tester")
        async with anyio.create_task_group() as group:
            group.start_soon(writer.run)
            with pytest.raises(TransitionError):
                await writer.append_all([Draft(_event("a")), Draft(_event("refused"))])
            with pytest.raises(TransitionError):
                await writer.append(_event("refused"))
            found.append((await writer.append(_event("b"))).seq)
            await writer.aclose()

    anyio.run(main)
    assert ([["a", "refused"], ["refused"], ["b"]], [3]) == (_names(log), found)


def test_broken_medium_ends_the_writer_for_everyone() -> None:
    """Who waits and who comes later get the error; nobody is left asleep."""
    log = Log()
    log.is_broken = True
    log.go.clear()
    errors: list[str] = []

    async def main() -> None:
        writer = Writer(log, MemoryBlobs(), actor="tester")

        async def put(name: str) -> None:
            try:
                await writer.append(_event(name))
            except StoreError:
                errors.append(name)

        async with anyio.create_task_group() as group:
            group.start_soon(writer.run)
            async with anyio.create_task_group() as callers:
                callers.start_soon(put, "a")
                await anyio.sleep(0.01)
                callers.start_soon(put, "b")
                await _until_queued(writer, 1)
                log.go.set()
            await put("late")
            with pytest.raises(StoreError):
                await writer.call(lambda: 1)
            await writer.aclose()

    anyio.run(main)
    assert ["a", "b", "late"] == errors
    assert [] == log.batches


def test_cancelled_caller_takes_nothing_back() -> None:
    """A cancellation reaches the caller, not the commit that its event is in."""
    log = Log()
    log.go.clear()

    async def main() -> None:
        writer = Writer(log, MemoryBlobs(), actor="tester")
        async with anyio.create_task_group() as group:
            group.start_soon(writer.run)
            async with anyio.create_task_group() as callers:
                callers.start_soon(writer.append, _event("a"))
                callers.start_soon(writer.append, _event("b"))
                await anyio.sleep(0.01)
                callers.cancel_scope.cancel()
            log.go.set()
            await writer.append(_event("c"))
            await writer.aclose()

    anyio.run(main)
    assert ["a", "b", "c"] == sorted(name for batch in _names(log) for name in batch)


def test_cancelled_run_stores_what_was_queued() -> None:
    """Cancelling everything leaves the writer until it is closed; nothing queued is dropped."""
    log = Log()

    async def main() -> None:
        writer = Writer(log, MemoryBlobs(), actor="tester")
        async with anyio.create_task_group() as group:
            group.start_soon(writer.run)
            group.cancel_scope.cancel()
            try:
                await anyio.sleep(1)
            finally:
                with anyio.CancelScope(shield=True):
                    await writer.append(_event("last word"))
                    await writer.aclose()

    anyio.run(main)
    assert [["last word"]] == _names(log)


def test_artifacts_of_a_batch_are_stored_before_it() -> None:
    """Contents become references of their own event, whatever else is in the batch."""
    log, blobs = Log(), MemoryBlobs()

    def end(number: int) -> AttemptEnd:
        return AttemptEnd(experiment="e", position=1, number=number, session=1, status="error")

    async def main() -> None:
        writer = Writer(log, blobs, actor="tester")
        async with anyio.create_task_group() as group:
            group.start_soon(writer.run)
            await writer.append_all(
                [
                    Draft(end(1), {"b": b"1b", "a": b"1a"}),
                    Draft(end(2)),
                    Draft(end(3), {"a": b"3a"}),
                ]
            )
            await writer.aclose()

    anyio.run(main)
    kept = [
        {name: blobs.get(blob) for name, blob in event.artifacts.items()}
        for event in log.batches[0]
        if isinstance(event, AttemptEnd)
    ]
    assert [{"a": b"1a", "b": b"1b"}, {}, {"a": b"3a"}] == kept


def test_other_work_has_its_turn_between_commits() -> None:
    """A call runs in order with the events around it; its error is its caller's alone."""
    log, seen = Log(), []

    async def main() -> None:
        writer = Writer(log, MemoryBlobs(), actor="tester")
        async with anyio.create_task_group() as group:
            group.start_soon(writer.run)
            async with anyio.create_task_group() as callers:
                callers.start_soon(writer.append, _event("a"))
                callers.start_soon(writer.call, lambda: seen.append(_names(log)))
                callers.start_soon(writer.append, _event("b"))
            with pytest.raises(ZeroDivisionError):
                await writer.call(lambda: 1 // 0)
            assert 5 == await writer.call(lambda: 5)
            await writer.aclose()

    anyio.run(main)
    assert [[["a"]]] == seen
    assert [["a"], ["b"]] == _names(log)
