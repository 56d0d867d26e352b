"""The same numbers at any order of input, number of threads and version of numpy.

The test of versions runs where FAIRTRIAL_OTHER_PYTHON names an interpreter with this project's
dependencies and another minor version of numpy, as `.ci/other-numpy` makes one.
"""

from __future__ import annotations

import json
import math
import os
import random
import subprocess
import sys
from pathlib import Path

import pytest

import fairtrial.cli

PROGRAM = Path(__file__).with_name("numbers_program.py")
OTHER = os.environ.get("FAIRTRIAL_OTHER_PYTHON", "")
THREADS = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "VECLIB_MAXIMUM_THREADS")
# Between versions the quantiles of scipy.special may differ in their last bits; replay takes 1e-9.
TOLERANCE = 1e-10
PROTOCOL = """
protocol: 1
id: versions
about: {hypothesis: B orders candidates better than A.}
units: {file: units.csv, id: unit, cluster: cluster, label: label}
design: {pairing: paired, seed: 41}
arms:
  A: {driver: {kind: recorded, file: o.csv, where: {arm: A}, columns: {unit: unit, score: score,
      passed: passed}}}
  B: {driver: {kind: recorded, file: o.csv, where: {arm: B}, columns: {unit: unit, score: score,
      passed: passed}}}
control: A
endpoints:
  - {name: found, role: primary, type: binary, value: passed, better: higher}
  - {name: area, role: secondary, type: auc, value: score, better: higher}
  - {name: level, role: secondary, type: bounded, bounds: [-9, 9], value: score, better: higher}
missing: {rules: {failed: exclude_pair, timeout: exclude_pair, limit: exclude_pair, error:
  exclude_pair, ungraded: exclude_pair, replay_miss: exclude_pair, invalidated: exclude_pair},
  limit: 0.1}
analysis: {estimand: unit_weighted, resamples: 1999, also: [bootstrap, wild_bootstrap, sign_flip,
  mcnemar, cluster_weighted]}
looks: {at: [0.4, 0.7, 1.0], icc: 0.05, on_crossing: continue}
decision: {rule: superiority}
power: {effect: 0.15, assume: {discordance: 0.3, icc: 0.05}, accept: {underpowered: a test}}
budget: {usd: 0}
"""


