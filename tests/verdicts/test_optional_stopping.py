"""FR-28: five planned looks at two equal arms, through the product's own looks."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

EXPERIMENTS, CLUSTERS, SIZE, ALPHA = 300, 60, 3, 0.05
LOOKS = "{at: [0.2, 0.4, 0.6, 0.8, 1.0], icc: 0.05, on_crossing: continue}"


@pytest.mark.slow
def test_five_looks_at_equal_arms_keep_alpha(bridge: Any) -> None:
    """False claims stay at alpha; the same looks at 1.96 would make more than twice as many."""
    rng = np.random.default_rng(20261129)
    table, limit = bridge.units(CLUSTERS, SIZE), 3.0 * math.sqrt(ALPHA * (1 - ALPHA) / EXPERIMENTS)
    claimed = naive = 0
    for _ in range(EXPERIMENTS):
        rate = rng.beta(4.0, 4.0, CLUSTERS)
        passed = rng.random((CLUSTERS, SIZE, 2)) < rate[:, None, None]

        def answers(unit: str, arm: str, replicate: int, drawn: Any = passed) -> Any:
            return bridge.outcome(int(drawn[int(unit[1:4]), int(unit[-3:]), int(arm == "B")]))

        looks = bridge.trial(table, answers, looks=LOOKS).run().context.taken
        assert 5 == len(looks)
        found = [look.comparisons[0].endpoints[0] for look in looks]
        claimed += any(each.crossed != "no" for each in found)
        naive += any(abs(each.estimate) > 1.96 * each.standard_error for each in found)
    assert claimed / EXPERIMENTS <= ALPHA + limit
    assert naive / EXPERIMENTS > 2 * ALPHA
