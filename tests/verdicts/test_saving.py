"""A saving on the raw scale: its contrast decides, its share is shown with Fieller's limits."""

from __future__ import annotations

import json
import random
from collections.abc import Callable
from typing import Any

import msgspec
import numpy as np
import pytest

from fairtrial.analysis.paired import ClusteredMean, clustered_mean, t_interval, t_test
from fairtrial.analysis.values import Interval
from fairtrial.ledger.events import Head
from fairtrial.verbs.text_result import result_text
from fairtrial.verdicts.conclude import conclude, detail
from fairtrial.verdicts.evaluate import evaluate_look, method_of
from fairtrial.verdicts.look_table import power_findings
from fairtrial.verdicts.saving_error import SavingError
from fairtrial.verdicts.saving_skew import POSITIVE_GROWTH

HEAD = Head(size=7, root="ab" * 32)
PRIMARY = "{name: passed, role: primary, type: binary, value: passed, better: higher}"
PRICE = (
    "{name: price, role: secondary, type: %s, value: score, better: lower, scale: raw%s, "
    "missing: {failed: exclude_pair, timeout: exclude_pair, limit: exclude_pair}}"
)
RULE = "{rule: superiority, margin: 0.0, saving: {endpoint: price, at_least: %g}}"
MISSING = (
    "{rules: {failed: failure, timeout: failure, limit: failure, error: worst_case, "
    "ungraded: exclude_pair, replay_miss: exclude_pair, invalidated: exclude_pair}, limit: 0.2}"
)
ASSIGNED = "{seed: 5, pairing: assigned, assign: {by: unit, ratio: {A: 1, B: 1}, within: cluster}}"

Price = Callable[[float, random.Random], float]


def priced(
    bridge: Any,
    price: Price,
    *,
    level: Price = lambda _, rng: rng.uniform(0.5, 1.5),
    kind: str = "cost",
    bounds: str = "",
    at_least: float = 0.2,
    scale: float = 1.0,
    lost: frozenset[str] = frozenset(),
    **sections: str,
) -> Any:
    """Returns a trial whose treatment passes, at a price that follows from control's."""

    def answers(unit: str, arm: str, replicate: int) -> Any:
        if unit in lost and arm == "B":
            return {"status": "error"}
        rng = random.Random(unit)
        passed = float(rng.random() < 0.2) if arm == "A" else float(rng.random() < 0.9)
        own = level(0.0, random.Random(f"level {unit}"))
        value = own if arm == "A" else price(own, random.Random(f"price {unit}"))
        return bridge.outcome(scores={"passed": passed, "score": scale * value})

    return bridge.trial(
        sections.pop("table", bridge.units(40, 5)),
        answers,
        endpoints=f"[{PRIMARY}, {PRICE % (kind, bounds)}]",
        decision=RULE % at_least,
        **sections,
    )


def price_at(trial: Any) -> Any:
    """Returns the look's numbers of the price."""
    return evaluate_look(trial.context, 1).comparisons[0].endpoints[1]


def shown(trial: Any) -> tuple[Any, str]:
    """Returns the price in the long form, and the text of the whole result."""
    ended = trial.run()
    body = conclude(ended.context)
    spent = {"A": 0, "B": 0}
    form = json.loads(
        detail(ended.context, body, experiment="trial", basis=HEAD, spend_nanousd=spent)
    )
    return form["comparisons"][0]["endpoints"][1], result_text(form)


def contrast_of(trial: Any, kept: float) -> ClusteredMean:
    """Returns treatment - kept x control of a trial, by a plain program."""
    outcomes, plan = trial.context.outcomes, trial.context.plan
    units = [plan.units[index] for index in plan.unit_of]
    values: dict[str, dict[str, float]] = {}
    for unit, arm, value in zip(units, plan.arm_of, outcomes.scores["score"].values, strict=True):
        values.setdefault(unit, {})[plan.arms[arm]] = value
    names = sorted(values)
    found = clustered_mean(
        np.array([values[name]["B"] - kept * values[name]["A"] for name in names]),
        np.array([int(name[1:4]) for name in names]),
    )
    assert isinstance(found, ClusteredMean)
    return found


