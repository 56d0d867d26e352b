"""Logs and event stores of others against ours: append and verification, in the same run.

    python -m benchmarks.peers [--quick] [--entries 20000] [--rounds 5]

None of them is a dependency: what isn't installed is said to be not measured. `pip install
eventsourcing auditchain checkpointed-local-log incident-ledger tamperlog` into an environment of
its own that has Fairtrial too. What a peer leaves out stands beside its name: a sync, or content.
"""

from __future__ import annotations

import asyncio
import sys
import tempfile
import time
from collections.abc import Callable
from datetime import UTC, datetime
from functools import cache
from hashlib import sha256
from importlib import import_module
from importlib.util import find_spec
from itertools import count
from pathlib import Path
from types import ModuleType
from typing import Any
from uuid import UUID, uuid4

import msgspec

from benchmarks.append import append_batches
from benchmarks.building import Plan, build, outcome
from benchmarks.measuring import is_quick, option, rounds, say, say_machine
from fairtrial.ledger.opening import open_store
from fairtrial.ledger.replay import replay

ENTRIES = option("entries", 1_000 if is_quick() else 20_000)
ROUNDS = option("rounds", 1 if is_quick() else 5)
SINGLE = min(ENTRIES, 50 if is_quick() else 500)
# What a peer syncs one by one to have something to verify.
COMMITTED = min(ENTRIES, 3_000)
BATCH = 100
NUMBERS = count()


@cache
def folder() -> tempfile.TemporaryDirectory[str]:
    """Returns where every work gets its files."""
    return tempfile.TemporaryDirectory()


def new(suffix: str) -> Path:
    """Returns a path that is free."""
    return Path(folder().name, f"{next(NUMBERS)}{suffix}")


def body(position: int) -> dict[str, Any]:
    """Returns an outcome as the plain values that a peer is given."""
    values: dict[str, Any] = msgspec.to_builtins(outcome(position))
    return values


def is_there(distribution: str, module: str) -> bool:
    """Returns whether a peer is installed, and says so where it isn't."""
    if find_spec(module):
        return True
    sys.stdout.write(f"not measured: {distribution} isn't installed\n")
    return False


def replay_ours(path: Path, entries: int) -> None:
    """Replays bytes, tree and rules."""
    store, plan = open_store(path, read_only=True), Plan(entries)
    report = replay(store, plan_of=lambda _: plan)
    store.close()
    assert not report.findings, report.findings[:3]


@cache
def built(suffix: str, entries: int) -> Path:
    """Returns a ledger of ours."""
    path = new(suffix)
    build(path, entries)
    return path


def compare(
    what: str, ours: Callable[[], object], peer: Callable[[], object], *, goal: str = "2"
) -> None:
    """Prints how many times quicker ours is."""
    say(what, *rounds(ours, peer, count=ROUNDS), goal=goal)


def compare_replay(
    what: str, suffix: str, peer: Callable[[], object], *, entries: int = ENTRIES, goal: str = "2"
) -> None:
    """Prints how many times less CPU our replay takes than a peer's reading."""
    path = built(suffix, entries)
    taken = rounds(lambda: replay_ours(path, entries), peer, count=ROUNDS, clock=time.process_time)
    say(what, *taken, goal=goal)


@cache
def application() -> tuple[Any, Any]:
    """Returns an application of eventsourcing and the aggregate that holds its events."""
    domain, app = import_module("eventsourcing.domain"), import_module("eventsourcing.application")

    class Run(domain.Aggregate):  # type: ignore[misc, name-defined]
        def __init__(self, experiment: str) -> None:
            self.experiment, self.statuses = experiment, dict[int, str]()

        @domain.event("Decided")
        def decide(self, values: dict[str, Any]) -> None:
            self.statuses[values["position"]] = values["status"]

    return app.Application, Run


def opened_app(path: Path) -> Any:
    """Returns an application that stores in a file."""
    return application()[0](
        env={"PERSISTENCE_MODULE": "eventsourcing.sqlite", "SQLITE_DBNAME": str(path)}
    )


def save_all(path: Path) -> UUID:
    """Saves outcomes as events of one aggregate, a batch at a time; returns its id."""
    app, run = opened_app(path), application()[1]("x")
    for start in range(1, ENTRIES + 1, BATCH):
        for position in range(start, min(start + BATCH, ENTRIES + 1)):
            run.decide(body(position))
        app.save(run)
    found: UUID = run.id
    app.close()
    return found


def record_all(path: Path) -> None:
    """Inserts ready bytes with the recorder of eventsourcing, a batch at a time."""
    app, stored = opened_app(path), import_module("eventsourcing.persistence").StoredEvent
    name, data = uuid4(), msgspec.json.encode(body(1))
    for start in range(1, ENTRIES + 1, BATCH):
        versions = range(start, min(start + BATCH, ENTRIES + 1))
        app.recorder.insert_events(
            [
                stored(originator_id=name, originator_version=version, topic="t", state=data)
                for version in versions
            ]
        )
    app.close()


def load(path: Path, name: UUID) -> None:
    """Reads the aggregate back, which checks nothing."""
    app = opened_app(path)
    assert len(app.repository.get(name).statuses) == ENTRIES
    app.close()


def compare_eventsourcing() -> None:
    """Prints the other half of A4, and R3."""
    if not is_there("eventsourcing", "eventsourcing"):
        return
    path = new(".sqlite")
    name = save_all(path)
    for suffix, store in ((".jsonl", "JSONL"), (".db", "SQLite")):
        ours, saved, recorded = rounds(
            lambda end=suffix: append_batches(new(end), events=ENTRIES, batch=BATCH),
            lambda: save_all(new(".sqlite")),
            lambda: record_all(new(".sqlite")),
            count=ROUNDS,
        )
        say(f"A4 {store}, {BATCH} a commit, against eventsourcing app.save", ours, saved, goal="3")
        say(f"A4 {store}, the same, against its recorder alone", ours, recorded, goal="0.9")
        what = f"R3 {store}, replay, against eventsourcing get"
        compare_replay(what, suffix, lambda: load(path, name), goal="8")


