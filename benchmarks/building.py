"""Ledgers of one recorded arm for the benchmarks: begun through the log, filled through the store.

Filling through the store leaves out the fold, so that a million outcomes take seconds; what is
measured afterwards checks every one of them.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import overload

from fairtrial.ledger.canonical import blob_of, encode_event, event_id
from fairtrial.ledger.clock import utc_now
from fairtrial.ledger.entry import build_entry
from fairtrial.ledger.event_schemas import schemas_digest
from fairtrial.ledger.events import (
    Decision,
    Event,
    Freeze,
    FrozenArm,
    LookPlan,
    LookTest,
    Open,
    Register,
    Rules,
    Start,
)
from fairtrial.ledger.log import Log
from fairtrial.ledger.merkle import leaf_hash
from fairtrial.ledger.opening import open_store
from fairtrial.ledger.port import Tail
from fairtrial.ledger.state import PlanColumns

LEDGER = "0" * 32
BATCH = 5_000


class Plan:
    """A plan of many slots of one arm, as columns in memory, as the engine keeps them."""

    def __init__(self, size: int) -> None:
        self.units: Sequence[str] = [f"unit-{i:07d}" for i in range(size)]
        self.arms: Sequence[str] = ["A"] * size
        self.replicates: Sequence[int] = [1] * size


class _Units(Sequence[str]):
    """Unit ids that are made when they are asked for."""

    def __init__(self, size: int) -> None:
        self._size = size

    def __len__(self) -> int:
        return self._size

    @overload
    def __getitem__(self, index: int) -> str: ...
    @overload
    def __getitem__(self, index: slice) -> Sequence[str]: ...
    def __getitem__(self, index: int | slice) -> str | Sequence[str]:
        if isinstance(index, slice):
            return [self[place] for place in range(*index.indices(self._size))]
        return f"unit-{index:07d}"


class ThinPlan:
    """The same plan in 2 bytes a slot, so that a peak of memory is that of what is measured."""

    def __init__(self, size: int) -> None:
        self.units: Sequence[str] = _Units(size)
        self.arms: Sequence[str] = "A" * size
        self.replicates: Sequence[int] = b"\x01" * size


def begin(path: Path, plan: PlanColumns) -> Log:
    """Returns a log with a live session and the recorded slots of a plan to settle."""
    blob, slots = blob_of(b"benchmark"), len(plan.arms)
    log = Log(open_store(path, create=True), plan_of=lambda _: plan)
    first = Open(format="fairtrial/1", tool="bench", schemas=schemas_digest(), origin="bench")
    log.append(first, actor="bench", ledger=LEDGER)
    rules = Rules(
        arms={}, attempts_max=1, retry_on=("error",), on_crossing="stop",
        on_under_run="inconclusive", anchor="none", signatures=(), primaries=("p",),
    )  # fmt: skip
    arm = FrozenArm(
        name="A", origin="recorded", identity=blob, metered=False, reserve_nanousd=0,
        repeatable=True,
    )  # fmt: skip
    test = LookTest(
        comparison="A", endpoint="p", fraction=1.0, df=None, nominal_p=0.05, z=None, eligible=True
    )
    events: list[Event] = [
        Register(
            experiment="x", protocol=blob, resolved=blob, media="yaml", sections={}, files=blob
        ),
        Freeze(
            experiment="x", units=blob, plan=blob, files=blob, unit_count=slots, cluster_count=1,
            slot_count=slots, arms=(arm,), rules=rules,
            looks=(LookPlan(last=slots, clusters=1, units=slots, tests=(test,)),),
        ),
        Start(
            experiment="x", number=1, nonce="n", tool="bench", host="h", environment=blob,
            settings={},
        ),
    ]  # fmt: skip
    for event in events:
        log.append(event, actor="bench")
    return log


def outcome(position: int) -> Decision:
    """Returns the outcome of a slot, about 400 bytes."""
    return Decision(
        experiment="x", position=position, session=1, attempt=0, arm="A",
        unit=f"unit-{position - 1:07d}", replicate=1, status="ok", scores={"passed": 1.0},
        origin="recorded",
    )  # fmt: skip


def build(path: Path, entries: int, *, slots: int | None = None) -> None:
    """Writes a ledger with outcomes in its first `entries` slots, quickly.

    Args:
        path: A new file; its suffix picks the store.
        entries: How many outcomes.
        slots: Slots of the plan; default: as many as outcomes.
    """
    begin(path, ThinPlan(slots or entries)).close()
    fill(path, range(1, entries + 1))


def fill(path: Path, positions: range) -> None:
    """Writes outcomes into further slots of a ledger, past its fold."""
    store = open_store(path)
    with store.writer() as writer:
        for start in range(positions.start, positions.stop, BATCH):
            part = range(start, min(start + BATCH, positions.stop))
            writer.write(*_batch(part, writer.tail))
    store.close()


def _batch(positions: range, tail: Tail) -> tuple[list[bytes], list[bytes]]:
    """Returns entries with outcomes of these slots, and their leaves."""
    entries: list[bytes] = []
    leaves: list[bytes] = []
    prev = tail.leaf
    for seq, position in enumerate(positions, tail.size):
        data = encode_event(outcome(position))
        entries.append(
            build_entry(
                data, ledger=LEDGER, seq=seq, prev=prev, time=utc_now(), actor="bench",
                id=event_id(data),
            )
        )  # fmt: skip
        prev = leaf_hash(entries[-1])
        leaves.append(prev)
    return entries, leaves
