"""Files come into being whole or not at all."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from fairtrial.ledger.durable import create_folder, write_all, write_file, write_new


def test_write_file_replaces_and_leaves_nothing_else(tmp_path: Path) -> None:
    """The name holds the new bytes, with the asked mode, and no other name is left."""
    path = tmp_path / "file"
    for content in (b"one", b"other"):
        write_file(path, content, mode=0o640)
        assert (content, [path]) == (path.read_bytes(), list(tmp_path.iterdir()))
    assert 0o640 == path.stat().st_mode & 0o777


def test_failed_write_keeps_the_old_file(tmp_path: Path) -> None:
    """When the new file can't take the name, the old bytes stay and nothing else does."""
    path = tmp_path / "folder"
    (path / "inside").mkdir(parents=True)
    with pytest.raises(OSError, match="folder"):
        write_file(path, b"new")
    assert [path] == list(tmp_path.iterdir())


def test_write_new_refuses_a_taken_name(tmp_path: Path) -> None:
    """A new file never replaces one."""
    path = tmp_path / "file"
    write_new(path, b"one")
    with pytest.raises(FileExistsError):
        write_new(path, b"two")
    assert b"one" == path.read_bytes()


def test_write_all_goes_on_after_short_writes() -> None:
    """A pipe that takes a part at a time gets everything."""
    data = os.urandom(300_000)
    reading, writing = os.pipe()
    received: list[bytes] = []

    def read() -> None:
        while part := os.read(reading, 7_000):
            received.append(part)

    thread = threading.Thread(target=read)
    thread.start()
    write_all(writing, data)
    os.close(writing)
    thread.join()
    os.close(reading)
    assert data == b"".join(received)


def test_create_folder_makes_parents_and_keeps_what_is_there(tmp_path: Path) -> None:
    """Parents come along; a second call changes nothing."""
    folder = tmp_path / "a" / "b"
    create_folder(folder)
    (folder / "file").write_bytes(b"x")
    create_folder(folder)
    assert b"x" == (folder / "file").read_bytes()


@pytest.mark.skipif(sys.platform == "win32", reason="there is no limit on file sizes to set")
@pytest.mark.parametrize("write", ["write_new", "write_file"])
def test_full_disk_leaves_no_name(tmp_path: Path, write: str) -> None:
    """A write that the system cuts off leaves neither its name nor a part of the file."""
    program = (
        "import resource, sys, pathlib\n"
        f"from fairtrial.ledger.durable import {write}\n"
        "resource.setrlimit(resource.RLIMIT_FSIZE, (4, 4))\n"
        f"{write}(pathlib.Path(sys.argv[1]), b'longer than that')\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", program, str(tmp_path / "file")], capture_output=True, check=False
    )
    assert b"File too large" in done.stderr
    assert [] == list(tmp_path.iterdir())


def test_write_new_leaves_a_link_that_leads_nowhere(tmp_path: Path) -> None:
    """A dangling link is a taken name too."""
    (tmp_path / "file").symlink_to(tmp_path / "nothing")
    with pytest.raises(FileExistsError):
        write_new(tmp_path / "file", b"new")
    assert [tmp_path / "file"] == list(tmp_path.iterdir())
