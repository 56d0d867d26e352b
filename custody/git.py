"""What git says of a file: its commit, its path there, and whether it is committed as it is.

Leaves the consequences to `registering.py`.

Rules:
- Only the program `git` is asked; where it or a work tree is missing the answer is None.
- A file that git ignores counts as outside git.
- The ledger and what lies beside it never count as changes.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

__all__ = ("GitFile", "git_commit", "git_file", "git_is_clean", "git_tree", "uncommitted")


class GitFile(NamedTuple):
    """A file in a git work tree: HEAD's commit and the file's path from the tree's root."""

    commit: str
    path: str


def _git(folder: Path, *arguments: str) -> str | None:
    """Returns what git prints, or None when it fails or isn't there."""
    import subprocess

    try:
        done = subprocess.run(
            ["git", "-C", str(folder), *arguments],
            capture_output=True,
            stdin=subprocess.DEVNULL,
            check=False,
            text=True,
            errors="surrogateescape",
        )
    except OSError:
        return None
    return done.stdout if done.returncode == 0 else None


def git_commit(folder: Path) -> str | None:
    """Returns HEAD's commit, or None outside a work tree or before the first commit."""
    out = _git(folder, "rev-parse", "--verify", "HEAD")
    return out.strip() if out else None


def git_tree(folder: Path) -> Path | None:
    """Returns the root of the work tree that a folder is in, symbolic links followed."""
    top = _git(folder, "rev-parse", "--show-toplevel")
    return Path(top.strip()).resolve() if top else None


def git_file(path: Path) -> GitFile | None:
    """Returns where git knows a file, or None when it is outside a work tree or ignored."""
    top = _git(path.parent, "rev-parse", "--show-toplevel")
    if not top or _git(path.parent, "check-ignore", "-q", "--", str(path)) is not None:
        return None
    inside = path.resolve().relative_to(Path(top.strip()).resolve())
    return GitFile(git_commit(path.parent) or "none", inside.as_posix())


def uncommitted(paths: Sequence[Path]) -> list[Path]:
    """Returns the files whose bytes aren't those committed at HEAD, ignored ones left out."""
    return [path for path in paths if git_file(path) is not None and not _is_committed(path)]


def _is_committed(path: Path) -> bool:
    status = _git(path.parent, "status", "--porcelain=v1", "--", str(path))
    known = _git(path.parent, "ls-files", "--error-unmatch", "--", str(path))
    return status == "" and known is not None


def git_is_clean(folder: Path, *, ledger: Path) -> bool:
    """Returns whether the work tree has no change but the ledger's own files."""
    out = _git(folder, "status", "--porcelain=v1", "--untracked-files=all")
    if out is None:
        return False
    own = ledger.name
    return all(own in line for line in out.splitlines())
