"""Runs one program to its end and leaves nothing of it behind.

Leaves what the output means to `answer.py`, and folders, environment and secrets to
`command.py`.

Rules:
- The program has a session and a process group of its own: the terminal's Ctrl-C doesn't reach it.
- stdin holds the given bytes, then its end; a program that doesn't read blocks nobody.
- The attempt ends when the program ends, at its deadline, when it has printed more than it may, or
  when it is cancelled. Whatever it started ends with it: SIGTERM, a grace, SIGKILL.
- Found are: the process group; on Linux also the session, every process that carries the attempt's
  mark in its environment (so `setsid` doesn't hide it), and children of those. Not found is a
  process that has left the session, emptied its environment and lost its parent.
- A process is signalled only while it is surely the one that was found (pidfd and start time), and
  the group only before its leader is reaped.
- Pipes that somebody still holds are not waited for.
"""

from __future__ import annotations

import contextlib
import os
import secrets
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, TypeAlias, TypeVar, cast

import anyio
import anyio.to_thread

from .families import Member, find_family
from .pipes import Pipes

__all__ = ("FAMILY_VARIABLE", "Cancel", "Command", "Ran", "in_thread", "run_command")

FAMILY_VARIABLE = "FAIRTRIAL_FAMILY"
GRACE_SECONDS = 2.0
KILL_SECONDS = 2.0
# How long output may still arrive through a pipe that a process in the background holds.
LINGER_SECONDS = 0.2
_POLL_SECONDS = 0.02

Stopped: TypeAlias = Literal["timeout", "output", "cancelled"]
T = TypeVar("T")


@dataclass(frozen=True, kw_only=True, slots=True)
class Command:
    """A program and everything that it is given.

    Attributes:
        argv: Name and arguments; the first is the resolved program.
        cwd: The folder it runs in.
        environment: Its whole environment, but for the mark that this module adds.
        stdin: The bytes it may read before the end of its input.
        seconds: Its deadline; None: none.
        output_bytes: How much it may print, stdout and stderr together.
        grace_seconds: Time between SIGTERM and SIGKILL.
    """

    argv: tuple[str, ...]
    cwd: Path
    environment: Mapping[str, str]
    stdin: bytes = b""
    seconds: float | None = None
    output_bytes: int
    grace_seconds: float = GRACE_SECONDS


@dataclass(frozen=True, kw_only=True, slots=True)
class Ran:
    """How a program ended.

    Attributes:
        exit_status: 0 to 255, or minus a signal's number.
        stopped: Why it was ended; None when it ended by itself.
        stdout: What it printed, cut at the limit.
        stderr: What it complained of, cut at what the limit left.
        duration_ms: From its start to its end or to the moment it was stopped.
        left: Processes that even SIGKILL hasn't ended within `KILL_SECONDS`.
    """

    exit_status: int
    stopped: Stopped | None
    stdout: bytes
    stderr: bytes
    duration_ms: int
    left: int


class Cancel:
    """A flag that a thread can wait for beside its pipes."""

    def __init__(self) -> None:
        self._reader, self._writer = os.pipe()
        self.is_set = False

    def set(self) -> None:
        """Raises the flag and wakes the thread."""
        if not self.is_set:
            self.is_set = True
            os.write(self._writer, b"\0")

    def fileno(self) -> int:
        """Returns what a selector waits for."""
        return self._reader

    def close(self) -> None:
        """Gives up both ends; only when no thread waits any more."""
        os.close(self._reader)
        os.close(self._writer)


async def in_thread(work: Callable[[Cancel], T]) -> T:
    """Runs blocking work in a thread of its own; a cancellation reaches it through its flag.

    The work is always waited for, so nothing of it goes on after a cancellation has passed.
    """
    cancel, done = Cancel(), anyio.Event()
    results: list[T] = []

    async def wait() -> None:
        # The thread ends by itself soon after its flag is up; leaving it would leave processes.
        with anyio.CancelScope(shield=True):
            limiter = anyio.CapacityLimiter(1)
            results.append(await anyio.to_thread.run_sync(work, cancel, limiter=limiter))
        done.set()

    try:
        async with anyio.create_task_group() as group:
            group.start_soon(wait)
            try:
                await done.wait()
            except anyio.get_cancelled_exc_class():
                cancel.set()
                raise
    except BaseExceptionGroup as errors:
        raise _only(errors) from None
    finally:
        cancel.close()
    return results[0]


def _only(errors: BaseExceptionGroup) -> BaseException:
    """Returns the error of the one task that a group held."""
    found: BaseException = errors
    while isinstance(found, BaseExceptionGroup):
        found = found.exceptions[0]
    return found


