"""From every state that a crash, a lost program or a changed file leaves, there is an end."""

from __future__ import annotations

import shutil
import signal
import time
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from pathlib import Path

    from .conftest import Lab

SLOW = 'sleep 0.05\nprintf \'{"v":1,"passed":true,"usd":0.001}\\n\'\n'


def _killed(lab: Lab) -> None:
    """Leaves a session without a word, with attempts open."""
    # Attempts take long beside what lies between them, so some are open at any moment.
    lab.write(units=40, body=SLOW.replace("sleep 0.05", "sleep 0.6"))
    lab.register()
    process = lab.start("run", "--concurrency", "4")
    lab.wait_for(4, process)
    started = sum(lab.starts().values())
    while sum(lab.starts().values()) == started and process.poll() is None:
        time.sleep(0.005)
    process.send_signal(signal.SIGKILL)
    process.communicate(timeout=60)


@pytest.mark.slow
def test_killed_run_whose_program_is_gone_can_be_ended(lab: Lab) -> None:
    """Without the agent no run goes on, but a person can end the experiment or withdraw it."""
    _killed(lab)
    (lab.folder / "agent.sh").unlink()
    lab.call("run", expect=3)
    copy = lab.folder / "copy"
    result = lab.json("result", "--stop", "--reason", "the agent is lost")
    assert "inconclusive" == result["verdict"]
    assert "crashed" == lab.events("stop")[-1]["reason"]
    assert "lost" in {end["status"] for end in lab.events("attempt_end")}
    assert "intact" == lab.json("replay")["record"]
    assert not copy.exists()


@pytest.mark.slow
def test_killed_run_can_be_withdrawn(lab: Lab) -> None:
    """Withdrawing closes what the killed session left open, under the run lock."""
    _killed(lab)
    lab.call("withdraw", "--reason", "a typo in the units")
    assert "withdrawn" == lab.json("status")["state"]
    assert "intact" == lab.json("replay")["record"]


@pytest.mark.slow
def test_living_run_is_not_ended_by_another_shell(one_lab: Lab) -> None:
    """While the run is alive, ending it from elsewhere is busy, with its own exit status."""
    one_lab.write(units=40, body=SLOW)
    one_lab.register()
    process = one_lab.start("run", "--concurrency", "2")
    one_lab.wait_for(4, process)
    for act in (("withdraw", "--reason", "t"), ("result", "--stop", "--reason", "t")):
        assert "pid" in one_lab.call(*act, expect=7).stderr
    process.communicate(timeout=60)
    assert 0 == process.returncode
    assert [] == one_lab.events("withdraw")


@pytest.mark.slow
def test_run_killed_after_its_last_look_gets_its_result(one_lab: Lab) -> None:
    """Between the last look and the stop nothing is missing but the stop: `result` gives it."""
    one_lab.write(units=12, body=SLOW.replace("sleep 0.05\n", ""))
    one_lab.register()
    one_lab.call("run", "--concurrency", "4")
    _cut_stop(one_lab)
    assert 0 == len(one_lab.events("stop"))
    result = one_lab.json("result")
    assert "last_look" == one_lab.events("result")[0]["stopped_by"]
    assert result["verdict"] in ("inconclusive", "adopt", "reject", "equivalent")
    assert "intact" == one_lab.json("replay")["record"]


def _cut_stop(lab: Lab) -> None:
    """Leaves the ledger as a kill between look and stop would: its last entry never came."""
    copy = lab.folder / "whole.jsonl"
    lab.call("export", str(copy))
    lines = copy.read_bytes().splitlines(keepends=True)
    assert b'"kind":"stop/1"' in lines[-1]
    cut = lab.folder / "cut.jsonl"
    cut.write_bytes(b"".join(lines[:-1]))
    shutil.copytree(f"{copy}.d", f"{cut}.d")
    receipts = lab.folder / "cut.jsonl.d" / "receipts"
    shutil.rmtree(receipts, ignore_errors=True)
    lab.store = "cut.jsonl"


@pytest.mark.slow
def test_agent_that_changes_during_a_run_is_on_record(one_lab: Lab) -> None:
    """What was compared at the start is compared again at looks and at the end."""
    one_lab.write(units=30, body=SLOW)
    one_lab.register()
    process = one_lab.start("run", "--concurrency", "2")
    one_lab.wait_for(4, process)
    agent: Path = one_lab.folder / "agent.sh"
    agent.write_bytes(agent.read_bytes() + b"# changed\n")
    _, err = process.communicate(timeout=60)
    assert 3 == process.returncode
    assert b"driver.files" in err
    assert "crashed" == one_lab.events("stop")[-1]["reason"]
    assert "arms.A.driver.files" == one_lab.events("refuse")[-1]["field"]
    assert [] == one_lab.events("look")


@pytest.mark.slow
def test_ledger_that_is_older_than_its_receipt_is_not_written(lab: Lab) -> None:
    """A rolled-back copy draws no slot again: the receipt beside it says that entries are gone."""
    lab.write(units=12, body=SLOW)
    lab.register()
    older = lab.folder / "older"
    shutil.copyfile(lab.ledger, older)
    lab.call("run", "--concurrency", "4")
    shutil.copyfile(older, lab.ledger)
    shutil.rmtree(f"{lab.ledger}.d/cache", ignore_errors=True)
    starts = lab.starts()
    refused = lab.call("run", expect=14)
    assert "receipt" in refused.stderr
    assert starts == lab.starts()


@pytest.mark.slow
def test_amendment_during_a_run_counts_what_stands_when_it_is_made(one_lab: Lab) -> None:
    """An operational amendment states outcomes and looks as of its own place, whatever runs."""
    one_lab.write(units=60, body=SLOW)
    one_lab.register()
    process = one_lab.start("run", "--concurrency", "4")
    one_lab.wait_for(4, process)
    one_lab.call("amend", "--set", "budget.usd=7", "--reason", "t", expect=0)
    process.communicate(timeout=120)
    (amend,) = one_lab.events("amend")
    kinds = [entry["event"]["kind"] for entry in one_lab.entries()]
    place = kinds.index("amend/1")
    assert kinds[:place].count("decision/1") == amend["outcomes"]
