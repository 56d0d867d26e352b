"""Ctrl-C once and twice, and SIGTERM: what was settled stays, the exit code says what happened."""

from __future__ import annotations

import os
import signal
import subprocess
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from .conftest import Shell

Make = Callable[..., Shell]
pytestmark = pytest.mark.slow
# Each attempt leaves a file with its process number, and takes half a second.
SLEEPY = {
    "import json\n": (
        "import json, os, pathlib, time\n"
        "pathlib.Path('starts').mkdir(exist_ok=True)\n"
        "pathlib.Path('starts', str(os.getpid())).touch()\n"
        "time.sleep(0.5)\n"
    )
}


def settled(shell: Shell) -> int:
    """Returns how many slots have an outcome."""
    count: int = shell.ok("status", "--json").json["settled"]
    return count


def wait_for(running: subprocess.Popen[str], shell: Shell, count: int) -> None:
    """Waits until so many attempts were started."""
    folder = shell.folder / "starts"
    deadline = time.monotonic() + 60
    while not folder.is_dir() or len(list(folder.iterdir())) < count:
        assert running.poll() is None
        assert time.monotonic() < deadline
        time.sleep(0.02)


def is_alive(path: Path) -> bool:
    """Returns whether the process that left this file is still there."""
    try:
        os.kill(int(path.name), 0)
    except ProcessLookupError:
        return False
    return True


@pytest.mark.parametrize(
    ("signals", "code", "word"),
    [
        ((signal.SIGINT,), 130, "interrupted"),
        ((signal.SIGINT, signal.SIGINT), 130, "interrupted"),
        ((signal.SIGTERM,), 143, "terminated"),
    ],
)
def test_signals_end_a_run_without_losing_an_outcome(
    example: Make, signals: tuple[signal.Signals, ...], code: int, word: str
) -> None:
    """No process is left, the run is resumable, and its text says that nothing was lost."""
    shell = example(SLEEPY)
    shell.ok("register")
    running = shell.start("run", "--concurrency", "4")
    wait_for(running, shell, 8)
    for each in signals:
        running.send_signal(each)
        time.sleep(0.1)
    out, _ = running.communicate(timeout=60)
    assert code == running.returncode
    assert f"{word}: " in out
    assert "nothing lost" in out
    assert [] == [path for path in (shell.folder / "starts").iterdir() if is_alive(path)]
    before = settled(shell)
    assert 0 < before < 36
    assert "interrupted" == shell.ok("status", "--json").json["state"]
    stops = shell.ok("log", "--kind", "stop").out
    assert f"session 1: {word}" in stops
    shell.ok("run", "--concurrency", "8")
    assert 36 == settled(shell)
    assert 0 == shell.ledger("replay").code
