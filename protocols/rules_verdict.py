"""Rules between fields about the verdict: decision rule, margin, saving, harm, gate.

Leaves single fields to `fields.py`, analysis and looks to `rules_numbers.py`.

Rules:
- A rule names every field it reads; it says nothing when one of them is bad and said so already.
- One function a subject, in the order of the file; each reports all it finds.
"""

from __future__ import annotations

from fairtrial.ledger.protocol import Endpoint, Protocol, primaries

from .nodes import Reading, nearest

__all__ = ("check_verdict",)


def check_verdict(protocol: Protocol, reading: Reading) -> None:
    """Reports every broken rule between fields that make up the verdict."""
    for check in (
        _check_rule,
        _check_margin,
        _check_sides,
        _check_primaries,
        _check_saving,
        _check_harm,
        _check_precision_bound,
        _check_gate,
    ):
        check(protocol, reading)


def _check_rule(p: Protocol, reading: Reading) -> None:
    rule = p.decision.rule
    if len(rule) > 1 and rule != ("superiority", "equivalence"):
        expected = "one rule, or the list [superiority, equivalence]"
        found = ", ".join(rule)
        reading.refuse("decision.rule", "no such list of rules", expected=expected, found=found)
    if "precision_bound" in rule and p.kind == "comparison":
        what, found = "precision_bound belongs to kind decision_rule", "kind comparison"
        todo = "name another rule, or write `kind: decision_rule`"
        reading.refuse("decision.rule", what, found=found, todo=todo, needs=["kind"])
    given = reading.is_given("decision.worse_inside_margin")
    if given and rule != ("non_inferiority",):
        reading.refuse(
            "decision.worse_inside_margin",
            "it is about non-inferiority",
            found=f"rule {', '.join(rule)}",
            todo="leave it out",
            needs=["decision.rule"],
        )


def _check_margin(p: Protocol, reading: Reading) -> None:
    rule, margin, path = p.decision.rule, p.decision.margin, "decision.margin"
    needs = ["decision.rule"]
    if "precision_bound" in rule:
        if margin is not None:
            what = "precision_bound has no margin"
            reading.refuse(path, what, todo="leave it out", needs=needs)
        return
    if margin is None:
        reading.missing(path, "a number in the endpoint's units", *needs)
    elif margin == 0 and rule != ("superiority",):
        found, expected = str(margin), "above 0"
        what = f"{', '.join(rule)} needs a margin"
        reading.refuse(path, what, expected=expected, found=found, needs=needs)
    if margin:
        for endpoint in primaries(p):
            _check_inside(endpoint, margin, reading)


def _check_inside(endpoint: Endpoint, margin: float, reading: Reading) -> None:
    low, high = (0.0, 1.0) if endpoint.bounds is None else endpoint.bounds
    if endpoint.type == "win_rate":
        # Its difference is the distance from one half.
        low, high = 0.0, 0.5
    unbounded = endpoint.bounds is None and endpoint.type in ("continuous", "cost")
    if not unbounded and endpoint.scale == "raw" and margin >= high - low > 0:
        reading.refuse(
            "decision.margin",
            f"no difference of endpoint {endpoint.name} can reach the margin",
            expected=f"below {high - low:g}",
            found=f"{margin:g}",
            needs=[f"endpoints.{endpoint.name}"],
        )


def _check_sides(p: Protocol, reading: Reading) -> None:
    if p.analysis.sides == 2:
        return
    if "equivalence" in p.decision.rule:
        what = "equivalence needs both sides"
        reading.refuse("analysis.sides", what, expected="2", found="1", needs=["decision.rule"])
    if any(endpoint.role == "harm" for endpoint in p.endpoints):
        what = "a harm endpoint needs both sides, as one side can't reject"
        reading.refuse("analysis.sides", what, expected="2", found="1", needs=["endpoints"])


