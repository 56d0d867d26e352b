"""What only the store in memory has: a medium that outlives its stores."""

from __future__ import annotations

from fairtrial.ledger.memory import MemoryMedium, MemoryStore

from .chains import append_decisions


def test_stores_on_one_medium_are_like_processes() -> None:
    """Two stores on one medium see each other; stores of their own don't."""
    medium = MemoryMedium()
    one, other, alone = MemoryStore(medium), MemoryStore(medium), MemoryStore()
    entries = append_decisions(one, 2)
    assert (entries, []) == (list(other.read()), list(alone.read()))


def test_medium_outlives_its_stores() -> None:
    """A closed store leaves the entries for the next one."""
    store = MemoryStore()
    entries = append_decisions(store, 2)
    store.close()
    again = MemoryStore(store.medium)
    assert entries == list(again.read())
    assert entries[1] == again.find("exp-1", 2, "decision", 0)
