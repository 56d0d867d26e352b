"""The verbs of the record and of the neighbours: log, show, amend, withdraw, copies, schemas."""

from __future__ import annotations

import hashlib
import json
import os
import re
import subprocess
from collections.abc import Callable
from pathlib import Path

import msgspec
import pytest

from fairtrial.engine.inspecting import read_log

from .conftest import BETTER, Shell, command

pytestmark = pytest.mark.slow


def entries(shell: Shell) -> list[bytes]:
    """Returns the stored entries of a folder's ledger."""
    return list(read_log(shell.folder / "ledger.db"))


def test_log_json_is_the_stored_bytes(concluded: Shell) -> None:
    """`log --json` prints each entry byte for byte, a line each, filters included."""
    stored = entries(concluded)
    assert b"\n".join(stored) + b"\n" == concluded.ok("log", "--json").out.encode()
    looks = [data for data in stored if b'"event":{"kind":"look/1"' in data]
    said = concluded.ok("log", "--json", "--kind", "look")
    assert looks == said.out.encode().splitlines()
    said = concluded.ok("log", "ledger.db", "--json", "--start", "2", "--stop", "5")
    assert stored[2:5] == said.out.encode().splitlines()


def test_log_calls_an_outcome_outcome(concluded: Shell) -> None:
    """People read outcome; `decision` is only the name of the kind."""
    by_kind = concluded.ok("log", "--kind", "decision").out
    assert by_kind == concluded.ok("log", "--kind", "outcome").out
    assert 48 == len(by_kind.splitlines())
    assert "decision" not in by_kind
    assert "outcome" in by_kind
    assert 2 == concluded.ledger("log", "--kind", "nosuch").code


def test_show_has_every_field_of_an_entry(concluded: Shell) -> None:
    """`show SEQ` names place, leaf and each field; its JSON is the stored entry."""
    for seq, data in enumerate(entries(concluded)):
        said = concluded.ok("show", str(seq))
        assert said.out == concluded.ok("show", "ledger.db", str(seq)).out
        event = msgspec.json.decode(data)["event"]
        shown = {line.split()[0] for line in said.out.splitlines() if line[:1].strip()}
        assert set(event) - {"experiment"} <= shown
    assert entries(concluded)[3] == concluded.ok("show", "3", "--json").out.encode().rstrip(b"\n")
    assert 3 == concluded.ledger("show", "9999").code
    assert 2 == concluded.ledger("show", "first").code


def test_show_protocol_gives_the_registered_bytes_back(concluded: Shell) -> None:
    """What `show --protocol` prints is the file that was registered."""
    path = concluded.folder / "protocol.yaml"
    said = concluded.ok("show", "--protocol")
    assert path.read_text() == said.out
    name = concluded.ok("status", "--json").json["experiment"]
    assert said.out == concluded.ok("show", "--protocol", name).out
    assert said.out == concluded.ok("show", "--protocol", "ledger.db", name).out


@pytest.mark.parametrize(
    ("field", "meaning", "as_registered", "line"),
    [
        ("about.notes=seen: by nobody", "text only", True, ("", '  notes: "seen: by nobody"')),
        ("budget.calls=100000", "operational only", True, ("{usd: 0}", "{usd: 0, calls: 100000}")),
        (
            "analysis.alpha=0.04",
            "will say: retrospective, and list it",
            False,
            ("alpha: 0.05", "alpha: 0.04"),
        ),
    ],
)
def test_amendments_say_what_they_do_to_the_result(
    shell: Shell, field: str, meaning: str, as_registered: bool, line: tuple[str, str]
) -> None:
    """Text and budget leave the result as registered; what bears on numbers does not."""
    shell.recorded(BETTER)
    before = (shell.folder / "protocol.yaml").read_text()
    said = shell.ok("amend", "--set", field, "--reason", "because")
    assert meaning in said.out
    after = (shell.folder / "protocol.yaml").read_text()
    old, new = line
    if old:
        assert after == before.replace(old, new, 1) != before
    else:
        assert [new] == [each for each in after.splitlines() if each not in before.splitlines()]
        assert before.splitlines() == [each for each in after.splitlines() if each != new]
    assert re.findall("#.*", before) == re.findall("#.*", after) != []
    shell.ok("run")
    detail = shell.ok("result", "--json").json
    assert as_registered == (detail["amended"] == [])
    assert "because" == detail["deviations"][0]["reason"]
    assert 0 == shell.ledger("replay").code


