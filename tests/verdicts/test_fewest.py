"""The fewest lost outcomes that change a claim, against all ways in which they could have ended."""

from __future__ import annotations

import itertools
import random
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import msgspec
import numpy as np
import pytest

from fairtrial.ledger.events import Head, Verdict
from fairtrial.verdicts.conclude import conclude, detail
from fairtrial.verdicts.fewest import Show, Step, fewest_of, shown_once

HEAD = Head(size=1, root="0" * 64)
CLUSTERS, COUPLES = 12, 3
MISSING = (
    "{rules: {failed: exclude_pair, timeout: exclude_pair, limit: exclude_pair, error: "
    "exclude_pair, ungraded: exclude_pair, replay_miss: exclude_pair, invalidated: exclude_pair}, "
    "limit: 0.2}"
)
UNITS = "{file: units.csv, id: unit, cluster: cluster, label: label, twin: twin}"
ARM = (
    "{{repeats: {0}, driver: {{kind: recorded, file: o.csv, where: {{arm: {1}}}, columns: "
    "{{unit: u, replicate: r, passed: p, score: s}}}}}}"
)
ASSIGNED = "{pairing: assigned, seed: 7, assign: {by: unit, ratio: {A: 1, B: 1}, within: cluster}}"

Place = tuple[str, str, int]


@dataclass(frozen=True, kw_only=True)
class Kind:
    """One endpoint type: how it is registered, and values that an outcome of it can end with.

    Attributes:
        fields: of the endpoint.
        shift: how much higher the treatment's values are.
        seed: of values and of what is lost, chosen so that some lost outcomes tip the claim.
        open: the same two for a claim that is inconclusive and could become adopt.
        lost_in: arms that lose outcomes.
        turned: whether a value's good end follows the label of its unit.
        one_sided: the treatment is nowhere worse; then the guard of clusters that differ decides.
    """

    fields: str
    shift: float = 0.6
    seed: int = 0
    open: tuple[int, float] | None = None
    repeats: int = 1
    yes_or_no: bool = True
    lost_in: str = "AB"
    turned: bool = False
    design: str = "{pairing: paired, seed: 7}"
    better: str = "higher"
    one_sided: bool = False

    def draw(self, place: Place) -> float:
        """Returns the value of an outcome that isn't lost."""
        unit, arm, replicate = place
        if self.one_sided:
            both = random.Random(f"{self.seed}/{unit}")
            start = float(both.random() < 0.5)
            return max(start, float(both.random() < self.shift)) if arm == "B" else start
        source = random.Random(f"{self.seed}/{unit}/{arm}/{replicate}")
        shift = self.shift if arm == "B" else 0.0
        sign = (-1.0 if self.turned and unit.endswith("b") else 1.0) * (
            -1.0 if self.better == "lower" else 1.0
        )
        value = sign * (source.gauss(0.0, 1.0) + shift)
        if self.yes_or_no:
            return float(value > 0.0)
        return max(-5.0, min(5.0, value))

    def end(self, place: Place, *, best: bool) -> float:
        """Returns the worst or the best value that an outcome could have had."""
        low, high = (0.0, 1.0) if self.yes_or_no else (-5.0, 5.0)
        up = best == (self.better == "higher")
        if self.turned and place[0].endswith("b"):
            up = not up
        return high if up else low


KINDS: Mapping[str, Kind] = {
    "binary": Kind(open=(1, 0.5), fields="type: binary"),
    "binary_lower": Kind(fields="type: binary", better="lower"),
    "majority": Kind(seed=5, open=(26, 0.5), fields="type: binary, reducer: majority", repeats=3),
    "bounded": Kind(open=(8, 0.5), fields="type: bounded, bounds: [-5, 5]", yes_or_no=False),
    "bounded_mean": Kind(
        seed=1,
        open=(31, 0.5),
        fields="type: bounded, bounds: [-5, 5], reducer: mean",
        repeats=2,
        yes_or_no=False,
    ),
    "win_rate": Kind(open=(0, 0.5), fields="type: win_rate, bounds: [-5, 5]", yes_or_no=False),
    "auc": Kind(open=(6, 0.5), fields="type: auc", yes_or_no=False, turned=True),
    "within_twin_auc": Kind(
        open=(6, 0.7), fields="type: within_twin_auc", yes_or_no=False, turned=True
    ),
    "precision": Kind(seed=1, open=(6, 0.7), fields="type: precision", turned=True),
    "pass_at_k": Kind(seed=18, fields="type: pass_at_k, k: 2", repeats=3),
    "pass_hat_k": Kind(seed=31, fields="type: pass_hat_k, k: 2", repeats=3),
    "all_pass": Kind(seed=1, fields="type: all_pass", repeats=2),
    "agreement": Kind(seed=27, open=(2, 0.5), fields="type: agreement", repeats=4, lost_in="B"),
    "assigned": Kind(
        shift=0.8,
        open=(0, 0.5),
        fields="type: bounded, bounds: [-5, 5]",
        yes_or_no=False,
        design=ASSIGNED,
    ),
}


