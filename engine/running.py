"""Runs or resumes an experiment: checks first, then a session, then a stop with its reason.

Leaves attempts, retries, ceilings and signals to `executor.py`; looks to `concluding.py`.

Rules:
- One run of an experiment at a time: the run lock names who holds it.
- Everything registered is compared before any driver starts.
- Attempts that an earlier session left open are closed as lost, at the price of their reservation.
- Whatever ends the session, a `stop` with the true reason is appended; what was durable stays.
"""

from __future__ import annotations

import platform
import secrets
from functools import partial
from typing import Protocol

import anyio
import msgspec

from fairtrial.custody.blinding import names_of, shown_names
from fairtrial.custody.git import git_commit, git_is_clean
from fairtrial.custody.trial import Trial, tool_name
from fairtrial.drivers.port import Driver
from fairtrial.ledger.errors import RefusedError, StoreError, TransitionError
from fairtrial.ledger.events import AttemptEnd, GitState, Start, Stop, StopReason
from fairtrial.ledger.locks import file_lock, run_lock_path
from fairtrial.ledger.state import Experiment, State, is_blinded, is_ended, is_final, is_idle

from .concluding import take_look
from .executor import Executor, Progress
from .freezing import open_drivers
from .status import next_command, state_word
from .unfinished import check_standing
from .verifying import check_identities, check_registered, protocol_path

__all__ = ("ProgressSink", "RunReport", "end_dead_session", "run_experiment")


class ProgressSink(Protocol):
    """Is told how a run goes on; must be quick and must not raise."""

    def note(self, text: str) -> None:
        """Takes one line for people."""

    def progress(self, progress: Progress) -> None:
        """Takes the present counts."""


class RunReport(msgspec.Struct, frozen=True, kw_only=True):
    """How a run ended.

    `reason` is that of the stop event; `complete` also when there was nothing left to do.
    """

    experiment: str
    reason: StopReason
    session: int
    resumed: bool
    lost: int
    settled: int
    planned: int
    looks_taken: int
    looks_planned: int
    crossed: bool
    note: str | None
    next: str
    receipt: str


class _Quiet:
    """A sink for nobody."""

    def note(self, text: str) -> None:
        """Takes a line and drops it."""

    def progress(self, progress: Progress) -> None:
        """Takes counts and drops them."""


def run_experiment(
    trial: Trial,
    known: Experiment,
    *,
    concurrency: int,
    sink: ProgressSink | None,
    settings: dict[str, str],
) -> RunReport:
    """Runs or resumes an experiment until it ends, stops or is interrupted.

    Args:
        trial: The ledger, opened for writing.
        known: The experiment.
        concurrency: Attempts in flight at most.
        sink: Is told about progress.
        settings: Operational settings to record in `start`.

    Raises:
        RefusedError: Something registered has changed, or a driver can't begin.
        BusyError: Another run holds the lock.
    """
    sink = sink or _Quiet()
    if known.freeze_seq is None:
        raise TransitionError("a run needs a freeze", where=known.name, todo="ledger freeze")
    check_standing(known)
    if is_final(known) and not is_ended(known):
        end_dead_session(trial, known)
    if is_ended(known) or is_final(known):
        return _report(trial, known, "complete", resumed=False, lost=0, note=None)
    lock = run_lock_path(trial.path, known.name)
    what = f"ledger run {known.name}"
    with file_lock(lock, timeout_seconds=0.0, what=what):
        trial.log.refresh()
        return _locked_run(trial, known, concurrency, sink, settings)


def _locked_run(
    trial: Trial,
    known: Experiment,
    concurrency: int,
    sink: ProgressSink,
    settings: dict[str, str],
) -> RunReport:
    for line in check_registered(trial, known, act="run"):
        sink.note(line)
    drivers = _open_checked(trial, known)
    resumed = known.sessions > 0
    session = _start(trial, known, {**settings, "concurrency": str(concurrency)})
    lost = _close_lost(trial, known, session)
    if resumed:
        pending = len(known.slots or ()) - known.settled
        sink.note(
            f"resumed session {session}: {known.settled:,} settled, {pending:,} to do;"
            f" {lost} attempts were in flight"
        )

    async def execute() -> tuple[StopReason, str | None]:
        executor = Executor(
            trial=trial,
            known=known,
            drivers=drivers,
            session=session,
            concurrency=concurrency,
            take_look=partial(_take_look, trial, known, drivers, sink),
            sink=sink,
        )
        return await executor.run()

    try:
        reason, note = anyio.run(execute)
        # What changed while the run went on is on record, and the run didn't end as it should.
        _check_again(trial, known, drivers)
    except StoreError:
        # Nothing is known of the medium any more; the next start closes what is open.
        raise
    except Exception as error:
        _stop_crashed(trial, known, session, error)
        raise
    trial.append(Stop(experiment=known.name, number=session, reason=reason, note=note))
    return _report(trial, known, reason, resumed=resumed, lost=lost, note=note)


