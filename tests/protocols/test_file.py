"""The protocol file: both syntaxes, examples of the specification, and what a refusal says."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

import fairtrial.protocols.file as module
from fairtrial.ledger.errors import Problem, ProtocolError
from fairtrial.ledger.protocol import (
    CommandDriver,
    Comparison,
    Protocol,
    RecordedDriver,
    encode_resolved,
    missing_rule,
    section_digests,
)
from fairtrial.protocols.file import check_supported, nearest, parse_protocol

ROOT = Path(__file__).parents[2]
DATA = Path(__file__).parent / "data"
PRO = (ROOT / "examples" / "demo" / "pro.yaml").read_text()
VERIFIED = (ROOT / "examples" / "demo" / "verified.yaml").read_text()

TOML = """\
protocol = 1
id = "pro-gpt5-sonnet45"
control = "A"  # a comment with a key = "value"

[about]
hypothesis = '''
Claude Sonnet 4.5 resolves more [issues] than GPT-5
at 250 turns = a limit.'''
links = [
  "https://example.org/a",  # first
  "https://example.org/b",
]

[units]
file = "pro-units.csv"
id = "unit"
cluster = "cluster"

[design]
pairing = "paired"
seed = 20261129

[arms.A]
label = "GPT-5"
[arms.A.driver]
kind = "recorded"
file = "pro-outcomes.csv"
where.arm = "gpt-5-250-turns-10132025"
columns = {unit = "unit", passed = "passed"}

[arms.B]
label = "Claude Sonnet 4.5"
driver = {kind = "recorded", file = "pro-outcomes.csv", where = {arm = "claude-45sonnet-10132025"}, columns = {unit = "unit", passed = "passed"}}

[[endpoints]]
name = "resolved"
role = "primary"
type = "binary"
value = "passed"
better = "higher"

[[endpoints]]
name = "second"
role = "secondary"
type = "binary"
value = "passed"
better = "higher"
[endpoints.missing]
failed = 0

[missing]
limit = 0.02
[missing.rules]
failed = "failure"
timeout = "failure"
limit = "failure"
error = "exclude_pair"
ungraded = "exclude_pair"
replay_miss = "exclude_pair"
invalidated = "exclude_pair"

[analysis]
estimand = "unit_weighted"
alpha = 0.05

[looks]
at = [0.75, 1]
icc = 0.05

[decision]
rule = "superiority"

[power]
effect = 0.1
assume = {discordance = 0.22, icc = 0.02}

