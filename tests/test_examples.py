"""The examples hold what their READMEs and protocols say, and run from protocol to verdict."""

from __future__ import annotations

import csv
import json
import shutil
import subprocess
import sys
from collections import Counter
from collections.abc import Callable
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from typing import Any

import pytest

EXAMPLES = Path(__file__).resolve().parent.parent / "examples"


def rows(path: str) -> list[dict[str, str]]:
    """Returns the rows of a CSV file below examples/."""
    with (EXAMPLES / path).open(newline="", encoding="utf-8") as file:
        return list(csv.DictReader(file))


@pytest.mark.parametrize(
    ("name", "units", "clusters", "largest", "control", "treatment", "counts"),
    [
        (
            "pro",
            730,
            11,
            96,
            "gpt-5-250-turns-10132025",
            "claude-45sonnet-10132025",
            (729, 59, 113),
        ),
        ("verified", 500, 12, 231, "baseline", "polydev", (500, 40, 50)),
    ],
)
def test_demo_data_hold_what_was_published(
    name: str,
    units: int,
    clusters: int,
    largest: int,
    control: str,
    treatment: str,
    counts: tuple[int, int, int],
) -> None:
    """Units, clusters, complete pairs and discordant pairs are those of the sources."""
    cluster_of = {row["unit"]: row["cluster"] for row in rows(f"demo/{name}-units.csv")}
    outcomes = rows(f"demo/{name}-outcomes.csv")
    passed = {(row["arm"], row["unit"]): int(row["passed"]) for row in outcomes}
    pairs = [
        (passed[control, unit], passed[treatment, unit])
        for unit in cluster_of
        if (control, unit) in passed and (treatment, unit) in passed
    ]
    sizes = Counter(cluster_of.values())
    assert (units, clusters, largest) == (len(cluster_of), len(sizes), max(sizes.values()))
    assert counts == (len(pairs), pairs.count((1, 0)), pairs.count((0, 1)))
    assert {(row["unit"], row["cluster"]) for row in outcomes} == set(cluster_of.items())


@pytest.mark.slow
def test_diagnostic_units_are_those_of_the_data_set() -> None:
    """units.csv is what make_units.py prints, so nobody has edited a label by hand."""
    command = [sys.executable, str(EXAMPLES / "diagnostic/make_units.py")]
    printed = subprocess.run(command, capture_output=True, check=True).stdout
    assert (EXAMPLES / "diagnostic/units.csv").read_bytes() == printed


@pytest.mark.parametrize(
    ("job", "expected"),
    [
        ('{"v":1,"unit":"p1","input":{"worst_radius":"17.5"}}', "malignant"),
        ('{"v":1,"unit":"p1","input":{"worst_radius": 16.5}}', "benign"),
        ('{"v":1,"unit":"p1","input":{"worst_radius":"9.9","worst_area":"99"}}', "benign"),
    ],
)
def test_threshold_script_reads_its_own_measurement(job: str, expected: str) -> None:
    """The shell script answers from the named feature, sent as text or as a number."""
    command = ["sh", str(EXAMPLES / "diagnostic/threshold.sh"), "worst_radius", "17"]
    run = subprocess.run(command, input=f"{job}\n", capture_output=True, text=True, check=True)
    assert f"{expected}\n" == run.stdout


def test_threshold_script_fails_without_its_measurement() -> None:
    """No measurement is an infrastructure error and no answer: the exit status is not 0."""
    command = ["sh", str(EXAMPLES / "diagnostic/threshold.sh"), "worst_radius", "17"]
    run = subprocess.run(
        command, input='{"input":{}}\n', capture_output=True, text=True, check=False
    )
    assert (1, "") == (run.returncode, run.stdout)


def ledger(folder: Path, *arguments: str) -> str:
    """Runs a command in a folder and returns what it printed."""
    program = "from fairtrial.cli import main; main()"
    command = [sys.executable, "-c", program, *arguments]
    run = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
    assert 0 == run.returncode, f"{arguments}: {run.stdout}{run.stderr}"
    return run.stdout


def verdict_of(folder: Path, protocol: str) -> dict[str, Any]:
    """Takes an example in a copy of its folder from protocol to result; replays the ledger."""
    ledger(folder, "check", protocol)
    ledger(folder, "register", protocol)
    ledger(folder, "run", "--quiet", "--concurrency", "16")
    result: dict[str, Any] = json.loads(ledger(folder, "result", "--json"))
    replay = json.loads(ledger(folder, "replay", "--json"))
    assert ("intact", []) == (replay["record"], replay["findings"])
    assert {result["experiment"]: result["verdict"]} == replay["verdicts"]
    return result


