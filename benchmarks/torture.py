"""Kills and failing system calls: what is left of a ledger, and what was acknowledged.

    python -P benchmarks/torture.py kills  [--points N] [--store db|jsonl] [--seed N]
    python -P benchmarks/torture.py faults [--every N] [--store db|jsonl] [--seed N]

`faults` needs strace and the right to use it.

`kills` ends a light writer with SIGKILL at random moments, again and again on the same ledgers.
`faults` first records the system calls of one append and of one recovery, then lets each of them in
turn fail with EIO, or be the last (SIGKILL). After every point it must hold, without any repair by
hand, that each acknowledged event stands once, at its place; that entries are one chain; that what
was not acknowledged is whole or absent; and that the same append done again adds what is missing
and nothing twice. Figures are one line of JSON; a broken promise is exit code 1.

A kill loses no page cache: what a power cut loses is not tried here.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import re
import select
import shutil
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import NamedTuple

from fairtrial.ledger.canonical import encode_event, event_id
from fairtrial.ledger.entry import FIRST_PREV, build_entry, check_entry, parse_entry
from fairtrial.ledger.errors import LedgerError
from fairtrial.ledger.events import Decision
from fairtrial.ledger.merkle import leaf_hash
from fairtrial.ledger.opening import open_store, side_folder
from fairtrial.ledger.port import LogStore

LEDGER = "0123456789abcdef0123456789abcdef"
STORES = ("db", "jsonl")
_STARTS_MAX = 5
POINTS_PER_LEDGER = 200
KNOWN, FRESH = 5, 3
# Calls that no file is behind: an error there tests the interpreter, not the store.
NOT_FILES = re.compile(
    r"mmap|munmap|mprotect|madvise|brk|futex|rt_sig.*|exit.*|get.*|clock.*|wait4"
)


class BrokenError(Exception):
    """A promise that didn't hold."""