def test_amendment_of_the_numbers_ends_as_registered_until_the_data_are_complete(
    example: Callable[..., Shell],
) -> None:
    """Arms that run make the result another than registered; after the last look nothing does."""
    shell = example()
    shell.ok("register")
    words = ("amend", "--reason", "because", "--set")
    assert "will say: not as registered" in shell.ok(*words, "analysis.alpha=0.04").out
    shell.ok("run")
    said = shell.ledger(*words, "analysis.alpha=0.03")
    assert (3, True, False) == (said.code, "data are complete" in said.err, "is due" in said.err)
    assert "do        ledger result" in said.err


def test_table_is_retrospective_before_the_freeze_too(shell: Shell) -> None:
    """Outcomes that exist before the units are frozen existed before the protocol all the same."""
    shell.recorded(BETTER, register=False)
    shell.ok("register", "--no-freeze")
    assert "units not frozen   retrospective" in shell.ok("status").out
    found = shell.ok("status", "--json").json
    assert (["new", "old"], None) == (found["existed_before"], found["as_registered"])
    said = shell.ok("amend", "--set", "analysis.alpha=0.04", "--reason", "because")
    assert "will say: retrospective, and list it" in said.out


def test_refused_amendment_leaves_the_file_as_it_was(shell: Shell) -> None:
    """What the freeze has fixed can't be amended, and the file isn't touched."""
    shell.recorded(BETTER)
    before = (shell.folder / "protocol.yaml").read_bytes()
    for field in ("design.seed=1", "control=new", "nosuch.field=1", "analysis.alpha=2"):
        assert 3 == shell.ledger("amend", "--set", field, "--reason", "because").code
        assert before == (shell.folder / "protocol.yaml").read_bytes()
    assert 2 == shell.ledger("amend", "--set", "alpha", "--reason", "because").code


def test_field_that_cannot_be_set_is_named_by_the_option(shell: Shell) -> None:
    """A problem of --set has no line in a file that doesn't hold it."""
    shell.recorded(BETTER)
    said = shell.ledger("amend", "--set", "budgt.usd=3", "--reason", "because")
    assert 3 == said.code
    assert said.err.startswith("--set budgt.usd: ")


def test_withdrawn_experiment_is_superseded_by_name(shell: Shell) -> None:
    """A withdrawal needs a reason and ends the experiment; a new id can name what it replaces."""
    shell.recorded(BETTER)
    name = shell.ok("status", "--json").json["experiment"]
    assert 2 == shell.ledger("withdraw").code
    said = shell.ok("withdraw", "--reason", "a typo")
    assert f"next: ledger register PROTOCOL --supersedes {name}" in said.err
    assert "withdrawn" == shell.ok("status", "--json").json["state"]
    assert 3 == shell.ledger("run").code
    path = shell.folder / "protocol.yaml"
    path.write_text(path.read_text().replace(f"id: {name}", "id: again"))
    shell.ok("register", "--supersedes", name)
    said = shell.ok("replay")
    assert f"{name} none, withdrawn; again none yet (no result on record: ask" in said.out
    assert [name, "again"] == [
        one["experiment"] for one in shell.ok("status", "--json").json["experiments"]
    ]
    assert 3 == shell.ledger("result").code


def test_ledger_is_not_begun_by_a_successor(shell: Shell) -> None:
    """A new ledger holds nothing to supersede: refused, and no ledger is left behind."""
    shell.recorded(BETTER, register=False)
    said = shell.ledger("register", "--supersedes", "earlier")
    assert 3 == said.code
    assert "a ledger that holds the withdrawn experiment earlier" in said.err
    assert [] == [path.name for path in shell.folder.iterdir() if path.name.startswith("ledger.")]


