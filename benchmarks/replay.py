"""Replay and resume of a long log, against readings of it with json.loads; peak memory.

python -m benchmarks.replay [--quick] [--entries 1000000] [--rounds 3]
"""

from __future__ import annotations

import json
import sys
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator
from hashlib import sha256
from pathlib import Path

from blake3 import blake3

from benchmarks.building import LEDGER, Plan, ThinPlan, build, fill
from benchmarks.measuring import is_quick, option, peak_bytes, rounds, say, say_machine, say_peak
from fairtrial.ledger.canonical import EVENT_CONTEXT
from fairtrial.ledger.findings import Claim, ReplayReport
from fairtrial.ledger.frontier import load_frontier, save_frontier
from fairtrial.ledger.log import Log
from fairtrial.ledger.merkle import CompactRange
from fairtrial.ledger.opening import open_store
from fairtrial.ledger.port import StoreFinding
from fairtrial.ledger.replay import replay
from fairtrial.ledger.replay_since import replay_since
from fairtrial.ledger.sqlite import SqliteStore
from fairtrial.ledger.state import PlanColumns

KEY = bytes(32)
GROWTH = 1_000
ENTRIES = option("entries", 20_000 if is_quick() else 100_000)
ROUNDS = option("rounds", 3)
BYTES_A_SLOT = 40
ME = "benchmarks.replay"


def read_plainly(path: Path) -> int:
    """Reads every entry with the standard library, checks nothing."""
    return sum(1 for data in open_store(path, read_only=True).read() if json.loads(data)["event"])


def replay_plainly(path: Path) -> dict[int, str]:
    """Checks chain and ids and folds into a dict, as a program with json.loads would do it."""
    prev, statuses = "0" * 64, {}
    for seq, data in enumerate(open_store(path, read_only=True).read()):
        entry = json.loads(data)
        event = json.dumps(entry["event"], separators=(",", ":"), ensure_ascii=False).encode()
        name = "b3:" + blake3(event, derive_key_context=EVENT_CONTEXT).hexdigest()
        assert (entry["seq"], entry["prev"], entry["id"]) == (seq, prev, name)
        prev = sha256(b"\x00" + data).hexdigest()
        statuses[entry["event"]["position"]] = entry["event"]["kind"]
    return statuses


class Unchecked(SqliteStore):
    """A database that isn't asked to check itself, to tell what the walk over its rows takes."""

    def check(self, start: int = 0) -> Iterator[StoreFinding]:
        """Yields nothing."""
        del start
        return iter(())


def replay_all(path: Path, plan: PlanColumns | None, *, unchecked: bool = False) -> ReplayReport:
    """Replays bytes and rules, or the bytes alone where the plan isn't at hand.

    Args:
        path: The ledger.
        plan: Its plan, if any.
        unchecked: Leave SQLite's check of itself out.
    """
    store = Unchecked(path, read_only=True) if unchecked else open_store(path, read_only=True)
    report = replay(store, plan_of=lambda _: plan)
    store.close()
    # Without the plan its blob is missing, which is all that may be found.
    wrong = [one for one in report.findings if plan is not None or one.level != "files"]
    assert not wrong, wrong[:3]
    assert ("rules" in report.skipped) == (plan is None)
    return report


def resume(path: Path, cache: Path, plan: PlanColumns, *, rehash: bool) -> None:
    """Opens the log from its projection."""
    store = open_store(path, read_only=True)
    log = Log(store, plan_of=lambda _: plan, cache=cache, cache_key=KEY, rehash=rehash)
    assert log.folded_from == log.state.size
    log.close()


def compare(path: Path, name: str) -> None:
    """Prints the ratios of one store."""
    plan, cache = Plan(ENTRIES + GROWTH), path.with_name(f"{path.name}.projection")
    log = Log(open_store(path), plan_of=lambda _: plan, cache=cache, cache_key=KEY)
    log.save()
    log.close()
    leaves = leaves_of(path)
    works: list[Callable[[], object]] = [
        lambda: replay_all(path, plan),
        lambda: replay_all(path, None),
        lambda: replay_plainly(path),
        lambda: read_plainly(path),
        lambda: resume(path, cache, plan, rehash=True),
        lambda: resume(path, cache, plan, rehash=False),
        lambda: grow(leaves),
    ]
    if path.suffix == ".db":
        works.append(lambda: replay_all(path, plan, unchecked=True))
    seconds = rounds(*works, count=ROUNDS, clock=time.process_time)
    whole, bare, naive, plain, checked, warm, tree, *walk = seconds
    for what, taken in (("integrity", bare), ("integrity and rules", whole), ("the tree", tree)):
        million = taken / ENTRIES * 1e6
        sys.stdout.write(f"{name}, {what}: {million:.1f} s CPU a million entries here\n")
    goal = "3" if path.suffix == ".jsonl" else "2.4"
    say(f"{name}, integrity, against a replay with json.loads", bare, naive, goal="-")
    say(f"{name}, integrity and rules, against a replay with json.loads", whole, naive, goal=goal)
    say_left_out(name, whole, tree, *walk, peer=naive, goal=goal)
    say(f"{name}, integrity and rules, against json.loads alone", whole, plain, goal="-")
    clock = rounds(lambda: replay_all(path, plan), lambda: replay_plainly(path), count=ROUNDS)
    say(f"{name}, integrity and rules, against json.loads, by the clock", *clock, goal=goal)
    say(f"{name}, resume with the prefix hashed, against replay", checked, whole, goal="6")
    say(f"{name}, resume from the projection alone, against replay", warm, whole, goal="20")
    compare_growth(path, name, whole)


