"""Tiles, notes and proofs beside golang.org/x/mod/sumdb, an implementation that isn't ours.

It needs Debian's packages golang-go and golang-golang-x-mod-dev; nothing is downloaded. `tlog.go`
says where tlog-tiles differs from sumdb.
"""

from __future__ import annotations

import base64
import os
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from fairtrial.custody.proof_check import check_proof
from fairtrial.custody.proving import OldHead, find_entry, parse_old, prove, prove_growth
from fairtrial.custody.tiling import export_tiles
from fairtrial.custody.trial import Reader
from fairtrial.custody.vouching import read_pins
from fairtrial.engine.session import register_protocol, result_of, run
from fairtrial.ledger.checkpoint import open_checkpoint
from fairtrial.ledger.merkle import root_of
from fairtrial.ledger.note import parse_vkey
from fairtrial.ledger.opening import open_store
from fairtrial.ledger.tiles import tiles_of

from .anchor_trial import ACTOR, AnchorTrial, make_trial
from .test_tiling import UNITS, checked, files_in, vkey_of

pytestmark = pytest.mark.slow
SOURCE = Path(__file__).parent / "tlog.go"
GOPATH = Path("/usr/share/gocode")
ORIGIN = "example.org/log"


class Reference:
    """The program that is made of `tlog.go`."""

    def __init__(self, program: Path) -> None:
        self._program = program

    def run(self, *words: object) -> subprocess.CompletedProcess[str]:
        """Runs it."""
        line = [str(self._program), *map(str, words)]
        return subprocess.run(line, capture_output=True, text=True, check=False, encoding="utf-8")

    def ok(self, *words: object) -> list[str]:
        """Returns the words that it prints."""
        done = self.run(*words)
        assert ("", 0) == (done.stderr, done.returncode)
        return done.stdout.split()


@pytest.fixture(scope="module")
def reference(tmp_path_factory: pytest.TempPathFactory) -> Reference:
    """Builds the program, or says what is missing."""
    if shutil.which("go") is None or not (GOPATH / "src/golang.org/x/mod/sumdb/tlog").is_dir():
        pytest.skip("needs Go and golang.org/x/mod: golang-go, golang-golang-x-mod-dev")
    folder = tmp_path_factory.mktemp("go")
    settings = {"GO111MODULE": "off", "GOPATH": str(GOPATH), "GOCACHE": str(folder / "cache")}
    line = ["go", "build", "-o", str(folder / "tlog"), str(SOURCE)]
    subprocess.run(line, cwd=folder, env={**os.environ, "GOFLAGS": "", **settings}, check=True)
    return Reference(folder / "tlog")


@pytest.fixture(scope="module")
def trial(tmp_path_factory: pytest.TempPathFactory) -> Iterator[AnchorTrial]:
    """A concluded trial of more than 256 entries with signed heads; the tests only read it."""
    with pytest.MonkeyPatch.context() as patch:
        made = make_trial(tmp_path_factory.mktemp("tlog"), patch)
        made.key("lab")
        made.setenv(FAIRTRIAL_KEY="lab")
        register_protocol(made.ledger, made.write_many(UNITS), actor=ACTOR)
        run(made.ledger, None, actor=ACTOR)
        result_of(made.ledger, None, actor=ACTOR)
        yield made


@pytest.fixture
def reader(trial: AnchorTrial) -> Reader:
    """The trial, open for reading."""
    return Reader(trial.ledger, open_store(trial.ledger, read_only=True))


def receipt_at(reader: Reader, size: int) -> OldHead:
    """Returns a head of the ledger as its receipt."""
    root = base64.b64encode(root_of(reader.store.leaves(0, size))).decode()
    ledger = next(iter(reader.read()))[0].ledger
    return parse_old(f"fairtrial:{ledger}@{size}#{root}")


def test_reference_reads_our_tiles_and_proofs(
    reference: Reference, trial: AnchorTrial, reader: Reader, tmp_path: Path
) -> None:
    """Each entry's inclusion, growth from each size, the signed head and our proof files hold."""
    done = export_tiles(trial.ledger, tmp_path / "log")
    assert done.size > 256
    paths = [tmp_path / "growth", *(tmp_path / f"{seq}" for seq in range(done.size))]
    old = receipt_at(reader, 200)
    paths[0].write_bytes(prove_growth(reader, old, None)[1])
    for seq, path in enumerate(paths[1:]):
        path.write_bytes(prove(reader, find_entry(reader, str(seq)), None))
    vkey = vkey_of(trial)
    root = base64.b64encode(bytes.fromhex(done.root)).decode()
    said = reference.ok("check", vkey, tmp_path / "log", *paths)
    assert [parse_vkey(vkey).name, str(done.size), root] == said


@pytest.mark.parametrize("name", ["tile/0/000", "tile/1/000.p/1", "tile/entries/000", "checkpoint"])
def test_reference_notices_a_changed_byte(
    reference: Reference, trial: AnchorTrial, tmp_path: Path, name: str
) -> None:
    """The check above can fail: a byte of any kind of file breaks it."""
    export_tiles(trial.ledger, tmp_path / "log")
    path = tmp_path / "log" / name
    data = bytearray(path.read_bytes())
    data[9] ^= 1
    path.write_bytes(data)
    assert 1 == reference.run("check", vkey_of(trial), tmp_path / "log").returncode


@pytest.mark.parametrize(("size", "old"), [(1, 1), (256, 255), (257, 256), (700, 513)])
def test_what_the_reference_writes_is_accepted(
    reference: Reference, tmp_path: Path, size: int, old: int
) -> None:
    """Its head, tiles, bundles and proofs are byte for byte ours, or hold for our checks."""
    vkey, old_root = reference.ok("make", ORIGIN, tmp_path, size, old)
    proofs = [(tmp_path / "proofs" / str(seq)).read_bytes() for seq in range(size)]
    growth = (tmp_path / "proofs/growth").read_bytes()
    shutil.rmtree(tmp_path / "proofs")
    entries = checked(tmp_path, vkey)
    files = {name: data for name, (_, data) in files_in(tmp_path).items()}
    note = files.pop("checkpoint")
    ours = {tile.path: tile.data for tile in tiles_of(entries)}
    assert ours == {name: data for name, data in files.items() if name in ours}
    # The reference also writes the narrower partial tiles of the smaller trees on the way.
    assert all(".p/" in name for name in files.keys() - ours.keys())
    head = open_checkpoint(note, log=parse_vkey(vkey)).checkpoint
    assert (ORIGIN, size) == (head.origin, head.size)
    pins = read_pins(vkeys=[vkey])
    for seq, proof in enumerate(proofs):
        report = check_proof(proof, pins=pins, entry=entries[seq])
        assert ("holds", seq) == (report.record, report.seq)
    before = OldHead(old, base64.b64decode(old_root), None, "the reference's word")
    report = check_proof(growth, pins=pins, against=[before])
    assert ("holds", old, size) == (report.record, report.old, report.size)
