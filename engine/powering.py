"""What a protocol can find, by formula and by simulation: the act behind `ledger power`.

Leaves the formula to `verdicts/look_table.py`, the simulation to `simulating.py`, and what a report
means for a freeze to `freezing.py`.

Rules:
- Nothing is written; a pilot's ledger is opened for reading.
- An effect is turned so that the treatment is better; for non-inferiority and equivalence it
  stands as it is written.
- A classical boundary is solved at the fractions where the looks really fall.
"""

from __future__ import annotations

import math
from pathlib import Path
from typing import Literal

import msgspec

from fairtrial.analysis.classical import Family, classical_boundary, haybittle_peto
from fairtrial.custody.trial import open_trial
from fairtrial.ledger.errors import RefusedError
from fairtrial.ledger.protocol import Protocol, primaries
from fairtrial.verdicts.boundaries import tests_of
from fairtrial.verdicts.look_table import look_table
from fairtrial.verdicts.power_terms import PowerTerms, lacking_assumption, power_terms
from fairtrial.verdicts.power_values import PowerReport, decision_rules
from fairtrial.verdicts.slot_values import direction

from .assuming import Assumed, assumed_by, pilot_assumption
from .concluding import context_of
from .freezing import Design, design_of
from .registering import load_protocol
from .simulated_outcomes import SIMULATED_TYPES
from .simulating import Simulation, simulate

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
    """

    v: Literal[1] = 1
    experiment: str
    formula: PowerReport
    terms: PowerTerms | None = None
    simulation: Simulation | None
    why_not: str | None = None


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
) -> PowerAnswer:
    """Returns what a protocol can find.

    Args:
        path: The protocol file.
        runs: Simulated runs per case; 0 for the formula alone.
        effect: True difference; None for the registered one.
        seed: Of the draws; None for the design's.
        pilot: A ledger whose outcomes say how differences spread.
        pilot_experiment: Which of its experiments; None when there is only one.

    Raises:
        ProtocolError: The protocol or its units aren't acceptable.
        RefusedError: The pilot can't be used, or the effect is impossible under the assumption.
    """
    loaded = load_protocol(path)
    design = design_of(loaded.protocol, loaded.path.parent)
    protocol = design.protocol
    assumed = assumed_by(protocol)
    if pilot is not None:
        assumed = _of_pilot(protocol, pilot, pilot_experiment)
    why_not = _why_not(protocol, assumed, runs)
    simulation = None
    if assumed is not None and why_not is None:
        simulation = simulate(
            protocol,
            design.plan,
            design.units,
            assumed,
            effect=_turned(protocol, protocol.power.effect if effect is None else effect),
            runs=runs,
            seed=protocol.design.seed if seed is None else seed,
        )
    return PowerAnswer(
        experiment=protocol.id,
        formula=design.power,
        terms=power_terms(protocol) if protocol.kind == "comparison" else None,
        simulation=simulation,
        why_not=why_not,
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


def _why_not(protocol: Protocol, assumed: Assumed | None, runs: int) -> str | None:
    if not runs:
        return "no run was asked for"
    others = [each.type for each in primaries(protocol) if each.type not in SIMULATED_TYPES]
    if others:
        return f"type {others[0]} is not simulated"
    if assumed is None:
        lacking = lacking_assumption(protocol)
        return f"{lacking}; write it, or name a --pilot LEDGER"
    return None


def _of_pilot(protocol: Protocol, pilot: Path, name: str | None) -> Assumed:
    with open_trial(pilot, read_only=True) as trial:
        known = trial.experiment(name)
        if known.freeze_seq is None or known.slots is None:
            raise RefusedError(
                "the pilot has no outcomes",
                where=known.name,
                expected="a frozen experiment with outcomes",
                found="no freeze",
            )
        context = context_of(trial, known, size=trial.log.head().size)
        return pilot_assumption(protocol, context)


def _turned(protocol: Protocol, effect: float | None) -> float | None:
    """Returns the true difference to simulate, treatment minus control."""
    if effect is None or decision_rules(protocol)[0] != "superiority":
        return effect
    endpoint = next(each for each in protocol.endpoints if each.role == "primary")
    return abs(effect) if direction(endpoint) == "higher" else -abs(effect)


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
