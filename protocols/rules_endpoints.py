"""Rules between fields about endpoints and the missing-data rules that apply to them.

Leaves single fields to `fields.py`, analysis and looks to `rules_numbers.py`.

Rules:
- A rule names every field it reads; it says nothing when one of them is bad and said so already.
- One function a subject, in the order of the file; each reports all it finds.
"""

from __future__ import annotations

from fairtrial.ledger.protocol import (
    MISSING_STATUSES,
    Endpoint,
    EndpointType,
    MissingStatus,
    Protocol,
    missing_rule,
    primaries,
)

from .defaults import ALL_REPLICATES
from .nodes import Reading

__all__ = ("check_endpoints",)

_MEASURES = ("usd", "usd_incurred", "tokens", "duration_seconds")
_FLAGS = ("passed", "answer", "flagged")
_SCORES = ("score", "scores")
# What each type can hold; `scores` stands for every scores.NAME.
_HOLDS: dict[EndpointType, tuple[str, ...]] = {
    "binary": (*_FLAGS, *_SCORES),
    "bounded": (*_FLAGS, *_SCORES, *_MEASURES),
    "continuous": (*_SCORES, *_MEASURES),
    "cost": (*_SCORES, *_MEASURES),
    "auc": _SCORES,
    "within_twin_auc": _SCORES,
    "precision": _FLAGS,
    "agreement": (*_FLAGS, *_SCORES),
    "pass_at_k": (*_FLAGS, *_SCORES),
    "pass_hat_k": (*_FLAGS, *_SCORES),
    "pass_hat_k_plugin": (*_FLAGS, *_SCORES),
    "all_pass": (*_FLAGS, *_SCORES),
    "win_rate": (*_SCORES, *_MEASURES),
}
_LABELLED = ("auc", "within_twin_auc", "precision")
_NO_WORST = ("continuous", "cost", "auc", "within_twin_auc")
_WITH_K = ("pass_at_k", "pass_hat_k", "pass_hat_k_plugin")
# Types whose number depends on how many replicates there are, or says so by its name.
_BY_COUNT = ("pass_hat_k", "pass_hat_k_plugin", "all_pass")
_MEASURED = (*_FLAGS, *_SCORES)


def check_endpoints(protocol: Protocol, reading: Reading) -> None:
    """Reports every broken rule between fields of endpoints."""
    _check_roles(protocol, reading)
    for endpoint in protocol.endpoints:
        for check in (
            _check_value,
            _check_columns,
            _check_bounds,
            _check_win_rate,
            _check_reducer,
            _check_k,
            _check_missing_rules,
        ):
            check(protocol, endpoint, reading)


def _check_roles(p: Protocol, reading: Reading) -> None:
    names = [endpoint.name for endpoint in p.endpoints]
    for name in sorted({name for name in names if names.count(name) > 1}):
        what, todo = "two endpoints have one name", "rename one of them"
        reading.refuse(f"endpoints.{name}", what, found=name, todo=todo)
    if not primaries(p):
        expected = "at least one endpoint with `role: primary`"
        reading.refuse("endpoints", "nothing decides", expected=expected)


def _check_value(p: Protocol, endpoint: Endpoint, reading: Reading) -> None:
    path, kind = f"endpoints.{endpoint.name}", endpoint.type
    word = endpoint.value.partition(".")[0]
    if word not in _HOLDS[kind]:
        holders = [name for name, held in _HOLDS.items() if word in held]
        reading.refuse(
            f"{path}.value",
            f"type {kind} can't hold {endpoint.value}",
            expected=f"one of {', '.join(_HOLDS[kind])}",
            found=endpoint.value,
            todo=f"{endpoint.value} can be {', '.join(holders)}",
            needs=[f"{path}.type"],
        )
    if word == "answer" and endpoint.positive is None:
        expected = "the answers that count as 1"
        reading.missing(f"{path}.positive", expected, f"{path}.value")
    if word != "answer" and endpoint.positive is not None:
        todo = "leave it out, or write `value: answer`"
        what = "`positive` is about answers"
        reading.refuse(f"{path}.positive", what, todo=todo, needs=[f"{path}.value"])
    if word == "flagged" and p.kind == "comparison":
        what, found = "`flagged` belongs to kind decision_rule", "kind comparison"
        todo = "name another value, or write `kind: decision_rule`"
        reading.refuse(f"{path}.value", what, found=found, todo=todo, needs=["kind"])


