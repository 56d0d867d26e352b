"""What a look means for what is still to come, and what stopping did to the numbers. Pure.

Leaves the look itself to `evaluate.py`; nothing here decides.

Rules:
- A note of futility needs `looks.futility`, and is non-binding: whoever goes on loses nothing.
- Conditional power takes the trend so far, with only the last look to come, at its boundary.
- After stopping, estimate and interval come from the stage-wise ordering: which look ended the
  experiment counts before how far it went. p, estimate and interval belong together; the repeated
  interval decides, and these are shown beside it.
- z is the normal quantile of the deciding p, on the side of the estimate: the t correction is in.
- After stopping: superiority and non-inferiority on one scale; equivalence has two nulls.
- Futility with equivalence, or a list of rules, is the chance that the last interval concludes in
  favour or as equivalent, with the error that the present one leads to.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from fairtrial.analysis.distributions import normal_upper_quantile
from fairtrial.analysis.guarded import computed
from fairtrial.analysis.stagewise import conditional_power, final_within, stagewise
from fairtrial.analysis.values import Undetermined
from fairtrial.ledger.events import Look, LookEndpoint
from fairtrial.ledger.protocol import Protocol

from .boundaries import Test, margin_on, nominal, tests_of
from .estimates import scales_of
from .power_values import decision_rules
from .readings import null_of
from .slot_values import direction

__all__ = ("AfterStopping", "FutilityNote", "after_stopping", "futility_notes")

_RULES = ("superiority", "non_inferiority")
# Below this a p has no normal quantile worth the name.
_P_MIN = 1e-300


@dataclass(frozen=True, kw_only=True, slots=True)
class FutilityNote:
    """What is left to hope for at a look.

    Attributes:
        comparison: which, with its `endpoint`.
        conditional_power: chance of crossing at the last look, if the trend goes on.
        is_futile: it is below the registered value.
    """

    comparison: str
    endpoint: str
    conditional_power: float
    is_futile: bool


@dataclass(frozen=True, kw_only=True, slots=True)
class AfterStopping:
    """Inference by the stage-wise ordering.

    Attributes:
        p_one_sided: chance, at the null, of an end at least as favourable.
        estimate: median-unbiased, treatment minus control.
        lower: limit of its interval; `upper` likewise; `level` of both.
        looks: eligible looks that it rests on.
    """

    p_one_sided: float
    estimate: float
    lower: float
    upper: float
    level: float
    looks: int


def futility_notes(protocol: Protocol, looks: Sequence[Look]) -> list[FutilityNote]:
    """Returns the notes of the newest of the looks taken; none at the last or a crossing.

    Args:
        protocol: the plan in force.
        looks: looks taken, in order.
    """
    asked, planned = protocol.looks.futility, len(protocol.looks.at)
    if asked is None or not looks or len(looks) == planned or not looks[-1].continues:
        return []
    notes: list[FutilityNote] = []
    for test in tests_of(protocol):
        path = _path(test, looks)
        if not _has_notes(test) or not path or path[-1] is not _found(looks[-1], test):
            continue
        fractions = tuple(found.information_fraction for found in path)
        last = nominal(test, protocol, planned, 1.0, history=fractions)
        if last.z is None or not 0.0 < fractions[-1] < 1.0:
            continue
        chance = _chance(protocol, test, path[-1], last.z)
        if chance is None:
            continue
        notes.append(
            FutilityNote(
                comparison=test.comparison.name,
                endpoint=test.endpoint.name,
                conditional_power=chance,
                is_futile=chance < asked.conditional_power,
            )
        )
    return notes


def _chance(protocol: Protocol, test: Test, found: LookEndpoint, critical: float) -> float | None:
    """Returns the chance that the last look concludes in favour if the trend goes on."""
    if _is_covered(protocol, test):
        z = _z(protocol, test, found)
        return None if z is None else conditional_power(z, found.information_fraction, critical)
    if found.estimate is None or not found.standard_error:
        return None
    estimate = _turn(test) * found.estimate
    error = found.standard_error * math.sqrt(found.information_fraction)
    margin = margin_on(test.endpoint, protocol.decision.margin or 0.0)
    reach = critical * error
    ranges = []
    if "superiority" in decision_rules(protocol):
        ranges.append((margin + reach, math.inf))
    if "equivalence" in decision_rules(protocol) and margin > reach:
        ranges.append((reach - margin, margin - reach))
    return final_within(estimate, error, found.information_fraction, ranges)


def after_stopping(protocol: Protocol, test: Test, looks: Sequence[Look]) -> AfterStopping | None:
    """Returns the stage-wise inference of a test that ended with the last of these looks.

    Args:
        protocol: the plan in force.
        test: a primary.
        looks: looks up to the one that the comparison ended with.
    """
    path = _path(test, looks)
    if not _is_covered(protocol, test) or not path or path[-1] is not _found(looks[-1], test):
        return None
    last = path[-1]
    z, null = _z(protocol, test, last), null_of(protocol, test)
    if z is None or last.estimate is None or any(found.z is None for found in path):
        return None
    turn = _turn(test)
    gap = turn * (last.estimate - null)
    if z == 0.0 or gap == 0.0:
        return None
    # Without drift nothing but z is known; its size in the endpoint's unit is that of the estimate.
    unit = gap / z * last.information_fraction**-0.5
    # Mirrored, so that the ordering counts upwards: a claim against is one in favour of control.
    side = 1.0 if z > 0.0 or protocol.analysis.sides == 1 else -1.0
    found = computed(
        lambda: stagewise(
            [float(each.z or 0.0) for each in path],
            [each.information_fraction for each in path],
            look=len(path),
            z=side * z,
            sides=protocol.analysis.sides,
            alpha=test.alpha,
        )
    )
    if isinstance(found, Undetermined) or not math.isfinite(unit):
        return None
    ends = [null + turn * side * drift * unit for drift in (found.lower, found.upper)]
    return AfterStopping(
        p_one_sided=found.p_one_sided if side > 0.0 else 1.0 - found.p_one_sided,
        estimate=null + turn * side * found.median_unbiased * unit,
        lower=min(ends),
        upper=max(ends),
        level=1.0 - test.alpha,
        looks=len(path),
    )


def _has_notes(test: Test) -> bool:
    return test.role == "primary" and len(scales_of(test.endpoint)) == 1


def _is_covered(protocol: Protocol, test: Test) -> bool:
    rules = decision_rules(protocol)
    return (
        test.role == "primary"
        and len(rules) == 1
        and rules[0] in _RULES
        and len(scales_of(test.endpoint)) == 1
    )


def _found(look: Look, test: Test) -> LookEndpoint | None:
    for comparison in look.comparisons:
        if comparison.name == test.comparison.name:
            return next((e for e in comparison.endpoints if e.name == test.endpoint.name), None)
    return None


def _path(test: Test, looks: Sequence[Look]) -> list[LookEndpoint]:
    """Returns the eligible looks of a test."""
    found = (_found(look, test) for look in looks)
    return [each for each in found if each is not None and each.eligible]


def _turn(test: Test) -> float:
    return 1.0 if direction(test.endpoint) == "higher" else -1.0


def _z(protocol: Protocol, test: Test, found: LookEndpoint) -> float | None:
    if found.p_value is None or found.estimate is None or found.p_value < _P_MIN:
        return None
    size = normal_upper_quantile(found.p_value / 2.0) if found.p_value < 1.0 else 0.0
    gap = _turn(test) * (found.estimate - null_of(protocol, test))
    return size if gap >= 0.0 else -size
