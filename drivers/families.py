"""Finds what a program has started, for `processes.py`.

Leaves to `processes.py` when somebody is ended.

Rules:
- Linux: members are the processes of the leader's session, those that carry the mark in their
  environment, and children of either; only those that began after the leader. Zombies don't count.
- Elsewhere: the leader's process group as a whole is the one member.
- A member is signalled through a handle that is checked against its start time: a number that was
  given to another process meanwhile is left alone.
"""

from __future__ import annotations

import os
import signal
import sys
from contextlib import suppress
from typing import NamedTuple

__all__ = ("Member", "find_family")


class Member(NamedTuple):
    """One process (on Linux), or the whole group (elsewhere)."""

    pid: int
    began: int

    def signal(self, number: signal.Signals) -> None:
        """Sends a signal, unless the process is gone or isn't the one that was found."""
        with suppress(ProcessLookupError, PermissionError):
            if sys.platform != "linux":
                os.killpg(self.pid, number)
                return
            handle = os.pidfd_open(self.pid)
            try:
                found = _stat(self.pid)
                if found is not None and found.began == self.began:
                    signal.pidfd_send_signal(handle, number)
            finally:
                os.close(handle)


class _Stat(NamedTuple):
    pid: int
    parent: int
    session: int
    began: int
    is_gone: bool


def find_family(leader: int, mark: str) -> list[Member]:
    """Returns the living processes that belong to an attempt, its leader among them.

    Args:
        leader: The process that was started, as a session leader; not reaped yet (on Linux).
        mark: What the attempt's processes carry in their environment.
    """
    if sys.platform != "linux":
        return _find_group(leader)
    first = _stat(leader)
    if first is None:
        return []
    began = first.began
    later = [stat for stat in map(_stat, _pids()) if stat is not None and stat.began >= began]
    family = {
        stat.pid
        for stat in later
        if stat.session == leader or stat.pid == leader or _carries(stat.pid, mark)
    }
    while grown := {s.pid for s in later if s.parent in family} - family:
        family |= grown
    return [Member(s.pid, s.began) for s in later if s.pid in family and not s.is_gone]


def _find_group(leader: int) -> list[Member]:
    try:
        os.killpg(leader, 0)
    except ProcessLookupError:
        return []
    except PermissionError:
        # macOS says so when only zombies are left in a group.
        return []
    return [Member(leader, 0)]


def _pids() -> list[int]:
    return [int(name) for name in os.listdir("/proc") if name.isdecimal()]


def _stat(pid: int) -> _Stat | None:
    """Returns what /proc/PID/stat says, None when the process is gone."""
    try:
        with open(f"/proc/{pid}/stat", "rb") as file:
            text = file.read()
    except OSError:
        return None
    # The second field is the name in parentheses, which may hold anything.
    fields = text[text.rindex(b")") + 2 :].split()
    return _Stat(pid, int(fields[1]), int(fields[3]), int(fields[19]), fields[0] in b"ZX")


def _carries(pid: int, mark: str) -> bool:
    try:
        with open(f"/proc/{pid}/environ", "rb") as file:
            return mark.encode() in file.read()
    except OSError:
        return False
