"""Durable appends: many producers and one, against a commit an event, a raw sync and a peer.

    python -m benchmarks.append [--quick] [--events 20000] [--entries 600000] [--rounds 5]

A1 to A3 go through the engine's writer, which commits together what waits; A4 through the log in
batches; A5 asks whether an append costs more CPU the more entries stand before it. What the format
costs by itself is printed beside: ready rows into the same schema. A4 is printed twice, by clock
and in CPU time: a busy disk favours whoever syncs less, an idle one whoever computes less.
"""

from __future__ import annotations

import os
import shutil
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cache
from itertools import count
from pathlib import Path

import anyio
import msgspec
import sqlite_utils

from benchmarks.building import Plan, begin, build, outcome
from benchmarks.measuring import is_quick, option, rounds, say, say_machine
from fairtrial.engine.writer import Writer
from fairtrial.ledger.errors import LedgerError
from fairtrial.ledger.log import Log
from fairtrial.ledger.merkle import leaf_hash
from fairtrial.ledger.opening import blob_store, open_store
from fairtrial.ledger.sqlite_connection import connect
from fairtrial.ledger.sqlite_schema import SCHEMA

EVENTS = option("events", 2_000 if is_quick() else 20_000)
# So many that beginning the ledger, which is counted with them, weighs little.
SINGLE = min(EVENTS, 200 if is_quick() else 5_000)
PRODUCERS = 20
ROUNDS = option("rounds", 3 if is_quick() else 5)
LARGE = option("entries", 20_000 if is_quick() else 120_000)
ENTRY_BYTES = 670
MORE = min(EVENTS, 2_000)


def append_batches(path: Path, *, events: int, batch: int) -> None:
    """Appends outcomes through the whole log: rules, hashes, chain, sync."""
    log = begin(path, Plan(events))
    append_to(log, 1, events, batch)
    log.close()


def append_to(log: Log, first: int, last: int, batch: int) -> None:
    """Appends the outcomes of these slots in batches."""
    for start in range(first, last + 1, batch):
        requests = [outcome(place) for place in range(start, min(start + batch, last + 1))]
        for done in log.append_many(requests, actor="bench"):
            assert not isinstance(done, LedgerError), done


def append_by(producers: int, path: Path, *, events: int) -> None:
    """Appends by several tasks through one writer; each goes on when its event is durable."""
    log = begin(path, Plan(events))

    async def produce(writer: Writer, places: range) -> None:
        for place in places:
            await writer.append(outcome(place))

    async def work() -> None:
        writer = Writer(log, blob_store(path), actor="bench")
        async with anyio.create_task_group() as all_tasks:
            all_tasks.start_soon(writer.run)
            async with anyio.create_task_group() as tasks:
                for number in range(1, producers + 1):
                    tasks.start_soon(produce, writer, range(number, events + 1, producers))
            await writer.aclose()

    anyio.run(work)
    log.close()


def sqlite_utils_all(path: Path, *, events: int, batch: int) -> None:
    """Inserts rows of the same size with sqlite-utils, synced, no hash and no rule."""
    database = sqlite_utils.Database(path)
    database.execute("PRAGMA synchronous=FULL")
    body = "x" * ENTRY_BYTES
    for start in range(0, events, batch):
        rows = [{"seq": start + i, "leaf": "0" * 64, "entry": body} for i in range(batch)]
        database["entry"].insert_all(rows, pk="seq", batch_size=batch)
    database.close()


def sqlite_utils_dicts(path: Path, *, events: int, batch: int) -> None:
    """Inserts the same outcomes with sqlite-utils as the dicts that a program has of them."""
    database = sqlite_utils.Database(path)
    database.execute("PRAGMA synchronous=FULL")
    for start in range(1, events + 1, batch):
        places = range(start, min(start + batch, events + 1))
        rows = [msgspec.to_builtins(outcome(place)) for place in places]
        database["outcome"].insert_all(rows, pk="position", batch_size=batch)
    database.close()