def test_invalidated_outcome_shows_both_analyses(shell: Shell) -> None:
    """An outcome can be declared invalid before the result and not after; the result says so."""
    shell.recorded(BETTER)
    shell.ok("run")
    seq = shell.ok("log", "--kind", "outcome", "--json").out.splitlines()[0]
    place = str(json.loads(seq)["seq"])
    shell.ok("invalidate", place, "--reason", "the grader was wrong")
    assert 3 == shell.ledger("invalidate", "1", "--reason", "no outcome").code
    detail = shell.ok("result", "--json").json
    assert 1 == detail["invalidated"]
    assert "1 invalidated" in shell.ok("replay").out
    assert 3 == shell.ledger("invalidate", str(int(place) + 1), "--reason", "too late").code


def test_settle_wants_the_end_of_a_lost_attempt(concluded: Shell) -> None:
    """Only a lost or interrupted attempt has a cost to settle, and the amount has to be one."""
    assert 3 == concluded.ledger("settle", "5", "--usd", "1", "--reason", "invoice").code
    for amount in ("-1", "x", "nan", "0.0000000001"):
        assert 2 == concluded.ledger("settle", "5", "--usd", amount, "--reason", "invoice").code


@pytest.mark.parametrize("target", ["copy.jsonl", "copy.db"])
def test_copies_keep_every_leaf_and_are_never_overwritten(concluded: Shell, target: str) -> None:
    """Export and import give the same receipt; an existing file is refused."""
    receipt = concluded.ok("result", "--json").json["receipt"]
    said = concluded.ok("export", target, "--json")
    assert receipt == said.json["receipt"]
    assert (
        0 == concluded.ledger("replay", target, "--against", receipt, "--require", "anchored").code
    )
    assert 8 == concluded.ledger("export", target).code
    again = concluded.ok("import", target, "--ledger", "again.db", "--json")
    assert receipt == again.json["receipt"]
    assert concluded.ok("log", "--json").out == concluded.ok("log", "again.db", "--json").out


def test_schema_prints_what_is_shipped(shell: Shell) -> None:
    """Every kind has a schema; a kind without a version is its newest one."""
    kinds = shell.ok("schema", "--json").json["kinds"]
    assert shell.ok("schema").out.split() == kinds
    for kind in kinds:
        assert kind == json.loads(shell.ok("schema", kind).out)["title"]
    assert shell.ok("schema", "decision").out == shell.ok("schema", "decision/1").out
    assert 2 == shell.ledger("schema", "nosuch").code


def test_actor_is_claimed_and_checked_first(shell: Shell, monkeypatch: pytest.MonkeyPatch) -> None:
    """The actor is the option, else the variable, else the OS user; a bad one is wrong usage."""
    shell.recorded(BETTER, register=False)
    assert 2 == shell.ledger("register", "--actor", "two words").code
    assert not (shell.folder / "ledger.db").exists()
    monkeypatch.setenv("FAIRTRIAL_ACTOR", "from-the-environment")
    shell.ok("register")
    shell.ok("run", "--actor", "ada@example.org")
    actors = [msgspec.json.decode(data)["actor"] for data in entries(shell)]
    assert {"from-the-environment", "ada@example.org"} == set(actors)


