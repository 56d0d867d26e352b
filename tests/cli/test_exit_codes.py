"""Each exit code of the table, brought about by what it stands for; what an error looks like."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path

import msgspec
import pytest

from fairtrial.engine.tampering import change_score, first_success
from fairtrial.ledger.canonical import event_id
from fairtrial.ledger.entry import build_entry, parse_entry
from fairtrial.ledger.locks import file_lock, run_lock_path
from fairtrial.ledger.merkle import leaf_hash

from .conftest import BETTER, FEW, WORSE, Shell

pytestmark = pytest.mark.slow


def receipt_of(folder: Path) -> str:
    """Returns the newest receipt that was kept."""
    return max((folder / "ledger.db.d" / "receipts").iterdir()).read_text().strip()


def as_lines(shell: Shell) -> Path:
    """Returns the ledger of a folder as JSON Lines."""
    shell.ok("export", "copy.jsonl")
    return shell.folder / "copy.jsonl"


def chained(lines: list[bytes], change: Callable[[int, bytes], bytes]) -> bytes:
    """Returns a ledger whose events are changed, every id and link after them made again."""
    prev, out = bytes(32), []
    for seq, line in enumerate(lines):
        entry = parse_entry(line)
        event = change(seq, entry.event)
        data = build_entry(
            event, ledger=entry.ledger, seq=seq, prev=prev, time=entry.time,
            actor=entry.actor, id=event_id(event),
        )  # fmt: skip
        prev = leaf_hash(data)
        out.append(data + b"\n")
    return b"".join(out)


def test_wrong_usage_is_2(shell: Shell) -> None:
    """An unknown verb, option or missing argument is wrong usage, with the nearest verb named."""
    said = shell.ledger("reslut")
    assert (2, True) == (said.code, "did you mean 'result'" in said.err)
    assert 2 == shell.ledger("result", "--nosuch").code
    assert 2 == shell.ledger("compare").code
    assert 2 == shell.ledger("result", "--stop").code
    assert 2 == shell.ledger("result", "--gate=perhaps").code


def test_refusals_are_3(shell: Shell) -> None:
    """A protocol that isn't acceptable, an act out of order and a conflict are refused."""
    shell.recorded(BETTER)
    path = shell.folder / "protocol.yaml"
    text = path.read_text()
    path.write_text(text.replace("alpha:", "apha:") if "alpha:" in text else text + "apha: 1\n")
    said = shell.ledger("check")
    assert (3, True) == (said.code, "apha" in said.err)
    assert 3 == shell.ledger("register").code
    path.write_text(text)
    assert 3 == shell.ledger("result").code
    assert 3 == shell.ledger("status", "another").code


def test_busy_is_7(shell: Shell) -> None:
    """While another process runs the experiment, a second run says who holds the lock."""
    shell.recorded(BETTER)
    name = shell.ok("status", "--json").json["experiment"]
    with file_lock(run_lock_path(shell.folder / "ledger.db", name), timeout_seconds=0, what="test"):
        said = shell.ledger("run")
    assert (7, True) == (said.code, "test (pid" in said.err)


def test_missing_ledger_is_8_and_nothing_is_created(shell: Shell) -> None:
    """Reading verbs say where they looked, and create nothing."""
    for words in (("status",), ("run",), ("result",), ("replay",), ("log",), ("show", "0")):
        said = shell.ledger(*words)
        assert 8 == said.code
        assert str(shell.folder / "ledger.db") in said.err
    assert [] == list(shell.folder.iterdir())


def test_ledger_without_its_folder_is_8_and_says_what_to_bring(concluded: Shell) -> None:
    """A missing blob of the plan is nothing corrupt: each verb names the folder that is missing."""
    (concluded.folder / "ledger.db.d").rename(concluded.folder / "elsewhere")
    for words in (("status",), ("run",), ("look",), ("result",)):
        said = concluded.ledger(*words)
        assert (8, True) == (said.code, "bring the ledger's .d folder" in said.err), words
        assert "breaks a rule" not in said.err
    replayed = concluded.ledger("replay")
    assert 16 == replayed.code
    assert 1 == replayed.out.count("finding   "), "one line for all that is missing"
    assert re.search(r"finding   \d+ blobs are missing, first one of entry 1\n", replayed.out)
    assert 1 < len(concluded.ledger("replay", "--json").json["findings"])
    assert "PlanMissingError" == concluded.ledger("status", "--json").json["error"]["class"]


def test_near_names_are_offered(concluded: Shell) -> None:
    """A mistyped experiment or file is answered with the one that was probably meant."""
    name = concluded.ok("status", "--json").json["experiment"]
    said = concluded.ledger("status", name[:-1])
    assert (3, True) == (said.code, f"did you mean {name!r}?" in said.err)
    said = concluded.ledger("replay", "leger.db")
    assert 8 == said.code
    assert f"did you mean {concluded.folder / 'ledger.db'}?" in said.err