[budget]
usd = 0
"""  # noqa: E501 - an inline table can't be wrapped in TOML


def parse(text: str, *, toml: bool = False) -> Protocol:
    """A protocol from text."""
    name = "p.toml" if toml else "p.yaml"
    return parse_protocol(text.encode(), name=name, media="toml" if toml else "yaml")


def problems(text: str | bytes, *, toml: bool = False) -> tuple[Problem, ...]:
    """What is refused about a file."""
    data = text if isinstance(text, bytes) else text.encode()
    with pytest.raises(ProtocolError) as caught:
        parse_protocol(data, name="p", media="toml" if toml else "yaml")
    assert caught.value.file == "p"
    return caught.value.problems


def line_of(text: str, part: str) -> int:
    """The line of the first place of a part, from 1."""
    return text[: text.index(part)].count("\n") + 1


@pytest.mark.parametrize(
    "path",
    sorted((ROOT / "examples").glob("*/*.yaml")),
    ids=lambda path: f"{path.parent.name}/{path.name}",
)
def test_every_example_is_accepted_and_supported(path: Path) -> None:
    """What we hand out as an example can be registered and run."""
    check_supported(parse_protocol(path.read_bytes(), name=path.name, media="yaml"))


def test_the_long_example_is_read_to_the_letter() -> None:
    """The live example of the specification parses, with every default in its place."""
    p = parse((DATA / "router.yaml").read_text())
    assert list(p.arms) == ["A", "B"]
    driver = p.arms["B"].driver
    assert isinstance(driver, CommandDriver)
    assert driver.argv == ("python", "answer.py", "--model", "small-2026-11")
    assert (driver.home, driver.output, driver.config) == (
        "temporary", "json", {"temperature": 0.7},
    )  # fmt: skip
    resolved, unsafe, price, seconds = p.endpoints
    assert (resolved.bounds, resolved.scale, resolved.reducer) == ((0.0, 1.0), "raw", "mean")
    assert missing_rule(p, unsafe, "timeout") == 0.0
    assert (price.scale, seconds.scale) == ("both", "log")
    assert p.analysis.comparisons == (Comparison(name="B", treatment="B", control="A", share=1.0),)
    assert (p.decision.rule, p.decision.margin, p.decision.gate) == (
        ("non_inferiority",), 0.05, "B",
    )  # fmt: skip
    assert p.decision.guards.min_df == 10.0
    assert p.budget.arms["A"].usd == 65.0
    assert p.blinding.looks == "continue_or_stop"
    assert p.units.select == {"split": ("test",)}
    assert p.about.notes.startswith("Margin agreed")


def test_the_long_example_is_refused_only_as_not_supported_yet() -> None:
    """What this version doesn't carry out is named field by field, all at once."""
    p = parse((DATA / "router.yaml").read_text())
    with pytest.raises(ProtocolError) as caught:
        check_supported(p, name="router.yaml")
    assert [problem.where for problem in caught.value.problems] == [
        "budget.arms",
    ]  # fmt: skip
    whats = {problem.what for problem in caught.value.problems}
    assert whats == {"understood, not supported by this version"}
    assert caught.value.file == "router.yaml"


def test_the_decision_rule_of_the_specification_is_carried_out() -> None:
    """It parses as written, and what it leaves out is filled in."""
    p = parse((DATA / "block_rule.yaml").read_text())
    assert p.scoring is not None
    assert p.arms["B"].rule is not None
    assert (p.arms["B"].rule.family_floor, p.decision.strata) == (20, "pooled")
    assert p.endpoints[1].where == {"label": ("1",)}
    assert p.power.effect is None
    check_supported(p)
    first = p.arms["A"].rule
    assert first is not None
    assert (first.precision, first.normalise, first.select_on) == (0.95, "platt", "twins")
    assert (first.recall, first.bound, first.min_flagged, first.family_floor) == (None,) * 4


def test_three_arms_need_a_gate() -> None:
    """The short form of three arms parses with declared shares and a gate."""
    third = "  C:\n    driver: {kind: recorded, file: c.csv, columns: {unit: u, passed: p}}\n"
    text = VERIFIED.replace("control: A", third + "control: A", 1)
    shares = (
        "  comparisons: [{name: B, treatment: B, control: A, share: 0.5}, "
        "{name: C, treatment: C, control: A, share: 0.5}]\n"
    )
    text = text.replace("  estimand", shares + "  estimand", 1)
    assert [problem.where for problem in problems(text)] == ["decision.gate"]
    p = parse(text.replace("  rule: superiority", "  rule: superiority\n  gate: B", 1))
    assert [comparison.share for comparison in p.analysis.comparisons] == [0.5, 0.5]
    check_supported(p)


def test_looks_at_any_time_parse() -> None:
    """`anytime` replaces shares, correlation and spending."""
    text = PRO.replace(
        "looks: {at: [0.75, 1.0], icc: 0.05}", "looks: {kind: anytime, method: beta}"
    )
    text = text.replace("cluster: cluster", "cluster: none")
    looks = parse(text).looks
    assert (looks.at, looks.spending, looks.method, looks.min_clusters) == ((), None, "beta", 10)
    check_supported(parse(text))
    assert 100 == parse(text.replace("beta", "asymptotic")).looks.min_clusters


