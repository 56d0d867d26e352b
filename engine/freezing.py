"""Fixes units, run order, arms, looks and rules: the freeze.

Leaves the order to `protocols/plan.py`, the look table and power to `verdicts/look_table.py`, arms
to the drivers.

Rules:
- What is frozen is what the files hold now; the protocol must be the registered one.
- A design that can't reach a verdict is refused unless the protocol accepts it with a reason.
- Blinded arms are frozen under labels (`custody/blinding.py`), all on the same terms
  (`protocols/terms.py`).
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple

import msgspec

from fairtrial.custody.blinding import blinded_arms
from fairtrial.custody.files import list_files
from fairtrial.custody.trial import Trial
from fairtrial.drivers.port import Driver, open_driver
from fairtrial.ledger.decoding import decode_json
from fairtrial.ledger.errors import ConflictError, RefusedError
from fairtrial.ledger.events import Freeze, FrozenArm
from fairtrial.ledger.given import TABLE_BYTES_MAX
from fairtrial.ledger.protocol import Protocol, asked_arms
from fairtrial.ledger.regular import read_regular
from fairtrial.ledger.state import Experiment
from fairtrial.protocols.assigning import plan_of
from fairtrial.protocols.plan import Plan, plan_lines
from fairtrial.protocols.terms import coded_looks, nominal_plan, terms_of
from fairtrial.protocols.units import Units, check_units, parse_pilot, parse_units
from fairtrial.verdicts.look_table import PowerReport, look_table, power_findings
from fairtrial.verdicts.power_values import SimulatedPower
from fairtrial.verdicts.rule_design import check_rule_units

from .power_file import parse_power_report
from .registering import rules_of
from .verifying import check_registered, protocol_path, recorded_files

__all__ = (
    "Design",
    "design_of",
    "freeze",
    "open_drivers",
    "read_units",
    "refuse_hopeless",
)


_PLAN_ANEW = (
    "more clusters or a larger effect; or accept it with a reason under power.accept"
    " (of a protocol that is registered already: then ledger amend --reason TEXT)"
)


class Design(NamedTuple):
    """Everything that follows from a protocol and its units file."""

    protocol: Protocol
    units: Units
    plan: Plan
    power: PowerReport


def read_units(protocol: Protocol, folder: Path) -> Units:
    """Reads and checks the units file of a protocol.

    Raises:
        RefusedError: The file isn't there.
        ProtocolError: It isn't acceptable.
    """
    path = folder / protocol.units.file
    if not path.is_file():
        raise RefusedError(
            "the units file isn't there",
            where="units.file",
            expected=str(path),
            found="nothing",
            todo="write it, then: ledger freeze",
        )
    units = parse_units(
        read_regular(path, bytes_max=TABLE_BYTES_MAX),
        protocol.units,
        name=protocol.units.file,
        seed=protocol.design.seed,
    )
    if protocol.units.pilot is not None:
        pilot = folder / protocol.units.pilot
        parse_pilot(
            read_regular(pilot, bytes_max=TABLE_BYTES_MAX),
            protocol.units,
            name=protocol.units.pilot,
            planned=units.ids,
        )
    return units


def design_of(protocol: Protocol, folder: Path, *, power_report: bytes | None = None) -> Design:
    """Returns units, run order, and what they mean for power.

    Args:
        protocol: The plan.
        folder: Where its files are.
        power_report: What `ledger power --json` printed, to lead over the formula.

    Raises:
        ProtocolError: Units or looks aren't acceptable.
        RefusedError: The power report is about another plan.
    """
    units = read_units(protocol, folder)
    plan = nominal_plan(protocol, plan_of(protocol, units))
    table = look_table(protocol, plan, units)
    first = {plan.units[plan.unit_of[i]] for i in range(table[0].last)}
    check_units(units, protocol.endpoints, first_look=first, name=protocol.units.file)
    if protocol.kind == "decision_rule":
        check_rule_units(units, name=protocol.units.file)
    simulated = None
    if power_report is not None:
        simulated = parse_power_report(power_report, protocol, plan)
    power = power_findings(protocol, plan, units, simulated=simulated)
    return Design(protocol, units, plan, power)


def open_drivers(protocol: Protocol, folder: Path, units: Units) -> dict[str, Driver]:
    """Opens the driver of each arm.

    Raises:
        ProtocolError: A table of outcomes isn't acceptable.
        DriverError: A driver's file can't be read.
    """
    drivers: dict[str, Driver] = {}
    for name, arm in asked_arms(protocol).items():
        assert arm.driver is not None, "check_supported refuses arms without a driver"
        drivers[name] = open_driver(
            arm.driver,
            folder=folder,
            environment=os.environ,
            units=units.ids,
            repeats=arm.repeats,
        )
    return drivers


def freeze(
    trial: Trial, known: Experiment, *, power_report: bytes | None = None
) -> tuple[Freeze, Design]:
    """Freezes a registered experiment.

    Args:
        trial: The ledger, opened for writing.
        known: The experiment.
        power_report: What `ledger power --json` printed; kept as a blob.

    Raises:
        RefusedError: It is frozen with other content, a file changed, or the design can't conclude.
        ProtocolError: A file isn't acceptable.
    """
    check_registered(trial, known, act="freeze") if known.freeze_seq is None else None
    path = protocol_path(trial, known)
    if power_report is None:
        power_report = _report_on_record(trial, known)
    design = design_of(trial.protocol(known), path.parent, power_report=power_report)
    if power_report is not None:
        trial.blobs.put(power_report)
    refuse_hopeless(known.name, design.power, registered=True)
    event = _freeze_event(trial, known, design, path)
    try:
        trial.append(event)
    except ConflictError as error:
        raise _frozen_otherwise(known, closed=trial.log.state.closed, error=error) from error
    return event, design


def _frozen_otherwise(known: Experiment, *, closed: bool, error: ConflictError) -> ConflictError:
    """Returns why the freeze on record isn't the one that would be made now."""
    since = ["amended"] * bool(known.amends)
    since += ["withdrawn"] * (known.withdrawn_seq is not None)
    since += ["concluded"] * (known.result is not None)
    since += ["its ledger closed"] * closed
    if not since:
        return error
    return ConflictError(
        f"the experiment is registered and frozen already; since then: {', '.join(since)}",
        where=known.name,
        expected=error.expected,
        found=error.found,
        todo=f"ledger status {known.name} says where it stands; a new plan needs an id of its own",
    )


