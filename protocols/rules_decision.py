"""Rules between fields of a threshold-rule experiment (`kind: decision_rule`).

Leaves single fields to `fields.py`, what a rule computes to `analysis/block_rules.py`.

Rules:
- One scoring pass at no cost: recorded, or answered from the cache alone. Arms differ in their rule
  and hold nothing else.
- One primary endpoint decides: the precision of `flagged` against its `target`, higher is better.
  What isn't about flags is the same in every arm, so no endpoint has another value.
- `decision.arm` is the treatment of the comparison that `decision.gate` names.
- The estimand says what the bound weighs: flags, or clusters under learn_then_test.
"""

from __future__ import annotations

from collections.abc import Iterator

from fairtrial.ledger.protocol import Endpoint, Protocol, RecordedDriver, Rule, Scoring, primaries

from .defaults import RULE_PARAMETERS
from .nodes import Reading, nearest

__all__ = ("check_decision_rule",)


def check_decision_rule(p: Protocol, reading: Reading) -> None:
    """Reports every broken rule between fields of a threshold-rule experiment."""
    _check_scoring(p, reading)
    _check_columns_needed(p, reading)
    for name in p.arms:
        _check_arm(p, name, reading)
    for endpoint in p.endpoints:
        _check_endpoint(endpoint, reading)
    _check_primary(p, reading)
    _check_decision(p, reading)
    _check_power(p, reading)


def _check_scoring(p: Protocol, reading: Reading) -> None:
    if p.scoring is None:
        reading.missing("scoring", "one scoring pass with `driver`, `replay_only`, `fold_role`")
        return
    if p.units.fold is None:
        reading.missing("units.fold", "the column of outer folds", "scoring")
    if p.budget.usd != 0:
        found = "none" if p.budget.usd is None else str(p.budget.usd)
        what = "a decision rule is computed at no cost"
        reading.refuse("budget.usd", what, expected="0", found=found, needs=["scoring"])
    if p.budget.arms:
        what = "no arm of a decision rule spends"
        reading.refuse("budget.arms", what, todo="leave it out", needs=["kind"])
    _check_driver(p.scoring, reading)


def _check_driver(scoring: Scoring, reading: Reading) -> None:
    driver, path = scoring.driver, "scoring.driver"
    if isinstance(driver, RecordedDriver):
        for field, why in (("unit", "which names the unit"), ("score", "which the rules compare")):
            if field not in driver.columns:
                reading.refuse(
                    f"{path}.columns",
                    f"the field {field} is not mapped to a column",
                    expected=field,
                    found=", ".join(driver.columns),
                    todo=f"add `{field}: COLUMN`, {why}",
                )
        return
    if not scoring.replay_only:
        reading.refuse(
            "scoring.replay_only",
            "a scoring pass that asks a live driver has a price",
            expected="true, or a recorded driver",
            found="false",
            needs=[path],
        )
    if driver.reserve_usd:
        what = "a pass that only replays reserves nothing"
        found = str(driver.reserve_usd)
        reading.refuse(f"{path}.reserve_usd", what, expected="0 or none", found=found)


def _check_columns_needed(p: Protocol, reading: Reading) -> None:
    if p.units.label is None:
        expected = "the column of labels, 0 or 1, that rules learn from"
        reading.missing("units.label", expected, "kind")
    for path, word in _twin_users(p):
        if p.units.twin is None and word == "twins":
            reading.refuse(
                path,
                "no unit has a twin",
                expected="all, or a column units.twin",
                found="twins",
                needs=["units.twin", "units.label"],
            )
    if p.decision.strata == "each" and p.units.stratum is None:
        expected = "the column of families, each of which is judged"
        reading.missing("units.stratum", expected, "decision.strata")
    populations = p.populations
    if populations is not None and populations.primary in populations.secondary:
        what = "the primary population is also a secondary one"
        todo = "take it out of the secondary ones"
        reading.refuse("populations.secondary", what, found=populations.primary, todo=todo)


def _twin_users(p: Protocol) -> Iterator[tuple[str, str]]:
    """Yields (path, population) of what may ask for twins."""
    if p.populations is not None:
        yield "populations.primary", p.populations.primary
        for word in p.populations.secondary:
            yield "populations.secondary", word
    for name, arm in p.arms.items():
        if arm.rule is not None and arm.rule.select_on is not None:
            given = p.populations is not None and arm.rule.select_on == p.populations.primary
            # What follows from the primary population is said once, there.
            yield f"arms.{name}.rule.select_on", "all" if given else arm.rule.select_on


