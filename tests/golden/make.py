"""Makes the golden files of a format version, once: it refuses where one exists.

    python tests/golden/make.py FOLDER

FOLDER gets `events.json` (every kind of event, its bytes, id, entry and leaf), `ledger.jsonl` with
its blobs, `ledger.db` with the same entries, and `expected.json` (their ids, leaves and root).
What was released is never edited; a new version of a kind goes into a new folder.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import count
from pathlib import Path

from msgspec import structs

from fairtrial.ledger.canonical import (
    EVENT_CONTEXT,
    blob_of,
    encode_event,
    event_id,
)
from fairtrial.ledger.entry import FIRST_PREV, build_entry, parse_entry
from fairtrial.ledger.event_schemas import schemas_digest
from fairtrial.ledger.events import (
    Adopt,
    Amend,
    Anchor,
    ArmCeiling,
    Attempt,
    AttemptEnd,
    Blob,
    Close,
    Decision,
    Event,
    Freeze,
    FrozenArm,
    GitState,
    Head,
    Import,
    Invalidate,
    Key,
    Look,
    LookComparison,
    LookEndpoint,
    LookPlan,
    LookTest,
    Open,
    Predecessor,
    Reanalysis,
    Recover,
    Redact,
    Reference,
    Refuse,
    Register,
    RegisterGit,
    Result,
    ResultComparison,
    ResultEndpoint,
    Rules,
    Settle,
    Sign,
    SignatureRule,
    Start,
    Stop,
    Unblind,
    UnblindArm,
    Withdraw,
    event_kind,
)
from fairtrial.ledger.log import Log
from fairtrial.ledger.merkle import leaf_hash, root_of
from fairtrial.ledger.opening import blob_store, open_store
from fairtrial.ledger.transfer import copy_entries

LEDGER = "00112233445566778899aabbccddeeff"
D1, D2, D3 = "1" * 64, "2" * 64, "3" * 64
BLOB = blob_of(b"a golden blob\n")
BASIS = Head(size=3, root=D1)
ENTRY = Reference(seq=2, leaf=D2)
UNITS = ("u-1", "u-2", "ü 3", "日本 4")
ARMS = ("candidate", "control")


@dataclass(frozen=True)
class Columns:
    """A plan as the fold reads it."""

    units: Sequence[str]
    arms: Sequence[str]
    replicates: Sequence[int]


def rules(*, full: bool) -> Rules:
    """Returns rules with every ceiling, or with none."""
    approval = SignatureRule(meaning="approved", role="sponsor", before="run")
    ceiling = ArmCeiling(usd_nanousd=5_000_000_000, calls=10, tokens=1_000, wall_seconds=60)
    return Rules(
        usd_nanousd=20_000_000_000 if full else None,
        calls=100 if full else None,
        tokens=2**53 - 1 if full else None,
        wall_seconds=3_600 if full else None,
        arms={"candidate": ceiling, "control": ArmCeiling()} if full else {},
        attempts_max=3 if full else 1,
        retry_on=("error", "timeout") if full else (),
        on_crossing="continue" if full else "stop",
        on_under_run="analyse" if full else "inconclusive",
        anchor="witness" if full else "none",
        signatures=(approval,) if full else (),
        primaries=("candidate/passed", "candidate/score") if full else ("candidate/passed",),
    )


def look_plan(last: int, clusters: int, *, full: bool) -> LookPlan:
    """Returns a planned look with a test that has all numbers and one that has none, or no test."""
    tests = tuple(
        LookTest(
            comparison="candidate-control",
            endpoint=endpoint,
            fraction=clusters / len(UNITS),
            df=2.5 if filled else None,
            nominal_p=0.05 if filled else 0.0,
            z=1.959963984540054 if filled else None,
            eligible=filled,
        )
        for endpoint, filled in (("passed", True), ("score", False))
    )
    return LookPlan(last=last, clusters=clusters, units=clusters, tests=tests if full else ())


def arm(name: str, *, full: bool) -> FrozenArm:
    """Returns a frozen arm: live and blinded, or recorded."""
    return FrozenArm(
        name=name,
        origin="live" if full else "recorded",
        identity=BLOB,
        metered=full,
        reserve_nanousd=120_000_000 if full else 0,
        repeatable=full,
        commitment=D3 if full else None,
    )


def look(number: int, *, basis: Head = BASIS, last: int = 4, final: bool, full: bool) -> Look:
    """Returns a look with every number, or with every number null and a reason."""
    endpoint = LookEndpoint(
        name="passed",
        information_fraction=0.5,
        eligible=full,
        why_not=() if full else ("too_few_clusters", "df_below_4"),
        n=4,
        clusters=4,
        discordant_clusters=3 if full else None,
        estimate=0.1 + 0.2 if full else None,
        standard_error=1e-7 if full else None,
        df=3.0 if full else None,
        tests={"cr2": 1e-300, "sign_flip": 0.5, "never": None} if full else {},
        p_value=5e-324 if full else None,
        nominal_p=0.025 if full else None,
        t_critical=1e16 if full else None,
        z=-0.0 if full else None,
        lower=-1.0 if full else None,
        upper=1.7976931348623157e308 if full else None,
        crossed="favourable" if full else "no",
        undetermined=None if full else "one unit in each cluster,\nnothing to compare",
    )
    comparison = LookComparison(
        name="candidate-control", treatment="candidate", control="control", endpoints=(endpoint,)
    )
    return Look(
        experiment="golden",
        number=number,
        basis=basis,
        data=D1,
        last=last,
        continues=not final,
        method="paired_cr2/1",
        units=4,
        clusters=4,
        comparisons=(comparison,),
        sealed=BLOB if full else None,
    )


def result(*, basis: Head = BASIS, looks: int, full: bool) -> Result:
    """Returns a result with a verdict, or an inconclusive one."""
    endpoint = ResultEndpoint(
        name="passed",
        difference=0.25 if full else None,
        lower=0.05 if full else None,
        upper=0.45 if full else None,
        p_value=0.01 if full else None,
        bound_lower=0.0 if full else None,
        bound_upper=0.5 if full else None,
        undetermined=None if full else "all differences are equal",
    )
    comparison = ResultComparison(
        name="candidate-control",
        verdict="adopt" if full else "inconclusive",
        endpoints=(endpoint,),
    )
    return Result(
        experiment="golden",
        basis=basis,
        data=D2,
        method="paired_cr2/1",
        verdict="adopt" if full else "inconclusive",
        reason="the candidate passes more units" if full else "all 4 differences are equal",
        reason_code="better" if full else "degenerate",
        stopped_by="last_look",
        look=looks,
        as_registered=True if full else None,
        evidence="live" if full else "recorded",
        existed_before=() if full else ARMS,
        amended=("budget",) if full else (),
        missing={"candidate": {"error": 1, "timeout": 2}, "control": {}} if full else {},
        cost_nanousd={"candidate": 2_000_000_000, "control": 1_999_999_999} if full else {},
        comparisons=(comparison,),
        detail=BLOB,
    )


def decision(position: int, *, full: bool) -> Decision:
    """Returns an outcome with every member, or with the fewest."""
    unit, name = UNITS[(position - 1) // 2], ARMS[(position - 1) % 2]
    if not full:
        return Decision(
            experiment="golden",
            position=position,
            session=1,
            attempt=0,
            arm=name,
            unit=unit,
            replicate=1,
            status="ok",
            scores={"passed": float(position % 3 > 0)},
            origin="recorded",
        )
    return Decision(
        experiment="golden",
        position=position,
        session=1,
        attempt=2,
        arm=name,
        unit=unit,
        replicate=1,
        status="failed",
        code="no_answer",
        scores={"passed": 0.0, "score": None, "\uffff": 1e21, "\U0001f600": 1e-5, "ä": -0.0},
        flag=True,
        answer='"quoted" \\ and\ttabbed,\nU+2028 \u2028, é, 日本, \U0001f600',
        cost_nanousd=20_000_000,
        incurred_nanousd=0,
        tokens={"input_cached": 80, "input_uncached": 20, "output": 10},
        duration_ms=1_234,
        requested_model="vendor/model-1",
        served_model="vendor/model-1-20261201",
        origin="cached",
        source=ENTRY,
        artifacts={"answer": BLOB, "stdout": BLOB},
        sealed=D1,
    )


def freeze(plan: Blob, *, full: bool) -> Freeze:
    """Returns a freeze of eight slots and two looks."""
    return Freeze(
        experiment="golden",
        units=BLOB,
        plan=plan,
        files=BLOB,
        unit_count=len(UNITS),
        cluster_count=len(UNITS),
        slot_count=2 * len(UNITS),
        arms=tuple(arm(name, full=full) for name in ARMS),
        rules=rules(full=full),
        looks=(look_plan(4, 2, full=full), look_plan(8, 4, full=full)),
        power=BLOB if full else None,
    )


def register(*, full: bool) -> Register:
    """Returns a registration inside git that supersedes another one, or a plain one."""
    git = RegisterGit(commit="a" * 40, path="trials/protocol.yaml", clean=False)
    return Register(
        experiment="golden",
        protocol=BLOB,
        resolved=BLOB,
        media="toml" if full else "yaml",
        sections={"arms.control": D2, "identity": D1},
        files=BLOB,
        git=git if full else None,
        supersedes="golden-0" if full else None,
        override="reviewed by hand" if full else None,
    )


def start(*, full: bool) -> Start:
    """Returns a start of the first session."""
    return Start(
        experiment="golden",
        number=1,
        nonce="0f" * 16,
        tool="fairtrial 0.1.0",
        host="runner-1",
        environment=BLOB,
        settings={"concurrency": "8", "note": ""} if full else {},
        git=GitState(commit="b" * 40, clean=True) if full else None,
    )


def open_event(*, full: bool) -> Open:
    """Returns the first event of a ledger."""
    vkey = "ledger.example/golden+2a007918+AddamAGCsQq31Uv+08lkBzoO4XLz2qYjJa8CGmj3B1Ea"
    return Open(
        format="fairtrial/1",
        tool="fairtrial 0.1.0",
        schemas=schemas_digest(),
        origin="ledger.example/golden",
        vkey=vkey if full else None,
        predecessor=Predecessor(ledger="f" * 32, size=12, root=D3) if full else None,
    )


def amend(number: int, *, full: bool) -> Amend:
    """Returns an amendment that replaces rules and looks, or only words."""
    return Amend(
        experiment="golden",
        number=number,
        subject=ENTRY,
        protocol=BLOB,
        resolved=BLOB,
        sections={"about": D1, "budget": D2},
        fields=("budget.usd", "analysis.alpha") if full else (),
        rules=rules(full=True) if full else None,
        looks=(look_plan(8, 4, full=True),) if full else None,
        outcomes=4,
        looks_taken=1,
        class_="analysis" if full else "text",
        reason="the ceiling was too low",
    )


def all_kinds() -> list[Event]:
    """Returns events of every kind, each with all members there and with all null that may be."""
    lost = AttemptEnd(experiment="golden", position=1, number=1, session=1, status="lost")
    return [
        open_event(full=True),
        open_event(full=False),
        Adopt(number=1, tool="fairtrial 0.2.0", schemas=D2),
        register(full=True),
        register(full=False),
        freeze(BLOB, full=True),
        freeze(BLOB, full=False),
        start(full=True),
        start(full=False),
        Stop(experiment="golden", number=1, reason="arm_failing", note="five errors in a row"),
        Stop(experiment="golden", number=2, reason="complete"),
        Attempt(
            experiment="golden", position=1, number=1, session=1, arm="candidate",
            reserved_nanousd=120_000_000, sealed=D1,
        ),
        Attempt(
            experiment="golden", position=2, number=1, session=1, arm="control", reserved_nanousd=0
        ),
        AttemptEnd(
            experiment="golden", position=1, number=2, session=1, status="error", code="bad_output",
            cost_nanousd=5, incurred_nanousd=4, tokens={"output": 3}, duration_ms=2,
            artifacts={"stderr": BLOB}, sealed=D1,
        ),
        lost,
        decision(1, full=True),
        decision(2, full=False),
        look(1, final=False, full=True),
        look(2, final=True, full=False),
        result(looks=2, full=True),
        result(looks=2, full=False),
        amend(1, full=True),
        amend(2, full=False),
        structs.replace(amend(3, full=True), rules=rules(full=False)),
        Invalidate(experiment="golden", position=1, number=1, subject=ENTRY, reason="wrong image"),
        Settle(
            experiment="golden", position=1, number=1, subject=ENTRY, cost_nanousd=7,
            reason="the invoice says so",
        ),
        Withdraw(experiment="golden", reason="the vendor retired the model"),
        Reanalysis(experiment="golden", number=1, basis=BASIS, reason="asked for", detail=BLOB),
        Sign(
            number=1, subject=ENTRY, signer="reviewer-1", role="statistician", meaning="approved",
            time="2026-12-01T08:00:00.000000Z", vkey="reviewer-1+2a007918+AddamAGC",
            signature="c2lnbmF0dXJl",
        ),
        Import(number=1, source=BLOB, format="csv", tool="fairtrial 0.1.0", rows=8),
        Refuse(
            experiment="golden", number=1, act="run", field="arms.control", expected=D1, found=D2
        ),
        Anchor(number=1, basis=BASIS, level="timestamp", note=BLOB, token=BLOB),
        Anchor(number=2, basis=BASIS, level="checkpoint", note=BLOB),
        Recover(number=1, offset=1_234, length=56, sha256=D1),
        Key(number=1, vkey="a+1+b", previous="a+1+a", signature="bmV3", previous_signature="b2xk"),
        Key(number=2, vkey="a+1+b", previous=None, signature="bmV3", previous_signature=None),
        Unblind(
            experiment="golden", number=1, reason="the last look was taken",
            arms=(UnblindArm(name="arm-1", arm="candidate", salt=D1),),
        ),
        Redact(number=1, blob=BLOB, reason="asked for by a person in the data"),
        Close(basis=BASIS, reason="the programme ended", successor="e" * 32),
        Close(basis=BASIS, reason="the programme ended"),
    ]  # fmt: skip


def corpus() -> dict[str, object]:
    """Returns all kinds as entries of one chain (no ledger: the rules would refuse it)."""
    prev, rows, leaves = FIRST_PREV, [], []
    for seq, event in enumerate(all_kinds()):
        data = encode_event(event)
        line = build_entry(
            data, ledger=LEDGER, seq=seq, prev=prev, time=clock_time(seq), actor="golden",
            id=event_id(data),
        )  # fmt: skip
        prev = leaf_hash(line)
        leaves.append(prev)
        rows.append(
            {
                "kind": str(event.__struct_config__.tag),
                "event": data.decode(),
                "id": event_id(data),
                "entry": line.decode(),
                "leaf": prev.hex(),
            }
        )
    assert {row["kind"].partition("/")[0] for row in rows} == {event_kind(e) for e in all_kinds()}
    return {
        "about": "every kind of event: its bytes, id, entry and leaf; never edited",
        "context": EVENT_CONTEXT,
        "events": rows,
        "root": root_of(leaves).hex(),
    }


def clock_time(second: int) -> str:
    """Returns the time of an entry, one second after the one before."""
    return f"2026-12-01T08:{second // 60:02d}:{second % 60:02d}.000000Z"


def make_ledger(folder: Path) -> dict[str, object]:
    """Writes one small whole ledger in both stores and returns what is expected of it."""
    seconds = count()
    plan = Columns(
        [unit for unit in UNITS for _ in ARMS], list(ARMS) * len(UNITS), [1] * 2 * len(UNITS)
    )
    lines = b"".join(
        json.dumps(
            {"unit": unit, "cluster": unit, "arm": name, "replicate": 1},
            ensure_ascii=False,
            separators=(",", ":"),
        ).encode()
        + b"\n"
        for unit, name in zip(plan.units, plan.arms, strict=True)
    )
    store = open_store(folder / "ledger.jsonl", create=True)
    blobs = blob_store(folder / "ledger.jsonl")
    blobs.put(b"a golden blob\n")
    log = Log(store, plan_of=lambda blob: plan, clock=lambda: clock_time(next(seconds)))
    log.append(open_event(full=False), actor="golden", ledger=LEDGER)
    log.append(register(full=False), actor="golden")
    log.append(freeze(blobs.put(lines), full=False), actor="golden")
    log.append(start(full=False), actor="golden")
    for number in (1, 2):
        for position in range(4 * number - 3, 4 * number + 1):
            log.append(decision(position, full=False), actor="golden")
        if number == 2:
            stop = Stop(experiment="golden", number=1, reason="complete")
            log.append(stop, actor="golden")
        taken = look(number, basis=log.head(), last=4 * number, final=number == 2, full=False)
        log.append(taken, actor="golden")
    log.append(result(basis=log.head(), looks=2, full=False), actor="golden")
    copy = open_store(folder / "ledger.db", create=True)
    copy_entries(store, copy)
    entries = list(store.read())
    copy.close()
    store.close()
    for left in ("ledger.db-journal", "ledger.db.d/append.lock", "ledger.jsonl.d/append.lock"):
        (folder / left).unlink()
    (folder / "ledger.db.d").rmdir()
    return {
        "about": "the ids, leaves and root of ledger.jsonl and ledger.db; never edited",
        "ids": [parse_entry(data).id for data in entries],
        "leaves": [leaf_hash(data).hex() for data in entries],
        "root": root_of(map(leaf_hash, entries)).hex(),
        "verdict": "inconclusive",
    }


def main() -> None:
    """Carries out the command line."""
    folder = Path(sys.argv[1])
    if folder.exists():
        sys.exit(f"{folder} exists: golden files are made once and never edited")
    folder.mkdir(parents=True)
    for name, content in (("events", corpus()), ("expected", make_ledger(folder))):
        text = json.dumps(content, ensure_ascii=False, indent=1) + "\n"
        (folder / f"{name}.json").write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
