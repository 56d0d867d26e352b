"""The OUT folder of an attempt is its own, whoever else makes folders of such names."""

from __future__ import annotations

import os
import stat
from pathlib import Path

from fairtrial.drivers.attempt_folders import attempt_out


def test_name_that_is_taken_is_not_shared() -> None:
    """A forked process counts on from the same number; the second comer gets another folder."""
    with attempt_out(None) as first:
        stem, _, number = first.rpartition("-")
        taken = Path(f"{stem}-{int(number) + 1}")
        taken.mkdir()
        try:
            (taken / "others.txt").write_text("of another process")
            with attempt_out(None) as second:
                assert Path(second) != taken
                assert os.listdir(second) == []
            assert [path.name for path in taken.iterdir()] == ["others.txt"]
        finally:
            (taken / "others.txt").unlink()
            taken.rmdir()


def test_nobody_else_may_read_it() -> None:
    """Its mode is that of a private folder, and it is gone afterwards."""
    with attempt_out(None) as out:
        assert stat.S_IMODE(os.stat(out).st_mode) == 0o700
    assert not Path(out).exists()
