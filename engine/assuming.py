"""What a simulation assumes of the outcomes: stated in the protocol, or seen in a pilot. Pure.

Leaves the drawing to `analysis/simulation.py`, savings to `assumed_savings.py`, and what each
comparison assumes to `assumptions.py`.

Rules:
- Spread comes from `power.assume`; the icc from there, else that of the looks, else 0 where units
  are single. Without a spread there is no simulation.
- A pilot gives spread, icc (not below 0) and loss of its own paired differences, by the same
  endpoint: what few units show is uncertain, and the report says how many there were.
- An assumption is of the reduced paired difference, on the scale of the endpoint; where each unit
  is in one arm, of a unit's value within its arm. A pilot of the other kind can't tell it.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import replace
from typing import Literal

import msgspec

from fairtrial.analysis.correlation import icc_anova
from fairtrial.analysis.grouping import FloatArray, IntArray
from fairtrial.analysis.simulation import PairModel
from fairtrial.analysis.values import Undetermined
from fairtrial.ledger.errors import RefusedError
from fairtrial.ledger.protocol import Comparison, Endpoint, Protocol
from fairtrial.protocols.assigning import is_assigned
from fairtrial.verdicts.arrays import logged, pair_up
from fairtrial.verdicts.assigned_arrays import middle_of_arms, residuals_of_arms
from fairtrial.verdicts.boundaries import gate_of
from fairtrial.verdicts.evaluate import AnalysisContext, frame_of
from fairtrial.verdicts.frames import Pairs
from fairtrial.verdicts.slot_values import ONE_OR_NONE

__all__ = (
    "SIMULATED_TYPES",
    "Assumed",
    "assumed_by",
    "icc_of",
    "model_of",
    "pilot_assumption",
    "pilot_pairs",
    "spread_in_arms",
    "spread_of",
)


SIMULATED_TYPES = ("binary", "bounded", "continuous", "cost", "win_rate", "all_pass")

_WHERE: Mapping[str, str] = {
    "protocol": "power.assume.discordance",
    "pilot": "the pilot's discordance",
    "file": "the discordance of --assume",
}


class Assumed(msgspec.Struct, frozen=True, kw_only=True):
    """What outcomes are drawn from.

    Attributes:
        discordance: share of pairs that differ; None where outcomes aren't yes or no, or units
            are in one arm each.
        sd: of the paired difference, or of a unit's value within its one arm.
        icc: intra-cluster correlation of the difference.
        missing: share of pairs lost.
        base: see `PairModel`; None: half, or a level at which nothing is negative.
        source: the protocol, a pilot, or a file of assumptions.
        units: pairs of the pilot.
    """

    discordance: float | None
    sd: float | None
    icc: float
    missing: float
    base: float | None = None
    source: Literal["protocol", "pilot", "file"]
    units: int | None = None


def assumed_by(protocol: Protocol) -> Assumed | None:
    """Returns what the protocol assumes; None where it doesn't say enough."""
    assume = protocol.power.assume
    icc = protocol.looks.icc if assume.icc is None else assume.icc
    if icc is None and protocol.units.cluster is None:
        icc = 0.0
    if icc is None or (assume.discordance is None and assume.sd is None):
        return None
    return Assumed(
        discordance=assume.discordance,
        sd=assume.sd,
        icc=icc,
        missing=assume.missing or 0.0,
        source="protocol",
    )


def pilot_assumption(
    protocol: Protocol, pilot: AnalysisContext, comparison: Comparison | None = None
) -> Assumed:
    """Returns what a pilot shows of a comparison's first primary endpoint.

    Args:
        protocol: the plan that is simulated; its endpoint says what is read.
        pilot: outcomes of the pilot, with its own plan; its arms have the same names.
        comparison: of the plan; None for the gate comparison.

    Raises:
        RefusedError: The pilot lacks an arm, or has fewer than two pairs.
    """
    endpoint = next(each for each in protocol.endpoints if each.role == "primary")
    pairs = pilot_pairs(protocol, pilot, comparison or gate_of(protocol), endpoint)
    if pairs.treated is not None:
        return _of_arms(pairs)
    differences = pairs.completions[0].differences
    n = len(differences)
    control = pairs.completions[0].control
    is_binary = endpoint.type in ONE_OR_NONE
    by_share = is_binary or endpoint.type == "win_rate"
    return Assumed(
        discordance=float((differences != 0.0).sum()) / n if by_share else None,
        sd=None if by_share else spread_of(differences),
        icc=icc_of(differences, pairs.clusters),
        missing=1.0 - n / pairs.planned,
        base=_base(control.tolist(), differences.tolist(), is_binary=is_binary),
        source="pilot",
        units=n,
    )


