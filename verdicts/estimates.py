"""The numbers of one endpoint at one look: from pairs to estimate, tests and interval. Pure.

Leaves the formulas to `analysis/`, the look's boundary to `boundaries.py`, and what the numbers
mean to `evaluate.py`.

Rules:
- Where worst-case values were filled in there are two completions; limits are the hull of both, the
  estimate is the middle, the standard error the larger, and a p counts only if both completions lie
  on one side of the null.
- Without a nominal p that a test could reach there are no limits.
- A number that can't be computed is None, and `undetermined` says why.
- Of a win rate the difference is its distance from one half, and each arm shows its own rate.
- On the log scale differences are logarithms of ratios; means are geometric.
- Where each unit is in one arm, the difference is one of means between units, and no pair is
  counted: none is discordant.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Final, Literal, TypeAlias

from fairtrial.analysis.anytime import deciding_sequence
from fairtrial.analysis.auc import RankedArms, ranked_arms
from fairtrial.analysis.deciding import Deciding, deciding_interval
from fairtrial.analysis.grouping import FloatArray, IntArray, exact_mean, exact_sum, group
from fairtrial.analysis.guarded import NOT_COMPUTABLE, all_finite, computed
from fairtrial.analysis.labelled import deciding_auc, deciding_precision, precision_of
from fairtrial.analysis.paired import count_clusters
from fairtrial.analysis.values import Estimand, Family, Undetermined
from fairtrial.ledger.protocol import Endpoint, Protocol

from .arrays import logged
from .assigned_arrays import clusters_with_flags, decide_assigned, finite, is_flat
from .boundaries import NOMINAL_P_MIN, is_anytime
from .frames import Completion, Pairs
from .slot_values import ONE_OR_NONE

__all__ = ("BY_LABEL", "Limits", "Numbers", "Saved", "ScaleName", "estimate", "scales_of")

ScaleName: TypeAlias = Literal["raw", "log"]
Limits: TypeAlias = tuple[float, float]

# Types whose number needs the truth of each unit.
BY_LABEL: Final = ("auc", "precision")
# Stands in where the boundary's own p is out of reach: limits made with it are dropped.
_ANY_P: Final = 0.05


@dataclass(frozen=True, kw_only=True, slots=True)
class Saved:
    """What decides a saving on the raw scale.

    Attributes:
        contrast: mean of treatment - (1 - least share) x control; `standard_error` of it.
        lower: limit of the contrast at level 1 - nominal p; `upper` likewise.
        has_level: control's mean is above 0, or its level isn't asked for.
        share: of control's mean that is saved, with its limits; None where they don't exist, and
            `why_not` says why.
    """

    contrast: float
    standard_error: float | None
    lower: float
    upper: float
    has_level: bool
    share: float | None
    share_lower: float | None
    share_upper: float | None
    why_not: str | None


@dataclass(frozen=True, kw_only=True, slots=True)
class Numbers:
    """One endpoint of one comparison on one scale.

    Attributes:
        scale: raw differences, or logarithms.
        n: pairs; `clusters` their clusters.
        discordant_clusters: clusters with a non-zero difference.
        only_control: pairs below zero; `only_treatment` above.
        control: mean of the control arm by the estimand, `treatment` likewise; on the log scale
            they are geometric means.
        estimate: treatment minus control.
        standard_error: None where nothing varies.
        df: of the standard error.
        tests: two-sided p by name of the test, at `null`.
        p_value: the largest p of the deciding tests.
        lower: limit of the deciding interval at level 1 - nominal p; `upper` likewise.
        t_critical: critical value behind the limits.
        parts: limits of each deciding method by name.
        zero_variance: the clusters' means are all equal.
        undetermined: why there is no interval.
        saved: of a saving that is tested on the raw scale: p and tests are then of its contrast.
    """

    scale: ScaleName
    n: int
    clusters: int
    discordant_clusters: int
    only_control: int
    only_treatment: int
    control: float | None
    treatment: float | None
    estimate: float | None
    standard_error: float | None = None
    df: float | None = None
    tests: Mapping[str, float]
    p_value: float | None = None
    lower: float | None = None
    upper: float | None = None
    t_critical: float | None = None
    parts: Mapping[str, Limits]
    zero_variance: bool = False
    undetermined: str | None = None
    saved: Saved | None = None


def scales_of(endpoint: Endpoint) -> tuple[ScaleName, ...]:
    """Returns the scales on which a claim has to hold."""
    return ("raw", "log") if endpoint.scale == "both" else (endpoint.scale,)


def estimate(
    pairs: Pairs,
    protocol: Protocol,
    endpoint: Endpoint,
    scale: ScaleName,
    *,
    nominal_p: float,
    null: float = 0.0,
) -> Numbers:
    """Computes the numbers of an endpoint.

    Args:
        pairs: its pairs.
        protocol: the estimand, and whether each unit is its own cluster.
        endpoint: the endpoint.
        scale: raw or log.
        nominal_p: two-sided p that the look allows.
        null: difference that the tests are computed at, on this scale.
    """
    on_scale = logged(pairs) if scale == "log" else pairs
    if isinstance(on_scale, Undetermined):
        return replace(_counted(pairs, "log"), undetermined=on_scale.reason)
    ranked = _ranked(on_scale, endpoint)
    counted = _counted(on_scale, scale)
    if endpoint.type in BY_LABEL:
        counted = _by_label(counted, on_scale, ranked)
    else:
        counted = _averaged(counted, on_scale, protocol)
    if endpoint.type == "win_rate" and counted.treatment is not None:
        counted = replace(counted, control=1.0 - counted.treatment)
    reachable = NOMINAL_P_MIN <= nominal_p < 1.0
    decided = [
        _guarded(
            partial(
                _decide,
                on_scale,
                completion,
                protocol,
                endpoint,
                nominal_p=nominal_p if reachable else _ANY_P,
                null=null,
                ranked=arms,
            )
        )
        for completion, arms in zip(on_scale.completions, ranked, strict=True)
    ]
    found = [each for each in decided if isinstance(each, Deciding)]
    if len(found) < len(decided):
        reason = next(each.reason for each in decided if isinstance(each, Undetermined))
        varies = endpoint.type in BY_LABEL or _by_sequence(protocol, endpoint)
        nothing_varies = counted.clusters > 1 and not varies and NOT_COMPUTABLE not in decided
        if on_scale.treated is not None and endpoint.type not in BY_LABEL:
            nothing_varies = is_flat(on_scale, protocol.analysis.estimand)
        return replace(counted, zero_variance=nothing_varies, undetermined=reason)
    numbers = _hull(counted, found, null)
    if _by_sequence(protocol, endpoint):
        numbers = replace(numbers, p_value=None, df=None, t_critical=None)
    return numbers if reachable else _without_limits(numbers)


def _guarded(decide: Callable[[], Deciding | Undetermined]) -> Deciding | Undetermined:
    """Returns a deciding interval, all of whose numbers are finite."""
    found = computed(decide)
    if isinstance(found, Undetermined):
        return found
    sides = [side for part in found.parts for side in (part.lower, part.upper)]
    numbers = [found.estimate, found.standard_error, found.lower, found.upper, *sides]
    return found if all_finite([*numbers, *found.tests.values()]) else NOT_COMPUTABLE


def _decide(
    pairs: Pairs,
    completion: Completion,
    protocol: Protocol,
    endpoint: Endpoint,
    *,
    nominal_p: float,
    null: float,
    ranked: RankedArms | None,
) -> Deciding | Undetermined:
    """Returns the deciding interval of one completion by the method of the endpoint's type."""
    if pairs.treated is not None:
        return decide_assigned(
            pairs, completion, protocol, endpoint, nominal_p=nominal_p, null=null
        )
    if endpoint.type in BY_LABEL:
        assert pairs.labels is not None
        by_label = deciding_precision if ranked is None else partial(deciding_auc, ranked=ranked)
        return by_label(
            completion.control,
            completion.treatment,
            pairs.labels,
            pairs.clusters,
            nominal_p=nominal_p,
            null=null,
        )
    if _by_sequence(protocol, endpoint):
        method = protocol.looks.method
        assert method is not None, "looks at any time have a method"
        return deciding_sequence(
            completion.differences,
            pairs.clusters,
            method=method,
            bounds=endpoint.bounds or (0.0, 1.0),
            alpha=nominal_p,
            first=protocol.looks.min_clusters or 1,
        )
    return deciding_interval(
        completion.differences,
        pairs.clusters,
        family=_family(endpoint, completion),
        estimand=protocol.analysis.estimand,
        nominal_p=nominal_p,
        singletons=protocol.units.cluster is None,
        null=null,
    )


