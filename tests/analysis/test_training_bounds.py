"""Bounds of training flags, all thresholds at once, against one threshold after the other."""

from __future__ import annotations

import numpy as np
import pytest

from fairtrial.analysis.block_rules import BlockRule, Scored, apply_rule
from fairtrial.analysis.distributions import binomial_cdf
from fairtrial.analysis.grouping import FloatArray, IntArray
from fairtrial.analysis.precision_bounds import Bound, PrecisionBound, precision_bound
from fairtrial.analysis.riskcontrol import min_flagged
from fairtrial.analysis.training_bounds import SteppedBound, falling_flags

SHAPES = {
    "even": (40, 6),
    "uneven": (30, None),
    "alone": (120, 1),
    "few": (5, 30),
    "one": (1, 80),
    "many": (300, 2),
}


def drawn(seed: int, shape: str, *, decimals: int = 1) -> tuple[FloatArray, IntArray, IntArray]:
    """Returns scores with ties, labels that clump in clusters, and clusters."""
    rng = np.random.default_rng(seed)
    count, size = SHAPES[shape]
    sizes = rng.geometric(0.1, count) if size is None else np.full(count, size)
    clusters = np.repeat(rng.permutation(count) * 7 - 3, sizes)
    lift = np.repeat(rng.normal(0.0, 0.7, count), sizes)
    labels = (rng.normal(lift, 1.0) > 0.0).astype(np.int64)
    scores = np.round(rng.normal(1.5 * labels + lift, 0.9), decimals)
    return scores, labels, clusters


def by_hand(labels: IntArray, clusters: IntArray, bound: Bound, alpha: float) -> float:
    """Returns the lower bound of some flags, counted cluster by cluster."""
    codes = np.unique(clusters, return_inverse=True)[1]
    flags = np.bincount(codes)
    right = np.bincount(codes[labels == 1], minlength=flags.size)
    found = precision_bound(right, flags, bound=bound, alpha=alpha)
    assert isinstance(found, PrecisionBound)
    return found.lower


def lowest_by_hand(
    scores: FloatArray, labels: IntArray, clusters: IntArray, rule: BlockRule
) -> float | None:
    """Returns the lowest score that holds, trying each from the highest down."""
    best, least = None, rule.min_flagged
    if rule.bound == "learn_then_test":
        strictest = min_flagged(rule.precision, bound="clopper_pearson", alpha=rule.alpha)
        least = max(least, strictest)
    for value in sorted(set(scores.tolist()), reverse=True):
        flags = scores >= value
        flagged, right = int(flags.sum()), int(labels[flags].sum())
        if flagged < least:
            continue
        if rule.bound in ("clopper_pearson", "learn_then_test"):
            p = binomial_cdf(flagged - right, flagged, 1.0 - rule.precision)
            reaches = p <= rule.alpha
        else:
            lower = by_hand(labels[flags], clusters[flags], rule.bound, rule.alpha)
            reaches = lower >= rule.precision
        if reaches:
            best = value
        elif rule.bound == "learn_then_test":
            break
    return best


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("bound", ["cluster_aware", "wilson"])
def test_bounds_have_the_bits_of_one_at_a_time(shape: str, bound: SteppedBound) -> None:
    """The bound at each place is that of its flags alone, to the last bit."""
    scores, labels, clusters = drawn(len(shape), shape)
    order = np.argsort(-scores, kind="stable")
    labels, clusters = labels[order], clusters[order]
    for truth in (labels, 1 - labels, np.ones_like(labels), np.zeros_like(labels)):
        ends = np.arange(0, labels.size, 3)
        found = falling_flags(truth, clusters).lower_bounds(ends, bound=bound, alpha=0.05)
        for end, lower in zip(ends.tolist(), found.tolist(), strict=True):
            assert by_hand(truth[: end + 1], clusters[: end + 1], bound, 0.05) == lower


@pytest.mark.slow
@pytest.mark.parametrize("shape", ["even", "uneven", "alone", "few"])
@pytest.mark.parametrize("bound", ["cluster_aware", "wilson", "clopper_pearson", "learn_then_test"])
def test_thresholds_are_those_of_trying_each(shape: str, bound: Bound) -> None:
    """Whatever the bound, the threshold of a fold is the one that a plain loop finds."""
    some = 0
    for seed, precision in ((1, 0.3), (2, 0.6), (3, 0.75), (4, 0.97)):
        scores, labels, clusters = drawn(seed, shape, decimals=2)
        folds = tuple(f"f{cluster % 2}" for cluster in clusters.tolist())
        rule = BlockRule(
            name="precision_bound_block", precision=precision, bound=bound, min_flagged=4, alpha=0.1
        )
        found = apply_rule(
            Scored(
                scores=scores,
                labels=labels,
                clusters=clusters,
                families=("x",) * labels.size,
                folds=folds,
                eligible=np.ones(labels.size, dtype=np.bool_),
            ),
            rule,
        )
        for threshold in found.thresholds:
            train = np.array([fold != threshold.fold for fold in folds])
            by_loop = lowest_by_hand(scores[train], labels[train], clusters[train], rule)
            assert by_loop == threshold.block
            some += by_loop is not None
    assert some


def test_tables_of_clusters_are_cut_where_they_are_large(monkeypatch: pytest.MonkeyPatch) -> None:
    """The bounds are the same where every place has a table of its own."""
    scores, labels, clusters = drawn(3, "even")
    order = np.argsort(-scores, kind="stable")
    flags, ends = falling_flags(labels[order], clusters[order]), np.arange(labels.size)
    whole = flags.lower_bounds(ends, bound="cluster_aware", alpha=0.05)
    monkeypatch.setattr("fairtrial.analysis.training_bounds._CELLS", 1)
    cut = flags.lower_bounds(ends, bound="cluster_aware", alpha=0.05)
    assert whole.tolist() == cut.tolist()