def pilot_pairs(
    protocol: Protocol, pilot: AnalysisContext, comparison: Comparison, endpoint: Endpoint
) -> Pairs:
    """Returns the pairs of a pilot under the plan's missing rules, logged where its scale is.

    Raises:
        RefusedError: The pilot lacks an arm, or has fewer than two pairs.
    """
    lacking = {comparison.control, comparison.treatment} - set(pilot.plan.arms)
    if lacking:
        raise RefusedError(
            "the pilot has other arms",
            where=pilot.protocol.id,
            expected=f"arms {comparison.control} and {comparison.treatment}",
            found=", ".join(pilot.plan.arms),
            todo=f"state comparisons.{comparison.name} in a file for --assume",
        )
    _check_kind(protocol, pilot.protocol)
    frame = replace(frame_of(pilot), protocol=_with_endpoint(pilot.protocol, protocol))
    pairs = pair_up(frame, comparison, endpoint, last=pilot.plan.slot_count)
    scaled = logged(pairs) if endpoint.scale == "log" else pairs
    if isinstance(scaled, Undetermined) or len(scaled.units) < 2 + is_assigned(protocol):
        raise RefusedError(
            "the pilot can't say how differences spread",
            where=f"{pilot.protocol.id}: {endpoint.name}",
            expected="at least two complete pairs",
            found=str(len(pairs.units)),
        )
    return scaled


def spread_of(values: FloatArray) -> float:
    """Returns the standard deviation of numbers, with one degree of freedom for their mean."""
    mean = math.fsum(values.tolist()) / len(values)
    return math.sqrt(math.fsum(((values - mean) ** 2).tolist()) / (len(values) - 1))


def icc_of(values: FloatArray, clusters: IntArray) -> float:
    """Returns the correlation in clusters that few units show, 0 to 0.99; 0 where none can be."""
    found = icc_anova(values, clusters)
    return 0.0 if isinstance(found, Undetermined) else min(max(found.icc, 0.0), 0.99)


def _check_kind(protocol: Protocol, pilot: Protocol) -> None:
    if is_assigned(protocol) is not is_assigned(pilot):
        raise RefusedError(
            "the pilot's units meet other arms than the plan's",
            where=f"{pilot.id}: design.pairing",
            expected=protocol.design.pairing,
            found=pilot.design.pairing,
            todo="state power.assume, or use a pilot of the same kind",
        )


def _of_arms(pairs: Pairs) -> Assumed:
    """Returns what units in one arm each show: the spread around the mean of their arm."""
    rest = residuals_of_arms(pairs)
    n = len(rest)
    return Assumed(
        discordance=None,
        sd=spread_in_arms(rest),
        icc=icc_of(rest, pairs.clusters),
        missing=1.0 - n / pairs.planned,
        base=middle_of_arms(pairs),
        source="pilot",
        units=n,
    )


def spread_in_arms(residuals: FloatArray) -> float:
    """Returns the standard deviation of values around the mean of their arm, of which are two."""
    return math.sqrt(math.fsum((residuals * residuals).tolist()) / (len(residuals) - 2))


