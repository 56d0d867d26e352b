"""The job of a slot, from the registered protocol and the frozen units.

Leaves the job's form to `drivers/port.py`.

Rules:
- The seed is a function of unit and replicate, equal for all arms and attempts.
- A driver sees of a unit its id and the declared input, nothing else.
- A driver is called by its arm's own name; that events call it by a label is none of its business.
"""

from __future__ import annotations

from collections.abc import Mapping

from fairtrial.custody.blinding import names_of
from fairtrial.custody.trial import Trial
from fairtrial.drivers.port import Job, driver_seed, limits_of
from fairtrial.ledger.protocol import asked_arms
from fairtrial.ledger.sections import Arm
from fairtrial.ledger.state import Experiment
from fairtrial.protocols.plan import Slot

__all__ = ("Jobs",)


class Jobs:
    """Makes the job of a slot from the registered protocol and units."""

    def __init__(self, trial: Trial, known: Experiment) -> None:
        protocol = trial.protocol(known)
        units, arms = trial.units(known), asked_arms(protocol)
        self._experiment, self._seed = known.name, protocol.design.seed
        self._names = names_of(trial, known)
        self._limits = {name: limits_of(arm.limits) for name, arm in arms.items()}
        self._config = {name: dict(_config(arm)) for name, arm in arms.items()}
        inputs = units.inputs
        self._inputs = dict(zip(units.ids, inputs, strict=True)) if inputs is not None else {}

    def job(self, slot: Slot, *, attempt: int) -> Job:
        """Returns one attempt at a slot."""
        arm = self._names[slot.arm]
        return Job(
            experiment=self._experiment,
            arm=arm,
            unit=slot.unit,
            replicate=slot.replicate,
            attempt=attempt,
            seed=driver_seed(self._seed, slot.unit, slot.replicate),
            input=self._inputs.get(slot.unit, {}),
            config=self._config[arm],
            limits=self._limits[arm],
        )


def _config(arm: Arm) -> Mapping[str, object]:
    return getattr(arm.driver, "config", {})
