"""`ledger power` of a plan with a saving and two comparisons: from a file, and from a pilot."""

from __future__ import annotations

import pytest

from .conftest import Shell

ARM = "{{driver: {{kind: recorded, file: {0}.csv, columns: {{unit: unit, passed: ok, usd: usd}}}}}}"
PROTOCOL = f"""\
protocol: 1
id: cheaper
about: {{hypothesis: B and C are hardly worse than A and cheaper.}}
units: {{file: units.csv, id: unit, cluster: customer}}
design: {{pairing: paired, seed: 41507}}
arms: {{A: {ARM.format("a")}, B: {ARM.format("b")}, C: {ARM.format("c")}}}
endpoints:
  - {{name: ok, role: primary, type: binary, value: passed, better: higher}}
  - {{name: usd, role: secondary, type: cost, value: usd, better: lower}}
missing:
  rules: {{failed: exclude_pair, timeout: exclude_pair, limit: exclude_pair, error: exclude_pair,
    ungraded: exclude_pair, replay_miss: exclude_pair, invalidated: exclude_pair}}
  limit: 0.02
analysis: {{estimand: unit_weighted}}
decision:
  rule: non_inferiority
  margin: 0.2
  saving: {{endpoint: usd, at_least: 0.2}}
  gate: B
power: {{effect: 0.0, assume: {{discordance: 0.25, icc: 0.02}}}}
budget: {{usd: 0}}
"""
SAVING = """\
assumptions: 1
source: the invoices of October
saving: {scale: log, ratio: 0.5, sd: 0.4, icc: 0.05, level: {sd: 0.6, icc: 0.2}}
comparisons:
  C: {effect: -0.05, discordance: 0.3, icc: 0.04}
"""


@pytest.fixture
def plan(shell: Shell) -> Shell:
    """Returns a folder with a plan of 20 customers and recorded outcomes of three arms."""
    units = [(f"u{number:03}", f"c{number % 20:02}") for number in range(120)]
    (shell.folder / "units.csv").write_text(
        "unit,customer\n" + "".join(f"{unit},{customer}\n" for unit, customer in units)
    )
    for arm, (every, price) in {"a": (5, 2.0), "b": (6, 1.0), "c": (4, 1.4)}.items():
        rows = [
            f"{unit},{int(place % every > 0)},{price * (1 + place % 3 + place % every / 9):.4f}"
            for place, (unit, _) in enumerate(units)
        ]
        (shell.folder / f"{arm}.csv").write_text("unit,ok,usd\n" + "\n".join(rows) + "\n")
    (shell.folder / "protocol.yaml").write_text(PROTOCOL)
    (shell.folder / "saving.yaml").write_text(SAVING)
    return shell


@pytest.mark.slow
def test_a_saving_is_asked_for_and_taken_from_a_file(plan: Shell) -> None:
    """Without an assumption there is an error with what to do; with one the text says all of it."""
    refused = plan.ledger("power", "--runs", "2")
    assert 3 == refused.code
    assert "the verdict asks for a saving, of which nothing is assumed" in refused.err
    assert "--assume" in refused.err
    assert "formula" in plan.ok("power", "--runs", "0").out
    said = plan.ok("power", "--runs", "20", "--assume", "saving.yaml").out
    for words in (
        "of B: saving on usd: ratio 0.5, sd 0.4 on the log scale, icc 0.05, level sd 0.6, icc 0.2"
        " (of the file of assumptions)",
        "of C: true difference -5.0 points, discordance 0.3, icc 0.03, lost 0.0 %"
        " (of the file of assumptions)",
        "the file says: the invoices of October",
        "at saving true difference +0.0 points and no more saved than the least: type-I error",
        "by comparison: B ",
        "60 of 60 runs came out alike",
    ):
        assert words in said, words
    assert "the saving" not in said.partition("left out")[2].partition("\n")[0]


