"""`ledger power`: text and JSON, a report that goes into the freeze, boundaries for the file."""

from __future__ import annotations

import json

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
