"""FR-11, FR-12: one table of units in several encodings, and unit ids that collide."""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from .conftest import Lab

# Keeps each job as its arm got it.
BODY = """cat >> "$(dirname "$0")/jobs.txt"
printf '{"v":1,"passed":true,"usd":0}\\n'
"""
BOM = b"\xef\xbb\xbf"


def _units(lab: Lab, data: bytes) -> None:
    lab.write(units=10, body=BODY)
    (lab.folder / "units.csv").write_bytes(data)


def _table(*ids: str) -> bytes:
    rows = ["unit,cluster,question", *(f"{name},c{i},q" for i, name in enumerate(ids))]
    return ("\n".join(rows) + "\n").encode()


PLAIN = "unit,cluster,question\n" + "".join(f"ü{i},c{i},q{i}\n" for i in range(10))


@pytest.mark.slow
@pytest.mark.parametrize("bom", [b"", BOM])
@pytest.mark.parametrize("end", ["\n", "\r\n"])
def test_encoding_never_changes_which_units_exist(one_lab: Lab, bom: bytes, end: str) -> None:
    """A mark and line endings are of the file, not of its cells: every arm gets the same input."""
    _units(one_lab, bom + PLAIN.replace("\n", end).encode())
    one_lab.register()
    one_lab.call("run", "--concurrency", "1")
    jobs = [json.loads(line) for line in (one_lab.folder / "jobs.txt").read_text().splitlines()]
    expected = {(f"ü{i}", arm, f"q{i}") for i in range(10) for arm in "AB"}
    assert expected == {(job["unit"], job["arm"], job["input"]["question"]) for job in jobs}
    assert {f"ü{i}" for i in range(10)} == {d["unit"] for d in one_lab.events("decision")}
    assert {("question",)} == {tuple(job["input"]) for job in jobs}


@pytest.mark.parametrize(("encoding", "byte"), [("utf-16", "0xFF"), ("latin-1", "0xFC")])
def test_other_encodings_are_refused_by_their_byte(one_lab: Lab, encoding: str, byte: str) -> None:
    """UTF-16 and Latin-1: file, line and byte are named, and nothing is on record."""
    _units(one_lab, PLAIN.encode(encoding))
    refused = one_lab.call("register", "protocol.yaml", expect=3)
    line = 1 if encoding == "utf-16" else 2
    assert f"units.csv:{line}: byte " in refused.stderr
    assert byte in refused.stderr
    assert not one_lab.ledger.exists()


@pytest.mark.parametrize(
    "ids",
    [
        ("a", "b", "a"),
        ("1", "01", '"1"'),
        ("A", "b", "a"),
        ("x", "y", "x "),
        ("\u00e9", "y", "e\u0301"),
    ],
    ids=["twice", "number", "case", "blank", "composed"],
)
def test_colliding_ids_are_refused_with_both_lines(one_lab: Lab, ids: tuple[str, ...]) -> None:
    """Ids that are one by the rule of ids: both lines are named, and nothing is on record."""
    _units(one_lab, _table(*ids))
    refused = one_lab.call("register", "protocol.yaml", expect=3)
    assert re.search(r"units\.csv:4: units\.id: units? .* lines 2 and 4", refused.stderr)
    assert not one_lab.ledger.exists()
