"""What is known of the error of a saving on the raw scale with skewed costs, for a plan. Pure.

Leaves what the data say to `saving_skew.py`.

Rules:
- What is known was simulated (`benchmarks/saving_errors.py`) and stands here as in the documents.
- It is told where a saving of a share is tested on the raw scale, alone or beside the log scale: a
  saving of any size is the plain difference, which nothing of control's mean is in.
"""

from __future__ import annotations

from typing import Final, Literal

import msgspec

from fairtrial.ledger.protocol import Endpoint, Protocol

from .estimates import scales_of

__all__ = ("SavingError", "SimulatedError", "saving_error", "saving_warning")

# Percent of runs that show a saving where exactly the least one is true: lowest and highest of four
# designs, by the coefficient of variation of the costs, where the difference is steady.
_MEANT: Final = 2.5
_SHOWN: Final = ((1.0, 3.7, 4.7), (2.0, 5.2, 9.7))


class SimulatedError(msgspec.Struct, frozen=True, kw_only=True):
    """Between which percentages a saving was shown that wasn't there, at a spread of the costs."""

    variation: float
    lowest: float
    highest: float


class SavingError(msgspec.Struct, frozen=True, kw_only=True):
    """What is known of the error of a saving on the raw scale with skewed costs, in percent."""

    code: Literal["skewed_saving"] = "skewed_saving"
    endpoint: str
    at_least: float
    meant: float
    simulated: tuple[SimulatedError, ...]


def saving_error(protocol: Protocol) -> SavingError | None:
    """Returns what is known of the error of a plan's saving; None where it has none like that."""
    saving = protocol.decision.saving
    if saving is None or saving.at_least <= 0.0:
        return None
    if "raw" not in scales_of(_endpoint(protocol, saving.endpoint)):
        return None
    return SavingError(
        endpoint=saving.endpoint,
        at_least=saving.at_least,
        meant=_MEANT,
        simulated=tuple(
            SimulatedError(variation=variation, lowest=lowest, highest=highest)
            for variation, lowest, highest in _SHOWN
        ),
    )


def saving_warning(known: SavingError) -> str:
    """Returns that in words, with what else could be registered."""
    first, second = known.simulated
    return (
        f"a saving of {known.endpoint} on the raw scale errs where costs are skewed and the saving"
        " does not grow with them. Simulated, exactly the least one is shown in"
        f" {first.lowest:g} to {first.highest:g} % of runs, where {known.meant:g} % are meant, if"
        f" costs vary by their mean, and in {second.lowest:g} to {second.highest:g} % if by twice"
        " that; scale: log asks for the ratio of geometric means, which expensive units don't carry"
    )


def _endpoint(protocol: Protocol, name: str) -> Endpoint:
    return next(each for each in protocol.endpoints if each.name == name)
