"""`ledger power`: text and JSON, a report that goes into the freeze, boundaries for the file."""

from __future__ import annotations

import json
import re
from itertools import pairwise

import pytest

from .conftest import BETTER, Shell

NOTHING = "{effect: none, accept: {not_assessed: a test}}"
POWER = "{effect: 0.5, target: 0.6, assume: {discordance: 0.6, icc: 0.02}}"


def planned(shell: Shell, *, at: str = "[1.0]") -> None:
    """Puts a trial with an assumption into the folder, not registered yet."""
    shell.recorded(BETTER, register=False)
    path = shell.folder / "protocol.yaml"
    text = path.read_text()
    before, _, rest = text.partition("power:\n")
    text = f"{before}power: {POWER}\n\n{rest[rest.index('budget:') :]}"
    path.write_text(text.replace("looks: {at: [1.0]}", f"looks: {{at: {at}, icc: 0.02}}"))


def test_text_says_power_error_and_where_runs_end(shell: Shell) -> None:
    """People read power at the effect, the error at the border, and how far runs go."""
    planned(shell)
    said = shell.ok("power", "--runs", "30")
    for words in ("formula", "at effect", "at border", "type-I error", "checked"):
        assert words in said.out


def test_report_goes_into_the_freeze(shell: Shell) -> None:
    """The freeze keeps the report; the same again is a no-op; an edited plan refuses it."""
    planned(shell)
    said = shell.ok("power", "--runs", "120", "--json")
    (shell.folder / "power.json").write_text(said.out)
    cases = {case["name"]: case for case in said.json["simulation"]["cases"]}
    assert {"at_effect", "at_border"} == set(cases)
    done = shell.ok("register", "--power-report", "power.json", "--json").json
    assert 120 == done["power"]["simulated"]["runs"]
    assert cases["at_effect"]["intended"] == done["power"]["simulated"]["power"]
    again = shell.ok("register", "--json").json
    assert again["receipt"] == done["receipt"]
    assert "intact" == shell.ok("replay", "--json").json["record"]


def test_report_of_another_plan_is_refused(shell: Shell) -> None:
    """A report names its protocol; another protocol doesn't take it, and nothing is recorded."""
    planned(shell)
    said = shell.ok("power", "--runs", "100", "--json")
    (shell.folder / "power.json").write_text(said.out)
    path = shell.folder / "protocol.yaml"
    path.write_text(path.read_text().replace("target: 0.6", "target: 0.61"))
    refused = shell.ledger("register", "--power-report", "power.json")
    assert 3 == refused.code
    assert "isn't one of this plan" in refused.err
    assert not (shell.folder / "ledger.db").exists()


@pytest.mark.parametrize("family", ["obrien_fleming", "pocock", "haybittle_peto"])
def test_boundary_is_accepted_as_printed(shell: Shell, family: str) -> None:
    """The printed z list can be put into the file and spends no more than alpha there."""
    planned(shell, at="[0.85, 1.0]")
    found = shell.ok("power", "--boundary", family, "--json").json
    assert 2 == len(found["boundary"])
    path = shell.folder / "protocol.yaml"
    values = json.dumps(found["boundary"])
    path.write_text(
        path.read_text().replace("at: [0.85, 1.0], ", f"at: [0.85, 1.0], boundary: {values}, ")
    )
    text = path.read_text()
    assert values in text
    shell.ok("check")
    lower = json.dumps([z - 0.01 for z in found["boundary"]])
    path.write_text(text.replace(values, lower))
    refused = shell.ledger("check")
    assert 3 == refused.code
    assert "spends more than its share of alpha" in refused.err


def test_wang_tsiatis_needs_its_delta(shell: Shell) -> None:
    """A family with a parameter asks for it; delta 0.5 is Pocock."""
    planned(shell, at="[0.85, 1.0]")
    assert 3 == shell.ledger("power", "--boundary", "wang_tsiatis").code
    words = ("power", "--boundary", "wang_tsiatis", "--delta", "0.5", "--json")
    pocock = shell.ok("power", "--boundary", "pocock", "--json").json
    assert pocock["boundary"] == shell.ok(*words).json["boundary"]