def _by_sequence(protocol: Protocol, endpoint: Endpoint) -> bool:
    return is_anytime(protocol) and endpoint.type in ("binary", "bounded")


def _ranked(pairs: Pairs, endpoint: Endpoint) -> Sequence[RankedArms | None]:
    """Returns the ranked scores of an AUC, one for each completion; of other types none."""
    if endpoint.type != "auc":
        return [None] * len(pairs.completions)
    assert pairs.labels is not None
    return [ranked_arms(each.control, each.treatment, pairs.labels) for each in pairs.completions]


def _by_label(counted: Numbers, pairs: Pairs, ranked: Sequence[RankedArms | None]) -> Numbers:
    """Returns the numbers with each arm's AUC or precision in the place of its mean."""
    labels = pairs.labels
    assert labels is not None
    values = [
        (precision_of(each.control, labels), precision_of(each.treatment, labels))
        if arms is None
        else arms.areas
        for each, arms in zip(pairs.completions, ranked, strict=True)
    ]
    sides: list[float | None] = []
    for found in zip(*values, strict=True):
        known = [each for each in found if not isinstance(each, Undetermined)]
        sides.append(_middle(known, "raw") if len(known) == len(found) else None)
    control, treatment = sides
    flagged = (clusters_with_flags(each, pairs) for each in pairs.completions)
    return replace(
        counted,
        clusters=counted.clusters if pairs.treated is None else min(flagged),
        control=control,
        treatment=treatment,
        estimate=None if control is None or treatment is None else treatment - control,
    )


