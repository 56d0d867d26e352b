"""The examples hold what their READMEs and protocols say, and run from protocol to verdict."""

from __future__ import annotations

import csv
import subprocess
import sys
from collections import Counter
from pathlib import Path

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