@pytest.mark.parametrize("share", [0.72, 0.78, 0.79, 0.85])
def test_contrast_decides(bridge: Any, share: float) -> None:
    """p, limit and claim are those of treatment - 0.8 x control; the limits shown agree."""
    trial = priced(bridge, lambda own, rng: own * share * rng.uniform(0.8, 1.2))
    found, plain = price_at(trial), contrast_of(trial, 0.8)
    assert {"cr2_t_saving"} == set(found.tests)
    assert found.p_value == found.tests["cr2_t_saving"] == pytest.approx(t_test(plain))
    limits = t_interval(plain, alpha=found.nominal_p)
    assert isinstance(limits, Interval)
    assert (found.crossed == "favourable") is (limits.upper < 0.0)
    saving = shown(trial)[0]["saving"]
    contrast = saving["contrast"]
    assert (contrast["lower"], contrast["upper"]) == pytest.approx((limits.lower, limits.upper))
    assert (saving["lower"] > 0.2) is (limits.upper < 0.0)
    assert saving["lower"] < saving["share"] < saving["upper"]
    assert ("fieller", None) == (saving["method"], saving["why_not"])
    assert saving["level"] == pytest.approx(0.95)


def test_the_difference_stays_what_is_shown(bridge: Any) -> None:
    """Estimate and limits of the endpoint are of the difference: p alone is of the saving."""
    trial = priced(bridge, lambda own, rng: own * 0.7 * rng.uniform(0.8, 1.2))
    found, plain = price_at(trial), contrast_of(trial, 1.0)
    limits = t_interval(plain, alpha=found.nominal_p)
    assert isinstance(limits, Interval)
    assert (found.estimate, found.lower, found.upper) == pytest.approx(
        (plain.estimate, limits.lower, limits.upper)
    )
    none = priced(bridge, lambda own, rng: own * 0.9 * rng.uniform(0.8, 1.2), at_least=0.0)
    assert price_at(none).p_value == pytest.approx(t_test(contrast_of(none, 1.0)))


def test_text_says_what_is_saved_and_within_what(bridge: Any) -> None:
    """The share with Fieller's limits, and whose p it is."""
    found, text = shown(priced(bridge, lambda own, rng: own * 0.7 * rng.uniform(0.9, 1.1)))
    saving = found["saving"]
    ends = " to ".join(f"{100 * saving[side]:.1f} %" for side in ("lower", "upper"))
    assert f"saved of the mean of A {100 * saving['share']:.1f} % ({ends}; 95 %, Fieller)" in text
    assert "CR2-t of the saving p" in text


def test_money_in_another_unit_decides_alike(bridge: Any) -> None:
    """Scaled by a power of two no bit of p or share changes; arms swapped, nothing is saved."""
    trials = [
        priced(bridge, lambda own, rng: own * 0.76 * rng.uniform(0.8, 1.2), scale=scale)
        for scale in (1.0, 1024.0)
    ]
    assert price_at(trials[0]).tests == price_at(trials[1]).tests
    one, other = (shown(trial)[0]["saving"] for trial in trials)
    assert [one[name] for name in ("share", "lower", "upper")] == [
        other[name] for name in ("share", "lower", "upper")
    ]
    dearer = priced(bridge, lambda own, rng: own / (0.5 * rng.uniform(0.8, 1.2)))
    assert "no" == price_at(dearer).crossed


