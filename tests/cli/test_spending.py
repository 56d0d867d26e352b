"""What of the spend is a reservation, for want of a price, is told apart by `status`."""

from __future__ import annotations

import json
from collections.abc import Callable

import pytest

from .conftest import Shell

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
