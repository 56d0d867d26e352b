"""An experiment of units in one arm each, typed from check to replay."""

from __future__ import annotations

import json
from collections import Counter
from hashlib import sha256

import pytest

from .conftest import Shell

PROTOCOL = """\
protocol: 1
id: assigned
about: {hypothesis: B resolves more tickets than A.}
units: {file: units.csv, id: ticket, cluster: customer}
design: {pairing: assigned, seed: 7, assign: {by: unit, ratio: {A: 1, B: 1}, within: cluster}}
arms:
  A: {driver: {kind: recorded, file: o.csv, where: {arm: A}, columns: {unit: ticket, score: s}}}
  B: {driver: {kind: recorded, file: o.csv, where: {arm: B}, columns: {unit: ticket, score: s}}}
control: A
endpoints:
  - {name: score, role: primary, type: bounded, bounds: [0, 1], value: score, better: higher}
missing:
  rules: {failed: failure, timeout: failure, limit: failure, error: exclude_pair,
    ungraded: exclude_pair, replay_miss: exclude_pair, invalidated: exclude_pair}
  limit: 0.05
analysis: {estimand: unit_weighted}
looks: {at: [0.5, 1.0], icc: 0.05}
decision: {rule: superiority}
power: {effect: 0.3, assume: {sd: 0.3, icc: 0.05}}
budget: {usd: 0}
"""


@pytest.fixture
def assigned(shell: Shell) -> Shell:
    """Returns a folder with a plan of 96 tickets of 16 customers, and outcomes in both arms."""
    units, rows = ["ticket,customer"], ["ticket,arm,s"]
    for customer in range(16):
        for place in range(6):
            ticket = f"t{customer:02}-{place}"
            units.append(f"{ticket},c{customer:02}")
            draw = int(sha256(ticket.encode()).hexdigest()[:4], 16) / 65536
            rows += [f"{ticket},A,{0.6 * draw:.4f}", f"{ticket},B,{0.6 * draw + 0.35:.4f}"]
    (shell.folder / "units.csv").write_text("\n".join(units) + "\n")
    (shell.folder / "o.csv").write_text("\n".join(rows) + "\n")
    (shell.folder / "protocol.yaml").write_text(PROTOCOL)
    return shell


@pytest.mark.slow
def test_assigned_experiment_goes_from_check_to_replay(assigned: Shell) -> None:
    """Every command says that units were assigned, and replay makes list and numbers again."""
    assert "each assigned to one arm: A 48, B 48" in assigned.ok("check").out
    assert "each assigned to one arm: A 48, B 48" in assigned.ok("register").out
    assigned.ok("run")
    look = assigned.ok("look", "--number", "1").out
    assert "48 units" in look
    assert "pairs" not in look
    said = assigned.ok("result").out
    words = "differences of means between 48 tickets assigned to B and 48 tickets assigned to A"
    assert words in said
    assert "tickets one by one within each cluster" in said
    assert "assigned tickets with an outcome: A 48 of 48, B 48 of 48" in said
    assert "ADOPT" in said
    assert "McNemar" not in said
    found = assigned.ok("replay", "--json").json
    assert (found["record"], found["verdicts"]) == ("intact", {"assigned": "adopt"})


@pytest.mark.slow
def test_each_unit_is_asked_for_in_its_own_arm_alone(assigned: Shell) -> None:
    """There is one outcome a unit, of the arm that the plan names; the other is never asked."""
    assigned.ok("register")
    assigned.ok("run")
    lines = [json.loads(line) for line in assigned.ok("log", "--json").out.splitlines()]
    events = [line["event"] for line in lines]
    decided = Counter(event["unit"] for event in events if event["kind"].startswith("decision"))
    assert set(decided.values()) == {1}


@pytest.mark.slow
def test_power_is_simulated_with_units_in_one_arm(assigned: Shell) -> None:
    """The very plan is simulated, runs from events agree, and a pilot of the same kind is read."""
    found = assigned.ok("power", "--runs", "100", "--json").json["simulation"]
    cases = {case["name"]: case["intended"] for case in found["cases"]}
    assert found["agreed"] == found["checked"]
    assert cases["at_effect"] > 0.9
    assert cases["at_border"] < 0.15
    assigned.ok("register")
    assigned.ok("run")
    plan = (assigned.folder / "protocol.yaml").read_text().replace("id: assigned", "id: next")
    (assigned.folder / "next.yaml").write_text(plan)
    said = assigned.ok("power", "next.yaml", "--pilot", "ledger.db", "--runs", "20", "--json").json
    assumed = said["simulation"]["assumed"]
    assert (assumed["source"], assumed["units"]) == ("pilot", 96)
    assert assumed["sd"] == pytest.approx(0.17, abs=0.03)
    other = plan.replace("pairing: assigned", "pairing: paired").replace(
        ", assign: {by: unit, ratio: {A: 1, B: 1}, within: cluster}", ""
    )
    (assigned.folder / "other.yaml").write_text(other)
    refused = assigned.ledger("power", "other.yaml", "--pilot", "ledger.db", "--runs", "20")
    assert refused.code == 3
    assert "the pilot's units meet other arms" in refused.err


@pytest.mark.slow
def test_thousands_of_single_units_are_checked(assigned: Shell) -> None:
    """2,200 units without clusters have more ways to be assigned than a float holds: no error."""
    tickets = [f"t{place:04}" for place in range(2200)]
    rows = [f"{ticket},{arm},{0.1 * (arm == 'B')}" for ticket in tickets for arm in "AB"]
    (assigned.folder / "units.csv").write_text("\n".join(["ticket", *tickets]) + "\n")
    (assigned.folder / "o.csv").write_text("\n".join(["ticket,arm,s", *rows]) + "\n")
    plan = PROTOCOL.replace("cluster: customer", "cluster: none").replace(", within: cluster", "")
    (assigned.folder / "protocol.yaml").write_text(plan.replace("at: [0.5, 1.0], icc: 0.05", ""))
    assert "each assigned to one arm: A 1,100, B 1,100" in assigned.ok("check").out
