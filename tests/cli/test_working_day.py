"""The working day, typed as the README has it: from nothing to a replayed verdict."""

from __future__ import annotations

import re
import shlex
import shutil
import subprocess
from collections.abc import Callable, Mapping
from pathlib import Path

import pytest

from .conftest import BETTER, Shell

pytestmark = pytest.mark.slow

Make = Callable[..., Shell]
RECEIPT = re.compile(r"^receipt +(fairtrial:[0-9a-f]{32}@\d+#[A-Za-z0-9+/]{43}=)$", re.MULTILINE)


def test_working_day_from_init_to_replay(tmp_path: Path) -> None:
    """Every command prints the one to type next; the last one verifies what the first began."""
    shell = Shell(tmp_path)
    said = shell.process("init", "trial")
    assert (0, "next: cd trial && ledger check protocol.yaml\n") == (said.code, said.err)
    shell = Shell(tmp_path / "trial")
    said = shell.process("check", "protocol.yaml")
    assert (0, "next: ledger register protocol.yaml\n") == (said.code, said.err)
    assert "smallest difference found" in said.out
    said = shell.process("try", "protocol.yaml", "--arm", "candidate", "--unit", "pilot-1")
    assert 0 == said.code
    assert "nothing was recorded" in said.out
    assert not list(shell.folder.glob("ledger.db*"))
    receipts = []
    for words, following in (
        (("register", "protocol.yaml"), "ledger run"),
        (("run",), "ledger result"),
        (("look",), "ledger result"),
        (("result", "--gate=adopt"), "ledger replay --against fairtrial:"),
    ):
        said = shell.process(*words)
        assert 0 == said.code, said.err
        assert f"next: {following}" in said.err.splitlines()[-1]
        receipts += RECEIPT.findall(said.out)
    assert 4 == len(receipts)
    for receipt in receipts:
        assert 0 == shell.process("replay", "--against", receipt).code
    said = shell.process("replay", "--against", receipts[-1], "--require", "anchored")
    assert (0, "") == (said.code, said.err)
    assert "RECORD: INTACT, ANCHORED     VERDICT IN IT: adopt (+61.1 points" in said.out
    assert said.out.endswith("when, without an outside time stamp.\n")


@pytest.mark.parametrize("store", ["ledger.db", "ledger.jsonl"])
def test_same_command_resumes_and_counts_nothing_twice(example: Make, store: str) -> None:
    """A run that a ceiling stopped goes on after an amendment; each slot has one outcome."""
    shell = example({'"usd": 0.001': '"usd": 0.01'}, **{"usd: 1.00": "usd: 0.10"})
    place = ("--ledger", store)
    shell.ok("register", *place)
    said = shell.ledger("run", *place, "--concurrency", "1")
    assert 4 == said.code
    note = "spent 0.10, what comes next reserves 0.02, ceiling 0.10 usd"
    assert f"STOPPED: ceiling ({note}). 10 of 48 settled, 38 pending." in said.out
    amend = f"ledger amend --set budget.usd=AMOUNT --reason TEXT --ledger {store}"
    assert f"next: {amend}" in said.err
    assert f"next: {amend}" in shell.ok("status", *place).err
    assert f"ledger amend --set budget.usd=AMOUNT --reason TEXT --ledger {store}" in said.out
    assert f"ledger result --stop --reason TEXT --ledger {store}" in said.out
    ended = shell.ledger("result", *place)
    assert (3, True) == (ended.code, "the experiment isn't finished" in ended.err)
    assert "--set budget.usd=AMOUNT --reason TEXT, then: ledger run" in ended.err
    assert "--stop --reason TEXT" in ended.err
    status = shell.ok("status", *place, "--json").json
    assert ("unfinished", 10, 38) == (status["state"], status["settled"], status["pending"])
    assert pytest.approx(0.1) == status["spent_usd"]
    shell.ok("amend", *place, "--set", "budget.usd=1", "--reason", "more was granted")
    moved = shell.ok("status", *place)
    assert f"next: ledger run --ledger {store}" in moved.err
    assert "ceiling 0.10" not in moved.out
    said = shell.ok("run", *place)
    assert "resumed session 2: 10 settled" in said.err
    result = shell.ok("result", *place, "--json").json
    assert ("adopt", True) == (result["verdict"], result["as_registered"])
    assert ["budget.usd"] == result["deviations"][0]["fields"]
    lines = shell.ok("log", *place, "--kind", "outcome").out.splitlines()
    assert 36 == len(lines) == len({line.split("slot ")[1].split()[0] for line in lines})
    assert 0 == shell.ledger("replay", *place).code


