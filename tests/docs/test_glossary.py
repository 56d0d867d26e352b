"""docs/glossary.md defines each word of the house style and each word of a closed list."""

from __future__ import annotations

import re
from pathlib import Path
from typing import get_args

import pytest

from fairtrial.ledger.events import EVENT_KINDS, Origin, Status, Verdict

GLOSSARY = Path(__file__).resolve().parents[2] / "docs" / "glossary.md"
WORDS = [
    "event",
    "icc",
    "discordance",
    "power",
    "alpha",
    "margin",
    "MDE",
    "entry",
    "seq",
    "size",
    "head",
    "checkpoint",
    "anchor",
    "protocol",
    "control",
    "treatment",
    "status",
    "answer",
    "flag",
    "receipt",
    "arm",
    "unit",
    "pair",
    "twin",
    "cluster",
    "replicate",
    "attempt",
    "slot",
    "decision",
    "outcome",
    "look",
    "boundary",
    "estimand",
    "estimator",
    "estimate",
    "interval",
    "result",
    "verdict",
    "finding",
    "fold",
    "register",
    "freeze",
    "reserve",
    "settle",
    "replay",
]


def definitions() -> dict[str, str]:
    """Returns each defined word with the text of its definition."""
    text = GLOSSARY.read_text(encoding="utf-8")
    found = re.findall(r"^\*\*(.+?)\*\*: (.+?)(?=\n\n|\Z)", text, flags=re.MULTILINE | re.DOTALL)
    assert len(found) == len(dict(found)), "a word is defined twice"
    return dict(found)


def rows() -> set[str]:
    """Returns the first cell of every row of the tables."""
    return set(
        re.findall(r"^\| (\w+) \|", GLOSSARY.read_text(encoding="utf-8"), flags=re.MULTILINE)
    )


@pytest.mark.parametrize("word", [*WORDS, "information fraction"])
def test_glossary_defines_word(word: str) -> None:
    """Each word that the house style gives one meaning has a definition of its own."""
    assert len(definitions()[word].split()) >= 3


@pytest.mark.parametrize(
    "word", ["CR2-t", "df", "Tango", "McNemar", "Fieller", "stage-wise", "growth with costs"]
)
def test_glossary_defines_what_a_result_prints(word: str) -> None:
    """Methods and measures that stand in a result without a word of explanation have one here."""
    assert len(definitions()[word].split()) >= 8


@pytest.mark.parametrize("word", [*get_args(Status), *get_args(Verdict)])
def test_glossary_lists_closed_words(word: str) -> None:
    """Each status and each verdict that an event may hold is explained in a table."""
    assert word in rows()


@pytest.mark.parametrize("kind", sorted(EVENT_KINDS))
def test_glossary_lists_event_kind(kind: str) -> None:
    """Each kind of event, without its version, is explained in a table."""
    assert kind.partition("/")[0] in rows()


def test_glossary_names_each_origin() -> None:
    """The definition of evidence names every origin of an outcome but a copy of a live one."""
    evidence = definitions()["evidence"]
    assert [] == [word for word in get_args(Origin) if word not in evidence and word != "cached"]
