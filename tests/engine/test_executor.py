"""A session at work: what is on record, in which order, and what stops it."""

from __future__ import annotations

import functools
import os
import signal
import threading
from collections import Counter
from collections.abc import AsyncGenerator, Callable, Coroutine, Generator, Sequence
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path

import anyio
import pytest

from fairtrial.custody.trial import Trial, open_trial
from fairtrial.drivers.answer import Answer
from fairtrial.drivers.port import Driver, Job
from fairtrial.engine.executor import Executor, Stopped
from fairtrial.engine.freezing import freeze
from fairtrial.engine.progress import Progress
from fairtrial.engine.registering import load_protocol, register
from fairtrial.engine.testing import CrashError, ScriptedDriver, VirtualClock, crash_at
from fairtrial.ledger.errors import LedgerError
from fairtrial.ledger.events import (
    Attempt,
    AttemptEnd,
    Decision,
    Event,
    Look,
    LookComparison,
    LookEndpoint,
    Start,
    Stop,
    event_kind,
)
from fairtrial.ledger.log import Appended, Request
from fairtrial.ledger.state import Experiment, next_look_last

GOOD = Answer(status="ok", scores={"passed": 1.0}, cost_nanousd=100_000_000)
BAD = Answer(status="error", code="network", cost_nanousd=0)
PROTOCOL = """
protocol: 1
id: e
about: {{hypothesis: B is better than A.}}
units: {{file: units.csv, id: unit, cluster: cluster, input: [question]}}
design: {{pairing: paired, seed: 1}}
arms:
  A:
    driver: {{kind: python, call: "arm:ask", reserve_usd: {reserve}, config: {{model: m}}}}
    limits: {{seconds: 60}}
    repeats: {repeats}
  B:
    driver: {{kind: python, call: "arm:other", reserve_usd: {reserve}}}
    limits: {{seconds: 60}}
    repeats: {repeats}
control: A
attempts: {{max: {attempts}, retry_on: {retry_on}}}
endpoints:
  - {{name: solved, role: primary, type: bounded, bounds: [0, 1], value: passed, reducer: mean,
      better: higher}}
missing:
  rules: {{failed: failure, timeout: failure, limit: failure, error: exclude_pair,
          ungraded: exclude_pair, replay_miss: exclude_pair, invalidated: exclude_pair}}
  limit: 0.1
analysis: {{estimand: unit_weighted}}
looks: {{at: {looks}, icc: 0.05}}
decision: {{rule: superiority}}
power: {{effect: none, accept: {{not_assessed: a test, no_verdict_possible: a test}}}}
budget: {{usd: {usd}{budget}}}
require: {{commit: false}}
"""


class Sink:
    """Remembers what it is told."""

    def __init__(self) -> None:
        self.notes: list[str] = []
        self.shown: list[Progress] = []

    def note(self, text: str) -> None:
        """Keeps a line."""
        self.notes.append(text)

    def progress(self, progress: Progress) -> None:
        """Keeps counts."""
        self.shown.append(progress)


