"""Rules between fields about what is run: kind, units, arms, attempts, budget, blinding.

Leaves single fields to `fields.py`, endpoints, numbers and verdict to the other
`protocol_rules_*.py`, and what only the disk or the units file can tell to the session.

Rules:
- A rule names every field it reads; it says nothing when one of them is bad and said so already.
- One function a subject, in the order of the file; each reports all it finds.
"""

from __future__ import annotations

from fractions import Fraction
from typing import TypeAlias

import msgspec
from msgspec.structs import replace

from fairtrial.ledger.protocol import (
    Arm,
    CommandDriver,
    Protocol,
    PythonDriver,
    RecordedDriver,
    is_live,
)

from .nodes import Reading
from .rules_assigned import check_design
from .rules_decision import check_decision_rule
from .rules_endpoints import check_endpoints
from .rules_numbers import check_numbers
from .rules_verdict import check_verdict

__all__ = ("check_rules",)


def check_rules(protocol: Protocol, reading: Reading) -> None:
    """Reports every broken rule between fields."""
    for check in (
        _check_kind,
        _check_units,
        check_design,
        _check_arms,
        _check_drivers,
        _check_identity,
        _check_control,
        _check_budget,
        _check_blinding,
    ):
        check(protocol, reading)
    check_endpoints(protocol, reading)
    check_numbers(protocol, reading)
    check_verdict(protocol, reading)


def _check_kind(p: Protocol, reading: Reading) -> None:
    if p.kind == "comparison":
        _refuse_rule_sections(p, reading)
    else:
        check_decision_rule(p, reading)


def _refuse_rule_sections(p: Protocol, reading: Reading) -> None:
    given = [name for name in ("scoring", "populations") if reading.is_given(name)]
    given += [f"arms.{name}.rule" for name, arm in p.arms.items() if arm.rule is not None]
    for path in given:
        reading.refuse(
            path,
            "the section belongs to kind decision_rule",
            found="kind comparison",
            todo="leave it out, or write `kind: decision_rule`",
            needs=["kind"],
        )


def _check_units(p: Protocol, reading: Reading) -> None:
    units = p.units
    known = (".csv", ".jsonl", ".ndjson")
    if not reading.is_given("units.format") and not units.file.endswith(known):
        expected = "csv or jsonl, as the file's suffix says neither"
        reading.missing("units.format", expected, "units.file")
    if units.twin is not None and units.label is None:
        reading.missing("units.label", "the column of labels, which twins need", "units.twin")
    if units.input is None and any(is_live(arm) for arm in p.arms.values()):
        reading.missing("units.input", "the columns that a driver receives", "arms")
    if units.label in (units.input or ()) and units.allow_label is None:
        reading.refuse(
            "units.input",
            "drivers would see the label",
            expected="columns without the label",
            found=str(units.label),
            todo="take it out, or write units.allow_label with the reason",
            needs=["units.label", "units.allow_label"],
        )


def _refuse_no_arm(p: Protocol, reading: Reading, path: str, name: str) -> None:
    expected = f"one of {', '.join(p.arms)}"
    reading.refuse(path, "there is no such arm", expected=expected, found=name, needs=["arms"])


def _check_arms(p: Protocol, reading: Reading) -> None:
    if len(p.arms) < 2:
        found = f"{len(p.arms)} arm" + ("" if len(p.arms) == 1 else "s")
        reading.refuse("arms", "there is nothing to compare", expected="two arms", found=found)
    for name, arm in p.arms.items():
        path = f"arms.{name}"
        if p.kind == "comparison" and arm.driver is None:
            reading.missing(f"{path}.driver", "a driver", "kind", path)
        if is_live(arm) and arm.limits.seconds is None:
            reading.missing(f"{path}.limits.seconds", "seconds of one attempt", f"{path}.driver")


def _check_drivers(p: Protocol, reading: Reading) -> None:
    if p.kind == "decision_rule":
        return
    for name, arm in p.arms.items():
        if isinstance(arm.driver, RecordedDriver):
            _check_columns(p, reading, name, arm, arm.driver)
        elif arm.driver is not None:
            _check_reserve(p, reading, name, arm, arm.driver)


def _check_columns(
    p: Protocol, reading: Reading, name: str, arm: Arm, driver: RecordedDriver
) -> None:
    path = f"arms.{name}.driver.columns"
    wanted = {"unit": "which names the unit"}
    if arm.repeats > 1:
        wanted["replicate"] = f"which tells {arm.repeats} repeats apart"
    for endpoint in p.endpoints:
        if not reading.has_problem(f"endpoints.{endpoint.name}.value"):
            wanted.setdefault(endpoint.value, f"which is the value of endpoint {endpoint.name}")
    for field, why in wanted.items():
        if field not in driver.columns and field != "flagged":
            what = f"the field {field} is not mapped to a column"
            todo = f"add `{field}: COLUMN`, {why}"
            reading.refuse(path, what, expected=field, found=", ".join(driver.columns), todo=todo)


_LiveDriver: TypeAlias = PythonDriver | CommandDriver


