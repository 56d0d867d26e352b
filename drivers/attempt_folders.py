"""The folders of one attempt, and the files that an answer declares.

Leaves who writes there to the drivers.

Rules:
- HOME, TMPDIR and OUT are new and empty for each attempt, and removed after it. A call in this
  process has the home of the process, so it gets OUT alone.
- A declared artifact is a file inside OUT, no link; its name isn't stdout, stderr or answer.
- A link that was put in the place of a folder is no such folder: it alone is removed, nothing is
  read or changed where it leads.
"""

from __future__ import annotations

import os
import secrets
import shutil
import stat
import tempfile
from collections.abc import Generator
from contextlib import contextmanager
from functools import cache
from itertools import count
from pathlib import Path
from typing import NamedTuple

from fairtrial.ledger.errors import DriverError

__all__ = (
    "OUTPUT_BYTES_MAX",
    "AttemptFolders",
    "attempt_folders",
    "attempt_out",
    "read_artifacts",
)

OUTPUT_BYTES_MAX = 64 * 2**20
_PREFIX = "fairtrial-"
_NUMBERS = count()
_OWN_NAMES = frozenset({"stdout", "stderr", "answer"})


class AttemptFolders(NamedTuple):
    """Where one attempt may write."""

    home: Path
    temporary: Path
    out: Path


@contextmanager
def attempt_folders(out: Path | None) -> Generator[AttemptFolders]:
    """Makes the folders of one attempt and removes them with all that is in them."""
    root = Path(tempfile.mkdtemp(prefix=_PREFIX))
    try:
        folders = AttemptFolders(root / "home", root / "tmp", out or root / "out")
        for folder in folders:
            folder.mkdir(exist_ok=True)
        yield folders
    finally:
        _remove(str(root))


@contextmanager
def attempt_out(out: Path | None) -> Generator[str]:
    """Makes the OUT folder of one attempt, where none is given, and removes it with all in it.

    Its path is text: a trivial attempt pays for a path object as much as for half of its folder,
    and each name would stay for a while among those that `pathlib` keeps.
    """
    if out is not None:
        out.mkdir(exist_ok=True)
        yield str(out)
        return
    made = _new_folder()
    try:
        yield made
    finally:
        _remove(made)


@cache
def _own_name() -> str:
    """Returns a beginning of names that no other process has."""
    return f"{_PREFIX}{secrets.token_hex(8)}-"


def _new_folder() -> str:
    """Makes a folder for nobody else: as `mkdtemp` does, at a third of its cost."""
    made = os.path.join(tempfile.gettempdir(), f"{_own_name()}{next(_NUMBERS)}")
    try:
        os.mkdir(made, 0o700)
    except FileExistsError:
        # A process that was forked from this one counts on from the same number.
        return tempfile.mkdtemp(prefix=_PREFIX)
    return made


def _remove(root: str) -> None:
    """Removes a tree, folders without the right to write in them included."""
    try:
        os.rmdir(root)
    except OSError:
        _remove_full(Path(root))


def _remove_full(root: Path) -> None:
    if root.is_symlink():
        root.unlink(missing_ok=True)
        return
    for folder, _, _ in os.walk(root):
        if not os.access(folder, os.W_OK | os.X_OK):
            os.chmod(folder, 0o700)
    shutil.rmtree(root, ignore_errors=True)


def read_artifacts(out: Path, names: tuple[str, ...], bytes_max: int) -> dict[str, bytes] | None:
    """Returns the bytes of declared files; None when they are more than may be kept.

    Raises:
        DriverError: A name is taken or leads out of the folder, or no such file is there.
    """
    files: dict[str, bytes] = {}
    left = bytes_max
    for name in names:
        if name in _OWN_NAMES or name in files:
            raise DriverError(
                "an artifact's name is taken",
                where=name,
                expected="each artifact once, and no name that the run itself uses",
                todo=f"name it otherwise; taken are {', '.join(sorted(_OWN_NAMES))}",
            )
        data = _read_inside(out, name, left)
        if data is None:
            return None
        files[name] = data
        left -= len(data)
    return files


def _read_inside(out: Path, name: str, bytes_max: int) -> bytes | None:
    root = out.parent.resolve() / out.name
    path = root / name
    # A link could name any file of the machine, and a pipe would never end.
    if path.resolve() != path or not path.is_relative_to(root):
        raise DriverError(
            "an artifact lies outside of the OUT folder, or is a link",
            where=name,
            expected=f"a file in {root}",
            found=str(path.resolve()),
            todo="copy it there and name it by its path in OUT",
        )
    try:
        handle = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
        with open(handle, "rb") as file:
            if not stat.S_ISREG(os.fstat(handle).st_mode):
                raise DriverError(
                    "an artifact is not a file",
                    where=name,
                    expected="a regular file",
                    found="a folder, a pipe or a device",
                    todo="name each file of a folder",
                )
            data = file.read(bytes_max + 1)
    except OSError as error:
        raise DriverError(
            "a declared artifact can't be read",
            where=name,
            expected=f"a file in {root}",
            found=error.strerror or str(error),
            todo="write it before the answer, or don't name it",
        ) from error
    return data if len(data) <= bytes_max else None
