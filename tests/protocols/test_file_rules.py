"""Every row of the field table: at least one file that is refused for it, by field and line."""

# ruff: noqa: E501 - one case a row, as in the table

from __future__ import annotations

import re
from pathlib import Path

import pytest

from fairtrial.ledger.errors import Problem, ProtocolError
from fairtrial.protocols.file import check_supported, parse_protocol, parse_supported

BLOCK_RULE = (Path(__file__).parent / "data" / "block_rule.yaml").read_text()

BASE = """\
protocol: 1
id: base
kind: comparison
about:
  title: Base
  hypothesis: B is better.
  owner: someone
  notes: none
  links: ["https://example.org/a"]
units:
  file: units.csv
  id: unit
  cluster: site
  label: truth
  split: part
  select: {part: [test]}
  limit: 100
  input: [question]
design:
  pairing: paired
  seed: 1
arms:
  A:
    label: old
    repeats: 3
    limits: {seconds: 60, usd: 0.1}
    driver: {kind: command, argv: [old, -q], env: [KEY], reserve_usd: 0.2}
  B:
    label: new
    repeats: 3
    limits: {seconds: 60, usd: 0.1}
    driver: {kind: python, call: "new:answer", files: [new.py], reserve_usd: 0.2}
control: A
attempts: {max: 2, retry_on: [error]}
endpoints:
  - name: solved
    role: primary
    type: bounded
    bounds: [0, 1]
    value: passed
    reducer: mean
    better: higher
  - name: unsafe
    role: harm
    type: binary
    value: scores.unsafe
    reducer: any
    better: lower
  - name: price
    role: secondary
    type: cost
    value: usd
    reducer: mean
    better: lower
    missing: {failed: value, timeout: value, limit: value, ungraded: value}
missing:
  rules: {failed: failure, timeout: failure, limit: failure, error: exclude_pair, ungraded: worst_case, replay_miss: exclude_pair, invalidated: exclude_pair}
  replicates: all
  limit: 0.02
analysis:
  estimand: unit_weighted
  alpha: 0.05
  sides: 2
  comparisons: [{name: B, treatment: B, control: A, share: 1}]
  also: [sign_flip]
  resamples: 999
looks:
  at: [0.5, 1]
  icc: 0.05
decision:
  rule: superiority
  margin: 0.01
  saving: {endpoint: price, at_least: 0.2}
  harm: {alpha: 0.05, margin: 0.01}
  guards: {min_clusters: 8}
power:
  effect: 0.05
  assume: {discordance: 0.2}
budget:
  usd: 90
  calls: 9000
  arms: {A: {usd: 60}, B: {usd: 30}}
blinding: {arms: false}
require: {commit: true}
diagnostics: {served_model: show}
"""

RECORDED = "{kind: recorded, file: o.csv, where: {arm: old}, columns: {unit: u, replicate: r, passed: p, scores.unsafe: s, usd: c}}"
COMMAND = "{kind: command, argv: [old, -q], env: [KEY], reserve_usd: 0.2}"
PYTHON = '{kind: python, call: "new:answer", files: [new.py], reserve_usd: 0.2}'
LIMITS_A = "limits: {seconds: 60, usd: 0.1}\n    driver: {kind: command"
SOLVED = "    value: passed\n    reducer: mean"
SEVEN = "rules: {failed: failure, timeout: failure, limit: failure, error: exclude_pair"

# The base as a design in which each unit is in one arm, without what is about pairs.
ASSIGNED = (
    ("pairing: paired", "pairing: assigned"),
    ("  also: [sign_flip]\n", ""),
    ("assume: {discordance: 0.2}", "assume: {sd: 0.3}"),
)
_RATIO = "ratio: {A: 1, B: 1}"


def _assigned(assign: str) -> list[tuple[str, str]]:
    return [("seed: 1", f"seed: 1\n  assign: {{{assign}}}"), *ASSIGNED]


def problems(text: str) -> list[tuple[str, str]]:
    """Field and complaint of everything that is refused, nothing if the file is accepted."""
    try:
        parse_protocol(text.encode(), name="p.yaml", media="yaml")
    except ProtocolError as error:
        found = error.problems
    else:
        return []
    lines = text.count("\n") + 1
    assert [problem for problem in found if not 1 <= (problem.line or 0) <= lines] == []
    return [(problem.where, problem.what) for problem in found]


def edited(text: str, *edits: tuple[str, str]) -> str:
    """A text with exactly one place of each edit replaced."""
    for old, new in edits:
        assert text.count(old) >= 1, f"{old!r} is not in the file"
        text = text.replace(old, new, 1)
    return text