def _check_columns(p: Protocol, endpoint: Endpoint, reading: Reading) -> None:
    path, kind = f"endpoints.{endpoint.name}", endpoint.type
    wanted: dict[str, str] = {key: f"{path}.where.{key}" for key in endpoint.where}
    if kind in _LABELLED:
        wanted["label"] = f"{path}.type"
    if kind == "within_twin_auc":
        wanted["twin"] = f"{path}.type"
    for column, why in wanted.items():
        if getattr(p.units, column) is None:
            what = f"endpoint {endpoint.name} needs a column for `{column}`"
            reading.refuse(f"units.{column}", what, expected="a column", needs=[why])
    if kind in ("auc", "within_twin_auc") and "label" in endpoint.where:
        what = "an auc compares both labels, so it can't be restricted to one"
        reading.refuse(f"{path}.where.label", what, todo="leave it out", needs=[f"{path}.type"])


def _check_bounds(_: Protocol, endpoint: Endpoint, reading: Reading) -> None:
    path, bounds = f"endpoints.{endpoint.name}", endpoint.bounds
    if endpoint.type == "bounded" and bounds is None:
        expected = "[low, high], from the question and never from the data"
        reading.missing(f"{path}.bounds", expected, f"{path}.type")
    if bounds is None:
        return
    if endpoint.type not in ("bounded", "win_rate", *_NO_WORST):
        what = f"type {endpoint.type} has bounds of its own"
        reading.refuse(f"{path}.bounds", what, todo="leave it out", needs=[f"{path}.type"])
    if bounds[0] >= bounds[1]:
        found = f"[{bounds[0]}, {bounds[1]}]"
        reading.refuse(f"{path}.bounds", "the bounds don't rise", expected="low, high", found=found)


def _check_win_rate(_: Protocol, endpoint: Endpoint, reading: Reading) -> None:
    path = f"endpoints.{endpoint.name}"
    if endpoint.type == "win_rate" and endpoint.scale != "raw":
        what = "which of two values is the better one is the same on every scale"
        found, needs = endpoint.scale, [f"{path}.type"]
        reading.refuse(f"{path}.scale", what, found=found, todo="leave it out", needs=needs)


def _check_reducer(p: Protocol, endpoint: Endpoint, reading: Reading) -> None:
    path, reducer, kind = f"endpoints.{endpoint.name}", endpoint.reducer, endpoint.type
    repeats = {name: arm.repeats for name, arm in p.arms.items()}
    needs = [f"{path}.type", *(f"arms.{name}.repeats" for name in repeats)]
    if kind in ALL_REPLICATES and reducer is not None:
        what = f"type {kind} takes all replicates itself"
        reading.refuse(f"{path}.reducer", what, todo="leave it out", needs=needs)
    if kind not in ALL_REPLICATES and reducer is None:
        expected = "a reducer: replicates have to become one value a unit"
        reading.missing(f"{path}.reducer", expected, *needs)
    if reducer in ("mean", "median") and kind == "binary":
        what = f"the {reducer} of replicates is not binary"
        todo = "declare `type: bounded` with `bounds: [0, 1]`"
        reading.refuse(f"{path}.reducer", what, found=reducer, todo=todo, needs=needs)
    if reducer in ("majority", "any", "all", "at_least") and kind not in ("binary", "precision"):
        what = f"{reducer} of replicates is binary"
        reading.refuse(
            f"{path}.reducer",
            what,
            found=f"type {kind}",
            todo="declare `type: binary`",
            needs=needs,
        )
    even = [name for name, count in repeats.items() if count % 2 == 0]
    if reducer == "majority" and even:
        found = f"{repeats[even[0]]} repeats in arm {even[0]}"
        what, todo = "an even number has no majority", "plan an odd number of repeats"
        reading.refuse(f"{path}.reducer", what, found=found, todo=todo, needs=needs)
    if reducer in ("any", "all", "at_least") or kind in _BY_COUNT:
        _check_equal_repeats(p, endpoint, reading)