def model_of(protocol: Protocol, endpoint: Endpoint, assumed: Assumed, effect: float) -> PairModel:
    """Returns the model of one endpoint at a true difference.

    Raises:
        RefusedError: The endpoint's type isn't simulated, or the effect is larger than the
        discordance.
    """
    if endpoint.type not in SIMULATED_TYPES:
        raise RefusedError(
            "this type of endpoint is not simulated",
            where=f"endpoints.{endpoint.name}.type",
            expected=", ".join(SIMULATED_TYPES),
            found=endpoint.type,
        )
    if is_assigned(protocol):
        return _model_of_arms(endpoint, assumed, effect)
    if endpoint.type == "win_rate":
        return _model_of_wins(endpoint, assumed, effect)
    discordance = assumed.discordance if endpoint.type in ONE_OR_NONE else None
    if endpoint.type in ONE_OR_NONE and discordance is None:
        # Of a difference of -1, 0 or 1 the spread and the mean give the share that differs.
        discordance = min(1.0, (assumed.sd or 0.0) ** 2 + effect**2)
    if discordance is not None:
        _check_discordance(discordance, abs(effect), assumed)
    sd = assumed.sd
    if sd is None:
        sd = math.sqrt(max((assumed.discordance or 0.0) - effect**2, 0.0))
    return PairModel(
        effect=effect,
        sd=sd,
        discordance=discordance,
        icc=min(assumed.icc, 0.999),
        missing=assumed.missing,
        base=_middle(endpoint, assumed, effect, sd),
        bounds=endpoint.bounds,
        is_log=endpoint.scale == "log",
    )


def _check_discordance(discordance: float, least: float, assumed: Assumed) -> None:
    if discordance < least:
        raise RefusedError(
            "the true difference is larger than the share of pairs that differ",
            where=_WHERE[assumed.source],
            expected=f"at least {least:g}: a true difference of that size is simulated",
            found=f"{discordance:g}",
            todo=(
                "assume a larger discordance; differences are simulated at the effect and at the"
                " border where a claim is an error, which is the margin"
            ),
        )


def _model_of_wins(endpoint: Endpoint, assumed: Assumed, effect: float) -> PairModel:
    """Returns the model of a win rate: values 0 and 1, of which the better one wins."""
    discordance = assumed.discordance
    if discordance is None:
        discordance = min(1.0, 4.0 * ((assumed.sd or 0.0) ** 2 + effect**2))
    _check_discordance(discordance, 2.0 * abs(effect), assumed)
    return PairModel(
        effect=2.0 * effect if endpoint.better == "higher" else -2.0 * effect,
        sd=0.0,
        discordance=discordance,
        icc=min(assumed.icc, 0.999),
        missing=assumed.missing,
    )


def _model_of_arms(endpoint: Endpoint, assumed: Assumed, effect: float) -> PairModel:
    """Returns the model of units in one arm each; a rate follows from the spread of yes or no."""
    sd, is_binary = assumed.sd or 0.0, endpoint.type in ONE_OR_NONE
    base = _middle(endpoint, assumed, effect, sd)
    if is_binary and assumed.base is None:
        base = (1.0 - math.sqrt(max(1.0 - 4.0 * sd * sd, 0.0))) / 2.0
    if is_binary and not abs(effect) / 2.0 <= base <= 1.0 - abs(effect) / 2.0:
        raise RefusedError(
            "the true difference is larger than the arms' rates allow",
            where="power.assume.sd",
            expected=f"a rate between both arms of {abs(effect) / 2.0:g} or more from 0 and 1",
            found=f"{base:g}, from sd {sd:g}",
        )
    return PairModel(
        effect=effect,
        sd=sd,
        icc=min(assumed.icc, 0.999),
        missing=assumed.missing,
        base=base,
        bounds=endpoint.bounds,
        is_log=endpoint.scale == "log",
        assigned=True,
        is_yes_or_no=is_binary,
    )


def _middle(endpoint: Endpoint, assumed: Assumed, effect: float, sd: float) -> float:
    if assumed.base is not None:
        return assumed.base
    if endpoint.type in ONE_OR_NONE:
        return 0.5
    if endpoint.bounds is not None:
        return (endpoint.bounds[0] + endpoint.bounds[1]) / 2.0
    # High enough that no value is negative: a claim on the log scale needs that.
    return 1.0 if endpoint.scale == "log" else 10.0 * (sd + abs(effect)) or 1.0


def _base(control: list[float], differences: list[float], *, is_binary: bool) -> float:
    if is_binary:
        equal = [a for a, d in zip(control, differences, strict=True) if d == 0.0]
        return sum(equal) / len(equal) if equal else 0.5
    middle = [a + d / 2.0 for a, d in zip(control, differences, strict=True)]
    return math.fsum(middle) / len(middle)


def _with_endpoint(pilot: Protocol, protocol: Protocol) -> Protocol:
    """Returns the pilot's protocol with the missing rules of the plan that is simulated."""
    return msgspec.structs.replace(pilot, missing=protocol.missing)
