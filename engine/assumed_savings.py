"""What a simulation assumes of a saving: stated in a file, or seen in a pilot. Pure.

Leaves primaries to `assuming.py`, and the drawing to `analysis/simulation.py`.

Rules:
- A saving is assumed as a ratio, treatment to control, with the spread of the difference of a pair
  on its scale, and of the level that both of a pair have: on the raw scale that level decides.
- Where a claim holds on the log scale too, logarithms are normal, so that no value is negative.
- A pilot shows all of it: ratio, spread, level and correlation of both. Few units show little, and
  the report says how many there were.
- Where each unit is in one arm, `sd` is of a unit's value within its arm, and no level is known.
"""

from __future__ import annotations

import math
from typing import Literal

import msgspec

from fairtrial.analysis.simulation import PairModel
from fairtrial.ledger.errors import RefusedError
from fairtrial.ledger.protocol import Comparison, Endpoint, Protocol, missing_rule
from fairtrial.protocols.assigning import is_assigned
from fairtrial.verdicts.assigned_arrays import residuals_of_arms
from fairtrial.verdicts.evaluate import AnalysisContext
from fairtrial.verdicts.frames import Pairs

from .assuming import icc_of, pilot_pairs, spread_in_arms, spread_of

__all__ = (
    "AssumedSaving",
    "has_declared_value",
    "pilot_saving",
    "saving_endpoint",
    "saving_model",
    "saving_scale",
)


class AssumedSaving(msgspec.Struct, frozen=True, kw_only=True):
    """What the values of a saving's endpoint are drawn from, in one comparison.

    Attributes:
        endpoint: of the saving.
        scale: on which values are normal.
        ratio: treatment to control, of means, on the log scale of geometric ones.
        sd: of the paired difference on the scale, or of a unit's value within its one arm.
        icc: intra-cluster correlation of the same.
        mean: of control, on the log scale the geometric one; None where no claim depends on it.
        level_sd: standard deviation over units of what both arms of a pair have in common, on the
            scale; None where no claim depends on it.
        level_icc: its intra-cluster correlation.
        source: a file of assumptions, or a pilot.
        units: pairs of the pilot.
    """

    endpoint: str
    scale: Literal["raw", "log"]
    ratio: float
    sd: float
    icc: float
    mean: float | None = None
    level_sd: float | None = None
    level_icc: float | None = None
    source: Literal["file", "pilot"]
    units: int | None = None


def saving_endpoint(protocol: Protocol) -> Endpoint | None:
    """Returns the endpoint of the saving that a verdict asks for; None where it asks for none."""
    saving = protocol.decision.saving
    if saving is None:
        return None
    found = next(each for each in protocol.endpoints if each.name == saving.endpoint)
    return found if found.role == "secondary" else None


def saving_scale(endpoint: Endpoint) -> Literal["raw", "log"]:
    """Returns the scale on which a pilot's values are taken as normal."""
    return "raw" if endpoint.scale == "raw" else "log"


def has_declared_value(protocol: Protocol, endpoint: Endpoint) -> bool:
    """Returns whether a lost outcome counts as a number of its own, which levels are held against.

    Lost outcomes are drawn with status `error`.
    """
    return not isinstance(missing_rule(protocol, endpoint, "error"), str)


def pilot_saving(
    protocol: Protocol, pilot: AnalysisContext, comparison: Comparison, endpoint: Endpoint
) -> AssumedSaving:
    """Returns what a pilot shows of a saving.

    Raises:
        RefusedError: The pilot lacks an arm, has fewer than two pairs, or values without a ratio.
    """
    scale = saving_scale(endpoint)
    own = msgspec.structs.replace(endpoint, scale=scale)
    pairs = pilot_pairs(protocol, pilot, comparison, own)
    if pairs.treated is None:
        return _of_pairs(pairs, endpoint, scale, pilot.protocol.id)
    rest = residuals_of_arms(pairs)
    values = pairs.completions[0]
    control = _mean(values.control[~pairs.treated].tolist())
    treatment = _mean(values.treatment[pairs.treated].tolist())
    return AssumedSaving(
        endpoint=endpoint.name,
        scale=scale,
        ratio=_ratio(control, treatment, scale, f"{pilot.protocol.id}: {endpoint.name}"),
        sd=spread_in_arms(rest),
        icc=icc_of(rest, pairs.clusters),
        mean=math.exp(control) if scale == "log" else control,
        source="pilot",
        units=len(rest),
    )


def _of_pairs(
    pairs: Pairs, endpoint: Endpoint, scale: Literal["raw", "log"], pilot: str
) -> AssumedSaving:
    values = pairs.completions[0]
    control, treatment = (_mean(each.tolist()) for each in (values.control, values.treatment))
    levels = (values.control + values.treatment) / 2.0
    return AssumedSaving(
        endpoint=endpoint.name,
        scale=scale,
        ratio=_ratio(control, treatment, scale, f"{pilot}: {endpoint.name}"),
        sd=spread_of(values.differences),
        icc=icc_of(values.differences, pairs.clusters),
        mean=math.exp(control) if scale == "log" else control,
        level_sd=spread_of(levels),
        level_icc=icc_of(levels, pairs.clusters),
        source="pilot",
        units=len(levels),
    )


def saving_model(
    protocol: Protocol, assumed: AssumedSaving, *, ratio: float, missing: float
) -> PairModel:
    """Returns the model of a saving's endpoint at a true ratio.

    Args:
        protocol: whether each unit is in one arm.
        assumed: spread and level.
        ratio: treatment to control.
        missing: share of pairs lost.
    """
    is_log, mean = assumed.scale == "log", 1.0 if assumed.mean is None else assumed.mean
    effect = math.log(ratio) if is_log else mean * (ratio - 1.0)
    return PairModel(
        effect=effect,
        sd=assumed.sd,
        icc=min(assumed.icc, 0.999),
        missing=missing,
        base=mean * math.exp(effect / 2.0) if is_log else mean + effect / 2.0,
        is_log=is_log,
        assigned=is_assigned(protocol),
        level_sd=assumed.level_sd or 0.0,
        level_icc=min(assumed.level_icc or 0.0, 0.999),
    )


def _mean(values: list[float]) -> float:
    return math.fsum(values) / len(values)


def _ratio(control: float, treatment: float, scale: Literal["raw", "log"], where: str) -> float:
    if scale == "log":
        return math.exp(treatment - control)
    if control <= 0.0 or treatment <= 0.0:
        raise RefusedError(
            "the pilot's means have no ratio, so it can't say what is saved",
            where=where,
            expected="means above 0",
            found=f"{control:g} and {treatment:g}",
            todo="state the saving in a file for --assume",
        )
    return treatment / control
