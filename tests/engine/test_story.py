"""What replay tells of an experiment is what the fold keeps of it."""

from __future__ import annotations

from pathlib import Path

import pytest

from fairtrial.custody.trial import Reader
from fairtrial.engine.story import stories_of
from tests.ledger.fold_bench import Bench
from tests.ledger.test_fold_end import BLINDED, opened_arms


def looked(bench: Bench, looks: int) -> Bench:
    """Takes looks of a blinded experiment."""
    for _ in range(looks):
        bench.looked()
    return bench.idle()


@pytest.mark.parametrize(
    ("looks", "withdrawn", "early"),
    [(0, False, True), (1, False, True), (2, False, False), (0, True, False), (1, True, False)],
)
def test_early_unblinding_is_early_in_fold_and_story(
    tmp_path: Path, looks: int, withdrawn: bool, early: bool
) -> None:
    """Arms are opened early before the look that ends the run, unless it was withdrawn."""
    bench = looked(Bench().running(BLINDED), looks)
    if withdrawn:
        bench.do("withdraw")
    bench.do("unblind", arms=opened_arms())
    (story,) = stories_of(Reader(tmp_path / "ledger.db", bench.log.store))
    assert (early, early) == (story.unblinded_early, bench.known().unblinded_early)