def _report_on_record(trial: Trial, known: Experiment) -> bytes | None:
    """Returns the power report that a freeze has taken over already, so the same again is one."""
    frozen = trial.log.find(known.name, "freeze")
    if not isinstance(frozen, Freeze) or frozen.power is None:
        return None
    what = "the blob is no report of power"
    report = decode_json(trial.blobs.get(frozen.power), _Kept, what=what)
    return None if report.simulated is None else trial.blobs.get(report.simulated.report)


class _Kept(msgspec.Struct, frozen=True):
    simulated: SimulatedPower | None = None


def refuse_hopeless(experiment: str, power: PowerReport, *, registered: bool = False) -> None:
    """Refuses a design that falls short of its own plan.

    Args:
        experiment: Its name.
        power: What was found of it.
        registered: Whether it is on record, so that only an amendment changes it.

    Raises:
        RefusedError: It does, and the protocol doesn't accept that.
    """
    if power.refused:
        raise RefusedError(
            "this design falls short of what its plan asks for: "
            + "; ".join(power.refused.values()),
            where=f"{experiment}: power",
            expected="a design that can conclude, with the chance that power.target asks for",
            found=", ".join(power.refused),
            todo=_accepting(experiment, power) if registered else _PLAN_ANEW,
        )


def _accepting(experiment: str, power: PowerReport) -> str:
    """Returns the amendment that accepts what a registered design falls short of."""
    accepts = " ".join(f"--set power.accept.{name}=WHY" for name in power.refused)
    return (
        f"accept it, on record: ledger amend {experiment} {accepts} --reason TEXT; or edit the"
        f" protocol, then: ledger amend {experiment} --reason TEXT"
    )


def _freeze_event(trial: Trial, known: Experiment, design: Design, path: Path) -> Freeze:
    protocol, plan = design.protocol, design.plan
    folder = path.parent
    own = [entry for entry in recorded_files(trial, known) if entry.role == "protocol"]
    drivers = open_drivers(protocol, folder, design.units)
    return Freeze(
        experiment=known.name,
        units=trial.blobs.put(
            read_regular(folder / protocol.units.file, bytes_max=TABLE_BYTES_MAX)
        ),
        plan=trial.blobs.put(plan_lines(plan_of(protocol, design.units))),
        files=trial.put_json([*own, *list_files(protocol, folder, file=str(path))]),
        unit_count=len(design.units.ids),
        cluster_count=plan.cluster_count,
        slot_count=plan.slot_count,
        arms=_frozen_arms(trial, known, protocol, drivers),
        rules=rules_of(protocol),
        looks=coded_looks(protocol, look_table(protocol, plan, design.units)),
        power=trial.put_json(design.power),
    )


def _frozen_arms(
    trial: Trial, known: Experiment, protocol: Protocol, drivers: Mapping[str, Driver]
) -> tuple[FrozenArm, ...]:
    identities = {name: driver.identity() for name, driver in drivers.items()}
    if protocol.blinding.arms:
        return blinded_arms(trial, known, protocol, identities)
    terms = terms_of(protocol)
    return tuple(
        FrozenArm(name=name, identity=trial.put_json(identity), **terms[name]._asdict())
        for name, identity in identities.items()
    )
