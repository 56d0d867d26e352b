"""Types beyond means: AUC, precision, pass@k, pass^k, agreement, against a count by hand."""

from __future__ import annotations

import random
from dataclasses import replace
from itertools import combinations
from typing import Any

import msgspec
import numpy as np
import pytest

from fairtrial.analysis.auc import ClusteredAuc, auc_clustered_difference
from fairtrial.ledger.errors import ProtocolError
from fairtrial.ledger.events import Head, LookEndpoint
from fairtrial.verdicts.arrays import pair_up
from fairtrial.verdicts.conclude import conclude, detail
from fairtrial.verdicts.estimates import estimate
from fairtrial.verdicts.evaluate import evaluate_look, frame_of
from fairtrial.verdicts.finals import ended

HEAD = Head(size=1, root="0" * 64)

UNITS = "{file: units.csv, id: unit, cluster: cluster, label: label, twin: twin}"
EXCLUDE = (
    "{rules: {failed: exclude_pair, timeout: exclude_pair, limit: exclude_pair, error: "
    "exclude_pair, ungraded: exclude_pair, replay_miss: exclude_pair, invalidated: exclude_pair}, "
    "limit: 0.1}"
)
ARM = (
    "{{repeats: {0}, driver: {{kind: recorded, file: o.csv, where: {{arm: {1}}}, columns: "
    "{{unit: u, replicate: r, passed: p}}}}}}"
)


def endpoint_text(kind: str, value: str, extra: str = "") -> str:
    """Returns the endpoints section of one primary."""
    return f"[{{name: main, role: primary, type: {kind}, value: {value}, better: higher{extra}}}]"


def labelled(clusters: int = 14, twins: int = 6) -> str:
    """Returns units in couples of twins, one of each label."""
    rows = [
        f"u{c:03}-{t:02}{side},c{c:03},{int(side == 'a')},w{c:03}-{t:02}"
        for c in range(clusters)
        for t in range(twins)
        for side in "ab"
    ]
    return "unit,cluster,label,twin\n" + "\n".join(rows) + "\n"


def score(unit: str, arm: str) -> float:
    """Returns a score that B's arm relates to the label more than A's."""
    draw = random.Random(f"{unit}/{arm}")
    shift = {"A": 0.3, "B": 1.2}[arm] if unit.endswith("a") else 0.0
    return round(draw.gauss(shift, 1.0), 2)


def scored(bridge: Any, kind: str, **options: Any) -> Any:
    """Returns a trial whose outcomes are scores."""

    def answers(unit: str, arm: str, replicate: int) -> Any:
        return {"status": "ok", "scores": {"score": score(unit, options.get(arm, arm))}}

    sections = {"units": UNITS, "missing": EXCLUDE, "endpoints": endpoint_text(kind, "score")}
    more = {name: text for name, text in options.items() if name not in "AB"}
    return bridge.trial(labelled(), answers, **sections, **more)


def look(trial: Any) -> LookEndpoint:
    """Returns the one endpoint of the last look of a trial."""
    return evaluate_look(trial.context, 1).comparisons[0].endpoints[0]


def test_auc_is_obuchowskis_of_the_pairs(bridge: Any) -> None:
    """The look has the difference, error, df, interval and p of the analysis, by hand."""
    trial = scored(bridge, "auc")
    units = sorted(trial.plan.units)
    found, p = look(trial), trial.context.looks[0].tests[0].nominal_p
    expected = auc_clustered_difference(
        np.array([score(u, "A") for u in units]),
        np.array([score(u, "B") for u in units]),
        np.array([int(u.endswith("a")) for u in units]),
        np.array([int(u[1:4]) for u in units]),
        alpha=p,
    )
    assert isinstance(expected, ClusteredAuc)
    assert expected.estimate == pytest.approx(found.estimate, abs=1e-12)
    assert expected.p_value == pytest.approx(found.p_value, rel=1e-9)
    assert (13.0, True, "favourable") == (found.df, found.eligible, found.crossed)
    assert (expected.interval.lower, expected.interval.upper) == pytest.approx(  # type: ignore[union-attr]
        (found.lower, found.upper)
    )


