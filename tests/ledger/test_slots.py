"""Counts over the columns of slots against plain loops over them."""

from __future__ import annotations

from collections import Counter

from hypothesis import given
from hypothesis import strategies as st

from fairtrial.ledger.slots import STATUSES, new_slots

_SLOTS = st.lists(st.tuples(st.integers(0, 2), st.integers(0, len(STATUSES))), max_size=40)


@given(_SLOTS)
def test_statuses_of_an_arm_are_counted(slots: list[tuple[int, int]]) -> None:
    """Each arm's statuses are those of its own slots, in their order, and no other ones."""
    columns = new_slots([arm for arm, _ in slots])
    columns.status[1:] = bytes(status for _, status in slots)
    words = ("pending", *STATUSES)
    for arm in range(3):
        expected = Counter(words[status] for owner, status in slots if owner == arm)
        found = columns.status_counts(arm)
        assert expected == found
        assert sorted(found, key=words.index) == list(found)
