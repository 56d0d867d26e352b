"""What a protocol can find, by formula and by simulation: the act behind `ledger power`.

Leaves the formula to `verdicts/look_table.py`, the simulation to `simulating.py`, what is assumed
to `assumptions.py`, and what a report means for a freeze to `freezing.py`.

Rules:
- Nothing is written; a pilot's ledger is opened for reading.
- Without a spread of the primaries there is the formula's table alone; with one, all that decides
  has to be assumed, or nothing is simulated.
- A classical boundary is solved at the fractions where the looks really fall.
"""

from __future__ import annotations

import math
from pathlib import Path
from typing import Literal

import msgspec

from fairtrial.analysis.classical import Family, classical_boundary, haybittle_peto
from fairtrial.custody.trial import open_trial
from fairtrial.ledger.errors import RefusedError, StoreError
from fairtrial.ledger.given import TABLE_BYTES_MAX, read_given
from fairtrial.ledger.opening import nearest_ledger
from fairtrial.ledger.protocol import Protocol, primaries
from fairtrial.verdicts.boundaries import tests_of
from fairtrial.verdicts.evaluate import AnalysisContext
from fairtrial.verdicts.look_table import look_table
from fairtrial.verdicts.plan_warnings import PlanWarning, plan_warnings
from fairtrial.verdicts.power_terms import PowerTerms, lacking_assumption, power_terms
from fairtrial.verdicts.power_values import PowerReport

from .assuming import SIMULATED_TYPES
from .assumptions import assumptions_of, implied_comparisons
from .assumptions_file import Stated, parse_assumptions
from .concluding import context_of
from .freezing import Design, design_of
from .registering import load_protocol, media_of
from .simulating import simulate
from .simulation_report import Simulation

__all__ = ("BoundaryAnswer", "PowerAnswer", "boundary_of", "power_of")

_CLASSICAL: dict[str, Family] = {
    "obrien_fleming": "obrien_fleming",
    "pocock": "pocock",
    "wang_tsiatis": "wang_tsiatis",
}
_INTERIM_Z = 3.0


class PowerAnswer(msgspec.Struct, frozen=True, kw_only=True):
    """What is known of a plan's power.

    Attributes:
        experiment: its id.
        formula: what `check` says; `simulation` is None where nothing is assumed.
        terms: what the formula is about; None for a decision rule.
        why_not: why nothing was simulated.
        warnings: what to know of the plan beside it.
    """

    v: Literal[1] = 1
    experiment: str
    formula: PowerReport
    terms: PowerTerms | None = None
    simulation: Simulation | None
    why_not: str | None = None
    warnings: tuple[PlanWarning, ...] = ()


class BoundaryAnswer(msgspec.Struct, frozen=True, kw_only=True):
    """A classical boundary for `looks.boundary`.

    Attributes:
        family: its name, with `delta` where it has one.
        fractions: of information, where the looks fall.
        boundary: z of each look.
        alpha: what it spends; `sides` of the test.
    """

    v: Literal[1] = 1
    experiment: str
    family: str
    delta: float | None
    fractions: tuple[float, ...]
    boundary: tuple[float, ...]
    alpha: float
    sides: int


def power_of(
    path: Path,
    *,
    runs: int,
    effect: float | None = None,
    seed: int | None = None,
    pilot: Path | None = None,
    pilot_experiment: str | None = None,
    assume: Path | None = None,
) -> PowerAnswer:
    """Returns what a protocol can find.

    Args:
        path: The protocol file.
        runs: Simulated runs per case; 0 for the formula alone.
        effect: True difference; None for the registered one.
        seed: Of the draws; None for the design's.
        pilot: A ledger whose outcomes say how differences spread.
        pilot_experiment: Which of its experiments; None when there is only one.
        assume: A file of assumptions; it comes before the pilot and the protocol.

    Raises:
        ProtocolError: The protocol, its units or the file of assumptions aren't acceptable.
        RefusedError: The pilot can't be used, nothing is assumed of what decides, or the effect is
            impossible under the assumption.
    """
    loaded = load_protocol(path)
    design = design_of(loaded.protocol, loaded.path.parent)
    protocol = design.protocol
    stated = None if assume is None else _stated(protocol, assume)
    why_not = _never(protocol, runs)
    assumed = None
    if why_not is None:
        shown = None if pilot is None else _outcomes_of(pilot, pilot_experiment)
        assumed = assumptions_of(protocol, stated, shown)
    simulation = None
    if assumed is not None:
        simulation = simulate(
            protocol,
            design.plan,
            design.units,
            assumed,
            effect=protocol.power.effect if effect is None else effect,
            runs=runs,
            seed=protocol.design.seed if seed is None else seed,
            stated=None if stated is None else stated.source,
        )
    elif why_not is None:
        lacking = lacking_assumption(protocol)
        why_not = f"{lacking}; write it, or name a --pilot LEDGER"
    return PowerAnswer(
        experiment=protocol.id,
        formula=design.power,
        terms=power_terms(protocol) if protocol.kind == "comparison" else None,
        simulation=simulation,
        why_not=why_not,
        warnings=plan_warnings(protocol),
    )


