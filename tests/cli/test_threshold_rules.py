"""`kind: decision_rule` by the command: real measurements, the example, and tampered scores."""

from __future__ import annotations

import json
import shutil
import sqlite3
import subprocess
import sys
from pathlib import Path
from typing import Any

import msgspec
import pytest

from fairtrial.custody.trial import open_trial
from fairtrial.engine.recomputing import recompute
from fairtrial.ledger.events import Result
from fairtrial.ledger.findings import NumbersCase

from .conftest import Shell

pytestmark = pytest.mark.slow

EXAMPLES = Path(__file__).resolve().parents[2] / "examples"
DIAGNOSTIC = """\
protocol: 1
id: radius-rule
kind: decision_rule
about: {hypothesis: A large radius alone is enough to call a sample malignant.}
units: {file: units.csv, id: unit, cluster: none, label: label, fold: fold}
design: {pairing: paired, seed: 11}
scoring:
  driver: {kind: recorded, file: units.csv, columns: {unit: unit, score: worst_radius}}
  replay_only: true
  fold_role: outer
arms:
  A: {rule: {name: calibrated_block, normalise: isotonic}}
  B: {rule: {name: precision_bound_block, precision: 0.95, bound: BOUND, min_flagged: 20}}
endpoints:
  - {name: precision_of_flags, role: primary, type: precision, value: flagged, better: higher, \
target: TARGET}
  - {name: recall, role: secondary, type: binary, value: flagged, better: higher, \
where: {label: [1]}}
missing: {rules: {failed: refuse, timeout: refuse, limit: refuse, error: refuse, \
ungraded: exclude_pair, replay_miss: exclude_pair, invalidated: exclude_pair}, limit: 0.05}
analysis: {estimand: unit_weighted, alpha: 0.05}
decision: {rule: precision_bound, arm: B, bound: cluster_aware, strata: pooled}
power: {effect: none, accept: {not_assessed: capacity table}}
budget: {usd: 0}
require: {commit: false}
"""


def diagnostic(shell: Shell, *, target: str = "0.9", bound: str = "clopper_pearson") -> Any:
    """Takes the real measurements from protocol to result; returns the long form."""
    shutil.copy(EXAMPLES / "diagnostic" / "units.csv", shell.folder / "units.csv")
    text = DIAGNOSTIC.replace("TARGET", target).replace("BOUND", bound)
    (shell.folder / "protocol.yaml").write_text(text)
    shell.ok("register", "protocol.yaml")
    shell.ok("run")
    return shell.ok("result", "--json").json


def test_real_measurements_reach_a_verdict_that_replays(shell: Shell) -> None:
    """569 tumours: the radius alone is shown to be precise enough for 0.9."""
    found = diagnostic(shell)
    judged, total = found["rule"]["judged"], found["rule"]["arms"]["B"]["populations"]["all"]
    assert (found["verdict"], found["reason_code"]) == ("adopt", "bound_reached")
    assert found["existed_before"] == ["score"]
    assert found["spend_usd"] == {"score": 0.0}
    # Every sample is its own cluster, so the bound is the exact one of independent flags.
    assert judged["effective_flags"] == judged["flags"] == total["total"]["flagged"]
    assert judged["lower"] >= 0.9
    # The thresholds of a fold, found again by counting rows.
    rows = [line.split(",") for line in (shell.folder / "units.csv").read_text().split()[1:]]
    for one in found["rule"]["arms"]["B"]["thresholds"]:
        train = [row for row in rows if row[2] != one["fold"]]
        flags = [row for row in train if float(row[3]) >= one["block"]]
        assert (len(flags), len(train)) == (one["flagged"], one["training"])
        assert sum(row[1] == "1" for row in flags) == one["right"]
    held = [
        row
        for row in rows
        for one in found["rule"]["arms"]["B"]["thresholds"]
        if row[2] == one["fold"] and float(row[3]) >= one["block"]
    ]
    assert (len(held), sum(row[1] == "1" for row in held)) == (judged["flags"], judged["right"])
    replayed = shell.ok("replay", "--json").json
    assert (replayed["record"], replayed["levels"]["numbers"]) == ("intact", "ok")
    assert replayed["verdicts"] == {"radius-rule": "adopt"}


def test_a_target_above_what_the_flags_show_is_not_adopted(shell: Shell) -> None:
    """0.99 isn't shown, and what is shown doesn't contradict it either."""
    found = diagnostic(shell, target="0.97", bound="learn_then_test")
    assert found["verdict"] == "inconclusive"
    said = shell.ok("result")
    assert "INCONCLUSIVE" in said.out
    assert "target 97 %" in said.out
    verdict = said.out[said.out.index("VERDICT") :].splitlines()[0]
    assert verdict.endswith("95.8 % to 100.0 %, spans the target 97 %")


