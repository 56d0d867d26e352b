"""Everything that is wrong with a plan before it is on record, at once; and what would stand.

Leaves each check to the module that knows the thing; writes nothing.

Rules:
- A fault of one part doesn't hide the faults of the others: all are reported together.
- What a freeze would refuse is a fault; what keeps only a run from beginning on this machine (an
  unset variable) is listed apart.
- The largest spend is every try at every slot at its full reservation.
"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from pathlib import Path
from typing import NamedTuple, TypeVar

import msgspec

from fairtrial.custody.files import list_files, named_files
from fairtrial.custody.git import git_file, uncommitted
from fairtrial.drivers.port import Driver, open_driver
from fairtrial.drivers.recorded import RecordedDriver
from fairtrial.ledger import sections
from fairtrial.ledger.errors import DriverError, LedgerError, Problem, ProtocolError, RefusedError
from fairtrial.ledger.protocol import Protocol, asked_arms, driver_path, is_live
from fairtrial.protocols.terms import planned_repeats, terms_of
from fairtrial.protocols.units import Units

from .freezing import Design, design_of, read_units, refuse_hopeless
from .registering import Loaded, load_protocol

__all__ = (
    "Checked",
    "GitCheck",
    "Money",
    "PlanError",
    "check_before_record",
    "check_plan",
    "freeze_refusals",
)

Value = TypeVar("Value")


class Money(msgspec.Struct, frozen=True, kw_only=True):
    """What a plan may spend; None where nothing is metered or no ceiling stands."""

    ceiling_usd: float | None
    reserved_usd: float
    reserved_with_retries_usd: float


class GitCheck(msgspec.Struct, frozen=True, kw_only=True):
    """Where git knows the protocol, and which named files aren't committed as they are."""

    commit: str
    path: str
    uncommitted: tuple[str, ...]
    required: bool


class PlanError(ProtocolError):
    """What is wrong with the files of a plan, each in its own words.

    Attributes:
        errors: One for each part that isn't acceptable.
    """

    def __init__(self, errors: tuple[LedgerError, ...], *, file: str) -> None:
        problems = [problem for error in errors for problem in _problems_of(error)]
        super().__init__(tuple(problems), file=file)
        self.errors = errors

    def __str__(self) -> str:
        return "\n".join(str(error) for error in self.errors)


class Checked(NamedTuple):
    """A plan that is acceptable.

    Attributes:
        path: The protocol file.
        design: Units, run order, looks and power.
        drivers: By arm, why a run couldn't begin here; empty where it could.
        without_row: How many slots of a recorded arm its table has no row of, where there are any.
        existing: Arms whose outcomes exist already.
        money: What the plan may spend.
        git: None outside a git work tree.
    """

    path: Path
    design: Design
    drivers: dict[str, tuple[str, ...]]
    without_row: dict[str, int]
    existing: tuple[str, ...]
    money: Money
    git: GitCheck | None


def check_plan(path: Path) -> Checked:
    """Returns what a protocol file stands for.

    Raises:
        ProtocolError: Something isn't acceptable; holds every problem found.
        RefusedError: The protocol can't be read.
    """
    return _checked(load_protocol(path))


def check_before_record(loaded: Loaded, power_report: bytes | None) -> Checked:
    """Refuses what a freeze would refuse, before anything is on record; returns what would stand.

    Raises:
        ProtocolError: Something isn't acceptable.
        RefusedError: The design is hopeless, or a file isn't there.
        DriverError: A part of a driver isn't there.
    """
    try:
        checked = _checked(loaded, power_report=power_report)
    except PlanError as error:
        raise (error.errors[0] if len(error.errors) == 1 else error) from None
    refuse_hopeless(loaded.protocol.id, checked.design.power)
    return checked


def freeze_refusals(loaded: Loaded, power_report: bytes | None) -> tuple[str, ...]:
    """Returns why a freeze would refuse a plan as it is now, a sentence each.

    Args:
        loaded: The protocol file as read.
        power_report: What `ledger power --json` printed, to lead over the formula.
    """
    try:
        design = _checked(loaded, power_report=power_report).design
    except PlanError as error:
        return tuple(f"{one.where}: {one.what}" for one in error.problems)
    except RefusedError as error:
        return (f"{error.where}: {error.what}",)
    return tuple(f"{name}: {sentence}" for name, sentence in design.power.refused.items())


