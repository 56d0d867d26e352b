"""The command line as a whole: its help, its start, its exit codes."""

from __future__ import annotations

import importlib
import re
import shlex
import statistics
import subprocess
import sys
import time
from pathlib import Path
from typing import get_args

import click
import pytest

from fairtrial.cli import EXIT_CODES, VERBS, ledger
from fairtrial.ledger import errors
from fairtrial.verbs.options import Command
from fairtrial.verbs.output import Ending

NAMES = [name for section in VERBS.values() for name in section]
ROOT = Path(__file__).resolve().parent.parent

BARE = """
import click

@click.group()
def group():
    '''A program.'''

@group.command()
def verb():
    '''A verb.'''

group()
"""
OURS = "import sys; sys.argv[0] = 'ledger'; from fairtrial.cli import main; main()"
HEAVY = (
    "numpy",
    "scipy",
    "sqlite_utils",
    "sqlite3",
    "asyncio",
    "anyio",
    "rich",
    "msgspec",
    "blake3",
)


def verb(name: str) -> Command:
    """Returns the command of a verb."""
    command = ledger.get_command(click.Context(ledger), name)
    assert isinstance(command, Command)
    return command


def test_first_screen_names_each_verb_once_and_the_working_day_first() -> None:
    """`ledger --help` begins with the verbs of the working day, in their order."""
    text = ledger.get_help(click.Context(ledger, info_name="ledger"))
    found = re.findall(r"^  ([a-z][a-z-]*) {2,}[A-Z]", text, flags=re.MULTILINE)
    assert NAMES == found
    day = "init check try register freeze run status look result"
    assert day.split() == found[:9]
    assert len(text.splitlines()) <= 50


@pytest.mark.parametrize("name", NAMES)
def test_verb_has_the_shared_options_and_a_help(name: str) -> None:
    """Every verb takes --json and --quiet, and says in a sentence what it does."""
    command = verb(name)
    options = {option for parameter in command.params for option in parameter.opts}
    assert {"--json", "--quiet"} <= options
    assert command.help is not None
    assert command.help.partition("\n\n")[0].rstrip().endswith(".")


@pytest.mark.parametrize("name", NAMES)
def test_examples_of_the_help_can_be_parsed(name: str) -> None:
    """Each line of a verb's example is a line that this command line accepts."""
    lines = [line.strip() for line in verb(name).example.strip().splitlines()]
    assert any(line.startswith(f"ledger {name}") for line in lines)
    for line in lines:
        words = shlex.split(re.split(r" [|>&]| && ", line)[0])
        assert "ledger" == words[0]
        command = verb(words[1])
        command.make_context(words[1], words[2:])


def test_every_error_class_and_ending_has_an_exit_code() -> None:
    """The table has a row for each class of error and for each word that a verb can return."""
    classes = [name for name in errors.__all__ if name.endswith("Error")]
    assert {*classes, *get_args(Ending), "unexpected", "UsageError"} == set(EXIT_CODES)


def test_exit_codes_are_those_of_the_readme() -> None:
    """Each code of the README's table is in the program's, and the other way round."""
    table = (ROOT / "README.md").read_text().partition("## Exit codes")[2].partition("\n## ")[0]
    rows = re.findall(r"^\| ([\d, ]+) \|", table, flags=re.MULTILINE)
    codes = {int(code) for row in rows for code in row.split(",")}
    assert codes == set(EXIT_CODES.values())


def test_verb_modules_exist_for_the_verbs_of_the_table_alone() -> None:
    """A module `do_NAME.py` is a verb of the table, and every verb has one."""
    modules = {
        path.stem.removeprefix("do_").replace("_", "-") for path in ROOT.glob("verbs/do_*.py")
    }
    if not modules:
        pytest.skip("the sources are not here")
    assert set(NAMES) == modules
    for name in NAMES:
        importlib.import_module(f"fairtrial.verbs.do_{name.replace('-', '_')}")


@pytest.mark.slow
def test_help_imports_nothing_that_is_large() -> None:
    """`ledger --help` pays for click and for nothing else."""
    program = OURS.replace("main()", "\ntry:\n    main(['--help'])\nexcept SystemExit:\n    pass\n")
    program += f"print([name for name in {HEAVY!r} if name in sys.modules], file=sys.stderr)"
    run = subprocess.run([sys.executable, "-c", program], cwd="/", capture_output=True, text=True)
    assert "[]" == run.stderr.strip()


@pytest.mark.slow
def test_help_starts_within_twice_a_bare_click_program() -> None:
    """The start costs at most as much again as click itself, medians of the same run."""

    def once(program: str) -> float:
        begun = time.perf_counter()
        subprocess.run(
            [sys.executable, "-c", program, "--help"], cwd="/", capture_output=True, check=True
        )
        return time.perf_counter() - begun

    for program in (BARE, OURS):
        once(program)
    pairs = [(once(BARE), once(OURS)) for _ in range(9)]
    bare, ours = (statistics.median(column) for column in zip(*pairs, strict=True))
    assert ours <= 2 * bare, f"{ours * 1000:.0f} ms against {bare * 1000:.0f} ms"