def test_gate_follows_the_judged_arm(shell: Shell) -> None:
    """`result --gate=adopt` is exit code 0 where the rule is adopted."""
    diagnostic(shell)
    assert 0 == shell.ledger("result", "--gate=adopt").code
    assert 0 != shell.ledger("result", "--gate=equivalent").code


def made_example(shell: Shell) -> None:
    """Puts the example into the folder, with the files that its program makes."""
    shutil.copytree(EXAMPLES / "block_rule", shell.folder, dirs_exist_ok=True)
    subprocess.run([sys.executable, "make_candidates.py"], cwd=shell.folder, check=True)


def test_the_example_says_what_its_readme_says(shell: Shell) -> None:
    """check, register, run, look, result, log, status and replay of the example."""
    made_example(shell)
    said = shell.ok("check", "protocol.yaml")
    assert "independent flags needed: 72 with 0 wrong" in said.out
    assert "one score each; 2 rules on the same scores" in said.out
    shell.ok("register", "protocol.yaml")
    shell.ok("run")
    assert "target 95 %: REACHED" in shell.ok("look").out
    said = shell.ok("result")
    assert "VERDICT   ADOPT" in said.out
    assert "retrospective" in said.out
    for word in ("twins, decides", "above floors", "capacity", "threshold", "independent flags"):
        assert word in said.out
    assert "adopt" in shell.ok("log").out
    assert "closed: adopt" in shell.ok("status").out
    said = shell.ok("replay")
    assert "VERDICT IN IT: adopt (precision" in said.out
    power = shell.ok("power", "protocol.yaml")
    assert "precision is not simulated" in power.out


def test_the_protocol_of_the_specification_runs_as_written(shell: Shell) -> None:
    """block-rule-004, with files of its names."""
    made_example(shell)
    source = Path(__file__).resolve().parents[1] / "protocols" / "data" / "block_rule.yaml"
    shutil.copy(source, shell.folder / "block_rule.yaml")
    shell.ok("register", "block_rule.yaml")
    shell.ok("run")
    found = shell.ok("result", "--json").json
    assert found["verdict"] in ("adopt", "inconclusive")
    assert found["rule"]["arms"]["B"]["rule"]["family_floor"] == 20
    assert set(found["rule"]["arms"]["B"]["populations"]) == {"twins", "all"}
    shell.ok("replay")


def test_changed_scores_are_refused_before_they_are_read(shell: Shell) -> None:
    """One score edited after the freeze: the run is refused by the field of the file."""
    made_example(shell)
    shell.ok("register", "protocol.yaml")
    path = shell.folder / "scores.jsonl"
    path.write_text(path.read_text().replace('"s": 2', '"s": 9', 1))
    said = shell.ledger("run")
    assert 3 == said.code
    assert "scoring.driver" in said.err


def test_a_changed_score_in_the_ledger_is_caught(shell: Shell) -> None:
    """An outcome edited in the store isn't what its id says any more."""
    diagnostic(shell)
    with sqlite3.connect(shell.folder / "ledger.db") as store:
        for (name,) in store.execute("SELECT name FROM sqlite_master WHERE type='trigger'"):
            store.execute(f'DROP TRIGGER "{name}"')
        changed = store.execute(
            "UPDATE entry SET entry = replace(entry, '\"score\":25', '\"score\":1')"
            " WHERE kind = 'decision' AND entry LIKE '%\"score\":25%'"
        ).rowcount
    store.close()
    assert changed
    said = shell.ledger("replay")
    assert 12 == said.code


def test_a_changed_bound_in_the_long_form_is_caught(shell: Shell) -> None:
    """What people are shown is recomputed: another lower bound is named by its path."""
    diagnostic(shell)
    with open_trial(shell.folder / "ledger.db") as trial:
        known = trial.experiment(None)
        result = trial.log.find(known.name, "result")
        assert isinstance(result, Result)
        detail: Any = json.loads(trial.blobs.get(result.detail))
        detail["rule"]["judged"]["lower"] = 0.999
        detail["rule"]["arms"]["B"]["thresholds"][0]["block"] += 1.0
        forged = trial.blobs.put(json.dumps(detail).encode())
        case = NumbersCase(seq=9, event=msgspec.structs.replace(result, detail=forged), known=known)
        found = [one.where for one in recompute(trial, [case])]
    assert any("rule.judged.lower" in place for place in found)
    assert any("rule.arms.B.thresholds.0.block" in place for place in found)
