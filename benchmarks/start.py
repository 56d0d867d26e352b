"""Start-up of the command, and `ledger status` of a long ledger from its projection.

    python -m benchmarks.start [--quick] [--entries 1000000] [--rounds 15]

Both against bare Python, in CPU time of the programs that are started: U1 and U2.
"""

from __future__ import annotations

import os
import resource
import subprocess
import sys
import tempfile
from pathlib import Path

from benchmarks.building import Plan, build
from benchmarks.measuring import is_quick, option, rounds, say_machine
from fairtrial.custody.cache_key import cache_key
from fairtrial.ledger.locks import side_folder
from fairtrial.ledger.log import Log
from fairtrial.ledger.opening import open_store

BARE_CLICK = "import click\n@click.command()\ndef main(): pass\nmain(['--help'])"
ENTRIES = option("entries", 20_000 if is_quick() else 1_000_000)
ROUNDS = option("rounds", 5 if is_quick() else 15)


def run(*arguments: str) -> None:
    """Runs a Python program and drops what it prints."""
    subprocess.run(
        [sys.executable, *arguments],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        check=True,
    )


def started_seconds() -> float:
    """Returns the CPU time of all programs that were started so far."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def save_projection(path: Path) -> None:
    """Builds a ledger and the projection that any act on it leaves behind."""
    build(path, ENTRIES)
    plan, cache = Plan(ENTRIES), side_folder(path) / "cache" / "projection"
    key = cache_key(os.environ, create=True)
    log = Log(open_store(path), plan_of=lambda _: plan, cache=cache, cache_key=key)
    log.save()
    log.close()


def say_share(what: str, ours: float, bare: float, goal: str) -> None:
    """Prints how many times the CPU of bare Python ours takes."""
    sys.stdout.write(f"{what:<62} {ours / bare:8.2f} x   (goal {goal} at most)\n")
    sys.stdout.flush()


def main() -> None:
    """Prints the ratios."""
    say_machine()
    ours, click, bare = rounds(
        lambda: run("-m", "fairtrial.cli", "--help"),
        lambda: run("-c", BARE_CLICK),
        lambda: run("-c", "pass"),
        count=ROUNDS,
        clock=started_seconds,
    )
    say_share("U1 ledger --help, over bare Python", ours, bare, "3")
    say_share("U1 ledger --help, over a bare click program", ours, click, "1.5")
    with tempfile.TemporaryDirectory() as folder:
        os.environ["FAIRTRIAL_STATE"] = str(Path(folder, "state"))
        for suffix, store in ((".db", "SQLite"), (".jsonl", "JSONL")):
            path = Path(folder, f"long{suffix}")
            save_projection(path)
            ours, bare = rounds(
                lambda at=path: run("-m", "fairtrial.cli", "status", "--ledger", str(at)),
                lambda: run("-c", "pass"),
                count=ROUNDS,
                clock=started_seconds,
            )
            what = f"U2 {store}, ledger status of {ENTRIES:,} entries, over bare Python"
            say_share(what, ours, bare, "12")


if __name__ == "__main__":
    main()
