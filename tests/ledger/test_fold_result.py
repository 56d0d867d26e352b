"""Result: what may end an experiment, and what a verdict may be of data that were cut short."""

from __future__ import annotations

from typing import Any

import pytest

from fairtrial.ledger.ceilings import may_analyse
from fairtrial.ledger.errors import ConflictError, RefusedError, StoreError, TransitionError
from fairtrial.ledger.events import UnblindArm

from .fold_bench import Bench
from .fold_drafts import (
    RESERVE,
    Design,
    comparisons,
    digest,
    make_arm,
    make_blinded,
    make_design,
    make_looks,
    make_rules,
)
from .fold_pairs import Pair, check_pair, each_pair

TWO_LOOKS = make_design(4, lasts=(4, 8))
GOES_ON = make_design(4, lasts=(4, 8), on_crossing="continue")
A = make_arm("a")
CALLS = make_design(4, arms=(A,), calls=2)
ANALYSED = make_design(4, arms=(A,), usd_nanousd=2 * RESERVE, on_under_run="analyse")
BLINDED = make_design(4, arms=(make_blinded("a", "real"),))


def _cut(bench: Bench, design: Design) -> Bench:
    """Runs into a ceiling of two attempts."""
    return bench.running(design).settled(1, 2).idle(reason="ceiling")


def _timed_out(bench: Bench, **rules: Any) -> Bench:
    """Runs into a ceiling of time."""
    bench.running(make_design(4, arms=(A,), wall_seconds=60, **rules)).settled(1)
    bench.clock.wait(60)
    return bench.idle(reason="wall_time")


def _crossed(bench: Bench, design: Design = TWO_LOOKS) -> Bench:
    """Takes a first look that crosses; it stops the run where the protocol lets it."""
    stops = design.rules.on_crossing == "stop"
    return bench.running(design).looked(crossed="favourable", continues=not stops).idle()


def _crossed_after_ceiling(bench: Bench) -> Bench:
    """Runs into a ceiling; an amended look then crosses on what there is."""
    looks = make_looks((2, 4))
    _cut(bench, CALLS).append(bench.amendment("looks", "analysis", looks=looks))
    return bench.do("look", continues=False, comparisons=comparisons("against"))


