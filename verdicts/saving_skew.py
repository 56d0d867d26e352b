"""Whether a saving on the raw scale has costs with which its test is known to err. Pure.

Leaves the growth with costs to `analysis/skewness.py`, the saving itself to `saving.py`, and what
a plan is told before any data to `saving_error.py`.

Rules:
- The growth of the deciding contrast is high from 0.4 on: `benchmarks/saving_errors.py --warned`
  prints how often that is so, and how often a saving is shown then that isn't there.
- It is shown and never touches the verdict: what decides was registered.
- Of several completions of lost outcomes the highest growth counts.
- Of units in one arm each no contrast of a unit exists: not tested, and said.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import partial
from typing import Final

from fairtrial.analysis.guarded import computed
from fairtrial.analysis.skewness import cost_growth
from fairtrial.analysis.values import Undetermined
from fairtrial.ledger.protocol import Protocol

from .arrays import pair_up
from .boundaries import tests_of
from .diagnosing import Diagnosis
from .frames import Completion, Frame, Pairs
from .readings import Reading
from .saving_error import saving_error

__all__ = ("POSITIVE_GROWTH", "saving_at", "saving_diagnoses")

POSITIVE_GROWTH: Final = 0.4
_MEASURE: Final = "growth with costs (how far expensive units save less than their share)"


def saving_diagnoses(protocol: Protocol, readings: Sequence[Reading]) -> Iterator[Diagnosis]:
    """Yields what the data of a comparison's saving say of it.

    Args:
        protocol: the registered plan.
        readings: all tests of the comparison, at its end.
    """
    if saving_error(protocol) is None:
        return
    for reading in readings:
        if reading.test.role == "saving":
            yield _diagnosed(protocol, reading.test.endpoint.name, reading.pairs)


def saving_at(frame: Frame, last: int) -> Iterator[tuple[str, Diagnosis]]:
    """Yields what the data up to a position say of each comparison's saving, by its name.

    Args:
        frame: plan and outcomes.
        last: last position that counts.
    """
    if saving_error(frame.protocol) is None:
        return
    for test in tests_of(frame.protocol):
        if test.role == "saving":
            pairs = pair_up(frame, test.comparison, test.endpoint, last=last)
            yield test.comparison.name, _diagnosed(frame.protocol, test.endpoint.name, pairs)


def _diagnosed(protocol: Protocol, name: str, pairs: Pairs) -> Diagnosis:
    found = _growth(protocol, pairs)
    if isinstance(found, Undetermined):
        return _diagnosis(f"skewed costs of {name}: {found.reason}")
    if found < POSITIVE_GROWTH:
        head = f"the test of the saving of {name} does not hang on expensive units"
        text = f"{head}: {_MEASURE} {found:.2f}, high from {POSITIVE_GROWTH:g}"
        return _diagnosis(text, value=found)
    text = (
        f"the test of the saving of {name} hangs on expensive units: {_MEASURE} {found:.2f},"
        f" high from {POSITIVE_GROWTH:g}; with such costs a saving that is not there was shown, in"
        " simulated runs, 1.4 to 4.5 times as often as is meant; scale: log would ask for the ratio"
        " of geometric means, which they don't carry"
    )
    return _diagnosis(text, value=found, positive=True)


def _diagnosis(text: str, *, value: float | None = None, positive: bool = False) -> Diagnosis:
    return Diagnosis(
        name="skewed_saving",
        effect="show",
        positive=positive,
        value=value,
        p_value=None,
        text=text,
    )


def _growth(protocol: Protocol, pairs: Pairs) -> float | Undetermined:
    saving = protocol.decision.saving
    assert saving is not None, "its endpoint is tested"
    if pairs.treated is not None:
        return Undetermined("not tested where each unit is in one arm")
    found = [computed(partial(_of, each, 1.0 - saving.at_least)) for each in pairs.completions]
    unknown = [each for each in found if isinstance(each, Undetermined)]
    if unknown or not found:
        return unknown[0] if unknown else Undetermined("no unit counts")
    return max(each for each in found if not isinstance(each, Undetermined))


def _of(completion: Completion, kept: float) -> float | Undetermined:
    contrast = completion.treatment - kept * completion.control
    return cost_growth(contrast, completion.control, completion.treatment)
