"""Replay and resume of a long log, against a plain reading of it with json.loads."""

from __future__ import annotations

import json
import resource
import sys
import tempfile
from pathlib import Path

from benchmarks.append import Plan, append_all
from benchmarks.measuring import is_quick, rounds, say
from fairtrial.ledger.log import Log
from fairtrial.ledger.opening import open_store
from fairtrial.ledger.replay import replay

KEY = bytes(32)
EVENTS = 20_000 if is_quick() else 200_000


def plain(path: Path) -> int:
    """Reads every entry with the standard library, checks nothing."""
    return sum(1 for data in open_store(path, read_only=True).read() if json.loads(data)["event"])


def main() -> None:
    """Prints the ratios."""
    plan = Plan(EVENTS)
    with tempfile.TemporaryDirectory() as folder:
        for suffix, name in ((".jsonl", "JSONL"), (".db", "SQLite")):
            path = Path(folder) / f"ledger{suffix}"
            append_all(path, events=EVENTS, batch=1000)
            cache = Path(folder) / f"projection{suffix}"
            log = Log(open_store(path), plan_of=lambda _: plan, cache=cache, cache_key=KEY)
            log.save()
            log.close()

            def verify(path: Path = path) -> None:
                report = replay(open_store(path, read_only=True), plan_of=lambda _: plan)
                assert report.record == "intact", report.findings[:3]

            def resume(path: Path = path, cache: Path = cache, rehash: bool = True) -> None:
                store = open_store(path, read_only=True)
                Log(
                    store, plan_of=lambda _: plan, cache=cache, cache_key=KEY, rehash=rehash
                ).close()

            whole, naive, warm, checked = rounds(
                verify,
                lambda p=path: plain(p),
                lambda r=resume: r(rehash=False),
                lambda r=resume: r(rehash=True),
                count=3 if is_quick() else 5,
            )
            per_million = whole / EVENTS * 1e6
            sys.stdout.write(f"{name}: {EVENTS:,} entries, {per_million:.1f} s a million here\n")
            say(f"{name}, replay with rules, against json.loads alone", whole, naive, goal="-")
            say(f"{name}, resume with the prefix hashed, against replay", checked, whole, goal="6")
            say(f"{name}, status from the projection, against replay", warm, whole, goal="20")
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    sys.stdout.write(f"peak memory {peak:.0f} MB\n")


if __name__ == "__main__":
    main()
