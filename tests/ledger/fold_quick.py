"""Holds the quick way of folding an event of a run against what the log did with it."""

from __future__ import annotations

from fairtrial.ledger.entry import parse_entry
from fairtrial.ledger.events import Event
from fairtrial.ledger.projection import parse_projection
from fairtrial.ledger.run_fold import fold_run

from .fold_bench import CACHE_KEY, Bench

__all__ = ("is_taken_quickly",)


def is_taken_quickly(bench: Bench, before: bytes, event: Event) -> bool:
    """Returns whether the quick way takes an event; compares what it leaves with the log's state.

    Args:
        bench: The process that sent the event to its log just now.
        before: The projection from before that.
        event: What was sent; it has a form that can be stored.
    """
    projection, kept = (parse_projection(before, key=CACHE_KEY) for _ in range(2))
    assert projection is not None
    assert kept is not None
    state, seq = projection.state, projection.state.size
    time = parse_entry(bench.medium.entries[-1]).time.encode()
    taken = fold_run(
        state, [event], [time], start=0, plan_of=lambda blob: bench.plans.get(blob.sha256)
    )
    if taken:
        assert seq + 1 == len(bench.medium.entries)
        assert bench.log.state == state
    else:
        assert kept.state == state
    return taken == 1
