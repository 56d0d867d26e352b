"""What a frozen plan can find: power, the smallest detectable difference, and its findings.

Job: from cluster sizes and assumptions about the paired difference, the power of the registered
rule at its last look by formula, and the findings that `freeze` refuses. Leaves textbook sample
sizes to `samplesize`, and the simulation of a whole protocol to the engine.

Rules:
    - CR2-t with the Satterthwaite df of the actual cluster sizes; the guards are ignored here
      and reported as `no_verdict_possible`, since at few clusters they, not variance, decide.
    - From a discordance the variance of a difference is taken as the discordance itself, its
      largest value; only the "impossible" check takes the smallest, effect (1 - effect).
    - Where each unit is in one arm the assumption is of a unit's value within an arm, alike in
      both; for the "impossible" check all of the least variance, effect (1 - effect), is in the
      arm whose mean is surer by the estimand. Without assumptions there is no table, since no
      discordance exists.
    - Nothing is assumed silently: without assumptions the answer is a table.

Source:
    Noncentral t power of a clustered mean (Donner and Klar 2000), with Satterthwaite df.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Final, Literal

import numpy as np

from .assigned import ArmCounts, assigned_weights, least_p
from .assigned_deciding import deciding_df
from .distributions import (
    chi2_quantile,
    noncentral_t_cdf,
    normal_cdf,
    t_upper_quantile,
)
from .grouping import FloatArray, IntArray, exact_sum
from .paired import satterthwaite_df
from .values import Estimand, Undetermined
from .verdict import Finding, Guards, Rule, guard_findings

__all__ = (
    "Assumption",
    "Plan",
    "PowerFinding",
    "PowerReport",
    "PowerRow",
    "design_guards",
    "mde",
    "power",
    "power_report",
    "power_table",
)

PowerFinding = Literal["no_verdict_possible", "impossible", "underpowered", "not_assessed"]

_DISCORDANCES: Final = (0.1, 0.2, 0.4)
_ICCS: Final = (0.0, 0.05, 0.2)
_BISECTIONS: Final = 60
_FLOORS: Final = Guards()
_NOT_STATED: Final = Undetermined("no effect or no assumption was registered")


@dataclass(frozen=True, kw_only=True, slots=True)
class Assumption:
    """Holds what is assumed of the paired difference, or of a unit's value within its one arm.

    Attributes:
        sd: standard deviation of one unit's difference or value, > 0.
        icc: its intra-cluster correlation, in [0, 1].
        missing: share of units that will be lost, in [0, 1).
    """

    sd: float
    icc: float = 0.0
    missing: float = 0.0

    @classmethod
    def of_discordance(
        cls, discordance: float, *, icc: float = 0.0, missing: float = 0.0
    ) -> Assumption:
        """Builds the assumption of a binary endpoint whose arms differ in this share of units."""
        if not 0.0 < discordance <= 1.0:
            raise ValueError(f"discordance: expected a share in (0, 1], found {discordance}")
        return cls(sd=math.sqrt(discordance), icc=icc, missing=missing)


@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class Plan:
    """Holds what one look is made of.

    Attributes:
        sizes: planned units per cluster, shape (G,), all above 0.
        counts: the same by arm, where each unit is in one.
        estimand: weight of a unit or of a cluster.
        nominal_p: two-sided p that the look allows.
        rule: the registered rule; `margin` its margin, >= 0.
        target: power wanted, in (nominal_p, 1).
        binary: the difference of one unit is -1, 0 or 1.
        discordance_guard: the endpoint needs clusters in which the arms differ.
        guards: the registered floors.
    """

    sizes: FloatArray | IntArray
    counts: ArmCounts | None = None
    estimand: Estimand = "unit_weighted"
    nominal_p: float = 0.05
    rule: Rule = "superiority"
    margin: float = 0.0
    target: float = 0.8
    binary: bool = True
    discordance_guard: bool = True
    guards: Guards = _FLOORS


@dataclass(frozen=True, kw_only=True, slots=True)
class PowerRow:
    """Holds one cell of the table that is printed when nothing is assumed."""

    discordance: float
    icc: float
    power: float | Undetermined
    mde: float | Undetermined


@dataclass(frozen=True, kw_only=True, slots=True)
class PowerReport:
    """Holds what is known about a plan before it runs.

    Attributes:
        findings: what must be accepted with a reason before the plan may be frozen
            (`not_assessed` refuses nothing by itself).
        guards: why the last look can reach no verdict by design, empty when it can.
        power: probability that the rule concludes as intended, under the assumption.
        mde: smallest difference found with the target power, under the assumption.
        best_power: power under the most favourable assumption.
        table: power over discordance and icc, when nothing is assumed.
    """

    findings: tuple[PowerFinding, ...]
    guards: tuple[Finding, ...]
    power: float | Undetermined
    mde: float | Undetermined
    best_power: float | Undetermined
    table: tuple[PowerRow, ...]


def power(effect: float, plan: Plan, assume: Assumption) -> float | Undetermined:
    """Computes the probability that the plan's rule concludes as intended.

    Args:
        effect: true difference, positive when treatment is better.
        plan: the look; superiority counts L > margin, non_inferiority L > -margin, equivalence
            both -margin < L and U < margin.
        assume: spread of the difference.
    """
    error, df = _check_power(plan, assume)
    if isinstance(df, Undetermined):
        return df
    critical = t_upper_quantile(plan.nominal_p / 2.0, df)
    if plan.rule == "equivalence":
        return _equivalence_power(effect, plan.margin, error, df, critical)
    shift = effect + (plan.margin if plan.rule == "non_inferiority" else -plan.margin)
    return noncentral_t_cdf(-critical, df, -shift / error)


def mde(plan: Plan, assume: Assumption) -> float | Undetermined:
    """Computes the smallest true difference that superiority finds with the target power.

    Returns:
        The difference, the margin of a superiority rule included; `Undetermined` with a single
        cluster, or when not even the largest difference of a binary endpoint, 1, is enough.
    """
    error, df = _check_power(plan, assume)
    if isinstance(df, Undetermined):
        return df
    critical = t_upper_quantile(plan.nominal_p / 2.0, df)
    low, high = 0.0, 1.0
    while noncentral_t_cdf(-critical, df, -high) < plan.target:
        low, high = high, 2.0 * high
    for _ in range(_BISECTIONS):
        middle = 0.5 * (low + high)
        below = noncentral_t_cdf(-critical, df, -middle) < plan.target
        low, high = (middle, high) if below else (low, middle)
    smallest = high * error + (plan.margin if plan.rule == "superiority" else 0.0)
    if plan.binary and smallest > 1.0:
        return Undetermined("even a difference of 100 points would be missed too often")
    return smallest


def design_guards(plan: Plan) -> tuple[Finding, ...]:
    """Lists why a look over these clusters can reach no verdict, whatever the outcomes are."""
    count = len(plan.sizes)
    df = _df(plan)
    return guard_findings(
        clusters=count,
        df=None if isinstance(df, Undetermined) else df,
        discordant_clusters=count if plan.discordance_guard else None,
        nominal_p=plan.nominal_p,
        least_p=None if plan.counts is None else least_p(plan.counts),
        guards=plan.guards,
    )


def power_table(effect: float | None, plan: Plan) -> tuple[PowerRow, ...]:
    """Computes power (where an effect is stated) and smallest difference, assuming nothing."""
    size = abs(effect or 0.0)
    shares = sorted({size, *_DISCORDANCES} - {0.0})
    return tuple(
        PowerRow(
            discordance=share,
            icc=icc,
            power=_NOT_STATED
            if effect is None
            else power(effect, plan, Assumption.of_discordance(share, icc=icc)),
            mde=mde(plan, Assumption.of_discordance(share, icc=icc)),
        )
        for share in shares
        if size <= share <= 1.0
        for icc in _ICCS
    )


def power_report(effect: float | None, plan: Plan, assume: Assumption | None) -> PowerReport:
    """Computes the findings of a plan at its last look.

    Args:
        effect: true difference at which the rule should conclude, or None when not stated.
        plan: the last look.
        assume: the registered assumption, or None.
    """
    reasons = design_guards(plan)
    tabled = plan.binary and plan.counts is None
    found: float | Undetermined = _NOT_STATED
    best: float | Undetermined = _NOT_STATED
    smallest = _NOT_STATED if assume is None else mde(plan, assume)
    if effect is not None and assume is not None:
        found = power(effect, plan, assume)
    if effect is not None and plan.binary:
        best = _best_power(effect, plan)
    checks: tuple[tuple[PowerFinding, bool], ...] = (
        ("no_verdict_possible", bool(reasons)),
        ("impossible", isinstance(best, float) and best < plan.target),
        ("underpowered", isinstance(found, float) and found < plan.target),
        ("not_assessed", effect is None or assume is None),
    )
    return PowerReport(
        findings=tuple(name for name, holds in checks if holds),
        guards=reasons,
        power=found,
        mde=smallest,
        best_power=best,
        table=power_table(effect, plan) if tabled and assume is None else (),
    )


def _best_power(effect: float, plan: Plan) -> float | Undetermined:
    size = abs(effect)
    if size == 0.0 or size >= 1.0:
        return 1.0
    variance = size * (1.0 - size)
    if plan.counts is not None:
        parts = [_arm_part(side, plan) for side in (plan.counts.control, plan.counts.treatment)]
        variance *= min(parts) / sum(parts)
    return power(effect, plan, Assumption(sd=math.sqrt(variance)))


def _arm_part(units: FloatArray, plan: Plan) -> float:
    """Returns an arm's part in the variance of the difference, of uncorrelated units."""
    held = units[units > 0.0]
    if not held.size:
        return 1.0
    if plan.estimand == "unit_weighted":
        return 1.0 / exact_sum(held)
    return exact_sum(1.0 / held) / held.size**2