class Bench:
    """A frozen experiment of `units` units in two arms, and sessions over it."""

    def __init__(self, folder: Path, *, units: int = 10, store: str = "db", **protocol: object):
        self.folder, self.ledger = folder, folder / f"ledger.{store}"
        given: dict[str, object] = {
            "reserve": 0.12, "repeats": 1, "attempts": 3, "retry_on": "[error]",
            "looks": "[1.0]", "usd": 1000, "budget": "",
        }  # fmt: skip
        (folder / "protocol.yaml").write_text(PROTOCOL.format(**given | protocol))
        rows = [f"u{n:02d},c{n % 5},q{n}" for n in range(units)]
        (folder / "units.csv").write_text("\n".join(["unit,cluster,question", *rows]) + "\n")
        (folder / "arm.py").write_text("def ask(job): ...\ndef other(job): ...\n")
        with open_trial(self.ledger, actor="tester", create=True) as trial:
            register(trial, load_protocol(folder / "protocol.yaml"))
            freeze(trial, trial.experiment("e"))
        self.sink = Sink()
        self.clock = VirtualClock()
        self.looks: list[int] = []
        self.crossing = 0

    def run(
        self,
        driver: Driver,
        *,
        concurrency: int = 4,
        beside: Callable[[Executor], Coroutine[None, None, None]] | None = None,
        prepare: Callable[[Trial], None] | None = None,
    ) -> Stopped:
        """Runs one session to its end and stops it on record."""
        with self._trial() as (trial, known, session):
            if prepare is not None:
                prepare(trial)
            stopped = anyio.run(
                functools.partial(self._execute, trial, known, session, driver, concurrency, beside)
            )
            trial.append(Stop(experiment="e", number=session, reason=stopped[0], note=stopped[1]))
            return stopped

    async def _execute(
        self,
        trial: Trial,
        known: Experiment,
        session: int,
        driver: Driver,
        concurrency: int,
        beside: Callable[[Executor], Coroutine[None, None, None]] | None,
    ) -> Stopped:
        executor = Executor(
            trial=trial,
            known=known,
            drivers={"A": driver, "B": driver},
            session=session,
            concurrency=concurrency,
            take_look=lambda: self._take_look(trial, known),
            sink=self.sink,
        )
        async with _beside(beside, executor):
            return await executor.run()

    def _take_look(self, trial: Trial, known: Experiment) -> bool:
        """Stands for a look: everything before it is settled, nothing beyond it has begun."""
        number, slots = len(known.taken) + 1, known.slots
        last = next_look_last(known)
        assert slots is not None
        assert last == slots.settled(1, last)
        assert slots.highest_touched() == last
        goes_on = number < len(known.looks) and number != self.crossing
        trial.append(_look(trial, number, last, crosses=number == self.crossing, goes_on=goes_on))
        self.looks.append(last)
        return goes_on

    @contextmanager
    def _trial(self) -> Generator[tuple[Trial, Experiment, int]]:
        with open_trial(self.ledger, actor="tester", clock=self.clock) as trial:
            known = trial.experiment("e")
            session = known.sessions + 1
            start = Start(
                experiment="e", number=session, nonce=f"n{session}", tool="t", host="h",
                environment=trial.put_json({}), settings={},
            )  # fmt: skip
            trial.append(start)
            for end in _lost(known, session):
                trial.append(end)
            yield trial, known, session

    def events(self) -> list[Event]:
        """Returns all events on record."""
        with open_trial(self.ledger, read_only=True) as trial:
            return [event for _, event in trial.log.read()]

    def decisions(self) -> list[Decision]:
        """Returns all outcomes on record."""
        return [event for event in self.events() if isinstance(event, Decision)]


def _lost(known: Experiment, session: int) -> list[AttemptEnd]:
    """Returns the ends of what an earlier session left open."""
    slots = known.slots
    assert slots is not None
    return [
        AttemptEnd(
            experiment="e",
            position=position,
            number=slots.attempts[position],
            session=session,
            status="lost",
        )
        for position in range(1, len(slots) + 1)
        if slots.is_open[position]
    ]


def _look(trial: Trial, number: int, last: int, *, crosses: bool, goes_on: bool) -> Look:
    endpoint = LookEndpoint(
        name="y", information_fraction=0.5, eligible=True, why_not=(), n=1, clusters=1,
        discordant_clusters=None, estimate=None, standard_error=None, df=None, tests={},
        p_value=None, nominal_p=None, t_critical=None, z=None, lower=None, upper=None,
        crossed="favourable" if crosses else "no",
    )  # fmt: skip
    comparison = LookComparison(name="x", treatment="B", control="A", endpoints=(endpoint,))
    return Look(
        experiment="e", number=number, basis=trial.log.head(), data="0" * 64, last=last,
        continues=goes_on, method="none", units=1, clusters=1, comparisons=(comparison,),
    )  # fmt: skip


@asynccontextmanager
async def _beside(
    work: Callable[[Executor], Coroutine[None, None, None]] | None, executor: Executor
) -> AsyncGenerator[None]:
    """Runs something beside the executor, and fails when it fails."""
    if work is None:
        yield
        return
    async with anyio.create_task_group() as group:
        group.start_soon(work, executor)
        yield


async def _until(is_done: Callable[[], bool]) -> None:
    """Gives others a turn until something holds; bounded, so that a wrong rule fails a test."""
    with anyio.fail_after(20):
        while not is_done():
            await anyio.sleep(0.001)


def _good(job: Job) -> Answer:
    return GOOD


def _keeping(jobs: list[Job]) -> Callable[[Job], Answer]:
    """Returns a script that keeps the jobs it is asked."""

    def script(job: Job) -> Answer:
        jobs.append(job)
        return GOOD

    return script


def _kinds(events: list[Event]) -> Counter[str]:
    return Counter(type(event).__name__ for event in events)