def test_auc_has_a_bootstrap_beside_it(bridge: Any) -> None:
    """Where it is registered, the limits of resampled clusters stand beside Obuchowski's."""
    analysis = "{estimand: unit_weighted, also: [bootstrap], resamples: 1999}"
    trial = scored(bridge, "auc", analysis=analysis).run()
    body = conclude(trial.context)
    data = detail(trial.context, body, experiment="t", basis=HEAD, spend_nanousd={})
    shown = msgspec.json.decode(data)["comparisons"][0]["endpoints"][0]["tests"]
    found, numbers = shown["bootstrap"], body.comparisons[0].endpoints[0]
    assert numbers.difference == pytest.approx(found["estimate"], abs=1e-12)
    assert (numbers.lower, numbers.upper) == pytest.approx(
        (found["lower"], found["upper"]), abs=0.05
    )
    assert {"percentile", "bca"} == set(found["description_only"])
    assert "obuchowski_t" in shown


@pytest.mark.parametrize("kind", ["auc", "within_twin_auc"])
def test_swapped_arms_negate(bridge: Any, kind: str) -> None:
    """With the arms exchanged the difference and its limits change sign, and p stays."""
    one, other = look(scored(bridge, kind)), look(scored(bridge, kind, A="B", B="A"))
    assert one.estimate == pytest.approx(-(other.estimate or 0.0), abs=1e-12)
    assert (one.lower, one.upper) == pytest.approx((-other.upper, -other.lower), abs=1e-12)  # type: ignore[operator]
    assert one.p_value == pytest.approx(other.p_value)


def test_rising_transformation_changes_no_auc(bridge: Any) -> None:
    """An AUC knows only the order of scores."""

    def trial(turn: Any) -> Any:
        def answers(unit: str, arm: str, replicate: int) -> Any:
            return {"status": "ok", "scores": {"score": turn(score(unit, arm))}}

        return bridge.trial(
            labelled(),
            answers,
            units=UNITS,
            missing=EXCLUDE,
            endpoints=endpoint_text("auc", "score"),
        )

    assert look(trial(lambda x: x)) == look(trial(lambda x: x**3 + 5.0 * x))


def test_within_twin_auc_counts_couples(bridge: Any) -> None:
    """The value of an arm is the share of couples in which the true twin scores higher."""
    trial = scored(bridge, "within_twin_auc")
    couples = sorted({unit[:-1] for unit in trial.plan.units})
    means = {
        arm: sum((1 + np.sign(score(c + "a", arm) - score(c + "b", arm))) / 2 for c in couples)
        / len(couples)
        for arm in "AB"
    }
    found = look(trial)
    assert means["B"] - means["A"] == pytest.approx(found.estimate)
    assert len(couples) == found.n


def test_precision_is_a_jackknife_over_clusters(bridge: Any) -> None:
    """Difference and standard error agree with a loop that leaves out one cluster at a time."""

    def answers(unit: str, arm: str, replicate: int) -> Any:
        word = "yes" if score(unit, arm) > 0.4 else "no"
        return {"status": "ok", "scores": {}, "answer": word}

    trial = bridge.trial(
        labelled(),
        answers,
        units=UNITS,
        missing=EXCLUDE,
        endpoints=endpoint_text("precision", "answer", ", positive: [yes]"),
    )
    units = sorted(trial.plan.units)

    def difference(kept: list[str]) -> float:
        flags = {arm: [u for u in kept if score(u, arm) > 0.4] for arm in "AB"}
        share = {arm: sum(u.endswith("a") for u in own) / len(own) for arm, own in flags.items()}
        return share["B"] - share["A"]

    names = sorted({unit[:4] for unit in units})
    without = np.array([difference([u for u in units if u[:4] != name]) for name in names])
    error = np.sqrt((len(names) - 1) / len(names) * ((without - without.mean()) ** 2).sum())
    found = look(trial)
    assert difference(units) == pytest.approx(found.estimate)
    assert error == pytest.approx(found.standard_error)
    assert ("jackknife_t",) == tuple(found.tests)
    ((final,),) = ended(trial.run().context).finals
    flagged = [u for u in units if score(u, "A") > 0.4]
    expected = sum(u.endswith("a") for u in flagged) / len(flagged)
    assert expected == pytest.approx(final.scales[0].control)


