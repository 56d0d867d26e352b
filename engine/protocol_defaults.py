"""The defaults of version 1 that follow from other fields. Pure.

Leaves plain defaults to `ledger/sections.py`. What is refused stands in `protocol_rules.py`.

Rules:
- Only a field that the author left out gets a value here.
- `units.format` by the file's suffix; an arm's label is its name; `control` is A where an arm is
  named A; one comparison for each other arm against control, in the order of their names, equal
  shares of alpha; `gate` is the only comparison.
- `reducer` is first where every arm has one replicate; `scale` is both for cost.
- `margin` is 0 for superiority; `bound` is cluster_aware for precision_bound.
- An explicit boundary replaces spending; looks at any time replace `at`, spending and crossing.
- `blinding.looks` is continue_or_stop where arms are hidden.
"""

from __future__ import annotations

from msgspec.structs import replace

from fairtrial.ledger.protocol import Comparison, Endpoint, Protocol

from .protocol_nodes import Reading

__all__ = ("ALL_REPLICATES", "with_defaults")

# Types that take all replicates of a unit themselves and so have no reducer.
ALL_REPLICATES = ("agreement", "pass_at_k", "pass_hat_k")

_JSONL = (".jsonl", ".ndjson")


def with_defaults(protocol: Protocol, reading: Reading) -> Protocol:
    """Returns the protocol with every derived default filled in."""
    for step in (_units, _arms, _endpoints, _analysis, _looks, _decision, _blinding):
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
        least = 10 if looks.min_clusters is None else looks.min_clusters
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
