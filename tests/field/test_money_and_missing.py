"""FR-21, 22, 23, 28, 30: ceilings, lost scores, faults in one arm, unplanned looks, all failed."""

from __future__ import annotations

import json
import signal
from typing import TYPE_CHECKING

import pytest

from fairtrial.custody.trial import open_trial
from fairtrial.engine.concluding import conclude_event
from fairtrial.ledger.canonical import decode_event, encode_event
from fairtrial.ledger.events import Result

if TYPE_CHECKING:
    from .conftest import Lab

NANO = 10**9


def _most_committed(lab: Lab) -> tuple[int, int]:
    """Recomputes spent + reserved at each start from the log alone; returns most and spent."""
    reserved: dict[int, int] = {}
    spent = most = 0
    for entry in lab.entries():
        event = entry["event"]
        kind, position = event["kind"], event["position"]
        if kind == "attempt/1":
            reserved[position] = event["reserved_nanousd"]
            most = max(most, spent + sum(reserved.values()))
        elif kind in ("attempt_end/1", "decision/1") and position in reserved:
            held = reserved.pop(position)
            cost = event["cost_nanousd"]
            spent += held if cost is None else cost
    return most, spent


@pytest.mark.slow
def test_ceiling_holds_under_parallel_work_and_over_a_resume(lab: Lab) -> None:
    """FR-21: spent + reserved never passes the ceiling at any start; whole pairs; own state."""
    body = 'sleep 0.01\nprintf \'{"v":1,"passed":true,"usd":0.10}\\n\'\n'
    lab.write(units=100, body=body, usd=5.0, reserve=0.12)
    lab.register()
    process = lab.start("run", "--concurrency", "16")
    lab.wait_for(15, process)
    process.send_signal(signal.SIGINT)
    process.communicate(timeout=60)
    before = _most_committed(lab)[1]
    assert before > 0
    stopped = lab.call("run", "--concurrency", "16", expect=4)
    assert "ceiling" in (stopped.stdout + stopped.stderr).lower()
    most, spent = _most_committed(lab)
    assert most <= 5 * NANO
    assert spent > before
    assert spent > 4.7 * NANO
    status = lab.json("status")
    assert "unfinished" == status["state"]
    assert status["planned"] == status["settled"] + status["pending"] + status["not_run"]
    pairs = {d["unit"] for d in lab.events("decision")}
    assert 2 * len(pairs) == status["settled"]
    lab.call("run", expect=4)
    assert spent == _most_committed(lab)[1]


@pytest.mark.slow
def test_raised_ceiling_is_an_operational_amendment(one_lab: Lab) -> None:
    """A budget doesn't touch the numbers: the result stays as registered and lists the change."""
    body = (
        'printf \'{"v":1,"passed":%s,"usd":0.10}\\n\' $([ $FAIRTRIAL_ARM = B ] && echo true ||'
        " echo $([ ${FAIRTRIAL_UNIT#u} -gt 9 ] && echo true || echo false))\n"
    )
    one_lab.write(units=20, body=body, usd=2.0, reserve=0.10)
    one_lab.register()
    one_lab.call("run", "--concurrency", "4", expect=4)
    one_lab.call("amend", "--set", "budget.usd=9", "--reason", "the invoice came in lower")
    one_lab.call("run", "--concurrency", "4")
    result = one_lab.json("result")
    assert result["as_registered"] is True
    assert "intact" == one_lab.json("replay")["record"]


