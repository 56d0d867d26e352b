"""Numbers whose unit is known are printed with it: money, tokens and time."""

from __future__ import annotations

import re
from collections.abc import Callable

import pytest

from fairtrial.verbs.text_numbers import named

from .conftest import Shell

LOST = "missing: {failed: exclude_pair, timeout: exclude_pair, limit: exclude_pair}"
LOWER = f"role: secondary, better: lower, {LOST}"
MORE = f"""    better: higher
  - {{name: price, type: cost, value: usd, scale: raw, {LOWER}}}
  - {{name: words, type: cost, value: tokens, scale: raw, {LOWER}}}
  - {{name: wait, type: continuous, value: duration_seconds, {LOWER}}}
"""
ANSWER = {
    '"usd": 0.001': '"usd": 0.001 + left % 7 / 1e4, "tokens": {"output": 10 + right % 9}',
}
PRICE = f"""
  - {{name: price, role: primary, type: continuous, value: usd, better: lower, {LOST}}}
"""


@pytest.mark.parametrize(
    ("name", "measured_in", "shown"),
    [
        ("price", "usd", "price (usd)"),
        ("price_usd", "usd", "price_usd"),
        ("Dollars per fix", "usd", "Dollars per fix"),
        ("tokens", "tokens", "tokens"),
        ("speed", "s", "speed (s)"),
        ("wall_seconds", "s", "wall_seconds"),
        ("correct", None, "correct"),
    ],
)
def test_unit_stands_beside_a_name_that_does_not_say_it(
    name: str, measured_in: str | None, shown: str
) -> None:
    """An endpoint's unit is named once: in its name, or behind it."""
    assert shown == named(name, measured_in)


@pytest.mark.slow
def test_result_names_what_costs_are_measured_in(example: Callable[..., Shell]) -> None:
    """The table and the JSON say usd, tokens and seconds; not for shares."""
    shell = example(ANSWER, **{"    better: higher\n": MORE})
    shell.ok("register", "protocol.yaml")
    shell.ok("run")
    result = shell.ok("result").out
    for word in ("price (usd) ", "words (tokens) ", "wait (s) ", "correct "):
        assert any(line.startswith(word) for line in result.splitlines()), result
    (comparison,) = shell.ok("result", "--json").json["comparisons"]
    units = {one["name"]: one["measured_in"] for one in comparison["endpoints"]}
    assert {"correct": None, "price": "usd", "words": "tokens", "wait": "s"} == units
    assert "against no difference" in result
    assert {"difference": 0.0, "saving": None} == comparison["endpoints"][0]["against"]


@pytest.mark.slow
def test_power_and_looks_name_what_a_difference_is_measured_in(shell: Shell) -> None:
    """A smallest difference of money is so many usd, and so is that of a look."""
    shell.ok("init", ".")
    path = shell.folder / "protocol.yaml"
    text = path.read_text()
    start, end = text.index("\n  - name: correct"), text.index("\nmissing:")
    text = text[:start] + PRICE + text[end:]
    text = text.replace("effect: 0.5 ", "effect: -0.5 ").replace("discordance: 0.5", "sd: 0.2")
    path.write_text(text)
    said = shell.ok("check", "protocol.yaml").out
    assert re.search(
        r"for a difference of 0\.5 usd; smallest difference found .* [0-9.]+ usd$", said, re.M
    )
    shell.ok("register", "protocol.yaml")
    shell.ok("run")
    assert "\nprice (usd)  " in shell.ok("look").out
    assert "units   price (usd) " in shell.ok("result").out