# (row of the field table, edits of the base file, field, complaint)
CASES: list[tuple[str, list[tuple[str, str]], str, str]] = [
    # identity, about
    ("protocol newer", [("protocol: 1", "protocol: 2")], "protocol", "not acceptable"),
    ("protocol missing", [("protocol: 1\n", "")], "protocol", "missing"),
    ("protocol text", [("protocol: 1", "protocol: '1'")], "protocol", "not acceptable"),
    ("id pattern", [("id: base", "id: Base")], "id", "not acceptable"),
    ("id length", [("id: base", f"id: {'a' * 65}")], "id", "not acceptable"),
    ("id number", [("id: base", "id: 42")], "id", "not acceptable"),
    ("kind", [("kind: comparison", "kind: comparision")], "kind", "not acceptable"),
    (
        "populations of the other kind",
        [("control: A", "control: A\npopulations: {primary: all}")],
        "populations",
        "belongs to kind decision_rule",
    ),
    (
        "scoring of the other kind",
        [
            (
                "control: A",
                f"control: A\nscoring: {{driver: {RECORDED}, replay_only: true, fold_role: outer}}",
            )
        ],
        "scoring",
        "belongs to kind decision_rule",
    ),
    (
        "rule of the other kind",
        [("    label: old", "    label: old\n    rule: {name: calibrated_block}")],
        "arms.A.rule",
        "belongs to kind decision_rule",
    ),
    ("about missing", [("about:", "abaut:")], "about", "missing"),
    (
        "hypothesis empty",
        [("hypothesis: B is better.", 'hypothesis: " "')],
        "about.hypothesis",
        "not acceptable",
    ),
    ("title", [("title: Base", "title: [a]")], "about.title", "not acceptable"),
    ("title control", [("title: Base", 'title: "a\\u202eb"')], "about.title", "not acceptable"),
    ("owner", [("owner: someone", "owner: 7")], "about.owner", "not acceptable"),
    ("notes", [("notes: none", "notes: true")], "about.notes", "not acceptable"),
    ("links", [("https://example.org/a", "ftp://x")], "about.links[0]", "not acceptable"),
    # units
    ("units.file absolute", [("file: units.csv", "file: /u.csv")], "units.file", "not acceptable"),
    ("units.file windows", [("file: units.csv", r"file: a\u.csv")], "units.file", "not accept"),
    ("units.file", [("  file: units.csv\n", "")], "units.file", "missing"),
    ("units.format", [("units.csv", "units.csv\n  format: xls")], "units.format", "not acceptable"),
    ("units.format by suffix", [("units.csv", "units.txt")], "units.format", "missing"),
    ("units.id", [("  id: unit\n", "")], "units.id", "missing"),
    ("units.cluster", [("  cluster: site\n", "")], "units.cluster", "missing"),
    ("cluster reads none", [("cluster: site", "cluster: None")], "units.cluster", "not acceptable"),
    ("cluster without value", [("cluster: site", "cluster:")], "units.cluster", "not acceptable"),
    (
        "units.stratum none",
        [("cluster: site", "cluster: site\n  stratum: none")],
        "units.stratum",
        "not acceptable",
    ),
    (
        "twin without label",
        [("  label: truth\n", "  twin: pair\n")],
        "units.label",
        "missing",
    ),
    (
        "label needed",
        [("  label: truth\n", ""), ("    type: bounded", "    where: {label: [1]}\n    type: bounded")],
        "units.label",
        "endpoint solved needs a column",
    ),
    ("units.split", [("split: part", "split: [a]")], "units.split", "not acceptable"),
    ("units.select", [("select: {part: [test]}", "select: [a]")], "units.select", "not acceptable"),
    (
        "units.select values",
        [("select: {part: [test]}", "select: {part: []}")],
        "units.select.part",
        "not acceptable",
    ),
    (
        "units.select number",
        [("select: {part: [test]}", "select: {part: [1.5]}")],
        "units.select.part[0]",
        "not acceptable",
    ),
    (
        "units.select digits",
        [("select: {part: [test]}", "select: {part: [007]}")],
        "units.select.part[0]",
        "not acceptable",
    ),
    ("units.limit", [("limit: 100", "limit: 1")], "units.limit", "not acceptable"),
    ("units.input", [("  input: [question]\n", "")], "units.input", "missing"),
    (
        "units.input with label",
        [("input: [question]", "input: [question, truth]")],
        "units.input",
        "drivers would see the label",
    ),
    (
        "units.allow_label",
        [("input: [question]", 'input: [question, truth]\n  allow_label: ""')],
        "units.allow_label",
        "not acceptable",
    ),
    ("units.pilot", [("limit: 100", "limit: 100\n  pilot: ~/p.csv")], "units.pilot", "not accept"),
    # design
    ("design.pairing", [("pairing: paired", "pairing: both")], "design.pairing", "not acceptable"),
    ("design.seed", [("  seed: 1\n", "")], "design.seed", "missing"),
    ("design.seed high", [("seed: 1", f"seed: {2**53}")], "design.seed", "not acceptable"),
    ("design.seed float", [("seed: 1", "seed: 1.0")], "design.seed", "not acceptable"),
    (
        "design.assign while paired",
        [("seed: 1", "seed: 1\n  assign: {by: unit, ratio: {A: 1, B: 1}}")],
        "design.assign",
        "given while paired",
    ),
    ("design.assign", [("pairing: paired", "pairing: assigned")], "design.assign", "missing"),
    (
        "design.assign.within",
        _assigned(f"by: cluster, within: cluster, {_RATIO}"),
        "design.assign.within",
        "within clusters",
    ),
    (
        "design.assign.ratio",
        _assigned("by: unit, ratio: {A: 1, B: 1, C: 1}"),
        "design.assign.ratio.C",
        "no such arm",
    ),
    (
        "design.assign.ratio lacks an arm",
        _assigned("by: unit, ratio: {A: 1}"),
        "design.assign.ratio.B",
        "missing",
    ),
    (
        "design.assign by cluster without clusters",
        [*_assigned(f"by: cluster, {_RATIO}"), ("cluster: site", "cluster: none")],
        "design.assign.by",
        "no clusters",
    ),
    (
        "design.assign within clusters without clusters",
        [*_assigned(f"by: unit, within: cluster, {_RATIO}"), ("cluster: site", "cluster: none")],
        "design.assign.within",
        "no clusters",
    ),
    (
        "design.assign within strata without strata",
        _assigned(f"by: unit, within: stratum, {_RATIO}"),
        "design.assign.within",
        "strata that they don't have",
    ),
    (
        "analysis.estimand of mixed clusters",
        [*_assigned(f"by: unit, {_RATIO}"), ("unit_weighted", "cluster_weighted")],
        "analysis.estimand",
        "units in one arm only",
    ),
    (
        "power.assume.discordance while assigned",
        [*_assigned(f"by: unit, {_RATIO}"), ("{sd: 0.3}", "{discordance: 0.2}")],
        "power.assume.discordance",
        "one unit in two arms",
    ),
    (
        "analysis.also while assigned",
        [*_assigned(f"by: unit, {_RATIO}"), ("  resamples", "  also: [mcnemar]\n  resamples")],
        "analysis.also",
        "two outcomes of one unit",
    ),
    (
        "diagnostics.order_effect while assigned",
        [*_assigned(f"by: unit, {_RATIO}"), ("served_model: show", "order_effect: inconclusive")],
        "diagnostics.order_effect",
        "differences of pairs",
    ),
    (
        "diagnostics.sample_ratio while paired",
        [("served_model: show", "sample_ratio: inconclusive")],
        "diagnostics.sample_ratio",
        "assigned to one arm",
    ),
    # arms
    ("arm name", [("  A:\n    label: old", "  a b:\n    label: old")], "arms.a b", "not acceptable"),
    (
        "arms.label",
        [("label: old", "label: 1")],
        "arms.A.label",
        "not acceptable",
    ),
    ("driver missing", [(f"    driver: {COMMAND}\n", "")], "arms.A.driver", "missing"),
    ("driver.kind", [("kind: command", "kind: agent")], "arms.A.driver", "kind is unknown"),
    ("driver.kind missing", [("kind: command, ", "")], "arms.A.driver", "kind is missing"),
    (
        "recorded file",
        [(COMMAND, RECORDED.replace("file: o.csv, ", ""))],
        "arms.A.driver.file",
        "missing",
    ),
    ("recorded where", [(COMMAND, RECORDED.replace("{arm: old}", "old"))], "arms.A.driver.where",
     "not acceptable"),
    (
        "recorded columns unit",
        [(COMMAND, RECORDED.replace("unit: u, ", ""))],
        "arms.A.driver.columns",
        "unit is not mapped",
    ),
    (
        "recorded columns value",
        [(COMMAND, RECORDED.replace("passed: p, ", ""))],
        "arms.A.driver.columns",
        "passed is not mapped",
    ),
    (
        "recorded columns replicate",
        [(COMMAND, RECORDED.replace("replicate: r, ", ""))],
        "arms.A.driver.columns",
        "replicate is not mapped",
    ),
    (
        "recorded columns unknown",
        [(COMMAND, RECORDED.replace("usd: c", "usd: c, pased: x"))],
        "arms.A.driver.columns.pased",
        "unknown",
    ),
    (
        "recorded env",
        [(COMMAND, RECORDED.replace("file: o.csv", "file: o.csv, env: [K]"))],
        "arms.A.driver.env",
        "unknown",
    ),
    ("python call", [("new:answer", "new.answer")], "arms.B.driver.call", "not acceptable"),
    ("python argv", [("files: [new.py]", "argv: [a]")], "arms.B.driver.argv", "unknown"),
    ("command argv", [("argv: [old, -q]", "argv: []")], "arms.A.driver.argv", "not acceptable"),
    ("command argv text", [("argv: [old, -q]", "argv: old")], "arms.A.driver.argv", "not accept"),
    ("driver.files", [("files: [new.py]", "files: [/new.py]")], "arms.B.driver.files[0]", "not"),
    ("driver.env", [("env: [KEY]", 'env: ["KEY=x"]')], "arms.A.driver.env[0]", "not acceptable"),
    ("driver.secrets", [("env: [KEY]", "secrets: [a b]")], "arms.A.driver.secrets[0]", "not"),
    ("driver.config", [("env: [KEY]", "config: [1]")], "arms.A.driver.config", "not acceptable"),
    (
        "driver.reserve_usd missing",
        [(", reserve_usd: 0.2", "")],
        "arms.A.driver.reserve_usd",
        "missing",
    ),
    (
        "driver.reserve_usd negative",
        [("reserve_usd: 0.2", "reserve_usd: -1")],
        "arms.A.driver.reserve_usd",
        "not acceptable",
    ),
    (
        "driver.reserve_usd below limit",
        [("reserve_usd: 0.2", "reserve_usd: 0.05")],
        "arms.A.driver.reserve_usd",
        "below the limit",
    ),
    (
        "driver.reserve_usd of nothing under a ceiling",
        [("usd: 0.1}\n    driver: {kind: command", "tokens: 9}\n    driver: {kind: command"),
         ("[KEY], reserve_usd: 0.2", "[KEY], reserve_usd: 0")],
        "arms.A.driver.reserve_usd",
        "could never stop this arm",
    ),
    *(
        (f"money {amount}", [("[KEY], reserve_usd: 0.2", f"[KEY], reserve_usd: {amount}")],
         "arms.A.driver.reserve_usd", "not acceptable")
        for amount in ("1.0e-12", "0.1234567891", "9007200", "1.0e+300", "1" + "0" * 400, ".nan")
    ),
    ("limits.usd too fine", [("usd: 0.1}", "usd: 1.0e-10}")], "arms.A.limits.usd", "not accept"),
    ("limits.usd none", [("usd: 0.1}", "usd: 0}")], "arms.A.limits.usd", "not acceptable"),
    ("budget.usd large", [("usd: 90", "usd: 1.0e+300")], "budget.usd", "not acceptable"),
    ("budget.usd fine", [("usd: 90", "usd: 90.00000000001")], "budget.usd", "not acceptable"),
    ("arm's ceiling", [("A: {usd: 60}", "A: {usd: 1.0e+15}")], "budget.arms.A.usd", "not accept"),
    ("limits.seconds large", [("seconds: 60", "seconds: 10000001")], "arms.A.limits.seconds",
     "not acceptable"),
    ("limits.tokens large", [("seconds: 60", "seconds: 60, tokens: 9007199254740992")],
     "arms.A.limits.tokens", "not acceptable"),
    ("wall_seconds large", [("usd: 90", "usd: 90\n  wall_seconds: 1.0e+300")],
     "budget.wall_seconds", "not acceptable"),
    ("alpha tiny", [("alpha: 0.05", "alpha: 1.0e-7")], "analysis.alpha", "not acceptable"),
    (
        "driver.repeatable",
        [("reserve_usd: 0.2", "repeatable: false, reserve_usd: 0.2")],
        "attempts.max",
        "can't be repeated",
    ),
    ("driver.repeatable word", [("env: [KEY]", "repeatable: no")], "arms.A.driver.repeatable",
     "not acceptable"),
    ("driver.output", [("env: [KEY]", "output: xml")], "arms.A.driver.output", "not acceptable"),
    ("driver.home", [("env: [KEY]", "home: mine")], "arms.A.driver.home", "not acceptable"),
    (
        "replay_only reserves",
        [("    label: old", "    label: old\n    replay_only: true")],
        "arms.A.driver.reserve_usd",
        "only replays",
    ),
    ("repeats", [("repeats: 3", "repeats: 0")], "arms.A.repeats", "not acceptable"),
    ("repeats unequal", [("repeats: 3", "repeats: 2")], "arms.B.repeats", "equal repeats"),
    ("limits positive", [("seconds: 60", "seconds: 0")], "arms.A.limits.seconds", "not acceptable"),
    ("limits unknown", [("seconds: 60", "second: 60")], "arms.A.limits.second", "unknown"),
    ("limits seconds", [("seconds: 60, ", "")], "arms.A.limits.seconds", "missing"),
    ("arm unknown key", [("label: old", "labl: old")], "arms.A.labl", "unknown"),
    (
        "two arms of one identity",
        [(PYTHON, COMMAND.replace("reserve_usd: 0.2", "reserve_usd: 0.3"))],
        "arms.B",
        "same treatment",
    ),
    ("aa of arms that differ", [("control: A", "control: A\naa: true")], "aa", "differ"),
    ("control unknown", [("control: A", "control: C")], "control", "no such arm"),
    ("attempts.max", [("max: 2", "max: 21")], "attempts.max", "not acceptable"),
    ("attempts.max low", [("max: 2", "max: 0")], "attempts.max", "not acceptable"),
    ("attempts.retry_on", [("[error]", "[error, failed]")], "attempts.retry_on[1]", "not accept"),
    ("attempts.retry_on twice", [("[error]", "[error, error]")], "attempts.retry_on[1]", "twice"),
    # endpoints
    ("endpoints empty", [("endpoints:\n", "endpoints: []\nx:\n")], "endpoints", "not acceptable"),
    ("endpoints.name", [("name: solved", "name: Solved")], "endpoints.Solved.name", "not accept"),
    ("endpoints.name twice", [("name: unsafe", "name: solved")], "endpoints.solved", "one name"),
    ("endpoints.role", [("role: primary", "role: main")], "endpoints.solved.role", "not accept"),
    ("no primary", [("role: primary", "role: secondary")], "endpoints", "nothing decides"),
    ("endpoints.type", [("type: cost", "type: costs")], "endpoints.price.type", "not acceptable"),
    (
        "type needs label",
        [("  label: truth\n", ""), ("type: bounded\n    bounds: [0, 1]\n    value: passed", "type: auc\n    value: score"), (SEVEN, SEVEN.replace("failure", "worst_case"))],
        "units.label",
        "needs a column",
    ),
    (
        "type needs twin",
        [("type: bounded\n    bounds: [0, 1]\n    value: passed", "type: within_twin_auc\n    value: score"), (SEVEN, SEVEN.replace("failure", "worst_case"))],
        "units.twin",
        "needs a column",
    ),
    (
        "agreement repeats",
        [("repeats: 3", "repeats: 1"), ("repeats: 3", "repeats: 1"), ("type: bounded\n    bounds: [0, 1]\n    value: passed\n    reducer: mean", "type: agreement\n    value: passed")],
        "endpoints.solved.type",
        "two replicates",
    ),
    ("endpoints.value", [("value: usd", "value: dollars")], "endpoints.price.value", "not accept"),
    ("value of type", [("value: usd", "value: passed")], "endpoints.price.value", "can't hold"),
    ("value flagged", [("value: passed", "value: flagged")], "endpoints.solved.value", "decision_"),
    ("value answer", [("value: passed", "value: answer")], "endpoints.solved.positive", "missing"),
    (
        "endpoints.positive",
        [("value: passed", "value: passed\n    positive: [yes]")],
        "endpoints.solved.positive",
        "about answers",
    ),
    (
        "endpoints.where",
        [("value: passed", "value: passed\n    where: {lable: [1]}")],
        "endpoints.solved.where.lable",
        "unknown",
    ),
    (
        "where without column",
        [("value: passed", "value: passed\n    where: {stratum: [x]}")],
        "units.stratum",
        "needs a column",
    ),
    (
        "auc with a label restriction",
        [("type: bounded\n    bounds: [0, 1]\n    value: passed", "type: auc\n    value: score\n    where: {label: [1]}"), (SEVEN, SEVEN.replace("failure", "worst_case"))],
        "endpoints.solved.where.label",
        "both labels",
    ),
    ("endpoints.better", [("better: higher\n", "bettor: higher\n")], "endpoints.solved.better",
     "missing"),
    ("bounds missing", [("    bounds: [0, 1]\n", "")], "endpoints.solved.bounds", "missing"),
    ("bounds order", [("[0, 1]\n    value", "[1, 0]\n    value")], "endpoints.solved.bounds", "rise"),
    ("bounds one", [("[0, 1]\n    value", "[0]\n    value")], "endpoints.solved.bounds", "not acc"),
    (
        "bounds of binary",
        [("type: binary", "type: binary\n    bounds: [0, 1]")],
        "endpoints.unsafe.bounds",
        "bounds of its own",
    ),
    ("reducer missing", [(SOLVED, "    value: passed")], "endpoints.solved.reducer", "missing"),
    ("reducer binary", [("reducer: any", "reducer: mean")], "endpoints.unsafe.reducer",
     "not binary"),
    ("reducer of bounded", [(SOLVED, SOLVED.replace("mean", "any"))], "endpoints.solved.reducer",
     "is binary"),
    (
        "reducer of pass_at_k",
        [("type: bounded\n    bounds: [0, 1]", "type: pass_at_k\n    k: 2")],
        "endpoints.solved.reducer",
        "takes all replicates",
    ),
    (
        "reducer majority",
        [("repeats: 3", "repeats: 2"), ("repeats: 3", "repeats: 2"), ("reducer: any", "reducer: majority")],
        "endpoints.unsafe.reducer",
        "no majority",
    ),
    ("k missing", [("reducer: any", "reducer: at_least")], "endpoints.unsafe.k", "missing"),
    ("k over repeats", [("reducer: any", "reducer: at_least\n    k: 4")], "endpoints.unsafe.k",
     "over the repeats"),
    ("k without meaning", [("reducer: any", "reducer: any\n    k: 1")], "endpoints.unsafe.k",
     "no meaning"),
    ("scale", [("value: usd", "value: usd\n    scale: ln")], "endpoints.price.scale", "not accept"),
    ("target", [("value: usd", "value: usd\n    target: low")], "endpoints.price.target", "not acc"),
    ("endpoints.missing", [("{failed: value,", "{faild: value,")], "endpoints.price.missing.faild",
     "unknown"),
    (
        "endpoints.missing not_run",
        [("{failed: value,", "{failed: value, not_run: value,")],
        "endpoints.price.missing.not_run",
        "unknown",
    ),
    # missing
    ("missing.rules", [("failed: failure, timeout", "timeout")], "missing.rules.failed", "missing"),
    ("missing.rules word", [("failed: failure,", "failed: fail,")], "missing.rules.failed", "not"),
    ("failure of cost", [("{failed: value,", "{failed: failure,")], "endpoints.price.missing.failed",
     "no worst value"),
    (
        "worst_case without bounds",
        [("{failed: value,", "{failed: worst_case,")],
        "endpoints.price.missing.failed",
        "no worst case",
    ),
    ("value for error", [("error: exclude_pair", "error: value")], "missing.rules.error",
     "after an error there is no passed"),
    ("number outside", [("failed: failure,", "failed: 2,")], "missing.rules.failed", "outside"),
    (
        "number of binary",
        [("    better: lower\n", "    better: lower\n    missing: {failed: 0.5}\n")],
        "endpoints.unsafe.missing.failed",
        "0 or 1",
    ),
    ("number on log", [("{failed: value,", "{failed: 0,")], "endpoints.price.missing.failed",
     "above 0"),
    (
        "value for replay_miss",
        [("ungraded: value}", "ungraded: value, replay_miss: value}")],
        "endpoints.price.missing.replay_miss",
        "isn't there",
    ),
    ("missing.replicates", [("replicates: all", "replicates: 4")], "missing.replicates", "more"),
    (
        "missing.replicates under k",
        [("replicates: all", "replicates: 1"), ("reducer: any", "reducer: at_least\n    k: 2")],
        "missing.replicates",
        "needs 2",
    ),
    ("missing.limit", [("limit: 0.02", "limit: 0.3")], "missing.limit", "not acceptable"),
    ("missing.limit missing", [("  limit: 0.02\n", "")], "missing.limit", "missing"),
    # analysis
    ("estimand", [("  estimand: unit_weighted\n", "")], "analysis.estimand", "missing"),
    ("alpha", [("alpha: 0.05\n", "alpha: 0.3\n")], "analysis.alpha", "not acceptable"),
    ("alpha zero", [("alpha: 0.05\n", "alpha: 0\n")], "analysis.alpha", "not acceptable"),
    ("alpha nan", [("alpha: 0.05\n", "alpha: .nan\n")], "analysis.alpha", "not acceptable"),
    ("alpha inf", [("alpha: 0.05\n", "alpha: 1e999\n")], "analysis.alpha", "not acceptable"),
    ("sides", [("sides: 2", "sides: 3")], "analysis.sides", "not acceptable"),
    ("sides with harm", [("sides: 2", "sides: 1")], "analysis.sides", "harm"),
    ("comparisons shares", [("share: 1}", "share: 0.6}, {name: C, treatment: A, control: B, share: 0.6}"), ("rule: sup", "gate: B\n  rule: sup")], "analysis.comparisons", "exceed 1"),
    ("comparisons arm", [("treatment: B,", "treatment: C,")], "analysis.comparisons.B.treatment",
     "no such arm"),
    ("comparisons itself", [("treatment: B,", "treatment: A,")], "analysis.comparisons.B.control",
     "with itself"),
    ("comparisons share of alpha", [("share: 1}", "share: 1.0e-9}")],
     "analysis.comparisons.B.share", "too small an alpha"),
    ("comparisons holm", [("share: 1}", "share: holm}")], "analysis.comparisons", "one look"),
    (
        "comparisons holm mixed",
        [
            ("share: 1}", "share: holm}, {name: C, treatment: A, control: B, share: 0.5}"),
            ("at: [0.5, 1]", "at: [1]"),
            ("rule: sup", "gate: B\n  rule: sup"),
        ],
        "analysis.comparisons",
        "mixed",
    ),
    ("also", [("also: [sign_flip]", "also: [sign-flip]")], "analysis.also[0]", "not acceptable"),
    ("resamples", [("resamples: 999", "resamples: 998")], "analysis.resamples", "not acceptable"),
    # looks
    ("looks.kind", [("looks:\n", "looks:\n  kind: daily\n")], "looks.kind", "not acceptable"),
    ("looks.at end", [("[0.5, 1]", "[0.5, 0.9]")], "looks.at", "isn't at 1"),
    ("looks.at rising", [("[0.5, 1]", "[0.5, 0.5, 1]")], "looks.at", "don't rise"),
    (
        "looks.at many",
        [("[0.5, 1]", str([n / 21 for n in range(1, 22)]))],
        "looks.at",
        "not acceptable",
    ),
    ("looks.icc", [("icc: 0.05", "icc: 1.5")], "looks.icc", "not acceptable"),
    ("looks.icc missing", [("  icc: 0.05\n", "")], "looks.icc", "missing"),
    ("looks.spending", [("  icc", "  spending: obrien_fleming\n  icc")], "looks.spending", "not acc"),
    (
        "looks.parameter missing",
        [("  icc", "  spending: hwang_shih_decani\n  icc")],
        "looks.parameter",
        "missing",
    ),
    ("looks.parameter", [("  icc", "  parameter: 1\n  icc")], "looks.parameter", "no parameter"),
    (
        "looks.parameter power",
        [("  icc", "  spending: power\n  parameter: 0\n  icc")],
        "looks.parameter",
        "not above 0",
    ),
    ("looks.boundary", [("  icc", "  boundary: [2.5]\n  icc")], "looks.boundary", "doesn't fit"),
    (
        "looks.boundary beside spending",
        [("  icc", "  boundary: [3, 2]\n  spending: lan_demets_pocock\n  icc")],
        "looks.boundary",
        "beside spending",
    ),
    (
        "looks.futility",
        [("  icc", "  futility: {conditional_power: 0.5}\n  icc")],
        "looks.futility.conditional_power",
        "not acceptable",
    ),
    ("looks.on_crossing", [("  icc", "  on_crossing: go\n  icc")], "looks.on_crossing", "not acc"),
    ("looks.method", [("  icc", "  method: betting\n  icc")], "looks.method", "at any time"),
    ("looks.min_clusters", [("  icc", "  min_clusters: 9\n  icc")], "looks.min_clusters", "at any"),
    (
        "anytime method",
        [("  at: [0.5, 1]\n  icc: 0.05\n", "  kind: anytime\n")],
        "looks.method",
        "missing",
    ),
    (
        "anytime at",
        [("  icc: 0.05\n", "  kind: anytime\n  method: betting\n")],
        "looks.at",
        "planned looks",
    ),
    (
        "anytime beta",
        [("  at: [0.5, 1]\n  icc: 0.05\n", "  kind: anytime\n  method: beta\n")],
        "looks.method",
        "own clusters",
    ),
    (
        "anytime unbounded",
        [
            ("  at: [0.5, 1]\n  icc: 0.05\n", "  kind: anytime\n  method: betting\n"),
            ("role: secondary", "role: primary"),
            ("rule: sup", "primaries: all\n  rule: sup"),
            ("  saving: {endpoint: price, at_least: 0.2}\n", ""),
        ],
        "looks.kind",
        "no bounds",
    ),
    # decision
    ("decision.rule", [("rule: superiority", "rule: better")], "decision.rule", "not acceptable"),
    (
        "decision.rule list",
        [("rule: superiority", "rule: [equivalence, superiority]")],
        "decision.rule",
        "no such list",
    ),
    (
        "decision.rule precision_bound",
        [("rule: superiority\n  margin: 0.01", "rule: precision_bound\n  arm: B\n  strata: each")],
        "decision.rule",
        "decision_rule",
    ),
    ("decision.margin negative", [("margin: 0.01\n  saving", "margin: -1\n  saving")],
     "decision.margin", "not acceptable"),
    ("decision.margin missing", [("rule: superiority\n  margin: 0.01", "rule: non_inferiority")],
     "decision.margin", "missing"),
    (
        "decision.margin zero",
        [("rule: superiority\n  margin: 0.01", "rule: [superiority, equivalence]\n  margin: 0")],
        "decision.margin",
        "needs a margin",
    ),
    ("decision.margin bounds", [("margin: 0.01\n  saving", "margin: 1\n  saving")],
     "decision.margin", "can reach the margin"),
    ("decision.primaries missing", [("role: secondary", "role: primary"),
     ("  saving: {endpoint: price, at_least: 0.2}\n", "")], "decision.primaries", "missing"),
    ("decision.primaries", [("rule: sup", "primaries: all\n  rule: sup")], "decision.primaries",
     "one primary"),
    ("decision.saving", [("endpoint: price", "endpoint: prise")], "decision.saving.endpoint",
     "no such endpoint"),
    ("decision.saving type", [("endpoint: price", "endpoint: solved")], "decision.saving.endpoint",
     "on a cost"),
    ("decision.saving role", [("role: secondary", "role: primary"), ("rule: superiority", "primaries: all\n  rule: superiority")],
     "decision.saving.endpoint", "test of its own"),
    ("decision.saving better", [("reducer: mean\n    better: lower", "reducer: mean\n    better: higher")], "decision.saving.endpoint",
     "has less"),
    ("decision.saving share", [("at_least: 0.2", "at_least: 1")], "decision.saving.at_least",
     "not acceptable"),
    ("decision.harm", [("  harm: {alpha: 0.05, margin: 0.01}\n", "")], "decision.harm", "missing"),
    ("decision.harm without endpoint", [("role: harm", "role: secondary")], "decision.harm",
     "no endpoint"),
    ("decision.harm alpha", [("harm: {alpha: 0.05", "harm: {alpha: 0.5")], "decision.harm.alpha",
     "not acceptable"),
    ("decision.worse_inside_margin", [("rule: sup", "worse_inside_margin: adopt\n  rule: sup")],
     "decision.worse_inside_margin", "non-inferiority"),
    ("decision.on_under_run", [("rule: sup", "on_under_run: go\n  rule: sup")],
     "decision.on_under_run", "not acceptable"),
    ("guards.min_clusters", [("min_clusters: 8", "min_clusters: 5")], "decision.guards.min_clusters",
     "not acceptable"),
    ("guards.min_df", [("min_clusters: 8", "min_df: 3.9")], "decision.guards.min_df", "not accept"),
    ("guards.min_discordant", [("min_clusters: 8", "min_discordant_clusters: 7")],
     "decision.guards.min_discordant_clusters", "not acceptable"),
    ("decision.arm", [("rule: sup", "arm: B\n  rule: sup")], "decision.arm", "precision_bound"),
    ("decision.bound", [("rule: sup", "bound: wilson\n  rule: sup")], "decision.bound",
     "precision_bound"),
    ("decision.strata", [("rule: sup", "strata: each\n  rule: sup")], "decision.strata",
     "precision_bound"),
    (
        "decision.gate missing",
        [("share: 1}", "share: 0.5}, {name: C, treatment: A, control: B, share: 0.5}")],
        "decision.gate",
        "missing",
    ),
    ("decision.gate", [("rule: sup", "gate: C\n  rule: sup")], "decision.gate", "no such compar"),
    # power
    ("power missing", [("power:\n", "pover:\n")], "power", "missing"),
    ("power.effect", [("effect: 0.05", "effect: small")], "power.effect", "not acceptable"),
    ("power.effect none", [("effect: 0.05", "effect: none")], "power.accept.not_assessed",
     "missing"),
    ("power.target", [("effect: 0.05", "effect: 0.05\n  target: 0.5")], "power.target", "not acc"),
    ("power.assume", [("discordance: 0.2", "discordance: 0.04")], "power.assume.discordance",
     "fewer units"),
    ("power.assume both", [("discordance: 0.2", "discordance: 0.2, sd: 1")], "power.assume.sd",
     "two ways"),
    ("power.assume.icc", [("discordance: 0.2", "icc: 2")], "power.assume.icc", "not acceptable"),
    ("power.assume.missing", [("discordance: 0.2", "missing: 1")], "power.assume.missing", "not"),
    ("power.source", [("effect: 0.05", 'effect: 0.05\n  source: ""')], "power.source", "not acc"),
    ("power.accept", [("effect: 0.05", "effect: 0.05\n  accept: {underpowered: true}")],
     "power.accept.underpowered", "not acceptable"),
    ("power.accept unknown", [("effect: 0.05", "effect: 0.05\n  accept: {weak: x}")],
     "power.accept.weak", "unknown"),
    # budget, blinding, require, diagnostics
    ("budget.usd negative", [("usd: 90", "usd: -1")], "budget.usd", "not acceptable"),
    ("budget.usd missing", [("  usd: 90\n", "")], "budget.usd", "missing"),
    ("budget.calls", [("calls: 9000", "calls: 1.5")], "budget.calls", "not acceptable"),
    ("budget.wall_seconds", [("calls: 9000", "wall_seconds: -1")], "budget.wall_seconds", "not"),
    ("budget.tokens", [("calls: 9000", "tokens: many")], "budget.tokens", "not acceptable"),
    ("budget.arms sum", [("B: {usd: 30}", "B: {usd: 30.01}")], "budget.arms", "above the total"),
    ("budget.arms unknown", [("B: {usd: 30}", "C: {usd: 30}")], "budget.arms.C", "no such arm"),
    ("budget.unpriced", [("  calls: 9000\n", "  unpriced: count_calls\n")], "budget.calls",
     "missing"),
    ("blinding.arms", [("arms: false", "arms: no")], "blinding.arms", "not acceptable"),
    ("blinding.looks", [("arms: false", "arms: true, looks: full")], "blinding.looks", "hidden"),
    ("require.commit", [("commit: true", "commit: maybe")], "require.commit", "not acceptable"),
    ("require.anchor", [("commit: true", "anchor: rock")], "require.anchor", "not acceptable"),
    (
        "require.signatures",
        [("commit: true", "signatures: [{meaning: seen, role: q, before: run}]")],
        "require.signatures[0].meaning",
        "not acceptable",
    ),
    ("diagnostics", [("served_model: show", "served_model: hide")], "diagnostics.served_model",
     "not acceptable"),
    ("diagnostics unknown", [("served_model: show", "model: show")], "diagnostics.model",
     "unknown"),
    ("scorers", [("control: A", "control: A\nscorers: {x: 1}")], "scorers", "unknown"),
]  # fmt: skip