def event_at(position: int) -> bytes:
    """Returns the event of a position: small, but for one in forty, which is near the limit."""
    size = 40_000 if position % 40 == 0 else 200
    event = Decision(
        experiment="exp-1",
        position=position,
        session=1,
        attempt=1,
        arm="control",
        unit=f"u{position}",
        replicate=1,
        status="ok",
        tokens={f"{n:06d}".ljust(150, "x"): 1 for n in range(size // 160)},
        origin="live",
    )
    return encode_event(event)


def is_stored(store: LogStore, position: int) -> bool:
    """Returns whether the slot of a position is filled."""
    return store.find("exp-1", position, "decision", 0) is not None


def append_missing(store: LogStore, positions: Sequence[int]) -> int:
    """Appends the events of those positions whose slots are free; returns how many that were."""
    with store.writer() as writer:
        entries: list[bytes] = []
        leaves: list[bytes] = []
        prev = writer.tail.leaf
        missing = [position for position in positions if not is_stored(store, position)]
        for seq, position in enumerate(missing, writer.tail.size):
            event = event_at(position)
            entry = build_entry(
                event,
                ledger=LEDGER,
                seq=seq,
                prev=prev,
                time="2026-12-01T08:00:00.000000Z",
                actor="torture",
                id=event_id(event),
            )
            prev = leaf_hash(entry)
            entries.append(entry)
            leaves.append(prev)
        if entries:
            writer.write(entries, leaves)
    return len(entries)


def opened(ledger: Path) -> LogStore:
    """Opens a ledger as a run does: torn bytes are set aside first."""
    store = open_store(ledger)
    store.recover(side_folder(ledger) / "quarantine")
    return store


def positions_of(ledger: Path) -> list[int]:
    """Returns the positions of all entries, each entry checked against the one before.

    Raises:
        BrokenError: The entries are not one chain.
    """
    store = open_store(ledger, read_only=True)
    try:
        prev, name, found = FIRST_PREV, None, []
        for seq, data in enumerate(store.read()):
            entry = parse_entry(data)
            check_entry(entry, ledger=name, seq=seq, prev=prev)
            prev, name = entry.leaf(), entry.ledger
            found.append(int(json.loads(entry.event)["position"]))
        said = list(store.check())
    except LedgerError as error:
        raise BrokenError(f"not one chain: {error}") from error
    finally:
        store.close()
    if said:
        raise BrokenError(f"the store complains: {said[0]}")
    return found


def forked(work: Callable[[], None]) -> int:
    """Runs something in a child process of its own; returns the child's id."""
    child = os.fork()
    if child:
        return child
    code = 1
    try:
        work()
        code = 0
    finally:
        os._exit(code)


def write_on(ledger: Path, first: int, acks: int, seed: str) -> None:
    """Appends batches from a position on, for ever; acknowledges each on a pipe."""
    draw = random.Random(seed)
    store = opened(ledger)
    while True:
        count = draw.choice((1, 1, 1, 2, 5, 20))
        append_missing(store, range(first, first + count))
        first += count
        os.write(acks, b"%d\n" % (first - 1))


def killed_writer(ledger: Path, first: int, seed: str) -> int:
    """Lets a writer work for a random moment and kills it; returns the last position it acked."""
    draw = random.Random(seed)
    reading, acks = os.pipe()
    child = forked(lambda: write_on(ledger, first, acks, seed))
    os.close(acks)
    if draw.random() < 0.9:
        # Mostly in the midst of work; the other tenth may hit opening and recovery.
        select.select([reading], [], [], 30)
    time.sleep(draw.expovariate(200))
    os.kill(child, signal.SIGKILL)
    os.waitpid(child, 0)
    with open(reading, "rb") as pipe:
        lines = pipe.read().split(b"\n")[:-1]
    return int(lines[-1]) if lines else first - 1


def kill_points(store: str, points: int, seed: int, folder: Path) -> dict[str, object]:
    """Kills writers and checks after each; returns the figures.

    Raises:
        BrokenError: An acknowledged event was lost or stands twice, or a ledger needs repair.
    """
    began, counts = time.monotonic(), Counter[str]()
    for first_point in range(0, points, POINTS_PER_LEDGER):
        ledger = folder / f"{first_point}.{store}"
        open_store(ledger, create=True).close()
        acked = 0
        for point in range(first_point, min(points, first_point + POINTS_PER_LEDGER)):
            before = acked
            acked = killed_writer(ledger, acked + 1, f"{seed}/{store}/{point}")
            counts["acked"] += acked - before
            stored = settled(ledger, counts)
            if stored != list(range(1, len(stored) + 1)) or len(stored) < acked:
                raise BrokenError(
                    f"point {point} of seed {seed}: {acked} acked, stored {stored[-5:]}"
                )
            counts["durable_without_ack"] += len(stored) - acked
            acked = len(stored)
        ledger.unlink()
        shutil.rmtree(side_folder(ledger))
    return {
        "what": "kills",
        "store": store,
        "points": points,
        "seed": seed,
        **counts,
        "lost": 0,
        "doubled": 0,
        "repaired_by_hand": 0,
        "seconds": round(time.monotonic() - began, 1),
    }


def settled(ledger: Path, counts: Counter[str]) -> list[int]:
    """Opens a ledger as the next run does, and returns its positions."""
    journal = ledger.with_name(ledger.name + "-journal")
    counts["half_committed"] += journal.exists() and journal.stat().st_size > 0
    store = open_store(ledger)
    counts["torn"] += store.recover(side_folder(ledger) / "quarantine") is not None
    store.close()
    return positions_of(ledger)


class Call(NamedTuple):
    """One system call of an act: its name and which of this name it is, from 1."""

    name: str
    number: int


def traced(
    work: Callable[[int, int], None], options: Sequence[str], out: Path
) -> tuple[bytes, list[str]]:
    """Returns what work in a child under strace said, and the trace; it gets two pipes' ends.

    Raises:
        BrokenError: Again and again the child is gone before it begins.
    """
    for _ in range(_STARTS_MAX):
        found = _traced_once(work, options, out)
        if found is not None:
            return found
    raise BrokenError(f"the child doesn't live to its start: {' '.join(options)}")


def _traced_once(
    work: Callable[[int, int], None], options: Sequence[str], out: Path
) -> tuple[bytes, list[str]] | None:
    """Returns what `traced` does; None where the fault met the call that waits for the start.

    A tracer that comes may interrupt that call; begun again, it counts twice.
    """
    has_begun = True
    go_reading, go = os.pipe()
    reading, said = os.pipe()
    child = forked(lambda: work(go_reading, said))
    wait_at_pipe(child, go_reading)
    os.close(go_reading)
    os.close(said)
    command = ["strace", "-f", "-o", str(out), *options, "-p", str(child)]
    with subprocess.Popen(command, stderr=subprocess.PIPE) as tracer:
        assert tracer.stderr is not None
        line = tracer.stderr.readline()
        if b"attached" not in line:
            os.kill(child, signal.SIGKILL)
            raise BrokenError(f"strace can't attach: {line.decode()}")
        try:
            os.write(go, b"g")
        except BrokenPipeError:
            has_begun = False
        tracer.communicate()
    os.waitpid(child, 0)
    os.close(go)
    with open(reading, "rb") as pipe:
        said_by_child = pipe.read()
    return (said_by_child, out.read_text(errors="replace").splitlines()) if has_begun else None


def wait_at_pipe(child: int, pipe: int) -> None:
    """Waits until a child waits for a pipe: a tracer that comes earlier counts its way there too.

    Raises:
        BrokenError: A minute passed.
    """
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline:
        # The number of a call, then its arguments, the descriptor first; or `running`.
        words = Path(f"/proc/{child}/syscall").read_text().split()
        if len(words) > 1 and words[1] == hex(pipe):
            return
        time.sleep(0.001)
    raise BrokenError("the child doesn't come to its start")


def append_when_told(ledger: Path, go: int, said: int) -> None:
    """Waits for one byte, appends, says `ack` or the class of the error."""
    os.read(go, 1)
    try:
        store = opened(ledger)
        append_missing(store, range(KNOWN + 1, KNOWN + FRESH + 1))
        os.write(said, b"ack")
    except Exception as error:  # the class is what is reported
        os.write(said, type(error).__name__.encode())


def calls_in(trace: Sequence[str]) -> Iterator[Call]:
    """Yields the calls of a trace but the first, which waits for the start."""
    counts = Counter[str]()
    for index, line in enumerate(trace):
        match = re.match(r"\d+ +(\w+)\(", line)
        if match is not None:
            counts[match[1]] += 1
            if index:
                yield Call(match[1], counts[match[1]])


def fault_points(store: str, folder: Path, every: int, seed: int) -> dict[str, object]:
    """Lets every call of one append and of one recovery fail; returns the figures.

    Raises:
        BrokenError: A promise didn't hold.
    """
    began, counts = time.monotonic(), Counter[str]()
    errors = Counter[str]()
    ledger, trace = folder / f"ledger.{store}", folder / "trace"
    for act, start in (("append", whole_start), ("recovery", broken_start)):
        honest = folder / act
        honest.mkdir()
        start(honest / ledger.name)
        put_back(honest, ledger)
        said, lines = traced(partial(append_when_told, ledger), (), trace)
        if said != b"ack":
            raise BrokenError(f"the {act} without a fault says {said!r}")
        calls = list(dict.fromkeys(calls_in(lines)))
        for call in calls[seed % every :: every]:
            for fault in ("error=EIO", "signal=KILL"):
                if fault == "error=EIO" and NOT_FILES.fullmatch(call.name):
                    continue
                put_back(honest, ledger)
                inject = f"inject={call.name}:{fault}:when={call.number}"
                options = ("-e", f"trace={call.name}", "-e", inject)
                said, _ = traced(partial(append_when_told, ledger), options, trace)
                check_fault(ledger, said, f"{act}: {call} {fault}")
                counts[f"{act}_{fault.partition('=')[2]}"] += 1
                errors[said.decode() or "killed"] += 1
    return {
        "what": "faults",
        "store": store,
        "every": every,
        "seed": seed,
        **counts,
        "endings": dict(errors),
        "seconds": round(time.monotonic() - began, 1),
    }


def whole_start(ledger: Path) -> None:
    """Makes a ledger with a few entries."""
    open_store(ledger, create=True).close()
    store = opened(ledger)
    append_missing(store, range(1, KNOWN + 1))
    store.close()


def broken_start(ledger: Path) -> None:
    """Makes a ledger that a crash left: a torn line, or a commit that was killed half-way."""
    whole_start(ledger)
    if ledger.suffix == ".jsonl":
        with ledger.open("ab") as file:
            file.write(b'{"v":1,"ledger":"0123')
        return
    trace = ledger.with_name("trace")
    inject = ("-e", "trace=pwrite64", "-e", "inject=pwrite64:signal=KILL:when=7")
    traced(partial(append_when_told, ledger), inject, trace)
    trace.unlink()
    journal = ledger.with_name(ledger.name + "-journal")
    if not (journal.exists() and journal.stat().st_size):
        raise BrokenError("the killed commit left no journal")


def put_back(honest: Path, ledger: Path) -> None:
    """Puts a copy of the start in the ledger's place."""
    for path in (ledger, ledger.with_name(ledger.name + "-journal")):
        path.unlink(missing_ok=True)
    shutil.rmtree(side_folder(ledger), ignore_errors=True)
    shutil.copytree(honest, ledger.parent, dirs_exist_ok=True)


def check_fault(ledger: Path, said: bytes, what: str) -> None:
    """Checks a ledger after a fault, then does the append again and checks what that adds."""
    opened(ledger).close()
    stored = positions_of(ledger)
    known, every = list(range(1, KNOWN + 1)), list(range(1, KNOWN + FRESH + 1))
    whole = stored in (known, every) or (
        ledger.suffix == ".jsonl" and stored == every[: len(stored)]
    )
    if not whole or (said == b"ack" and stored != every) or stored[:KNOWN] != known:
        raise BrokenError(f"{what}: {said!r}, stored {stored}")
    store = opened(ledger)
    append_missing(store, every)
    store.close()
    if positions_of(ledger) != every:
        raise BrokenError(f"{what}: done again, stored {positions_of(ledger)}")


def parser_of(doc: str | None) -> argparse.ArgumentParser:
    """Returns the options that every program of this kind has."""
    parser = argparse.ArgumentParser(description=(doc or "").partition("\n")[0])
    parser.add_argument("--store", choices=STORES, action="append")
    parser.add_argument("--every", type=int, default=1, help="take each N-th system call alone")
    parser.add_argument("--seed", type=int, default=random.randrange(2**32))
    return parser


def main() -> int:
    """Carries out the command line; returns the exit code."""
    parser = parser_of(__doc__)
    parser.add_argument("what", choices=("kills", "faults"))
    parser.add_argument("--points", type=int, default=5_000, help="kills in each store")
    given = parser.parse_args()

    def work(store: str, folder: Path) -> dict[str, object]:
        if given.what == "kills":
            return kill_points(store, given.points, given.seed, folder)
        return fault_points(store, folder, given.every, given.seed)

    return on_each(given.store or STORES, work)


def on_each(stores: Sequence[str], work: Callable[[str, Path], dict[str, object]]) -> int:
    """Prints the figures of each store, made in a folder of its own; returns the exit code."""
    for store in stores:
        with TemporaryDirectory(prefix="fairtrial-torture-") as folder:
            try:
                figures = work(store, Path(folder))
            except BrokenError as error:
                sys.stderr.write(f"BROKEN in {store}: {error}\n")
                return 1
        sys.stdout.write(json.dumps(figures) + "\n")
        sys.stdout.flush()
    return 0


if __name__ == "__main__":
    sys.exit(main())
