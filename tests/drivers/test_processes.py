"""Programs are run with an input that ends, a deadline, a limit, and nothing is left of them."""

from __future__ import annotations

import os
import shlex
import subprocess
import sys
import time
from pathlib import Path

import anyio
import pytest

from fairtrial.drivers.processes import Command, Ran, in_thread, run_command

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="runs are for Linux and macOS")
linux = pytest.mark.skipif(sys.platform != "linux", reason="found by /proc")
MEGABYTE = 2**20


def _command(script: str, folder: Path, **settings: object) -> Command:
    given: dict[str, object] = {
        "argv": ("/bin/sh", "-c", script),
        "cwd": folder,
        "environment": {"PATH": os.environ["PATH"]},
        "output_bytes": MEGABYTE,
        "grace_seconds": 0.2,
    }
    return Command(**given | settings)  # type: ignore[arg-type]  # checked by the dataclass's users


def _run(script: str, folder: Path, **settings: object) -> Ran:
    command = _command(script, folder, **settings)

    async def main() -> Ran:
        return await in_thread(lambda cancel: run_command(command, cancel))

    return anyio.run(main)


def _is_running(path: Path) -> bool:
    """Returns whether the process whose number stands in a file is alive."""
    try:
        pid = int(path.read_text())
        os.kill(pid, 0)
        state = Path(f"/proc/{pid}/stat")
        return not state.exists() or state.read_text().rpartition(")")[2].split()[0] not in "ZX"
    except ProcessLookupError:
        return False


def test_input_is_given_then_ends(tmp_path: Path) -> None:
    """A program finds its line and the end of its input (FR-17)."""
    ran = _run("cat; echo end; echo oops >&2", tmp_path, stdin=b"line\n")
    assert (0, None, b"line\nend\n", b"oops\n", 0) == (
        ran.exit_status, ran.stopped, ran.stdout, ran.stderr, ran.left,
    )  # fmt: skip


def test_large_input_and_output_move_at_once(tmp_path: Path) -> None:
    """Neither side waits for the other when both are larger than a pipe."""
    data = b"x" * MEGABYTE
    assert data == _run("cat", tmp_path, stdin=data, output_bytes=2 * MEGABYTE).stdout


def test_program_that_does_not_read_ends(tmp_path: Path) -> None:
    """Input that nobody wants holds nobody up."""
    assert b"done\n" == _run("exec <&-; echo done", tmp_path, stdin=b"x" * MEGABYTE).stdout


@pytest.mark.parametrize(("script", "status"), [("exit 7", 7), ("kill -9 $$", -9)])
def test_exit_status_is_told(tmp_path: Path, script: str, status: int) -> None:
    """A status is 0 to 255, a signal minus its number."""
    assert status == _run(script, tmp_path).exit_status


def test_program_that_can_not_start_is_an_error(tmp_path: Path) -> None:
    """What isn't there can't be run."""
    with pytest.raises(FileNotFoundError):
        _run("", tmp_path, argv=(str(tmp_path / "nothing"),))


def test_deadline_ends_the_whole_family(tmp_path: Path) -> None:
    """At the deadline a child in the background ends too (FR-16 a)."""
    ran = _run("sleep 600 & echo $! > child; wait", tmp_path, seconds=0.1)
    assert ("timeout", 0) == (ran.stopped, ran.left)
    assert not _is_running(tmp_path / "child")
    assert 100 <= ran.duration_ms < 2000


@pytest.mark.slow
def test_child_that_ignores_sigterm_is_killed(tmp_path: Path) -> None:
    """After the grace comes SIGKILL, for the child as for its parent (FR-16)."""
    script = (
        "trap '' TERM; sh -c \"trap '' TERM; echo \\$\\$ > child; sleep 600 & wait; sleep 600\""
    )
    begun = time.monotonic()
    ran = _run(script, tmp_path, seconds=0.2)
    assert ("timeout", -9, 0) == (ran.stopped, ran.exit_status, ran.left)
    assert not _is_running(tmp_path / "child")
    assert time.monotonic() - begun < 3


@pytest.mark.slow
def test_program_may_end_in_its_grace(tmp_path: Path) -> None:
    """SIGTERM comes first, so that a program can clean up; what it prints then is kept."""
    script = "trap 'echo bye; exit 3' TERM; sleep 600 & wait"
    ran = _run(script, tmp_path, seconds=0.5, grace_seconds=2.0)
    assert ("timeout", 3, b"bye\n") == (ran.stopped, ran.exit_status, ran.stdout)


@pytest.mark.slow
def test_held_pipe_is_not_waited_for(tmp_path: Path) -> None:
    """A child that keeps the pipes open ends with its parent, and holds nobody up."""
    begun = time.monotonic()
    ran = _run("sleep 600 & echo $! > child; echo out", tmp_path)
    assert (0, None, b"out\n") == (ran.exit_status, ran.stopped, ran.stdout)
    assert not _is_running(tmp_path / "child")
    assert time.monotonic() - begun < 3


def test_late_output_of_a_child_is_kept(tmp_path: Path) -> None:
    """What is still on its way when the program ends arrives."""
    assert b"late\n" == _run("(sleep 0.02; echo late) & exit 0", tmp_path).stdout


