"""A file is read whole up to its limit, and takes no more memory than it has bytes."""

from __future__ import annotations

import tracemalloc
from pathlib import Path

import pytest

from fairtrial.ledger.regular import read_regular


def test_a_limit_takes_no_memory(tmp_path: Path) -> None:
    """A small file under a limit of 2 GB costs what a small file costs."""
    path = tmp_path / "units.csv"
    path.write_bytes(b"x" * 1000)
    tracemalloc.start()
    try:
        assert read_regular(path, bytes_max=1 << 31) == b"x" * 1000
        assert tracemalloc.get_traced_memory()[1] < 1 << 20
    finally:
        tracemalloc.stop()


def test_the_limit_holds(tmp_path: Path) -> None:
    """As many bytes as the limit are read, one more is refused; an empty file is one too."""
    path = tmp_path / "units.csv"
    for size in (0, 10):
        path.write_bytes(b"x" * size)
        assert len(read_regular(path, bytes_max=10)) == size
    path.write_bytes(b"x" * 11)
    with pytest.raises(OSError, match="larger than 10 bytes"):
        read_regular(path, bytes_max=10)


def test_what_says_no_size_is_read_to_its_end() -> None:
    """Files of the kernel say 0 and hold more."""
    path = Path("/proc/self/status")
    if not path.exists():
        pytest.skip("no such files here")
    assert b"Name:" in read_regular(path, bytes_max=1 << 20)
