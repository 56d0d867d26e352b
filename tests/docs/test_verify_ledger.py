"""The one-file verifier: what an auditor runs, alone, on what was sent."""

from __future__ import annotations

import ast
import base64
import hashlib
import json
import os
import random
import shutil
import struct
import subprocess
import sys
import zipfile
from pathlib import Path
from types import ModuleType

import msgspec
import pytest

from fairtrial.custody.bundling import README, bundle_ledger
from fairtrial.custody.redacting import redact_blob
from fairtrial.engine.inspecting import export_ledger
from fairtrial.engine.session import register_protocol, result_of, run
from fairtrial.ledger.canonical import event_id
from fairtrial.ledger.errors import StoreError

ROOT = Path(__file__).resolve().parents[2]
VERIFIER = ROOT / "docs" / "verify_ledger.py"
GOLDEN = ROOT / "tests" / "golden" / "v1"
DATA = ROOT / "tests" / "ledger" / "data"
# What no program can refuse that doesn't know the members of an event and their types.
NEEDS_SCHEMAS = {
    "members in another order",
    "unknown member",
    "member left out",
    "integer in a float field",
    "float in an integer field",
    "true for an integer",
    "text for an integer",
    "null for a name",
    "kind of another version",
}


@pytest.fixture(scope="module")
def verifier() -> ModuleType:
    """The verifier as a module."""
    module = ModuleType("verify_ledger")
    exec(compile(VERIFIER.read_text(encoding="utf-8"), str(VERIFIER), "exec"), module.__dict__)
    return module


def call(path: Path, *words: str, script: Path = VERIFIER) -> subprocess.CompletedProcess[str]:
    """Runs the verifier as an auditor does: isolated, with nothing of ours on the path."""
    command = [sys.executable, "-I", str(script), path.name, *words]
    return subprocess.run(command, cwd=path.parent, capture_output=True, text=True, check=False)


def test_one_short_file_of_the_standard_library() -> None:
    """Under 400 lines, and no import but of the standard library."""
    text = VERIFIER.read_text(encoding="utf-8")
    assert len(text.splitlines()) < 400
    names = {
        name.partition(".")[0]
        for node in ast.walk(ast.parse(text, feature_version=(3, 9)))
        if isinstance(node, (ast.Import, ast.ImportFrom))
        for name in ([node.module or ""] if isinstance(node, ast.ImportFrom) else [])
        + [alias.name for alias in node.names if isinstance(node, ast.Import)]
    }
    assert set() == names - sys.stdlib_module_names


def test_its_blake3_gives_the_published_vectors(verifier: ModuleType) -> None:
    """Hash and derived hash of every length of the specification's vectors, side by side."""
    vectors = json.loads((DATA / "blake3.json").read_text(encoding="utf-8"))
    inputs = [bytes(i % 251 for i in range(one["len"])) for one in vectors["cases"]]

    def each(key: object, flags: int) -> list[str]:
        words = verifier.blake3_each(key, inputs, flags)
        return [struct.pack("<8I", *one).hex() for one in words]

    assert [one["hash"] for one in vectors["cases"]] == each(verifier.IV, 0)
    context = [vectors["context"].encode()]
    key = verifier.blake3_each(verifier.IV, context, verifier.KEY)[0]
    assert [one["derive_key"] for one in vectors["cases"]] == each(key, verifier.MATERIAL)


def test_it_writes_numbers_as_the_format_does(verifier: ModuleType) -> None:
    """Every finite float, at the borders of the plain form too."""
    draw = random.Random(20261129)
    values = [1e-5, 9.9e-6, 1e-4, 1e15, 1e16, 5e-324, 1.7976931348623157e308, -0.0, 0.1, 1e22]
    values += [draw.uniform(-1, 1) * 10.0 ** draw.randrange(-12, 24) for _ in range(20_000)]
    for value in values:
        assert msgspec.json.encode(value).decode() == verifier.number(value)


def test_it_accepts_and_refuses_what_canonical_form_does(verifier: ModuleType) -> None:
    """The published vectors: accepted ones are parsed, ill-formed bytes are refused."""
    vectors = json.loads((DATA / "canonical.json").read_text(encoding="utf-8"))
    for one in vectors["accepted"]:
        assert verifier.parse_event(one["event"].encode()) == json.loads(one["event"])
    passed = {
        one["case"]
        for one in vectors["refused_on_read"]
        if is_accepted(verifier, one["event"].encode("utf-8", "surrogatepass"))
    }
    assert NEEDS_SCHEMAS == passed


