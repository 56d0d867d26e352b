"""What this version understands in a protocol and doesn't compute yet.

Leaves what is wrong in a protocol to `rules.py`. As a version learns one of these, its
function here goes; no digest changes.

Rules:
- Refused by `check`, `register` and `freeze`, never in the middle of a run.
- Everything that isn't supported is reported at once, by field path.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TypeAlias

import msgspec

from fairtrial.ledger.errors import Problem, ProtocolError
from fairtrial.ledger.protocol import (
    MISSING_STATUSES,
    Protocol,
    RecordedDriver,
    asked_arms,
    driver_path,
    missing_rule,
)

from .terms import arm_terms

__all__ = ("check_supported",)

_Unsupported: TypeAlias = tuple[str, str, str]

# Types whose number compares units with each other, by their truth.
_BY_TRUTH = ("auc", "within_twin_auc", "precision")


def check_supported(
    protocol: Protocol, *, name: str = "protocol", line: Callable[[str], int] | None = None
) -> None:
    """Refuses a protocol that this version understands but can't carry out.

    Args:
        protocol: The protocol.
        name: The file's name, for messages.
        line: Tells the line of a field path; None where no file is behind the protocol.

    Raises:
        ProtocolError: Names every field that has to wait for a later version.
    """
    checks = (_replay_only, _decision_rule, _endpoints, _assigned, _looks, _margins, _blinding)
    problems = tuple(
        Problem(
            what="understood, not supported by this version",
            where=where,
            line=None if line is None else line(where),
            expected=expected,
            found=found,
            todo="choose what is supported, or wait for a later version",
        )
        for check in checks
        for where, found, expected in check(protocol)
    )
    if problems:
        raise ProtocolError(problems, file=name)


def _replay_only(p: Protocol) -> Iterator[_Unsupported]:
    # Without a store of answers the driver would be called, and that is what it must never be.
    for name, arm in asked_arms(p).items():
        live = arm.driver is not None and not isinstance(arm.driver, RecordedDriver)
        if live and arm.replay_only:
            yield driver_path(p, name), "a live driver that only replays", "kind: recorded"


def _decision_rule(p: Protocol) -> Iterator[_Unsupported]:
    if p.kind != "decision_rule":
        return
    if p.design.pairing != "paired":
        yield "design.pairing", p.design.pairing, "paired: every rule sees every score"
    if p.blinding.arms:
        yield "blinding.arms", "true", "false: rules share one scoring pass"
    if p.looks.kind != "planned" or p.looks.at != (1.0,):
        # The scores exist before the first look, so there is nothing to stop early for.
        yield "looks.at", ", ".join(f"{share:g}" for share in p.looks.at) or p.looks.kind, "1"
    if p.looks.futility is not None:
        yield "looks.futility", "a mapping", "none: there is one look"
    if p.looks.boundary is not None:
        yield "looks.boundary", "a boundary", "one look at analysis.alpha"
    if p.decision.on_under_run != "inconclusive":
        yield "decision.on_under_run", p.decision.on_under_run, "inconclusive"
    for endpoint in p.endpoints:
        if endpoint.role == "harm":
            yield f"endpoints.{endpoint.name}.role", "harm", "primary or secondary"
        if endpoint.missing:
            yield f"endpoints.{endpoint.name}.missing", "a rule", "missing.rules: one score for all"
    for status, rule in p.missing.rules.items():
        if rule not in ("exclude_pair", "refuse"):
            yield f"missing.rules.{status}", str(rule), "exclude_pair or refuse: no score, no flag"
    for name in p.diagnostics.__struct_fields__:
        if getattr(p.diagnostics, name) != "show":
            yield f"diagnostics.{name}", "inconclusive", "show"


def _endpoints(p: Protocol) -> Iterator[_Unsupported]:
    # What fails is one flag or one replicate: whether that is bad depends on the label, or on the
    # others. A threshold rule is applied to one set of scores: there is no second completion.
    own = p.kind == "decision_rule"
    for endpoint in p.endpoints:
        refused = (*_BY_TRUTH, "agreement") if own else ("precision", "agreement")
        for status in MISSING_STATUSES if endpoint.type in refused else ():
            rule = missing_rule(p, endpoint, status)
            if rule == "failure" or (own and rule not in ("exclude_pair", "refuse", "value")):
                path = f"endpoints.{endpoint.name}.missing.{status}"
                yield path, f"{rule} for type {endpoint.type}", "exclude_pair, refuse or value"


def _assigned(p: Protocol) -> Iterator[_Unsupported]:
    if p.design.pairing != "assigned":
        return
    for endpoint in p.endpoints:
        if endpoint.type in ("auc", "within_twin_auc"):
            path = f"endpoints.{endpoint.name}.type"
            yield (
                path,
                f"{endpoint.type} of assigned units",
                "precision, or one number a unit",
            )
    if p.looks.kind == "anytime":
        yield "looks.kind", "anytime with assigned units", "planned"


def _looks(p: Protocol) -> Iterator[_Unsupported]:
    if p.looks.kind == "anytime":
        yield from _anytime(p)


def _anytime(p: Protocol) -> Iterator[_Unsupported]:
    # By unit, a mean over clusters is a ratio of two sums, and no sequence here is of a ratio.
    if p.analysis.estimand != "cluster_weighted" and p.units.cluster is not None:
        expected = "cluster_weighted with looks at any time, or `units.cluster: none`"
        yield "analysis.estimand", p.analysis.estimand, expected
    # Costs have no bounds, which every sequence here needs.
    if p.decision.saving is not None:
        yield "decision.saving", p.decision.saving.endpoint, "no saving with looks at any time"
    types = ("binary",) if p.looks.method == "beta" else ("binary", "bounded")
    for endpoint in p.endpoints:
        if endpoint.role != "secondary" and endpoint.type not in types:
            expected = f"{' or '.join(types)} with method {p.looks.method}"
            yield f"endpoints.{endpoint.name}.type", endpoint.type, expected


def _margins(p: Protocol) -> Iterator[_Unsupported]:
    # One number can't be a difference and a ratio at once, which a claim on both scales would need.
    for endpoint in p.endpoints:
        margin = p.decision.harm.margin if endpoint.role == "harm" and p.decision.harm else 0.0
        if endpoint.role == "primary":
            margin = p.decision.margin or 0.0
        if margin and endpoint.scale == "both":
            yield f"endpoints.{endpoint.name}.scale", "both with a margin", "raw or log"


def _blinding(p: Protocol) -> Iterator[_Unsupported]:
    """Yields what would tell blinded arms apart by the readable part of the ledger."""
    if not p.blinding.arms or p.kind == "decision_rule":
        return
    if p.kind != "comparison":
        yield "blinding.arms", f"true with {p.kind}", "false, or a comparison"
        return
    if p.design.pairing != "paired":
        yield "design.pairing", p.design.pairing, "paired, where arms are blinded"
    terms = {name: arm_terms(p, name) for name in p.arms}
    ceilings = [msgspec.to_builtins(p.budget.arms.get(name)) for name in p.arms]
    for field, values in (
        ("arms.*.repeats", [arm.repeats for arm in p.arms.values()]),
        ("arms.*.driver.kind", [each.origin for each in terms.values()]),
        ("arms.*.driver.repeatable", [each.repeatable for each in terms.values()]),
        ("budget.arms", ceilings),
    ):
        if any(value != values[0] for value in values):
            yield field, "different values", "the same for all arms, which are blinded"
    tokens = [p.budget.tokens, *(own.tokens for own in p.budget.arms.values())]
    if any(limit is not None for limit in tokens):
        yield "budget.tokens", "a ceiling", "none: tokens are sealed while arms are blinded"