def _units() -> list[str]:
    return [
        f"u{c:03}-{t:02}{side}" for c in range(CLUSTERS) for t in range(COUPLES) for side in "ab"
    ]


def _run(bridge: Any, kind: Kind, values: Mapping[Place, float]) -> Any:
    """Returns the endpoint in the long form of a result; an outcome without a value is lost."""

    def answers(unit: str, arm: str, replicate: int) -> Any:
        value = values.get((unit, arm, replicate))
        return (
            {"status": "error"}
            if value is None
            else {
                "status": "ok",
                "scores": {"passed": value, "score": value},
            }
        )

    field = "passed" if kind.yes_or_no else "score"
    rows = [f"{u},{u[:4]},{int(u.endswith('a'))},{u[:-1]}" for u in _units()]
    arms = ", ".join(f"{name}: {ARM.format(kind.repeats, name.lower())}" for name in "AB")
    trial = bridge.trial(
        "unit,cluster,label,twin\n" + "\n".join(rows) + "\n",
        answers,
        units=UNITS,
        arms=f"{{{arms}}}",
        design=kind.design,
        missing=MISSING,
        endpoints=f"[{{name: main, role: primary, {kind.fields}, value: {field}, "
        f"better: {kind.better}}}]",
    ).run()
    body = conclude(trial.context)
    data = detail(trial.context, body, experiment="t", basis=HEAD, spend_nanousd={})
    return msgspec.json.decode(data)["comparisons"][0]["endpoints"][0], body.verdict


def _places(kind: Kind) -> list[Place]:
    numbers = range(1, kind.repeats + 1)
    return [(unit, arm, number) for unit in _units() for arm in "AB" for number in numbers]


def _lost(kind: Kind) -> list[Place]:
    """Returns lost outcomes, of which two are of one couple, one arm and, with replicates, unit."""
    source = random.Random(f"lost {kind.seed}")
    first = source.choice([place for place in _places(kind) if place[1] in kind.lost_in])
    unit, arm, number = first
    near = (
        (unit, arm, number % kind.repeats + 1)
        if kind.repeats > 1
        else (unit[:-1] + ("b" if unit.endswith("a") else "a"), arm, 1)
    )
    rest = [p for p in _places(kind) if p[1] in kind.lost_in and p[0][:-1] != unit[:-1]]
    apart = {place[0]: place for place in source.sample(rest, len(rest))}
    return [first, near, *list(apart.values())[: 2 if kind.lost_in == "B" else 4]]


def _against(kind: Kind, lost: list[Place], ends: tuple[bool, ...]) -> int:
    """Counts the outcomes that went against the treatment, of which each end says which is best."""
    if kind.fields != "type: agreement":
        return sum(best != (place[1] == "B") for place, best in zip(lost, ends, strict=True))
    # Replicates are at best alike: what counts is how many of a unit part from the rest.
    known = {p: kind.draw(p) for p in _places(kind) if p not in lost}
    found = 0
    for unit, arm in {place[:2] for place in lost}:
        own = [v for (u, a, _), v in known.items() if (u, a) == (unit, arm)]
        drawn = [float(e) for p, e in zip(lost, ends, strict=True) if p[:2] == (unit, arm)]
        majority = 1.0 if 2 * sum(own) > len(own) else 0.0
        odd = sum(value != majority for value in drawn)
        found += min(odd, len(drawn) - odd) if 2 * sum(own) == len(own) else odd
    return found


def _check(bridge: Any, kind: Kind, claim: str, way: str) -> None:
    lost = _lost(kind)
    values = {place: kind.draw(place) for place in _places(kind) if place not in lost}
    tipping = _run(bridge, kind, values)[0]["tipping"]
    lost = [place for place in lost if _is_met(bridge, kind, place)]
    assert claim == tipping["claim"]
    assert len(lost) == tipping["lost"]

    counts = []
    for ends in itertools.product((True, False), repeat=len(lost)):
        filled = {p: kind.end(p, best=best) for p, best in zip(lost, ends, strict=True)}
        _, verdict = _run(bridge, kind, values | filled)
        if verdict != claim:
            against = _against(kind, lost, ends)
            counts.append(against if way == "against" else len(lost) - against)
    (fewest,) = tipping["fewest"]
    assert (way, min(counts), True) == (fewest["way"], fewest["count"], fewest["exact"])
    assert fewest["count"] >= 2


def _is_met(bridge: Any, kind: Kind, place: Place) -> bool:
    """Returns whether the unit is in the arm: an assigned one is in one arm alone."""
    if kind.design != ASSIGNED:
        return True
    values = {each: kind.draw(each) for each in _places(kind) if each != place}
    return bool(_run(bridge, kind, values)[0]["tipping"])