def test_not_anchored_as_required_is_10(concluded: Shell) -> None:
    """`--require` fails unless all entries are vouched for, or all files are here."""
    line = receipt_of(concluded.folder)
    older = min((concluded.folder / "ledger.db.d" / "receipts").iterdir()).read_text()
    assert 10 == concluded.ledger("replay", "--require", "anchored").code
    part = concluded.ledger("replay", "--require", "anchored", "--against", older)
    assert (10, True) == (part.code, "ANCHORED IN PART" in part.out)
    assert 0 == concluded.ledger("replay", "--require", "anchored", "--against", line).code
    assert 0 == concluded.ledger("replay", "--require", "files").code
    (concluded.folder / "units.csv").unlink()
    assert 0 == concluded.ledger("replay").code
    assert 10 == concluded.ledger("replay", "--require", "files").code


def test_torn_is_11(concluded: Shell) -> None:
    """Bytes after the last whole entry are torn."""
    path = as_lines(concluded)
    path.write_bytes(path.read_bytes() + b'{"v":1,"ledger":"')
    assert 11 == concluded.ledger("replay", "copy.jsonl").code


@pytest.mark.parametrize(
    "words", [("run",), ("result",), ("look", "--quiet"), ("result", "--json")]
)
def test_torn_bytes_that_an_act_sets_aside_are_told(
    concluded: Shell, words: tuple[str, ...]
) -> None:
    """What was set aside is said on stderr: how many bytes, where they are, in which entry."""
    path = as_lines(concluded)
    size = path.read_bytes().count(b"\n")
    path.write_bytes(path.read_bytes() + b"abcdef")
    said = concluded.ledger(*words, "--ledger", "copy.jsonl")
    assert said.err.startswith("6 bytes after the last whole entry")
    assert f"entry     {size} (recover)" in said.err
    kept = re.search(r"kept in   (.+)\n", said.err)
    assert kept is not None
    assert b"abcdef" == Path(kept[1]).read_bytes()
    assert "set aside" not in concluded.ledger(*words, "--ledger", "copy.jsonl").err


def test_corrupt_is_12_from_any_verb(concluded: Shell) -> None:
    """One changed score is named by replay, and stops every verb that reads the numbers."""
    source = concluded.folder / "ledger.db"
    name = concluded.ok("status", "--json").json["experiment"]
    arm = concluded.ok("result", "--json").json["comparisons"][0]["treatment"]
    outcome = first_success(source, name, arm)
    target = concluded.folder / "changed.db"
    change_score(source, target, seq=outcome.seq, score="passed", value=0.0)
    said = concluded.ledger("replay", "changed.db", "--json")
    assert (12, "corrupt") == (said.code, said.json["record"])
    assert outcome.seq in {one["seq"] for one in said.json["findings"]}
    for words in (("result",), ("run",), ("look",), ("status",)):
        assert 12 == concluded.ledger(*words, "--ledger", "changed.db").code


def test_forked_is_13_and_rolled_back_is_14(concluded: Shell) -> None:
    """Another history of the same size is forked; a shorter one is rolled back."""
    line = receipt_of(concluded.folder)
    path = as_lines(concluded)
    lines = path.read_bytes().splitlines()
    path.write_bytes(b"\n".join(lines[:-1]) + b"\n")
    assert 14 == concluded.ledger("replay", "copy.jsonl", "--against", line).code
    other = line.replace("=", "").rpartition("#")[0] + "#" + "A" * 43 + "="
    assert 13 == concluded.ledger("replay", "--against", other).code


def test_receipt_of_another_ledger_is_called_that(concluded: Shell) -> None:
    """It contradicts as much as a fork, with 13, but the line of the record says what it is."""
    line = receipt_of(concluded.folder)
    other = line.replace(line.split(":")[1].split("@")[0], "0" * 32)
    said = concluded.ledger("replay", "--against", other)
    assert 13 == said.code
    assert "(the receipt is of another ledger)" in said.out


def test_numbers_differ_is_15(concluded: Shell) -> None:
    """A result that doesn't follow from the outcomes is named, however well it is hashed."""
    path = as_lines(concluded)

    def change(seq: int, event: bytes) -> bytes:
        if not event.startswith(b'{"kind":"result/1"'):
            return event
        value = msgspec.json.decode(event)["comparisons"][0]["endpoints"][0]["difference"]
        old, new = (b'"difference":' + msgspec.json.encode(one) for one in (value, value / 2))
        assert old in event
        return event.replace(old, new)

    path.write_bytes(chained(path.read_bytes().splitlines(), change))
    said = concluded.ledger("replay", "copy.jsonl", "--json")
    assert (15, "numbers_differ") == (said.code, said.json["record"])
    assert 0 == concluded.ledger("replay", "copy.jsonl", "--no-numbers").code


