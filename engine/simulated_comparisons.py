"""From assumptions to what is drawn of each endpoint, in each case that is simulated. Pure.

Leaves what is assumed to `assumptions.py`, and the drawing to `simulated_outcomes.py`.

Rules:
- Comparisons that share no arm are drawn apart; those that do are drawn arm by arm.
- In a case every comparison has the same kind of truth: the effect, or the border of its rule. A
  saving has the assumed ratio, but where the case is about the border of the saving.
- Harm endpoints have no difference.
- The registered effect is in favour of the treatment where the rule is superiority; else it stands
  as written, as does the effect that a file states of one comparison.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal, TypeAlias

import msgspec

from fairtrial.analysis.simulated_arms import ArmStep, impossible_step
from fairtrial.analysis.simulation import PairModel
from fairtrial.ledger.errors import RefusedError
from fairtrial.ledger.protocol import Endpoint, Protocol
from fairtrial.verdicts.power_values import decision_rules
from fairtrial.verdicts.slot_values import direction

from .assumed_savings import AssumedSaving, saving_model
from .assuming import model_of
from .assumptions import AssumedComparison, Step, groups_of

__all__ = ("CaseName", "Drawn", "drawn_of", "true_difference")

CaseName: TypeAlias = Literal["at_effect", "at_border", "at_saving_border"]


@dataclass(frozen=True, kw_only=True, slots=True)
class Drawn:
    """One endpoint of one group of comparisons.

    Attributes:
        endpoint: its name.
        arms: of the group, in the order in which they are drawn.
        steps: how; where it is one, a pair is drawn.
        place: of the draw among all, for its stream of random words.
    """

    endpoint: str
    arms: tuple[str, ...]
    steps: tuple[ArmStep, ...]
    place: int


def drawn_of(
    protocol: Protocol,
    assumed: Sequence[AssumedComparison],
    case: CaseName,
    effect: float | None,
) -> tuple[Drawn, ...]:
    """Returns what is drawn in each run of a case.

    Args:
        protocol: as it is simulated: its endpoints are those that decide.
        assumed: of each comparison.
        case: which truth.
        effect: registered difference; None where the case is the border.

    Raises:
        RefusedError: An assumption is impossible, by itself or beside another.
    """
    by_name = {each.comparison: each for each in assumed}
    found: list[Drawn] = []
    for group in groups_of(protocol):
        for endpoint in protocol.endpoints:
            steps = _steps(protocol, group, endpoint, by_name, case=case, effect=effect)
            _check_possible(group, endpoint, steps)
            arms = (group[0].known, *(step.drawn for step in group))
            found.append(Drawn(endpoint=endpoint.name, arms=arms, steps=steps, place=len(found)))
    return tuple(found)


def true_difference(
    protocol: Protocol,
    endpoint: Endpoint,
    own: AssumedComparison,
    case: CaseName,
    effect: float | None,
) -> float:
    """Returns the true difference of a primary in a case, treatment minus control.

    Args:
        protocol: its rule.
        endpoint: the primary.
        own: what is assumed of the comparison; an effect of its own stands as it is written.
        case: which truth.
        effect: as it is registered.
    """
    if case != "at_border" and own.effect is not None:
        return own.effect
    if case == "at_border" or effect is None:
        return _border(protocol, endpoint)
    if decision_rules(protocol)[0] != "superiority":
        return effect
    return abs(effect) if direction(endpoint) == "higher" else -abs(effect)


def _border(protocol: Protocol, endpoint: Endpoint) -> float:
    """Returns the true difference at which a favourable claim of the first rule is an error."""
    margin = protocol.decision.margin or 0.0
    if endpoint.scale == "log":
        margin = math.log1p(margin)
    turn = 1.0 if direction(endpoint) == "higher" else -1.0
    return turn * margin if decision_rules(protocol)[0] == "superiority" else -turn * margin


def _steps(
    protocol: Protocol,
    group: Sequence[Step],
    endpoint: Endpoint,
    assumed: Mapping[str, AssumedComparison],
    *,
    case: CaseName,
    effect: float | None,
) -> tuple[ArmStep, ...]:
    arms = [group[0].known, *(step.drawn for step in group)]
    means: dict[str, float] = {}
    found: list[ArmStep] = []
    for step in group:
        own = assumed[step.comparison.name]
        if endpoint.role == "secondary":
            model = _saving(protocol, own, step, means, case)
        else:
            assert own.pairs is not None, "a comparison with a step is assumed by itself"
            difference = 0.0
            if endpoint.role == "primary":
                difference = true_difference(protocol, endpoint, own, case, effect)
            model = model_of(protocol, endpoint, own.pairs, difference)
        is_control = step.known == step.comparison.control
        found.append(ArmStep(known=arms.index(step.known), is_control=is_control, model=model))
    return tuple(found)


def _saving(
    protocol: Protocol,
    own: AssumedComparison,
    step: Step,
    means: dict[str, float],
    case: CaseName,
) -> PairModel:
    """Returns the model of a saving; `means` holds the mean of each arm that is drawn so far."""
    assert own.saving is not None, "a saving that decides is assumed"
    assert own.pairs is not None, "a comparison with a step is assumed by itself"
    assert protocol.decision.saving is not None, "its endpoint decides"
    at_least = protocol.decision.saving.at_least
    ratio = 1.0 - at_least if case == "at_saving_border" else own.saving.ratio
    control = _control_mean(own.saving, step, means, ratio)
    means[step.comparison.control], means[step.comparison.treatment] = control, control * ratio
    saving = own.saving
    if saving.mean is not None:
        saving = msgspec.structs.replace(saving, mean=control)
    return saving_model(protocol, saving, ratio=ratio, missing=own.pairs.missing)


def _control_mean(
    saving: AssumedSaving, step: Step, means: Mapping[str, float], ratio: float
) -> float:
    """Returns control's mean: stated where the arm is new, else what the arms before it leave."""
    known = means.get(step.known)
    if known is None:
        return 1.0 if saving.mean is None else saving.mean
    return known if step.known == step.comparison.control else known / ratio


def _check_possible(group: Sequence[Step], endpoint: Endpoint, steps: Sequence[ArmStep]) -> None:
    place = impossible_step(steps) if len(steps) > 1 else None
    if place is None:
        return
    names = ", ".join(step.comparison.name for step in group[:place])
    raise RefusedError(
        "two assumptions of one arm can't both be true",
        where=f"comparison {group[place].comparison.name}: {endpoint.name}",
        expected=f"shares that leave room beside those of {names}",
        found=f"difference {steps[place].model.effect:g}",
        todo="state comparisons in a file for --assume with smaller differences or discordances",
    )