def test_an_assumption_that_no_case_can_draw_is_refused_before_the_first_run(plan: Shell) -> None:
    """Fewer pairs differ than the margin takes: said at once, with the size and what to do."""
    stated = SAVING.replace("C: {effect: -0.05, discordance: 0.3", "C: {discordance: 0.1")
    (plan.folder / "saving.yaml").write_text(stated)
    said = plan.ledger("power", "--runs", "1000000", "--assume", "saving.yaml")
    assert 3 == said.code
    assert "at least 0.2: a true difference of that size is simulated" in said.err
    assert "the border where a claim is an error, which is the margin" in said.err


def test_a_warning_of_several_comparisons_comes_once(plan: Shell) -> None:
    """What two comparisons can't decide at a look is one line, which says that it is of two."""
    path = plan.folder / "protocol.yaml"
    text = path.read_text().replace("decision:", "looks: {at: [0.5, 1.0], icc: 0.02}\ndecision:", 1)
    path.write_text(text)
    lines = [line for line in plan.ledger("check").out.splitlines() if "warning" in line]
    lines = [line for line in lines if "require.commit" not in line]
    assert lines[0].startswith("warning   a saving of usd on the raw scale errs where")
    assert len(lines[1:]) == len(set(lines)) - 1 == 2
    assert all(line.endswith("(of 2 comparisons)") for line in lines[1:])


@pytest.mark.slow
def test_the_report_of_a_whole_plan_goes_into_the_freeze(plan: Shell) -> None:
    """What is frozen is the power of the whole verdict, and a kept report is the same bytes."""
    words = ("power", "--assume", "saving.yaml", "--json", "--runs")
    assert plan.ok(*words, "2").out == plan.ok(*words, "2").out
    said = plan.ok(*words, "100")
    (plan.folder / "power.json").write_text(said.out)
    found = said.json["simulation"]
    assert ["at_effect", "at_border", "at_saving_border"] == [one["name"] for one in found["cases"]]
    done = plan.ok("register", "--power-report", "power.json", "--json").json
    assert found["cases"][0]["intended"] == done["power"]["simulated"]["power"]
    assert "intact" == plan.ok("replay", "--json").json["record"]


def test_a_pilot_says_what_is_saved(plan: Shell) -> None:
    """A pilot of the same arms gives ratio, spread and level of every comparison."""
    for words in (("register",), ("run",)):
        plan.ok(*words)
    said = plan.ok("power", "--runs", "2", "--pilot", "ledger.db", "--json").json["simulation"]
    by_name = {each["comparison"]: each for each in said["assumptions"]}
    assert {"B", "C"} == set(by_name)
    for each in by_name.values():
        assert ("pilot", 120, "log") == tuple(
            each["saving"][name] for name in ("source", "units", "scale")
        )
        assert "pilot" == each["pairs"]["source"]
    assert by_name["B"]["saving"]["ratio"] < by_name["C"]["saving"]["ratio"] < 1.0
    assert by_name["B"]["saving"]["level_sd"] > 0.3
    both = ("power", "--runs", "2", "--pilot", "ledger.db", "--assume", "saving.yaml", "--json")
    mixed = plan.ok(*both).json["simulation"]["assumptions"]
    sources = {each["comparison"]: each["pairs"]["source"] for each in mixed}
    assert {"B": "pilot", "C": "file"} == sources
    assert ["file", "file"] == [each["saving"]["source"] for each in mixed]


def test_a_file_that_is_wrong_is_refused_with_its_line(plan: Shell) -> None:
    """Exit code 3 for a field that is missing, and for a file that isn't there."""
    (plan.folder / "saving.yaml").write_text(SAVING.replace("sd: 0.4, ", ""))
    refused = plan.ledger("power", "--assume", "saving.yaml")
    assert 3 == refused.code
    assert "saving.yaml:3: saving.sd: the field is missing" in refused.err
    assert 3 == plan.ledger("power", "--assume", "none.yaml").code