@pytest.mark.slow
@pytest.mark.parametrize("word", ["NaN", '"NaN"', "null", "Infinity", "-Infinity"])
def test_lost_score_is_ungraded_and_never_a_number(one_lab: Lab, word: str) -> None:
    """FR-22: a grader that crashed is `ungraded`; over the limit there is no verdict."""
    body = (
        f"if [ $FAIRTRIAL_ARM = B ] && [ ${{FAIRTRIAL_UNIT#u}} -lt 5 ]; then s='{word}';"
        ' else s=1; fi\nprintf \'{"v":1,"score":%s,"passed":true,"usd":0}\\n\' "$s"\n'
    )
    one_lab.write(units=20, body=body)
    text = (one_lab.folder / "protocol.yaml").read_text()
    text = text.replace(
        "type: binary, value: passed", "type: bounded, bounds: [0, 1], value: score"
    )
    (one_lab.folder / "protocol.yaml").write_text(text)
    one_lab.register()
    one_lab.call("run", "--concurrency", "4")
    statuses = [d["status"] for d in one_lab.events("decision")]
    assert 5 == statuses.count("ungraded")
    assert 35 == statuses.count("ok")
    result = one_lab.json("result")
    assert {"A": {}, "B": {"ungraded": 5}} == result["units"]["missing"]
    endpoint = result["comparisons"][0]["endpoints"][0]
    assert (20, 15, 5) == (
        endpoint["units"]["planned"],
        endpoint["units"]["paired"],
        endpoint["units"]["excluded_count"],
    )
    assert {f"u{number}" for number in range(5)} == set(endpoint["units"]["excluded"])
    assert {"A": 1.0, "B": 1.0} == endpoint["arms"]
    assert "inconclusive" == result["verdict"]
    assert "missing_over_limit" == result["reason_code"]
    assert "NaN" not in json.dumps(result)


@pytest.mark.slow
def test_fault_in_one_arm_is_no_evidence(one_lab: Lab) -> None:
    """FR-23: infrastructure errors leave with their pair; a declared wrong answer counts."""
    body = (
        "n=${FAIRTRIAL_UNIT#u}\nif [ $FAIRTRIAL_ARM = A ] && [ $((n % 5)) = 0 ]; then exit 75; fi\n"
        "if [ $((n % 3)) = 0 ]; then p=false; else p=true; fi\n"
        'printf \'{"v":1,"passed":%s,"usd":0}\\n\' "$p"\n'
    )
    one_lab.write(units=40, body=body)
    text = (one_lab.folder / "protocol.yaml").read_text()
    (one_lab.folder / "protocol.yaml").write_text(text.replace("limit: 0.1}", "limit: 0.2}"))
    one_lab.register()
    one_lab.call("run", "--concurrency", "1")
    result = one_lab.json("result")
    endpoint = result["comparisons"][0]["endpoints"][0]
    assert {"only_control": 0, "only_treatment": 0} == {
        name: endpoint["discordant"][name] for name in ("only_control", "only_treatment")
    }
    lost = [number for number in range(40) if number % 5 == 0]
    kept = [number for number in range(40) if number % 5]
    assert {f"u{number}" for number in lost} == set(endpoint["units"]["excluded"])
    assert len(kept) == result["units"]["paired"]
    assert {"error": len(lost)} == result["units"]["missing"]["A"]
    # Both arms are wrong on every third unit: the wrong answers count, and count alike.
    share = sum(number % 3 > 0 for number in kept) / len(kept)
    assert {"A": share, "B": share} == pytest.approx(endpoint["arms"])
    assert 0.0 == endpoint["difference"]
    assert "inconclusive" == result["verdict"]


@pytest.mark.slow
def test_unplanned_look_is_refused_and_a_taken_one_is_returned(lab: Lab) -> None:
    """FR-28: a look that isn't due is refused on record; the same look again spends nothing."""
    lab.write(
        units=40,
        body='sleep 0.02\nprintf \'{"v":1,"passed":true,"usd":0}\\n\'\n',
        looks="looks: {at: [0.5, 1.0], icc: 0.05}",
    )
    lab.register()
    process = lab.start("run", "--concurrency", "2")
    lab.wait_for(6, process)
    process.send_signal(signal.SIGINT)
    process.communicate(timeout=60)
    refused = lab.call("look", "--number", "1", expect=3)
    assert "isn't due" in refused.stderr
    assert "p 0" not in refused.stdout
    assert "look" == lab.events("refuse")[0]["act"]
    lab.call("run", "--concurrency", "4")
    size = len(lab.entries())
    first, second = lab.json("look", "--number", "1"), lab.json("look", "--number", "1")
    assert first == second
    assert size == len(lab.entries())
    assert 2 == len(lab.events("look"))


