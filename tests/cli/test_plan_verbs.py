"""`check`, `try` and what `look` and `result` give to programs."""

from __future__ import annotations

import re
from collections.abc import Callable
from hashlib import sha256

import pytest

from .conftest import BETTER, FEW, Shell

pytestmark = pytest.mark.slow

Make = Callable[..., Shell]
_HARM = "  - {name: unsafe, role: harm, type: binary, value: scores.unsafe, better: lower}\n"


def test_check_says_where_looks_fall_and_what_can_be_found(example: Make) -> None:
    """Units, looks, power, budget and git each have their line; nothing is written."""
    shell = example()
    before = sorted(path.name for path in shell.folder.iterdir())
    said = shell.ok("check")
    for part in (
        "24 units in 12 sheets, 48 slots (24 units x 2 arms x 1 replicate)",
        "planned 0.75 1.00 of the clusters",
        "0.75 (18 units, 9 sheets) and 1.00 (24 units, 12 sheets) of the information",
        "power     85.2 % for a difference of 50.0 points",
        "ceiling 1.00 usd; all slots reserve 0.48",
        "not in git",
    ):
        assert part in said.out
    assert before == sorted(path.name for path in shell.folder.iterdir())


def test_check_names_an_unset_variable_and_a_reservation_over_the_ceiling(example: Make) -> None:
    """What a run would refuse is said now; what may end it early is a warning."""
    shell = example(**{"env: []": "env: [FAIRTRIAL_NOSUCH_KEY]", "usd: 1.00": "usd: 0.20"})
    said = shell.ok("check")
    assert "driver    baseline: FAIRTRIAL_NOSUCH_KEY is not set     (run would refuse)" in said.out
    assert "the run may stop before its end     (warning)" in said.out
    found = shell.ok("check", "--json").json
    assert {"baseline": ["FAIRTRIAL_NOSUCH_KEY is not set"], "candidate": []} == found["drivers"]
    shell.ok("register")
    said = shell.ledger("run")
    assert (3, True) == (said.code, "FAIRTRIAL_NOSUCH_KEY" in said.err)


def test_rare_harm_is_warned_of_before_it_leaves_the_verdict_open(example: Make) -> None:
    """A harm endpoint needs discordant clusters of its own; a plan without one has no warning."""
    shell = example()
    assert [] == shell.ok("check", "--json").json["warnings"]
    path = shell.folder / "protocol.yaml"
    text = path.read_text().replace("missing:  ", f"{_HARM}\nmissing:  ", 1)
    rule = "rule: superiority "
    path.write_text(text.replace(rule, f"harm: {{alpha: 0.05, margin: 0.01}}\n  {rule}"))
    warning = (
        "as long as harm is so rare that the arms differ in fewer than 8 sheets on harm endpoint"
        " unsafe, the verdict is inconclusive"
    )
    found = shell.ok("check", "--json").json
    assert ["rare_harm"] == [one["code"] for one in found["warnings"]]
    for verb in (("check",), ("power", "--runs", "10"), ("register",)):
        assert warning in shell.ok(*verb).out


def test_hopeless_plan_is_refused_with_everything_shown(example: Make) -> None:
    """A plan that can hardly conclude has its whole page, and exit code 3; register refuses it."""
    shell = example(**{"effect: 0.5 ": "effect: 0.05 "})
    said = shell.ledger("check")
    assert (3, "") == (said.code, said.err)
    assert said.out.startswith("refused   ")
    assert "(register would refuse)" in said.out
    assert not any(line.startswith("ok ") for line in said.out.splitlines())
    found = shell.ledger("check", "--json").json
    assert found["ok"] is False
    assert 3 == shell.ledger("register").code
    assert not (shell.folder / "ledger.db").exists()


