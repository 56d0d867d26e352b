"""Cosignatures beside aics-witness and aics-tlog, implementations that aren't ours, both ways.

FAIRTRIAL_OTHER_WITNESS names the folder that `.ci/other-witness` installs them into.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import threading
import time
from collections.abc import Generator, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import pytest

from fairtrial.custody.keys import create_key
from fairtrial.custody.vouching import read_pins
from fairtrial.custody.witness_acts import ask_witnesses
from fairtrial.custody.witness_server import WitnessServer
from fairtrial.custody.witnessing import Witness, ask_witness, with_lines
from fairtrial.ledger.checkpoint import verify_note
from fairtrial.ledger.errors import RefusedError
from fairtrial.ledger.events import Open
from fairtrial.ledger.note import (
    SignatureLine,
    VerifierKey,
    format_vkey,
    parse_lines,
    parse_note,
    parse_vkey,
)

from .anchor_trial import ACTOR, make_trial
from .test_witnessing import FORK, LEAVES, LOG, checkpoint, hashes

pytestmark = pytest.mark.slow
OTHER = os.environ.get("FAIRTRIAL_OTHER_WITNESS", "")
SIZES = (1, 4, 5, 5, 31, 40)
LISTENING = re.compile(r"listening on (http://\S+)")
# Hands heads to a witness, each as a client that has seen nothing; prints what it got.
CLIENT = """
import json, sys
from aics_witness import WitnessAhead, WitnessClient, WitnessRejected
told = json.load(sys.stdin)
for head in told["heads"]:
    def proof(old, size):
        return [bytes.fromhex(one) for one in head["proofs"][str(old)]]
    with WitnessClient(told["url"], told["vkey"], max_attempts=1) as client:
        try:
            print(json.dumps(client.submit(head["note"], proof)))
        except (WitnessAhead, WitnessRejected) as error:
            print(json.dumps(f"{type(error).__name__} {getattr(error, 'status', '')}".strip()))
"""


class Other:
    """The other implementation, run by this interpreter."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._environment = {**os.environ, "PYTHONPATH": OTHER}

    def run(self, *words: object, sent: str = "") -> subprocess.CompletedProcess[str]:
        """Runs one of its modules, or a program that imports it."""
        line = [sys.executable, "-P", *map(str, words)]
        return subprocess.run(
            line, input=sent, env=self._environment, cwd=self.folder, capture_output=True,
            text=True, check=False, encoding="utf-8",
        )  # fmt: skip

    def ok(self, *words: object, sent: str = "") -> str:
        """Returns what it prints."""
        done = self.run(*words, sent=sent)
        assert 0 == done.returncode, done.stdout + done.stderr
        return done.stdout

    def accepts(self, note: bytes, log: VerifierKey, witness: VerifierKey) -> bool:
        """Returns whether it finds a note signed by the log and cosigned by the witness now."""
        (self.folder / "head.note").write_bytes(note)
        keys = ["--log-key", format_vkey(log), "--witness-key", format_vkey(witness)]
        words = ["--note", "head.note", *keys, "--quorum", "1", "--max-age", "600"]
        done = self.run("-m", "aics_tlog", "verify-checkpoint", *words)
        assert "Traceback" not in done.stderr
        return done.returncode == 0

    @contextmanager
    def serving(self, *logs: VerifierKey) -> Generator[tuple[str, VerifierKey]]:
        """Serves a new witness that knows some logs; yields its address and its key."""
        config = ["--config", "witness.json"]
        init = ["--name", "witness.example/other", "--listen", "127.0.0.1:0"]
        vkey = self.ok("-m", "aics_witness", "init", *config, *init).split()[-1]
        for log in logs:
            known = ["--origin", log.name, "--vkey", format_vkey(log)]
            self.ok("-m", "aics_witness", "add-log", *config, *known)
        line = [sys.executable, "-P", "-m", "aics_witness", "serve", *config]
        with subprocess.Popen(
            line, env=self._environment, cwd=self.folder, stderr=subprocess.PIPE, text=True
        ) as server:
            assert server.stderr is not None
            try:
                said = (LISTENING.search(text) for text in server.stderr)
                yield next(match for match in said if match)[1], parse_vkey(vkey)
            finally:
                server.terminate()


@pytest.fixture
def other(tmp_path: Path) -> Other:
    """The other implementation, or what is missing."""
    if OTHER == "none":
        pytest.skip("aics-tlog and aics-witness were nowhere to be had")
    if not (Path(OTHER) / "aics_witness").is_dir() or not OTHER:
        pytest.skip("needs aics-tlog and aics-witness: FAIRTRIAL_OTHER_WITNESS, .ci/other-witness")
    folder = tmp_path / "other"
    folder.mkdir()
    return Other(folder)


