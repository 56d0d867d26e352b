"""On what terms an arm is asked, and what of a plan may be read while its arms are blinded. Pure.

Leaves who is behind a label to `custody/blinding.py`.

Rules:
- A live arm reserves what its driver section says; a recorded arm reserves nothing.
- Blinded arms all stand under the same terms, with the largest reservation, and nothing that
  follows from the plan names an arm: labels stand for arms, places for comparisons.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

import msgspec

from fairtrial.ledger.blinding import arm_labels, coded_comparison
from fairtrial.ledger.events import LookPlan, Origin
from fairtrial.ledger.protocol import Protocol, asked_arms, is_live, nano_usd
from fairtrial.ledger.sections import CommandDriver, PythonDriver

from .plan import Plan, renamed_plan

__all__ = (
    "ArmTerms",
    "arm_terms",
    "coded_looks",
    "comparison_codes",
    "named_looks",
    "nominal_plan",
    "planned_repeats",
    "terms_of",
)


class ArmTerms(NamedTuple):
    """Where an arm's outcomes come from, and on what terms it is asked."""

    origin: Origin
    metered: bool
    reserve_nanousd: int
    repeatable: bool


def arm_terms(protocol: Protocol, name: str) -> ArmTerms:
    """Returns what the protocol says of an arm's outcomes."""
    arm = asked_arms(protocol)[name]
    origin: Origin = "live" if is_live(arm) else "recorded"
    reserve, repeatable = 0.0, True
    if isinstance(arm.driver, (CommandDriver, PythonDriver)):
        reserve, repeatable = arm.driver.reserve_usd or 0.0, arm.driver.repeatable
    return ArmTerms(origin, origin == "live" and reserve > 0, nano_usd(reserve), repeatable)


def terms_of(protocol: Protocol) -> dict[str, ArmTerms]:
    """Returns the terms of each arm as a freeze has them: by label where arms are blinded."""
    terms = {name: arm_terms(protocol, name) for name in asked_arms(protocol)}
    if not protocol.blinding.arms:
        return terms
    largest = max(terms.values(), key=lambda each: each.reserve_nanousd)
    return dict.fromkeys(arm_labels(len(terms)), largest)


def planned_repeats(protocol: Protocol) -> dict[str, int]:
    """Returns the planned replicates of each arm as the run order has them."""
    repeats = {name: arm.repeats for name, arm in asked_arms(protocol).items()}
    if not protocol.blinding.arms:
        return repeats
    return dict.fromkeys(arm_labels(len(repeats)), max(repeats.values()))


def nominal_plan(protocol: Protocol, plan: Plan) -> Plan:
    """Returns a plan under the arms' names, for what is known before any outcome.

    Blinded arms are put behind labels in the order of the protocol: looks and power of paired units
    are the same whichever arm is behind which label.
    """
    if not protocol.blinding.arms:
        return plan
    return renamed_plan(plan, dict(zip(planned_repeats(protocol), protocol.arms, strict=True)))


def coded_looks(protocol: Protocol, looks: Iterable[LookPlan]) -> tuple[LookPlan, ...]:
    """Returns a look table in which no comparison has a name while arms are blinded."""
    return _renamed(looks, comparison_codes(protocol))


def named_looks(protocol: Protocol, looks: Iterable[LookPlan]) -> tuple[LookPlan, ...]:
    """Returns a recorded look table with the names of its comparisons."""
    return _renamed(looks, {code: name for name, code in comparison_codes(protocol).items()})


def comparison_codes(protocol: Protocol) -> dict[str, str]:
    """Returns what stands for each comparison while arms are blinded; empty otherwise."""
    names = [comparison.name for comparison in protocol.analysis.comparisons]
    return coded_comparison(names) if protocol.blinding.arms else {}


def _renamed(looks: Iterable[LookPlan], names: dict[str, str]) -> tuple[LookPlan, ...]:
    replace = msgspec.structs.replace
    return tuple(
        replace(
            look,
            tests=tuple(
                replace(test, comparison=names.get(test.comparison, test.comparison))
                for test in look.tests
            ),
        )
        for look in looks
    )