def test_files_differ_is_16(concluded: Shell) -> None:
    """A registered file that was changed afterwards is named."""
    path = concluded.folder / "units.csv"
    path.write_text(path.read_text() + "more-0,more\n")
    said = concluded.ledger("replay")
    assert (16, True) == (said.code, "units.csv DIFFERENT" in said.out)
    assert 0 == concluded.ledger("replay", "--no-files").code


def test_newer_is_17(concluded: Shell) -> None:
    """A kind that this version doesn't know is no damage; it is newer."""
    path = as_lines(concluded)
    lines = path.read_bytes().splitlines()
    last = parse_entry(lines[-1])
    event = b'{"kind":"annul/1","experiment":"","position":0,"number":1}'
    data = build_entry(
        event, ledger=last.ledger, seq=last.seq + 1, prev=last.leaf(), time=last.time,
        actor=last.actor, id=event_id(event),
    )  # fmt: skip
    path.write_bytes(path.read_bytes() + data + b"\n")
    said = concluded.ledger("replay", "copy.jsonl", "--json")
    assert (17, "newer") == (said.code, said.json["record"])


@pytest.mark.parametrize(
    ("rows", "gate", "code"),
    [
        (BETTER, "adopt", 0),
        (BETTER, "adopt,equivalent", 0),
        (BETTER, "reject", 6),
        (WORSE, "adopt", 5),
        (WORSE, "reject", 0),
        (FEW, "adopt", 6),
        (FEW, "adopt,inconclusive", 0),
    ],
)
def test_gate_lets_the_named_verdicts_pass(
    shell: Shell, rows: dict[str, tuple[int, int]], gate: str, code: int
) -> None:
    """`--gate` is 0 for the verdicts in it, 5 for reject, 6 for any other."""
    shell.recorded(rows)
    shell.ok("run")
    assert code == shell.ledger("result", f"--gate={gate}").code
    assert 0 == shell.ledger("result").code


def test_errors_are_json_too(shell: Shell) -> None:
    """With --json an error is one object on stdout, and its text is on stderr all the same."""
    said = shell.ledger("status", "--json")
    error = said.json["error"]
    assert {"class", "what", "where", "expected", "found", "todo"} <= set(error)
    assert ("StoreError", 1) == (error["class"], said.json["v"])
    assert error["what"] in said.err
    usage = shell.ledger("result", "--json", "--nosuch")
    assert "UsageError" == usage.json["error"]["class"]


def test_problems_of_all_files_come_at_once(shell: Shell) -> None:
    """A missing table doesn't hide what is wrong with the units; each problem has its place."""
    shell.recorded(BETTER, register=False)
    (shell.folder / "outcomes.csv").unlink()
    (shell.folder / "units.csv").write_text("unit,cluster\na,c\na,c\n")
    said = shell.ledger("check", "--json")
    problems = said.json["error"]["problems"]
    places = [problem["where"] for problem in problems]
    assert (3, 2, "units.id") == (said.code, len(places), places[1])
    assert re.fullmatch(r"arms\.(old|new)\.driver\.file", places[0])
    assert f"protocol.yaml: {places[0]}" in said.err
    assert "units.csv:3: units.id" in said.err


def test_a_bug_of_ours_is_1_with_one_line(shell: Shell, monkeypatch: pytest.MonkeyPatch) -> None:
    """An exception that is no error of the ledger is said in a line, with how to report it."""
    import fairtrial.engine.inspecting as inspecting

    def broken(*args: object) -> None:
        raise KeyError("nobody expected this")

    monkeypatch.setattr(inspecting, "status", broken)
    said = shell.ledger("status")
    assert (1, "") == (said.code, said.out)
    assert "--traceback" in said.err
    assert "Traceback" not in said.err
    with pytest.raises(KeyError):
        shell.ledger("status", "--traceback")


def test_receipt_that_is_none_names_what_was_given(concluded: Shell) -> None:
    """A path that leads nowhere is said to be no file; a file without a receipt is named."""
    for words in (("replay",), ("prove", "--consistency")):
        option = () if "--consistency" in words else ("--against",)
        said = concluded.ledger(*words, *option, "reciept.txt")
        assert (3, True) == (said.code, "reciept.txt, and no file of that name" in said.err)
        assert "or correct the path" in said.err
        said = concluded.ledger(*words, *option, "protocol.yaml")
        assert (3, True) == (said.code, "protocol.yaml: the text holds no receipt" in said.err)
        assert "no file of that name" not in said.err
