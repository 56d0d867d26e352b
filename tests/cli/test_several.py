"""A ledger that holds more than one experiment: what is named, and what may be left out."""

from __future__ import annotations

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
    said = shell.ledger("run")
    assert (3, True) == (said.code, "the ledger holds several experiments" in said.err)