def test_hopeless_plan_that_is_registered_is_accepted_by_an_amendment(example: Make) -> None:
    """`register --no-freeze` says what a freeze would refuse; the refusal names the way out."""
    shell = example(**{"effect: 0.5 ": "effect: 0.05 "})
    said = shell.ok("register", "--no-freeze")
    assert "warning   underpowered: power is" in said.out
    assert "(freeze would refuse)" in said.out
    assert "next: ledger amend --reason TEXT" in said.err
    said = shell.ledger("freeze")
    assert 3 == said.code
    ways = [f"power.accept.{name}=WHY" for name in ("impossible", "underpowered")]
    assert f" --set {ways[0]} --set {ways[1]} --reason TEXT" in said.err
    shell.ok("amend", "--set", ways[0], "--set", ways[1], "--reason", "as accepted")
    amended = sha256((shell.folder / "protocol.yaml").read_bytes()).hexdigest()
    said = shell.ok("freeze")
    assert f"amended   in force: protocol sha256 {amended[:16]}" in said.out


def test_plan_that_is_sound_has_no_warning_of_a_freeze(example: Make) -> None:
    """Without a finding that refuses, `register --no-freeze` has none."""
    shell = example()
    said = shell.ok("register", "--no-freeze", "--json")
    assert [] == said.json["freeze_would_refuse"]
    assert "amended" not in shell.ok("freeze").out


def test_files_outside_git_are_a_warning_where_a_commit_is_asked_for(example: Make) -> None:
    """`check` and `register` say that nothing but the ledger holds the plan's date."""
    shell = example()
    warning = "nothing but the ledger"
    assert warning in shell.ok("check").out
    said = shell.ok("register")
    assert warning in said.out
    assert [True] == [warning in one for one in shell.ok("register", "--json").json["warnings"]]


@pytest.mark.parametrize("way", ["require", "override"])
def test_files_outside_git_are_no_warning_where_that_was_decided(example: Make, way: str) -> None:
    """A protocol that asks for no commit, and an override with its reason, have none."""
    shell = example()
    words = ["--override", "a demonstration"] if way == "override" else []
    if way == "require":
        path = shell.folder / "protocol.yaml"
        path.write_text(f"require: {{commit: false}}\n{path.read_text()}")
    assert "the plan's date" not in shell.ok("register", *words).out


def test_reason_that_accepts_nothing_is_told_in_the_result_too(shell: Shell) -> None:
    """What `check` calls a reason with nothing to accept isn't accepted in the result."""
    shell.recorded(BETTER, register=False)
    path = shell.folder / "protocol.yaml"
    path.write_text(path.read_text().replace("  accept:\n", "  accept:\n    impossible: all\n"))
    idle = "power.accept.impossible has a reason and nothing to accept"
    assert idle in shell.ok("check").out
    shell.ok("register")
    shell.ok("run")
    said = shell.ok("result").out
    assert "impossible: all (the freeze found nothing to accept)" in said
    assert 1 == said.count("found nothing to accept")
    assert said == shell.ok("result").out


def test_slots_without_a_row_are_told_before_the_freeze(shell: Shell) -> None:
    """A gap in a recorded table is a warning of `check` and `register`, not first of the result."""
    shell.recorded(BETTER, register=False)
    table = shell.folder / "outcomes.csv"
    assert "no row" not in shell.ok("check").out
    lines = table.read_text().splitlines()
    table.write_text("\n".join(lines[:-1]) + "\n")
    warning = "warning   1 of 48 slots has no row in the table (new 1): missing, as replay_miss"
    assert warning in shell.ok("check").out
    assert {"new": 1} == shell.ok("check", "--json").json["without_row"]
    assert warning in shell.ok("register").out