def say_left_out(
    name: str, whole: float, tree: float, walk: float | None = None, *, peer: float, goal: str
) -> None:
    """Prints what a replay would be without what the peer of the goal R1 doesn't do either.

    Args:
        name: The store, in words.
        whole: Seconds of a replay of bytes and rules.
        tree: Seconds of its tree alone, for which the goal leaves room.
        walk: Seconds of a replay without the store's check of itself, of which R1 says nothing.
        peer: Seconds of the replay with json.loads.
        goal: The goal.
    """
    say(f"R1 {name}, without the tree", whole - tree, peer, goal=goal)
    if walk is not None:
        say(f"R1 {name}, without SQLite's check of itself", walk, peer, goal=goal)
        say(f"R1 {name}, without either", walk - tree, peer, goal=goal)


def leaves_of(path: Path) -> list[list[bytes]]:
    """Returns the leaves of all entries, in the blocks that a walk goes by."""
    store = open_store(path, read_only=True)
    leaves = [block.leaves for block in store.blocks()]
    store.close()
    return leaves


def grow(leaves: Iterable[Iterable[bytes]]) -> CompactRange:
    """Returns the tree over blocks of leaves, grown as a walk grows it."""
    tree = CompactRange()
    for block in leaves:
        tree.extend(block)
    return tree


def compare_growth(path: Path, name: str, whole: float) -> None:
    """Prints what `replay --since` costs for new entries after a head whose frontier is kept.

    Args:
        path: The ledger; entries are added to it.
        name: The store, in words.
        whole: Seconds of a whole replay.
    """
    log = Log(open_store(path), plan_of=lambda _: ThinPlan(ENTRIES + GROWTH))
    head = log.head()
    log.close()
    root, folder = bytes.fromhex(head.root), path.with_name("frontiers")
    save_frontier(folder, grow(leaves_of(path)))
    fill(path, range(ENTRIES + 1, ENTRIES + GROWTH + 1))
    claim = Claim(LEDGER, head.size, root, "the head")
    (seconds,) = rounds(lambda: grown(path, claim, folder), count=5, clock=time.process_time)
    what = f"{name}, --since, {GROWTH:,} new entries"
    sys.stdout.write(f"{what}: {seconds:.3f} s CPU (goal 0.3)\n")
    say(f"{what}, against a whole replay", seconds, whole, goal="-")


def grown(path: Path, head: Claim, folder: Path) -> None:
    """Verifies what was added after a head."""
    frontier = load_frontier(folder, head.size, head.root)
    assert frontier is not None
    store = open_store(path, read_only=True)
    report = replay_since(store, head, frontier=frontier)
    store.close()
    assert (report.record, report.size) == ("intact", head.size + GROWTH), report.findings[:3]


def compare_memory(large: Path, small: Path, name: str) -> None:
    """Prints the peaks of both levels at two sizes."""
    bare = [peak_bytes(ME, "--peak", str(path), "0") for path in (large, small)]
    sizes = (ENTRIES, ENTRIES // 10)
    folded = [
        peak_bytes(ME, "--peak", str(path), str(size + GROWTH))
        for path, size in zip((large, small), sizes, strict=True)
    ]
    say_ratio(f"{name}, integrity, peak of {sizes[0]:,} over {sizes[1]:,} entries", bare, "1.5")
    say_ratio(f"{name}, rules too, the same", folded, "-")
    slot = (folded[0] - folded[1]) / (sizes[0] - sizes[1])
    what = f"{name}, rules too, bytes for each further slot"
    sys.stdout.write(f"{what:<62} {slot:8.1f}     (goal {BYTES_A_SLOT} at most)\n")


def say_ratio(what: str, peaks: list[int], goal: str) -> None:
    """Prints a ratio of two peaks, and the first of them."""
    ratio, megabytes = peaks[0] / peaks[1], peaks[0] / 2**20
    sys.stdout.write(f"{what:<62} {ratio:8.2f} x   (goal {goal} at most; {megabytes:.0f} MB)\n")


def main() -> None:
    """Prints the ratios."""
    if "--peak" in sys.argv:
        path, size = sys.argv[-2:]
        replay_all(Path(path), ThinPlan(int(size)) if int(size) else None)
        say_peak()
        return
    say_machine()
    sys.stdout.write(f"{ENTRIES:,} entries, {ROUNDS} rounds, medians of CPU time\n")
    with tempfile.TemporaryDirectory() as folder:
        for suffix, name in ((".jsonl", "JSONL"), (".db", "SQLite")):
            large, small = Path(folder) / f"large{suffix}", Path(folder) / f"small{suffix}"
            build(large, ENTRIES, slots=ENTRIES + GROWTH)
            build(small, ENTRIES // 10, slots=ENTRIES // 10 + GROWTH)
            compare_memory(large, small, name)
            compare(large, name)
            large.unlink()


if __name__ == "__main__":
    main()
