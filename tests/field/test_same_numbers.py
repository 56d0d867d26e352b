"""Numbers, verdicts and reasons don't depend on concurrency, store or interruption."""

from __future__ import annotations

import json
import signal
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from .conftest import Lab

# A tenth of the units takes longer, some tries fail, so completion order and attempts differ.
BODY = """n=${FAIRTRIAL_UNIT#u}
if [ $((n % 10)) = 3 ]; then sleep 0.05; fi
if [ $((n % 13)) = 5 ] && [ $FAIRTRIAL_ATTEMPT = 1 ]; then exit 75; fi
case $FAIRTRIAL_ARM in A) m=3;; *) m=6;; esac
if [ $((n * 7 % 10)) -lt $m ]; then p=true; else p=false; fi
printf '{"v":1,"passed":%s,"usd":0.0001}\\n' "$p"
"""
LOOKS = "looks: {at: [0.5, 1.0], icc: 0.05, on_crossing: continue}"


def _numbers(lab: Lab, *, with_money: bool) -> str:
    """Returns looks and result without what must differ: head, and money that a kill cost."""
    without = {"basis", "detail", "receipt", "next"}
    without |= set() if with_money else {"cost_nanousd", "spend_usd"}
    events = [event for kind in ("look", "result") for event in lab.events(kind)]
    kept = [
        {key: value for key, value in each.items() if key not in without}
        for each in [*events, lab.json("result")]
    ]
    return json.dumps(kept, sort_keys=True, indent=1)


def _run(folder: Path, store: str, concurrency: int, interruptions: int, make: Any) -> Lab:
    folder.mkdir()
    lab: Lab = make(folder, store)
    lab.write(units=48, clusters=24, body=BODY, attempts=2, looks=LOOKS)
    lab.register()
    for number in range(interruptions):
        process = lab.start("run", "--concurrency", str(concurrency))
        lab.wait_for(12 * (number + 1), process)
        process.send_signal(signal.SIGINT if number % 2 else signal.SIGKILL)
        process.communicate(timeout=60)
    lab.call("run", "--concurrency", str(concurrency))
    lab.call("result")
    assert "intact" == lab.json("replay")["record"]
    return lab


@pytest.mark.slow
def test_numbers_are_the_same_however_a_run_went(tmp_path: Path, one_lab: Lab) -> None:
    """Concurrency 1, 4 and 32, and kills and interrupts, each in both stores: one result."""
    make = type(one_lab)
    stores = ("ledger.db", "ledger.jsonl")
    runs = [
        _run(tmp_path / f"{concurrency}-{store}", store, concurrency, 0, make)
        for concurrency in (1, 4, 32)
        for store in stores
    ]
    first = _numbers(runs[0], with_money=True)
    for lab in runs[1:]:
        assert first == _numbers(lab, with_money=True), lab.folder
    for store in stores:
        broken = _run(tmp_path / f"broken-{store}", store, 4, 3, make)
        assert "lost" in {end["status"] for end in broken.events("attempt_end")}
        assert _numbers(runs[0], with_money=False) == _numbers(broken, with_money=False)
