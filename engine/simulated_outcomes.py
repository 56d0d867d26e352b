"""Simulated arms as outcomes of a frozen plan, so that the pipeline itself can read them. Pure.

Leaves the draws to `analysis/simulation.py` and `analysis/simulated_arms.py`, what is drawn to
`simulated_comparisons.py`, and what a plan makes of it to `simulating.py`.

Rules:
- Simulated is every endpoint that decides: primaries, harm endpoints and that of the saving; each
  gets a score of its own name. Harm endpoints of which one has a type that isn't simulated are left
  out together.
- Arms that no comparison names are not run.
- All replicates of a unit have the unit's value, so every reducer gives it back.
- A lost outcome has status `error`: the registered rule for that status applies.
- A value that no run could record is refused, never reckoned with.
"""

from __future__ import annotations

from array import array
from collections.abc import Iterator, Sequence
from dataclasses import replace

import msgspec
import numpy as np

from fairtrial.analysis.grouping import FloatArray
from fairtrial.analysis.simulated_arms import SimulatedArms, simulate_arms
from fairtrial.analysis.simulation import simulate_pairs
from fairtrial.ledger.errors import RefusedError
from fairtrial.ledger.events import Decision
from fairtrial.ledger.protocol import SCORE_MAX, Protocol, primaries
from fairtrial.ledger.slots import STATUSES
from fairtrial.protocols.plan import Plan
from fairtrial.protocols.units import Units
from fairtrial.verdicts.frames import BoolArray, Frame, build_frame
from fairtrial.verdicts.outcomes import Outcomes, ScoreColumn, collect_decisions

from .assumed_savings import saving_endpoint
from .assuming import SIMULATED_TYPES
from .simulated_comparisons import Drawn

__all__ = (
    "decisions_of",
    "draw",
    "simulated_frame",
    "simulated_protocol",
)

_OK, _ERROR = STATUSES.index("ok") + 1, STATUSES.index("error") + 1
_FIRST_STREAM = 16


def simulated_protocol(protocol: Protocol) -> Protocol:
    """Returns a protocol that decides as this one on endpoints that can be drawn."""
    harms = [each for each in protocol.endpoints if each.role == "harm"]
    if not all(each.type in SIMULATED_TYPES for each in harms):
        harms = []
    saving = saving_endpoint(protocol)
    endpoints = tuple(
        msgspec.structs.replace(endpoint, value=f"scores.{endpoint.name}")
        for endpoint in (*primaries(protocol), *harms, *([] if saving is None else [saving]))
    )
    decision = msgspec.structs.replace(
        protocol.decision,
        saving=None if saving is None else protocol.decision.saving,
        harm=protocol.decision.harm if harms else None,
    )
    return msgspec.structs.replace(protocol, endpoints=endpoints, decision=decision)


def simulated_frame(protocol: Protocol, plan: Plan, units: Units) -> Frame:
    """Returns the plan, indexed, with no outcome yet; `draw` fills it in."""
    return build_frame(protocol, plan, units, collect_decisions((), plan.slot_count))


def draw(frame: Frame, drawn: Sequence[Drawn], *, seed: int, run: int) -> Frame:
    """Returns the frame with the outcomes of one run.

    Args:
        frame: what `simulated_frame` returned.
        drawn: what is drawn; loss is that of a group's first endpoint.
        seed: of the simulation.
        run: number of the run, from 0.

    Raises:
        RefusedError: A value is larger than any that an outcome can have.
    """
    count, units = len(frame.plan.arms), len(frame.plan.units)
    values = {each.endpoint: np.full((count, units), np.nan) for each in drawn}
    lost = np.zeros((count, units), dtype=np.bool_)
    met = np.zeros(count, dtype=np.bool_)
    for each in drawn:
        arms = [frame.plan.arms.index(name) for name in each.arms]
        # What overflows is refused below, in words.
        with np.errstate(over="ignore"):
            found = _arms(frame, each, seed=seed, run=run)
        _check_recordable(found.values, each.endpoint)
        values[each.endpoint][arms] = found.values
        if not met[arms].any():
            lost[arms] = found.lost
        met[arms] = True
    return _filled(frame, values, lost, met)


def _check_recordable(values: FloatArray, endpoint: str) -> None:
    largest = float(np.abs(values).max(initial=0.0))
    if not largest <= SCORE_MAX:
        raise RefusedError(
            "what is assumed draws values that no outcome can have",
            where=endpoint,
            expected=f"values of at most {SCORE_MAX:g} in size",
            found=f"{largest:g}",
            todo="assume a smaller sd: on the log scale 1 is a factor of 2.7, and 10 one of 22,000",
        )


def _arms(frame: Frame, drawn: Drawn, *, seed: int, run: int) -> SimulatedArms:
    stream, clusters = _FIRST_STREAM + drawn.place, frame.cluster_of
    first, *further = drawn.steps
    if further:
        return simulate_arms(drawn.steps, clusters, seed=seed, run=run, stream=stream)
    pairs = simulate_pairs(first.model, clusters, seed=seed, run=run, stream=stream)
    return SimulatedArms(
        values=np.stack((pairs.control, pairs.treatment)),
        lost=np.stack(((pairs.lost & 1) > 0, (pairs.lost & 2) > 0)),
    )


def _filled(frame: Frame, values: dict[str, FloatArray], lost: BoolArray, met: BoolArray) -> Frame:
    gone, run = lost[frame.arm_of, frame.unit_of], met[frame.arm_of]
    status = np.where(gone, _ERROR, np.where(run, _OK, 0)).astype(np.uint8)
    given = np.where(status == _OK, 2, 0).astype(np.uint8).tobytes()
    scores = {
        name: ScoreColumn(
            values=array("d", each[frame.arm_of, frame.unit_of].tobytes()), given=bytearray(given)
        )
        for name, each in values.items()
    }
    outcomes = replace(frame.outcomes, status=bytearray(status.tobytes()), scores=scores)
    return replace(frame, outcomes=outcomes, status=status)


def decisions_of(frame: Frame) -> Iterator[Decision]:
    """Yields the events that hold a run's outcomes, in run order."""
    outcomes: Outcomes = frame.outcomes
    for slot in frame.plan.slots():
        index = slot.position - 1
        if not outcomes.status[index]:
            continue
        yield Decision(
            experiment=frame.protocol.id,
            session=1,
            attempt=0,
            position=slot.position,
            unit=slot.unit,
            arm=slot.arm,
            replicate=slot.replicate,
            origin="live",
            status="ok" if outcomes.status[index] == _OK else "error",
            scores={
                name: column.values[index]
                for name, column in outcomes.scores.items()
                if column.given[index]
            },
        )