def _checked(loaded: Loaded, *, power_report: bytes | None = None) -> Checked:
    """Returns what a protocol stands for.

    Args:
        loaded: The protocol file as read.
        power_report: What `ledger power --json` printed, to lead over the formula.

    Raises:
        PlanError: A freeze would refuse it; holds every problem found.
    """
    path, protocol, folder = loaded.path, loaded.protocol, loaded.path.parent
    errors: list[LedgerError] = []
    _collect(errors, lambda: list_files(protocol, folder, file=path.name))
    # A file that isn't there is missed by everyone who opens it; once is enough.
    design = (
        None
        if errors
        else _collect(errors, lambda: design_of(protocol, folder, power_report=power_report))
    )
    units = design.units if design else _collect_units(errors, protocol, folder)
    drivers = dict(_drivers(errors, protocol, folder, units)) if units is not None else {}
    if errors:
        raise PlanError(tuple(errors), file=path.name)
    assert design is not None, "a design that isn't there left an error"
    return Checked(
        path=path,
        design=design,
        drivers={name: driver.problems() for name, driver in drivers.items()},
        without_row=_without_row(design, drivers),
        existing=tuple(name for name, arm in asked_arms(protocol).items() if not is_live(arm)),
        money=_money(design),
        git=_git_check(protocol, path),
    )


def _without_row(design: Design, drivers: Mapping[str, Driver]) -> dict[str, int]:
    """Returns how many slots of each recorded arm its table has no row of."""
    plan, found = design.plan, Counter[str]()
    tables = [drivers.get(arm) for arm in plan.arms]
    if any(isinstance(table, RecordedDriver) for table in tables):
        for unit, arm, replicate in zip(plan.unit_of, plan.arm_of, plan.replicate_of, strict=True):
            table = tables[arm]
            if isinstance(table, RecordedDriver):
                found[plan.arms[arm]] += not table.has_row(plan.units[unit], replicate)
    return {arm: count for arm, count in found.items() if count}


def _collect(errors: list[LedgerError], act: Callable[[], Value]) -> Value | None:
    """Returns what an act returns; keeps the error instead of raising it."""
    try:
        return act()
    except (ProtocolError, RefusedError, DriverError) as error:
        errors.append(error)
    return None


def _collect_units(errors: list[LedgerError], protocol: Protocol, folder: Path) -> Units | None:
    """Returns the units where they are sound by themselves, whatever else is wrong."""
    if not (folder / protocol.units.file).is_file():
        return None
    before = {str(error) for error in errors}
    found: list[LedgerError] = []
    units = _collect(found, lambda: read_units(protocol, folder))
    errors += [error for error in found if str(error) not in before]
    return units


def _drivers(
    errors: list[LedgerError], protocol: Protocol, folder: Path, units: Units
) -> Iterator[tuple[str, Driver]]:
    """Yields each arm's driver, where a freeze can name its parts."""
    for name, arm in asked_arms(protocol).items():
        spec = arm.driver
        if spec is None or (
            isinstance(spec, sections.RecordedDriver) and not (folder / spec.file).exists()
        ):
            continue
        open_it = partial(
            open_driver,
            spec,
            folder=folder,
            environment=os.environ,
            units=units.ids,
            repeats=arm.repeats,
        )
        driver = _collect(errors, partial(_identified, open_it, driver_path(protocol, name)))
        if driver is not None:
            yield name, driver


def _identified(open_it: Callable[[], Driver], path: str) -> Driver:
    """Returns an arm's driver after naming its parts, as the freeze will.

    Raises:
        DriverError: A part isn't there.
    """
    driver = open_it()
    try:
        driver.identity()
    except DriverError as error:
        error.where = f"{path}: {error.where}"
        raise
    return driver


def _problems_of(error: LedgerError) -> tuple[Problem, ...]:
    if isinstance(error, ProtocolError):
        return error.problems
    parts = {name: getattr(error, name) for name in ("what", "where", "expected", "found", "todo")}
    return (Problem(**parts),)


def _money(design: Design) -> Money:
    protocol, units = design.protocol, len(design.units.ids)
    repeats = planned_repeats(protocol)
    nano = sum(terms.reserve_nanousd * repeats[name] for name, terms in terms_of(protocol).items())
    reserved = nano * units / 1e9
    return Money(
        ceiling_usd=protocol.budget.usd,
        reserved_usd=round(reserved, 9),
        reserved_with_retries_usd=round(reserved * protocol.attempts.max, 9),
    )


def _git_check(protocol: Protocol, path: Path) -> GitCheck | None:
    where = git_file(path)
    if where is None:
        return None
    named = [path, *(path.parent / name for name, _, _ in named_files(protocol))]
    changed = uncommitted([file for file in dict.fromkeys(named) if file.exists()])
    return GitCheck(
        commit=where.commit,
        path=where.path,
        uncommitted=tuple(file.relative_to(path.parent).as_posix() for file in changed),
        required=protocol.require.commit,
    )