def endpoint_of(result: dict[str, Any], name: str) -> dict[str, Any]:
    """Returns an endpoint of the only comparison of a result."""
    (comparison,) = result["comparisons"]
    return next(each for each in comparison["endpoints"] if each["name"] == name)


def copy_of(example: str, folder: Path) -> Path:
    """Returns a fresh copy of an example's folder."""
    return shutil.copytree(
        EXAMPLES / example, folder / example, ignore=shutil.ignore_patterns("__*")
    )


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "verdict", "reason", "difference", "error", "df", "interval"),
    [
        ("pro", "adopt", "interval_favours", 0.0741, 0.0255, 8.99, (0.0146, 0.1348)),
        ("verified", "inconclusive", "low_df", 0.0200, 0.0472, 3.33, (-0.142, 0.184)),
    ],
)
def test_recorded_example_reaches_its_verdict(
    tmp_path: Path,
    name: str,
    verdict: str,
    reason: str,
    difference: float,
    error: float,
    df: float,
    interval: tuple[float, float],
) -> None:
    """Both demo protocols give the numbers that were computed apart, and say retrospective."""
    result = verdict_of(copy_of("demo", tmp_path), f"{name}.yaml")
    endpoint = endpoint_of(result, "resolved")
    assert (verdict, reason, "recorded") == (
        result["verdict"],
        result["reason_code"],
        result["evidence"],
    )
    assert ["A", "B"] == result["existed_before"]
    assert difference == pytest.approx(endpoint["difference"], abs=5e-5)
    assert error == pytest.approx(endpoint["standard_error"], abs=5e-5)
    assert df == pytest.approx(endpoint["df"], abs=5e-3)
    found = (endpoint["interval"]["lower"], endpoint["interval"]["upper"])
    assert interval == pytest.approx(found, abs=5e-4)


@pytest.mark.slow
def test_python_example_compares_two_classifiers(tmp_path: Path) -> None:
    """The live result counts what the two models answer when each patient is asked by hand."""
    malignant = [row for row in rows("diagnostic/units.csv") if row["label"] == "1"]
    answer = classifier()
    found = {
        model: [
            "malignant"
            == answer({"unit": row["unit"], "input": row, "config": {"model": model}})["answer"]
            for row in malignant
        ]
        for model in ("logistic", "forest")
    }

    result = verdict_of(copy_of("diagnostic", tmp_path), "protocol.yaml")
    assert ("inconclusive", "live", True) == (
        result["verdict"],
        result["evidence"],
        result["as_registered"],
    )
    check_sensitivity(result, "logistic", found["logistic"], "forest", found["forest"])


@pytest.mark.slow
def test_command_example_compares_two_thresholds(tmp_path: Path) -> None:
    """The live result of the shell script counts what the table of patients says."""
    malignant = [row for row in rows("diagnostic/units.csv") if row["label"] == "1"]
    size = [float(row["worst_radius"]) > 17 for row in malignant]
    outline = [float(row["worst_concave_points"]) > 0.15 for row in malignant]

    result = verdict_of(copy_of("diagnostic", tmp_path), "protocol-command.yaml")
    assert ("inconclusive", "live", True) == (
        result["verdict"],
        result["evidence"],
        result["as_registered"],
    )
    check_sensitivity(result, "size", size, "outline", outline)


def classifier() -> Callable[[dict[str, Any]], dict[str, Any]]:
    """Returns the function that both arms of the Python example call."""
    spec = spec_from_file_location("classifiers", EXAMPLES / "diagnostic/classifiers.py")
    assert spec is not None
    assert spec.loader is not None
    module = module_from_spec(spec)
    spec.loader.exec_module(module)
    function: Callable[[dict[str, Any]], dict[str, Any]] = module.answer
    return function


def check_sensitivity(
    result: dict[str, Any], control: str, before: list[bool], treatment: str, after: list[bool]
) -> None:
    """Checks shares, difference and discordant counts against answers that were got otherwise."""
    endpoint = endpoint_of(result, "sensitivity")
    pairs = list(zip(before, after, strict=True))
    assert 212 == len(pairs)
    assert pytest.approx(sum(before) / 212) == endpoint["arms"][control]
    assert pytest.approx(sum(after) / 212) == endpoint["arms"][treatment]
    assert pytest.approx((sum(after) - sum(before)) / 212) == endpoint["difference"]
    assert {
        "only_control": pairs.count((True, False)),
        "only_treatment": pairs.count((False, True)),
    } == endpoint["discordant"]