def test_the_base_file_is_accepted() -> None:
    """What the cases change is a file that is accepted as it stands."""
    assert problems(BASE) == []
    assert problems(edited(BASE, (COMMAND, RECORDED))) == []
    assert problems(BLOCK_RULE) == []


@pytest.mark.parametrize(
    ("edits", "where", "what"),
    [pytest.param(edits, where, what, id=row) for row, edits, where, what in CASES],
)
def test_every_row_refuses(edits: list[tuple[str, str]], where: str, what: str) -> None:
    """A file that breaks one row is refused by that field."""
    found = problems(edited(BASE, *edits))
    assert [complaint for path, complaint in found if path == where and what in complaint], found


# Breaking these breaks another row too, or an unknown key comes with a missing one.
SEVERAL = {
    "about missing", "power missing", "endpoints empty", "endpoints.better",
    "arm name", "control unknown", "number outside", "limits unknown",
    "endpoints.missing",
}  # fmt: skip


@pytest.mark.parametrize(
    ("edits", "where"),
    [pytest.param(edits, where, id=row) for row, edits, where, _ in CASES if row not in SEVERAL],
)
def test_one_fault_is_one_problem(edits: list[tuple[str, str]], where: str) -> None:
    """A fault is reported once: rules that need the field say nothing more."""
    assert {where} == {path for path, _ in problems(edited(BASE, *edits))}