def _check_arm(p: Protocol, name: str, reading: Reading) -> None:
    arm, path = p.arms[name], f"arms.{name}"
    if arm.rule is None:
        reading.missing(f"{path}.rule", "a rule", "kind", path)
    else:
        _check_parameters(arm.rule, f"{path}.rule", reading)
    for field in ("driver", "replay_only", "repeats", "limits"):
        if reading.is_given(f"{path}.{field}"):
            reading.refuse(
                f"{path}.{field}",
                f"an arm of a decision rule has no {field} of its own",
                todo="leave it out: the scoring pass has the driver",
                needs=["kind"],
            )


def _check_parameters(rule: Rule, path: str, reading: Reading) -> None:
    takes = RULE_PARAMETERS[rule.name]
    for name in rule.__struct_fields__:
        if name in ("name", *takes) or not reading.is_given(f"{path}.{name}"):
            continue
        near = nearest(name, takes)
        reading.refuse(
            f"{path}.{name}",
            f"rule {rule.name} has no parameter {name}",
            expected=f"one of {', '.join(takes)}",
            found=name,
            todo=f"did you mean {near!r}?" if near else "leave it out",
            needs=[f"{path}.name"],
        )
    for name, below in (("precision", True), ("recall", False)):
        value: float | None = getattr(rule, name)
        given = reading.is_given(f"{path}.{name}")
        if given and value is not None and (value <= 0 or (below and value >= 1)):
            what = "no threshold can reach it" if value > 0 else "every threshold reaches it"
            expected = "above 0 and below 1" if below else "above 0, at most 1"
            reading.refuse(f"{path}.{name}", what, expected=expected, found=f"{value:g}")


def _check_endpoint(endpoint: Endpoint, reading: Reading) -> None:
    path = f"endpoints.{endpoint.name}"
    if endpoint.value != "flagged":
        reading.refuse(
            f"{path}.value",
            "arms of a decision rule differ in what they flag alone",
            expected="flagged",
            found=endpoint.value,
            needs=["kind", f"{path}.type"],
        )
    elif endpoint.type not in ("precision", "binary"):
        reading.refuse(
            f"{path}.type",
            "flags of a decision rule have a precision or a rate",
            expected="precision, or binary for a rate of flags",
            found=endpoint.type,
            needs=["kind"],
        )
    if endpoint.type == "precision" and "label" in endpoint.where:
        what = "the precision of flags of one label is known without them"
        reading.refuse(f"{path}.where.label", what, todo="leave it out", needs=[f"{path}.type"])


def _check_primary(p: Protocol, reading: Reading) -> None:
    first = primaries(p)
    if len(first) > 1:
        what, found = "one endpoint decides on a rule", ", ".join(one.name for one in first)
        reading.refuse("endpoints", what, expected="one primary", found=found, needs=["kind"])
    for endpoint in first:
        path = f"endpoints.{endpoint.name}"
        if endpoint.type != "precision":
            what = "what decides on a rule is the precision of its flags"
            reading.refuse(f"{path}.type", what, expected="precision", found=endpoint.type)
        if endpoint.target is None:
            reading.missing(f"{path}.target", "the precision wanted, inside 0 to 1", path)
        elif not 0.0 < endpoint.target < 1.0:
            what, found = "no bound of a precision lies there", f"{endpoint.target:g}"
            reading.refuse(f"{path}.target", what, expected="above 0, below 1", found=found)
        if endpoint.better != "higher":
            what = "a precision is better when it is higher"
            reading.refuse(f"{path}.better", what, expected="higher", found=endpoint.better)


def _check_decision(p: Protocol, reading: Reading) -> None:
    decision = p.decision
    if decision.rule != ("precision_bound",):
        found = ", ".join(decision.rule)
        what = "a decision rule is judged by precision_bound"
        reading.refuse("decision.rule", what, expected="precision_bound", found=found)
        return
    gate = next((one for one in p.analysis.comparisons if one.name == decision.gate), None)
    if gate is not None and decision.arm in p.arms and decision.arm != gate.treatment:
        reading.refuse(
            "decision.arm",
            "the arm that is judged isn't the treatment of the comparison",
            expected=gate.treatment,
            found=str(decision.arm),
            todo="judge the treatment, or name another control or gate",
            needs=["decision.gate", "control", "analysis.comparisons"],
        )
    by_cluster = decision.bound == "learn_then_test" and p.units.cluster is not None
    wanted = "cluster_weighted" if by_cluster else "unit_weighted"
    if p.units.cluster is not None and p.analysis.estimand != wanted:
        reading.refuse(
            "analysis.estimand",
            f"bound {decision.bound} weighs {'clusters' if by_cluster else 'flags'}",
            expected=wanted,
            found=p.analysis.estimand,
            needs=["decision.bound", "units.cluster"],
        )


def _check_power(p: Protocol, reading: Reading) -> None:
    if p.power.effect is not None:
        reading.refuse(
            "power.effect",
            "a precision bound has no difference to detect",
            expected="none, with power.accept.not_assessed",
            found=f"{p.power.effect:g}",
            needs=["kind", "decision.rule"],
        )
