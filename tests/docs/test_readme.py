"""README.md names what exists, its commands can be typed, and its output is what they print."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from fairtrial.cli import EXIT_CODES, VERBS

ROOT = Path(__file__).resolve().parents[2]
README = (ROOT / "README.md").read_text(encoding="utf-8")


def test_readme_names_targets_that_exist() -> None:
    """Each `make` target in the README is one of the Makefile."""
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    phony = set(re.findall(r"^\.PHONY: (.+)$", makefile, flags=re.MULTILINE)[0].split())
    named = set(re.findall(r"\bmake ([a-z]+)\b", README))
    assert {"demo", "test"} <= named
    assert set() == named - phony


def test_readme_links_to_files_that_exist() -> None:
    """Each relative link leads to a file or a folder of the repository."""
    links = [link for link in re.findall(r"\]\(([^)#]+)", README) if "://" not in link]
    assert links
    assert [] == [link for link in links if not (ROOT / link).exists()]


def test_readme_names_folders_that_exist() -> None:
    """The table of folders has each package, and no folder that is not there."""
    table = README.partition("## Where things are")[2]
    cells = re.findall(r"^\| (`[^|]+`) \|", table, flags=re.MULTILINE)
    named = re.findall(r"`([\w./]+)`", " ".join(cells))
    folders = {path.parent.name for path in ROOT.glob("*/*.py")} | {"docs", "benchmarks"}
    assert {f"{name}/" for name in folders} | {"cli.py"} <= set(named)
    pages = {page.name for page in (ROOT / "docs").glob("*.md")} - {"README.md"}
    assert set() == {page for page in pages if f"](docs/{page})" not in table}
    assert [] == [name for name in named if not (ROOT / name).exists()]


def test_readme_names_verbs_that_exist() -> None:
    """Each `ledger VERB` that the README shows is a verb of the command line."""
    blocks = re.findall(r"^    ([^#\n]*)", README, flags=re.MULTILINE)
    code = "\n".join([*blocks, *re.findall(r"`([^`]+)`", README)])
    shown = set(re.findall(r"(?:^|&& |then: | {2,})ledger ([a-z-]+)", code, flags=re.MULTILINE))
    assert {"run", "replay", "compare", "log"} <= shown
    assert set() == shown - {verb for verbs in VERBS.values() for verb in verbs}


def test_readme_lists_each_exit_code() -> None:
    """The table of exit codes is that of the command line."""
    table = README.partition("## Exit codes")[2].partition("## ")[0]
    cells = re.findall(r"^\| ([\d, ]+) \|", table, flags=re.MULTILINE)
    assert set(EXIT_CODES.values()) == {int(code) for code in ",".join(cells).split(",")}


def shell(line: str, folder: Path, receipt: str) -> str:
    """Types a line in a shell and returns its output; the line has to succeed."""
    bin_folder = str(Path(sys.executable).parent)
    identity = {
        f"GIT_{who}_{what}": "readme@example.org"
        for who in ("AUTHOR", "COMMITTER")
        for what in ("NAME", "EMAIL")
    }
    run = subprocess.run(
        ["sh", "-c", line.replace("RECEIPT", receipt)],
        cwd=folder,
        env={**os.environ, **identity, "PATH": f"{bin_folder}{os.pathsep}{os.environ['PATH']}"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert 0 == run.returncode, f"{line}\n{run.stdout}{run.stderr}"
    return run.stdout


@pytest.mark.slow
def test_working_day_can_be_typed(tmp_path: Path) -> None:
    """The twelve commands of the working day, typed in order, go from nothing to a verdict."""
    block = README.partition("## The working day")[2].partition("A table of outcomes")[0]
    lines = [line.partition("#")[0].strip() for line in block.strip().splitlines()]
    assert 12 == len(lines)
    receipt = ""
    printed = ""
    for place, line in enumerate(lines):
        printed = shell(line, tmp_path if place == 0 else tmp_path / "trial", receipt)
        found = re.findall(r"fairtrial:[0-9a-f]{32}@\d+#\S+", printed)
        receipt = found[-1] if found else receipt
    assert "INTACT" in printed.upper()


@pytest.mark.slow
def test_demo_prints_what_the_readme_shows(tmp_path: Path) -> None:
    """The output in the README is that of a run, but for what differs in each ledger."""
    block = README.partition("## What the demo prints")[2].partition("## ")[0]
    block = block.partition("\nThe ledger's id")[0]
    shown = [line.removeprefix("    ") for line in block.strip("\n").splitlines()]
    printed = shell("ledger demo", tmp_path, "").rstrip("\n").splitlines()
    assert "next: ledger init my-trial" == shown.pop()
    assert masked(shown) == masked(printed)


def masked(lines: list[str]) -> list[str]:
    """Returns the lines without ledger ids, event ids and roots."""
    return [re.sub(r"\b[0-9a-f]{8,}\b|#\S{44}", "*", line) for line in lines]
