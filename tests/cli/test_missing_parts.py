"""Copies of a ledger without its blobs, and what is told of files and kinds that aren't there."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from .conftest import Shell


def bare(shell: Shell) -> Path:
    """Returns a copy of the ledger alone, as people send it who don't know its folder."""
    folder = shell.folder / "sent"
    folder.mkdir()
    return Path(shutil.copy(shell.folder / "ledger.db", folder))


@pytest.mark.slow
def test_copy_without_blobs_says_how_many_are_missing(concluded: Shell) -> None:
    """Export and import end with 0 and a warning; with all blobs there is none."""
    sent = str(bare(concluded))
    for words in (("import", sent, "--ledger"), ("export", "--ledger", sent)):
        said = concluded.ok(*words, f"{words[0]}-bare.jsonl")
        assert "missing beside" in said.err
        assert "exit code 16" in said.err
        assert f"bring {sent}.d along" in said.err
        found = concluded.ok(*words, f"{words[0]}-json.jsonl", "--json").json
        assert 0 < found["missing_blobs"] == found["blobs"]
        assert 16 == concluded.ledger("replay", f"{words[0]}-bare.jsonl").code
        assert 16 == concluded.ledger("replay", f"{words[0]}-json.jsonl").code
    said = concluded.ok("export", "whole.jsonl", "--json")
    assert (0, found["blobs"]) == (said.json["missing_blobs"], said.json["blobs"])
    assert "missing" not in said.err


@pytest.mark.slow
def test_one_missing_blob_is_counted_and_an_erased_one_is_not(concluded: Shell) -> None:
    """What was erased on record is nobody's loss; what is gone without a word is."""
    concluded.ok("redact", "3:environment", "--reason", "holds a name")
    assert 0 == concluded.ok("export", "all.jsonl", "--json").json["missing_blobs"]
    blobs = sorted((concluded.folder / "ledger.db.d" / "blobs").glob("??/*"))
    blobs[0].unlink()
    found = concluded.ok("export", "less.jsonl", "--json").json
    assert 1 == found["missing_blobs"]


def test_ledger_to_take_over_is_not_one_to_begin(concluded: Shell) -> None:
    """A missing source is told from the new ledger; a near name is offered."""
    error = concluded.ledger("import", "none.jsonl", "--ledger", "n.db", "--json").json["error"]
    assert "StoreError" == error["class"]
    assert "SOURCE" in error["todo"]
    assert "register" not in error["todo"]
    near = concluded.ledger("import", "legder.db", "--ledger", "n.db", "--json").json["error"]
    assert near["todo"].startswith("did you mean")
    pilot = concluded.ledger("power", "protocol.yaml", "--pilot", "none.db", "--json").json["error"]
    assert "--pilot" in pilot["todo"]


def test_kinds_are_listed_with_the_word_that_people_use(concluded: Shell) -> None:
    """`outcome` is a kind for `log` and for `schema`, and the list says so."""
    said = concluded.ledger("log", "--kind", "foo")
    assert (2, True) == (said.code, "outcome or decision" in said.err)
    assert concluded.ok("log", "--kind", "outcome").out
    assert concluded.ok("schema", "decision/1").out == concluded.ok("schema", "outcome").out
