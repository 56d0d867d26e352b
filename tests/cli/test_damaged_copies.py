"""What a replay says of a copy that lacks something: each thing once, and counts that agree."""

from __future__ import annotations

import re
import shutil

import pytest

from .conftest import Shell

pytestmark = pytest.mark.slow


def test_copy_without_its_folder_counts_each_blob_once(concluded: Shell) -> None:
    """Findings, the level files and the summing line name one number; units aren't invented."""
    (concluded.folder / "copy").mkdir()
    shutil.copy(concluded.folder / "ledger.db", concluded.folder / "copy")
    said = concluded.ledger("replay", "copy/ledger.db").out
    missing = re.findall(r"(\d+) blobs are missing", said)
    assert 1 == len(missing)
    assert f"entries, {missing[0]} findings" in said
    assert f"{missing[0]} blobs missing or changed" in said
    assert "unit not known without the plan: +" in said
    assert "points" not in said
    assert "unit not known" not in concluded.ok("replay").out


def test_unreadable_database_is_one_finding(concluded: Shell) -> None:
    """A database that was cut in half is said to be unreadable once."""
    data = (concluded.folder / "ledger.db").read_bytes()
    (concluded.folder / "copy").mkdir()
    (concluded.folder / "copy/ledger.db").write_bytes(data[: len(data) // 2])
    said = concluded.ledger("replay", "copy/ledger.db")
    assert 12 == said.code
    assert 1 == said.out.count("a readable database")


def test_head_beyond_the_end_checked_nothing(concluded: Shell) -> None:
    """Of a ledger that ends before the head no entry is said to be hashed or compared."""
    receipt = re.sub(r"@\d+#", "@4000#", concluded.ok("status", "--json").json["receipt"])
    said = concluded.ledger("replay", "--since", receipt)
    assert 14 == said.code
    assert "the ledger ends before it" in said.out
    assert "hashed" not in said.out
    assert "CHECKED: nothing" in said.out


@pytest.mark.parametrize("verb", ["export", "import", "bundle"])
@pytest.mark.parametrize("cut", [1, 100])
def test_copy_says_what_it_leaves_out(concluded: Shell, verb: str, cut: int) -> None:
    """Bytes after the last whole entry are no part of a copy: that they were there is said."""
    whole = concluded.ok("export", "whole.jsonl", "--json").json
    assert 0 == whole["left_out_bytes"]
    data = (concluded.folder / "whole.jsonl").read_bytes()
    (concluded.folder / "torn.jsonl").write_bytes(data[:-cut])
    left = len(data[:-cut]) - data.rindex(b"\n", 0, -1) - 1
    names = {
        "export": ("export", "copy.db", "--ledger", "torn.jsonl"),
        "import": ("import", "torn.jsonl", "--ledger", "copy.db"),
        "bundle": ("export", "--bundle", "copy.zip", "--ledger", "torn.jsonl"),
    }
    shutil.copytree(concluded.folder / "whole.jsonl.d", concluded.folder / "torn.jsonl.d")
    said = concluded.ok(*names[verb]).out
    begin = "not in it" if verb == "bundle" else "left out "
    assert f"{begin} {left:,} bytes after the last whole entry" in said
    assert f"{whole['size'] - 1} entries" in said
