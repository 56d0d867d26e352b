"""The simulated protocol is the protocol: same looks, same verdicts, and the error it promises."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from fairtrial.engine.assuming import Assumed, assumed_by, model_of, pilot_assumption
from fairtrial.engine.assumptions import for_all
from fairtrial.engine.power_file import parse_power_report
from fairtrial.engine.simulating import is_about, simulate
from fairtrial.engine.simulation_report import Simulation
from fairtrial.ledger.errors import RefusedError
from fairtrial.verdicts.look_table import power_findings

ASSUMED = Assumed(discordance=0.2, sd=None, icc=0.05, missing=0.0, source="protocol")
POWER = "{effect: 0.1, target: 0.8, assume: {discordance: 0.2, icc: 0.05}}"
TWO_LOOKS = "{at: [0.5, 1.0], icc: 0.05}"
WORST = (
    "{rules: {failed: failure, timeout: failure, limit: failure, error: worst_case, ungraded: "
    "exclude_pair, replay_miss: exclude_pair, invalidated: exclude_pair}, limit: 0.2}"
)
COST = "[{name: passed, role: primary, type: cost, value: usd, better: lower}]"
BOUNDED = (
    "[{name: passed, role: primary, type: bounded, bounds: [0, 1], value: score, better: higher, "
    "reducer: mean}]"
)
VALUES = (
    "{rules: {failed: exclude_pair, timeout: exclude_pair, limit: exclude_pair, error: "
    "exclude_pair, ungraded: exclude_pair, replay_miss: exclude_pair, invalidated: exclude_pair}, "
    "limit: 0.1}"
)


def simulated(
    bridge: Any, assumed: Assumed = ASSUMED, *, runs: int, clusters: int = 24, **options: Any
) -> Simulation:
    """Returns a simulation of a protocol over clusters of 8."""
    effect, seed = options.pop("effect", 0.1), options.pop("seed", 3)
    trial = bridge.trial(bridge.units(clusters, 8), lambda u, a, r: {}, **options)
    return simulate(
        trial.protocol,
        trial.plan,
        trial.units,
        for_all(trial.protocol, assumed),
        effect=effect,
        runs=runs,
        seed=seed,
        checked=runs,
    )


@pytest.mark.slow
@pytest.mark.parametrize(
    ("assumed", "sections"),
    [
        (ASSUMED, {"looks": TWO_LOOKS}),
        (
            msgspec.structs.replace(ASSUMED, missing=0.05),
            {
                "looks": TWO_LOOKS,
                "missing": WORST,
                "decision": "{rule: equivalence, margin: 0.17}",
                "effect": 0.0,
            },
        ),
        (
            Assumed(discordance=None, sd=0.3, icc=0.05, missing=0.03, source="protocol"),
            {"endpoints": COST, "missing": VALUES},
        ),
        (
            Assumed(discordance=None, sd=0.3, icc=0.1, missing=0.0, source="protocol"),
            {
                "endpoints": BOUNDED,
                "looks": TWO_LOOKS,
                "decision": "{rule: non_inferiority, margin: 0.1}",
                "analysis": "{estimand: cluster_weighted}",
            },
        ),
    ],
    ids=["two looks", "worst case", "cost on both scales", "cluster-weighted"],
)
def test_columns_and_events_come_out_alike(
    bridge: Any, assumed: Assumed, sections: dict[str, Any]
) -> None:
    """Each run has the same verdict, reason and look by columns as by events and a result."""
    found = simulated(bridge, assumed, runs=25, **sections)
    assert (50, 50) == (found.checked, found.agreed)
    verdicts = {word for case in found.cases for word in case.verdicts}
    assert len(verdicts) > 1, "runs that all end alike would show nothing"


@pytest.mark.slow
def test_error_and_power_are_near_the_nominal_ones(bridge: Any) -> None:
    """At no difference about 5 % of the runs claim one; at the effect power is near the formula."""
    trial = bridge.trial(bridge.units(40, 8), lambda u, a, r: {}, looks=TWO_LOOKS, power=POWER)
    assumed = assumed_by(trial.protocol)
    assert assumed is not None
    found = simulate(
        trial.protocol,
        trial.plan,
        trial.units,
        for_all(trial.protocol, assumed),
        effect=0.1,
        runs=1200,
        seed=11,
        checked=2,
    )
    at_effect, at_border = found.cases
    formula = power_findings(trial.protocol, trial.plan, trial.units).power
    assert 0.03 <= at_border.intended <= 0.065
    assert at_effect.intended == pytest.approx(formula, abs=0.06)
    assert at_effect.expected_units < at_border.expected_units <= 320
    assert sum(at_effect.stops) == pytest.approx(1.0)


def test_same_seed_same_report(bridge: Any) -> None:
    """The same arguments give the same report; another seed gives another."""
    first, second = (simulated(bridge, runs=4) for _ in range(2))
    assert first == second
    other = simulated(bridge, runs=4, seed=4)
    assert first.cases != other.cases or first.seed != other.seed


def test_too_few_clusters_never_conclude(bridge: Any) -> None:
    """The guards are part of what is simulated: five clusters give no verdict at any effect."""
    accept = "{effect: none, accept: {not_assessed: a test, no_verdict_possible: a test}}"
    found = simulated(bridge, runs=3, clusters=5, power=accept)
    assert {"inconclusive": 1.0} == found.cases[0].verdicts
    assert {"few_clusters": 1.0} == found.cases[0].reasons


WITH_HARM = (
    "[{name: passed, role: primary, type: binary, value: passed, better: higher}, "
    "{name: unsafe, role: harm, type: binary, value: scores.unsafe, better: lower}]"
)
HARM = "{rule: superiority, harm: {alpha: 0.05, margin: 0.0}}"


def test_what_is_left_out_is_said(bridge: Any) -> None:
    """A harm, a saving's cost and other models aren't simulated, and the report says so."""
    found = simulated(bridge, runs=2, endpoints=WITH_HARM, decision=HARM)
    assert ("harm itself: its endpoints are drawn without one",) == found.not_simulated
    served = simulated(bridge, runs=2, diagnostics="{served_model: inconclusive}")
    assert ("models that were not asked for",) == served.not_simulated


@pytest.mark.slow
def test_harm_gates_and_diagnostics_are_part_of_what_is_simulated(bridge: Any) -> None:
    """Without a harm some runs are rejected for it, and some diagnostics are positive by chance.

    The runs computed again from events come out alike, so both are those of a real result.
    """
    everything = "{order_effect: inconclusive, time_drift: inconclusive, informative_size: show}"
    found = simulated(
        bridge,
        runs=150,
        seed=8,
        endpoints=WITH_HARM,
        decision=HARM,
        looks=TWO_LOOKS,
        diagnostics=everything,
    )
    assert found.agreed == found.checked == 300
    at_effect, at_border = found.cases
    for case in (at_effect, at_border):
        assert 0.0 < case.reasons["harm"] < 0.08
    assert 0.0 < at_effect.reasons["diagnostic"] < 0.08
    assert at_border.intended <= at_border.verdicts.get("adopt", 0.0) + at_border.verdicts["reject"]
    plain = simulated(bridge, runs=150, seed=8, looks=TWO_LOOKS)
    assert at_effect.intended < plain.cases[0].intended


def test_effect_above_the_discordance_is_refused(bridge: Any) -> None:
    """A difference of 30 points can't come from 20 % of pairs that differ."""
    protocol = bridge.protocol()
    with pytest.raises(RefusedError, match="larger than the share"):
        model_of(protocol, protocol.endpoints[0], ASSUMED, 0.3)