def test_defaults_of_a_short_file() -> None:
    """A short file has every default of version 1 in its resolved form."""
    p = parse(PRO)
    assert (p.kind, p.control, p.aa) == ("comparison", "A", False)
    assert (p.units.format, p.attempts.max, p.attempts.retry_on) == ("csv", 1, ("error",))
    assert (p.endpoints[0].reducer, p.endpoints[0].scale) == ("first", "raw")
    assert (p.analysis.alpha, p.analysis.sides, p.analysis.resamples) == (0.05, 2, 9999)
    assert (p.looks.spending, p.looks.on_crossing) == ("lan_demets_obrien_fleming", "stop")
    assert (p.decision.margin, p.decision.gate, p.decision.primaries) == (0.0, "B", None)
    assert (p.power.source, p.power.target) == ("guess", 0.8)
    assert (p.require.commit, p.require.anchor, p.blinding.looks) == (True, "none", "full")
    driver = p.arms["A"].driver
    assert isinstance(driver, RecordedDriver)
    assert driver.columns == {"passed": "passed", "unit": "unit"}


def test_an_arm_without_a_label_is_called_by_its_name() -> None:
    """The label's default is the arm's name."""
    assert parse(PRO.replace("    label: GPT-5\n", "", 1)).arms["A"].label == "A"


def test_a_default_that_is_written_out_has_the_same_digests() -> None:
    """The resolved form doesn't tell whether the author wrote a default."""
    written = PRO.replace("rule: superiority", "rule: superiority, margin: 0, gate: B", 1)
    written = written.replace("kind: recorded", "files: [], kind: recorded", 1)
    assert written != PRO
    assert section_digests(parse(PRO)) == section_digests(parse(written))


# -- YAML 1.2 -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("old", "new", "what"),
    [
        ("seed: 20261129", "seed: !!int 20261129", "the tag"),
        ("seed: 20261129", "seed: &s 20261129", "the anchor &s"),
        ("unit: unit, passed", "unit: *s, passed", "the alias *s"),
        ("looks: {", "looks: {<<: {icc: 0.1}, ", "the merge key"),
        ("protocol: 1", "%YAML 1.1\n---\nprotocol: 1", "a directive"),
        ("protocol: 1", "%TAG ! tag:example.org,2026:\n---\nprotocol: 1", "a directive"),
        ("budget: {usd: 0}", "budget: {usd: 0}\n---\na: 1", "more than one document"),
    ],
)
def test_what_yaml_could_hide_is_refused(old: str, new: str, what: str) -> None:
    """Tags, anchors, aliases, merge keys, directives and further documents are refused."""
    found = problems(PRO.replace(old, new, 1))
    assert [problem for problem in found if what in problem.what]
    assert all(problem.line for problem in found)


def test_a_key_twice_is_refused_with_both_lines() -> None:
    """FR-13: `alpha` near the top and near the end."""
    text = VERIFIED + "\nanalysis:\n  estimand: unit_weighted\n  alpha: 0.20\n"
    second = "\nanalysis:\n  estimand: unit_weighted\n  alpha: 0.20"
    lines = (line_of(text, "\nanalysis:") + 1, line_of(text, second) + 1)
    (problem,) = problems(text)
    assert (problem.where, problem.line) == ("analysis", lines[1])
    assert problem.what == f"the key 'analysis' stands twice: lines {lines[0]} and {lines[1]}"


def test_a_field_twice_in_one_section_is_refused() -> None:
    """FR-13: the same key in one mapping, in block and in flow style."""
    text = PRO.replace("alpha: 0.05", "alpha: 0.05, alpha: 0.2", 1)
    (problem,) = problems(text)
    line = line_of(text, "alpha: 0.05, alpha")
    assert problem.where == "analysis.alpha"
    assert problem.what == f"the key 'alpha' stands twice: lines {line} and {line}"


def test_two_arms_under_one_name_are_refused() -> None:
    """FR-13: two arms A."""
    text = VERIFIED.replace("  B:\n", "  A:\n", 1)
    twice = next(problem for problem in problems(text) if problem.where == "arms.A")
    first, second = line_of(text, "  A:\n"), line_of(text.replace("  A:\n", "  x:\n", 1), "  A:\n")
    assert f"lines {first} and {second}" in twice.what