@pytest.mark.slow
@pytest.mark.parametrize("store", ["db", "jsonl"])
@pytest.mark.parametrize("concurrency", [1, 4, 32])
def test_every_slot_is_settled_once(tmp_path: Path, store: str, concurrency: int) -> None:
    """Each slot has one attempt and one outcome, in both stores, at any concurrency."""
    bench, driver = Bench(tmp_path, store=store), ScriptedDriver(_good)
    assert ("complete", None) == bench.run(driver, concurrency=concurrency)
    assert dict.fromkeys(_slots(10), 1) == driver.starts()
    kinds = _kinds(bench.events())
    assert (20, 20, 0, 1) == (
        kinds["Attempt"], kinds["Decision"], kinds["AttemptEnd"], kinds["Look"],
    )  # fmt: skip
    assert driver.in_flight_max <= concurrency
    assert 2 == driver.closed


def _slots(units: int, replicates: int = 1) -> list[tuple[str, str, int]]:
    return [
        (arm, f"u{unit:02d}", replicate)
        for arm in "AB"
        for unit in range(units)
        for replicate in range(1, replicates + 1)
    ]


def test_completion_order_changes_no_outcome(tmp_path: Path) -> None:
    """Outcomes are the same whoever ends first."""

    def run(name: str, concurrency: int) -> list[tuple[object, ...]]:
        folder = tmp_path / name
        folder.mkdir()
        bench = Bench(folder)
        bench.run(ScriptedDriver(lambda job: _scored(job)), concurrency=concurrency)
        found = [(d.position, d.arm, d.unit, d.scores, d.answer) for d in bench.decisions()]
        return sorted(found, key=repr)

    assert run("one", 1) == run("eight", 8)


def _scored(job: Job) -> Answer:
    return Answer(status="ok", scores={"score": int(job.seed) % 7 / 7}, answer=job.arm + job.unit)


def test_attempt_is_on_record_before_its_driver_starts(tmp_path: Path) -> None:
    """A driver that looks at the ledger finds its own attempt, with its reservation."""
    bench = Bench(tmp_path, units=5)
    seen: list[bool] = []

    def script(job: Job) -> Answer:
        seen.append(
            any(
                isinstance(event, Attempt)
                and (event.arm, event.reserved_nanousd) == (job.arm, 120_000_000)
                for event in bench.events()
            )
        )
        return GOOD

    bench.run(ScriptedDriver(script), concurrency=1)
    assert [True] * 10 == seen


def _commits(bench: Bench, script: Callable[[Job], Answer]) -> list[list[str]]:
    """Runs one worker; returns the kinds of the events of each commit."""
    commits: list[list[str]] = []

    def watch(trial: Trial) -> None:
        append_many = trial.log.append_many

        def appended(
            requests: Sequence[Event], *, actor: str, ledger: str | None = None
        ) -> list[Appended | LedgerError]:
            if not any(isinstance(event, (Look, Stop)) or callable(event) for event in requests):
                commits.append([event_kind(event) for event in requests])
            return append_many(requests, actor=actor, ledger=ledger)

        trial.log.append_many = appended  # type: ignore[method-assign,assignment]  # its use here

    bench.run(ScriptedDriver(script), concurrency=1, prepare=watch)
    return commits


def test_outcome_and_next_attempt_are_one_commit(tmp_path: Path) -> None:
    """One worker: the first attempt, each outcome with the next attempt, and the last outcome."""
    commits = _commits(Bench(tmp_path, units=5), lambda _: GOOD)
    assert [["attempt"], *[["decision", "attempt"]] * 9, ["decision"]] == commits


def test_error_is_on_record_before_what_is_next_is_chosen(tmp_path: Path) -> None:
    """The end of an attempt that didn't settle its slot is a commit of its own."""
    commits = _commits(
        Bench(tmp_path, units=5),
        lambda job: BAD if (job.unit, job.attempt) == ("u02", 1) else GOOD,
    )
    assert 2 == commits.count(["attempt_end"])
    assert all(len(kinds) == 1 for kinds in commits if "attempt_end" in kinds)


def test_fifth_bad_output_of_an_arm_begins_nothing_more(tmp_path: Path) -> None:
    """An outcome that no event can hold may end a streak's arm: no attempt goes with it."""
    bench = Bench(tmp_path, units=10, attempts=1)
    bad = Answer(status="ok", scores={"": 1.0})
    driver = ScriptedDriver(lambda job: bad if job.arm == "A" else GOOD)
    assert "arm_failing" == bench.run(driver, concurrency=1)[0]
    assert 5 == Counter(start.arm for start in driver.started)["A"]
    run = [event for event in bench.events() if isinstance(event, (Attempt, AttemptEnd, Decision))]
    assert isinstance(run[-1], AttemptEnd)