ENDS = (
    Pair(
        "result needs a freeze",
        lambda b: b.registered().draft("result"),
        "isn't frozen",
        lambda b: b.frozen().draft("result"),
    ),
    Pair(
        "result waits for the session to stop",
        lambda b: b.running().looked().draft("result"),
        "a run is going on",
        lambda b: b.running().looked().idle().draft("result"),
    ),
    Pair(
        "a due look comes before the result",
        lambda b: b.running(TWO_LOOKS).settled(1, 2, 3, 4).idle().draft("result"),
        "a look is due",
        lambda b: b.running(TWO_LOOKS).settled(1, 2, 3, 4).idle().do("look").draft("result"),
    ),
    Pair(
        "result comes once",
        lambda b: b.complete().do("result").draft("result", reason="another"),
        "the slot holds another event",
        lambda b: b.complete().draft("result", reason="another"),
        ConflictError,
    ),
    Pair(
        "what was withdrawn has no result",
        lambda b: b.complete().do("withdraw").draft("result"),
        "has ended",
        lambda b: b.complete().draft("result"),
    ),
    Pair(
        "a result states the looks taken",
        lambda b: b.complete().draft("result", look=0),
        "states the looks taken",
        lambda b: b.complete().draft("result", look=1),
    ),
    Pair(
        "the arms are unblinded before the result",
        lambda b: b.running(BLINDED).idle().draft("result"),
        "still blinded",
        lambda b: b.running(make_design(4, arms=(A,))).idle().draft("result"),
    ),
    Pair(
        "last_look: all looks are taken",
        lambda b: b.running(TWO_LOOKS).looked().idle().draft("result", stopped_by="last_look"),
        "wasn't ended by last_look",
        lambda b: b.running(TWO_LOOKS).looked().looked().idle()
        .draft("result", stopped_by="last_look"),
    ),
    Pair(
        "last_look isn't a crossing before the last look",
        lambda b: _crossed(b).draft("result", stopped_by="last_look"),
        "wasn't ended by last_look",
        lambda b: _crossed(b).draft("result", stopped_by="boundary"),
    ),
    Pair(
        "boundary: the newest look crossed and stopped",
        lambda b: b.complete().draft("result", stopped_by="boundary"),
        "wasn't ended by boundary",
        lambda b: b.complete(crossed="against").draft("result", stopped_by="boundary"),
    ),
    Pair(
        "boundary isn't a crossing after which the run went on",
        lambda b: _crossed(b, GOES_ON).do("start").looked().idle()
        .draft("result", stopped_by="boundary"),
        "wasn't ended by boundary",
        lambda b: _crossed(b, GOES_ON).do("start").looked().idle()
        .draft("result", stopped_by="last_look"),
    ),
    Pair(
        "ceiling: the newest session stopped for it",
        lambda b: _cut(b, CALLS).do("start").idle().draft("result", stopped_by="ceiling"),
        "wasn't ended by ceiling",
        lambda b: _cut(b, CALLS).draft("result", stopped_by="ceiling"),
    ),
    Pair(
        "wall_time: the newest session stopped for it",
        lambda b: _timed_out(b).do("start").idle().draft("result", stopped_by="wall_time"),
        "wasn't ended by wall_time",
        lambda b: _timed_out(b).draft("result", stopped_by="wall_time"),
    ),
    Pair(
        "a person doesn't end what is complete",
        lambda b: b.complete().draft("result", stopped_by="person"),
        "wasn't ended by person",
        lambda b: b.running().idle().draft("result", stopped_by="person"),
    ),
    Pair(
        "a ceiling doesn't end what is complete",
        lambda b: (
            b.running(make_design(2, arms=(A,), lasts=(1, 2), calls=1))
            .settled(1).do("look", continues=True).idle(reason="ceiling")
            .append(b.amendment("budget", "operational", rules=make_rules(calls=2)))
            .do("start").looked().idle().draft("result", stopped_by="ceiling")
        ),
        "wasn't ended by ceiling",
        lambda b: (
            b.running(make_design(2, arms=(A,), lasts=(1, 2), calls=1))
            .settled(1).do("look", continues=True).idle(reason="ceiling")
            .draft("result", stopped_by="ceiling")
        ),
    ),
    Pair(
        "a ceiling doesn't end what has crossed since",
        lambda b: _crossed_after_ceiling(b).draft("result", stopped_by="ceiling"),
        "wasn't ended by ceiling",
        lambda b: _crossed_after_ceiling(b).draft("result", stopped_by="boundary"),
    ),
)  # fmt: skip

VERDICTS = (
    Pair(
        "a stop by a person is inconclusive",
        lambda b: b.running(TWO_LOOKS).looked().idle().draft("result", verdict="adopt"),
        "that person cut short is inconclusive",
        lambda b: b.complete().draft("result", verdict="adopt"),
    ),
    Pair(
        "a person's stop keeps the verdict of a crossing",
        lambda b: b.running(GOES_ON).looked().idle().draft("result", verdict="reject"),
        "that person cut short is inconclusive",
        lambda b: _crossed(b, GOES_ON).draft("result", verdict="reject"),
    ),
    Pair(
        "a ceiling is inconclusive unless the protocol has it analysed",
        lambda b: _cut(b, CALLS).draft("result", stopped_by="ceiling", verdict="adopt"),
        "that ceiling cut short is inconclusive",
        lambda b: _cut(b, ANALYSED).draft("result", stopped_by="ceiling", verdict="adopt"),
    ),
    Pair(
        "wall time is inconclusive unless the protocol has it analysed",
        lambda b: _timed_out(b).draft("result", stopped_by="wall_time", verdict="adopt"),
        "that wall_time cut short is inconclusive",
        lambda b: _timed_out(b, on_under_run="analyse")
        .draft("result", stopped_by="wall_time", verdict="adopt"),
    ),
    Pair(
        "a person's stop isn't analysed, whatever the protocol says",
        lambda b: _cut(b, ANALYSED).draft("result", stopped_by="person", verdict="adopt"),
        "that person cut short is inconclusive",
        lambda b: _cut(b, ANALYSED).draft("result", stopped_by="ceiling", verdict="adopt"),
    ),
    Pair(
        "a ceiling that was moved after the first attempt isn't analysed",
        lambda b: (
            b.running(ANALYSED).settled(1)
            .append(b.amendment("budget", "operational", rules=ANALYSED.rules))
            .settled(2).idle(reason="ceiling")
            .draft("result", stopped_by="ceiling", verdict="adopt")
        ),
        "that ceiling cut short is inconclusive",
        lambda b: (
            b.frozen(ANALYSED).append(b.amendment("budget", "operational", rules=ANALYSED.rules))
            .do("start").settled(1, 2).idle(reason="ceiling")
            .draft("result", stopped_by="ceiling", verdict="adopt")
        ),
    ),
    Pair(
        "a ceiling that lost attempts reached isn't analysed",
        lambda b: (
            b.running(ANALYSED).settled(1).do("attempt", position=2).do("start")
            .do("attempt_end", position=2, status="lost").idle(reason="ceiling")
            .draft("result", stopped_by="ceiling", verdict="adopt")
        ),
        "that ceiling cut short is inconclusive",
        lambda b: (
            b.running(ANALYSED).settled(1).do("attempt", position=2).do("start")
            .do("attempt_end", position=2, status="lost").idle(reason="ceiling")
            .do("settle", position=2, cost_nanousd=RESERVE)
            .draft("result", stopped_by="ceiling", verdict="adopt")
        ),
    ),
    Pair(
        "a result after an analysis amendment isn't as registered",
        lambda b: (
            b.running().idle().append(b.amendment("missing", "analysis"))
            .draft("result", as_registered=True)
        ),
        "isn't as registered",
        lambda b: (
            b.running().idle().append(b.amendment("budget", "operational"))
            .draft("result", as_registered=True)
        ),
    ),
)  # fmt: skip