def test_a_misspelt_key_names_the_nearest() -> None:
    """FR-13: `apha` is refused, and the message knows `alpha`."""
    text = PRO.replace("alpha: 0.05", "apha: 0.05", 1)
    (problem,) = problems(text)
    assert (problem.where, problem.line) == ("analysis.apha", line_of(text, "apha"))
    assert problem.todo == "did you mean alpha?"
    assert "alpha" in problem.expected


def test_words_that_are_text_in_yaml_1_2() -> None:
    """`no`, `on`, dates, sexagesimals and `1_000` are text, as YAML 1.2 says."""
    text = PRO.replace(
        "hypothesis: Claude", "owner: no\n  title: 2026-12-01\n  hypothesis: Claude", 1
    )
    assert (parse(text).about.owner, parse(text).about.title) == ("no", "2026-12-01")
    for value in ("yes", "on", "no"):
        changed = PRO.replace("budget:", f"require: {{commit: {value}}}\nbudget:", 1)
        (problem,) = problems(changed)
        assert problem.found == f"text '{value}'"
        assert problem.todo == "write true or false"
    (problem,) = problems(PRO.replace("seed: 20261129", "seed: 1_000", 1))
    assert problem.found == "text '1_000'"


@pytest.mark.parametrize("number", ["0x10", "0o17", ".nan", ".NaN", ".inf", "-.inf", "1e999"])
def test_numbers_are_finite_decimals(number: str) -> None:
    """Hex, octal, NaN and infinities are refused once, with what was written or meant."""
    (problem,) = problems(PRO.replace("alpha: 0.05", f"alpha: {number}", 1))
    assert problem.where == "analysis.alpha"
    assert number in problem.found


def test_infinities_are_refused_even_where_anything_goes() -> None:
    """A driver's `config` holds JSON values, which an infinity isn't."""
    text = (DATA / "router.yaml").read_text().replace("temperature: 0.7", "temperature: .inf", 1)
    assert [problem.where for problem in problems(text)] == ["arms.A.driver.config.temperature"]


def test_minus_zero_is_zero() -> None:
    """-0.0 and 0.0 are one value and have one digest."""
    zero, minus = (
        PRO.replace("rule: superiority", f"rule: superiority, margin: {value}", 1)
        for value in ("0.0", "-0.0")
    )
    assert encode_resolved(parse(zero)) == encode_resolved(parse(minus))


def test_nothing_is_interpolated() -> None:
    """`${HOME}` is text like any other."""
    text = PRO.replace("label: GPT-5\n", "label: ${HOME}\n", 1)
    assert parse(text).arms["A"].label == "${HOME}"


def test_text_keeps_its_unicode_form() -> None:
    """Nothing is normalised: composed and decomposed are two texts."""
    one, two = (PRO.replace("label: GPT-5\n", f"label: {e}\n", 1) for e in ("\u00e9", "e\u0301"))
    assert parse(one).arms["A"].label == "\u00e9"
    assert section_digests(parse(one))["arms.A"] != section_digests(parse(two))["arms.A"]


@pytest.mark.parametrize("mark", [b"", b"\xef\xbb\xbf"])
@pytest.mark.parametrize("ending", [b"\n", b"\r\n"])
def test_marks_and_line_ends_do_not_change_meaning(mark: bytes, ending: bytes) -> None:
    """FR-09: the bytes differ, the sections don't; lines are counted alike."""
    data = mark + VERIFIED.encode().replace(b"\n", ending)
    p = parse_protocol(data, name="p", media="yaml")
    assert section_digests(parse(VERIFIED)) == section_digests(p)
    broken = data.replace(b"alpha: 0.05", b"apha: 0.05")
    assert problems(broken)[0].line == line_of(VERIFIED, "alpha: 0.05")