def test_outcome_over_its_reservation_cuts_no_pair(tmp_path: Path) -> None:
    """What a dear outcome costs is on record before the next pair is asked for room."""
    bench = Bench(tmp_path, units=5, usd=0.51)
    dear = Answer(status="ok", scores={"passed": 1.0}, cost_nanousd=140_000_000)
    assert "ceiling" == bench.run(ScriptedDriver(lambda _: dear), concurrency=1)[0]
    assert {2} == set(Counter(decision.unit for decision in bench.decisions()).values())


def test_job_is_that_of_the_protocol(tmp_path: Path) -> None:
    """A driver gets the declared input, its settings and limits, and a seed shared by the arms."""
    bench = Bench(tmp_path, units=5)
    jobs: list[Job] = []
    bench.run(ScriptedDriver(_keeping(jobs)))
    by_unit = {(job.unit, job.arm): job for job in jobs}
    first, second = by_unit["u03", "A"], by_unit["u03", "B"]
    assert ({"question": "q3"}, {"model": "m"}, {}) == (first.input, first.config, second.config)
    assert first.seed == second.seed != by_unit["u04", "A"].seed
    assert 60.0 == first.limits.seconds


def test_look_is_a_barrier(tmp_path: Path) -> None:
    """No slot beyond a look starts before it is taken, though workers are idle."""
    bench = Bench(tmp_path, looks="[0.4, 1.0]")
    held = ScriptedDriver(_good, held=["u00", "u01", "u02", "u03", "u04"])

    async def release(executor: Executor) -> None:
        for unit in ("u00", "u01", "u02", "u03", "u04"):
            held.release(unit)
            await anyio.sleep(0.01)

    assert "complete" == bench.run(held, concurrency=16, beside=release)[0]
    # The bench's look asserts that nothing beyond it was touched.
    assert 2 == len(bench.looks)
    assert 20 == bench.looks[1]


def test_crossing_ends_the_run(tmp_path: Path) -> None:
    """After a look that stops nothing more is asked."""
    bench = Bench(tmp_path, looks="[0.4, 1.0]")
    bench.crossing = 1
    driver = ScriptedDriver(_good)
    assert ("boundary", None) == bench.run(driver)
    assert bench.looks == [len(driver.started)]


def test_error_is_tried_again_behind_the_others(tmp_path: Path) -> None:
    """A failed attempt is on record, and its slot is tried again after all that weren't tried."""
    bench = Bench(tmp_path)

    def script(job: Job) -> Answer:
        return BAD if job.unit == "u02" and job.arm == "A" and job.attempt == 1 else GOOD

    driver = ScriptedDriver(script)
    bench.run(driver, concurrency=1)
    assert ("A", "u02", 1, 2) == tuple(driver.started[-1])
    ends = [event for event in bench.events() if isinstance(event, AttemptEnd)]
    assert [("error", "network", 1)] == [(end.status, end.code, end.number) for end in ends]
    (outcome,) = [d for d in bench.decisions() if (d.unit, d.arm) == ("u02", "A")]
    assert ("ok", 2) == (outcome.status, outcome.attempt)
    assert any("network" in note for note in bench.sink.notes)
    assert (1, 1) == (bench.sink.shown[-1].errors, bench.sink.shown[-1].retries)


def test_slot_is_given_up_when_its_attempts_are_used_up(tmp_path: Path) -> None:
    """After the registered attempts an error is the outcome, with the code of the last one."""
    bench = Bench(tmp_path, attempts=2)
    driver = ScriptedDriver(lambda job: BAD if job.unit == "u02" and job.arm == "A" else GOOD)
    assert "complete" == bench.run(driver)[0]
    (outcome,) = [d for d in bench.decisions() if d.status != "ok"]
    assert ("error", "network", 2, 0, "u02") == (
        outcome.status, outcome.code, outcome.attempt, outcome.cost_nanousd, outcome.unit,
    )  # fmt: skip
    assert 2 == driver.starts()["A", "u02", 1]


def test_error_that_can_not_be_helped_is_not_tried_again(tmp_path: Path) -> None:
    """`error.retry` false ends the slot at its first attempt."""
    bench = Bench(tmp_path)
    hopeless = Answer(status="error", code="auth", retry=False)
    driver = ScriptedDriver(lambda job: hopeless if job.unit == "u02" else GOOD)
    assert "complete" == bench.run(driver)[0]
    assert 1 == driver.starts()["A", "u02", 1]
    assert ["auth", "auth"] == [d.code for d in bench.decisions() if d.status == "error"]