def test_no_share_is_saved_of_a_mean_below_zero(bridge: Any) -> None:
    """-9 is more than -10: the contrast lies below 0, and yet nothing is saved."""
    found = priced(
        bridge,
        lambda own, rng: own + 1.0 + rng.uniform(-0.1, 0.1),
        level=lambda _, rng: rng.uniform(-11.0, -9.0),
        kind="continuous",
    )
    assert ("no", 1.0) == (price_at(found).crossed, price_at(found).p_value)
    saving, text = shown(found)
    assert saving["saving"]["contrast"]["upper"] < 0.0
    assert "control's mean is not above 0" in text


def test_a_mean_that_may_be_zero_has_no_limits_in_words(bridge: Any) -> None:
    """A level that isn't told from 0 decides nothing, unless the endpoint is a cost."""
    found = {
        kind: priced(
            bridge,
            lambda own, rng: own - 3.0 + rng.uniform(-0.1, 0.1),
            level=lambda _, rng: rng.uniform(-7.0, 8.3),
            kind=kind,
        )
        for kind in ("continuous", "cost")
    }
    numbers = {kind: price_at(trial) for kind, trial in found.items()}
    assert ("no", "favourable") == tuple(each.crossed for each in numbers.values())
    assert numbers["continuous"].p_value == numbers["continuous"].tests["control_level"] > 0.05
    for trial in found.values():
        saving, text = shown(trial)
        assert (None, None) == (saving["saving"]["lower"], saving["saving"]["upper"])
        assert "shares without end fit these values" in text


@pytest.mark.parametrize(("share", "crossed"), [(0.6, "favourable"), (0.8, "no")])
def test_units_in_one_arm_save_by_the_contrast_of_arms(
    bridge: Any, share: float, crossed: str
) -> None:
    """Each unit has one price: the difference of means with control's at four fifths."""
    trial = priced(bridge, lambda own, rng: own * share * rng.uniform(0.8, 1.2), design=ASSIGNED)
    found = price_at(trial)
    assert (crossed, {"cr2_t_saving"}) == (found.crossed, set(found.tests))
    saving = shown(trial)[0]["saving"]
    assert (saving["lower"] > 0.2) is (crossed == "favourable")


@pytest.mark.slow
def test_lost_prices_count_on_both_sides_of_the_contrast(bridge: Any) -> None:
    """Filled in at both ends, the saving must hold for either; the walk between says where."""
    found = {
        count: shown(
            priced(
                bridge,
                lambda own, rng: own * 0.3 * rng.uniform(0.9, 1.1),
                kind="continuous",
                bounds=", bounds: [0, 4]",
                missing=MISSING,
                table=bridge.units(16, 2),
                lost=frozenset(f"u{place:03}-000" for place in range(count)),
            )
        )[0]
        for count in (0, 1, 6)
    }
    widths = [each["saving"]["upper"] - each["saving"]["lower"] for each in found.values()]
    assert sorted(widths) == widths
    assert [True, True, False] == [each["saving"]["lower"] > 0.2 for each in found.values()]
    assert [True, True, False] == [each["tests"]["cr2_t_saving"]["p_value"] < 0.05
                                   for each in found.values()]  # fmt: skip
    walked = found[6]["tipping"]
    assert ("adopt", "inconclusive") == (
        walked["steps"][0]["verdict"],
        walked["steps"][-1]["verdict"],
    )
    assert found[1]["bounds"]["claim_holds"]
    assert found[6]["bounds"]["upper"] == max(step["upper"] for step in walked["steps"])


def test_name_of_the_numbers_says_that_control_is_estimated(bridge: Any) -> None:
    """Version 2 where a saving is tested on the raw scale; every other plan keeps version 1."""
    raw = priced(bridge, lambda own, rng: own * rng.uniform(0.6, 0.7))
    assert "fairtrial-numbers/2" == evaluate_look(raw.context, 1).method
    assert "fairtrial-numbers/2" == conclude(raw.run().context).method
    log = bridge.protocol(
        endpoints=f"[{PRIMARY}, {(PRICE % ('cost', '')).replace('raw', 'log')}]",
        decision=RULE % 0.2,
    )
    beside = bridge.protocol(endpoints=f"[{PRIMARY}, {PRICE % ('cost', '')}]")
    assert ["fairtrial-numbers/1"] * 2 == [method_of(each) for each in (log, beside)]