def _equivalence_power(
    effect: float, margin: float, error: float, df: float, critical: float
) -> float:
    # Given the estimated error s, both limits lie inside for |estimate| < margin - critical s.
    points, weights = np.polynomial.legendre.leggauss(64)
    chances = []
    for u, weight in zip((0.5 + 0.5 * points).tolist(), weights.tolist(), strict=True):
        room = margin - critical * error * math.sqrt(chi2_quantile(u, df) / df)
        inside = normal_cdf((room - effect) / error) - normal_cdf((-room - effect) / error)
        chances.append(0.5 * weight * max(0.0, inside))
    return min(1.0, math.fsum(chances))


def _df(plan: Plan) -> float | Undetermined:
    if plan.counts is not None:
        return deciding_df(plan.counts, estimand=plan.estimand)
    df = satterthwaite_df(plan.sizes)
    if isinstance(df, Undetermined) or plan.estimand == "unit_weighted":
        return df
    return float(len(plan.sizes) - 1)


def _check_power(plan: Plan, assume: Assumption) -> tuple[float, float | Undetermined]:
    if not (assume.sd > 0.0 and 0.0 <= assume.icc <= 1.0 and 0.0 <= assume.missing < 1.0):
        raise ValueError(f"assume: expected sd > 0, icc in [0, 1], missing in [0, 1): {assume}")
    if not 0.0 < plan.nominal_p < plan.target < 1.0:
        raise ValueError(
            "nominal_p, target: expected 0 < nominal_p < target < 1, "
            f"found {plan.nominal_p}, {plan.target}"
        )
    if plan.counts is not None:
        return assume.sd * math.sqrt(_assigned_share(plan.counts, plan, assume)), _df(plan)
    kept = np.maximum(np.asarray(plan.sizes, dtype=np.float64) * (1.0 - assume.missing), 1.0)
    inflated = 1.0 + (kept - 1.0) * assume.icc
    if plan.estimand == "unit_weighted":
        share = exact_sum(kept * inflated) / exact_sum(kept) ** 2
    else:
        share = exact_sum(inflated / kept) / kept.size**2
    return assume.sd * math.sqrt(share), _df(plan)


def _assigned_share(counts: ArmCounts, plan: Plan, assume: Assumption) -> float:
    """Returns the variance of the difference over that of a unit; 1 where it doesn't exist."""
    if min(exact_sum(counts.control), exact_sum(counts.treatment)) == 0.0:
        return 1.0
    if plan.estimand == "cluster_weighted" and counts.is_mixed:
        return 1.0
    kept = 1.0 - assume.missing
    left = ArmCounts(control=counts.control * kept, treatment=counts.treatment * kept)
    return exact_sum(assigned_weights(left, icc=assume.icc, estimand=plan.estimand))
