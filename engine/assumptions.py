"""What a simulation assumes of each comparison of a protocol, and where it is from. Pure.

Leaves single assumptions to `assuming.py` and `assumed_savings.py`, the file to
`assumptions_file.py`, and the drawing to `simulated_comparisons.py`.

Rules:
- A file of assumptions comes before a pilot, a pilot before the protocol's `power.assume`; each
  gives all that is known of one comparison's primaries, or of its saving.
- `power.assume` is of every comparison that nothing else states; it knows no saving. What no source
  states is asked for: nothing is assumed silently.
- Comparisons that share an arm share one icc, one loss and, of a saving, one level: the mean of
  what is stated, which the report shows as it was used.
- A comparison whose two arms are drawn for other comparisons follows from them: it is implied.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple, TypeVar

import msgspec

from fairtrial.ledger.errors import RefusedError
from fairtrial.ledger.protocol import Comparison, Endpoint, Protocol
from fairtrial.protocols.assigning import is_assigned
from fairtrial.verdicts.boundaries import gate_of
from fairtrial.verdicts.evaluate import AnalysisContext

from .assumed_savings import AssumedSaving, pilot_saving, saving_endpoint
from .assuming import Assumed, assumed_by, pilot_assumption
from .assumptions_file import Stated, StatedComparison, StatedSaving

__all__ = (
    "AssumedComparison",
    "Step",
    "assumptions_of",
    "for_all",
    "groups_of",
    "implied_comparisons",
)

_T = TypeVar("_T", Assumed, AssumedSaving)


class AssumedComparison(msgspec.Struct, frozen=True, kw_only=True):
    """What one comparison is drawn from.

    Attributes:
        comparison: its name.
        effect: true difference of its primaries; None: the one that the case is about.
        pairs: of its primary and harm endpoints; None where the comparison is implied by others.
        saving: of the saving's endpoint, where the protocol asks for one.
    """

    comparison: str
    effect: float | None = None
    pairs: Assumed | None
    saving: AssumedSaving | None = None


class Step(NamedTuple):
    """How one more arm is drawn, from an arm before, by a comparison."""

    comparison: Comparison
    known: str
    drawn: str


def groups_of(protocol: Protocol) -> tuple[tuple[Step, ...], ...]:
    """Returns the comparisons that hang together by their arms, the gate's own group first.

    In a group the first step draws both its arms, each other step one. A comparison of two arms
    that are drawn by then has no step.
    """
    gate = gate_of(protocol)
    left = [gate, *(each for each in protocol.analysis.comparisons if each is not gate)]
    groups: list[tuple[Step, ...]] = []
    while left:
        first = left[0]
        steps, known = [Step(first, first.control, first.treatment)], _arms(first)
        while (more := _next_step(left, known)) is not None:
            steps.append(more)
            known = known | {more.drawn}
        groups.append(tuple(steps))
        left = [each for each in left if not _arms(each) <= known]
    return tuple(groups)


def _arms(comparison: Comparison) -> frozenset[str]:
    return frozenset((comparison.control, comparison.treatment))


def _next_step(left: Sequence[Comparison], known: frozenset[str]) -> Step | None:
    for each in left:
        if len(_arms(each) & known) == 1:
            from_control = each.control in known
            ends = (each.control, each.treatment)
            return Step(each, *(ends if from_control else ends[::-1]))
    return None


def implied_comparisons(protocol: Protocol) -> frozenset[str]:
    """Returns the names of the comparisons that follow from others."""
    drawn = {step.comparison.name for group in groups_of(protocol) for step in group}
    return frozenset(each.name for each in protocol.analysis.comparisons) - drawn


def assumptions_of(
    protocol: Protocol, stated: Stated | None, pilot: AnalysisContext | None
) -> tuple[AssumedComparison, ...] | None:
    """Returns what is assumed of each comparison; None where the gate's spread isn't.

    Args:
        protocol: that is simulated.
        stated: a file of assumptions.
        pilot: outcomes of a pilot.

    Raises:
        RefusedError: Something is assumed of the gate, and not of all that decides.
    """
    files = stated.comparisons if stated is not None else {}
    drawn = [step.comparison for group in groups_of(protocol) for step in group]
    gate = gate_of(protocol)
    if _pairs_of(protocol, gate, files, pilot) is None:
        return None
    found: dict[str, AssumedComparison] = {}
    for comparison in drawn:
        pairs = _pairs_of(protocol, comparison, files, pilot)
        if pairs is None:
            raise _unstated(comparison)
        own = files.get(comparison.name)
        found[comparison.name] = AssumedComparison(
            comparison=comparison.name,
            effect=None if own is None else own.effect,
            pairs=pairs,
            saving=_saving_of(protocol, comparison, stated, pilot),
        )
    return _in_order(protocol, found)


def for_all(
    protocol: Protocol, pairs: Assumed, saving: AssumedSaving | None = None
) -> tuple[AssumedComparison, ...]:
    """Returns the same assumption of every comparison."""
    names = [step.comparison.name for group in groups_of(protocol) for step in group]
    found = {name: AssumedComparison(comparison=name, pairs=pairs, saving=saving) for name in names}
    return _in_order(protocol, found)


def _in_order(
    protocol: Protocol, found: Mapping[str, AssumedComparison]
) -> tuple[AssumedComparison, ...]:
    used = {
        each.comparison: each
        for group in groups_of(protocol)
        for each in _shared(protocol, [found[step.comparison.name] for step in group])
    }
    return tuple(
        used.get(each.name, AssumedComparison(comparison=each.name, pairs=None))
        for each in protocol.analysis.comparisons
    )


def _pairs_of(
    protocol: Protocol,
    comparison: Comparison,
    files: Mapping[str, StatedComparison],
    pilot: AnalysisContext | None,
) -> Assumed | None:
    own = files.get(comparison.name)
    if own is not None and (own.discordance is not None or own.sd is not None):
        missing = protocol.power.assume.missing if own.missing is None else own.missing
        return Assumed(
            discordance=own.discordance,
            sd=own.sd,
            icc=own.icc or 0.0,
            missing=missing or 0.0,
            source="file",
        )
    if pilot is not None:
        return pilot_assumption(protocol, pilot, comparison)
    return assumed_by(protocol)


def _unstated(comparison: Comparison) -> RefusedError:
    return RefusedError(
        "nothing is assumed of a comparison that the simulation has to draw",
        where=f"comparison {comparison.name}",
        expected="discordance or sd, and icc",
        found="nothing",
        todo=f"write power.assume, or comparisons.{comparison.name} in a file for --assume",
    )


def _saving_of(
    protocol: Protocol, comparison: Comparison, stated: Stated | None, pilot: AnalysisContext | None
) -> AssumedSaving | None:
    endpoint = saving_endpoint(protocol)
    if endpoint is None:
        return None
    if stated is not None:
        own = stated.comparisons.get(comparison.name)
        saving = own.saving if own is not None and own.saving is not None else stated.saving
        if saving is not None:
            return _stated_saving(endpoint, saving)
    if pilot is not None:
        return pilot_saving(protocol, pilot, comparison, endpoint)
    raise RefusedError(
        "the verdict asks for a saving, of which nothing is assumed",
        where=f"decision.saving, comparison {comparison.name}",
        expected=f"ratio and spread of {endpoint.name}",
        found="nothing",
        todo="state saving in a file for --assume, name a --pilot LEDGER, or ask for --runs 0",
    )


def _stated_saving(endpoint: Endpoint, saving: StatedSaving) -> AssumedSaving:
    return AssumedSaving(
        endpoint=endpoint.name,
        scale=saving.scale,
        ratio=saving.ratio,
        sd=saving.sd,
        icc=saving.icc or 0.0,
        mean=saving.level.mean,
        level_sd=saving.level.sd,
        level_icc=saving.level.icc,
        source="file",
    )


def _shared(protocol: Protocol, group: Sequence[AssumedComparison]) -> Iterator[AssumedComparison]:
    """Yields a group's assumptions with one number for what all its arms have in common."""
    if len(group) == 1:
        yield group[0]
        return
    within = ("sd",) if is_assigned(protocol) else ()
    pairs = _levelled([each.pairs for each in group if each.pairs], ("icc", "missing", *within))
    names = ("icc", "level_sd", "level_icc", *within)
    savings = _levelled([each.saving for each in group if each.saving], names)
    for place, each in enumerate(group):
        yield msgspec.structs.replace(
            each, pairs=pairs[place], saving=savings[place] if savings else None
        )


def _levelled(values: Sequence[_T], names: Sequence[str]) -> list[_T]:
    """Returns structs whose fields of these names hold their mean; None where one has none."""
    shared: dict[str, float] = {}
    for name in names:
        found = [getattr(each, name) for each in values]
        if found and None not in found:
            shared[name] = math.fsum(found) / len(found)
    return [msgspec.structs.replace(each, **shared) for each in values]
