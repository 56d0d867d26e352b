"""Sets aside what a crash left after the last whole entry, and puts that on record.

Leaves it to the stores to say what is torn and to move the bytes.

Rules:
- Only an act that writes does it, before anything else of it; reading repairs nothing.
- A ledger that was rolled back or forked is refused first, with its torn bytes where they are.
- The bytes stand in a file of their own before they leave the ledger. The entry that names them
  comes after: an opening that is killed in between is made good by the next one.
- Whoever listens is told how many bytes they were, where they are kept and which entry says so.
- A whole entry that only lacked its newline is completed; nothing was lost, so nothing is recorded.
- A file in quarantine whose place isn't the end of an entry is of a ledger that lay here before:
  it stays where it is, and no entry names it. So does what isn't a file as the stores write them:
  of another form of name, or with other bytes than its name says.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from fairtrial.ledger.borders import not_borders
from fairtrial.ledger.canonical import sha256_hex
from fairtrial.ledger.errors import IntegrityError, TornError
from fairtrial.ledger.events import Recover
from fairtrial.ledger.log import Log
from fairtrial.ledger.merkle import leaf_hash
from fairtrial.ledger.opening import side_folder
from fairtrial.ledger.port import LogStore, Torn
from fairtrial.ledger.state import State, next_number

from .cache_key import cache_key
from .notices import tell
from .remembering import check_remembered

if TYPE_CHECKING:
    from .trial import Reader, Trial

__all__ = ("check_before_recovery", "check_begun", "record_torn", "set_torn_aside")

# How the name of a file in quarantine ends: its place, and the beginning of its digest.
_NAME = re.compile(r"-(0|[1-9][0-9]{0,15})-([0-9a-f]{16})\.torn\Z")


def check_begun(size: int, path: Path) -> None:
    """Refuses a ledger without an entry: a crash before the first one, or no ledger at all.

    Raises:
        IntegrityError: There is no entry.
    """
    if size == 0:
        raise IntegrityError(
            "the ledger holds no entry: it was never opened, or all of it is gone",
            where=str(path),
            expected="at least an `open`",
            found="no entry",
            todo="ledger register PROTOCOL begins it; ledger replay --against RECEIPT tells if it"
            " held more",
        )


def check_before_recovery(
    reader: Reader, environment: Mapping[str, str], *, begins: bool = False
) -> None:
    """Refuses a ledger with torn bytes that lacks what is remembered of it; changes nothing.

    Args:
        reader: The ledger, not folded yet.
        environment: Where this machine remembers what it signed, and its key of projections.
        begins: Whether the act may begin a ledger where there is no entry.

    Raises:
        IntegrityError: It has no entry, or lost some: rolled back, forked, or since it was read.
        StoreError: The record of what was signed can't be read.
    """
    torn = reader.store.torn()
    if torn is None:
        return
    log = _folded(reader, environment, is_whole=torn.whole)
    if log.state.size or not begins:
        check_begun(log.state.size + torn.whole, reader.path)
    if log.state.size:
        check_remembered(log, reader.side, environment, ahead=_leaf_ahead(reader.path, torn))


def _folded(reader: Reader, environment: Mapping[str, str], *, is_whole: bool) -> Log:
    """Returns the whole entries, folded on from the projection where there is one."""
    cache, key = reader.side / "cache" / "projection", cache_key(environment, create=False)
    try:
        return Log(reader.store, plan_of=reader.read_columns, cache=cache, cache_key=key)
    except TornError:
        if not is_whole:
            raise
        # The projection has seen the entry that lacks its newline.
        return Log(reader.store, plan_of=reader.read_columns)


def _leaf_ahead(ledger: Path, torn: Torn) -> bytes | None:
    if not torn.whole:
        return None
    with ledger.open("rb") as file:
        file.seek(torn.offset)
        return leaf_hash(file.read(torn.length))


def set_torn_aside(store: LogStore, ledger: Path) -> None:
    """Moves torn bytes into quarantine, under the append lock."""
    if store.torn() is not None:
        store.recover(_quarantine(ledger))


def record_torn(trial: Trial) -> None:
    """Appends an entry for each file in quarantine that none names yet."""
    files = sorted(_quarantine(trial.path).glob(f"{trial.path.name}-*.torn"))
    if not files:
        return
    known = set(_recorded(trial))
    aside = filter(None, map(_set_aside, files))
    fresh = [one for one in aside if (one.offset, one.sha256) not in known]
    foreign = not_borders(trial.store.read() if fresh else (), {one.offset for one in fresh})
    for one in fresh:
        if one.offset not in foreign:
            seq = trial.append(partial(_event, torn=one)).seq
            tell(_notice(one, seq))


def _notice(torn: _SetAside, seq: int) -> str:
    return (
        f"{torn.length:,} bytes after the last whole entry, as a crash leaves them, were set"
        f" aside\n  kept in   {torn.file}\n  entry     {seq:,} (recover) holds their digest"
    )


class _SetAside(NamedTuple):
    """Torn bytes in quarantine."""

    file: Path
    offset: int
    length: int
    sha256: str


def _set_aside(file: Path) -> _SetAside | None:
    """Returns what a store set aside in a file, None where none did."""
    named = _NAME.search(file.name)
    if named is None or not file.is_file():
        return None
    data = file.read_bytes()
    digest = sha256_hex(data)
    if not digest.startswith(named[2]):
        return None
    return _SetAside(file, int(named[1]), len(data), digest)


def _recorded(trial: Trial) -> Iterator[tuple[int, str]]:
    """Yields place and digest of the torn bytes that entries name."""
    for number in range(1, next_number(trial.log.state, "recover", "")):
        event = trial.log.find("", "recover", number=number)
        assert isinstance(event, Recover), "numbers of recoveries have no gap"
        yield event.offset, event.sha256


def _quarantine(ledger: Path) -> Path:
    return side_folder(ledger) / "quarantine"


def _event(state: State, *, torn: _SetAside) -> Recover:
    number = next_number(state, "recover", "")
    return Recover(number=number, offset=torn.offset, length=torn.length, sha256=torn.sha256)
