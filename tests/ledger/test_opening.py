"""Which store a path opens, and what is said where there is no ledger."""

from __future__ import annotations

import os
from contextlib import closing
from pathlib import Path

import pytest

from fairtrial.ledger.errors import NewerError, StoreError
from fairtrial.ledger.jsonl import JsonlStore
from fairtrial.ledger.opening import blob_store, open_store, side_folder
from fairtrial.ledger.sqlite import SqliteStore

from .chains import append_decisions


@pytest.mark.parametrize(
    ("name", "kind"),
    [("a.jsonl", JsonlStore), ("a.db", SqliteStore), ("a", SqliteStore), ("a.json", SqliteStore)],
)
def test_suffix_picks_the_store(tmp_path: Path, name: str, kind: type) -> None:
    """`.jsonl` is lines, everything else SQLite; a created ledger is opened again by its path."""
    path = tmp_path / "new" / name
    with closing(open_store(path, create=True)) as store:
        assert isinstance(store, kind)
        entries = append_decisions(store, 2)
    for create in (False, True):
        with closing(open_store(path, create=create)) as store:
            assert entries == list(store.read())


@pytest.mark.parametrize("name", ["ledger.db", "ledger.jsonl"])
@pytest.mark.parametrize("read_only", [True, False])
def test_missing_ledger_is_an_error_and_stays_missing(
    tmp_path: Path, name: str, read_only: bool
) -> None:
    """The error says where it looked; nothing is created."""
    path = tmp_path / "trial" / name
    with pytest.raises(StoreError, match="no ledger") as caught:
        open_store(path, read_only=read_only)
    assert (str(path), []) == (caught.value.where, list(tmp_path.iterdir()))


def test_folder_is_no_ledger(tmp_path: Path) -> None:
    """A folder is refused with the file to name instead."""
    with pytest.raises(StoreError, match="folder") as caught:
        open_store(tmp_path)
    assert str(tmp_path / "ledger.db") in caught.value.todo


@pytest.mark.parametrize("name", ["ledger.db", "ledger.jsonl"])
@pytest.mark.parametrize("create", [False, True])
def test_pipe_and_device_are_no_ledger(tmp_path: Path, name: str, create: bool) -> None:
    """What isn't a regular file is refused before it is opened: a pipe would wait for ever."""
    os.mkfifo(tmp_path / name)
    (tmp_path / f"device-{name}").symlink_to("/dev/zero")
    for path in (tmp_path / name, tmp_path / f"device-{name}"):
        with pytest.raises(StoreError, match="is none") as caught:
            open_store(path, create=create)
        assert str(path) == caught.value.where


@pytest.mark.parametrize(
    "content", [b'{"a":1}\n', b"a,b\n1,2\n", b"\n", b"[1]", b"SQLite format 3\0"]
)
def test_other_lines_are_no_ledger(tmp_path: Path, content: bytes) -> None:
    """A file of other lines is refused and stays as it was."""
    path = tmp_path / "ledger.jsonl"
    path.write_bytes(content)
    for create in (False, True):
        with pytest.raises(StoreError, match="not a ledger"):
            open_store(path, create=create)
    assert content == path.read_bytes()


@pytest.mark.parametrize("content", [b"", b'{"v":1,"led', b"\0" * 100, b'{"v":1,"ledger":"01'])
def test_torn_beginning_is_a_ledger(tmp_path: Path, content: bytes) -> None:
    """What a kill in the first append leaves is opened, so that it can be repaired."""
    path = tmp_path / "ledger.jsonl"
    path.write_bytes(content)
    store = open_store(path)
    assert (0, bool(content)) == (store.tail().size, store.torn() is not None)


def test_damaged_first_line_is_a_ledger(tmp_path: Path) -> None:
    """A ledger with a changed byte at its start is opened, so that replay can say so."""
    path = tmp_path / "ledger.jsonl"
    append_decisions(open_store(path, create=True), 2)
    for place in range(4):
        data = bytearray(path.read_bytes())
        data[place] ^= 1
        path.write_bytes(data)
        assert 2 == open_store(path, read_only=True).tail().size


def test_newer_lines_are_said(tmp_path: Path) -> None:
    """A ledger of another entry version needs a newer tool."""
    path = tmp_path / "ledger.jsonl"
    path.write_bytes(b'{"v":2,"ledger":"x"}\n')
    with pytest.raises(NewerError, match="newer"):
        open_store(path)


def test_blobs_are_in_the_side_folder(tmp_path: Path) -> None:
    """A ledger's blobs stand in `<ledger>.d/blobs`."""
    path = tmp_path / "ledger.db"
    blobs = blob_store(path)
    assert not side_folder(path).exists()
    blob = blobs.put(b"data")
    assert side_folder(path) / "blobs" / blob.blake3[:2] / blob.blake3 == blobs.path_of(blob)
