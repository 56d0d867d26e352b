"""FR-16, 17, 18: nothing outlives a run, stdin is the job, one and two interrupts."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import time
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from .conftest import Lab

ORPHAN = "sleep 86{tag} &\nwait\n"


def _alive(tag: str) -> int:
    """Returns how many sleeps with this very argument are alive."""
    found = 0
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        with contextlib.suppress(OSError):
            found += path.read_bytes() == b"sleep\x0086" + tag.encode() + b"\x00"
    return found


def _gone_within(tag: str, seconds: float) -> bool:
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        if not _alive(tag):
            return True
        time.sleep(0.05)
    return not _alive(tag)


@pytest.mark.slow
@pytest.mark.parametrize("how", ["timeout", "interrupt", "terminate"])
def test_nothing_that_a_driver_started_survives(one_lab: Lab, how: str) -> None:
    """FR-16: on timeout, Ctrl-C twice and SIGTERM no descendant is left 5 s later."""
    if not os.path.isdir("/proc/self"):
        pytest.skip("looks for processes in /proc")
    tag = f"{os.getpid()}{ {'timeout': 1, 'interrupt': 2, 'terminate': 3}[how] }"
    seconds = 1 if how == "timeout" else 60
    one_lab.write(units=2, clusters=2, body=ORPHAN.format(tag=tag), seconds=seconds)
    one_lab.register()
    process = one_lab.start("run", "--concurrency", "2")
    deadline = time.monotonic() + 30
    while _alive(tag) < 2 and time.monotonic() < deadline:
        time.sleep(0.02)
    assert _alive(tag) == 2
    if how == "interrupt":
        process.send_signal(signal.SIGINT)
        time.sleep(0.2)
        process.send_signal(signal.SIGINT)
    elif how == "terminate":
        process.send_signal(signal.SIGTERM)
    process.communicate(timeout=60)
    assert {"timeout": 0, "interrupt": 130, "terminate": 143}[how] == process.returncode
    assert _gone_within(tag, 5)
    statuses = {d["status"] for d in one_lab.events("decision")}
    assert statuses == ({"timeout"} if how == "timeout" else set())


@pytest.mark.slow
@pytest.mark.parametrize("stdin", ["null", "open pipe", "closed"])
def test_driver_reads_the_job_and_then_the_end(one_lab: Lab, stdin: str) -> None:
    """FR-17: whatever the run's own stdin is, a driver sees one line and the end of file."""
    body = 'lines=$(wc -l)\nprintf \'{"v":1,"score":%s,"passed":true,"usd":0}\\n\' "$lines"\n'
    one_lab.write(units=4, clusters=4, body=body)
    one_lab.register()
    if stdin == "closed":
        command = ["sh", "-c", 'exec "$0" "$@" <&-', *_ledger(one_lab, "run")]
        done = subprocess.run(
            command,
            cwd=one_lab.folder,
            env=_environment(one_lab),
            check=False,
            capture_output=True,
            timeout=60,
        )
        assert 0 == done.returncode, done.stderr
    else:
        source = subprocess.PIPE if stdin == "open pipe" else subprocess.DEVNULL
        process = one_lab.start("run", stdin=source)
        assert 0 == process.wait(timeout=60)
        for stream in (process.stdin, process.stdout, process.stderr):
            if stream is not None:
                stream.close()
    scores = {d["scores"]["score"] for d in one_lab.events("decision")}
    assert {1.0} == scores


def _ledger(lab: Lab, *arguments: str) -> list[str]:
    import sys

    return [sys.executable, "-m", "fairtrial.cli", *arguments, "--ledger", str(lab.ledger)]


def _environment(lab: Lab) -> dict[str, str]:
    return {**os.environ, **lab.environment}


@pytest.mark.slow
@pytest.mark.parametrize("signals", [1, 2, 15])
def test_interrupts_keep_outcomes_and_leave_the_rest_pending(one_lab: Lab, signals: int) -> None:
    """FR-18: one Ctrl-C waits, two end what is in flight, SIGTERM ends it; nothing is lost."""
    slow = "case $FAIRTRIAL_UNIT in u[0-3]) sleep 0.1;; *) sleep 1.5;; esac\n"
    one_lab.write(units=15, clusters=5, body=slow + 'printf \'{"v":1,"passed":true,"usd":0}\\n\'\n')
    one_lab.register()
    process = one_lab.start("run", "--concurrency", "4")
    one_lab.wait_for(3, process)
    process.send_signal(signal.SIGTERM if signals == 15 else signal.SIGINT)
    if signals == 2:
        time.sleep(0.2)
        process.send_signal(signal.SIGINT)
    out, err = process.communicate(timeout=60)
    assert (143 if signals == 15 else 130) == process.returncode
    assert any(word in out + err for word in (b"interrupted", b"terminated"))
    ends = one_lab.events("attempt_end")
    assert {"interrupted"} >= {end["status"] for end in ends}
    if signals == 1:
        assert [] == ends
    else:
        assert len(ends) > 0
    kept = one_lab.entries()
    settled = one_lab.settled()
    assert 3 <= settled < 30
    one_lab.call("run", "--concurrency", "8")
    assert kept == one_lab.entries()[: len(kept)]
    again = [count for count in one_lab.starts().values() if count > 1]
    # An attempt may be on record whose program had no time to start.
    assert len(again) <= len(ends)
    assert 30 == one_lab.settled()