def test_signatures_are_named_before_they_are_needed(example: Make) -> None:
    """`check` says who signs what, `register` what comes before the run, and `next:` is that."""
    signatures = (
        "require: {signatures: [{meaning: approved, role: statistician, before: run}, "
        "{meaning: reviewed, role: quality, before: result_counts}]}\n\nbudget:\n"
    )
    shell = example()
    path = shell.folder / "protocol.yaml"
    path.write_text(path.read_text().replace("\nbudget:\n", f"\n{signatures}"))
    said = shell.ok("check")
    assert said.out.startswith("ok ")
    assert "`approved` by statistician before the run starts" in said.out
    assert "`reviewed` by quality before the result counts" in said.out
    done = shell.ok("register", "--override", "a test")
    assert "next: ledger sign 2 --meaning approved --role statistician" in done.err
    assert "ledger run" not in done.err
    assert "waits     the run waits for `approved` by statistician" in done.out


def test_check_reads_this_folders_protocol_by_default(shell: Shell) -> None:
    """Without a name protocol.yaml is meant; where there is none the error says what writes one."""
    said = shell.ledger("check")
    assert (3, True) == (said.code, "ledger init" in said.err)


def test_try_hides_the_score_and_records_nothing(example: Make) -> None:
    """The job's line, the status and the cost are shown; the score only when it is asked for."""
    shell = example()
    said = shell.ok("try")
    assert 2 == said.out.count("score hidden (--show-score)")
    assert '"unit":"pilot-1"' in said.out
    assert "passed=" not in said.out
    found = shell.ok("try", "--arm", "candidate", "--unit", "pilot-2", "--json").json
    assert (False, None) == (found["recorded"], found["tried"][0]["scores"])
    shown = shell.ok("try", "--arm", "candidate", "--show-score", "--json").json
    assert {"passed": 1.0} == shown["tried"][0]["scores"]
    assert not list(shell.folder.glob("ledger.db*"))


def test_try_asks_pilot_units_alone(example: Make) -> None:
    """A unit of the plan can't be tried, nor an arm that isn't there."""
    shell = example()
    assert 3 == shell.ledger("try", "--unit", "sum-01").code
    assert 3 == shell.ledger("try", "--arm", "nosuch").code
    path = shell.folder / "protocol.yaml"
    path.write_text(path.read_text().replace("pilot: pilot.csv", "# pilot: pilot.csv"))
    said = shell.ledger("try")
    assert (3, True) == (said.code, "units.pilot" in said.err)


def test_try_shows_what_an_agent_said_when_it_broke(example: Make) -> None:
    """An attempt without an answer is 4, with the output that helps to mend it."""
    shell = example(
        {"job = json.load": "print('no key', file=sys.stderr); sys.exit(7)\njob = json.load"}
    )
    said = shell.ledger("try", "--arm", "baseline")
    assert 4 == said.code
    assert "status error (exit_7)" in said.out
    assert "stderr    no key" in said.out
    assert "next: ledger try protocol.yaml --arm baseline\n" in said.err
    said = shell.ledger("try", "--arm", "baseline", "--unit", "pilot-2")
    assert "next: ledger try protocol.yaml --arm baseline --unit pilot-2\n" in said.err


def test_try_warns_of_an_endpoint_without_a_value(example: Make) -> None:
    """An answer that an endpoint can't use is said before the plan is registered."""
    shell = example({'"passed": answer == left + right, ': ""})
    said = shell.ok("try", "--arm", "candidate")
    assert "endpoint correct finds no value in this answer" in said.out


def test_result_json_has_the_fields_that_others_build_on(concluded: Shell) -> None:
    """The shape of the design, at the least."""
    found = concluded.ok("result", "--json").json
    assert {
        "v", "experiment", "verdict", "reason", "reason_code", "evidence", "existed_before",
        "as_registered", "amended", "basis", "units", "comparisons", "spend_usd", "receipt", "next",
    } <= set(found)  # fmt: skip
    assert {"planned", "paired", "clusters", "missing"} <= set(found["units"])
    comparison = found["comparisons"][0]
    assert {"name", "treatment", "control", "verdict", "endpoints", "looks"} <= set(comparison)
    endpoint = comparison["endpoints"][0]
    assert {
        "name", "role", "arms", "difference", "standard_error", "df", "interval", "tests",
        "discordant", "bounds", "warnings",
    } <= set(endpoint)  # fmt: skip
    assert {"lower", "upper", "level", "method"} <= set(endpoint["interval"])
    assert {
        "look", "endpoint", "information_fraction", "eligible", "why_not", "estimate", "nominal_p",
        "t_critical", "p_value", "crossed",
    } <= set(comparison["looks"][0])  # fmt: skip
    assert (["new", "old"], None) == (found["existed_before"], found["as_registered"])