# (row, edits of the decision rule, field, complaint)
RULE_CASES: list[tuple[str, list[tuple[str, str]], str, str]] = [
    ("rule unknown", [("name: calibrated_block", "name: block")], "arms.A.rule.name", "not acc"),
    (
        "rule parameter",
        [("family_floor: 20", "family_flor: 20")],
        "arms.B.rule.family_flor",
        "unknown",
    ),
    ("rule missing", [("A: {rule: {name: calibrated_block}}", "A: {}")], "arms.A.rule", "missing"),
    (
        "driver beside a rule",
        [
            (
                "A: {rule: {name: calibrated_block}}",
                "A: {rule: {name: calibrated_block}, "
                "driver: {kind: recorded, file: s.csv, columns: {unit: u}}}",
            )
        ],
        "arms.A.driver",
        "no driver of its own",
    ),
    (
        "another rule's parameter",
        [("{name: calibrated_block}", "{name: calibrated_block, recall: 0.9}")],
        "arms.A.rule.recall",
        "no parameter recall",
    ),
    (
        "rule precision",
        [("precision: 0.95, recall", "precision: 1, recall")],
        "arms.B.rule.precision",
        "no threshold can reach it",
    ),
    ("rule recall", [("recall: 0.98", "recall: 0")], "arms.B.rule.recall", "every threshold"),
    (
        "rule bound",
        [("name: calibrated_block", "name: precision_bound_block, bound: wilsn")],
        "arms.A.rule.bound",
        "not acceptable",
    ),
    (
        "a field of a driver beside a rule",
        [("A: {rule: {name: calibrated_block}}",
          "A: {rule: {name: calibrated_block}, replay_only: true}")],
        "arms.A.replay_only",
        "no replay_only of its own",
    ),
    ("budget of an arm", [("usd: 0", "usd: 0, arms: {A: {usd: 0}}")], "budget.arms", "no arm"),
    (
        "live scoring",
        [("{kind: recorded, file: scores.jsonl, columns: {unit: unit, score: s, answer: verdict}}",
          "{kind: command, argv: [score.sh]}"), ("replay_only: true", "replay_only: false")],
        "scoring.replay_only",
        "has a price",
    ),
    (
        "scoring without a score",
        [("score: s, ", "")],
        "scoring.driver.columns",
        "the field score is not mapped",
    ),
    (
        "another value",
        [("type: binary, value: flagged", "type: binary, value: passed")],
        "endpoints.coverage.value",
        "differ in what they flag alone",
    ),
    (
        "another type",
        [("type: binary, value: flagged", "type: bounded, bounds: [0, 1], value: flagged")],
        "endpoints.coverage.type",
        "precision or a rate",
    ),
    ("no target", [(", target: 0.95", "")], "endpoints.flagged_precision.target", "missing"),
    ("target of 1", [("target: 0.95", "target: 1")], "endpoints.flagged_precision.target",
     "no bound"),
    (
        "lower is better",
        [("value: flagged, better: higher, target", "value: flagged, better: lower, target")],
        "endpoints.flagged_precision.better",
        "better when it is higher",
    ),
    ("two populations alike", [("secondary: [all]", "secondary: [twins]")],
     "populations.secondary", "also a secondary"),
    (
        "the incumbent judged",
        [("arm: B, ", "arm: A, ")],
        "decision.arm",
        "isn't the treatment",
    ),
    ("each without families", [(", stratum: family", ""), ("strata: pooled", "strata: each")],
     "units.stratum", "missing"),
    ("a rule of comparisons", [("rule: precision_bound, arm: B, bound: cluster_aware, "
                                "strata: pooled", "rule: superiority")], "decision.rule",
     "judged by precision_bound"),
    ("an effect", [("effect: none", "effect: 0.1")], "power.effect", "no difference"),
    ("estimand", [("unit_weighted", "cluster_weighted")], "analysis.estimand", "weighs flags"),
    ("scoring costs", [("usd: 0", "usd: 1")], "budget.usd", "no cost"),
    ("scoring fold", [(", fold: fold", "")], "units.fold", "missing"),
    ("scoring fold_role", [("fold_role: outer", "fold_role: inner")], "scoring.fold_role", "not"),
    ("scoring replay_only", [("  replay_only: true\n", "")], "scoring.replay_only", "missing"),
    ("populations", [("primary: twins", "primary: pairs")], "populations.primary", "not accept"),
    ("decision.arm", [("arm: B, ", "")], "decision.arm", "missing"),
    ("decision.arm unknown", [("arm: B, ", "arm: C, ")], "decision.arm", "no such arm"),
    ("decision.strata", [(", strata: pooled", "")], "decision.strata", "missing"),
    ("decision.margin", [("arm: B, ", "arm: B, margin: 0.1, ")], "decision.margin", "no margin"),
    ("not_assessed", [(", accept: {not_assessed: capacity table printed instead}", "")],
     "power.accept.not_assessed", "missing"),
]  # fmt: skip


