"""The report of `ledger power --json`, as a freeze takes it over. Pure.

Leaves the simulation to `simulating.py`, and what it does to the findings to
`verdicts/look_table.py`.

Rules:
- The report must be about this protocol and run order, and by this version's numbers.
- Only a simulation of the registered effect, with at least 100 runs a case, all of whose checked
  runs came out alike, is taken over.
- All that decides must have been simulated: every comparison, and the saving. Reports of earlier
  versions that left them out are refused.
- What was assumed is the protocol's, a pilot's or that of a file; the freeze keeps the whole report
  as a blob.
"""

from __future__ import annotations

import math
from collections.abc import Iterator

import msgspec

from fairtrial.ledger.canonical import blob_of
from fairtrial.ledger.errors import RefusedError
from fairtrial.ledger.protocol import Protocol
from fairtrial.protocols.plan import Plan
from fairtrial.verdicts.power_values import SimulatedPower

from .assumed_savings import saving_endpoint
from .simulating import is_about
from .simulation_report import Simulation

__all__ = ("RUNS_MIN", "parse_power_report")

RUNS_MIN = 100


class _File(msgspec.Struct, frozen=True, kw_only=True):
    v: int
    simulation: Simulation | None


def parse_power_report(data: bytes, protocol: Protocol, plan: Plan) -> SimulatedPower:
    """Returns what a report says of a plan.

    Raises:
        RefusedError: The bytes are no such report, or it is about another plan.
    """
    try:
        found = msgspec.json.decode(data, type=_File).simulation
    except (msgspec.MsgspecError, UnicodeError, RecursionError) as error:
        raise _refused("what `ledger power --json` prints", str(error)) from error
    if found is None:
        raise _refused("a report with a simulation", "the formula alone")
    for expected, what in _problems(found, protocol, plan):
        raise _refused(expected, what)
    _check_effect(found, protocol)
    at_effect, at_border = found.cases[:2]
    return SimulatedPower(
        report=blob_of(data),
        runs=found.runs,
        seed=found.seed,
        effect=at_effect.effect,
        power=at_effect.intended,
        type_i_error=at_border.intended,
        expected_units=at_effect.expected_units,
    )


def _problems(found: Simulation, protocol: Protocol, plan: Plan) -> Iterator[tuple[str, str]]:
    if not is_about(found, protocol, plan):
        yield "a report of this protocol and these units", f"one of other bytes ({found.protocol})"
    if found.runs < RUNS_MIN:
        yield f"at least {RUNS_MIN} runs a case", str(found.runs)
    if found.agreed != found.checked:
        yield f"{found.checked} runs that came out alike", str(found.agreed)
    lacking = _lacking(found, protocol)
    if lacking:
        yield "a simulation of all that decides", f"one without {lacking}"
    effect = protocol.power.effect
    if [case.name for case in found.cases[:2]] != ["at_effect", "at_border"] or effect is None:
        yield "a simulation of the registered effect", "no effect"


def _check_effect(found: Simulation, protocol: Protocol) -> None:
    """Refuses a report whose power isn't that at the registered effect."""
    effect, gate = protocol.power.effect, protocol.decision.gate
    simulated = found.cases[0].effect
    assert effect is not None, "the caller has checked it"
    if not math.isclose(abs(simulated), abs(effect), abs_tol=1e-12):
        again = f"without --effect, and without an effect of comparison {gate} in --assume"
        raise _refused(f"the registered effect, {effect:g}", f"{simulated:g}", again=again)


def _lacking(found: Simulation, protocol: Protocol) -> str:
    """Returns what a report leaves out of a verdict; a plan of one comparison is its gate's."""
    if len(protocol.analysis.comparisons) == 1 and saving_endpoint(protocol) is None:
        return ""
    assumed = {each.comparison: each for each in found.assumptions}
    others = [each.name for each in protocol.analysis.comparisons if each.name not in assumed]
    if others:
        return f"comparison {others[0]}"
    saved = any(each.saving is not None for each in found.assumptions)
    return "" if saved or saving_endpoint(protocol) is None else "the saving"


def _refused(expected: str, found: str, *, again: str = "") -> RefusedError:
    return RefusedError(
        "the power report isn't one of this plan",
        where="--power-report",
        expected=expected,
        found=found,
        todo="ledger power PROTOCOL --json > power.json" + (again and f", {again}"),
    )