@pytest.mark.parametrize(
    ("retry_on", "starts", "attempt"), [("[error]", 1, 1), ("[error, timeout]", 3, 3)]
)
def test_timeout_is_an_outcome_unless_it_is_tried_again(
    tmp_path: Path, retry_on: str, starts: int, attempt: int
) -> None:
    """A timeout settles the slot at once, or after the registered attempts (FR-02)."""
    bench = Bench(tmp_path, retry_on=retry_on)
    late = Answer(status="timeout", code="timeout", cost_nanousd=50_000_000)
    driver = ScriptedDriver(lambda job: late if job.unit == "u02" and job.arm == "A" else GOOD)
    assert "complete" == bench.run(driver)[0]
    (outcome,) = [d for d in bench.decisions() if d.status != "ok"]
    assert ("timeout", attempt) == (outcome.status, outcome.attempt)
    assert starts == driver.starts()["A", "u02", 1]
    # Each attempt is paid: the last one by the outcome, or all of them by their own ends.
    assert 19 * 0.1 + starts * 0.05 == pytest.approx(bench.sink.shown[-1].spent_usd)


@pytest.mark.parametrize("concurrency", [1, 8])
def test_failing_arm_stops_the_run_and_no_slot_is_given_up(
    tmp_path: Path, concurrency: int
) -> None:
    """Five errors in a row in one arm stop everything; the next session goes on (FR-30)."""
    bench = Bench(tmp_path, units=20, attempts=1)
    down = ScriptedDriver(lambda job: BAD if job.arm == "B" else GOOD)
    reason, note = bench.run(down, concurrency=concurrency)
    expected = "at least 5 attempts in a row failed in arm B (network)"
    assert ("arm_failing", expected) == (reason, note)
    assert all(d.status == "ok" for d in bench.decisions())
    assert len(down.started) < 20 + concurrency
    up = ScriptedDriver(_good)
    assert "complete" == bench.run(up)[0]
    assert {"ok": 40} == Counter(d.status for d in bench.decisions())


def test_answer_in_flight_clears_a_streak(tmp_path: Path) -> None:
    """The run stops for a failing arm only when nothing under way can still clear it."""
    bench = Bench(tmp_path, units=20, attempts=1)
    errors: list[str] = []

    def script(job: Job) -> Answer:
        if job.arm == "B" and job.unit != held and len(errors) < 5:
            errors.append(job.unit)
            return BAD
        return GOOD

    held = _first_unit(bench)
    driver = ScriptedDriver(script, held=[held])

    async def release(executor: Executor) -> None:
        await _until(lambda: len(errors) == 5)
        driver.release(held)

    assert "complete" == bench.run(driver, concurrency=3, beside=release)[0]
    assert {"ok": 35, "error": 5} == Counter(d.status for d in bench.decisions())


class Gates:
    """Keeps the writer's thread before its commits, once they are shut."""

    def __init__(self) -> None:
        self.entered, self._gates = 0, list[threading.Event]()

    def shut(self, count: int) -> None:
        """Lets each of the next commits wait until it is opened."""
        self.entered, self._gates = 0, [threading.Event() for _ in range(count)]

    def open(self, number: int) -> None:
        """Lets one of those commits go on."""
        self._gates[number - 1].set()

    def stand_before(self, trial: Trial) -> None:
        """Puts the gates before the log of a trial."""
        commit = trial.log.append_many

        def append_many(
            requests: Sequence[Request], *, actor: str, ledger: str | None = None
        ) -> list[Appended | LedgerError]:
            if self.entered < len(self._gates):
                self.entered += 1
                self._gates[self.entered - 1].wait(20)
            return commit(requests, actor=actor, ledger=ledger)

        setattr(trial.log, "append_many", append_many)  # noqa: B010 - a method isn't assigned to


def test_attempt_refused_for_a_streak_that_has_ended_waits_its_turn(tmp_path: Path) -> None:
    """An outcome of the same commit may clear the streak before the refusal is read."""
    bench, gates = Bench(tmp_path, units=20, attempts=1), Gates()
    with open_trial(bench.ledger, read_only=True) as trial:
        plan = trial.plan(trial.experiment("e"))
    pairs, arm = [plan.slot(2 * number - 1).unit for number in range(1, 8)], plan.slot(14).arm
    bad = set(pairs[:5])
    driver = ScriptedDriver(
        lambda job: BAD if job.arm == arm and job.unit in bad else GOOD, held=pairs
    )

    async def cross(executor: Executor) -> None:
        # Six pairs and the first of the seventh are under way; the next attempt is of the arm.
        await _until(lambda: len(driver.started) == 13)
        gates.shut(2)
        driver.release(pairs[6])
        await _until(lambda: gates.entered == 1)
        for unit in bad:
            driver.release(unit)
        await anyio.wait_all_tasks_blocked()
        gates.open(1)
        await _until(lambda: gates.entered == 2)
        # The attempt is behind the five errors now, and before this outcome.
        await anyio.wait_all_tasks_blocked()
        driver.release(pairs[5])
        await anyio.wait_all_tasks_blocked()
        gates.open(2)

    prepare = gates.stand_before
    assert "complete" == bench.run(driver, concurrency=13, beside=cross, prepare=prepare)[0]
    assert {"ok": 35, "error": 5} == Counter(d.status for d in bench.decisions())


