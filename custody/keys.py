"""Key files: made, read, and refused when others could read them.

Leaves what is signed with a key to `heads.py`, `approving.py` and `witnessing.py`.

Rules:
- A key is one file NAME.key of mode 0600 in a folder of mode 0700: FAIRTRIAL_KEYS, else
  fairtrial/keys in XDG_CONFIG_HOME, else in ~/.config. It never lies beside a ledger.
- A key has one use: ledger (signs heads), witness (cosigns heads of others) or person (signs
  entries). It is refused for the others, so that no signature can be shown as another kind.
- Which key signs is said by name; a key is never picked because it is the only one.
- A new key never replaces a file.
"""

from __future__ import annotations

import os
import re
import secrets
import stat
from collections.abc import Mapping
from pathlib import Path
from typing import Literal, NamedTuple, TypeAlias

import msgspec

from fairtrial.ledger.checkpoint import SEED_BYTES, SigningKey
from fairtrial.ledger.durable import create_folder, sync_folder, write_new
from fairtrial.ledger.errors import RefusedError
from fairtrial.ledger.note import VerifierKey, check_key_name

from .places import key_folder

__all__ = (
    "Key",
    "KeyUse",
    "create_key",
    "list_keys",
    "load_key",
)

KeyUse: TypeAlias = Literal["ledger", "witness", "person"]
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}", re.ASCII)
_FILE_BYTES_MAX = 4096


class _KeyFile(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The content of a key file, one line of JSON."""

    v: Literal[1]
    use: KeyUse
    signs_as: str
    seed: bytes


class Key(NamedTuple):
    """A private key with the name of its file, its one use, and the name that it signs as.

    A ledger's key signs as the origin of the ledger, whatever its own name.
    """

    name: str
    use: KeyUse
    signs_as: str
    signer: SigningKey

    def verifier(self) -> VerifierKey:
        """Returns the public half of a witness's or a person's key."""
        return self.signer.verifier(self.signs_as, cosigner=self.use == "witness")


def create_key(
    name: str, use: KeyUse, *, environment: Mapping[str, str], signs_as: str | None = None
) -> Key:
    """Makes a key of 32 random bytes and keeps it; durable when it returns.

    Args:
        name: The name of its file.
        use: What it may sign.
        environment: Where keys lie.
        signs_as: The name in its signatures; None: that of the file.

    Raises:
        RefusedError: A key of this name exists, or the folder is open to others.
    """
    path = _path(name, environment)
    check_key_name(signs_as or name)
    _make_private(path.parent)
    seed = secrets.token_bytes(SEED_BYTES)
    content = _KeyFile(v=1, use=use, signs_as=signs_as or name, seed=seed)
    try:
        write_new(path, msgspec.json.encode(content) + b"\n", mode=0o600)
    except FileExistsError as error:
        raise RefusedError(
            "a key of this name exists; a key is never replaced",
            where=str(path),
            todo="choose another name; ledger key show lists the keys",
        ) from error
    return load_key(name, use, environment=environment)


def _make_private(folder: Path) -> None:
    if not folder.exists():
        create_folder(folder.parent)
        folder.mkdir(mode=0o700)
        sync_folder(folder.parent)
    _check_private(folder, folder.lstat(), 0o700)


def load_key(name: str, use: KeyUse, *, environment: Mapping[str, str]) -> Key:
    """Returns a key for one use.

    Raises:
        RefusedError: There is no such key, others could read or replace it, or it has another use.
    """
    path = _path(name, environment)
    if not path.is_symlink() and not path.exists():
        known = ", ".join(one.name for one in list_keys(environment)) or "no key"
        raise RefusedError(
            "there is no such key",
            where=str(path),
            expected=known,
            found=name,
            todo=f"ledger key new {name}",
        )
    key = _read(path)
    if key.use != use:
        raise RefusedError(
            "a key has one use, and this isn't it",
            where=str(path),
            expected=f"a key for the use {use}",
            found=f"a key for the use {key.use}",
            todo=f"ledger key new NAME --use {use}",
        )
    return key


def list_keys(environment: Mapping[str, str]) -> list[Key]:
    """Returns all keys by name; files that aren't acceptable are left out."""
    keys: list[Key] = []
    for path in sorted(key_folder(environment).glob("*.key")):
        try:
            keys.append(_read(path))
        except RefusedError:
            # What can't be used isn't offered; naming it says why.
            continue
    return keys


def _path(name: str, environment: Mapping[str, str]) -> Path:
    if not _NAME.fullmatch(name):
        raise RefusedError(
            "this can't be the name of a key file",
            expected="1 to 64 letters, digits, `.`, `_` or `-`, no path",
            found=name or "an empty name",
            todo="choose another name; ledger key show lists the keys",
        )
    return key_folder(environment) / f"{name}.key"


def _read(path: Path) -> Key:
    _check_private(path.parent, path.parent.lstat(), 0o700)
    try:
        # Without waiting: what isn't a file is refused just below.
        flags = getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0)
        fd = os.open(path, os.O_RDONLY | flags)
    except OSError as error:
        found = error.strerror or str(error)
        raise _open_to_others(path, "a regular file", found) from error
    try:
        # The file that is read is the one that is checked.
        _check_private(path, os.fstat(fd), 0o600)
        data = os.read(fd, _FILE_BYTES_MAX)
    finally:
        os.close(fd)
    try:
        content = msgspec.json.decode(data, type=_KeyFile)
        signer = SigningKey(content.seed)
    except (msgspec.MsgspecError, ValueError):
        # Without the parser's words: they could hold a part of the key.
        raise RefusedError(
            "the file holds no key",
            where=str(path),
            expected="the JSON that `ledger key new` wrote",
            found=f"{len(data)} bytes of another form (not shown: they may hold a part of a key)",
            todo="restore it from a copy; without one, make a new key: ledger key new NAME",
        ) from None
    return Key(path.stem, content.use, content.signs_as, signer)


def _check_private(path: Path, status: os.stat_result, mode: int) -> None:
    """Refuses what others could read or replace; nothing to check where there are no modes.

    Raises:
        RefusedError: It is a link, belongs to someone else, or has wider permissions.
    """
    is_folder = mode == 0o700
    if not (stat.S_ISDIR if is_folder else stat.S_ISREG)(status.st_mode):
        raise _open_to_others(path, "a folder" if is_folder else "a regular file", "another thing")
    if os.name == "nt":
        return
    if status.st_uid != os.geteuid():
        raise _open_to_others(path, f"owner {os.geteuid()}", f"owner {status.st_uid}")
    if stat.S_IMODE(status.st_mode) & ~mode:
        found = f"mode {stat.S_IMODE(status.st_mode):04o}"
        raise _open_to_others(path, f"mode {mode:04o}", found, f"chmod {mode:o} {path}")


def _open_to_others(path: Path, expected: str, found: str, todo: str = "") -> RefusedError:
    return RefusedError(
        "the key can't be trusted: others could read or replace it",
        where=str(path),
        expected=expected,
        found=found,
        todo=todo or "keep keys in files and a folder of your own",
    )
