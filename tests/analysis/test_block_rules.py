"""Threshold rules against brute force, and what may not change their thresholds."""

from __future__ import annotations

import itertools
import math
from dataclasses import replace

import numpy as np
import pytest

from fairtrial.analysis.block_rules import BlockRule, RuleName, Scored, apply_rule
from fairtrial.analysis.calibration import Platt, isotonic, platt
from fairtrial.analysis.precision_bounds import Bound
from fairtrial.analysis.rates import clopper_pearson_lower

RULES: tuple[RuleName, ...] = ("calibrated_block", "precision_bound_block", "pooled_block_gate")


def scored(seed: int, *, clusters: int = 24, size: int = 6, folds: int = 3) -> Scored:
    """Returns units whose scores tell their labels well but not perfectly."""
    rng = np.random.default_rng(seed)
    count = clusters * size
    cluster = np.repeat(np.arange(clusters), size)
    labels = rng.integers(0, 2, count)
    scores = np.round(rng.normal(2.0 * labels, 0.8), 2)
    return Scored(
        scores=scores,
        labels=labels,
        clusters=cluster,
        families=tuple("xy"[c % 2] for c in cluster),
        folds=tuple(f"f{c % folds}" for c in cluster),
        eligible=np.arange(count) % 7 != 0,
    )


def rule(name: RuleName, **changes: object) -> BlockRule:
    """Returns a rule that small data can satisfy."""
    parts: dict[str, object] = {"name": name, "precision": 0.8, "recall": 0.9, "alpha": 0.1}
    return BlockRule(**(parts | changes))  # type: ignore[arg-type]  # names and types as the class has them


def test_precision_bound_block_is_the_lowest_threshold_that_holds() -> None:
    """Every threshold tried one by one gives the same flags."""
    for seed in range(4):
        units = scored(seed)
        found = apply_rule(units, rule("precision_bound_block", min_flagged=3))
        for i, (family, fold) in enumerate(zip(units.families, units.folds, strict=True)):
            train = [
                j
                for j in range(len(units.folds))
                if units.folds[j] != fold and units.families[j] == family and units.eligible[j]
            ]
            good = []
            for t in {units.scores[j] for j in train}:
                flags = [j for j in train if units.scores[j] >= t]
                right = sum(int(units.labels[j]) for j in flags)
                lower = clopper_pearson_lower(right, len(flags), alpha=0.1)
                if len(flags) >= 3 and lower >= 0.8:
                    good.append(t)
            assert found.flagged[i] == (bool(good) and units.scores[i] >= min(good))


@pytest.mark.parametrize("normalise", ["platt", "isotonic"])
def test_calibrated_block_compares_the_probability_of_the_other_folds(normalise: str) -> None:
    """A unit is flagged where the fit of its family on the other folds says enough."""
    units = scored(5)
    found = apply_rule(units, rule("calibrated_block", normalise=normalise))
    for i, (family, fold) in enumerate(zip(units.families, units.folds, strict=True)):
        train = np.array(
            [
                units.folds[j] != fold and units.families[j] == family and bool(units.eligible[j])
                for j in range(len(units.folds))
            ]
        )
        fit = (isotonic if normalise == "isotonic" else platt)(
            units.scores[train], units.labels[train]
        )
        value = round(fit.probability(float(units.scores[i])), 9)  # type: ignore[union-attr]  # both labels are there
        assert found.flagged[i] == (value >= 0.8)
        assert found.values[i] == value


def test_pooled_gate_chooses_on_inner_folds() -> None:
    """The threshold is the lowest that holds on probabilities of folds that taught nothing."""
    units = scored(6, folds=3)
    found = apply_rule(units, rule("pooled_block_gate"))
    index = range(len(units.folds))
    for fold in sorted(set(units.folds)):
        train = [j for j in index if units.folds[j] != fold and units.eligible[j]]
        values: dict[int, float] = {}
        for j in train:
            others = np.array(
                [
                    k in train
                    and units.folds[k] != units.folds[j]
                    and units.families[k] == units.families[j]
                    for k in index
                ]
            )
            fit = platt(units.scores[others], units.labels[others])
            assert isinstance(fit, Platt)
            values[j] = round(fit.probability(float(units.scores[j])), 9)
        good = []
        for t in set(values.values()):
            flags = [j for j in train if values[j] >= t]
            right = sum(int(units.labels[j]) for j in flags)
            if clopper_pearson_lower(right, len(flags), alpha=0.1) >= 0.8:
                good.append(t)
        chosen = next(t for t in found.thresholds if t.fold == fold and t.family is None)
        assert chosen.block == (min(good) if good else None)
        held = np.array([one == fold for one in units.folds])
        expected = found.values[held] >= min(good) if good else np.zeros(int(held.sum()), bool)
        assert found.flagged[held].tolist() == expected.tolist()


def test_quiet_threshold_keeps_the_recall() -> None:
    """At least that share of the training positives is above it, and one step up is too few."""
    units = scored(8)
    found = apply_rule(units, rule("pooled_block_gate", recall=0.9))
    for one in found.thresholds:
        if one.family is None:
            continue
        train = np.array(
            [
                f != one.fold and g == one.family
                for f, g in zip(units.folds, units.families, strict=True)
            ]
        )
        train &= units.eligible
        fit = platt(units.scores[train], units.labels[train])
        assert isinstance(fit, Platt)
        values = np.array([round(fit.probability(s), 9) for s in units.scores[train].tolist()])
        positive = units.labels[train] == 1
        assert one.quiet is not None
        assert (values[positive] >= one.quiet).mean() >= 0.9
        higher = values[positive][values[positive] > one.quiet]
        assert higher.size / positive.sum() < 0.9