def _first_unit(bench: Bench) -> str:
    with open_trial(bench.ledger, read_only=True) as trial:
        return trial.plan(trial.experiment("e")).slot(1).unit


def test_first_interrupt_waits_for_what_is_in_flight(tmp_path: Path) -> None:
    """After Ctrl-C nothing starts, what is under way ends and counts (FR-18)."""
    bench = Bench(tmp_path)
    driver = ScriptedDriver(_good, held=[f"u{n:02d}" for n in range(10)])

    async def press(executor: Executor) -> None:
        await _until(lambda: len(driver.started) == 4)
        await executor.interrupt()
        for unit in range(10):
            driver.release(f"u{unit:02d}")

    assert ("interrupted", None) == bench.run(driver, beside=press)
    assert (4, 4) == (len(driver.started), len(bench.decisions()))
    assert any("4 in flight may finish" in note for note in bench.sink.notes)
    again = ScriptedDriver(_good)
    assert "complete" == bench.run(again)[0]
    assert set(_slots(10)) - set(driver.starts()) == set(again.starts())


@pytest.mark.parametrize("how", ["twice", "terminate"])
def test_second_interrupt_ends_what_is_in_flight(tmp_path: Path, how: str) -> None:
    """A second Ctrl-C, or SIGTERM, cancels; the attempts are on record as interrupted (FR-18)."""
    bench = Bench(tmp_path)
    driver = ScriptedDriver(_good, held=["u05"])

    async def press(executor: Executor) -> None:
        await _until(lambda: sum(start.unit == "u05" for start in driver.started) == 2)
        if how == "terminate":
            await executor.terminate()
        else:
            await executor.interrupt()
            await executor.interrupt()

    expected = "terminated" if how == "terminate" else "interrupted"
    assert expected == bench.run(driver, concurrency=2, beside=press)[0]
    ends = [event for event in bench.events() if isinstance(event, AttemptEnd)]
    assert [("interrupted", None)] * 2 == [(end.status, end.cost_nanousd) for end in ends]
    assert 2 == len(driver.cancelled)
    settled = len(bench.decisions())
    again = ScriptedDriver(_good)
    assert "complete" == bench.run(again)[0]
    assert 20 - settled == len(again.started)


def test_signals_reach_the_run(tmp_path: Path) -> None:
    """SIGINT and SIGTERM of the process do what interrupt and terminate do."""
    bench = Bench(tmp_path)
    driver = ScriptedDriver(_good, held=["u05"])

    async def press(executor: Executor) -> None:
        await _until(lambda: sum(start.unit == "u05" for start in driver.started) == 2)
        os.kill(os.getpid(), signal.SIGINT)
        await _until(lambda: any("Ctrl-C again" in note for note in bench.sink.notes))
        os.kill(os.getpid(), signal.SIGTERM)

    assert "terminated" == bench.run(driver, concurrency=2, beside=press)[0]
    assert 2 == len(driver.cancelled)


def test_run_outside_of_the_main_thread_works(tmp_path: Path) -> None:
    """A notebook or a server runs it in a thread, where signals don't go."""
    bench, found = Bench(tmp_path), []
    thread = threading.Thread(target=lambda: found.append(bench.run(ScriptedDriver(_good))))
    thread.start()
    thread.join(30)
    assert [("complete", None)] == found


def test_cancelled_run_says_how_its_attempts_ended(tmp_path: Path) -> None:
    """When the whole run is cancelled from outside, nothing is left open on record."""
    bench = Bench(tmp_path)
    driver = ScriptedDriver(_good, held=["u05"])

    async def cancel(executor: Executor) -> None:
        await _until(lambda: sum(start.unit == "u05" for start in driver.started) == 2)
        raise RuntimeError("the host gives up")

    with pytest.raises(BaseExceptionGroup):
        bench.run(driver, concurrency=2, beside=cancel)
    kinds = _kinds(bench.events())
    assert kinds["Attempt"] == kinds["Decision"] + kinds["AttemptEnd"]
    assert "complete" == bench.run(ScriptedDriver(_good))[0]


