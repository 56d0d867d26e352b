"""A ledger that holds more than one experiment: what is named, and what may be left out."""

from __future__ import annotations

import json
import zipfile
from typing import Any

import pytest

from .conftest import BETTER, Shell

pytestmark = pytest.mark.slow


def _begin_next(shell: Shell, *, name: str) -> str:
    """Gives the protocol of a folder another id; returns the id it had."""
    path = shell.folder / "protocol.yaml"
    text = path.read_text()
    old = next(line.split()[1] for line in text.splitlines() if line.startswith("id:"))
    path.write_text(text.replace(f"id: {old}", f"id: {name}"))
    return old


def test_name_left_out_means_the_one_experiment_that_is_open(shell: Shell) -> None:
    """After a withdrawal and its successor each act goes on without a name, and `next:` has one."""
    shell.recorded(BETTER)
    shell.ok("withdraw", "--reason", "the plan was mended")
    old = _begin_next(shell, name="mended")
    said = shell.ok("register", "--supersedes", old)
    assert "next: ledger run mended\n" in said.err
    assert "next: ledger result mended\n" in shell.ok("run").err
    assert "next: ledger result mended\n" in shell.ok("look").err
    assert "adopt" == shell.ok("result", "--json").json["verdict"]
    assert "adopt" == shell.ok("result", "--json").json["verdict"]
    assert "mended   48 of 48 slots" in shell.ok("run").out
    _begin_next(shell, name="third")
    shell.ok("register")
    shell.ok("run")
    shell.ok("result")
    said = shell.ledger("result")
    assert (3, True) == (said.code, "the ledger holds several experiments" in said.err)
    assert f"name the experiment: ledger result {old}\n" in said.err
    said = shell.ledger("run", "nosuch", "--ledger", "./ledger.db")
    assert f"name the experiment: ledger run {old} --ledger ledger.db\n" in said.err


def test_act_on_what_was_withdrawn_says_so(shell: Shell) -> None:
    """A changed protocol file isn't named where the experiment ended without a result."""
    shell.recorded(BETTER)
    shell.ok("withdraw", "--reason", "the plan was mended")
    old = _begin_next(shell, name="mended")
    size = len(_entries(shell))
    for act in ("run", "look", "result"):
        said = shell.ledger(act, old)
        assert (3, True) == (said.code, "the experiment was withdrawn" in said.err), act
        assert f"found     its withdrawal, entry {size - 1}" in said.err
        assert f"ledger register PROTOCOL --supersedes {old}" in said.err
    assert size == len(_entries(shell))


def test_withdrawn_plan_is_not_registered_again(shell: Shell) -> None:
    """Its file again is refused, with the act that puts another in its place, and only one."""
    shell.recorded(BETTER)
    shell.ok("withdraw", "--reason", "the plan was mended")
    old, size = shell.ok("status", "--json").json["experiment"], len(_entries(shell))
    successor = f"ledger register PROTOCOL --supersedes {old}"
    said = shell.ledger("register")
    assert (3, "", size) == (said.code, said.out, len(_entries(shell)))
    assert "the experiment was withdrawn" in said.err
    assert successor in said.err
    assert f"next: {successor}" in shell.ok("status").err
    _begin_next(shell, name="mended")
    assert f"next: {successor}" in shell.ok("status").err
    shell.ok("register", "--supersedes", old)
    shell.ok("run")
    assert "next" not in shell.ok("status", old).err
    assert "mended has taken its place: ledger status mended" in shell.ledger("run", old).err


def test_registering_again_says_what_goes_on(shell: Shell) -> None:
    """The same file again changes nothing; the next command is that of the state."""
    shell.recorded(BETTER)
    assert "next: ledger run" in shell.ok("register").err
    shell.ok("run")
    assert "next: ledger result" in shell.ok("register").err


@pytest.mark.parametrize("words", [(), ("--stop", "--reason", "given up")])
def test_result_before_the_freeze_is_refused(shell: Shell, words: tuple[str, ...]) -> None:
    """Of what isn't frozen there is no result, stopped or not: it is frozen or withdrawn."""
    shell.recorded(BETTER, register=False)
    shell.ok("register", "--no-freeze")
    name = shell.ok("status", "--json").json["experiment"]
    said = shell.ledger("result", *words)
    assert (3, True) == (said.code, "isn't frozen" in said.err)
    assert f"ledger withdraw {name} --reason TEXT" in said.err
    assert "--stop" not in said.err


