"""Pairs of histories that differ in one rule, which an event breaks in one of them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

import pytest

from fairtrial.ledger.errors import LedgerError, TransitionError
from fairtrial.ledger.events import Event

from .fold_bench import Bench


class Pair(NamedTuple):
    """One rule of the fold, by an event that breaks it and the nearest one that doesn't.

    Attributes:
        rule: The rule.
        refused: Prepares an empty ledger and returns the event that must be refused.
        says: What the refusal says, in part.
        taken: Prepares an empty ledger and returns the event that must be taken.
        error: The class of the refusal.
    """

    rule: str
    refused: Callable[[Bench], Event]
    says: str
    taken: Callable[[Bench], Event]
    error: type[LedgerError] = TransitionError


def each_pair(pairs: Sequence[Pair]) -> pytest.MarkDecorator:
    """Returns the mark that runs a test for each pair, named by its rule."""
    return pytest.mark.parametrize("pair", pairs, ids=[pair.rule for pair in pairs])


def check_pair(pair: Pair) -> None:
    """Checks that one event is refused without a trace, for this rule, and the other is taken."""
    bench = Bench()
    event = pair.refused(bench)
    before, entries = bench.snapshot(), list(bench.medium.entries)
    with pytest.raises(LedgerError) as caught:
        bench.again(event)
    assert (pair.error, True) == (type(caught.value), pair.says in str(caught.value)), str(
        caught.value
    )
    assert before == bench.snapshot()
    assert entries == bench.medium.entries
    bench = Bench()
    event = pair.taken(bench)
    assert bench.again(event).fresh
    assert Bench(bench).log.state == bench.log.state