def test_attempt_that_a_cancellation_meets_as_it_begins_ends_on_record(tmp_path: Path) -> None:
    """Its commit is under way when the run is cancelled: it's stored, so its end is too."""
    bench, gates, driver = Bench(tmp_path), Gates(), ScriptedDriver(_good)
    gates.shut(1)

    async def cancel(executor: Executor) -> None:
        await _until(lambda: gates.entered == 1)
        gates.open(1)
        raise RuntimeError("the host gives up")

    with pytest.raises(BaseExceptionGroup):
        bench.run(driver, concurrency=1, beside=cancel, prepare=gates.stand_before)
    (end,) = [event for event in bench.events() if isinstance(event, AttemptEnd)]
    assert ("interrupted", driver.started) == (end.status, driver.cancelled)


def test_ceiling_is_never_passed_by_parallel_work(tmp_path: Path) -> None:
    """Spent and reserved stay within the ceiling at each start; pairs stay whole (FR-21)."""
    bench = Bench(tmp_path, units=40, usd=5)
    driver = ScriptedDriver(_good)
    reason, note = bench.run(driver, concurrency=16)
    assert "ceiling" == reason
    assert note is not None
    assert "ceiling 5.00 usd" in note
    _check_within(bench.events(), 5_000_000_000)
    counts = Counter(decision.unit for decision in bench.decisions())
    # 5.00 / 0.10, less what two reservations of 0.12 still need: 24 whole pairs.
    assert ({2}, 24) == (set(counts.values()), len(counts))
    again = ScriptedDriver(_good)
    assert "ceiling" == bench.run(again)[0]
    assert [] == again.started


def _check_within(events: list[Event], ceiling: int) -> None:
    """Recomputes the money from the log in order."""
    spent, reserved = 0, {}
    for event in events:
        if isinstance(event, Attempt):
            reserved[event.position] = event.reserved_nanousd
            assert spent + sum(reserved.values()) <= ceiling
        elif isinstance(event, (Decision, AttemptEnd)):
            held = reserved.pop(event.position, 0)
            spent += held if event.cost_nanousd is None else event.cost_nanousd


def test_interrupted_run_resumes_within_its_ceiling(tmp_path: Path) -> None:
    """The second session begins with what the first one spent (FR-21)."""
    bench = Bench(tmp_path, units=40, usd=5)
    driver = ScriptedDriver(_good, held=["u30", "u31", "u32", "u33"])

    async def press(executor: Executor) -> None:
        await _until(lambda: len(driver.started) > 20)
        await executor.interrupt()
        for unit in ("u30", "u31", "u32", "u33"):
            driver.release(unit)

    assert "interrupted" == bench.run(driver, concurrency=16, beside=press)[0]
    assert "ceiling" == bench.run(ScriptedDriver(_good), concurrency=16)[0]
    _check_within(bench.events(), 5_000_000_000)
    assert 48 == len(bench.decisions())


def test_driver_that_reports_no_cost_is_charged_its_reservation(tmp_path: Path) -> None:
    """Without a reported cost the ceiling still holds."""
    bench = Bench(tmp_path, units=20, usd=2)
    silent = ScriptedDriver(lambda job: Answer(status="ok", scores={"passed": 1.0}))
    assert "ceiling" == bench.run(silent)[0]
    assert 16 == len(bench.decisions())


@pytest.mark.parametrize(("budget", "settled"), [(", calls: 11", 10), (", tokens: 100", 13)])
def test_calls_and_tokens_have_ceilings_too(tmp_path: Path, budget: str, settled: int) -> None:
    """A ceiling of calls leaves whole pairs; one of tokens ends starts once it is reached."""
    bench = Bench(tmp_path, units=20, budget=budget)
    answer = Answer(status="ok", scores={"passed": 1.0}, tokens={"output": 8})
    assert "ceiling" == bench.run(ScriptedDriver(lambda job: answer), concurrency=1)[0]
    assert settled == len(bench.decisions())


def test_wall_time_is_a_ceiling_over_all_sessions(tmp_path: Path) -> None:
    """When the sessions have run long enough nothing more starts; in flight may finish."""
    bench = Bench(tmp_path, budget=", wall_seconds: 3600")

    def script(job: Job) -> Answer:
        bench.clock.advance(1000)
        return GOOD

    driver = ScriptedDriver(script)
    assert ("wall_time", None) == bench.run(driver, concurrency=1)
    assert 0 < len(bench.decisions()) < 20
    again = ScriptedDriver(_good)
    assert ("wall_time", None) == bench.run(again, concurrency=1)