def boundary_of(path: Path, family: str, *, delta: float | None = None) -> BoundaryAnswer:
    """Returns the z list of a classical family at the looks of a protocol.

    Raises:
        ProtocolError: The protocol or its units aren't acceptable.
        RefusedError: `delta` is missing or superfluous, or two looks hold the same information.
    """
    loaded = load_protocol(path)
    protocol = _spent(loaded.protocol)
    design = design_of(protocol, loaded.path.parent)
    fractions = _fractions(protocol, design)
    sides = protocol.analysis.sides
    alpha = tests_of(protocol)[0].alpha * sides / 2.0
    if (family == "wang_tsiatis") is (delta is None):
        raise RefusedError(
            "wang_tsiatis needs a delta, its exponent"
            if delta is None
            else f"{family} has no delta: only wang_tsiatis has one",
            where=family,
            expected="--delta NUMBER, 0 to 0.5" if delta is None else "no --delta",
            found="none" if delta is None else f"{delta:g}",
        )
    if family == "haybittle_peto":
        values = haybittle_peto(_INTERIM_Z, fractions, alpha=alpha, sides=sides)
    else:
        values = classical_boundary(
            _CLASSICAL[family], fractions, alpha=alpha, sides=sides, delta=delta
        ).critical_values
    return BoundaryAnswer(
        experiment=protocol.id,
        family=family,
        delta=delta,
        fractions=fractions,
        boundary=tuple(_rounded_up(z) for z in values),
        alpha=alpha,
        sides=sides,
    )


def _rounded_up(z: float) -> float:
    # A z that is shortened downwards would spend more than alpha.
    return math.ceil(z * 1e6) / 1e6


def _never(protocol: Protocol, runs: int) -> str | None:
    """Returns why a plan isn't simulated whatever is assumed; None where it can be."""
    if not runs:
        return "no run was asked for"
    others = [each.type for each in primaries(protocol) if each.type not in SIMULATED_TYPES]
    return f"type {others[0]} is not simulated" if others else None


def _stated(protocol: Protocol, path: Path) -> Stated:
    data = read_given(
        path,
        what="the file of assumptions",
        todo="docs/protocol.md shows one",
        bytes_max=TABLE_BYTES_MAX,
    )
    return parse_assumptions(
        data,
        protocol,
        name=str(path),
        media=media_of(path),
        implied=implied_comparisons(protocol),
    )


def _outcomes_of(pilot: Path, name: str | None) -> AnalysisContext:
    if not pilot.exists():
        raise StoreError(
            "there is no ledger of a pilot",
            where=str(pilot.absolute()),
            expected="the ledger's file",
            todo=nearest_ledger(pilot) or "correct --pilot, or leave it out",
        )
    with open_trial(pilot, read_only=True) as trial:
        known = trial.experiment(name)
        if known.freeze_seq is None or known.slots is None:
            raise RefusedError(
                "the pilot has no outcomes",
                where=known.name,
                expected="a frozen experiment with outcomes",
                found="no freeze",
            )
        return context_of(trial, known, size=trial.log.head().size)


def _spent(protocol: Protocol) -> Protocol:
    """Returns the protocol without its explicit boundary, which would be checked first."""
    if protocol.looks.boundary is None:
        return protocol
    looks = msgspec.structs.replace(
        protocol.looks, boundary=None, spending="lan_demets_obrien_fleming"
    )
    return msgspec.structs.replace(protocol, looks=looks)


def _fractions(protocol: Protocol, design: Design) -> tuple[float, ...]:
    table = look_table(protocol, design.plan, design.units)
    fractions = tuple(look.tests[0].fraction for look in table)
    if len(set(fractions)) < len(fractions) or not all(fractions):
        raise RefusedError(
            "two looks hold the same information",
            where="looks.at",
            expected="rising information",
            found=", ".join(f"{each:.3f}" for each in fractions),
        )
    return fractions