def run_command(command: Command, cancel: Cancel) -> Ran:
    """Runs a program until it ends or has to; blocks.

    Raises:
        OSError: The program could not be started.
    """
    mark = secrets.token_hex(16)
    inherited = command.environment.get(FAMILY_VARIABLE, "")
    family = f"{inherited} {mark}".strip()
    with subprocess.Popen(
        command.argv,
        cwd=command.cwd,
        env={**command.environment, FAMILY_VARIABLE: family},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        bufsize=0,
        start_new_session=True,
    ) as process:
        return _Run(command, cancel, process, mark).run()


class _Run:
    """One running program: its pipes, its deadline, its family."""

    def __init__(
        self, command: Command, cancel: Cancel, process: subprocess.Popen[bytes], mark: str
    ) -> None:
        self._command, self._cancel, self._process, self._mark = command, cancel, process, mark
        self._is_done = False
        self._begun = time.monotonic()
        self._pipes = Pipes(process, command.stdin, command.output_bytes)
        self._exit = _Exit(process)

    def run(self) -> Ran:
        try:
            stopped = self._watch()
            duration = time.monotonic() - self._begun
            self._pipes.forget(self._cancel, self._exit)
            if stopped is None:
                self._pump_until(lambda: self._pipes.are_at_end, LINGER_SECONDS)
            left = self._end()
            self._pipes.drain()
            return Ran(
                exit_status=self._exit.status(),
                stopped=stopped or ("output" if self._pipes.is_over else None),
                stdout=bytes(self._pipes.stdout),
                stderr=bytes(self._pipes.stderr),
                duration_ms=round(duration * 1000),
                left=left,
            )
        finally:
            self._end()
            self._exit.close()
            self._pipes.close()

    def _watch(self) -> Stopped | None:
        """Pumps until the program has ended or must be stopped."""
        self._pipes.wait_for(self._cancel, self._exit)
        while not self._exit.has_ended():
            if self._cancel.is_set:
                return "cancelled"
            left = self._seconds_left()
            if left <= 0:
                return "timeout"
            self._pipes.pump(min(left, self._exit.poll_seconds))
            if self._pipes.is_over:
                return "output"
        return None

    def _seconds_left(self) -> float:
        if self._command.seconds is None:
            return float("inf")
        return self._begun + self._command.seconds - time.monotonic()

    def _end(self) -> int:
        """Ends the whole family and reaps the leader; returns how many would not go."""
        if self._is_done:
            return 0
        self._is_done = True
        left = len(self._family())
        if left:
            self._signal(signal.SIGTERM)
            if self._pump_until(lambda: not self._family(), self._command.grace_seconds):
                self._signal(signal.SIGKILL)
                self._pump_until(self._kill_again, KILL_SECONDS)
            left = len(self._family())
        self._exit.reap()
        return left

    def _family(self) -> list[Member]:
        return find_family(self._process.pid, self._mark)

    def _kill_again(self) -> bool:
        """Kills what was started since; returns whether nothing is left."""
        if not self._family():
            return True
        self._signal(signal.SIGKILL)
        return False

    def _signal(self, number: signal.Signals) -> None:
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(self._process.pid, number)
        for member in self._family():
            member.signal(number)

    def _pump_until(self, is_done: Callable[[], bool], seconds: float) -> bool:
        """Pumps until something holds; returns whether time ran out instead."""
        end = time.monotonic() + seconds
        while not is_done():
            left = end - time.monotonic()
            if left <= 0:
                return True
            self._pipes.pump(min(left, _POLL_SECONDS))
        return False


class _Exit:
    """Notices a program's end without reaping it, so that its process group can't be reused."""

    def __init__(self, process: subprocess.Popen[bytes]) -> None:
        self._process = process
        self._status: int | None = None
        self._handle = _exit_handle(process.pid)
        self.poll_seconds = float("inf") if self._handle is not None else _POLL_SECONDS

    def fileno(self) -> int | None:
        """Returns what becomes readable when the program ends, if this system has such a thing."""
        return self._handle

    def has_ended(self) -> bool:
        if self._status is not None:
            return True
        if self._handle is None:
            # Here a program can't be seen to have ended without being reaped.
            self._status = self._process.poll()
            return self._status is not None
        options = os.WEXITED | os.WNOHANG | os.WNOWAIT
        found = cast("object", os.waitid(os.P_PID, self._process.pid, options))
        return found is not None

    def reap(self) -> None:
        self._status = self._process.wait()

    def status(self) -> int:
        assert self._status is not None, "asked before the end"
        return self._status

    def close(self) -> None:
        if self._handle is not None:
            os.close(self._handle)
            self._handle = None


def _exit_handle(pid: int) -> int | None:
    """Returns a handle that becomes readable when a program ends; None where there is none."""
    return os.pidfd_open(pid) if sys.platform == "linux" else None