@pytest.mark.parametrize(
    ("edits", "where", "what"),
    [pytest.param(edits, where, what, id=row) for row, edits, where, what in RULE_CASES],
)
def test_every_row_of_a_decision_rule_refuses(
    edits: list[tuple[str, str]], where: str, what: str
) -> None:
    """A decision rule that breaks one row is refused by that field, once."""
    found = problems(edited(BLOCK_RULE, *edits))
    assert [where] == [path for path, _ in found]
    assert what in found[0][1]


def test_twins_need_their_column() -> None:
    """The primary population and what rules learn from say once that there are none."""
    found = problems(edited(BLOCK_RULE, (" twin: pair,", "")))
    assert found == [("populations.primary", "no unit has a twin")]
    text = edited(BLOCK_RULE, (" twin: pair,", ""), ("primary: twins", "primary: all"),
                  ("secondary: [all]", "secondary: []"))  # fmt: skip
    assert problems(text) == [("arms.B.rule.select_on", "no unit has a twin")]


UNSUPPORTED: list[tuple[str, tuple[str, str], str]] = [
    (
        "a live driver",
        ("{kind: recorded, file: scores.jsonl, columns: {unit: unit, score: s, answer: verdict}}",
         "{kind: command, argv: [score.sh]}"),
        "scoring.driver",
    ),
    ("looks", ("budget:", "looks: {at: [0.5, 1], icc: 0.1}\nbudget:"), "looks.at"),
    ("number", ("ungraded: exclude_pair", "ungraded: 0"), "missing.rules.ungraded"),
    ("blinding", ("budget:", "blinding: {arms: true}\nbudget:"), "blinding.arms"),
    ("analyse", ("arm: B,", "arm: B, on_under_run: analyse,"), "decision.on_under_run"),
    ("diagnostic", ("budget:", "diagnostics: {time_drift: inconclusive}\nbudget:"),
     "diagnostics.time_drift"),
]  # fmt: skip


