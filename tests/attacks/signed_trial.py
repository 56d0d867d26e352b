"""A trial with a key, what others keep of it, and what whoever holds the key can make of it.

Rules:
- The keys and the record of what was signed lie outside the trial's folder, as in life.
- `kept` are the checkpoints that somebody else has a copy of.
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import pytest

from fairtrial.cli import main
from fairtrial.custody.keys import Key, KeyUse, create_key, load_key
from fairtrial.custody.vouching import Pins, read_pins
from fairtrial.engine.inspecting import export_ledger, replay_ledger
from fairtrial.engine.session import register_protocol, result_of, run
from fairtrial.ledger.checkpoint import Checkpoint, SigningKey, sign_checkpoint
from fairtrial.ledger.findings import ReplayReport
from fairtrial.ledger.merkle import leaf_hash, root_of
from fairtrial.ledger.note import VerifierKey, parse_vkey

from .conftest import Case, write_trial

ACTOR = "ada"


@dataclass(frozen=True)
class SignedTrial(Case):
    """A copy of the signed trial; `vkey` and the files in `kept` are what others hold."""

    home: dict[str, str]
    kept: Path
    vkey: str

    @property
    def origin(self) -> str:
        """The ledger's origin."""
        return self.log.name

    @property
    def log(self) -> VerifierKey:
        """The ledger's key, as others know it."""
        return parse_vkey(self.vkey)

    @property
    def pins(self) -> Pins:
        """The ledger's key, pinned."""
        return read_pins(vkeys=[self.vkey])

    @property
    def notes(self) -> Path:
        """The folder of the checkpoints beside the ledger."""
        return self.ledger.with_name(self.ledger.name + ".d") / "checkpoints"

    def key(self, name: str = "lab", use: KeyUse = "ledger") -> Key:
        """Returns a key that exists."""
        return load_key(name, use, environment=self.home)

    def new_key(self, name: str, use: KeyUse, signs_as: str | None = None) -> Key:
        """Makes a key."""
        return create_key(name, use, environment=self.home, signs_as=signs_as)

    def newest(self) -> Path:
        """Returns the newest checkpoint that somebody else kept."""
        return max(self.kept.glob("*.note"))

    def judge(self, *notes: Path, pins: Pins | None = None) -> ReplayReport:
        """Returns what `ledger replay` finds with checkpoints from elsewhere and pins."""
        return replay_ledger(self.ledger, checkpoints=notes, pins=pins, with_numbers=False)

    def sign(self, entries: Sequence[bytes], signer: SigningKey) -> bytes:
        """Returns the signed head of entries, whatever was signed before."""
        root = root_of(map(leaf_hash, entries))
        return sign_checkpoint(Checkpoint(self.origin, len(entries), root), signer)

    def put_signed(self, entries: Sequence[bytes], signer: SigningKey) -> Path:
        """Puts other entries into the ledger with one signed head beside them, as its owner can."""
        self.put(entries)
        self.drop_evidence()
        self.notes.mkdir()
        path = self.notes / f"{len(entries):06d}.note"
        path.write_bytes(self.sign(entries, signer))
        return path

    def drop_evidence(self) -> None:
        """Deletes checkpoints, receipts and caches beside the ledger, as a careful attacker does.

        The blobs stay.
        """
        for path in self.notes.parent.iterdir():
            if path.name != "blobs":
                shutil.rmtree(path)


def make_signed(folder: Path) -> None:
    """Makes the honest trial with a key, in both stores, and what others keep of it."""
    with pytest.MonkeyPatch.context() as patch:
        for name, value in home_of(folder).items():
            patch.setenv(name, value)
        create_key("lab", "ledger", environment=home_of(folder))
        trial = folder / "trial"
        trial.mkdir()
        ledger = trial / "ledger.db"
        register_protocol(ledger, write_trial(trial), actor=ACTOR, key="lab")
        run(ledger, None, actor=ACTOR, key="lab")
        _, receipt = result_of(ledger, None, actor=ACTOR, key="lab")
        export_ledger(ledger, trial / "ledger.jsonl")
    side = trial / "ledger.db.d"
    shutil.copytree(side / "checkpoints", trial / "ledger.jsonl.d" / "checkpoints")
    shutil.copytree(side / "checkpoints", folder / "kept")
    (folder / "receipt").write_text(receipt)


def home_of(folder: Path) -> dict[str, str]:
    """Returns the variables that the keys and the record of what was signed follow."""
    return {"FAIRTRIAL_KEYS": str(folder / "keys"), "FAIRTRIAL_STATE": str(folder / "state")}


def signed_copy(source: Path, folder: Path, store: str) -> SignedTrial:
    """Returns a copy of the signed trial with one of its stores."""
    shutil.copytree(source, folder, ignore=shutil.ignore_patterns("cache", "*.lock"))
    ledger = folder / "trial" / f"ledger.{store}"
    receipt = (folder / "receipt").read_text()
    vkey = json.loads(Case(ledger, receipt).entries()[0])["event"]["vkey"]
    return SignedTrial(ledger, receipt, home_of(folder), folder / "kept", vkey)


def exit_code(*words: str | Path) -> int:
    """Returns the exit code of the command."""
    with pytest.raises(SystemExit) as ended:
        main([str(word) for word in words])
    assert isinstance(ended.value.code, int)
    return ended.value.code
