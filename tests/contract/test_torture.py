"""A sample of `make torture`, a disk that is full, four writers at once: nothing acked is lost."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from fairtrial.cli import EXIT_CODES, main
from fairtrial.ledger.entry import FIRST_PREV, check_entry, parse_entry
from fairtrial.ledger.errors import StoreError
from fairtrial.ledger.opening import open_store

from .conftest import append

PROGRAM = Path(__file__).with_name("append_program.py")
ROOT = Path(__file__).resolve().parents[2]
TORTURE = ("-P", "benchmarks/torture.py")
CHECKPOINT = ("-m", "benchmarks.checkpoint_faults")
STORES = ("db", "jsonl")


def torture(*words: str, program: tuple[str, str] = TORTURE) -> dict[str, Any]:
    """Runs a program; returns its figures and fails with what it says is broken."""
    command = [sys.executable, *program, *words]
    done = subprocess.run(command, capture_output=True, text=True, check=False, cwd=ROOT)
    assert 0 == done.returncode, done.stderr
    figures: dict[str, Any] = json.loads(done.stdout)
    return figures


def checked(ledger: Path) -> list[bytes]:
    """Returns all entries of a ledger, each checked against the one before."""
    store = open_store(ledger, read_only=True)
    entries, prev, name = list(store.read()), FIRST_PREV, None
    for seq, data in enumerate(entries):
        found = parse_entry(data)
        check_entry(found, ledger=name, seq=seq, prev=prev)
        prev, name = found.leaf(), found.ledger
    assert [] == list(store.check())
    store.close()
    return entries


@pytest.mark.slow
@pytest.mark.parametrize("store", STORES)
def test_random_kills_lose_nothing(store: str) -> None:
    """60 kills at random moments: no acked event lost or doubled, no repair by hand."""
    figures = torture("kills", "--points", "60", "--store", store)
    assert (60, 0, 0) == (figures["points"], figures["lost"], figures["doubled"])
    assert figures["acked"] > 60


def require_strace() -> None:
    """Skips without strace."""
    strace = shutil.which("strace")
    if strace and subprocess.run([strace, "-qq", "true"], check=False).returncode == 0:
        return
    pytest.skip("needs strace, and the right to use it")


@pytest.mark.slow
@pytest.mark.parametrize("store", STORES)
def test_every_failing_call_loses_nothing(store: str) -> None:
    """Each system call of an append and of a recovery fails with EIO, and is the last (SIGKILL).

    One in four, from a random one on, unless everything is required.
    """
    require_strace()
    every = 1 if os.environ.get("FAIRTRIAL_REQUIRE_ALL") == "1" else 4
    figures = torture("faults", "--store", store, "--every", str(every))
    for act in ("append", "recovery"):
        assert figures[f"{act}_EIO"] > 80 / every
        assert figures[f"{act}_KILL"] >= figures[f"{act}_EIO"]
    endings = figures["endings"]
    assert set() == set(endings) - {
        "ack",
        "killed",
        "OSError",
        "UnsupportedOperation",
        "StoreError",
        "IntegrityError",
    }


@pytest.mark.slow
@pytest.mark.parametrize("store", STORES)
def test_every_failing_call_of_a_checkpoint_leaves_one_history(store: str) -> None:
    """Each system call of `checkpoint --embed` fails with EIO, and is the last (SIGKILL).

    Record, notes, blobs and ledger agree after each; the next checkpoint needs no repair. One in
    sixteen, from a random one on; `make torture` has them all.
    """
    require_strace()
    every = 16
    figures = torture("--store", store, "--every", str(every), program=CHECKPOINT)
    assert figures["EIO"] > 300 / every
    assert figures["KILL"] >= figures["EIO"]
    assert {"ack", "killed"} <= set(figures["endings"])
    assert set() == set(figures["endings"]) - {
        "ack",
        "killed",
        "OSError",
        "UnsupportedOperation",
        "RefusedError",
        "StoreError",
        "IntegrityError",
    }


@pytest.mark.slow
@pytest.mark.parametrize("store", STORES)
def test_four_writers_append_a_thousand(store: str, tmp_path: Path) -> None:
    """4 processes, 250 appends each, one entry a lock: no error, no gap, all where acks say."""
    ledger = tmp_path / f"ledger.{store}"
    open_store(ledger, create=True).close()
    processes = [
        subprocess.Popen(
            [sys.executable, str(PROGRAM), str(ledger), str(number), "250", "1", "0"],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        for number in range(4)
    ]
    acked: list[int] = []
    for process in processes:
        output, errors = process.communicate()
        assert ("", 0) == (errors, process.returncode)
        acked += [int(line.split()[0]) for line in output.splitlines()]
    assert list(range(1000)) == sorted(acked)
    assert 1000 == len(checked(ledger))


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A file system of 256 kB in memory; skips where none may be mounted, in containers mostly."""
    folder = tmp_path / "disk"
    folder.mkdir()
    command = ["mount", "-t", "tmpfs", "-o", "size=256k", "tmpfs", str(folder)]
    try:
        done = subprocess.run(command, capture_output=True, text=True, check=False)
    except FileNotFoundError:
        pytest.skip("needs the program mount")
    if done.returncode:
        pytest.skip(f"no file system may be mounted here: {done.stderr.strip()}")
    try:
        yield folder
    finally:
        subprocess.run(["umount", str(folder)], check=True)


@pytest.mark.slow
@pytest.mark.parametrize("store", STORES)
def test_full_disk_keeps_what_was_acknowledged(store: str, small_disk: Path) -> None:
    """No space left: an error, every acked entry there, and room again is all that it takes."""
    ledger, filler = small_disk / f"ledger.{store}", small_disk / "filler"
    open_store(ledger, create=True).close()
    filler.write_bytes(bytes(48_000))
    kept: list[bytes] = []
    failure: StoreError | None = None
    while failure is None:
        opened = open_store(ledger)
        try:
            kept += append(opened, 5, sizes=(2_000,))
        except StoreError as error:
            failure = error
        finally:
            opened.close()
        assert kept == checked(ledger)
    assert "full" in failure.found.lower() or "space" in failure.found.lower()
    filler.unlink()
    opened = open_store(ledger)
    opened.recover(small_disk / "quarantine")
    kept += append(opened, 5, sizes=(2_000,))
    opened.close()
    assert kept == checked(ledger)


def test_failing_disk_is_no_bug_of_ours(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """An error of the system that no store has named is `the store failed`, not exit code 1."""

    def fail(self: Path) -> bool:
        raise OSError(5, "Input/output error", str(self))

    monkeypatch.setattr(Path, "is_dir", fail)
    with pytest.raises(SystemExit) as ended:
        main(["log", "--ledger", "ledger.db"])
    assert EXIT_CODES["StoreError"] == ended.value.code
    assert "Input/output error" in capsys.readouterr().err
