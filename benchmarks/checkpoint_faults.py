"""Failing system calls of one `ledger checkpoint --embed`: what was signed, and what is on record.

    python -m benchmarks.checkpoint_faults [--every N] [--store db|jsonl] [--seed N]

Needs strace and the right to use it. The calls of the act are recorded once; then each in turn
fails with EIO, or is the last (SIGKILL). After every point it must hold, without any repair:

- the signer's record is whole, never smaller than before, and names a head of this ledger;
- every note beside the ledger is whole, signed, no larger than the record, and a head of this
  ledger, so that no two heads that were signed contradict each other;
- every blob that an entry names is there, whole;
- the next checkpoint works, and the pinned key then vouches for the ledger to its end.

Figures are one line of JSON; a broken promise is exit code 1.
"""

from __future__ import annotations

import json
import os
import shutil
import sys
import time
from collections import Counter
from functools import partial
from pathlib import Path

from benchmarks.torture import (
    NOT_FILES,
    STORES,
    BrokenError,
    calls_in,
    on_each,
    parser_of,
    traced,
)
from fairtrial.custody.anchor_acts import checkpoint_ledger
from fairtrial.custody.heads import HeadRecord, read_record
from fairtrial.custody.keys import create_key
from fairtrial.custody.vouching import Pins, read_pins
from fairtrial.engine.inspecting import replay_ledger
from fairtrial.engine.session import register_protocol, run
from fairtrial.ledger.checkpoint import open_checkpoint
from fairtrial.ledger.merkle import CompactRange
from fairtrial.ledger.note import parse_vkey
from fairtrial.ledger.opening import open_store

ACTOR = "torture"
PROTOCOL = """protocol: 1
id: trial
about: {hypothesis: B is better than A.}
units: {file: units.csv, id: unit, cluster: none}
design: {pairing: paired, seed: 7}
arms:
  A: {driver: {kind: recorded, file: outcomes.csv, where: {arm: a}, columns: {passed: passed}}}
  B: {driver: {kind: recorded, file: outcomes.csv, where: {arm: b}, columns: {passed: passed}}}
control: A
endpoints: [{name: passed, role: primary, type: binary, value: passed, better: higher}]
missing: {rules: {failed: failure, timeout: failure, limit: failure, error: exclude_pair,
  ungraded: exclude_pair, replay_miss: exclude_pair, invalidated: exclude_pair}, limit: 0.1}
analysis: {estimand: unit_weighted}
decision: {rule: superiority}
power: {effect: none, accept: {not_assessed: t, underpowered: t, impossible: t,
  no_verdict_possible: t}}
budget: {usd: 0}
require: {commit: false}
""".replace("{passed: passed}", "{unit: unit, passed: passed}")


def main() -> int:
    """Carries out the command line; returns the exit code."""
    given = parser_of(__doc__).parse_args()
    work = partial(fault_points, every=given.every, seed=given.seed)
    return on_each(given.store or STORES, work)


def fault_points(store: str, folder: Path, every: int, seed: int) -> dict[str, object]:
    """Lets every call of one checkpoint fail; returns the figures.

    Raises:
        BrokenError: A promise didn't hold.
    """
    began, counts, endings = time.monotonic(), Counter[str](), Counter[str]()
    honest, ledger, trace = folder / "honest", folder / "now" / f"ledger.{store}", folder / "trace"
    os.environ["FAIRTRIAL_KEYS"] = str(folder / "keys")
    os.environ["FAIRTRIAL_STATE"] = str(folder / "now" / "state")
    vkey, before = start(ledger)
    shutil.copytree(ledger.parent, honest)
    # Once in this process, so that the child imports nothing while it is traced.
    checkpoint_ledger(ledger, actor=ACTOR, key="lab", embed=True)
    work = partial(checkpoint_when_told, ledger)
    put_back(honest, ledger.parent)
    said, lines = traced(work, (), trace)
    if said != b"ack":
        raise BrokenError(f"the checkpoint without a fault says {said!r}")
    for call in list(dict.fromkeys(calls_in(lines)))[seed % every :: every]:
        for fault in ("error=EIO", "signal=KILL"):
            if fault == "error=EIO" and NOT_FILES.fullmatch(call.name):
                continue
            put_back(honest, ledger.parent)
            inject = f"inject={call.name}:{fault}:when={call.number}"
            said, _ = traced(work, ("-e", f"trace={call.name}", "-e", inject), trace)
            check_fault(ledger, vkey, before, said, f"{call} {fault}")
            counts[fault.partition("=")[2]] += 1
            endings[said.decode() or "killed"] += 1
    return {
        "what": "checkpoint faults",
        "store": store,
        "every": every,
        "seed": seed,
        **counts,
        "endings": dict(endings),
        "seconds": round(time.monotonic() - began, 1),
    }


