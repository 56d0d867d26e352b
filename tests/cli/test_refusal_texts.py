"""What newcomers typed wrong: each refusal says where, expected, found and what to do."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from .conftest import Shell

Make = Callable[..., Shell]


def parts_of(shell: Shell, *words: str) -> dict[str, str]:
    """Returns the parts of the only problem that a command ends with; its text has them too."""
    said = shell.ledger(*words, "--json")
    error = said.json["error"]
    (problem,) = error.get("problems", [error])
    for name in ("where", "expected", "found", "todo"):
        assert problem[name], (name, said.err)
        assert problem[name] in said.err
    return {name: str(text) for name, text in problem.items()}


def test_looks_that_do_not_rise_are_put_in_order(example: Make) -> None:
    """The order that would be right is written out."""
    shell = example(**{"at: [0.75, 1.0]": "at: [0.75, 0.5, 1.0]"})
    said = parts_of(shell, "check")
    assert ("looks.at", "0.75, 0.5, 1.0") == (said["where"], said["found"])
    assert "[0.5, 0.75, 1.0]" in said["todo"]


def test_same_treatment_twice_says_what_makes_a_treatment(example: Make) -> None:
    """Which fields make no difference is said, and which one to change."""
    shell = example(**{"{carry: true}": "{carry: false}"})
    said = parts_of(shell, "check")
    assert "arms.candidate" == said["where"]
    assert "candidate has what baseline has" in said["found"]
    assert "arms.candidate" in said["todo"]


def test_verifier_key_names_its_option_and_its_form(concluded: Shell) -> None:
    """A bad `--vkey` is known as one, and shown as it was typed."""
    said = parts_of(concluded, "replay", "--vkey", "example.org+0badf00d+AAAA")
    assert ("--vkey", "'example.org+0badf00d+AAAA'") == (said["where"], said["found"])


def test_unknown_experiment_is_told_how_to_name_one(concluded: Shell) -> None:
    """The advice is a command that can be typed."""
    said = parts_of(concluded, "status", "quite-another")
    name = said["expected"].removeprefix("one of: ")
    assert f"ledger status {name}" in said["todo"]
    assert 0 == concluded.ledger("status", name).code


def test_broken_key_file_says_what_a_key_file_is(
    shell: Shell, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its bytes aren't shown: they may hold a part of the secret."""
    monkeypatch.setenv("FAIRTRIAL_KEYS", str(shell.folder / "keys"))
    shell.ok("key", "new", "mine")
    (path,) = shell.folder.glob("**/mine.key")
    path.write_text("secret")
    said = parts_of(shell, "key", "show", "mine")
    assert str(path) == said["where"]
    assert said["found"].startswith("6 bytes")
    assert "secret" not in said["found"] + said["expected"]


@pytest.mark.parametrize("words", [("check",), ("compare",), ("verify-proof",)])
def test_file_that_is_not_there_is_called_that(shell: Shell, words: tuple[str, ...]) -> None:
    """No size is spoken of, and there is something to do."""
    name = "nofile.yaml" if words == ("check",) else "nofile.csv"
    said = parts_of(shell, *words, name)
    assert ("a file", "No such file or directory") == (said["expected"], said["found"])


@pytest.mark.parametrize(
    ("old", "new", "todo"),
    [
        ("alpha: 0.05", "alpha: 5%", "write 0.05: a share isn't written in percent"),
        ("alpha: 0.05", "alpha: five", "write a number, without quotes or a unit"),
        ("limit: 0.1 ", "limit: 0.5 ", "write a number from 0 to 0.2"),
    ],
)
def test_number_says_what_to_write(example: Make, old: str, new: str, todo: str) -> None:
    """A share in percent, a word, and a number out of its range each have a way out."""
    assert todo == parts_of(example(**{old: new}), "check")["todo"]


def test_copy_under_an_odd_name_is_said_to_hold_sqlite(concluded: Shell) -> None:
    """A suffix that picks no store isn't taken in silence."""
    assert "copy.txt holds SQLite" in concluded.ok("export", "copy.txt").err
    assert "SQLite" not in concluded.ok("export", "copy.db").err


def test_ledger_that_lost_entries_names_itself_in_the_way_out(concluded: Shell) -> None:
    """What is to be replayed is the ledger that was read."""
    concluded.ok("export", "copy.jsonl")
    path = concluded.folder / "copy.jsonl"
    concluded.ok("run", "--ledger", path.name)
    path.write_bytes(b"".join(path.read_bytes().splitlines(keepends=True)[:2]))
    said = concluded.ledger("status", "--ledger", path.name)
    assert (12, True) == (said.code, f"ledger replay {path}" in said.err)