@pytest.mark.parametrize(
    ("edit", "where"), [pytest.param(edit, where, id=name) for name, edit, where in UNSUPPORTED]
)
def test_what_a_decision_rule_cannot_do_yet_is_named(edit: tuple[str, str], where: str) -> None:
    """Understood, and refused by its field before anything is on record."""
    text = edited(BLOCK_RULE, edit)
    protocol = parse_protocol(text.encode(), name="p.yaml", media="yaml")
    with pytest.raises(ProtocolError) as caught:
        check_supported(protocol)
    assert where in [problem.where for problem in caught.value.problems]


def test_a_decision_rule_without_scoring_is_refused() -> None:
    """The one scoring pass is what the rules share."""
    start = BLOCK_RULE.index("scoring:")
    text = BLOCK_RULE[:start] + BLOCK_RULE[BLOCK_RULE.index("arms:") :]
    assert problems(text) == [("scoring", "the field is missing")]


def test_control_has_to_be_named_unless_an_arm_is_a() -> None:
    """Only an arm A is taken as the incumbent without a word."""
    assert problems(edited(BASE, ("control: A\n", ""))) == []
    text = BASE.replace("  A:\n", "  old:\n").replace("control: A,", "control: old,")
    text = text.replace("arms: {A:", "arms: {old:")
    assert problems(text.replace("control: A\n", "control: old\n")) == []
    assert problems(text.replace("control: A\n", "")) == [("control", "the field is missing")]


