"""Threshold rules over one set of scores: which units are flagged, and at what threshold.

Job: apply calibrated_block, precision_bound_block and pooled_block_gate to scored units with
labels. Leaves bounds of training flags to `training_bounds`, how good the flags are to
`precision_bounds`, calibration itself to `calibration`.

Rules:
    - Outer folds: what is fitted or chosen for a unit comes from units of the other folds alone. A
      whole cluster lies in one fold.
    - Only eligible units teach; every unit gets its flag.
    - A unit is flagged when its value is at or above its threshold. Values of calibrated rules are
      probabilities, rounded to 9 decimals, so that another processor flags the same units.
    - calibrated_block, in each family: flags where the calibrated probability is at least
      `precision`.
    - precision_bound_block, in each family: the lowest score at which the training flags' lower
      bound reaches `precision` with at least `min_flagged` flags. learn_then_test walks down from
      the strictest score that could reach it and stops at the first failure.
    - pooled_block_gate: each family's scores are calibrated, then one threshold for all families is
      the lowest at which the exact lower bound of the pooled training flags reaches `precision`.
      It is chosen on probabilities of inner folds: those of a training fold come from the other
      training folds, where there is more than one. Below the family's quiet threshold, the highest
      that keeps `recall` of the training positives, a unit isn't even advised.
    - The order of units changes nothing; equal scores are flagged alike.

Source:
    Platt (1999); Ayer et al. (1955); Angelopoulos et al. (2021) for the walk; Varma and Simon
    (2006) for nested folds.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Final, Literal, TypeAlias

import numpy as np
import numpy.typing as npt

from .calibration import Isotonic, Platt, isotonic, platt
from .grouping import FloatArray, IntArray
from .precision_bounds import Bound
from .riskcontrol import min_flagged
from .training_bounds import last_reaching
from .values import Undetermined

__all__ = ("BlockRule", "Flagging", "RuleName", "Scored", "Threshold", "apply_rule")

BoolArray: TypeAlias = npt.NDArray[np.bool_]
RuleName: TypeAlias = Literal["calibrated_block", "precision_bound_block", "pooled_block_gate"]
_DECIMALS: Final = 9


@dataclass(frozen=True, kw_only=True, eq=False)
class Scored:
    """Units with a score and a truth, shapes (n,).

    Attributes:
        scores: higher means more likely label 1.
        labels: 0 or 1.
        clusters: integer code of each unit's cluster.
        families: name of each unit's family; one name where there are none.
        folds: name of each unit's outer fold.
        eligible: whether a rule may learn from the unit.
    """

    scores: FloatArray
    labels: IntArray
    clusters: IntArray
    families: Sequence[str]
    folds: Sequence[str]
    eligible: BoolArray


@dataclass(frozen=True, kw_only=True, slots=True)
class BlockRule:
    """A rule with its parameters; those that a rule doesn't take are ignored by it.

    Attributes:
        precision: wanted of the flags.
        recall: of positives that pooled_block_gate keeps above the quiet threshold.
        bound: of the training flags, for precision_bound_block.
        min_flagged: least training flags, for precision_bound_block.
        normalise: how scores become probabilities.
        alpha: error of the training bound.
    """

    name: RuleName
    precision: float
    recall: float = 0.98
    bound: Bound = "clopper_pearson"
    min_flagged: int = 1
    normalise: Literal["platt", "isotonic"] = "platt"
    alpha: float = 0.025


@dataclass(frozen=True, kw_only=True, slots=True)
class Threshold:
    """What was chosen for the units of one fold, in one family or in all (None).

    Attributes:
        block: value from which a unit is flagged; None where nothing is.
        quiet: value below which a unit isn't advised; None where the rule has none.
        training: eligible units that it was chosen on; `positives` of them have label 1.
        flagged: of them at or above `block`; `right` of these have label 1.
        why_not: why nothing is flagged.
    """

    fold: str
    family: str | None
    block: float | None
    quiet: float | None = None
    training: int
    positives: int
    flagged: int = 0
    right: int = 0
    why_not: str | None = None


@dataclass(frozen=True, kw_only=True, eq=False)
class Flagging:
    """What a rule does with the units.

    Attributes:
        flagged: shape (n,); `advised` are the units above their quiet threshold and not flagged.
        values: what is compared with the threshold; `has_value` where there is one.
        thresholds: by fold, then family.
    """

    flagged: BoolArray
    advised: BoolArray
    values: FloatArray
    has_value: BoolArray
    thresholds: tuple[Threshold, ...] = field(default_factory=tuple)


def apply_rule(units: Scored, rule: BlockRule) -> Flagging:
    """Applies a rule.

    Args:
        units: scored units, n >= 1, in at least two folds.
        rule: what to apply.

    Raises:
        ValueError: A cluster lies in two folds, there is one fold only, or a number isn't finite.
    """
    _check_units(units)
    count = len(units.folds)
    found = Flagging(
        flagged=np.zeros(count, dtype=np.bool_),
        advised=np.zeros(count, dtype=np.bool_),
        values=np.zeros(count),
        has_value=np.zeros(count, dtype=np.bool_),
    )
    thresholds: list[Threshold] = []
    fits: _Fits = {}
    for fold, held in _masks(units.folds):
        if rule.name == "pooled_block_gate":
            thresholds += _pooled(units, rule, fold, held, into=found, fits=fits)
        else:
            thresholds += _by_family(units, rule, fold, held, found)
    return Flagging(
        flagged=found.flagged,
        advised=found.advised & ~found.flagged,
        values=found.values,
        has_value=found.has_value,
        thresholds=tuple(thresholds),
    )


_Fit: TypeAlias = Platt | Isotonic
# Fits by family and by the folds that they don't know: leaving out j and k is leaving out k and j.
_Fits: TypeAlias = dict[tuple[str, frozenset[str]], "_Fit | Undetermined"]


def _by_family(
    units: Scored, rule: BlockRule, fold: str, held: BoolArray, into: Flagging
) -> Iterator[Threshold]:
    """Yields the thresholds of one fold for the rules that treat each family alone."""
    calibrated = rule.name == "calibrated_block"
    for family, members in _masks(units.families):
        train, test = members & ~held & units.eligible, members & held
        fit: _Fit | Undetermined | None = None
        if calibrated:
            fit = _fit(units, train, rule)
        if isinstance(fit, Undetermined):
            yield _none(units, train, fold, family, fit.reason)
            continue
        values = _values(units, test, fit)
        into.values[test], into.has_value[test] = values, True
        taught = _values(units, train, fit)
        found = rule.precision if calibrated else _lowest(units, train, taught, rule)
        if isinstance(found, Undetermined):
            yield _none(units, train, fold, family, found.reason)
            continue
        into.flagged[test] = values >= found
        yield _threshold(units, train, taught, fold=fold, family=family, block=found)


def _pooled(
    units: Scored, rule: BlockRule, fold: str, held: BoolArray, *, into: Flagging, fits: _Fits
) -> Iterator[Threshold]:
    """Yields the thresholds of one fold for the gate that all families share."""
    train = ~held & units.eligible
    inner, known = _inner_values(units, rule, fold, train, fits)
    block: float | Undetermined = Undetermined("no family can be calibrated on the other folds")
    if bool(known.any()):
        block = _lowest(units, known, inner[known], rule)
    if isinstance(block, Undetermined):
        yield _none(units, train, fold, None, block.reason)
    else:
        yield _threshold(units, known, inner[known], fold=fold, family=None, block=block)
    for family, members in _masks(units.families):
        own, test = members & train, members & held
        fit = _fit(units, own, rule)
        if isinstance(fit, Undetermined):
            yield _none(units, own, fold, family, fit.reason)
            continue
        values = _values(units, test, fit)
        into.values[test], into.has_value[test] = values, True
        quiet = _quiet(_values(units, own, fit), units.labels[own], rule.recall)
        into.advised[test] = values >= quiet
        if not isinstance(block, Undetermined):
            into.flagged[test] = values >= block
        yield Threshold(
            fold=fold,
            family=family,
            block=None if isinstance(block, Undetermined) else block,
            quiet=quiet,
            training=int(own.sum()),
            positives=int(units.labels[own].sum()),
        )


def _inner_values(
    units: Scored, rule: BlockRule, fold: str, train: BoolArray, fits: _Fits
) -> tuple[FloatArray, BoolArray]:
    """Returns probabilities of the training units, each from the other training folds."""
    values, known = np.zeros(len(units.folds)), np.zeros(len(units.folds), dtype=np.bool_)
    taught = {name: own & train for name, own in _masks(units.folds)}
    folds = {name: own for name, own in taught.items() if bool(own.any())}
    for name, own in folds.items():
        # With a single training fold nothing is left to fit on, so it teaches itself.
        alone = len(folds) == 1
        others = train if alone else train & ~own
        for family, members in _masks(units.families):
            key = (family, frozenset((fold,) if alone else (fold, name)))
            fit = fits.get(key)
            if fit is None:
                fit = fits[key] = _fit(units, members & others, rule)
            if not isinstance(fit, Undetermined):
                values[members & own] = _values(units, members & own, fit)
                known |= members & own
    return values, known


def _masks(names: Sequence[str]) -> Iterator[tuple[str, BoolArray]]:
    """Yields each name, in order, with which units have it."""
    known = {name: code for code, name in enumerate(sorted(set(names)))}
    codes = np.array([known[one] for one in names], dtype=np.int64)
    for name, code in known.items():
        yield name, codes == code


def _fit(units: Scored, train: BoolArray, rule: BlockRule) -> _Fit | Undetermined:
    labels = units.labels[train]
    if not labels.size or int(labels.min()) == int(labels.max()):
        return Undetermined("the other folds don't hold both labels")
    if rule.normalise == "isotonic":
        return isotonic(units.scores[train], labels)
    found = platt(units.scores[train], labels)
    if isinstance(found, Platt) and found.slope <= 0.0:
        # A falling fit would flag the lowest scores.
        return Undetermined("scores don't rise with the labels of the other folds")
    return found


def _values(units: Scored, chosen: BoolArray, fit: _Fit | None) -> FloatArray:
    """Returns probabilities of the chosen units, or their scores without a fit."""
    scores: list[float] = units.scores[chosen].tolist()
    if fit is None:
        return np.array(scores, dtype=np.float64)
    return np.array([round(fit.probability(one), _DECIMALS) for one in scores], dtype=np.float64)


def _lowest(
    units: Scored, train: BoolArray, values: FloatArray, rule: BlockRule
) -> float | Undetermined:
    """Returns the lowest value whose training flags are shown to be precise enough."""
    own = rule.name == "precision_bound_block"
    bound: Bound = rule.bound if own else "clopper_pearson"
    least = rule.min_flagged if own else 1
    if bound == "learn_then_test":
        # Fewer flags can't pass even when all are right: the walk would end before it began.
        fewest = min_flagged(rule.precision, bound="clopper_pearson", alpha=rule.alpha)
        least = max(least, fewest)
    order = np.argsort(-values, kind="stable")
    values, labels = values[order], units.labels[train][order]
    # The last unit of each distinct value: equal values are flagged alike.
    ends = np.flatnonzero(np.append(values[1:] != values[:-1], [True])[: values.size])
    ends = ends[ends + 1 >= least]
    end = last_reaching(
        ends,
        labels,
        units.clusters[train][order],
        bound=bound,
        precision=rule.precision,
        alpha=rule.alpha,
    )
    if end is None:
        return Undetermined("no threshold is shown to be precise enough on the other folds")
    return float(values[end])


def _quiet(values: FloatArray, labels: IntArray, recall: float) -> float:
    """Returns the highest value that keeps the share `recall` of the positives at or above it."""
    positives = sorted(values[labels == 1].tolist(), reverse=True)
    # A share of a count: 0.98 of 50 is 49, whatever its binary form says.
    kept = max(1, math.ceil(round(recall * len(positives), _DECIMALS)))
    return float(positives[kept - 1])


def _threshold(
    units: Scored,
    train: BoolArray,
    values: FloatArray,
    *,
    fold: str,
    family: str | None,
    block: float,
) -> Threshold:
    flags, labels = values >= block, units.labels[train]
    return Threshold(
        fold=fold,
        family=family,
        block=float(block),
        training=int(labels.size),
        positives=int(labels.sum()),
        flagged=int(flags.sum()),
        right=int(labels[flags].sum()),
    )


def _none(units: Scored, train: BoolArray, fold: str, family: str | None, why: str) -> Threshold:
    labels = units.labels[train]
    return Threshold(
        fold=fold,
        family=family,
        block=None,
        training=int(labels.size),
        positives=int(labels.sum()),
        why_not=why,
    )


def _check_units(units: Scored) -> None:
    count = len(units.folds)
    columns = (units.scores, units.labels, units.clusters, units.families, units.eligible)
    if not count or any(len(column) != count for column in columns):
        raise ValueError("units: expected columns of one equal length above 0")
    if not bool(np.all(np.isfinite(units.scores))):
        raise ValueError("scores: expected finite numbers, found NaN or an infinity")
    if len(set(units.folds)) < 2:
        raise ValueError("folds: expected at least two, found one: nothing to learn from")
    fold_of: dict[int, str] = {}
    for cluster, fold in zip(units.clusters.tolist(), units.folds, strict=True):
        if fold_of.setdefault(cluster, fold) != fold:
            raise ValueError(f"folds: cluster {cluster} lies in {fold_of[cluster]} and {fold}")