def _check_reserve(p: Protocol, reading: Reading, name: str, arm: Arm, driver: _LiveDriver) -> None:
    path = f"arms.{name}.driver"
    reserve, limit = driver.reserve_usd, arm.limits.usd
    if arm.replay_only and reserve:
        what = "an arm that only replays reserves nothing"
        reading.refuse(f"{path}.reserve_usd", what, expected="0 or none", found=str(reserve))
    if reserve is None and is_live(arm) and p.budget.usd is not None:
        if p.budget.unpriced == "refuse":
            expected = "the largest price of one attempt: without it the ceiling could be passed"
            reading.missing(f"{path}.reserve_usd", expected, "budget")
    elif reserve is not None and limit is not None and reserve < limit:
        what = "the reservation is below the limit of one attempt"
        expected, needs = f"{limit} or more", [f"arms.{name}.limits.usd"]
        reading.refuse(
            f"{path}.reserve_usd", what, expected=expected, found=str(reserve), needs=needs
        )
    own = p.budget.arms.get(name)
    if reserve == 0 and is_live(arm) and p.budget.usd and (own is None or own.usd != 0):
        what = "nothing is reserved, so the ceiling could never stop this arm"
        reading.refuse(
            f"{path}.reserve_usd",
            what,
            expected="the largest price of one attempt",
            found="0",
            todo=f"if the arm costs nothing, say so: `budget: {{arms: {{{name}: {{usd: 0}}}}}}`",
            needs=["budget"],
        )
    if not driver.repeatable and p.attempts.max > 1:
        what = "an attempt that can't be repeated is tried more than once"
        todo = "write `attempts: {max: 1}`, or `repeatable: true` if a second try does no harm"
        needs = [f"{path}.repeatable"]
        reading.refuse("attempts.max", what, found=str(p.attempts.max), todo=todo, needs=needs)


def _identity(arm: Arm) -> Arm:
    """Returns the arm without what doesn't make it another treatment."""
    driver = arm.driver
    if driver is not None and not isinstance(driver, RecordedDriver):
        driver = _bare(driver)
    return replace(arm, label="", repeats=1, driver=driver)


def _bare(driver: _LiveDriver) -> _LiveDriver:
    return replace(driver, reserve_usd=None, repeatable=True)


def _check_identity(p: Protocol, reading: Reading) -> None:
    names = list(p.arms)
    arms = [_identity(arm) for arm in p.arms.values()]
    # Bytes, since 1 equals True and 1.0 in Python, and a driver can tell them apart.
    identities = [msgspec.json.encode(arm, order="deterministic") for arm in arms]
    for index, name in enumerate(names):
        first = identities.index(identities[index])
        if first < index and not p.aa:
            reading.refuse(
                f"arms.{name}",
                f"arms {names[first]} and {name} are the same treatment",
                expected="arms that differ, or `aa: true` for a noise floor",
                found=f"{name} has what {names[first]} has (label, repeats, reserve_usd and"
                " repeatable make no treatment)",
                todo=f"give arms.{name} the driver, config or rule that is to be compared",
                needs=[f"arms.{names[first]}", "aa"],
            )
    # Two recorded sets of outcomes of one system are told apart by their rows, so they may differ.
    live = [
        identity
        for arm, identity in zip(arms, identities, strict=True)
        if not isinstance(arm.driver, RecordedDriver)
    ]
    if p.aa and live and any(identity != live[0] for identity in live):
        reading.refuse("aa", "the arms differ", expected="equal arms", needs=["arms"])


def _check_control(p: Protocol, reading: Reading) -> None:
    if not p.control:
        expected = f"the incumbent, one of {', '.join(p.arms)} (only an arm A needs no naming)"
        reading.missing("control", expected, "arms")
    elif p.control not in p.arms:
        _refuse_no_arm(p, reading, "control", p.control)


_CEILINGS = ("usd", "calls", "tokens", "wall_seconds")


def _check_budget(p: Protocol, reading: Reading) -> None:
    budget = p.budget
    if budget.usd is None and any(is_live(arm) for arm in p.arms.values()):
        reading.missing("budget.usd", "a ceiling: arms that are run can spend", "arms")
    if budget.unpriced == "count_calls" and budget.calls is None:
        reading.missing("budget.calls", "a ceiling of calls", "budget.unpriced")
    for name in budget.arms:
        if name not in p.arms:
            _refuse_no_arm(p, reading, f"budget.arms.{name}", name)
    for key in _CEILINGS:
        total: float | None = getattr(budget, key)
        arms = [getattr(arm, key) for arm in budget.arms.values()]
        given: list[float] = [part for part in arms if part is not None]
        if total is not None and _exact_sum(given) > Fraction(repr(total)):
            reading.refuse(
                "budget.arms",
                f"the arms' ceilings of {key} are above the total",
                expected=f"at most {total}",
                found=" + ".join(str(part) for part in given),
                needs=[f"budget.{key}"],
            )


def _exact_sum(numbers: list[float]) -> Fraction:
    """Returns the sum of the decimal numbers that were written: 0.1 + 0.2 is 0.3."""
    return sum((Fraction(repr(number)) for number in numbers), start=Fraction(0))


def _check_blinding(p: Protocol, reading: Reading) -> None:
    if p.blinding.arms and p.blinding.looks == "full":
        reading.refuse(
            "blinding.looks",
            "a full look would show the arms that are hidden",
            expected="continue_or_stop",
            found="full",
            needs=["blinding.arms"],
        )