def is_accepted(verifier: ModuleType, event: bytes) -> bool:
    """Returns whether the verifier has nothing to say against the form of an event."""
    try:
        verifier.parse_event(event)
    except (ValueError, KeyError, TypeError, RecursionError):
        return False
    return True


@pytest.mark.parametrize("name", ["ledger.jsonl", "ledger.db"])
def test_golden_ledger_is_intact(name: str) -> None:
    """The golden ledger of format 1, in both stores, as a program apart from ours sees it."""
    said = call(GOLDEN / name)
    expected = json.loads((GOLDEN / "expected.json").read_text(encoding="utf-8"))
    assert f"{len(expected['ids'])} entries, " in said.stdout
    assert f"ids       {len(expected['ids'])} of {len(expected['ids'])} computed" in said.stdout
    if name == "ledger.jsonl":
        assert (0, "") == (said.returncode, said.stderr)


def test_ids_beyond_the_limit_are_said_to_be_unchecked(tmp_path: Path) -> None:
    """With `--ids 5` five ids are computed, and the text says of how many."""
    said = call(GOLDEN / "ledger.jsonl", "--ids", "5")
    assert "ids       5 of 16 computed" in said.stdout


def test_wrong_id_at_the_end_is_found(tmp_path: Path) -> None:
    """The last entry's id has no successor that covers it: the hash finds it."""
    lines = (GOLDEN / "ledger.jsonl").read_bytes().splitlines()
    head, middle, rest = lines[-1].partition(b'"id":"b3:')
    digit = b"0" if rest[:1] != b"0" else b"1"
    lines[-1] = head + middle + digit + rest[1:]
    path = tmp_path / "ledger.jsonl"
    path.write_bytes(b"\n".join([*lines, b""]))
    said = call(path)
    assert (12, True) == (said.returncode, "entry 15: wrong_id" in said.stdout)


def test_what_was_given_is_told_from_nothing(tmp_path: Path) -> None:
    """No head, and a head that disagrees, are two things; one finding is one, one entry too."""
    alone = call(GOLDEN / "ledger.jsonl").stdout
    assert "against   nothing was given\n" in alone
    assert "16 entries, 0 findings" in alone
    name = json.loads((GOLDEN / "ledger.jsonl").read_bytes().splitlines()[0])["ledger"]
    wrong = f"fairtrial:{name}@3#{'A' * 43}="
    beside = call(GOLDEN / "ledger.jsonl", "--against", wrong).stdout
    assert "against   nothing given agrees\n" in beside
    assert "16 entries, 1 finding, root" in beside
    assert f"{name}, size 3, root {'0' * 64}" in beside
    path = tmp_path / "ledger.jsonl"
    path.write_bytes((GOLDEN / "ledger.jsonl").read_bytes().partition(b"\n")[0] + b"\n")
    assert "record    1 entry, 0 findings" in call(path).stdout


def test_a_log_beside_the_linked_database_is_seen(tmp_path: Path) -> None:
    """SQLite reads the log beside the file that a link leads to, so that is where it's sought."""
    (tmp_path / "real").mkdir()
    real = Path(shutil.copy(GOLDEN / "ledger.db", tmp_path / "real" / "ledger.db"))
    link = tmp_path / "link.db"
    link.symlink_to(real)
    assert "16 entries, " in call(link).stdout
    (tmp_path / "real" / "ledger.db-wal").write_bytes(b"")
    said = call(link)
    assert (8, True) == (said.returncode, "write-ahead mode" in said.stderr)


def test_names_are_shown_without_control_characters(tmp_path: Path) -> None:
    """What a file is called can't move the cursor of whoever checks a ledger."""
    said = call(tmp_path / "no\x1b[2J.jsonl")
    assert (8, False) == (said.returncode, "\x1b" in said.stderr)
    line = (GOLDEN / "ledger.jsonl").read_bytes().splitlines()[0]
    root = base64.b64encode(hashlib.sha256(b"\0" + line).digest()).decode()
    receipt = tmp_path / "odd\x1b[2J.txt"
    receipt.write_text(f"fairtrial:{json.loads(line)['ledger']}@1#{root}", encoding="utf-8")
    said = call(GOLDEN / "ledger.jsonl", "--against", str(receipt))
    assert "ANCHORED IN PART by odd?[2J.txt given by you" in said.stdout


