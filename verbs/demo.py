"""What `ledger demo` does: a folder of its own, two experiments, a replay, two forgeries.

Leaves the wording to `text_demo.py`, every act to the facade and the forgeries to
`engine/tampering.py`.

Rules:
- Nothing is known beforehand: every number comes from this run.
- Only what an earlier demo made is removed, and only in a folder that it marked as its own.
- The folder ignores itself in git, so that the demo works inside any work tree.
"""

from __future__ import annotations

import shutil
from importlib.resources import files
from pathlib import Path
from typing import Any, NamedTuple

import msgspec

from fairtrial.engine.freezing import Design
from fairtrial.engine.inspecting import read_log, replay_ledger
from fairtrial.engine.session import Registered, register_protocol, result_of, run
from fairtrial.engine.story import read_stories
from fairtrial.engine.tampering import Outcome, change_score, first_success, rewrite
from fairtrial.examples.demo import FILES
from fairtrial.ledger.errors import RefusedError
from fairtrial.ledger.events import Decision
from fairtrial.ledger.findings import ReplayReport

__all__ = ("EXPERIMENTS", "Demo", "Experiment", "Proof", "Shown", "prepare")

ACTOR = "demo"
MARKER = ".fairtrial-demo"
_OWN = (*FILES, "changed", "rewritten", ".gitignore", MARKER)


class Experiment(NamedTuple):
    """One of the two comparisons: its protocol file, and where the outcomes come from."""

    file: str
    title: str
    source: str


EXPERIMENTS = (
    Experiment("pro.yaml", "SWE-bench Pro", "recorded by others in October 2025"),
    Experiment("verified.yaml", "SWE-bench Verified", "recorded by others in December 2025"),
)


class Shown(NamedTuple):
    """What an experiment of the demo came to."""

    experiment: Experiment
    design: Design
    settled: int
    first_seq: int
    detail: dict[str, Any]


class Proof(NamedTuple):
    """What replay says of the ledger and of two forged copies.

    Attributes:
        receipt: Of the honest ledger.
        replay: Of the honest ledger.
        seq: The changed entry; `outcome` what honestly stands there.
        changed: Replay of the copy with one changed score.
        rewritten: Replay of the copy with every hash made again, alone.
        rewritten_against: The same, given the receipt.
        forged: The difference that the rewritten ledger's result tells.
    """

    receipt: str
    replay: ReplayReport
    seq: int
    outcome: Decision
    changed: ReplayReport
    rewritten: ReplayReport
    rewritten_against: ReplayReport
    forged: float | None


def prepare(folder: Path) -> None:
    """Makes the folder, or makes an earlier demo's folder new again.

    Raises:
        RefusedError: The folder holds something and isn't a demo's.
    """
    if folder.is_dir() and any(folder.iterdir()) and not (folder / MARKER).is_file():
        raise RefusedError(
            "the folder isn't one that a demo made",
            where=str(folder),
            expected="no folder, an empty one, or an earlier demo's",
            found=f"{sum(1 for _ in folder.iterdir())} other files",
            todo="give another folder: ledger demo FOLDER",
        )
    for path in (*(folder / name for name in _OWN), *folder.glob("ledger.db*")):
        if path.is_dir():
            shutil.rmtree(path)
        else:
            path.unlink(missing_ok=True)
    _fill(folder)
    (folder / MARKER).write_text("Made by `ledger demo`, which may remove its files again.\n")
    (folder / ".gitignore").write_text("*\n")


def _fill(folder: Path) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    source = files("fairtrial.examples.demo")
    for name in FILES:
        (folder / name).write_bytes((source / name).read_bytes())


class Demo:
    """Runs the parts of the demo in one folder.

    Args:
        folder: The prepared folder.
    """

    def __init__(self, folder: Path) -> None:
        self.folder, self.ledger = folder, folder / "ledger.db"
        self._receipt = ""

    def run(self, experiment: Experiment) -> Shown:
        """Registers, runs and concludes one experiment."""
        done = register_protocol(self.ledger, self.folder / experiment.file, actor=ACTOR)
        name, design = done.register.experiment, done.design
        assert design is not None, "the demo's units are there, so it is frozen"
        report = run(self.ledger, name, actor=ACTOR)
        concluded, self._receipt = result_of(self.ledger, name, actor=ACTOR)
        detail: dict[str, Any] = msgspec.json.decode(concluded.detail)
        return Shown(experiment, design, report.settled, self._seq_of(done), detail)

    def _seq_of(self, done: Registered) -> int:
        """Returns the place of the register event."""
        name = f'"kind":"register/1","experiment":"{done.register.experiment}"'.encode()
        return next(seq for seq, data in enumerate(read_log(self.ledger)) if name in data)

    def prove(self) -> Proof:
        """Replays the ledger, then two forged copies of it."""
        outcome = first_success(self.ledger, _last_name(self.ledger), "B")
        changed, rewritten = self._forge(outcome)
        return Proof(
            receipt=self._receipt,
            replay=replay_ledger(self.ledger),
            seq=outcome.seq,
            outcome=outcome.event,
            changed=replay_ledger(changed),
            rewritten=replay_ledger(rewritten),
            rewritten_against=replay_ledger(rewritten, against=(self._receipt,)),
            forged=_last_difference(rewritten),
        )

    def _forge(self, outcome: Outcome) -> tuple[Path, Path]:
        """Returns a copy with one changed score, and one with every hash made again."""
        changed = self.folder / "changed" / "ledger.db"
        change_score(self.ledger, changed, seq=outcome.seq, score="passed", value=0.0)
        rewritten = self.folder / "rewritten" / "ledger.db"
        for path in (changed, rewritten):
            _fill(path.parent)
        rewrite(self.ledger, rewritten, seq=outcome.seq, change=_failed)
        return changed, rewritten


def _last_name(ledger: Path) -> str:
    """Returns the experiment that the newest entry belongs to."""
    *_, last = read_log(ledger)
    name: str = msgspec.json.decode(last)["event"]["experiment"]
    return name


def _last_difference(ledger: Path) -> float | None:
    """Returns the difference that the newest result of a ledger tells."""
    result = read_stories(ledger)[-1].result
    assert result is not None, "the demo's experiments are concluded"
    return result.comparisons[0].endpoints[0].difference


def _failed(event: Decision) -> Decision:
    return msgspec.structs.replace(event, scores={**event.scores, "passed": 0.0})