def test_arm_without_flags_has_no_precision(bridge: Any) -> None:
    """No flag, no number: the look can't decide and says why."""
    trial = bridge.trial(
        labelled(),
        lambda u, a, r: {"status": "ok", "scores": {}, "answer": "yes" if a == "B" else "no"},
        units=UNITS,
        missing=EXCLUDE,
        endpoints=endpoint_text("precision", "answer", ", positive: [yes]"),
    )
    found = look(trial)
    assert (None, False) == (found.lower, found.eligible)
    assert "flagged nothing" in (found.undetermined or "")


def replicated(bridge: Any, kind: str, repeats: int, extra: str = "") -> Any:
    """Returns a trial with several replicates that pass or fail."""
    arms = ", ".join(f"{name}: {ARM.format(repeats, name.lower())}" for name in "AB")
    return bridge.trial(
        bridge.units(12, 5),
        lambda u, a, r: bridge.outcome(float(passes(u, a, r))),
        arms=f"{{{arms}}}",
        missing=EXCLUDE,
        endpoints=endpoint_text(kind, "passed", extra),
    )


def passes(unit: str, arm: str, replicate: int) -> bool:
    """Returns whether one replicate passes."""
    return random.Random(f"{unit}/{arm}/{replicate}").random() < {"A": 0.4, "B": 0.7}[arm]


@pytest.mark.parametrize(
    ("kind", "k", "counts"),
    [("pass_at_k", 2, any), ("pass_hat_k", 3, all), ("agreement", 2, None)],
)
def test_replicates_are_counted_over_all_choices(
    bridge: Any, kind: str, k: int, counts: Any
) -> None:
    """Each unit's value is the share of all choices of k replicates in which it holds."""
    repeats = 4
    extra = "" if kind == "agreement" else f", k: {k}"
    trial = replicated(bridge, kind, repeats, extra)

    def value(unit: str, arm: str) -> float:
        drawn = [passes(unit, arm, number) for number in range(1, repeats + 1)]
        choices = list(combinations(drawn, k))
        held = [counts(one) if counts else one[0] == one[1] for one in choices]
        return float(sum(held) / len(choices))

    units = trial.plan.units
    expected = sum(value(u, "B") - value(u, "A") for u in units) / len(units)
    found = look(trial)
    assert expected == pytest.approx(found.estimate, abs=1e-12)
    assert ("cr2_t",) == tuple(found.tests)


def test_pass_at_one_is_the_mean(bridge: Any) -> None:
    """With k of 1 pass@k and pass^k are the mean of the replicates."""
    mean = look(replicated(bridge, "bounded", 3, ", bounds: [0, 1], reducer: mean"))
    for kind in ("pass_at_k", "pass_hat_k"):
        found = look(replicated(bridge, kind, 3, ", k: 1"))
        assert (found.estimate, found.standard_error) == pytest.approx(
            (mean.estimate, mean.standard_error)
        )


@pytest.mark.parametrize("kind", ["auc", "within_twin_auc", "precision"])
def test_failure_has_no_meaning_without_the_label(bridge: Any, kind: str) -> None:
    """What the worst score or flag is depends on the label: there is no such rule."""
    missing = EXCLUDE.replace("failed: exclude_pair", "failed: failure")
    field = "passed" if kind == "precision" else "score"
    with pytest.raises(ProtocolError, match=r"no worst value|failure for type"):
        bridge.protocol(units=UNITS, missing=missing, endpoints=endpoint_text(kind, field))