@pytest.mark.parametrize(
    ("content", "code"),
    [(None, 8), (b"", 12), (b"hello\n", 8), (b'{"v":2,"ledger":"x"}\n', 17), (b'{"v":1,', 12)],
)
def test_what_is_no_ledger_is_never_fine(tmp_path: Path, content: bytes | None, code: int) -> None:
    """Nothing, an empty file, another file, a newer one: a code of its own each, never 0."""
    path = tmp_path / "ledger.jsonl"
    if content is not None:
        path.write_bytes(content)
    said = call(path)
    assert code == said.returncode
    assert "Traceback" not in said.stderr


def test_no_receipt_is_no_anchor() -> None:
    """A text without a receipt is refused rather than passed over."""
    assert 3 == call(GOLDEN / "ledger.jsonl", "--against", "no receipt").returncode


@pytest.fixture(scope="module")
def trial(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, str]:
    """A finished trial and its receipt."""
    folder = tmp_path_factory.mktemp("trial")
    demo = ROOT / "examples" / "demo"
    for name in ("pro.yaml", "pro-units.csv", "pro-outcomes.csv"):
        (folder / name).write_bytes((demo / name).read_bytes())
    ledger = folder / "ledger.db"
    register_protocol(ledger, folder / "pro.yaml", actor="ada")
    run(ledger, None, actor="ada")
    return ledger, result_of(ledger, None, actor="ada")[1]


@pytest.mark.slow
@pytest.mark.parametrize("store", ["db", "jsonl"])
def test_bundle_is_verified_by_what_is_in_it(
    trial: tuple[Path, str], tmp_path: Path, store: str
) -> None:
    """Unzipped elsewhere, the verifier inside says intact, anchored by the receipt sent apart."""
    ledger, receipt = trial
    if store == "jsonl":
        export_ledger(ledger, tmp_path / "ledger.jsonl")
        ledger = tmp_path / "ledger.jsonl"
    done = bundle_ledger(ledger, tmp_path / "evidence.zip")
    assert receipt == done.receipt
    with zipfile.ZipFile(tmp_path / "evidence.zip") as archive:
        archive.extractall(tmp_path / "unzipped")
    place = tmp_path / "unzipped" / ledger.name
    said = call(place, "--against", receipt, script=Path("verify_ledger.py"))
    assert (0, "") == (said.returncode, said.stderr)
    assert "INTACT, ANCHORED by receipt given by you" in said.stdout
    assert " 0 findings" in said.stdout
    alone = call(place, script=Path("verify_ledger.py"))
    assert "INTACT, UNANCHORED" in alone.stdout


def test_help_says_what_may_be_brought() -> None:
    """Whoever has only this file learns from it what --against takes, and from where."""
    said = " ".join(call(VERIFIER, "--help").stdout.split())
    for words in ('--against "fairtrial:', "HEAD: a receipt or checkpoint", "13 forked"):
        assert words in said


@pytest.mark.slow
def test_bundle_anchored_in_part(trial: tuple[Path, str], tmp_path: Path) -> None:
    """With a receipt of the freeze, the entries after it are said not to be vouched for."""
    ledger, _ = trial
    (early,) = (ledger.parent / "ledger.db.d" / "receipts").glob("*-freeze.txt")
    bundle_ledger(ledger, tmp_path / "evidence.zip")
    with zipfile.ZipFile(tmp_path / "evidence.zip") as archive:
        archive.extractall(tmp_path / "unzipped")
    said = call(tmp_path / "unzipped" / "ledger.db", "--against", early.read_text())
    assert 0 == said.returncode
    assert "INTACT, ANCHORED IN PART by receipt given by you (entries 0-2)" in said.stdout
    assert "aren't vouched for" in said.stdout


