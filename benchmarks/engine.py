"""A whole run: against bare asyncio, the bound of a schedule, a fresh run, and Inspect AI.

    python -m benchmarks.engine [--quick] [--slots 5000] [--rounds 5]

Both arms are a function in this process, on a real ledger: an attempt is two durable events. E1 and
E2 need `inspect-ai`, which is no dependency: what isn't installed is said to be not measured.
Install it into an environment of its own that has Fairtrial too. Sleeping runs are timed by the
entries, from the first attempt on record to the last outcome; `whole run` has checks and the look.
"""

from __future__ import annotations

import asyncio
import heapq
import math
import os
import random
import sys
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from datetime import datetime
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from statistics import NormalDist, median
from typing import Any

import anyio
import anyio.lowlevel

from benchmarks.experiments import (
    AT_ONCE,
    SLEEPING,
    copied,
    freeze,
    in_order,
    new,
    remember_in,
    root,
    run,
    units_of,
)
from benchmarks.measuring import (
    is_quick,
    option,
    peak_bytes,
    rounds,
    say,
    say_machine,
    say_peak,
)
from benchmarks.start import started_seconds
from fairtrial.custody.trial import Trial, open_trial
from fairtrial.drivers.answer import Answer
from fairtrial.drivers.port import Job
from fairtrial.engine import session
from fairtrial.engine.executor import Executor, Progress
from fairtrial.ledger.entry import Entry
from fairtrial.ledger.events import Event, Start, event_kind
from fairtrial.ledger.fold import apply
from fairtrial.ledger.log import Appended

SLOTS = option("slots", 400 if is_quick() else 5_000)
ROUNDS = option("rounds", 1 if is_quick() else 5)
SLEEPERS = min(SLOTS, 160)
SLEEP = option("sleep-ms", 10 if is_quick() else 100) / 1000
CAP = 20
CAPS = (1, 4, CAP)
STORES = ((".jsonl", "JSONL"), (".db", "SQLite"))
ME = "benchmarks.engine"
ANSWER = Answer(status="ok", scores={"passed": 1.0}, cost_nanousd=100_000)
NOW = "2026-11-30T00:00:00.000000Z"


def say_most(what: str, ratio: float, goal: str) -> None:
    """Prints a ratio that ought to be small."""
    asked = goal if goal == "-" else f"{goal} at most"
    sys.stdout.write(f"{what:<62} {ratio:8.2f} x   (goal {asked})\n")
    sys.stdout.flush()


class _OverError(Exception):
    """All slots are settled."""


class AtOnce:
    """A driver with a deadline and one turn of the loop."""

    name = "bench"

    async def run(self, job: Job) -> Answer:
        """Answers."""
        with anyio.move_on_after(job.limits.seconds):
            await anyio.lowlevel.checkpoint()
        return ANSWER

    def identity(self) -> dict[str, object]:
        """Returns what is never asked."""
        return {}

    def problems(self) -> tuple[str, ...]:
        """Returns nothing."""
        return ()

    async def aclose(self) -> None:
        """Does nothing."""


class Silent:
    """A sink for nobody."""

    def note(self, text: str) -> None:
        """Drops it."""

    def progress(self, progress: Progress) -> None:
        """Drops them."""


def fold_alone(trial: Trial) -> None:
    """Makes a log fold what it is given and store nothing."""
    state = trial.log.state

    def append_many(
        requests: Sequence[Event], *, actor: str, ledger: str | None = None
    ) -> list[Appended]:
        for event in requests:
            entry = Entry("", state.size, "", NOW, actor, "", b"", b"")
            apply(state, entry, event, plan_of=trial.read_columns)
        return [Appended(state.size - 1, b"", True, event) for event in requests]

    trial.log.append_many = append_many  # type: ignore[method-assign,assignment]  # its use here


def executed(ledger: Path, *, is_stored: bool) -> float:
    """Returns the CPU time of an executor alone, on a ledger or on nothing but its fold."""
    with open_trial(ledger, actor="bench") as trial:
        known = trial.experiment(None)
        if not is_stored:
            fold_alone(trial)
        blob = trial.put_json({})
        start = Start(
            experiment=known.name, number=1, nonce="n", tool="bench", host="h", environment=blob,
            settings={},
        )  # fmt: skip
        trial.log.append_many([start], actor="bench")

        def over() -> bool:
            raise _OverError

        async def work() -> float:
            drivers = dict.fromkeys(("A", "B"), AtOnce())
            executor = Executor(
                trial=trial, known=known, drivers=drivers, session=1, concurrency=CAP,
                take_look=over, sink=Silent(),
            )  # fmt: skip
            begun = time.process_time()
            with suppress(_OverError):
                await executor.run()
            return time.process_time() - begun

        taken = anyio.run(work)
        assert known.settled == len(known.slots or ())
        return taken


