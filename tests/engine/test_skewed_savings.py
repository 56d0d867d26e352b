"""Skewed costs of a saving, from the ledger's file: at a look, and in a ledger that knew none."""

from __future__ import annotations

import random
from pathlib import Path

import msgspec
import pytest

from fairtrial.custody.trial import open_trial
from fairtrial.engine.inspecting import replay_ledger
from fairtrial.engine.look_view import read_look_view
from fairtrial.engine.session import register_protocol, result_of, run
from fairtrial.ledger.events import Freeze
from fairtrial.verbs.text_look import look_text, look_value
from fairtrial.verbs.text_replay import replay_text
from fairtrial.verdicts import endings, look_table

PROTOCOL = """protocol: 1
id: trial
about: {hypothesis: B is better than A and cheaper.}
units: {file: units.csv, id: unit, cluster: none}
design: {pairing: paired, seed: 7}
arms:
  A: {driver: {kind: recorded, file: outcomes.csv, where: {arm: a}, columns: COLUMNS}}
  B: {driver: {kind: recorded, file: outcomes.csv, where: {arm: b}, columns: COLUMNS}}
control: A
endpoints:
  - {name: passed, role: primary, type: binary, value: passed, better: higher}
  - {name: price, role: secondary, type: cost, value: score, better: lower, scale: raw,
     missing: {failed: exclude_pair, timeout: exclude_pair, limit: exclude_pair}}
missing: {rules: {failed: failure, timeout: failure, limit: failure, error: exclude_pair,
  ungraded: exclude_pair, replay_miss: exclude_pair, invalidated: exclude_pair}, limit: 0.1}
analysis: {estimand: unit_weighted}
looks: {at: [1.0]}
decision: {rule: superiority, margin: 0.0, saving: {endpoint: price, at_least: 0.2}}
power: {effect: none, accept: {not_assessed: t, underpowered: t, impossible: t,
  no_verdict_possible: t}}
budget: {usd: 0}
require: {commit: false}
""".replace("COLUMNS", "{unit: unit, passed: passed, score: score}")


def _finished(folder: Path) -> Path:
    rng, units = random.Random(5), [f"u{i}" for i in range(60)]
    rows = ["unit,arm,passed,score"]
    for unit in units:
        price = 1.0 + rng.lognormvariate(0.0, 1.0)
        rows.append(f"{unit},a,{int(rng.random() < 0.2)},{price:.4f}")
        rows.append(f"{unit},b,{int(rng.random() < 0.9)},{price - 0.9 + rng.random() / 10:.4f}")
    (folder / "units.csv").write_text("\n".join(["unit", *units]) + "\n")
    (folder / "outcomes.csv").write_text("\n".join(rows) + "\n")
    (folder / "protocol.yaml").write_text(PROTOCOL)
    ledger = folder / "ledger.jsonl"
    register_protocol(ledger, folder / "protocol.yaml", actor="ada")
    run(ledger, None, actor="ada")
    result_of(ledger, None, actor="ada")
    return ledger


@pytest.mark.slow
def test_ledger_that_knew_nothing_of_skewed_costs_is_intact(tmp_path: Path) -> None:
    """What it lacks is told with its numbers, in plan and result, and nothing is called wrong."""
    with pytest.MonkeyPatch.context() as older:
        older.setattr(endings, "saving_diagnoses", lambda *_: ())
        older.setattr(look_table, "saving_error", lambda _: None)
        ledger = _finished(tmp_path)
    report = replay_ledger(ledger)
    assert "intact" == report.record, report.findings
    lacking = {one.where.split()[-1] for one in report.findings if one.code == "not_said"}
    assert {"power.saving_error", "detail.comparisons.0.diagnostics.3"} == lacking
    assert "'name': 'skewed_saving'" in replay_text(report, ())


@pytest.mark.slow
def test_ledger_of_this_version_says_it_all(tmp_path: Path) -> None:
    """Nothing is lacking of what is told now."""
    report = replay_ledger(_finished(tmp_path))
    assert ("intact", ()) == (report.record, report.findings)


@pytest.mark.slow
def test_look_says_what_its_data_say_of_dear_units(tmp_path: Path) -> None:
    """The event has no place for it: it is computed again from the outcomes of the look."""
    ledger = _finished(tmp_path)
    with open_trial(ledger, read_only=True) as trial:
        (look,) = trial.looks(trial.experiment("trial"))
    view = read_look_view(ledger, look)
    (said,) = view.savings.values()
    assert ("skewed_saving", True) == (said.name, said.positive)
    assert f"found     {said.text}"[:70] in look_text(look, view)
    assert {"B": msgspec.to_builtins(said)} == look_value(look, view)["savings"]


@pytest.mark.slow
def test_look_of_a_copy_without_its_units_is_shown_all_the_same(tmp_path: Path) -> None:
    """What is said of the data besides can't be said there; the look itself needs none of it."""
    ledger = _finished(tmp_path)
    with open_trial(ledger, read_only=True) as trial:
        (look,) = trial.looks(trial.experiment("trial"))
        frozen = trial.log.find("trial", "freeze")
    assert isinstance(frozen, Freeze)
    name = frozen.units.blake3
    (ledger.parent / f"{ledger.name}.d" / "blobs" / name[:2] / name).unlink()
    assert {} == read_look_view(ledger, look).savings
