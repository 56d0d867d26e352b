"""Decision records: one number each, references that resolve, nothing to look up elsewhere."""

from __future__ import annotations

import re
from collections import Counter
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
RECORDS = sorted((ROOT / "docs" / "decisions").glob("*.md"))
FOLDERS = (
    "analysis", "benchmarks", "custody", "docs", "drivers", "engine", "examples", "ledger",
    "protocols", "tests", "verbs", "verdicts",
)  # fmt: skip
# What only whoever planned the project had before them.
ELSEWHERE = re.compile(r"\bproposal\b|protocol specification|[A-Z]+-V1\b|STYLE\.md|walk-through")
IN_RECORDS = re.compile(rf"{ELSEWHERE.pattern}|\bsections? \d|as reviewed|the design names")


def test_numbers_are_those_of_one_record_each() -> None:
    """A file's number is its heading's, and no other file has it."""
    numbers = Counter(path.name[:4] for path in RECORDS)
    assert [] == [number for number, times in numbers.items() if times > 1]
    for path in RECORDS:
        assert path.read_text(encoding="utf-8").startswith(f"# {path.name[:4]}. "), path.name


def test_references_to_decisions_resolve() -> None:
    """Each number or file that a document or a module names is a record."""
    numbers, names = {path.name[:4] for path in RECORDS}, {path.name for path in RECORDS}
    lost: list[str] = []
    for path in sources():
        text = path.read_text(encoding="utf-8")
        found = re.findall(r"\bdecisions?\s+(0\d{3})\b", text)
        files = re.findall(r"\b(0\d{3}-[a-z0-9-]+\.md)\b", text)
        lost += [f"{path.name}: {one}" for one in found if one not in numbers]
        lost += [f"{path.name}: {one}" for one in files if one not in names]
    assert [] == lost


def test_records_and_modules_stand_alone() -> None:
    """None sends its reader to a text that isn't in the repository."""
    texts = [(path, IN_RECORDS) for path in RECORDS]
    texts += [(path, ELSEWHERE) for path in sources(".py") if path != Path(__file__)]
    found = [
        f"{path.relative_to(ROOT)}: {match.group()}"
        for path, pattern in texts
        for match in pattern.finditer(path.read_text(encoding="utf-8"))
    ]
    assert [] == found


def sources(*suffixes: str) -> list[Path]:
    """Returns the documents and modules of the repository."""
    wanted = suffixes or (".md", ".py")
    found = [path for path in ROOT.glob("*.*") if path.suffix in wanted]
    for folder in FOLDERS:
        found += [path for path in (ROOT / folder).rglob("*.*") if path.suffix in wanted]
    return found
