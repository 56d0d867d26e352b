"""Secrets are found in every spelling that is likely, and nothing else is touched."""

from __future__ import annotations

import base64
import json
from urllib.parse import quote

import pytest

from fairtrial.drivers.scrub import Scrubber, weak_secrets

SECRET = 'pa"ss\\wörd/\U0001f600 1'


@pytest.mark.parametrize(
    "written",
    [
        SECRET,
        json.dumps(SECRET)[1:-1],
        json.dumps(SECRET, ensure_ascii=False)[1:-1],
        "".join(f"\\u{ord(letter):04X}" for letter in 'pa"ss\\wörd/') + "\\uD83D\\uDE00\\u00201",
        SECRET.replace("\\", "\\\\").replace('"', '\\"').replace("/", "\\/"),
        quote(SECRET, safe=""),
        base64.b64encode(SECRET.encode()).decode(),
    ],
)
def test_secret_is_replaced_in_each_spelling(written: str) -> None:
    """Raw, escaped, percent-encoded or in base64, only the name is left."""
    cleaned = Scrubber({"KEY": SECRET, "OTHER": "nothing"}).text(f"a {written} z")
    assert "a [secret KEY] z" == cleaned.replace("]==", "]").replace("]=", "]")


def test_longer_secret_wins_over_its_beginning() -> None:
    """A secret that begins another one doesn't leave the other's end behind."""
    scrubber = Scrubber({"SHORT": "abcdef", "LONG": "abcdefghi"})
    assert "[secret LONG] [secret SHORT]g" == scrubber.text("abcdefghi abcdefg")


def test_cut_output_loses_what_could_begin_a_secret() -> None:
    """The end of cut output is dropped as far as a secret could begin there, no further."""
    scrubber = Scrubber({"KEY": "hunter2x"})
    assert b"say " == scrubber.clean(b"say hunter2", is_cut=True)
    assert b"say hunter2" == scrubber.clean(b"say hunter2")
    assert b"say hunted" == scrubber.clean(b"say hunted", is_cut=True)


def test_without_secrets_nothing_changes() -> None:
    """An unset or empty secret replaces nothing, and text that isn't Unicode survives."""
    assert "a\ud800" == Scrubber({"KEY": ""}).text("a\ud800")
    assert b"\xff [secret K]" == Scrubber({"K": "sesame"}).clean(b"\xff sesame")


def test_short_secrets_are_named() -> None:
    """A value too short to be replaced without damage is told by its name."""
    assert ("B",) == weak_secrets({"A": "123456", "B": "12345", "C": ""})