@pytest.mark.slow
def test_bundle_holds_everything_and_is_the_same_twice(
    trial: tuple[Path, str], tmp_path: Path
) -> None:
    """Ledger, blobs, files, receipts, result, verifier, instructions; equal bytes each time."""
    ledger, _ = trial
    for name in ("one.zip", "two.zip"):
        bundle_ledger(ledger, tmp_path / name)
    one = (tmp_path / "one.zip").read_bytes()
    assert (
        hashlib.sha256(one).digest() == hashlib.sha256((tmp_path / "two.zip").read_bytes()).digest()
    )
    with zipfile.ZipFile(tmp_path / "one.zip") as archive:
        names = archive.namelist()
        assert VERIFIER.read_bytes() == archive.read("verify_ledger.py")
        text = archive.read(README).decode()
        (name,) = [name for name in names if name.startswith("result-")]
        result = json.loads(archive.read(name))
        times = {info.date_time for info in archive.infolist()}
    assert "verdict" in result
    assert {(1980, 1, 1, 0, 0, 0)} == times
    assert names == sorted(names)
    assert {"ledger.db", "pro.yaml", "pro-units.csv", "docs/format.md", README} <= set(names)
    assert any(name.startswith("ledger.db.d/receipts/") for name in names)
    assert not any("/cache/" in name or "/sessions/" in name for name in names)
    assert "fairtrial:" not in text.replace('"fairtrial:..."', "").replace("fairtrial:LEDGER", "")


@pytest.mark.slow
def test_bundle_says_what_is_erased_or_gone(trial: tuple[Path, str], tmp_path: Path) -> None:
    """An erased blob and an absent file are named; an existing archive is never overwritten."""
    ledger = tmp_path / "ledger.db"
    export_ledger(trial[0], ledger)
    redact_blob(ledger, "3:environment", actor="ada", reason="personal data")
    done = bundle_ledger(ledger, tmp_path / "evidence.zip")
    assert any(line.endswith("erased on record") for line in done.absent)
    assert any(line.startswith("pro.yaml: a registered file") for line in done.absent)
    with pytest.raises(StoreError, match="there already"):
        bundle_ledger(ledger, tmp_path / "evidence.zip")


def test_golden_ids_are_its_ids(verifier: ModuleType) -> None:
    """An id is the same in both programs for events of every length up to several chunks."""
    draw = random.Random(7)
    events = [draw.randbytes(size) for size in (0, 1, 64, 1023, 1024, 1025, 2049, 5000, 65_000)]
    key = verifier.blake3_each(verifier.IV, [b"fairtrial 2026-12-01 event id v1"], verifier.KEY)[0]
    words = verifier.blake3_each(key, events, verifier.MATERIAL)
    assert [event_id(one) for one in events] == [
        "b3:" + struct.pack("<8I", *each).hex() for each in words
    ]


def test_hostile_lines_are_bounded(tmp_path: Path) -> None:
    """A line of 30 MB and 100,000 empty ones are found, counted, and held in little memory."""
    path = tmp_path / "ledger.jsonl"
    start = (GOLDEN / "ledger.jsonl").read_bytes()
    path.write_bytes(start + b"x" * 30_000_000 + b"\n" * 100_001)
    program = (
        "import resource, runpy, sys\n"
        "resource.setrlimit(resource.RLIMIT_DATA, (60_000_000, 60_000_000))\n"
        f"sys.argv = ['verify', {str(path)!r}]\n"
        f"runpy.run_path({str(VERIFIER)!r}, run_name='__main__')\n"
    )
    words = [sys.executable, "-I", "-c", program]
    done = subprocess.run(words, capture_output=True, text=True, check=False)
    assert (12, "") == (done.returncode, done.stderr)
    assert "100,017 entries, 100,003 findings" in done.stdout
    assert 50 == done.stdout.count("finding   ")


def test_odd_places_are_no_traceback(trial: tuple[Path, str], tmp_path: Path) -> None:
    """A folder for a pack, a pipe for a blob, and names that no file can have are answered."""
    folder = tmp_path / "copy"
    shutil.copytree(trial[0].parent, folder)
    ledger = folder / "ledger.db"
    packs = folder / "ledger.db.d" / "blobs" / "packs"
    (packs / "x.pack").mkdir(parents=True)
    assert 0 == call(ledger).returncode
    own = next(one for one in packs.parent.glob("??/*") if one.is_file())
    own.unlink()
    os.mkfifo(own)
    assert 16 == call(ledger).returncode
    for words in ((), ("--against", "x" * 5000)):
        path = ledger if words else Path("x" * 5000)
        done = call(path, *words)
        assert (3 if words else 8, True) == (done.returncode, "Traceback" not in done.stderr)