@linux
def test_child_in_another_session_is_found(tmp_path: Path) -> None:
    """`setsid` hides nothing: the mark in the environment stays (FR-16)."""
    script = "setsid sh -c 'echo $$ > child; exec sleep 600' >/dev/null 2>&1 & "
    script += "while [ ! -s child ]; do sleep 0.01; done"
    assert 0 == _run(script, tmp_path).left
    assert not _is_running(tmp_path / "child")


@linux
def test_child_without_environment_is_found_by_its_parent(tmp_path: Path) -> None:
    """A grandchild that has emptied its environment is found while its parent lives."""
    script = "setsid sh -c 'env -i sh -c \"echo \\$\\$ > child; exec sleep 600\"; true' & "
    script += "while [ ! -s child ]; do sleep 0.01; done; sleep 600"
    assert 0 == _run(script, tmp_path, seconds=0.3).left
    assert not _is_running(tmp_path / "child")


def test_other_peoples_processes_are_not_touched(tmp_path: Path) -> None:
    """A process that the attempt didn't start lives on, even one in the runner's own group."""
    other = os.posix_spawnp("sleep", ["sleep", "600"], os.environ)
    try:
        _run("sleep 600 & wait", tmp_path, seconds=0.05)
        assert (0, 0) == os.waitpid(other, os.WNOHANG)
    finally:
        os.kill(other, 9)
        os.waitpid(other, 0)


@pytest.mark.parametrize("script", ["exec yes", "yes >&2", "yes & yes; exit 0"])
def test_output_over_the_limit_ends_the_attempt(tmp_path: Path, script: str) -> None:
    """No more is kept than may be printed, on both pipes together."""
    ran = _run(script, tmp_path, output_bytes=100_000)
    assert ("output", 100_000) == (ran.stopped, len(ran.stdout) + len(ran.stderr))


def test_output_over_the_limit_at_the_very_end_is_noticed(tmp_path: Path) -> None:
    """A program that ends as it passes the limit has passed it."""
    ran = _run("printf 12345", tmp_path, output_bytes=4)
    assert ("output", b"1234") == (ran.stopped, ran.stdout)
    assert _run("printf 1234", tmp_path, output_bytes=4).stopped is None


def test_cancellation_ends_the_family_and_passes_on(tmp_path: Path) -> None:
    """A cancelled attempt leaves nothing behind when the cancellation arrives (FR-16 b, c)."""
    command = _command("sleep 600 & echo $! > child; wait", tmp_path)

    async def main() -> bool:
        with anyio.CancelScope() as scope:
            async with anyio.create_task_group() as group:
                group.start_soon(in_thread, lambda cancel: run_command(command, cancel))
                while not (tmp_path / "child").exists() or not (tmp_path / "child").read_text():
                    await anyio.sleep(0.005)
                group.cancel_scope.cancel()
            assert not _is_running(tmp_path / "child")
            await anyio.lowlevel.checkpoint()
            return True
        return scope.cancel_called

    assert anyio.run(main)


def test_error_of_the_work_passes_as_it_is() -> None:
    """Work that fails raises its own error, not a group."""

    async def main() -> None:
        await in_thread(lambda cancel: 1 // 0)

    with pytest.raises(ZeroDivisionError):
        anyio.run(main)


@pytest.mark.slow
@pytest.mark.parametrize("setting", ["terminal", "open pipe", "closed"])
def test_stdin_of_the_runner_is_never_inherited(tmp_path: Path, setting: str) -> None:
    """From a terminal, an open pipe or nothing at all, a reading program ends at once (FR-17)."""
    runner = tmp_path / "runner.py"
    runner.write_text(
        "import os\n"
        "from pathlib import Path\n"
        "from fairtrial.drivers.processes import Cancel, Command, run_command\n"
        "ran = run_command(Command(argv=('/bin/sh', '-c', 'cat >/dev/null; echo 1; tty'),\n"
        "    cwd=Path('/'), environment=dict(os.environ), stdin=b'x\\n', seconds=20,\n"
        "    output_bytes=1000), Cancel())\n"
        "Path('answer').write_text(f'{ran.stopped} {ran.stdout.decode().split()[0]}')\n"
    )
    line = f"cd {shlex.quote(str(tmp_path))} && exec {shlex.quote(sys.executable)} runner.py"
    begun = time.monotonic()
    _start_runner(line, setting)
    assert "None 1" == (tmp_path / "answer").read_text()
    assert time.monotonic() - begun < 10


def _start_runner(line: str, setting: str) -> None:
    """Runs a shell line to its end under one kind of stdin."""
    if setting == "closed":
        subprocess.run(["/bin/sh", "-c", line + " <&-"], check=True, timeout=20)
        return
    # The other end stays open, so a reader that inherited this one would wait for ever.
    kept, given = os.openpty() if setting == "terminal" else _pipe_for_reading()
    try:
        subprocess.run(["/bin/sh", "-c", line], stdin=given, check=True, timeout=20)
    finally:
        os.close(given)
        os.close(kept)


def _pipe_for_reading() -> tuple[int, int]:
    reader, writer = os.pipe()
    return writer, reader