def _check_equal_repeats(p: Protocol, endpoint: Endpoint, reading: Reading) -> None:
    word = endpoint.reducer or endpoint.type
    for comparison in p.analysis.comparisons:
        arms = [p.arms.get(comparison.treatment), p.arms.get(comparison.control)]
        counts = [arm.repeats for arm in arms if arm is not None]
        if len(set(counts)) > 1:
            reading.refuse(
                f"arms.{comparison.treatment}.repeats",
                f"compared arms need equal repeats: endpoint {endpoint.name} is {word}",
                expected=f"{counts[1]}, as arm {comparison.control}",
                found=str(counts[0]),
                needs=[f"endpoints.{endpoint.name}", f"arms.{comparison.control}.repeats"],
            )


def _check_k(p: Protocol, endpoint: Endpoint, reading: Reading) -> None:
    path, kind = f"endpoints.{endpoint.name}", endpoint.type
    takes_k = endpoint.reducer == "at_least" or kind in _WITH_K
    needs = [f"{path}.type", f"{path}.reducer", "arms"]
    least = min((arm.repeats for arm in p.arms.values()), default=1)
    if takes_k and endpoint.k is None:
        reading.missing(f"{path}.k", f"1 to {least}", *needs)
    elif takes_k and endpoint.k is not None and endpoint.k > least:
        what, expected = "k is over the repeats of an arm", f"at most {least}"
        found = str(endpoint.k)
        reading.refuse(f"{path}.k", what, expected=expected, found=found, needs=needs)
    elif not takes_k and endpoint.k is not None:
        todo = "leave it out: it is for at_least, pass_at_k and pass_hat_k"
        reading.refuse(f"{path}.k", "k has no meaning here", todo=todo, needs=needs)
    if kind == "pass_hat_k_plugin" and endpoint.role != "secondary":
        what = "the plug-in estimate of pass^k is biased upwards, so it decides nothing"
        todo = "write `role: secondary`, and `type: pass_hat_k` for what decides"
        reading.refuse(f"{path}.role", what, found=endpoint.role, todo=todo, needs=needs)
    if kind == "agreement" and least < 2:
        what = "agreement needs two replicates"
        expected = "`repeats` of 2 or more in every arm"
        reading.refuse(f"{path}.type", what, expected=expected, found=f"{least}", needs=needs)


def _check_missing_rules(p: Protocol, endpoint: Endpoint, reading: Reading) -> None:
    for status in MISSING_STATUSES:
        own = status in endpoint.missing
        path = f"endpoints.{endpoint.name}.missing" if own else "missing.rules"
        why = _why_not(p, endpoint, status)
        if why:
            reading.refuse(
                f"{path}.{status}",
                f"endpoint {endpoint.name}: {why}",
                expected="another rule, for this endpoint under `missing`" if not own else "",
                found=str(missing_rule(p, endpoint, status)),
                needs=[f"endpoints.{endpoint.name}.{key}" for key in ("type", "value", "bounds")],
            )


def _why_not(p: Protocol, endpoint: Endpoint, status: MissingStatus) -> str:
    """Returns why the rule for a status can't be applied to an endpoint, "" if it can."""
    rule, kind = missing_rule(p, endpoint, status), endpoint.type
    if rule == "failure" and kind in _NO_WORST:
        return f"type {kind} has no worst value"
    if rule == "worst_case" and kind in ("continuous", "cost") and endpoint.bounds is None:
        return f"type {kind} has no worst case without `bounds`"
    if rule == "value" and status == "replay_miss":
        return "an outcome that isn't there has no value"
    if rule == "value" and status == "error" and endpoint.value.partition(".")[0] in _MEASURED:
        return f"after an error there is no {endpoint.value}"
    if isinstance(rule, float):
        return _why_not_number(endpoint, rule)
    return ""


def _why_not_number(endpoint: Endpoint, number: float) -> str:
    low, high = endpoint.bounds or (-float("inf"), float("inf"))
    if endpoint.type in ("binary", "precision", *ALL_REPLICATES):
        return "" if number in (0.0, 1.0) else f"type {endpoint.type} is 0 or 1"
    if not low <= number <= high:
        return f"outside the bounds {low} to {high}"
    if endpoint.scale != "raw" and number <= 0:
        return f"scale {endpoint.scale} needs a number above 0"
    return ""
