"""What a skipped test needs has to be there under FAIRTRIAL_REQUIRE_ALL=1."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
TESTS = """
import pytest

@pytest.fixture
def program():
    pytest.skip("needs a program")

def test_asks_in_a_fixture(program): ...

def test_asks_itself():
    pytest.skip("needs a program")

@pytest.mark.skipif(True, reason="needs a program")
def test_is_marked(): ...

@pytest.mark.skipif(True, reason="another system")
def test_is_for_another_system(): ...

@pytest.mark.xfail(reason="needs a program")
def test_is_known_to_fail():
    assert False
"""


@pytest.mark.slow
@pytest.mark.parametrize(
    ("required", "said"),
    [("1", "1 failed, 1 skipped, 1 xfailed, 2 errors"), ("", "4 skipped, 1 xfailed")],
)
def test_missing_program_fails_where_all_are_required(
    tmp_path: Path, required: str, said: str
) -> None:
    """A skip that "needs" something is one that CI must not pass over; others stay skips."""
    (tmp_path / "test_some.py").write_text(TESTS, encoding="utf-8")
    words = [
        "-p",
        "tests.conftest",
        "-p",
        "no:cacheprovider",
        "-p",
        "no:xdist",
        "-q",
        str(tmp_path),
    ]
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "--rootdir", str(tmp_path), "-c", os.devnull, *words],
        cwd=ROOT,
        env={**os.environ, "FAIRTRIAL_REQUIRE_ALL": required, "PYTEST_ADDOPTS": ""},
        capture_output=True,
        text=True,
        check=False,
    )
    assert said in done.stdout.splitlines()[-1]