def test_failing_arm_stops_the_run_and_gives_up_no_slot(example: Make) -> None:
    """Five errors in a row end the run with 4; the same command goes on once that is mended."""
    broken = 'import json\nimport sys\nprint("401 invalid key", file=sys.stderr)\nsys.exit(75)\n'
    shell = example({"import json\n": broken})
    shell.ok("register")
    said = shell.ledger("run", "--concurrency", "1", "--progress", "lines")
    assert 4 == said.code
    assert re.search(r"arm \w+ said last: .*401 invalid key", said.err)
    assert b"invalid key" not in (shell.folder / "ledger.db").read_bytes()
    seq = shell.ok("log", "--kind", "attempt_end").out.split()[0]
    assert "401 invalid key\n" == shell.ok("show", seq, "--artifact", "stderr").out
    assert 3 == shell.ledger("show", seq, "--artifact", "nothing").code
    assert re.search(r"STOPPED: .*(baseline|candidate).*No slot was given up; 48 to do\.", said.out)
    assert "Fix the cause, then: ledger run" in said.out
    status = shell.ok("status", "--json").json
    assert (0, 48, "ledger run") == (status["settled"], status["pending"], status["next"])


def test_everything_failed_is_no_success(example: Make) -> None:
    """No outcome at all: the run isn't 0, no look can be had, and the verdict is inconclusive."""
    shell = example({"import json\n": "import json\nraise SystemExit(2)\n"})
    shell.ok("register")
    assert 4 == shell.ledger("run").code
    assert 3 == shell.ledger("look").code
    assert 3 == shell.ledger("result").code
    said = shell.ledger("result", "--stop", "--reason", "wrong key", "--gate=adopt", "--json")
    assert (6, "inconclusive") == (said.code, said.json["verdict"])
    assert "wrong key" == said.json["stop_note"]
    assert said.json["reason"]


def test_unplanned_looks_are_refused_on_record_and_repeated_ones_spend_nothing(
    concluded: Shell,
) -> None:
    """A look that was taken is shown again; one that isn't planned is refused."""
    before = concluded.ok("status", "--json").json
    first, second = (concluded.ok("look", "--number", "1", "--json").json for _ in range(2))
    assert first == second
    assert before["head"] == concluded.ok("status", "--json").json["head"]
    assert 3 == concluded.ledger("look", "--number", "2").code


def test_early_look_is_refused_and_stays_on_record(shell: Shell) -> None:
    """Asking before the slots are settled adds a refusal, no p-value and no look."""
    shell.recorded(BETTER)
    said = shell.ledger("look")
    assert (3, "") == (said.code, said.out)
    assert "expected  48 settled slots for look 1; 0 are" in said.err
    assert "this refusal is on record, entry 3" in said.err
    assert "this refusal is on record already: nothing was written" in shell.ledger("look").err
    receipt = said.err.partition("receipt   ")[2].split()[0]
    assert "expected  1\n" in shell.ledger("look", "--number", "5").err
    assert "look refused" in shell.ok("log", "--kind", "refuse").out
    shell.ok("run")
    replayed = shell.ok("replay", "--against", receipt).out
    assert "asked for look 1 when it wasn't due" in replayed


@pytest.mark.parametrize(
    ("old", "new", "field"),
    [
        ("alpha: 0.05", "alpha: 0.2", "analysis.alpha"),
        ("margin: 0.0", "margin: 0.01", "decision.margin"),
        ("better: higher", "better: lower", "endpoints.passed.better"),
    ],
)
def test_plan_edited_after_the_freeze_is_refused_by_the_field(
    shell: Shell, old: str, new: str, field: str
) -> None:
    """Run and result refuse a changed file, naming the field with both values, on record."""
    shell.recorded(BETTER)
    path = shell.folder / "protocol.yaml"
    text = path.read_text()
    assert old in text
    for verb in ("run", "result"):
        path.write_text(text.replace(old, new))
        said = shell.ledger(verb, "--json")
        assert (3, "DigestMismatchError") == (said.code, said.json["error"]["class"])
        assert field in said.json["error"]["where"]
        assert "ledger amend" in said.err
        assert field in shell.ok("log", "--kind", "refuse").out
        path.write_text(shell.ok("show", "--protocol").out)
        shell.ok(verb)


def test_nothing_runs_before_the_freeze(shell: Shell) -> None:
    """`run` needs a freeze; a second freeze of the same changes nothing."""
    shell.recorded(BETTER, register=False)
    shell.ok("register", "--no-freeze")
    said = shell.ledger("run")
    assert (3, True) == (said.code, "ledger freeze" in said.err)
    shell.ok("freeze")
    shell.ok("run")
    head = shell.ok("status", "--json").json["head"]
    shell.ok("freeze")
    assert head == shell.ok("status", "--json").json["head"]