@pytest.mark.parametrize(
    ("data", "what"),
    [
        (b"protocol: 1\nid: \xfc\n", "not UTF-8"),
        (PRO.encode("utf-16"), "not UTF-8"),
        (b"protocol: 1\nid: [a\n", "not YAML"),
        (b"protocol: 1\n\tid: a\n", "not YAML"),
        (b"protocol: \x07\n", "not YAML"),
        (b"", "not a mapping"),
        (b"# nothing\n", "not a mapping"),
        (b"- protocol\n", "not a mapping"),
        (b"protocol\n", "not a mapping"),
        (b"a: " + b"[" * 60 + b"]" * 60, "nested deeper"),
        (b"a: " + b"[" * 5000, "nested deeper"),
    ],
)
def test_what_is_no_protocol_at_all(data: bytes, what: str) -> None:
    """A file that can't be read as a mapping says so with a line, and nothing else."""
    found = problems(data)
    assert [problem for problem in found if what in problem.what], found
    assert len(found) == 1
    assert found[0].line


def test_numbers_as_keys_are_names() -> None:
    """An arm may be called 1: the key is the text that the author wrote."""
    text = PRO.replace("  B:\n", "  1:\n", 1)
    p = parse(text)
    assert list(p.arms) == ["1", "A"]
    assert p.decision.gate == "1"


# -- messages -----------------------------------------------------------------------------------


def test_all_problems_are_reported_at_once_in_order_of_lines() -> None:
    """One run shows every fault: unknown key, bad value, missing field and broken rule."""
    text = PRO.replace("seed: 20261129", "seed: x", 1)
    text = text.replace("alpha: 0.05", "apha: 0.05", 1).replace("icc: 0.05", "icc: 2", 1)
    text = text.replace("power: {effect: 0.1", "power: {effect: 0.5", 1)
    text = text.replace("  limit: 0.02\n", "", 1)
    found = problems(text)
    assert {problem.where for problem in found} == {
        "design.seed", "analysis.apha", "looks.icc", "power.assume.discordance", "missing.limit",
    }  # fmt: skip
    lines = [problem.line or 0 for problem in found]
    assert lines == sorted(lines)


def test_a_refusal_reads_file_line_field_expected_found() -> None:
    """The whole text of one problem, as people see it."""
    text = PRO.replace("alpha: 0.05", "alpha: 0.5", 1)
    line = line_of(text, "alpha: 0.5")
    with pytest.raises(ProtocolError) as caught:
        parse_protocol(text.encode(), name="pro.yaml", media="yaml")
    assert str(caught.value) == (
        f"pro.yaml:{line}: analysis.alpha: the value is not acceptable\n"
        "  expected  a number from 0.000001 to 0.2\n"
        "  found     number 0.5\n"
        "  do        write a number from 0.000001 to 0.2"
    )


def test_a_key_of_another_driver_says_whose_it_is() -> None:
    """`argv` beside `kind: recorded` isn't a misspelling."""
    (problem,) = problems(PRO.replace("kind: recorded", "kind: recorded, argv: [a]", 1))
    assert (problem.where, problem.todo) == (
        "arms.A.driver.argv", "it belongs to a command driver",
    )  # fmt: skip


def test_a_later_driver_is_told_from_a_misspelt_one() -> None:
    """`agent` is a driver of a later version, `comand` is none."""
    (later,) = problems(PRO.replace("kind: recorded", "kind: agent", 1))
    (wrong,) = problems(PRO.replace("kind: recorded", "kind: comand", 1))
    assert later.todo == "agent comes with a later version"
    assert (wrong.todo, wrong.expected) == ("", "one of recorded, python, command")


def test_nearest_finds_what_was_meant() -> None:
    """Small slips are found, other words are not."""
    assert nearest("apha", ["alpha", "also"]) == "alpha"
    assert nearest("Passd", ["passed", "score"]) == "passed"
    assert nearest("zzz", ["alpha"]) is None
    assert nearest("x", []) is None
    assert nearest("client", ["len", "id", "site"]) is None


# -- TOML ---------------------------------------------------------------------------------------


