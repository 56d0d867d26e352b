"""docs/anchoring.md: its commands, typed in order in one shell, do what it says."""

from __future__ import annotations

import hashlib
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.custody.timestamp_authority import Authority, require_timestamps

ROOT = Path(__file__).resolve().parents[2]
PAGE = (ROOT / "docs" / "anchoring.md").read_text(encoding="utf-8")
# What the page says that a program can be told by its environment.
VARIABLES = ("KEY", "KEYS", "STATE", "POLICY", "TSA", "TSA_ROOTS")
# Stands for the network: an authority answers the request that curl would have carried to it.
CARRIER = """#!/bin/sh
here=$PWD
cd '{folder}'
exec openssl ts -reply -config tsa.cnf -queryfile "$here/stamp.tsq" -out "$here/stamp.tsr"
"""


@pytest.mark.slow
def test_page_can_be_typed(tmp_path: Path) -> None:
    """From a key to a statement no line fails, and each replay reaches what it requires."""
    require_timestamps()
    authority = Authority(tmp_path / "authority")
    work, programs = tmp_path / "work", tmp_path / "bin"
    work.mkdir()
    programs.mkdir()
    (programs / "curl").write_text(CARRIER.format(folder=authority.folder))
    (programs / "curl").chmod(0o755)
    (work / "roots.pem").write_bytes(authority.roots)
    rows = [
        f"c{c:02}-{u},c{c:02},{int(u == 0)},{int(c % 4 > 0)}" for c in range(12) for u in (0, 1)
    ]
    (work / "table.csv").write_text("\n".join(["unit,cluster,old,new", *rows]) + "\n")
    lines = re.findall(r"^    (\S.*)$", PAGE, flags=re.MULTILINE)
    script = "\n".join(["set -eu", "ledger init --from table.csv --arms old,new .", *lines])
    path = [str(programs), str(Path(sys.executable).parent), os.environ["PATH"]]
    kept = {name: value for name, value in os.environ.items() if "FAIRTRIAL" not in name}
    run = subprocess.run(
        ["sh", "-c", script],
        cwd=work,
        env={**kept, "HOME": str(tmp_path), "PATH": os.pathsep.join(path)}
        | {f"FAIRTRIAL_{name}": str(tmp_path / name.lower()) for name in ("KEYS", "STATE")},
        capture_output=True,
        text=True,
        check=False,
    )
    assert 0 == run.returncode, run.stdout[-2000:] + run.stderr[-2000:]
    for said in ("on record as witness", "on record as timestamp", "Verification: OK", "HOLDS"):
        assert said in run.stdout + run.stderr


def test_page_and_help_name_each_variable() -> None:
    """What is told by the environment is on the page."""
    assert [] == [name for name in VARIABLES if f"FAIRTRIAL_{name}" not in PAGE]


def test_digest_of_the_verifier_is_published() -> None:
    """docs/verify_ledger.sha256 is that of docs/verify_ledger.py, in the form of sha256sum."""
    digest = hashlib.sha256((ROOT / "docs" / "verify_ledger.py").read_bytes()).hexdigest()
    published = (ROOT / "docs" / "verify_ledger.sha256").read_text()
    assert f"{digest}  verify_ledger.py\n" == published
