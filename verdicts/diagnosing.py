"""What may be wrong with a comparison's data, looked at before its verdict. Pure.

Leaves the tests to `analysis/diagnostics.py`, what a positive one does to `endings.py`, and the
costs of a saving to `saving_skew.py`.

Rules:
- Looked at are the data that the comparison ends with, of its first primary endpoint.
- Positive: an outcome served by another model than requested; an order effect or a drift with p
  below 0.01; unit- and cluster-weighted differences more than one standard error apart; units
  that are in one arm each lost unevenly, with p below 0.01.
- What can't be tested is not positive, and says why.
- A number that isn't a mean of one difference a pair (AUC, precision) has no order, drift or size.
- Of units in one arm each there is no order and no drift, but always a sample ratio.
- Flips between replicates are shown and never positive.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final as Constant
from typing import Literal, TypeAlias

from fairtrial.analysis.diagnostics import order_effect, time_drift
from fairtrial.analysis.guarded import computed
from fairtrial.analysis.paired import ClusteredMean, clustered_mean, equal_weight_mean
from fairtrial.analysis.reasons import signed
from fairtrial.analysis.values import Estimand, Undetermined
from fairtrial.ledger.protocol import Comparison, DiagnosticEffect, Endpoint

from .arrays import flips
from .assigned_arrays import arm_difference, sample_ratio
from .estimates import BY_LABEL
from .frames import Frame, Pairs, treatment_first
from .slot_values import direction
from .wording import cluster_noun, in_points, plural, unit_noun

__all__ = ("POSITIVE_P", "Diagnosis", "DiagnosisName", "diagnoses")

DiagnosisName: TypeAlias = Literal[
    "served_model",
    "order_effect",
    "time_drift",
    "sample_ratio",
    "informative_size",
    "flip_rate",
    "skewed_saving",
]
POSITIVE_P: Constant = 0.01
_SAME: Constant = 1e-12


@dataclass(frozen=True, kw_only=True, slots=True)
class Diagnosis:
    """What one diagnostic found.

    Attributes:
        name: which.
        effect: what a positive one does to the verdict, as registered.
        positive: whether something was found.
        value: its size, in the words of `text`; None where it can't be computed.
        p_value: of a test.
        text: a clause without a full stop.
    """

    name: DiagnosisName
    effect: DiagnosticEffect
    positive: bool
    value: float | None
    p_value: float | None
    text: str


def diagnoses(frame: Frame, comparison: Comparison, pairs: Pairs, last: int) -> list[Diagnosis]:
    """Returns all diagnostics of a comparison.

    Args:
        frame: plan and outcomes.
        comparison: whose arms.
        pairs: of its first primary endpoint, as it ends.
        last: last position that counts.
    """
    found = [_served(frame, comparison, last)]
    endpoint = _first_primary(frame)
    if pairs.treated is not None:
        found += [_sample_ratio(frame, comparison, pairs), *_informative(frame, pairs)]
    elif len(pairs.units) and endpoint.type not in BY_LABEL:
        found += [_order(frame, comparison, pairs), _drift(frame, pairs)]
        found += list(_informative(frame, pairs))
    return found + list(_flips(frame, comparison, last))


def _served(frame: Frame, comparison: Comparison, last: int) -> Diagnosis:
    arms = [frame.plan.arms.index(arm) for arm in (comparison.control, comparison.treatment)]
    count = sum(
        position <= last and frame.plan.arm_of[position - 1] in arms
        for position in frame.outcomes.other_model
    )
    return Diagnosis(
        name="served_model",
        effect=frame.protocol.diagnostics.served_model,
        positive=count > 0,
        value=float(count),
        p_value=None,
        text=f"outcomes served by another model than requested: {count}",
    )


def _order(frame: Frame, comparison: Comparison, pairs: Pairs) -> Diagnosis:
    first = treatment_first(frame, comparison)[pairs.units]
    found = computed(lambda: order_effect(pairs.differences, first))
    effect = frame.protocol.diagnostics.order_effect
    if isinstance(found, Undetermined):
        return _untested("order_effect", effect, f"order of the arms: {found.reason}")
    size, p = found
    return Diagnosis(
        name="order_effect",
        effect=effect,
        positive=p < POSITIVE_P,
        value=size,
        p_value=p,
        text=f"{_order_text(frame, size)} (p {p:.3g})",
    )


def _order_text(frame: Frame, size: float) -> str:
    endpoint = _first_primary(frame)
    gain = size if direction(endpoint) == "higher" else -size
    if gain == 0.0:
        return "the arm that goes first does neither better nor worse"
    return f"the arm that goes first does {'better' if gain > 0.0 else 'worse'} by" + (
        f" {_amount(endpoint, gain)}"
    )


def _first_primary(frame: Frame) -> Endpoint:
    return next(each for each in frame.protocol.endpoints if each.role == "primary")


def _amount(endpoint: Endpoint, number: float) -> str:
    """Returns a size without its sign, in points where differences are shown in points."""
    return signed(abs(number), in_points=in_points(endpoint)).removeprefix("+")


def _drift(frame: Frame, pairs: Pairs) -> Diagnosis:
    found = computed(lambda: time_drift(pairs.differences, pairs.clusters))
    effect = frame.protocol.diagnostics.time_drift
    if isinstance(found, Undetermined):
        return _untested("time_drift", effect, f"drift over the run: {found.reason}")
    r, p = found
    return Diagnosis(
        name="time_drift",
        effect=effect,
        positive=p < POSITIVE_P,
        value=r,
        p_value=p,
        text=f"the difference correlates with the place in the run by {r:+.2f} (p {p:.3g})",
    )


def _informative(frame: Frame, pairs: Pairs) -> Iterator[Diagnosis]:
    if frame.protocol.units.cluster is None:
        return
    by_unit = computed(lambda: _mean(pairs, "unit_weighted"))
    by_cluster = computed(lambda: _mean(pairs, "cluster_weighted"))
    effect = frame.protocol.diagnostics.informative_size
    if not isinstance(by_unit, ClusteredMean) or not isinstance(by_cluster, ClusteredMean):
        why = "too few clusters"
        if pairs.treated is not None and isinstance(by_cluster, Undetermined):
            why = by_cluster.reason
        yield _untested("informative_size", effect, f"cluster size: {why}")
        return
    chosen = by_unit if frame.protocol.analysis.estimand == "unit_weighted" else by_cluster
    gap = by_unit.estimate - by_cluster.estimate
    yield Diagnosis(
        name="informative_size",
        effect=effect,
        positive=abs(gap) > chosen.standard_error > 0.0,
        value=gap,
        p_value=None,
        text=_gap_text(frame, gap),
    )


def _gap_text(frame: Frame, gap: float) -> str:
    unit, cluster = unit_noun(frame.protocol), cluster_noun(frame.protocol)
    if abs(gap) <= _SAME:
        return f"by {unit} the difference is the same as by {cluster}"
    word = "higher" if gap > 0.0 else "lower"
    amount = _amount(_first_primary(frame), gap)
    return f"by {unit} the difference is {amount} {word} than by {cluster}"


def _flips(frame: Frame, comparison: Comparison, last: int) -> Iterator[Diagnosis]:
    endpoint = _first_primary(frame)
    for arm in (comparison.control, comparison.treatment):
        rate = flips(frame, endpoint, arm, last=last)
        if isinstance(rate, float):
            yield Diagnosis(
                name="flip_rate",
                effect="show",
                positive=False,
                value=rate,
                p_value=None,
                text=f"replicates of {arm} differ in {100 * rate:.1f} % of its units",
            )


def _sample_ratio(frame: Frame, comparison: Comparison, pairs: Pairs) -> Diagnosis:
    arms = (comparison.control, comparison.treatment)
    planned, lost = pairs.planned_of, pairs.lost
    left = ", ".join(f"{arm} {planned[arm] - lost[arm]} of {planned[arm]}" for arm in arms)
    effect = frame.protocol.diagnostics.sample_ratio
    nouns = plural(unit_noun(frame.protocol))
    if not all(planned[arm] for arm in arms):
        return _untested("sample_ratio", effect, f"assigned {nouns} with an outcome: {left}")
    p = sample_ratio(frame.protocol, pairs)
    shares = [(planned[arm] - lost[arm]) / planned[arm] for arm in arms]
    return Diagnosis(
        name="sample_ratio",
        effect=effect,
        positive=p < POSITIVE_P,
        value=shares[1] - shares[0],
        p_value=p,
        text=f"assigned {nouns} with an outcome: {left} (p {p:.3g})",
    )


def _mean(pairs: Pairs, estimand: Estimand) -> ClusteredMean | Undetermined:
    if pairs.treated is not None:
        return arm_difference(pairs, estimand)
    mean = clustered_mean if estimand == "unit_weighted" else equal_weight_mean
    return mean(pairs.differences, pairs.clusters)


def _untested(name: DiagnosisName, effect: DiagnosticEffect, text: str) -> Diagnosis:
    return Diagnosis(name=name, effect=effect, positive=False, value=None, p_value=None, text=text)