@pytest.mark.parametrize("name", RULES)
@pytest.mark.parametrize("normalise", ["platt", "isotonic"])
def test_labels_of_a_fold_change_nothing_in_it(name: RuleName, normalise: str) -> None:
    """Nested folds don't leak: a fold's own labels reach neither its thresholds nor its flags."""
    units = scored(9)
    there = apply_rule(units, rule(name, normalise=normalise))
    mine = np.array([fold == "f1" for fold in units.folds])
    turned = np.where(mine, 1 - units.labels, units.labels)
    after = apply_rule(replace(units, labels=turned), rule(name, normalise=normalise))
    assert there.flagged[mine].tolist() == after.flagged[mine].tolist()
    assert there.values[mine].tolist() == after.values[mine].tolist()
    own = [t for t in there.thresholds if t.fold == "f1"]
    assert own == [t for t in after.thresholds if t.fold == "f1"]
    # The other folds learnt from those labels, so something there does change.
    assert there.thresholds != after.thresholds


@pytest.mark.parametrize("name", RULES)
def test_the_order_of_units_changes_nothing(name: RuleName) -> None:
    """Flags and thresholds belong to units, whatever their place."""
    units = scored(10)
    there = apply_rule(units, rule(name))
    order = np.random.default_rng(1).permutation(len(units.folds))
    moved = Scored(
        scores=units.scores[order],
        labels=units.labels[order],
        clusters=units.clusters[order],
        families=[units.families[int(i)] for i in order],
        folds=[units.folds[int(i)] for i in order],
        eligible=units.eligible[order],
    )
    after = apply_rule(moved, rule(name))
    assert there.flagged[order].tolist() == after.flagged.tolist()
    assert there.thresholds == after.thresholds


@pytest.mark.parametrize("name", RULES)
def test_equal_scores_are_flagged_alike_within_fold_and_family(name: RuleName) -> None:
    """A higher score is never flagged less."""
    units = scored(11)
    found = apply_rule(units, rule(name))
    for i, j in itertools.product(range(0, len(units.folds), 5), range(len(units.folds))):
        same = units.folds[i] == units.folds[j] and units.families[i] == units.families[j]
        if same and units.scores[i] <= units.scores[j]:
            assert found.flagged[i] <= found.flagged[j]


@pytest.mark.parametrize("kind", ["wilson", "cluster_aware", "learn_then_test"])
def test_every_training_bound_flags_something_good(kind: Bound) -> None:
    """The flagged are mostly right where scores tell labels well, whichever bound chose."""
    units = scored(12, clusters=60)
    found = apply_rule(units, rule("precision_bound_block", bound=kind, min_flagged=5))
    assert found.flagged.any()
    assert units.labels[found.flagged].mean() > 0.7


def test_the_walk_stops_at_its_first_failure() -> None:
    """learn_then_test never passes over a threshold that fails, as the best bound may."""
    count = 120
    labels = np.ones(count, dtype=int)
    labels[60:66] = 0
    half = Scored(
        scores=-np.arange(count, dtype=float),
        labels=labels,
        clusters=np.arange(count),
        families=("x",) * count,
        folds=("a",) * count,
        eligible=np.ones(count, dtype=bool),
    )
    units = Scored(
        scores=np.concatenate([half.scores, half.scores]),
        labels=np.concatenate([labels, labels]),
        clusters=np.arange(2 * count),
        families=("x",) * (2 * count),
        folds=("a",) * count + ("b",) * count,
        eligible=np.ones(2 * count, dtype=bool),
    )
    walk = apply_rule(units, rule("precision_bound_block", precision=0.9, bound="learn_then_test"))
    best = apply_rule(units, rule("precision_bound_block", precision=0.9, bound="clopper_pearson"))
    passed, lowest = walk.thresholds[0].block, best.thresholds[0].block
    assert passed is not None
    assert lowest is not None
    assert lowest < -66.0 < passed
    right = int(labels[: int(-passed) + 2].sum())
    assert clopper_pearson_lower(right, int(-passed) + 2, alpha=0.1) < 0.9


def test_a_family_without_both_labels_flags_nothing_and_says_why() -> None:
    """What can't be calibrated isn't guessed."""
    units = scored(13)
    labels = np.where(np.array(units.families) == "x", 1, units.labels)
    found = apply_rule(replace(units, labels=labels), rule("pooled_block_gate"))
    members = np.array(units.families) == "x"
    assert not found.flagged[members].any()
    reasons = {t.why_not for t in found.thresholds if t.family == "x"}
    assert reasons == {"the other folds don't hold both labels"}


def test_bad_units_are_refused() -> None:
    """One fold, a cluster in two folds, and a score that is no number are ValueErrors."""
    units = scored(14)
    with pytest.raises(ValueError, match="at least two"):
        apply_rule(replace(units, folds=("f",) * len(units.folds)), rule("calibrated_block"))
    folds = ("f9", *units.folds[1:])
    with pytest.raises(ValueError, match="lies in"):
        apply_rule(replace(units, folds=folds), rule("calibrated_block"))
    scores = units.scores.copy()
    scores[0] = math.nan
    with pytest.raises(ValueError, match="finite"):
        apply_rule(replace(units, scores=scores), rule("calibrated_block"))


@pytest.mark.parametrize("name", ["calibrated_block", "pooled_block_gate"])
def test_scores_that_fall_with_the_label_flag_nothing(name: RuleName) -> None:
    """A fit that falls would flag the lowest scores, which no rule promises."""
    units = scored(15)
    found = apply_rule(replace(units, scores=-units.scores), rule(name))
    assert not found.flagged.any()
    reasons = {t.why_not for t in found.thresholds if t.family is not None}
    assert reasons == {"scores don't rise with the labels of the other folds"}
