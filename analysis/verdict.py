"""From an interval to a verdict.

Job: apply the registered rule to the deciding interval, check the guards against too little
evidence, combine several primaries with a harm gate, and demand a saving. Leaves the interval to
`deciding` and the sentence to `reasons`.

Rules:
    - Everything is turned first so that higher is better; the rule knows no other direction.
    - `reject` means shown worse; "not shown better" is `inconclusive`.
    - A threshold is compared with a limit of the interval, never with the estimate.
    - The hull decides. Where the parts of the hull would have said different things, the reason
      is `methods_disagree`.
    - Guards come before any claim, in the order few_clusters, low_df, few_discordant_clusters,
      zero_variance.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, Literal

from .values import Better

__all__ = (
    "Combination",
    "Finding",
    "Guards",
    "ReasonCode",
    "Rule",
    "Verdict",
    "VerdictWord",
    "combine",
    "decide",
    "guard_findings",
    "harm_verdict",
    "with_saving",
)

VerdictWord = Literal["adopt", "reject", "equivalent", "inconclusive"]
Rule = Literal["superiority", "non_inferiority", "equivalence"]
Combination = Literal["all", "any", "ordered"]
Finding = Literal["few_clusters", "low_df", "few_discordant_clusters", "zero_variance"]
ReasonCode = Literal[
    "interval_favours",
    "interval_against",
    "interval_spans",
    "harm",
    "within_margin",
    "worse_inside_margin",
    "no_saving",
    "few_clusters",
    "low_df",
    "few_discordant_clusters",
    "zero_variance",
    "missing_over_limit",
    "missing_refused",
    "methods_disagree",
    "diagnostic",
    "invalidated",
    "under_run",
    "stopped_by_person",
    "bound_reached",
    "bound_below",
    "no_flags",
]

Limits = tuple[float, float]


@dataclass(frozen=True, slots=True)
class Verdict:
    """Holds a verdict and why.

    Attributes:
        verdict: adopt, reject, equivalent or inconclusive.
        reason_code: one of `ReasonCode`.
    """

    verdict: VerdictWord
    reason_code: ReasonCode


@dataclass(frozen=True, kw_only=True, slots=True)
class Guards:
    """Holds the least evidence that a verdict needs; a protocol may only raise it."""

    min_clusters: int = 6
    min_df: float = 4.0
    min_discordant_clusters: int = 8


_STRENGTH: Final[tuple[VerdictWord, ...]] = ("reject", "inconclusive", "equivalent", "adopt")
_NOMINAL_P_MIN: Final = 1e-12
_FLOORS: Final = Guards()
_SPANS: Final = Verdict("inconclusive", "interval_spans")


def decide(
    rule: Rule | Sequence[Rule],
    margin: float,
    lower: float,
    upper: float,
    better: Better,
    *,
    parts: Sequence[Limits] = (),
    worse_inside_margin: Literal["inconclusive", "adopt"] = "inconclusive",
    sides: int = 2,
) -> Verdict:
    """Applies a rule to the deciding interval of treatment minus control.

    Args:
        rule: a rule, or several: the first that concludes. In a list `margin` belongs to the
            rules other than superiority, whose margin is then 0.
        margin: m >= 0 in the endpoint's units.
        lower: lower limit of the interval.
        upper: upper limit of the interval.
        better: direction in which the endpoint improves.
        parts: limits of each deciding method, to tell disagreement from an interval that spans.
        worse_inside_margin: what non-inferiority says when treatment is shown worse than
            control and yet within the margin.
        sides: with 1 only the favourable claim can be made; `reject` becomes inconclusive.

    Returns:
        superiority: adopt if L > m, reject if U < -m. non_inferiority: adopt if L > -m and not
        U < 0, reject if U < -m. equivalence: adopt if L > m, equivalent if -m < L and U < m,
        reject if U < -m. Else inconclusive.
    """
    _check_decide(rule, margin, lower, upper)
    verdict = _first(rule, margin, _turned(lower, upper, better), worse_inside_margin, sides)
    if verdict != _SPANS or len(parts) < 2:
        return verdict
    alone = {
        _first(rule, margin, _turned(low, high, better), worse_inside_margin, sides)
        for low, high in parts
    }
    return verdict if alone == {_SPANS} else Verdict("inconclusive", "methods_disagree")


def guard_findings(
    *,
    clusters: int,
    df: float | None,
    discordant_clusters: int | None,
    zero_variance: bool = False,
    nominal_p: float = 0.05,
    least_p: float | None = None,
    guards: Guards = _FLOORS,
) -> tuple[Finding, ...]:
    """Lists why the evidence is too little for any verdict, the reason to be given first.

    Args:
        clusters: clusters with a complete pair.
        df: degrees of freedom of the standard error; None where no t is used.
        discordant_clusters: clusters with a non-zero difference; None where the guard does not
            apply (continuous endpoints), or is not known yet (by design).
        zero_variance: the clusters' means are all equal.
        nominal_p: two-sided p that the look allows: no randomisation test over G clusters can
            reach less than 2^(1-G), and below 1e-12 a boundary has underflowed.
        least_p: what a randomisation test could reach, where that isn't 2^(1-G).
        guards: the registered floors.
    """
    least = 2.0 ** (1 - max(clusters, 1)) if least_p is None else least_p
    reachable = max(least, _NOMINAL_P_MIN)
    short = clusters < guards.min_clusters or reachable > nominal_p
    checks: tuple[tuple[Finding, bool], ...] = (
        ("few_clusters", short),
        ("low_df", df is not None and df < guards.min_df),
        (
            "few_discordant_clusters",
            discordant_clusters is not None
            and discordant_clusters < guards.min_discordant_clusters,
        ),
        ("zero_variance", zero_variance),
    )
    return tuple(code for code, holds in checks if holds)


def combine(
    verdicts: Sequence[Verdict], how: Combination, *, harm: Sequence[Verdict] = ()
) -> Verdict:
    """Combines the primaries of one comparison with its harm endpoints.

    Args:
        verdicts: one per primary endpoint, in the registered order, at least one.
        how: `all` must win; `any` may win; `ordered` walks until the first that is not adopted.
        harm: verdicts of `harm_verdict`.

    Returns:
        Harm shown, first; then a harm endpoint whose own guards fail, since it leaves every claim
        open. `all` and `any` reject when any primary is rejected; `all` else gives the weakest
        verdict, `any` adopts when one primary does. `ordered` walks until the first primary that
        is not adopted: the claims before it stand, and a reject that the walk reaches rejects.
    """
    if not verdicts:
        raise ValueError("verdicts: expected at least one primary")
    for verdict in harm:
        if verdict.verdict == "reject":
            return verdict
    unclear = next((verdict for verdict in harm if verdict != _SPANS), None)
    if unclear is not None:
        return unclear
    if how == "ordered":
        return _walk(verdicts)
    weakest = min(verdicts, key=lambda verdict: _STRENGTH.index(verdict.verdict))
    if how == "all" or weakest.verdict == "reject":
        return weakest
    return next((verdict for verdict in verdicts if verdict.verdict == "adopt"), weakest)


def harm_verdict(margin: float, lower: float, upper: float, better: Better) -> Verdict:
    """Returns reject/harm when the interval lies wholly beyond `margin` on the bad side."""
    _check_decide("superiority", margin, lower, upper)
    _, high = _turned(lower, upper, better)
    return Verdict("reject", "harm") if high < -margin else _SPANS


def with_saving(verdict: Verdict, *holds: bool) -> Verdict:
    """Demands the registered saving, on each scale given, of an adopt or equivalent verdict."""
    if verdict.verdict in ("adopt", "equivalent") and not all(holds):
        return Verdict("inconclusive", "no_saving")
    return verdict


def _first(
    rule: Rule | Sequence[Rule], margin: float, limits: Limits, inside: str, sides: int
) -> Verdict:
    rules: Sequence[Rule] = (rule,) if isinstance(rule, str) else rule
    verdict = _SPANS
    for each in rules:
        own = 0.0 if each == "superiority" and len(rules) > 1 else margin
        verdict = _apply(each, own, limits, inside)
        if verdict.verdict != "inconclusive":
            break
    return _SPANS if sides == 1 and verdict.verdict == "reject" else verdict


def _apply(rule: Rule, margin: float, limits: Limits, inside: str) -> Verdict:
    low, high = limits
    if high < -margin:
        return Verdict("reject", "interval_against")
    if rule == "non_inferiority":
        if low <= -margin:
            return _SPANS
        if high < 0.0 and inside == "inconclusive":
            return Verdict("inconclusive", "worse_inside_margin")
        return Verdict("adopt", "interval_favours" if low > 0.0 else "within_margin")
    if low > margin:
        return Verdict("adopt", "interval_favours")
    if rule == "equivalence" and -margin < low and high < margin:
        return Verdict("equivalent", "within_margin")
    return _SPANS


def _turned(lower: float, upper: float, better: Better) -> Limits:
    return (lower, upper) if better == "higher" else (-upper, -lower)


def _walk(verdicts: Sequence[Verdict]) -> Verdict:
    for verdict in verdicts:
        if verdict.verdict == "reject":
            return verdict
        if verdict.verdict != "adopt":
            break
    return verdicts[0]


def _check_decide(rule: Rule | Sequence[Rule], margin: float, lower: float, upper: float) -> None:
    if not lower <= upper:
        raise ValueError(f"lower, upper: expected lower <= upper, found {lower}, {upper}")
    if not margin >= 0.0:
        raise ValueError(f"margin: expected at least 0, found {margin}")
    if not rule:
        raise ValueError("rule: expected at least one rule")
