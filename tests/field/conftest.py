"""A laboratory for field reports: a protocol, a scripted agent and the real command."""

from __future__ import annotations

import csv
import json
import os
import signal
import subprocess
import sys
import time
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

MISSING = (
    "failed: failure, timeout: failure, limit: failure, error: exclude_pair,"
    " ungraded: exclude_pair, replay_miss: exclude_pair, invalidated: exclude_pair"
)
ACCEPT = "{not_assessed: t, underpowered: t, impossible: t, no_verdict_possible: t}"
AGENT = """#!/bin/sh
slot="$FAIRTRIAL_ARM $FAIRTRIAL_UNIT $FAIRTRIAL_REPLICATE"
echo "$slot $FAIRTRIAL_ATTEMPT" >> "$(dirname "$0")/starts.txt"
{body}
"""
# Passes by a table: the arm's letter and the unit's number decide, so a run can be repeated.
TABLE = """n=${FAIRTRIAL_UNIT#u}
case $FAIRTRIAL_ARM in A) m=2;; *) m=3;; esac
if [ $((n * 7 % 5)) -lt $m ]; then p=true; else p=false; fi
printf '{"v":1,"passed":%s,"usd":%s}\\n' "$p" "${COST:-0.001}"
"""


@dataclass
class Lab:
    """One folder, one ledger, the command `ledger` as its users run it."""

    folder: Path
    store: str
    environment: dict[str, str] = field(default_factory=dict)

    @property
    def ledger(self) -> Path:
        """The ledger's file."""
        return self.folder / self.store

    def write(
        self,
        *,
        units: int = 20,
        clusters: int = 10,
        body: str = TABLE,
        repeats: int = 1,
        looks: str = "",
        extra: str = "",
        attempts: int = 1,
        usd: float = 5.0,
        reserve: float = 0.001,
        seconds: float = 20,
        reducer: str = "",
        margin: str = "",
        alpha: str = "",
        limit: str = "",
        rules: str = MISSING,
    ) -> None:
        """Writes protocol, units and agent."""
        arm = (
            f"{{repeats: {repeats}, driver: {{kind: command, argv: [./agent.sh, NAME],"
            f" files: [agent.sh], reserve_usd: {reserve}}}, limits: {{seconds: {seconds}}}}}"
        )
        (self.folder / "protocol.yaml").write_text(f"""protocol: 1
id: lab
about: {{hypothesis: B resolves more than A.}}
units: {{file: units.csv, id: unit, cluster: cluster, input: [question]{limit}}}
design: {{pairing: paired, seed: 11}}
arms:
  A: {arm.replace("NAME", "a")}
  B: {arm.replace("NAME", "b")}
control: A
attempts: {{max: {attempts}}}
endpoints: [{{name: resolved, role: primary, type: binary, value: passed, better: higher{reducer}}}]
missing: {{rules: {{{rules}}}, limit: 0.1}}
analysis: {{estimand: unit_weighted{alpha}}}
{looks}
decision: {{rule: superiority{margin}}}
power: {{effect: none, accept: {ACCEPT}}}
budget: {{usd: {usd}}}
require: {{commit: false}}
{extra}
""")
        with (self.folder / "units.csv").open("w", newline="") as file:
            writer = csv.writer(file, lineterminator="\n")
            writer.writerow(["unit", "cluster", "question"])
            writer.writerows([f"u{i}", f"c{i % clusters}", f"q{i}"] for i in range(units))
        self.agent(body)

    def agent(self, body: str) -> None:
        """Writes the program that both arms run."""
        path = self.folder / "agent.sh"
        path.write_text(AGENT.format(body=body))
        path.chmod(0o755)

    def start(
        self,
        *arguments: str,
        stdin: int = subprocess.DEVNULL,
        stdout: int = subprocess.PIPE,
        stderr: int = subprocess.PIPE,
    ) -> subprocess.Popen[bytes]:
        """Starts the command and returns at once."""
        command = [sys.executable, "-m", "fairtrial.cli", *arguments]
        return subprocess.Popen(
            command,
            cwd=self.folder,
            env={**os.environ, "FAIRTRIAL_LEDGER": str(self.ledger), **self.environment},
            stdin=stdin,
            stdout=stdout,
            stderr=stderr,
        )

    def call(self, *arguments: str, expect: int | None = 0) -> subprocess.CompletedProcess[str]:
        """Runs the command to its end; checks its exit status unless `expect` is None."""
        process = self.start(*arguments)
        out, err = process.communicate(timeout=120)
        done = subprocess.CompletedProcess(
            arguments, process.returncode, out.decode(), err.decode()
        )
        if expect is not None:
            said = f"{arguments}: {done.stdout[-2000:]}\n{done.stderr[-2000:]}"
            assert expect == done.returncode, said
        return done

    def json(self, *arguments: str, expect: int | None = 0) -> Any:
        """Runs the command with --json and returns what it says."""
        return json.loads(self.call(*arguments, "--json", expect=expect).stdout)

    def register(self) -> None:
        """Registers and freezes."""
        self.call("register", "protocol.yaml")

    def entries(self) -> list[dict[str, Any]]:
        """Returns all stored entries."""
        lines = self.call("log", "--json").stdout.splitlines()
        return [json.loads(line) for line in lines]

    def events(self, kind: str) -> list[dict[str, Any]]:
        """Returns the events of one kind."""
        wanted = f"{kind}/1"
        return [e["event"] for e in self.entries() if e["event"]["kind"] == wanted]

    def starts(self) -> Counter[str]:
        """Returns how often the agent was started for each arm, unit and replicate."""
        path = self.folder / "starts.txt"
        lines = path.read_text().splitlines() if path.exists() else []
        return Counter(line.rpartition(" ")[0] for line in lines)

    def wait_for(self, outcomes: int, process: subprocess.Popen[bytes]) -> None:
        """Waits until that many outcomes are durable, or the process ends."""
        deadline = time.monotonic() + 60
        while time.monotonic() < deadline and process.poll() is None:
            if self.settled() >= outcomes:
                return
            time.sleep(0.01)
        assert self.settled() >= outcomes, "the run ended, or a minute passed, before that"

    def settled(self) -> int:
        """Returns how many outcomes the ledger holds, from its bytes alone."""
        return sum(b'"event":{"kind":"decision/' in data for data in self.stored())

    def stored(self) -> list[bytes]:
        """Returns the bytes of all entries, read beside whoever writes."""
        from fairtrial.ledger.opening import open_store

        store = open_store(self.ledger, read_only=True)
        try:
            return list(store.read())
        finally:
            store.close()


@pytest.fixture(params=["ledger.db", "ledger.jsonl"])
def lab(request: pytest.FixtureRequest, tmp_path: Path) -> Lab:
    """A laboratory on each store."""
    return Lab(tmp_path, request.param)


@pytest.fixture
def one_lab(tmp_path: Path) -> Lab:
    """A laboratory on the default store, for reports in which the store plays no part."""
    return Lab(tmp_path, "ledger.db")


def stop(process: subprocess.Popen[bytes], number: signal.Signals = signal.SIGKILL) -> int:
    """Sends a signal and waits for the end."""
    process.send_signal(number)
    return process.wait(timeout=60)