def steady(own: float, rng: random.Random) -> float:
    """Every unit saves the same amount, but for a little."""
    return own - 0.3 + rng.uniform(-0.02, 0.02)


def in_proportion(own: float, rng: random.Random) -> float:
    """Every unit saves its share."""
    return own * rng.uniform(0.4, 0.8)


def skewed(_: float, rng: random.Random) -> float:
    """A few units are very dear."""
    return 0.5 + rng.lognormvariate(-0.5, 1.0)


def diagnosed(trial: Any) -> tuple[list[Any], str]:
    """Returns what was looked at for a saving, and the text of the whole result."""
    ended = trial.run()
    body = conclude(ended.context)
    told: Any = {"experiment": "trial", "basis": HEAD, "spend_nanousd": {"A": 0, "B": 0}}
    form = json.loads(detail(ended.context, body, **told))
    (comparison,) = form["comparisons"]
    found = [one for one in comparison["diagnostics"] if one["name"] == "skewed_saving"]
    assert found == comparison["diagnostics"][len(comparison["diagnostics"]) - len(found) :]
    return found, result_text(form)


def test_saving_that_hangs_on_dear_units_is_said(bridge: Any) -> None:
    """The growth with its text, before the verdict, which it doesn't touch."""
    trial = priced(bridge, steady, level=skewed)
    (found,), text = diagnosed(trial)
    assert (True, "show", None) == (found["positive"], found["effect"], found["p_value"])
    assert found["value"] > POSITIVE_GROWTH
    assert f"found     skewed saving: {found['text']}"[:90] in text.replace("\n", " ")
    assert "; shown, does not touch the verdict" in text


def test_saving_in_proportion_does_not_hang_on_dear_units(bridge: Any) -> None:
    """The same costs, of which each unit saves its share."""
    (found,), text = diagnosed(priced(bridge, in_proportion, level=skewed))
    assert found["positive"] is False
    assert found["value"] < POSITIVE_GROWTH
    assert "found  " not in text
    assert "the test of the saving of price does not hang on expensive units: growth with" in text
    assert "how far expensive units save less than their share" in text
    assert "\nchecked   " in text


def test_saving_between_arms_says_that_costs_are_not_looked_at(bridge: Any) -> None:
    """No unit has a contrast of its own there."""
    (found,), _ = diagnosed(priced(bridge, steady, level=skewed, design=ASSIGNED))
    assert (False, None) == (found["positive"], found["value"])
    assert "skewed costs of price: not tested where each unit is in one arm" == found["text"]


@pytest.mark.parametrize(
    ("scale", "at_least", "count"),
    [("raw", 0.2, 1), ("both", 0.2, 1), ("log", 0.2, 0), ("raw", 0.0, 0)],
)
def test_plan_is_told_what_is_known_where_it_applies(
    bridge: Any, scale: str, at_least: float, count: int
) -> None:
    """A share on the raw scale, and nothing else, in the report of power and in words."""
    with pytest.MonkeyPatch.context() as other:
        other.setitem(globals(), "PRICE", PRICE.replace("scale: raw", f"scale: {scale}"))
        trial = priced(bridge, in_proportion, at_least=at_least)
    found, _ = diagnosed(trial)
    context = trial.context
    report = power_findings(context.protocol, context.plan, context.units)
    told = [text for text in report.warnings if text.startswith("a saving of price on the raw")]
    assert (count, count) == (len(found), len(told))
    if not count:
        assert report.saving_error is msgspec.UNSET
        return
    known = report.saving_error
    assert isinstance(known, SavingError)
    assert ("skewed_saving", "price", at_least) == (known.code, known.endpoint, known.at_least)
    assert "3.7 to 4.7 % of runs, where 2.5 % are meant" in told[0]
