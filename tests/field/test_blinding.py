"""Blinded arms by the command that people type: nothing tells them apart before `unblind`."""

from __future__ import annotations

import subprocess
from typing import TYPE_CHECKING

import pytest

from fairtrial.engine.inspecting import show_event
from fairtrial.verbs.text_log import entry_page, read_entry

from ..custody.blinded_trial import (  # noqa: TID252 - tests are no package, and the plan is shared
    NEW,
    OLD,
    SECRETS,
    write_plan,
)
from .conftest import Lab, stop

if TYPE_CHECKING:
    from collections.abc import Iterator

# Verbs that read, and verbs that are refused while the arms are blinded; END is the entry of an
# attempt's end.
COMMANDS = (
    *("status", "status --json", "look --number 1", "replay --json", "log", "run --json"),
    *("result --json", "withdraw --reason=x", "settle END --usd 1 --reason=x"),
    *("show END --artifact diary.txt", "redact 2:X.identity --reason=x"),
)


def views(lab: Lab) -> Iterator[tuple[str, str]]:
    """Yields everything that a blinded experiment says of itself, and the ledger's own bytes."""
    ends = (e["seq"] for e in lab.entries() if e["event"]["kind"].startswith("attempt_end/"))
    end = str(next(ends))
    for command in (one.replace("END", end) for one in COMMANDS):
        done = lab.call(*command.split(), expect=None)
        yield command, done.stdout + done.stderr
    for seq in range(len(lab.stored())):
        shown = show_event(lab.ledger, seq)
        assert shown.opened is None
        yield f"show {seq}", entry_page(read_entry(shown.entry), shown.leaf)
    yield lab.store, lab.ledger.read_bytes().decode("latin-1")


@pytest.mark.slow
def test_nothing_tells_arms_apart_before_unblinding(one_lab: Lab) -> None:
    """No output, no error, no byte of the ledger holds an arm's name, label, model or price."""
    lab = one_lab
    write_plan(lab.folder, units=24)
    register = lab.call("register", "protocol.yaml", "--json")
    run = lab.call("run", "--progress", "lines")
    said = [("register", register.stdout + register.stderr), ("run", run.stdout + run.stderr)]
    said += views(lab)
    assert [] == [(view, secret) for view, text in said for secret in SECRETS if secret in text]
    assert "flaky" in run.stderr
    assert {"X", "Y"} == {event["arm"] for event in lab.events("decision")}
    keys = {
        *("v", "experiment", "look", "units", "clusters", "information_fraction", "eligible"),
        *("continues", "receipt", "next"),
    }
    assert keys == set(lab.json("look", "--number", "1"))
    assert "discipline, not secrecy" in lab.call("status").stdout
    assert "skipped: sealed" in lab.call("replay").stdout
    assert "ledger unblind" in lab.call("result", expect=3).stderr


@pytest.mark.slow
def test_killed_blinded_run_resumes_and_is_opened(lab: Lab) -> None:
    """Kills in the middle lose no sealed value; after `unblind` views have names and numbers."""
    write_plan(lab.folder, units=30, seconds=0.02)
    lab.register()
    for outcomes in (10, 40):
        process = lab.start("run", stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        lab.wait_for(outcomes, process)
        stop(process)
    lab.call("run")
    assert 60 == len({event["position"] for event in lab.events("decision")})
    opened = lab.call("unblind", "--reason", "all looks are taken").stdout
    assert OLD in opened
    assert NEW in opened
    status = lab.json("status")
    assert status["arms"][OLD]["spent_usd"] > 3 * status["arms"][NEW]["spent_usd"] > 0
    assert NEW in lab.call("log", "--kind", "outcome").stdout
    seq = next(e["seq"] for e in lab.entries() if e["event"]["kind"] == "decision/1")
    assert "served_model" in lab.call("show", str(seq)).stdout.partition("since unblinded")[2]
    assert lab.json("result")["as_registered"]
    report = lab.json("replay")
    assert ("intact", "ok") == (report["record"], report["levels"]["numbers"])