def test_uncommitted_protocol_is_refused_in_git_unless_overridden(shell: Shell) -> None:
    """In a work tree what is registered is committed; an override is kept with its reason."""
    git = shutil.which("git")
    if git is None:
        pytest.skip("needs git")
    subprocess.run([git, "init", "-q", "."], cwd=shell.folder, check=True)
    shell.recorded(BETTER, register=False)
    said = shell.ledger("check")
    assert 3 == said.code
    assert "register would refuse: commit them first" in said.out
    assert 3 == shell.ledger("register").code
    said = shell.ok("register", "--override", "a demonstration")
    assert "override  a demonstration" in said.out
    said = shell.ok("amend", "--set", "about.title=Another", "--reason", "clearer")
    assert "protocol.yaml isn't committed as it is on record now" in said.err


def test_marks_and_line_ends_change_no_unit(shell: Shell) -> None:
    """The same units as LF, CRLF and with a mark are the same; another encoding is refused."""
    shell.recorded(BETTER, register=False)
    path = shell.folder / "units.csv"
    text = path.read_text()
    facts = []
    for data in (
        text.encode(),
        text.replace("\n", "\r\n").encode(),
        text.encode("utf-8-sig"),
        text.replace("\n", "\r\n").encode("utf-8-sig"),
    ):
        path.write_bytes(data)
        found = shell.ok("check", "--json").json
        facts.append((found["units"], found["clusters"], found["power"]["looks"]))
    assert 1 == len({str(one) for one in facts})
    for data in (text.encode("utf-16"), text.replace("c00-0", "ü").encode("latin-1")):
        path.write_bytes(data)
        said = shell.ledger("check")
        assert (3, True) == (said.code, "units.csv:" in said.err and "0x" in said.err)


def test_key_twice_in_the_plan_is_refused_with_both_lines(shell: Shell) -> None:
    """The second of two equal keys never wins silently; an unknown key has its nearest name."""
    shell.recorded(BETTER, register=False)
    path = shell.folder / "protocol.yaml"
    text = path.read_text()
    count = len(text.splitlines())
    path.write_text(text + "control: new\n")
    said = shell.ledger("register")
    assert 3 == said.code
    assert re.search(rf"stands twice: lines \d+ and {count + 1}", said.err)
    path.write_text(text.replace("analysis:", "analisys:"))
    said = shell.ledger("register")
    assert (3, True) == (said.code, "analysis" in said.err)
    assert not (shell.folder / "ledger.db").exists()


def test_compare_answers_what_the_recorded_trial_answers(shell: Shell) -> None:
    """The numbers of `compare` are those of registering, running and concluding the same table."""
    shell.table(BETTER)
    report = shell.ok("compare", "table.csv", "--arms", "old,new", "--json").json
    before = {path.name for path in shell.folder.iterdir()}
    assert {"table.csv"} == before
    shell.recorded(BETTER)
    shell.ok("run")
    result = shell.ok("result", "--json").json
    endpoint: Mapping[str, object] = result["comparisons"][0]["endpoints"][0]
    assert report["would_be"] == result["verdict"]
    assert report["difference"] == endpoint["difference"]
    assert "retrospective" in shell.ok("result").out
    assert False is report["registered"]
    said = shell.ok("compare", "table.csv", "--arms", "old,new")
    assert "Not registered, nothing written." in said.out
    assert "would be: ADOPT" in said.out


def test_command_that_compare_names_puts_the_same_comparison_on_record(shell: Shell) -> None:
    """Every option that was given is in it, quoted for a shell, in text and in JSON."""
    rows = ["id,area,old arm,new"]
    rows += [f"{unit},{unit[:3]},{a},{b}" for unit, (a, b) in BETTER.items()]
    (shell.folder / "my table.csv").write_text("\n".join(rows) + "\n")
    given = "--arms", "old arm,new", "--incumbent", "new", "--unit", "id", "--cluster", "area"
    said = shell.ok("compare", "my table.csv", *given)
    report = shell.ok("compare", "my table.csv", *given, "--json").json
    assert report["next"] in said.out + said.err
    words = shlex.split(report["next"])
    assert ["ledger", "init", "--from", "my table.csv", *given, "TRIAL"] == words
    shell.ok(*words[1:])
    trial = Shell(shell.folder / "TRIAL")
    trial.ok("register")
    trial.ok("run")
    assert report["would_be"] == trial.ok("result", "--json").json["verdict"]


def test_replay_counts_what_status_counts(example: Make) -> None:
    """A slot that is given up leaves no attempt open, and after a crossing nothing is pending."""
    fault = 'job = json.load(sys.stdin)\nif job["unit"] == "sum-17":\n    sys.exit(75)\n'
    shell = example({"job = json.load(sys.stdin)\n": fault})
    shell.ok("register")
    shell.ok("run")
    status = shell.ok("status", "--json").json
    assert ("complete", 0) == (status["state"], status["pending"])
    said = shell.ok("replay")
    assert f"+ {status['not_run']} not run" in said.out
    assert re.search(r"attempts, ([1-9]\d*) without an outcome \(\1 error\), 0 left open", said.out)
    assert "abandoned" not in said.out
    assert "none yet (the run is complete: ledger result)" in said.out
