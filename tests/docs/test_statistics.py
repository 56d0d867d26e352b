"""The pages on statistics name what the tool has, and their tables are those of the benchmarks."""

from __future__ import annotations

import re
import runpy
from pathlib import Path
from typing import get_args

import pytest

from fairtrial.ledger.sections import EndpointType

ROOT = Path(__file__).resolve().parents[2]
PAGES = ("statistics.md", "which-design.md")


def page(name: str) -> str:
    """Returns the text of a page."""
    return (ROOT / "docs" / name).read_text(encoding="utf-8")


def test_every_type_has_a_row() -> None:
    """A type that a protocol may have stands on the page that helps to choose one."""
    text = page("which-design.md")
    assert [] == [name for name in get_args(EndpointType) if f"`{name}`" not in text]


def table(head: str) -> tuple[list[str], list[str]]:
    """Returns the heads of a table's columns and rows, by how its first line begins."""
    text = page("statistics.md")
    lines = text[text.index(head) :].split("\n\n")[0].splitlines()
    columns = [cell.strip() for cell in lines[0].strip("| ").split(" | ")][1:]
    return columns, [line.split(" | ")[0].removeprefix("| ") for line in lines[2:]]


def test_table_has_the_rows_of_the_benchmark() -> None:
    """Each row of the coverage table is made by the benchmark, and none is left out."""
    made = runpy.run_path(str(ROOT / "benchmarks" / "coverage.py"))
    columns, rows = table("| method and data |")
    assert list(made["CELLS"]) == rows
    assert [str(count) for count in made["CLUSTERS"]] == columns


def test_tables_of_errors_have_the_cells_of_their_benchmarks() -> None:
    """Flags at a target and win rates between equal arms: rows and columns are those made."""
    flags = runpy.run_path(str(ROOT / "benchmarks" / "flag_errors.py"))
    assert (list(flags["designs"]()), list(flags["ROWS"])) == table("| bound, icc |")
    wins = runpy.run_path(str(ROOT / "benchmarks" / "win_rate_errors.py"))
    heads = [f"{count} clusters" for count in wins["CLUSTERS"]]
    assert (heads, list(wins["ESTIMANDS"])) == table("| estimand | 12")
    savings = runpy.run_path(str(ROOT / "benchmarks" / "saving_errors.py"))
    assert (list(savings["DESIGNS"]), list(savings["ROWS"])) == table("| costs | 60 single")
    warned = (list(savings["WARNED_DESIGNS"]), list(savings["WARNED_ROWS"]))
    assert warned == table("| costs, warned |")


def test_each_module_of_analysis_has_its_method() -> None:
    """The table of modules names every module of `analysis/`, and no other."""
    text = page("statistics.md").split("## Where each is computed")[1].split("\n## ")[0]
    cells = " ".join(line.split("|")[2] for line in text.splitlines() if line.startswith("| "))
    modules = {path.stem for path in (ROOT / "analysis").glob("*.py")} - {"__init__"}
    assert modules == set(re.findall(r"`(\w+)`", cells.replace("`analysis/`", "")))


@pytest.mark.parametrize("name", PAGES)
def test_tables_are_whole(name: str) -> None:
    """No row stands apart from its table: a table begins with a head and its line."""
    blocks = [block for block in page(name).split("\n\n") if block.lstrip().startswith("|")]
    assert blocks
    assert [] == [block for block in blocks if not re.search(r"^\s*\|[-:| ]+\|$", block, re.M)]


@pytest.mark.parametrize("name", PAGES)
def test_named_files_exist(name: str) -> None:
    """A page names no file that isn't there."""
    named = re.findall(r"`((?:tests|docs|benchmarks)/[^` ]*)`", page(name))
    assert [] == [path for path in named if not (ROOT / path).exists()]


def test_each_method_says_when_not_to_use_it() -> None:
    """Every method has an estimand, assumptions, a source, a range and a limit."""
    methods = page("statistics.md").split("\n## Methods\n")[1].split("\n## ")[0]
    sections = methods.split("\n### ")[1:]
    lacking = [
        section.splitlines()[0]
        for section in sections
        for word in ("Estimand:", "Assumptions:", "Source:", "Range:", "When not:")
        if f"\n- {word}" not in section
    ]
    assert sections
    assert [] == lacking