def _without_limits(numbers: Numbers) -> Numbers:
    reason = "the share of alpha so far is too small for an interval"
    return replace(numbers, lower=None, upper=None, t_critical=None, parts={}, undetermined=reason)


def _counted(pairs: Pairs, scale: ScaleName) -> Numbers:
    """Returns what can be counted in any pairs; none is discordant where a unit is in one arm."""
    clusters = discordant = only_control = only_treatment = 0
    if pairs.treated is None:
        against = pairs.completions[0].differences
        seen = against[against == pairs.completions[-1].differences]
        counts = [count_clusters(each.differences, pairs.clusters) for each in pairs.completions]
        clusters, discordant = counts[0][0], min(count for _, count in counts)
        only_control, only_treatment = int((seen < 0.0).sum()), int((seen > 0.0).sum())
    return Numbers(
        scale=scale,
        n=int(pairs.units.size),
        clusters=clusters if pairs.treated is None else len(set(pairs.clusters.tolist())),
        discordant_clusters=discordant,
        only_control=only_control,
        only_treatment=only_treatment,
        control=None,
        treatment=None,
        estimate=None,
        tests={},
        parts={},
    )


def _averaged(counted: Numbers, pairs: Pairs, protocol: Protocol) -> Numbers:
    """Returns the numbers with the mean of each arm and the mean difference."""
    estimand = protocol.analysis.estimand
    sides = [
        (
            _mean(each.control, pairs.clusters, estimand),
            _mean(each.treatment, pairs.clusters, estimand),
        )
        for each in pairs.completions
    ]
    if pairs.treated is None:
        differences = [
            _mean(each.differences, pairs.clusters, estimand) for each in pairs.completions
        ]
    else:
        differences = [None if a is None or b is None else b - a for a, b in sides]
    return replace(
        counted,
        control=_middle([a for a, _ in sides], counted.scale),
        treatment=_middle([b for _, b in sides], counted.scale),
        estimate=_middle(differences, "raw"),
    )


def _mean(values: FloatArray, clusters: IntArray, estimand: Estimand) -> float | None:
    own = finite(values)
    if not own.any():
        return None
    found = computed(lambda: _mean_of(values[own], clusters[own], estimand))
    return None if isinstance(found, Undetermined) or not math.isfinite(found) else found


def _mean_of(values: FloatArray, clusters: IntArray, estimand: Estimand) -> float:
    if estimand == "unit_weighted":
        return exact_mean(values)
    groups = group(values, clusters)
    means = groups.sums / groups.sizes
    return exact_sum(means) / means.size


def _middle(means: Sequence[float | None], scale: ScaleName) -> float | None:
    known = [mean for mean in means if mean is not None]
    if not known:
        return None
    middle = (min(known) + max(known)) / 2.0
    return math.exp(middle) if scale == "log" else middle


def _family(endpoint: Endpoint, completion: Completion) -> Family:
    # A declared number may stand for a lost outcome, and then a difference is no longer -1, 0, 1.
    if endpoint.type not in ONE_OR_NONE:
        return "mean"
    values = completion.differences
    return "binary" if bool(((values == 0.0) | (abs(values) == 1.0)).all()) else "mean"


def _hull(counted: Numbers, found: Sequence[Deciding], null: float) -> Numbers:
    """Returns the numbers with the hull of all completions."""
    first = found[0]
    names = [part.method for part in first.parts]
    together = {each.method for each in found} == {first.method}
    parts = {
        name: (
            min(each.parts[place].lower for each in found),
            max(each.parts[place].upper for each in found),
        )
        for place, name in enumerate(names)
        if together
    }
    return replace(
        counted,
        standard_error=max(each.standard_error for each in found) or None,
        df=first.df,
        tests={
            name: _joint([(each.estimate, each.tests[name]) for each in found], null)
            for name in first.tests
        },
        p_value=_joint([(each.estimate, each.p_value) for each in found], null),
        lower=min(each.lower for each in found),
        upper=max(each.upper for each in found),
        t_critical=first.t_critical,
        parts=parts,
        zero_variance=any(each.degenerate for each in found),
    )


def _joint(found: Sequence[tuple[float, float]], null: float) -> float:
    """Returns the p that all completions allow: 1 where they lie on different sides of the null."""
    sides = {estimate > null for estimate, _ in found}
    return max(p for _, p in found) if len(sides) == 1 else 1.0