def test_recorded_arms_of_one_system_may_be_aa() -> None:
    """Two recorded sets of outcomes of one system differ in their rows only."""
    other = RECORDED.replace("{arm: old}", "{arm: again}")
    text = edited(
        BASE, (COMMAND, RECORDED), (PYTHON, other), ("control: A", "control: A\naa: true")
    )
    assert problems(text) == []
    same = edited(BASE, (COMMAND, RECORDED), (PYTHON, RECORDED))
    assert [path for path, _ in problems(same)] == ["arms.B"]


def test_arms_that_differ_in_kind_of_value_alone_are_two_treatments() -> None:
    """A driver can tell 1 from true and from 1.0, so the protocol does too."""
    for one, other in (("1", "true"), ("0", "false"), ("1", "1.0")):
        first = COMMAND.replace("env: [KEY]", f"config: {{x: {one}}}")
        second = COMMAND.replace("env: [KEY]", f"config: {{x: {other}}}")
        assert problems(edited(BASE, (COMMAND, first), (PYTHON, second))) == []
        assert [path for path, _ in problems(edited(BASE, (COMMAND, first), (PYTHON, first)))] == [
            "arms.B"
        ]


def test_an_arm_declared_free_may_reserve_nothing() -> None:
    """A ceiling of 0 for the arm stops it at its first spend, so nothing is hidden."""
    text = edited(
        BASE,
        ("usd: 0.1}\n    driver: {kind: command", "tokens: 9}\n    driver: {kind: command"),
        ("[KEY], reserve_usd: 0.2", "[KEY], reserve_usd: 0"),
        ("A: {usd: 60}", "A: {usd: 0}"),
    )
    assert problems(text) == []


