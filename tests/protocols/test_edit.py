"""Setting single fields in a protocol file: what is asked for changes, and no other byte."""

from __future__ import annotations

import difflib
from pathlib import Path

import pytest

from fairtrial.engine.examples import example_files
from fairtrial.ledger.errors import ProtocolError
from fairtrial.ledger.protocol import changed_fields
from fairtrial.protocols.edit import set_fields
from fairtrial.protocols.file import parse_protocol

EXAMPLE = example_files("trial")["protocol.yaml"].encode()
DEMO = Path(__file__).resolve().parents[2] / "examples" / "demo" / "verified.yaml"


def changes(old: bytes, new: bytes) -> list[str]:
    """Returns the lines that a change removed and added."""
    lines = difflib.ndiff(old.decode().splitlines(), new.decode().splitlines())
    return [line for line in lines if line[:1] in "+-"]


def fields(old: bytes, new: bytes) -> dict[str, str | None]:
    """Returns the fields that differ, with their new values."""
    plans = [parse_protocol(data, name="plan", media="yaml") for data in (old, new)]
    return {one.field: one.found for one in changed_fields(*plans)}


@pytest.mark.parametrize(
    ("path", "value", "found"),
    [
        ("budget.usd", "2.5", "2.5"),
        ("budget.calls", "100", "100"),
        ("about.owner", "the team", '"the team"'),
        ("about.notes", "first: no # remark", '"first: no # remark"'),
        ("endpoints.correct.better", "lower", '"lower"'),
        ("endpoints[0].better", "lower", '"lower"'),
        ("looks.at", "[1.0]", "[1.0]"),
        ("require.commit", "false", "false"),
        ("arms.baseline.driver.config.carry", "7", "7"),
        ("missing.limit", "0.2", "0.2"),
    ],
)
def test_one_field_changes_and_every_comment_stays(path: str, value: str, found: str) -> None:
    """The parsed plans differ in that field alone, and at most one line was replaced."""
    new = set_fields(EXAMPLE, [(path, value)], name="plan")
    assert [found] == list(fields(EXAMPLE, new).values())
    assert len([line for line in changes(EXAMPLE, new) if line[0] == "-"]) <= 1
    assert len([line for line in changes(EXAMPLE, new) if line[0] == "+"]) == 1
    remarks = [line.partition("#")[2] for line in EXAMPLE.decode().splitlines() if "#" in line]
    assert all(remark in new.decode() for remark in remarks)


def test_several_fields_are_set_in_order() -> None:
    """The last of two values for one field stands."""
    new = set_fields(EXAMPLE, [("budget.usd", "2"), ("budget.usd", "3"), ("missing.limit", "0")],
                     name="plan")  # fmt: skip
    assert {"budget.usd": "3.0", "missing.limit": "0.0"} == fields(EXAMPLE, new)


def test_folded_text_is_replaced_whole() -> None:
    """A value over several lines leaves nothing behind."""
    old = DEMO.read_bytes()
    new = set_fields(old, [("power.accept.no_verdict_possible", "known")], name="plan")
    assert {"power.accept.no_verdict_possible": '"known"'} == fields(old, new)


@pytest.mark.parametrize("mark", [b"", b"\xef\xbb\xbf"])
@pytest.mark.parametrize("newline", [b"\n", b"\r\n"])
def test_mark_and_line_ends_stay(mark: bytes, newline: bytes) -> None:
    """A file keeps its byte order mark and its line ends, in added lines too."""
    old = mark + EXAMPLE.replace(b"\n", newline)
    new = set_fields(old, [("budget.usd", "2"), ("budget.calls", "9")], name="plan")
    assert {"budget.usd": "2.0", "budget.calls": "9"} == fields(old, new)
    assert new.startswith(mark + b"# The plan")
    assert new.count(newline) == old.count(newline) + 1
    assert new.count(b"\n") == new.count(newline) if newline == b"\n" else b"\r\n" in new


@pytest.mark.parametrize("path", ["", ".", "a..b", "endpoints.nosuch.role", "budget.usd.more",
                                  "endpoints[7].role", "[", "looks.at.x"])  # fmt: skip
def test_path_that_leads_nowhere_is_refused(path: str) -> None:
    """No field is invented for a path through something that isn't there."""
    with pytest.raises(ProtocolError) as caught:
        set_fields(EXAMPLE, [(path, "1")], name="plan")
    assert "plan" in str(caught.value)


def test_file_that_is_no_yaml_is_refused() -> None:
    """What can't be read can't be edited."""
    for data in (b"a: [", b"- 1\n", b""):
        with pytest.raises(ProtocolError):
            set_fields(data, [("a", "1")], name="plan")
