"""The defaults of version 1 that follow from other fields. Pure.

Leaves plain defaults to `ledger/sections.py`. What is refused stands in `rules.py`.

Rules:
- Only a field that the author left out gets a value here.
- `units.format` by the file's suffix; an arm's label is its name; `control` is A where an arm is
  named A; one comparison for each other arm against control, in the order of their names, equal
  shares of alpha; `gate` is the only comparison.
- `reducer` is first where every arm has one replicate; `scale` is both for cost.
- Of a decision rule, `populations` is all; of its arms' rules, `precision` is the first primary's
  target, `select_on` the primary population, `bound` clopper_pearson, `min_flagged` 1, `recall`
  0.98, `family_floor` 20, `normalise` platt, each where the rule takes it.
- `margin` is 0 for superiority; `bound` is cluster_aware for precision_bound.
- An explicit boundary replaces spending; looks at any time replace `at`, spending and crossing.
- `blinding.looks` is continue_or_stop where arms are hidden.
"""

from __future__ import annotations

from collections.abc import Mapping

from msgspec.structs import replace

from fairtrial.ledger.protocol import (
    Comparison,
    Endpoint,
    Populations,
    Protocol,
    Rule,
    primaries,
)

from .nodes import Reading

__all__ = ("ALL_REPLICATES", "RULE_PARAMETERS", "with_defaults")

# What each threshold rule takes beside its name.
RULE_PARAMETERS: Mapping[str, tuple[str, ...]] = {
    "calibrated_block": ("precision", "normalise", "select_on"),
    "precision_bound_block": ("precision", "bound", "min_flagged", "select_on"),
    "pooled_block_gate": ("precision", "recall", "family_floor", "normalise", "select_on"),
}

# Types that take all replicates of a unit themselves and so have no reducer.
ALL_REPLICATES = ("agreement", "pass_at_k", "pass_hat_k", "pass_hat_k_plugin", "all_pass")

_JSONL = (".jsonl", ".ndjson")


def with_defaults(protocol: Protocol, reading: Reading) -> Protocol:
    """Returns the protocol with every derived default filled in."""
    for step in (_units, _arms, _endpoints, _analysis, _looks, _decision, _blinding, _rules):
        protocol = step(protocol, reading)
    return protocol


def _units(p: Protocol, reading: Reading) -> Protocol:
    if reading.is_given("units.format"):
        return p
    return replace(
        p,
        units=replace(p.units, format="jsonl" if p.units.file.endswith(_JSONL) else "csv"),
    )


def _arms(p: Protocol, reading: Reading) -> Protocol:
    arms = {
        name: arm if reading.is_given(f"arms.{name}.label") else replace(arm, label=name)
        for name, arm in p.arms.items()
    }
    control = "A" if not reading.is_given("control") and "A" in arms else p.control
    return replace(p, arms=arms, control=control)


def _endpoints(p: Protocol, reading: Reading) -> Protocol:
    single = all(arm.repeats == 1 for arm in p.arms.values())
    return replace(p, endpoints=tuple(_endpoint(item, single, reading) for item in p.endpoints))


def _endpoint(endpoint: Endpoint, single: bool, reading: Reading) -> Endpoint:
    if endpoint.reducer is None and single and endpoint.type not in ALL_REPLICATES:
        endpoint = replace(endpoint, reducer="first")
    if endpoint.type == "cost" and not reading.is_given(f"endpoints.{endpoint.name}.scale"):
        endpoint = replace(endpoint, scale="both")
    return endpoint


def _analysis(p: Protocol, reading: Reading) -> Protocol:
    if reading.is_given("analysis.comparisons"):
        return p
    others = [name for name in sorted(p.arms) if name != p.control]
    comparisons = tuple(
        Comparison(name=name, treatment=name, control=p.control, share=1.0 / len(others))
        for name in others
    )
    return replace(p, analysis=replace(p.analysis, comparisons=comparisons))


def _looks(p: Protocol, _: Reading) -> Protocol:
    looks = p.looks
    if looks.kind == "anytime":
        least = looks.min_clusters
        if least is None:
            least = 100 if looks.method == "asymptotic" else 10
        looks = replace(looks, at=(), spending=None, min_clusters=least)
    elif looks.boundary is not None:
        looks = replace(looks, spending=None)
    return replace(p, looks=looks)


def _decision(p: Protocol, reading: Reading) -> Protocol:
    decision, comparisons = p.decision, p.analysis.comparisons
    if decision.margin is None and decision.rule == ("superiority",):
        decision = replace(decision, margin=0.0)
    if decision.bound is None and "precision_bound" in decision.rule:
        decision = replace(decision, bound="cluster_aware")
    if not reading.is_given("decision.gate") and len(comparisons) == 1:
        decision = replace(decision, gate=comparisons[0].name)
    return replace(p, decision=decision)


def _blinding(p: Protocol, reading: Reading) -> Protocol:
    if p.blinding.arms and not reading.is_given("blinding.looks"):
        return replace(p, blinding=replace(p.blinding, looks="continue_or_stop"))
    return p


def _rules(p: Protocol, _: Reading) -> Protocol:
    if p.kind != "decision_rule":
        return p
    populations = p.populations or Populations(primary="all")
    targets = [endpoint.target for endpoint in primaries(p) if endpoint.target is not None]
    common: dict[str, object] = {
        "precision": targets[0] if targets else None,
        "recall": 0.98,
        "bound": "clopper_pearson",
        "min_flagged": 1,
        "family_floor": 20,
        "normalise": "platt",
        "select_on": populations.primary,
    }
    arms = {
        name: arm if arm.rule is None else replace(arm, rule=_filled(arm.rule, common))
        for name, arm in p.arms.items()
    }
    return replace(p, arms=arms, populations=populations)


def _filled(rule: Rule, common: Mapping[str, object]) -> Rule:
    """Returns a rule with the parameters that it takes and the author left out."""
    left = {
        name: common[name] for name in RULE_PARAMETERS[rule.name] if getattr(rule, name) is None
    }
    return replace(rule, **left)