def bare_asyncio(seconds: Sequence[float], cap: int, clock: Callable[[], float]) -> float:
    """Returns the time of a task for each slot behind a semaphore, with a deadline."""
    done: list[Answer] = []

    async def one(gate: asyncio.Semaphore, sleep: float) -> None:
        async with gate, asyncio.timeout(60):
            await asyncio.sleep(sleep)
        done.append(ANSWER)

    async def work() -> float:
        gate = asyncio.Semaphore(cap)
        begun = clock()
        async with asyncio.TaskGroup() as tasks:
            for sleep in seconds:
                tasks.create_task(one(gate, sleep))
        return clock() - begun

    return asyncio.run(work())


def compare_scheduler() -> None:
    """Prints E4."""
    each = {True: list[float](), False: list[float]()}
    bare: list[float] = []
    for _ in range(ROUNDS):
        for is_stored, seconds in each.items():
            ledger = freeze(new(), ".db", AT_ONCE, [0.0] * (SLOTS // 2))
            seconds.append(executed(ledger, is_stored=is_stored))
        bare.append(bare_asyncio([0.0] * SLOTS, CAP, time.process_time))
    limit = median(bare)
    say_most("E4 executor with the fold, over a task each behind a semaphore",
             median(each[False]) / limit, "1.6")  # fmt: skip
    say_most("   the same with the ledger, SQLite", median(each[True]) / limit, "-")
    sys.stdout.write(f"   a task each: {limit / SLOTS * 1e6:.0f} us CPU here\n")


def seconds_on_record(ledger: Path) -> float:
    """Returns the time from the first attempt on record to the last outcome."""
    with open_trial(ledger, read_only=True) as trial:
        kinds = [(event_kind(event), entry.time) for entry, event in trial.read()]
    times = [datetime.fromisoformat(at) for kind, at in kinds if kind in ("attempt", "decision")]
    return (max(times) - min(times)).total_seconds()


def slept(seconds: Sequence[float], cap: int, suffix: str = ".db") -> tuple[float, float]:
    """Returns how long slots took that sleep, and the whole run, by the clock."""
    ledger = freeze(new(), suffix, SLEEPING, seconds)
    begun = time.perf_counter()
    run(ledger, cap)
    return seconds_on_record(ledger), time.perf_counter() - begun


def medians_of(seconds: Sequence[float], cap: int) -> tuple[float, float]:
    """Returns the medians of several rounds."""
    taken = [slept(seconds, cap) for _ in range(ROUNDS)]
    return median(one for one, _ in taken), median(whole for _, whole in taken)


def bound(seconds: Sequence[float], cap: int) -> float:
    """Returns the time that no schedule of both arms beats."""
    return max(2 * sum(seconds) / cap, *seconds)


def compare_even() -> None:
    """Prints E5."""
    seconds = [SLEEP] * (SLEEPERS // 2)
    for cap in CAPS:
        slots, whole = medians_of(seconds, cap)
        least = bound(seconds, cap)
        what = f"{SLEEPERS} slots of {SLEEP * 1000:.0f} ms at {cap}"
        say_most(f"E5 {what}, over the bound", slots / least, "1.03")
        say_most("   whole run, over the bound", whole / least, "-")
        bare = [bare_asyncio(2 * seconds, cap, time.perf_counter) for _ in range(ROUNDS)]
        say_most(
            "   a task each behind a semaphore, no record, over the bound",
            median(bare) / least,
            "-",
        )


def skewed(slots: int) -> list[float]:
    """Returns the quantiles of a lognormal distribution, longest first."""
    places = [(place + 0.5) / (slots // 2) for place in range(slots // 2)]
    return [SLEEP * math.exp(0.8 * NormalDist().inv_cdf(1 - place)) for place in places]


def listed(seconds: Sequence[float], cap: int) -> float:
    """Returns the time of slots that are started in this order, each as soon as one has ended."""
    free = [0.0] * cap
    for each in seconds:
        heapq.heappush(free, heapq.heappop(free) + each)
    return max(free)


def compare_skewed() -> None:
    """Prints E6: times that have nothing to do with the order, and that happen to fall with it."""
    longest, order = skewed(SLEEPERS), in_order(SLEEPERS)
    shuffled = random.Random(1).sample(longest, len(longest))
    for in_turn, how in ((shuffled, "as ordered"), (longest, "longest first")):
        seconds = [each for _, each in sorted(zip(order, in_turn, strict=True))]
        slots, _ = medians_of(seconds, CAP)
        least = bound(seconds, CAP)
        what = f"E6 {SLEEPERS} skewed slots at {CAP}, {how}, over the bound"
        say_most(what, slots / least, "1.05")
        pairs = [each for each in in_turn for _ in "AB"]
        say_most("   that order without any delay, over the bound", listed(pairs, CAP) / least, "-")


def cut_off(suffix: str) -> Path:
    """Returns the folder of a run that was interrupted when a tenth was left."""
    folder = new()
    ledger = freeze(folder, suffix, AT_ONCE, [0.0] * (SLOTS // 2))
    unit = units_of(SLOTS)[in_order(SLOTS)[SLOTS // 2 * 9 // 10]]
    os.environ["CUT_OFF"] = f"A{unit}"
    run(ledger, CAP)
    del os.environ["CUT_OFF"]
    return folder


def compare_resume(suffix: str, store: str) -> None:
    """Prints E3."""
    ledgers = iter([freeze(new(), suffix, AT_ONCE, [0.0] * (SLOTS // 2)) for _ in range(ROUNDS)])
    cut = cut_off(suffix)

    def resume() -> None:
        run(next(copies), CAP)

    def fresh() -> None:
        ledger = next(ledgers)
        remember_in(ledger.parent)
        run(ledger, CAP)

    copies = (copied(cut) / f"ledger{suffix}" for _ in range(ROUNDS))
    rest, whole = rounds(resume, fresh, count=ROUNDS, clock=time.process_time)
    say_most(
        f"E3 {store}, the last tenth of {SLOTS:,} slots, over a fresh run", rest / whole, "0.30"
    )


def log_bytes(folder: Path, pattern: str) -> int:
    """Returns the size of the logs in a folder."""
    return sum(path.stat().st_size for path in folder.glob(pattern))


def ours(folder: Path, suffix: str, slots: int) -> None:
    """Registers, freezes, runs and ends an experiment."""
    ledger = freeze(folder, suffix, AT_ONCE, [0.0] * (slots // 2))
    run(ledger, CAP)
    session.result_of(ledger, None, actor="bench")


def inspected(folder: Path, samples: int) -> None:
    """Evaluates as many trivial samples with Inspect AI and its mock model."""
    peer, dataset, scorer, model = (
        import_module(name)
        for name in ("inspect_ai", "inspect_ai.dataset", "inspect_ai.scorer", "inspect_ai.model")
    )

    def answer(*_: object) -> Any:
        # Without usage the mock model counts tokens, with a table that it fetches.
        usage = model.ModelUsage(input_tokens=1, output_tokens=1, total_tokens=2)
        output = model.ModelOutput.from_content("mockllm", "x")
        return output.model_copy(update={"usage": usage})

    task = peer.Task(
        dataset=[dataset.Sample(input=f"q{i}", target="x") for i in range(samples)],
        scorer=scorer.match(),
    )
    llm = model.get_model("mockllm/model", custom_outputs=answer)
    [log] = peer.eval(task, model=llm, log_dir=str(folder), max_connections=CAP, display="none")
    assert log.status == "success", log.error


def started(kind: str, slots: int) -> tuple[float, int, Path]:
    """Returns CPU time, peak memory and folder of a program that evaluates."""
    folder, before = new(), started_seconds()
    peak = peak_bytes(ME, "--child", str(folder), kind, str(slots))
    return started_seconds() - before, peak, folder


def compare_inspect() -> None:
    """Prints E1 and E2, and the memory of many slots over that of few."""
    peer = started("inspect", SLOTS) if find_spec("inspect_ai") else None
    if peer is None:
        sys.stdout.write("E1, E2 not measured: inspect-ai isn't installed\n")
    few = SLOTS // 10
    for suffix, store in STORES:
        small = started(suffix, few)
        tries = [started(suffix, SLOTS) for _ in range(ROUNDS)]
        used, peak = median(one[0] for one in tries), median(one[1] for one in tries)
        sys.stdout.write(f"{store}, a whole program: {used / SLOTS * 1e3:.2f} ms CPU a slot here\n")
        say_most(f"{store}, peak of {SLOTS:,} over {few:,} slots", peak / small[1], "-")
        more = (peak - small[1]) / (SLOTS - few) / 1000
        sys.stdout.write(f"{store}, memory: {more:.1f} kB for each further slot\n")
        if peer is None:
            continue
        say(f"E1 {store}, CPU of {SLOTS:,} slots, against inspect-ai", used, peer[0], goal="60")
        say_most(f"E2 {store}, peak memory, over inspect-ai", peak / peer[1], "0.25")
        share = log_bytes(tries[0][2], f"ledger{suffix}") / log_bytes(peer[2], "*.eval")
        say_most(f"E2 {store}, bytes of the log, over inspect-ai", share, "0.5")


def main() -> None:
    """Prints the ratios."""
    # Programs that are started here keep what they compiled, as installed ones do.
    os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
    if "--child" in sys.argv:
        folder, kind, slots = sys.argv[-3:]
        inspected(Path(folder), int(slots)) if kind == "inspect" else ours(
            Path(folder), kind, int(slots)
        )
        say_peak()
        return
    say_machine()
    sys.stdout.write(f"{SLOTS:,} slots, {CAP} at once, {ROUNDS} rounds; E1 to E4 in CPU time\n")
    with root():
        compare_scheduler()
        compare_even()
        compare_skewed()
        for suffix, store in STORES:
            compare_resume(suffix, store)
        compare_inspect()


if __name__ == "__main__":
    main()