@pytest.mark.slow
def test_everything_failed_is_no_success(lab: Lab) -> None:
    """FR-30: a wrong key stops the run with its own status; ending it is inconclusive."""
    lab.write(units=20, body="echo 401 invalid key >&2\nexit 2\n")
    lab.register()
    stopped = lab.call("run", "--concurrency", "4", expect=4)
    assert "5 attempts in a row" in stopped.stdout + stopped.stderr
    assert 0 == lab.settled()
    status = lab.json("status")
    assert "unfinished" == status["state"]
    assert status["failing"] >= 5
    lab.call("result", expect=3)
    result = lab.json("result", "--stop", "--reason", "the key was wrong")
    assert "inconclusive" == result["verdict"]
    assert "stopped_by_person" == result["reason_code"]
    gate = lab.call("result", "--gate=adopt", expect=6)
    assert "INCONCLUSIVE" in gate.stdout


@pytest.mark.slow
def test_three_units_that_always_fail_cannot_block_a_run(one_lab: Lab) -> None:
    """Slots that fail whatever is tried are given up as errors, and the rest is unharmed."""
    body = (
        "case $FAIRTRIAL_UNIT in u1|u2|u3) exit 3;; esac\n"
        'printf \'{"v":1,"passed":true,"usd":0}\\n\'\n'
    )
    one_lab.write(units=20, body=body, attempts=2)
    one_lab.register()
    one_lab.call("run", "--concurrency", "1")
    decisions = one_lab.events("decision")
    assert 40 == len(decisions)
    failed = [d for d in decisions if d["status"] == "error"]
    assert {"u1", "u2", "u3"} == {d["unit"] for d in failed}
    assert {2} == {d["attempt"] for d in failed}


@pytest.mark.slow
def test_costs_beyond_what_an_event_holds_still_reach_an_end(one_lab: Lab) -> None:
    """The sum in the result ends at the largest integer that fits, and the result says so."""
    one_lab.write()
    one_lab.register()
    one_lab.call("run", "--concurrency", "4")
    for amount in ("1e300", "9007200", "1e-10", "1e-999999999999999999999", "nan"):
        one_lab.call("settle", "5", "--usd", amount, "--reason", "t", expect=2)
    with open_trial(one_lab.ledger, read_only=True) as trial:
        known = trial.experiment("lab")
        # As 91 answers of 100,000 usd each would leave it, and as many more as anyone can run.
        for spent in (91 * 100_000 * NANO, 10**30):
            known.tallies[0].spent_nanousd = spent
            event, detail, *_ = conclude_event(trial, known, trial.log.head(), "last_look", None)
            stored = decode_event(encode_event(event))
            assert isinstance(stored, Result)
            assert 2**53 - 1 == stored.cost_nanousd["A"]
            shown = json.loads(detail)
            assert pytest.approx(spent / NANO) == shown["spend_usd"]["A"]
            assert ["arm A spent more than 9,007,199 usd, where the event's sum ends"] == [
                warning for warning in shown["warnings"] if "spent" in warning
            ]


@pytest.mark.slow
def test_an_arm_that_was_declared_free_is_stopped_by_its_first_spend(one_lab: Lab) -> None:
    """Nothing is reserved for such an arm, so its own ceiling of 0 is what holds."""
    body = 'printf \'{"v":1,"passed":true,"usd":0.5}\\n\'\n'
    one_lab.write(body=body, usd=5.0, reserve=0)
    refused = one_lab.call("check", "protocol.yaml", expect=3)
    assert "the ceiling could never stop this arm" in refused.stdout + refused.stderr
    path = one_lab.folder / "protocol.yaml"
    free = "budget: {usd: 5.0, arms: {A: {usd: 0}, B: {usd: 0}}}"
    path.write_text(path.read_text().replace("budget: {usd: 5.0}", free))
    one_lab.register()
    one_lab.call("run", "--concurrency", "1", expect=4)
    assert one_lab.json("status")["settled"] < 10