def _open_checked(trial: Trial, known: Experiment) -> dict[str, Driver]:
    """Opens the drivers and refuses what would fail at the first attempt."""
    protocol = trial.protocol(known)
    by_name = open_drivers(protocol, protocol_path(trial, known).parent, trial.units(known))
    drivers = {label: by_name[name] for label, name in names_of(trial, known).items()}
    check_identities(trial, known, drivers, act="run")
    shown = {} if is_blinded(known) else shown_names(trial, known)
    # Which label can't begin would tell who is behind it.
    problems = [
        f"arm {shown[label]}: {text}" if shown else text
        for label, driver in drivers.items()
        for text in driver.problems()
    ]
    if problems:
        raise RefusedError(
            "a driver can't begin: " + "; ".join(dict.fromkeys(problems)),
            where=known.name,
            todo="mend it, then: ledger run",
        )
    return drivers


def _start(trial: Trial, known: Experiment, settings: dict[str, str]) -> int:
    """Appends the start of a session; returns its number."""
    folder = protocol_path(trial, known).parent
    commit = git_commit(folder)
    clean = commit is not None and git_is_clean(folder, ledger=trial.path)
    environment = trial.put_json(
        {
            "python": platform.python_version(),
            "implementation": platform.python_implementation(),
            "system": f"{platform.system()} {platform.machine()}",
            "msgspec": msgspec.__version__,
        }
    )
    nonce = secrets.token_hex(16)

    def start(state: State) -> Start:
        return Start(
            experiment=known.name,
            number=state.experiments[known.name].sessions + 1,
            nonce=nonce,
            tool=tool_name(),
            host=platform.node() or "unknown",
            environment=environment,
            settings=settings,
            git=None if commit is None else GitState(commit=commit, clean=clean),
        )

    return trial.append(start).event.number


def _close_lost(trial: Trial, known: Experiment, session: int) -> int:
    """Ends what earlier sessions left open; returns how many attempts that were."""
    slots = known.slots
    assert slots is not None, "a frozen experiment has slots"
    ends = [
        AttemptEnd(
            experiment=known.name,
            position=position,
            number=slots.attempts[position],
            session=session,
            status="lost",
        )
        for position in range(1, len(slots) + 1)
        if slots.is_open[position]
    ]
    for end in ends:
        trial.append(end)
    return len(ends)


def _check_again(trial: Trial, known: Experiment, drivers: dict[str, Driver]) -> None:
    """Compares files and arms once more, so that a change during a run is on record.

    Raises:
        DigestMismatchError: Something registered changed while the run went on.
    """
    check_registered(trial, known, act="run")
    check_identities(trial, known, drivers, act="run")


def _stop_crashed(trial: Trial, known: Experiment, session: int, error: Exception) -> None:
    """Stops a session that an error ended, if nothing of it is open."""
    if known.live and known.open == 0:
        # An event holds no text of an exception: its class is enough to find the log line.
        note = f"ended by {type(error).__name__}"
        trial.append(Stop(experiment=known.name, number=session, reason="crashed", note=note))


def end_dead_session(trial: Trial, known: Experiment) -> None:
    """Closes what a killed run left behind, so that an experiment can end without another run.

    Raises:
        BusyError: The run is alive.
    """
    if is_idle(known):
        return
    lock = run_lock_path(trial.path, known.name)
    with file_lock(lock, timeout_seconds=0.0, what=f"closing a dead session of {known.name}"):
        trial.log.refresh()
        if is_idle(known):
            return
        session = _start(trial, known, {"purpose": "to close a session that was killed"})
        _close_lost(trial, known, session)
        trial.append(Stop(experiment=known.name, number=session, reason="crashed"))


def _take_look(
    trial: Trial, known: Experiment, drivers: dict[str, Driver], sink: ProgressSink
) -> bool:
    """Takes the due look; returns whether the run goes on. Says only whether it crossed."""
    _check_again(trial, known, drivers)
    event = take_look(trial, known)
    crossed = known.taken[-1].crossed
    goes = "going on" if event.continues else "the run ends"
    # A run that ends before its last look has crossed, and its last line says so: sealed or not.
    early = not event.continues and event.number < len(known.looks)
    said = f"boundary {'crossed' if crossed else 'not crossed'}, "
    said = said if early or not event.sealed else ""
    sink.note(f"look {event.number} of {len(known.looks)} taken: {said}{goes}")
    return event.continues


def _report(
    trial: Trial,
    known: Experiment,
    reason: StopReason,
    *,
    resumed: bool,
    lost: int,
    note: str | None,
) -> RunReport:
    return RunReport(
        experiment=known.name,
        reason=reason,
        session=known.sessions,
        resumed=resumed,
        lost=lost,
        settled=known.settled,
        planned=len(known.slots or ()),
        looks_taken=len(known.taken),
        looks_planned=len(known.looks),
        crossed=any(look.crossed for look in known.taken),
        note=note,
        next=next_command(known, state_word(known, running=False), ""),
        receipt=trial.keep_receipt("run"),
    )
