"""README.md names what exists: commands, targets, folders and linked files."""

from __future__ import annotations

import re
from pathlib import Path

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
    assert {"ledger/", "analysis/", "engine/", "cli.py", "schemas/"} <= set(named)
    assert [] == [name for name in named if not (ROOT / name).exists()]
