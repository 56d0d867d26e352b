"""Ledgers without an entry, links that lead nowhere, names that are no text, several at once."""

from __future__ import annotations

import os
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from fairtrial.ledger.locks import side_folder
from fairtrial.verbs.output import shell_word

from .conftest import BETTER, Shell

pytestmark = pytest.mark.slow

READING = [
    ("status",),
    ("log",),
    ("show", "0"),
    ("replay",),
    ("result",),
    ("run",),
    ("export", "copy.db"),
    ("export", "--bundle", "audit.zip"),
]


@pytest.mark.parametrize("words", READING, ids=" ".join)
def test_ledger_without_an_entry_is_never_fine(shell: Shell, words: tuple[str, ...]) -> None:
    """A file without an entry holds no ledger: 12 from every verb, and nothing is made of it."""
    (shell.folder / "empty.jsonl").touch()
    said = shell.ledger(*words, "--ledger", "empty.jsonl")
    assert (12, True) == (said.code, "no entry" in said.err + said.out)
    assert 12 == shell.ledger("import", "empty.jsonl", "--ledger", "imported.db").code
    assert not (shell.folder / "imported.db").exists()
    assert not (shell.folder / words[-1]).is_file()


def test_run_before_a_registration_says_so(shell: Shell) -> None:
    """A ledger that was opened and holds no experiment: said, with what to type."""
    shell.recorded(BETTER)
    lines = shell.ok("log", "--json").out.splitlines(keepends=True)
    (shell.folder / "begun.jsonl").write_text(lines[0])
    said = shell.ledger("run", "--ledger", "begun.jsonl")
    assert 3 == said.code
    assert "holds no experiment yet" in said.err
    assert "ledger register" in said.err


def test_link_that_leads_nowhere_is_refused(shell: Shell) -> None:
    """Neither a folder nor a ledger is begun at a link to itself, and nothing is left behind."""
    shell.recorded(BETTER, register=False)
    loop = shell.folder / "loop"
    loop.symlink_to(loop)
    before = sorted(shell.folder.iterdir())
    for words, code in (
        (("init", "loop"), 3),
        (("register", "--ledger", "loop"), 8),
        (("replay", "--against", "loop"), 3),
        (("status", "--ledger", "loop"), 8),
    ):
        said = shell.ledger(*words)
        assert code == said.code, said.err
    assert before == sorted(shell.folder.iterdir())
    assert not side_folder(loop).exists()


def test_next_command_can_be_typed(concluded: Shell, monkeypatch: pytest.MonkeyPatch) -> None:
    """What is proposed has only options that its verb has, and names the file whatever its name."""
    for name in ("KEYS", "STATE"):
        monkeypatch.setenv(f"FAIRTRIAL_{name}", str(concluded.folder / name))
    concluded.ok("key", "new", "lab")
    concluded.ok("checkpoint", "--key", "lab")
    name = os.fsdecode(b"pr\xff f.proof")
    said = concluded.ok("prove", "1", "--ledger", "ledger.db", "--output", name)
    proposed = said.err.rpartition("next: ")[2].strip()
    assert "--ledger" not in proposed
    assert (
        2
        != concluded.ledger(*shlex.split(proposed.replace("$'pr\\xff\\x20f.proof'", "x"))[1:]).code
    )
    shown = concluded.ok("prove", "2", "--json", "--output", os.fsdecode(b"\xfe.proof")).json
    assert "\\xfe.proof" in shown["next"]


@pytest.mark.skipif(shutil.which("bash") is None, reason="needs bash, whose words they are")
@pytest.mark.parametrize(
    "name", [b"plain", b"two words", b"it's", b"\xff\x01a1", b"new\nline", b"$x"]
)
def test_shell_word_is_the_name(name: bytes) -> None:
    """A shell that reads the word gets the bytes of the name."""
    word = shell_word(Path(os.fsdecode(name)))
    done = subprocess.run(["bash", "-c", f"printf %s {word}"], capture_output=True, check=True)
    assert name == done.stdout


def test_parallel_registers_agree(shell: Shell) -> None:
    """Four that begin one ledger at once: all are done, or busy; there is one registration."""
    shell.recorded(BETTER, register=False)
    running = [shell.start("register") for _ in range(4)]
    said = [(one.communicate(timeout=120)[1], one.returncode) for one in running]
    assert {code for _, code in said} <= {0, 7}, said
    kinds = [line for line in shell.ok("log").out.splitlines() if " register " in line]
    assert 1 == len(kinds)


@pytest.mark.skipif(os.name == "nt", reason="signals are another thing there")
def test_interrupt_while_it_starts_is_130(tmp_path: Path) -> None:
    """Ctrl-C before the command line is loaded ends it as it does later, without a traceback."""
    (tmp_path / "click.py").write_text("raise KeyboardInterrupt\n")
    program = "import fairtrial.cli"
    done = subprocess.run(
        [sys.executable, "-c", program],
        env={**os.environ, "PYTHONPATH": str(tmp_path)},
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
    )
    assert (130, "interrupted\n") == (done.returncode, done.stderr)


def test_log_counts_what_it_no_longer_shows(concluded: Shell) -> None:
    """Of lines that are no entries the first are listed and the rest are counted."""
    concluded.ok("export", "copy.jsonl")
    path = concluded.folder / "copy.jsonl"
    size = len(path.read_bytes().splitlines())
    path.write_bytes(path.read_bytes() + b"\n" * 1500)
    said = concluded.ok("log", "copy.jsonl")
    assert size + 1000 == len(said.out.splitlines())
    assert "500 further lines that are no entries" in said.err
    assert size + 1500 == len(concluded.ok("log", "copy.jsonl", "--json").out.splitlines())
