"""The picture of how the parts fit names modules and functions that are there."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
TEXT = (ROOT / "docs/design/overview.md").read_text(encoding="utf-8")
# `engine/running.py, executor.py`: what has no folder lies in that of the name before it.
NAMED = re.compile(r"(?:([a-z]+)/)?([a-z_*]+\.py)\b")


def named() -> list[str]:
    """Returns the modules that the picture names, a star for several."""
    found: list[str] = []
    folder = "."
    for package, name in NAMED.findall(TEXT):
        folder = package or ("." if name == "cli.py" else folder)
        found.append(f"{folder}/{name}")
    return sorted(set(found))


def test_many_modules_are_named() -> None:
    """The search below sees the document."""
    assert len(named()) > 60
    assert {"engine/executor.py", "./cli.py", "protocols/rules*.py"} <= set(named())


@pytest.mark.parametrize("module", named())
def test_named_module_is_there(module: str) -> None:
    """Who doubts something is sent to a file that exists."""
    assert list(ROOT.glob(module))