@pytest.mark.slow
@pytest.mark.parametrize("name", KINDS)
def test_fewest_that_tip_a_claim_are_those_of_all_completions(bridge: Any, name: str) -> None:
    """Of all ways in which lost outcomes could have ended, the one with the fewest against counts.

    Two of them are of one couple of twins and one arm, or two replicates of one unit.
    """
    _check(bridge, KINDS[name], "adopt", "against")


@pytest.mark.slow
@pytest.mark.parametrize("name", [name for name, kind in KINDS.items() if kind.open])
def test_fewest_that_make_a_claim_are_those_of_all_completions(bridge: Any, name: str) -> None:
    """An open claim becomes adopt with so few outcomes for the treatment, and with no fewer."""
    kind = KINDS[name]
    assert kind.open is not None
    _check(bridge, replace(kind, seed=kind.open[0], shift=kind.open[1]), "inconclusive", "for")


def test_guards_are_asked_of_the_filled_in_outcomes(bridge: Any) -> None:
    """Where too few clusters differ, lost outcomes make a claim only if they make them enough."""
    guarded = Kind(fields="type: binary", seed=2, shift=0.3, one_sided=True)
    lost = _lost(guarded)
    values = {place: guarded.draw(place) for place in _places(guarded) if place not in lost}
    found = _run(bridge, guarded, values)[0]
    # The limits alone would be a claim.
    assert found["interval"]["lower"] > 0.0
    _check(bridge, guarded, "inconclusive", "for")


def _shown(weights: list[float], need: float) -> Show:
    """Returns a claim that holds while what goes against it weighs no more than `need`."""

    def show(against: Any) -> Step:
        left = need - float(np.dot(weights, against))
        word: Verdict = "adopt" if left >= 0.0 else "inconclusive"
        count = int(against.sum())
        return Step(
            against=count, treatment_worst=count, estimate=left, lower=left, upper=9.0, verdict=word
        )

    return show


def test_fewest_beyond_what_can_be_tried_says_so() -> None:
    """Of 60 equal outcomes 31 are enough, and that no fewer do it was not shown."""
    (found,) = fewest_of(
        _shown([1.0] * 60, 30.0), 60, claim="adopt", estimate=1.0, turn=1.0, size=200
    )
    assert ("against", 31, False) == (found.way, found.count, found.exact)


def test_fewest_takes_the_outcomes_that_weigh_most() -> None:
    """Three heavy outcomes at the end of the run tip what forty light ones at its start do not."""
    weights = [0.1] * 40 + [5.0] * 3
    (found,) = fewest_of(_shown(weights, 12.0), 43, claim="adopt", estimate=1.0, turn=1.0, size=9)
    assert (3, True) == (found.count, found.exact)
    assert () == fewest_of(_shown(weights, 20.0), 43, claim="adopt", estimate=1.0, turn=1.0, size=9)


@pytest.mark.parametrize("turn", [1.0, -1.0])
def test_reject_falls_by_the_outcomes_that_move_its_own_limit(turn: float) -> None:
    """A reject hangs on its better limit: what moves the other one most doesn't come first."""
    on_limit, on_other = [5.0] * 3 + [0.1] * 40, [0.0] * 3 + [9.0] * 40

    def show(against: Any) -> Step:
        better = 12.0 - float(np.dot(on_limit, against))
        worse = -99.0 - float(np.dot(on_other, against))
        lower, upper = sorted((turn * worse, turn * better))
        word: Verdict = "inconclusive" if better > 0.0 else "reject"
        count = int(against.sum())
        return Step(
            against=count, treatment_worst=0, estimate=0.0, lower=lower, upper=upper, verdict=word
        )

    (found,) = fewest_of(show, 43, claim="reject", estimate=0.0, turn=turn, size=200_000)
    assert ("for", 2) == (found.way, found.count)


def test_fewest_of_many_units_are_searched_alike_at_each_replay() -> None:
    """The number of completions that are tried follows from the number of units alone."""
    tried: list[int] = []

    def show(against: Any) -> Step:
        tried.append(1)
        return _shown([1.0] * 30, 3.0)(against)

    (found,) = fewest_of(show, 30, claim="adopt", estimate=1.0, turn=1.0, size=1_000_000)
    assert (4, False) == (found.count, found.exact)
    assert len(tried) <= 30 + 64 + 8


def test_no_completion_is_computed_twice() -> None:
    """Outcomes that were turned one by one, to order them, aren't turned again to be tried."""
    tried: list[bytes] = []

    def show(against: Any) -> Step:
        tried.append(against.tobytes())
        return _shown([1.0] * 9, 2.0)(against)

    (found,) = fewest_of(shown_once(show), 9, claim="adopt", estimate=1.0, turn=1.0, size=1_000_000)
    assert (3, True) == (found.count, found.exact)
    assert len(set(tried)) == len(tried) > 9