def test_nothing_assumed_nothing_simulated(shell: Shell) -> None:
    """Without an assumption the formula's table stands alone, and the text says why."""
    planned(shell)
    path = shell.folder / "protocol.yaml"
    path.write_text(path.read_text().replace(POWER, NOTHING))
    assert "nothing is assumed" in shell.ok("power").out
    assert shell.ok("power", "--json").json["simulation"] is None


def rewritten(shell: Shell, old: str, new: str) -> None:
    """Puts other words into the protocol of the folder."""
    path = shell.folder / "protocol.yaml"
    text = path.read_text()
    assert old in text, old
    path.write_text(text.replace(old, new))


@pytest.mark.parametrize(
    ("assume", "why"),
    [
        ("{discordance: 0.6}", "power.assume has discordance and no icc: icc is missing"),
        ("{icc: 0.02}", "power.assume has an icc and no spread"),
        ("{}", "nothing is assumed of the spread"),
    ],
)
def test_missing_assumption_is_named(shell: Shell, assume: str, why: str) -> None:
    """What is there isn't said to be missing, by formula or by simulation."""
    planned(shell)
    rewritten(shell, "{discordance: 0.6, icc: 0.02}", assume)
    rewritten(shell, ", icc: 0.02}", "}")
    said = shell.ok("power").out
    assert [True, True] == [why in line for line in said.splitlines() if why[:12] in line]
    assert why in shell.ok("check").out


def test_looks_at_any_time_have_no_formula_and_say_so(shell: Shell) -> None:
    """An assumption that is stated isn't said to be missing where only the formula is."""
    planned(shell)
    rewritten(shell, "looks: {at: [1.0], icc: 0.02}", "looks: {kind: anytime, method: betting}")
    rewritten(shell, "unit_weighted", "cluster_weighted")
    for words in (("check",), ("power", "--runs", "2")):
        said = shell.ok(*words).out
        assert "there is no formula for looks at any time" in said
        assert "nothing is assumed" not in said


def test_shares_of_few_runs_have_exact_limits(shell: Shell) -> None:
    """No share is said to be certain because all of a few runs agreed."""
    planned(shell)
    rewritten(shell, "effect: 0.5", "effect: 0.6")
    said = shell.ok("power", "--runs", "50")
    assert "+-" not in said.out
    case = next(line for line in said.out.splitlines() if line.startswith("at border"))
    assert ": 95 % limits, 50 runs)" in case
    assert " of runs; uses " in said.out
    found = shell.ok("power", "--runs", "50", "--json").json["simulation"]["cases"]
    for one in found:
        assert one["lower"] <= one["intended"] <= one["upper"]
        assert one["upper"] - one["lower"] > 0.07


def test_each_line_says_what_it_rests_on(shell: Shell) -> None:
    """With a pilot the formula stays that of the protocol, and says so."""
    planned(shell)
    shell.ok("register")
    shell.ok("run")
    refused = shell.ledger("power", "--runs", "2", "--pilot", "ledger.db").err
    assert "the pilot's discordance" in refused
    lines = shell.ok(
        "power", "--runs", "2", "--effect", "0.2", "--pilot", "ledger.db"
    ).out.splitlines()
    below = {line.split()[0]: after for line, after in pairwise(lines) if line[:1] != " "}
    assert "discordance 0.6, icc 0.02, lost 0.0 % (of the protocol)" in below["formula"]
    assert "(of a pilot of 24 units)" in below["simulated"]


@pytest.mark.parametrize(
    ("rule", "words", "absent"),
    [
        ("superiority", "for a difference of 50.0 points; smallest difference found", "margin"),
        ("{rule: non_inferiority, margin: 0.1}", "to show non-inferiority within 10.0 points at a "
         "true difference of 50.0 points; found with 60 %: a true difference", "smallest"),
        ("{rule: equivalence, margin: 0.9}", "to show equivalence within 90.0 points at a true "
         "difference of 50.0 points", "smallest"),
    ],
)  # fmt: skip
def test_power_is_worded_by_the_rule(shell: Shell, rule: str, words: str, absent: str) -> None:
    """A non-inferiority plan isn't said to look for a difference."""
    planned(shell)
    if rule != "superiority":
        path = shell.folder / "protocol.yaml"
        path.write_text(re.sub(r"decision: .*", f"decision: {rule}", path.read_text()))
    line = next(line for line in shell.ledger("check").out.splitlines() if line.startswith("power"))
    assert words in line
    assert absent not in line