def test_sums_of_ceilings_are_exact() -> None:
    """0.1 + 0.2 is not above 0.3."""
    text = edited(BASE, ("usd: 90", "usd: 0.3"), ("A: {usd: 60}", "A: {usd: 0.1}"))
    assert problems(edited(text, ("B: {usd: 30}", "B: {usd: 0.2}"))) == []


def _problems(text: str) -> tuple[Problem, ...]:
    with pytest.raises(ProtocolError) as caught:
        parse_protocol(text.encode(), name="p", media="yaml")
    return caught.value.problems


@pytest.mark.parametrize(
    "path",
    ["missing", "missing.rules", "missing.limit", "analysis", "design", "endpoints", "decision",
     "decision.rule", "power", "units.cluster", "about"],
)  # fmt: skip
def test_a_missing_field_says_what_is_expected(path: str) -> None:
    """A section that isn't there is described as well as a single field."""
    section, _, field = path.partition(".")
    lines = BASE.splitlines(keepends=True)
    begin = next(i for i, line in enumerate(lines) if line.startswith(f"{section}:"))
    end = next((i for i in range(begin + 1, len(lines)) if lines[i][0] not in " -"), len(lines))
    kept = [line for line in lines[begin:end] if field and not line.startswith(f"  {field}:")]
    found = {one.where: one for one in _problems("".join(lines[:begin] + kept + lines[end:]))}
    assert "the field is missing" == found[path].what
    assert "" != found[path].expected


@pytest.mark.parametrize(
    ("columns", "todo"),
    [
        ("{unit: u, mark: mark}", "`score: mark`, or `scores.mark: mark`"),
        ("{unit: u, mark: score}", "`score: mark` or `score: score`"),
        ("{unit: u, pased: ok}", "did you mean passed?"),
    ],
)
def test_an_unknown_field_of_an_outcome_says_what_may_stand_there(columns: str, todo: str) -> None:
    """What was found is the key, and the advice is a line that can be typed."""
    driver = f"driver: {{kind: recorded, file: o.csv, columns: {columns}}}"
    text = re.sub(r"driver: \{kind: command.*\}", driver, BASE)
    problem = next(one for one in _problems(text) if "is unknown" in one.what)
    assert problem.found == f"the key {problem.where.rpartition('.')[2]!r}"
    assert todo in problem.todo


def test_a_ratio_names_the_arm_that_there_is_not() -> None:
    """`found` is never nothing where the file says something."""
    assign = "assigned\n  assign: {by: unit, ratio: {A: 1, treated: 1}}"
    found = {one.where: one for one in _problems(BASE.replace("paired", assign, 1))}
    assert "treated" == found["design.assign.ratio.treated"].found


def test_a_wrong_control_is_the_only_fault() -> None:
    """Comparisons follow from the control: no gate is asked for while there is none."""
    derived = re.sub(r"  comparisons: .*\n", "", BASE)
    assert ["control"] == [one.where for one in _problems(derived.replace("l: A\n", "l: C\n"))]


def test_what_is_not_supported_has_file_and_line() -> None:
    """A protocol that has to wait for a later version says which line it is."""
    text = BASE.replace("role: secondary", "role: harm", 1)
    text = re.sub(r"  saving: .*\n", "", text)
    with pytest.raises(ProtocolError) as caught:
        parse_supported(text.encode(), name="p.yaml", media="yaml")
    (problem,) = caught.value.problems
    assert "understood, not supported by this version" == problem.what
    where = text[: text.index("name: price")].count("\n") + 1
    assert f"p.yaml:{where}: " in str(caught.value)