def test_status_and_replay_json_have_the_fields_that_others_build_on(concluded: Shell) -> None:
    """The shapes of the design, at the least; the counts add up."""
    status = concluded.ok("status", "--json").json
    assert {
        "v", "experiment", "state", "planned", "settled", "pending", "failing", "in_flight",
        "not_run", "spent_usd", "reserved_usd", "expected_usd", "looks", "head", "next",
    } <= set(status)  # fmt: skip
    assert status["planned"] == status["settled"] + status["pending"] + status["not_run"]
    replay = concluded.ok("replay", "--json").json
    assert {
        "v", "record", "anchored", "anchored_by", "size", "root", "levels", "verdicts", "findings",
    } <= set(replay)  # fmt: skip
    assert ("intact", "no") == (replay["record"], replay["anchored"])
    assert {"ok", "failed", "skipped"} >= set(replay["levels"].values())


def test_inconclusive_result_says_why_in_words_of_the_data(shell: Shell) -> None:
    """Four clusters are too few, and the reason counts them."""
    shell.recorded(FEW)
    shell.ok("run")
    said = shell.ok("result")
    assert "VERDICT   INCONCLUSIVE: " in said.out
    assert "4" in said.out.partition("INCONCLUSIVE: ")[2].splitlines()[0]
    assert "cluster" in said.out.partition("INCONCLUSIVE: ")[2].splitlines()[0]


def test_hidden_looks_tell_only_whether_the_run_goes_on(shell: Shell) -> None:
    """With `continue_or_stop` neither text nor JSON of a look has a number of an arm."""
    shell.recorded(BETTER, register=False)
    path = shell.folder / "protocol.yaml"
    path.write_text(path.read_text() + "\nblinding: {looks: continue_or_stop}\n")
    shell.ok("register")
    shell.ok("run")
    said = shell.ok("look")
    assert "points" not in said.out
    found = shell.ok("look", "--json").json
    assert {
        "v", "experiment", "look", "units", "clusters", "information_fraction", "eligible",
        "continues", "receipt", "next",
    } == set(found)  # fmt: skip


def test_blinded_run_that_ends_early_says_alike_why_it_does(example: Make) -> None:
    """A run ends before its last look for one reason alone, which both streams give."""
    shell = example(**{"budget:\n": "blinding: {arms: true}\n\nbudget:\n"})
    shell.ok("register")
    said = shell.ok("run")
    assert "look 1 of 2 taken: boundary crossed, the run ends\n" in said.err
    assert "look 1 of 2 taken: boundary crossed, 12 not run\n" in said.out


@pytest.mark.parametrize("quiet", [True, False])
def test_receipt_beside_the_ledger_vouches_for_nothing(concluded: Shell, quiet: bool) -> None:
    """A receipt from the ledger's own folder is taken, with a word about its worth."""
    name = max((concluded.folder / "ledger.db.d" / "receipts").iterdir()).name
    words = ["replay", "--against", f"ledger.db.d/receipts/{name}"]
    said = concluded.ok(*words, *(["--quiet"] if quiet else []))
    assert ("vouches for nothing" in said.err) is not quiet
    assert "UNANCHORED" in said.out
    assert 10 == concluded.ledger(*words, "--require", "anchored").code
    since = concluded.ledger("replay", "--since", words[2], "--require", "anchored")
    assert 10 == since.code


