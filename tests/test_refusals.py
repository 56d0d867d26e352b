"""What refuses a person's input says more than that it does: what would be right, or what to do."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

from fairtrial.ledger import errors

ROOT = Path(__file__).resolve().parents[1]
FOLDERS = ("protocols", "custody", "engine", "verbs", "drivers")
MODULES = sorted(path for folder in FOLDERS for path in (ROOT / folder).glob("*.py"))
# What these two say is in their classes, or in the problems that they are given.
CLASSES = {*errors.__all__} - {"PlanMissingError", "ProtocolError", "visible"}
METHODS = ("refuse", "bad")
HELPS = {"expected", "todo"}


def refusals(source: str) -> Iterator[ast.Call]:
    """Yields each call that makes an error, or records a problem of a file."""
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Call):
            func = node.func
            if isinstance(func, ast.Attribute) and func.attr in METHODS:
                yield node
            if isinstance(func, ast.Name) and func.id in CLASSES:
                yield node


def is_silent(call: ast.Call) -> bool:
    """Returns whether a call names neither what is expected nor what to do."""
    names = {keyword.arg for keyword in call.keywords}
    # `**parts` hands on what another error said; one word is a problem among others.
    return None not in names and not names & HELPS and bool(call.args or names)


@pytest.mark.parametrize("path", MODULES, ids=lambda path: f"{path.parent.name}/{path.name}")
def test_refusal_says_what_would_be_right_or_what_to_do(path: Path) -> None:
    """No error about a person's input ends with what is wrong."""
    source = path.read_text(encoding="utf-8")
    assert [] == [
        f"{path.name}:{call.lineno} {ast.get_source_segment(source, call)}"
        for call in refusals(source)
        if is_silent(call)
    ]