def test_entry_names_its_experiment(shell: Shell) -> None:
    """Among several experiments an entry's number is enough to correct what it holds."""
    shell.recorded(BETTER)
    shell.ok("run")
    old = _begin_next(shell, name="second")
    shell.ok("register")
    seq = next(str(e["seq"]) for e in _entries(shell) if e["event"]["kind"] == "decision/1")
    shell.ok("invalidate", seq, "--reason", "a wrong key")
    assert old == _entries(shell)[-1]["event"]["experiment"]
    said = shell.ledger("invalidate", seq, "--experiment", "second", "--reason", "again")
    assert (3, True) == (said.code, f"found     one of {old}" in said.err)
    said = shell.ledger("settle", seq, "--usd", "0", "--reason", "because")
    assert (3, True) == (said.code, "found     decision" in said.err)


def test_file_that_a_later_plan_took_over_is_no_difference(shell: Shell) -> None:
    """It is replaced on record, its first bytes are in the bundle; any other change is one."""
    shell.recorded(BETTER)
    shell.ok("run")
    shell.ok("result")
    first = (shell.folder / "protocol.yaml").read_bytes()
    old = _begin_next(shell, name="second")
    shell.ok("register")
    said = shell.ok("replay")
    by = next(e["seq"] for e in _entries(shell) if e["event"]["experiment"] == "second")
    assert f"protocol.yaml of {old}: replaced on record by entry {by}" in said.out
    assert (True, False) == ("0 findings" in said.out, "DIFFER" in said.out)
    shell.ok("export", "--bundle", "evidence.zip")
    with zipfile.ZipFile(shell.folder / "evidence.zip") as bundle:
        assert first == bundle.read(f"registered-{old}/protocol.yaml")
        assert first != bundle.read("protocol.yaml")
    with (shell.folder / "protocol.yaml").open("a") as file:
        file.write("# later\n")
    said = shell.ledger("replay")
    assert (16, 2) == (said.code, said.out.count("protocol.yaml: file differs"))
    assert "replaced on record" not in said.out


def _entries(shell: Shell) -> list[Any]:
    return [json.loads(line) for line in shell.ok("log", "--json").out.splitlines()]


def test_what_is_said_to_be_done_can_be_done(shell: Shell) -> None:
    """After an end each refusal says what is left, and names no act that there isn't."""
    shell.recorded(BETTER)
    name = shell.ok("status", "--json").json["experiment"]
    shell.ok("amend", "--set", "budget.calls=100000", "--reason", "r")
    shell.ok("run")
    assert "planned final analysis" in shell.ok("look").out
    shell.ok("result")
    seq = shell.ok("log", "--kind", "decision").out.split()[0].replace(",", "")
    said = shell.ledger("invalidate", seq, "--reason", "a wrong key")
    assert (3, False) == (said.code, "reanalysis" in said.err)
    assert "ledger register PROTOCOL" in said.err
    assert "no further look comes" in shell.ledger("look", "--number", "9").err
    shell.ok("close", "--reason", "all done")
    assert "LEDGER CLOSED" in shell.ok("status").out
    said = shell.ledger("register")
    assert (3, True) == (said.code, "amended, concluded, its ledger closed" in said.err)
    said = shell.ledger("status", "ledger.db")
    assert "--ledger ledger.db" in said.err
    (shell.folder / "ledger.db").rename(shell.folder / "other.db")
    said = shell.ledger("status", "other.db")
    assert (8, True) == (said.code, "name the ledger with --ledger other.db" in said.err)
    (shell.folder / "other.db").rename(shell.folder / "ledger.db")
    assert "would be: ADOPT" in shell.ok("compare", "table.csv", "--arms", "old,new", "--quiet").out
    assert name in shell.ok("status").out


def test_registered_file_that_must_change_is_said_to_take_a_new_plan(shell: Shell) -> None:
    """A refusal over a changed file names the commands that put another plan in its place."""
    shell.recorded(BETTER)
    name = shell.ok("status", "--json").json["experiment"]
    with (shell.folder / "units.csv").open("a") as file:
        file.write("more,more\n")
    said = shell.ledger("run")
    assert 3 == said.code
    assert f"ledger withdraw {name} --reason TEXT" in said.err
    assert f"ledger register PROTOCOL --supersedes {name}" in said.err
