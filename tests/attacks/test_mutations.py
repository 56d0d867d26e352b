"""Any change of a ledger's bytes: never intact with a receipt, and both verifiers agree.

Positions are drawn by a fixed seed; FAIRTRIAL_MUTATIONS=N draws N of each kind in place of the
default, to be run over night.
"""

from __future__ import annotations

import os
import random
import shutil
import sqlite3
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from .conftest import Case, copy_of

SEED = 20261129
COUNT = int(os.environ.get("FAIRTRIAL_MUTATIONS", "0"))
Agreed = Callable[..., str]


def draws(default: int) -> Iterator[random.Random]:
    """Yields a random source for each mutation."""
    for number in range(COUNT or default):
        yield random.Random(f"{SEED}/{number}")


def check_never_intact(case: Case, agreed: Agreed, what: str) -> None:
    """Fails when a changed ledger passes for the one that the receipt names."""
    assert "intact" != agreed(case, case.receipt), what


@pytest.mark.slow
def test_any_changed_byte_of_lines_is_found(lines: Case, agreed: Agreed) -> None:
    """JSON Lines hold nothing that no entry covers: every byte counts."""
    honest = lines.ledger.read_bytes()
    for draw in draws(100):
        position, change = draw.randrange(len(honest)), draw.randrange(1, 256)
        forged = bytearray(honest)
        forged[position] ^= change
        lines.ledger.write_bytes(forged)
        check_never_intact(lines, agreed, f"byte {position} xor {change}")
        agreed(lines)


@pytest.mark.slow
def test_any_changed_byte_of_a_database_is_found_or_covers_nothing(
    database: Case, agreed: Agreed
) -> None:
    """A database has bytes that no entry covers; where one changes, the entries are the same."""
    honest, entries = database.ledger.read_bytes(), database.entries()
    found = 0
    for draw in draws(150):
        position, change = draw.randrange(len(honest)), draw.randrange(1, 256)
        forged = bytearray(honest)
        forged[position] ^= change
        database.ledger.write_bytes(forged)
        word = agreed(database, database.receipt)
        found += word != "intact"
        if word == "intact":
            assert entries == database.entries(), f"byte {position} xor {change}"
        agreed(database)
    assert found > 0


@pytest.mark.slow
def test_any_cut_of_lines_is_found(lines: Case, agreed: Agreed) -> None:
    """A cut inside an entry is torn or rolled back, one between entries is rolled back."""
    honest = lines.ledger.read_bytes()
    ends = [n + 1 for n, byte in enumerate(honest[:-1]) if byte == 10]
    cuts = [*ends, *(draw.randrange(len(honest)) for draw in draws(60))]
    for cut in cuts:
        lines.ledger.write_bytes(honest[:cut])
        word = agreed(lines, lines.receipt)
        assert word == ("rolled_back" if cut else "corrupt"), f"cut at {cut}"
        if cut in ends:
            assert "intact" == agreed(lines), "a whole prefix contradicts nothing by itself"


@pytest.mark.slow
def test_any_cut_of_a_database_is_found(database: Case, agreed: Agreed) -> None:
    """A database that lost its end is no database any more, or says so."""
    honest = database.ledger.read_bytes()
    for draw in draws(30):
        cut = draw.randrange(len(honest))
        database.ledger.write_bytes(honest[:cut])
        check_never_intact(database, agreed, f"cut at {cut}")


@pytest.mark.slow
@pytest.mark.parametrize("store", ["db", "jsonl"])
@pytest.mark.parametrize("act", ["delete", "repeat", "swap"])
def test_any_moved_entry_is_found(
    made: tuple[Path, str], tmp_path: Path, agreed: Agreed, store: str, act: str
) -> None:
    """An entry that is missing, there twice or at another place breaks the chain around it."""
    case = copy_of(made, tmp_path, store)
    honest, original = case.entries(), case.ledger.with_name("original")
    shutil.copyfile(case.ledger, original)
    for draw in draws(12):
        shutil.copyfile(original, case.ledger)
        forged, place = list(honest), draw.randrange(len(honest))
        if act == "delete":
            del forged[place]
        elif act == "repeat":
            forged.insert(draw.randrange(len(honest)), forged[place])
        else:
            other = (place + draw.randrange(1, len(honest))) % len(honest)
            forged[place], forged[other] = forged[other], forged[place]
        if act == "repeat" and store == "db":
            with pytest.raises(sqlite3.IntegrityError, match="UNIQUE"):
                case.put(forged)
            continue
        case.put(forged)
        check_never_intact(case, agreed, f"{act} {place}")
        cut_tail = act == "delete" and place == len(honest) - 1
        assert ("intact" if cut_tail else "corrupt") == agreed(case)