@pytest.fixture(scope="module")
def package(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Returns a folder whose `fairtrial` is this very package, for another interpreter."""
    root = Path(fairtrial.cli.__file__).parent
    folder = tmp_path_factory.mktemp("package")
    (folder / "fairtrial").symlink_to(root, target_is_directory=True)
    return folder


def run(
    python: str, package: Path, *words: str, folder: Path | None = None, threads: int = 1
) -> str:
    """Runs an interpreter on this package and returns what it printed."""
    done = subprocess.run(
        [python, "-P", *words],
        cwd=folder,
        env={
            **os.environ,
            "PYTHONPATH": str(package),
            "PYTHONDONTWRITEBYTECODE": "1",
            **dict.fromkeys(THREADS, str(threads)),
        },
        capture_output=True,
        text=True,
        check=False,
    )
    assert 0 == done.returncode, done.stderr + done.stdout
    return done.stdout


def ledger(python: str, package: Path, folder: Path, *words: str) -> str:
    """Runs the command `ledger` under an interpreter."""
    call = "import sys; from fairtrial.cli import main; main(sys.argv[1:])"
    return run(python, package, "-c", call, *words, folder=folder)


@pytest.mark.slow
def test_bits_do_not_depend_on_threads_or_order(package: Path) -> None:
    """One thread or two, units in any order, clusters of any name: every number has equal bits."""
    first = run(sys.executable, package, str(PROGRAM), "0", threads=1)
    assert len(json.loads(first)["auc_bootstrap"]) > 5
    assert first == run(sys.executable, package, str(PROGRAM), "0", threads=2)
    for order in ("3", "4"):
        assert first == run(sys.executable, package, str(PROGRAM), order, threads=2)


def other_python(package: Path) -> str:
    """Returns the other interpreter; skips where there is none, fails where it is no other one."""
    if not OTHER:
        pytest.skip("FAIRTRIAL_OTHER_PYTHON names no interpreter with another version of numpy")
    call = "import numpy; print('.'.join(numpy.__version__.split('.')[:2]))"
    own, found = (run(python, package, "-c", call) for python in (sys.executable, OTHER))
    assert own != found, f"both interpreters have numpy {own}"
    return OTHER


@pytest.mark.slow
def test_numbers_are_those_of_another_numpy(package: Path) -> None:
    """All numbers agree to ten digits, those without quantiles of scipy to the last bit."""
    other = other_python(package)
    own, found = (
        json.loads(run(python, package, str(PROGRAM), "0")) for python in (sys.executable, other)
    )
    assert own.keys() == found.keys()
    for name in ("bootstrap", "wild", "sign_flip", "boundary", "pocock", "betting", "simulated"):
        assert own[name] == found[name], name
    for name, texts in own.items():
        for mine, theirs in zip(texts, found[name], strict=True):
            if mine != theirs:
                numbers = float.fromhex(mine), float.fromhex(theirs)
                assert math.isclose(*numbers, rel_tol=TOLERANCE, abs_tol=1e-300), name


@pytest.mark.slow
def test_ledgers_replay_under_another_numpy(package: Path, tmp_path: Path) -> None:
    """The demo, and a trial with AUC, bootstraps and a power report, replay equal both ways."""
    other = other_python(package)
    for name, (writer, reader) in {
        "mine": (sys.executable, other),
        "theirs": (other, sys.executable),
    }.items():
        folder = tmp_path / name
        folder.mkdir()
        make_trial(folder)
        power = ("power", "p.yaml", "--runs", "100", "--json")
        report = ledger(writer, package, folder, *power)
        (folder / "power.json").write_text(report, encoding="utf-8")
        register = ("register", "p.yaml", "--power-report", "power.json", "--override", "a test")
        ledger(writer, package, folder, *register)
        ledger(writer, package, folder, "run")
        ledger(writer, package, folder, "result")
        replayed(reader, package, folder)
        again = ledger(reader, package, folder, *power)
        assert alike(json.loads(report), json.loads(again))
    ledger(sys.executable, package, tmp_path, "demo")
    replayed(other, package, tmp_path / "fairtrial-demo")


def replayed(python: str, package: Path, folder: Path) -> None:
    """Replays a ledger and expects no finding at any level, that of numbers included."""
    said = json.loads(ledger(python, package, folder, "replay", "--json"))
    assert ("intact", []) == (said["record"], said["findings"])
    assert "ok" == said["levels"]["numbers"]


def alike(first: object, second: object) -> bool:
    """Returns whether two JSON values are equal, floats to ten digits."""
    if isinstance(first, float) and isinstance(second, float):
        return math.isclose(first, second, rel_tol=TOLERANCE, abs_tol=TOLERANCE)
    if isinstance(first, dict) and isinstance(second, dict):
        return first.keys() == second.keys() and all(alike(first[k], second[k]) for k in first)
    if isinstance(first, list) and isinstance(second, list):
        return len(first) == len(second) and all(map(alike, first, second))
    return first == second


def make_trial(folder: Path) -> None:
    """Writes a recorded trial of 400 units in 25 clusters."""
    source = random.Random(6)
    units, rows = ["unit,cluster,label"], ["unit,arm,score,passed"]
    for number in range(400):
        cluster, label = number % 25, number % 3 == 0
        units.append(f"u{number:03},c{cluster:02},{int(label)}")
        for arm, shift in (("A", 0.5), ("B", 0.9)):
            score = source.gauss(shift * label + 0.02 * cluster, 1.0)
            rows.append(f"u{number:03},{arm},{max(-9.0, min(9.0, score))!r},{int(score > 0.2)}")
    (folder / "units.csv").write_text("\n".join(units) + "\n", encoding="utf-8")
    (folder / "o.csv").write_text("\n".join(rows) + "\n", encoding="utf-8")
    (folder / "p.yaml").write_text(PROTOCOL, encoding="utf-8")