def test_pilot_says_what_it_shows(bridge: Any) -> None:
    """Discordance, loss and base are counted from the pilot's pairs."""

    def answers(unit: str, arm: str, replicate: int) -> Any:
        number = int(unit[-3:])
        if number == 0 and arm == "B" and unit.startswith("u000"):
            return {"status": "error", "code": "down"}
        return bridge.outcome(1 if (number < 4) == (arm == "B") else 0)

    pilot = bridge.trial(bridge.units(4, 8), answers)
    found = pilot_assumption(pilot.protocol, pilot.context)
    assert (31, 1.0, 0.0) == (found.units, found.discordance, found.icc)
    assert found.missing == pytest.approx(1 / 32)
    assert (0.5, "pilot") == (found.base, found.source)


def test_report_leads_over_the_formula(bridge: Any) -> None:
    """A freeze takes a report of its own plan; a report of another plan is refused."""
    trial = bridge.trial(bridge.units(24, 8), lambda u, a, r: {}, power=POWER)
    found = simulated(bridge, runs=100, power=POWER)
    assert is_about(found, trial.protocol, trial.plan)
    data = msgspec.json.encode({"v": 1, "simulation": found})
    lead = parse_power_report(data, trial.protocol, trial.plan)
    report = power_findings(trial.protocol, trial.plan, trial.units, simulated=lead)
    assert lead == report.simulated
    assert (lead.power < 0.8) == ("underpowered" in report.findings)
    low = msgspec.structs.replace(lead, power=0.1)
    refused = power_findings(trial.protocol, trial.plan, trial.units, simulated=low).refused
    assert "10.0 % in 100 simulated runs" in refused["underpowered"]
    other = bridge.trial(bridge.units(25, 8), lambda u, a, r: {}, power=POWER)
    with pytest.raises(RefusedError, match="isn't one of this plan"):
        parse_power_report(data, other.protocol, other.plan)
    with pytest.raises(RefusedError, match="isn't one of this plan"):
        parse_power_report(b'{"v":1,"simulation":null}', trial.protocol, trial.plan)