def _check_primaries(p: Protocol, reading: Reading) -> None:
    count, path = len(primaries(p)), "decision.primaries"
    if count > 1 and p.decision.primaries is None:
        reading.missing(path, f"all, any or ordered, as {count} endpoints are primary", "endpoints")
    if count == 1 and p.decision.primaries is not None:
        what = "there is one primary endpoint"
        reading.refuse(path, what, todo="leave it out", needs=["endpoints"])


def _check_saving(p: Protocol, reading: Reading) -> None:
    saving, path = p.decision.saving, "decision.saving.endpoint"
    if saving is None:
        return
    endpoints = {endpoint.name: endpoint for endpoint in p.endpoints}
    endpoint = endpoints.get(saving.endpoint)
    if endpoint is None:
        near = nearest(saving.endpoint, endpoints)
        expected = f"one of {', '.join(endpoints)}"
        reading.refuse(
            path,
            "there is no such endpoint",
            expected=expected,
            found=saving.endpoint,
            todo=f"did you mean {near}?" if near else "",
            needs=["endpoints"],
        )
    elif endpoint.type not in ("cost", "continuous"):
        found, what = f"type {endpoint.type}", "a saving is shown on a cost"
        needs = [f"endpoints.{endpoint.name}.type"]
        reading.refuse(path, what, expected="type cost or continuous", found=found, needs=needs)
    elif endpoint.role != "secondary":
        # A test of its own is of another claim: the saving would then be left out of the verdict.
        found, what = f"role {endpoint.role}", "a saving has a test of its own"
        needs = [f"endpoints.{endpoint.name}.role"]
        reading.refuse(path, what, expected="role secondary", found=found, needs=needs)
    elif endpoint.better != "lower":
        found, what = f"better {endpoint.better}", "who saves has less"
        needs = [f"endpoints.{endpoint.name}.better"]
        reading.refuse(path, what, expected="better lower", found=found, needs=needs)


def _check_harm(p: Protocol, reading: Reading) -> None:
    names = [endpoint.name for endpoint in p.endpoints if endpoint.role == "harm"]
    if names and p.decision.harm is None:
        expected = f"alpha and margin for {', '.join(names)}"
        reading.missing("decision.harm", expected, "endpoints")
    if not names and p.decision.harm is not None:
        what = "no endpoint has the role harm"
        todo = "leave it out, or declare the endpoint"
        reading.refuse("decision.harm", what, todo=todo, needs=["endpoints"])


def _check_precision_bound(p: Protocol, reading: Reading) -> None:
    decision, needs = p.decision, ["decision.rule"]
    if "precision_bound" not in decision.rule:
        for name in ("arm", "bound", "strata"):
            if reading.is_given(f"decision.{name}"):
                what = f"{name} belongs to rule precision_bound"
                reading.refuse(f"decision.{name}", what, todo="leave it out", needs=needs)
        return
    if decision.arm is None:
        reading.missing("decision.arm", "the arm whose flags are judged", *needs)
    elif decision.arm not in p.arms:
        expected = f"one of {', '.join(p.arms)}"
        what = "there is no such arm"
        reading.refuse("decision.arm", what, expected=expected, found=decision.arm, needs=["arms"])
    if decision.strata is None:
        reading.missing("decision.strata", "pooled or each", *needs)


def _check_gate(p: Protocol, reading: Reading) -> None:
    names = [comparison.name for comparison in p.analysis.comparisons]
    gate, needs = p.decision.gate, ["analysis.comparisons", "arms", "control"]
    if p.control not in p.arms and not reading.is_given("analysis.comparisons"):
        # Comparisons follow from the control, which is refused already.
        return
    if not gate and len(names) > 1:
        reading.missing("decision.gate", f"one of {', '.join(names)}", *needs)
    elif gate and gate not in names:
        what, expected = "there is no such comparison", f"one of {', '.join(names)}"
        reading.refuse("decision.gate", what, expected=expected, found=gate, needs=needs)
