"""The table of attacks in README.md of this folder: a row has tests, a file of tests a row."""

from __future__ import annotations

import ast
import re
from pathlib import Path

from fairtrial.custody import bundling

from .conftest import ROOT, VERIFIER

HERE = Path(__file__).parent
# The ways of tampering that the design lists, false words, and the honest ledger.
ROWS = 37


def rows() -> list[list[str]]:
    """Returns the cells of each row."""
    text = (HERE / "README.md").read_text()
    lines = [line for line in text.splitlines() if line.startswith("| ")]
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in lines[1:]]


def names_in(path: Path) -> set[str]:
    """Returns the names of the tests of a file."""
    tree = ast.parse(path.read_text())
    named = (node for node in tree.body if isinstance(node, ast.FunctionDef))
    return {node.name for node in named if node.name.startswith("test_")}


def test_every_attack_has_a_test_that_exists() -> None:
    """A row without a test, or with one that is gone, is a promise that nobody keeps."""
    found = rows()
    assert ROWS == len(found)
    for attack, _, verdict, names in found:
        named = re.findall(r"`([a-z_/]+\.py)::(\w+)`", names)
        assert named, attack
        assert verdict, attack
        assert names.count("::") == len(named), attack
        for file, name in named:
            path = (ROOT if "/" in file else HERE) / file
            assert name in names_in(path), f"{attack}: {file}::{name}"


def test_every_file_of_attacks_is_in_the_table() -> None:
    """What is tested here is told in the table."""
    text = (HERE / "README.md").read_text()
    files = {path.name for path in HERE.glob("test_*.py")}
    assert set() == {name for name in files if f"`{name}::" not in text}


def test_replaced_verifier_is_warned_of() -> None:
    """No file can vouch for the program that reads it: verifier and bundle say what to compare."""
    text = " ".join(VERIFIER.read_text().split())
    assert "Compare its SHA-256 with the repository's docs/verify_ledger.sha256" in text
    source = Path(bundling.__file__).read_text()
    assert "Compare the SHA-256 of verify_ledger.py with docs/verify_ledger.sha256 in the" in source