def test_artifacts_and_long_answers_are_kept_as_blobs(tmp_path: Path) -> None:
    """What an event doesn't hold is beside the ledger, under its digest, before the event."""
    bench = Bench(tmp_path, units=5)
    answer = Answer(
        status="ok", answer="long " * 50, artifacts={"stdout": b"out", "b.txt": b"b"},
        scores={"score": 0.5},
    )  # fmt: skip
    bench.run(ScriptedDriver(lambda job: answer))
    with open_trial(bench.ledger, read_only=True) as trial:
        decision = next(d for _, d in trial.log.read() if isinstance(d, Decision))
        assert decision.answer is None
        kept = {name: trial.blobs.get(blob) for name, blob in decision.artifacts.items()}
    assert {"stdout": b"out", "b.txt": b"b", "answer": ("long " * 50).encode()} == kept


@pytest.mark.parametrize(
    "broken",
    [
        {"scores": {"": 1.0}},
        {"served_model": "a\u202eb"},
        {"cost_nanousd": -1},
        {"cost_nanousd": "1"},
    ],
)
def test_answer_that_no_event_can_hold_is_bad_output(
    tmp_path: Path, broken: dict[str, object]
) -> None:
    """A driver that breaks its contract ends its attempt, not the run."""
    bench = Bench(tmp_path, units=5, attempts=1)
    values: dict[str, object] = {"status": "ok", "scores": {"score": 1.0}} | broken

    def script(job: Job) -> Answer:
        return Answer(**values) if (job.unit, job.arm) == ("u02", "A") else GOOD  # type: ignore[arg-type]  # broken on purpose

    assert "complete" == bench.run(ScriptedDriver(script))[0]
    assert ["bad_output"] == [d.code for d in bench.decisions() if d.status == "error"]


def test_driver_that_raises_ends_its_attempt_alone(tmp_path: Path) -> None:
    """An exception out of a driver is an error of that attempt."""
    bench = Bench(tmp_path, units=5, attempts=1)

    def script(job: Job) -> Answer:
        if (job.unit, job.arm) == ("u02", "A"):
            raise ZeroDivisionError("never")
        return GOOD

    assert "complete" == bench.run(ScriptedDriver(script))[0]
    assert ["driver_raised"] == [d.code for d in bench.decisions() if d.status == "error"]


@pytest.mark.parametrize("is_stored", [False, True])
@pytest.mark.parametrize("commit", [1, 2, 3, 5, 7])
def test_medium_that_fails_ends_the_run_and_loses_nothing(
    tmp_path: Path, commit: int, is_stored: bool
) -> None:
    """Whatever commit fails, stored or not, the next session settles each slot once."""
    # Three workers put six events into a commit at most: 40 events are 8 commits or more.
    bench = Bench(tmp_path, units=10)
    first, second = ScriptedDriver(_good), ScriptedDriver(_good)
    with pytest.raises(CrashError):
        bench.run(
            first,
            concurrency=3,
            prepare=lambda trial: crash_at(trial.log, commit, is_stored=is_stored),
        )
    before = {d.position: d for d in bench.decisions()}
    assert "complete" == bench.run(second, concurrency=3)[0]
    after = {d.position: d for d in bench.decisions()}
    assert 20 == len(after)
    assert before == {position: after[position] for position in before}
    assert all((d.arm, d.unit, 1) not in second.starts() for d in before.values())


def test_replicates_are_slots_of_their_own(tmp_path: Path) -> None:
    """Each planned replicate is asked once, with its own seed (FR-03)."""
    bench = Bench(tmp_path, units=5, repeats=3)
    jobs: list[Job] = []
    driver = ScriptedDriver(_keeping(jobs))
    bench.run(driver)
    assert dict.fromkeys(_slots(5, 3), 1) == driver.starts()
    assert 15 == len({job.seed for job in jobs})


def test_progress_counts_and_says_nothing_of_outcomes(tmp_path: Path) -> None:
    """The last counts are those of the ledger; no field holds a score."""
    bench = Bench(tmp_path, units=5)
    bench.run(ScriptedDriver(_good))
    last = bench.sink.shown[-1]
    assert (10, 10, 10, {"A": (5, 5), "B": (5, 5)}, 0) == (
        last.settled, last.planned, last.settled_here, last.arms, last.in_flight,
    )  # fmt: skip
    assert (1.0, 1.0, 0.0, 1) == (
        round(last.spent_usd, 9), round(last.expected_usd, 9), last.reserved_usd, last.looks_taken,
    )  # fmt: skip
