"""A folder with the command `ledger` in it: called in this process, or as its users call it."""

from __future__ import annotations

import contextlib
import io
import json
import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from fairtrial.cli import main

Rows = Mapping[str, tuple[int, int]]


@dataclass(frozen=True)
class Said:
    """What one call printed, and its exit code."""

    code: int
    out: str
    err: str

    @property
    def json(self) -> Any:
        """The one JSON value on stdout."""
        return json.loads(self.out)


class _Stream(io.TextIOWrapper):
    """Text that keeps what is written to it, bytes too."""

    def __init__(self) -> None:
        super().__init__(io.BytesIO(), encoding="utf-8", newline="\n", write_through=True)

    def text(self) -> str:
        """Returns all of it."""
        self.flush()
        buffer = self.buffer
        assert isinstance(buffer, io.BytesIO)
        return buffer.getvalue().decode("utf-8")


@dataclass
class Shell:
    """A working folder."""

    folder: Path
    environment: dict[str, str] = field(default_factory=dict)

    def ledger(self, *words: str) -> Said:
        """Calls the command in this process."""
        out, err, code = _Stream(), _Stream(), 0
        before = Path.cwd()
        os.chdir(self.folder)
        try:
            with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
                main(words)
        except SystemExit as end:
            code = int(end.code or 0)
        finally:
            os.chdir(before)
        return Said(code, out.text(), err.text())

    def ok(self, *words: str) -> Said:
        """Calls the command and expects exit code 0."""
        said = self.ledger(*words)
        assert 0 == said.code, said.err + said.out
        return said

    def start(self, *words: str) -> subprocess.Popen[str]:
        """Starts the installed command as a process of its own."""
        return subprocess.Popen(
            [str(command()), *words],
            cwd=self.folder,
            env={**os.environ, **self.environment},
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )

    def process(self, *words: str) -> Said:
        """Runs the installed command as a process of its own."""
        running = self.start(*words)
        out, err = running.communicate(timeout=120)
        return Said(running.returncode, out, err)

    def table(self, rows: Rows, name: str = "table.csv") -> Path:
        """Writes a wide table; each unit's cluster is what its id says before the dash."""
        path = self.folder / name
        lines = ["unit,cluster,old,new"]
        lines += [f"{unit},{unit.partition('-')[0]},{a},{b}" for unit, (a, b) in rows.items()]
        path.write_text("\n".join(lines) + "\n")
        return path

    def recorded(self, rows: Rows, *, register: bool = True, ledger: str = "ledger.db") -> None:
        """Puts a trial made from a table into this folder."""
        table = self.table(rows)
        self.ok("init", "--from", table.name, "--arms", "old,new", ".")
        if register:
            self.ok("register", "--ledger", ledger)


def command() -> Path:
    """Returns the installed command of this environment."""
    path = Path(sys.executable).with_name("ledger")
    assert path.exists(), "the package is installed with its commands"
    return path


# 24 units in 12 clusters: the new arm solves what the old one does, and half as much again.
BETTER = {
    f"c{cluster:02}-{unit}": (int(unit == 0), int(unit == 0 or cluster % 4 != 0))
    for cluster in range(12)
    for unit in range(2)
}
# The same, turned round.
WORSE = {unit: (new, old) for unit, (old, new) in BETTER.items()}
# Four clusters: nothing can be concluded.
FEW = {unit: pair for unit, pair in BETTER.items() if unit < "c04"}


@pytest.fixture
def shell(tmp_path: Path) -> Shell:
    """Returns an empty folder outside git."""
    return Shell(tmp_path)


@pytest.fixture(scope="session")
def _concluded(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("concluded")
    shell = Shell(folder)
    shell.recorded(BETTER)
    shell.ok("run")
    shell.ok("result")
    return folder


@pytest.fixture
def concluded(_concluded: Path, tmp_path: Path) -> Shell:
    """Returns a folder whose experiment is concluded: adopt."""
    folder = tmp_path / "trial"
    shutil.copytree(_concluded, folder)
    return Shell(folder)


@pytest.fixture
def example(shell: Shell) -> Callable[..., Shell]:
    """Returns a function that makes the commented example, with words replaced in its files."""

    def make(agent: Mapping[str, str] | None = None, **plan: str) -> Shell:
        shell.ok("init", ".")
        for name, changes in (("agent.py", agent or {}), ("protocol.yaml", plan)):
            path = shell.folder / name
            text = path.read_text()
            for old, new in changes.items():
                assert old in text, old
                text = text.replace(old, new)
            path.write_text(text)
        return shell

    return make