def start(ledger: Path) -> tuple[str, HeadRecord]:
    """Makes a ledger whose freeze was signed, with entries after it; returns key and record."""
    folder = ledger.parent
    folder.mkdir()
    names = [f"u{number}" for number in range(6)]
    (folder / "units.csv").write_text("\n".join(["unit", *names]) + "\n")
    rows = [f"{name},{arm},{int(arm == 'b')}" for name in names for arm in "ab"]
    (folder / "outcomes.csv").write_text("\n".join(["unit,arm,passed", *rows]) + "\n")
    (folder / "protocol.yaml").write_text(PROTOCOL)
    create_key("lab", "ledger", environment=os.environ)
    register_protocol(ledger, folder / "protocol.yaml", actor=ACTOR, key="lab")
    run(ledger, None, actor=ACTOR)
    first = next(iter(entries_of(ledger)))
    name = json.loads(first)["ledger"]
    record = read_record(Path(os.environ["FAIRTRIAL_STATE"]), name)
    if record is None:
        raise BrokenError("nothing was signed at the start")
    return json.loads(first)["event"]["vkey"], record


def put_back(honest: Path, now: Path) -> None:
    """Puts a copy of the start in the place of what is there."""
    shutil.rmtree(now)
    shutil.copytree(honest, now)


def checkpoint_when_told(ledger: Path, go: int, said: int) -> None:
    """Waits for one byte, signs and embeds, says `ack` or the class of the error."""
    os.read(go, 1)
    try:
        checkpoint_ledger(ledger, actor=ACTOR, key="lab", embed=True)
        os.write(said, b"ack")
    except Exception as error:  # the class is what is reported
        os.write(said, type(error).__name__.encode())


def entries_of(ledger: Path) -> list[bytes]:
    """Returns the entries of a ledger."""
    store = open_store(ledger, read_only=True)
    try:
        return list(store.read())
    finally:
        store.close()


def roots_of(ledger: Path) -> list[bytes]:
    """Returns the root at every size."""
    store, tree = open_store(ledger, read_only=True), CompactRange()
    roots = [tree.root()]
    try:
        for leaf in store.leaves():
            tree.append(leaf)
            roots.append(tree.root())
    finally:
        store.close()
    return roots


def check_fault(ledger: Path, vkey: str, before: HeadRecord, said: bytes, what: str) -> None:
    """Checks what a fault left, then signs again and checks what that adds."""
    state = Path(os.environ["FAIRTRIAL_STATE"])
    signed = check_signed(ledger, state, vkey, before, what)
    report = replay_ledger(ledger, pins=pins_of(vkey), with_numbers=False)
    if report.record not in ("intact", "torn"):
        raise BrokenError(f"{what}: {said!r}, {report.record}: {report.findings[:2]}")
    if said == b"ack" and report.anchored != "yes":
        raise BrokenError(f"{what}: acknowledged, and anchored {report.anchored}")
    checkpoint_ledger(ledger, actor=ACTOR, key="lab", embed=True)
    again = check_signed(ledger, state, vkey, before, f"{what}, done again")
    report = replay_ledger(ledger, pins=pins_of(vkey))
    if (report.record, report.anchored) != ("intact", "yes"):
        raise BrokenError(f"{what}, done again: {report.record}, {report.anchored}")
    if not signed <= again:
        raise BrokenError(f"{what}: a note is gone: {sorted(signed - again)}")


def pins_of(vkey: str) -> Pins:
    """Returns the ledger's key, pinned."""
    return read_pins(vkeys=[vkey])


def check_signed(
    ledger: Path, state: Path, vkey: str, before: HeadRecord, what: str
) -> set[tuple[int, bytes]]:
    """Checks the record and every note; returns the heads of the notes.

    Raises:
        BrokenError: One is half-written, or contradicts the ledger or another.
    """
    record, roots = read_record(state, before.ledger), roots_of(ledger)
    if record is None or record.size < before.size:
        raise BrokenError(f"{what}: the record of what was signed is now {record}")
    if roots[record.size : record.size + 1] != [bytes.fromhex(record.root)]:
        raise BrokenError(f"{what}: the record names a head that isn't the ledger's: {record}")
    heads: set[tuple[int, bytes]] = set()
    for path in sorted((ledger.parent / f"{ledger.name}.d" / "checkpoints").iterdir()):
        if path.name.startswith("."):
            # A name of its own says that a killed writer left it unfinished.
            continue
        head = open_checkpoint(path.read_bytes(), log=parse_vkey(vkey)).checkpoint
        if head.size > record.size or roots[head.size] != head.root:
            raise BrokenError(f"{what}: {path.name} isn't a head of this ledger and its record")
        heads.add((head.size, head.root))
    return heads


if __name__ == "__main__":
    sys.exit(main())