@cache
def ready_rows(events: int) -> list[tuple[int, bytes, str]]:
    """Returns the rows of a ledger with so many outcomes."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "ready.jsonl")
        build(path, events)
        entries = list(open_store(path, read_only=True).read())
    return [(seq, leaf_hash(data), data.decode()) for seq, data in enumerate(entries)]


def lean_all(path: Path, *, events: int, batch: int) -> None:
    """Inserts ready rows into the schema of a ledger: what its index and triggers cost alone."""
    rows = ready_rows(events)
    connection = connect(path, "rwc")
    for statement in SCHEMA:
        connection.execute(statement)
    for start in range(0, len(rows), batch):
        connection.execute("BEGIN IMMEDIATE")
        connection.executemany(
            "INSERT INTO entry (seq,leaf,entry) VALUES (?,?,?)", rows[start : start + batch]
        )
        connection.execute("COMMIT")
    connection.close()


def raw_all(path: Path, *, events: int, batch: int) -> None:
    """Writes as many bytes to a file and syncs each batch: the limit of the medium."""
    with path.open("ab", buffering=0) as file:
        for _ in range(0, events, batch):
            file.write(b"x" * ENTRY_BYTES * batch)
            os.fdatasync(file.fileno()) if hasattr(os, "fdatasync") else os.fsync(file.fileno())


def compare(name: str, new: Callable[[], Path]) -> None:
    """Prints A1 to A4 of one store; `new` gives a path that is free."""
    grouped, alone, raw, one = rounds(
        lambda: append_by(PRODUCERS, new(), events=SINGLE),
        lambda: append_batches(new(), events=SINGLE, batch=1),
        lambda: raw_all(new(), events=SINGLE, batch=1),
        lambda: append_by(1, new(), events=SINGLE),
        count=ROUNDS,
    )
    say(f"A1 {name}, {PRODUCERS} producers, against a commit an event", grouped, alone, goal="8")
    say(f"A2 {name}, {PRODUCERS} producers, against raw write + sync", grouped, raw, goal="3")
    say(f"A3 {name}, 1 producer, against raw write + sync", one, raw, goal="0.4")
    works = [
        lambda: append_batches(new(), events=EVENTS, batch=100),
        lambda: sqlite_utils_dicts(new().with_suffix(".db"), events=EVENTS, batch=100),
        lambda: sqlite_utils_all(new().with_suffix(".db"), events=EVENTS, batch=100),
        lambda: raw_all(new(), events=EVENTS, batch=100),
    ]
    if new().suffix == ".db":
        ready_rows(EVENTS)
        works.append(lambda: lean_all(new(), events=EVENTS, batch=100))
    for clock, how in ((time.perf_counter, ""), (time.process_time, " (CPU)")):
        ours, dicts, utils, limit, *lean = rounds(*works, count=ROUNDS, clock=clock)
        what = f"A4 {name}, 100 a commit, against"
        say(f"{what} insert_all of outcomes{how}", ours, dicts, goal="2")
        say(f"{what} insert_all of ready text{how}", ours, utils, goal="2")
        say(f"{what} raw write + sync{how}", ours, limit, goal="limit: 1")
        for bare in lean:
            say(f"{what} ready rows, our schema{how}", ours, bare, goal="limit: 1")
            say(f"   ready rows, our schema, against ready text{how}", bare, utils, goal="-")


@contextmanager
def grown(path: Path, entries: int) -> Iterator[Callable[[], None]]:
    """Yields a function that appends the next outcomes to a ledger that holds `entries` of them."""
    slots = entries + MORE * ROUNDS
    build(path, entries, slots=slots)
    plan = Plan(slots)
    log = Log(open_store(path), plan_of=lambda _: plan)
    firsts = count(entries + 1, MORE)

    def more() -> None:
        first = next(firsts)
        append_to(log, first, first + MORE - 1, 100)

    # The first append reads what stands there before.
    log.append(outcome(entries), actor="bench")
    yield more
    log.close()


def compare_growth(name: str, new: Callable[[], Path]) -> None:
    """Prints A5 of one store."""
    with grown(new(), LARGE) as late, grown(new(), LARGE // 6) as early:
        many, few = rounds(late, early, count=ROUNDS, clock=time.process_time)
    what = f"A5 {name}, CPU an event at {LARGE:,} entries over {LARGE // 6:,}"
    sys.stdout.write(f"{what:<62} {many / few:8.2f} x   (goal 1.2 at most)\n")


def main() -> None:
    """Prints the ratios."""
    say_machine()
    for suffix, name in ((".jsonl", "JSONL"), (".db", "SQLite")):
        folder = Path(tempfile.mkdtemp())
        numbers = count()

        def new(folder: Path = folder, numbers: Iterator[int] = numbers, end: str = suffix) -> Path:
            return folder / f"{next(numbers)}{end}"

        try:
            compare(name, new)
            compare_growth(name, new)
        finally:
            shutil.rmtree(folder)


if __name__ == "__main__":
    main()