async def audit_all(backend: Any) -> None:
    """Appends with auditchain, a batch at a time; its files aren't synced."""
    async with import_module("auditchain").AuditLog(backend) as log:
        for start in range(1, ENTRIES + 1, BATCH):
            places = range(start, min(start + BATCH, ENTRIES + 1))
            await log.append_many([("bench", "decide", str(one), body(one)) for one in places])


async def audit_verified(backend: Any) -> None:
    """Verifies a log of auditchain."""
    async with import_module("auditchain").AuditLog(backend) as log:
        report = await log.verify()
        assert report.ok
        assert report.records_checked == ENTRIES


def compare_auditchain() -> None:
    """Prints batches and verification."""
    if not is_there("auditchain", "auditchain"):
        return
    peer = import_module("auditchain")
    for suffix, store, backend in (
        (".jsonl", "JSONL", peer.JsonlBackend),
        (".db", "SQLite", peer.SqliteBackend),
    ):
        kept = new(suffix)
        asyncio.run(audit_all(backend(kept)))
        sync = ", not synced" if store == "JSONL" else ""
        compare(
            f"{store}, {BATCH} a commit, against auditchain{sync}",
            lambda end=suffix: append_batches(new(end), events=ENTRIES, batch=BATCH),
            lambda end=suffix, on=backend: asyncio.run(audit_all(on(new(end)))),
        )
        compare_replay(
            f"{store}, verification, against auditchain",
            suffix,
            lambda at=kept, on=backend: asyncio.run(audit_verified(on(at))),
        )


def local_log(module: ModuleType, path: Path, *names: str) -> None:
    """Appends digests one by one with checkpointed-local-log."""
    module.init(path, *names)
    store, given = module.open(path, *names), import_module("cll.log").AppendInput
    for position in range(1, SINGLE + 1):
        digest = sha256(msgspec.json.encode(body(position))).digest()
        store.append(given(digest, datetime.now(UTC)))
    store.close()


def compare_local_log() -> None:
    """Prints single appends in both of its stores."""
    if not is_there("checkpointed-local-log", "cll"):
        return
    for suffix, store, name, names in (
        (".jsonl", "JSONL", "cll.log.jsonl", ()),
        (".db", "SQLite", "cll.log.sqlite", ("bench",)),
    ):
        compare(
            f"{store}, a commit an event, against cll, digests alone",
            lambda end=suffix: append_batches(new(end), events=SINGLE, batch=1),
            lambda end=suffix, of=name, more=names: local_log(import_module(of), new(end), *more),
        )


def incidents(path: Path, entries: int) -> None:
    """Appends one by one with incident-ledger."""
    ledger = import_module("incident_ledger").IncidentLedger(str(path))
    for position in range(1, entries + 1):
        ledger.append(
            query="q", answer="a", confidence=1.0, model_version="m", trace=body(position)
        )
    ledger.close()


def incidents_verified(path: Path) -> None:
    """Verifies a log of incident-ledger."""
    ledger = import_module("incident_ledger").IncidentLedger(str(path))
    assert ledger.verify().ok
    ledger.close()


def compare_incidents() -> None:
    """Prints single appends, and verification of as many entries as it wrote so."""
    if not is_there("incident-ledger", "incident_ledger"):
        return
    compare(
        "SQLite, a commit an event, against incident-ledger",
        lambda: append_batches(new(".db"), events=SINGLE, batch=1),
        lambda: incidents(new(".sqlite"), SINGLE),
    )
    kept = new(".sqlite")
    incidents(kept, COMMITTED)
    what = "SQLite, verification, against incident-ledger"
    compare_replay(what, ".db", lambda: incidents_verified(kept), entries=COMMITTED)


def tampered(path: Path, entries: int) -> None:
    """Appends one by one with tamperlog, which doesn't sync."""
    peer = import_module("tamperlog")
    log = peer.AppendOnlyLog(peer.JSONLStorage(path))
    for position in range(1, entries + 1):
        log.append_json(body(position))


def tampered_verified(path: Path) -> None:
    """Opens a log of tamperlog, checks every payload and computes the root."""
    peer = import_module("tamperlog")
    log = peer.AppendOnlyLog(peer.JSONLStorage(path))
    log.verify_all_entries()
    assert len(log) == ENTRIES
    assert log.root()


def compare_tampered() -> None:
    """Prints single appends and verification."""
    if not is_there("tamperlog", "tamperlog"):
        return
    compare(
        "JSONL, a commit an event, against tamperlog, not synced",
        lambda: append_batches(new(".jsonl"), events=SINGLE, batch=1),
        lambda: tampered(new(".log"), SINGLE),
        goal="-",
    )
    kept = new(".log")
    tampered(kept, ENTRIES)
    what = "JSONL, verification, against tamperlog, no chain, no rules"
    compare_replay(what, ".jsonl", lambda: tampered_verified(kept))


def main() -> None:
    """Prints the ratios."""
    say_machine()
    sys.stdout.write(f"{ENTRIES:,} entries, {SINGLE:,} one by one, {ROUNDS} rounds\n")
    with folder():
        compare_eventsourcing()
        compare_auditchain()
        compare_local_log()
        compare_incidents()
        compare_tampered()


if __name__ == "__main__":
    main()
