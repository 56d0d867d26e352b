"""One experiment with a primary, a harm gate and a saving, blinded or not; answers are by table."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from fairtrial.engine.session import register_protocol, result_of, run
from fairtrial.engine.unblinding import unblind_experiment

__all__ = ("ACTOR", "NEW", "OLD", "SECRETS", "blinded_ledger", "finish", "numbers", "write_plan")

ACTOR = "tester"
OLD, NEW = "incumbentarm", "challengerarm"
# What nothing readable may hold while the arms are blinded.
SECRETS = (
    *(OLD, NEW, "bigmodel", "tinymodel", "labelone", "labeltwo", "costly", "frugal", "diary.txt"),
    *("17300000", "3100000", "0.0173", "0.0031", "dear diary"),
)
# Outcomes, prices, models and some errors depend on unit, arm and attempt alone.
AGENT = """import time
from pathlib import Path

def ask(job):
    time.sleep(SECONDS)
    n, costly = int(job["unit"][1:]), job["config"]["how"] == "costly"
    price, model = (0.0173, "bigmodel") if costly else (0.0031, "tinymodel")
    price *= 1.25 if costly and n % 4 == 0 else 1
    if n % 9 == 0 and job["attempt"] == 1:
        said = {"kind": "flaky", "message": f"{model} broke"}
        return {"status": "error", "error": said, "usd": price}
    Path(job["out"], "diary.txt").write_text(f"dear diary, I am {model}")
    passed = n * 7 % 5 < (1 if costly else 4)
    unsafe = not costly and n % 2 == 0 if UNSAFE else n % 7 == (0 if costly else 1)
    return {"passed": passed, "scores": {"unsafe": float(unsafe)}, "usd": price, "model": model,
            "tokens": {"output": 777 + n}, "artifacts": ["diary.txt"]}
"""
PLAN = """protocol: 1
id: lab
about: {{hypothesis: the challenger resolves more.}}
units: {{file: units.csv, id: unit, cluster: cluster, input: [question]}}
design: {{pairing: paired, seed: 11}}
arms:
  {old}: {{label: labelone, {limits},
    driver: {{{driver}, config: {{how: costly}}, reserve_usd: 0.05}}}}
  {new}: {{label: labeltwo, {limits},
    driver: {{{driver}, config: {{how: frugal}}, reserve_usd: 0.02}}}}
control: {old}
attempts: {{max: 2}}
endpoints:
  - {{name: resolved, role: primary, type: binary, value: passed, better: higher}}
  - {{name: unsafe, role: harm, type: binary, value: scores.unsafe, better: lower}}
  - {{name: price, role: secondary, type: cost, value: usd, better: lower, missing: {{{kept}}}}}
missing: {{rules: {{{rules}}}, limit: 0.1}}
analysis: {{estimand: unit_weighted}}
looks: {{at: [0.5, 1.0], spending: lan_demets_pocock, icc: 0.05, on_crossing: {on}}}
decision:
  rule: superiority
  harm: {{alpha: 0.05, margin: 0.0}}
  saving: {{endpoint: price, at_least: 0.2}}
power: {{effect: none, accept: {{not_assessed: t, no_verdict_possible: t, impossible: t}}}}
budget: {{usd: 50}}
require: {{commit: false}}
{more}
"""
KEPT = "timeout: value, limit: value, failed: value, ungraded: value"
RULES = (
    "failed: failure, timeout: failure, limit: failure, error: exclude_pair,"
    " ungraded: exclude_pair, replay_miss: exclude_pair, invalidated: exclude_pair"
)
BLINDED = "blinding: {arms: true}"


def write_plan(
    folder: Path,
    *,
    more: str = BLINDED,
    units: int = 60,
    clusters: int = 20,
    unsafe: bool = False,
    on: str = "stop",
    seconds: float = 0.0,
) -> Path:
    """Writes protocol, units and the callable of both arms; returns the protocol's path."""
    folder.mkdir(exist_ok=True)
    (folder / "arm.py").write_text(
        AGENT.replace("UNSAFE", str(unsafe)).replace("SECONDS", str(seconds))
    )
    driver = 'kind: python, call: "arm:ask", files: [arm.py]'
    text = PLAN.format(
        old=OLD,
        new=NEW,
        driver=driver,
        kept=KEPT,
        rules=RULES,
        on=on,
        more=more,
        limits="limits: {seconds: 30}",
    )
    (folder / "protocol.yaml").write_text(text)
    rows = "".join(f"u{n},c{n % clusters},q{n}\n" for n in range(units))
    (folder / "units.csv").write_text("unit,cluster,question\n" + rows)
    return folder / "protocol.yaml"


def blinded_ledger(folder: Path, store: str = "ledger.jsonl", **plan: Any) -> Path:
    """Registers and runs a blinded experiment; returns its ledger."""
    ledger = folder / store
    register_protocol(ledger, write_plan(folder, **plan), actor=ACTOR)
    report = run(ledger, None, actor=ACTOR, concurrency=4)
    # A signal to the test's process ends the run and not the process.
    assert report.reason in ("complete", "boundary"), report
    return ledger


def finish(ledger: Path) -> Any:
    """Unblinds where that is needed, and returns the result."""
    if "blinded" in ledger.parent.name:
        unblind_experiment(ledger, None, actor=ACTOR, reason="all looks are taken")
    return json.loads(result_of(ledger, None, actor=ACTOR)[0].detail)


def numbers(result: Any) -> Any:
    """Returns what depends neither on the place in the log nor on which arm goes first."""
    kept = {name: value for name, value in result.items() if name not in ("basis", "data")}
    for comparison in kept["comparisons"]:
        found = comparison["diagnostics"]
        comparison["diagnostics"] = [one for one in found if one["name"] != "order_effect"]
    return kept