def test_toml_and_yaml_of_one_plan_are_equal() -> None:
    """The syntax is no part of the meaning: same values, same digests."""
    toml = parse(TOML, toml=True)
    other = parse(PRO)
    for section in ("identity", "units", "design", "arms.A", "arms.B", "analysis", "looks"):
        assert section_digests(other)[section] == section_digests(toml)[section], section
    assert toml.about.hypothesis.endswith("at 250 turns = a limit.")
    assert toml.about.links == ("https://example.org/a", "https://example.org/b")
    assert toml.endpoints[1].missing == {"failed": 0.0}
    check_supported(toml)


@pytest.mark.parametrize(
    ("old", "new", "where", "what"),
    [
        ("alpha = 0.05", "apha = 0.05", "analysis.apha", "unknown"),
        ("alpha = 0.05", "alpha = nan", "analysis.alpha", "not acceptable"),
        ("alpha = 0.05", "alpha = -inf", "analysis.alpha", "not acceptable"),
        ("alpha = 0.05", "alpha = 2026-12-01", "analysis.alpha", "not acceptable"),
        ("seed = 20261129", "seed = 0x10", "design.seed", "not acceptable"),
        ("at = [0.75, 1]", "at = [0.75, 7]", "looks.at[1]", "not acceptable"),
        ('name = "second"', 'nam = "second"', "endpoints[1].name", "missing"),
        ("failed = 0\n", "faild = 0\n", "endpoints.second.missing.faild", "unknown"),
        ('where.arm = "gpt', 'where.arm = 1.5 # "gpt', "arms.A.driver.where.arm", "not accept"),
        ("icc = 0.02}", "icc = 2}", "power.assume.icc", "not acceptable"),
        ("usd = 0\n", "usd = -1\n", "budget.usd", "not acceptable"),
    ],
)
def test_toml_problems_have_field_and_line(old: str, new: str, where: str, what: str) -> None:
    """The same refusals as in YAML, with the line of the key."""
    text = TOML.replace(old, new, 1)
    assert text != TOML
    found = [problem for problem in problems(text, toml=True) if problem.where == where]
    assert found, problems(text, toml=True)
    assert what in found[0].what
    expected = line_of(text, "[[endpoints]]\nnam = ") if "nam =" in new else line_of(text, new)
    assert expected == found[0].line


@pytest.mark.parametrize(
    ("old", "new", "where"),
    [
        ("alpha = 0.05", "alpha = 0.05\nalpha = 0.2", "analysis.alpha"),
        ("[arms.B]", "[arms.A]", "arms.A"),
        ("[budget]", '[analysis]\nestimand = "x"\n[budget]', "analysis"),
        ("icc = 0.02}", "icc = 0.02, icc = 0.03}", "power.assume.icc"),
    ],
)
def test_toml_keys_twice_are_refused_with_both_lines(old: str, new: str, where: str) -> None:
    """FR-13 in TOML: file, key, both lines."""
    text = TOML.replace(old, new, 1)
    (problem,) = problems(text, toml=True)
    assert problem.where == where
    assert "stands twice: lines " in problem.what
    first, second = (int(word) for word in problem.what.split("lines ")[1].split(" and "))
    assert problem.line == second
    assert first <= second
    key = where.rpartition(".")[2]
    lines = text.splitlines()
    assert key in lines[first - 1]
    assert key in lines[second - 1]


def test_what_is_not_toml_is_refused_with_its_line() -> None:
    """The line of the syntax error is named."""
    text = TOML.replace("alpha = 0.05", "alpha 0.05", 1)
    (problem,) = problems(text, toml=True)
    assert "not TOML" in problem.what
    assert problem.line == line_of(text, "alpha 0.05")


def test_reading_toml_does_not_load_the_yaml_library() -> None:
    """The start of a command that reads no YAML doesn't pay for it."""
    code = "import sys, fairtrial.protocols.file; print('ruamel.yaml' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "False"


def test_all_lists_what_exists() -> None:
    """`__all__` is a tuple, and every name in it is there."""
    assert isinstance(module.__all__, tuple)
    assert [name for name in module.__all__ if not hasattr(module, name)] == []