WORST = EXCLUDE.replace("failed: exclude_pair", "failed: worst_case").replace("0.1}", "0.2}")


def lossy(bridge: Any, kind: str, fill: Any, missing: str = EXCLUDE) -> Any:
    """Returns a trial in which one outcome of 17 is lost, or has the value that `fill` draws."""

    def answers(unit: str, arm: str, replicate: int) -> Any:
        number = score(unit, arm)
        if random.Random(f"lost {unit}{arm}{replicate}").random() < 0.06:
            if fill is None:
                return {"status": "failed", "scores": {}}
            number = fill(unit, arm)
        if kind in ("precision", "agreement"):
            number = float(number + 0.3 * replicate > 0.6)
        return {"status": "ok", "scores": {"score": number, "passed": number}}

    field = "passed" if kind in ("precision", "agreement") else "score"
    sections = {"units": UNITS, "missing": missing, "endpoints": endpoint_text(kind, field)}
    if kind == "agreement":
        arms = ", ".join(f"{name}: {ARM.format(3, name.lower())}" for name in "AB")
        sections["arms"] = f"{{{arms}}}"
    return bridge.trial(labelled(), answers, **sections)


@pytest.mark.parametrize("kind", ["auc", "within_twin_auc", "precision", "agreement"])
def test_worst_case_is_the_hull_of_all_completions(bridge: Any, kind: str) -> None:
    """However the lost outcomes had ended, the difference lies within the hull."""
    found = look(lossy(bridge, kind, None, WORST))
    assert found.estimate is not None
    assert found.eligible, found.why_not
    trial = lossy(bridge, kind, None, WORST)
    pairs = pair_up(
        frame_of(trial.context),
        trial.protocol.analysis.comparisons[0],
        trial.protocol.endpoints[0],
        last=trial.plan.slot_count,
    )
    assert 2 == len(pairs.completions)
    ends = [numbers_of(pairs, each, trial) for each in pairs.completions]
    assert ends[0] < ends[1]
    assert (ends[0] + ends[1]) / 2.0 == pytest.approx(found.estimate, abs=1e-12)
    for seed in range(25):
        source = random.Random(seed)
        other = look(lossy(bridge, kind, lambda u, a, s=source: s.choice([-9.0, 0.0, 9.0])))
        assert ends[0] - 1e-12 <= (other.estimate or 0.0) <= ends[1] + 1e-12

    def against(unit: str, arm: str) -> float:
        up = unit.endswith("a") == (arm == "A")
        return 9.0 if up else -9.0

    if kind != "agreement":
        worst = look(lossy(bridge, kind, against))
        assert ends[0] == pytest.approx(worst.estimate, abs=1e-12)


def numbers_of(pairs: Any, completion: Any, trial: Any) -> float:
    """Returns the difference of one completion alone."""
    only = replace(pairs, completions=(completion,))
    endpoint = trial.protocol.endpoints[0]
    found = estimate(only, trial.protocol, endpoint, "raw", nominal_p=0.05).estimate
    assert found is not None
    return found


@pytest.mark.parametrize("kind", ["auc", "within_twin_auc", "precision"])
def test_a_declared_number_stands_for_a_lost_outcome(bridge: Any, kind: str) -> None:
    """With the rule `0` a lost score or flag is that number."""
    declared = look(lossy(bridge, kind, None, EXCLUDE.replace("failed: exclude_pair", "failed: 0")))
    given = look(lossy(bridge, kind, lambda unit, arm: 0.0))
    assert declared.estimate == pytest.approx(given.estimate, abs=1e-12)
    assert declared.lower == pytest.approx(given.lower, abs=1e-12)