def _missing_program(text: str) -> str:
    return text.replace("python3, agent.py", "pyton3, agent.py")


def _missing_driver_file(text: str) -> str:
    return text.replace("files: [agent.py]", "files: [absent.py]")


@pytest.mark.parametrize("spoil", [_missing_program, _missing_driver_file])
def test_what_a_freeze_would_refuse_leaves_no_entry(
    shell: Shell, spoil: Callable[[str], str]
) -> None:
    """`check` exits 3 where `register` would refuse, and `register` begins no ledger then."""
    shell.ok("init", ".")
    plan = shell.folder / "protocol.yaml"
    spoiled = spoil(plan.read_text())
    assert spoiled != plan.read_text(), "the example is spoiled"
    plan.write_text(spoiled)
    assert 3 == shell.ledger("check").code
    assert 3 == shell.ledger("register").code
    assert not (shell.folder / "ledger.db").exists()


def test_unfrozen_plan_is_amended_in_any_part(shell: Shell) -> None:
    """Before the freeze no section is fixed: a mistyped program can be put right on record."""
    shell.ok("init", ".")
    plan = shell.folder / "protocol.yaml"
    right = plan.read_text()
    plan.write_text(_missing_program(right))
    shell.ok("register", "--no-freeze")
    plan.write_text(right)
    shell.ok("amend", "--reason", "mistyped")
    shell.ok("freeze")


def test_program_without_the_right_to_run_is_named_as_that(shell: Shell) -> None:
    """A file that is there but not executable isn't called missing."""
    shell.ok("init", ".")
    plan = shell.folder / "protocol.yaml"
    plan.write_text(plan.read_text().replace("[python3, agent.py]", "[./agent.py]"))
    (shell.folder / "agent.py").chmod(0o644)
    said = shell.ledger("check")
    assert 3 == said.code
    assert "not executable" in said.err
    assert "chmod +x ./agent.py" in said.err


def test_register_says_why_nothing_was_frozen(shell: Shell) -> None:
    """A units file that isn't there is told apart from a freeze that wasn't wanted."""
    shell.ok("init", ".")
    assert "not yet: as --no-freeze says" in shell.ok("register", "--no-freeze").out
    (shell.folder / "units.csv").unlink()
    said = shell.ok("register", "--ledger", "other.db")
    assert "not yet: units.csv isn't there yet" in said.out


def test_interval_names_what_it_is_made_of(shell: Shell) -> None:
    """Limits of two methods cover both; nothing is said of pairs that aren't there."""
    shell.table(BETTER)
    said = shell.ok("compare", "table.csv", "--arms", "old,new")
    assert re.search(r"covers CR2-t with [\d.]+ df and cluster-adjusted Tango", said.out)
    assert re.search(r"CR2-t p [\d.]+, Tango p [\d.]+ against no difference", said.out)
    said = shell.ok("compare", "table.csv", "--arms", "old,new", "--cluster", "none")
    assert "24 pairs)" in said.out
    assert "24 clusters" not in said.out
    (shell.folder / "none.csv").write_text("unit,arm,passed\na,old,1\nb,new,0\nc,old,1\nd,new,1\n")
    said = shell.ledger("compare", "none.csv")
    assert (3, True) == (said.code, "no unit has an outcome in both arms" in said.err)
    assert "McNemar" not in said.out


def test_table_that_cannot_be_read_begins_no_trial(shell: Shell) -> None:
    """`init --from` refuses what `compare` refuses, and writes nothing."""
    (shell.folder / "words.csv").write_text(
        "unit,arm,passed\na,old,1\na,new,perhaps\nb,old,1\nb,new,0\n"
    )
    said = shell.ledger("init", "--from", "words.csv", "trial")
    assert (3, True) == (said.code, said.err.startswith("words.csv:3: column passed"))
    assert ["words.csv"] == [path.name for path in shell.folder.iterdir()]
