"""Start-up of the command, against bare Python and a bare click program."""

from __future__ import annotations

import subprocess
import sys

from benchmarks.measuring import is_quick, rounds, say

BARE_CLICK = "import click\n@click.command()\ndef main(): pass\nmain(['--help'])"


def run(*arguments: str) -> None:
    """Runs a Python program and drops what it prints."""
    subprocess.run([sys.executable, *arguments], stdout=subprocess.DEVNULL, check=True)


def main() -> None:
    """Prints the ratios."""
    ours, click, bare = rounds(
        lambda: run("-m", "fairtrial.cli", "--help"),
        lambda: run("-c", BARE_CLICK),
        lambda: run("-c", "pass"),
        count=5 if is_quick() else 15,
    )
    say("ledger --help against a bare click program", ours, click, goal="0.5 or more")
    say("ledger --help against bare Python", ours, bare, goal="0.33 or more")


if __name__ == "__main__":
    main()