@each_pair(ENDS)
def test_result_follows_the_table(pair: Pair) -> None:
    """A result stands when nothing runs, no look is due, and what ended the experiment is true."""
    check_pair(pair)


@each_pair(VERDICTS)
def test_verdict_of_data_cut_short(pair: Pair) -> None:
    """Who cuts an experiment short gets no verdict, but for one that was reached before."""
    check_pair(pair)


def test_early_unblinding_is_not_as_registered() -> None:
    """Who unblinds before the data are complete has left the registered plan."""
    opened = (UnblindArm(name="a", arm="real", salt=digest("a")),)
    early = Bench().running(BLINDED).idle().do("unblind", arms=opened)
    with pytest.raises(TransitionError, match="isn't as registered"):
        early.do("result", as_registered=True)
    late = Bench().running(BLINDED).looked().idle().do("unblind", arms=opened)
    late.do("result", as_registered=True)


def test_under_run_is_analysed_only_as_registered() -> None:
    """Whether data cut short may be analysed is a question the engine can ask of the state."""
    assert may_analyse(_cut(Bench(), ANALYSED).known())
    assert not may_analyse(_cut(Bench(), CALLS).known())
    assert not may_analyse(Bench().registered().known())


@pytest.mark.parametrize("kind", ["result", "withdraw"])
def test_little_follows_an_end(kind: str) -> None:
    """After an end only refuse, sign, redact and settle follow, and reanalysis after a result."""
    bench = Bench().running().tried(1, "interrupted").idle().do(kind)
    bench.do("refuse").do("sign").do("redact").do("settle", position=1)
    before = bench.snapshot()
    placed = [bench.draft(name, position=1) for name in ("attempt", "decision", "invalidate")]
    others = ["start", "amend", "unblind", "look", *({"result", "withdraw"} - {kind})]
    for event in (
        *placed,
        *(bench.draft(name) for name in others),
        bench.draft("attempt_end", position=1, code="late"),
        bench.draft("stop", reason="crashed"),
        bench.draft("freeze", cluster_count=1),
    ):
        with pytest.raises((RefusedError, StoreError), match=r"ended|live|due|another|blinded"):
            bench.again(event)
    assert before == bench.snapshot()


def test_withdrawn_arms_are_opened_for_the_record() -> None:
    """A withdrawal seals nothing for ever: opening after it is allowed once, and isn't early."""
    opened = (UnblindArm(name="a", arm="real", salt=digest("a")),)
    bench = Bench().running(BLINDED).idle().do("withdraw").do("unblind", arms=opened)
    assert not bench.known().unblinded_early
    with pytest.raises(TransitionError, match="aren't blinded"):
        bench.do("unblind", arms=opened)