def test_ledger_comes_from_option_variable_or_default(
    shell: Shell, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The next command repeats a ledger that was typed, and no other."""
    shell.recorded(BETTER, register=False)
    assert (
        "next: ledger run --ledger other.db\n" == shell.ok("register", "--ledger", "other.db").err
    )
    monkeypatch.setenv("FAIRTRIAL_LEDGER", "third.jsonl")
    assert "next: ledger run\n" == shell.ok("register").err
    assert (shell.folder / "third.jsonl").is_file()
    assert not (shell.folder / "ledger.db").exists()


def test_quiet_prints_the_receipt_or_the_verdict_alone(shell: Shell) -> None:
    """--quiet leaves one line on stdout and nothing on stderr."""
    shell.recorded(BETTER, register=False)
    for words in (("register", "--quiet"), ("run", "--quiet")):
        said = shell.ok(*words)
        assert (1, "") == (len(said.out.splitlines()), said.err)
        assert said.out.startswith("receipt   fairtrial:")
    assert shell.ok("result", "--quiet").out.startswith("VERDICT   ADOPT: ")
    assert shell.ok("replay", "--quiet").out.startswith("RECORD: INTACT, UNANCHORED")


def test_init_overwrites_nothing(shell: Shell, tmp_path: Path) -> None:
    """A file that is there stops the whole of init; a .gitignore of one's own is left alone."""
    (tmp_path / ".gitignore").write_text("mine\n")
    said = shell.ok("init", ".")
    assert "left as it is" in said.err
    before = {path.name: path.read_bytes() for path in tmp_path.iterdir()}
    assert 3 == shell.ledger("init", ".").code
    assert before == {path.name: path.read_bytes() for path in tmp_path.iterdir()}
    shell.ok("init", "deep/Router AB!")
    assert "id: router-ab\n" in (tmp_path / "deep" / "Router AB!" / "protocol.yaml").read_text()


def test_json_of_every_verb_is_one_object(shell: Shell) -> None:
    """With --json stdout holds one object with its version, from init to replay."""
    for words in (
        ("init", "trial"),
        ("check", "trial/protocol.yaml"),
        ("register", "trial/protocol.yaml"),
        ("freeze",),
        ("status",),
        ("amend", "--set", "budget.usd=2", "--reason", "r"),
        ("withdraw", "--reason", "r"),
        ("export", "copy.jsonl"),
        ("replay",),
    ):
        said = shell.ok(*words, "--json")
        assert 1 == said.json["v"], words
        assert said.out.endswith("}\n")
        assert 1 == said.out.count("\n")


def test_reader_that_goes_away_changes_no_exit_code(concluded: Shell) -> None:
    """`| head` ends the printing; what the verb found is still its exit code."""
    script = 'ledger "$@" | head -n 1 >/dev/null; echo "${PIPESTATUS[0]}"'
    (concluded.folder / "units.csv").write_text("unit\n")
    for words, code in ((("log", "--json"), 0), (("replay",), 16)):
        run = subprocess.run(
            ["bash", "-c", script, "bash", *words],
            cwd=concluded.folder,
            env={**os.environ, "PATH": f"{command().parent}{os.pathsep}{os.environ['PATH']}"},
            capture_output=True,
            text=True,
            check=True,
        )
        assert (f"{code}\n", "") == (run.stdout, run.stderr)


def test_replay_since_says_what_it_read(concluded: Shell) -> None:
    """From a receipt on: both ranges, the skipped levels, exit codes as ever."""
    receipt = next((concluded.folder / "ledger.db.d/receipts").glob("*-freeze.txt"))
    end = concluded.ok("status", "--json").json
    said = concluded.ok("replay", "--since", receipt.read_text().strip())
    assert "entries 0-2 were taken from it and NOT read again" in said.out
    assert "skipped   rules, numbers, files: ledger replay without --since" in said.out
    assert "RECORD: INTACT, ANCHORED IN PART" in said.out
    value = concluded.ok("replay", "--since", str(receipt), "--json").json
    assert {"size": 3, "source": f"receipt in {receipt.name}", "hashed": False} == value["since"]
    assert "skipped" == value["levels"]["rules"]
    whole = concluded.ok("replay", "--json").json
    assert (None, value["root"]) == (whole["since"], whole["root"])
    assert end
    words = ("replay", "--since", str(receipt))
    assert 10 == concluded.ledger(*words, "--require", "anchored").code
    assert 2 == concluded.ledger(*words, "--require", "files").code
    assert 2 == concluded.ledger(*words, "--policy", "p").code
    assert 3 == concluded.ledger("replay", "--since", "3").code
    assert 8 == concluded.ledger("replay", "nothing.db", "--since", str(receipt)).code
    assert "RECORD: INTACT" in concluded.ok(*words, "--quiet").out


def test_report_holds_what_an_auditor_files(concluded: Shell) -> None:
    """Inputs with digests, every level, what vouches and how far, what can't be shown."""
    end = concluded.ok("status", "--json").json["head"]
    receipt = concluded.folder.parent / "mail.txt"
    kept = sorted((concluded.folder / "ledger.db.d/receipts").glob("*-freeze.txt"))[0]
    receipt.write_bytes(kept.read_bytes())
    before = {path for path in concluded.folder.rglob("*") if ".lock" not in path.name}
    said = concluded.ok("replay", "--against", str(receipt), "--report", "audit.md")
    assert "report written: audit.md" in said.err
    after = {path for path in concluded.folder.rglob("*") if ".lock" not in path.name}
    assert {concluded.folder / "audit.md"} == after - before
    text = (concluded.folder / "audit.md").read_text()
    digest = hashlib.sha256((concluded.folder / "ledger.db").read_bytes()).hexdigest()
    for part in (
        "**RECORD: INTACT, ANCHORED IN PART**",
        "**VERDICT IN IT: adopt",
        f"its SHA-256: `{digest}`",
        f"@{end['size']}#",
        f"mail.txt (SHA-256 {hashlib.sha256(receipt.read_bytes()).hexdigest()})`",
        "| bytes | ok | ",
        "| numbers | ok | ",
        "| a receipt that was brought | entries 0-2 |",
        f"| nothing outside this ledger | entries 3-{end['size'] - 1:,} |",
        "## Findings\n\nNone.",
        "## What this verification can't show",
        "other ledgers or runs that were not handed over",
    ):
        assert part in text, part
    assert "recomputed: equal" in text
    assert 3 == concluded.ledger("replay", "--report", "audit.md").code
    assert text == (concluded.folder / "audit.md").read_text()
    assert 3 == concluded.ledger("replay", "--report", "no/such/audit.md").code


def test_report_of_a_damaged_ledger_has_every_finding(concluded: Shell) -> None:
    """More findings than the terminal shows; skipped levels say why; the exit code is as ever."""
    concluded.ok("export", "copy.jsonl")
    path = concluded.folder / "copy.jsonl"
    lines = path.read_bytes().splitlines(keepends=True)
    lines[4:44] = [line.replace(b'"actor":"', b'"actor":"x', 1) for line in lines[4:44]]
    path.write_bytes(b"".join(lines))
    value = concluded.ledger(
        "replay", "copy.jsonl", "--json", "--report", "bad.md", "--require", "anchored"
    )
    assert 12 == value.code
    text = (concluded.folder / "bad.md").read_text()
    found = value.json["findings"]
    assert len(found) > 20
    assert "bad.md" == value.json["report"]
    assert f"\n{len(found)}. " in text
    assert all(f"entry {one['seq']}: {one['code'].replace('_', ' ')}" in text for one in found)
    assert "**NOT AS REQUIRED: 0 of" in text
    assert "- The level numbers wasn't checked: the levels before it have findings" in text
    part = concluded.ledger("replay", "--since", _first_receipt(concluded), "--report", "part.md")
    assert 0 == part.code
    text = (concluded.folder / "part.md").read_text()
    assert "Entries 0-2 were taken from it, NOT read" in text
    assert "CHECKED: entries from 3 on alone" in text


def _first_receipt(shell: Shell) -> str:
    """Returns the line of the receipt of the freeze."""
    (path,) = (shell.folder / "ledger.db.d/receipts").glob("*-freeze.txt")
    return path.read_text().strip()


def test_unchecked_levels_fail_where_they_are_required(concluded: Shell) -> None:
    """`--require rules|numbers` demands that the level was checked to its end: else exit 10."""
    both = ["--require", "rules", "--require", "numbers"]
    assert "NOT CHECKED" not in concluded.ok("replay", *both).out
    said = concluded.ledger("replay", "--no-numbers", *both)
    assert (10, True) == (said.code, "numbers not checked to the end: not asked for" in said.err)
    assert "INTACT, UNANCHORED, NUMBERS NOT CHECKED" in said.out
    assert 2 == concluded.ledger("replay", "--since", "x", "--require", "rules").code
