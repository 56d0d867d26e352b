"""Rounds, medians and ratios for the benchmarks; nothing of the product."""

from __future__ import annotations

import os
import platform
import resource
import sqlite3
import subprocess
import sys
import time
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from statistics import median


def is_quick() -> bool:
    """Returns whether fewer events and rounds are asked for."""
    return "--quick" in sys.argv


def say_machine() -> None:
    """Prints when and on what the figures were measured."""
    day = datetime.now(UTC).date().isoformat()
    versions = f"Python {platform.python_version()}, SQLite {sqlite3.sqlite_version}"
    busy = f", load {os.getloadavg()[0]:.1f}" if hasattr(os, "getloadavg") else ""
    sys.stdout.write(f"{day}, {os.cpu_count()} cores{busy}, {versions}\n")


def option(name: str, default: int) -> int:
    """Returns the number that follows `--name` on the command line."""
    given = sys.argv
    return int(given[given.index(f"--{name}") + 1]) if f"--{name}" in given else default


def rounds(
    *works: Callable[[], object], count: int, clock: Callable[[], float] = time.perf_counter
) -> list[float]:
    """Returns the median seconds of each work, run in turn so that drift is shared.

    Args:
        works: What is compared.
        count: How many rounds.
        clock: `time.process_time` for work that waits for nothing: other programs on the machine
            disturb it less.
    """
    seconds: list[list[float]] = [[] for _ in works]
    for _ in range(count):
        for taken, work in zip(seconds, works, strict=True):
            begun = clock()
            work()
            taken.append(clock() - begun)
    return [median(each) for each in seconds]


def say(what: str, ours: float, peer: float, *, goal: str) -> None:
    """Prints how many times quicker ours is than the peer, both in seconds for the same work."""
    sys.stdout.write(f"{what:<62} {peer / ours:8.2f} x   (goal {goal})\n")
    sys.stdout.flush()


def peak_bytes(module: str, *arguments: str) -> int:
    """Returns the peak memory of a program of its own, which prints it last with `say_peak`."""
    command = [sys.executable, "-m", module, *arguments]
    done = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True)
    return int(done.stdout.split()[-1])


def say_peak() -> None:
    """Prints the peak memory of this program in bytes."""
    status = Path("/proc/self/status")
    if status.exists():
        # Linux lets a program begin with the peak of the one that started it, but not here.
        (line,) = (one for one in status.read_text().splitlines() if one.startswith("VmHWM"))
        peak = int(line.split()[1]) * 1024
    else:
        unit = 1 if sys.platform == "darwin" else 1024
        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit
    sys.stdout.write(f"{peak}\n")