@pytest.fixture
def ours(tmp_path: Path) -> Iterator[tuple[WitnessServer, VerifierKey]]:
    """Our witness, serving at the loopback address."""
    home = {"FAIRTRIAL_KEYS": str(tmp_path / "keys")}
    key = create_key("w1", "witness", environment=home, signs_as="witness.example/w1")
    witness = Witness(key, [LOG], tmp_path / "seen")
    with WitnessServer(witness, host="127.0.0.1", port=0, clock=time.time) as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True)
        thread.start()
        yield server, key.verifier()
        server.shutdown()
        thread.join()


def proofs(size: int, leaves: Sequence[bytes]) -> dict[str, list[str]]:
    """Returns a consistency proof from each smaller size."""
    shown = {old: hashes(old, size, list(leaves)) for old in range(1, size + 1)}
    return {"0": [], **{str(old): [one.hex() for one in proof] for old, proof in shown.items()}}


def asked(url: str, key: VerifierKey, size: int, leaves: Sequence[bytes] = LEAVES) -> SignatureLine:
    """Has a head cosigned as a ledger does."""
    own = list(leaves)
    return ask_witness(url, checkpoint(size, own), key, lambda old: hashes(old, size, own))


def test_other_witness_cosigns_for_us(other: Other) -> None:
    """It cosigns what grew, its lines hold for both sides, and what it refuses we can name."""
    with other.serving(LOG) as (url, key):
        for size in SIZES:
            cosigned = with_lines(checkpoint(size), [asked(url, key, size)])
            assert other.accepts(cosigned, LOG, key)
        assert not other.accepts(checkpoint(40), LOG, key)
        with pytest.raises(RefusedError) as caught:
            asked(url, key, 40, FORK)
        assert "didn't grow" in caught.value.found
        with pytest.raises(RefusedError) as caught:
            asked(url, key, 39)
        assert "40 entries already" in caught.value.found


def test_other_witness_does_not_know_a_stranger(other: Other) -> None:
    """A log that it wasn't told of is refused, and we say what to do."""
    with other.serving() as (url, key), pytest.raises(RefusedError) as caught:
        asked(url, key, 5)
    assert "doesn't know this ledger" in caught.value.found


def test_our_witness_cosigns_for_the_other(
    other: Other, ours: tuple[WitnessServer, VerifierKey]
) -> None:
    """Its client gets through our answers, takes our lines, and is refused what forks or is old."""
    server, key = ours
    asked = [*((size, LEAVES) for size in SIZES), (40, FORK), (39, LEAVES)]
    heads = [
        {"note": checkpoint(size, leaves).decode(), "proofs": proofs(size, leaves)}
        for size, leaves in asked
    ]
    sent = json.dumps({"url": server.url, "vkey": format_vkey(key), "heads": heads})
    answers = [json.loads(line) for line in other.ok("-c", CLIENT, sent=sent).splitlines()]
    assert ["WitnessRejected 422", "WitnessAhead"] == answers[len(SIZES) :]
    for size, lines in zip(SIZES, answers[: len(SIZES)], strict=True):
        cosigned = with_lines(checkpoint(size), parse_lines(lines))
        assert {key} == {one.key for one in verify_note(parse_note(cosigned), [key])}
        assert other.accepts(cosigned, LOG, key)


def test_no_changed_cosignature_is_accepted_by_the_other(
    other: Other, ours: tuple[WitnessServer, VerifierKey]
) -> None:
    """The checks above can fail: a changed time, signature or root in our note is noticed."""
    server, key = ours
    note = checkpoint(5)
    line = asked(server.url, key, 5)
    assert other.accepts(with_lines(note, [line]), LOG, key)
    for place in (7, 8, 71):
        changed = bytearray(line.signature)
        changed[place] ^= 1
        bad = with_lines(note, [line._replace(signature=bytes(changed))])
        assert not other.accepts(bad, LOG, key)
    assert not other.accepts(with_lines(checkpoint(6), [line]), LOG, key)


def test_trial_is_witnessed_by_the_other(
    other: Other, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A whole trial, cosigned by the other witness as it grows, replays as witnessed."""
    trial = make_trial(tmp_path, monkeypatch)
    trial.key("lab")
    trial.register(key="lab")
    opened = trial.events()[0]
    assert isinstance(opened, Open)
    assert opened.vkey is not None
    log = parse_vkey(opened.vkey)
    policy = tmp_path / "policy.txt"
    with other.serving(log) as (url, key):
        text = [f"log {format_vkey(log)}", f"witness w {format_vkey(key)} {url}", "quorum w"]
        policy.write_text("\n".join([*text, ""]))
        for is_finished in (False, True):
            if is_finished:
                trial.finish(key="lab")
            done = ask_witnesses(trial.ledger, actor=ACTOR, key="lab", policy=policy)
            assert (key.name,) == done.cosigned
            assert other.accepts(done.path.read_bytes(), log, key)
    report = trial.replay(pins=read_pins(policy=policy))
    assert "intact" == report.record
    assert done.size == report.vouched["witness"]
