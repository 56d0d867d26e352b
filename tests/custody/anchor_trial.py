"""A small recorded trial on disk, with keys and remembered heads in folders of its own."""

from __future__ import annotations

import os
from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest

from fairtrial.custody.keys import Key, KeyUse, create_key
from fairtrial.custody.trial import Trial, open_trial
from fairtrial.custody.vouching import Pins
from fairtrial.engine.inspecting import replay_ledger
from fairtrial.engine.session import register_protocol, result_of, run
from fairtrial.ledger.events import Anchor, Event
from fairtrial.ledger.findings import ReplayReport
from fairtrial.ledger.opening import open_store
from fairtrial.ledger.reading import read_events

PROTOCOL = """
protocol: 1
id: anchored
about: {hypothesis: The new arm solves more.}
units: {file: units.csv, id: unit, cluster: cluster}
design: {pairing: paired, seed: 7}
arms:
  old:
    label: old
    driver:
      {kind: recorded, file: outcomes.csv, where: {arm: old},
       columns: {unit: unit, passed: passed}}
  new:
    label: new
    driver:
      {kind: recorded, file: outcomes.csv, where: {arm: new},
       columns: {unit: unit, passed: passed}}
control: old
endpoints: [{name: solved, role: primary, type: binary, value: passed, better: higher}]
missing:
  rules:
    {failed: failure, timeout: failure, limit: failure, error: exclude_pair,
     ungraded: exclude_pair, replay_miss: exclude_pair, invalidated: exclude_pair}
  limit: 0.02
analysis: {estimand: unit_weighted, alpha: 0.05}
looks: {at: [0.5, 1.0], icc: 0.05, on_crossing: continue}
decision: {rule: superiority}
power: {effect: 0.4, target: 0.8, assume: {discordance: 0.4, icc: 0.02}, source: guess, accept: {}}
budget: {usd: 0}
"""
ACTOR = "tester"


@dataclass
class AnchorTrial:
    """A trial in a folder; `home` is the environment that its keys and heads follow."""

    folder: Path
    home: dict[str, str]
    patch: pytest.MonkeyPatch

    @property
    def ledger(self) -> Path:
        """The ledger's file."""
        return self.folder / "ledger.db"

    @property
    def notes(self) -> list[Path]:
        """The notes beside the ledger, by size."""
        return sorted((self.folder / "ledger.db.d/checkpoints").glob("*.note"))

    def key(self, name: str, use: KeyUse = "ledger", signs_as: str | None = None) -> Key:
        """Makes a key."""
        return create_key(name, use, environment=self.home, signs_as=signs_as)

    def setenv(self, **values: str) -> None:
        """Sets variables of the environment."""
        for name, value in values.items():
            self.patch.setenv(name, value)

    def write(self, require: str = "", protocol: str = PROTOCOL) -> Path:
        """Writes protocol, units and outcomes."""
        units = [f"c{cluster:02}-{unit}" for cluster in range(24) for unit in range(2)]
        rows = [(unit, int(unit[1:3]) % 3 == 0, int(unit[1:3]) % 3 != 2) for unit in units]
        text = [f"{unit},{unit[:3]}" for unit in units]
        (self.folder / "units.csv").write_text("\n".join(["unit,cluster", *text]) + "\n")
        text = [f"{u},{arm},{int(v)}" for u, a, b in rows for arm, v in (("old", a), ("new", b))]
        (self.folder / "outcomes.csv").write_text("\n".join(["unit,arm,passed", *text]) + "\n")
        path = self.folder / "protocol.yaml"
        path.write_text(protocol + (f"require: {require}\n" if require else ""))
        return path

    def write_many(self, count: int) -> Path:
        """Writes protocol, units and outcomes of so many units, to fill a tile of the tree."""
        path = self.write()
        units = [f"c{number % 20:02}-{number}" for number in range(count)]
        rows = [f"{unit},{unit[:3]}" for unit in units]
        (self.folder / "units.csv").write_text("\n".join(["unit,cluster", *rows]) + "\n")
        rows = [f"{unit},{arm},{len(unit) % 2}" for unit in units for arm in ("old", "new")]
        (self.folder / "outcomes.csv").write_text("\n".join(["unit,arm,passed", *rows]) + "\n")
        return path

    def register(self, require: str = "", **options: str) -> None:
        """Registers and freezes."""
        register_protocol(self.ledger, self.write(require), actor=ACTOR, **options)  # type: ignore[arg-type]  # key alone

    def finish(self, **options: str) -> None:
        """Runs and concludes."""
        run(self.ledger, None, actor=ACTOR, **options)  # type: ignore[arg-type]  # key alone
        result_of(self.ledger, None, actor=ACTOR, **options)  # type: ignore[arg-type]  # key alone

    def replay(self, *checkpoints: Path, pins: Pins | None = None, **more: str) -> ReplayReport:
        """Replays all levels."""
        against = [more["against"]] if "against" in more else []
        return replay_ledger(self.ledger, checkpoints=checkpoints, pins=pins, against=against)

    @contextmanager
    def open(self) -> Generator[Trial]:
        """Opens the ledger for writing."""
        with open_trial(self.ledger, actor=ACTOR) as trial:
            yield trial

    def events(self) -> list[Event]:
        """Returns all events."""
        store = open_store(self.ledger, read_only=True)
        try:
            return [event for _, event in read_events(store)]
        finally:
            store.close()

    def anchors(self) -> list[tuple[int, Anchor]]:
        """Returns the anchors with their places."""
        return [(seq, e) for seq, e in enumerate(self.events()) if isinstance(e, Anchor)]


def make_trial(folder: Path, patch: pytest.MonkeyPatch) -> AnchorTrial:
    """Returns a trial in an empty folder; no variable of the real environment reaches it."""
    home = {"FAIRTRIAL_KEYS": str(folder / "keys"), "FAIRTRIAL_STATE": str(folder / "state")}
    for name in [one for one in os.environ if one.startswith("FAIRTRIAL_")]:
        if name not in ("FAIRTRIAL_REQUIRE_ALL", "FAIRTRIAL_WHEEL"):
            patch.delenv(name)
    trial = AnchorTrial(folder / "trial", home, patch)
    trial.folder.mkdir()
    trial.setenv(**home)
    return trial
