"""Simulated pairs as outcomes of a frozen plan, so that the pipeline itself can read them. Pure.

Leaves the pairs to `analysis/simulation.py`, and what a plan makes of them to `simulating.py`.

Rules:
- Only primary and harm endpoints of the gate comparison are simulated; each gets a score of its own
  name. Harm endpoints of which one has a type that isn't simulated are left out together.
- All replicates of a unit have the unit's value, so every reducer gives it back.
- A lost outcome has status `error`: the registered rule for that status applies.
"""

from __future__ import annotations

from array import array
from collections.abc import Iterator, Mapping
from dataclasses import replace

import msgspec
import numpy as np

from fairtrial.analysis.simulation import PairModel, SimulatedPairs, simulate_pairs
from fairtrial.ledger.events import Decision
from fairtrial.ledger.protocol import Protocol, primaries
from fairtrial.ledger.slots import STATUSES
from fairtrial.protocols.plan import Plan
from fairtrial.protocols.units import Units
from fairtrial.verdicts.boundaries import gate_of, share_of
from fairtrial.verdicts.frames import Frame, build_frame
from fairtrial.verdicts.outcomes import Outcomes, ScoreColumn, collect_decisions

__all__ = (
    "SIMULATED_TYPES",
    "decisions_of",
    "draw",
    "simulated_frame",
    "simulated_protocol",
)

SIMULATED_TYPES = ("binary", "bounded", "continuous", "cost", "win_rate", "all_pass")

_OK, _ERROR = STATUSES.index("ok") + 1, STATUSES.index("error") + 1
_FIRST_STREAM = 16


def simulated_protocol(protocol: Protocol) -> Protocol:
    """Returns a protocol that decides as this one on its gate comparison alone."""
    gate = gate_of(protocol)
    harms = [each for each in protocol.endpoints if each.role == "harm"]
    if not all(each.type in SIMULATED_TYPES for each in harms):
        harms = []
    endpoints = tuple(
        msgspec.structs.replace(endpoint, value=f"scores.{endpoint.name}")
        for endpoint in (*primaries(protocol), *harms)
    )
    return msgspec.structs.replace(
        protocol,
        endpoints=endpoints,
        analysis=msgspec.structs.replace(
            protocol.analysis,
            comparisons=(msgspec.structs.replace(gate, share=share_of(protocol, gate)),),
        ),
        decision=msgspec.structs.replace(
            protocol.decision, saving=None, harm=protocol.decision.harm if harms else None
        ),
    )


def simulated_frame(protocol: Protocol, plan: Plan, units: Units) -> Frame:
    """Returns the plan, indexed, with no outcome yet; `draw` fills it in."""
    return build_frame(protocol, plan, units, collect_decisions((), plan.slot_count))


def draw(frame: Frame, models: Mapping[str, PairModel], *, seed: int, run: int) -> Frame:
    """Returns the frame with the outcomes of one run.

    Args:
        frame: what `simulated_frame` returned.
        models: what is assumed, by endpoint; loss is that of the first.
        seed: of the simulation.
        run: number of the run, from 0.
    """
    pairs = {
        name: simulate_pairs(
            model, frame.cluster_of, seed=seed, run=run, stream=_FIRST_STREAM + place
        )
        for place, (name, model) in enumerate(models.items())
    }
    first = next(iter(pairs.values()))
    gate = frame.protocol.analysis.comparisons[0]
    control = frame.arm_of == frame.plan.arms.index(gate.control)
    treatment = frame.arm_of == frame.plan.arms.index(gate.treatment)
    lost = first.lost[frame.unit_of]
    gone = (control & (lost == 1)) | (treatment & (lost == 2)) | (lost == 3)
    status = np.where(gone, _ERROR, np.where(control | treatment, _OK, 0)).astype(np.uint8)
    given = np.where(status == _OK, 2, 0).astype(np.uint8).tobytes()
    outcomes = replace(
        frame.outcomes,
        status=bytearray(status.tobytes()),
        scores={
            name: ScoreColumn(values=_column(frame, each), given=bytearray(given))
            for name, each in pairs.items()
        },
    )
    return replace(frame, outcomes=outcomes, status=status)


def _column(frame: Frame, pairs: SimulatedPairs) -> array[float]:
    treatment = frame.plan.arms.index(frame.protocol.analysis.comparisons[0].treatment)
    values = np.where(
        frame.arm_of == treatment, pairs.treatment[frame.unit_of], pairs.control[frame.unit_of]
    )
    return array("d", values.astype(np.float64).tobytes())


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
