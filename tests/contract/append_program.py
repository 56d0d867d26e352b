"""Appends to a ledger in a process of its own and says on stdout what was acknowledged.

    append_program.py LEDGER WRITER COUNT BATCH SIZE... [--limit BYTES]

WRITER and a running number make the positions of this process; an acknowledged batch is a line
`SEQ COUNT`. With --limit no file grows beyond that many bytes.
"""

from __future__ import annotations

import resource
import sys
from pathlib import Path

from fairtrial.ledger.canonical import encode_event, event_id
from fairtrial.ledger.entry import build_entry
from fairtrial.ledger.events import Decision
from fairtrial.ledger.merkle import leaf_hash
from fairtrial.ledger.opening import open_store
from fairtrial.ledger.port import StoreWriter

POSITIONS_PER_WRITER = 1_000_000


def batch(
    writer: StoreWriter, positions: range, sizes: list[int]
) -> tuple[list[bytes], list[bytes]]:
    """Returns entries for positions on a writer's tail, and their leaves."""
    entries: list[bytes] = []
    leaves: list[bytes] = []
    prev = writer.tail.leaf
    for seq, position in enumerate(positions, writer.tail.size):
        size = sizes[position % len(sizes)]
        event = Decision(
            experiment="exp-1",
            position=position,
            session=1,
            attempt=1,
            arm="control",
            unit="u",
            replicate=1,
            status="ok",
            tokens={f"{n:06d}".ljust(150, "x"): 1 for n in range(size // 160)},
            origin="live",
        )
        data = encode_event(event)
        line = build_entry(
            data,
            ledger="0123456789abcdef0123456789abcdef",
            seq=seq,
            prev=prev,
            time="2026-12-01T08:00:00.000000Z",
            actor="tester",
            id=event_id(data),
        )
        prev = leaf_hash(line)
        entries.append(line)
        leaves.append(prev)
    return entries, leaves


def main() -> None:
    """Carries out the command line."""
    words = sys.argv[1:]
    if "--limit" in words:
        limit = int(words.pop(words.index("--limit") + 1))
        words.remove("--limit")
        resource.setrlimit(resource.RLIMIT_FSIZE, (limit, limit))
    path, (number, count, size_of_batch), sizes = words[0], map(int, words[1:4]), words[4:]
    store = open_store(Path(path))
    first = number * POSITIONS_PER_WRITER + 1
    for start in range(first, first + count, size_of_batch):
        positions = range(start, min(start + size_of_batch, first + count))
        with store.writer() as writer:
            entries, leaves = batch(writer, positions, [int(size) for size in sizes])
            seq = writer.tail.size
            writer.write(entries, leaves)
        sys.stdout.write(f"{seq} {len(entries)}\n")
        sys.stdout.flush()


if __name__ == "__main__":
    main()
