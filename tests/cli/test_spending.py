"""What of the spend is a reservation, for want of a price, is told apart by `status`."""

from __future__ import annotations

import json
from collections.abc import Callable

import pytest

from fairtrial.verbs.text_numbers import usd_alike

from .conftest import BETTER, Shell

SOMETIMES = {'"usd": 0.001': '"usd": 0.001 if job["unit"] > "sum-12" else None'}


@pytest.mark.slow
def test_reservations_of_attempts_without_a_price_are_told_apart(
    example: Callable[..., Shell],
) -> None:
    """Each attempt that says no price keeps its reservation; how many and how much is shown."""
    shell = example(SOMETIMES)
    shell.ok("register", "protocol.yaml")
    shell.ok("run")
    events = [json.loads(line)["event"] for line in shell.ok("log", "--json").out.splitlines()]
    ended = [one for one in events if one["kind"] == "decision/1"]
    without = [one for one in ended if one["cost_nanousd"] is None]
    assert 0 < len(without) < len(ended)
    said, found = shell.ok("status").out, shell.ok("status", "--json").json
    assert len(without) == found["unpriced"]["attempts"]
    assert found["unpriced"]["usd"] == pytest.approx(0.01 * len(without))
    assert found["unsettled"] == {"attempts": 0, "usd": 0.0}
    assert f"was reserved and stays: {len(without)} attempts reported no price" in said
    assert "ledger settle" not in said
    result = shell.ok("result").out
    assert f"was reserved and stays: {len(without)} attempts reported no price" in result


@pytest.mark.slow
def test_table_spends_nothing_of_this_plan(shell: Shell) -> None:
    """What a table's outcomes cost was spent before; a ceiling of nothing isn't a spend of it."""
    shell.recorded(BETTER)
    shell.ok("run")
    assert "spent     nothing recorded; ceiling 0.00 usd\n" in shell.ok("status").out
    said = shell.ok("result").out
    assert "spent     nothing by this plan: the outcomes of new and old existed before\n" in said


@pytest.mark.slow
def test_end_at_a_ceiling_tells_the_tools_word_from_the_persons(
    example: Callable[..., Shell],
) -> None:
    """The run stopped for want of money, a person ended the experiment; both are said."""
    shell = example({'"usd": 0.001': '"usd": 0.005'}, **{"usd: 1.00": "usd: 0.10"})
    assert "all slots reserve 0.48 usd, more than the ceiling" in shell.ok("check").out
    shell.ok("register")
    assert 4 == shell.ledger("run", "--concurrency", "1").code
    said = shell.ok("result", "--stop", "--reason", "no money").out
    words = "the run ended at its ceiling, and a person ended the experiment there: no money"
    assert words in said
    assert "as registered, but ended by a person before its last look" in said


def test_amounts_of_one_sum_have_as_many_decimals() -> None:
    """A sum is read against its parts."""
    assert ["0.2900", "0.1450", "0.1450"] == usd_alike(0.29, 0.145, 0.145)
    assert ["2.00", "1.50", "0.50"] == usd_alike(2.0, 1.5, 0.5)
